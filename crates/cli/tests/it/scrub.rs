//! `imbrex scrub` and `imbrex check --repair`: rot that is planted, found, and mended where there is a second copy.

use crate::bad_input::data_offsets;
use crate::copies::{Kills, content, drive_and_target, flip_a_bit, kill_when, start, tables, text};
use crate::crash::{signal, wait_until_open};
use crate::{Drive, copy_sparse, imbrex, json_lines};
use imbrex_clockwork::{Prng, share_of};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

const COUNT: usize = 2000;
const BLOCK_LEN_BYTES: usize = 4096;

/// Where the image at `path` has the blocks of the table whose bytes are in `copy`.
fn places(path: &Path, copy: &Path) -> Vec<u64> {
    let bytes = fs::read(copy).unwrap();
    let image = fs::File::open(path).unwrap();
    let mut block = vec![0; BLOCK_LEN_BYTES];
    let mut begins = |wanted: &[u8], at: u64| {
        image.read_exact_at(&mut block, at).is_ok() && block.starts_with(wanted)
    };
    let blocks: Vec<&[u8]> = bytes.chunks(BLOCK_LEN_BYTES).collect();
    let at = data_offsets(path);
    let at = at.into_iter().find(|&at| begins(blocks[0], at)).expect("the table is on the drive");
    let places: Vec<u64> =
        (0..blocks.len() as u64).map(|n| at + n * BLOCK_LEN_BYTES as u64).collect();
    for (wanted, &at) in blocks.iter().zip(&places) {
        assert!(begins(wanted, at), "the table is in one piece");
    }
    places
}

fn scrub(drive: &str, args: &[&str]) -> (Option<i32>, serde_json::Value) {
    let ran = imbrex(&[&["scrub", drive, "--format", "json"], args].concat());
    assert!(!ran.stderr.contains("panicked"), "{}", ran.stderr);
    (ran.code, serde_json::from_slice(&ran.stdout).unwrap_or_default())
}

fn count_of(report: &serde_json::Value, row: &str) -> usize {
    report[row].as_array().unwrap_or_else(|| panic!("{report}")).len()
}

/// Each block of a table in turn: mended from its copies, or lost, and then mended from the backup.
#[test]
fn a_flipped_bit_in_any_block_is_found_and_mended_where_there_is_a_second_copy() {
    let (drive, target) = drive_and_target(COUNT);
    drive.run("backup", &[text(&target)]).ok();
    let before = content(drive.path_str());
    let (code, report) = scrub(drive.path_str(), &[]);
    assert_eq!((code, count_of(&report, "damaged_tables")), (Some(0), 0), "{report}");
    let [table] = &tables(&target)[..] else { panic!("one table") };
    let (places, len_bytes) = (places(&drive.path(), table), fs::metadata(table).unwrap().len());
    let (mut own_count, mut lost_count) = (0, 0);
    // The middle of each block, and near its end: the footer ends the last one.
    let tries = places.iter().enumerate().flat_map(|(block, at)| [(block, at, 2), (block, at, 1)]);
    for (block, at, part) in tries {
        let copy = drive.beside("rotten.imbrex");
        copy_sparse(&drive.path(), &copy);
        let used = (len_bytes - (block * BLOCK_LEN_BYTES) as u64).min(BLOCK_LEN_BYTES as u64);
        flip_a_bit(&copy, at + used / part - 40);
        let rotten = text(&copy);
        let (code, report) = scrub(rotten, &[]);
        match code {
            Some(0) => {
                assert_eq!(count_of(&report, "mended_tables"), 1, "block {block}: {report}");
                assert_eq!(report["mended_tables"][0]["from"], "its own copies");
                own_count += 1;
            }
            _ => {
                assert_eq!(code, Some(5), "block {block}: {report}");
                let place = report["damaged_tables"][0]["place"].as_str().unwrap();
                assert!(place.contains("the keys from key000000 to key001999"), "{place}");
                imbrex(&["check", rotten]).fails(5, &["imbrex salvage"]);
                let (code, report) = scrub(rotten, &["--from", text(&target)]);
                assert_eq!(code, Some(0), "block {block}: {report}");
                assert_eq!(report["mended_tables"][0]["from"], "the backup");
                lost_count += 1;
            }
        }
        let (code, report) = scrub(rotten, &[]);
        assert_eq!((code, count_of(&report, "mended_tables")), (Some(0), 0), "{report}");
        imbrex(&["check", rotten]).ok();
        assert!(content(rotten) == before, "block {block}");
    }
    assert!(
        own_count >= 1 && lost_count >= 2,
        "{own_count} from copies, {lost_count} from the backup"
    );
}

