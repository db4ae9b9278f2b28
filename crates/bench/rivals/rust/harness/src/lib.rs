//! Shared driver for the Rust contenders. Must stay equivalent to cpp/harness.h
//! and go/main.go: same keys, same values, same order. A contender implements
//! `Store` and calls `harness::run::<ItsStore>()` from main.
use nix::sys::resource::UsageWho;
use std::time::{Duration, Instant};

pub trait Store: Sized {
    fn open(path: &str, comp: &str) -> Self;
    fn put(&mut self, k: &[u8; 16], v: &[u8]);
    /// Hand the value found, if any, to `t.val`.
    fn get(&mut self, k: &[u8; 16], t: &mut Sink);
    /// From `k` on, hand up to `limit` rows to `t.row`.
    fn scan(&mut self, k: &[u8; 16], limit: u64, t: &mut Sink);
    /// Memtable to disk; return when it is there.
    fn flush(&mut self);
    /// Is background work known to be running? (false if the engine cannot say)
    fn busy(&mut self) -> bool {
        false
    }
    fn close(self) {}
    fn codec(comp: &str) -> String;
    fn version() -> String;
}

pub fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D049BB133111EB);
    z ^ (z >> 31)
}
pub struct Rng(pub u64);
impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E3779B97F4A7C15);
        mix(self.0)
    }
    pub fn below(&mut self, n: u64) -> u64 {
        ((self.next() as u128 * n as u128) >> 64) as u64
    }
}
fn key(x: u64) -> [u8; 16] {
    let mut k = [0u8; 16];
    k[..8].copy_from_slice(&x.to_be_bytes());
    k
}
fn scramble(i: u64) -> u64 {
    mix(i.wrapping_add(1))
}
struct Values {
    buf: Vec<u8>,
    pos: usize,
    len: usize,
}
impl Values {
    fn new(seed: u64, len: usize) -> Self {
        let mut r = Rng(seed);
        let mut buf = Vec::with_capacity(1048600);
        while buf.len() < 1048600 {
            let mut p = [0u8; 50];
            for b in p.iter_mut() {
                *b = b' ' + r.below(95) as u8;
            }
            buf.extend_from_slice(&p);
            buf.extend_from_slice(&p);
        }
        Values { buf, pos: 0, len }
    }
    fn next(&mut self) -> &[u8] {
        if self.pos + self.len > self.buf.len() {
            self.pos = 0;
        }
        let p = self.pos;
        self.pos += self.len;
        &self.buf[p..p + self.len]
    }
}

#[derive(Default)]
pub struct Sink {
    pub found: u64,
    pub rows: u64,
    pub sum: u64,
}
impl Sink {
    #[inline]
    pub fn row(&mut self, k: &[u8], v: &[u8]) {
        let x = u64::from_be_bytes(k[..8].try_into().unwrap());
        self.rows += 1;
        self.sum = self
            .sum
            .wrapping_add(x)
            .wrapping_add(k.len() as u64 + v[0] as u64 + ((v[v.len() - 1] as u64) << 8) + v.len() as u64);
    }
    #[inline]
    pub fn val(&mut self, v: &[u8]) {
        self.found += 1;
        self.sum = self.sum.wrapping_add(v[0] as u64 + ((v[v.len() - 1] as u64) << 8) + v.len() as u64);
    }
}

#[derive(Clone, Copy)]
struct Use {
    wall: Instant,
    user: f64,
    sys: f64,
    wb: u64,
    wchar: u64,
    rchar: u64,
}
fn take() -> Use {
    let r = nix::sys::resource::getrusage(UsageWho::RUSAGE_SELF).unwrap();
    let seconds = |t: nix::sys::time::TimeVal| t.tv_sec() as f64 + t.tv_usec() as f64 * 1e-6;
    let io = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    let f = |k: &str| {
        io.lines()
            .find_map(|l| l.strip_prefix(k))
            .and_then(|v| v.trim().parse().ok())
            .unwrap_or(0)
    };
    Use {
        wall: Instant::now(),
        user: seconds(r.user_time()),
        sys: seconds(r.system_time()),
        wb: f("write_bytes:"),
        wchar: f("wchar:"),
        rchar: f("rchar:"),
    }
}
fn status_kb(k: &str) -> u64 {
    let s = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    s.lines()
        .find_map(|l| l.strip_prefix(k)?.strip_prefix(':'))
        .and_then(|v| v.trim().trim_end_matches(" kB").parse().ok())
        .unwrap_or(0)
}
fn quiesce<S: Store>(s: &mut S) -> Use {
    let mut mark = take();
    let deadline = mark.wall + Duration::from_secs(180);
    loop {
        std::thread::sleep(Duration::from_millis(50));
        let u = take();
        let cpu = u.user + u.sys - mark.user - mark.sys;
        if s.busy() || u.wb != mark.wb || cpu > 0.024 {
            mark = u;
        } else if u.wall - mark.wall > Duration::from_millis(600) {
            return mark;
        }
        if u.wall > deadline {
            eprintln!("quiesce: gave up after 180 s");
            return u;
        }
    }
}

