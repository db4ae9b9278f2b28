//! The kernel's dm-zoned beside our block device, in a virtual machine, whose kernel has both zoned drives in memory
//! and dm-zoned.
//!
//! ```text
//!   host    a kernel of the distribution's; imbrex, fio and dmzadm in an initramfs
//!   guest   fio --> /dev/nbd0 --> imbrex serve --> null_blk, zoned     the same writes, and what each of the two
//!           fio --> /dev/dm-0 --> dm-zoned     --> null_blk, zoned     drives wrote and read for them (guest.sh)
//! ```
//!
//! A measurement, no test: it needs `dmzadm` of dm-zoned-tools, which not every distribution has.

mod figures;

use crate::cargo;
use crate::guest::{self, Contents, Guest, Run};
use crate::packages::Need;
use crate::report::{DataArgs, Report};
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};

/// Packages that this guest needs in addition.
const NEEDS: [Need; 3] = [
    ("/usr/bin/fio", "fio"),
    ("/usr/sbin/blkzone", "util-linux"),
    ("/usr/sbin/nbd-client", "nbd-client"),
];

/// The time limit of the guest.
const ALL_S: u32 = 5400;

const PROGRAMS: [&str; 3] = ["/usr/bin/fio", "/usr/sbin/blkzone", "/usr/sbin/nbd-client"];

const MODULES: [&str; 3] = ["null_blk", "dm_zoned", "nbd"];

/// The program that formats a drive for dm-zoned.
const DMZADM: &str = "dmzadm";

/// Arguments of `cargo xtask dm-zoned`.
#[derive(clap::Args, Debug)]
pub struct DmZonedArgs {
    /// The program dmzadm of dm-zoned-tools; without this option the one on the path
    #[arg(long, value_name = "FILE")]
    dmzadm: Option<PathBuf>,
    #[command(flatten)]
    data: DataArgs,
}

/// Runs the guest and prints what it measured.
pub fn run(root: &Path, args: &DmZonedArgs) -> Result<()> {
    let mut report = Report::new(&args.data)?;
    let dmzadm = dmzadm(args.dmzadm.as_deref())?;
    let what = "dm-zoned was not measured";
    let kernel = guest::kernel(root, &[&NEEDS], what, false)?;
    let kernel = kernel.context("a guest that may not be skipped has a kernel")?;
    let dir = guest::directory(root, "dm_zoned")?;
    cargo::build(root)?;
    let contents = Contents {
        script: include_str!("guest.sh"),
        programs: &PROGRAMS,
        built: &[("imbrex", cargo::imbrex(root)), (DMZADM, dmzadm)],
        modules: &MODULES,
    };
    let guest = Guest::new(kernel, &dir, &contents)?;
    let run = Run { argument: "", devices: &[], begins_anew: false, at_most_s: ALL_S };
    let lines = guest.run(&run)?;
    figures::print(lines.iter().map(String::as_str), &mut report)?;
    report.write(root)
}

/// The program at this path, or the one on the path of the environment.
fn dmzadm(named: Option<&Path>) -> Result<PathBuf> {
    if let Some(path) = named {
        ensure!(path.is_file(), "--dmzadm: no file {}", path.display());
        return Ok(path.to_owned());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found =
        std::env::split_paths(&path).map(|dir| dir.join(DMZADM)).find(|path| path.is_file());
    found.context(
        "dmzadm is not on the path; build dm-zoned-tools, or install it where it is packaged, and name the program \
         with --dmzadm FILE",
    )
}
