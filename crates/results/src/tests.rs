//! A page of two rows, filled from its data, and a command that measures again.

use crate::site::page_faults;
use crate::{Data, Measured, Table, command_line, faults};

const DATA: &str = r#"{
  "question": "How fast is it?",
  "command": "imbrex bench",
  "smallest": "imbrex bench --num 1",
  "commit": "abc1234",
  "date": "2026-11-20",
  "machine": "Two cores.",
  "limits": [
    "one",
    "two",
    "three"
  ],
  "chart": {"title": "Puts", "label": [0], "values": [1], "log": true, "mark": 1},
  "tables": [
    {
      "title": "Puts a second",
      "columns": [
        {"name": "layout"},
        {"name": "puts", "unit": "1/s"}
      ],
      "rows": [
        ["`gear`", 12000],
        ["`smrdb`", "no space"]
      ]
    }
  ]
}
"#;

const EMPTY: &str = "# Speed\n\nHow fast is it?\n\n<!-- results: written by `cargo xtask results` -->\n\
                     <!-- end of results -->\n";

const INDEX: &str = "# All\n\n<!-- results: written by `cargo xtask results` -->\n\
                     | page | question |\n|---|---|\n| [Speed](speed.md) | How fast is it? |\n\
                     <!-- end of results -->\n";

fn found(page: &str) -> Vec<String> {
    let data = Data::parse(DATA).unwrap();
    let chart = crate::chart::svg(&data);
    let files = [
        ("docs/results/README.md", INDEX),
        ("docs/results/charts/speed.svg", &chart),
        ("docs/results/data/speed.json", DATA),
        ("docs/results/speed.md", page),
    ];
    let text = |path: &str| files.iter().find(|(name, _)| *name == path).map(|(_, text)| *text);
    faults(files.iter().map(|(path, _)| *path), text).into_iter().map(|f| f.path).collect()
}

#[test]
fn a_page_is_what_its_data_say() {
    let data = Data::parse(DATA).unwrap();
    let page = crate::page::filled(EMPTY, "speed", &data).unwrap();
    assert!(page.contains("| layout | puts, 1/s |\n|---|---|\n| `gear` | 12,000 |\n"), "{page}");
    assert_eq!(found(&page), [""; 0]);
    assert_eq!(found(&page.replace("12,000", "13,000")), ["docs/results/speed.md"]);
    assert_eq!(found(EMPTY), ["docs/results/speed.md"]);
}

#[test]
fn a_page_that_is_long_or_asks_something_else_is_found() {
    let data = Data::parse(DATA).unwrap();
    assert_eq!(page_faults("a.md", "How fast is it?", &data), []);
    assert_eq!(page_faults("a.md", "How slow is it?", &data).len(), 1);
    let long = "How fast is it? ".repeat(400);
    assert_eq!(page_faults("a.md", &long, &data).len(), 1);
}

fn measured(title: &str, puts: &str) -> Measured {
    let mut table = Table::new(title, ["layout", "puts"]);
    table.row(vec!["`gear`".to_owned(), puts.to_owned()]);
    let arguments = ["bench", "--data", "a.json", "--num", "2 x"].map(str::to_owned);
    Measured {
        command: command_line("imbrex", arguments),
        commit: String::new(),
        date: "2026-11-26".to_owned(),
        tables: vec![table],
    }
}

#[test]
fn a_command_replaces_its_table_and_leaves_what_a_person_wrote() {
    let text = measured("Puts a second", "13500.50").into_text(Some(DATA)).unwrap();
    let expected = DATA
        .replace("imbrex bench\"", "imbrex bench --num '2 x'\"")
        .replace("abc1234", "")
        .replace("2026-11-20", "2026-11-26")
        .replace(", \"unit\": \"1/s\"", "")
        .replace("12000],\n        [\"`smrdb`\", \"no space\"]", "13500.50]");
    assert_eq!(text, expected);
    assert_eq!(Data::parse(&text).unwrap().faults(), ["an empty field (P3)"], "the commit");
    let text = measured("Gets a second", "1").into_text(Some(DATA)).unwrap();
    let data = Data::parse(&text).unwrap();
    assert_eq!((data.tables.len(), data.table().title.as_str()), (2, "Puts a second"));
    assert!(measured("", "").into_text(Some("{}")).is_err());
}

