//! The tables that a merge writes: where one ends and the next begins.
//!
//! ```text
//!   entries      a a b b b c ... k k | l l m ...      a cut is made between two user keys (V1)
//!   tombstones      [--------------- | ----)          and cuts range tombstones as well
//!   grandparents [     ][     ][     | ][     ]       a table overlaps a bounded stretch of them
//!   their sets    a      a      b      b             and, if sets are to die whole, few of their sets
//!   borders                             |             a table of the run that is no input, or a partition
//! ```

use crate::EngineError;
use crate::band::Band;
use crate::batch::KeyspaceId;
use crate::compaction::merge::streams::Streams;
use crate::compaction::merge::value_moves::ValueMoves;
use crate::compaction::plan::GivesBack;
use crate::compaction::policy::sets;
use crate::key::{Kind, Trailer};
use crate::metrics::OutputTable;
use crate::options::{CompactionKind, KeyspaceOptions};
use crate::range_del::FragmentedTombstones;
use crate::store::space::LONG_KEY_LEN_BYTES;
use crate::table::{
    INLINE_LEN_BYTES_MAX, Origin, Part, Roster, Stamp, StopMark, TableBuilder, TableOptions,
    ValuePlace, WrittenEnd,
};
use crate::version::edit::{LogId, TableAdd};
use crate::version::partitions::BASE_LEVEL;
use crate::version::{RunId, TableId, TableMeta, TableSlot};
use bytes::Bytes;
use imbrex_files::{
    Activity, CommitKind, FileBuffer, FileKind, FilesError, GroupId, Hints, Persisted, Tier,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Where one output of a merge is written, and what its tables look like.
#[derive(Debug)]
pub(crate) struct OutputSpec {
    pub(crate) keyspace: KeyspaceId,
    pub(crate) level: u8,
    pub(crate) run: RunId,
    pub(crate) group: GroupId,
    pub(crate) options: KeyspaceOptions,
    /// No older data below has keys of the merge. If the plan has routes, they decide this key by
    /// key instead.
    pub(crate) is_bottom: bool,
    pub(crate) grandparents: Vec<Arc<TableSlot>>,
    /// Keys at which a table must end, ascending: where tables of the target run begin that are no
    /// inputs, or where partitions begin.
    pub(crate) borders: Vec<Bytes>,
    /// Which tables are to lie together.
    pub(crate) streams: Streams,
    /// The range tombstones that this output keeps.
    pub(crate) tombstones: FragmentedTombstones,
    /// Whether all tables are persisted in one call.
    pub(crate) is_together: bool,
    /// The drive that should hold the tables.
    pub(crate) tier: Tier,
    pub(crate) source: Source,
    /// The log that becomes this output's only table, if its values stay where the log has them.
    pub(crate) band: Option<Arc<Band>>,
    pub(crate) replaces: Replaced,
}

/// What the tables of a merge replace. The tables record it, for a drive whose catalog is lost.
#[derive(Clone, Debug, Default)]
pub(crate) struct Replaced {
    /// The tables that the merge reads to their end.
    pub(crate) tables: Arc<[u64]>,
    /// Where the merge stops before the end of others.
    pub(crate) stop: Option<StopMark>,
    /// The logs of the memtable: the first, and the first after them.
    pub(crate) logs: Option<(LogId, LogId)>,
    /// The index of the output among all outputs of the merge, and their number.
    pub(crate) output: (usize, usize),
}

/// Where the entries come from. This decides how much space of the drive must remain free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// A memtable. Space for its flush was reserved earlier.
    Memory,
    /// Logs that are replayed while a store opens.
    Logs,
    /// Other tables. Such a merge can wait for space.
    Tables { gives_back: GivesBack },
}

impl Source {
    fn purpose(self) -> CommitKind {
        match self {
            Source::Memory | Source::Tables { .. } => CommitKind::Upkeep,
            Source::Logs => CommitKind::Recovery,
        }
    }

