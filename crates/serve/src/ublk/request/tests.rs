//! Each request of the kernel against a drive in memory, and against devices that fail.

use super::*;
use crate::{Content, Extent, SectorDevice, SectorLen};
use imbrex_disk::{Blocks, Geometry, GeometrySpec, Lba, Rule};
use imbrex_disk_sim::SimDisk;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

const LEN_SECTORS: u64 = 64;

/// A drive that counts forced writes, and refuses or panics on demand.
#[derive(Debug)]
struct Watched {
    device: SectorDevice,
    flushes: AtomicUsize,
    through: AtomicUsize,
    kept_zeroes: AtomicUsize,
    failure: Option<fn() -> DiskError>,
    waits: Waits,
}

impl Watched {
    fn new() -> Watched {
        let spec = GeometrySpec { len: Blocks::new(LEN_SECTORS / 8), rule: Rule::Anywhere };
        let disk = SimDisk::builder(Geometry::new(spec).unwrap()).memory().unwrap();
        Watched {
            device: SectorDevice::new(Arc::new(disk), SectorLen::Bytes512).unwrap(),
            flushes: AtomicUsize::new(0),
            through: AtomicUsize::new(0),
            kept_zeroes: AtomicUsize::new(0),
            failure: None,
            waits: Waits::Nothing,
        }
    }

    fn saw(&self, persist: Persist) {
        self.through.fetch_add(usize::from(persist == Persist::Through), Ordering::SeqCst);
    }
}

impl BlockDevice for Watched {
    fn len_bytes(&self) -> u64 {
        self.device.len_bytes()
    }
    fn sector_len_bytes(&self) -> u32 {
        self.device.sector_len_bytes()
    }
    fn waits(&self) -> Waits {
        self.waits
    }
    fn read(&self, at_bytes: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        match self.failure {
            Some(failure) => {
                Err(DeviceError::Disk { what: "reading".to_owned(), source: failure() })
            }
            None => self.device.read(at_bytes, buf),
        }
    }
    fn write(&self, at_bytes: u64, data: &[u8], persist: Persist) -> Result<(), DeviceError> {
        self.saw(persist);
        self.device.write(at_bytes, data, persist)
    }
    fn flush(&self) -> Result<(), DeviceError> {
        self.flushes.fetch_add(1, Ordering::SeqCst);
        self.device.flush()
    }
    fn trim(&self, range: ByteRange, persist: Persist) -> Result<(), DeviceError> {
        self.saw(persist);
        self.device.trim(range, persist)
    }
    fn write_zeroes(
        &self,
        range: ByteRange,
        may_trim: bool,
        persist: Persist,
    ) -> Result<(), DeviceError> {
        self.saw(persist);
        self.kept_zeroes.fetch_add(usize::from(!may_trim), Ordering::SeqCst);
        self.device.write_zeroes(range, may_trim, persist)
    }
    fn status(&self, range: ByteRange) -> Result<Extent, DeviceError> {
        Ok(Extent { len_bytes: range.len_bytes, content: Content::Data })
    }
}

/// The kernel's side of a request.
struct Kernel {
    target: Target,
    device: Arc<Watched>,
}

impl Kernel {
    fn of(device: Watched, is_read_only: bool) -> Kernel {
        let device = Arc::new(device);
        Kernel { target: Target::new(Arc::clone(&device) as _, is_read_only), device }
    }

    fn ask(&self, word: u32, start_sector: u64, sector_count: u32, buffer: &mut [u8]) -> i32 {
        self.target.answer(&Request::new(word, start_sector, sector_count), buffer)
    }

    fn content(&self) -> Vec<u8> {
        let mut all = vec![0; LEN_SECTORS as usize * 512];
        assert_eq!(self.ask(0, 0, LEN_SECTORS as u32, &mut all), all.len() as i32);
        all
    }
}

const READ: u32 = operation::READ as u32;
const WRITE: u32 = operation::WRITE as u32;
const FLUSH: u32 = operation::FLUSH as u32;
const DISCARD: u32 = operation::DISCARD as u32;
const ZEROES: u32 = operation::WRITE_ZEROES as u32;
/// The flags of a retry, which need no action.
const FAILFAST: u32 = 7 << 8;

#[test]
fn each_request_has_its_effect_and_no_other() {
    let kernel = Kernel::of(Watched::new(), false);
    // The buffer is longer than most requests.
    let mut buffer = vec![7; 8 * 512];
    assert_eq!(kernel.ask(WRITE | FAILFAST, 3, 5, &mut buffer), 5 * 512, "E1");
    let mut expected = vec![0; LEN_SECTORS as usize * 512];
    expected[3 * 512..8 * 512].fill(7);
    assert_eq!(kernel.content(), expected);
    buffer.fill(1);
    assert_eq!(kernel.ask(READ, 7, 2, &mut buffer), 1024);
    assert_eq!((&buffer[..512], &buffer[512..1024]), (&[7; 512][..], &[0; 512][..]));
    assert!(buffer[1024..].iter().all(|&byte| byte == 1), "beyond the request");
    assert_eq!(kernel.ask(ZEROES, 4, 2, &mut []), 0);
    expected[4 * 512..6 * 512].fill(0);
    assert_eq!(kernel.content(), expected);
    // A discard affects whole blocks only; partly covered blocks stay.
    assert_eq!(kernel.ask(DISCARD, 6, 12, &mut []), 0);
    let content = kernel.content();
    assert_eq!(content[..8 * 512], expected[..8 * 512]);
    assert_eq!(kernel.ask(FLUSH, 0, 0, &mut []), 0);
    let counts = kernel.target.tally.counts();
    assert_eq!((counts.reads, counts.writes, counts.trims), (4, 1, 1));
    assert_eq!((counts.zeroes, counts.flushes, counts.errors), (1, 1, 0));
    assert_eq!((counts.written_bytes, kernel.device.flushes.load(Ordering::SeqCst)), (2560, 1));
}

