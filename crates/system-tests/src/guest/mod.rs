//! A virtual machine with the distribution's kernel, for features that the host's kernel may lack.
//!
//! ```text
//!   host    the distribution's kernel (kernel); programs and a script in an initramfs; QEMU
//!   guest   the first process is the script (begin.sh, then the chore's), with a line `guest: ...` for each
//!             step; the last line reports success
//! ```
//!
//! The processor is the host's if KVM starts the kernel, otherwise an emulated one.
//! Not here: the work of a guest, which is in the script of its chore.

mod initramfs;
mod kernel;

use crate::packages::{self, Need};
use crate::program::said;
use anyhow::{Context, Result, bail, ensure};
use kernel::Kernel;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Packages that every guest needs.
const NEEDS: [Need; 5] = [
    ("/usr/bin/qemu-system-x86_64", "qemu-system-x86"),
    ("/usr/share/doc/busybox-static", "busybox-static"),
    ("/usr/bin/xz", "xz-utils"),
    ("/usr/bin/dpkg-deb", "dpkg"),
    ("/usr/bin/timeout", "coreutils"),
];

/// The time limit for the first line of a guest.
const PROBE_S: u32 = 20;

/// The number of attempts to start a guest: on an emulated processor the kernel sometimes hangs at its start.
const START_COUNT_MAX: u32 = 3;

/// The prefix of a guest's lines, and its last line after success.
const MARK: &str = "guest: ";
const RIGHT: &str = "guest: all right";

/// The content of a guest's file system.
pub(crate) struct Contents<'a> {
    /// The script that the first process runs after guest/begin.sh, for busybox's shell.
    pub(crate) script: &'a str,
    /// Programs of this machine, by their paths.
    pub(crate) programs: &'a [&'a str],
    /// Other programs, by name, for /usr/bin.
    pub(crate) built: &'a [(&'a str, PathBuf)],
    /// Kernel modules. They and the modules that they need are stored as /lib/guest/NAME.ko; /lib/guest/order
    /// lists them in loading order.
    pub(crate) modules: &'a [&'a str],
}

/// The parameters of a run.
#[derive(Clone, Copy)]
pub(crate) struct Run<'a> {
    /// Arguments for the kernel's command line.
    pub(crate) argument: &'a str,
    /// More arguments for QEMU, such as devices.
    pub(crate) devices: &'a [String],
    /// Whether a reset restarts the guest, with its devices unchanged; otherwise a reset ends it.
    pub(crate) begins_anew: bool,
    pub(crate) at_most_s: u32,
}

/// QEMU's arguments for the processor.
type Processor = [&'static str; 4];
const HOST: Processor = ["-accel", "kvm", "-cpu", "host"];
// Without CMPXCHG16B, after which QEMU 7.2 sets wrong flags if it emulates several processors in parallel.
const EMULATED: Processor = ["-accel", "tcg,thread=multi", "-cpu", "max,cx16=off"];

/// A kernel and its initramfs.
pub(crate) struct Guest {
    kernel: Kernel,
    initramfs: PathBuf,
}

/// The directory of the guest called `name`; the shared kernel is next to it.
pub(crate) fn directory(root: &Path, name: &str) -> Result<PathBuf> {
    let dir = root.join("target/guest").join(name);
    std::fs::create_dir_all(&dir).context("cannot make a directory for the guest")?;
    Ok(dir)
}

/// Installs the packages and returns a kernel for guests, from an earlier run or from the distribution. Returns
/// `None` if something is missing and `may_skip` is set, after reporting that `what` was not tested.
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
        return skip("its guest needs an x86-64 machine");
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
    /// Packs the initramfs in `dir`.
    pub(crate) fn new(kernel: Kernel, dir: &Path, contents: &Contents) -> Result<Guest> {
        let initramfs = initramfs::make(dir, contents, &kernel)?;
        Ok(Guest { kernel, initramfs })
    }

    /// Runs the guest, and returns its lines after success.
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
        ensure!(
            lines.iter().any(|line| line.starts_with(RIGHT)),
            "the guest failed; its output:\n{told}"
        );
        Ok(lines)
    }

    /// Chooses the host's processor if it starts this kernel; /dev/kvm alone does not show that.
    fn processor(&self, run: &Run) -> Processor {
        let probe = Run { argument: "probe", begins_anew: false, at_most_s: PROBE_S, ..*run };
        let starts = Path::new("/dev/kvm").exists()
            && self.boot(HOST, &probe).is_ok_and(|told| told.contains(MARK));
        if starts { HOST } else { EMULATED }
    }

    /// The guest's lines, after it has started within a few attempts. Later failures are not retried.
    fn tell(&self, processor: Processor, run: &Run) -> Result<String> {
        let mut told = String::new();
        for _ in 0..START_COUNT_MAX {
            told = self.boot(processor, run)?;
            if told.contains(MARK) {
                return Ok(told);
            }
            println!("  the guest did not start");
        }
        bail!("the guest did not start in {START_COUNT_MAX} attempts; the last output:\n{told}")
    }

    /// The output of the guest on its console.
    fn boot(&self, processor: Processor, run: &Run) -> Result<String> {
        let mut qemu = Command::new("timeout");
        // In the foreground, so that Ctrl-C ends the guest too.
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
