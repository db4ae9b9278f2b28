//! The failure of a command: one line on standard error, and an exit code.

use imbrex::stack::LayoutError;
use imbrex_disk::DiskError;
use imbrex_disk_sim::{ImageError, ProfileError};
use imbrex_engine::EngineError;
use imbrex_files::FilesError;
use imbrex_filesystem::FsError;
use imbrex_translate::{BandsError, DriverError};
use std::error::Error;
use std::fmt;

/// Exit codes; part of the command's contract, listed in `imbrex --help` and the manual.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// The reader of standard output has gone. That is not an error of this command, which ends as usual.
    ReaderGone = 0,
    /// The key does not exist.
    NotFound = 1,
    /// The command line is wrong; clap uses the same code.
    Usage = 2,
    /// The input is malformed, such as a JSON line, a CSV header or a key that is too long.
    BadData = 3,
    /// The drive, the store or the system refused or failed.
    Store = 4,
    /// Something on the drive is damaged.
    Corrupt = 5,
    /// Stopped by Ctrl-C or a termination signal; the store was closed cleanly.
    Interrupted = 130,
}

/// The text for `--help`.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0    done
  1    the key was not found
  2    the command line is wrong
  3    the input data are malformed
  4    the drive, the store or the system refused or failed
  5    something on the drive is damaged
  130  interrupted; the store was closed cleanly
  137  killed by a second interruption; the store was not closed, which is safe like a power cut";

/// Why a command ended early.
#[derive(Debug)]
pub(crate) struct CliError {
    exit: Exit,
    message: String,
}

impl CliError {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> CliError {
        CliError { exit, message: message.into() }
    }

    pub(crate) fn usage(message: impl Into<String>) -> CliError {
        CliError::new(Exit::Usage, message)
    }

    pub(crate) fn data(message: impl Into<String>) -> CliError {
        CliError::new(Exit::BadData, message)
    }

    /// Only [`crate::output`] makes this error.
    pub(crate) fn reader_gone() -> CliError {
        CliError::new(Exit::ReaderGone, "the reader of standard output has gone")
    }

    pub(crate) fn interrupted() -> CliError {
        CliError::new(Exit::Interrupted, "interrupted; the store was closed cleanly")
    }

    /// A failure of a layer below, with all its causes; the exit code follows from its kind.
    pub(crate) fn of(what: impl fmt::Display, error: &(dyn Error + 'static)) -> CliError {
        match exit_of(error) {
            Exit::Interrupted => CliError::interrupted(),
            exit => CliError::new(exit, format!("{what}: {}", chain(error))),
        }
    }

    /// The first error among several outcomes; [`Exit::ReaderGone`] counts only without another error.
    pub(crate) fn first<const N: usize>(
        outcomes: [Result<(), CliError>; N],
    ) -> Result<(), CliError> {
        let mut errors: Vec<_> = outcomes.into_iter().filter_map(Result::err).collect();
        errors.sort_by_key(|error| error.exit == Exit::ReaderGone);
        errors.into_iter().next().map_or(Ok(()), Err)
    }

    pub(crate) fn exit(&self) -> Exit {
        self.exit
    }

    /// The same error, with advice.
    pub(crate) fn with_hint(self, hint: impl fmt::Display) -> CliError {
        CliError::new(self.exit, format!("{self}; {hint}"))
    }

    /// The same error, with advice if it reports damage.
    pub(crate) fn with_damage_hint(self, hint: impl FnOnce() -> String) -> CliError {
        if self.exit == Exit::Corrupt { self.with_hint(hint()) } else { self }
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A file name or a foreign error may contain line breaks; the message is one line all the same.
        f.write_str(&self.message.replace(['\n', '\r'], " "))
    }
}

/// Adds to an error what the command was doing.
pub(crate) trait Context<T> {
    /// Wraps an error as `what: error: its cause: ...`.
    fn context<W: fmt::Display>(self, what: impl FnOnce() -> W) -> Result<T, CliError>;
}

impl<T, E: Error + 'static> Context<T> for Result<T, E> {
    fn context<W: fmt::Display>(self, what: impl FnOnce() -> W) -> Result<T, CliError> {
        self.map_err(|error| CliError::of(what(), &error))
    }
}

/// The error, its cause, the cause of that, and so on.
pub(crate) fn causes<'a>(
    error: &'a (dyn Error + 'static),
) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}