#[test]
fn a_new_data_file_gives_a_page_and_asks_for_what_only_a_person_knows() {
    let text = measured("Puts a second", "1.5").into_text(None).unwrap();
    let page = EMPTY.replace("How fast is it?\n\n", "");
    let files = [
        ("docs/results/README.md", INDEX),
        ("docs/results/data/speed.json", text.as_str()),
        ("docs/results/speed.md", page.as_str()),
    ];
    let find = |path: &str| files.iter().find(|(name, _)| *name == path).map(|(_, text)| *text);
    let site = crate::site(&files.map(|(path, _)| path), find);
    let whats: Vec<&str> = site.faults.iter().map(|fault| fault.what.as_str()).collect();
    assert_eq!(whats, ["0 limits; a page has three (P3)", "an empty field (P3)"]);
    assert!(
        site.files["docs/results/speed.md"]
            .contains("| layout | puts |\n|---|---|\n| `gear` | 1.5 |")
    );
    assert!(site.files["docs/results/charts/speed.svg"].contains(">1.5</text>"));
    let nothing = Measured { tables: Vec::new(), ..measured("", "") };
    assert_eq!(nothing.into_text(None).unwrap_err(), "nothing was measured");
}

/// A page of claims takes its figures from the data of others, and does not say what they do not.
#[test]
fn headlines_agree_with_the_data_that_they_name() {
    let spec = |ours: &str, held: &str, since: &str| {
        format!(
            r#"{{"papers": [{{"paper": "Gear", "more": "there", "equal": "one drive", "since": "{since}",
            "change": "It was mended", "rows": [{{"claim": "fast", "paper": "=2", "ours": "{ours}",
            "equal": "=-", "out": "=met", "held": "{held}", "why": "no reason"}}]}}]}}"#
        )
    };
    let page =
        "# All\n\n<!-- results: written by `cargo xtask results` -->\n<!-- end of results -->\n";
    let site = |spec: &str| {
        let data = Data::parse(DATA).unwrap();
        let filled = crate::page::filled(EMPTY, "speed", &data).unwrap();
        let files = [
            ("docs/results/README.md", INDEX),
            ("docs/results/data/speed.json", DATA),
            ("docs/results/headlines.json", spec),
            ("docs/results/headlines.md", page),
            ("docs/results/speed.md", &filled),
        ];
        let paths = files.map(|(path, _)| path);
        let site = crate::site(&paths, |path| {
            files.iter().find(|(name, _)| *name == path).map(|(_, text)| *text)
        });
        let faults: Vec<_> = site.faults.iter().map(|fault| fault.what.clone()).collect();
        (site.files.get("docs/results/headlines.md").cloned().unwrap_or_default(), faults)
    };
    const PLACE: &str = "speed | Puts a second | `gear` | puts";
    let (page, faults) = site(&spec(PLACE, "yes", "2026-11-20"));
    assert!(faults.is_empty(), "{faults:?}");
    assert!(page.contains("| fast | 2 | 12,000 | - | **yes** | no reason |"), "{page}");
    let (page, _) = site(&spec(PLACE, "by_condition", "2026-11-21"));
    assert!(page.contains("| 12,000† | - | by a condition |"), "{page}");
    assert!(page.contains("† of `abc1234` of 2026-11-20. It was mended."), "{page}");
    let refused = |spec: &str, why: &str| {
        let (_, faults) = site(spec);
        assert!(faults.len() == 1 && faults[0].contains(why), "{faults:?}");
    };
    refused(&spec(PLACE, "no", "2026-11-20"), "H2");
    refused(&spec("speed | Puts a second | `geer` | puts", "yes", "2026-11-20"), "no such row");
    refused(&spec("speed | Gets | `gear` | puts", "yes", "2026-11-20"), "no such table");
    refused(&spec("speed | Puts a second | `gear` | gets", "yes", "2026-11-20"), "no such column");
}
