//! One queue of the kernel: takes requests and commits results.
//!
//! ```text
//!   io_uring --> arrived requests --> answered here --> results, with the next wait
//!      ^                `-- may wait --> a lane --> returned, and the bell rings
//!      +------------------------------------------------------+
//! ```
//!
//! Invariant
//!   U1  The buffer of a request is here, or with the lane that serves it; it comes back with the result.

use super::limits::IO_LEN_BYTES_MAX;
use super::request::Request;
use super::server::Shared;
use io_uring::{opcode, types};
use libublk::ctrl::UblkCtrl;
use libublk::helpers::IoBuf;
use libublk::io::{UblkDev, UblkIOCtx, UblkQueue};
use libublk::{BufDesc, BufDescList, UblkIORes, UblkUringData, sys};
use rustix::event::PollFlags;
use std::cell::RefCell;
use std::io::{self, ErrorKind, Read, Write};
use std::mem::ManuallyDrop;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};

use super::request::{flag, operation};
const _: () = assert!(operation::READ as u32 == sys::UBLK_IO_OP_READ);
const _: () = assert!(operation::WRITE as u32 == sys::UBLK_IO_OP_WRITE);
const _: () = assert!(operation::FLUSH as u32 == sys::UBLK_IO_OP_FLUSH);
const _: () = assert!(operation::DISCARD as u32 == sys::UBLK_IO_OP_DISCARD);
const _: () = assert!(operation::WRITE_ZEROES as u32 == sys::UBLK_IO_OP_WRITE_ZEROES);
const _: () = assert!(flag::FUA == sys::UBLK_IO_F_FUA);
const _: () = assert!(flag::NO_UNMAP == sys::UBLK_IO_F_NOUNMAP);

/// Serves queue `id` of `device` until the kernel ends it. It reports once whether it could start. By then its
/// buffers are submitted, so that the kernel can end the queue.
///
/// # Errors
/// The ring failed after the start.
pub(crate) fn serve(
    shared: &Arc<Shared>,
    device: &UblkDev,
    id: u16,
    begun: &Sender<Result<(), io::Error>>,
) -> io::Result<()> {
    // The thread must not wait for memory that only its own writes could free.
    UblkCtrl::init_queue_thread();
    let queue = Queue::begin(shared, device, id);
    let queue = queue.and_then(|queue| queue.turn(0).map(|_| queue));
    // The waiting thread may have given up.
    match queue {
        Ok(queue) => {
            let _ = begun.send(Ok(()));
            queue.run()
        }
        Err(error) => {
            let _ = begun.send(Err(error));
            Ok(())
        }
    }
}

struct Queue<'a> {
    shared: &'a Arc<Shared>,
    ublk: UblkQueue<'a>,
    /// The buffers by tag; a lane has the missing ones (U1). They are dropped only after the kernel has returned all.
    /// After an error the kernel may write to them while the ring exists, which ends later, with the thread.
    buffers: ManuallyDrop<RefCell<Vec<Option<IoBuf<u8>>>>>,
    returns: Arc<Returns>,
}

/// The results of lanes.
struct Returns {
    results: Mutex<Vec<Return>>,
    /// The two ends of the bell; a byte from one to the other rings it.
    bell: (UnixStream, UnixStream),
}

struct Return {
    tag: u16,
    buffer: IoBuf<u8>,
    result: i32,
}

impl Returns {
    fn new() -> io::Result<Returns> {
        let bell = UnixStream::pair()?;
        bell.0.set_nonblocking(true)?;
        bell.1.set_nonblocking(true)?;
        Ok(Returns { results: Mutex::default(), bell })
    }

    fn bring(&self, back: Return) {
        self.results.lock().unwrap_or_else(PoisonError::into_inner).push(back);
        // A full socket is ringing already.
        let _ = (&self.bell.0).write(&[1]);
    }

