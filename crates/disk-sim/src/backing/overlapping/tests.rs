use super::*;
use crate::backing::MemoryBacking;
use imbrex_clockwork::Prng;
use imbrex_disk::{Geometry, GeometrySpec, NeighbourSpec, Rule, ShingleSpec};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

const LEN: u64 = 40;

/// A backing that stores marks, and whose process dies before a given operation.
#[derive(Debug)]
struct Mortal {
    blocks: MemoryBacking,
    marks: Mutex<Tracks>,
    operations_left: AtomicU64,
}

/// Outlives the platter that wraps it.
#[derive(Clone, Debug)]
struct Shared(Arc<Mortal>);

impl Shared {
    fn new() -> Shared {
        Shared(Arc::new(Mortal {
            blocks: MemoryBacking::new(),
            marks: Mutex::default(),
            operations_left: AtomicU64::new(u64::MAX),
        }))
    }

    fn live(&self) -> Result<(), DiskError> {
        let left = self.0.operations_left.load(Ordering::Relaxed);
        if left == 0 {
            return Err(DiskError::PowerLost);
        }
        self.0.operations_left.store(left - 1, Ordering::Relaxed);
        Ok(())
    }
}

impl Backing for Shared {
    fn read(&self, at: Lba, buf: &mut [u8]) -> Result<(), DiskError> {
        self.0.blocks.read(at, buf)
    }
    fn write(&self, at: Lba, data: &[u8], durable: Durable) -> Result<(), DiskError> {
        // A kill may cut a write between any two of its blocks.
        for (index, block) in data.chunks(BLOCK_LEN_BYTES).enumerate() {
            self.live()?;
            self.0.blocks.write(at + Blocks::new(index as u64), block, durable)?;
        }
        Ok(())
    }
    fn zero(&self, range: BlockRange) -> Result<(), DiskError> {
        self.live()?;
        self.0.blocks.zero(range)
    }
    fn set_zone(&self, _: ZoneId, _: ZoneRecord, _: Durable) -> Result<(), DiskError> {
        unreachable!("a shingled drive has no zones")
    }
    fn zone(&self, _: ZoneId) -> Result<ZoneRecord, DiskError> {
        unreachable!("a shingled drive has no zones")
    }
    fn set_marks(&self, at: BlockRange, mark: Option<Mark>, _: Durable) -> Result<(), DiskError> {
        for block in 0..at.len.get() {
            self.live()?;
            let range = BlockRange::new(at.start + Blocks::new(block), Blocks::new(1));
            self.0.marks.lock().unwrap().set(range, mark);
        }
        Ok(())
    }
    fn for_each_mark(&self, see: &mut dyn FnMut(BlockRange, Mark)) -> Result<(), DiskError> {
        let marks = self.0.marks.lock().unwrap();
        let whole = BlockRange::new(Lba::new(0), Blocks::new(LEN));
        marks.runs_in(whole).for_each(|(run, mark)| see(run, mark));
        Ok(())
    }
    fn flush(&self) -> Result<(), DiskError> {
        Ok(())
    }
    fn for_each_block(&self, see: &mut dyn FnMut(Lba, &[u8])) -> Result<(), DiskError> {
        self.0.blocks.for_each_block(see)
    }
    fn stored_bytes(&self) -> Result<u64, DiskError> {
        self.0.blocks.stored_bytes()
    }
}

const SHINGLED: Rule =
    Rule::IsolationDistance(ShingleSpec { track_len: Blocks::new(4), overlap_tracks: 2 });
const INTERLACED: Rule = Rule::Neighbours(NeighbourSpec {
    bottom_track_len: Blocks::new(5),
    top_track_len: Blocks::new(4),
});

fn open(backing: &Shared, rule: Rule) -> OverlappingBacking {
    let geometry = Geometry::new(GeometrySpec { len: Blocks::new(LEN), rule }).unwrap();
    let table = Arc::new(TrackTable::new(geometry));
    OverlappingBacking::new(Box::new(backing.clone()), table).unwrap()
}

/// The first byte of every block; `None` for a destroyed one.
fn all(platter: &OverlappingBacking) -> Vec<Option<u8>> {
    let mut buf = vec![0; BLOCK_LEN_BYTES];
    let mut fill = |at| platter.read(Lba::new(at), &mut buf).ok().map(|()| buf[0]);
    (0..LEN).map(&mut fill).collect()
}

