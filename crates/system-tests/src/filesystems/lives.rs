//! The lives of one drive: the work of each, and its end.

use super::kind::Shape;
use super::stand::{Cut, Stand};
use super::tree::Tree;
use super::writer::{PROBES, Writer, Written};
use super::{Tally, is_interrupted};
use crate::program::said;
use crate::random::Random;
use anyhow::{Context, Result, bail, ensure};
use std::io;
use std::process::Command;

const WRITER_COUNT: u64 = 4;

/// The number of changes after which a life ends by itself.
const CHANGES_MAX: u64 = 20_000;

/// The phase of a life in which the power failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Opening,
    Mounting,
    Judging,
    Checking,
    Writing,
    Closing,
}

/// The planned end of a life.
#[derive(Clone, Copy, Debug)]
enum Death {
    Cut(Cut),
    /// By itself, after this many changes.
    Closed {
        changes: u64,
    },
}

impl Death {
    fn draw(random: &mut Random) -> Death {
        // Opening the device, mounting and checking take some dozens of events.
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

/// All lives of a drive.
pub(super) struct Lives<'a> {
    stand: Stand,
    shape: Shape,
    seed: u64,
    /// One tree of the files that fill the file system, and one of each writer.
    trees: Vec<Tree>,
    pub(super) number: u64,
    /// The counts of ends.
    pub(super) before: Vec<String>,
    tally: &'a mut Tally,
}

impl Lives<'_> {
    pub(super) fn new(stand: Stand, shape: Shape, seed: u64, tally: &mut Tally) -> Lives<'_> {
        Lives { stand, shape, seed, trees: Vec::new(), number: 0, before: Vec::new(), tally }
    }

    /// Makes the file system and uses it until `cuts` power cuts are reached in all.
    pub(super) fn all(&mut self, cuts: u64) -> Result<()> {
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
        let Shape { block_len, kind, .. } = self.shape;
        self.stand.attach()?;
        self.stand.make()?;
        self.stand.mount()?;
        let mount = self.stand.mount_point();
        std::fs::create_dir(mount.join(PROBES)).context("writing")?;
        self.trees.push(Tree::new(0, "filler".to_owned(), block_len));
        for number in 1..=WRITER_COUNT {
            let mut tree = Tree::new(number, format!("writer-{number}"), block_len);
            let mut writer = Writer::new(&mut tree, kind, &mount, 0);
            writer.settle_in(block_len).context("writing")?;
            self.trees.push(tree);
        }
        let mut filler = Writer::new(&mut self.trees[0], kind, &mount, 0);
        filler.fill(|index| index % 8 < 3 + self.seed % 3).context("filling it")?;
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

    /// Serves the drive for `work`. A failure counts unless the drive had lost its power by then.
    fn ended(
        &mut self,
        cut: Option<Cut>,
        work: impl FnOnce(&mut Self, &mut Phase) -> Result<()>,
    ) -> Result<()> {
        let mut phase = Phase::Opening;
        let served = self.stand.serve(cut);
        let worked = served.and_then(|()| work(self, &mut phase));
        let may_be_cut = may_be_cut(&worked, || self.stand.can_be_written());
        let ended = self.stand.take_down();
        if is_interrupted() {
            bail!("interrupted");
        }
        if let Ok(ended) = &ended {
            self.tally.cleaned_zones += ended.told("cleaned zones").unwrap_or(0);
        }
        match ended {
            Ok(ended) if ended.is_cut && cut.is_some() && may_be_cut => {
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
                self.trees.iter_mut().for_each(Tree::settle);
                self.tally.closed += 1;
                self.before.push("closed".to_owned());
            }
        }
        Ok(())
    }

    /// Judges all files, and expects their state from then on.
    fn judge(&mut self) -> Result<()> {
        let mount = self.stand.mount_point();
        for entry in std::fs::read_dir(&mount).context("cannot list the mounted directory")? {
            let name = entry.context("cannot list the mounted directory")?.file_name();
            let is_known = self.trees.iter().any(|tree| *tree.name == *name);
            let is_known = is_known || name == PROBES || name == "lost+found";
            ensure!(is_known, "{name:?} was never made");
        }
        for tree in &mut self.trees {
            let (there, found) = tree.judge(&mount.join(&tree.name))?;
            *tree = there;
            self.tally.find(found);
        }
        Ok(())
    }

    /// Runs all writers until each has made its share of `changes` or met an error.
    fn write(&mut self, changes: u64) -> Result<()> {
        let mount = self.stand.mount_point();
        let share = changes / WRITER_COUNT;
        let seed = self.seed << 32 | self.number << 8;
        let kind = self.shape.kind;
        let ends: Vec<(Written, io::Result<()>)> = std::thread::scope(|scope| {
            let writers = self.trees[1..].iter_mut().zip(seed..).map(|(tree, seed)| {
                let mut writer = Writer::new(tree, kind, &mount, seed);
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

/// Whether a power cut may be the cause of a failure. It is not if the drive can be written afterwards: then the cut
/// came later, during the writes of the unmount.
fn may_be_cut(worked: &Result<()>, can_be_written: impl FnOnce() -> bool) -> bool {
    worked.is_ok() || !can_be_written()
}

fn write(writer: &mut Writer<'_>, changes: u64) -> io::Result<()> {
    if changes > 0 {
        writer.tidy_up()?;
    }
    while writer.written.changes < changes && !is_interrupted() {
        writer.act()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with wrong bytes on a drive with power was counted as a cut, and never reported, if the power failed
    /// while the file system was unmounted for the report.
    #[test]
    fn what_was_wrong_before_the_power_went_is_no_power_cut() {
        let wrong = || Err(anyhow::anyhow!("not what it may be"));
        assert!(!may_be_cut(&wrong(), || true));
        assert!(may_be_cut(&wrong(), || false));
        assert!(may_be_cut(&Ok(()), || panic!("nothing is wrong, and nobody asks")));
    }
}
