//! The block device: `imbrex serve` with the usual NBD clients.
//!
//! ```text
//!   nbdinfo, nbdcopy, qemu-img, qemu-io, fio  --NBD-->  imbrex serve  -->  a blank drive
//!        over a socket, a port, TLS                       killed and started again
//! ```

use crate::cargo;
use crate::packages::{self, Need};
use crate::program::said;
use crate::scratch::Scratch;
use anyhow::{Context, Result, ensure};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

pub mod rates;

const NEEDS: [Need; 5] = [
    ("/usr/bin/nbdinfo", "libnbd-bin"),
    ("/usr/bin/qemu-img", "qemu-utils"),
    ("/usr/bin/fio", "fio"),
    ("/usr/bin/openssl", "openssl"),
    ("/usr/bin/kill", "procps"),
];

/// The length of the test drive, which `nbdinfo` must report.
const DRIVE_LEN_BYTES: usize = 64 << 20;

/// The way to reach a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Door {
    Socket,
    Port,
    Tls,
}

/// Serves and uses a drive over every door; `may_skip` decides whether missing packages end the run.
pub fn run(root: &Path, may_skip: bool) -> Result<()> {
    if !packages::provide(&NEEDS, "the block device was not tested", may_skip)? {
        return Ok(());
    }
    cargo::build(root)?;
    let scratch = Scratch::new(root, "block-test")?;
    let dir = scratch.path().to_owned();
    for (door, sector) in
        [(Door::Socket, "512"), (Door::Socket, "4096"), (Door::Port, "512"), (Door::Tls, "4096")]
    {
        let stand = Stand { imbrex: cargo::imbrex(root), dir: dir.clone(), door };
        stand.story(sector).with_context(|| format!("over a {door:?}, sectors of {sector}"))?;
        let more = if door == Door::Tls { "" } else { ", qemu-io, fio" };
        println!(
            "  {:<7} sectors of {sector:<5} nbdinfo, nbdcopy, qemu-img{more}",
            format!("{door:?}")
        );
    }
    Ok(())
}

struct Stand {
    imbrex: PathBuf,
    dir: PathBuf,
    door: Door,
}

/// A running server and its address.
struct Serving {
    child: Child,
    stdout: BufReader<ChildStdout>,
    url: String,
}

