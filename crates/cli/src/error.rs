//! The failure of a command: one line on standard error, and an exit code.

use imbrex::ErrorKind;
use imbrex::stack::error_text;
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

impl Exit {
    /// The exit code for a kind of failure. [`ErrorKind::of`] decides the kind.
    fn of(kind: ErrorKind) -> Exit {
        match kind {
            ErrorKind::InvalidArgument => Exit::Usage,
            ErrorKind::InvalidEntry => Exit::BadData,
            ErrorKind::Damaged => Exit::Corrupt,
            ErrorKind::Stopped => Exit::Interrupted,
            _ => Exit::Store,
        }
    }
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
        match Exit::of(ErrorKind::of(error)) {
            Exit::Interrupted => CliError::interrupted(),
            exit => CliError::new(exit, format!("{what}: {}", error_text(error))),
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

    /// The same error, of one of several things.
    pub(crate) fn about(self, what: impl fmt::Display) -> CliError {
        CliError::new(self.exit, format!("{what}: {self}"))
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

impl From<imbrex::Error> for CliError {
    fn from(error: imbrex::Error) -> CliError {
        match Exit::of(error.kind()) {
            Exit::Interrupted => CliError::interrupted(),
            exit => CliError::new(exit, error.to_string()),
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use imbrex_disk::{DiskError, Lba};
    use imbrex_engine::EngineError;
    use imbrex_files::FilesError;

    #[test]
    fn the_exit_code_follows_from_the_kind_of_the_first_cause_that_has_one() {
        let medium = DiskError::Medium { at: Lba::new(7) };
        let reading = FilesError::Disk { what: "reading a".to_owned(), source: medium };
        let key = EngineError::KeyLen { got_bytes: 0, max_bytes: 1 };
        let option = EngineError::BadOption { option: "x", rule: "y" };
        let stopped = EngineError::Stopped { what: "check" };
        let missing = FilesError::NotFound { name: "a".to_owned() };
        let errors: [(&(dyn Error + 'static), Exit); 5] = [
            (&reading, Exit::Corrupt),
            (&key, Exit::BadData),
            (&option, Exit::Usage),
            (&stopped, Exit::Interrupted),
            (&missing, Exit::Store),
        ];
        for (error, exit) in errors {
            assert_eq!(CliError::of("get", error).exit(), exit, "{error}");
        }
    }

    #[test]
    fn a_message_stays_on_one_line() {
        let error = FilesError::NotFound { name: "a".to_owned() };
        let shown = CliError::of("opening\nx", &error).to_string();
        assert_eq!(shown, "opening x: no file named \"a\"");
    }
}
