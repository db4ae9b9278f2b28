//! Frames of a real store, recorded, read back, drawn and told as metrics.

use crate::screen::{Terminal, draw};
use crate::*;
use imbrex::Layout;
use imbrex::stack::Stack;
use imbrex_clockwork::Runtime;
use imbrex_disk::Blocks;
use imbrex_disk_sim::SimDisk;
use imbrex_files::Files;
use std::collections::BTreeMap;
use std::sync::Arc;

fn store() -> Stack {
    let disk = Arc::new(SimDisk::tiny_zoned(64, Blocks::new(256)));
    Layout::by_name("leveled-zones").unwrap().format(disk, &Runtime::threads(2)).unwrap()
}

fn put(stack: &Stack, numbers: std::ops::Range<u32>) {
    let keyspace = stack.db.default_keyspace();
    for number in numbers {
        // 7919 has no divisor in common with 3000: each key once, in no order.
        let key = number * 7919 % 3000;
        keyspace.put(key.to_be_bytes(), vec![7; 1000]).unwrap();
    }
}

/// The lines of a store that is loaded in three parts, and the store.
fn lines() -> (Vec<Line>, Stack) {
    let stack = store();
    let mut sampler = Sampler::new(0);
    let subject = Subject::of(&stack);
    let mut lines =
        vec![Line::Head(Box::new(sampler.head("a \"store\"", "leveled-zones", subject, true)))];
    let mut take = |lines: &mut Vec<Line>, at_ns| {
        let frame = sampler.frame(at_ns, Subject::of(&stack), None);
        lines.push(Line::Frame(Box::new(frame)));
    };
    take(&mut lines, 0);
    for part in 0..3 {
        put(&stack, part * 1000..part * 1000 + 1000);
        stack.db.flush().unwrap();
        take(&mut lines, u64::from(part + 1) * 1_000_000_000);
    }
    stack.db.default_keyspace().compact_range(None, None).unwrap();
    take(&mut lines, 4_000_000_000);
    (lines, stack)
}

fn scene_of(lines: &[Line]) -> Scene {
    let mut scenes = BTreeMap::new();
    lines.iter().for_each(|line| Scene::apply_to(&mut scenes, line));
    scenes.remove(&0).unwrap()
}

/// Frames add up to what the store has, with keys and places; what a compaction removed is gone.
#[test]
fn frames_add_up_to_the_store() {
    let (lines, stack) = lines();
    let scene = scene_of(&lines);
    let files: Vec<String> = stack.files.list("").into_iter().map(|file| file.name).collect();
    assert_eq!(scene.files.keys().cloned().collect::<Vec<_>>(), files);
    let tables = scene.files.values().filter(|file| file.keyspace.is_some());
    let tables: Vec<_> = tables.collect();
    assert_eq!(tables.iter().map(|table| table.entries).sum::<u64>(), 3000);
    assert!(tables.iter().all(|table| table.first_key.is_some() && !table.extents.is_empty()));
    assert!(scene.last.ended.iter().any(|line| line.read_bytes > 0), "{:?}", scene.last.ended);
    assert_eq!(scene.last.store.user_ops, 3000);
    let cells = scene.cells(u64::MAX);
    assert_eq!(cells.len(), 64, "a cell for each zone");
    let live: u64 = cells.iter().map(Cell::all_live_blocks).sum();
    let placed: u64 = scene.files.values().flat_map(|file| &file.extents).map(|e| e.1).sum();
    assert!(live > 0 && live == placed, "{live} of {placed} blocks");
    assert!(cells.iter().all(|cell| cell.written_blocks <= cell.len_blocks));
    assert_eq!(scene.cells(10).len(), 10, "zones are put together where there is no room");
    let Line::Frame(first) = &lines[1] else { panic!("a frame") };
    assert!(first.zones.len() < 64, "empty zones are not told: {}", first.zones.len());
    let changed: usize = lines
        .iter()
        .skip(2)
        .map(|line| match line {
            Line::Frame(frame) => frame.zones.len(),
            Line::Head(_) => 0,
        })
        .sum();
    assert!(changed < 64 * 3, "only zones that changed are told: {changed}");
}

