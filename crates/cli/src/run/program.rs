//! Whether a program can be hooked: found, dynamic, and of the adapter's database.
//!
//! A preloaded library that does not take effect is worse than none: the program would put its database
//! elsewhere, or, as Debian's tools, crash without a word. So everything that can be known before is
//! asked before.

use super::Database;
use crate::error::{CliError, Context, Exit};
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program that may be run.
#[derive(Debug)]
pub(super) struct Program {
    path: PathBuf,
}

/// What kind of file a program is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Linkage {
    /// Loaded by the dynamic loader, which minds `LD_PRELOAD`.
    Dynamic,
    Static,
    Script,
    Unknown,
}

impl Program {
    /// Finds `name` as a shell would.
    pub(super) fn find(name: &OsStr) -> Result<Program, CliError> {
        let missing = || {
            let message = format!("cannot find program {}", Path::new(name).display());
            CliError::usage(message)
        };
        let is_path = Path::new(name).components().count() > 1;
        let dirs = std::env::var_os("PATH").unwrap_or_default();
        let found = if is_path {
            Some(PathBuf::from(name)).filter(|path| path.is_file())
        } else {
            std::env::split_paths(&dirs).map(|dir| dir.join(name)).find(|path| path.is_file())
        };
        Ok(Program { path: found.ok_or_else(missing)? })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn name(&self) -> &str {
        self.path.file_name().and_then(OsStr::to_str).unwrap_or("")
    }

    pub(super) fn shown(&self) -> String {
        self.path.display().to_string()
    }

    /// The database that it has, with the library of it that it loads; else why nothing can be slipped
    /// in front of one. What it loads only while it runs must be `told`.
    pub(super) fn database(
        &self,
        told: Option<Database>,
    ) -> Result<(Database, Option<String>), CliError> {
        let shown = self.shown();
        let mut head = Vec::new();
        let file = std::fs::File::open(&self.path).context(|| format!("cannot read {shown}"))?;
        file.take(4096).read_to_end(&mut head).context(|| format!("cannot read {shown}"))?;
        match linkage(&head) {
            Linkage::Dynamic => {}
            Linkage::Static => {
                return Err(self.cannot("it is statically linked, so nothing can be preloaded"));
            }
            Linkage::Script => {
                return Err(self.cannot("it is a script; give the program that it starts"));
            }
            Linkage::Unknown => return Err(self.cannot("it is no program of this system")),
        }
        let own = libraries(&self.path, None).context(|| format!("cannot look into {shown}"))?;
        let known = told.map_or(Database::ALL.to_vec(), |told| vec![told]);
        let loaded = known.into_iter().find_map(|database| {
            let library = own.iter().find_map(|line| soname(line, database))?;
            Some((database, Some(library)))
        });
        loaded.or_else(|| told.map(|told| (told, None))).ok_or_else(|| {
            self.cannot(
                "it loads neither librocksdb, libleveldb nor libhyperleveldb: it has no such database, \
                 has it linked in, or loads it later (--database)",
            )
        })
    }

    /// Whether preloading `adapter` has an effect on the program, which loads the library `its`.
    pub(super) fn check_preload(
        &self,
        adapter: &Path,
        database: Database,
        its: Option<&str>,
    ) -> Result<(), CliError> {
        let hooked = libraries(&self.path, Some(adapter));
        let hooked = hooked.context(|| format!("cannot look into {}", self.shown()))?;
        let adapter_shown = adapter.display().to_string();
        if let Some(line) = hooked.iter().find(|line| line.contains("not found")) {
            return Err(self.cannot(&format!("a library is missing: {}", line.trim())));
        }
        if !hooked.iter().any(|line| line.contains(&adapter_shown)) {
            let why = format!("the dynamic loader does not take {adapter_shown} as a library");
            return Err(self.cannot(&why));
        }
        let mut versions = hooked.iter().filter_map(|line| soname(line, database));
        match its.and_then(|its| Some((its, versions.find(|version| version != its)?))) {
            Some((its, ours)) => {
                Err(self.cannot(&format!("it uses {its}, and the adapter {ours}")))
            }
            None => Ok(()),
        }
    }

    fn cannot(&self, why: &str) -> CliError {
        CliError::new(Exit::Store, format!("cannot put {} on the drive: {why}", self.shown()))
    }
}

/// `LD_PRELOAD` with `adapter` in front of what it holds.
pub(super) fn with_preload(adapter: &Path) -> OsString {
    let mut preload = adapter.as_os_str().to_owned();
    if let Some(before) = std::env::var_os("LD_PRELOAD").filter(|before| !before.is_empty()) {
        preload.push(":");
        preload.push(before);
    }
    preload
}

/// What the dynamic loader would load, a line each; the program itself is not run.
fn libraries(program: &Path, preload: Option<&Path>) -> std::io::Result<Vec<String>> {
    let mut command = Command::new(program);
    command.env("LD_TRACE_LOADED_OBJECTS", "1").env_remove("LD_PRELOAD");
    if let Some(preload) = preload {
        command.env("LD_PRELOAD", preload);
    }
    let output = command.output()?;
    Ok(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
}

/// `librocksdb.so.7.8` in a line of [`libraries`].
fn soname(line: &str, database: Database) -> Option<String> {
    let name = line.split_whitespace().next()?;
    let name = name.rsplit('/').next()?;
    name.starts_with(database.library()).then(|| name.to_owned())
}

/// Source: ELF, gABI chapters 4 and 5: a program with a segment PT_INTERP is loaded by its loader.
fn linkage(head: &[u8]) -> Linkage {
    const PT_INTERP: u32 = 3;
    if head.starts_with(b"#!") {
        return Linkage::Script;
    }
    // 64 bit, little-endian: all that the adapter is built for.
    if !head.starts_with(b"\x7fELF\x02\x01") {
        return Linkage::Unknown;
    }
    let u16_at = |at: usize| Some(u16::from_le_bytes(head.get(at..at + 2)?.try_into().ok()?));
    let u32_at = |at: usize| Some(u32::from_le_bytes(head.get(at..at + 4)?.try_into().ok()?));
    let (Some(start), Some(len), Some(count)) = (u32_at(32), u16_at(54), u16_at(56)) else {
        return Linkage::Unknown;
    };
    let segment = |index: u16| u32_at(start as usize + usize::from(index) * usize::from(len));
    let is_dynamic = (0..count).filter_map(segment).any(|kind| kind == PT_INTERP);
    if is_dynamic { Linkage::Dynamic } else { Linkage::Static }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An ELF header with one program header of this kind.
    fn elf(kind: u32) -> Vec<u8> {
        let mut head = vec![0; 120];
        head[..6].copy_from_slice(b"\x7fELF\x02\x01");
        head[32..40].copy_from_slice(&64u64.to_le_bytes());
        head[54..56].copy_from_slice(&56u16.to_le_bytes());
        head[56..58].copy_from_slice(&1u16.to_le_bytes());
        head[64..68].copy_from_slice(&kind.to_le_bytes());
        head
    }

    #[test]
    fn programs_are_told_apart() {
        assert_eq!(linkage(&elf(3)), Linkage::Dynamic);
        assert_eq!(linkage(&elf(1)), Linkage::Static);
        assert_eq!(linkage(b"#!/bin/sh\n"), Linkage::Script);
        assert_eq!(linkage(b"text"), Linkage::Unknown);
        for len in 0..120 {
            linkage(&elf(3)[..len]);
        }
    }

    #[test]
    fn a_librocksdb_is_found_among_libraries() {
        let line = "\tlibrocksdb.so.7.8 => /lib/librocksdb.so.7.8 (0x00007f)";
        let rocksdb = |line| soname(line, Database::Rocksdb);
        assert_eq!(rocksdb(line).as_deref(), Some("librocksdb.so.7.8"));
        assert_eq!(rocksdb("\tlibc.so.6 => /lib/libc.so.6 (0x00007f)"), None);
        assert_eq!(rocksdb(""), None);
        assert_eq!(soname(line, Database::Leveldb), None);
        // One namespace, two libraries, and one name ends as the other.
        let line = "\tlibhyperleveldb.so.0 => /opt/lib/libhyperleveldb.so.0 (0x00007f)";
        assert_eq!(soname(line, Database::Leveldb), None);
        assert_eq!(soname(line, Database::Hyperleveldb).as_deref(), Some("libhyperleveldb.so.0"));
    }
}
