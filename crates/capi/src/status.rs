//! Status codes, the last error of a thread, and the guard around every call (A1).

use crate::open::Workers;
use imbrex_disk::DiskError;
use imbrex_disk_host::HostDiskError;
use imbrex_disk_sim::ImageError;
use imbrex_files::FilesError;
use imbrex_filesystem::FsError;
use imbrex_translate::BandsError;
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
    pub(crate) fn of(status: Status, what: &str, error: &dyn Error) -> Failure {
        let mut message = format!("{what}{error}");
        let mut next = error.source();
        while let Some(cause) = next {
            let cause_text = cause.to_string();
            if !message.ends_with(&cause_text) {
                message.push_str(": ");
                message.push_str(&cause_text);
            }
            next = cause.source();
        }
        Failure { status, message }
    }

    /// A failed opening. The first cause that implies a status decides; without one it is `otherwise`.
    pub(crate) fn of_opening(
        otherwise: Status,
        what: &str,
        error: &(dyn Error + 'static),
    ) -> Failure {
        let mut causes = std::iter::successors(Some(error), |&error| error.source());
        let status = causes.find_map(told_by).unwrap_or(otherwise);
        Failure::of(status, what, error)
    }
}

/// The status that this cause itself implies, regardless of the causes below it.
fn told_by(cause: &(dyn Error + 'static)) -> Option<Status> {
    let files = cause.downcast_ref::<FilesError>();
    // The error of a flash drive is boxed inside the pair's error, and downcasts as a box.
    let files = files.or_else(|| cause.downcast_ref::<Box<FilesError>>().map(|boxed| &**boxed));
    match files {
        Some(FilesError::Corrupt { .. } | FilesError::PastEnd { .. }) => {
            return Some(Status::Corrupt);
        }
        Some(FilesError::NoSpace { .. }) => return Some(Status::NoSpace),
        Some(FilesError::Poisoned { .. }) => return Some(Status::Poisoned),
        _ => {}
    }
    if cause.downcast_ref().is_some_and(BandsError::is_damage) {
        return Some(Status::Corrupt);
    }
    if let Some(error) = cause.downcast_ref::<DiskError>() {
        let is_damage = matches!(error, DiskError::Medium { .. } | DiskError::Destroyed { .. });
        return Some(if is_damage { Status::Corrupt } else { Status::Io });
    }
    if let Some(error) = cause.downcast_ref::<HostDiskError>() {
        return match error {
            HostDiskError::InUse { .. } => Some(Status::Busy),
            HostDiskError::NotFound { .. } => Some(Status::NotFound),
            HostDiskError::Unsupported { .. } | HostDiskError::Geometry { .. } => {
                Some(Status::Unsupported)
            }
            _ => Some(Status::Io),
        };
    }
    match cause.downcast_ref::<ImageError>()? {
        ImageError::InUse { .. } => Some(Status::Busy),
        ImageError::NotFound { .. } => Some(Status::NotFound),
        error if error.is_damage() => Some(Status::Corrupt),
        ImageError::ReadOnly { .. }
        | ImageError::NotPermitted { .. }
        | ImageError::NoSpace { .. }
        | ImageError::Host { .. } => Some(Status::Io),
        _ => None,
    }
}

impl From<FsError> for Failure {
    fn from(error: FsError) -> Failure {
        Failure::of(Status::of(&error), "", &error)
    }
}

impl Status {
    /// The status of a call that failed with `error` in the file system.
    pub(crate) fn of(error: &FsError) -> Status {
        match error {
            FsError::NotFound { .. } => Status::NotFound,
            FsError::Exists { .. } => Status::Exists,
            FsError::NotADirectory { .. } => Status::NotADirectory,
            FsError::IsADirectory { .. } => Status::IsADirectory,
            FsError::NotEmpty { .. } => Status::NotEmpty,
            FsError::BadPath { .. }
            | FsError::TooLong { .. }
            | FsError::TooManyPieces { .. }
            | FsError::TooFar { .. }
            | FsError::WrittenTwice { .. } => Status::Invalid,
            FsError::Locked { .. } => Status::Locked,
            FsError::Damaged { .. }
            | FsError::Corrupt { .. }
            | FsError::Files { source: FilesError::Corrupt { .. }, .. } => Status::Corrupt,
            FsError::Foreign { .. } | FsError::Version { .. } => Status::Unsupported,
            FsError::Poisoned { .. }
            | FsError::Files { source: FilesError::Poisoned { .. }, .. } => Status::Poisoned,
            _ if error.is_no_space() => Status::NoSpace,
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
