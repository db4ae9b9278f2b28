//! YCSB against foreign software: its workloads by `imbrex ycsb` on the system's Redis server, RocksDB and
//! LevelDB (`foreign`), and the original YCSB on an Imbrex store (`original`).
//!
//! ```text
//!   redis-server on a unix socket   <--  imbrex ycsb load, run    six workloads, closed and open loop
//!                                   <--  redis-cli                the loaded records are YCSB's
//!                    killed during a run: imbrex prints the figures so far, and an error
//! ```

pub mod compare;
mod foreign;
mod original;

use crate::cargo;
use crate::packages::{self, Need};
use crate::program::said;
use anyhow::{Context, Result, ensure};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const NEEDS: [Need; 2] =
    [("/usr/bin/redis-server", "redis-server"), ("/usr/bin/redis-cli", "redis-tools")];

/// The properties of YCSB's six workloads.
const WORKLOADS: [(&str, &[&str]); 6] = [
    ("a", &["readproportion=0.5", "updateproportion=0.5", "requestdistribution=zipfian"]),
    ("b", &["readproportion=0.95", "updateproportion=0.05", "requestdistribution=zipfian"]),
    ("c", &["readproportion=1", "updateproportion=0", "requestdistribution=zipfian"]),
    ("d", &["updateproportion=0", "insertproportion=0.05", "requestdistribution=latest"]),
    (
        "e",
        &[
            "readproportion=0",
            "updateproportion=0",
            "scanproportion=0.95",
            "insertproportion=0.05",
            "requestdistribution=zipfian",
            "maxscanlength=20",
        ],
    ),
    (
        "f",
        &[
            "readproportion=0.5",
            "updateproportion=0",
            "readmodifywriteproportion=0.5",
            "requestdistribution=zipfian",
        ],
    ),
];

const RECORD_COUNT: u64 = 2_000;

/// Runs all tests; `may_skip` decides whether missing packages end the run.
pub fn run(root: &Path, may_skip: bool) -> Result<()> {
    on_redis(root, may_skip)?;
    foreign::run(root, may_skip)?;
    original::run(root, may_skip)
}

/// Runs every workload by `imbrex` on a server.
fn on_redis(root: &Path, may_skip: bool) -> Result<()> {
    if !packages::provide(&NEEDS, "YCSB on a Redis server was not tested", may_skip)? {
        return Ok(());
    }
    cargo::build(root)?;
    // The path of a socket must be short, and the clone's directory may be deep.
    let dir = tempfile::tempdir().context("cannot make a directory for a server")?;
    let imbrex = cargo::imbrex(root);
    for (name, properties) in WORKLOADS {
        let stand = Stand { imbrex: imbrex.clone(), server: Server::start(dir.path())? };
        stand.workload(name, properties).with_context(|| format!("workload {name}"))?;
    }
    let stand = Stand { imbrex, server: Server::start(dir.path())? };
    stand.killed().context("a server that goes away")
}

/// A Redis server without persistence; dropping it ends the server.
struct Server {
    child: Child,
    socket: PathBuf,
}

impl Server {
    fn start(dir: &Path) -> Result<Server> {
        Server::on_port(dir, 0)
    }

    /// Starts a server that also listens at a local port, for clients without Unix sockets; 0 for none.
    fn on_port(dir: &Path, port: u16) -> Result<Server> {
        let socket = dir.join("redis.sock");
        let _ = std::fs::remove_file(&socket);
        let mut child = Command::new("redis-server")
            .args(["--save", "", "--appendonly", "no", "--bind", "127.0.0.1"])
            .args(["--port", &port.to_string(), "--unixsocket"])
            .arg(&socket)
            .current_dir(dir)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start redis-server")?;
        let stdout = child.stdout.take().context("its output is a pipe")?;
        let mut said = String::new();
        for line in BufReader::new(stdout).lines() {
            let line = line.context("cannot read what redis-server says")?;
            if line.contains("ready to accept connections") {
                return Ok(Server { child, socket });
            }
            said.push_str(&line);
            said.push('\n');
        }
        let _ = child.wait();
        anyhow::bail!("redis-server ended:\n{said}")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Stand {
    imbrex: PathBuf,
    server: Server,
}

impl Stand {
    fn ycsb(&self, phase: &str, properties: &[&str], more: &[&str]) -> Command {
        let mut command = Command::new(&self.imbrex);
        let db = format!("unix://{}", self.server.socket.display());
        command.args(["ycsb", phase, "--db", &db, "--threads", "4"]);
        let counts = [format!("recordcount={RECORD_COUNT}"), "operationcount=4000".to_owned()];
        let all = counts.iter().map(String::as_str).chain(properties.iter().copied());
        for property in all {
            command.args(["-p", property]);
        }
        command.args(more);
        command
    }

    fn cli(&self, words: &[&str]) -> Result<String> {
        said(Command::new("redis-cli").arg("-s").arg(&self.server.socket).args(words))
    }

    fn workload(&self, name: &str, properties: &[&str]) -> Result<()> {
        let verified = [properties, &["dataintegrity=true"]].concat();
        let loaded = said(&mut self.ycsb("load", &verified, &[]))?;
        let count = format!("[INSERT], Return=OK, {RECORD_COUNT}\n");
        ensure!(loaded.contains(&count), "{loaded}");
        ensure!(self.cli(&["zcard", "_indices"])?.trim() == RECORD_COUNT.to_string());
        // YCSB's own first record.
        let first = self.cli(&["hget", "user6284781860667377211", "field0"])?;
        let field_start = "user6284781860667377211:field0:";
        ensure!(first.starts_with(field_start) && first.trim().len() == 100, "{first}");

        let ran = said(&mut self.ycsb("run", &verified, &[]))?;
        for bad in ["ERROR", "NOT_FOUND", "UNEXPECTED_STATE", "FAILED"] {
            ensure!(!ran.contains(bad), "{ran}");
        }
        ensure!(name == "e" || ran.contains("[VERIFY], Return=OK, "), "{ran}");
        let open = ["--target", "2000", "-p", "arrivalgenerator=poisson", "--format", "table"];
        let told = said(&mut self.ycsb("run", &verified, &open))?;
        let schedule = told.lines().find(|line| line.starts_with("  schedule"));
        println!("  {name} {}", schedule.with_context(|| told.clone())?.trim());
        Ok(())
    }

    /// The figures measured before the server's end are printed.
    fn killed(mut self) -> Result<()> {
        said(&mut self.ycsb("load", &[], &[]))?;
        let mut run = self.ycsb("run", &["operationcount=0", "status.interval=1"], &["-s"]);
        let mut running = run
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("cannot start imbrex")?;
        let stderr = running.stderr.take().context("its errors are a pipe")?;
        let mut lines = BufReader::new(stderr).lines();
        // After the second status line a second of operations is done.
        for _ in 0..2 {
            lines.next().context("it ended early")?.context("cannot read what imbrex says")?;
        }
        self.server.child.kill().context("cannot end the server")?;
        let rest: Vec<String> = lines.map_while(Result::ok).collect();
        let output = running.wait_with_output().context("cannot wait for imbrex")?;
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        ensure!(output.status.code() == Some(4), "{}: {rest:?}", output.status);
        let last = rest.last().context("it said nothing")?;
        ensure!(last.starts_with("imbrex: the run ended early"), "{last}");
        ensure!(
            told.starts_with("[OVERALL], RunTime(ms), ") && told.contains("Return=OK"),
            "{told}"
        );
        println!("  killed: {last}");
        Ok(())
    }
}
