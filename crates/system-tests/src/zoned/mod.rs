//! Real zoned block devices: `imbrex` and the test of `disk-host` in a virtual machine, whose kernel has such
//! devices even if the host's kernel has none.
//!
//! ```text
//!   host    a kernel of the distribution's; imbrex and the test of disk-host in an initramfs; files for QEMU
//!   guest   imbrex --> null_blk: conventional zones, limits, zones shorter than their size, zones that fail
//!                      scsi_debug: a disk with ZBC commands          (guest.sh)
//!                      nvme0n1: QEMU's ZNS, which outlives a reset of the guest
//!                      nvme0n2: conventional, for flash
//!                      nvme0n3: a record of the writes acknowledged before a reset
//! ```

use crate::cargo::{self, Cargo};
use crate::guest::{self, Contents, Guest, Run};
use crate::packages::Need;
use anyhow::{Context, Result};
use cargo_metadata::Message;
use std::path::{Path, PathBuf};

/// Packages that this guest needs in addition.
const NEEDS: [Need; 3] = [
    ("/usr/sbin/blkzone", "util-linux"),
    ("/usr/sbin/mkfs.ext4", "e2fsprogs"),
    ("/usr/sbin/nbd-client", "nbd-client"),
];

/// The time limit of the guest.
const ALL_S: u32 = 900;

const PROGRAMS: [&str; 5] = [
    "/usr/bin/setpriv",
    "/usr/sbin/blkzone",
    "/usr/sbin/e2fsck",
    "/usr/sbin/mkfs.ext4",
    "/usr/sbin/nbd-client",
];

const MODULES: [&str; 4] = ["null_blk", "sd_mod", "scsi_debug", "nbd"];

/// The namespaces of the guest's NVMe controller, from 1: name, size in MiB, further QEMU options.
const NAMESPACES: [(&str, u64, &str); 3] = [
    (
        "zns",
        96,
        ",zoned=true,zoned.zone_size=1M,zoned.zone_capacity=768K,zoned.max_open=8,zoned.max_active=14,\
         logical_block_size=4096,physical_block_size=4096",
    ),
    ("flash", 64, ",logical_block_size=4096,physical_block_size=4096"),
    ("notes", 1, ""),
];

/// Arguments of `cargo xtask zoned`.
#[derive(clap::Args, Debug)]
pub struct ZonedArgs {
    /// If a package is missing that the guest needs, report it and succeed
    #[arg(long)]
    may_skip: bool,
}

/// Builds the programs and runs the guest.
pub fn run(root: &Path, args: &ZonedArgs) -> Result<()> {
    let Some(kernel) =
        guest::kernel(root, &[&NEEDS], "zoned block devices were not tested", args.may_skip)?
    else {
        return Ok(());
    };
    let dir = guest::directory(root, "zoned")?;
    let contents = Contents {
        script: include_str!("guest.sh"),
        programs: &PROGRAMS,
        built: &[("imbrex-devices", devices_test(root)?), ("imbrex", imbrex(root)?)],
        modules: &MODULES,
    };
    let guest = Guest::new(kernel, &dir, &contents)?;
    let devices = devices(&dir)?;
    let run = Run { argument: "", devices: &devices, begins_anew: true, at_most_s: ALL_S };
    guest.run(&run)?.iter().for_each(|line| println!("  {line}"));
    Ok(())
}

fn imbrex(root: &Path) -> Result<PathBuf> {
    cargo::build(root)?;
    Ok(cargo::imbrex(root))
}

/// The test of `disk-host` on devices.
fn devices_test(root: &Path) -> Result<PathBuf> {
    let test = ["test", "--package", "imbrex-disk-host", "--test", "devices", "--no-run"];
    let told = Cargo::new(root).args(test).args(["--message-format=json"]).output()?;
    let built = Message::parse_stream(told.as_bytes()).filter_map(|message| match message {
        Ok(Message::CompilerArtifact(artifact)) if artifact.target.is_test() => artifact.executable,
        _ => None,
    });
    Ok(built.last().context("cargo lists no test of disk-host")?.into())
}

/// A controller with a namespace for each of [`NAMESPACES`], in new files. Zones keep their states during a reset
/// of the guest, but not beyond the end of QEMU.
fn devices(dir: &Path) -> Result<Vec<String>> {
    let mut args: Vec<String> = ["-device", "nvme,serial=imbrex"].map(str::to_owned).into();
    for (number, (name, size_mib, more)) in NAMESPACES.iter().enumerate() {
        let path = dir.join(name);
        let file = std::fs::File::create(&path);
        let made = file.and_then(|file| file.set_len(size_mib << 20));
        made.with_context(|| format!("cannot make {}", path.display()))?;
        // A comma ends a value; two commas stand for one.
        let path = path.display().to_string().replace(',', ",,");
        args.push("-drive".to_owned());
        args.push(format!("file={path},format=raw,if=none,id={name}"));
        args.push("-device".to_owned());
        args.push(format!("nvme-ns,drive={name},nsid={}{more}", number + 1));
    }
    Ok(args)
}
