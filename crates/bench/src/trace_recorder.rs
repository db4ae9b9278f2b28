//! A disk wrapper that records all requests as a trace in our CSV format.
//!
//! ```text
//!   clients --> Recorder --> disk
//!                  |
//!                  +-- time_us,op,offset_bytes,size_bytes --> file, plain or .zst
//! ```
//!
//! A trace contains only reads and writes. Discards and writes of zeros as such are counted. If the
//! file takes no more data, the recording ends but the disk continues; [`Recorder::finish`] reports
//! it.

use imbrex_clockwork::Clock;
use imbrex_disk::{
    BlockRange, Blocks, Disk, DiskError, DiskLayer, Known, Lba, Persist, ReadRequest,
};
use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The counts of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// Reads in the trace.
    pub reads: u64,
    /// Writes in the trace.
    pub writes: u64,
    /// Discards and writes of zeros as such, which the trace omits.
    pub others: u64,
}

/// A disk wrapper that records all requests as a trace in our CSV format.
pub struct Recorder {
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    page: Mutex<Page>,
}

struct Page {
    out: Option<Out>,
    start_ns: Option<u64>,
    recorded: Recorded,
    failure: Option<io::Error>,
}

type Sink = BufWriter<Box<dyn Write + Send>>;

enum Out {
    Plain(Sink),
    Packed(Box<zstd::Encoder<'static, Sink>>),
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Out::Plain(out) => out.write(bytes),
            Out::Packed(out) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Out::Plain(out) => out.flush(),
            Out::Packed(out) => out.flush(),
        }
    }
}

impl Out {
    fn finish(self) -> io::Result<()> {
        match self {
            Out::Plain(mut out) => out.flush(),
            Out::Packed(out) => out.finish()?.flush(),
        }
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").field("disk", &self.disk).finish_non_exhaustive()
    }
}

impl Recorder {
    /// Records the requests to `disk` in a new file at `path`, which is compressed if its name ends
    /// in `.zst`.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn in_file(
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        file: File,
        path: &Path,
    ) -> io::Result<Recorder> {
        let is_packed = path.extension().is_some_and(|extension| extension == "zst");
        Recorder::to(disk, clock, Box::new(file), is_packed)
    }

    fn to(
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        file: Box<dyn Write + Send>,
        is_packed: bool,
    ) -> io::Result<Recorder> {
        let file = BufWriter::new(file);
        let mut out = match is_packed {
            true => Out::Packed(Box::new(zstd::Encoder::new(file, 0)?)),
            false => Out::Plain(file),
        };
        out.write_all(b"time_us,op,offset_bytes,size_bytes\n")?;
        let page =
            Page { out: Some(out), start_ns: None, recorded: Recorded::default(), failure: None };
        Ok(Recorder { disk, clock, page: Mutex::new(page) })
    }

    /// Ends the recording; the disk continues.
    ///
    /// # Errors
    /// The file took no more data: the trace ends before the recording.
    pub fn finish(&self) -> io::Result<Recorded> {
        let mut page = self.page();
        if let Some(out) = page.out.take() {
            out.finish()?;
        }
        match page.failure.take() {
            Some(error) => Err(error),
            None => Ok(page.recorded),
        }
    }

    fn page(&self) -> MutexGuard<'_, Page> {
        self.page.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a request that arrives now.
    fn note(&self, op: char, at: Lba, len_bytes: usize) {
        let mut page = self.page();
        // Read under the lock, so that times in the file never go back.
        let now_ns = self.clock.now_ns();
        let time_us = (now_ns - *page.start_ns.get_or_insert(now_ns)) / 1000;
        let Some(out) = &mut page.out else { return };
        if let Err(error) = writeln!(out, "{time_us},{op},{},{len_bytes}", at.bytes()) {
            (page.out, page.failure) = (None, Some(error));
            return;
        }
        match op {
            'R' => page.recorded.reads += 1,
            _ => page.recorded.writes += 1,
        }
    }
}

