//! The length of the write buffer while the server runs: what the operator wants, and what the host's memory allows.
//!
//! ```text
//!   /proc/pressure/memory --- each second ---> Elastic: stalled much? a quarter less. calm for long? a little more
//!                                                 |
//!   control socket: `buffer LEN` --> wanted ------+---> BlockDriver::set_buffer_len
//! ```
//!
//! The device's own capacity follows a shorter length in steps: it is never below what the buffer holds and no data zone
//! has, so that no single write evicts everything that is too much. Blocks that a data zone has as well are no reason to
//! wait: they leave at once.
//!
//! Blocks that left the buffer are free memory of this process; a look soon after returns it to the host.
//!
//! Shrinking is fast and growing is slow, so that the buffer does not swing. The least length bounds how far it shrinks.
//! Without `--buffer-min` the buffer has the wanted length, whatever the pressure.

use imbrex_clockwork::{Budget, Clock, Job, Step};
use imbrex_disk::{Blocks, ByteSize};
use imbrex_translate::BlockDriver;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Where Linux tells how long programs waited for memory.
pub(super) const PRESSURE_FILE: &str = "/proc/pressure/memory";

/// The shortest write buffer that can be asked for while the server runs. A longer write goes past the buffer.
pub(super) const LEN_BYTES_MIN: u64 = 1 << 20;
/// The longest, as when the device is opened.
pub(super) const LEN_BYTES_MAX: u64 = 1 << 44;

/// Checks that a write buffer may have this length.
///
/// # Errors
/// It is out of range, in words.
pub(super) fn check_len(len: ByteSize) -> Result<(), String> {
    if (LEN_BYTES_MIN..=LEN_BYTES_MAX).contains(&len.0) {
        return Ok(());
    }
    let (min, max) = (ByteSize(LEN_BYTES_MIN), ByteSize(LEN_BYTES_MAX));
    Err(format!("a write buffer of {len} is out of range: from {min} to {max}"))
}

/// The time between two looks at the pressure.
const LOOK_EVERY_NS: u64 = 1_000_000_000;
/// The time between two steps towards a shorter buffer. The device evicts to nine tenths of each.
const STEP_EVERY_NS: u64 = 100_000_000;
/// If some program waited for memory for this share of the time, the buffer shrinks.
const PRESSED_PERMILLE: u64 = 50;
/// Below this share the host is calm.
const CALM_PERMILLE: u64 = 5;
/// After so many calm looks in a row the buffer grows by a step.
const CALM_LOOK_COUNT: u32 = 10;
/// A step of growth is this part of the wanted length.
const GROWTH_PART: u64 = 16;

/// How long programs have waited for memory, in microseconds since the start of the host.
pub(super) trait Pressure: Send {
    fn stalled_us(&mut self) -> Result<u64, String>;
}

/// A file in the format of Linux' pressure stall information: the host's, or that of a control group.
#[derive(Debug)]
pub(super) struct PressureFile(pub(super) PathBuf);

impl Pressure for PressureFile {
    fn stalled_us(&mut self) -> Result<u64, String> {
        let shown = self.0.display();
        let text = std::fs::read_to_string(&self.0)
            .map_err(|error| format!("cannot read {shown}: {error}"))?;
        stalled_us(&text).ok_or_else(|| {
            format!("{shown} is not in the format of Linux' pressure stall information")
        })
    }
}

/// The total of the line `some avg10=0.00 avg60=0.00 avg300=0.00 total=12345`.
fn stalled_us(text: &str) -> Option<u64> {
    let some = text.lines().find_map(|line| line.strip_prefix("some "))?;
    some.split_whitespace().find_map(|word| word.strip_prefix("total="))?.parse().ok()
}

/// The length that a buffer should have, from what was seen of the pressure. In bytes.
#[derive(Debug)]
struct Elastic {
    wanted: u64,
    min: u64,
    len: u64,
    calm_look_count: u32,
    last: Option<Look>,
    /// The share of the time between the last two looks for which some program waited for memory.
    stalled_permille: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Look {
    at_ns: u64,
    stalled_us: u64,
}

impl Elastic {
    fn new(wanted: u64, min: u64) -> Elastic {
        let min = min.min(wanted);
        Elastic { wanted, min, len: wanted, calm_look_count: 0, last: None, stalled_permille: None }
    }

