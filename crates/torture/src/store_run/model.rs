//! The expected store: the durable state, and the writes acknowledged since.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Shared bytes of a key or a value.
pub(crate) type Bytes = Arc<[u8]>;

/// One keyspace.
pub(crate) type Map = BTreeMap<Bytes, Bytes>;

/// All keyspaces, by index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) maps: Vec<Map>,
}

/// One operation on one keyspace.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Put { keyspace: usize, key: Bytes, value: Bytes },
    Delete { keyspace: usize, key: Bytes },
    DeleteRange { keyspace: usize, start: Bytes, end: Bytes },
}

impl State {
    pub(crate) fn apply(&mut self, changes: &[Change]) {
        for change in changes {
            match change {
                Change::Put { keyspace, key, value } => {
                    self.maps[*keyspace].insert(Arc::clone(key), Arc::clone(value));
                }
                Change::Delete { keyspace, key } => {
                    self.maps[*keyspace].remove(key);
                }
                Change::DeleteRange { keyspace, start, end } => {
                    if start < end {
                        let map = &mut self.maps[*keyspace];
                        let range = Arc::clone(start)..Arc::clone(end);
                        let dead: Vec<Bytes> = map.range(range).map(|(k, _)| k.clone()).collect();
                        dead.iter().for_each(|key| drop(map.remove(key)));
                    }
                }
            }
        }
    }

    /// The first key in which two states differ, in words.
    pub(crate) fn difference(&self, got: &State) -> Option<String> {
        for (index, (expected, got)) in self.maps.iter().zip(&got.maps).enumerate() {
            let keys = expected.keys().chain(got.keys());
            let key = keys.filter(|key| expected.get(*key) != got.get(*key)).min();
            if let Some(key) = key {
                let (e, g) = (expected.get(key), got.get(key));
                return Some(format!(
                    "keyspace {index} key {}: expected {}, got {}",
                    key_in_words(key),
                    describe(e.map(|v| &**v)),
                    describe(g.map(|v| &**v)),
                ));
            }
        }
        None
    }
}

/// A key in short form: long ones by their head and length.
pub(crate) fn key_in_words(key: &[u8]) -> String {
    match key.len() {
        0..=6 => key.escape_ascii().to_string(),
        len => format!("{}~{len}", key[..4].escape_ascii()),
    }
}

/// A value in short form: every value begins with the number of the operation that wrote it.
pub(crate) fn describe(value: Option<&[u8]>) -> String {
    match value {
        None => "nothing".to_string(),
        Some(value) => {
            let head = &value[..value.len().min(12)];
            format!("{} bytes {}", value.len(), head.escape_ascii())
        }
    }
}

/// The expected store.
#[derive(Debug, Default)]
pub(crate) struct Model {
    /// The state after all acknowledged writes.
    pub(crate) now: State,
    /// The state that is certainly durable.
    base: State,
    /// The writes after that, in order. The last one may be under way.
    tail: Vec<Vec<Change>>,
    /// Whether the base and the tail do not add up to the state now.
    is_in_doubt: bool,
    /// A keyspace whose drop was under way.
    dropped_perhaps: Option<usize>,
    /// The content of each checkpoint, and whether it certainly exists.
    checkpoints: BTreeMap<String, (State, bool)>,
    /// Numbers the values.
    value_count: u64,
    /// Every value that was ever written to a key of a keyspace.
    ever: BTreeMap<(usize, Bytes), Vec<Bytes>>,
}

impl Model {
    pub(crate) fn new(keyspace_count: usize) -> Model {
        let empty = State { maps: vec![Map::new(); keyspace_count] };
        Model {
            now: empty.clone(),
            base: empty,
            tail: Vec::new(),
            is_in_doubt: false,
            dropped_perhaps: None,
            checkpoints: BTreeMap::new(),
            value_count: 0,
            ever: BTreeMap::new(),
        }
    }

    /// Records an acknowledged write.
    pub(crate) fn wrote(&mut self, changes: Vec<Change>, is_synced: bool) {
        self.note(&changes);
        self.now.apply(&changes);
        self.tail.push(changes);
        if is_synced {
            self.synced();
        }
    }

    /// Records a failed write. Nothing reads before the recovery, which may find it or not.
    pub(crate) fn wrote_perhaps(&mut self, changes: Vec<Change>) {
        self.note(&changes);
        self.tail.push(changes);
        self.is_in_doubt = true;
    }

    fn note(&mut self, changes: &[Change]) {
        for change in changes {
            if let Change::Put { keyspace, key, value } = change {
                let values = self.ever.entry((*keyspace, Bytes::clone(key))).or_default();
                values.push(Bytes::clone(value));
            }
        }
    }

    /// Whether `value` was written to `key` at any time.
    pub(crate) fn was_ever(&self, keyspace: usize, key: &Bytes, value: &[u8]) -> bool {
        let values = self.ever.get(&(keyspace, Bytes::clone(key)));
        values.is_some_and(|values| values.iter().any(|v| **v == *value))
    }

    /// Records that a keyspace was dropped and created again, durably, like everything acknowledged
    /// before.
    pub(crate) fn dropped(&mut self, keyspace: usize) {
        self.now.maps[keyspace].clear();
        self.is_in_doubt = true;
        self.synced();
    }

    /// Records that dropping a keyspace failed midway.
    pub(crate) fn dropped_perhaps(&mut self, keyspace: usize) {
        self.dropped_perhaps = Some(keyspace);
    }

