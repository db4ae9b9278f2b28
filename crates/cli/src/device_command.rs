//! `device`: asks a running server of a block device, at its control socket.

use crate::count::grouped;
use crate::error::{CliError, Exit};
use crate::output::Report;
use crate::session::Session;
use imbrex_disk::ByteSize;
use serde_json::Value;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// The longest reply that is believed to be one.
const REPLY_LEN_BYTES_MAX: u64 = 1 << 20;

/// Commands that ask a server. CONTROL is the path that it was given as `imbrex serve --control`.
#[derive(clap::Subcommand, Debug)]
pub(crate) enum DeviceCommand {
    /// Show how the device is: its length, clients, write buffer, map, journal and zones
    Status(At),
    /// Show what clients, the drive and the block driver did since the server started
    Counters(At),
    /// Set the length of the write buffer; what is more leaves it while the server works
    Buffer {
        #[command(flatten)]
        at: At,
        /// The new length, such as 256MiB
        len: ByteSize,
    },
    /// Write a checkpoint now, after which opening has little to replay
    ///
    /// Requests of clients wait meanwhile.
    Checkpoint(At),
    /// Clean zones once, whether or not room is needed; requests of clients are served meanwhile
    ///
    /// A cleaning takes one or two zones. It goes on if this command is interrupted.
    Clean(At),
}

#[derive(clap::Args, Clone, Debug)]
pub(crate) struct At {
    /// The server's control socket
    control: PathBuf,
}

impl DeviceCommand {
    pub(crate) fn run(self, session: &mut Session) -> Result<(), CliError> {
        let (at, request) = match &self {
            DeviceCommand::Status(at) => (at, "status".to_owned()),
            DeviceCommand::Counters(at) => (at, "counters".to_owned()),
            DeviceCommand::Buffer { at, len } => (at, format!("buffer {}", len.0)),
            DeviceCommand::Checkpoint(at) => (at, "checkpoint".to_owned()),
            DeviceCommand::Clean(at) => (at, "clean".to_owned()),
        };
        // An output format that does not fit fails before the work, not after it.
        let is_json = session.out.is_json()?;
        let value = asked(&at.control, &request, session)?;
        if is_json { session.out.json(&value) } else { session.out.report(&report(&value)) }
    }
}

/// Sends a request; returns what the server answered.
fn asked(path: &Path, request: &str, session: &Session) -> Result<Value, CliError> {
    let shown = path.display();
    let socket = UnixStream::connect(path).map_err(|error| {
        let why = match error.kind() {
            ErrorKind::NotFound => {
                "there is no such socket; `imbrex serve --control PATH` makes one while it runs"
                    .to_owned()
            }
            ErrorKind::ConnectionRefused => {
                "its server has ended; the next `imbrex serve --control` replaces it".to_owned()
            }
            ErrorKind::PermissionDenied => {
                "it is another user's; ask as that user or as root".to_owned()
            }
            _ => error.to_string(),
        };
        CliError::new(Exit::Store, format!("cannot ask the server at {shown}: {why}"))
    })?;
    let failed =
        |error: std::io::Error| CliError::of(format!("cannot ask the server at {shown}"), &error);
    let ending = socket.try_clone().map_err(failed)?;
    session.interrupt.when_asked(move || {
        // It fails if the server has hung up already.
        let _ = ending.shutdown(Shutdown::Both);
    });
    let mut reply = String::new();
    let sent = (&socket).write_all(format!("{request}\n").as_bytes());
    let read = sent
        .and_then(|()| BufReader::new((&socket).take(REPLY_LEN_BYTES_MAX)).read_line(&mut reply));
    if session.interrupt.is_asked() {
        let told = format!("interrupted; the server at {shown} finishes what it began");
        return Err(CliError::new(Exit::Interrupted, told));
    }
    if read.map_err(failed)? == 0 {
        let told = format!(
            "the server at {shown} hung up without an answer: it ended, or too many ask it"
        );
        return Err(CliError::new(Exit::Store, told));
    }
    let no_reply =
        || CliError::new(Exit::Store, format!("{shown} is no control socket of `imbrex serve`"));
    let mut reply: Value = serde_json::from_str(&reply).map_err(|_| no_reply())?;
    match reply["error"].as_str() {
        Some(fault) => Err(CliError::new(Exit::Store, format!("the server at {shown}: {fault}"))),
        None if reply.get("ok").is_some() => Ok(reply["ok"].take()),
        None => Err(no_reply()),
    }
}

/// An answer for people: each object in it is a section.
fn report(value: &Value) -> Report {
    let mut report = Report::default();
    let Value::Object(all) = value else { return report };
    for (name, value) in all.iter().filter(|(_, value)| !value.is_object()) {
        row(&mut report, name, value);
    }
    for (title, value) in all {
        if let Value::Object(parts) = value {
            report.section(title.replace('_', " "));
            parts.iter().for_each(|(name, value)| row(&mut report, name, value));
        }
    }
    report
}

fn row(report: &mut Report, name: &str, value: &Value) {
    let (name, text) = match (name.strip_suffix("_bytes"), value.as_u64()) {
        (Some(name), Some(bytes)) => (name, ByteSize(bytes).to_string()),
        (_, Some(count)) => (name, grouped(count)),
        _ => (name, plain(value)),
    };
    report.row(name.trim_start_matches("is_").replace('_', " "), text, value.clone());
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::Bool(yes) => if *yes { "yes" } else { "no" }.to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(number) => {
            number.as_f64().map_or_else(|| number.to_string(), |number| format!("{number:.2}"))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_answer_is_shown_in_sections() {
        let answer = json!({
            "served": "d", "is_read_only": false, "len_bytes": 1024,
            "buffer": {"used_bytes": 2048, "memory_stall_percent": 1.25, "none": null},
            "map": {"nodes": 1234},
        });
        assert_eq!(
            report(&answer).text(),
            "read only  no\nlen        1.00 KiB\nserved     d\n\nbuffer\n  memory stall percent  1.25\n  \
             none                  -\n  used                  2.00 KiB\n\nmap\n  nodes  1 234\n"
        );
    }
}
