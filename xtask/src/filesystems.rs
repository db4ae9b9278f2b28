//! `filesystems`: ext4, xfs and btrfs on a zoned drive that loses its power again and again.
//!
//! ```text
//!   seed:  a new drive, a file system made, filled, trimmed, checked, verified; then life after life
//!     open, mount (the journal is replayed), judge all files, unmount, check, mount,
//!     four writers and now and then fstrim, until
//!       cut       the drive loses its power at a device event, some of its cache kept; that may come
//!                 while the device is opened, the file system is mounted, judged or checked
//!       closed    the writers end, it is unmounted, checked, and the server stops
//! ```
//!
//! A seed decides how the file system is made, what the writers do and when the power goes, counted in
//! device events; not how threads and the kernel interleave. So a failure keeps the drive as it was
//! before the life that failed.
//!
//! Not here: what may be found after a power cut (`tree`, `content`), what one leaves (`disk-sim`).

mod content;
mod kind;
mod stand;
mod tree;
mod writer;

use crate::cargo::Cargo;
use crate::packages::{self, Need};
use crate::program::said;
use crate::random::Random;
use anyhow::{Context, Result, bail, ensure};
pub(crate) use kind::Kind;
use kind::Shape;
use stand::{Cut, Stand};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use tree::{Found, Tree};
use writer::{Writer, Written};

const NEEDS: [Need; 5] = [
    ("/usr/bin/nbdfuse", "libnbd-bin"),
    ("/usr/bin/fusermount3", "fuse3"),
    ("/usr/sbin/losetup", "mount"),
    ("/usr/bin/mount", "mount"),
    ("/usr/bin/kill", "procps"),
];

const WRITER_COUNT: u64 = 4;

/// Of the files that fill the file system, one in so many stays.
const FILLER_KEPT_OF: usize = 2;

/// A drive is used for so many power cuts.
const CUTS_OF_DRIVE: u64 = 10;

/// A life ends by itself after so many changes, if no power cut comes before.
const CHANGES_MAX: u64 = 20_000;

/// Somebody pressed Ctrl-C.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Arguments of `cargo xtask filesystems`.
#[derive(clap::Args)]
pub(crate) struct FilesystemsArgs {
    /// Only this file system
    #[arg(value_enum)]
    only: Option<Kind>,
    /// How many power cuts each file system shall meet
    #[arg(long, default_value_t = 20, conflicts_with = "seed")]
    cuts: u64,
    /// The first seed; each is a drive, for ten power cuts
    #[arg(long, default_value_t = 1, conflicts_with = "seed")]
    first_seed: u64,
    /// Only this seed
    #[arg(long)]
    seed: Option<u64>,
    /// Where the drives lie; best in memory [default: target/filesystems]
    #[arg(long)]
    dir: Option<PathBuf>,
}

/// Builds what is needed and runs what `args` ask for.
pub(crate) fn run(root: &Path, args: &FilesystemsArgs) -> Result<()> {
    let dir = args.dir.clone().unwrap_or_else(|| root.join("target/filesystems"));
    let kinds = args.only.map_or(Kind::ALL.to_vec(), |only| vec![only]);
    let first_seed = args.seed.unwrap_or(args.first_seed);
    let cuts = if args.seed.is_some() { CUTS_OF_DRIVE } else { args.cuts };
    each(root, &dir, &kinds, false, |drives| drives.run(first_seed, cuts))
}

/// A few power cuts of each file system, as a part of `cargo xtask ci`.
pub(crate) fn shortly(root: &Path) -> Result<()> {
    let dir = root.join("target/filesystems");
    each(root, &dir, &Kind::ALL, true, |drives| drives.run(1, 3))
}

