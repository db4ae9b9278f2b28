//! Random writes, discards, flushes and power cuts, also during opening, against a model of the
//! possible contents of each block. The drive below really destroys.

use super::damage::KeepsDiscarded;
use super::*;
use std::collections::BTreeSet;

/// For every block, all contents that a power cut may leave, as stamps; the last one is the present
/// content.
struct Model {
    may_be: Vec<Vec<u64>>,
    /// Contents from before a discard. A drive that drops discards may still have them if later
    /// writes did not reach the platter.
    stale: Vec<Vec<u64>>,
}

impl Model {
    fn blocks(&mut self, range: BlockRange) -> &mut [Vec<u64>] {
        &mut self.may_be[range.start.get() as usize..range.end().get() as usize]
    }

    fn settle(&mut self, range: BlockRange) {
        for at in range.start.get()..range.end().get() {
            let may_be = &mut self.may_be[at as usize];
            may_be.drain(..may_be.len() - 1);
            if may_be[0] != 0 {
                self.stale[at as usize].clear();
            }
        }
    }

    fn discard(&mut self, range: BlockRange) {
        for at in range.start.get()..range.end().get() {
            let may_be = &mut self.may_be[at as usize];
            self.stale[at as usize].extend(may_be.iter().copied());
            may_be.push(0);
        }
    }
}

/// A drive, bands on it, and their expected contents.
struct Run {
    drive: Arc<SimDisk>,
    shape: Shape,
    bands: Option<FixedBands>,
    model: Model,
    /// So few runs are remembered that most gaps count as valid, and a discard may do nothing.
    has_few_runs: bool,
    next_stamp: u64,
    next_at: u64,
    prng: Prng,
    told: String,
}

/// The parameters of a run.
#[derive(Clone, Copy, Debug)]
struct Shape {
    staging: Staging,
    read_back: ReadBack,
    cache: u64,
    refuses: bool,
    /// It drops discards, as a drive may.
    keeps_discarded: bool,
}

fn below(drive: &Arc<SimDisk>, shape: Shape) -> Arc<dyn Disk> {
    let drive = Arc::clone(drive);
    if shape.keeps_discarded { Arc::new(KeepsDiscarded(drive)) } else { drive }
}

fn has_power(result: Result<(), DiskError>, told: &str) -> bool {
    match result {
        Ok(()) => true,
        Err(DiskError::PowerLost) => false,
        Err(error) => panic!("{told}: {error}"),
    }
}

impl Run {
    fn new(seed: u64, shape: Shape) -> Run {
        let prng = Prng::new(seed);
        let (track_len, overlap, band) = match prng.derive("shape").below(4) {
            0 => (4, 2, 24),
            1 => (1, 5, 20),
            2 => (8, 1, 30),
            _ => (6, 3, 17),
        };
        let builder = SimDisk::builder(shingled(700, track_len, overlap));
        let builder = builder.write_cache(Blocks::new(shape.cache));
        let builder = if shape.refuses { builder.refuse_destroying() } else { builder };
        let drive = Arc::new(builder.memory().unwrap());
        let mut options = options(band);
        (options.staging, options.read_back) = (shape.staging, shape.read_back);
        options.gather_len = Blocks::new([0, 5, 1_000][prng.derive("gather").below(3) as usize]);
        let has_few_runs = prng.derive("runs").chance(1, 3);
        options.run_count_max = if has_few_runs { 2 } else { 0 };
        let bands = FixedBands::format(below(&drive, shape), &options).unwrap();
        let len = bands.geometry().len().get().min(4 * band) as usize;
        Run {
            drive,
            shape,
            bands: Some(bands),
            model: Model { may_be: vec![vec![0]; len], stale: vec![Vec::new(); len] },
            has_few_runs,
            next_stamp: 1,
            next_at: 0,
            prng,
            told: format!("seed {seed} {shape:?}"),
        }
    }

    fn bands(&self) -> &FixedBands {
        self.bands.as_ref().expect("opened")
    }

    fn everything(&self) -> BlockRange {
        range(0, self.model.may_be.len() as u64)
    }