impl DiskLayer for Recorder {
    fn below(&self) -> &dyn Disk {
        &*self.disk
    }

    fn pass_read(&self, at: Lba, buf: &mut [u8]) -> Result<(), DiskError> {
        self.note('R', at, buf.len());
        self.disk.read(at, buf)
    }

    fn pass_read_batch(&self, requests: &mut [ReadRequest<'_>]) -> Result<(), DiskError> {
        for request in &*requests {
            self.note('R', request.at, request.buf.len());
        }
        self.disk.read_batch(requests)
    }

    fn pass_write(&self, at: Lba, data: &[u8], persist: Persist) -> Result<(), DiskError> {
        self.note('W', at, data.len());
        self.disk.write(at, data, persist)
    }

    fn pass_discard(&self, range: BlockRange) -> Result<(), DiskError> {
        self.page().recorded.others += 1;
        self.disk.discard(range)
    }

    fn pass_write_zeroes(&self, range: BlockRange, persist: Persist) -> Result<(), DiskError> {
        self.page().recorded.others += 1;
        self.disk.write_zeroes(range, persist)
    }

    fn pass_zeroes_are_cheap(&self) -> bool {
        self.disk.zeroes_are_cheap()
    }

    fn pass_known(&self, range: BlockRange) -> (Known, Blocks) {
        self.disk.known(range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use imbrex_clockwork::{Order, Runtime};
    use imbrex_disk_sim::SimDisk;
    use imbrex_workload::trace::{TraceOp, TraceReader, TraceRequest};

    fn disk() -> Arc<dyn Disk> {
        Arc::new(SimDisk::tiny_conventional(Blocks::new(64)))
    }

    #[test]
    fn recorded_requests_are_read_back_as_a_trace() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["trace.csv", "trace.csv.zst"] {
            let path = dir.path().join(name);
            let clock = Runtime::virtual_time(Order::SmallestTime).0.clock;
            clock.advance_to_ns(5_000_000);
            let file = File::create_new(&path).unwrap();
            let recorder = Recorder::in_file(disk(), Arc::clone(&clock), file, &path).unwrap();
            recorder.write(Lba::new(3), &[7; 8192], Persist::Cached).unwrap();
            clock.advance_to_ns(7_001_500);
            let (mut one, mut two) = ([0; 4096], [0; 8192]);
            let requests = &mut [
                ReadRequest { at: Lba::new(4), buf: &mut one },
                ReadRequest { at: Lba::new(9), buf: &mut two },
            ];
            recorder.read_batch(requests).unwrap();
            assert_eq!(one, [7; 4096], "the disk does what it is asked");
            recorder.discard(BlockRange::new(Lba::new(0), Blocks::new(2))).unwrap();
            recorder.flush().unwrap();
            let recorded = recorder.finish().unwrap();
            assert_eq!(recorded, Recorded { reads: 2, writes: 1, others: 1 });
            let request = |at_us: u64, op, block: u64, len_bytes| TraceRequest {
                at_ns: at_us * 1000,
                op,
                offset_bytes: block * 4096,
                len_bytes,
            };
            let found: Result<Vec<_>, _> = TraceReader::open(&path, None).unwrap().collect();
            let expected = [
                request(0, TraceOp::Write, 3, 8192),
                request(2001, TraceOp::Read, 4, 4096),
                request(2001, TraceOp::Read, 9, 8192),
            ];
            assert_eq!(found.unwrap(), expected);
        }
    }

    #[test]
    fn a_full_file_ends_the_recording_and_not_the_disk() {
        let room = Box::new(io::Cursor::new(Box::new([0_u8; 9000]) as Box<[u8]>));
        let clock = Runtime::virtual_time(Order::SmallestTime).0.clock;
        let recorder = Recorder::to(disk(), clock, room, false).unwrap();
        for _ in 0..2000 {
            recorder.write(Lba::new(1), &[1; 4096], Persist::Cached).unwrap();
        }
        assert_eq!(recorder.finish().unwrap_err().kind(), io::ErrorKind::WriteZero);
    }
}