#[test]
fn a_mended_table_is_mended_in_checkpoints_too() {
    let (drive, target) = drive_and_target(COUNT);
    let at = drive.path_str();
    let before = content(at);
    imbrex(&["checkpoint", "make", at, "monday"]).ok();
    imbrex(&["checkpoint", "make", at, "tuesday"]).ok();
    drive.run("backup", &[text(&target)]).ok();
    let table = tables(&target).remove(0);
    flip_a_bit(&drive.path(), places(&drive.path(), &table)[0] + 99);
    drive.run("check", &["--repair", "--from", text(&target)]).ok();
    drive.run_with(json_lines(COUNT, 2).as_bytes(), "load", &["-"]).ok();
    drive.run("compact", &[]).ok();
    for name in ["monday", "tuesday"] {
        let scanned = drive.run("scan", &["--checkpoint", name, "--format", "json"]).ok();
        assert!(scanned == before, "{name}");
    }
    // A table that only checkpoints have.
    flip_a_bit(&drive.path(), places(&drive.path(), &table)[0] + 99);
    let (code, report) = scrub(at, &[]);
    assert_eq!(code, Some(5), "{report}");
    let place = report["damaged_tables"][0]["place"].as_str().unwrap();
    assert!(place.contains("of a checkpoint"), "{place}");
    assert_eq!(scrub(at, &["--from", text(&target)]).0, Some(0));
    for name in ["monday", "tuesday"] {
        let scanned = drive.run("scan", &["--checkpoint", name, "--format", "json"]).ok();
        assert!(scanned == before, "{name}");
    }
    drive.run("check", &[]).ok();
}

#[test]
fn check_repairs_what_it_can_and_lists_the_rest_by_keys() {
    let (drive, target) = drive_and_target(COUNT);
    let before = content(drive.path_str());
    drive.run("backup", &[text(&target)]).ok();
    flip_a_bit(&drive.path(), places(&drive.path(), &tables(&target)[0])[1] + 7);
    let ran = drive.run("check", &["--repair", "--format", "json"]);
    assert!(
        ran.stderr.contains("the keys from key000000 to key001999 is damaged"),
        "{}",
        ran.stderr
    );
    let report: serde_json::Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(count_of(&report["repaired"], "damaged_tables"), 1, "{report}");
    ran.fails(5, &["imbrex salvage"]);
    let report =
        drive.run("check", &["--repair", "--from", text(&target), "--format", "json"]).json();
    assert_eq!(count_of(&report["repaired"], "mended_tables"), 1, "{report}");
    assert_eq!(count_of(&report["result"], "findings"), 0, "{report}");
    assert_eq!(content(drive.path_str()), before);
    drive.run("check", &["--repair", "--read-only"]).fails_usage();
    drive.run("check", &["--from", text(&target)]).fails_usage();
}

/// A drive with a short table and a long one; a scrub at a low rate is soon in the second.
fn slow_to_scrub() -> (Drive, PathBuf) {
    let drive = Drive::new();
    drive.run("put", &["a", "1"]).ok();
    drive.run("compact", &[]).ok();
    drive.run_with(json_lines(20_000, 1).as_bytes(), "load", &["-"]).ok();
    let state = drive.beside("state");
    (drive, state)
}