    /// Records that a checkpoint is under way.
    pub(crate) fn checkpoint_perhaps(&mut self, name: &str) {
        self.checkpoints.insert(name.to_owned(), (self.now.clone(), false));
    }

    /// Records that it exists and is durable, like everything acknowledged before.
    pub(crate) fn checkpointed(&mut self, name: &str) {
        self.checkpoints.insert(name.to_owned(), (self.now.clone(), true));
        self.synced();
    }

    /// Records that a checkpoint is about to be deleted.
    pub(crate) fn deletes_checkpoint(&mut self, name: &str) {
        if let Some((_, is_certain)) = self.checkpoints.get_mut(name) {
            *is_certain = false;
        }
    }

    /// Records that it is gone.
    pub(crate) fn deleted_checkpoint(&mut self, name: &str) {
        self.checkpoints.remove(name);
    }

    /// Applies a recovery that found these checkpoints.
    pub(crate) fn settle_checkpoints(
        &mut self,
        mut found: BTreeMap<String, State>,
    ) -> Result<(), String> {
        for (name, (state, is_certain)) in std::mem::take(&mut self.checkpoints) {
            match found.remove(&name) {
                Some(got) => {
                    if let Some(difference) = state.difference(&got) {
                        return Err(format!("checkpoint {name}: {difference}"));
                    }
                    self.checkpoints.insert(name, (state, true));
                }
                None if is_certain => return Err(format!("checkpoint {name} is gone")),
                None => {}
            }
        }
        match found.into_keys().next() {
            Some(name) => Err(format!("checkpoint {name} was never created")),
            None => Ok(()),
        }
    }

    /// Records that everything acknowledged is durable.
    pub(crate) fn synced(&mut self) {
        if std::mem::take(&mut self.is_in_doubt) {
            self.base = self.now.clone();
            self.tail.clear();
        }
        // A copy of everything for each sync would take most of a run.
        for changes in self.tail.drain(..) {
            self.base.apply(&changes);
        }
    }

    /// Applies a recovery that found `got`. It must be the base and some prefix of the tail, or the
    /// whole tail if nothing may be lost. Returns how many writes are gone.
    pub(crate) fn settle(&mut self, got: State, may_lose: bool) -> Result<usize, String> {
        if let Some(keyspace) = self.dropped_perhaps.take() {
            let mut without = self.now.clone();
            without.maps[keyspace].clear();
            // If the drop is durable, so are all writes before it.
            if without == got {
                self.dropped(keyspace);
            }
        }
        let mut state = self.base.clone();
        let mut last_match = None;
        for (count, changes) in std::iter::once(&Vec::new()).chain(&self.tail).enumerate() {
            state.apply(changes);
            if state == got {
                last_match = Some(count);
            }
        }
        let Some(kept) = last_match else {
            let from_base = self.base.difference(&got).unwrap_or_default();
            let from_all = state.difference(&got).unwrap_or_default();
            return Err(format!(
                "the store is no prefix of {} writes after the last sync;\n\
                 with none of them, {from_base};\nwith all of them, {from_all}",
                self.tail.len()
            ));
        };
        let lost = self.tail.len() - kept;
        if lost > 0 && !may_lose {
            return Err(format!("{lost} writes were lost without a power cut or a kill"));
        }
        self.now = got;
        self.is_in_doubt = true;
        // A recovery commits what it replays.
        self.synced();
        Ok(lost)
    }

    /// The next value's number.
    pub(crate) fn next_value(&mut self) -> u64 {
        self.value_count += 1;
        self.value_count
    }
}

#[cfg(test)]
mod tests {
    use super::{Change, Model, State};

    fn put(key: &str, value: &str) -> Vec<Change> {
        vec![Change::Put {
            keyspace: 0,
            key: key.as_bytes().into(),
            value: value.as_bytes().into(),
        }]
    }

    fn state(pairs: &[(&str, &str)]) -> State {
        let map = pairs.iter().map(|(k, v)| (k.as_bytes().into(), v.as_bytes().into()));
        State { maps: vec![map.collect()] }
    }

    #[test]
    fn any_prefix_with_all_synced_writes_is_accepted_and_nothing_else() {
        for (found, lost) in [
            (state(&[("a", "1")]), Some(2)),
            (state(&[("a", "1"), ("b", "2")]), Some(1)),
            (state(&[("a", "3"), ("b", "2")]), Some(0)),
            (state(&[]), None),
            (state(&[("a", "3")]), None),
        ] {
            let mut model = Model::new(1);
            model.wrote(put("a", "1"), true);
            model.wrote(put("b", "2"), false);
            model.wrote(put("a", "3"), false);
            assert_eq!(model.settle(found.clone(), true).ok(), lost, "{found:?}");
        }
    }

    #[test]
    fn a_keyspace_is_dropped_after_all_writes_before_or_not_at_all() {
        let put = |keyspace, key: &str| Change::Put {
            keyspace,
            key: key.as_bytes().into(),
            value: key.as_bytes().into(),
        };
        for (found, lost) in
            [(["a", "b"], Some(0)), (["a", ""], Some(0)), (["", "b"], Some(1)), (["", ""], None)]
        {
            let mut model = Model::new(2);
            model.wrote(vec![put(1, "b")], true);
            model.wrote(vec![put(0, "a")], false);
            model.dropped_perhaps(1);
            let mut got = State { maps: vec![Default::default(); 2] };
            for (keyspace, key) in found.into_iter().enumerate().filter(|(_, key)| !key.is_empty())
            {
                got.apply(&[put(keyspace, key)]);
            }
            assert_eq!(model.settle(got, true).ok(), lost, "{found:?}");
        }
    }
}
