//! What a drive may hold after a crash: every past state of the names and, for every file, what was
//! written and what was promised.
//!
//! ```text
//!   states     | 0 | 1 | 2 | 3 | 4 |      names after each change; one from `oldest` on is found (N3)
//!                      oldest    now
//!   versions   | 0: ......... | 1: ... |  of a file: a rewrite begins another (N2)
//!   floors     from state s on: at least this much of version v
//! ```

use super::names::{Change, Entry, FileId, Names, Refusal, after};
use imbrex_filesystem::FsError;
use std::collections::BTreeMap;

/// How far a file was written: a number of bytes of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    version: usize,
    len: usize,
}

/// The content of a file between two rewrites.
#[derive(Clone, Debug, Default)]
struct Version {
    bytes: Vec<u8>,
    /// Its length when it began: a rewrite is found as a whole.
    least_len: usize,
}

/// One file's history.
#[derive(Clone, Debug, Default)]
pub(super) struct FileModel {
    /// Its number, if it is known.
    pub(super) unique_id: Option<u64>,
    versions: Vec<Version>,
    /// From which state of the names on at least how much of it is there.
    floors: Vec<(usize, Place)>,
    /// What a recovery found, while it may be only in the drive's cache.
    found: Option<Place>,
    /// The states in which it got names.
    named_in: Vec<usize>,
    /// Its content in this life is unknown, because a request failed midway.
    pub(super) is_doubtful: bool,
    /// A write to it found no room, so the file system may report that bytes are lost.
    pub(super) may_be_lost: bool,
}

impl FileModel {
    fn new(bytes: Vec<u8>) -> FileModel {
        let versions = vec![Version { bytes, least_len: 0 }];
        FileModel { versions, ..FileModel::default() }
    }

    /// Its current content.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.versions.last().expect("a file begins with a version").bytes
    }

    fn now(&self) -> Place {
        Place { version: self.versions.len() - 1, len: self.bytes().len() }
    }

    pub(super) fn append(&mut self, data: &[u8]) {
        let version = self.versions.last_mut().expect("a file begins with a version");
        version.bytes.extend_from_slice(data);
    }

    /// Reverts a refused append.
    pub(super) fn cut(&mut self, len: usize) {
        let version = self.versions.last_mut().expect("a file begins with a version");
        version.bytes.truncate(len);
    }

    /// Begins another version.
    pub(super) fn rewrite(&mut self, change: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = self.bytes().to_vec();
        change(&mut bytes);
        let least_len = bytes.len();
        self.versions.push(Version { bytes, least_len });
    }

    /// Reverts a refused rewrite.
    pub(super) fn unrewrite(&mut self) {
        self.versions.pop();
    }

    fn raise_floor(&mut self, from_state: usize) {
        self.floors.push((from_state, self.now()));
    }

    /// Which version `got` is, if the names are those of `state`.
    fn recognise(&self, state: usize, got: &[u8]) -> Result<Place, String> {
        let floors = self.floors.iter().filter(|(from_state, _)| *from_state <= state);
        let none = Place { version: 0, len: 0 };
        let floor = floors.map(|&(_, place)| place).max().unwrap_or(none);
        let fits = |&version: &usize| {
            let Version { bytes, least_len } = &self.versions[version];
            let least_len = if version == floor.version { floor.len } else { *least_len };
            least_len <= got.len() && bytes.starts_with(got)
        };
        let len = got.len();
        match (floor.version..self.versions.len()).rev().find(fits) {
            Some(version) => Ok(Place { version, len }),
            None => Err(format!(
                "{len} bytes, which are no prefix of what was written with at least {floor:?}; \
                 written was {:?}, and they differ at {}",
                self.now(),
                self.bytes().iter().zip(got).take_while(|(a, b)| a == b).count(),
            )),
        }
    }
}

/// What was found at a path: for a file, its number and its bytes.
pub(super) type Found = BTreeMap<String, Option<(u64, Vec<u8>)>>;

/// The history so far.
#[derive(Debug)]
pub(super) struct Model {
    files: BTreeMap<FileId, FileModel>,
    states: Vec<Names>,
    /// The oldest state that may be found.
    oldest: usize,
    /// The state that a recovery found, while it may be only in the drive's cache.
    found: Option<usize>,
    /// The state of a change that failed midway, so that no sync promises it.
    doubtful: Option<usize>,
    next_file: FileId,
    next_tag: u64,
}

impl Default for Model {
    fn default() -> Model {
        Model {
            files: BTreeMap::new(),
            states: vec![Names::new()],
            oldest: 0,
            found: None,
            doubtful: None,
            next_file: 1,
            next_tag: 1,
        }
    }
}

impl Model {
    /// The names now.
    pub(super) fn names(&self) -> &Names {
        self.states.last().expect("there is a state from the start")
    }

    pub(super) fn file(&mut self, file: FileId) -> &mut FileModel {
        self.files.get_mut(&file).expect("a file stays while the life lasts")
    }

