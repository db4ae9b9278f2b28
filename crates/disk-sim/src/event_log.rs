//! A running hash over every request to a disk and the time of its answer: two runs of one seed
//! agree.
//!
//! The hash leaves out the data that reads return: earlier writes and faults decide that, and the
//! hash covers those.

/// The kind of an event. The numbers go into the hash.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    Read = 1,
    Write = 2,
    Flush = 3,
    Discard = 4,
    Zone = 5,
    PowerCut = 6,
    PowerOn = 7,
}

/// A hash that depends on every word and on their order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EventHash(u64);

impl EventHash {
    pub(crate) const fn new() -> EventHash {
        EventHash(0x496d_6272_6578_2121)
    }

    /// Adds plain words.
    pub(crate) fn words(&mut self, words: &[u64]) {
        for &word in words {
            // The multiply-xorshift round of SplitMix64: every input bit reaches every output bit.
            let mut z = (self.0 ^ word).wrapping_add(0x9e37_79b9_7f4a_7c15);
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            self.0 = z ^ (z >> 31);
        }
    }

    pub(crate) fn get(self) -> u64 {
        self.0
    }
}

/// The hash, if the disk keeps one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EventLog(Option<EventHash>);

impl EventLog {
    pub(crate) fn new(is_kept: bool) -> EventLog {
        EventLog(is_kept.then(EventHash::new))
    }

    /// Adds one event: its kind, two words of arguments, its end.
    pub(crate) fn event(&mut self, event: Event, at: u64, len: u64, end_ns: u64) {
        self.event_of(event, at, len, &[], end_ns);
    }

    /// Adds one event with its data.
    pub(crate) fn event_of(&mut self, event: Event, at: u64, len: u64, data: &[u8], end_ns: u64) {
        if let Some(hash) = &mut self.0 {
            hash.words(&[event as u64, at, len, u64::from(crc32c::crc32c(data)), end_ns]);
        }
    }

    /// `None` if the disk keeps no hash.
    pub(crate) fn get(self) -> Option<u64> {
        self.0.map(EventHash::get)
    }
}