    fn activity(self) -> Activity {
        match self {
            Source::Memory | Source::Logs => Activity::Flush,
            Source::Tables { .. } => Activity::Compaction,
        }
    }
}

/// Where a merge writes its tables.
pub(crate) trait TableHome {
    /// Returns a number that no table, log or group has used before.
    fn new_table_id(&self) -> TableId;

    /// Checks that the drive still has room for `tables` of a compaction.
    ///
    /// # Errors
    /// [`EngineError::NoSpace`].
    fn check_room(&self, tables: &[FileBuffer], gives_back: GivesBack) -> Result<(), EngineError>;

    /// The state of the store, for the finished `table` of `len_bytes` to record; see [`Origin`].
    /// `None` if the table is for no store.
    fn moment(&self, keyspace: KeyspaceId, table: TableId, len_bytes: u64) -> Option<Moment> {
        let _ = (keyspace, table, len_bytes);
        None
    }

    /// Writes `tables` to the drive.
    ///
    /// # Errors
    /// Like [`imbrex_files::Files::persist`].
    fn persist(&self, tables: Vec<FileBuffer>) -> Result<Vec<Box<dyn Persisted>>, FilesError>;
}

/// A store as it was when a table was finished.
#[derive(Debug)]
pub(crate) struct Moment {
    pub(crate) store_id: u64,
    pub(crate) stamp: Stamp,
    /// Absent if it would be too long for the table.
    pub(crate) roster: Option<Roster>,
}

/// Writes tables one after another. Memory holds one table at a time, or all of them if they are
/// persisted in one call.
#[derive(Debug)]
pub(crate) struct OutputWriter {
    spec: OutputSpec,
    builder: Option<TableBuilder>,
    table: TableId,
    /// The first key that the current table may cover. Earlier parts of range tombstones are in
    /// earlier tables.
    lower: Option<Bytes>,
    last_key: Vec<u8>,
    grandparent_at: usize,
    grandparents_len_bytes: u64,
    /// The set of the last grandparent that had a key of the output.
    set: Option<GroupId>,
    border_at: usize,
    added: Vec<TableAdd>,
    /// Finished tables that wait to be persisted together.
    held: Vec<FileBuffer>,
    files: Vec<Box<dyn Persisted>>,
    ends: BTreeMap<TableId, WrittenEnd>,
    bands: Vec<(LogId, TableId)>,
    log_len_bytes: u64,
}

/// Whether the table should refer to an entry's value in the log instead of storing a copy.
fn is_worth_a_place(trailer: Trailer, value: &[u8]) -> bool {
    trailer.kind() == Some(Kind::Put) && INLINE_LEN_BYTES_MAX < value.len()
}

/// A table ends where a set below ends if it has this share of its length, as one part of so many.
const SET_SHARE: u64 = 4;

/// How many more filter bits tables above the base have with lazy leveling.
const UPPER_FILTER_BITS: u32 = 6;
const FILTER_BITS_MAX: u32 = 100;

fn filter_bits_per_key(spec: &OutputSpec) -> u32 {
    let bits = spec.options.filter_bits_per_key;
    let is_upper = spec.options.compaction == CompactionKind::Lazy && spec.level < BASE_LEVEL;
    if is_upper && bits > 0 { (bits + UPPER_FILTER_BITS).min(FILTER_BITS_MAX) } else { bits }
}

/// A table is at least so many times as long as the bounds that its record in the catalog holds
/// beyond short keys.
const TABLE_LEN_PER_BOUNDS: u64 = 512;

/// The length from which a table with keys of `key_len_bytes` is worth its record in the catalog.
/// Otherwise tables of very long keys would fill the catalog of an empty drive.
#[inline]
pub(crate) fn worth_len_bytes(key_len_bytes: u64) -> u64 {
    2 * TABLE_LEN_PER_BOUNDS * key_len_bytes.saturating_sub(LONG_KEY_LEN_BYTES as u64)
}

