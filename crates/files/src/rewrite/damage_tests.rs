//! Backups with a rotten or unreadable part, while they count and while they do not; and tables
//! below a part that cannot be read.

use super::format::{FoundHeader, Header, Sums};
use super::tests::below_what_lives;
use crate::tests::stage::{
    Stage, assert_honest, assert_sound, content, interlaced, put, remove, table, verify,
};
use crate::{Commit, FileBuffer, FileKind, FileLayer, Files, FilesError, Hints, PlacementOptions};
use imbrex_clockwork::{Prng, seeds};
use imbrex_disk::{BLOCK_LEN_BYTES, BlockRange, Blocks, Disk, Lba, Persist};
use imbrex_disk_sim::FaultPlan;

/// The blocks of the backup region, in order.
fn region_of(files: &FileLayer) -> Vec<Lba> {
    let rewriter = files.inner.rewriter.as_ref().unwrap();
    let backup = rewriter.backup.lock();
    let pieces = backup.region().pieces().iter();
    pieces.flat_map(|piece| (piece.start.get()..piece.end().get()).map(Lba::new)).collect()
}

/// Cuts the power after that many events of a rewrite; `None` if the rewrite was over before.
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

/// The fault of the backup in the words of the check. Also verifies that writes are refused because
/// of it.
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

/// How many blocks of a file do not read as they were written.
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

/// A rewrite was cut, and one block of its backup rotted or became unreadable. The whole backup was
/// then silently taken for one that had never been complete, or the drive did not open.
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
                    assert_eq!(wrong, 0, "{after} {rots}: not reported");
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

/// Power cuts alone are no damage, whatever they leave of a backup.
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

/// A file with a block of zeros shares an entry with a file that was never committed. Its zeros
/// were taken for the result of a discard.
#[test]
fn zeros_that_were_saved_are_no_damage() {
    let mut count = 0;
    for (after, seed) in (0..400).flat_map(|after| seeds(8).map(move |seed| (after, seed))) {
        let stage = interlaced(720, 16, 16, 256);
        let options = PlacementOptions { unit_len: Blocks::new(16), ..PlacementOptions::default() };
        let files = stage.format_with("track-tiers", options).unwrap();
        put(&files, "low", 112, 2).unwrap();
        put(&files, "rest", 128, 2).unwrap();
        let hints = Hints { level: 1, ..Hints::new(FileKind::Other) };
        let mut top = FileBuffer::new("top", hints);
        let mut expected = content("top", 120 * BLOCK_LEN_BYTES);
        expected[115 * BLOCK_LEN_BYTES..][..BLOCK_LEN_BYTES].fill(0);
        top.append(&expected);
        let add = files.persist(vec![top]).unwrap();
        let end = add[0].extents().last().unwrap().end();
        files.commit(Commit { add, ..Commit::default() }).unwrap();
        remove(&files, &["low"]).unwrap();
        let mut beside = FileBuffer::new("beside", hints);
        beside.append(&content("beside", 8 * BLOCK_LEN_BYTES));
        let beside = files.persist(vec![beside]).unwrap();
        assert_eq!(beside[0].extents()[0].start, end);
        let power_cut_after = Some(after);
        stage.disk.set_faults(FaultPlan { power_cut_after, ..FaultPlan::default() });
        let is_over = put(&files, "new", 110, 2).is_ok();
        drop((beside, files));
        stage.power_cycle(seed);
        let files = stage.open().unwrap();
        assert_eq!(finding(&files), None, "{after}, seed {seed}");
        let got = files.open("top").unwrap();
        let mut scratch = Vec::new();
        let is_same = got.read_at(0, expected.len(), &mut scratch).is_ok_and(|got| got == expected);
        assert!(is_same, "{after}, seed {seed}");
        count += 1;
        if is_over {
            break;
        }
    }
    assert!(count > 25, "{count}");
}

