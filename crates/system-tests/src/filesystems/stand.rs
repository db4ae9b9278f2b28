//! A file system on a drive, with the layers between them: set up and torn down.
//!
//! ```text
//!   files -- mount -- /dev/loopN -- nbdfuse's file -- nbdfuse --NBD--> imbrex serve -- drive image
//! ```
//!
//! Every layer is torn down in every case, from the top, by its own name or process.

use super::kind::{Kind, Shape};
use super::writer::PROBES;
use crate::cargo;
use crate::program::said;
use anyhow::{Context, Result, ensure};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

/// The capacity of the drive, its zones, and the write buffer of the device.
pub(super) struct Size {
    capacity: &'static str,
    zone_len: &'static str,
    buffer: &'static str,
}

/// Some hundreds of zones, enough room for the smallest xfs, and a buffer that is evicted all the time.
pub(super) const SMALL: Size = Size { capacity: "432MiB", zone_len: "1MiB", buffer: "8MiB" };

/// Enough room for fio's files.
pub(super) const LARGE: Size = Size { capacity: "4GiB", zone_len: "16MiB", buffer: "64MiB" };

/// A planned power cut, counted in events from the opening of the drive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut {
    pub(super) after_events: u64,
    pub(super) seed: u64,
    pub(super) cache_bytes: u64,
}

/// A file system, its mount point, and the layers below it.
pub(super) struct Stand {
    imbrex: PathBuf,
    dir: PathBuf,
    shape: Shape,
    size: &'static Size,
    seed: u64,
    /// The file that records the requests to the device.
    record: Option<PathBuf>,
    server: Option<(Child, BufReader<ChildStdout>)>,
    url: String,
    nbdfuse: Option<Child>,
    device: Option<String>,
    is_mounted: bool,
}

/// The end of the server.
pub(super) struct Ended {
    /// It was stopped and has written everything.
    pub(super) is_closed: bool,
    /// The drive has lost its power.
    pub(super) is_cut: bool,
    pub(super) said: String,
}

impl Ended {
    /// A number of the server's report.
    pub(super) fn told(&self, name: &str) -> Option<u64> {
        let row = self.said.lines().find_map(|line| line.strip_prefix(name))?;
        row.replace(' ', "").parse().ok()
    }
}

impl Stand {
    /// Creates a stand with a new drive in `dir`.
    pub(super) fn new(
        root: &Path,
        dir: &Path,
        shape: Shape,
        size: &'static Size,
        seed: u64,
    ) -> Result<Stand> {
        for name in ["mount", "fuse"] {
            std::fs::create_dir_all(dir.join(name)).context("cannot make a directory")?;
        }
        let stand = Stand {
            imbrex: cargo::imbrex(root),
            dir: dir.to_owned(),
            shape,
            size,
            seed,
            record: None,
            server: None,
            url: String::new(),
            nbdfuse: None,
            device: None,
            is_mounted: false,
        };
        stand.create()?;
        Ok(stand)
    }

    /// Makes the server record the requests to the device, in a new file at `path`.
    pub(super) fn record_to(&mut self, path: PathBuf) {
        self.record = Some(path);
    }

    fn create(&self) -> Result<()> {
        let mut create = Command::new(&self.imbrex);
        create.args(["drive", "create", "--blank", "--rule", "zoned", "--no-timing"]);
        create.args(["--capacity", self.size.capacity, "--zone-len", self.size.zone_len]);
        said(create.args(["--seed", &self.seed.to_string()]).arg(self.drive())).map(drop)
    }

    pub(super) fn drive(&self) -> PathBuf {
        self.dir.join("drive")
    }

    pub(super) fn mount_point(&self) -> PathBuf {
        self.dir.join("mount")
    }

    fn fuse(&self) -> PathBuf {
        self.dir.join("fuse")
    }

    fn errors(&self) -> PathBuf {
        self.dir.join("errors")
    }

