//! YCSB's core workload: records and operations as its properties describe them.
//!
//! Names, meanings and defaults are those of YCSB's CoreWorkload. Where YCSB would use a
//! meaningless number (a proportion below 0, a scan of 0 to -1 records), this reports an error
//! instead.

use super::keys::{InsertSequence, KeyChooser, KeyNames, MILLION};
use super::lengths::{Histogram, Lengths};
use super::properties::{Properties, PropertyError};
use super::stream::{Mix, OpKind, YcsbStream};
use super::values::FieldMaker;
use super::zipf::Zipfian;
use imbrex_clockwork::Prng;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// YCSB's numbers are Java's: some are ints; record numbers are longs.
const INT_MAX: u64 = i32::MAX as u64;
const LONG_MAX: u64 = i64::MAX as u64;

/// The largest number of fields.
const FIELD_COUNT_MAX: u64 = 1 << 20;

/// The longest record, which is the longest value of a store.
pub const RECORD_LEN_BYTES_MAX: u64 = 1 << 30;

/// Weights of operations are counted in billionths, so that choosing needs no fractions.
const BILLION: f64 = 1e9;

/// The workload of all clients of a run.
#[derive(Clone, Debug)]
pub struct CoreWorkload {
    /// The keyspace of the records.
    pub table: String,
    /// The number of records after the load.
    pub record_count: u64,
    /// The first record that a load inserts and that requests choose.
    pub insert_start: u64,
    /// How many records a load inserts. Without `insertcount`, YCSB's client inserts `recordcount`
    /// records, while its workload chooses only from the records below that number.
    pub load_count: u64,
    /// Operations of a run; 0 for no limit.
    pub operation_count: u64,
    /// From a record's number to its key.
    pub key_names: KeyNames,
    /// The fields of each record, sorted by name.
    pub field_names: Arc<[Arc<str>]>,
    pub(crate) field_lengths: Lengths,
    /// Whether reads ask for all fields instead of one.
    pub reads_all_fields: bool,
    /// Whether such reads name each field.
    pub reads_by_name: bool,
    /// Whether updates write all fields instead of one.
    pub writes_all_fields: bool,
    /// Whether values are verified when they are read.
    pub verifies: bool,
    pub(crate) mix: Mix,
    pub(crate) keys: KeyChooser,
    pub(crate) scan_lengths: Lengths,
    /// What a load does when an insert fails.
    pub retry: InsertRetry,
}

/// The handling of a failed insert during a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InsertRetry {
    /// How often the insert is tried again.
    pub limit: u64,
    /// The pause before a retry in seconds, varied by a fifth.
    pub interval_s: u64,
    /// Whether the client continues with the next record afterwards, instead of ending.
    pub keeps_going: bool,
}

impl CoreWorkload {
    /// The workload that `properties` describe.
    ///
    /// # Errors
    /// [`PropertyError`]: a value makes no sense, or two of them contradict each other.
    pub fn new(properties: &Properties) -> Result<CoreWorkload, PropertyError> {
        let p = properties;
        check_class(p)?;
        let record_count = p.number("recordcount", 0, (0, LONG_MAX))?;
        let insert_start = p.number("insertstart", 0, (0, LONG_MAX))?;
        let rest = record_count.saturating_sub(insert_start);
        let insert_count = p.number("insertcount", rest, (0, LONG_MAX))?;
        if record_count == 0 {
            let what = "recordcount is 0 or missing: say how many records the store has";
            return Err(PropertyError::Contradiction(what.to_owned()));
        }
        if insert_count == 0 || insert_start.saturating_add(insert_count) > record_count {
            return Err(PropertyError::Contradiction(format!(
                "insertstart={insert_start} and insertcount={insert_count} are not within the \
                 records 0 to {record_count} (recordcount)"
            )));
        }
        let operation_count = p.number("operationcount", 0, (0, LONG_MAX))?;
        let field_lengths = field_lengths(p)?;
        let field_names = field_names(p)?;
        let longest = field_lengths.longest();
        if longest.saturating_mul(field_names.len() as u64) > RECORD_LEN_BYTES_MAX {
            return Err(PropertyError::Contradiction(format!(
                "fieldcount={} fields of up to fieldlength={longest} bytes make a record of more \
                 than 1 GiB, which a store does not take as a value",
                field_names.len()
            )));
        }
        let verifies = p.flag("dataintegrity", false)?;
        if verifies && !matches!(field_lengths, Lengths::Constant(_)) {
            return Err(PropertyError::Contradiction(
                "dataintegrity=true needs fieldlengthdistribution=constant, because values are \
                 recognised by their length"
                    .to_owned(),
            ));
        }
        let (mix, insert_share) = mix(p)?;
        let records = Records { record_count, insert_start, insert_count };
        Ok(CoreWorkload {
            table: p.get("table").unwrap_or("usertable").to_owned(),
            record_count,
            insert_start,
            load_count: p.get("insertcount").map_or(record_count, |_| insert_count),
            operation_count,
            key_names: key_names(p)?,
            field_names,
            field_lengths,
            reads_all_fields: p.flag("readallfields", true)?,
            reads_by_name: p.flag("readallfieldsbyname", false)?,
            writes_all_fields: p.flag("writeallfields", false)?,
            verifies,
            mix,
            keys: keys(p, records, operation_count as f64 * insert_share)?,
            scan_lengths: scan_lengths(p)?,
            retry: InsertRetry {
                limit: p.number("core_workload_insertion_retry_limit", 0, (0, INT_MAX))?,
                interval_s: p.number("core_workload_insertion_retry_interval", 3, (0, INT_MAX))?,
                keeps_going: p.flag("core_workload_insertion_keep_going_on_error", false)?,
            },
        })
    }

