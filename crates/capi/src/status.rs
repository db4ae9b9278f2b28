//! Status codes, the thread's last error, and the guard around every call (A1).

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

/// What became of a call. The numbers never change.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Done.
    Ok = 0,
    /// No such file or directory, no such keyspace, or a key without a value.
    NotFound = 1,
    /// The name is taken.
    Exists = 2,
    /// A file where a directory is needed.
    NotADirectory = 3,
    /// A directory where a file is needed.
    IsADirectory = 4,
    /// The directory holds something.
    NotEmpty = 5,
    /// An argument that cannot be: NULL, no UTF-8, no path, no kind, a key that is too long.
    Invalid = 6,
    /// The lock is held.
    Locked = 7,
    /// Another process has the drive open.
    Busy = 8,
    /// The drive is full; what was asked for has not happened.
    NoSpace = 9,
    /// Something on the drive is damaged.
    Corrupt = 10,
    /// The drive failed.
    Io = 11,
    /// The drive holds something else, another layout, or was written by a newer program.
    Unsupported = 12,
    /// An earlier failure left unknown what is durable; close the drive and open it again.
    Poisoned = 13,
    /// A bug in this library; the drive takes no more writes.
    Bug = 14,
}

/// A status and its story.
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

    /// An opening that failed. Its status is what the first cause says that tells; where none does, `otherwise`.
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

/// What a drive is said to be by this cause, not one below it.
fn told_by(cause: &(dyn Error + 'static)) -> Option<Status> {
    let files = cause.downcast_ref::<FilesError>();
    // A flash drive's error lies in a box within the pair's, and a box is a type of its own.
    let files = files.or_else(|| cause.downcast_ref::<Box<FilesError>>().map(|boxed| &**boxed));
    match files {
        Some(FilesError::Corrupt { .. } | FilesError::PastEnd { .. }) => {
            return Some(Status::Corrupt);
        }
        Some(FilesError::NoSpace { .. }) => return Some(Status::NoSpace),
        Some(FilesError::Poisoned { .. }) => return Some(Status::Poisoned),
        _ => {}
    }
    if let Some(BandsError::Damaged { .. }) = cause.downcast_ref() {
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
    /// What became of a call that the file system ended with `error`.
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

/// Keeps writes away from what a panic went through (A3).
#[derive(Debug, Default)]
pub(crate) struct Fuse {
    is_blown: AtomicBool,
}

impl Fuse {
    /// Runs a call that may write, unless something is broken already, be it by one of `workers`. The first to find it
    /// so, or to break it, runs `end`, which ends what writes of its own accord.
    pub(crate) fn guard<T>(
        &self,
        workers: &Workers,
        end: impl FnOnce(),
        call: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        if workers.have_panicked() || self.is_blown.load(Ordering::Acquire) {
            self.blow(end);
            let message = "refused: an earlier call, or work in the background, met a bug; close the drive and open \
                           it again";
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

/// The same for a thread that is ending and has no memory of its own any more, as the one that runs what
/// was given to `atexit`. Few calls are made so late; their texts are never freed, as somebody may read.
static LAST_WORDS: AtomicPtr<c_char> = AtomicPtr::new(std::ptr::null_mut());

/// Runs `call` so that no panic leaves it (A1); keeps what went wrong for [`imbrex_last_error`].
pub(crate) fn guard(call: impl FnOnce() -> Result<(), Failure>) -> Status {
    // What a panic leaves half done below is locked out by A3.
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
        .unwrap_or("a panic without words")
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

/// Why the calling thread's last failed call failed, in words; empty if none has.
///
/// The text is good until the thread's next failed call.
#[unsafe(no_mangle)]
pub extern "C" fn imbrex_last_error() -> *const c_char {
    LAST_ERROR.try_with(|last| last.borrow().as_ptr()).unwrap_or_else(|_| {
        let words = LAST_WORDS.load(Ordering::Acquire);
        if words.is_null() { c"".as_ptr() } else { words }
    })
}

/// The version of this library, such as "0.1.0".
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
