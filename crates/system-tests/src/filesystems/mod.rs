//! `filesystems`: ext4, xfs and btrfs on a zoned drive, through many power cuts.
//!
//! ```text
//!   seed:  make a drive and a file system; fill, trim, check and verify it; then repeat lives
//!     open, mount (replays the journal), judge all files, unmount, check, mount,
//!     four writers and occasional fstrim, until
//!       cut       the drive loses its power at a device event and keeps a part of its cache; the cut may
//!                 come while the device is opened, or the file system is mounted, judged or checked
//!       closed    the writers end, the file system is unmounted and checked, the server stops
//! ```
//!
//! A seed decides the options of the file system, the work of the writers, and the device event of the power
//! cut. It does not decide how threads and the kernel interleave, so after a failure the drive is kept as it
//! was before the life that failed.
//!
//! Without power cuts, fio verifies what it wrote, or its requests are recorded (`fio`).
//!
//! Not here: the states allowed after a power cut (`tree`, `content`), the state that a cut leaves
//! (`disk-sim`).

mod content;
mod fio;
mod kind;
mod lives;
mod stand;
mod tree;
mod writer;

use crate::cargo;
use crate::packages::{self, Need};
use crate::program::said;
use crate::report::{DataArgs, Report};
use crate::scratch::Scratch;
use anyhow::{Context, Result, bail, ensure};
use imbrex_results::Table;
pub(crate) use kind::Kind;
use kind::Shape;
use lives::Lives;
use stand::{SMALL, Stand};
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use tree::Found;
use writer::Written;

const NEEDS: [Need; 6] = [
    ("/usr/bin/fio", "fio"),
    ("/usr/bin/nbdfuse", "libnbd-bin"),
    ("/usr/bin/fusermount3", "fuse3"),
    ("/usr/sbin/losetup", "mount"),
    ("/usr/bin/mount", "mount"),
    ("/usr/bin/kill", "procps"),
];

/// The number of power cuts of one drive.
const CUTS_OF_DRIVE: u64 = 10;

/// Whether the user has pressed Ctrl-C.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

fn is_interrupted() -> bool {
    INTERRUPTED.load(Ordering::SeqCst)
}

/// Arguments of `cargo xtask filesystems`.
#[derive(clap::Args, Debug)]
pub struct FilesystemsArgs {
    /// Test only this file system
    #[arg(value_enum)]
    only: Option<Kind>,
    /// Number of power cuts for each file system
    #[arg(long, default_value_t = 20, conflicts_with = "seed")]
    cuts: u64,
    /// First seed; each seed is a drive, used for ten power cuts
    #[arg(long, default_value_t = 1, conflicts_with = "seed")]
    first_seed: u64,
    /// Run only this seed
    #[arg(long)]
    seed: Option<u64>,
    /// Instead of power cuts, run fio for about this many seconds, and verify its data
    #[arg(long, value_name = "SECONDS", conflicts_with_all = ["cuts", "first_seed", "seed", "data"])]
    fio: Option<u64>,
    /// Instead of verifying, record the requests that reach the device, as NAME.csv.zst in this directory
    #[arg(long, value_name = "DIR", requires = "fio")]
    record: Option<PathBuf>,
    /// Directory for the drives, best in memory [default: target/filesystems]
    #[arg(long)]
    dir: Option<PathBuf>,
    #[command(flatten)]
    data: DataArgs,
}

/// Builds the programs and runs the tests that `args` ask for.
pub fn run(root: &Path, args: &FilesystemsArgs) -> Result<()> {
    let dir = args.dir.clone().unwrap_or_else(|| root.join("target/filesystems"));
    let kinds = args.only.map_or(Kind::ALL.to_vec(), |only| vec![only]);
    let first_seed = args.seed.unwrap_or(args.first_seed);
    let cuts = if args.seed.is_some() { CUTS_OF_DRIVE } else { args.cuts };
    if let Some(seconds) = args.fio {
        let fio = |drives: &Drives<'_>| drives.fio(seconds, args.record.as_deref());
        return each(root, &dir, &kinds, false, fio).map(drop);
    }
    let mut report = Report::new(&args.data)?;
    let tallies = each(root, &dir, &kinds, false, |drives| drives.run(first_seed, cuts))?;
    report.keep(table(&tallies));
    report.write(root)
}

