use super::*;
use crate::Profile;
use imbrex_clockwork::Prng;
use imbrex_disk::Blocks;

const REVOLUTION_NS: u64 = 8_333_333;

/// An 8 GiB drive that behaves like the HC620.
fn drive() -> Mechanics {
    let profile = Profile::by_name("hc620").unwrap().scaled(8 << 30).unwrap();
    profile.mechanics(profile.geometry().len())
}

/// The times of all activities together.
fn busy(drive: &Mechanics) -> ActivityCounters {
    let mut sum = ActivityCounters::default();
    for (_, times) in drive.times().iter() {
        sum.busy_ns += times.busy_ns;
        sum.seek_ns += times.seek_ns;
        sum.turn_ns += times.turn_ns;
        sum.transfer_ns += times.transfer_ns;
    }
    sum
}

#[test]
fn a_stream_of_small_reads_misses_no_revolution() {
    let mut drive = drive();
    let first_ns = drive.read(0, 0, 16);
    let mut now_ns = first_ns;
    for piece in 1..1_000 {
        now_ns = drive.read(now_ns, piece * 16, 16);
    }
    // 62.5 MiB at 236 MiB/s.
    let streamed_ms = (now_ns - first_ns) / 1_000_000;
    assert!((255..275).contains(&streamed_ms), "{streamed_ms} ms");
    assert_eq!(drive.seek_count(), 0);
}

#[test]
fn a_slow_reader_finds_its_data_in_the_buffer() {
    let mut drive = drive();
    let mut now_ns = drive.read(0, 0, 16);
    for piece in 1..100 {
        now_ns += 50_000_000;
        let end_ns = drive.read(now_ns, piece * 16, 16);
        assert!(end_ns - now_ns < 500_000, "piece {piece}: {} ns", end_ns - now_ns);
        now_ns = end_ns;
    }
    // Far beyond the buffer the head has to wait for the platter.
    let end_ns = drive.read(now_ns, 1_000_000, 16);
    assert!(end_ns - now_ns > 1_000_000);
    assert_eq!(drive.seek_count(), 1);
}

#[test]
fn a_stream_of_small_writes_misses_no_revolution() {
    let mut drive = drive();
    let mut now_ns = 0;
    for piece in 0..1_000 {
        now_ns = drive.write(now_ns, piece * 64, 64, false);
    }
    now_ns = drive.flush(now_ns);
    // 250 MiB at 236 MiB/s.
    let streamed_ms = now_ns / 1_000_000;
    assert!((1_040..1_120).contains(&streamed_ms), "{streamed_ms} ms");
}

#[test]
fn a_write_through_waits_for_the_platter_each_time() {
    let mut drive = drive();
    let mut now_ns = drive.write(0, 0, 1, true);
    let start_ns = now_ns;
    for block in 1..11 {
        now_ns = drive.write(now_ns, block, 1, true);
    }
    let per_write_ns = (now_ns - start_ns) / 10;
    // One revolution and one block: the next block has just passed when the write is acknowledged.
    assert!(per_write_ns.abs_diff(REVOLUTION_NS) < 100_000, "{per_write_ns} ns");
}

#[test]
fn a_cached_write_is_quick_and_a_flush_pays_for_it() {
    let mut drive = drive();
    let end_ns = drive.write(0, 1_000_000, 1, false);
    assert!(end_ns < 200_000, "{end_ns} ns");
    assert_eq!(drive.read(end_ns, 1_000_000, 1) - end_ns, end_ns, "served from the cache");
    let flushed_ns = drive.flush(end_ns);
    assert!(flushed_ns - end_ns > 5_000_000, "{flushed_ns} ns");
    let again_ns = drive.flush(flushed_ns);
    assert_eq!(again_ns - flushed_ns, 500_000, "nothing left but the command");
}

