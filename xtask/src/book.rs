//! The book: docs/ as HTML in target/book, by mdBook, which is built into target/tools once.

use crate::cargo::Cargo;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

const VERSION: &str = "0.5.4";

/// Builds the book, and checks that each link of its pages leads to a file.
pub(crate) fn run(root: &Path) -> Result<()> {
    let program = installed(root)?;
    let status = Command::new(&program)
        .args(["build", "docs"])
        .current_dir(root)
        .status()
        .with_context(|| format!("cannot start {}", program.display()))?;
    if !status.success() {
        bail!("mdbook failed ({status})");
    }
    let book = root.join("target/book");
    // mdBook makes index.html of a README.md, and leaves links to README.html as they are.
    for dir in ["", "formats", "decisions", "results"] {
        let dir = book.join(dir);
        std::fs::copy(dir.join("index.html"), dir.join("README.html"))
            .with_context(|| format!("no index in {}", dir.display()))?;
    }
    let pages = pages(&book)?;
    let mut dead = 0;
    for page in &pages {
        let html = std::fs::read_to_string(page)
            .with_context(|| format!("cannot read {}", page.display()))?;
        for target in targets(&html) {
            let to = page.parent().unwrap_or(&book).join(target);
            if !to.exists() {
                println!("{}: {target} leads nowhere", page.display());
                dead += 1;
            }
        }
    }
    if dead > 0 {
        bail!("{dead} links of the book lead nowhere");
    }
    println!("book: {} pages in {}", pages.len(), book.display());
    Ok(())
}

/// mdBook of the version that the book is written for.
fn installed(root: &Path) -> Result<PathBuf> {
    let tools = root.join("target/tools");
    let program = tools.join("bin/mdbook");
    let output = Command::new(&program).arg("--version").output();
    let is_there = output.is_ok_and(|o| String::from_utf8_lossy(&o.stdout).contains(VERSION));
    if !is_there {
        let tools = tools.to_string_lossy();
        // Without its server and its search: a minute less to build. Unoptimized: it runs for a second.
        let what = ["install", "mdbook", "--version", VERSION, "--locked", "--no-default-features"];
        let install = Cargo::new(root).args(what).args(["--debug", "--root", &tools]);
        install.env("CARGO_PROFILE_DEV_DEBUG", "0").run()?;
    }
    Ok(program)
}

/// The HTML files below `dir`, sorted.
fn pages(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut pages = Vec::new();
    for entry in std::fs::read_dir(dir).with_context(|| format!("cannot list {}", dir.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            pages.extend(self::pages(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "html") {
            pages.push(path);
        }
    }
    pages.sort();
    Ok(pages)
}

/// The files that a page links to or shows, without those of other sites.
fn targets(html: &str) -> impl Iterator<Item = &str> {
    let quoted = |part: &'static str| html.split(part).skip(1).filter_map(|s| s.split('"').next());
    quoted("href=\"")
        .chain(quoted("src=\""))
        .map(|target| target.split('#').next().unwrap_or_default())
        .filter(|target| !target.is_empty() && !target.contains(':') && !target.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_files_of_the_book() {
        let html = "<a href=\"a.html#x\"> <a href=\"#y\"> <img src=\"b/c.svg\"> <a href=\"https://x.org/\">";
        assert_eq!(targets(html).collect::<Vec<_>>(), ["a.html", "b/c.svg"]);
    }
}