    /// One request; false if the power went.
    fn step(&mut self) -> bool {
        let len = self.model.may_be.len() as u64;
        // A third of all requests continues where the last one ended.
        let goes_on = self.prng.chance(1, 3) && self.next_at < len;
        let at = if goes_on { self.next_at } else { self.prng.below(len) };
        let most = [1, 4, 30][self.prng.below(3) as usize];
        let range = range(at, 1 + self.prng.below((len - at).min(most)));
        self.next_at = range.end().get();
        match self.prng.below(12) {
            0 => {
                let on = has_power(self.bands().flush(), &self.told);
                if on {
                    self.model.settle(self.everything());
                }
                on
            }
            1 | 2 => {
                let on = has_power(self.bands().discard(range), &self.told);
                self.model.discard(range);
                if on && self.has_few_runs {
                    let found = self.stamps(range);
                    for (may_be, stamp) in self.model.blocks(range).iter_mut().zip(found) {
                        let is_kept = may_be.contains(&stamp);
                        assert!(is_kept, "{}: {stamp} of {may_be:?}", self.told);
                        may_be.push(stamp);
                    }
                }
                on
            }
            _ => {
                let first = self.next_stamp;
                self.next_stamp += range.len.get();
                let block = |stamp: u64| stamp.to_le_bytes().repeat(BLOCK_LEN_BYTES / 8);
                let data: Vec<u8> = (first..self.next_stamp).flat_map(block).collect();
                let through = self.prng.chance(1, 8);
                let persist = if through { Persist::Through } else { Persist::Cached };
                let on = has_power(self.bands().write(range.start, &data, persist), &self.told);
                for (may_be, stamp) in self.model.blocks(range).iter_mut().zip(first..) {
                    may_be.push(stamp);
                }
                if on && through {
                    self.model.settle(range);
                }
                on
            }
        }
    }

    fn stamps(&self, range: BlockRange) -> Vec<u64> {
        let mut buf = vec![0xEE; range.len.bytes() as usize];
        self.bands()
            .read(range.start, &mut buf)
            .unwrap_or_else(|error| panic!("{}: reading {range}: {error}", self.told));
        let stamp = |block: &[u8]| {
            assert_eq!(block[8..], block[..BLOCK_LEN_BYTES - 8], "a block is never a mixture");
            u64::from_le_bytes(block[..8].try_into().unwrap())
        };
        buf.chunks(BLOCK_LEN_BYTES).map(stamp).collect()
    }

    fn check(&mut self) {
        let at = self.prng.below(self.model.may_be.len() as u64);
        let len = 1 + self.prng.below((self.model.may_be.len() as u64 - at).min(20));
        let found = self.stamps(range(at, len));
        let now = |may_be: &Vec<u64>| *may_be.last().unwrap();
        let expected: Vec<u64> = self.model.blocks(range(at, len)).iter().map(now).collect();
        assert_eq!(found, expected, "{} at {at}", self.told);
    }

    /// Restores the power and opens the bands, through further power cuts.
    fn recover(&mut self, cuts: u64) {
        self.bands = None;
        for attempt in 0.. {
            self.drive.power_cycle(&mut self.prng).unwrap();
            if attempt < cuts {
                let power_cut_after = Some(self.prng.below(6));
                self.drive.set_faults(FaultPlan { power_cut_after, ..FaultPlan::default() });
            }
            match FixedBands::open(below(&self.drive, self.shape)) {
                Ok(bands) => {
                    self.drive.set_faults(FaultPlan::default());
                    self.bands = Some(bands);
                    break;
                }
                Err(BandsError::Disk { source: DiskError::PowerLost, .. }) => {}
                Err(error) => panic!("{}: {error}", self.told),
            }
        }
        for (at, found) in self.stamps(self.everything()).into_iter().enumerate() {
            let may_be = &mut self.model.may_be[at];
            let is_stale = self.shape.keeps_discarded && self.model.stale[at].contains(&found);
            assert!(
                may_be.contains(&found) || is_stale,
                "{}: block {at}: {found} of {may_be:?}",
                self.told
            );
            *may_be = vec![found];
        }
    }
}

fn shapes() -> impl Iterator<Item = Shape> {
    (0..24).map(|n| Shape {
        staging: Staging::Journaled,
        read_back: [ReadBack::ToEndOfValid, ReadBack::WholeBand][n & 1],
        cache: [0, 7, 60, 10_000][n >> 1 & 3],
        refuses: n >> 3 == 1,
        keeps_discarded: n >> 3 == 2,
    })
}

#[test]
fn flushed_data_survives_power_cuts_anywhere() {
    let (mut rewrites, mut recoveries) = (0, BTreeSet::new());
    for (shape, seed) in (0..6).flat_map(|round| shapes().map(move |s| (s, round))) {
        let mut run = Run::new(seed, shape);
        for cut in 0..8 {
            let power_cut_after = Some(run.prng.below(60));
            run.drive.set_faults(FaultPlan { power_cut_after, ..FaultPlan::default() });
            while run.step() {
                run.check();
            }
            rewrites += run.bands().band_counters().rewrites;
            let cuts = run.prng.below(4);
            recoveries.insert((cut, cuts));
            run.recover(cuts);
        }
    }
    assert!(rewrites > 1_000, "{rewrites}");
    assert!(recoveries.len() > 20, "{recoveries:?}");
}