    /// A number for a file that is about to be created.
    pub(super) fn new_file(&mut self) -> FileId {
        self.next_file += 1;
        self.next_file - 1
    }

    /// Bytes that differ from all earlier ones.
    pub(super) fn new_bytes(&mut self, len: usize) -> Vec<u8> {
        let tag = self.next_tag;
        self.next_tag += 1;
        let word = |index: u64| (tag << 32 | index).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut bytes: Vec<u8> =
            (1..=len.div_ceil(8) as u64).flat_map(|i| word(i).to_le_bytes()).collect();
        bytes.truncate(len);
        bytes
    }

    /// The current paths of all files.
    pub(super) fn file_paths(&self) -> Vec<String> {
        let is_file =
            |(path, entry): (&String, &Entry)| (*entry != Entry::Dir).then(|| path.clone());
        self.names().iter().filter_map(is_file).collect()
    }

    /// Changes the names, before the same request goes to the file system.
    pub(super) fn change(&mut self, change: &Change) -> Result<(), Refusal> {
        let before = self.names();
        let names = after(before, change)?;
        let state = self.states.len();
        let named = match change {
            Change::Create { file, .. } => {
                self.files.insert(*file, FileModel::new(Vec::new()));
                Some(Entry::File(*file))
            }
            Change::Link { path, .. } => names.get(path).copied(),
            Change::Rename { from, to } => {
                let moved = before.get(from).copied();
                // N5: the replacing file is as long as it was.
                if let (true, Some(Entry::File(file))) = (before.contains_key(to), moved) {
                    self.file(file).raise_floor(state);
                }
                moved
            }
            _ => None,
        };
        if let Some(Entry::File(file)) = named {
            self.file(file).named_in.push(state);
        }
        self.states.push(names);
        Ok(())
    }

    /// Reverts the last change, which was refused for lack of room.
    pub(super) fn take_back(&mut self) {
        self.states.pop();
        let state_count = self.states.len();
        for file in self.files.values_mut() {
            file.floors.retain(|(from_state, _)| *from_state < state_count);
            file.named_in.retain(|named_in| *named_in < state_count);
        }
    }

    /// The last change failed midway: it happened or did not. No change follows in this life.
    pub(super) fn change_failed(&mut self) {
        self.doubtful = Some(self.states.len() - 1);
    }

    /// The newest state that certainly was.
    fn newest_sure(&self) -> usize {
        self.doubtful.unwrap_or(self.states.len()) - 1
    }

    /// Whether an earlier refusal explains the error: the file's bytes found no room.
    pub(super) fn excuses(&self, error: &FsError) -> bool {
        let is_lost = matches!(error, FsError::Lost { .. });
        is_lost && self.files.values().any(|file| file.may_be_lost)
    }

    /// The tail of any file may have found no room.
    pub(super) fn any_may_be_lost(&mut self) {
        self.files.values_mut().for_each(|file| file.may_be_lost = true);
    }

    /// A file was synced (N1, N4).
    pub(super) fn synced(&mut self, file: FileId) {
        self.found_is_durable();
        let is_named = self.names().values().any(|entry| *entry == Entry::File(file));
        let newest_sure = self.newest_sure();
        let file = self.file(file);
        file.raise_floor(0);
        let mut named_in = file.named_in.iter().rev();
        if let (true, Some(&named_in)) = (is_named, named_in.find(|state| **state <= newest_sure)) {
            self.oldest = self.oldest.max(named_in);
        }
    }

    /// The names were synced (N4).
    pub(super) fn names_synced(&mut self) {
        self.found_is_durable();
        self.oldest = self.oldest.max(self.newest_sure());
    }

    /// Everything was synced.
    pub(super) fn all_synced(&mut self) {
        self.names_synced();
        self.files.values_mut().for_each(|file| file.raise_floor(0));
    }

    /// The state found becomes durable with the first sync of anything (N7).
    fn found_is_durable(&mut self) {
        let Some(found) = self.found.take() else { return };
        self.oldest = self.oldest.max(found);
        for file in self.files.values_mut() {
            let place = file.found.take();
            file.floors.extend(place.map(|place| (0, place)));
        }
    }

    /// Accepts what was found as the state from now on. It is final if `is_durable`; otherwise a
    /// power cut may still revert it.
    ///
    /// # Errors
    /// It is no state that may be found.
    pub(super) fn settle(&mut self, found: &Found, is_durable: bool) -> Result<(), String> {
        let (state, places) = self.recognise(found)?;
        self.states.truncate(state + 1);
        for (id, place) in places {
            let file = self.file(id);
            file.versions.truncate(place.version + 1);
            file.cut(place.len);
            file.floors.retain(|(from_state, _)| *from_state <= state);
            file.named_in.retain(|named_in| *named_in <= state);
            (file.is_doubtful, file.may_be_lost) = (false, false);
            file.found = Some(place);
        }
        (self.found, self.doubtful) = (Some(state), None);
        if is_durable {
            self.found_is_durable();
        }
        // A power cut may still bring back a removed file, unless no allowed state has it.
        let may_be_found = &self.states[self.oldest..];
        let has = |id: FileId| move |entry: &Entry| *entry == Entry::File(id);
        self.files.retain(|&id, _| may_be_found.iter().any(|names| names.values().any(has(id))));
        Ok(())
    }

