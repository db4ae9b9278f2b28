//! What a page tells people to run, runs: the first command of each results page in its smallest form, and the
//! commands of the guide, one after the other in an empty directory.

use crate::cargo;
use crate::results;
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output};

/// The guide's commands, in an order in which each finds what it needs. `imbrex` stands before each.
const GUIDE: &[&str] = &[
    "layouts",
    "drive create disk.imbrex --capacity 8GiB",
    "drive info disk.imbrex",
    "put disk.imbrex apple red",
    "put disk.imbrex banana yellow",
    "get disk.imbrex apple",
    "load disk.imbrex records.jsonl",
    "scan disk.imbrex --prefix lib --limit 5 --format json",
    "scan disk.imbrex --from a --to b --reverse --keys-only",
    "delete disk.imbrex apple",
    "delete disk.imbrex --prefix lib",
    "compact disk.imbrex",
    "stats disk.imbrex",
    "check disk.imbrex",
    "drive zones disk.imbrex",
    "drive zones disk.imbrex --svg zones.svg",
    "dump disk.imbrex",
    "drive create gear.imbrex --layout gear --capacity 8GiB",
    "drive create rocks.imbrex --layout imr-m --capacity 8GiB --no-store",
    "drive create block.imbrex --rule conventional --capacity 8GiB --blank",
    "drive create smr.imbrex --rule zoned --capacity 8GiB --zone-len 16MiB --blank",
    "bench --benchmarks=fillrandom,readrandom --num 10000",
    "bench --layout gear --benchmarks=fillrandom,overwrite --num 10000 --value_size 1000",
    "drive bench hc620",
    "arrivals --model selfsimilar --rate 1000 --seconds 1",
    "completions bash",
    "man",
];

const RECORDS: &str =
    "{\"key\": \"bash\", \"value\": \"shell\"}\n{\"key\": \"libc6\", \"value\": \"C\"}\n";

/// Runs them with the program `imbrex`, which is built first; the gate has it.
pub(crate) fn run(root: &Path) -> Result<()> {
    cargo::build(root)?;
    let program = cargo::imbrex(root);
    let dir = tempfile::tempdir().context("cannot make a directory")?;
    std::fs::write(dir.path().join("records.jsonl"), RECORDS)
        .context("cannot write the records")?;
    let imbrex = |arguments: &str| -> Result<Output> {
        let output = Command::new(&program)
            .args(arguments.split(' '))
            .current_dir(dir.path())
            .output()
            .with_context(|| format!("cannot start {}: build it first", program.display()))?;
        println!("$ imbrex {arguments}");
        if !output.status.success() {
            let message = String::from_utf8_lossy(&output.stderr).into_owned();
            bail!("`imbrex {arguments}` ended with {}: {message}", output.status);
        }
        Ok(output)
    };
    for command in GUIDE {
        imbrex(command)?;
    }
    let listed = String::from_utf8_lossy(&imbrex("repro list")?.stdout).into_owned();
    let figures: BTreeSet<&str> = listed.lines().filter_map(|l| l.split(' ').next()).collect();
    let mut done = BTreeSet::new();
    for (page, command, smallest) in results::commands(root)? {
        if let Some(name) = command.strip_prefix("imbrex repro ").and_then(|c| c.split(' ').next())
            && name != "all"
            && !figures.iter().any(|figure| figure.starts_with(name))
        {
            bail!("{page}: `{command}`: `imbrex repro list` has no {name}");
        }
        // What is not ours alone to run is a step of its own in CI: adapters, databases, file systems.
        if let Some(arguments) = smallest.strip_prefix("imbrex ").map(str::to_owned)
            && done.insert(arguments.clone())
        {
            imbrex(&arguments).with_context(|| page)?;
        }
    }
    println!("pages: every command runs");
    Ok(())
}