#[derive(Clone, Copy, Debug)]
enum Request {
    Write(BlockRange),
    Discard(BlockRange),
}

fn request(prng: &mut Prng) -> Request {
    let at = prng.below(LEN);
    let range = BlockRange::new(Lba::new(at), Blocks::new(1 + prng.below((LEN - at).min(9))));
    if prng.chance(1, 4) { Request::Discard(range) } else { Request::Write(range) }
}

fn perform(platter: &OverlappingBacking, request: Request, fill: u8) -> Result<(), DiskError> {
    match request {
        Request::Discard(range) => platter.zero(range),
        Request::Write(range) => {
            platter.write(range.start, &vec![fill; range.len.bytes() as usize], Durable::Later)
        }
    }
}

/// The process dies between any two operations of a request. The test checks what the next process
/// sees.
#[test]
fn a_death_inside_a_request_shows_no_destroyed_data_and_hides_no_acknowledged_data() {
    for (seed, rule) in (0..40).flat_map(|seed| [(seed, SHINGLED), (seed, INTERLACED)]) {
        for death in 0..40 {
            let mut prng = Prng::new(seed);
            let backing = Shared::new();
            let platter = open(&backing, rule);
            for fill in 1..12 {
                perform(&platter, request(&mut prng), fill).unwrap();
            }
            let before = all(&platter);
            assert_eq!(
                before,
                all(&open(&backing, rule)),
                "seed {seed}: what is shown is remembered"
            );
            // The model of the whole disk covers writes over several tracks.
            let last = match request(&mut prng) {
                Request::Write(range) => {
                    Request::Write(platter.table.parts(range).next().expect("it has a block"))
                }
                discard @ Request::Discard(_) => discard,
            };
            backing.0.operations_left.store(death, Ordering::Relaxed);
            let is_done = perform(&platter, last, 99).is_ok();
            let after = all(&open(&backing, rule));
            let (own, reach) = match last {
                Request::Discard(range) => (range, [BlockRange::default(); 2]),
                Request::Write(range) => (range, platter.table.reach(range)),
            };
            let has_begun = after.contains(&Some(99));
            for (at, (before, after)) in (0..).map(Lba::new).zip(before.iter().zip(&after)) {
                let told = format!("seed {seed} death {death} {last:?} {at}: {before:?} {after:?}");
                let is_blank = *before == Some(0);
                match last {
                    Request::Discard(_) if own.contains(at) => {
                        assert!(after == before || *after == Some(0), "{told}");
                    }
                    Request::Write(_) if own.contains(at) => {
                        assert!(after == before || *after == Some(99), "{told}");
                        assert!(!is_done || *after == Some(99), "{told}");
                    }
                    Request::Write(_) if reach.iter().any(|r| r.contains(at)) && !is_blank => {
                        assert!(after == before || after.is_none(), "{told}");
                        assert!(!has_begun || after.is_none(), "{told}");
                    }
                    _ => assert_eq!(after, before, "{told}"),
                }
            }
        }
    }
}

#[test]
fn memory_grows_with_runs_so_a_large_drive_is_cheap() {
    let rule = Rule::IsolationDistance(crate::SEALDB_SHINGLE);
    let len = Blocks::new((100 << 30) / BLOCK_LEN_BYTES as u64);
    let geometry = Geometry::new(GeometrySpec { len, rule }).unwrap();
    let table = Arc::new(TrackTable::new(geometry));
    let platter =
        OverlappingBacking::new(Box::new(MemoryBacking::new()), Arc::clone(&table)).unwrap();
    // 4 MiB at a time, one after another, as a store fills a drive.
    let piece = vec![7; 4 << 20];
    for index in 0..64 {
        let at = Lba::new(index * 1024);
        platter.write(at, &piece, Durable::Later).unwrap();
    }
    let whole = BlockRange::new(Lba::new(0), len);
    assert_eq!(table.read().runs_in(whole).count(), 1);
    platter.write(Lba::new(1_000), &piece[..BLOCK_LEN_BYTES], Durable::Later).unwrap();
    assert_eq!(table.read().runs_in(whole).count(), 3);
    assert_eq!(table.read().destroyed(), Blocks::new(1024));
    platter.zero(whole).unwrap();
    assert_eq!(table.read().runs_in(whole).count(), 0);
    assert_eq!(platter.stored_bytes().unwrap(), 0);
}
