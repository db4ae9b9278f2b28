//! KVIMR's figures 7 and 8 on RocksDB: mixed reads and writes after the load, and loads with longer tables.
//!
//! ```text
//!   at rest   load, every key once  -->  until compaction rests  -->  R90:W10  -->  R50:W50  -->  R10:W90
//!   behind    load  -->  R90:W10        load  -->  R50:W50        load  -->  R10:W90
//!                        one process each; Zipfian, one operation for ten loaded pairs
//! ```
//!
//! A mix is counted until its process ends, which breaks off running compactions. The log is on the drive. RocksDB's
//! block cache has the share of the load that the paper's machine had as memory, because these drives have no page
//! cache.

use super::db_bench::{PAIR_LEN_BYTES, db_bench, measure, within};
use super::interlaced::{RUN, RUN_LONG_TABLES, SCHEMES, Scale, TEST, rate_of_load};
use crate::adapters::build::Built;
use crate::adapters::counters::Counters;
use crate::adapters::session::Session;
use crate::report::Report;
use anyhow::{Result, ensure};
use std::path::Path;

/// The paper's mixes, with the least gain of KVIMR over Seq and 3Phase in percent.
const MIXES: [(u64, f64); 3] = [(90, 2.28), (50, 10.22), (10, 28.93)];
const LOADED_FOR_EACH_OPERATION: u64 = 10;
/// 16 GB of memory for 75 GB of loaded data.
const CACHE_PERCENT: u64 = 21;

/// Lengths of tables, scaled from the paper's 64 to 512 MB, with the gain of KVIMR-M over KVIMR-N in percent.
const LONGER_TABLES: [(u64, f64); 4] = [(8, 7.0), (16, 5.9), (32, 13.0), (64, 16.8)];

/// RocksDB's options with KVIMR's settings.
fn options(scale: &Scale) -> String {
    let table_len = within(scale.table_len_bytes);
    let cache_len = scale.load_len_bytes * CACHE_PERCENT / 100;
    [
        "compression=kNoCompression".to_owned(),
        "compaction_readahead_size=2097152".to_owned(),
        // The same as in the loads of this chore.
        "level0_file_num_compaction_trigger=4".to_owned(),
        "level0_slowdown_writes_trigger=8".to_owned(),
        "level0_stop_writes_trigger=12".to_owned(),
        format!("write_buffer_size={table_len}"),
        format!("target_file_size_base={table_len}"),
        format!("max_bytes_for_level_base={}", scale.base_level_len_bytes),
        format!(
            "block_based_table_factory={{filter_policy=bloomfilter:10:false;block_cache={cache_len}}}"
        ),
    ]
    .join(";")
}

/// The program that waits until compaction rests. It has the options of the database, and those that `db_bench` lacks.
fn until_rest(scale: &Scale) -> Vec<String> {
    let more = ["--benchmarks=waitforcompaction".to_owned(), "--use_existing_db=1".to_owned()];
    db_bench(within(scale.table_len_bytes), scale.base_level_len_bytes, &more)
}

/// The start of a mix.
#[derive(Clone, Copy)]
enum Begins {
    /// One after the other on one drive, the first after compaction rests.
    AtRest,
    /// Each directly after its own load.
    BehindTheLoad,
}

/// The result of each mix.
fn mixes(
    built: &Built,
    dir: &Path,
    scale: &Scale,
    layout: &'static str,
    begins: Begins,
) -> Result<Vec<Counters>> {
    let (options, count) = (options(scale), scale.load_len_bytes / PAIR_LEN_BYTES);
    let run = |session: &Session, arguments: &[String]| {
        let named = [session.program("mixes_program")?, "/db".to_owned(), options.clone()];
        measure(session, &[&named[..], arguments].concat())
    };
    let loaded = || {
        let session = scale.drive_for(&built.root, dir, layout)?;
        run(&session, &["load".to_owned(), count.to_string()])?;
        anyhow::Ok(session)
    };
    let operations = count / LOADED_FOR_EACH_OPERATION;
    let mix = |session: &Session, percent: u64| {
        let numbers = [count, operations, percent, percent].map(|number| number.to_string());
        run(session, &[&["mix".to_owned()], &numbers[..]].concat())
    };
    let mut found = Vec::new();
    match begins {
        Begins::AtRest => {
            let session = loaded()?;
            measure(&session, &until_rest(scale))?;
            for (percent, _) in MIXES {
                found.push(mix(&session, percent)?);
            }
            session.remove_drive()?;
        }
        Begins::BehindTheLoad => {
            for (percent, _) in MIXES {
                let session = loaded()?;
                found.push(mix(&session, percent)?);
                session.remove_drive()?;
            }
        }
    }
    Ok(found)
}

