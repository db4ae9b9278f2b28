//! A backup of which a part rotted or cannot be read, while it counts and while it does not.

use super::format::{Found, Header, Sums};
use super::tests::below_what_lives;
use crate::tests::stage::{Stage, assert_sound, content, interlaced, put, table, verify};
use crate::{Commit, FileKind, FileLayer, Files, FilesError, Hints};
use imbrex_disk::{BLOCK_LEN_BYTES, BlockRange, Blocks, Disk, Lba, Persist};
use imbrex_disk_sim::FaultPlan;

/// The blocks of the backup region, in order.
fn region_of(files: &FileLayer) -> Vec<Lba> {
    let rewriter = files.inner.rewriter.as_ref().unwrap();
    let backup = rewriter.backup.lock();
    let pieces = backup.region().pieces().iter();
    pieces.flat_map(|piece| (piece.start.get()..piece.end().get()).map(Lba::new)).collect()
}

/// The power goes after so many events of a rewrite; `None` if it was over before.
fn cut_after(after: u64) -> Option<(Stage, Vec<Lba>, u64)> {
    let (stage, files) = below_what_lives();
    let power_cut_after = Some(after);
    stage.disk.set_faults(FaultPlan { power_cut_after, ..FaultPlan::default() });
    let result = put(&files, "new", 110, 2);
    let (region, format_id) = (region_of(&files), files.format_id());
    drop(files);
    stage.power_cycle(after);
    result.is_err().then_some((stage, region, format_id))
}

/// What is wrong with the backup, in the words of the check; that writes are refused for it.
fn finding(files: &FileLayer) -> Option<String> {
    let report = files.check().unwrap();
    let found: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
    assert!(found.len() <= 1, "{found:?}");
    let told = found.into_iter().next()?;
    let results = [
        files.persist(vec![table("more", 3, 2)]).map(drop),
        files.create_log("log", Hints::new(FileKind::Log)).map(drop),
        files.commit(Commit { remove: vec!["top".into()], ..Commit::default() }),
    ];
    for result in results {
        match result {
            Err(error @ FilesError::Corrupt { .. }) => {
                assert!(error.to_string().contains("backup of rewritten tracks"), "{error}");
            }
            other => panic!("{other:?}"),
        }
    }
    Some(told)
}

/// How many blocks of a file cannot be read as they were written.
fn wrong_blocks(files: &FileLayer, name: &str) -> usize {
    let reader = files.open(name).unwrap();
    let expected = content(name, reader.len_bytes() as usize);
    let mut scratch = Vec::new();
    let is_wrong = |(index, block): &(usize, &[u8])| {
        let at = (index * BLOCK_LEN_BYTES) as u64;
        reader.read_at(at, BLOCK_LEN_BYTES, &mut scratch).map_or(true, |got| got != *block)
    };
    expected.chunks(BLOCK_LEN_BYTES).enumerate().filter(is_wrong).count()
}

/// A rewrite was cut, and one block of its backup rotted, or cannot be read any more. All of the backup
/// was taken for one that had never been whole then, without a word, or the drive did not open.
#[test]
fn one_block_of_a_backup_takes_no_other_with_it() {
    let mut counts = [0; 3];
    for rots in [true, false] {
        for after in 0.. {
            let Some((stage, region, _)) = cut_after(after) else { break };
            let at = region[1 + after as usize % (region.len() - 1)];
            match rots {
                true => stage.disk.flip_bit(at, 5).unwrap(),
                false => stage.disk.damage(BlockRange::new(at, Blocks::new(1))),
            }
            let files = stage.open().unwrap_or_else(|error| panic!("{after} {rots}: {error}"));
            verify(&files, "rest", "rest").unwrap();
            let wrong = wrong_blocks(&files, "top");
            assert!(wrong <= 1, "{after} {rots}: {wrong}");
            match finding(&files) {
                None => {
                    assert_eq!(wrong, 0, "{after} {rots}: nobody said so");
                    counts[0] += 1;
                }
                Some(told) => {
                    assert!(told.contains("of \"top\""), "{told}");
                    counts[1 + usize::from(rots)] += 1;
                    drop(files);
                    // Nothing was written over it.
                    let files = stage.open().unwrap();
                    assert_eq!(finding(&files), Some(told));
                    assert_eq!(wrong_blocks(&files, "top"), wrong);
                }
            }
        }
    }
    assert!(counts.iter().all(|&count| count > 10), "{counts:?}");
}