/// An older program left a backup with one checksum for all entries.
#[test]
fn a_backup_of_version_1_is_moved_back() {
    let mut count = 0;
    for after in 0.. {
        let Some((stage, region, format_id)) = cut_after(after) else { break };
        let mut block = vec![0; BLOCK_LEN_BYTES];
        let mut read = |at: Lba| stage.disk.read(at, &mut block).map(|()| block.clone());
        let Ok(header) = read(region[0]) else { continue };
        let FoundHeader::Whole(header) = Header::find(&header, format_id) else { continue };
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

/// The first block of the header shows whether there is a backup at all. One unreadable block after
/// it, with leftovers of the last rewrite, kept the drive from opening ever again, though nothing
/// was wrong.
#[test]
fn an_unreadable_header_never_keeps_a_drive_from_opening() {
    // A header has as many blocks as a top track.
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
    assert_eq!(finding(&files), None);
    // The header was zeroed, which repaired it.
    let mut block = vec![1; BLOCK_LEN_BYTES];
    stage.disk.read(region[0], &mut block).unwrap();
    assert!(block.iter().all(|&byte| byte == 0));
}

/// The power fails while the header is written or zeroed, and the header is unreadable: nothing was
/// moved away. If the same header is lost while data were moved away, that is reported.
#[test]
fn an_unreadable_header_is_reported_if_data_were_moved_away() {
    let mut counts = [0; 2];
    for after in 0.. {
        let Some((stage, region, _)) = cut_after(after) else { break };
        stage.disk.damage(BlockRange::new(region[0], Blocks::new(1)));
        let files = stage.open().unwrap();
        let told = finding(&files);
        let is_lost = ["rest", "top"].into_iter().any(|name| verify(&files, name, name).is_err());
        assert_eq!(told.is_some(), is_lost, "{after}: {told:?}");
        counts[usize::from(is_lost)] += 1;
        if let Some(told) = told {
            let expected = format!("block {}: its header cannot be read", region[0]);
            assert!(told.contains(&expected), "{told}");
        }
    }
    assert!(counts.iter().all(|&count| count > 3), "{counts:?}");
}

#[test]
fn a_rotten_header_is_reported_unless_nothing_was_lost() {
    let mut counts = [0; 2];
    // One flipped bit is corrected.
    for (bits, after) in (0..).flat_map(|after| [(&[352][..], after), (&[352, 368][..], after)]) {
        let Some((stage, region, _)) = cut_after(after) else { break };
        let mut block = vec![0; BLOCK_LEN_BYTES];
        let is_header = stage.disk.read(region[0], &mut block).is_ok() && block[0] != 0;
        bits.iter().for_each(|&bit| stage.disk.flip_bit(region[0], bit).unwrap());
        let files = stage.open().unwrap();
        let told = finding(&files);
        assert_eq!(told.is_some(), is_header && bits.len() == 2, "{after}: {told:?}");
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

/// One unreadable block of a table on top failed every write below it, under the name of an intact
/// table. The block was not remembered: the next plan took the same track, and so did the first
/// plan after an opening.
#[test]
fn an_unreadable_block_on_top_stops_no_write() {
    for nth in [0, 17, 40, 100, 127] {
        let (stage, files) = below_what_lives();
        let extents = files.open("top").unwrap().extents();
        let mut blocks = extents.iter().flat_map(|e| e.start.get()..e.end().get());
        let at = Lba::new(blocks.nth(nth).unwrap());
        stage.disk.damage(BlockRange::new(at, Blocks::new(1)));
        put(&files, "x1", 16, 2).unwrap();
        put(&files, "x2", 16, 2).unwrap();
        drop(files);
        let files = stage.open().unwrap();
        // Several tables at once, some of which are written before the block is met.
        let batch = ["x3", "x4", "x5"].map(|name| table(name, 16, 2));
        let add = files.persist(batch.into()).unwrap();
        files.commit(Commit { add, ..Commit::default() }).unwrap();
        for name in ["rest", "x1", "x2", "x3", "x4", "x5"] {
            verify(&files, name, name).unwrap();
        }
        assert_eq!(wrong_blocks(&files, "top"), 1);
        assert!(files.stats().rewrites > 0);
        assert_sound(&files);
        // A refusal because of the block has honest numbers; once the table is gone the block no
        // longer matters.
        let free_bytes = files.space().free_bytes;
        remove(&files, &["top", "x5"]).unwrap();
        assert!(files.space().free_bytes >= free_bytes + 128 * BLOCK_LEN_BYTES as u64);
        put(&files, "last", 100, 2).unwrap();
        verify(&files, "last", "last").unwrap();
        assert_sound(&files);
    }
}

/// The same on drives that fill up, for each order of tracks: intact files stay intact, and a
/// refused write was refused for lack of room.
#[test]
fn unreadable_blocks_among_many_tables() {
    let placements =
        ["track-tiers", "track-tiers-naive", "track-tiers-fullest", "track-sequential"];
    for (seed, placement) in seeds(3).flat_map(|seed| placements.map(|name| (seed, name))) {
        let stage = interlaced(1500, 10, 8, 0);
        let files = stage.format_small(placement).unwrap();
        let mut prng = Prng::new(seed);
        let mut names: Vec<String> = Vec::new();
        let mut damaged: Vec<String> = Vec::new();
        for round in 0..250 {
            let name = format!("t{round}");
            match put(&files, &name, 1 + prng.below(40), prng.below(4) as u8) {
                Ok(()) => names.push(name),
                Err(error @ FilesError::NoSpace { .. }) => assert_honest(&error),
                Err(error) => panic!("{placement} {seed} {round}: {error}"),
            }
            if names.len() > 45 {
                let gone = names.swap_remove(prng.below(names.len() as u64) as usize);
                damaged.retain(|name| *name != gone);
                remove(&files, &[&gone]).unwrap();
            }
            if round % 20 == 19 {
                let name = &names[prng.below(names.len() as u64) as usize];
                let at = files.open(name).unwrap().extents()[0].start;
                stage.disk.damage(BlockRange::new(at, Blocks::new(1)));
                damaged.push(name.clone());
            }
        }
        for name in names.iter().filter(|name| !damaged.contains(name)) {
            verify(&files, name, name).unwrap();
        }
        assert!(files.stats().rewrites > 10, "{placement}");
        assert_sound(&files);
    }
}

/// A sum of its lengths overflowed, which a correct checksum does not prevent.
#[test]
fn a_forged_header_has_no_track_that_is_longer_than_any() {
    let decoded = |len: u64| {
        let homes = vec![BlockRange::new(Lba::new(0), Blocks::new(len))];
        let header = Header { format_id: 1, number: 1, homes, sums: Sums::OfAll(0) };
        Header::decode(&header.encode())
    };
    assert!(decoded(5).is_some());
    assert!(decoded(u64::MAX).is_none());
}
