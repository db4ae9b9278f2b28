//! What a drive may hold after a crash: every state of the names that there was, and of every file what was
//! written and what of it was promised.
//!
//! ```text
//!   states     | 0 | 1 | 2 | 3 | 4 |      names after each change; found is one from `oldest` on (N3)
//!                      oldest    now
//!   versions   | 0: ......... | 1: ... |  of a file: a rewrite begins another (N2)
//!   floors     from state s on: at least so much of version v
//! ```

use super::names::{Change, Entry, FileId, Names, Refusal, after};
use imbrex_filesystem::FsError;
use std::collections::BTreeMap;

/// How far a file was written: so many bytes of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    version: usize,
    len: usize,
}

/// What a file was between two rewrites.
#[derive(Clone, Debug, Default)]
struct Version {
    bytes: Vec<u8>,
    /// How long it was when it began: a rewrite is found whole.
    least_len: usize,
}

/// One file's history.
#[derive(Clone, Debug, Default)]
pub(super) struct FileModel {
    /// Its number, where it is known.
    pub(super) unique_id: Option<u64>,
    versions: Vec<Version>,
    /// From which state of the names on at least so much of it is there.
    floors: Vec<(usize, Place)>,
    /// What a recovery found, while it may lie in the drive's cache alone.
    found: Option<Place>,
    /// The states in which it was given names.
    named_in: Vec<usize>,
    /// What it holds in this life is unknown: a request failed in its midst.
    pub(super) is_doubtful: bool,
    /// A write of it found no room: the file system may say that bytes are lost.
    pub(super) may_be_lost: bool,
}

impl FileModel {
    fn new(bytes: Vec<u8>) -> FileModel {
        let versions = vec![Version { bytes, least_len: 0 }];
        FileModel { versions, ..FileModel::default() }
    }

    /// What it holds now.
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

    /// Takes back what an append added that was refused.
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

    /// Takes back a rewrite that was refused.
    pub(super) fn unrewrite(&mut self) {
        self.versions.pop();
    }

    fn raise_floor(&mut self, from_state: usize) {
        self.floors.push((from_state, self.now()));
    }

    /// Which version `got` is, where the names are those of `state`.
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

/// What was found at a path; a file with its number and its bytes.
pub(super) type Found = BTreeMap<String, Option<(u64, Vec<u8>)>>;

/// The history so far.
#[derive(Debug)]
pub(super) struct Model {
    files: BTreeMap<FileId, FileModel>,
    states: Vec<Names>,
    /// The oldest state that may be found.
    oldest: usize,
    /// The state that a recovery found, while it may lie in the drive's cache alone.
    found: Option<usize>,
    next_file: FileId,
    next_tag: u64,
}

impl Default for Model {
    fn default() -> Model {
        let states = vec![Names::new()];
        Model { files: BTreeMap::new(), states, oldest: 0, found: None, next_file: 1, next_tag: 1 }
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

    /// A number for a file that is to be created.
    pub(super) fn new_file(&mut self) -> FileId {
        self.next_file += 1;
        self.next_file - 1
    }

    /// Bytes that nothing before them was like.
    pub(super) fn new_bytes(&mut self, len: usize) -> Vec<u8> {
        let tag = self.next_tag;
        self.next_tag += 1;
        let word = |index: u64| (tag << 32 | index).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut bytes: Vec<u8> =
            (1..=len.div_ceil(8) as u64).flat_map(|i| word(i).to_le_bytes()).collect();
        bytes.truncate(len);
        bytes
    }

    /// The paths of all files now.
    pub(super) fn file_paths(&self) -> Vec<String> {
        let is_file =
            |(path, entry): (&String, &Entry)| (*entry != Entry::Dir).then(|| path.clone());
        self.names().iter().filter_map(is_file).collect()
    }

    /// Changes the names, before the file system is asked to.
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
                // N5: what replaces is as long as it was.
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

    /// Takes the last change back: it was refused for want of room.
    pub(super) fn take_back(&mut self) {
        self.states.pop();
        let state_count = self.states.len();
        for file in self.files.values_mut() {
            file.floors.retain(|(from_state, _)| *from_state < state_count);
            file.named_in.retain(|named_in| *named_in < state_count);
        }
    }

    /// Whether what was told before explains the error: a file whose bytes found no room.
    pub(super) fn excuses(&self, error: &FsError) -> bool {
        let is_lost = matches!(error, FsError::Lost { .. });
        is_lost && self.files.values().any(|file| file.may_be_lost)
    }

    /// Of any file the tail may have found no room.
    pub(super) fn any_may_be_lost(&mut self) {
        self.files.values_mut().for_each(|file| file.may_be_lost = true);
    }

    /// A file was synced (N1, N4).
    pub(super) fn synced(&mut self, file: FileId) {
        self.found_is_durable();
        let is_named = self.names().values().any(|entry| *entry == Entry::File(file));
        let file = self.file(file);
        file.raise_floor(0);
        if let (true, Some(&named_in)) = (is_named, file.named_in.last()) {
            self.oldest = self.oldest.max(named_in);
        }
    }

    /// The names were synced, but perhaps for the last `but` changes (N4).
    pub(super) fn names_synced(&mut self, but: usize) {
        self.found_is_durable();
        self.oldest = self.oldest.max((self.states.len() - 1).saturating_sub(but));
    }

    /// Everything was synced.
    pub(super) fn all_synced(&mut self) {
        self.names_synced(0);
        self.files.values_mut().for_each(|file| file.raise_floor(0));
    }

    /// What was found is durable with the first sync of whatever (N7).
    fn found_is_durable(&mut self) {
        let Some(found) = self.found.take() else { return };
        self.oldest = self.oldest.max(found);
        for file in self.files.values_mut() {
            let place = file.found.take();
            file.floors.extend(place.map(|place| (0, place)));
        }
    }

    /// Takes what was found for what there is from now on. It stays if it `is_durable`; else a power cut may
    /// still lead back.
    ///
    /// # Errors
    /// It is nothing that may be found.
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
        self.found = Some(state);
        if is_durable {
            self.found_is_durable();
        }
        // Of a file that went, a power cut may still tell; unless no state that may be found has it.
        let may_be_found = &self.states[self.oldest..];
        let has = |id: FileId| move |entry: &Entry| *entry == Entry::File(id);
        self.files.retain(|&id, _| may_be_found.iter().any(|names| names.values().any(has(id))));
        Ok(())
    }

    /// The newest state that the names may be of, and what each file is then.
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
        // Those whose names are the ones that were found tell most.
        reasons.sort_by_key(|(is_elsewhere, _)| *is_elsewhere);
        reasons.truncate(6);
        let reasons: Vec<String> = reasons.into_iter().map(|(_, reason)| reason).collect();
        let paths: Vec<&String> = found.keys().collect();
        let (last, oldest) = (self.states.len() - 1, self.oldest);
        let reasons = reasons.join("\n");
        Err(format!("found {paths:?}, of no state from {oldest} to {last}:\n{reasons}"))
    }

    /// What each file is if the names are those of `state`; else why they are not, and whether it is
    /// for what a path leads to.
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
