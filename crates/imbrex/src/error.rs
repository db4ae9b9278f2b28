//! The one error of the front door.

use crate::emulated::ShapeError;
use crate::stack::{LayoutError, Occupied};
use imbrex_disk::DiskError;
use imbrex_disk_host::HostDiskError;
use imbrex_disk_sim::{BuildError, ImageError, ProfileError};
use imbrex_engine::EngineError;
use imbrex_files::FilesError;
use imbrex_files::tiers::FlashError;
use imbrex_filesystem::FsError;
use imbrex_objects::ObjectsError;
use imbrex_translate::{BandsError, DriverError, FormatFault};
use std::fmt;
use std::io::ErrorKind::{FileTooLarge, PermissionDenied, QuotaExceeded, StorageFull};
use std::path::Path;

/// Why a call failed: what was being done, where, what was found, and what to do.
///
/// [`Error::kind`] is for programs; the text is for people and may change. The failing layer's error is the
/// [source](std::error::Error::source), for a caller that depends on that layer's crate.
/// Its `Debug` form is its text and its kind, because that is what a `main` which returns it prints.
pub struct Error {
    kind: ErrorKind,
    message: String,
    source: Option<Source>,
}

type Source = Box<dyn std::error::Error + Send + Sync>;

/// What kind of failure an [`Error`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// There is no such file, device, keyspace or checkpoint.
    NotFound,
    /// A file, keyspace or checkpoint of that name exists already, or a drive to be formatted holds data.
    AlreadyExists,
    /// The path names a directory, a foreign file, or a drive that holds something other than a store.
    NotAStore,
    /// The drive holds another layout than the one asked for, or its flash drive is missing, another drive's, or not
    /// wanted.
    WrongLayout,
    /// Another process, or another handle of this one, has the drive open.
    InUse,
    /// The caller may not read the file or the device, or not write it. If it may be read, it can be opened for reading.
    NotPermitted,
    /// A newer version wrote the drive.
    NewerVersion,
    /// The machine's drive is of a kind that this program cannot use.
    Unsupported,
    /// An argument cannot be used: a layout that does not suit the drive, a bad option, a range that ends before it
    /// starts.
    InvalidArgument,
    /// A key, a value or a batch cannot be stored: an empty key, or more bytes than are allowed.
    InvalidEntry,
    /// The drive, or the host's file system below an image, is full.
    NoSpace,
    /// The store is open for reading only.
    ReadOnly,
    /// Data on the drive is damaged. Other data may still be read.
    Damaged,
    /// The store is closed.
    Closed,
    /// An earlier write failed, so what is durable is unknown. Close the store and open it again.
    Poisoned,
    /// The call was stopped by its watcher.
    Stopped,
    /// The drive or the operating system failed.
    Io,
}

impl Error {
    /// The kind of failure.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// A failure without a cause below.
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error { kind, message: message.into(), source: None }
    }

    /// A layer's failure at `path` while `doing` something, such as "open".
    pub(crate) fn at(
        doing: &str,
        path: &Path,
        source: impl std::error::Error + Send + Sync + 'static,
    ) -> Error {
        let shown = path.display().to_string();
        let text = error_text(&source);
        // Errors of images and devices begin with their path.
        let text = text.strip_prefix(&format!("{shown}: ")).unwrap_or(&text);
        let message = format!("cannot {doing} {shown}: {text}");
        Error { kind: ErrorKind::of(&source), message, source: Some(Box::new(source)) }
    }

    /// The same failure, with more to do about it.
    #[must_use]
    pub(crate) fn with_advice(mut self, advice: &str) -> Error {
        self.message = format!("{}; {advice}", self.message);
        self
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({:?})", self.message, self.kind)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

impl From<EngineError> for Error {
    fn from(source: EngineError) -> Error {
        let (kind, message) = (ErrorKind::of(&source), error_text(&source));
        Error { kind, message, source: Some(Box::new(source)) }
    }
}

impl From<ObjectsError> for Error {
    fn from(source: ObjectsError) -> Error {
        let (kind, message) = (ErrorKind::of(&source), error_text(&source));
        Error { kind, message, source: Some(Box::new(source)) }
    }
}

impl From<LayoutError> for Error {
    fn from(source: LayoutError) -> Error {
        let (kind, message) = (ErrorKind::of(&source), error_text(&source));
        Error { kind, message, source: Some(Box::new(source)) }
    }
}

impl From<ShapeError> for Error {
    fn from(source: ShapeError) -> Error {
        let message = error_text(&source);
        Error { kind: ErrorKind::InvalidArgument, message, source: Some(Box::new(source)) }
    }
}

/// The error and its causes, joined by colons; a cause that its parent quotes is not repeated.
pub fn error_text(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    for cause in causes(error).skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}

/// The error, its cause, the cause of that, and so on.
pub fn causes<'a>(
    error: &'a (dyn std::error::Error + 'static),
) -> impl Iterator<Item = &'a (dyn std::error::Error + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}

