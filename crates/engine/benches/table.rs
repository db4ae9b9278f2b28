//! What the operations of a table cost, each alone: medians of several rounds, in time on the CPU
//! where the system tells it (Linux), else in wall-clock time.
//!
//! `cargo bench -p imbrex-engine --features micro-bench --bench table [-- NAME...] [VALUE/CODEC...]`
#![allow(missing_docs, reason = "a benchmark has no API")]
#![allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]
#![allow(clippy::unwrap_used, reason = "a benchmark may stop at the first failure")]

use imbrex_clockwork::Prng;
use imbrex_engine::Compression;
use imbrex_engine::micro::Fixture;
use std::hint::black_box;
use std::time::Instant;

const ROUNDS: usize = 5;
const CACHE_LEN_BYTES: u64 = 64 << 20;

/// Time that this thread has spent on a CPU: other programs disturb it less than the wall clock.
fn now_ns(start: Instant) -> u128 {
    std::fs::read_to_string("/proc/thread-self/schedstat")
        .ok()
        .and_then(|text| text.split(' ').next()?.parse().ok())
        .unwrap_or_else(|| start.elapsed().as_nanos())
}

/// The median of several rounds of `work`, in nanoseconds.
fn median_ns<T>(mut work: impl FnMut() -> T) -> f64 {
    let start = Instant::now();
    let mut rounds: Vec<u128> = (0..ROUNDS)
        .map(|_| {
            let before_ns = now_ns(start);
            black_box(work());
            now_ns(start) - before_ns
        })
        .collect();
    rounds.sort_unstable();
    rounds[ROUNDS / 2] as f64
}

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let (cells, wanted): (Vec<String>, Vec<String>) =
        wanted.into_iter().partition(|word| word.contains('/'));
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|w| name.contains(&**w));
    let dir = std::env::temp_dir().join(format!("imbrex-micro-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    println!("{:>7} {:>5}  {:<22} {:>10}", "value", "codec", "operation", "median");
    for compression in [Compression::Lz4, Compression::None] {
        for (value_len_bytes, key_count) in [(100, 1_000_000), (1024, 150_000), (4096, 40_000)] {
            let cell = format!("{value_len_bytes}/{compression}");
            if !cells.is_empty() && !cells.contains(&cell) {
                continue;
            }
            let mut fixture = Fixture::new(key_count, value_len_bytes, compression);
            let print = |name: &str, amount: f64, unit: &str| {
                let codec = format!("{compression:?}").to_lowercase();
                println!("{value_len_bytes:>7} {codec:>5}  {name:<22} {amount:>10.1} {unit}");
            };
            let key_count = key_count as f64;
            if is_wanted("build") {
                let ns = median_ns(|| fixture.build());
                print("build", fixture.raw_len_bytes() as f64 * 1e3 / ns, "MB/s");
                print("build", ns / key_count, "ns/entry");
                let ns = median_ns(|| fixture.build_with_histogram());
                print("build, histogram", ns / key_count, "ns/entry");
            }
            fixture.open(&dir.join("table"), CACHE_LEN_BYTES).unwrap();
            let prng = &mut Prng::new(2).derive("questions");
            let mut time = |name: &str, count: u64, work: &mut dyn FnMut(&mut Prng) -> usize| {
                if is_wanted(name) {
                    print(name, median_ns(|| work(prng)) / count as f64, "ns");
                }
            };
            time("filter", 300_000, &mut |p| fixture.filter(300_000, p));
            time("miss", 300_000, &mut |p| fixture.miss(300_000, p));
            time("get", 50_000, &mut |p| fixture.get(50_000, p));
            time("seek+1", 10_000, &mut |p| fixture.seek(10_000, 1, p).unwrap());
            time("seek+100", 1_000, &mut |p| fixture.seek(1_000, 100, p).unwrap());
            let all = key_count as u64;
            time("next", all, &mut |_| fixture.scan(false).unwrap());
            time("next, compaction", all, &mut |_| fixture.scan(true).unwrap());
            time("prev", all, &mut |_| fixture.scan_back().unwrap());
            if !is_wanted("cached-g") {
                continue;
            }
            let mut hot = Fixture::new(20_000, value_len_bytes.min(1024), compression);
            hot.open(&dir.join("hot"), CACHE_LEN_BYTES).unwrap();
            time("cached-g", 200_000, &mut |p| hot.get(200_000, p));
        }
    }
    std::fs::remove_dir_all(&dir).unwrap();
}
