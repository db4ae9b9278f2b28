//! Torture of the file layer alone: names, bytes and application records against a model.
//!
//! ```text
//!   format --> life: persist, commit, append, read ... --> end --> recover, compare --> life ...
//! ```
//!
//! What must hold after a recovery: every acknowledged commit is there, and the one under way is
//! there as a whole or not at all (F1, F2). Of each log a prefix of its records is there, which
//! includes all synced ones.

mod logs;
mod model;
mod operations;
#[cfg(test)]
mod tests;
mod trouble;

use crate::rig::{Ending, Rig, Weather, chain};
use imbrex_clockwork::Prng;
use imbrex_files::{FileInfo, FileLayer, FileReader, Files};
use model::{Content, Inode, Model};
use operations::Life;
use std::sync::Arc;
use trouble::Trouble;

/// Runs the lives of one seed.
pub(crate) fn run(rig: &mut Rig) -> Result<(), String> {
    rig.format()?;
    let mut model = Model::default();
    let mut ended = Ending::PowerCut;
    for _ in 0..rig.draw_life_count() {
        let files = recover(rig, &mut model, ended)?;
        rig.begin_life();
        let ending = Life::new(&files).live(rig, &mut model)?;
        rig.note_life(&files);
        rig.kill(ending);
        drop(files);
        ended = rig.reboot(ending)?;
        model.end_life(ended == Ending::PowerCut);
    }
    let files = recover(rig, &mut model, ended)?;
    Life::new(&files).empty_the_drive(rig, &mut model)
}

/// Opens the file layer, through power cuts, and compares what it found with the model. `ended` is
/// how the last life ended.
fn recover(rig: &mut Rig, model: &mut Model, ended: Ending) -> Result<FileLayer, String> {
    let mut is_durable = ended == Ending::PowerCut;
    for attempt in 0..3 {
        rig.begin_recovery(attempt);
        match rig.open_files() {
            Ok(files) if !rig.is_foul() => {
                rig.set_weather(Weather::Fair);
                verify(rig, &files, model, is_durable)?;
                return Ok(files);
            }
            Ok(files) => {
                rig.kill(Ending::PowerCut);
                drop(files);
            }
            Err(error) => rig.excuse("recovery", &error)?,
        }
        rig.reboot(Ending::PowerCut)?;
        is_durable = true;
    }
    rig.set_weather(Weather::Fair);
    let files = rig.open_files().map_err(|error| format!("recovery: {}", chain(&error)))?;
    verify(rig, &files, model, is_durable)?;
    Ok(files)
}

/// Compares everything that the file layer reports with the model. After a crash the model first
/// applies the commit that was under way, if it took effect.
fn verify(
    rig: &mut Rig,
    files: &FileLayer,
    model: &mut Model,
    is_durable: bool,
) -> Result<(), String> {
    rig.say("verify".to_string());
    let listing = files.list("");
    let app = files.app_records();
    model.settle(&listing, &app, is_durable)?;
    check_extents(rig, &listing, model)?;
    rig.check_files(files)?;
    for info in &listing {
        let inode = model.inode(&info.name).ok_or("settled, but a name is missing")?.clone();
        let reader = files.open(&info.name).map_err(|error| chain(&error))?;
        match &inode.content {
            Content::Bytes(bytes) => compare_all(&*reader, bytes).map_err(Trouble::in_words)?,
            Content::Log(id) => {
                let log = model.logs.get_mut(id).ok_or("a log without records")?;
                let cut = log.recover(&*reader).map_err(Trouble::in_words)?;
                if cut > 0 {
                    rig.say(format!("log {} lost {cut} unsynced records", info.name));
                }
            }
        }
    }
    Ok(())
}

/// Checks that no two files share a block, and that all lie on the disk.
fn check_extents(rig: &Rig, listing: &[FileInfo], model: &Model) -> Result<(), String> {
    let mut runs = Vec::new();
    for info in listing {
        let inode = model.state.names[&info.name];
        runs.extend(info.extents.iter().map(|&range| (range, inode, &info.name)));
    }
    runs.sort_by_key(|(range, ..)| range.start);
    let geometry = rig.scenario.geometry();
    for pair in runs.windows(2) {
        let [(a, a_inode, a_name), (b, b_inode, b_name)] = pair else { continue };
        if a.overlaps(*b) && a_inode != b_inode {
            return Err(format!("{a_name} at {a} and {b_name} at {b} overlap"));
        }
    }
    match runs.iter().find(|(range, ..)| !geometry.holds(*range)) {
        Some((range, _, name)) => Err(format!("{name} at {range} lies past the end of the disk")),
        None => Ok(()),
    }
}

/// Reads a whole file, in two halves, and compares.
fn compare_all(reader: &dyn FileReader, bytes: &[u8]) -> Result<(), Trouble> {
    if reader.len_bytes() != bytes.len() as u64 {
        let (name, got) = (reader.name(), reader.len_bytes());
        return Err(Trouble::Wrong(format!("{name} has {got} bytes, expected {}", bytes.len())));
    }
    let half = bytes.len() / 2;
    compare(reader, bytes, 0, half)?;
    compare(reader, bytes, half, bytes.len() - half)
}

fn compare(reader: &dyn FileReader, bytes: &[u8], at: usize, len: usize) -> Result<(), Trouble> {
    let mut scratch = Vec::new();
    let got = reader
        .read_at(at as u64, len, &mut scratch)
        .map_err(|error| Trouble::failed(reader.name(), error))?;
    if got == &bytes[at..at + len] {
        return Ok(());
    }
    let wrong = got.iter().zip(&bytes[at..]).position(|(a, b)| a != b);
    Err(Trouble::Wrong(format!(
        "{}: read of {len} bytes at {at} gave {} that differ from byte {} on; extents {:?}",
        reader.name(),
        got.len(),
        at + wrong.unwrap_or(0),
        reader.extents(),
    )))
}

/// Reads the first byte and a range at once.
fn compare_batch(
    reader: &dyn FileReader,
    bytes: &[u8],
    at: usize,
    len: usize,
) -> Result<(), Trouble> {
    let name = reader.name();
    let got = reader.read_batch(&[(0, 1), (at as u64, len)]);
    let got = got.map_err(|error| Trouble::failed(name, error))?;
    if got.len() == 2 && got[0] == bytes[..1] && got[1] == bytes[at..at + len] {
        return Ok(());
    }
    Err(Trouble::Wrong(format!("{name}: a batch of reads differs from single ones")))
}

/// Bytes that show to which file they belong, and at which offset.
fn content(prng: &mut Prng, id: u64, len: usize) -> Arc<Vec<u8>> {
    let mut bytes = Vec::with_capacity(len + 16);
    let salt = prng.next_u64();
    while bytes.len() < len {
        bytes.extend_from_slice(&(id << 32 | bytes.len() as u64).to_le_bytes());
        bytes.extend_from_slice(&salt.to_le_bytes());
    }
    bytes.truncate(len);
    Arc::new(bytes)
}

fn bytes_inode(inode: &Inode) -> Option<&Arc<Vec<u8>>> {
    match &inode.content {
        Content::Bytes(bytes) => Some(bytes),
        Content::Log(_) => None,
    }
}
