//! The kernel's door: `imbrex serve --ublk` in a virtual machine, whose kernel has ublk whatever this one has.
//!
//! ```text
//!   host    a kernel of the distribution's; imbrex with the feature `ublk`; fio, mkfs.ext4 ... in an initramfs
//!   guest   fio, ext4 --> /dev/ublkbN --> imbrex serve --ublk --> block driver --> zoned drive   (guest.sh)
//!             its last line says whether all was right
//! ```
//!
//! With `--rates` the guest measures instead: the same drive in memory as /dev/ublkbN and as /dev/nbd0.
//! The processor is the host's by KVM where that starts such a kernel, else an emulated one.

mod initramfs;
mod kernel;
mod rates;

use crate::cargo::Cargo;
use crate::packages::{self, Need};
use crate::program::said;
use anyhow::{Context, Result, bail, ensure};
use kernel::Kernel;
use std::path::{Path, PathBuf};
use std::process::Command;

const NEEDS: [Need; 9] = [
    ("/usr/bin/qemu-system-x86_64", "qemu-system-x86"),
    ("/usr/share/doc/busybox-static", "busybox-static"),
    ("/usr/share/doc/libclang-dev", "libclang-dev"),
    ("/usr/bin/fio", "fio"),
    ("/usr/sbin/mkfs.ext4", "e2fsprogs"),
    ("/usr/sbin/blkdiscard", "util-linux"),
    ("/usr/bin/xz", "xz-utils"),
    ("/usr/bin/dpkg-deb", "dpkg"),
    ("/usr/bin/timeout", "coreutils"),
];

/// What measuring needs beside.
const RATE_NEEDS: [Need; 1] = [(NBD_CLIENT, "nbd-client")];
const NBD_CLIENT: &str = "/usr/sbin/nbd-client";

/// How long a guest may take to say that it starts, and to do everything.
const PROBE_S: u32 = 20;
const ALL_S: u32 = 900;

/// An emulated processor now and then does not get through the kernel's own start.
const START_COUNT_MAX: u32 = 3;

/// What a guest begins its lines with, and ends with where all was right.
const MARK: &str = "guest: ";
const RIGHT: &str = "guest: all right";

/// Arguments of `cargo xtask ublk`.
#[derive(clap::Args)]
pub(crate) struct UblkArgs {
    /// Instead: measure random reads and writes of 4 KiB beside the kernel's NBD client, as Markdown
    #[arg(long)]
    rates: bool,
    /// Where something is missing that the guest needs: say so, and do not fail
    #[arg(long)]
    may_skip: bool,
}

/// Builds what is needed and runs the guest.
pub(crate) fn run(root: &Path, args: &UblkArgs) -> Result<()> {
    let may_skip = args.may_skip;
    let what = "the kernel's block device was not tested";
    let skip = |why: &str| {
        ensure!(may_skip, "{why}");
        packages::skip(&format!("{what}; {why}"), "");
        Ok(())
    };
    if std::env::consts::ARCH != "x86_64" {
        return skip("its guest is an x86-64");
    }
    let more: &[Need] = if args.rates { &RATE_NEEDS } else { &[] };
    for needs in [&NEEDS, more] {
        if !packages::provide(needs, what, may_skip)? {
            return Ok(());
        }
    }
    let dir = root.join("target/ublk");
    std::fs::create_dir_all(&dir).context("cannot make a directory for the guest")?;
    let kernel = match Kernel::provide(&dir) {
        Ok(kernel) => kernel,
        Err(error) => return skip(&format!("no kernel with ublk: {error:#}")),
    };
    let imbrex = build(root, &dir)?;
    let programs: &[&str] = if args.rates { &[NBD_CLIENT] } else { &[] };
    let guest = Guest { initramfs: initramfs::make(&dir, &imbrex, programs, &kernel)?, kernel };
    let processor = guest.processor();
    if processor == EMULATED {
        println!("  KVM does not start the guest here: its processor is emulated, which is slower");
    }
    let told = guest.tell(processor, if args.rates { "rates" } else { "" })?;
    let lines = || told.lines().map(str::trim_end).filter(|line| line.starts_with(MARK));
    ensure!(lines().any(|line| line.starts_with(RIGHT)), "the guest ended so:\n{told}");
    if args.rates {
        return rates::print(lines());
    }
    lines().for_each(|line| println!("  {line}"));
    Ok(())
}

/// The binary with the door, after its code, which no other chore compiles, was looked at by the lints.
fn build(root: &Path, dir: &Path) -> Result<PathBuf> {
    let feature =
        ["--package", "imbrex-serve", "--package", "imbrex-cli", "--features", "imbrex-cli/ublk"];
    let clippy = ["clippy", "--all-targets"];
    Cargo::new(root).args(clippy).args(feature).args(["--", "-D", "warnings"]).run()?;
    let cli = ["build", "--release", "--package", "imbrex-cli"];
    Cargo::new(root).args(cli).args(["--features", "ublk"]).run()?;
    // Another chore may build the binary of that name without the door while the guest is made.
    let imbrex = dir.join("imbrex");
    std::fs::copy(root.join("target/release/imbrex"), &imbrex).context("cannot copy imbrex")?;
    Ok(imbrex)
}

/// What QEMU is told of the processor.
type Processor = [&'static str; 4];
const HOST: Processor = ["-accel", "kvm", "-cpu", "host"];
// Without CMPXCHG16B: QEMU 7.2 breaks the flags after it where it emulates processors side by side.
const EMULATED: Processor = ["-accel", "tcg,thread=multi", "-cpu", "max,cx16=off"];

struct Guest {
    kernel: Kernel,
    initramfs: PathBuf,
}

impl Guest {
    /// The host's where it starts this kernel: that there is a /dev/kvm does not say so.
    fn processor(&self) -> Processor {
        let starts = Path::new("/dev/kvm").exists()
            && self.boot(HOST, "probe", PROBE_S).is_ok_and(|told| told.contains(MARK));
        if starts { HOST } else { EMULATED }
    }

    /// What the guest said once it had started; what comes after that happens once.
    fn tell(&self, processor: Processor, argument: &str) -> Result<String> {
        let mut told = String::new();
        for _ in 0..START_COUNT_MAX {
            told = self.boot(processor, argument, ALL_S)?;
            if told.contains(MARK) {
                return Ok(told);
            }
            println!("  the guest did not start");
        }
        bail!("the guest did not start, {START_COUNT_MAX} times; the last:\n{told}")
    }

    /// What the guest said on its console.
    fn boot(&self, processor: Processor, argument: &str, at_most_s: u32) -> Result<String> {
        let mut qemu = Command::new("timeout");
        // In the foreground Ctrl-C ends the guest as well as us.
        qemu.args(["--foreground", "--kill-after=5", &at_most_s.to_string(), "qemu-system-x86_64"])
            .args(processor);
        qemu.args(["-m", "2G", "-smp", "2", "-nodefaults", "-no-reboot"]);
        qemu.args(["-display", "none", "-serial", "stdio", "-kernel"]).arg(&self.kernel.image);
        qemu.arg("-initrd").arg(&self.initramfs);
        said(qemu.args(["-append", &format!("console=ttyS0 quiet panic=-1 {argument}")]))
    }
}
