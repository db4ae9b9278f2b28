use super::*;
use crate::{OpenOptions, SimDisk};
use imbrex_disk::{BLOCK_LEN_BYTES, Disk, Lba, Persist};

fn check_error(edit: impl FnOnce(&str) -> String, expected: &str) {
    let text = Profile::by_name("hc620").unwrap().text().to_owned();
    let edited = edit(&text);
    assert_ne!(edited, text, "the edit must change something");
    let error = Profile::from_toml(&edited).expect_err("a wrong profile").to_string();
    assert!(error.contains(expected), "{error}");
}

#[test]
fn wrong_profiles_name_the_field() {
    let error = Profile::by_name("hc6200").unwrap_err().to_string();
    assert!(error.starts_with("no drive profile named \"hc6200\"; there are st1000dm003"));
    check_error(|t| t.replace("head_count = 16", "head_count = 0"), "platter.head_count is 0");
    check_error(|t| t.replace("head_count = 16", "heads = 16"), "unknown field `platter.heads`");
    check_error(|t| t.replace("head_count = 16", ""), "missing field `platter.head_count`");
    check_error(
        |t| t.replace("inner_track_blocks = 270", "inner_track_blocks = 600"),
        "platter.inner_track_blocks is 600; it must be at most 559, which is platter.outer_track_blocks",
    );
    check_error(|t| t.replace("\"zoned\"", "\"shingled\""), "geometry.rule is \"shingled\"");
    check_error(
        |t| t.replace("zone_capacity_blocks = 65536", "zone_capacity_blocks = 65537"),
        "zone_capacity is 65537; it may be at most 65536",
    );
    check_error(
        |t| t.replace("zone_len_blocks = 65536", "zone_len_blocks = 4503599627370496"),
        "geometry.zones.zone_len_blocks is 4503599627370496; it must be at most ",
    );
    check_error(|t| t.replace("\"random-read\"", "\"random\""), "published.workload is \"random\"");
    check_error(
        |t| t.replace("[platter]", "[platter"),
        "drive profile: line 24: not TOML: unclosed table",
    );
    check_error(|t| t.replace("strict_reads = true", "strict_reads = 1"), "must be true or false");
    check_error(|t| t.replace("[platter]", "[plate]"), "the table [platter] is missing");
}

/// Each was reported alone, without its line.
#[test]
fn all_faults_of_a_profile_are_reported_with_their_lines() {
    let text = Profile::by_name("hc620").unwrap().text().to_owned();
    let line = |part: &str| 1 + text.lines().position(|line| line.starts_with(part)).unwrap();
    let edits = [
        ("rule = \"zoned\"", "rule = \"shingled\"", "geometry.rule is \"shingled\""),
        (
            "head_count = 16",
            "head_count = -1",
            "platter.head_count is -1; it must be between 1 and",
        ),
        (
            "bit_zone_count = 32",
            "bit_zone_count = \"32\"",
            "platter.bit_zone_count is of type string",
        ),
        (
            "knee_ns = 8600000",
            "kneens = 8600000",
            "unknown field `seek.kneens`; there are settle_ns",
        ),
        ("queue_depth = 16", "queue_depth = 0", "published.queue_depth is 0"),
    ];
    let mut wrong = text.clone();
    edits.iter().for_each(|(from, to, _)| wrong = wrong.replace(from, to));
    // The workload of the last figure.
    wrong = wrong.replace("\"random-read\"", "\"random\"");
    let error = Profile::from_toml(&wrong).unwrap_err();
    let shown = error.to_string();
    let ProfileError::Faulty { faults } = error else { panic!("{shown}") };
    for (from, _, want) in edits {
        let fault = faults.iter().find(|fault| fault.message.contains(want));
        let fault = fault.unwrap_or_else(|| panic!("{want}: {shown}"));
        assert_eq!(fault.line, Some(line(from)), "{fault}");
    }
    let missing = faults.iter().find(|f| f.message == "missing field `seek.knee_ns`").unwrap();
    assert_eq!(missing.line, Some(line("[seek]")));
    let word = faults.iter().find(|f| f.message.starts_with("published.workload is")).unwrap();
    assert_eq!(word.line, Some(line("workload = \"random-read\"")));
    assert_eq!(faults.len(), edits.len() + 2, "{shown}");
    assert!(shown.starts_with("drive profile: 7 errors: line "), "{shown}");
}

#[test]
fn the_guide_has_every_field_of_a_profile() {
    let page = include_str!("../../../../docs/guide/drive_profiles.md");
    for (field, range) in fields::reference() {
        let row = page.lines().find(|line| line.starts_with(&format!("| `{field}` |")));
        let row = row.unwrap_or_else(|| panic!("{field} is missing"));
        assert!(row.contains(&format!("| {range} |")), "{field}, {range}: {row}");
    }
}