#[test]
fn fua_and_no_unmap_reach_the_device() {
    let kernel = Kernel::of(Watched::new(), false);
    let mut buffer = vec![1; 512];
    for word in [WRITE, DISCARD, ZEROES] {
        assert!(kernel.ask(word, 0, 1, &mut buffer) >= 0);
    }
    assert_eq!(kernel.device.through.load(Ordering::SeqCst), 0);
    for word in [WRITE, DISCARD, ZEROES] {
        assert!(kernel.ask(word | flag::FUA, 0, 1, &mut buffer) >= 0);
    }
    assert_eq!(kernel.device.through.load(Ordering::SeqCst), 3);
    assert_eq!(kernel.device.kept_zeroes.load(Ordering::SeqCst), 0);
    assert_eq!(kernel.ask(ZEROES | flag::NO_UNMAP, 0, 1, &mut []), 0);
    assert_eq!(kernel.device.kept_zeroes.load(Ordering::SeqCst), 1);
}

#[test]
fn an_impossible_request_is_an_error_without_effect() {
    let kernel = Kernel::of(Watched::new(), false);
    let eio = -Errno::IO.raw_os_error();
    let mut buffer = vec![7; 1024];
    let last = LEN_SECTORS - 1;
    for (word, start_sector, sector_count, result) in [
        (WRITE, last, 2, eio),
        (READ, LEN_SECTORS, 1, eio),
        (DISCARD, u64::MAX / 512, u32::MAX, eio),
        (ZEROES, u64::MAX, 8, eio),
        (WRITE, 0, 0, eio),
        // Longer than the buffer.
        (WRITE, 0, 3, eio),
        (READ, 0, u32::MAX, eio),
        // Operations on zones, and an operation that no kernel has.
        (4, 0, 1, -Errno::OPNOTSUPP.raw_os_error()),
        (18, 0, 1, -Errno::OPNOTSUPP.raw_os_error()),
        (255, 0, 1, -Errno::OPNOTSUPP.raw_os_error()),
    ] {
        let shown = format!("{word:#x} {start_sector} {sector_count}");
        assert_eq!(kernel.ask(word, start_sector, sector_count, &mut buffer), result, "{shown}");
    }
    assert_eq!(kernel.target.tally.counts().errors, 10);
    assert_eq!(kernel.content(), vec![0; LEN_SECTORS as usize * 512], "E2");
}

#[test]
fn a_read_only_device_is_read_and_flushed_only() {
    let kernel = Kernel::of(Watched::new(), true);
    let mut buffer = vec![7; 512];
    for word in [WRITE, DISCARD, ZEROES] {
        assert_eq!(kernel.ask(word, 0, 1, &mut buffer), -Errno::IO.raw_os_error());
    }
    assert_eq!(kernel.ask(FLUSH, 0, 0, &mut []), 0);
    assert_eq!(kernel.content(), vec![0; LEN_SECTORS as usize * 512]);
    let first = kernel.target.first_error().clone().unwrap();
    assert_eq!(first, "the device is read-only: bytes 0..512");
}

#[test]
fn a_failure_reaches_the_kernel_and_its_description_is_kept() {
    let failing = |failure| {
        let device = Watched { failure: Some(failure), ..Watched::new() };
        let kernel = Kernel::of(device, false);
        let result = kernel.ask(READ, 0, 1, &mut [0; 512]);
        let first = kernel.target.first_error().clone().unwrap();
        (result, first, kernel.target.panics().len())
    };
    let (result, story, _) = failing(|| DiskError::Medium { at: Lba::new(3) });
    assert_eq!(result, -Errno::IO.raw_os_error());
    assert!(story.starts_with("reading: "), "{story}");
    let (result, _, panic_count) = failing(|| DiskError::Host {
        what: "writing".to_owned(),
        source: io::Error::from(ErrorKind::StorageFull),
    });
    assert_eq!((result, panic_count), (-Errno::NOSPC.raw_os_error(), 0));
    let (result, story, panic_count) = failing(|| panic!("by design"));
    assert_eq!((result, panic_count), (-Errno::IO.raw_os_error(), 1), "E3");
    assert!(story.contains("panicked"), "{story}");
}

#[test]
fn requests_that_wait_for_the_platter_go_to_a_lane() {
    let may_wait = |word, sector_count, waits| {
        let device = Watched { waits, ..Watched::new() };
        Request::new(word, 0, sector_count).may_wait(&device)
    };
    for (word, sector_count, expected) in [
        (READ, 1024, false),
        (WRITE, 1024, false),
        (WRITE | flag::FUA, 1, true),
        (FLUSH, 0, true),
        (DISCARD, 2048, false),
        (DISCARD, 2056, true),
        (ZEROES, 2056, true),
    ] {
        let shown = format!("{word:#x} {sector_count}");
        assert_eq!(may_wait(word, sector_count, Waits::Nothing), expected, "{shown}");
        assert!(may_wait(word, sector_count, Waits::All), "{shown}");
    }
}
