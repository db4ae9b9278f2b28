//! The expected namespace: names, the files behind them, application records.

use super::logs::LogModel;
use imbrex_files::{AppRecord, FileInfo, FileKind, GroupId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a file should hold.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    /// These bytes.
    Bytes(Arc<Vec<u8>>),
    /// The records of a log of [`Model::logs`].
    Log(u64),
}

/// A file, independent of its names.
#[derive(Clone, Debug)]
pub(crate) struct Inode {
    pub(crate) kind: FileKind,
    pub(crate) level: u8,
    pub(crate) group: Option<GroupId>,
    pub(crate) content: Content,
}

/// The state that a commit changes.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    pub(crate) names: BTreeMap<String, u64>,
    pub(crate) inodes: BTreeMap<u64, Inode>,
    pub(crate) app: Vec<Vec<u8>>,
}

/// A commit in terms of the model. Additions carry the file that they add.
#[derive(Clone, Debug, Default)]
pub(crate) struct Change {
    pub(crate) remove: Vec<String>,
    pub(crate) rename: Vec<(String, String)>,
    pub(crate) link: Vec<(String, String)>,
    pub(crate) add: Vec<(String, Inode)>,
    pub(crate) level: Vec<(String, u8)>,
    pub(crate) app: Option<AppRecord>,
}

/// The expected file layer.
#[derive(Debug, Default)]
pub(crate) struct Model {
    /// The state after all acknowledged changes.
    pub(crate) state: State,
    /// The state after the change that was under way when the last life ended, if there was one.
    pub(crate) perhaps: Option<State>,
    /// The states before changes that were under way when a process died, and that the next process
    /// found in the drive's cache. Until a change is acknowledged, which flushes everything found,
    /// a power cut may revert them.
    older: Vec<State>,
    pub(crate) logs: BTreeMap<u64, LogModel>,
    last_id: u64,
}

impl State {
    /// The state after `change`. `None` if the rules refuse it.
    pub(crate) fn after(&self, change: &Change, next_id: &mut u64) -> Option<State> {
        let mut state = self.clone();
        for name in &change.remove {
            state.names.remove(name)?;
        }
        for (from, to) in &change.rename {
            let id = state.names.remove(from)?;
            state.names.insert(to.clone(), id);
        }
        for (existing, new) in &change.link {
            let id = *state.names.get(existing)?;
            if state.names.insert(new.clone(), id).is_some() {
                return None;
            }
        }
        for (name, inode) in &change.add {
            *next_id += 1;
            state.inodes.insert(*next_id, inode.clone());
            if state.names.insert(name.clone(), *next_id).is_some() {
                return None;
            }
        }
        for (name, level) in &change.level {
            state.inodes.get_mut(state.names.get(name)?)?.level = *level;
        }
        match &change.app {
            Some(AppRecord::Append(record)) => state.app.push(record.clone()),
            Some(AppRecord::Replace(record)) => state.app = vec![record.clone()],
            None => {}
        }
        let names = &state.names;
        state.inodes.retain(|id, _| names.values().any(|named| named == id));
        Some(state)
    }

    /// Why `listing` and `app` are not this state, if they are not.
    fn differs(&self, listing: &[FileInfo], app: &[Vec<u8>]) -> Option<String> {
        let expected: Vec<&String> = self.names.keys().collect();
        let got: Vec<&String> = listing.iter().map(|info| &info.name).collect();
        if expected != got {
            return Some(format!("names: expected {expected:?}, got {got:?}"));
        }
        if self.app != app {
            let lens = |records: &[Vec<u8>]| records.iter().map(Vec::len).collect::<Vec<_>>();
            let (expected, got) = (lens(&self.app), lens(app));
            return Some(format!("app records of lengths: expected {expected:?}, got {got:?}"));
        }
        listing.iter().find_map(|info| {
            let inode = &self.inodes[&self.names[&info.name]];
            let expected = (inode.kind, inode.level, inode.group);
            let got = (info.kind, info.level, info.group);
            let is_len_right = match &inode.content {
                Content::Bytes(bytes) => info.len_bytes == bytes.len() as u64,
                Content::Log(_) => true,
            };
            (expected != got || !is_len_right)
                .then(|| format!("{}: expected {expected:?}, got {got:?}, {info:?}", info.name))
        })
    }
}

impl Model {
    /// A number that no file or log has had.
    pub(crate) fn new_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// The state after `change`. `None` if the rules refuse it.
    pub(crate) fn after(&mut self, change: &Change) -> Option<State> {
        self.state.after(change, &mut self.last_id)
    }

    /// The file called `name`.
    pub(crate) fn inode(&self, name: &str) -> Option<&Inode> {
        self.state.inodes.get(self.state.names.get(name)?)
    }

    /// Accepts `state` as the result of an acknowledged change.
    pub(crate) fn acknowledge(&mut self, state: State) {
        self.state = state;
        self.older.clear();
    }

    /// Decides from what was found whether the last change took effect. `is_durable` if the power
    /// was cut since.
    pub(crate) fn settle(
        &mut self,
        listing: &[FileInfo],
        app: &[Vec<u8>],
        is_durable: bool,
    ) -> Result<(), String> {
        let perhaps = self.perhaps.take();
        if let Some(difference) = self.state.differs(listing, app) {
            if let Some(state) = perhaps.filter(|state| state.differs(listing, app).is_none()) {
                self.older.push(std::mem::replace(&mut self.state, state));
            } else if let Some(at) =
                self.older.iter().rposition(|state| state.differs(listing, app).is_none())
            {
                self.older.truncate(at + 1);
                self.state = self.older.pop().expect("it was found in this state");
            } else {
                return Err(format!("neither before nor after the last commit: {difference}"));
            }
        }
        if is_durable {
            self.older.clear();
        }
        Ok(())
    }

    /// Drops the writers of logs.
    pub(crate) fn end_life(&mut self, is_power_cut: bool) {
        for log in self.logs.values_mut() {
            log.end_life(is_power_cut);
        }
    }
}
