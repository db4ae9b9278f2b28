//! All results pages of the tree: the text that each file should have, and what is wrong.

use crate::chart;
use crate::data::Data;
use crate::headlines::Headlines;
use crate::page;
use std::collections::BTreeMap;

/// The longest page, which is read in three minutes.
pub const PAGE_LEN_BYTES_MAX: usize = 6 * 1024;

/// The directory of the pages, from the root of the tree.
pub const RESULTS_DIR: &str = "docs/results/";
const INDEX: &str = "docs/results/README.md";
/// The page of headline claims, and what it is made of.
const HEADLINES: [&str; 2] = ["docs/results/headlines.json", "docs/results/headlines.md"];

/// A file that is not as its data say, and why.
#[derive(Debug, PartialEq, Eq)]
pub struct Fault {
    /// Its path from the root of the tree.
    pub path: String,
    /// The reason.
    pub what: String,
}

/// The results as they should be.
#[derive(Debug)]
pub struct Site {
    /// The text of each file, by path.
    pub files: BTreeMap<String, String>,
    /// What only a person can mend.
    pub faults: Vec<Fault>,
}

/// Compares every page and chart with its data file (P1); `text` returns the content of a file of the tree.
pub fn faults<'a>(
    paths: impl Iterator<Item = &'a str>,
    text: impl Fn(&str) -> Option<&'a str>,
) -> Vec<Fault> {
    let paths: Vec<&str> = paths.filter(|path| path.starts_with(RESULTS_DIR)).collect();
    let Site { files, mut faults } = site(&paths, &text);
    for (path, wanted) in &files {
        if text(path) != Some(wanted) {
            faults.push(Fault::new(
                path,
                "is not what its data say; `cargo xtask results` writes it",
            ));
        }
    }
    for path in paths {
        let is_page = path.ends_with(".md") || path.ends_with(".svg");
        if is_page && !files.contains_key(path) {
            faults.push(Fault::new(path, "has no data file of its name"));
        }
    }
    faults
}

/// The page and the chart of every data file among `paths`; `text` returns the content of a file of the tree.
pub fn site<'a>(paths: &[&str], text: impl Fn(&str) -> Option<&'a str>) -> Site {
    let mut wanted = Site { files: BTreeMap::new(), faults: Vec::new() };
    let mut index = Vec::new();
    let mut all_data = BTreeMap::new();
    for path in paths {
        let name = path.strip_prefix(RESULTS_DIR).and_then(|path| path.strip_prefix("data/"));
        let Some(name) = name.and_then(|name| name.strip_suffix(".json")) else { continue };
        let page_path = format!("{RESULTS_DIR}{name}.md");
        let data = match Data::parse(text(path).unwrap_or_default()) {
            Ok(data) => data,
            Err(what) => {
                wanted.faults.push(Fault::new(path, what));
                continue;
            }
        };
        wanted.faults.extend(data.faults().into_iter().map(|what| Fault::new(path, what)));
        wanted.files.insert((*path).to_owned(), data.text());
        wanted.files.insert(format!("{RESULTS_DIR}charts/{name}.svg"), chart::svg(&data));
        match text(&page_path).ok_or_else(|| "is missing".to_owned()) {
            Ok(old) => match page::filled(old, name, &data) {
                Ok(new) => {
                    wanted.faults.extend(page_faults(&page_path, &new, &data));
                    let title = page::title(&new).to_owned();
                    index.push((name.to_owned(), title, data.question.clone()));
                    wanted.files.insert(page_path, new);
                }
                Err(what) => wanted.faults.push(Fault::new(&page_path, what)),
            },
            Err(what) => wanted.faults.push(Fault::new(&page_path, what)),
        }
        all_data.insert(name.to_owned(), data);
    }
    let [spec_path, page_path] = HEADLINES;
    if let Some(spec) = text(spec_path) {
        let block = Headlines::parse(spec).and_then(|spec| spec.block(&all_data));
        let old = text(page_path).unwrap_or_default();
        match block.and_then(|block| page::between_markers(old, &block)) {
            Ok(new) => drop(wanted.files.insert(page_path.to_owned(), new)),
            Err(what) => wanted.faults.push(Fault::new(spec_path, what)),
        }
    }
    match page::index(text(INDEX).unwrap_or_default(), &index) {
        Ok(new) => drop(wanted.files.insert(INDEX.to_owned(), new)),
        Err(what) => wanted.faults.push(Fault::new(INDEX, what)),
    }
    wanted
}

pub(crate) fn page_faults(path: &str, page: &str, data: &Data) -> Vec<Fault> {
    let mut faults = Vec::new();
    if page.len() > PAGE_LEN_BYTES_MAX {
        let what = format!("{} bytes; at most {PAGE_LEN_BYTES_MAX} (P2)", page.len());
        faults.push(Fault::new(path, what));
    }
    if !page.contains(&data.question) {
        faults.push(Fault::new(path, format!("does not ask {:?} (P2)", data.question)));
    }
    faults
}

impl Fault {
    fn new(path: &str, what: impl Into<String>) -> Fault {
        Fault { path: path.to_owned(), what: what.into() }
    }
}