    fn look(&mut self, now: Look) {
        let Some(last) = self.last.replace(now) else { return };
        let elapsed_us = (now.at_ns.saturating_sub(last.at_ns) / 1000).max(1);
        let stalled_us = now.stalled_us.saturating_sub(last.stalled_us);
        let permille = stalled_us.saturating_mul(1000) / elapsed_us;
        self.stalled_permille = Some(permille.min(1000));
        self.calm_look_count = if permille < CALM_PERMILLE { self.calm_look_count + 1 } else { 0 };
        if PRESSED_PERMILLE <= permille {
            self.len = (self.len - self.len / 4).max(self.min);
        } else if CALM_LOOK_COUNT <= self.calm_look_count {
            self.calm_look_count = 0;
            self.len = (self.len + self.wanted / GROWTH_PART).min(self.wanted);
        }
    }
}

/// The length of the write buffer of a running device.
pub(super) struct BufferLen {
    driver: Arc<BlockDriver>,
    is_elastic: bool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    elastic: Elastic,
    /// Why the pressure is not known, if it is not.
    fault: Option<String>,
    /// After the buffer was made shorter: how much it held when memory was last returned to the host.
    held_bytes: Option<u64>,
    /// The capacity that the device has now.
    capacity_bytes: u64,
}

/// Memory is returned to the host when the buffer has lost this much, or has its length.
const RETURNED_BYTES: u64 = 32 << 20;
/// How much may leave the buffer while the host waits for it.
const SHED_BYTES: u64 = 64 << 20;

/// What is known of the length, for the status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BufferLenStatus {
    /// The length that the device is on its way to.
    pub(super) len_bytes: u64,
    /// The length that is in force.
    pub(super) capacity_bytes: u64,
    pub(super) wanted_bytes: u64,
    /// `None` if the length does not follow the pressure.
    pub(super) min_bytes: Option<u64>,
    pub(super) stalled_permille: Option<u64>,
    pub(super) fault: Option<String>,
}

impl BufferLen {
    /// The buffer of `driver`, which has `wanted_bytes`. With `min_bytes` it may shrink to that under pressure.
    pub(super) fn new(
        driver: Arc<BlockDriver>,
        wanted_bytes: u64,
        min_bytes: Option<u64>,
    ) -> BufferLen {
        let elastic = Elastic::new(wanted_bytes, min_bytes.unwrap_or(wanted_bytes));
        let state = Mutex::new(State {
            elastic,
            fault: None,
            held_bytes: None,
            capacity_bytes: wanted_bytes,
        });
        BufferLen { driver, is_elastic: min_bytes.is_some(), state }
    }

    pub(super) fn status(&self) -> BufferLenStatus {
        let State { elastic, fault, capacity_bytes, .. } = &*self.state();
        BufferLenStatus {
            len_bytes: elastic.len,
            capacity_bytes: *capacity_bytes,
            wanted_bytes: elastic.wanted,
            min_bytes: self.is_elastic.then_some(elastic.min),
            stalled_permille: elastic.stalled_permille,
            fault: fault.clone(),
        }
    }

    /// Sets the wanted length. A longer one is effective at once, a shorter one in steps.
    ///
    /// # Errors
    /// The length is out of range, in words.
    pub(super) fn set(&self, ByteSize(bytes): ByteSize) -> Result<(), String> {
        check_len(ByteSize(bytes))?;
        let mut state = self.state();
        let elastic = &mut state.elastic;
        if self.is_elastic && bytes < elastic.min {
            let [asked, min] = ByteSize(bytes).apart(ByteSize(elastic.min));
            return Err(format!("a write buffer of {asked} is shorter than --buffer-min, {min}"));
        }
        let is_shorter = bytes < elastic.len;
        (elastic.wanted, elastic.len, elastic.calm_look_count) = (bytes, bytes, 0);
        if !self.is_elastic {
            elastic.min = bytes;
        }
        self.apply(&mut state, is_shorter);
        Ok(())
    }

    /// Records that the pressure cannot be read, and why.
    pub(super) fn set_unknown(&self, fault: String) {
        self.state().fault = Some(fault);
    }

