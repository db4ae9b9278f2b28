//! `scrub`: reads and verifies all tables, at a bounded rate, and mends damaged ones from second copies.

use crate::count::grouped;
use crate::error::{CliError, Context, Exit};
use crate::interrupt::Interrupt;
use crate::output::{Report, note};
use crate::progress::{Progress, Unit};
use crate::session::Session;
use crate::store::DriveArgs;
use crate::target::Target;
use imbrex::scrub::{MendedFrom, ScrubOptions, ScrubReport, ScrubbedTable, scrub};
use imbrex::stack::FoundDrives;
use imbrex_clockwork::{Clock, WallClock};
use imbrex_disk::ByteSize;
use serde_json::{Value, json};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// Arguments of `imbrex scrub`.
#[derive(clap::Args, Debug)]
pub(crate) struct ScrubArgs {
    #[command(flatten)]
    drive: DriveArgs,
    /// A backup of the store (`imbrex backup`), for damaged tables that have no copy on the drive
    #[arg(long, value_name = "DIR")]
    from: Option<PathBuf>,
    /// Read at most this much per second, such as 50MiB, to leave the drive to others on this machine
    #[arg(long, value_name = "SIZE")]
    rate: Option<ByteSize>,
    /// Keep in FILE how far the scrub has got, and continue there
    #[arg(long, value_name = "FILE", conflicts_with = "after")]
    state: Option<PathBuf>,
    /// Begin after table N, which an interrupted scrub has printed
    #[arg(long, value_name = "N")]
    after: Option<u64>,
}

impl ScrubArgs {
    pub(crate) fn run(self, session: &mut Session) -> Result<(), CliError> {
        session.out.is_json()?;
        if self.rate.is_some_and(|rate| rate.0 == 0) {
            return Err(CliError::usage("--rate 0 would never end; leave it out for no limit"));
        }
        let shown = self.drive.shown();
        let state = self.state.as_deref().map(|path| State::new(path, &self.drive.images()));
        let state = state.transpose()?;
        let after = match &state {
            Some(state) => state.read()?,
            None => self.after.unwrap_or(0),
        };
        let found = self.drive.find(false)?;
        let options = ScrubOptions { after, backup: self.from };
        let mut failed = Ok(());
        let done = run(&found, &options, self.rate, &session.interrupt, &mut |after| {
            if let (Some(state), Ok(())) = (&state, &failed) {
                failed = state.write(after);
            }
        })?;
        failed?;
        if let Some(state) = &state {
            // The next pass begins with the first table again.
            state.write(if done.is_complete { 0 } else { done.after })?;
        }
        let told = session.out.report(&report(&shown, &done));
        print_damage(&shown, &done);
        if !done.is_complete {
            let how = match &state {
                Some(_) => "the same command continues".to_owned(),
                None => format!("--after {} continues", done.after),
            };
            let message = format!("{shown}: interrupted; nothing was replaced; {how}");
            return Err(CliError::new(Exit::Interrupted, message));
        }
        if done.is_sound() {
            return told;
        }
        Err(CliError::new(Exit::Corrupt, lost_message(&shown, &done)))
    }
}

/// Scrubs at `rate`. `progressed` gets the number after which the scrub would continue.
pub(crate) fn run(
    found: &FoundDrives,
    options: &ScrubOptions,
    rate: Option<ByteSize>,
    interrupt: &Interrupt,
    progressed: &mut dyn FnMut(u64),
) -> Result<ScrubReport, CliError> {
    let progress = Progress::new("scrubbing", Unit::Bytes, None);
    let mut shown = progress.watch(interrupt);
    let pace = rate.map(|ByteSize(bytes_per_s)| Pace::new(bytes_per_s));
    let mut watch = |at: imbrex_engine::Progress| -> ControlFlow<()> {
        shown(at)?;
        pace.as_ref().map_or(ControlFlow::Continue(()), |pace| pace.wait(at.done_bytes, interrupt))
    };
    Ok(scrub(found, options, &mut watch, progressed)?)
}

/// Prints what is damaged: a line for each place.
pub(crate) fn print_damage(shown: &str, done: &ScrubReport) {
    for (table, from) in &done.mended {
        note(format!(
            "imbrex: {shown}: {} was damaged, and was replaced from {}",
            table.place,
            source(*from)
        ));
    }
    for table in &done.lost {
        note(format!("imbrex: {shown}: {} is damaged: {}", table.place, first(table)));
    }
    for finding in &done.findings {
        note(format!("imbrex: {shown}: {finding}"));
    }
}

fn first(table: &ScrubbedTable) -> &str {
    table.findings.first().map_or("", String::as_str)
}

