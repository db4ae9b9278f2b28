//! Status codes, the last error of a thread, and the guard around every call (A1).

use crate::open::Workers;
use imbrex::ErrorKind;
use imbrex::stack::error_text;
use imbrex_engine::EngineError;
use imbrex_filesystem::FsError;
use std::any::Any;
use std::cell::RefCell;
use std::error::Error;
use std::ffi::{CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

/// The result of a call. The numbers never change.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Success.
    Ok = 0,
    /// The file, directory, keyspace or key does not exist.
    NotFound = 1,
    /// The name exists already.
    Exists = 2,
    /// The path names a file, and a directory is needed.
    NotADirectory = 3,
    /// The path names a directory, and a file is needed.
    IsADirectory = 4,
    /// The directory is not empty.
    NotEmpty = 5,
    /// An invalid argument, such as NULL, text that is not UTF-8, an unknown kind, or a key that is too
    /// long.
    Invalid = 6,
    /// The lock is held already.
    Locked = 7,
    /// Another process has the drive open; imbrex_last_error() names it.
    Busy = 8,
    /// The drive is full; the call had no effect.
    NoSpace = 9,
    /// Something on the drive is damaged.
    Corrupt = 10,
    /// The drive failed.
    Io = 11,
    /// The drive holds other content or another layout, or a newer program wrote it.
    Unsupported = 12,
    /// After an earlier failure it is unknown what is durable; close the drive and open it again.
    Poisoned = 13,
    /// A bug in this library; the drive refuses writes from now on.
    Bug = 14,
    /// The store is open for reading only; the call had no effect.
    ReadOnly = 15,
}

/// A status and its message.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) status: Status,
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn new(status: Status, message: impl Into<String>) -> Failure {
        Failure { status, message: message.into() }
    }

    /// A failure of a layer below, with all its causes.
    pub(crate) fn of(error: &(dyn Error + 'static)) -> Failure {
        Failure::new(Status::of(error), error_text(error))
    }
}

impl From<imbrex::Error> for Failure {
    fn from(error: imbrex::Error) -> Failure {
        Failure::of(&error)
    }
}

impl From<FsError> for Failure {
    fn from(error: FsError) -> Failure {
        Failure::of(&error)
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Failure {
        Failure::of(&error)
    }
}

impl Status {
    /// The status of a call that failed with `error`. Four refusals of the file system have statuses of their own; all
    /// other errors have the status of their kind.
    fn of(error: &(dyn Error + 'static)) -> Status {
        match error.downcast_ref() {
            Some(FsError::NotADirectory { .. }) => Status::NotADirectory,
            Some(FsError::IsADirectory { .. }) => Status::IsADirectory,
            Some(FsError::NotEmpty { .. }) => Status::NotEmpty,
            Some(FsError::Locked { .. }) => Status::Locked,
            _ => Status::of_kind(ErrorKind::of(error)),
        }
    }

    /// The status for a kind of failure. [`ErrorKind::of`] decides the kind.
    fn of_kind(kind: ErrorKind) -> Status {
        match kind {
            ErrorKind::NotFound => Status::NotFound,
            ErrorKind::AlreadyExists => Status::Exists,
            ErrorKind::InUse => Status::Busy,
            ErrorKind::InvalidArgument | ErrorKind::InvalidEntry => Status::Invalid,
            ErrorKind::NoSpace => Status::NoSpace,
            ErrorKind::Damaged => Status::Corrupt,
            ErrorKind::NotAStore
            | ErrorKind::WrongLayout
            | ErrorKind::NewerVersion
            | ErrorKind::Unsupported => Status::Unsupported,
            ErrorKind::ReadOnly => Status::ReadOnly,
            ErrorKind::Closed | ErrorKind::Poisoned => Status::Poisoned,
            _ => Status::Io,
        }
    }
}

/// Refuses writes after a panic (A3).
#[derive(Debug, Default)]
pub(crate) struct Fuse {
    is_blown: AtomicBool,
}

impl Fuse {
    /// Runs a call that may write, unless an earlier call or one of `workers` has panicked. The first call
    /// that finds or causes a panic runs `end`, which stops the background writers.
    pub(crate) fn guard<T>(
        &self,
        workers: &Workers,
        end: impl FnOnce(),
        call: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        if workers.have_panicked() || self.is_blown.load(Ordering::Acquire) {
            self.blow(end);
            let message = "refused: a bug stopped an earlier call or background work; close the drive and open it \
                           again";
            return Err(Failure::new(Status::Bug, message));
        }
        catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| {
            self.blow(end);
            resume_unwind(panic)
        })
    }

    fn blow(&self, end: impl FnOnce()) {
        if !self.is_blown.swap(true, Ordering::AcqRel) {
            end();
        }
    }
}

thread_local! {
    static LAST_ERROR: RefCell<CString> = RefCell::default();
}

/// The last error of a thread whose thread-local storage is gone, such as one that runs `atexit` handlers.
/// Few calls are made so late, and their messages are never freed, because a caller may still read them.
static LAST_WORDS: AtomicPtr<c_char> = AtomicPtr::new(std::ptr::null_mut());

/// Runs `call`, lets no panic out (A1), and keeps the message of a failure for [`imbrex_last_error`].
pub(crate) fn guard(call: impl FnOnce() -> Result<(), Failure>) -> Status {
    // A3 refuses writes to whatever the panic left half done.
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(())) => Status::Ok,
        Ok(Err(failure)) => remember(failure),
        Err(panic) => {
            let what = panic_text(&*panic);
            remember(Failure::new(Status::Bug, format!("a bug in imbrex: {what}")))
        }
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("a panic without a message")
}

fn remember(failure: Failure) -> Status {
    let message = failure.message.replace('\0', "\\0");
    let message = CString::new(message).expect("NULs are replaced a line before");
    let mut message = Some(message);
    let kept = LAST_ERROR.try_with(|last| *last.borrow_mut() = message.take().unwrap_or_default());
    if let (Err(_), Some(message)) = (kept, message) {
        LAST_WORDS.store(message.into_raw(), Ordering::Release);
    }
    failure.status
}

/// Returns the message of the calling thread's last failed call; empty if no call has failed.
///
/// The text is valid until the thread's next failed call.
#[unsafe(no_mangle)]
pub extern "C" fn imbrex_last_error() -> *const c_char {
    LAST_ERROR.try_with(|last| last.borrow().as_ptr()).unwrap_or_else(|_| {
        let words = LAST_WORDS.load(Ordering::Acquire);
        if words.is_null() { c"".as_ptr() } else { words }
    })
}

/// Returns the version of this library, such as "0.1.0".
#[unsafe(no_mangle)]
pub extern "C" fn imbrex_version() -> *const c_char {
    const VERSION: &[u8] = concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes();
    VERSION.as_ptr().cast()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    #[test]
    fn a_panic_becomes_a_status_with_its_text() {
        let status = guard(|| panic!("out of {}", "cheese"));
        assert_eq!(status, Status::Bug);
        // SAFETY: the text is this thread's and no call has failed since.
        let text = unsafe { CStr::from_ptr(imbrex_last_error()) };
        assert_eq!(text.to_str().unwrap(), "a bug in imbrex: out of cheese");
        assert_eq!(guard(|| Err(Failure::new(Status::Io, "nul \0 in it"))), Status::Io);
        // SAFETY: as above.
        let text = unsafe { CStr::from_ptr(imbrex_last_error()) };
        assert_eq!(text.to_str().unwrap(), "nul \\0 in it");
    }
}