/// A slow scrub that has written its state.
fn begin_slow_scrub(drive: &Drive, state: &Path) -> Child {
    let mut command = crate::command();
    command.args(["scrub", drive.path_str(), "--rate", "100KiB", "--state", text(state)]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while !fs::read_to_string(state).is_ok_and(|text| text.ends_with('\n')) {
        assert!(child.try_wait().unwrap().is_none(), "it ended before its state was seen");
        std::thread::yield_now();
    }
    child
}

#[test]
fn a_scrub_that_is_stopped_or_killed_continues_where_it_was() {
    let (drive, state) = slow_to_scrub();
    let (_, all) = scrub(drive.path_str(), &[]);
    let table_count = all["tables"]["count"].as_u64().unwrap();
    assert!(table_count >= 2, "{all}");
    for name in ["-INT", "-KILL"] {
        let _ = fs::remove_file(&state);
        let child = begin_slow_scrub(&drive, &state);
        signal(&child, name);
        let ran = crate::ran(child.wait_with_output().unwrap());
        if name == "-INT" {
            ran.fails(130, &["interrupted", "the same command continues"]);
        }
        drive.run("check", &[]).ok();
        let (code, rest) = scrub(drive.path_str(), &["--state", text(&state)]);
        assert_eq!(code, Some(0), "{rest}");
        let rest_count = rest["tables"]["count"].as_u64().unwrap();
        assert!(rest_count < table_count && rest_count > 0, "{rest_count} of {table_count}");
        // The pass is complete, so the next one reads all of it.
        assert_eq!(scrub(drive.path_str(), &["--state", text(&state)]).1["tables"], all["tables"]);
    }
}

#[test]
fn a_scrub_that_is_killed_while_it_mends_leaves_a_store_that_the_next_one_mends() {
    let drive = Drive::new();
    for n in 0..6 {
        let lines = json_lines(COUNT, 1).replace("\"key0", &format!("\"k{n}"));
        drive.run_with(lines.as_bytes(), "load", &["-"]).ok();
    }
    let before = content(drive.path_str());
    let target = drive.beside("copies");
    drive.run("backup", &[text(&target)]).ok();
    let rotten = drive.beside("rotten.imbrex");
    let kills = Kills::default();
    for round in kills.rounds(6) {
        copy_sparse(&drive.path(), &rotten);
        for table in tables(&target) {
            flip_a_bit(&rotten, places(&rotten, &table)[0] + 1000);
        }
        let used = data_offsets(&rotten).len();
        let mut child = start(&["scrub", text(&rotten), "--from", text(&target)]);
        wait_until_open(&mut child, &rotten);
        kills.note(kill_when(child, || data_offsets(&rotten).len() > used + 40 * (round % 6)));
        let (code, report) = scrub(text(&rotten), &["--from", text(&target)]);
        assert_eq!(code, Some(0), "{report}");
        drive.run("check", &[]).ok();
        assert!(content(text(&rotten)) == before, "round {round}");
    }
    kills.assert_any();
}

/// Whatever is damaged: nothing panics, no wrong content comes back, and success means that nothing is damaged.
#[test]
fn a_repair_after_damage_at_random_places_never_makes_it_worse() {
    let (drive, target) = drive_and_target(COUNT);
    drive.run_with(json_lines(COUNT / 2, 2).as_bytes(), "load", &["-"]).ok();
    let before = content(drive.path_str());
    drive.run("backup", &[text(&target)]).ok();
    let offsets = data_offsets(&drive.path());
    let table = places(&drive.path(), &tables(&target)[0])[0];
    let first_table = offsets.iter().position(|&at| at == table).unwrap();
    let rotten = drive.beside("rotten.imbrex");
    let mut prng = Prng::new(40);
    let (mut mended_count, mut place_count) = (0, 0);
    let mut round_count = 0;
    for round in share_of(0..40) {
        round_count += 1;
        copy_sparse(&drive.path(), &rotten);
        for place in 0..=round % 4 * 8 {
            // One place anywhere, the others in tables: if both copies of the catalog have lost their newest record, it
            // seems never to have been written.
            let from = if place == 0 { &offsets[..] } else { &offsets[first_table..] };
            let block = from[prng.below(from.len() as u64) as usize];
            flip_a_bit(&rotten, block + prng.below(BLOCK_LEN_BYTES as u64));
            place_count += 1;
        }
        let readable = imbrex(&["scan", text(&rotten), "--read-only", "--format", "json"]);
        let ran = imbrex(&["check", text(&rotten), "--repair", "--from", text(&target)]);
        assert!(!ran.stderr.contains("panicked"), "round {round}: {}", ran.stderr);
        assert!(matches!(ran.code, Some(0 | 4 | 5)), "round {round}: {}", ran.stderr);
        mended_count += usize::from(ran.stderr.contains("was replaced"));
        let after = imbrex(&["scan", text(&rotten), "--format", "json"]);
        if ran.code == Some(0) || readable.code == Some(0) || after.code == Some(0) {
            let (code, after) = (after.code, String::from_utf8(after.stdout).unwrap());
            let (lines, wanted) = (after.lines().count(), before.lines().count());
            let differs = after.lines().zip(before.lines()).find(|(a, b)| a != b);
            assert!(
                after == before,
                "round {round}: {:?} {:?} {code:?} {lines} of {wanted} {differs:?}: {}",
                ran.code,
                readable.code,
                ran.stderr
            );
        }
        if ran.code == Some(0) {
            imbrex(&["check", text(&rotten)]).ok();
        }
    }
    assert!(
        4 * mended_count > round_count,
        "{mended_count} repairs after damage at {place_count} places"
    );
}

#[test]
fn bad_arguments_of_a_scrub_are_explained() {
    let (drive, target) = drive_and_target(10);
    drive.run("scrub", &["--rate", "0"]).fails(2, &["--rate 0"]);
    drive.run("scrub", &["--from", text(&target)]).fails(4, &[text(&target)]);
    drive.run("scrub", &["--from", drive.path_str()]).fails(4, &["not a directory"]);
    drive.run("scrub", &["--state", drive.path_str()]).fails(2, &["it is a drive"]);
    let state = drive.beside("state");
    fs::write(&state, "something else").unwrap();
    drive.run("scrub", &["--state", text(&state)]).fails(3, &["not the state of a scrub"]);
    assert_eq!(fs::read_to_string(&state).unwrap(), "something else");
    drive.run("scrub", &["--state", text(&state), "--after", "3"]).fails_usage();
    imbrex(&["scrub", "/nowhere"]).fails(4, &["/nowhere", "no such file"]);
    let (code, report) = scrub(drive.path_str(), &["--after", "1000000"]);
    assert_eq!((code, &report["tables"]["count"]), (Some(0), &serde_json::json!(0)), "{report}");
}