/// On raw shingled tracks every block is in a file, in a gap, the catalog's or dead, and gaps end in guards.
#[test]
fn gaps_and_files_share_a_shingled_drive() {
    let disk = SimDisk::tiny_shingled(Blocks::new(64 * 256), Blocks::new(16), 4);
    let layout = Layout::by_name("sealdb").unwrap();
    let stack = layout.format(Arc::new(disk), &Runtime::threads(2)).unwrap();
    let mut sampler = Sampler::new(0);
    let head = sampler.head("bands", "sealdb", Subject::of(&stack), true);
    let mut lines = vec![Line::Head(Box::new(head))];
    for part in 0..6 {
        put(&stack, part * 1000..part * 1000 + 1000);
        stack.db.flush().unwrap();
        let frame = sampler.frame(u64::from(part), Subject::of(&stack), None);
        lines.push(Line::Frame(Box::new(frame)));
    }
    let scene = scene_of(&lines);
    assert!(scene.gaps.values().any(|gap| gap.guard_blocks > 0), "{:?}", scene.gaps);
    let mut owned = vec![0_u8; scene.head.len_blocks as usize];
    let gaps = scene.gaps.values().map(|gap| (gap.start_block, gap.len_blocks));
    let files = scene.files.values().flat_map(|file| file.extents.iter().copied());
    for (start, len) in gaps.chain(files).chain(scene.head.catalog.iter().copied()) {
        owned[start as usize..(start + len) as usize].iter_mut().for_each(|owners| *owners += 1);
    }
    assert!(owned.iter().all(|&owners| owners <= 1), "nothing is in two places");
    let dead = owned.iter().filter(|&&owners| owners == 0).count() as u64;
    let cells = scene.cells(40);
    let sum = |of: fn(&Cell) -> u64| cells.iter().map(of).sum::<u64>();
    assert_eq!(sum(|cell| cell.written_blocks - cell.all_live_blocks()), dead);
    assert_eq!(
        sum(|cell| cell.guard_blocks),
        scene.gaps.values().map(|gap| gap.guard_blocks).sum::<u64>()
    );
    let first = scene_of(&lines[..2]);
    assert_ne!(first.gaps, scene.gaps, "gaps come and go");
}

/// W3: a recording ends at its last whole line, goes on when the rest comes, and refuses what is none.
#[test]
fn a_recording_reads_back_while_it_grows() {
    let (lines, _stack) = lines();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run");
    drop(RecordingWriter::create(&path).unwrap());
    assert!(!path.exists(), "nothing was recorded");
    let mut writer = RecordingWriter::create(&path).unwrap();
    let refused = RecordingWriter::create(&path).unwrap_err().to_string();
    assert!(refused.contains("run") && refused.contains("exists"), "{refused}");
    lines[..3].iter().for_each(|line| writer.write(line).unwrap());
    let mut recording = Recording::open(&path).unwrap();
    let mut read = Vec::new();
    recording.read_new(&mut |line, _| read.push(line)).unwrap();
    assert_eq!(read, lines[..3]);
    let text = lines[3].to_json();
    let (first, rest) = text.split_at(text.len() / 2);
    let mut file = std::fs::File::options().append(true).open(&path).unwrap();
    std::io::Write::write_all(&mut file, first.as_bytes()).unwrap();
    recording.read_new(&mut |line, _| read.push(line)).unwrap();
    assert_eq!(read.len(), 3, "half a line is none");
    std::fs::write(&path, {
        let mut all: String = lines[..3].iter().map(|line| line.to_json() + "\n").collect();
        all.push_str(first);
        all.push_str(rest);
        all.push('\n');
        all
    })
    .unwrap();
    recording.read_new(&mut |line, _| read.push(line)).unwrap();
    assert_eq!(read, lines[..4]);
}

