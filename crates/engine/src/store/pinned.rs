//! Collecting what checkpoints and snapshots keep ([`Pins`]).

use crate::pins::{CheckpointPins, Pins};
use crate::store::Store;
use crate::version::names::{CHECKPOINTS, linked_table};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

impl Store {
    /// Collects what is kept. Cost: a walk over the names of all files if there is a checkpoint.
    pub(crate) fn pins(&self) -> Pins {
        let written_bytes = self.tally.user_bytes.load(Ordering::Relaxed);
        let since = self.snapshots.oldest_at_bytes().map(|at| written_bytes.saturating_sub(at));
        let mut pins = Pins {
            snapshot_count: self.snapshots.count(),
            since_snapshot_bytes: since.unwrap_or(0),
            ..Pins::default()
        };
        if !self.has_checkpoint() {
            return pins;
        }
        let mut kept: BTreeMap<String, CheckpointPins> = BTreeMap::new();
        for name in self.state().checkpoints.into_keys() {
            let none = CheckpointPins {
                name: name.clone(),
                table_count: 0,
                len_bytes: 0,
                own_len_bytes: 0,
            };
            kept.insert(name, none);
        }
        let files = self.files.list("");
        let (linked, own): (Vec<_>, Vec<_>) =
            files.into_iter().partition(|file| file.name.starts_with(CHECKPOINTS));
        let own: BTreeSet<String> = own.into_iter().map(|file| file.name).collect();
        // The tables that the store has not, each with its length and the only checkpoint that has it.
        let mut only: BTreeMap<String, (u64, Option<String>)> = BTreeMap::new();
        for file in linked {
            let Some((name, table)) = linked_table(&file.name) else { continue };
            let Some(checkpoint) = kept.get_mut(name) else { continue };
            let len_bytes: u64 = file.extents.iter().map(|extent| extent.len.bytes()).sum();
            checkpoint.table_count += 1;
            checkpoint.len_bytes += len_bytes;
            if own.contains(table) {
                continue;
            }
            match only.entry(table.to_owned()) {
                Entry::Vacant(entry) => {
                    entry.insert((len_bytes, Some(name.to_owned())));
                    pins.checkpoints_len_bytes += len_bytes;
                }
                Entry::Occupied(mut entry) => entry.get_mut().1 = None,
            }
        }
        for (len_bytes, name) in only.into_values() {
            if let Some(checkpoint) = name.and_then(|name| kept.get_mut(&name)) {
                checkpoint.own_len_bytes += len_bytes;
            }
        }
        pins.checkpoints = kept.into_values().collect();
        pins
    }
}
