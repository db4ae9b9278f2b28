//! A virtual machine with a kernel of the distribution's, for what this machine's kernel may lack.
//!
//! ```text
//!   host    a kernel of the distribution's (kernel); programs and a script in an initramfs; QEMU
//!   guest   the script is the first process (begin.sh, then the chore's): a line `guest: ...` for each step;
//!             the last one says whether all was right
//! ```
//!
//! The processor is the host's by KVM where that starts such a kernel, else an emulated one.
//! Not here: what a guest does. That is its script, beside the chore that owns it.

mod initramfs;
mod kernel;

use crate::packages::{self, Need};
use crate::program::said;
use anyhow::{Context, Result, bail, ensure};
use kernel::Kernel;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What every guest needs.
const NEEDS: [Need; 5] = [
    ("/usr/bin/qemu-system-x86_64", "qemu-system-x86"),
    ("/usr/share/doc/busybox-static", "busybox-static"),
    ("/usr/bin/xz", "xz-utils"),
    ("/usr/bin/dpkg-deb", "dpkg"),
    ("/usr/bin/timeout", "coreutils"),
];

/// How long a guest may take to say that it starts.
const PROBE_S: u32 = 20;

/// An emulated processor now and then does not get through the kernel's own start.
const START_COUNT_MAX: u32 = 3;

/// What a guest begins its lines with, and ends with where all was right.
const MARK: &str = "guest: ";
const RIGHT: &str = "guest: all right";

/// What is in a guest's file system.
pub(crate) struct Contents<'a> {
    /// What the first process does after guest/begin.sh: a script of busybox's shell.
    pub(crate) script: &'a str,
    /// Programs of this machine, by their paths.
    pub(crate) programs: &'a [&'a str],
    /// Others by their names, for /usr/bin.
    pub(crate) built: &'a [(&'a str, PathBuf)],
    /// Modules of the kernel's: with those that they need as /lib/guest/NAME.ko, in the order of
    /// /lib/guest/order.
    pub(crate) modules: &'a [&'a str],
}

/// How a guest is run.
#[derive(Clone, Copy)]
pub(crate) struct Run<'a> {
    /// On the kernel's command line.
    pub(crate) argument: &'a str,
    /// More for QEMU: devices.
    pub(crate) devices: &'a [String],
    /// Whether a reset begins the guest anew, with devices as they are; else it ends.
    pub(crate) begins_anew: bool,
    pub(crate) at_most_s: u32,
}

/// What QEMU is told of the processor.
type Processor = [&'static str; 4];
const HOST: Processor = ["-accel", "kvm", "-cpu", "host"];
// Without CMPXCHG16B: QEMU 7.2 breaks the flags after it where it emulates processors side by side.
const EMULATED: Processor = ["-accel", "tcg,thread=multi", "-cpu", "max,cx16=off"];

/// A kernel and what it starts.
pub(crate) struct Guest {
    kernel: Kernel,
    initramfs: PathBuf,
}

/// The directory of the guest of that name; the kernel, which is everybody's, lies beside it.
pub(crate) fn directory(root: &Path, name: &str) -> Result<PathBuf> {
    let dir = root.join("target/guest").join(name);
    std::fs::create_dir_all(&dir).context("cannot make a directory for the guest")?;
    Ok(dir)
}

/// A kernel for guests, an earlier one's or what the distribution has, after whatever all of them and this one need
/// is there; none where something is missing and it `may_skip`: then it has said why, and
/// `what` was not tested.
pub(crate) fn kernel(
    root: &Path,
    needs: &[&[Need]],
    what: &str,
    may_skip: bool,
) -> Result<Option<Kernel>> {
    let skip = |why: &str| {
        ensure!(may_skip, "{why}");
        packages::skip(&format!("{what}; {why}"), "");
        Ok(None)
    };
    if std::env::consts::ARCH != "x86_64" {
        return skip("its guest is an x86-64");
    }
    for needs in [&NEEDS[..]].iter().chain(needs) {
        if !packages::provide(needs, what, may_skip)? {
            return Ok(None);
        }
    }
    match Kernel::provide(&root.join("target/guest")) {
        Ok(kernel) => Ok(Some(kernel)),
        Err(error) => skip(&format!("no kernel for its guest: {error:#}")),
    }
}

impl Guest {
    /// Packs it in `dir`.
    pub(crate) fn new(kernel: Kernel, dir: &Path, contents: &Contents) -> Result<Guest> {
        let initramfs = initramfs::make(dir, contents, &kernel)?;
        Ok(Guest { kernel, initramfs })
    }

    /// Runs it; the lines that it said, if all was right.
    pub(crate) fn run(&self, run: &Run) -> Result<Vec<String>> {
        let processor = self.processor(run);
        if processor == EMULATED {
            println!(
                "  KVM does not start the guest here: its processor is emulated, which is slower"
            );
        }
        let told = self.tell(processor, run)?;
        let lines = told.lines().map(str::trim_end).filter(|line| line.starts_with(MARK));
        let lines: Vec<String> = lines.map(str::to_owned).collect();
        ensure!(lines.iter().any(|line| line.starts_with(RIGHT)), "the guest ended so:\n{told}");
        Ok(lines)
    }

    /// The host's where it starts this kernel: that there is a /dev/kvm does not say so.
    fn processor(&self, run: &Run) -> Processor {
        let probe = Run { argument: "probe", begins_anew: false, at_most_s: PROBE_S, ..*run };
        let starts = Path::new("/dev/kvm").exists()
            && self.boot(HOST, &probe).is_ok_and(|told| told.contains(MARK));
        if starts { HOST } else { EMULATED }
    }

    /// What the guest said once it had started; what comes after that happens once.
    fn tell(&self, processor: Processor, run: &Run) -> Result<String> {
        let mut told = String::new();
        for _ in 0..START_COUNT_MAX {
            told = self.boot(processor, run)?;
            if told.contains(MARK) {
                return Ok(told);
            }
            println!("  the guest did not start");
        }
        bail!("the guest did not start, {START_COUNT_MAX} times; the last:\n{told}")
    }

    /// What the guest said on its console.
    fn boot(&self, processor: Processor, run: &Run) -> Result<String> {
        let mut qemu = Command::new("timeout");
        // In the foreground Ctrl-C ends the guest as well as us.
        qemu.args(["--foreground", "--kill-after=5", &run.at_most_s.to_string()])
            .arg("qemu-system-x86_64")
            .args(processor);
        qemu.args(["-m", "2G", "-smp", "2", "-nodefaults"]);
        if !run.begins_anew {
            qemu.arg("-no-reboot");
        }
        qemu.args(["-display", "none", "-serial", "stdio", "-kernel"]).arg(&self.kernel.image);
        qemu.arg("-initrd").arg(&self.initramfs).args(run.devices);
        let line = format!("console=ttyS0 quiet panic=-1 {}", run.argument);
        said(qemu.args(["-append", &line]))
    }
}