/// Power cuts alone are no damage, whatever they left of a backup.
#[test]
fn a_backup_that_was_cut_is_no_damage() {
    for after in 0.. {
        let Some((stage, ..)) = cut_after(after) else { break };
        let files = stage.open().unwrap();
        assert_eq!(finding(&files), None, "{after}");
        for name in ["rest", "top"] {
            verify(&files, name, name).unwrap_or_else(|error| panic!("{after}: {error}"));
        }
    }
}

/// A program of before has left a backup with one checksum for all.
#[test]
fn a_backup_of_version_1_is_moved_back() {
    let mut count = 0;
    for after in 0.. {
        let Some((stage, region, format_id)) = cut_after(after) else { break };
        let mut block = vec![0; BLOCK_LEN_BYTES];
        let mut read = |at: Lba| stage.disk.read(at, &mut block).map(|()| block.clone());
        let Ok(header) = read(region[0]) else { continue };
        let Found::Whole(header) = Header::find(&header, format_id) else { continue };
        let len: Blocks = header.homes.iter().map(|home| home.len).sum();
        let data = region[1..=len.get() as usize].iter();
        let sum = data.fold(0, |sum, &at| crc32c::crc32c_append(sum, &read(at).unwrap()));
        let header = Header { sums: Sums::OfAll(sum), ..header };
        stage.disk.write(region[0], &header.encode(), Persist::Through).unwrap();
        let files = stage.open().unwrap();
        for name in ["rest", "top"] {
            verify(&files, name, name).unwrap_or_else(|error| panic!("{after}: {error}"));
        }
        assert_sound(&files);
        put(&files, "last", 20, 2).unwrap();
        count += 1;
    }
    assert!(count > 30, "{count}");
}

/// The header's first block says whether there is a backup at all. One unreadable block behind it, of
/// whatever the last rewrite left there, kept the drive from opening ever again, though all was well.
#[test]
fn an_unreadable_header_never_keeps_a_drive_from_opening() {
    // Headers are as long as a top track has blocks.
    let stage = interlaced(12_000, 300, 300, 0);
    let files = stage.format_small("track-tiers").unwrap();
    put(&files, "a", 700, 1).unwrap();
    let region = region_of(&files);
    drop(files);
    let lose = |at: Lba| stage.disk.damage(BlockRange::new(at, Blocks::new(1)));
    lose(region[1]);
    let files = stage.open().unwrap();
    assert_sound(&files);
    put(&files, "b", 700, 1).unwrap();
    drop(files);
    lose(region[0]);
    let files = stage.open().unwrap();
    for name in ["a", "b"] {
        verify(&files, name, name).unwrap();
    }
    let told = finding(&files).unwrap();
    assert!(told.contains(&format!("block {}: its header cannot be read", region[0])), "{told}");
}

#[test]
fn a_rotten_header_is_told_unless_nothing_was_lost() {
    let mut counts = [0; 2];
    for after in 0.. {
        let Some((stage, region, _)) = cut_after(after) else { break };
        let mut block = vec![0; BLOCK_LEN_BYTES];
        let is_header = stage.disk.read(region[0], &mut block).is_ok() && block[0] != 0;
        stage.disk.flip_bit(region[0], 8 * 44).unwrap();
        let files = stage.open().unwrap();
        let told = finding(&files);
        assert_eq!(told.is_some(), is_header, "{after}: {told:?}");
        counts[usize::from(is_header)] += 1;
        if let Some(told) = told {
            assert!(told.contains("the checksum of its header does not match"), "{told}");
        } else {
            verify(&files, "top", "top").unwrap();
        }
    }
    assert!(counts.iter().all(|&count| count > 5), "{counts:?}");
}

#[test]
fn a_backup_of_a_newer_version_is_refused() {
    let mut block = vec![0; BLOCK_LEN_BYTES];
    let mut is_there = |(stage, region, _): &(Stage, Vec<Lba>, u64)| {
        stage.disk.read(region[0], &mut block).is_ok() && block.starts_with(b"IMBXBAK")
    };
    let (stage, region, _) = (0..).map_while(cut_after).find(|cut| is_there(cut)).unwrap();
    (block[8], block[100]) = (3, 1);
    stage.disk.write(region[0], &block, Persist::Through).unwrap();
    let error = stage.open().unwrap_err();
    assert!(matches!(error, FilesError::Version { got: 3, known: 2, .. }), "{error}");
}