#[test]
fn a_buffer_may_keep_what_was_written_last() {
    let profile = Profile::by_name("hc620").unwrap().scaled(8 << 30).unwrap();
    let kept_blocks = profile.write_cache_blocks();
    let read_ns = |profile: &Profile, later_blocks: u64, through: bool| {
        let mut drive = profile.mechanics(profile.geometry().len());
        let mut now_ns = drive.write(0, 500_000, 64, through);
        now_ns = drive.write(now_ns, 0, later_blocks, false);
        now_ns = drive.flush(now_ns);
        drive.read(now_ns, 500_000, 64) - now_ns
    };
    let keeping = profile.clone().keeping_what_it_writes();
    for through in [false, true] {
        let from_platter_ns = read_ns(&profile, 64, through);
        assert!(from_platter_ns > 1_000_000, "{from_platter_ns} ns");
        let kept_ns = read_ns(&keeping, kept_blocks - 64, through);
        assert!(kept_ns < 900_000, "the command and the transfer: {kept_ns} ns");
        let dropped_ns = read_ns(&keeping, kept_blocks - 63, through);
        assert!(dropped_ns > 1_000_000, "a part of it had to go: {dropped_ns} ns");
    }
    let mut drive = keeping.mechanics(keeping.geometry().len());
    let now_ns = drive.write(0, 500_000, 64, true);
    drive.power_cut();
    assert!(drive.read(now_ns, 500_000, 64) - now_ns > 1_000_000);
}

#[test]
fn an_idle_drive_destages_by_itself() {
    let mut drive = drive();
    let mut now_ns = 0;
    for piece in 0..50 {
        now_ns = drive.write(now_ns, piece * 30_000, 1, false);
    }
    now_ns += 2_000_000_000;
    assert_eq!(drive.flush(now_ns) - now_ns, 500_000);
    assert_eq!(drive.seek_count(), 49);
    assert!(busy(&drive).busy_ns < 1_000_000_000, "resting is not work: {}", busy(&drive).busy_ns);
}

#[test]
fn queued_reads_are_served_nearest_first() {
    let mut prng = Prng::new(3);
    let reads: Vec<(u64, u64)> = (0..32).map(|_| (prng.below(2_000_000), 1)).collect();
    let queued_ns = drive().read_queue(0, reads.clone());
    let mut one_by_one = drive();
    let in_order_ns = reads.iter().fold(0, |now_ns, &(b, l)| one_by_one.read(now_ns, b, l));
    assert!(queued_ns * 3 < in_order_ns * 2, "{queued_ns} ns queued, {in_order_ns} ns in order");
}

#[test]
fn time_never_goes_back_and_busy_time_is_not_counted_twice() {
    let mut drive = drive();
    let mut prng = Prng::new(9);
    let mut now_ns = 0;
    for _ in 0..3_000 {
        let (block, len) = (prng.below(2_000_000), 1 + prng.below(300));
        let arrival_ns = now_ns + prng.below(2) * prng.below(20_000_000);
        let end_ns = match prng.below(12) {
            0 => drive.flush(arrival_ns),
            1 => drive.command(arrival_ns, block, len),
            2..5 => drive.write(arrival_ns, block, len, prng.chance(1, 3)),
            5 => drive.read_queue(arrival_ns, vec![(block, len), (block / 2, 1)]),
            _ => drive.read(arrival_ns, block, len),
        };
        assert!(end_ns >= arrival_ns);
        now_ns = end_ns;
        let so_far_ns = drive.free_at_ns.max(now_ns);
        assert!(busy(&drive).busy_ns <= so_far_ns, "{} of {so_far_ns}", busy(&drive).busy_ns);
    }
}

#[test]
fn a_request_to_the_very_end_and_one_longer_than_the_cache_work() {
    let mut drive = drive();
    let len = Blocks::new(8 << 18).get();
    let now_ns = drive.read(0, len - 1, 1);
    let now_ns = drive.read(now_ns, len - 3, 3);
    let now_ns = drive.write(now_ns, 0, 100_000, false);
    let now_ns = drive.flush(now_ns);
    // 390 MiB at 236 MiB/s.
    assert!((1_600..1_900).contains(&(now_ns / 1_000_000)), "{now_ns}");
}

