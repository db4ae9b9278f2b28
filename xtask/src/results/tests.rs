//! A page of two rows, filled from its data.

use super::{faults, page_faults};

const DATA: &str = r#"{
  "question": "How fast is it?",
  "command": "imbrex bench",
  "smallest": "imbrex bench --num 1",
  "commit": "abc1234",
  "date": "2026-11-20",
  "machine": "Two cores.",
  "limits": ["one", "two", "three"],
  "chart": {"title": "Puts", "label": [0], "values": [1]},
  "tables": [{
    "title": "Puts a second",
    "columns": [{"name": "layout"}, {"name": "puts", "unit": "1/s"}],
    "rows": [["`gear`", 12000], ["`smrdb`", "no space"]]
  }]
}"#;

const EMPTY: &str = "# Speed\n\nHow fast is it?\n\n<!-- results: written by `cargo xtask results` -->\n\
                     <!-- end of results -->\n";

const INDEX: &str = "# All\n\n<!-- results: written by `cargo xtask results` -->\n\
                     | page | question |\n|---|---|\n| [Speed](speed.md) | How fast is it? |\n\
                     <!-- end of results -->\n";

fn found(page: &str) -> Vec<String> {
    let data = super::Data::parse(DATA).unwrap();
    let chart = super::chart::svg(&data);
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
    let data = super::Data::parse(DATA).unwrap();
    let page = super::page::filled(EMPTY, "speed", &data).unwrap();
    assert!(page.contains("| layout | puts, 1/s |\n|---|---|\n| `gear` | 12,000 |\n"), "{page}");
    assert_eq!(found(&page), [""; 0]);
    assert_eq!(found(&page.replace("12,000", "13,000")), ["docs/results/speed.md"]);
    assert_eq!(found(EMPTY), ["docs/results/speed.md"]);
}

#[test]
fn a_page_that_is_long_or_asks_something_else_is_found() {
    let data = super::Data::parse(DATA).unwrap();
    assert_eq!(page_faults("a.md", "How fast is it?", &data), []);
    assert_eq!(page_faults("a.md", "How slow is it?", &data).len(), 1);
    let long = "How fast is it? ".repeat(400);
    assert_eq!(page_faults("a.md", &long, &data).len(), 1);
}
