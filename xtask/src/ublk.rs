//! The kernel's door: `imbrex serve --ublk` in a virtual machine, whose kernel has ublk whatever this one has.
//!
//! ```text
//!   host    a kernel of the distribution's; imbrex with the feature `ublk`; fio, mkfs.ext4 ... in an initramfs
//!   guest   fio, ext4 --> /dev/ublkbN --> imbrex serve --ublk --> block driver --> zoned drive   (guest.sh)
//! ```
//!
//! With `--rates` the guest measures instead: the same drive in memory as /dev/ublkbN and as /dev/nbd0.

mod rates;

use crate::cargo::Cargo;
use crate::guest::{self, Contents, Guest, Run};
use crate::packages::Need;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// What its guest needs beside what all do.
const NEEDS: [Need; 4] = [
    ("/usr/share/doc/libclang-dev", "libclang-dev"),
    ("/usr/bin/fio", "fio"),
    ("/usr/sbin/mkfs.ext4", "e2fsprogs"),
    ("/usr/sbin/blkdiscard", "util-linux"),
];

/// What measuring needs beside.
const RATE_NEEDS: [Need; 1] = [(NBD_CLIENT, "nbd-client")];
const NBD_CLIENT: &str = "/usr/sbin/nbd-client";

/// How long the guest may take to do everything.
const ALL_S: u32 = 900;

const PROGRAMS: [&str; 7] = [
    "/usr/bin/fio",
    "/usr/bin/fallocate",
    "/usr/bin/setpriv",
    "/usr/sbin/blkdiscard",
    "/usr/sbin/e2fsck",
    "/usr/sbin/fstrim",
    "/usr/sbin/mkfs.ext4",
];

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
    let more: &[Need] = if args.rates { &RATE_NEEDS } else { &[] };
    let what = "the kernel's block device was not tested";
    let Some(kernel) = guest::kernel(root, &[&NEEDS, more], what, args.may_skip)? else {
        return Ok(());
    };
    let dir = guest::directory(root, "ublk")?;
    let imbrex = build(root, &dir)?;
    let programs =
        if args.rates { [&PROGRAMS[..], &[NBD_CLIENT]].concat() } else { PROGRAMS.to_vec() };
    let contents = Contents {
        script: include_str!("ublk/guest.sh"),
        programs: &programs,
        built: &[("imbrex", imbrex)],
        modules: &["ublk_drv", "nbd"],
    };
    let guest = Guest::new(kernel, &dir, &contents)?;
    let argument = if args.rates { "rates" } else { "" };
    let lines = guest.run(&Run { argument, devices: &[], begins_anew: false, at_most_s: ALL_S })?;
    if args.rates {
        return rates::print(lines.iter().map(String::as_str));
    }
    lines.iter().for_each(|line| println!("  {line}"));
    Ok(())
}

/// The binary with the door, after its code, which no other chore compiles, was looked at by the lints.
fn build(root: &Path, dir: &Path) -> Result<PathBuf> {
    let feature =
        ["--package", "imbrex-serve", "--package", "imbrex-cli", "--features", "imbrex-cli/ublk"];
    let clippy = ["clippy", "--all-targets"];
    Cargo::new(root).args(clippy).args(feature).args(["--", "-D", "warnings"]).run()?;
    let build = ["build", "--release", "--bin", "imbrex", "--features", "imbrex-cli/ublk"];
    Cargo::new(root).args(build).run()?;
    // Another chore may build the binary of that name without the door while the guest is made.
    let imbrex = dir.join("imbrex");
    std::fs::copy(root.join("target/release/imbrex"), &imbrex).context("cannot copy imbrex")?;
    Ok(imbrex)
}
