//! The expected names: the effect of each change, and when it must be refused. Pure.

use imbrex_filesystem::FsError;
use std::collections::BTreeMap;

/// A file of the model. Never used again.
pub(super) type FileId = usize;

/// What a path leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    Dir,
    File(FileId),
}

/// Every path except the root's, without the leading slash.
pub(super) type Names = BTreeMap<String, Entry>;

/// A change of names, as a database requests it.
#[derive(Clone, Debug)]
pub(super) enum Change {
    Create { path: String, file: FileId },
    MakeDir { path: String },
    MakeDirs { path: String },
    RemoveDir { path: String },
    Unlink { path: String },
    Link { existing: String, path: String },
    Rename { from: String, to: String },
}

/// Why a change of names must be refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    NotFound,
    Exists,
    NotADirectory,
    IsADirectory,
    NotEmpty,
    BadPath,
}

impl Refusal {
    /// The refusal to which an error of the file system corresponds, if to any.
    pub(super) fn of(error: &FsError) -> Option<Refusal> {
        Some(match error {
            FsError::NotFound { .. } => Refusal::NotFound,
            FsError::Exists { .. } => Refusal::Exists,
            FsError::NotADirectory { .. } => Refusal::NotADirectory,
            FsError::IsADirectory { .. } => Refusal::IsADirectory,
            FsError::NotEmpty { .. } => Refusal::NotEmpty,
            FsError::BadPath { .. } => Refusal::BadPath,
            _ => return None,
        })
    }
}

/// What `path` leads to, including the root.
pub(super) fn entry(names: &Names, path: &str) -> Option<Entry> {
    if path.is_empty() { Some(Entry::Dir) } else { names.get(path).copied() }
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

/// Why nothing exists at `path`.
fn missing(names: &Names, path: &str) -> Refusal {
    let mut above = parent(path);
    while entry(names, above).is_none() {
        above = parent(above);
    }
    match entry(names, above) {
        Some(Entry::File(_)) => Refusal::NotADirectory,
        _ => Refusal::NotFound,
    }
}

/// Whether `path` is a directory.
pub(super) fn need_dir(names: &Names, path: &str) -> Result<(), Refusal> {
    match entry(names, path) {
        Some(Entry::Dir) => Ok(()),
        Some(Entry::File(_)) => Err(Refusal::NotADirectory),
        None => Err(missing(names, path)),
    }
}

/// The file at `path`.
pub(super) fn need_file(names: &Names, path: &str) -> Result<FileId, Refusal> {
    match entry(names, path) {
        Some(Entry::File(file)) => Ok(file),
        Some(Entry::Dir) => Err(Refusal::IsADirectory),
        None => Err(missing(names, path)),
    }
}

/// The names directly in directory `path`, and whether each is a directory.
pub(super) fn children(names: &Names, path: &str) -> Vec<(String, bool)> {
    let is_child = |key: &&String| parent(key) == path;
    let child = |key: &String| {
        let name = key.rsplit_once('/').map_or(key.as_str(), |(_, name)| name);
        (name.to_owned(), names[key] == Entry::Dir)
    };
    names.keys().filter(is_child).map(child).collect()
}

/// The paths below directory `path`.
fn below(names: &Names, path: &str) -> Vec<String> {
    let prefix = format!("{path}/");
    names.keys().filter(|key| key.starts_with(&prefix)).cloned().collect()
}

/// The names after `change`.
pub(super) fn after(names: &Names, change: &Change) -> Result<Names, Refusal> {
    let mut names = names.clone();
    match change {
        Change::Create { path, file } => {
            need_dir(&names, parent(path))?;
            if names.get(path) == Some(&Entry::Dir) {
                return Err(Refusal::IsADirectory);
            }
            names.insert(path.clone(), Entry::File(*file));
        }
        Change::MakeDir { path } => {
            if names.contains_key(path) {
                return Err(Refusal::Exists);
            }
            need_dir(&names, parent(path))?;
            names.insert(path.clone(), Entry::Dir);
        }
        Change::MakeDirs { path } => {
            let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
            for dir in ends.map(|end| &path[..end]) {
                if let Entry::File(_) = names.entry(dir.to_owned()).or_insert(Entry::Dir) {
                    return Err(Refusal::NotADirectory);
                }
            }
        }
        Change::RemoveDir { path } => {
            need_dir(&names, path)?;
            if !below(&names, path).is_empty() {
                return Err(Refusal::NotEmpty);
            }
            names.remove(path);
        }
        Change::Unlink { path } => {
            need_file(&names, path)?;
            names.remove(path);
        }
        Change::Link { existing, path } => {
            let file = need_file(&names, existing)?;
            if names.contains_key(path) {
                return Err(Refusal::Exists);
            }
            need_dir(&names, parent(path))?;
            names.insert(path.clone(), Entry::File(file));
        }
        Change::Rename { from, to } => rename(&mut names, from, to)?,
    }
    Ok(names)
}

fn rename(names: &mut Names, from: &str, to: &str) -> Result<(), Refusal> {
    let moved = entry(names, from).ok_or_else(|| missing(names, from))?;
    need_dir(names, parent(to))?;
    match (moved, names.get(to).copied()) {
        (Entry::File(_), Some(Entry::Dir)) => return Err(Refusal::IsADirectory),
        (Entry::Dir, Some(Entry::File(_))) => return Err(Refusal::NotADirectory),
        (Entry::Dir, Some(Entry::Dir)) if from != to && !below(names, to).is_empty() => {
            return Err(Refusal::NotEmpty);
        }
        (Entry::Dir, _) if to.starts_with(&format!("{from}/")) => return Err(Refusal::BadPath),
        // A rename between two names of one file changes nothing, as in POSIX.
        (Entry::File(a), Some(Entry::File(b))) if a == b => return Ok(()),
        _ if from == to => return Ok(()),
        _ => {}
    }
    for path in below(names, from) {
        let entry = names.remove(&path).expect("it was listed just above");
        names.insert(format!("{to}{}", &path[from.len()..]), entry);
    }
    names.remove(from);
    names.insert(to.to_owned(), moved);
    Ok(())
}
