//! What CI runs: a list of named steps, cheapest first, each one line of `cargo`.

use crate::cargo::{self, Cargo, TESTED_FEATURES, torture};
use crate::packages;
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::time::{Duration, Instant};

/// Programs under `examples/` whose output is a golden file beside them.
const EXAMPLES: [&str; 1] = ["journey_of_a_put"];

/// The page that quotes their output.
const QUOTING_PAGE: &str = "docs/concepts/a_put.md";

/// One step: a name and what it does.
type Step = (&'static str, fn(&Path) -> Result<()>);

const STEPS: &[Step] = &[
    ("format", |root| shown(Cargo::new(root).args(["fmt", "--all", "--check"]))),
    ("lints", |root| {
        let clippy = ["clippy", "--workspace", "--all-targets", "--features", TESTED_FEATURES];
        shown(Cargo::new(root).args(clippy).args(["--", "-D", "warnings"]))
    }),
    ("tidy", |root| shown(Cargo::new(root).args(["test", "--package", "xtask"]))),
    ("tests", |root| {
        shown(Cargo::new(root).args(["test", "--workspace", "--features", TESTED_FEATURES]))
    }),
    ("documentation", |root| {
        let doc = ["doc", "--workspace", "--no-deps", "--document-private-items"];
        let doc = Cargo::new(root).args(doc).args(["--features", TESTED_FEATURES]);
        shown(doc.env("RUSTDOCFLAGS", "-Dwarnings"))
    }),
    ("examples", examples),
    ("torture", |root| shown(torture(root).args(["--seeds", "2000"]))),
    // More of what the step before has few of.
    ("layouts", |root| {
        let layouts = ["--scenario", "layout-*", "--each", "150", "--first-seed", "100000"];
        shown(torture(root).args(layouts))
    }),
    ("blocks", |root| {
        let blocks = ["--scenario", "blocks*", "--each", "500", "--first-seed", "200000"];
        shown(torture(root).args(blocks))
    }),
    ("filesystem", |root| {
        let filesystem = ["--scenario", "filesystem*", "--each", "60", "--first-seed", "300000"];
        shown(torture(root).args(filesystem))
    }),
    ("sweeps", |root| {
        let sweeps = ["--seeds", "160", "--every", "25", "--cuts-max", "30"];
        shown(torture(root).args(sweeps))
    }),
    ("adapters", |root| crate::adapters::run(root, true, None)),
    ("block", |root| crate::block::run(root, true)),
    ("ycsb", |root| crate::ycsb::run(root, true)),
    ("filesystems", crate::filesystems::shortly),
    ("demo", |root| shown(Cargo::release(root).args(["run", "--release", "--", "demo"]))),
];

/// Runs every step in order; the first that fails ends the run.
pub(crate) fn run(root: &Path) -> Result<()> {
    cargo::link_plainly();
    let mut times = Vec::new();
    let start = now();
    for (name, step) in STEPS {
        println!("\n=== {name} ===");
        let step_start = now();
        step(root).with_context(|| format!("step {name:?} failed"))?;
        times.push((name, step_start.elapsed()));
    }
    println!("\n=== all {} steps passed ===", STEPS.len());
    for (name, time) in times {
        println!("{name:<16} {}", seconds(time));
    }
    println!("{:<16} {}", "total", seconds(start.elapsed()));
    for what in packages::skipped() {
        println!("SKIPPED: {what}");
    }
    Ok(())
}

/// Rewrites what script tests and examples expect.
pub(crate) fn golden(root: &Path, package: Option<&str>) -> Result<()> {
    let which = match package {
        Some(package) => vec!["test", "--package", package],
        None => vec!["test", "--workspace"],
    };
    shown(Cargo::new(root).env("REWRITE", "1").args(which))?;
    if package.is_none() {
        for name in EXAMPLES {
            let path = root.join("examples").join(name).with_extension("txt");
            let output = example_output(root, name)?;
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

fn examples(root: &Path) -> Result<()> {
    for name in EXAMPLES {
        let path = root.join("examples").join(name).with_extension("txt");
        let expected = std::fs::read_to_string(&path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        let got = example_output(root, name)?;
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

fn example_output(root: &Path, name: &str) -> Result<String> {
    Cargo::new(root).args(["run", "--quiet", "--bin", name]).output()
}

fn shown(cargo: Cargo) -> Result<()> {
    println!("$ {}", cargo.shown());
    cargo.run()
}

#[expect(clippy::disallowed_methods, reason = "how long a chore took, for a person to read")]
fn now() -> Instant {
    Instant::now()
}

fn seconds(time: Duration) -> String {
    format!("{:6.1} s", time.as_secs_f64())
}