#[test]
fn the_drives_have_their_published_shape() {
    let hc620 = Profile::by_name("HC620").unwrap().geometry();
    assert_eq!(hc620.zone_count(), 55_880);
    assert_eq!(hc620.zones().unwrap().conventional_zone_count, 524);
    assert_eq!(hc620.zones().unwrap().zone_len.bytes(), 256 << 20);
    let st13 = Profile::by_name("st13125nm007").unwrap().geometry();
    assert_eq!(st13.len().bytes() / 1_000_000_000, 12_999);
    let hc690 = Profile::by_name("hc690").unwrap().geometry();
    assert_eq!((hc690.zone_count(), hc690.len().bytes() / 1_000_000_000), (119_212, 32_000));
    let exos = Profile::by_name("st20000nm007d").unwrap().geometry();
    assert_eq!(exos.len().bytes(), 20_000_588_955_648);
    let st1 = Profile::by_name("st1000dm003").unwrap().geometry();
    assert_eq!(st1.len().bytes(), 1_000_204_886_016);
    let st5 = Profile::by_name("st500dm002").unwrap().geometry();
    assert_eq!(st5.interlaced(), Some(&crate::KVIMR_TRACKS));
    assert_eq!((st5.len().bytes() >> 20, st5.track_count()), (95_368, 47_684), "100 GB");
}

#[test]
fn scaling_keeps_whole_zones_and_the_conventional_share() {
    let profile = Profile::by_name("hc620").unwrap();
    let small = profile.scaled((8 << 30) + 5).unwrap().geometry();
    assert_eq!(small.zone_count(), 32);
    assert_eq!(small.zones().unwrap().conventional_zone_count, 2);
    let tenth = profile.scaled(1_500_000_000_000).unwrap().geometry();
    assert_eq!(tenth.zones().unwrap().conventional_zone_count, 53);
    let error = profile.scaled(1 << 29).unwrap_err().to_string();
    assert_eq!(error, "the drive's length is 512 MiB; it must be between 1.00 GiB and 13.6 TiB");
    let zones = profile.with_zone_len(Blocks::new(4_096)).unwrap().scaled(1 << 30).unwrap();
    assert_eq!(zones.geometry().zone_count(), 64);
    assert!(profile.with_zone_len(Blocks::new(0)).is_err());
}

#[test]
fn an_image_remembers_its_profile() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("drive.img");
    let profile = Profile::by_name("hc620").unwrap().scaled(2 << 30).unwrap();
    let builder = SimDisk::builder(profile.geometry()).profile(profile);
    drop(builder.create_image(&path, "", 1).unwrap());
    let disk = SimDisk::open_image(&path, OpenOptions::default()).unwrap();
    assert_eq!(disk.image().unwrap().profile_name, "hc620");
    let mut buf = [0; BLOCK_LEN_BYTES];
    disk.write(Lba::new(0), &buf, Persist::Through).unwrap();
    disk.read(Lba::new(100_000), &mut buf).unwrap();
    assert!(disk.counters().busy_ns > 1_000_000);
    assert_eq!(disk.counters().seeks, 1);
    drop(disk);
    let options = OpenOptions::default().mechanics(false);
    let disk = SimDisk::open_image(&path, options).unwrap();
    disk.write(Lba::new(0), &buf, Persist::Through).unwrap();
    assert_eq!(disk.counters().busy_ns, 0);
}

#[test]
fn a_profile_takes_another_rule_and_keeps_its_mechanics() {
    let profile = Profile::by_name("st1000dm003").unwrap().scaled(1 << 30).unwrap();
    let shingled = profile.with_rule(Rule::IsolationDistance(crate::SEALDB_SHINGLE)).unwrap();
    assert_eq!(shingled.geometry().rule().name(), "shingled");
    assert_eq!(shingled.geometry().len(), profile.geometry().len());
    assert_eq!(crate::SEALDB_SHINGLE.isolation_len().bytes(), 4 << 20, "SEALDB's guard");
    let disk = SimDisk::builder(shingled.geometry()).profile(shingled).memory().unwrap();
    disk.write(Lba::new(0), &[1; 4096], Persist::Through).unwrap();
    assert!(disk.counters().busy_ns > 0);
    let far = ShingleSpec { track_len: Blocks::new(64), overlap_tracks: 1 << 20 };
    assert!(profile.with_rule(Rule::IsolationDistance(far)).is_err(), "longer than the drive");
}

#[test]
fn a_shingled_profile_can_be_written_as_toml() {
    let text = Profile::by_name("st1000dm003").unwrap().text().to_owned();
    let tracks = "rule = \"shingled\"\ntracks = { track_len_blocks = 64, overlap_tracks = 16 }";
    let shingled = text.replace("rule = \"conventional\"", tracks);
    let rule = *Profile::from_toml(&shingled).unwrap().geometry().rule();
    assert_eq!(rule, Rule::IsolationDistance(crate::SEALDB_SHINGLE));
    let interlaced = shingled.replace("\"shingled\"", "\"interlaced\"");
    let error = Profile::from_toml(&interlaced).unwrap_err().to_string();
    assert!(error.contains("\"interlaced\" with one of bottom_track_len_blocks"), "{error}");
    let error = Profile::from_toml(&text.replace("\"conventional\"", "\"shingled\"")).unwrap_err();
    assert!(error.to_string().contains("\"shingled\" with a table geometry.tracks"), "{error}");
}