impl OutputWriter {
    pub(crate) fn new(spec: OutputSpec) -> OutputWriter {
        OutputWriter {
            spec,
            builder: None,
            table: TableId(0),
            lower: None,
            last_key: Vec::new(),
            grandparent_at: 0,
            grandparents_len_bytes: 0,
            set: None,
            border_at: 0,
            added: Vec::new(),
            held: Vec::new(),
            files: Vec::new(),
            ends: BTreeMap::new(),
            bands: Vec::new(),
            log_len_bytes: 0,
        }
    }

    /// Whether a table has been started and not finished.
    #[inline]
    pub(crate) fn has_table(&self) -> bool {
        self.builder.is_some()
    }

    /// Whether a border that was not passed yet is at or before `user_key`.
    #[inline]
    pub(crate) fn is_enclosed_before(&self, user_key: &[u8]) -> bool {
        let next = self.spec.borders.get(self.border_at);
        next.is_some_and(|border| *border <= *user_key)
    }

    /// Called before the first entry of each user key. Ends the current table if it is long enough.
    #[inline]
    pub(crate) fn begin_key(
        &mut self,
        home: &dyn TableHome,
        user_key: &[u8],
    ) -> Result<(), EngineError> {
        while self.is_enclosed_before(user_key) {
            self.pass_border(home)?;
        }
        let Some(builder) = &self.builder else { return Ok(()) };
        let len_bytes_min =
            self.spec.options.table_len_bytes.max(worth_len_bytes(user_key.len() as u64));
        let is_long = builder.len_bytes_estimate() >= len_bytes_min;
        let is_full = is_long && self.spec.band.is_none();
        let is_worth_it = SET_SHARE * builder.len_bytes_estimate() >= len_bytes_min;
        let has_grandparents = self.grandparent_at < self.spec.grandparents.len();
        // Both look at each key.
        let overlaps_enough = has_grandparents && self.overlaps_enough(user_key);
        let enters_set = has_grandparents && self.enters_set(user_key);
        if is_full || overlaps_enough || (enters_set && is_worth_it) {
            self.finish_table(home, Some(user_key))?;
        }
        Ok(())
    }

    /// Ends the current table at the next border.
    fn pass_border(&mut self, home: &dyn TableHome) -> Result<(), EngineError> {
        let border = self.spec.borders[self.border_at].clone();
        self.border_at += 1;
        self.finish_table(home, Some(&border))
    }

    fn overlaps_enough(&mut self, user_key: &[u8]) -> bool {
        let grandparents = &self.spec.grandparents;
        while let Some(table) = grandparents.get(self.grandparent_at) {
            if &table.meta.largest[..] >= user_key {
                break;
            }
            self.grandparents_len_bytes += table.meta.len_bytes;
            self.grandparent_at += 1;
        }
        let options = &self.spec.options;
        let count_max = u64::from(options.grandparent_table_count_max);
        let limit = options.table_len_bytes.saturating_mul(count_max);
        self.grandparents_len_bytes > limit
    }

    /// Whether `user_key` is in a grandparent of another set than the keys before it. Asked after
    /// [`OutputWriter::overlaps_enough`], which passes the grandparents before the key.
    #[inline]
    fn enters_set(&mut self, user_key: &[u8]) -> bool {
        let spec = &self.spec;
        if !spec.options.cuts_at_sets || !sets::is_set(&spec.options, spec.level + 1) {
            return false;
        }
        let next = spec.grandparents.get(self.grandparent_at);
        let Some(table) = next.filter(|table| &table.meta.smallest[..] <= user_key) else {
            return false;
        };
        let set = Some(table.meta.group);
        let before = std::mem::replace(&mut self.set, set);
        before.is_some() && before != set
    }