impl Stand {
    fn story(&self, sector: &str) -> Result<()> {
        let drive = self.path("drive");
        let _ = std::fs::remove_file(&drive);
        let capacity = DRIVE_LEN_BYTES.to_string();
        let blank = ["drive", "create", "--blank", "--rule", "conventional", "--no-timing"];
        said(
            Command::new(&self.imbrex)
                .args(blank)
                .args(["--capacity", &capacity, "--seed", "7"])
                .arg(&drive),
        )?;
        if self.door == Door::Tls {
            self.certify()?;
        }
        let serving = self.serve(sector)?;
        self.look(&serving.url)?;
        self.copy(&serving.url)?;
        self.write_and_verify(&serving.url, sector)?;
        // The next server must find all acknowledged data, and must replace the socket left behind.
        let before = self.read_back(&serving.url)?;
        serving.kill()?;
        let serving = self.serve(sector)?;
        ensure!(self.read_back(&serving.url)? == before, "other bytes after kill -9");
        let report = serving.stop()?;
        let errors = report.lines().find(|line| line.starts_with("errors"));
        ensure!(errors.is_some_and(|line| line.ends_with(" 0")), "errors:\n{report}");
        Ok(())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Creates a self-signed certificate under the file names that libnbd and QEMU expect.
    fn certify(&self) -> Result<()> {
        let names = "subjectAltName=DNS:localhost,IP:127.0.0.1";
        let request = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30"];
        said(
            Command::new("openssl")
                .args(request)
                .args(["-subj", "/CN=localhost", "-addext", names, "-keyout"])
                .arg(self.path("key"))
                .arg("-out")
                .arg(self.path("ca-cert.pem")),
        )
        .map(drop)
    }

    fn serve(&self, sector: &str) -> Result<Serving> {
        let mut command = Command::new(&self.imbrex);
        command.arg("serve").arg("--drive").arg(self.path("drive"));
        command.args(["--name", "disk", "--sector-size", sector]);
        match self.door {
            Door::Socket => command.arg("--socket").arg(self.path("socket")),
            Door::Port | Door::Tls => command.args(["--listen", "127.0.0.1:0"]),
        };
        if self.door == Door::Tls {
            command.arg("--tls-require").arg("--tls-cert").arg(self.path("ca-cert.pem"));
            command.arg("--tls-key").arg(self.path("key"));
        }
        let mut serving = Serving::start(&mut command)?;
        if self.door == Door::Tls {
            serving.url = format!("{}?tls-certificates={}", serving.url, self.dir.display());
        }
        Ok(serving)
    }

    /// The URL for clients.
    fn look(&self, url: &str) -> Result<()> {
        let told = said(Command::new("nbdinfo").args(["--json", url]))?;
        let can = ["can_multi_conn", "can_fua", "can_flush", "can_trim", "can_zero", "can_df"];
        for name in can.iter().chain(&["can_fast_zero"]) {
            ensure!(told.contains(&format!("\"{name}\": true")), "not {name}:\n{told}");
        }
        let size = format!("\"export-size\": {DRIVE_LEN_BYTES}");
        ensure!(told.contains(&size) && told.contains("base:allocation"), "{told}");
        let listed = said(Command::new("nbdinfo").args(["--list", url]))?;
        ensure!(listed.contains("disk"), "{listed}");
        let map = said(Command::new("nbdinfo").args(["--map", url]))?;
        ensure!(map.contains("hole,zero"), "a blank drive must be one hole:\n{map}");
        Ok(())
    }

    /// The address for `qemu-img`: a URL, or the options that it needs under TLS.
    fn qemu_img(&self, verb: &str, before: &[&str], url: &str, after: &[&str]) -> Result<String> {
        let mut command = Command::new("qemu-img");
        command.arg(verb).args(before);
        if self.door != Door::Tls {
            return said(command.arg(url).args(after));
        }
        let credentials = "tls-creds-x509,id=tls,endpoint=client,verify-peer=on";
        let credentials = format!("{credentials},dir={}", self.dir.display());
        let port = url.split(':').nth(2).and_then(|rest| rest.split('/').next());
        let port = port.with_context(|| format!("no port in {url}"))?;
        let address = "driver=nbd,server.type=inet,server.host=127.0.0.1";
        let options = format!("{address},server.port={port},export=disk,tls-creds=tls");
        said(command.args(["--object", &credentials, "--image-opts", &options]).args(after))
    }

    /// Copies images to the device and back, and compares them.
    fn copy(&self, url: &str) -> Result<()> {
        let source = self.path("source");
        // Data with a long period, between holes.
        let mut bytes = vec![0_u8; DRIVE_LEN_BYTES];
        let mut state = 1_u64;
        for (index, word) in bytes.chunks_exact_mut(8).enumerate() {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            if index >> 18 & 1 == 0 {
                word.copy_from_slice(&state.to_le_bytes());
            }
        }
        std::fs::write(&source, &bytes).context("cannot write an image")?;
        said(Command::new("nbdcopy").arg("--connections=4").arg(&source).arg(url))?;
        ensure!(self.read_back(url)? == bytes, "nbdcopy read back other bytes");
        let told = self.qemu_img("info", &[], url, &[])?;
        ensure!(told.contains("64 MiB"), "{told}");
        let copy = self.path("copy");
        let copy_shown = copy.display().to_string();
        self.qemu_img("convert", &["-O", "raw"], url, &[&copy_shown])?;
        ensure!(std::fs::read(&copy)? == bytes, "qemu-img read other bytes");
        if self.door != Door::Tls {
            let compare = ["compare", "-f", "raw", "-F", "raw"];
            said(Command::new("qemu-img").args(compare).arg(&source).arg(url))?;
        }
        Ok(())
    }

    fn read_back(&self, url: &str) -> Result<Vec<u8>> {
        let back = self.path("back");
        said(Command::new("nbdcopy").arg(url).arg(&back))?;
        std::fs::read(&back).context("cannot read what nbdcopy wrote")
    }

    /// Requests of odd lengths by `qemu-io`, and many parallel requests by fio, which verifies its data.
    fn write_and_verify(&self, url: &str, sector: &str) -> Result<()> {
        if self.door != Door::Tls {
            let mut qemu_io = Command::new("qemu-io");
            for command in [
                "write -P 7 512 1024",
                "read -P 7 512 1024",
                "write -f -P 3 12345 1000",
                "read -P 3 12345 1000",
                "write -z -u 1M 2M",
                "write -z 5M 2M",
                "read -P 0 1M 2M",
                "read -P 0 5M 2M",
                "discard 8M 4M",
                "write -P 9 8M 32M",
                "read -P 9 8M 32M",
                "flush",
            ] {
                qemu_io.args(["-c", command]);
            }
            let told = said(qemu_io.args(["-f", "raw", url]))?;
            ensure!(!told.contains("verification failed"), "{told}");
        } else {
            // fio's URL has no option for certificate files.
            return Ok(());
        }
        let uri = format!("--uri={url}");
        let job =
            ["--name=v", "--ioengine=nbd", "--size=8m", "--numjobs=4", "--offset_increment=8m"];
        let how = ["--verify=crc32c", "--verify_fatal=1", "--fsync=64", "--iodepth=16"];
        let block = if sector == "512" { "--bsrange=512-64k" } else { "--bsrange=4k-64k" };
        let align = format!("--blockalign={sector}");
        for order in ["--rw=randwrite", "--rw=write"] {
            let mut fio = Command::new("fio");
            fio.args(job).args(how).args([order, block, &align, &uri, "--group_reporting"]);
            said(fio.current_dir(&self.dir))?;
        }
        Ok(())
    }
}

impl Serving {
    /// Starts `imbrex serve` and waits until it prints its address.
    fn start(command: &mut Command) -> Result<Serving> {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start imbrex")?;
        let stdout = child.stdout.take().context("its output is a pipe")?;
        let stdout = BufReader::new(stdout);
        // From here on dropping the server ends it.
        let mut serving = Serving { child, stdout, url: String::new() };
        let mut line = String::new();
        serving.stdout.read_line(&mut line).context("cannot read what imbrex says")?;
        let url = line.trim().rsplit_once(" at ").map(|(_, url)| url.to_owned());
        serving.url = url.with_context(|| format!("imbrex serve said {line:?}"))?;
        Ok(serving)
    }

    fn kill(mut self) -> Result<()> {
        self.child.kill().context("cannot kill imbrex")?;
        self.child.wait().map(drop).context("cannot wait for imbrex")
    }

    /// Stops the server with Ctrl-C; returns its report.
    fn stop(mut self) -> Result<String> {
        said(Command::new("kill").args(["-TERM", &self.child.id().to_string()]))?;
        let mut report = String::new();
        self.stdout.read_to_string(&mut report).context("cannot read what imbrex says")?;
        let status = self.child.wait().context("cannot wait for imbrex")?;
        ensure!(status.success(), "imbrex serve ended with {status}:\n{report}");
        Ok(report)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // After a failed test the server may still run.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