#[test]
fn a_cached_write_reaches_the_platter_no_earlier_than_the_drive() {
    // After a long rest: the head did not stop for the write that arrives now.
    let mut drive = drive();
    let end_ns = drive.write(1_000_000_000, 1_000_000, 1, false);
    let flushed_ns = drive.flush(end_ns + 1_000_000);
    assert!(flushed_ns - end_ns > 3_000_000, "{} ns", flushed_ns - end_ns);
    // The same holds if this write makes destaging urgent.
    let at_ns = 2_000_000_000;
    drive.write(at_ns, 0, 1, false);
    let late_ns = at_ns + 4_000_000;
    let end_ns = drive.write(late_ns, 1_000_000, 4_096, false);
    assert!(drive.free_at_ns >= late_ns, "{} ns early", late_ns - drive.free_at_ns);
    let flushed_ns = drive.flush(end_ns + 1_000_000);
    // 16 MiB at 236 MiB/s, and the seeks to both.
    assert!(flushed_ns - late_ns > 67_000_000, "{} ns", flushed_ns - late_ns);
}

/// The parts of the busy time never exceed it, and a head that only seeks spends it on seeks and turns.
#[test]
fn busy_time_has_parts() {
    let mut drive = drive();
    let mut prng = Prng::new(7);
    let (mut now_ns, len) = (0, drive.len_blocks);
    for _ in 0..2_000 {
        let block = prng.below(len - 64);
        now_ns = match prng.below(4) {
            0 => drive.write(now_ns, block, 1 + prng.below(64), false),
            1 => drive.write(now_ns, block, 1, true),
            2 => drive.flush(now_ns),
            _ => drive.read(now_ns, block, 1 + prng.below(64)),
        };
        let ActivityCounters { busy_ns, seek_ns, turn_ns, transfer_ns, .. } = busy(&drive);
        assert!(seek_ns + turn_ns + transfer_ns <= busy_ns);
    }
    let ActivityCounters { busy_ns, seek_ns, turn_ns, transfer_ns, .. } = busy(&drive);
    assert!(seek_ns > transfer_ns && turn_ns > transfer_ns, "{:?}", busy(&drive));
    assert!(seek_ns + turn_ns + transfer_ns > busy_ns / 10 * 9);
}

/// E5: data that a log left in the cache count for the log when a flush of another activity waits for
/// them, and a request that moves nothing costs its own activity.
#[test]
fn cached_data_count_for_the_activity_that_wrote_them() {
    let mut drive = drive();
    let of = |drive: &Mechanics, activity| drive.times()[activity];
    drive.serve(Activity::Log);
    let taken_ns = drive.write(0, 5_000_000, 256, false);
    drive.serve(Activity::Compaction);
    let taken_ns = drive.write(taken_ns, 5_000_256, 256, false);
    let before = of(&drive, Activity::Log);
    assert_eq!(before.transfer_ns, 0, "the drive has taken the data, and written nothing");
    drive.serve(Activity::Catalog);
    drive.flush(taken_ns);
    let [log, compaction, catalog] = [Activity::Log, Activity::Compaction, Activity::Catalog]
        .map(|activity| of(&drive, activity));
    assert!(log.seek_ns > 0 && log.transfer_ns > 0, "{log:?}");
    assert!(compaction.seek_ns == 0 && compaction.transfer_ns > 0, "{compaction:?}");
    assert!(catalog.busy_ns > 0 && catalog.seek_ns + catalog.transfer_ns == 0, "{catalog:?}");
    let all_ns: u64 = drive.times().iter().map(|(_, times)| times.busy_ns).sum();
    assert_eq!(all_ns, busy(&drive).busy_ns);
    assert_eq!(of(&drive, Activity::User), ActivityCounters::default());
}

#[test]
fn a_stream_spends_its_time_on_transfer() {
    let mut drive = drive();
    let now_ns = drive.read(0, 0, 16);
    let before = busy(&drive);
    drive.read(now_ns, 16, 64_000);
    let spent = busy(&drive) - before;
    assert!(spent.transfer_ns > spent.busy_ns / 10 * 9);
    assert!(drive.head_block() > 60_000, "{}", drive.head_block());
}