fn each(
    root: &Path,
    dir: &Path,
    kinds: &[Kind],
    may_skip: bool,
    run: impl Fn(&Drives<'_>) -> Result<Tally>,
) -> Result<()> {
    if let Err(error) = may_mount() {
        ensure!(may_skip, "{error}");
        println!("SKIPPED: file systems on the block device were not tested; {error}");
        return Ok(());
    }
    if !packages::provide(&NEEDS, "file systems were not tested", may_skip)? {
        return Ok(());
    }
    Cargo::new(root).args(["build", "--release", "--package", "imbrex-cli"]).run()?;
    ctrlc::set_handler(|| INTERRUPTED.store(true, Ordering::SeqCst))
        .context("cannot listen to Ctrl-C")?;
    for &kind in kinds {
        let name = kind.name();
        if !packages::provide(kind.needs(), &format!("{name} was not tested"), may_skip)? {
            continue;
        }
        if !is_in_kernel(kind) {
            ensure!(may_skip, "this kernel has no {name}");
            println!("SKIPPED: {name} was not tested; this kernel has none");
            continue;
        }
        let tally = run(&Drives { root, dir: dir.join(name), kind })?;
        println!("  {name:<6} {tally}");
    }
    Ok(())
}

/// Whether this process may do all that is done here.
fn may_mount() -> Result<()> {
    const CAP_SYS_ADMIN: u64 = 1 << 21;
    let status = std::fs::read_to_string("/proc/self/status").context("this is no Linux")?;
    let capabilities = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let capabilities = capabilities.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
    let is_root = capabilities.is_some_and(|all| all & CAP_SYS_ADMIN != 0);
    ensure!(is_root, "to mount needs root");
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

/// What a life was doing when the power went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Opening,
    Mounting,
    Judging,
    Checking,
    Writing,
    Closing,
}

/// How a life shall end.
#[derive(Clone, Copy, Debug)]
enum Death {
    Cut(Cut),
    /// By itself, after so many changes.
    Closed {
        changes: u64,
    },
}

impl Death {
    fn draw(random: &mut Random) -> Death {
        // To open the device, to mount and to check takes some dozens of events.
        let after_events = match random.below(12) {
            0..=2 => random.below_some(7),
            3..=7 => 64 + random.below_some(12),
            8..=10 => random.below(1 << 13),
            _ => return Death::Closed { changes: random.below_some(11) },
        };
        let cache_bytes = 4096 << (2 * random.below(8));
        Death::Cut(Cut { after_events, seed: random.next() >> 1, cache_bytes })
    }
}

/// What was done with one file system.
#[derive(Default)]
struct Tally {
    drives: u64,
    cuts: [u64; 6],
    closed: u64,
    /// By the lives that closed; the others cannot tell.
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
             checking {checking}, writing {writing}, closing {closing}), closed {closed} times, \
             after cleaning {cleaned_zones} zones; {changes} changes, {syncs} syncs of {} MiB, {trims} times trimmed; judged {files} files of {} MiB; \
             {} KiB that nobody had synced were gone, {zero_bytes} bytes of them zeros",
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
            println!("  {} seed {seed}: {tally}", self.kind.name());
        }
        std::fs::remove_dir_all(&self.dir).context("cannot remove the test drives")?;
        Ok(tally)
    }

    /// One drive, until there were so many `cuts` in all.
    fn drive(&self, seed: u64, cuts: u64, tally: &mut Tally) -> Result<()> {
        for name in ["mount", "fuse"] {
            let path = self.dir.join(name);
            let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
            let is_mounted = mounts.split(' ').any(|word| Path::new(word) == path);
            let shown = path.display();
            ensure!(!is_mounted, "{shown} is mounted, by a run that was killed; umount it first");
        }
        if self.dir.exists() {
            std::fs::remove_dir_all(&self.dir).context("cannot remove the drive before")?;
        }
        std::fs::create_dir_all(&self.dir).context("cannot make a directory for drives")?;
        let shape = Shape::of_seed(self.kind, seed);
        let stand = Stand::new(self.root, &self.dir, shape, seed)?;
        let mut lives =
            Lives { stand, shape, seed, trees: Vec::new(), number: 0, before: Vec::new(), tally };
        let lived = lives.all(cuts);
        let Lives { number, before, .. } = lives;
        if INTERRUPTED.load(Ordering::SeqCst) {
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

/// All lives of a drive.
struct Lives<'a> {
    stand: Stand,
    shape: Shape,
    seed: u64,
    /// One of the files that fill the file system, and one of each writer.
    trees: Vec<Tree>,
    number: u64,
    before: Vec<String>,
    tally: &'a mut Tally,
}

impl Lives<'_> {
    fn all(&mut self, cuts: u64) -> Result<()> {
        let mut random = Random::new(self.seed);
        self.ended(None, |lives, phase| {
            *phase = Phase::Writing;
            lives.make()
        })?;
        while self.tally.cuts.iter().sum::<u64>() < cuts {
            self.live(Death::draw(&mut random))?;
        }
        self.live(Death::Closed { changes: 100 })?;
        self.live(Death::Closed { changes: 0 })
    }

    /// Makes the file system and fills it.
    fn make(&mut self) -> Result<()> {
        let block_len = self.shape.block_len;
        self.stand.attach()?;
        self.stand.make()?;
        self.stand.mount()?;
        let mount = self.stand.mount_point();
        self.trees.push(Tree::new(0, "filler".to_owned(), block_len));
        for number in 1..=WRITER_COUNT {
            let mut tree = Tree::new(number, format!("writer-{number}"), block_len);
            Writer::new(&mut tree, &mount, 0).settle_in(block_len).context("writing")?;
            self.trees.push(tree);
        }
        let mut filler = Writer::new(&mut self.trees[0], &mount, 0);
        filler.fill(FILLER_KEPT_OF).context("filling it")?;
        self.stand.trim()?;
        self.judge()?;
        self.stand.unmount()?;
        self.stand.check()
    }

    fn live(&mut self, death: Death) -> Result<()> {
        self.number += 1;
        let mut cp = Command::new("cp");
        cp.arg("--sparse=always").arg(self.stand.drive());
        said(cp.arg(self.stand.drive().with_file_name("before")))?;
        let (cut, changes) = match death {
            Death::Cut(cut) => (Some(cut), CHANGES_MAX),
            Death::Closed { changes } => (None, changes),
        };
        self.ended(cut, |lives, phase| {
            *phase = Phase::Mounting;
            lives.stand.attach()?;
            lives.stand.mount()?;
            *phase = Phase::Judging;
            lives.judge()?;
            *phase = Phase::Checking;
            lives.stand.unmount()?;
            lives.stand.check()?;
            lives.stand.mount()?;
            *phase = Phase::Writing;
            lives.write(changes)?;
            *phase = Phase::Closing;
            lives.stand.unmount()?;
            lives.stand.check()
        })
        .with_context(|| format!("{death:?}"))
    }

    /// Serves the drive for `work`; what fails counts unless the drive has lost its power.
    fn ended(
        &mut self,
        cut: Option<Cut>,
        work: impl FnOnce(&mut Self, &mut Phase) -> Result<()>,
    ) -> Result<()> {
        let mut phase = Phase::Opening;
        let served = self.stand.serve(cut);
        let worked = served.and_then(|()| work(self, &mut phase));
        let ended = self.stand.take_down();
        if INTERRUPTED.load(Ordering::SeqCst) {
            bail!("interrupted");
        }
        match ended {
            Ok(ended) if ended.is_cut && cut.is_some() => {
                self.tally.cuts[phase as usize] += 1;
                self.before.push(format!("cut while {phase:?}").to_lowercase());
            }
            ended => {
                let said = match &ended {
                    Ok(ended) if !ended.is_closed => format!("; imbrex serve: {}", ended.said),
                    Ok(_) | Err(_) => String::new(),
                };
                worked.with_context(|| format!("{phase:?}{said}"))?;
                let ended = ended?;
                let is_fine = ended.is_closed && ended.told("errors") == Some(0);
                ensure!(is_fine, "imbrex serve said:\n{}", ended.said);
                self.tally.cleaned_zones += ended.told("cleaned zones").unwrap_or(0);
                self.trees.iter_mut().for_each(Tree::settle);
                self.tally.closed += 1;
                self.before.push("closed".to_owned());
            }
        }
        Ok(())
    }

    /// Judges all that is there, and expects it from then on.
    fn judge(&mut self) -> Result<()> {
        let mount = self.stand.mount_point();
        for entry in std::fs::read_dir(&mount).context("cannot list the mounted directory")? {
            let name = entry.context("cannot list the mounted directory")?.file_name();
            let is_known = self.trees.iter().any(|tree| *tree.name == *name);
            ensure!(is_known || name == "lost+found", "{name:?} was never made");
        }
        for tree in &mut self.trees {
            let (there, found) = tree.judge(&mount.join(&tree.name))?;
            *tree = there;
            self.tally.find(found);
        }
        Ok(())
    }

    /// Lets all writers write until each did its share of `changes`, or met an error.
    fn write(&mut self, changes: u64) -> Result<()> {
        let mount = self.stand.mount_point();
        let share = changes / WRITER_COUNT;
        let seed = self.seed << 32 | self.number << 8;
        let ends: Vec<(Written, io::Result<()>)> = std::thread::scope(|scope| {
            let writers = self.trees[1..].iter_mut().zip(seed..).map(|(tree, seed)| {
                let mut writer = Writer::new(tree, &mount, seed);
                scope.spawn(move || {
                    let end = write(&mut writer, share);
                    (writer.written, end)
                })
            });
            let writers: Vec<_> = writers.collect();
            writers.into_iter().map(|writer| writer.join().expect("it does not panic")).collect()
        });
        let mut result = Ok(());
        for (written, end) in ends {
            self.tally.write(written);
            result = result.and(end);
        }
        result.context("writing")
    }
}

fn write(writer: &mut Writer<'_>, changes: u64) -> io::Result<()> {
    if changes > 0 {
        writer.tidy_up()?;
    }
    while writer.written.changes < changes && !INTERRUPTED.load(Ordering::Relaxed) {
        writer.act()?;
    }
    Ok(())
}