/// The error and its causes, joined by colons; a cause that its parent quotes is not repeated.
fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    for cause in causes(error).skip(1).map(ToString::to_string) {
        if !text.ends_with(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}

fn exit_of(error: &(dyn Error + 'static)) -> Exit {
    for cause in causes(error) {
        if is_damage(cause) {
            return Exit::Corrupt;
        }
        if let Some(LayoutError::Unknown { .. } | LayoutError::Unsuitable { .. }) =
            cause.downcast_ref::<LayoutError>()
        {
            return Exit::Usage;
        }
        if let Some(ProfileError::Unknown { .. }) = cause.downcast_ref::<ProfileError>() {
            return Exit::Usage;
        }
        match cause.downcast_ref::<EngineError>() {
            Some(EngineError::KeyLen { .. } | EngineError::ValueLen { .. }) => {
                return Exit::BadData;
            }
            Some(EngineError::RangeOrder { .. } | EngineError::BadOption { .. }) => {
                return Exit::Usage;
            }
            Some(EngineError::Stopped { .. }) => return Exit::Interrupted,
            _ => {}
        }
    }
    Exit::Store
}

/// Whether this cause itself, not one below it, reports damage on a drive.
fn is_damage(cause: &(dyn Error + 'static)) -> bool {
    let files = cause.downcast_ref::<FilesError>();
    // The error of a flash drive is boxed inside the pair's error, and downcasts as a box.
    let files = files.or_else(|| cause.downcast_ref::<Box<FilesError>>().map(|boxed| &**boxed));
    matches!(files, Some(FilesError::Corrupt { .. } | FilesError::PastEnd { .. }))
        || cause.downcast_ref().is_some_and(DiskError::is_damage)
        || matches!(cause.downcast_ref::<EngineError>(), Some(EngineError::Corrupt { .. }))
        || matches!(
            cause.downcast_ref::<FsError>(),
            Some(FsError::Corrupt { .. } | FsError::Damaged { .. })
        )
        || cause.downcast_ref().is_some_and(BandsError::is_damage)
        || cause.downcast_ref().is_some_and(DriverError::is_damage)
        || cause.downcast_ref().is_some_and(ImageError::is_damage)
}

#[cfg(test)]
mod tests {
    use super::*;
    use imbrex_files::tiers::FlashError;
    use imbrex_translate::FormatFault;

    #[derive(Debug)]
    struct Layer(&'static str, Option<Box<Layer>>);
    impl fmt::Display for Layer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }
    impl Error for Layer {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            self.1.as_ref().map(|layer| layer.as_ref() as _)
        }
    }

    #[test]
    fn causes_are_joined_once_each_and_stay_on_one_line() {
        let cause = Layer("no\nluck", None);
        let error =
            Layer("cannot read", Some(Box::new(Layer("disk: no\nluck", Some(Box::new(cause))))));
        let shown = CliError::of("opening x", &error).to_string();
        assert_eq!(shown, "opening x: cannot read: disk: no luck");
    }

    #[test]
    fn damage_below_decides_the_exit_code() {
        let at = imbrex_disk::Lba::new(7);
        let source = DiskError::Medium { at };
        let error = FilesError::Disk { what: "reading a".to_owned(), source };
        assert_eq!(CliError::of("get", &error).exit(), Exit::Corrupt);
        let source = DiskError::Offline { zone: imbrex_disk::ZoneId(3) };
        let error = FilesError::Disk { what: "reading a".to_owned(), source };
        assert_eq!(CliError::of("get", &error).exit(), Exit::Corrupt);
        let error = FilesError::NotFound { name: "a".to_owned() };
        assert_eq!(CliError::of("get", &error).exit(), Exit::Store);

        let reason = || "by design".to_owned();
        let corrupt =
            || FilesError::Corrupt { structure: "catalog log", place: reason(), reason: reason() };
        let flash = FilesError::from(FlashError::Unopened { source: Box::new(corrupt()) });
        let flash = LayoutError::Files { what: "opening the files", source: flash };
        let driver =
            DriverError::from(FormatFault::Damaged { structure: "superblock", detail: reason() });
        let tree = FsError::Corrupt { record: 1, reason: reason() };
        let log = FsError::Damaged { path: "/wal".to_owned(), offset: 7, reason: reason() };
        let below = FsError::Files { what: reason(), source: corrupt() };
        let errors: [&(dyn Error + 'static); 5] = [&flash, &driver, &tree, &log, &below];
        for error in errors {
            assert_eq!(CliError::of("open", error).exit(), Exit::Corrupt, "{error}");
        }
        let source = Box::new(FilesError::NotFound { name: "a".to_owned() });
        let flash = FilesError::from(FlashError::Unopened { source });
        assert_eq!(CliError::of("open", &flash).exit(), Exit::Store);
    }
}