fn source(from: MendedFrom) -> &'static str {
    match from {
        MendedFrom::Nothing => "nothing: it reads well now",
        MendedFrom::ItsCopies => "its own copies",
        MendedFrom::Elsewhere => "the backup",
    }
}

pub(crate) fn lost_message(shown: &str, done: &ScrubReport) -> String {
    let count = done.lost.len() + done.findings.len();
    format!(
        "{shown}: {count} places are still damaged; --from DIR replaces tables that a backup has, and `imbrex salvage {shown} \
         TARGET` writes everything that can still be read to another store"
    )
}

fn report(shown: &str, done: &ScrubReport) -> Report {
    let mut report = Report::default();
    report.row("scrubbed", shown, shown);
    report.row(
        "tables",
        format!("{}, {}", grouped(done.table_count), ByteSize(done.len_bytes)),
        json!({ "count": done.table_count, "bytes": done.len_bytes }),
    );
    damage_rows(&mut report, done);
    if !done.is_complete {
        report.row("continues after table", grouped(done.after), done.after);
    }
    report
}

/// The rows of what was mended and what was not.
pub(crate) fn damage_rows(report: &mut Report, done: &ScrubReport) {
    let table = |table: &ScrubbedTable| json!({ "table": table.id, "place": table.place, "findings": table.findings });
    let mended: Vec<Value> = done
        .mended
        .iter()
        .map(|(mended, from)| {
            let mut value = table(mended);
            value["from"] = json!(source(*from));
            value
        })
        .collect();
    let count = |len: usize| if len == 0 { "none".to_owned() } else { grouped(len as u64) };
    report.row("mended tables", count(mended.len()), json!(mended));
    let lost: Vec<Value> = done.lost.iter().map(table).collect();
    report.row("damaged tables", count(lost.len()), json!(lost));
    report.row("other damage", count(done.findings.len()), json!(done.findings));
}

/// A bound on the rate of reading.
struct Pace {
    clock: WallClock,
    start_ns: u64,
    bytes_per_s: u64,
}

impl Pace {
    fn new(bytes_per_s: u64) -> Pace {
        let clock = WallClock::new();
        Pace { start_ns: clock.now_ns(), clock, bytes_per_s }
    }

    /// Returns when `done_bytes` may have been read, or when the user wants to stop.
    fn wait(&self, done_bytes: u64, interrupt: &Interrupt) -> ControlFlow<()> {
        /// The longest delay of Ctrl-C.
        const LOOK_AGAIN_NS: u64 = 100_000_000;
        let due_ns = self.start_ns.saturating_add(due_ns(done_bytes, self.bytes_per_s));
        loop {
            interrupt.flow()?;
            let now_ns = self.clock.now_ns();
            if now_ns >= due_ns {
                return ControlFlow::Continue(());
            }
            self.clock.wait_until_ns(due_ns.min(now_ns + LOOK_AGAIN_NS));
        }
    }
}

/// How long reading `done_bytes` takes at least.
fn due_ns(done_bytes: u64, bytes_per_s: u64) -> u64 {
    let ns = u128::from(done_bytes) * 1_000_000_000 / u128::from(bytes_per_s.max(1));
    u64::try_from(ns).unwrap_or(u64::MAX)
}

/// The file that keeps how far a scrub has got.
struct State {
    path: PathBuf,
    target: Target,
}

const STATE_HEAD: &str = "imbrex scrub, continues after table ";

impl State {
    fn new(path: &Path, drives: &[&Path]) -> Result<State, CliError> {
        Ok(State { path: path.to_owned(), target: Target::new(path, drives)? })
    }

    fn read(&self) -> Result<u64, CliError> {
        let shown = self.path.display();
        match std::fs::read_to_string(&self.path) {
            Ok(text) if text.is_empty() => Ok(0),
            Ok(text) => {
                let number =
                    text.strip_prefix(STATE_HEAD).and_then(|rest| rest.trim_end().parse().ok());
                number.ok_or_else(|| {
                    CliError::data(format!(
                        "{shown} is not the state of a scrub; name another file, or remove it"
                    ))
                })
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(0),
            Err(error) => Err(error).context(|| format!("cannot read {shown}")),
        }
    }

    fn write(&self, after: u64) -> Result<(), CliError> {
        self.target.write(&format!("{STATE_HEAD}{after}\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_decides_when_bytes_are_due() {
        assert_eq!(due_ns(0, 1), 0);
        assert_eq!(due_ns(50 << 20, 50 << 20), 1_000_000_000);
        assert_eq!(due_ns(1, 3), 333_333_333);
        assert_eq!(due_ns(u64::MAX, 1), u64::MAX);
    }
}