    fn look(&self, now: Look) {
        let mut state = self.state();
        let before = state.elastic.len;
        state.elastic.look(now);
        if state.elastic.len != before {
            let is_shorter = state.elastic.len < before;
            self.apply(&mut state, is_shorter);
        }
    }

    fn apply(&self, state: &mut State, is_shorter: bool) {
        if is_shorter {
            state.held_bytes = Some(u64::MAX);
        }
        self.approach(state);
    }

    /// A step towards the length; see the module. Returns whether more are needed.
    fn approach(&self, state: &mut State) -> bool {
        let status = self.driver.status();
        let unwritten = (status.buffered - status.clean).bytes();
        let capacity = unwritten.min(state.capacity_bytes).max(state.elastic.len);
        let mut from = state.capacity_bytes.min(status.buffered.bytes());
        while capacity + SHED_BYTES < from {
            from -= SHED_BYTES;
            self.driver.set_buffer_len(Blocks::holding(from));
        }
        if capacity != state.capacity_bytes {
            state.capacity_bytes = capacity;
            self.driver.set_buffer_len(Blocks::holding(capacity));
        }
        state.elastic.len < capacity
    }

    /// Whether enough left the buffer since it was made shorter, so that memory should go back to the host now.
    fn has_freed(&self) -> bool {
        let mut state = self.state();
        let Some(before) = state.held_bytes else { return false };
        let held = self.driver.status().buffered.bytes();
        let is_settled = held <= state.elastic.len;
        let has_freed = is_settled || held <= before.saturating_sub(RETURNED_BYTES);
        if has_freed {
            state.held_bytes = (!is_settled).then_some(held);
        }
        has_freed
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for BufferLen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BufferLen").field("state", &self.state).finish_non_exhaustive()
    }
}

/// Looks each second at the pressure, if there is one to follow, and at what left the buffer.
pub(super) struct BufferWatch<P> {
    pub(super) buffer: Arc<BufferLen>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) pressure: Option<P>,
    /// When to look at it again.
    pub(super) next_look_ns: u64,
    /// Says that the pressure can no longer be read.
    pub(super) tell: Box<dyn Fn(&str) + Send>,
    /// Returns free memory to the host.
    pub(super) release: fn(),
}