    /// The operations of one client of a run; `records` is shared by all of them.
    pub fn stream(&self, records: Arc<InsertSequence>, prng: Prng) -> YcsbStream {
        YcsbStream {
            mix: self.mix.clone(),
            keys: self.keys.clone(),
            scan_lengths: self.scan_lengths.clone(),
            records,
            prng,
        }
    }

    /// The generator of the fields that one client writes.
    pub fn fields(&self, prng: Prng) -> FieldMaker {
        FieldMaker {
            names: Arc::clone(&self.field_names),
            lengths: self.field_lengths.clone(),
            is_recognisable: self.verifies,
            prng,
        }
    }
}

/// The records that requests choose from.
#[derive(Clone, Copy)]
struct Records {
    record_count: u64,
    insert_start: u64,
    insert_count: u64,
}

fn check_class(p: &Properties) -> Result<(), PropertyError> {
    let class = p.get("workload").unwrap_or("CoreWorkload");
    match class.rsplit('.').next() {
        // ArrivalWorkload is CoreWorkload with arrivals, for the original YCSB. Here CoreWorkload
        // has them as well.
        Some("CoreWorkload" | "ArrivalWorkload") => Ok(()),
        _ => Err(p.wrong(
            "workload",
            "the only classes here are CoreWorkload and imbrex.ycsb.ArrivalWorkload",
        )),
    }
}

fn key_names(p: &Properties) -> Result<KeyNames, PropertyError> {
    let is_ordered = match p.get("insertorder") {
        None | Some("hashed") => false,
        Some("ordered") => true,
        Some(_) => return Err(p.wrong("insertorder", "expected hashed or ordered")),
    };
    // More digits would give a key that no store here takes.
    let digit_count_min = p.number("zeropadding", 1, (0, 1000))? as usize;
    Ok(KeyNames { is_ordered, digit_count_min })
}

fn field_names(p: &Properties) -> Result<Arc<[Arc<str>]>, PropertyError> {
    let count = p.number("fieldcount", 10, (1, FIELD_COUNT_MAX))?;
    let prefix = p.get("fieldnameprefix").unwrap_or("field");
    let mut names: Vec<Arc<str>> = (0..count).map(|at| format!("{prefix}{at}").into()).collect();
    names.sort_unstable();
    Ok(names.into())
}

fn field_lengths(p: &Properties) -> Result<Lengths, PropertyError> {
    let max = p.number("fieldlength", 100, (0, INT_MAX))?;
    let min = p.number("minfieldlength", 1, (0, INT_MAX))?;
    let distribution = p.get("fieldlengthdistribution").unwrap_or("constant");
    if matches!(distribution, "uniform" | "zipfian") && min > max {
        let what = format!("minfieldlength={min} is more than fieldlength={max}");
        return Err(PropertyError::Contradiction(what));
    }
    match distribution {
        "constant" => Ok(Lengths::Constant(max)),
        "uniform" => Ok(Lengths::Uniform { min, max }),
        "zipfian" => Ok(Lengths::zipfian(min, max)),
        "histogram" => histogram(p).map(Lengths::Histogram),
        _ => Err(
            p.wrong("fieldlengthdistribution", "expected constant, uniform, zipfian or histogram")
        ),
    }
}

