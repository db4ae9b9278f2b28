//! Real records that the machine already holds.

use crate::error::{CliError, Context};
use std::collections::BTreeMap;
use std::path::Path;

/// Records of one kind, and a prefix of some of their keys.
pub(super) struct Collection {
    pub(super) name: &'static str,
    pub(super) source: String,
    pub(super) prefix: Vec<u8>,
    pub(super) records: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Collection {
    /// The length of all keys and values.
    pub(super) fn len_bytes(&self) -> u64 {
        self.records.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum()
    }
}

/// Debian's list of installed packages.
const STATUS: &str = "/var/lib/dpkg/status";
/// The files of each package, `NAME.list`.
const LISTS: &str = "/var/lib/dpkg/info";

/// The most files of a machine without dpkg; more would make the demo long.
const FILE_COUNT_MAX: usize = 5_000;
const FILE_LEN_BYTES_MAX: u64 = 1 << 20;

/// The packages of a Debian machine and their files; elsewhere the files below the current
/// directory.
pub(super) fn collect() -> Result<Vec<Collection>, CliError> {
    let Ok(status) = std::fs::read_to_string(STATUS) else { return Ok(vec![files_here()?]) };
    let packages = Collection {
        name: "packages",
        source: STATUS.to_owned(),
        prefix: b"lib".to_vec(),
        records: parse_status(&status),
    };
    let paths = Collection {
        name: "paths",
        source: format!("{LISTS}/*.list"),
        prefix: b"/usr/bin/".to_vec(),
        records: package_of_each_path(Path::new(LISTS)),
    };
    Ok([packages, paths].into_iter().filter(|c| !c.records.is_empty()).collect())
}

/// One record for each paragraph, with the package's name as its key.
fn parse_status(text: &str) -> BTreeMap<Vec<u8>, Vec<u8>> {
    text.split("\n\n")
        .filter_map(|paragraph| {
            let name = paragraph.lines().find_map(|line| line.strip_prefix("Package: "))?;
            Some((name.trim().as_bytes().to_vec(), paragraph.trim().as_bytes().to_vec()))
        })
        .collect()
}

/// Each path with the packages that own it. Unreadable lists are left out.
fn package_of_each_path(dir: &Path) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut owners: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.extension().is_none_or(|extension| extension != "list") {
            continue;
        }
        let (Some(package), Ok(text)) = (path.file_stem(), std::fs::read_to_string(&path)) else {
            continue;
        };
        for line in text.lines().filter(|line| line.starts_with('/')) {
            let owners = owners.entry(line.as_bytes().to_vec()).or_default();
            if !owners.is_empty() {
                owners.extend_from_slice(b", ");
            }
            owners.extend_from_slice(package.as_encoded_bytes());
        }
    }
    // `/.` and other directories belong to hundreds of packages, which gives some long values.
    owners
}

/// The files below the current directory, by path.
fn files_here() -> Result<Collection, CliError> {
    let mut records = BTreeMap::new();
    let mut waiting = vec![std::path::PathBuf::from(".")];
    while let Some(dir) = waiting.pop() {
        let entries =
            std::fs::read_dir(&dir).context(|| format!("cannot list {}", dir.display()))?;
        for entry in entries.flatten() {
            let path = entry.path();
            let name = entry.file_name();
            let is_skipped = name == "target" || name.as_encoded_bytes().starts_with(b".");
            let Ok(metadata) = entry.metadata() else { continue };
            if is_skipped || records.len() >= FILE_COUNT_MAX {
                continue;
            }
            if metadata.is_dir() {
                waiting.push(path);
            } else if metadata.is_file() && metadata.len() <= FILE_LEN_BYTES_MAX {
                let key = path.strip_prefix(".").unwrap_or(&path);
                if let Ok(bytes) = std::fs::read(&path) {
                    records.insert(key.as_os_str().as_encoded_bytes().to_vec(), bytes);
                }
            }
        }
    }
    let prefix = records.keys().next().map_or_else(Vec::new, |key: &Vec<u8>| key[..1].to_vec());
    let source = "the files below the current directory".to_owned();
    Ok(Collection { name: "files", source, prefix, records })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paragraph_is_a_record() {
        let text = "Package: a\nStatus: ok\n\nPackage: b\nDescription: two\n lines\n\n\n";
        let records = parse_status(text);
        assert_eq!(records.len(), 2);
        assert_eq!(records[&b"b"[..]], b"Package: b\nDescription: two\n lines");
    }
}