    /// Adds an entry. Entries arrive in internal-key order.
    #[inline]
    pub(crate) fn add(
        &mut self,
        home: &dyn TableHome,
        user_key: &[u8],
        trailer: Trailer,
        value: &[u8],
    ) {
        if self.builder.is_none() {
            self.start_table(home, user_key);
        }
        if !self.spec.tombstones.is_empty() {
            self.last_key.clear();
            self.last_key.extend_from_slice(user_key);
        }
        let builder = self.builder.as_mut().expect("a table was started above");
        let place = match &self.spec.band {
            Some(band) if is_worth_a_place(trailer, value) => band.place_of(trailer.seq()),
            _ => None,
        };
        match place.and_then(|place| ValuePlace::of(user_key, value, place)) {
            Some(value) => builder.add_at(user_key, trailer.seq(), value),
            None if trailer.kind() == Some(Kind::PutApart) => {
                builder.add_apart(user_key, trailer.seq(), value);
            }
            None => builder.add(user_key, trailer, value),
        }
    }

    fn start_table(&mut self, home: &dyn TableHome, user_key: &[u8]) {
        self.table = home.new_table_id();
        let hints = Hints {
            level: self.spec.level,
            group: Some(self.spec.group),
            stream: self.spec.streams.number(user_key),
            position: self.spec.streams.position(user_key),
            purpose: self.spec.source.purpose(),
            activity: self.spec.source.activity(),
            tier: self.spec.tier,
            ..Hints::new(FileKind::Table)
        };
        let options = &self.spec.options;
        let table_options = TableOptions {
            table_id: self.table.0,
            block_len_bytes: options.block_len_bytes as usize,
            compression: options.compression,
            filter_bits_per_key: filter_bits_per_key(&self.spec),
            histogram_len_bytes: options.histogram_len_bytes as usize,
            log_frame_len_bytes: self.spec.band.as_ref().map_or(0, |band| band.frame_len_bytes()),
            ..TableOptions::default()
        };
        let file = FileBuffer::new(self.table.file_name(), hints);
        self.builder = Some(TableBuilder::new(file, table_options));
    }

    /// Ends the current table before `upper`, or after the last entry without it, and persists it
    /// unless the tables wait for one another.
    fn finish_table(
        &mut self,
        home: &dyn TableHome,
        upper: Option<&[u8]>,
    ) -> Result<(), EngineError> {
        let tombstones = self.spec.tombstones.truncate(self.lower.as_deref(), upper);
        self.lower = upper.map(Bytes::copy_from_slice);
        self.grandparents_len_bytes = 0;
        if self.builder.is_none() && tombstones.is_empty() {
            return Ok(());
        }
        if self.builder.is_none() {
            let first = tombstones.fragments().next().map_or_else(Bytes::new, |f| f.start.clone());
            self.start_table(home, &first);
        }
        let mut builder = self.builder.take().expect("a table was started above");
        let has_points = !builder.is_empty();
        let mut end = None;
        for fragment in tombstones.fragments() {
            end = Some(fragment.end.clone());
            for &seq in fragment.seqs {
                builder.add_range_tombstone(fragment.start, fragment.end, seq);
            }
        }
        let len_bytes = builder.len_bytes_estimate();
        if let Some(moment) = home.moment(self.spec.keyspace, self.table, len_bytes) {
            builder.set_origin(self.origin(&moment, upper.is_none()), moment.roster.as_ref());
        }
        let (file, properties) = builder.finish();
        let len_bytes = match &self.spec.band {
            Some(band) => band.complete(&file)?,
            None => file.len_bytes(),
        };
        let end_of_file = match self.spec.band {
            None => Some(WrittenEnd::of(&file, properties.data_len_bytes)),
            Some(_) => None,
        };
        // `Sinks::finish` fills in the number of tables, because only the end of the merge knows it.
        let mut meta = TableMeta {
            is_logged: self.spec.band.is_some(),
            group: self.spec.group,
            ..TableMeta::of(self.table, len_bytes, properties)
        };
        let is_point = has_points && self.last_key == meta.largest;
        meta.largest_excluded = end.is_some_and(|end| end == meta.largest) && !is_point;
        match &self.spec.band {
            Some(band) => {
                self.bands.push((band.log(), self.table));
                self.log_len_bytes += len_bytes.saturating_sub(file.len_bytes());
            }
            None => {
                self.ends.extend(end_of_file.map(|end| (self.table, end)));
                self.held.push(file);
            }
        }
        if !self.spec.is_together {
            self.persist(home)?;
        }
        self.added.push(TableAdd {
            keyspace: self.spec.keyspace,
            level: self.spec.level,
            run: self.spec.run,
            meta,
        });
        Ok(())
    }