    /// The newest state to which the names may belong, and the version of each file in it.
    fn recognise(&self, found: &Found) -> Result<(usize, BTreeMap<FileId, Place>), String> {
        let mut reasons = Vec::new();
        for state in (self.oldest..self.states.len()).rev() {
            match self.compare(state, found) {
                Ok(places) => return Ok((state, places)),
                Err((has_names, reason)) => {
                    reasons.push((!has_names, format!("  not state {state}: {reason}")));
                }
            }
        }
        // The states whose names are exactly those found explain most.
        reasons.sort_by_key(|(is_elsewhere, _)| *is_elsewhere);
        reasons.truncate(6);
        let reasons: Vec<String> = reasons.into_iter().map(|(_, reason)| reason).collect();
        let paths: Vec<&String> = found.keys().collect();
        let (last, oldest) = (self.states.len() - 1, self.oldest);
        let reasons = reasons.join("\n");
        Err(format!("found {paths:?}, of no state from {oldest} to {last}:\n{reasons}"))
    }

    /// The version of each file if the names are those of `state`. Otherwise the reason why they
    /// are not, and whether it concerns what a path leads to.
    fn compare(
        &self,
        state: usize,
        found: &Found,
    ) -> Result<BTreeMap<FileId, Place>, (bool, String)> {
        let names = &self.states[state];
        if !names.keys().eq(found.keys()) {
            let missing: Vec<_> = names.keys().filter(|path| !found.contains_key(*path)).collect();
            let extra: Vec<_> = found.keys().filter(|path| !names.contains_key(*path)).collect();
            return Err((false, format!("{missing:?} missing, {extra:?} should not be there")));
        }
        let mut places = BTreeMap::new();
        for (path, what) in found {
            match (names[path], what) {
                (Entry::Dir, None) => {}
                (Entry::File(id), Some((unique_id, bytes))) => {
                    let file = &self.files[&id];
                    if file.unique_id.is_some_and(|known| known != *unique_id) {
                        return Err((true, format!("{path} is another file")));
                    }
                    let place = file.recognise(state, bytes);
                    let place = place.map_err(|reason| (true, format!("{path}: {reason}")))?;
                    places.insert(id, place);
                }
                _ => return Err((true, format!("{path} is not what it was"))),
            }
        }
        Ok(places)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file, named in a state of its own.
    fn create(model: &mut Model, path: &str) -> FileId {
        let file = model.new_file();
        model.change(&Change::Create { path: path.to_owned(), file }).unwrap();
        file
    }

    fn rename(model: &mut Model, from: &str, to: &str) {
        let (from, to) = (from.to_owned(), to.to_owned());
        model.change(&Change::Rename { from, to }).unwrap();
    }

    fn found(paths: &[&str]) -> Found {
        paths.iter().map(|path| ((*path).to_owned(), Some((0, Vec::new())))).collect()
    }

    /// Which of `all` a recovery may find.
    fn accepted<'a>(model: &Model, all: &[&'a [&'a str]]) -> Vec<&'a [&'a str]> {
        let is_accepted = |paths: &&&[&str]| model.recognise(&found(paths)).is_ok();
        all.iter().filter(is_accepted).copied().collect()
    }

    /// Once, the first sync after a failed change left it open whether the change had happened, and
    /// the second sync promised it.
    #[test]
    fn no_sync_promises_a_change_that_failed() {
        type Sync = fn(&mut Model, FileId);
        let syncs: [(&str, Sync); 3] = [
            ("names", |model, _| model.names_synced()),
            ("the file", |model, file| model.synced(file)),
            ("everything", |model, _| model.all_synced()),
        ];
        let (none, before, after): (&[&str], &[&str], &[&str]) = (&[], &["a"], &["b"]);
        for (what, sync) in syncs {
            for has_failed in [true, false] {
                let mut model = Model::default();
                let file = create(&mut model, "a");
                rename(&mut model, "a", "b");
                if has_failed {
                    model.change_failed();
                }
                let may_be: &[&[&str]] = if has_failed { &[before, after] } else { &[after] };
                for _ in 0..3 {
                    sync(&mut model, file);
                    let got = accepted(&model, &[none, before, after]);
                    assert_eq!(got, may_be, "{what}, failed: {has_failed}");
                }
                // What is found decides.
                model
                    .settle(&found(before), true)
                    .unwrap_or_else(|error| assert!(!has_failed, "{error}"));
                if has_failed {
                    rename(&mut model, "a", "c");
                    sync(&mut model, file);
                    assert_eq!(accepted(&model, &[before, after, &["c"]]), [&["c"]]);
                }
            }
        }
    }
}