impl<P: Pressure> Job for BufferWatch<P> {
    fn name(&self) -> &'static str {
        "write buffer"
    }

    fn step(&mut self, _: Budget) -> Step {
        let now_ns = self.clock.now_ns();
        let is_time = self.next_look_ns <= now_ns;
        match self.pressure.as_mut().filter(|_| is_time).map(Pressure::stalled_us) {
            Some(Ok(stalled_us)) => {
                self.next_look_ns = now_ns + LOOK_EVERY_NS;
                self.buffer.look(Look { at_ns: now_ns, stalled_us });
            }
            Some(Err(fault)) => {
                (self.tell)(&fault);
                self.buffer.set_unknown(fault);
                self.pressure = None;
            }
            None => {}
        }
        let has_more = self.buffer.approach(&mut self.buffer.state());
        if self.buffer.has_freed() {
            (self.release)();
        }
        Step::WaitFor { ns: if has_more { STEP_EVERY_NS } else { LOOK_EVERY_NS } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use imbrex_clockwork::{Order, VirtualWorld};
    use imbrex_disk::{BLOCK_LEN_BYTES, Disk, Lba, Persist};
    use imbrex_disk::{Geometry, GeometrySpec, Rule, ZoneSpec};
    use imbrex_disk_sim::SimDisk;
    use imbrex_translate::DriverOptions;

    const MIB: u64 = 1 << 20;

    /// Each look finds that programs waited for this many permille of the second before it.
    fn looks(elastic: &mut Elastic, permille: u64, count: u64) {
        for _ in 0..count {
            let last = elastic.last.unwrap_or(Look { at_ns: 0, stalled_us: 0 });
            elastic.look(Look {
                at_ns: last.at_ns + LOOK_EVERY_NS,
                stalled_us: last.stalled_us + 1000 * permille,
            });
        }
    }

    #[test]
    fn pressure_shrinks_the_buffer_to_the_least_and_calm_gives_it_back() {
        let mut elastic = Elastic::new(512 * MIB, 64 * MIB);
        elastic.look(Look { at_ns: 0, stalled_us: 7_000_000 });
        assert_eq!(elastic.len, 512 * MIB, "one look says nothing of a rate");
        looks(&mut elastic, 60, 1);
        assert_eq!((elastic.len, elastic.stalled_permille), (384 * MIB, Some(60)));
        looks(&mut elastic, 900, 20);
        assert_eq!(elastic.len, 64 * MIB, "the least");
        looks(&mut elastic, 20, 100);
        assert_eq!(elastic.len, 64 * MIB, "neither pressed nor calm");
        looks(&mut elastic, 0, 9);
        assert_eq!(elastic.len, 64 * MIB);
        looks(&mut elastic, 0, 1);
        assert_eq!(elastic.len, 96 * MIB);
        looks(&mut elastic, 0, 1000);
        assert_eq!(elastic.len, 512 * MIB, "not longer than wanted");
    }

    #[test]
    fn the_total_is_read_from_the_format_of_linux() {
        let text = "some avg10=0.00 avg60=1.50 avg300=0.00 total=123\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=45\n";
        assert_eq!(stalled_us(text), Some(123));
        for text in ["", "full total=3", "some total=x", "some avg10=0.00"] {
            assert_eq!(stalled_us(text), None, "{text}");
        }
    }

    fn driver(buffer_bytes: u64) -> Arc<BlockDriver> {
        let zones = ZoneSpec {
            zone_len: Blocks::new(1024),
            zone_capacity: Blocks::new(1024),
            conventional_zone_count: 0,
            open_zone_limit: None,
            active_zone_limit: None,
            strict_reads: true,
        };
        let spec = GeometrySpec { len: Blocks::new(60 * 1024), rule: Rule::AtPointer(zones) };
        let disk = SimDisk::builder(Geometry::new(spec).unwrap()).memory().unwrap();
        let buffer_len = Blocks::holding(buffer_bytes);
        let options =
            DriverOptions { buffer_len, journal_zone_count: 8, ..DriverOptions::default() };
        Arc::new(BlockDriver::format(Arc::new(disk), &options).unwrap())
    }

    /// Stalls all the time, until it cannot be read.
    struct Fake(Vec<u64>);

    impl Pressure for Fake {
        fn stalled_us(&mut self) -> Result<u64, String> {
            if self.0.is_empty() { Err("gone".to_owned()) } else { Ok(self.0.remove(0)) }
        }
    }

    #[test]
    fn a_device_follows_a_fake_pressure_and_an_operator() {
        let device = driver(8 * MIB);
        let buffer = Arc::new(BufferLen::new(Arc::clone(&device), 8 * MIB, Some(2 * MIB)));
        let clock = Arc::new(VirtualWorld::new(Order::SmallestTime)).runtime().clock;
        let told = Arc::new(Mutex::new(Vec::new()));
        let (hears, looked) = (Arc::clone(&told), Arc::clone(&clock));
        let mut watch = BufferWatch {
            buffer: Arc::clone(&buffer),
            clock,
            pressure: Some(Fake(vec![0, 500_000])),
            next_look_ns: 0,
            tell: Box::new(move |fault| hears.lock().unwrap().push(fault.to_owned())),
            release: || (),
        };
        let mut look = || watch.step(Budget { io_bytes: 1 });
        look();
        looked.advance_to_ns(LOOK_EVERY_NS);
        assert_eq!(look(), Step::WaitFor { ns: LOOK_EVERY_NS });
        assert_eq!(device.status().buffer_len.bytes(), 6 * MIB);
        let status = buffer.status();
        assert_eq!((status.wanted_bytes, status.min_bytes), (8 * MIB, Some(2 * MIB)));
        assert_eq!(status.stalled_permille, Some(500));
        assert!(buffer.set(ByteSize(MIB)).unwrap_err().contains("--buffer-min, 2.00 MiB"));
        assert!(buffer.set(ByteSize(1)).unwrap_err().contains("from 1.00 MiB"));
        buffer.set(ByteSize(4 * MIB)).unwrap();
        assert_eq!(device.status().buffer_len.bytes(), 4 * MIB);
        look();
        assert!(told.lock().unwrap().is_empty(), "it is not time yet");
        looked.advance_to_ns(2 * LOOK_EVERY_NS);
        look();
        look();
        assert_eq!(*told.lock().unwrap(), ["gone"]);
        assert_eq!(buffer.status().fault.as_deref(), Some("gone"));
    }

    /// Memory goes back when the buffer has become as short as an operator asked, once.
    #[test]
    fn memory_is_returned_when_the_blocks_have_left() {
        let device = driver(8 * MIB);
        let buffer = BufferLen::new(Arc::clone(&device), 8 * MIB, None);
        let block = [1; BLOCK_LEN_BYTES];
        (0..1500).for_each(|at| device.write(Lba::new(7 * at), &block, Persist::Cached).unwrap());
        assert!(!buffer.has_freed(), "nobody asked");
        buffer.set(ByteSize(2 * MIB)).unwrap();
        let held = device.status().buffered;
        assert_eq!(device.status().buffer_len, held, "a write evicts no more than it needs");
        let mut steps = 1;
        while buffer.approach(&mut buffer.state()) {
            while device.work().unwrap() {}
            steps += 1;
        }
        assert!(5 < steps && steps < 20, "{steps}");
        assert_eq!(device.status().buffer_len.bytes(), 2 * MIB);
        while device.work().unwrap() {}
        assert!(buffer.has_freed());
        assert!(!buffer.has_freed(), "once");
        buffer.set(ByteSize(4 * MIB)).unwrap();
        assert!(!buffer.has_freed(), "longer");
    }

    /// Requests that continue each other, as a copy of a disk writes them; their blocks stay in the buffer for reads.
    fn stream(device: &BlockDriver, len_bytes: u64) {
        let part = vec![1; 512 << 10];
        for at in (0..len_bytes).step_by(part.len()) {
            device.write(Lba::new(at / BLOCK_LEN_BYTES as u64), &part, Persist::Cached).unwrap();
        }
        device.flush().unwrap();
        while device.work().unwrap() {}
    }

    /// Blocks that a data zone has as well kept the device's capacity from following, so they never left.
    #[test]
    fn blocks_that_are_kept_for_reads_leave_a_shorter_buffer_at_once() {
        for is_pressed in [false, true] {
            let device = driver(160 * MIB);
            stream(&device, 120 * MIB);
            let before = (device.status(), device.driver_counters().buffer_bytes);
            assert!(before.0.clean.bytes() > 100 * MIB, "{before:?}");
            let min = is_pressed.then_some(4 * MIB);
            let buffer = BufferLen::new(Arc::clone(&device), 160 * MIB, min);
            match is_pressed {
                false => buffer.set(ByteSize(4 * MIB)).unwrap(),
                true => (0..20).for_each(|second| {
                    let (at_ns, stalled_us) = (second * LOOK_EVERY_NS, second * 1_000_000);
                    buffer.look(Look { at_ns, stalled_us });
                }),
            }
            let (status, told) = (device.status(), buffer.status());
            assert_eq!(status.buffer_len.bytes(), 4 * MIB, "{status:?}");
            assert_eq!((told.len_bytes, told.capacity_bytes), (4 * MIB, 4 * MIB));
            assert!(status.buffered.bytes() <= 4 * MIB, "{status:?}");
            let now = device.driver_counters().buffer_bytes;
            assert!(10 * now < before.1, "{now} of {} bytes of memory", before.1);
            assert!(buffer.has_freed(), "it goes back to the host");
        }
    }

    /// What no data zone has leaves in steps, and until then the status says what is in force.
    #[test]
    fn the_status_tells_the_length_in_force() {
        let device = driver(8 * MIB);
        let buffer = BufferLen::new(Arc::clone(&device), 8 * MIB, None);
        let block = [1; BLOCK_LEN_BYTES];
        (0..1500).for_each(|at| device.write(Lba::new(7 * at), &block, Persist::Cached).unwrap());
        buffer.set(ByteSize(2 * MIB)).unwrap();
        let told = buffer.status();
        assert_eq!((told.len_bytes, told.wanted_bytes), (2 * MIB, 2 * MIB));
        assert_eq!(told.capacity_bytes, device.status().buffer_len.bytes());
        assert!(2 * MIB < told.capacity_bytes, "{told:?}");
        while buffer.approach(&mut buffer.state()) {
            while device.work().unwrap() {}
        }
        assert_eq!(buffer.status().capacity_bytes, 2 * MIB);
    }
}
