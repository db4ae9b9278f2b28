//! The user of a drive that another program cannot open, in words for an error message.
//!
//! Each kind of drive finds its user elsewhere: an image by the kernel's list of locks, a device by mounts, by the
//! devices above it and by open descriptors. The words are the same, and they are here.
//!
//! The answer may be out of date when it is read. It is for people: no decision depends on it.
//!
//! Not here: how the user is found (`disk-sim` for images, `disk-host` for devices). This crate does no I/O (D1).

use std::borrow::Cow;
use std::fmt;
use std::path::Path;

/// The user of a drive. Its text completes a sentence that begins with "is in use by".
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Holder {
    /// This process, by another handle.
    ThisProcess,
    /// Another process.
    Process {
        /// Its id.
        pid: u32,
        /// Its program and subcommand, such as `imbrex serve`, if the system shows them.
        command: Option<String>,
    },
    /// A file system, mounted there.
    Mount(String),
    /// A device of that name, made of this one.
    Device(String),
    /// The kernel, which swaps to it.
    Swap,
    /// Anything else, in words: the system does not show which process.
    Unknown(&'static str),
}

impl Holder {
    /// The process `pid`. `command_line` is what `/proc/PID/cmdline` holds: words that end with a NUL; empty if it
    /// cannot be read.
    pub fn process(pid: u32, command_line: &[u8]) -> Holder {
        if pid == std::process::id() {
            return Holder::ThisProcess;
        }
        Holder::Process { pid, command: command(command_line) }
    }
}

/// The program and its subcommand.
fn command(line: &[u8]) -> Option<String> {
    let mut words = line.split(|&byte| byte == 0).map(String::from_utf8_lossy);
    let program = words.next().filter(|program| !program.is_empty())?;
    let name = Path::new(&*program).file_name()?.to_string_lossy().escape_debug().to_string();
    let is_word =
        |word: &Cow<'_, str>| !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase());
    Some(match words.next().filter(is_word) {
        Some(subcommand) => format!("{name} {subcommand}"),
        None => name,
    })
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Holder::ThisProcess => f.write_str("this process"),
            Holder::Process { pid, command: Some(command) } => {
                write!(f, "process {pid} ({command})")
            }
            Holder::Process { pid, command: None } => write!(f, "process {pid}"),
            Holder::Mount(at) => write!(f, "the file system mounted at {at}"),
            Holder::Device(name) => write!(f, "the device {name}"),
            Holder::Swap => f.write_str("the kernel, which swaps to it"),
            Holder::Unknown(words) => f.write_str(words),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_named_by_number_program_and_subcommand() {
        let pid = std::process::id().wrapping_add(1);
        let shown = |line: &[u8]| Holder::process(pid, line).to_string();
        assert_eq!(
            shown(b"/usr/bin/imbrex\0serve\0d.imbrex\0"),
            format!("process {pid} (imbrex serve)")
        );
        assert_eq!(shown(b"/bin/sh\0-c\0read\0"), format!("process {pid} (sh)"));
        assert_eq!(shown(b"a\nb\0"), format!("process {pid} (a\\nb)"));
        for unknown in [&b""[..], b"\0", b"/\0"] {
            assert_eq!(shown(unknown), format!("process {pid}"));
        }
        assert_eq!(Holder::process(std::process::id(), b"x\0").to_string(), "this process");
    }
}
