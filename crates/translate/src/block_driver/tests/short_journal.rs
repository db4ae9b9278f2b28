//! A journal so short that one commit begins many zones. Each time the journal is emptied, it takes
//! zones of the reserve (K5), and no write of the host makes room in between.

use super::*;

/// A full device. Each of its two journal zones of 28 blocks takes three entries with seven host
/// blocks, and everything in its write buffer may be due at once.
fn full_device(cache: Blocks) -> Run {
    let drive = SimDisk::builder(zoned(60, 32, 0)).write_cache(cache).memory().unwrap();
    let drive = Arc::new(drive);
    let journal_zone_count = 2;
    let options =
        DriverOptions { journal_zone_count, bypass_len: Blocks::new(300), ..options(400) };
    let driver = BlockDriver::format(Arc::clone(&drive) as Arc<dyn Disk>, &options).unwrap();
    let len = driver.geometry().len().get();
    let mut run = Run {
        drive,
        driver: Some(driver),
        options,
        model: Model { may_be: vec![vec![0]; len as usize] },
        next_stamp: 1,
        next_at: 0,
        prng: Prng::new(1),
        told: format!("cache of {cache}"),
        lent_count: 0,
        is_slow: true,
    };
    (0..len).for_each(|at| assert!(write(&mut run, range(at, 1))));
    run.driver().flush().unwrap();
    run.model.settle();
    run
}

/// False if the power went.
fn write(run: &mut Run, range: BlockRange) -> bool {
    let stamp = run.next_stamp;
    run.next_stamp += 1;
    let data = stamp.to_le_bytes().repeat(range.len.bytes() as usize / 8);
    let written = run.driver().write(range.start, &data, Persist::Cached);
    run.model.blocks(range).iter_mut().for_each(|may_be| may_be.push(stamp));
    has_power(written, &run.told)
}

/// Writes blocks anywhere, fewer than go to the journal on their own, and then enough that all of
/// them do.
fn fill_journal(run: &mut Run) -> bool {
    let len = run.model.may_be.len() as u64;
    let mut scattered = 0..100;
    let most = 290;
    scattered.all(|_| {
        let at = run.prng.below(len);
        write(run, range(at, 1))
    }) && {
        let at = run.prng.below(len - most);
        write(run, range(at, most))
    }
}

#[test]
fn a_commit_through_many_journal_zones_leaves_the_reserve() {
    let mut run = full_device(Blocks::new(0));
    for _ in 0..200 {
        assert!(fill_journal(&mut run));
        run.check();
        invariants::check(&run.driver().state()).unwrap();
    }
    run.driver().flush().unwrap();
    run.model.settle();
    run.recover(0);
}

#[test]
fn a_commit_through_many_journal_zones_survives_power_cuts() {
    let mut run = full_device(Blocks::new(10_000));
    let mut urgent_cleanings = 0;
    for _ in 0..60 {
        let power_cut_after = Some(run.prng.below(1_000));
        run.drive.set_faults(FaultPlan { power_cut_after, ..FaultPlan::default() });
        while fill_journal(&mut run) {}
        urgent_cleanings += run.driver().driver_counters().urgent_cleanings;
        let cuts = run.prng.below(3);
        run.recover(cuts);
    }
    assert!(urgent_cleanings > 100, "{urgent_cleanings}");
}

/// Of a stream's part, an emptied journal may have evicted some blocks before the part's turn comes.
#[test]
fn a_part_of_a_stream_that_is_evicted_in_between_is_written_once() {
    let drive = Arc::new(SimDisk::builder(zoned(40, 64, 0)).memory().unwrap());
    let options = DriverOptions { stream_len: Some(Blocks::new(8)), ..options(100) };
    let driver = BlockDriver::format(drive, &options).unwrap();
    let data = |stamp: u8| vec![stamp; 4 * BLOCK_LEN_BYTES];
    for at in 0..10 {
        driver.write(Lba::new(4 * at), &data(at as u8 + 1), Persist::Cached).unwrap();
    }
    {
        let mut state = driver.state();
        let part = range(20, 20);
        assert_eq!(state.streams.held.within(part).map(|held| held.len.get()).sum::<u64>(), 20);
        state.append(data_zones::Stream::Host, &data(8), &[range(28, 4)]).unwrap();
        state.evict_held(part).unwrap();
        assert_eq!(state.counters.streamed_blocks, 16);
        invariants::check(&state).unwrap();
    }
    for at in 0..10 {
        let mut found = data(0);
        driver.read(Lba::new(4 * at), &mut found).unwrap();
        assert!(found == data(at as u8 + 1), "{at}");
    }
}