/// Figure 7, as tables.
pub(super) fn run(built: &Built, dir: &Path, report: &mut Report) -> Result<()> {
    let operations = RUN.load_len_bytes / PAIR_LEN_BYTES / LOADED_FOR_EACH_OPERATION;
    let of = format!("{} MB on a drive of {}", RUN.load_len_bytes / 1_000_000, RUN.drive);
    for (words, begins) in
        [("at rest", Begins::AtRest), ("right after a load of its own", Begins::BehindTheLoad)]
    {
        let title = format!(
            "Operations a second of the drive's time, and rewritten tracks, {words}; {of}, {operations} operations"
        );
        table(built, dir, begins, operations as f64, &title, report)?;
    }
    Ok(())
}

/// All schemes, and the claims of the paper.
fn table(
    built: &Built,
    dir: &Path,
    begins: Begins,
    operations: f64,
    title: &str,
    report: &mut Report,
) -> Result<()> {
    let names = MIXES.map(|(percent, _)| format!("R{percent}:W{}", 100 - percent));
    report.table(title, &[&["scheme"], &names.each_ref().map(String::as_str)[..]].concat());
    let mut rates: Vec<Vec<f64>> = Vec::new();
    for (scheme, layout) in SCHEMES {
        let mut cells = vec![scheme.to_owned()];
        let mut of_scheme = Vec::new();
        for counters in mixes(built, dir, &RUN, layout, begins)? {
            let rate = operations / (counters.get("busy_ns")? / 1e9);
            cells.push(format!("{rate:.0}, {:.0}", counters.get("rewritten_tracks")?));
            of_scheme.push(rate);
        }
        report.row(cells);
        rates.push(of_scheme);
    }
    let mut here = vec!["KVIMR at least above Seq and 3Phase, %".to_owned()];
    here.extend((0..MIXES.len()).map(|at| {
        let of = |scheme: usize| rates[scheme][at];
        format!("{:.1}", 100.0 * (of(2).min(of(3)) / of(0).max(of(1)) - 1.0))
    }));
    report.row(here);
    let paper = MIXES.map(|(_, percent)| percent.to_string());
    report.row([&["the paper's".to_owned()], &paper[..]].concat());
    Ok(())
}

/// Figure 8, as a table.
pub(super) fn run_longer_tables(built: &Built, dir: &Path, report: &mut Report) -> Result<()> {
    let title = format!(
        "Longer tables (figure 8): pairs a second of the drive's time, {} MB on a drive of {}",
        RUN_LONG_TABLES.load_len_bytes / 1_000_000,
        RUN_LONG_TABLES.drive
    );
    report.table(
        &title,
        &["tables, MB", "the paper's", "KVIMR-N", "KVIMR-M", "M above N, %", "paper"],
    );
    for (table_len_mib, paper_percent) in LONGER_TABLES {
        let scale = RUN_LONG_TABLES.with_tables(table_len_mib << 20);
        let rate = |layout| match rate_of_load(built, dir, &scale, layout) {
            Ok(rate) => rate,
            Err(error) => {
                eprintln!("tables of {table_len_mib} MB on {layout}: {error:#}");
                f64::NAN
            }
        };
        let (naive, merged) = (rate("imr-n"), rate("imr-m"));
        let cell = |value: f64, digits: usize| match value.is_finite() {
            true => format!("{value:.digits$}"),
            false => "-".to_owned(),
        };
        report.row(vec![
            table_len_mib.to_string(),
            (8 * table_len_mib).to_string(),
            cell(naive, 0),
            cell(merged, 0),
            cell(100.0 * (merged / naive - 1.0), 1),
            paper_percent.to_string(),
        ]);
    }
    Ok(())
}

/// On a small drive: every read finds its pair, and reads reach the drive.
pub(super) fn test(built: &Built, dir: &Path) -> Result<()> {
    let found = mixes(built, dir, &TEST, "imr-m", Begins::AtRest)?;
    for ((percent, _), counters) in MIXES.iter().zip(&found) {
        let read = counters.get("read_bytes")?;
        ensure!(read > 0.0, "a mix of {percent} % reads read nothing of the drive");
    }
    println!("  RocksDB: mixes of reads and writes on imr-m, every pair was found");
    Ok(())
}
