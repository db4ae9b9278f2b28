//! A census of flipped bits: a small store of each layout, one bit of it flipped at a time, and the
//! outcome for the store.
//!
//! ```text
//!   build a store -> flip one bit -> open, read everything -> outcome, counted by structure
//! ```
//!
//! A bit of metadata should cost nothing: the store opens and every entry is there. A bit of data
//! may cost its block, and then an error names the damage. No bit may cause a wrong answer, the loss
//! of a synced write without an error, or a panic.
//!
//! The tests flip one bit in each stretch of bytes. With `IMBREX_ROT=1` they flip a bit of each byte
//! of metadata, and with `IMBREX_ROT=all` each bit, which takes hours.

mod structure;

use crate::rig::chain;
use crate::scenario::Scenario;
use imbrex::stack::{Drives, LayoutError, Mounted, Stack, mount};
use imbrex_clockwork::{Order, Prng, Runtime, share_of};
use imbrex_disk::Disk;
use imbrex_disk_sim::SimDisk;
use imbrex_engine::{EngineError, OpenMode, Options, ReadOptions, WriteOptions};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use structure::{Place, Structure, places};

const VARIABLE: &str = "IMBREX_ROT";

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// The outcome of a flipped bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    /// The store opened, and everything was there.
    Whole,
    /// The store opened, and some reads failed with an error.
    Named,
    /// The store did not open.
    Refused,
    /// An entry was missing or wrong, without an error.
    Wrong,
    Panicked,
}

/// How often each outcome occurred for each structure, with one reason.
type Census = BTreeMap<(Structure, Outcome), (u64, String)>;

/// A store on drives in memory, and its content.
struct Subject {
    scenario: &'static Scenario,
    disk: Arc<SimDisk>,
    flash: Option<Arc<SimDisk>>,
    map: Map,
}

fn key(n: u32) -> Vec<u8> {
    format!("key {n:03}").into_bytes()
}

impl Subject {
    /// A closed store with tables in two levels, and a log of synced writes.
    fn build(scenario: &'static Scenario) -> Subject {
        let memory = |geometry| {
            let builder = SimDisk::builder(geometry).refuse_destroying();
            Arc::new(builder.memory().expect("the rules of the scenarios are simulated"))
        };
        let disk = memory(scenario.geometry());
        let flash = scenario.flash_geometry().map(memory);
        let mut subject = Subject { scenario, disk, flash, map: Map::new() };
        let (layout, recipe) = scenario.layout.zip(scenario.recipe()).unwrap();
        let (runtime, world) = Runtime::virtual_time(Order::SmallestTime);
        layout.format_files(subject.drives(), &runtime, &recipe, 1).unwrap();
        let stack = subject.open(&runtime, OpenMode::ReadWrite).unwrap();
        subject.fill(&stack);
        stack.close().unwrap();
        world.drop_jobs();
        subject
    }

    fn fill(&mut self, stack: &Stack) {
        let keyspace = stack.db.default_keyspace();
        let mut prng = Prng::new(5);
        for round in 0..4 {
            for n in 0..40 {
                let key = key((n * 7 + round * 3) % 100);
                let mut value = vec![0; 200];
                prng.fill(&mut value);
                keyspace.put_with(&key, &value, WriteOptions::SYNC).unwrap();
                self.map.insert(key, value);
            }
            match round {
                0 => stack.db.flush().unwrap(),
                1 => keyspace.compact_range(None, None).unwrap(),
                2 => {
                    keyspace.delete_range_with(key(20)..key(24), WriteOptions::SYNC).unwrap();
                    self.map.retain(|at, _| *at < key(20) || key(24) <= *at);
                    stack.db.flush().unwrap();
                }
                _ => {}
            }
        }
    }

    fn drives(&self) -> Drives {
        let drives = Drives::from(Arc::clone(&self.disk));
        match &self.flash {
            Some(flash) => drives.with_flash(Arc::clone(flash) as Arc<dyn Disk>),
            None => drives,
        }
    }

    fn mount(&self, runtime: &Runtime) -> Result<Mounted, LayoutError> {
        mount(self.drives(), runtime)
    }

    fn open(&self, runtime: &Runtime, open_mode: OpenMode) -> Result<Stack, LayoutError> {
        let options = self.scenario.recipe().unwrap().options;
        let options = Options { background_work: false, open_mode, ..options };
        self.mount(runtime)?.open_db(runtime, options)
    }

    /// Whether opening the store for reading leaves the drive as it is.
    fn is_read_without_writes(&self) -> bool {
        self.scenario.recipe().is_some_and(|recipe| recipe.bands.is_none())
    }

    /// Opens the store and compares everything with its content.
    fn examine(&self, open_mode: OpenMode) -> (Outcome, String) {
        let (runtime, world) = Runtime::virtual_time(Order::SmallestTime);
        let examined = catch_unwind(AssertUnwindSafe(|| match self.open(&runtime, open_mode) {
            Ok(stack) => self.compare(&stack),
            Err(error) => (Outcome::Refused, chain(&error)),
        }));
        world.drop_jobs();
        examined.unwrap_or_else(|_| (Outcome::Panicked, "a panic".to_owned()))
    }

    /// Opens the store without what is damaged.
    fn salvage(&self) {
        let (runtime, world) = Runtime::virtual_time(Order::SmallestTime);
        let stack = self.open(&runtime, OpenMode::Salvage).unwrap();
        assert!(!stack.db.losses().is_empty(), "{}", self.scenario.name);
        drop(stack);
        world.drop_jobs();
    }

