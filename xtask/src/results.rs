//! `results`: writes the pages of docs/results and their charts from the data files.
//!
//! Not here: what a page and a chart are (`imbrex_results`), the measurements (commands with `--data`).

use anyhow::{Context, Result, bail};
use imbrex_results::{Data, RESULTS_DIR as DIR, Site, site};
use std::collections::BTreeMap;
use std::path::Path;

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
    let Site { files, faults } = site(&paths, |path| texts.get(path).map(String::as_str));
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
