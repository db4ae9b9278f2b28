//! Threads that use one store at once: what each of them wrote it finds, and nobody waits for ever.

use crate::stage::{Stage, key, seeded, small, small_keyspace};
use imbrex::{Db, EngineError, Keyspace, ReadOptions, WriteBatch, WriteOptions};
use imbrex_clockwork::{Budget, Job, Prng, Runtime, Step, StillClock, ThreadScheduler};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};

const KEY_COUNT: u64 = 120;

fn threads(worker_count: usize) -> (Runtime, Arc<ThreadScheduler>) {
    let scheduler = Arc::new(ThreadScheduler::new(worker_count));
    (Runtime { clock: Arc::new(StillClock), scheduler: Arc::clone(&scheduler) as _ }, scheduler)
}

/// One thread's own keys, and what it knows of them.
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
                // Both keyspaces always say the same of it.
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

/// Flushes, compacts, keeps checkpoints, makes and drops keyspaces, until the workers are done.
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

/// Keeps a worker to itself until it is let go.
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
/// flush never came, and the first thread waited for ever. Now a close wakes it, and says why (S5).
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
        // It may have looked before the flush was due, and then nothing was to be waited for.
        assert!(matches!(idle.join().unwrap(), Ok(()) | Err(EngineError::Closed)));
    });
    // Reads go on.
    assert!(ks.get("a").unwrap().is_some());
    assert!(ks.iter(ReadOptions::default()).is_ok());
}
