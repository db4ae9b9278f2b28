//! Micro-benchmarks of the engine's parts in memory: processor nanoseconds per operation, one
//! thread.
//!
//! Run: `cargo bench -p imbrex-engine --bench parts [-- NAME]`. The file is a separate crate root,
//! which compiles the modules it measures because they are not public.
//!
//! The sizes are those of the store's standard measurements: keys of 16 bytes, values of 100 and
//! 1024, memtables of 64 MiB. For the figures and what they decided see
//! `docs/decisions/0006-memtable.md`.
#![allow(dead_code, reason = "only the parts that are measured are used")]
#![allow(
    unreachable_pub,
    unused_imports,
    unfulfilled_lint_expectations,
    reason = "the modules are the library's, and public there"
)]

mod batch;
mod error;
mod first_reads;
mod iter;
mod key;
mod losses;
mod memtable;
mod merge;
mod pins;
mod range_del;
mod read {
    mod covers;
    mod entries;
    mod iter;

    pub(crate) use entries::{Entries, prefix_end};
    pub(crate) use iter::{Iter, IterSources};
}
mod wal;

use batch::{KeyspaceId, SingleOp};
use error::EngineError;
use imbrex_clockwork::{Clock, Prng, WallClock};
use imbrex_files::{FilesError, LogWriter};
use iter::{InternalIter, IterBounds};
use key::{InternalKey, Kind, Seq, Trailer};
use memtable::Memtable;
use merge::MergingIter;
use read::{Iter, IterSources};
use std::hint::black_box;
use std::sync::Arc;

const MEMTABLE_LEN_BYTES: usize = 64 << 20;

/// How often a benchmark is repeated. The fastest run is reported, because it was disturbed least.
const RUN_COUNT: usize = 5;

/// The shortest length of a run; the system reports processor time in ticks of some milliseconds.
const RUN_LEN_NS: u64 = 100_000_000;

fn main() {
    let filter = std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
    let bench = Bench { clock: WallClock::new(), filter };
    for value_len in [100, 1024] {
        memtable_inserts(&bench, value_len);
    }
    memtable_reads(&bench);
    merges(&bench);
    cursors(&bench);
    log_appends(&bench);
}

struct Bench {
    clock: WallClock,
    filter: Option<String>,
}

impl Bench {
    /// Measures `run`, which returns how many operations it performed, and prints the time.
    fn time(&self, name: &str, mut run: impl FnMut() -> usize) {
        if self.filter.as_ref().is_some_and(|filter| !name.contains(filter)) {
            return;
        }
        run();
        let mut best = f64::INFINITY;
        for _ in 0..RUN_COUNT {
            let (start_ns, mut spent_ns, mut count) = (self.cpu_ns(), 0, 0);
            while spent_ns < RUN_LEN_NS {
                count += run();
                spent_ns = self.cpu_ns() - start_ns;
            }
            best = best.min(spent_ns as f64 / count as f64);
        }
        println!("{name:<44} {best:>9.1} ns/op");
    }

    /// The processor time of this thread, or elapsed time if the system does not report it.
    fn cpu_ns(&self) -> u64 {
        let spent = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
        let spent = spent.and_then(|text| text.split(' ').next()?.parse().ok());
        spent.unwrap_or_else(|| self.clock.now_ns())
    }
}

/// The i-th key of a random order: 8 random bytes, 8 zero bytes.
fn random_key(i: u64) -> [u8; 16] {
    let mut z = i.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    key_of(z ^ (z >> 31))
}

fn key_of(word: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&word.to_be_bytes());
    key
}

fn text_key(i: u64) -> [u8; 16] {
    let mut key = *b"user000000000000";
    let mut rest = u64::from_be_bytes(random_key(i)[..8].try_into().expect("8 bytes"));
    for digit in key[4..].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    key
}

fn filled(key: impl Fn(u64) -> [u8; 16], value_len: usize) -> Memtable {
    let memtable = Memtable::new(0);
    let value = vec![7; value_len];
    let mut i = 0;
    while memtable.len_bytes() < MEMTABLE_LEN_BYTES {
        memtable.insert(&key(i), Trailer::new(Seq(i + 1), Kind::Put), &value);
        i += 1;
    }
    memtable
}

fn memtable_inserts(bench: &Bench, value_len: usize) {
    bench.time(&format!("memtable/insert random {value_len}"), || {
        filled(random_key, value_len).entry_count()
    });
    bench.time(&format!("memtable/insert ascending {value_len}"), || {
        filled(|i| key_of(i << 43), value_len).entry_count()
    });
    bench.time(&format!("memtable/insert text {value_len}"), || {
        filled(text_key, value_len).entry_count()
    });
    bench.time(&format!("memtable/insert overwrite {value_len}"), || {
        filled(|i| random_key(i % 100_000), value_len).entry_count()
    });
}

