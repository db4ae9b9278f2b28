//! Checks that an adapter can be preloaded into a program: found, dynamically linked, with the adapter's
//! database.
//!
//! A preloaded library without effect is worse than none: the program would put its database elsewhere,
//! or crash without a message, as Debian's tools do. Everything that can be checked before the start is
//! checked.

use super::Database;
use crate::error::{CliError, Context, Exit};
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

/// An executable file.
#[derive(Debug)]
pub(super) struct Program {
    path: PathBuf,
}

/// The kind of file that a program is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Linkage {
    /// Loaded by the dynamic loader, which obeys `LD_PRELOAD`.
    Dynamic,
    Static,
    Script,
    Unknown,
}

impl Program {
    /// Finds `name` as a shell would.
    pub(super) fn find(name: &OsStr) -> Result<Program, CliError> {
        let missing = || {
            let message = format!("cannot find the program {}", Path::new(name).display());
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

    /// The program's database and its library, or why no adapter can be preloaded. A library that the
    /// program loads only while it runs is not found, so the user must name the database (`told`).
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
                return Err(self.cannot("it is a script; name the program that it starts"));
            }
            Linkage::Unknown => return Err(self.cannot("it is not a program of this system")),
        }
        let own = libraries(&self.path, None).context(|| format!("cannot look into {shown}"))?;
        let known = told.map_or(Database::ALL.to_vec(), |told| vec![told]);
        let loaded = known.into_iter().find_map(|database| {
            let library = own.iter().find_map(|line| soname(line, database))?;
            Some((database, Some(library)))
        });
        loaded.or_else(|| told.map(|told| (told, None))).ok_or_else(|| {
            self.cannot(
                "it does not load librocksdb, libleveldb or libhyperleveldb: it has no such database, has it \
                 linked in statically, or loads it later (then name it with --database)",
            )
        })
    }

    /// Checks that preloading `adapter` has an effect on the program, which loads the library `its`.
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
            let why = format!("the dynamic loader does not accept {adapter_shown} as a library");
            return Err(self.cannot(&why));
        }
        let mut versions = hooked.iter().filter_map(|line| soname(line, database));
        match its.and_then(|its| Some((its, versions.find(|version| version != its)?))) {
            Some((its, ours)) => {
                Err(self.cannot(&format!("it uses {its}, but the adapter was built for {ours}")))
            }
            None => Ok(()),
        }
    }

    fn cannot(&self, why: &str) -> CliError {
        CliError::new(Exit::Store, format!("cannot run {} on the drive: {why}", self.shown()))
    }
}

/// The value of `LD_PRELOAD` with `adapter` in front.
pub(super) fn with_preload(adapter: &Path) -> OsString {
    let mut preload = adapter.as_os_str().to_owned();
    if let Some(before) = std::env::var_os("LD_PRELOAD").filter(|before| !before.is_empty()) {
        preload.push(":");
        preload.push(before);
    }
    preload
}

/// The libraries that the dynamic loader would load, one line each. The program itself is not run.
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
    // The adapter is built for 64 bit, little-endian only.
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
    fn the_linkage_of_a_program_is_recognized() {
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
        // One library's name ends with the other's.
        let line = "\tlibhyperleveldb.so.0 => /opt/lib/libhyperleveldb.so.0 (0x00007f)";
        assert_eq!(soname(line, Database::Leveldb), None);
        assert_eq!(soname(line, Database::Hyperleveldb).as_deref(), Some("libhyperleveldb.so.0"));
    }
}
