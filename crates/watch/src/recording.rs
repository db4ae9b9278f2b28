//! Recordings: frames in a file, one JSON line each.
//!
//! ```text
//!   load --record run.imbrex-watch --> head, frame, frame, ...      the writer appends whole lines
//!                                        ^
//!   watch, serve http ------------ read what is new                 while it grows, or years later
//! ```
//!
//! A line that its writer did not finish is not read; it may still grow. A line that is no frame is an error that
//! names the line, because nothing else than a recording's writer writes such a file.

use crate::frame::{FRAME_VERSION, Head, Line};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// A recording that cannot be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordingError {
    /// The host refused.
    #[error("cannot {what} the recording {}: {source}", path.display())]
    Host {
        /// What was tried.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The host's error.
        #[source]
        source: io::Error,
    },
    /// The file is something else.
    #[error(
        "{} is no recording: line {line}: {reason}; `imbrex load DRIVE FILE --record {}` makes one",
        path.display(), path.display()
    )]
    Foreign {
        /// The file.
        path: PathBuf,
        /// The number of the line, from 1.
        line: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// A newer program wrote it.
    #[error(
        "{} is a recording of version {version}, and this program reads up to {FRAME_VERSION}; use a newer imbrex",
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u32,
    },
}

/// Writes a recording. If nothing was written, its drop removes the file: the work that was to be recorded did not begin.
#[derive(Debug)]
pub struct RecordingWriter {
    file: File,
    path: PathBuf,
    is_empty: bool,
}

impl RecordingWriter {
    /// Creates the file; it must not exist.
    ///
    /// # Errors
    /// [`RecordingError::Host`].
    pub fn create(path: &Path) -> Result<RecordingWriter, RecordingError> {
        let file = File::options().write(true).create_new(true).open(path);
        let path = path.to_owned();
        match file {
            Ok(file) => Ok(RecordingWriter { file, path, is_empty: true }),
            Err(source) => Err(RecordingError::Host { what: "create", path, source }),
        }
    }

    /// Appends a line, in one write (W3). Survives the end of this process, but not a crash of the machine.
    ///
    /// # Errors
    /// [`RecordingError::Host`]; part of the line may be in the file.
    pub fn write(&mut self, line: &Line) -> Result<(), RecordingError> {
        self.is_empty = false;
        let bytes = (line.to_json() + "\n").into_bytes();
        self.file.write_all(&bytes).map_err(|source| RecordingError::Host {
            what: "write",
            path: self.path.clone(),
            source,
        })
    }
}

impl Drop for RecordingWriter {
    fn drop(&mut self) {
        if self.is_empty {
            // This writer created it.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl Line {
    /// The line as JSON, without its end.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a line has text keys and finite numbers")
    }
}

/// The most stores of a recording.
const STORE_COUNT_MAX: u32 = 64;

/// The longest drive, 4 PiB, and the most zones: a viewer keeps a record for each.
const LEN_BLOCKS_MAX: u64 = 1 << 40;
const ZONE_COUNT_MAX: u32 = 1 << 22;

/// Whether a drive can have the lengths of `head`.
fn is_possible(head: &Head) -> bool {
    let lengths = [
        head.len_blocks,
        head.zone_len_blocks,
        head.bottom_track_blocks,
        head.top_track_blocks,
        head.guard_blocks,
    ];
    lengths.iter().all(|len| *len <= LEN_BLOCKS_MAX) && head.zone_count <= ZONE_COUNT_MAX
}

/// Reads a recording, also one that still grows.
#[derive(Debug)]
pub struct Recording {
    file: File,
    path: PathBuf,
    line_count: u64,
    /// The start of a line whose end is not written yet.
    rest: Vec<u8>,
}

/// How much is read at a time.
const PIECE_LEN_BYTES: usize = 1 << 20;

/// A longer line is no frame: a drive of 100,000 zones and as many tables takes a tenth of this.
const LINE_LEN_BYTES_MAX: usize = 256 << 20;

impl Recording {
    /// Opens the recording; nothing is read yet.
    ///
    /// # Errors
    /// [`RecordingError::Host`].
    pub fn open(path: &Path) -> Result<Recording, RecordingError> {
        let path = path.to_owned();
        match File::open(&path) {
            Ok(file) => Ok(Recording { file, path, line_count: 0, rest: Vec::new() }),
            Err(source) => Err(RecordingError::Host { what: "open", path, source }),
        }
    }

    /// Hands the lines that are new since the last call to `take`, each with its text.
    ///
    /// # Errors
    /// [`RecordingError`]. The lines before the error were handed over.
    pub fn read_new(&mut self, take: &mut dyn FnMut(Line, &str)) -> Result<(), RecordingError> {
        let mut piece = vec![0; PIECE_LEN_BYTES];
        loop {
            let len = self.file.read(&mut piece).map_err(|source| RecordingError::Host {
                what: "read",
                path: self.path.clone(),
                source,
            })?;
            if len == 0 {
                return Ok(());
            }
            self.rest.extend_from_slice(&piece[..len]);
            self.take_lines(take)?;
            if self.rest.len() > LINE_LEN_BYTES_MAX {
                return Err(self.foreign("it does not end".to_owned()));
            }
        }
    }

    fn take_lines(&mut self, take: &mut dyn FnMut(Line, &str)) -> Result<(), RecordingError> {
        let rest = std::mem::take(&mut self.rest);
        let mut at = 0;
        while let Some(len) = rest[at..].iter().position(|byte| *byte == b'\n') {
            let (line, text) = self.parse(&rest[at..at + len])?;
            take(line, &text);
            self.line_count += 1;
            at += len + 1;
        }
        self.rest = rest[at..].to_vec();
        Ok(())
    }

    fn parse(&self, bytes: &[u8]) -> Result<(Line, String), RecordingError> {
        let text = std::str::from_utf8(bytes).map_err(|error| self.foreign(error.to_string()))?;
        let line: Line =
            serde_json::from_str(text).map_err(|error| self.foreign(error.to_string()))?;
        match &line {
            Line::Head(head) if head.version > FRAME_VERSION => {
                Err(RecordingError::Newer { path: self.path.clone(), version: head.version })
            }
            Line::Head(head) if !is_possible(head) => {
                Err(self.foreign("no drive has these lengths".to_owned()))
            }
            Line::Head(head) if head.id >= STORE_COUNT_MAX => {
                Err(self.foreign(format!("it has more than {STORE_COUNT_MAX} stores")))
            }
            Line::Frame(_) if self.line_count == 0 => {
                Err(self.foreign("it begins without a head".to_owned()))
            }
            _ => Ok((line, text.to_owned())),
        }
    }

    fn foreign(&self, reason: String) -> RecordingError {
        RecordingError::Foreign { path: self.path.clone(), line: self.line_count + 1, reason }
    }
}
