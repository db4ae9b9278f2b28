//! `imbrex serve --ublk` in a virtual machine, whose kernel has ublk even if the host's kernel has not.
//!
//! ```text
//!   host    a kernel of the distribution's; imbrex with the feature `ublk`; fio, mkfs.ext4 ... in an initramfs
//!   guest   fio, ext4 --> /dev/ublkbN --> imbrex serve --ublk --> block driver --> zoned drive   (guest.sh)
//! ```
//!
//! With `--rates` the guest measures instead, with the same drive in memory as /dev/ublkbN and as /dev/nbd0.

mod rates;

use crate::cargo::Cargo;
use crate::guest::{self, Contents, Guest, Run};
use crate::packages::Need;
use crate::report::{DataArgs, Report};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// Packages that this guest needs in addition.
const NEEDS: [Need; 4] = [
    ("/usr/share/doc/libclang-dev", "libclang-dev"),
    ("/usr/bin/fio", "fio"),
    ("/usr/sbin/mkfs.ext4", "e2fsprogs"),
    ("/usr/sbin/blkdiscard", "util-linux"),
];

/// Packages that `--rates` needs in addition.
const RATE_NEEDS: [Need; 1] = [(NBD_CLIENT, "nbd-client")];
const NBD_CLIENT: &str = "/usr/sbin/nbd-client";

/// The time limit of the guest.
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
#[derive(clap::Args, Debug)]
pub struct UblkArgs {
    /// Instead of testing, compare random reads and writes of 4 KiB with the kernel's NBD client, and print
    /// Markdown
    #[arg(long)]
    rates: bool,
    /// If a package is missing that the guest needs, report it and succeed
    #[arg(long)]
    may_skip: bool,
    #[command(flatten)]
    data: DataArgs,
}

/// Builds the programs and runs the guest.
pub fn run(root: &Path, args: &UblkArgs) -> Result<()> {
    let mut report = Report::new(&args.data)?;
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
        script: include_str!("guest.sh"),
        programs: &programs,
        built: &[("imbrex", imbrex)],
        modules: &["ublk_drv", "nbd"],
    };
    let guest = Guest::new(kernel, &dir, &contents)?;
    let argument = if args.rates { "rates" } else { "" };
    let lines = guest.run(&Run { argument, devices: &[], begins_anew: false, at_most_s: ALL_S })?;
    if args.rates {
        rates::print(lines.iter().map(String::as_str), &mut report)?;
        return report.write(root);
    }
    lines.iter().for_each(|line| println!("  {line}"));
    Ok(())
}

/// Builds the binary with ublk, after running the lints on its code, which no other chore compiles.
fn build(root: &Path, dir: &Path) -> Result<PathBuf> {
    let feature =
        ["--package", "imbrex-serve", "--package", "imbrex-cli", "--features", "imbrex-cli/ublk"];
    let clippy = ["clippy", "--all-targets"];
    Cargo::new(root).args(clippy).args(feature).args(["--", "-D", "warnings"]).run()?;
    let build = ["build", "--release", "--bin", "imbrex", "--features", "imbrex-cli/ublk"];
    Cargo::new(root).args(build).run()?;
    // Another chore may build a binary of this name without ublk while the guest is prepared.
    let imbrex = dir.join("imbrex");
    std::fs::copy(root.join("target/release/imbrex"), &imbrex).context("cannot copy imbrex")?;
    Ok(imbrex)
}
