//! Names, paths and hints that a run draws.

use super::model::Model;
use crate::rig::Rig;
use imbrex_files::{CommitKind, FileKind, Hints};

const DIRS: [&str; 5] = ["", "db", "db/x", "ck", "ck/y"];
const NAMES: [&str; 7] = ["a", "b", "c", "d", "x", "db", "CURRENT"];

pub(super) fn join(dir: &str, name: &str) -> String {
    if dir.is_empty() { name.to_owned() } else { format!("{dir}/{name}") }
}

pub(super) fn draw_dir(rig: &mut Rig) -> String {
    DIRS[rig.prng.below(DIRS.len() as u64) as usize].to_owned()
}

/// A path, mostly that of a file.
pub(super) fn draw_path(rig: &mut Rig, model: &Model) -> String {
    let paths = model.file_paths();
    if !paths.is_empty() && rig.prng.chance(2, 3) {
        return paths[rig.prng.below(paths.len() as u64) as usize].clone();
    }
    let dir = draw_dir(rig);
    join(&dir, NAMES[rig.prng.below(NAMES.len() as u64) as usize])
}

pub(super) fn draw_hints(rig: &mut Rig) -> Hints {
    let prng = &mut rig.prng;
    let kinds =
        [FileKind::Log, FileKind::Log, FileKind::Table, FileKind::Metadata, FileKind::Other];
    let mut hints = Hints::new(kinds[prng.below(5) as usize]);
    hints.level = prng.below(5) as u8;
    hints.stream = prng.below(3) as u32;
    hints.position = prng.chance(1, 2).then(|| prng.next_u64() as u16);
    if prng.chance(1, 3) {
        hints.purpose = CommitKind::Upkeep;
    }
    hints
}