    /// Starts the server.
    pub(super) fn serve(&mut self, cut: Option<Cut>) -> Result<()> {
        let mut serve = Command::new(&self.imbrex);
        serve.args(["serve", "--make", "--buffer", self.size.buffer, "--drive"]).arg(self.drive());
        if let Some(path) = &self.record {
            serve.arg("--record").arg(path);
        }
        serve.arg("--socket").arg(self.dir.join("socket"));
        serve.args(["--sector-size", &self.shape.sector_len.to_string()]);
        if let Some(Cut { after_events, seed, cache_bytes }) = cut {
            serve.args(["--cut-after", &after_events.to_string(), "--cut-seed", &seed.to_string()]);
            serve.args(["--cache", &cache_bytes.to_string()]);
        }
        let errors = File::create(self.errors()).context("cannot make a file")?;
        let serve = serve.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors);
        let mut child = serve.spawn().context("cannot start imbrex")?;
        let stdout = child.stdout.take().context("its output is a pipe")?;
        let (_, stdout) = self.server.insert((child, BufReader::new(stdout)));
        let mut line = String::new();
        stdout.read_line(&mut line).context("cannot read what imbrex says")?;
        let url = line.trim().rsplit_once(" at ").map(|(_, url)| url.to_owned());
        self.url = url.with_context(|| format!("imbrex serve said {line:?}"))?;
        Ok(())
    }

    /// Makes a loop device of the served device.
    pub(super) fn attach(&mut self) -> Result<()> {
        let mut nbdfuse = Command::new("nbdfuse");
        // It writes its process id when it is ready.
        nbdfuse.args(["--pidfile", "/dev/stdout"]).arg(self.fuse()).arg(&self.url);
        // It also prints every failed request.
        let nbdfuse = nbdfuse.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = nbdfuse.spawn().context("cannot start nbdfuse")?;
        let mut stdout = child.stdout.take().context("its output is a pipe")?;
        self.nbdfuse = Some(child);
        let said_count = stdout.read(&mut [0; 32]).context("cannot read what nbdfuse says")?;
        ensure!(said_count > 0, "nbdfuse ended before it was ready");
        let mut losetup = Command::new("losetup");
        losetup.args(["--direct-io=on", "--sector-size", &self.shape.sector_len.to_string()]);
        let shown = said(losetup.args(["--find", "--show"]).arg(self.fuse().join("nbd")))?;
        let device = shown.lines().next().context("losetup named no device")?.to_owned();
        let name = device.trim_start_matches("/dev/").to_owned();
        self.device = Some(device);
        // Without it the host's page cache would be in between, which survives a killed server.
        let direct = std::fs::read_to_string(format!("/sys/block/{name}/loop/dio"));
        ensure!(direct.is_ok_and(|on| on.trim() == "1"), "{name} does no direct I/O");
        Ok(())
    }

    fn device(&self) -> Result<&str> {
        self.device.as_deref().context("there is no device")
    }

    /// Makes the file system.
    pub(super) fn make(&self) -> Result<()> {
        let line = self.shape.make();
        let (program, args) = line.split_first().context("a command has a name")?;
        said(Command::new(program).args(args).arg(self.device()?)).map(drop)
    }

    pub(super) fn mount(&mut self) -> Result<()> {
        let mut mount = Command::new("mount");
        mount.args(["-t", self.shape.kind.name(), "-o", self.shape.mount_options()]);
        said(mount.arg(self.device()?).arg(self.mount_point()))?;
        self.is_mounted = true;
        Ok(())
    }

    pub(super) fn unmount(&mut self) -> Result<()> {
        said(Command::new("umount").arg(self.mount_point()))?;
        self.is_mounted = false;
        Ok(())
    }

    /// Trims all unused space of the file system.
    pub(super) fn trim(&self) -> Result<()> {
        said(Command::new("sync").arg("--file-system").arg(self.mount_point()))?;
        said(Command::new("fstrim").arg(self.mount_point())).map(drop)
    }

    /// Checks the unmounted file system for damage.
    pub(super) fn check(&self) -> Result<()> {
        let (program, args) = self.shape.kind.check().split_first().context("a name")?;
        said(Command::new(program).args(args).arg(self.device()?)).map(drop)
    }

    /// Whether the drive can still be written: a synced write must reach it, and without power it refuses all
    /// writes. False if there is nothing to write to.
    pub(super) fn can_be_written(&self) -> bool {
        let written = match &self.device {
            _ if self.is_mounted => write_new(&self.mount_point().join(PROBES).join("after")),
            Some(device) => rewrite(Path::new(device)),
            None => return false,
        };
        written.is_ok()
    }

    /// Tears down all layers.
    ///
    /// # Errors
    /// The layers that could not be torn down, and remain.
    pub(super) fn take_down(&mut self) -> Result<Ended> {
        let mut left = Vec::new();
        if self.is_mounted
            && let Err(error) = self.unmount()
        {
            left.push(error);
            let _ = said(Command::new("umount").arg("--lazy").arg(self.mount_point()));
            self.is_mounted = false;
        }
        if let Some(device) = self.device.take() {
            if self.shape.kind == Kind::Btrfs {
                // btrfs identifies devices by their content, and would take an older copy for another device.
                let _ = said(Command::new("btrfs").args(["device", "scan", "--forget", &device]));
            }
            left.extend(said(Command::new("losetup").args(["--detach", &device])).err());
        }
        if let Some(mut nbdfuse) = self.nbdfuse.take() {
            // It ends when its file system is unmounted.
            let mut umount = Command::new("umount");
            if let Err(error) = said(umount.arg("--lazy").arg(self.fuse())) {
                // It may have ended already.
                let _ = nbdfuse.kill();
                left.push(error);
            }
            nbdfuse.wait().context("cannot wait for nbdfuse")?;
        }
        let mut ended = Ended { is_closed: false, is_cut: false, said: String::new() };
        if let Some((mut child, mut stdout)) = self.server.take() {
            if child.try_wait().context("cannot ask for imbrex")?.is_none() {
                said(Command::new("kill").args(["-TERM", &child.id().to_string()]))?;
            }
            stdout.read_to_string(&mut ended.said).context("cannot read what imbrex says")?;
            let status = child.wait().context("cannot wait for imbrex")?;
            let errors = std::fs::read_to_string(self.errors());
            ended.said.push_str(&errors.context("cannot read imbrex's errors")?);
            ended.is_cut = ended.said.contains("the disk has no power");
            ended.is_closed = status.success();
        }
        match left.into_iter().next() {
            Some(error) => Err(error),
            None => Ok(ended),
        }
    }
}

/// Writes a file, durably.
fn write_new(path: &Path) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(&[1; 4096])?;
    file.sync_all()
}

/// Writes existing bytes again, durably, to a device whose file system is not mounted.
fn rewrite(path: &Path) -> io::Result<()> {
    let mut device = File::options().read(true).write(true).open(path)?;
    let mut block = [0; 4096];
    device.read_exact(&mut block)?;
    device.rewind()?;
    device.write_all(&block)?;
    device.sync_all()
}

impl Drop for Stand {
    fn drop(&mut self) {
        if let Err(error) = self.take_down() {
            eprintln!("xtask: cannot take down what stood in {}: {error:#}", self.dir.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_whether_it_can_be_written_stays_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let device = dir.path().join("device");
        let bytes: Vec<u8> = (0..8192).map(|at| (at / 64) as u8).collect();
        std::fs::write(&device, &bytes).unwrap();
        rewrite(&device).unwrap();
        assert_eq!(std::fs::read(&device).unwrap(), bytes);
        write_new(&dir.path().join("after")).unwrap();
        assert!(rewrite(&dir.path().join("gone")).is_err());
        assert!(write_new(&dir.path().join("gone").join("after")).is_err());
    }
}
