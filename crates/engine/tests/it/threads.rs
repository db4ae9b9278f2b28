//! Threads that use one store at once: each finds what it wrote, and no call waits forever.

use crate::stage::{Stage, key, seeded, small, small_keyspace};
use imbrex_clockwork::{Budget, Job, Prng, Runtime, Step, StillClock, ThreadScheduler};
use imbrex_engine::{Db, EngineError, Keyspace, ReadOptions, WriteBatch, WriteOptions};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};

const KEY_COUNT: u64 = 120;

fn threads(worker_count: usize) -> (Runtime, Arc<ThreadScheduler>) {
    let scheduler = Arc::new(ThreadScheduler::new(worker_count));
    (Runtime { clock: Arc::new(StillClock), scheduler: Arc::clone(&scheduler) as _ }, scheduler)
}

/// The keys of one thread, and their expected values.
struct Worker {
    db: Db,
    ks: Keyspace,
    other: Keyspace,
    prefix: String,
    prng: Prng,
    model: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Worker {
    fn own_key(&mut self) -> Vec<u8> {
        let number = self.prng.below(KEY_COUNT);
        [self.prefix.as_bytes(), &key(number)].concat()
    }

    fn value(&mut self) -> Vec<u8> {
        let len = 1 + self.prng.below(700) as usize;
        vec![self.prng.below(256) as u8; len]
    }

    fn step(&mut self, round: u64) -> Result<(), EngineError> {
        let (key, value) = (self.own_key(), self.value());
        match self.prng.below(100) {
            0..50 => {
                self.ks.put(&key, &value)?;
                self.model.insert(key, value);
            }
            50..60 => {
                self.ks.delete(&key)?;
                self.model.remove(&key);
            }
            60..62 => {
                let (a, b) = (key, self.own_key());
                let (from, to) = if a < b { (a, b) } else { (b, a) };
                self.ks.delete_range(&from..&to)?;
                self.model.retain(|key, _| *key < from || to <= *key);
            }
            62..68 => {
                // Both keyspaces always agree on this key.
                let pair = format!("pair {}", round % 5);
                let mut batch = WriteBatch::new();
                batch.put(&self.ks, &pair, &value)?;
                batch.put(&self.other, &pair, &value)?;
                self.db.write(batch, WriteOptions { sync: round.is_multiple_of(7) })?;
            }
            68..74 => {
                let pair = format!("pair {}", round % 5);
                let snapshot = self.db.snapshot();
                let left = self.ks.get_at(&snapshot, &pair)?;
                assert_eq!(left, self.other.get_at(&snapshot, &pair)?, "{pair}");
            }
            74..76 => self.scan(false)?,
            76..78 => self.scan(true)?,
            _ => {
                let got = self.ks.get(&key)?;
                assert_eq!(got.as_deref(), self.model.get(&key).map(Vec::as_slice));
            }
        }
        Ok(())
    }

    fn scan(&self, backward: bool) -> Result<(), EngineError> {
        let entries = self.ks.prefix(&self.prefix)?;
        let got: Result<Vec<_>, _> =
            if backward { entries.rev().collect() } else { entries.collect() };
        let mut got = got?;
        if backward {
            got.reverse();
        }
        let expected = self.model.iter().map(|(k, v)| (k.as_slice(), v.as_slice()));
        assert!(got.iter().map(|(k, v)| (&k[..], &v[..])).eq(expected), "{}", self.prefix);
        Ok(())
    }
}

/// Flushes, compacts, takes checkpoints, creates and drops keyspaces, until the workers are done.
fn disturb(db: &Db, kind: u64, is_done: &AtomicBool) -> Result<(), EngineError> {
    let ks = db.default_keyspace();
    let mut round = 0;
    while !is_done.load(Ordering::Acquire) {
        round += 1;
        match kind {
            0 => db.flush()?,
            1 => ks.compact_range(None, Some(b"m"))?,
            _ => {
                let name = format!("fleeting {round}");
                let fleeting = db.create_keyspace(&name, small_keyspace())?;
                for i in 0..20 {
                    fleeting.put(key(i), [1; 100])?;
                }
                std::thread::scope(|scope| {
                    let compacts = scope.spawn(|| fleeting.compact_range(None, None));
                    let dropped = db.drop_keyspace(&name);
                    let compacted = compacts.join().expect("the thread of a test");
                    match compacted {
                        Ok(()) | Err(EngineError::NoKeyspace { .. }) => dropped,
                        Err(error) => Err(error),
                    }
                })?;
                db.checkpoint(&name)?;
                db.delete_checkpoint(&name)?;
            }
        }
    }
    Ok(())
}

fn stress(stage: &Stage, seed: u64, step_count: u64) {
    let (runtime, scheduler) = threads(3);
    let db = Db::open(stage.format(), runtime, small()).unwrap();
    let other = db.create_keyspace("other", small_keyspace()).unwrap();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let disturbers: Vec<_> = (0..3)
            .map(|kind| {
                let (db, is_done) = (&db, &is_done);
                scope.spawn(move || disturb(db, kind, is_done).unwrap())
            })
            .collect();
        let workers: Vec<_> = (0..3)
            .map(|index| {
                let mut worker = Worker {
                    db: db.clone(),
                    ks: db.default_keyspace(),
                    other: other.clone(),
                    prefix: format!("{index}/"),
                    prng: Prng::new(seed).derive(&format!("worker {index}")),
                    model: BTreeMap::new(),
                };
                scope.spawn(move || {
                    for round in 0..step_count {
                        worker.step(round).unwrap();
                    }
                    worker.scan(false).unwrap();
                })
            })
            .collect();
        let results: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        is_done.store(true, Ordering::Release);
        let results = results.into_iter().chain(disturbers.into_iter().map(|d| d.join()));
        assert!(results.into_iter().all(|result| result.is_ok()));
    });
    db.wait_idle().unwrap();
    let report = db.check().unwrap();
    assert!(report.is_sound(), "{report}");
    db.close().unwrap();
    assert!(scheduler.panics().is_empty(), "{:?}", scheduler.panics());
}