pub fn run<S: Store>() {
    let a: Vec<String> = std::env::args().skip(1).collect();
    let get = |f: &str, d: &str| {
        a.iter().position(|x| x == f).map(|i| a[i + 1].clone()).unwrap_or(d.to_string())
    };
    let (db, work, comp) = (get("--db", ""), get("--work", ""), get("--comp", "none"));
    let num = |f: &str, d: &str| get(f, d).parse::<u64>().unwrap();
    let (size, n, seed) = (num("--size", "1024"), num("--n", "1000"), num("--seed", "1"));
    let t = Instant::now();
    let mut s = S::open(&db, &comp);
    let open_s = t.elapsed().as_secs_f64();
    let mut first = true;
    for item in work.split(',') {
        let (w, mut ops) = match item.split_once(':') {
            Some((w, o)) => (w, o.parse().unwrap()),
            None => (item, n),
        };
        let write = matches!(w, "fillseq" | "fillrandom" | "overwrite");
        let mut vals = Values::new(seed, size as usize);
        let (mut sink, mut warm) = (Sink::default(), Sink::default());
        let mut r = Rng(seed.wrapping_mul(1000003) + 17);
        let mut wr = Rng(seed.wrapping_mul(7919) + 5);
        fn readone<S: Store>(s: &mut S, hit: bool, n: u64, r: &mut Rng, t: &mut Sink) {
            let k = key(scramble(if hit { r.below(n) } else { n + r.below(n) }));
            s.get(&k, t);
        }
        fn seekone<S: Store>(s: &mut S, r: &mut Rng, t: &mut Sink) {
            s.scan(&key(r.next()), 100, t);
        }
        if !write {
            if first {
                quiesce(&mut s);
            }
            for _ in 0..ops / 10 {
                match w {
                    "readrandom" => readone(&mut s, true, n, &mut wr, &mut warm),
                    "readmissing" => readone(&mut s, false, n, &mut wr, &mut warm),
                    "seekrandom" => seekone(&mut s, &mut wr, &mut warm),
                    _ => break,
                }
            }
        }
        first = false;
        let _ = std::fs::write("/proc/self/clear_refs", "5");
        let a = take();
        match w {
            "fillseq" => {
                let stride = u64::MAX / (n + 1);
                for i in 0..ops {
                    s.put(&key(i * stride), vals.next());
                }
            }
            "fillrandom" => {
                for i in 0..ops {
                    s.put(&key(scramble(i)), vals.next());
                }
            }
            "overwrite" => {
                for _ in 0..ops {
                    s.put(&key(scramble(r.below(n))), vals.next());
                }
            }
            "readrandom" => (0..ops).for_each(|_| readone(&mut s, true, n, &mut r, &mut sink)),
            "readmissing" => (0..ops).for_each(|_| readone(&mut s, false, n, &mut r, &mut sink)),
            "seekrandom" => (0..ops).for_each(|_| seekone(&mut s, &mut r, &mut sink)),
            "readseq" => {
                s.scan(&key(0), u64::MAX, &mut sink);
                ops = sink.rows;
            }
            _ => panic!("unknown workload {w}"),
        }
        let b = take();
        let mut e = b;
        if write {
            s.flush();
            e = quiesce(&mut s);
        }
        if (w == "readrandom" && sink.found != ops)
            || (w == "readmissing" && sink.found != 0)
            || (w == "readseq" && sink.rows != n)
        {
            eprintln!("{w}: WRONG RESULT found={} rows={}", sink.found, sink.rows);
            std::process::exit(1);
        }
        println!(
            "{{\"workload\":\"{w}\",\"size\":{size},\"comp\":\"{comp}\",\"n\":{n},\"ops\":{ops},\"open_s\":{open_s:.4},\
             \"wall_s\":{:.4},\"user_s\":{:.4},\"sys_s\":{:.4},\"settled_wall_s\":{:.4},\"settled_user_s\":{:.4},\
             \"settled_sys_s\":{:.4},\"write_bytes\":{},\"wchar\":{},\"rchar\":{},\"user_bytes\":{},\
             \"found\":{},\"rows\":{},\"check\":{},\"hwm_kb\":{},\"anon_kb\":{},\"codec\":\"{}\",\"version\":\"{}\"}}",
            (b.wall - a.wall).as_secs_f64(),
            b.user - a.user,
            b.sys - a.sys,
            (e.wall - a.wall).as_secs_f64(),
            e.user - a.user,
            e.sys - a.sys,
            e.wb - a.wb,
            e.wchar - a.wchar,
            e.rchar - a.rchar,
            ops * (16 + size),
            sink.found,
            sink.rows,
            sink.sum,
            status_kb("VmHWM"),
            status_kb("RssAnon"),
            S::codec(&comp),
            S::version()
        );
    }
    s.close();
}
