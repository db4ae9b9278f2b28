//! Expected outputs: script tests and examples, checked by CI and rewritten by `cargo xtask golden`.

use crate::cargo::{self, Cargo};
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::Command;

/// Programs under `examples/` whose output is a golden file beside them.
const EXAMPLES: [&str; 1] = ["journey_of_a_put"];

/// The page that quotes their output.
const QUOTING_PAGE: &str = "docs/concepts/a_put.md";

/// Rewrites what script tests and examples expect.
pub(crate) fn rewrite(root: &Path, package: Option<&str>) -> Result<()> {
    let which = match package {
        Some(package) => vec!["test", "--package", package],
        None => vec!["test", "--workspace"],
    };
    Cargo::new(root).env("REWRITE", "1").args(which).run()?;
    if package.is_none() {
        for name in EXAMPLES {
            let path = root.join("examples").join(name).with_extension("txt");
            let output = Cargo::new(root).args(["run", "--quiet", "--bin", name]).output()?;
            std::fs::write(&path, &output)
                .with_context(|| format!("cannot write {}", path.display()))?;
            let page = root.join(QUOTING_PAGE);
            let text = std::fs::read_to_string(&page).context("cannot read the quoting page")?;
            std::fs::write(&page, quoted(&text, name, &output)?)
                .context("cannot write the quoting page")?;
        }
    }
    println!("rewritten; `git diff` shows what changed");
    Ok(())
}

/// `text` with what stands between the markers of `name` replaced by `output`.
fn quoted(text: &str, name: &str, output: &str) -> Result<String> {
    let start = format!("<!-- {name} -->\n");
    let (before, rest) =
        text.split_once(&start).with_context(|| format!("{QUOTING_PAGE}: no {}", start.trim()))?;
    let (_, after) = rest
        .split_once("<!-- end -->")
        .with_context(|| format!("{QUOTING_PAGE}: no <!-- end -->"))?;
    Ok(format!("{before}{start}```text\n{output}```\n<!-- end -->{after}"))
}

/// Runs each example that the gate has built and compares its output with what is expected.
pub(crate) fn check_examples(root: &Path) -> Result<()> {
    for name in EXAMPLES {
        let path = root.join("examples").join(name).with_extension("txt");
        let expected = std::fs::read_to_string(&path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        let output = Command::new(cargo::target(root).join(name)).current_dir(root).output();
        let output = output.with_context(|| format!("cannot start {name}"))?;
        if !output.status.success() {
            bail!(
                "{name} ended with {}:\n{}",
                output.status,
                String::from_utf8_lossy(&output.stderr)
            );
        }
        let got = String::from_utf8(output.stdout).context("an example printed no UTF-8")?;
        if let Some((at, (expected, got))) =
            expected.lines().zip(got.lines()).enumerate().find(|(_, (e, g))| e != g)
        {
            bail!(
                "examples/{name}.txt:{}: the program's output changed\n  expected {expected}\n  \
                 got      {got}\n`cargo xtask golden` rewrites it",
                at + 1
            );
        }
        if expected != got {
            bail!(
                "examples/{name}.txt: expected {} lines, got {}; `cargo xtask golden` rewrites it",
                expected.lines().count(),
                got.lines().count()
            );
        }
        let page = std::fs::read_to_string(root.join(QUOTING_PAGE))?;
        if quoted(&page, name, &got)? != page {
            bail!(
                "{QUOTING_PAGE} quotes an older output of {name}; `cargo xtask golden` rewrites it"
            );
        }
        println!("{name}: as in examples/{name}.txt and {QUOTING_PAGE}");
    }
    Ok(())
}