#[test]
fn many_threads_find_what_they_wrote() {
    stress(&seeded(96, 1), 1, 40_000);
}

/// The number of keys of the fast keyspace; the drive has room for several times that many.
const COPIED_KEY_COUNT: u64 = 8000;

/// One keyspace fills quickly and the other slowly, and every batch goes to both. At most moments
/// the tables of one hold newer batches than the tables of the other. In a checkpoint or copy that
/// must not be so, and its counters must not assign a number twice.
fn assert_cut(copy: &Db, what: &str) -> u64 {
    let number = |name: &str| -> Option<u64> {
        let ks = copy.keyspace(name).unwrap();
        ks.get("newest").unwrap().map(|value| u64::from_le_bytes(value[..].try_into().unwrap()))
    };
    let newest = number("default");
    assert_eq!(newest, number("slow"), "{what}: half a batch");
    let fast = copy.default_keyspace();
    let count = fast.prefix("key").unwrap().count() as u64;
    assert_eq!(
        count,
        newest.map_or(0, |newest| (newest + 1).min(COPIED_KEY_COUNT)),
        "{what}: not the batches up to one"
    );
    let report = copy.check().unwrap();
    assert!(report.is_sound(), "{what}: {report}");
    count
}

/// Sets the flag when dropped.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

#[test]
fn a_copy_beside_writers_is_of_one_moment() {
    let stage = seeded(160, 5);
    let (runtime, _scheduler) = threads(2);
    let db = Db::open(stage.format(), runtime, small()).unwrap();
    let (fast, slow) =
        (db.default_keyspace(), db.create_keyspace("slow", small_keyspace()).unwrap());
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut written = 0_u64;
            while !is_done.load(Ordering::Acquire) {
                let mut batch = WriteBatch::new();
                batch.put(&fast, key(written % COPIED_KEY_COUNT), [7; 900]).unwrap();
                batch.put(&fast, "newest", written.to_le_bytes()).unwrap();
                batch.put(&slow, "newest", written.to_le_bytes()).unwrap();
                db.write(batch, WriteOptions::default()).unwrap();
                written += 1;
            }
        });
        // A failure below must end the writer as well.
        let done = Done(&is_done);
        let mut counts = Vec::new();
        for round in 0..16 {
            let name = format!("round {round}");
            db.checkpoint(&name).unwrap();
            counts.push(assert_cut(&db.open_checkpoint(&name).unwrap(), &name));
            db.delete_checkpoint(&name).unwrap();
            let other = seeded(160, round);
            let files = other.format();
            db.backup_to(&*files).unwrap();
            let copy = Db::open(files, other.runtime.clone(), small()).unwrap();
            // If a new write got a number that a table already has, that table would hide it.
            let copied = assert_cut(&copy, &name);
            counts.push(copied);
            for i in 0..copied {
                copy.default_keyspace().put(key(i), "new").unwrap();
            }
            let old = copy.default_keyspace().prefix("key").unwrap();
            assert!(old.map(Result::unwrap).all(|(_, value)| value == "new"), "{name}");
        }
        drop(done);
        writer.join().unwrap();
        assert!(counts.is_sorted(), "{counts:?}");
    });
}

/// Blocks a worker until it is released.
struct Blocker(Receiver<()>);

impl Job for Blocker {
    fn name(&self) -> &'static str {
        "blocker"
    }

    fn step(&mut self, _budget: Budget) -> Step {
        let _ = self.0.recv();
        Step::Done
    }
}

/// One thread waits for a flush while another closes the store. The jobs end with the close, so the
/// flush never ran, and the first thread waited forever. Now a close wakes it, and it returns the
/// reason (S5).
#[test]
fn who_waits_for_a_flush_hears_of_the_close() {
    let stage = seeded(40, 3);
    let (runtime, _scheduler) = threads(1);
    let (let_go, blocked) = channel();
    runtime.scheduler.spawn(Box::new(Blocker(blocked)));
    let db = Db::open(stage.format(), runtime, small()).unwrap();
    let ks = db.default_keyspace();
    ks.put("a", "b").unwrap();
    std::thread::scope(|scope| {
        let flush = scope.spawn(|| db.flush());
        let idle = scope.spawn(|| {
            while db.property("memtable-bytes").unwrap() == "0" {
                std::thread::yield_now();
            }
            db.wait_idle()
        });
        let close = scope.spawn(|| db.clone().close());
        while ks.put("c", "d").is_ok() {
            std::thread::yield_now();
        }
        let_go.send(()).unwrap();
        close.join().unwrap().unwrap();
        assert!(matches!(flush.join().unwrap(), Err(EngineError::Closed)));
        // It may have checked before the flush was due, with nothing to wait for.
        assert!(matches!(idle.join().unwrap(), Ok(()) | Err(EngineError::Closed)));
    });
    // Reads still work.
    assert!(ks.get("a").unwrap().is_some());
    assert!(ks.iter(ReadOptions::default()).is_ok());
}
