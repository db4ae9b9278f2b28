use super::*;
use imbrex_disk::Lba;

fn range(start: u64, len: u64) -> BlockRange {
    BlockRange::new(Lba::new(start), Blocks::new(len))
}

fn streams() -> Streams {
    Streams::new(Some(Blocks::new(512)))
}

#[test]
fn requests_that_continue_each_other_are_a_stream_from_its_length_on() {
    let mut streams = streams();
    let found: Vec<bool> = (0..8).map(|index| streams.note(range(index * 128, 128))).collect();
    assert_eq!(found, [false, false, false, false, true, true, true, true]);
}

#[test]
fn requests_may_overtake_each_other() {
    let mut streams = streams();
    let order = [0, 2, 1, 3, 5, 4, 7, 6, 9, 8, 10, 12, 11];
    let found: Vec<bool> =
        order.iter().map(|index| streams.note(range(index * 128, 128))).collect();
    assert!(found[5..].iter().all(|&is_stream| is_stream), "{found:?}");
}

#[test]
fn streams_beside_each_other_and_random_writes_are_told_apart() {
    let mut streams = streams();
    let mut prng = imbrex_clockwork::Prng::new(1);
    for index in 0..400 {
        for stream in 0..8 {
            let is_stream = streams.note(range(stream * 1_000_000 + index * 16, 16));
            assert_eq!(is_stream, 32 <= index, "{index} of {stream}");
        }
        assert!(!streams.note(range(100_000_000 + prng.below(1 << 40), 1)), "random");
    }
}

#[test]
fn random_writes_to_a_small_area_are_no_stream() {
    let mut streams = streams();
    let mut prng = imbrex_clockwork::Prng::new(1);
    // Each block once at most on average: dense only where all of it is written.
    for _ in 0..2000 {
        assert!(!streams.note(range(prng.below(4096), 1)));
    }
}

#[test]
fn a_complete_part_leaves_and_a_flush_leaves_nothing() {
    let mut streams = streams();
    assert!(streams.hold(range(1000, 20)).is_empty());
    assert_eq!(streams.hold(range(1020, 1500)), [range(1024, 1024)]);
    streams.held.remove(range(1024, 1024));
    let released = streams.release();
    assert_eq!(released, [(range(1000, 24), false), (range(2048, 472), true)]);
    assert!(streams.held.is_empty());
}

#[test]
fn no_more_is_held_than_half_of_the_buffer() {
    let mut streams = streams();
    streams.hold(range(0, 100));
    streams.hold(range(5000, 60));
    assert_eq!(streams.excess(Blocks::new(320)), None);
    assert_eq!(streams.excess(Blocks::new(300)), Some(range(0, 100)));
}