impl ErrorKind {
    /// The kind of any layer's error: the first of its causes that has one decides. [`ErrorKind::Io`] where none does.
    pub fn of(error: &(dyn std::error::Error + 'static)) -> ErrorKind {
        causes(error).find_map(of_cause).unwrap_or(ErrorKind::Io)
    }
}

/// The kind of this cause, not of one below it.
fn of_cause(cause: &(dyn std::error::Error + 'static)) -> Option<ErrorKind> {
    if let Some(error) = cause.downcast_ref::<Error>() {
        return Some(error.kind);
    }
    if let Some(error) = cause.downcast_ref::<EngineError>() {
        return of_engine(error);
    }
    if let Some(error) = cause.downcast_ref::<ObjectsError>() {
        return of_objects(error);
    }
    // A flash drive's error lies in a box within the pair's, and a box is a type of its own.
    let files = cause.downcast_ref::<FilesError>();
    if let Some(error) = files.or_else(|| cause.downcast_ref::<Box<FilesError>>().map(|e| &**e)) {
        return of_files(error);
    }
    if let Some(error) = cause.downcast_ref::<FsError>() {
        return of_file_system(error);
    }
    if let Some(error) = cause.downcast_ref::<ImageError>() {
        return of_image(error);
    }
    if let Some(error) = cause.downcast_ref::<HostDiskError>() {
        return Some(of_device(error));
    }
    if let Some(error) = cause.downcast_ref::<LayoutError>() {
        return of_layout(error);
    }
    if let Some(error) = cause.downcast_ref::<DiskError>() {
        return Some(match error.is_damage() {
            true => ErrorKind::Damaged,
            false if matches!(error, DiskError::ReadOnly) => ErrorKind::ReadOnly,
            false if is_host_full(cause) => ErrorKind::NoSpace,
            false => ErrorKind::Io,
        });
    }
    if let Some(error) = cause.downcast_ref::<BandsError>() {
        return of_bands(error);
    }
    if let Some(DriverError::Format(fault)) = cause.downcast_ref() {
        return of_format(fault);
    }
    if cause.is::<Occupied>() {
        return Some(ErrorKind::AlreadyExists);
    }
    let is_misfit = cause.is::<ShapeError>()
        || cause.is::<ProfileError>()
        || matches!(cause.downcast_ref(), Some(BuildError::TooManyZones { .. }));
    is_misfit.then_some(ErrorKind::InvalidArgument)
}

/// Whether the operating system had no room: below an image the host's file system is full, or a limit is reached.
fn is_host_full(error: &(dyn std::error::Error + 'static)) -> bool {
    let system = |cause: &(dyn std::error::Error + 'static)| {
        let error = cause.downcast_ref::<std::io::Error>()?;
        Some(matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge))
    };
    causes(error).find_map(system).unwrap_or(false)
}

fn of_bands(error: &BandsError) -> Option<ErrorKind> {
    match error {
        BandsError::TooSmall { .. } | BandsError::Option { .. } => Some(ErrorKind::InvalidArgument),
        BandsError::Format(fault) => of_format(fault),
        _ => None,
    }
}

fn of_format(fault: &FormatFault) -> Option<ErrorKind> {
    match fault {
        FormatFault::Version { .. } => Some(ErrorKind::NewerVersion),
        FormatFault::Geometry { .. } => Some(ErrorKind::WrongLayout),
        fault if fault.is_damage() => Some(ErrorKind::Damaged),
        _ => None,
    }
}

fn of_engine(error: &EngineError) -> Option<ErrorKind> {
    Some(match error {
        EngineError::KeyLen { .. }
        | EngineError::ValueLen { .. }
        | EngineError::BatchLen { .. } => ErrorKind::InvalidEntry,
        EngineError::RangeOrder { .. }
        | EngineError::BadOption { .. }
        | EngineError::BadName { .. }
        | EngineError::ForeignSnapshot => ErrorKind::InvalidArgument,
        EngineError::NoStore => ErrorKind::NotAStore,
        EngineError::NoKeyspace { .. } | EngineError::NoCheckpoint { .. } => ErrorKind::NotFound,
        EngineError::KeyspaceExists { .. }
        | EngineError::CheckpointExists { .. }
        | EngineError::BackupTarget { .. } => ErrorKind::AlreadyExists,
        EngineError::NoSpace { .. } => ErrorKind::NoSpace,
        EngineError::Poisoned { .. } | EngineError::Stalled { .. } => ErrorKind::Poisoned,
        EngineError::Closed => ErrorKind::Closed,
        EngineError::ReadOnly => ErrorKind::ReadOnly,
        EngineError::Stopped { .. } => ErrorKind::Stopped,
        EngineError::Version { .. } => ErrorKind::NewerVersion,
        EngineError::Corrupt { .. } | EngineError::SetAside { .. } => ErrorKind::Damaged,
        _ => return None,
    })
}

fn of_objects(error: &ObjectsError) -> Option<ErrorKind> {
    Some(match error {
        ObjectsError::NameLen { .. }
        | ObjectsError::MetadataLen { .. }
        | ObjectsError::DataLen { .. } => ErrorKind::InvalidEntry,
        ObjectsError::NotObjects { .. } | ObjectsError::ForeignUpload => ErrorKind::InvalidArgument,
        ObjectsError::NoObject { .. } => ErrorKind::NotFound,
        ObjectsError::Ended => ErrorKind::Closed,
        ObjectsError::Damaged { .. } | ObjectsError::DamagedHeader { .. } => ErrorKind::Damaged,
        ObjectsError::Engine(error) => return Some(ErrorKind::of(error)),
        _ => return None,
    })
}

fn of_files(error: &FilesError) -> Option<ErrorKind> {
    Some(match error {
        FilesError::NoSpace { .. } => ErrorKind::NoSpace,
        FilesError::NotFormatted { .. } => ErrorKind::NotAStore,
        FilesError::Version { .. } => ErrorKind::NewerVersion,
        FilesError::Corrupt { .. } | FilesError::PastEnd { .. } => ErrorKind::Damaged,
        FilesError::Unsuitable { .. } => ErrorKind::InvalidArgument,
        FilesError::Geometry { .. } => ErrorKind::WrongLayout,
        FilesError::Flash(error) => return of_flash(error),
        FilesError::Poisoned { .. } => ErrorKind::Poisoned,
        _ => return None,
    })
}

fn of_flash(error: &FlashError) -> Option<ErrorKind> {
    match error {
        FlashError::Unopened { .. } => None,
        FlashError::TooSmall { .. } => Some(ErrorKind::InvalidArgument),
        FlashError::ReadOnly => Some(ErrorKind::ReadOnly),
        _ => Some(ErrorKind::WrongLayout),
    }
}

fn of_file_system(error: &FsError) -> Option<ErrorKind> {
    Some(match error {
        FsError::NotFound { .. } => ErrorKind::NotFound,
        FsError::Exists { .. } => ErrorKind::AlreadyExists,
        FsError::NotADirectory { .. }
        | FsError::IsADirectory { .. }
        | FsError::NotEmpty { .. }
        | FsError::BadPath { .. }
        | FsError::TooLong { .. }
        | FsError::TooManyPieces { .. }
        | FsError::TooFar { .. }
        | FsError::WrittenTwice { .. } => ErrorKind::InvalidArgument,
        FsError::Locked { .. } => ErrorKind::InUse,
        FsError::Damaged { .. } | FsError::Corrupt { .. } => ErrorKind::Damaged,
        FsError::Foreign { .. } => ErrorKind::NotAStore,
        FsError::Version { .. } => ErrorKind::NewerVersion,
        FsError::Poisoned { .. } => ErrorKind::Poisoned,
        _ => return None,
    })
}

fn of_image(error: &ImageError) -> Option<ErrorKind> {
    Some(match error {
        ImageError::NotFound { .. } => ErrorKind::NotFound,
        ImageError::Exists { .. } => ErrorKind::AlreadyExists,
        ImageError::NotAFile { .. } | ImageError::NotAnImage { .. } => ErrorKind::NotAStore,
        ImageError::ReadOnly { .. } | ImageError::NotPermitted { .. } => ErrorKind::NotPermitted,
        ImageError::InUse { .. } => ErrorKind::InUse,
        ImageError::Version { .. } => ErrorKind::NewerVersion,
        ImageError::NoSpace { .. } => ErrorKind::NoSpace,
        ImageError::TooLong { .. } | ImageError::GeometryMismatch { .. } => {
            ErrorKind::InvalidArgument
        }
        ImageError::Host { source, .. } if source.kind() == PermissionDenied => {
            ErrorKind::NotPermitted
        }
        error if error.is_damage() => ErrorKind::Damaged,
        _ => return None,
    })
}

fn of_device(error: &HostDiskError) -> ErrorKind {
    match error {
        HostDiskError::NotFound { .. } => ErrorKind::NotFound,
        HostDiskError::NotADevice { .. } => ErrorKind::NotAStore,
        HostDiskError::InUse { .. } => ErrorKind::InUse,
        HostDiskError::NotPermitted { .. } | HostDiskError::ReadOnly { .. } => {
            ErrorKind::NotPermitted
        }
        HostDiskError::Unsupported { .. } | HostDiskError::Geometry { .. } => {
            ErrorKind::Unsupported
        }
        _ => ErrorKind::Io,
    }
}

fn of_layout(error: &LayoutError) -> Option<ErrorKind> {
    Some(match error {
        LayoutError::Unknown { .. }
        | LayoutError::Unsuitable { .. }
        | LayoutError::TooSmall { .. } => ErrorKind::InvalidArgument,
        LayoutError::Other { .. } => ErrorKind::WrongLayout,
        LayoutError::Foreign { .. } => ErrorKind::NewerVersion,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use imbrex_disk::{Lba, ZoneId};

    #[track_caller]
    fn check(error: &(dyn std::error::Error + 'static), kind: ErrorKind) {
        assert_eq!(ErrorKind::of(error), kind, "{error}");
    }

    fn corrupt() -> FilesError {
        let words = || "by design".to_owned();
        FilesError::Corrupt { structure: "catalog log", place: words(), reason: words() }
    }

    #[test]
    fn the_first_cause_that_says_so_decides_the_kind() {
        let medium = DiskError::Medium { at: Lba::new(7) };
        let reading = FilesError::Disk { what: "reading a".to_owned(), source: medium };
        let engine = EngineError::Files { what: "get".to_owned(), source: reading };
        check(&engine, ErrorKind::Damaged);
        let error = Error::from(engine);
        assert_eq!(error.kind(), ErrorKind::Damaged);
        assert_eq!(error.to_string().matches("reading a").count(), 1, "{error}");
        let source = DiskError::Offline { zone: ZoneId(3) };
        check(&FilesError::Disk { what: "reading a".to_owned(), source }, ErrorKind::Damaged);
        check(&FilesError::NotFound { name: "a".to_owned() }, ErrorKind::Io);
    }

    #[test]
    fn the_error_of_a_flash_drive_has_the_kind_of_its_cause() {
        let opening = |inner: FilesError| {
            let flash = FilesError::from(FlashError::Unopened { source: Box::new(inner) });
            LayoutError::Files { what: "opening the files", source: flash }
        };
        let blank = FilesError::NotFormatted { reason: "zeros".to_owned() };
        check(&opening(blank), ErrorKind::NotAStore);
        check(&opening(corrupt()), ErrorKind::Damaged);
        check(&FilesError::from(FlashError::NotPaired), ErrorKind::WrongLayout);
    }

    #[test]
    fn file_systems_bands_and_block_devices_have_kinds() {
        let words = || "by design".to_owned();
        check(&FsError::Corrupt { record: 1, reason: words() }, ErrorKind::Damaged);
        check(&FsError::Files { what: words(), source: corrupt() }, ErrorKind::Damaged);
        check(&FsError::Foreign { reason: words() }, ErrorKind::NotAStore);
        let damaged = || FormatFault::Damaged { structure: "superblock", detail: words() };
        let newer = || FormatFault::Version { layer: "fixed bands", expected: 1, got: 2 };
        check(&DriverError::from(damaged()), ErrorKind::Damaged);
        check(&BandsError::from(damaged()), ErrorKind::Damaged);
        check(&DriverError::from(newer()), ErrorKind::NewerVersion);
        check(&BandsError::from(newer()), ErrorKind::NewerVersion);
    }

    #[test]
    fn a_path_is_named_once() {
        let path = Path::new("d.imbrex");
        let error = Error::at("open", path, ImageError::NotFound { path: path.to_owned() });
        assert!(error.to_string().starts_with("cannot open d.imbrex: no such file"), "{error}");
        assert_eq!(error.kind(), ErrorKind::NotFound);
    }
}
