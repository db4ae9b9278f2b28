//! What the drive's requests serve: every request of a store names it, and naming it changes nothing.

use crate::stage::{key, small};
use imbrex_clockwork::{Order, Prng, Runtime, VirtualWorld};
use imbrex_disk::{
    Activity, Blocks, Counters, Disk, DiskLayer, Geometry, GeometrySpec, Rule, ZoneSpec,
};
use imbrex_disk_sim::{Profile, SimDisk};
use imbrex_engine::Db;
use imbrex_files::{FileLayer, FormatOptions, PlacementKind};
use std::sync::Arc;

const KEY_COUNT: u64 = 14_000;

/// A disk without handles: all that comes through it counts as other.
#[derive(Debug)]
struct Nameless(Arc<SimDisk>);

impl DiskLayer for Nameless {
    fn below(&self) -> &dyn Disk {
        &*self.0
    }

    // As the drive itself does it, all at once: a layer's default reads one after the other.
    fn pass_read_batch(
        &self,
        requests: &mut [imbrex_disk::ReadRequest<'_>],
    ) -> Result<(), imbrex_disk::DiskError> {
        self.0.read_batch(requests)
    }
}

/// A drive with a head, in virtual time.
fn drive() -> (Arc<SimDisk>, Runtime, Arc<VirtualWorld>) {
    let (runtime, world) = Runtime::virtual_time(Order::SmallestTime);
    let zones = ZoneSpec {
        zone_len: Blocks::new(256),
        zone_capacity: Blocks::new(256),
        conventional_zone_count: 2,
        open_zone_limit: Some(14),
        active_zone_limit: Some(14),
        strict_reads: true,
    };
    let spec = GeometrySpec { len: Blocks::new(24 * 256), rule: Rule::AtPointer(zones) };
    let profile = Profile::by_name("hc620").unwrap();
    let disk = SimDisk::builder(Geometry::new(spec).unwrap())
        .profile(profile)
        .clock(Arc::clone(&runtime.clock))
        .event_log()
        .memory()
        .unwrap();
    (Arc::new(disk), runtime, world)
}

/// Overwrites until there were compactions and cleaning, and reads; the drive's counters, its log of events and the time.
fn work(is_named: bool) -> (Counters, Option<u64>, u64) {
    let (disk, runtime, _world) = drive();
    let below: Arc<dyn Disk> = if is_named {
        Arc::clone(&disk) as Arc<dyn Disk>
    } else {
        Arc::new(Nameless(Arc::clone(&disk)))
    };
    let placement = PlacementKind::by_name("log-structured").unwrap();
    let files = FileLayer::format(below, &FormatOptions::new(placement), &runtime).unwrap();
    runtime.scheduler.spawn(files.clean_job());
    let db = Db::open(Arc::new(files.clone()), runtime.clone(), small()).unwrap();
    let keyspace = db.default_keyspace();
    // Values that compression does not shorten, and half of the drive.
    let mut prng = Prng::new(11);
    let mut value = [0; 700];
    for n in 0..4 * KEY_COUNT {
        prng.fill(&mut value);
        keyspace.put(key(n * 11 % KEY_COUNT), value).unwrap();
        if n % 1_000 == 0 {
            db.sync().unwrap();
        }
    }
    db.wait_idle().unwrap();
    for n in (0..KEY_COUNT).step_by(500) {
        keyspace.get(key(n)).unwrap();
    }
    assert!(files.stats().cleaning_moved_bytes > 0, "there was cleaning");
    // Before the close, which records what was counted.
    let worked = (disk.counters(), disk.event_log_hash(), runtime.clock.now_ns());
    db.close().unwrap();
    worked
}

/// A1 and A2 of the crate `disk`'s activities.
#[test]
fn requests_say_what_they_serve_and_nothing_else_changes() {
    let (named, named_log, named_ns) = work(true);
    let (nameless, nameless_log, nameless_ns) = work(false);
    assert_eq!((named_log, named_ns), (nameless_log, nameless_ns), "A1");
    let whole = |counters: Counters| {
        let sums = [
            counters.by_activity.iter().map(|(_, own)| own.busy_ns).sum::<u64>(),
            counters.by_activity.iter().map(|(_, own)| own.seek_ns + own.turn_ns).sum(),
            counters.by_activity.iter().map(|(_, own)| own.transfer_ns).sum(),
            counters.by_activity.iter().map(|(_, own)| own.read_bytes).sum(),
            counters.by_activity.iter().map(|(_, own)| own.written_bytes).sum(),
        ];
        let totals = [
            counters.busy_ns,
            counters.seek_ns + counters.turn_ns,
            counters.transfer_ns,
            counters.read_bytes,
            counters.written_bytes,
        ];
        assert_eq!(sums, totals, "A2");
        sums
    };
    assert_eq!(whole(named), whole(nameless));
    let of = |activity| named.by_activity[activity];
    for activity in Activity::ALL {
        assert!(of(activity).busy_ns > 0, "{}: {:?}", activity.name(), of(activity));
    }
    for (activity, reads, writes) in [
        (Activity::User, true, false),
        (Activity::Log, false, true),
        (Activity::Flush, false, true),
        (Activity::Compaction, true, true),
        (Activity::Cleaning, true, true),
        (Activity::Catalog, false, true),
    ] {
        let own = of(activity);
        let (name, has) = (activity.name(), (own.read_bytes > 0, own.written_bytes > 0));
        assert_eq!(has, (reads, writes), "{name}: {own:?}");
    }
    assert_eq!(nameless.by_activity[Activity::Other].busy_ns, nameless.busy_ns);
}