fn histogram(p: &Properties) -> Result<Histogram, PropertyError> {
    let path = Path::new(p.get("fieldlengthhistogram").unwrap_or("hist.txt"));
    let text = std::fs::read_to_string(path)
        .map_err(|source| PropertyError::File { path: path.to_owned(), source })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    Histogram::parse(text).map_err(|(line, problem)| {
        let path = path.display();
        PropertyError::Contradiction(format!("fieldlengthhistogram {path}:{line}: {problem}"))
    })
}

fn scan_lengths(p: &Properties) -> Result<Lengths, PropertyError> {
    let min = p.number("minscanlength", 1, (1, INT_MAX))?;
    let max = p.number("maxscanlength", 1000, (1, INT_MAX))?;
    if min > max {
        let what = format!("minscanlength={min} is more than maxscanlength={max}");
        return Err(PropertyError::Contradiction(what));
    }
    match p.get("scanlengthdistribution").unwrap_or("uniform") {
        "uniform" => Ok(Lengths::Uniform { min, max }),
        "zipfian" => Ok(Lengths::zipfian(min, max)),
        _ => Err(p.wrong("scanlengthdistribution", "expected uniform or zipfian")),
    }
}

/// The mix of operations, and the property `insertproportion` itself.
fn mix(p: &Properties) -> Result<(Mix, f64), PropertyError> {
    let share = |key, otherwise| p.decimal(key, otherwise, (0.0, BILLION));
    let shares = [
        (OpKind::Read, share("readproportion", 0.95)?),
        (OpKind::Update, share("updateproportion", 0.05)?),
        (OpKind::Insert, share("insertproportion", 0.0)?),
        (OpKind::Scan, share("scanproportion", 0.0)?),
        (OpKind::ReadModifyWrite, share("readmodifywriteproportion", 0.0)?),
    ];
    let weights: Vec<(OpKind, u64)> =
        shares.iter().map(|(kind, share)| (*kind, (share * BILLION).round() as u64)).collect();
    if weights.iter().all(|(_, weight)| *weight == 0) {
        return Err(PropertyError::Contradiction(
            "the proportions of all operations are 0: there is nothing to do".to_owned(),
        ));
    }
    Ok((Mix::new(&weights), shares[2].1))
}

/// The distribution of requests over records. `expected_inserts` is the expected number of inserts
/// of a run.
fn keys(
    p: &Properties,
    records: Records,
    expected_inserts: f64,
) -> Result<KeyChooser, PropertyError> {
    let Records { record_count, insert_start: first, insert_count: count } = records;
    let hot_fraction = p.decimal("hotspotdatafraction", 0.2, (0.0, 1.0))?;
    let hot_share = p.decimal("hotspotopnfraction", 0.8, (0.0, 1.0))?;
    let percentile = p.decimal("exponential.percentile", 95.0, (0.0, 100.0))?;
    let fraction = p.decimal("exponential.frac", 0.857_142_857_1, (0.0, 1e9))?;
    Ok(match p.get("requestdistribution").unwrap_or("uniform") {
        "uniform" => KeyChooser::Uniform { first, count },
        "sequential" => KeyChooser::Sequential { first, count, next: Arc::new(AtomicU64::new(0)) },
        "zipfian" => KeyChooser::scrambled(first, count, expected_inserts),
        "latest" => KeyChooser::Latest(Zipfian::new(record_count)),
        "hotspot" => {
            let hot_count = (count as f64 * hot_fraction) as u64;
            let hot_per_million = (hot_share * MILLION as f64).round() as u64;
            KeyChooser::Hotspot { first, hot_count, cold_count: count - hot_count, hot_per_million }
        }
        "exponential" => {
            let gamma = -libm::log(1.0 - percentile / 100.0) / (record_count as f64 * fraction);
            if !(gamma.is_finite() && gamma > 0.0) {
                return Err(PropertyError::Contradiction(format!(
                    "exponential.percentile={percentile} and exponential.frac={fraction} define no \
                     distribution: the percentile must lie between 0 and 100, the fraction above 0"
                )));
            }
            KeyChooser::Exponential { gamma }
        }
        _ => {
            return Err(p.wrong(
                "requestdistribution",
                "expected uniform, zipfian, latest, hotspot, exponential or sequential",
            ));
        }
    })
}

#[cfg(test)]
mod tests;