fn memtable_reads(bench: &Bench) {
    let memtable = Arc::new(filled(random_key, 100));
    let count = memtable.entry_count() as u64;
    let empty = Memtable::new(0);
    bench.time("memtable/get empty", || {
        (0..1_000_000).for_each(|i| _ = black_box(empty.get(&key_of(i), Seq::MAX)));
        1_000_000
    });
    for state in ["live", "frozen"] {
        bench.time(&format!("memtable/get hit {state}"), || {
            let mut prng = Prng::new(1);
            for _ in 0..500_000 {
                let found = memtable.get(&random_key(prng.below(count)), Seq::MAX);
                assert!(black_box(found).is_some());
            }
            500_000
        });
        bench.time(&format!("memtable/get miss {state}"), || {
            for i in 0..500_000 {
                let found = memtable.get(&random_key(count + i), Seq::MAX);
                assert!(black_box(found).is_none());
            }
            500_000
        });
        bench.time(&format!("memtable/iterate {state}"), || {
            let mut iter = memtable.iter();
            must(iter.seek_to_first());
            let mut seen = 0;
            while iter.valid() {
                black_box((iter.key(), iter.value().len()));
                must(iter.next());
                seen += 1;
            }
            seen
        });
        bench.time(&format!("memtable/seek {state}"), || {
            let mut iter = memtable.iter();
            for i in 0..200_000 {
                let key = random_key(count + i);
                must(iter.seek(InternalKey::new(&key, Trailer::seek(Seq::MAX))));
                black_box(iter.key());
            }
            200_000
        });
        memtable.freeze();
    }
}

/// `count` frozen memtables of 50,000 entries; `own` returns the memtable that gets the i-th key.
fn sources(count: usize, own: impl Fn(u64) -> usize) -> Vec<Arc<Memtable>> {
    let memtables: Vec<_> = (0..count).map(|id| Arc::new(Memtable::new(id as u64))).collect();
    for i in 0..50_000 * count as u64 {
        let trailer = Trailer::new(Seq(i + 1), Kind::Put);
        memtables[own(i)].insert(&key_of(i << 40), trailer, &[7; 100]);
    }
    memtables.iter().for_each(|memtable| memtable.freeze());
    memtables
}

fn merges(bench: &Bench) {
    let shuffled = |count: u64| move |i: u64| (random_key(i)[0] as u64 % count) as usize;
    let runs = |count: u64| move |i: u64| (i / 1000 % count) as usize;
    for count in [1, 2, 4, 8] {
        for (name, memtables) in [
            ("random", sources(count, shuffled(count as u64))),
            ("in runs", sources(count, runs(count as u64))),
        ] {
            bench.time(&format!("merge/{count} sources {name}"), || {
                let boxed = |memtable: &Arc<Memtable>| -> Box<dyn InternalIter> {
                    Box::new(memtable.iter())
                };
                let mut merged = MergingIter::new(memtables.iter().map(boxed).collect());
                must(merged.seek_to_first());
                let mut seen = 0;
                while merged.valid() {
                    black_box(merged.key());
                    must(merged.next());
                    seen += 1;
                }
                seen
            });
        }
    }
}

fn cursors(bench: &Bench) {
    for count in [1, 4] {
        let memtables = sources(count, |i| (random_key(i)[0] as usize) % count);
        let cursor = || {
            let boxed =
                |memtable: &Arc<Memtable>| -> Box<dyn InternalIter> { Box::new(memtable.iter()) };
            let entries = memtables.iter().map(boxed).collect();
            let sources = IterSources {
                entries,
                read_apart: None,
                tombstones: Vec::new(),
                losses: None,
                pin: None,
            };
            Iter::new(sources, Seq::MAX, IterBounds::default())
        };
        bench.time(&format!("cursor/forward {count} sources"), || {
            let (mut iter, mut seen) = (cursor(), 0);
            must(iter.seek_to_first());
            while iter.valid() {
                black_box((iter.key(), iter.value().len()));
                must(iter.next());
                seen += 1;
            }
            seen
        });
        bench.time(&format!("cursor/backward {count} sources"), || {
            let (mut iter, mut seen) = (cursor(), 0);
            must(iter.seek_to_last());
            while iter.valid() {
                black_box((iter.key(), iter.value().len()));
                must(iter.prev());
                seen += 1;
            }
            seen
        });
        bench.time(&format!("cursor/new and seek {count} sources"), || {
            for i in 0..100_000 {
                let mut iter = cursor();
                must(iter.seek(random_key(i)));
                black_box(iter.key());
            }
            100_000
        });
    }
}

/// A log that discards what is written to it.
#[derive(Debug)]
struct Nowhere;

impl LogWriter for Nowhere {
    fn append(&self, data: &[u8]) -> Result<u64, FilesError> {
        black_box(data);
        Ok(0)
    }
    fn sync(&self) -> Result<(), FilesError> {
        Ok(())
    }
    fn len_bytes(&self) -> u64 {
        0
    }
    fn finish(&self) -> Result<(), FilesError> {
        Ok(())
    }
}

fn log_appends(bench: &Bench) {
    for value_len in [100, 1024, 4096] {
        let value = vec![7; value_len];
        bench.time(&format!("wal/append {value_len}"), || {
            let wal = wal::Wal::new("bench".to_string(), Arc::new(Nowhere), 1, 64 << 10);
            for i in 0..500_000 {
                let key = random_key(i);
                let op = SingleOp::new(Seq(i + 1), KeyspaceId(0), Kind::Put, &key, &value);
                black_box(must(wal.append(&op.parts())));
            }
            500_000
        });
    }
}

fn must<T>(result: Result<T, EngineError>) -> T {
    result.expect("memory does not fail")
}
