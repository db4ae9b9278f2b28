//! Results pages: each is what its data file says, and nothing is typed twice.
//!
//! ```text
//!   docs/results/data/NAME.json --page--> the block between the markers of docs/results/NAME.md
//!                               --chart-> docs/results/charts/NAME.svg
//! ```
//!
//! Invariants
//!   P1  The generated block and the chart of every page are what its data file gives, byte for byte.
//!   P2  A page has at most [`LEN_BYTES_MAX`] bytes, asks the question of its data file, and is read in three minutes.
//!   P3  A data file names command, commit, date and machine, and exactly three limits.
//!
//! A data file keeps more tables than its page shows: the first is shown, the page names the others.
//!
//! Not here: the measurements. A command of ours makes them, and the data file names it.

mod chart;
mod data;
mod page;

use anyhow::{Context, Result, bail};
use data::Data;
use std::collections::BTreeMap;
use std::path::Path;

/// How long a page may be.
const LEN_BYTES_MAX: usize = 6 * 1024;

const DIR: &str = "docs/results/";
const INDEX: &str = "docs/results/README.md";

/// One file that is not what the data say, and why.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) path: String,
    pub(crate) what: String,
}

/// What the results should be: the text of each file, by path.
struct Wanted {
    files: BTreeMap<String, String>,
    faults: Vec<Fault>,
}

/// Compares every page and chart with its data file; `text` returns what a file of the tree holds.
pub(crate) fn faults<'a>(
    paths: impl Iterator<Item = &'a str>,
    text: impl Fn(&str) -> Option<&'a str>,
) -> Vec<Fault> {
    let paths: Vec<&str> = paths.filter(|path| path.starts_with(DIR)).collect();
    let Wanted { files, mut faults } = wanted(&paths, &text);
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

/// Writes every page and chart anew from its data file.
pub(crate) fn run(root: &Path) -> Result<()> {
    let mut texts = BTreeMap::new();
    for dir in [DIR.to_owned(), format!("{DIR}data/"), format!("{DIR}charts/")] {
        let Ok(entries) = std::fs::read_dir(root.join(&dir)) else { continue };
        for entry in entries {
            let entry = entry.with_context(|| format!("cannot list {dir}"))?;
            if entry.file_type().is_ok_and(|t| t.is_file()) {
                let path = format!("{dir}{}", entry.file_name().to_string_lossy());
                let text = std::fs::read_to_string(entry.path())
                    .with_context(|| format!("cannot read {path}"))?;
                texts.insert(path, text);
            }
        }
    }
    let paths: Vec<&str> = texts.keys().map(String::as_str).collect();
    let Wanted { files, faults } = wanted(&paths, &|path| texts.get(path).map(String::as_str));
    std::fs::create_dir_all(root.join(DIR).join("charts")).context("cannot create charts")?;
    for (path, text) in &files {
        if texts.get(path) != Some(text) {
            std::fs::write(root.join(path), text)
                .with_context(|| format!("cannot write {path}"))?;
            println!("wrote {path}");
        }
    }
    for fault in &faults {
        println!("{}: {}", fault.path, fault.what);
    }
    if !faults.is_empty() {
        bail!("{} faults in {DIR}", faults.len());
    }
    println!("results: {} files, as their data say", files.len());
    Ok(())
}

/// Each page's command and its smallest form, with the page's path.
pub(crate) fn commands(root: &Path) -> Result<Vec<(String, String, String)>> {
    let dir = root.join(DIR).join("data");
    let mut commands = Vec::new();
    for entry in
        std::fs::read_dir(&dir).with_context(|| format!("cannot list {}", dir.display()))?
    {
        let path = entry?.path();
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        let data = Data::parse(&text).map_err(anyhow::Error::msg)?;
        let name = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        commands.push((format!("{DIR}{name}.md"), data.command, data.smallest));
    }
    commands.sort();
    Ok(commands)
}

fn wanted<'a>(paths: &[&str], text: &impl Fn(&str) -> Option<&'a str>) -> Wanted {
    let mut wanted = Wanted { files: BTreeMap::new(), faults: Vec::new() };
    let mut index = Vec::new();
    for path in paths {
        let name = path.strip_prefix(DIR).and_then(|path| path.strip_prefix("data/"));
        let Some(name) = name.and_then(|name| name.strip_suffix(".json")) else { continue };
        let page_path = format!("{DIR}{name}.md");
        let data = match Data::parse(text(path).unwrap_or_default()) {
            Ok(data) => data,
            Err(what) => {
                wanted.faults.push(Fault::new(path, what));
                continue;
            }
        };
        wanted.faults.extend(data.faults().into_iter().map(|what| Fault::new(path, what)));
        wanted.files.insert(format!("{DIR}charts/{name}.svg"), chart::svg(&data));
        match text(&page_path).ok_or_else(|| "is missing".to_owned()) {
            Ok(old) => match page::filled(old, name, &data) {
                Ok(new) => {
                    wanted.faults.extend(page_faults(&page_path, &new, &data));
                    index.push((name.to_owned(), page::title(&new).to_owned(), data.question));
                    wanted.files.insert(page_path, new);
                }
                Err(what) => wanted.faults.push(Fault::new(&page_path, what)),
            },
            Err(what) => wanted.faults.push(Fault::new(&page_path, what)),
        }
    }
    match page::index(text(INDEX).unwrap_or_default(), &index) {
        Ok(new) => drop(wanted.files.insert(INDEX.to_owned(), new)),
        Err(what) => wanted.faults.push(Fault::new(INDEX, what)),
    }
    wanted
}

fn page_faults(path: &str, page: &str, data: &Data) -> Vec<Fault> {
    let mut faults = Vec::new();
    if page.len() > LEN_BYTES_MAX {
        let what = format!("{} bytes; at most {LEN_BYTES_MAX} (P2)", page.len());
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

#[cfg(test)]
mod tests;