#[test]
fn what_is_no_recording_is_refused_with_its_line() {
    let dir = tempfile::tempdir().unwrap();
    let refusal = |text: &[u8]| {
        let path = dir.path().join("file");
        std::fs::write(&path, text).unwrap();
        Recording::open(&path).unwrap().read_new(&mut |_, _| ()).unwrap_err().to_string()
    };
    let head = Line::Head(Box::default()).to_json();
    let frame = Line::Frame(Box::default()).to_json();
    assert!(refusal(b"key,value\n").contains("line 1"));
    assert!(refusal(b"\xff\xfe\n").contains("line 1"));
    assert!(refusal(format!("{frame}\n").as_bytes()).contains("without a head"));
    assert!(refusal(format!("{head}\n{frame}\n{{}}\n").as_bytes()).contains("line 3"));
    let newer = head.replace("\"version\":0", "\"version\":99");
    assert!(refusal(format!("{newer}\n").as_bytes()).contains("version 99"));
    let huge = head.replace("\"len_blocks\":0", "\"len_blocks\":18446744073709551615");
    assert!(refusal(format!("{huge}\n").as_bytes()).contains("lengths"));
    let many = head.replace("\"id\":0", "\"id\":64");
    assert!(refusal(format!("{many}\n").as_bytes()).contains("more than 64 stores"));
    let absent = Recording::open(&dir.path().join("absent")).unwrap_err().to_string();
    assert!(absent.contains("absent"), "{absent}");
}

/// Fields that an older program did not write have their defaults, and those of a newer one are skipped.
#[test]
fn lines_of_other_ages_are_read() {
    let old: Line = serde_json::from_str(r#"{"frame":{"id":3,"at_ns":5}}"#).unwrap();
    let Line::Frame(frame) = old else { panic!("a frame") };
    assert_eq!((frame.id, frame.at_ns, frame.drive.reads), (3, 5, 0));
    let new = r#"{"frame":{"id":3,"a_field_to_come":[1,2],"drive":{"reads":7,"more":1}}}"#;
    let Line::Frame(frame) = serde_json::from_str(new).unwrap() else { panic!("a frame") };
    assert_eq!(frame.drive.reads, 7);
}

#[test]
fn the_screen_fits_its_terminal() {
    let scene = scene_of(&lines().0);
    for (columns, lines) in [(100, 40), (80, 24), (40, 12), (20, 3)] {
        let drawn = draw(&scene, Terminal { columns, lines, has_colours: false });
        assert!(drawn.len() <= lines, "{} lines of {lines}", drawn.len());
        assert!(drawn.iter().all(|line| line.chars().count() <= columns), "{drawn:#?}");
    }
    let drawn = draw(&scene, Terminal { columns: 100, lines: 40, has_colours: false }).join("\n");
    assert!(drawn.contains("64 zones") && drawn.contains("amplification"), "{drawn}");
    let coloured = draw(&scene, Terminal { columns: 100, lines: 40, has_colours: true }).join("");
    assert!(coloured.contains("\x1b[38;5;"), "levels have colours");
}

/// Names of a recording neither steer the terminal nor break a metrics page, and no number breaks either.
#[test]
fn hostile_names_and_numbers_are_shown_as_text() {
    let mut scene = scene_of(&lines().0);
    scene.head.name = "a\x1b[31m\u{202e}b".to_owned();
    scene.last.now.next = Some("merge \x07".to_owned());
    scene.last.drive.busy_ns = u64::MAX;
    scene.last.drive.seek_ns = u64::MAX;
    scene.last.drive.turn_ns = u64::MAX;
    scene.zones[3].written_blocks = u64::MAX;
    scene.zones[4].written_blocks = u64::MAX;
    let drawn = draw(&scene, Terminal { columns: 20, lines: 30, has_colours: false }).join("\n");
    assert!(!drawn.contains('\x1b') && !drawn.contains('\x07'), "{drawn:?}");
    assert!(drawn.contains("a?[31m?b"), "{drawn:?}");
    let other = Scene { head: Head { id: 1, ..scene.head.clone() }, ..scene.clone() };
    let text = metrics_text([&scene, &other].into_iter(), MetricsFormat::OpenMetrics);
    assert!(!text.contains('\x1b'));
    let series: Vec<&str> =
        text.lines().filter_map(|line| line.rsplit_once(' ')).map(|s| s.0).collect();
    let unique: std::collections::BTreeSet<&str> = series.iter().copied().collect();
    assert_eq!(series.len(), unique.len(), "two stores of one name are two series");
}

/// The text against the grammar of OpenMetrics: families in one piece, types, units as suffixes, one end.
#[test]
fn metrics_are_openmetrics() {
    let scene = scene_of(&lines().0);
    let other =
        Scene { head: Head { id: 1, name: "b".into(), ..Head::default() }, ..scene.clone() };
    let text = metrics_text([&scene, &other].into_iter(), MetricsFormat::OpenMetrics);
    assert!(text.ends_with("# EOF\n") && text.matches("# EOF").count() == 1);
    let mut types: BTreeMap<String, String> = BTreeMap::new();
    let mut current = String::new();
    let mut samples = 0;
    for line in text.lines().filter(|line| *line != "# EOF") {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert!(types.insert(name.to_owned(), kind.to_owned()).is_none(), "{name} comes twice");
            current = name.to_owned();
        } else if let Some(rest) = line.strip_prefix("# UNIT ") {
            let (name, unit) = rest.split_once(' ').unwrap();
            assert!(name == current && name.ends_with(&format!("_{unit}")), "{line}");
        } else if let Some(rest) = line.strip_prefix("# HELP ") {
            assert!(rest.starts_with(&format!("{current} ")), "{line}");
        } else {
            let (name, rest) = line.split_once('{').unwrap();
            let (labels, value) = rest.rsplit_once("} ").unwrap();
            let kind = &types[&current];
            let expected =
                if kind == "counter" { format!("{current}_total") } else { current.clone() };
            assert_eq!(name, expected);
            assert!(
                labels.starts_with("store=\"a \\\"store\\\"\"")
                    || labels.starts_with("store=\"b\""),
                "{line}"
            );
            value.parse::<f64>().unwrap();
            samples += 1;
        }
    }
    assert!(samples > 70, "{samples}");
    assert!(text.contains("imbrex_user_operations_total{store=\"b\"} 3000\n"), "{text}");
    assert_eq!(
        metrics_text(std::iter::empty::<&Scene>(), MetricsFormat::OpenMetrics).lines().last(),
        Some("# EOF")
    );
}