    /// The origin of the current table.
    fn origin(&self, moment: &Moment, is_last: bool) -> Origin {
        let spec = &self.spec;
        let (output, output_count) = spec.replaces.output;
        Origin {
            store_id: moment.store_id,
            keyspace: spec.keyspace.0,
            level: spec.level,
            run: spec.run.0,
            group: spec.group.0,
            stamp: moment.stamp,
            part: Part {
                output: output as u64,
                output_count: output_count as u64,
                number: self.added.len() as u64,
                is_last,
            },
            inputs: spec.replaces.tables.to_vec(),
            stop: spec.replaces.stop.clone(),
            logs: spec.replaces.logs.map(|(first, end)| (first.0, end.0)),
            largest_is_excluded: false,
        }
    }

    fn persist(&mut self, home: &dyn TableHome) -> Result<(), EngineError> {
        let held = std::mem::take(&mut self.held);
        let Some(first) = held.first() else { return Ok(()) };
        if let Source::Tables { gives_back } = self.spec.source {
            home.check_room(&held, gives_back)?;
        }
        let what = format!("write {} tables from {} on", held.len(), first.name());
        self.files.extend(home.persist(held).map_err(EngineError::files(what))?);
        Ok(())
    }

    /// Ends the last table.
    pub(crate) fn finish(mut self, home: &dyn TableHome) -> Result<Outputs, EngineError> {
        while !self.spec.tombstones.is_empty() && self.border_at < self.spec.borders.len() {
            self.pass_border(home)?;
        }
        self.finish_table(home, None)?;
        self.persist(home)?;
        let OutputWriter { added, files, ends, bands, log_len_bytes, .. } = self;
        let values = ValueMoves::default();
        Ok(Outputs { added, files, ends, bands, log_len_bytes, values })
    }
}

/// Tables that are on the drive but in no version yet. Dropping them frees their space.
#[derive(Debug, Default)]
pub(crate) struct Outputs {
    pub(crate) added: Vec<TableAdd>,
    pub(crate) files: Vec<Box<dyn Persisted>>,
    /// The ends of the tables, so that opening them reads nothing.
    pub(crate) ends: BTreeMap<TableId, WrittenEnd>,
    /// Logs that were completed into tables.
    pub(crate) bands: Vec<(LogId, TableId)>,
    /// The length of those logs before they were completed.
    pub(crate) log_len_bytes: u64,
    /// The values that stayed in the files of inputs, and those that were dropped.
    pub(crate) values: ValueMoves,
}

impl Outputs {
    /// The number of bytes written.
    pub(crate) fn len_bytes(&self) -> u64 {
        let len_bytes: u64 = self.added.iter().map(|add| add.meta.len_bytes).sum();
        len_bytes - self.log_len_bytes
    }

    /// The tables with their extents, for the compaction log.
    pub(crate) fn lines(&self) -> Vec<OutputTable> {
        let lines = self.added.iter().map(|add| {
            let name = add.meta.id.file_name();
            let file = self.files.iter().find(|file| file.name() == name);
            let extents = file.map_or_else(Vec::new, |file| file.extents());
            OutputTable {
                table: add.meta.id.0,
                level: add.level,
                len_bytes: add.meta.len_bytes,
                extents: extents.iter().map(|e| (e.start.get(), e.len.get())).collect(),
            }
        });
        lines.collect()
    }
}