/// One of the counts.
type Count = fn(&Tally) -> u64;

/// A column for each file system.
fn table(tallies: &[(&str, Tally)]) -> Table {
    let columns = std::iter::once("").chain(tallies.iter().map(|(name, _)| *name));
    let mut table = Table::new("What ran", columns);
    let rows: [(&str, Count); 16] = [
        ("power cuts", |all| all.cuts.iter().sum()),
        ("of them while the driver opened", |all| all.cuts[0]),
        ("while it was mounted: the journal replayed", |all| all.cuts[1]),
        ("while files were judged", |all| all.cuts[2]),
        ("while it was unmounted, checked, mounted again", |all| all.cuts[3]),
        ("under the writers", |all| all.cuts[4]),
        ("while it was closed", |all| all.cuts[5]),
        ("closed instead", |all| all.closed),
        ("changes", |all| all.written.changes),
        ("syncs", |all| all.written.syncs),
        ("bytes that they covered, MiB", |all| all.written.synced_bytes >> 20),
        ("`fstrim`", |all| all.written.trims),
        ("files judged", |all| all.found.files),
        ("their bytes, MiB", |all| all.found.bytes >> 20),
        ("written, not synced, and gone, KiB", |all| all.found.lost_bytes >> 10),
        ("zones cleaned by the driver", |all| all.cleaned_zones),
    ];
    for (name, of) in rows {
        let counts = tallies.iter().map(|(_, tally)| of(tally).to_string());
        table.row(std::iter::once(name.to_owned()).chain(counts).collect());
    }
    table
}

/// A few power cuts of each file system, and fio; a step of `cargo xtask ci`.
pub fn shortly(root: &Path) -> Result<()> {
    let scratch = Scratch::new(root, "filesystems-test")?;
    let shortly = |drives: &Drives<'_>| {
        let fio = drives.fio(4, None)?;
        Ok(format!("{}; verified by fio: {fio}", drives.run(2, 4)?))
    };
    each(root, scratch.path(), &Kind::ALL, true, shortly).map(drop)
}

/// Runs `run` for each file system, prints its outcome and returns it by name.
fn each<T: fmt::Display>(
    root: &Path,
    dir: &Path,
    kinds: &[Kind],
    may_skip: bool,
    run: impl Fn(&Drives<'_>) -> Result<T>,
) -> Result<Vec<(&'static str, T)>> {
    let mut outcomes = Vec::new();
    if let Err(error) = may_mount() {
        ensure!(may_skip, "{error}");
        packages::skip(&format!("file systems on the block device were not tested; {error}"), "");
        return Ok(outcomes);
    }
    if !packages::provide(&NEEDS, "file systems were not tested", may_skip)? {
        return Ok(outcomes);
    }
    cargo::build(root)?;
    ctrlc::set_handler(|| INTERRUPTED.store(true, Ordering::SeqCst))
        .context("cannot listen to Ctrl-C")?;
    for &kind in kinds {
        let name = kind.name();
        if !packages::provide(kind.needs(), &format!("{name} was not tested"), may_skip)? {
            continue;
        }
        if !is_in_kernel(kind) {
            ensure!(may_skip, "this kernel has no {name}");
            packages::skip(&format!("{name} was not tested; this kernel has none"), "");
            continue;
        }
        let outcome = run(&Drives { root, dir: dir.join(name), kind })?;
        println!("  {name:<6} {outcome}");
        outcomes.push((name, outcome));
    }
    Ok(outcomes)
}

/// Checks that this process may mount and the machine has the devices.
fn may_mount() -> Result<()> {
    const CAP_SYS_ADMIN: u64 = 1 << 21;
    let status = std::fs::read_to_string("/proc/self/status").context("the system is not Linux")?;
    let capabilities = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let capabilities = capabilities.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
    let is_root = capabilities.is_some_and(|all| all & CAP_SYS_ADMIN != 0);
    ensure!(is_root, "mounting needs root");
    for device in ["/dev/fuse", "/dev/loop-control"] {
        ensure!(Path::new(device).exists(), "there is no {device} here");
    }
    Ok(())
}

fn is_in_kernel(kind: Kind) -> bool {
    let is_listed = || {
        let list = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
        list.lines().any(|line| line.trim() == kind.name())
    };
    is_listed() || (said(Command::new("modprobe").arg(kind.name())).is_ok() && is_listed())
}

/// The counts of one file system.
#[derive(Default)]
struct Tally {
    drives: u64,
    cuts: [u64; 6],
    closed: u64,
    cleaned_zones: u64,
    written: Written,
    found: Found,
}

impl Tally {
    fn write(&mut self, written: Written) {
        let total = &mut self.written;
        total.changes += written.changes;
        total.syncs += written.syncs;
        total.synced_bytes += written.synced_bytes;
        total.trims += written.trims;
    }

    fn find(&mut self, found: Found) {
        let total = &mut self.found;
        total.files += found.files;
        total.bytes += found.bytes;
        total.lost_bytes += found.lost_bytes;
        total.zero_bytes += found.zero_bytes;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally {
            drives, cuts: [opening, mounting, judging, checking, writing, closing], ..
        } = self;
        let Tally { closed, cleaned_zones, written, found, cuts, .. } = self;
        let Written { changes, syncs, synced_bytes, trims } = written;
        let Found { files, bytes, lost_bytes, zero_bytes } = found;
        let mib = |bytes: &u64| bytes >> 20;
        write!(
            f,
            "{drives} drives, {} power cuts (opening {opening}, mounting {mounting}, judging {judging}, \
             checking {checking}, writing {writing}, closing {closing}), closed {closed} times; \
             {cleaned_zones} zones cleaned, {changes} changes, {syncs} syncs of {} MiB, {trims} times \
             trimmed; judged {files} files of {} MiB; {} KiB that nobody had synced were gone, {zero_bytes} bytes of them zeros",
            cuts.iter().sum::<u64>(),
            mib(synced_bytes),
            mib(bytes),
            lost_bytes >> 10,
        )
    }
}

/// The drives of one file system.
struct Drives<'a> {
    root: &'a Path,
    dir: PathBuf,
    kind: Kind,
}