/// What Prometheus's own checker asks for: each family has the name of its samples, a type and a help text.
#[test]
fn collectors_that_do_not_ask_for_openmetrics_get_the_older_form() {
    assert_eq!(MetricsFormat::accepted_by(None), MetricsFormat::Prometheus);
    assert_eq!(MetricsFormat::accepted_by(Some("*/*")), MetricsFormat::Prometheus);
    let asked = Some("application/openmetrics-text;version=1.0.0;q=0.75,text/plain;q=0.5");
    assert_eq!(MetricsFormat::accepted_by(asked), MetricsFormat::OpenMetrics);
    let scene = scene_of(&lines().0);
    let text = metrics_text([&scene].into_iter(), MetricsFormat::Prometheus);
    let named = |mark: &str, line: &str| {
        let rest = line.strip_prefix(mark)?;
        rest.split_once(' ').map(|(name, _)| name.to_owned())
    };
    let [types, helps] = ["# TYPE ", "# HELP "]
        .map(|mark| text.lines().filter_map(|line| named(mark, line)).collect::<Vec<_>>());
    assert_eq!(types, helps);
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    let mut samples: Vec<&str> = samples.filter_map(|line| Some(line.split_once('{')?.0)).collect();
    samples.dedup();
    assert_eq!(samples, types);
    assert!(!text.contains("# EOF") && !text.contains("# UNIT"));
}

#[test]
fn a_pace_takes_a_hundredth_of_the_time() {
    let mut pace = Pace::new(1_000);
    assert!(pace.is_due(0));
    pace.took(0, 5);
    assert!(!pace.is_due(1_004) && pace.is_due(1_005));
    pace.took(2_000, 2_100);
    assert!(!pace.is_due(12_099) && pace.is_due(12_100));
}

/// Every metric that the dashboard draws is one that a store tells.
#[test]
fn the_dashboard_draws_metrics_that_exist() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operations/grafana.json");
    let dashboard: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let text = metrics_text([&scene_of(&lines().0)].into_iter(), MetricsFormat::OpenMetrics);
    let told = |name: &str| text.contains(&format!("\n{name}{{"));
    let mut drawn = std::collections::BTreeSet::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().unwrap() {
            let expression = target["expr"].as_str().unwrap();
            for word in expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_') {
                if word.starts_with("imbrex_") {
                    assert!(told(word), "{word} of {}", panel["title"]);
                    drawn.insert(word.to_owned());
                }
            }
        }
    }
    assert!(drawn.len() >= 15, "{drawn:?}");
}
