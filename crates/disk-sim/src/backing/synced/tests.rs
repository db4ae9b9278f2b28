use super::*;
use crate::SimDisk;
use crate::backing::MemoryBacking;
use imbrex_clockwork::fan_out;
use imbrex_disk::{
    BLOCK_LEN_BYTES, Disk, Geometry, GeometrySpec, Persist, Rule, ZoneAction, ZoneSpec,
};
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

/// A host that loses cached data and reports it once.
#[derive(Clone, Debug)]
struct Host(Arc<HostState>);

#[derive(Debug)]
struct HostState {
    blocks: MemoryBacking,
    /// Whether it has lost data and not reported it yet.
    has_news: AtomicBool,
    is_full: AtomicBool,
    sync_count: AtomicUsize,
    /// A sync waits a while for this many to have begun.
    meets_count: AtomicUsize,
}

impl Host {
    fn new() -> Host {
        Host(Arc::new(HostState {
            blocks: MemoryBacking::new(),
            has_news: AtomicBool::new(false),
            is_full: AtomicBool::new(false),
            sync_count: AtomicUsize::new(0),
            meets_count: AtomicUsize::new(0),
        }))
    }

    fn disk(&self, write_cache: u64) -> SimDisk {
        let zones = ZoneSpec {
            zone_len: Blocks::new(16),
            zone_capacity: Blocks::new(16),
            conventional_zone_count: 1,
            open_zone_limit: None,
            active_zone_limit: None,
            strict_reads: false,
        };
        let spec = GeometrySpec { len: Blocks::new(64), rule: Rule::AtPointer(zones) };
        let builder = SimDisk::builder(Geometry::new(spec).unwrap());
        builder.write_cache(Blocks::new(write_cache)).build_on_host(self.clone()).unwrap()
    }

    fn loses_something(&self) {
        self.0.has_news.store(true, Ordering::SeqCst);
    }

    fn put(&self, durable: Durable) -> Result<(), DiskError> {
        if self.0.is_full.load(Ordering::SeqCst) {
            return Err(failed(ErrorKind::StorageFull));
        }
        if durable == Durable::Now { self.sync() } else { Ok(()) }
    }

    fn sync(&self) -> Result<(), DiskError> {
        self.0.sync_count.fetch_add(1, Ordering::SeqCst);
        for _ in 0..10_000 {
            if self.0.meets_count.load(Ordering::SeqCst) <= self.0.sync_count.load(Ordering::SeqCst)
            {
                break;
            }
            std::thread::yield_now();
        }
        match self.0.has_news.swap(false, Ordering::SeqCst) {
            true => Err(failed(ErrorKind::Other)),
            false => Ok(()),
        }
    }
}

fn failed(kind: ErrorKind) -> DiskError {
    DiskError::Host { what: "the host".to_owned(), source: kind.into() }
}

impl Backing for Host {
    fn read(&self, at: Lba, buf: &mut [u8]) -> Result<(), DiskError> {
        self.0.blocks.read(at, buf)
    }
    fn write(&self, at: Lba, data: &[u8], durable: Durable) -> Result<(), DiskError> {
        self.put(durable).and_then(|()| self.0.blocks.write(at, data, durable))
    }
    fn zero(&self, range: BlockRange) -> Result<(), DiskError> {
        self.0.blocks.zero(range)
    }
    fn set_zone(&self, zone: ZoneId, to: ZoneRecord, durable: Durable) -> Result<(), DiskError> {
        self.put(durable).and_then(|()| self.0.blocks.set_zone(zone, to, durable))
    }
    fn zone(&self, zone: ZoneId) -> Result<ZoneRecord, DiskError> {
        self.0.blocks.zone(zone)
    }
    fn flush(&self) -> Result<(), DiskError> {
        self.sync()
    }
    fn for_each_block(&self, see: &mut dyn FnMut(Lba, &[u8])) -> Result<(), DiskError> {
        self.0.blocks.for_each_block(see)
    }
    fn stored_bytes(&self) -> Result<u64, DiskError> {
        self.0.blocks.stored_bytes()
    }
}

fn write(disk: &SimDisk, at: u64, persist: Persist) -> Result<(), DiskError> {
    disk.write(Lba::new(at), &[at as u8 + 1; BLOCK_LEN_BYTES], persist)
}

/// Once, a write was acknowledged and lost. The error went to the first caller that synced, and the
/// flush of the caller that had written the data was acknowledged too.
#[test]
fn nothing_is_acknowledged_after_a_failed_sync() {
    type Syncing = fn(&SimDisk) -> Result<(), DiskError>;
    let syncs: [(&str, Syncing); 4] = [
        ("a flush", |disk| disk.flush()),
        ("a write through", |disk| write(disk, 1, Persist::Through)),
        ("a write through at a pointer", |disk| write(disk, 17, Persist::Through)),
        ("a reset", |disk| disk.manage_zone(ZoneId(1), ZoneAction::Reset)),
    ];
    for write_cache in [0, 8] {
        for (what, sync) in syncs {
            let host = Host::new();
            let disk = host.disk(write_cache);
            write(&disk, 0, Persist::Cached).unwrap();
            write(&disk, 16, Persist::Through).unwrap();
            host.loses_something();
            let told = sync(&disk).unwrap_err();
            assert!(matches!(told, DiskError::Host { .. }), "{what}: {told}");
            for refused in [
                disk.flush(),
                write(&disk, 2, Persist::Cached),
                write(&disk, 2, Persist::Through),
                disk.manage_zone(ZoneId(2), ZoneAction::Reset),
            ] {
                let refused = refused.expect_err("H2");
                assert!(matches!(refused, DiskError::Poisoned), "{what}, cache {write_cache}");
            }
            let mut read = [0; BLOCK_LEN_BYTES];
            disk.read(Lba::new(0), &mut read).unwrap();
            assert_eq!(read, [1; BLOCK_LEN_BYTES], "it can be read");
        }
    }
}

#[test]
fn two_concurrent_flushes_of_lost_data_both_fail() {
    let host = Host::new();
    let disk = host.disk(0);
    write(&disk, 0, Persist::Cached).unwrap();
    host.loses_something();
    host.0.meets_count.store(2, Ordering::SeqCst);
    let flushed = fan_out(2, &[(), ()], |()| disk.flush());
    assert!(flushed.iter().all(Result::is_err), "H1: {flushed:?}");
    assert!(matches!(disk.flush(), Err(DiskError::Poisoned)));
}

#[test]
fn a_full_host_refuses_only_the_write_that_does_not_fit() {
    for write_cache in [0, 8] {
        let host = Host::new();
        let disk = host.disk(write_cache);
        write(&disk, 0, Persist::Cached).unwrap();
        host.0.is_full.store(true, Ordering::SeqCst);
        for at in [1, 16] {
            let error = write(&disk, at, Persist::Through).unwrap_err();
            let is_full = matches!(&error, DiskError::Host { source, .. } if source.kind() == ErrorKind::StorageFull);
            assert!(is_full, "{error}");
        }
        host.0.is_full.store(false, Ordering::SeqCst);
        for at in [1, 16] {
            write(&disk, at, Persist::Through).expect("H3");
        }
        disk.flush().expect("H3");
    }
}