    fn compare(&self, stack: &Stack) -> (Outcome, String) {
        let keyspace = stack.db.default_keyspace();
        let mut named = None;
        for key in (0..100).map(key) {
            match keyspace.get(&key) {
                Ok(got) if got.as_deref() == self.map.get(&key).map(Vec::as_slice) => {}
                Ok(_) => return (Outcome::Wrong, String::from_utf8_lossy(&key).into_owned()),
                Err(error) => named = Some(chain(&error)),
            }
        }
        let scan = || -> Result<Map, EngineError> {
            let mut iter = keyspace.iter(ReadOptions::default())?;
            iter.seek_to_first()?;
            let mut map = Map::new();
            while iter.valid() {
                map.insert(iter.key().to_vec(), iter.value().to_vec());
                iter.next()?;
            }
            Ok(map)
        };
        match scan() {
            Ok(map) if map == self.map => {}
            Ok(_) => return (Outcome::Wrong, "a scan".to_owned()),
            Err(error) => named = Some(chain(&error)),
        }
        named.map_or((Outcome::Whole, String::new()), |error| (Outcome::Named, error))
    }

    /// All bytes that have a structure.
    fn places(&self) -> Vec<Place> {
        // Mounting may write, so an equal store is mounted.
        let twin = Subject::build(self.scenario);
        let (runtime, world) = Runtime::virtual_time(Order::SmallestTime);
        let mounted = twin.mount(&runtime).unwrap();
        let places = places(&*self.disk, &mounted);
        drop(mounted);
        world.drop_jobs();
        places
    }
}

/// One bit in every so many bits of each structure.
fn stride_bits(structure: Structure, open_mode: OpenMode) -> usize {
    let stride = match std::env::var(VARIABLE).as_deref() {
        Ok("all") => 1,
        Ok(_) => 11,
        Err(_) => 1201,
    };
    let is_data = matches!(structure, Structure::TableData | Structure::LogFrame);
    let stride = if is_data { stride * 101 } else { stride };
    if open_mode == OpenMode::ReadWrite { stride * 7 } else { stride }
}

/// Flips bits all over a store of `scenario`, each in turn.
fn take(scenario: &'static Scenario, open_mode: OpenMode, census: &mut Census) {
    let mut subject = Subject::build(scenario);
    let is_kept = open_mode != OpenMode::ReadWrite && subject.is_read_without_writes();
    let places = subject.places();
    for (nth, Place { structure, block, bytes }) in places.into_iter().enumerate() {
        // At least one bit of each place.
        let stride = stride_bits(structure, open_mode).min(8 * bytes.len()).max(1);
        for bit in (8 * bytes.start + nth % stride..8 * bytes.end).step_by(stride) {
            subject.disk.flip_bit(block, bit as u32).unwrap();
            let (outcome, reason) = subject.examine(open_mode);
            if (structure, outcome) == (Structure::LogFrame, Outcome::Refused) {
                subject.salvage();
            }
            let (count, _) = census.entry((structure, outcome)).or_insert_with(|| (0, reason));
            *count += 1;
            if is_kept {
                subject.disk.flip_bit(block, bit as u32).unwrap();
            } else {
                subject = Subject::build(scenario);
            }
        }
    }
    assert_eq!(subject.examine(open_mode), (Outcome::Whole, String::new()), "{}", scenario.name);
}

/// Takes the census of every layout, prints it, and checks it.
fn take_all(open_mode: OpenMode) {
    let mut census = Census::new();
    let of_layout = |scenario: &&Scenario| scenario.name.starts_with("layout-");
    // The gate takes others of them with each commit.
    for scenario in share_of(Scenario::all().iter().filter(of_layout)) {
        let mut of_layout = Census::new();
        take(scenario, open_mode, &mut of_layout);
        for ((structure, outcome), (count, reason)) in of_layout {
            let is_right = is_allowed(structure, outcome);
            assert!(is_right, "{}: {structure:?}: {outcome:?}, {reason}", scenario.name);
            census.entry((structure, outcome)).or_insert((0, reason)).0 += count;
        }
    }
    for ((structure, outcome), (count, reason)) in &census {
        println!("{structure:?} {outcome:?} {count} {reason}");
    }
    let has_marks = census.keys().any(|(structure, _)| *structure == Structure::LogLastFrame);
    assert!(has_marks, "no log ends with a frame that records what is durable");
}

/// Whether a flipped bit of `structure` may have this outcome.
fn is_allowed(structure: Structure, outcome: Outcome) -> bool {
    match (structure, outcome) {
        (_, Outcome::Whole) => true,
        // A hole in a log may hide later writes of any key, so nothing but salvage opens the store.
        (Structure::LogFrame, Outcome::Refused) => true,
        // The keys of one block, or of the blocks that one partition finds.
        (Structure::TableData | Structure::TableIndex, Outcome::Named) => true,
        // Wrong: the journal of fixed bands has no copy. Its last record looks torn if it rots.
        (Structure::BandLog, Outcome::Refused | Outcome::Wrong) => true,
        _ => false,
    }
}

#[test]
fn a_flipped_bit_costs_no_store_that_is_read() {
    take_all(OpenMode::ReadOnly);
}

#[test]
fn a_flipped_bit_costs_no_store_that_is_written() {
    take_all(OpenMode::ReadWrite);
}
