//! The outputs of a merge as one: which output takes an entry, and where short runs go.
//!
//! ```text
//!   L2   ...]   <------ k l m ------   [...      k l m would be a tiny table of L3 between two
//!   L3   [ stays ]      k l m     [ stays ]      that stay: it waits in memory, then goes to L2
//! ```
//!
//! Invariants
//!   N1  An output receives its entries in key order. Entries that wait for one output, but may
//!       still be sent to another, are sent there before that other output takes a later key.
//!   N2  Fewer bytes than half a table wait for each output.

use crate::EngineError;
use crate::compaction::merge::output::TableHome;
use crate::compaction::merge::output::{OutputSpec, OutputWriter, Outputs};
use crate::compaction::routes::Route;
use crate::key::Trailer;

#[derive(Debug)]
struct Entry {
    user_key: Vec<u8>,
    trailer: Trailer,
    value: Vec<u8>,
}

#[derive(Debug)]
struct Sink {
    writer: OutputWriter,
    waiting: Vec<Entry>,
    waiting_len_bytes: u64,
    /// Where the waiting entries go if they remain too few: the sink one level up.
    short_to: usize,
    /// From this length on, a run deserves a table.
    enough_len_bytes: u64,
}

/// All outputs of a merge.
#[derive(Debug)]
pub(crate) struct Sinks {
    sinks: Vec<Sink>,
    /// How many sinks have waiting entries.
    waiting_count: usize,
    /// False if there are range tombstones: an entry that waits could end up in another level than
    /// the tombstones of its range.
    may_wait: bool,
    /// The sink whose `begin_key` was called for the current user key.
    begun: Option<usize>,
}

impl Sinks {
    pub(crate) fn new(specs: Vec<OutputSpec>, may_wait: bool) -> Sinks {
        let count = specs.len();
        let sinks = specs.into_iter().enumerate().map(|(index, mut spec)| {
            spec.replaces.output = (index, count);
            Sink {
                enough_len_bytes: spec.options.table_len_bytes / 2,
                writer: OutputWriter::new(spec),
                waiting: Vec::new(),
                waiting_len_bytes: 0,
                short_to: 0,
            }
        });
        Sinks { sinks: sinks.collect(), waiting_count: 0, may_wait, begun: None }
    }

    /// Called before the first entry of each user key.
    #[inline]
    pub(crate) fn begin_key(
        &mut self,
        home: &dyn TableHome,
        user_key: &[u8],
    ) -> Result<(), EngineError> {
        self.begun = None;
        if self.waiting_count == 0 {
            return Ok(());
        }
        for at in (0..self.sinks.len()).rev() {
            let sink = &self.sinks[at];
            if !sink.waiting.is_empty() && sink.writer.is_enclosed_before(user_key) {
                self.send_elsewhere(home, at)?;
            }
        }
        Ok(())
    }

    /// Adds an entry. Entries arrive in internal-key order.
    #[inline]
    pub(crate) fn add(
        &mut self,
        home: &dyn TableHome,
        route: Route,
        (user_key, trailer): (&[u8], Trailer),
        value: &[u8],
    ) -> Result<(), EngineError> {
        let is_first = self.begun != Some(route.output);
        self.begun = Some(route.output);
        if self.waiting_count > 0 {
            self.let_pass(home, route.output)?;
        }
        if let Some(short_to) = route.short_to
            && self.may_wait
        {
            let sink = &mut self.sinks[route.output];
            if is_first {
                sink.writer.begin_key(home, user_key)?;
            }
            if !sink.writer.has_table() {
                self.waiting_count += usize::from(sink.waiting.is_empty());
                sink.short_to = short_to;
                sink.waiting_len_bytes += (user_key.len() + value.len()) as u64;
                let (user_key, value) = (user_key.to_vec(), value.to_vec());
                sink.waiting.push(Entry { user_key, trailer, value });
                if sink.waiting_len_bytes >= sink.enough_len_bytes {
                    self.stop_waiting(home, route.output);
                }
                return Ok(());
            }
        }
        self.add_now(home, route.output, is_first, (user_key, trailer), value)
    }

    /// Called before sink `at` takes another key: entries that wait one level below and may be sent
    /// to `at` instead are sent now (N1).
    fn let_pass(&mut self, home: &dyn TableHome, at: usize) -> Result<(), EngineError> {
        let other = at + 1;
        let is_due = |sink: &Sink| !sink.waiting.is_empty() && sink.short_to == at;
        if self.sinks.get(other).is_some_and(is_due) {
            self.send_elsewhere(home, other)?;
        }
        Ok(())
    }

    #[inline]
    fn add_now(
        &mut self,
        home: &dyn TableHome,
        at: usize,
        is_first: bool,
        (user_key, trailer): (&[u8], Trailer),
        value: &[u8],
    ) -> Result<(), EngineError> {
        if !self.sinks[at].waiting.is_empty() {
            self.stop_waiting(home, at);
        }
        let writer = &mut self.sinks[at].writer;
        if is_first {
            writer.begin_key(home, user_key)?;
        }
        writer.add(home, user_key, trailer, value);
        Ok(())
    }

    /// The entries that wait for sink `at` go there.
    fn stop_waiting(&mut self, home: &dyn TableHome, at: usize) {
        let sink = &mut self.sinks[at];
        self.waiting_count -= 1;
        sink.waiting_len_bytes = 0;
        for entry in std::mem::take(&mut sink.waiting) {
            sink.writer.add(home, &entry.user_key, entry.trailer, &entry.value);
        }
    }

    /// The entries that wait for sink `at` go to the sink above it.
    fn send_elsewhere(&mut self, home: &dyn TableHome, at: usize) -> Result<(), EngineError> {
        let sink = &mut self.sinks[at];
        self.waiting_count -= 1;
        sink.waiting_len_bytes = 0;
        let (entries, to) = (std::mem::take(&mut sink.waiting), sink.short_to);
        for (index, entry) in entries.iter().enumerate() {
            let is_first = index == 0 || entries[index - 1].user_key != entry.user_key;
            let key = (&entry.user_key[..], entry.trailer);
            self.add_now(home, to, is_first, key, &entry.value)?;
        }
        Ok(())
    }

    /// Ends the last table of each output.
    pub(crate) fn finish(mut self, home: &dyn TableHome) -> Result<Outputs, EngineError> {
        for at in (0..self.sinks.len()).rev() {
            if !self.sinks[at].waiting.is_empty() {
                self.send_elsewhere(home, at)?;
            }
        }
        let mut all = Outputs::default();
        for sink in self.sinks {
            let outputs = sink.writer.finish(home)?;
            all.added.extend(outputs.added);
            all.files.extend(outputs.files);
            all.ends.extend(outputs.ends);
            all.bands.extend(outputs.bands);
            all.log_len_bytes += outputs.log_len_bytes;
        }
        let group_table_count = all.added.len() as u32;
        for add in &mut all.added {
            add.meta.group_table_count = group_table_count;
        }
        Ok(all)
    }
}
