//! Our own store as one more contender: threads, an emulated conventional drive without mechanics
//! in one sparse image file, files placed first-fit.
use harness::Sink;
use imbrex_engine::{Compression, Db, Keyspace, KeyspaceOptions, Options, ReadOptions};
use imbrex_clockwork::Runtime;
use imbrex_disk::{Blocks, Disk, Geometry, GeometrySpec, Rule};
use imbrex_disk_sim::{OpenOptions, SimDisk};
use imbrex_files::{FileLayer, FormatOptions, PlacementKind};
use std::path::Path;
use std::sync::Arc;

/// Sparse: only what is written takes space.
const CAPACITY_BYTES: u64 = 64 << 30;
const WORKER_COUNT: usize = 2;

struct S {
    db: Db,
    ks: Keyspace,
}

fn open_disk(image: &Path, runtime: &Runtime) -> (Arc<dyn Disk>, FileLayer) {
    if image.exists() {
        let disk: Arc<dyn Disk> =
            Arc::new(SimDisk::open_image(image, OpenOptions::default()).unwrap());
        let layer = FileLayer::open(Arc::clone(&disk), runtime).unwrap();
        return (disk, layer);
    }
    let len = Blocks::holding(CAPACITY_BYTES);
    let geometry = Geometry::new(GeometrySpec { len, rule: Rule::Anywhere }).unwrap();
    let disk = SimDisk::builder(geometry).create_image(image, "peer", 1).unwrap();
    let disk: Arc<dyn Disk> = Arc::new(disk);
    let first_fit = FormatOptions::new(PlacementKind::by_name("first-fit").unwrap());
    let layer = FileLayer::format(Arc::clone(&disk), &first_fit, runtime).unwrap();
    (disk, layer)
}

impl harness::Store for S {
    fn open(path: &str, comp: &str) -> Self {
        std::fs::create_dir_all(path).unwrap();
        let runtime = Runtime::threads(WORKER_COUNT);
        let (_, layer) = open_disk(&Path::new(path).join("drive.img"), &runtime);
        runtime.scheduler.spawn(layer.clean_job());
        let options = Options {
            memtable_len_bytes: 64 << 20,
            block_cache_len_bytes: 64 << 20,
            keyspace: KeyspaceOptions {
                compression: if comp == "none" { Compression::None } else { Compression::Lz4 },
                filter_bits_per_key: 10,
                ..KeyspaceOptions::default()
            },
            ..Options::default()
        };
        let db = Db::open(Arc::new(layer), runtime, options).unwrap();
        let ks = db.default_keyspace();
        S { db, ks }
    }
    fn put(&mut self, k: &[u8; 16], v: &[u8]) {
        self.ks.put(k, v).unwrap();
    }
    fn get(&mut self, k: &[u8; 16], t: &mut Sink) {
        if let Some(v) = self.ks.get(k).unwrap() {
            t.val(&v);
        }
    }
    fn scan(&mut self, k: &[u8; 16], limit: u64, t: &mut Sink) {
        let mut it = self.ks.iter(ReadOptions::default()).unwrap();
        it.seek(k).unwrap();
        let mut left = limit;
        while it.valid() && left > 0 {
            t.row(it.key(), it.value());
            left -= 1;
            if left > 0 {
                it.next().unwrap();
            }
        }
    }
    fn flush(&mut self) {
        self.db.flush().unwrap();
    }
    fn close(self) {
        self.db.close().unwrap();
    }
    fn codec(c: &str) -> String {
        if c == "none" { "none" } else { "lz4" }.into()
    }
    fn version() -> String {
        env!("CARGO_PKG_VERSION").into()
    }
}

fn main() {
    harness::run::<S>();
}