    fn take(&self) -> Vec<Return> {
        let mut bytes = [0; 64];
        // The bell is read before the results, so that a result in between rings again.
        while (&self.bell.1).read(&mut bytes).is_ok_and(|len| len == bytes.len()) {}
        std::mem::take(&mut *self.results.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<'a> Queue<'a> {
    /// Lends the kernel a buffer for each request, and waits for the bell.
    fn begin(shared: &'a Arc<Shared>, device: &'a UblkDev, id: u16) -> io::Result<Queue<'a>> {
        let returns = Arc::new(Returns::new()?);
        let ublk = UblkQueue::new(id, device).map_err(super::server::io_error)?;
        let buffers = ManuallyDrop::new(device.alloc_queue_io_bufs());
        let lent = BufDescList::Slices(Some(&buffers));
        let ublk = ublk.submit_fetch_commands_unified(lent).map_err(super::server::io_error)?;
        let buffers = ManuallyDrop::into_inner(buffers).into_iter().map(Some).collect();
        let buffers = ManuallyDrop::new(RefCell::new(buffers));
        let queue = Queue { shared, ublk, buffers, returns };
        queue.listen()?;
        Ok(queue)
    }

    fn listen(&self) -> io::Result<()> {
        let bell = types::Fd(self.returns.bell.1.as_raw_fd());
        let poll = opcode::PollAdd::new(bell, u32::from(PollFlags::IN.bits())).build();
        let poll = poll.user_data(UblkUringData::Target as u64);
        self.ublk.ublk_submit_sqe_sync(poll).map_err(super::server::io_error)
    }

    /// Serves until the kernel ends the queue.
    fn run(self) -> io::Result<()> {
        while self.turn(1)? {}
        drop(self.buffers.take());
        Ok(())
    }

    /// Submits what there is, waits until so much has come, and takes it; whether the queue goes on.
    fn turn(&self, wait_count: usize) -> io::Result<bool> {
        let handled = self.ublk.flush_and_wake_io_tasks(
            |user_data, completed, _| {
                let is_bell = user_data & UblkUringData::Target as u64 != 0;
                if is_bell {
                    self.collect();
                } else if completed.result() == sys::UBLK_IO_RES_OK as i32 {
                    self.take(UblkIOCtx::user_data_to_tag(user_data) as u16);
                }
            },
            wait_count,
        );
        match handled {
            Ok(_) => Ok(true),
            Err(libublk::UblkError::QueueIsDown) => Ok(false),
            Err(error) => match super::server::io_error(error) {
                // A debugger, Ctrl-Z, or a short lack of memory: the wait continues.
                error if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {
                    Ok(true)
                }
                error => Err(error),
            },
        }
    }

    /// Handles an arrived request.
    fn take(&self, tag: u16) {
        let described = self.ublk.get_iod(tag);
        let sector_count = described.nr_sectors;
        let request = Request::new(described.op_flags, described.start_sector, sector_count);
        let buffer = self.buffers.borrow_mut()[usize::from(tag)].take();
        let mut buffer = buffer.expect("U1: the kernel uses a tag again after its result");
        let shared = Arc::clone(self.shared);
        if request.may_wait(&*shared.target.device) {
            let returns = Arc::clone(&self.returns);
            let errand = move || {
                let result = shared.target.answer(&request, buffer.as_mut_slice());
                returns.bring(Return { tag, buffer, result });
            };
            return self.shared.lanes.push(&self.shared.crew, Box::new(errand));
        }
        let result = shared.target.answer(&request, buffer.as_mut_slice());
        self.commit(Return { tag, buffer, result });
    }

    /// Handles the bell.
    fn collect(&self) {
        for back in self.returns.take() {
            self.commit(back);
        }
        // If the ring accepts no more entries, the following wait ends the queue.
        let _ = self.listen();
    }

    /// Queues a result for the next wait, and keeps the buffer for the tag's next request.
    fn commit(&self, back: Return) {
        let Return { tag, buffer, result } = back;
        debug_assert_eq!(buffer.len(), IO_LEN_BYTES_MAX as usize);
        let lent = BufDesc::Slice(buffer.as_slice());
        let committed = self.ublk.complete_io_cmd_unified(tag, lent, Ok(UblkIORes::Result(result)));
        committed.expect("Q1: buffers are what this device's results come with");
        self.buffers.borrow_mut()[usize::from(tag)] = Some(buffer);
    }
}
