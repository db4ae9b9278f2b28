//! YCSB's workloads by `imbrex ycsb` on the system's RocksDB and LevelDB, in process.

use super::{RECORD_COUNT, WORKLOADS};
use crate::cargo;
use crate::packages::{self, Need};
use crate::program::said;
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::Command;

const NEEDS: [Need; 3] = [
    ("/usr/include/rocksdb/c.h", "librocksdb-dev"),
    ("/usr/bin/ldb", "rocksdb-tools"),
    ("/usr/include/leveldb/c.h", "libleveldb-dev"),
];

/// Runs every workload on both; reads verify their values.
pub(super) fn run(root: &Path, may_skip: bool) -> Result<()> {
    if !packages::provide(&NEEDS, "YCSB on RocksDB and LevelDB was not tested", may_skip)? {
        return Ok(());
    }
    cargo::build(root)?;
    let imbrex = cargo::imbrex(root);
    let dir = tempfile::tempdir().context("cannot make a directory for databases")?;
    for kind in ["rocksdb", "leveldb"] {
        for (name, properties) in WORKLOADS {
            let path = dir.path().join(format!("{kind}-{name}"));
            let ycsb = |phase: &str| {
                let mut command = Command::new(&imbrex);
                let db = format!("{kind}://{}", path.display());
                command.args(["ycsb", phase, "--db", &db, "--threads", "4"]);
                let counts =
                    [format!("recordcount={RECORD_COUNT}"), "operationcount=4000".to_owned()];
                for property in counts.iter().map(String::as_str).chain(properties.iter().copied())
                {
                    command.args(["-p", property]);
                }
                command.args(["-p", "dataintegrity=true"]);
                said(&mut command)
            };
            let loaded = ycsb("load")?;
            let count = format!("[INSERT], Return=OK, {RECORD_COUNT}\n");
            ensure!(loaded.contains(&count), "{kind}, workload {name}: {loaded}");
            let ran = ycsb("run")?;
            for bad in ["ERROR", "NOT_FOUND", "UNEXPECTED_STATE", "FAILED"] {
                ensure!(!ran.contains(bad), "{kind}, workload {name}: {ran}");
            }
            ensure!(
                name == "e" || ran.contains("[VERIFY], Return=OK, "),
                "{kind}, workload {name}: {ran}"
            );
        }
        println!("  {kind}: six workloads, every value verified");
    }
    // RocksDB's own tool finds YCSB's first record; it prints values beyond a zero byte only in hexadecimal.
    let db = format!("--db={}", dir.path().join("rocksdb-a").display());
    let (first, hex) = ("user6284781860667377211", "--value_hex");
    let found = said(Command::new("ldb").args([&db, hex, "get", first]))?;
    let field: String = format!("{first}:field0:").bytes().map(|b| format!("{b:02X}")).collect();
    ensure!(found.contains(&field), "ldb finds {found:?} under {first}");
    Ok(())
}