/// One rewrite, cut at every event of the drive below, and its recovery at every event again.
#[test]
fn a_rewrite_can_be_cut_anywhere() {
    for shape in shapes() {
        for cut in 0..12 {
            for recovery_cut in 0..7 {
                let mut run = Run::new(cut % 4, shape);
                let stamp = |run: &mut Run, at: u64, len: u64, stamp: u64| {
                    let data = stamp.to_le_bytes().repeat((len * 512) as usize);
                    let on = has_power(run.bands().write(Lba::new(at), &data, Persist::Cached), "");
                    for may_be in run.model.blocks(range(at, len)) {
                        may_be.push(stamp);
                    }
                    on
                };
                assert!(stamp(&mut run, 0, 17, 1));
                assert!(run.step() || run.bands.is_none());
                run.bands().flush().unwrap();
                run.model.settle(run.everything());
                let plan = FaultPlan { power_cut_after: Some(cut), ..FaultPlan::default() };
                run.drive.set_faults(plan);
                // An append without a flush, and a rewrite before it.
                let _ = stamp(&mut run, 17, 3, 2) && stamp(&mut run, 2, 5, 3);
                run.bands = None;
                run.drive.power_cycle(&mut run.prng).unwrap();
                let plan =
                    FaultPlan { power_cut_after: Some(recovery_cut), ..FaultPlan::default() };
                run.drive.set_faults(plan);
                let _ = FixedBands::open(below(&run.drive, shape));
                run.recover(1);
            }
        }
    }
}

/// The journal switches regions many times, with power cuts in between.
#[test]
fn the_journal_switches_regions() {
    for (seed, shape) in (0..).zip(shapes().step_by(3)) {
        let mut run = Run::new(seed, shape);
        let epoch = |run: &Run| run.bands().read_state().journal.epoch();
        let first = epoch(&run);
        for _ in 0..6 {
            for _ in 0..80 {
                assert!(run.step());
                run.check();
                run.bands().flush().unwrap();
                run.model.settle(run.everything());
            }
            run.recover(1);
        }
        assert!(epoch(&run) > first + 12, "{} turns", epoch(&run) - first);
    }
}

/// Without staging, all data is intact while the power stays on.
#[test]
fn without_staging_nothing_is_lost_while_the_power_stays() {
    for (seed, shape) in (0..).zip(shapes().filter(|shape| !shape.refuses)) {
        let mut run = Run::new(seed, Shape { staging: Staging::None, ..shape });
        for _ in 0..4 {
            for _ in 0..100 {
                assert!(run.step());
                run.check();
            }
            run.bands().flush().unwrap();
            run.model.settle(run.everything());
            run.recover(0);
        }
        assert_eq!(run.bands().band_counters().staged_bytes, 0);
    }
}

#[test]
fn the_same_seed_gives_the_same_drive() {
    let hashes = |seed| {
        let shape = shapes().nth(2).unwrap();
        let mut run = Run::new(seed, shape);
        for _ in 0..200 {
            run.step();
        }
        run.recover(0);
        (run.drive.image_hash().unwrap(), run.bands().counters(), run.prng.next_u64())
    };
    assert_eq!(hashes(1), hashes(1));
    assert_ne!(hashes(1).0, hashes(2).0);
}

/// Freshly discarded blocks are destroyed, and the power goes before any flush. They read as the
/// old data or as nothing, on a drive that drops discards too.
#[test]
fn a_write_before_discarded_blocks_leaves_none_of_them_destroyed() {
    for (read_back, kept) in
        [ReadBack::ToEndOfValid, ReadBack::WholeBand].into_iter().flat_map(|r| [(r, 0), (r, 1)])
    {
        for gather_len in [0, 8] {
            let drive = Arc::new(SimDisk::builder(shingled(800, 4, 2)).memory().unwrap());
            let drive = Arc::new(KeepsDiscarded(drive));
            let mut options = BandOptions { read_back, ..options(16) };
            options.gather_len = Blocks::new(gather_len);
            let open = || FixedBands::open(Arc::clone(&drive) as Arc<dyn Disk>).unwrap();
            let bands = FixedBands::format(Arc::clone(&drive) as Arc<dyn Disk>, &options).unwrap();
            bands.write(Lba::new(16), &blocks(1, 12), Persist::Through).unwrap();
            // This makes the journal say that the blocks are durable.
            bands.write(Lba::new(64), &blocks(1, 1), Persist::Through).unwrap();
            bands.discard(range(18, 10)).unwrap();
            // The second time, the write's own blocks were discarded too.
            bands.write(Lba::new(16 + 2 * kept), &blocks(2, 2), Persist::Cached).unwrap();
            drop(bands);
            drive.0.power_cycle(&mut Prng::new(1)).unwrap();
            let found = fills(&open(), 16, 12).unwrap_or_else(|error| panic!("{error}"));
            assert!(found.iter().all(|&fill| fill <= 2), "{found:?}");
        }
    }
}