impl Drives<'_> {
    fn run(&self, first_seed: u64, cuts: u64) -> Result<Tally> {
        let mut tally = Tally::default();
        for seed in first_seed.. {
            let done: u64 = tally.cuts.iter().sum();
            if done >= cuts {
                break;
            }
            self.drive(seed, done + CUTS_OF_DRIVE.min(cuts - done), &mut tally)?;
            tally.drives += 1;
            let done: u64 = tally.cuts.iter().sum();
            println!("  {} seed {seed}, {done} power cuts so far: nothing lost", self.kind.name());
        }
        std::fs::remove_dir_all(&self.dir).context("cannot remove the test drives")?;
        Ok(tally)
    }

    /// Removes the files of an earlier run.
    fn clear(&self) -> Result<()> {
        for name in ["mount", "fuse"] {
            let path = self.dir.join(name);
            let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
            let is_mounted = mounts.split(' ').any(|word| Path::new(word) == path);
            let shown = path.display();
            ensure!(
                !is_mounted,
                "{shown} is still mounted by an earlier run that was killed; unmount it first"
            );
        }
        if self.dir.exists() {
            std::fs::remove_dir_all(&self.dir).context("cannot remove the copy of the drive")?;
        }
        std::fs::create_dir_all(&self.dir).context("cannot make a directory for drives")
    }

    /// Runs one drive, until `cuts` power cuts are reached in all.
    fn drive(&self, seed: u64, cuts: u64, tally: &mut Tally) -> Result<()> {
        self.clear()?;
        let shape = Shape::of_seed(self.kind, seed);
        let stand = Stand::new(self.root, &self.dir, shape, &SMALL, seed)?;
        let mut lives = Lives::new(stand, shape, seed, tally);
        let lived = lives.all(cuts);
        let Lives { number, before, .. } = lives;
        if is_interrupted() {
            std::fs::remove_dir_all(&self.dir).context("cannot remove the test drive")?;
            bail!("interrupted");
        }
        lived.with_context(|| {
            format!(
                "{} on {shape:?}, seed {seed}, life {number}\nbefore: {}\nkept: {} has the drive, and \
                 as `before` the drive before this life\nagain, if threads interleave alike: cargo \
                 xtask filesystems {} --seed {seed}",
                self.kind.name(),
                before.join(", "),
                self.dir.display(),
                self.kind.name(),
            )
        })
    }
}
