//! The operations of one life.

use super::backup;
use super::cursor::{Cursor, Trouble};
use super::keys::{draw_key, key_of};
use super::model::{Bytes, Change, Model, State, describe, key_in_words};
use super::store::{KEYSPACES, Store};
use crate::rig::{Ending, Rig, chain, draw_len};
use imbrex_clockwork::Prng;
use imbrex_engine::{Db, EngineError, ReadOptions, Snapshot, WriteBatch, WriteOptions};
use imbrex_files::Files;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The main activity of a life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mood {
    Mixed,
    /// The same few keys again and again.
    Overwrite,
    /// More deletes than puts.
    Delete,
    /// Long values, until the drive is full.
    Fill,
}

/// The objects that a life holds besides the store.
pub(crate) struct Life<'a> {
    store: &'a mut Store,
    mood: Mood,
    snapshots: Vec<(Snapshot, State)>,
    cursors: Vec<Cursor>,
    checkpoint_count: u64,
    /// Whether a write failed, so that the store must be opened again.
    is_over: bool,
}

impl<'a> Life<'a> {
    pub(crate) fn new(store: &'a mut Store) -> Life<'a> {
        Life {
            store,
            mood: Mood::Mixed,
            snapshots: Vec::new(),
            cursors: Vec::new(),
            checkpoint_count: 0,
            is_over: false,
        }
    }

    /// Runs until the weather or the seed ends the life.
    pub(crate) fn live(mut self, rig: &mut Rig, model: &mut Model) -> Result<Ending, String> {
        self.mood = match rig.prng.below(8) {
            0..=3 => Mood::Mixed,
            4 => Mood::Overwrite,
            5 => Mood::Delete,
            _ => Mood::Fill,
        };
        rig.say(format!("mood: {:?}", self.mood));
        for _ in 0..10 + draw_len(&mut rig.prng, 6, 11) {
            self.operate(rig, model)?;
            if rig.is_dark() || self.is_over {
                break;
            }
        }
        Ok(rig.ending())
    }

    fn operate(&mut self, rig: &mut Rig, model: &mut Model) -> Result<(), String> {
        match rig.prng.below(100) {
            0..=39 => self.write_one(rig, model),
            40..=54 => self.write_batch(rig, model),
            55..=69 => self.get(rig, model),
            70..=73 => self.multi_get(rig, model),
            74..=79 => self.iterate(rig, model),
            80..=81 => self.scan(rig, model),
            82..=84 => self.take_snapshot(rig, model),
            85..=88 => self.read_snapshot(rig),
            89..=91 => self.barrier(rig, model, "sync", Db::sync),
            92..=93 => self.barrier(rig, model, "flush", Db::flush),
            94 => self.compact(rig, model),
            95 => self.checkpoint(rig, model),
            96 => self.check(rig),
            97 => self.come_to_rest(rig),
            98 => self.drop_keyspace(rig, model),
            _ if rig.prng.chance(1, 2) => self.back_up(rig, model),
            _ => self.look_around(rig, model),
        }
    }

    fn write_one(&mut self, rig: &mut Rig, model: &mut Model) -> Result<(), String> {
        let change = draw_change(rig, model, self.mood);
        self.write(rig, model, vec![change])
    }

    fn write_batch(&mut self, rig: &mut Rig, model: &mut Model) -> Result<(), String> {
        let count = 1 + draw_len(&mut rig.prng, 1, 6);
        let changes = (0..count).map(|_| draw_change(rig, model, self.mood)).collect();
        self.write(rig, model, changes)
    }

    fn write(
        &mut self,
        rig: &mut Rig,
        model: &mut Model,
        changes: Vec<Change>,
    ) -> Result<(), String> {
        let sync = rig.prng.chance(1, 8);
        rig.say(format!("write{} {}", if sync { " sync" } else { "" }, in_words(&changes)));
        let outcome = write(self.store, &changes, sync);
        match outcome {
            Ok(()) => {
                model.wrote(changes, sync);
                Ok(())
            }
            Err(error) if error.is_no_space() => self.make_room(rig, model, &error),
            Err(error) => {
                rig.excuse("write", &error)?;
                model.wrote_perhaps(changes);
                self.is_over = true;
                Ok(())
            }
        }
    }

    /// The drive is full: reads must still work, and deletes and compaction must free space.
    fn make_room(
        &mut self,
        rig: &mut Rig,
        model: &mut Model,
        error: &EngineError,
    ) -> Result<(), String> {
        rig.no_space_count += 1;
        rig.say(format!("no space: {}", chain(error)));
        self.mood = Mood::Delete;
        self.snapshots.clear();
        self.cursors.clear();
        self.get(rig, model)?;
        for keyspace in 0..self.store.keyspaces.len() {
            let (start, end) = (Bytes::from(&b"k0"[..]), Bytes::from(&b"k9"[..]));
            let change = Change::DeleteRange { keyspace, start, end };
            rig.say(format!("make room: {}", in_words(std::slice::from_ref(&change))));
            let mut written = write(self.store, std::slice::from_ref(&change), false);
            // A delete cannot free the space that a checkpoint keeps. Then the checkpoint must go.
            if matches!(&written, Err(error) if error.is_no_space())
                && self.drop_checkpoints(rig, model)?
            {
                written = write(self.store, std::slice::from_ref(&change), false);
            }
            match written {
                Ok(()) => model.wrote(vec![change], false),
                Err(error) if error.is_no_space() => {
                    let held = self.held_in_words();
                    return Err(format!("a delete was refused: {}; {held}", chain(&error)));
                }
                Err(error) => {
                    rig.excuse("delete", &error)?;
                    model.wrote_perhaps(vec![change]);
                    self.is_over = true;
                    return Ok(());
                }
            }
        }
        self.compact(rig, model)
    }

    /// Deletes all checkpoints. Returns false if there was none.
    fn drop_checkpoints(&self, rig: &mut Rig, model: &mut Model) -> Result<bool, String> {
        let names = self.store.db.checkpoints();
        for name in &names {
            rig.say(format!("make room: delete checkpoint {name}"));
            if let Err(error) = self.delete_checkpoint(name, model) {
                rig.excuse("delete a checkpoint", &error)?;
            }
        }
        Ok(!names.is_empty())
    }

    /// Describes what holds the space.
    fn held_in_words(&self) -> String {
        let mut blocks: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for file in self.store.files.list("") {
            let (count, len) = blocks.entry(format!("{:?} {}", file.kind, file.level)).or_default();
            *count += 1;
            *len += file.extents.iter().map(|extent| extent.len.get()).sum::<u64>();
        }
        let space = self.store.files.space();
        format!("{space:?}; by kind and level, count and blocks: {blocks:?}")
    }

    fn get(&mut self, rig: &mut Rig, model: &Model) -> Result<(), String> {
        let keyspace = draw_keyspace(&mut rig.prng, model);
        let key = draw_key(&mut rig.prng);
        rig.say(format!("get {keyspace} {}", key_in_words(&key)));
        match self.store.keyspaces[keyspace].get(&key) {
            Ok(got) => {
                let expected = model.now.maps[keyspace].get(&key).map(|v| &**v);
                compare(keyspace, &key, expected, got.as_deref())
            }
            Err(error) => rig.excuse("get", &error),
        }
    }

    fn multi_get(&mut self, rig: &mut Rig, model: &Model) -> Result<(), String> {
        let keyspace = draw_keyspace(&mut rig.prng, model);
        let keys: Vec<Bytes> = (0..rig.prng.below(12)).map(|_| draw_key(&mut rig.prng)).collect();
        rig.say(format!("get {} keys of {keyspace}", keys.len()));
        let borrowed: Vec<&[u8]> = keys.iter().map(|key| &**key).collect();
        match self.store.keyspaces[keyspace].multi_get(&borrowed) {
            Ok(got) => keys.iter().zip(&got).try_for_each(|(key, got)| {
                let expected = model.now.maps[keyspace].get(key).map(|v| &**v);
                compare(keyspace, key, expected, got.as_deref())
            }),
            Err(error) => rig.excuse("multi-get", &error),
        }
    }

    /// Moves an iterator. Some are kept and moved again later, after the store has changed.
    fn iterate(&mut self, rig: &mut Rig, model: &Model) -> Result<(), String> {
        if !self.cursors.is_empty() && rig.prng.chance(1, 3) {
            let index = rig.prng.below(self.cursors.len() as u64) as usize;
            rig.say("walk a kept iterator".to_string());
            let mut cursor = self.cursors.swap_remove(index);
            return self.walk(rig, &mut cursor).map(|()| {
                if rig.prng.chance(1, 2) {
                    self.cursors.push(cursor);
                }
            });
        }
        let keyspace = draw_keyspace(&mut rig.prng, model);
        let snapshot = match self.snapshots.last() {
            Some(held) if rig.prng.chance(1, 4) => Some(held),
            _ => None,
        };
        let lower = rig.prng.chance(1, 3).then(|| draw_key(&mut rig.prng));
        let upper = rig.prng.chance(1, 3).then(|| draw_key(&mut rig.prng));
        let options = ReadOptions {
            snapshot: snapshot.map(|(snapshot, _)| snapshot),
            lower: lower.as_ref().map(|key| bytes::Bytes::copy_from_slice(key)),
            upper: upper.as_ref().map(|key| bytes::Bytes::copy_from_slice(key)),
            fill_cache: rig.prng.chance(1, 2),
            read_ahead_bytes: rig.prng.below(3) as usize * 8192,
            read_ahead_bytes_min: rig.prng.below(2) as usize * 5000,
            // It changes no byte that is returned, so it costs no draw.
            read_ahead_bytes_total: 24 << 10,
        };
        let in_words = |key: &Option<Bytes>| key.as_ref().map(|key| key_in_words(key));
        let (from, to) = (in_words(&lower), in_words(&upper));
        rig.say(format!("iterate {keyspace} from {from:?} to {to:?}"));
        let state = snapshot.map_or(&model.now, |(_, state)| state);
        let iter = match self.store.keyspaces[keyspace].iter(options) {
            Ok(iter) => iter,
            Err(error) => return rig.excuse("iterator", &error),
        };
        let mut cursor = Cursor::new(iter, &state.maps[keyspace], lower.as_ref(), upper.as_ref());
        self.walk(rig, &mut cursor)?;
        if self.cursors.len() < 3 && rig.prng.chance(1, 4) {
            self.cursors.push(cursor);
        }
        Ok(())
    }

    fn walk(&self, rig: &mut Rig, cursor: &mut Cursor) -> Result<(), String> {
        let count = rig.prng.below(40);
        match cursor.walk(rig, count) {
            Ok(()) => Ok(()),
            Err(Trouble::Wrong(what)) => Err(what),
            Err(Trouble::Store(error)) => rig.excuse("iterator", &error),
        }
    }

    fn take_snapshot(&mut self, rig: &mut Rig, model: &Model) -> Result<(), String> {
        rig.say("snapshot".to_string());
        if self.snapshots.len() == 3 {
            let index = rig.prng.below(3) as usize;
            self.snapshots.swap_remove(index);
        }
        self.snapshots.push((self.store.db.snapshot(), model.now.clone()));
        Ok(())
    }

    fn read_snapshot(&mut self, rig: &mut Rig) -> Result<(), String> {
        if self.snapshots.is_empty() {
            return Ok(());
        }
        let index = rig.prng.below(self.snapshots.len() as u64) as usize;
        let (snapshot, state) = &self.snapshots[index];
        rig.say(format!("read at snapshot {}", snapshot.sequence()));
        for _ in 0..8 {
            let keyspace = rig.prng.below(state.maps.len() as u64) as usize;
            let key = draw_key(&mut rig.prng);
            match self.store.keyspaces[keyspace].get_at(snapshot, &key) {
                Ok(got) => {
                    let expected = state.maps[keyspace].get(&key).map(|v| &**v);
                    compare(keyspace, &key, expected, got.as_deref())
                        .map_err(|what| format!("at a snapshot: {what}"))?;
                }
                Err(error) => return rig.excuse("get at a snapshot", &error),
            }
        }
        Ok(())
    }

    /// After a sync or flush everything written before is durable.
    fn barrier(
        &mut self,
        rig: &mut Rig,
        model: &mut Model,
        what: &str,
        barrier: impl FnOnce(&Db) -> Result<(), EngineError>,
    ) -> Result<(), String> {
        rig.say(what.to_string());
        match barrier(&self.store.db) {
            Ok(()) => {
                model.synced();
                Ok(())
            }
            Err(error) if error.is_no_space() => {
                rig.say(format!("{what}: {}", chain(&error)));
                Ok(())
            }
            Err(error) => {
                rig.excuse(what, &error)?;
                self.is_over = true;
                Ok(())
            }
        }
    }

    fn compact(&mut self, rig: &mut Rig, model: &Model) -> Result<(), String> {
        let keyspace = draw_keyspace(&mut rig.prng, model);
        let end = rig.prng.chance(1, 2).then(|| draw_key(&mut rig.prng));
        rig.say(format!(
            "compact {keyspace} up to {:?}",
            end.as_ref().map(|key| key_in_words(key))
        ));
        match self.store.keyspaces[keyspace].compact_range(None, end.as_deref()) {
            Ok(()) => Ok(()),
            Err(error) if error.is_no_space() => {
                rig.say(format!("compact: {}", chain(&error)));
                Ok(())
            }
            Err(error) => {
                rig.excuse("compact", &error)?;
                self.is_over = true;
                Ok(())
            }
        }
    }

    /// Takes a checkpoint, reads it back, and removes it.
    fn checkpoint(&mut self, rig: &mut Rig, model: &mut Model) -> Result<(), String> {
        self.checkpoint_count += 1;
        let name = format!("life-{}-{}", rig.life_count(), self.checkpoint_count);
        rig.say(format!("checkpoint {name}"));
        match self.compare_checkpoint(rig, &name, model) {
            Ok(()) => Ok(()),
            Err(Trouble::Wrong(what)) => Err(what),
            Err(Trouble::Store(error)) if error.is_no_space() => {
                rig.say(format!("checkpoint: {}", chain(&error)));
                Ok(())
            }
            Err(Trouble::Store(error)) => {
                rig.excuse("checkpoint", &error)?;
                self.is_over = true;
                Ok(())
            }
        }
    }

    fn compare_checkpoint(
        &self,
        rig: &mut Rig,
        name: &str,
        model: &mut Model,
    ) -> Result<(), Trouble> {
        // Checkpoints that are kept keep their tables: at most two.
        for old in self.store.db.checkpoints().into_iter().skip(1) {
            self.delete_checkpoint(&old, model)?;
        }
        model.checkpoint_perhaps(name);
        self.store.db.checkpoint(name)?;
        model.checkpointed(name);
        if let Some(difference) = model.now.difference(&self.store.read_checkpoint(name)?) {
            return Err(Trouble::Wrong(format!("checkpoint {name}: {difference}")));
        }
        if rig.prng.chance(1, 2) {
            self.delete_checkpoint(name, model)?;
        }
        Ok(())
    }

    fn delete_checkpoint(&self, name: &str, model: &mut Model) -> Result<(), EngineError> {
        model.deletes_checkpoint(name);
        self.store.db.delete_checkpoint(name)?;
        model.deleted_checkpoint(name);
        Ok(())
    }

    /// Copies the store to another drive and reads it back there.
    fn back_up(&mut self, rig: &mut Rig, model: &mut Model) -> Result<(), String> {
        rig.say("back up".to_string());
        match backup::compare(rig, self.store, model) {
            Ok(()) => Ok(()),
            Err(Trouble::Wrong(what)) => Err(what),
            Err(Trouble::Store(error)) if error.is_no_space() => {
                rig.say(format!("back up: {}", chain(&error)));
                Ok(())
            }
            Err(Trouble::Store(error)) => {
                rig.excuse("back up", &error)?;
                self.is_over = true;
                Ok(())
            }
        }
    }

    fn check(&mut self, rig: &mut Rig) -> Result<(), String> {
        rig.say("check".to_string());
        match self.store.db.check() {
            Ok(report) if report.is_sound() || rig.is_foul() => Ok(()),
            Ok(report) => Err(format!("check: {}", report.findings.join("; "))),
            Err(error) => rig.excuse("check", &error),
        }
    }

    /// Drops the last keyspace with all its content, and creates a new one with its name.
    fn drop_keyspace(&mut self, rig: &mut Rig, model: &mut Model) -> Result<(), String> {
        let index = self.store.keyspaces.len() - 1;
        let name = KEYSPACES[index - 1];
        rig.say(format!("drop keyspace {index}"));
        let options = self.store.keyspaces[index].options().clone();
        let dropped = self.store.db.drop_keyspace(name);
        let made = dropped.and_then(|()| self.store.db.create_keyspace(name, options));
        match made {
            Ok(keyspace) => {
                self.store.keyspaces[index] = keyspace;
                model.dropped(index);
                for (_, state) in &mut self.snapshots {
                    // The new keyspace was empty at any earlier moment.
                    state.maps[index].clear();
                }
                Ok(())
            }
            Err(error) => {
                if !error.is_no_space() {
                    rig.excuse("drop keyspace", &error)?;
                }
                model.dropped_perhaps(index);
                self.is_over = true;
                Ok(())
            }
        }
    }

    fn come_to_rest(&mut self, rig: &mut Rig) -> Result<(), String> {
        if rig.prng.chance(1, 2) {
            rig.say("run until idle".to_string());
            rig.world.run_until_idle();
            return Ok(());
        }
        rig.say("wait until idle".to_string());
        match self.store.db.wait_idle() {
            Ok(()) => Ok(()),
            Err(error) => {
                rig.excuse("wait until idle", &error)?;
                self.is_over = true;
                Ok(())
            }
        }
    }

    /// Uses a range or prefix as a Rust iterator, from both ends in any order.
    fn scan(&mut self, rig: &mut Rig, model: &Model) -> Result<(), String> {
        let keyspace = draw_keyspace(&mut rig.prng, model);
        let (a, b) = (draw_key(&mut rig.prng), draw_key(&mut rig.prng));
        let (start, end) = (Arc::clone((&a).min(&b)), Arc::clone((&a).max(&b)));
        let is_prefix = rig.prng.chance(1, 3);
        let handle = &self.store.keyspaces[keyspace];
        let map = &model.now.maps[keyspace];
        let (entries, inside): (_, Vec<(&Bytes, &Bytes)>) = if is_prefix {
            let prefix = &a[..2 + rig.prng.below(3) as usize];
            rig.say(format!("scan {keyspace} prefix {}", prefix.escape_ascii()));
            (handle.prefix(prefix), map.iter().filter(|(k, _)| k.starts_with(prefix)).collect())
        } else {
            let (from, to) = (key_in_words(&start), key_in_words(&end));
            rig.say(format!("scan {keyspace} {from}..{to}"));
            (handle.range(&*start..&*end), map.range(start.clone()..end.clone()).collect())
        };
        let mut entries = match entries {
            Ok(entries) => entries,
            Err(error) => return rig.excuse("scan", &error),
        };
        let mut expected = inside.into_iter();
        loop {
            let (got, expected) = match rig.prng.chance(1, 2) {
                true => (entries.next(), expected.next()),
                false => (entries.next_back(), expected.next_back()),
            };
            let got = match got.transpose() {
                Ok(got) => got,
                Err(error) => return rig.excuse("scan", &error),
            };
            match (got, expected) {
                (None, None) => return Ok(()),
                (Some((key, value)), Some((k, v))) if *key == **k && *value == **v => {}
                (got, expected) => {
                    let got = got.map(|(key, _)| key_in_words(&key));
                    let expected = expected.map(|(key, _)| key_in_words(key));
                    return Err(format!("scan: expected {expected:?}, got {got:?}"));
                }
            }
        }
    }

    fn look_around(&mut self, rig: &mut Rig, model: &Model) -> Result<(), String> {
        rig.say("metrics and sizes".to_string());
        let _ = self.store.db.metrics();
        let keyspace = &self.store.keyspaces[draw_keyspace(&mut rig.prng, model)];
        match keyspace.put("", "a key must not be empty") {
            Err(EngineError::KeyLen { .. }) => {}
            other => return Err(format!("an empty key: {other:?}")),
        }
        match keyspace.approximate_size("k0".."k9") {
            Ok(_) => Ok(()),
            Err(error) => rig.excuse("approximate size", &error),
        }
    }
}

/// Writes `changes`. A single one uses the direct call, if there is one.
pub(crate) fn write(store: &Store, changes: &[Change], sync: bool) -> Result<(), EngineError> {
    let keyspaces = &store.keyspaces;
    let options = WriteOptions { sync };
    match changes {
        [Change::Put { keyspace, key, value }] => {
            keyspaces[*keyspace].put_with(key, value, options)
        }
        [Change::Delete { keyspace, key }] => keyspaces[*keyspace].delete_with(key, options),
        _ => {
            let mut batch = WriteBatch::new();
            for change in changes {
                match change {
                    Change::Put { keyspace, key, value } => {
                        batch.put(&keyspaces[*keyspace], key, value)?;
                    }
                    Change::Delete { keyspace, key } => {
                        batch.delete(&keyspaces[*keyspace], key)?;
                    }
                    Change::DeleteRange { keyspace, start, end } => {
                        batch.delete_range(&keyspaces[*keyspace], start, end)?;
                    }
                }
            }
            store.db.write(batch, options)
        }
    }
}

/// A change of any kind.
pub(crate) fn draw_any_change(rig: &mut Rig, model: &mut Model) -> Change {
    draw_change(rig, model, Mood::Mixed)
}

fn draw_change(rig: &mut Rig, model: &mut Model, mood: Mood) -> Change {
    let keyspace = draw_keyspace(&mut rig.prng, model);
    let prng = &mut rig.prng;
    let choice = prng.below(100);
    let (deletes, range_deletes) = match mood {
        Mood::Mixed => (20, 3),
        Mood::Overwrite => (5, 1),
        Mood::Delete => (60, 10),
        Mood::Fill => (2, 0),
    };
    if choice < range_deletes {
        let (a, b) = (draw_key(prng), draw_key(prng));
        return Change::DeleteRange {
            keyspace,
            start: Arc::clone((&a).min(&b)),
            end: Arc::clone((&a).max(&b)),
        };
    }
    let key = match mood {
        Mood::Overwrite => key_of(prng.below(6)),
        _ => draw_key(prng),
    };
    if choice < range_deletes + deletes {
        return Change::Delete { keyspace, key };
    }
    let len = match mood {
        Mood::Fill => 1 << (10 + prng.below(6)),
        _ => match prng.below(20) {
            0..=12 => prng.below(60),
            13..=18 => prng.below(1500),
            _ => prng.below(30_000),
        },
    };
    let mut value = format!("v{}.", model.next_value()).into_bytes();
    let head_len = value.len();
    value.resize(head_len + len as usize, b'.');
    if prng.chance(1, 2) {
        prng.fill(&mut value[head_len..]);
    }
    Change::Put { keyspace, key, value: value.into() }
}

fn draw_keyspace(prng: &mut Prng, model: &Model) -> usize {
    // The first keyspace gets most writes, so that it grows deep.
    prng.below(model.now.maps.len() as u64 + 2).saturating_sub(2) as usize
}

fn compare(
    keyspace: usize,
    key: &[u8],
    expected: Option<&[u8]>,
    got: Option<&[u8]>,
) -> Result<(), String> {
    if expected == got {
        return Ok(());
    }
    let (key, expected, got) = (key_in_words(key), describe(expected), describe(got));
    Err(format!("get {keyspace} {key}: expected {expected}, got {got}"))
}

fn in_words(changes: &[Change]) -> String {
    let words: Vec<String> = changes
        .iter()
        .map(|change| match change {
            Change::Put { keyspace, key, value } => {
                format!("put {keyspace} {} = {}", key_in_words(key), describe(Some(value)))
            }
            Change::Delete { keyspace, key } => format!("delete {keyspace} {}", key_in_words(key)),
            Change::DeleteRange { keyspace, start, end } => {
                format!("delete {keyspace} {}..{}", key_in_words(start), key_in_words(end))
            }
        })
        .collect();
    words.join(", ")
}
