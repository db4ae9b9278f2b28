//! The tables of `docs/guide/zones.md` on emulated drives of several kinds. `tests/devices.rs` executes the same
//! tables on drives of the kernel.

#![expect(clippy::unwrap_used, reason = "a helper fails as its test does")]

use imbrex_clockwork::Prng;
use imbrex_disk::{Blocks, Disk, Geometry, GeometrySpec, Rule, ZoneId, ZoneSpec, ZoneState};
use imbrex_disk_sim::{SimDisk, ZoneFailure};

mod zone_commands;

use zone_commands::{Drive, run};

struct Emulated {
    spec: ZoneSpec,
    cache: Blocks,
    disk: SimDisk,
}

impl Emulated {
    fn new(spec: ZoneSpec, cache: Blocks) -> Emulated {
        Emulated { spec, cache, disk: Emulated::build(spec, cache) }
    }

    fn build(spec: ZoneSpec, cache: Blocks) -> SimDisk {
        let len = Blocks::new(10 * spec.zone_len.get());
        let geometry = Geometry::new(GeometrySpec { len, rule: Rule::AtPointer(spec) }).unwrap();
        SimDisk::builder(geometry).write_cache(cache).memory().unwrap()
    }
}

impl Drive for Emulated {
    fn disk(&self) -> &dyn Disk {
        &self.disk
    }

    fn blank(&mut self) {
        self.disk = Emulated::build(self.spec, self.cache);
    }

    fn give_up(&mut self, zone: ZoneId, state: ZoneState) -> bool {
        let failure = match state {
            ZoneState::Offline => ZoneFailure::Offline,
            _ => ZoneFailure::ReadOnly,
        };
        self.disk.fail_zone(zone, failure).unwrap();
        true
    }

    fn power_cycle(&mut self) {
        self.disk.power_cycle(&mut Prng::new(1)).unwrap();
    }

    fn zeros_of_given_up(&self) -> bool {
        true
    }
}

fn spec(is_strict: bool, capacity: u64) -> ZoneSpec {
    ZoneSpec {
        zone_len: Blocks::new(8),
        zone_capacity: Blocks::new(capacity),
        conventional_zone_count: 2,
        open_zone_limit: Some(3),
        active_zone_limit: Some(5),
        strict_reads: is_strict,
    }
}

#[test]
fn an_emulated_drive_answers_as_the_page_says() {
    for (is_strict, capacity, cache) in
        [(true, 8, 0), (false, 8, 0), (true, 8, 4), (false, 6, 0), (true, 6, 1_000)]
    {
        let mut drive = Emulated::new(spec(is_strict, capacity), Blocks::new(cache));
        let (done, left) = run(&mut drive);
        assert!(left.is_empty(), "{left:?}: an emulated drive can be brought into every state");
        assert_eq!(done, 95 + 18 + 6, "strict: {is_strict}, capacity: {capacity}");
    }
}
