//! `dump`: the content of a file or a structure on the drive, as text.

use crate::count::grouped;
use crate::error::{CliError, Context, Exit};
use crate::interrupt::Interrupt;
use crate::output::{Output, Table, note};
use crate::parts::Parts;
use crate::session::Session;
use crate::store::ReadDriveArgs;
use imbrex::stack::{FoundDrive, Mounted, Unmounted};
use imbrex_clockwork::Runtime;
use imbrex_disk::ByteSize;
use imbrex_disk::Disk;
use imbrex_engine::EngineError;
use imbrex_engine::inspect::{DumpSink, dump_log, dump_records, dump_table};
use imbrex_files::inspect::describe_catalog;
use imbrex_files::{FileInfo, FileKind, Files, Tier};
use serde_json::json;
use std::sync::Arc;

/// Arguments of `imbrex dump`.
#[derive(clap::Args, Debug)]
pub(crate) struct DumpArgs {
    #[command(flatten)]
    drive: ReadDriveArgs,
    /// The name of a file, or one of: image, catalog, versions, partitions [default: list the files]
    what: Option<String>,
}

impl DumpArgs {
    pub(crate) fn run(self, session: &mut Session) -> Result<(), CliError> {
        let is_json = session.out.is_json()?;
        let shown = self.drive.shown();
        let (found, mounted) = self.drive.mount(&Runtime::threads(1))?;
        let disk = found.main().disk();
        let interrupt = session.interrupt.clone();
        let mut lines = Lines { out: &mut session.out, is_json, interrupt: &interrupt };
        match self.what.as_deref() {
            Some("image") => {
                let info = match found.main() {
                    FoundDrive::Image(image) => image.image().map(|image| format!("{image:#?}")),
                    FoundDrive::Device(device) => Some(format!("{:#?}", device.geometry())),
                };
                let info = info.unwrap_or_default();
                lines.all(info.lines().map(str::to_owned))?;
                lines.all(
                    disk.report_zones()
                        .iter()
                        .map(|zone| format!("{} at {}: {:?}", zone.zone, zone.start, zone.state)),
                )
            }
            Some("catalog") => {
                // This works for files that do not open too: the dump may show what is wrong with them.
                let below = mounted.map_or(disk, |mounted| mounted.disk);
                let words = describe_catalog(&*below)
                    .context(|| format!("cannot read the catalog of {shown}"))?;
                lines.all(words)
            }
            Some("versions") => {
                let files = self.files(mounted)?;
                lines.engine(&shown, |sink| dump_records(&files.app_records(), sink))
            }
            Some("partitions") => {
                let files = self.files(mounted)?;
                Parts::of(&*files)?.print(lines.out)
            }
            Some(name) => {
                let files = self.files(mounted)?;
                let file = files.list(name).into_iter().find(|file| file.name == name);
                let file = file.ok_or_else(|| {
                    let message = format!(
                        "{shown}: no file named {name:?}; `imbrex dump {shown}` lists the files"
                    );
                    CliError::new(Exit::NotFound, message)
                })?;
                dump_file(&*files, &file, &mut lines)
            }
            None => {
                let files = self.files(mounted)?;
                list(&*files, session)
            }
        }
    }

    fn files(&self, mounted: Result<Mounted, Unmounted>) -> Result<Arc<dyn Files>, CliError> {
        let mounted = mounted.map_err(|unmounted| self.drive.cannot_open(unmounted))?;
        Ok(mounted.all_files())
    }
}

fn dump_file(files: &dyn Files, file: &FileInfo, lines: &mut Lines<'_>) -> Result<(), CliError> {
    let reader = files.open(&file.name).context(|| format!("cannot open {}", file.name))?;
    match file.kind {
        FileKind::Table => lines.engine(&file.name, |sink| dump_table(reader, sink)),
        FileKind::Log => {
            lines.engine(&file.name, |sink| dump_log(&*reader, files.format_id(), sink))
        }
        kind @ (FileKind::Metadata | FileKind::Other) => Err(CliError::usage(format!(
            "cannot dump {}: its kind is {kind:?}, and only tables and logs can be dumped",
            file.name
        ))),
    }
}

/// Prints lines; in JSON each line is a string.
struct Lines<'a> {
    out: &'a mut Output,
    is_json: bool,
    interrupt: &'a Interrupt,
}

impl Lines<'_> {
    fn line(&mut self, line: &str) -> Result<(), CliError> {
        if self.is_json { self.out.line(json!(line).to_string()) } else { self.out.line(line) }
    }

    fn all(&mut self, lines: impl IntoIterator<Item = String>) -> Result<(), CliError> {
        lines.into_iter().try_for_each(|line| self.line(&line))
    }

    /// Runs one of the engine's dumps.
    fn engine(
        &mut self,
        what: &str,
        dump: impl FnOnce(DumpSink<'_>) -> Result<(), EngineError>,
    ) -> Result<(), CliError> {
        let mut shown = Ok(());
        let dumped = dump(&mut |line| {
            // After a failure or an interruption the rest of the file is read without output.
            if shown.is_ok() {
                shown = self.interrupt.check().and_then(|()| self.line(line));
            }
        });
        shown?;
        dumped.context(|| format!("cannot dump {what}"))
    }
}

fn on_flash(file: &FileInfo) -> &'static str {
    if file.tier == Tier::Fast { " on flash" } else { "" }
}

fn list(files: &dyn Files, session: &mut Session) -> Result<(), CliError> {
    // The files are listed even if the records that name their parts are damaged.
    let parts = Parts::of(files).map_err(|error| note(format!("imbrex: warning: {error}"))).ok();
    let files = files.list("");
    if session.out.is_json()? {
        let files: Vec<_> = files.iter().map(|file| file_json(file, parts.as_ref())).collect();
        return session.out.json(&json!(files));
    }
    let parts = parts.filter(Parts::has_partitions);
    let mut header = vec!["name", "kind", "level", "length", "group", "blocks"];
    if parts.is_some() {
        header.insert(3, "part");
    }
    let mut table = Table::new(&header);
    for file in &files {
        let extents: Vec<_> = file.extents.iter().map(ToString::to_string).collect();
        let mut row = vec![
            file.name.clone(),
            format!("{:?}", file.kind).to_lowercase(),
            file.level.to_string(),
            ByteSize(file.len_bytes).to_string(),
            file.group.map_or_else(|| "-".to_owned(), |group| grouped(group.0)),
            format!("{}{}", extents.join(" "), on_flash(file)),
        ];
        if let Some(parts) = &parts {
            row.insert(3, parts.place_of(file).to_string());
        }
        table.row(row);
    }
    session.out.bytes(table.text().as_bytes())?;
    session.out.line("\nalso: image, catalog, versions, partitions")
}

fn file_json(file: &FileInfo, parts: Option<&Parts>) -> serde_json::Value {
    let extents = file.extents.iter();
    let extents: Vec<_> =
        extents.map(|extent| json!([extent.start.get(), extent.end().get()])).collect();
    let place = parts.map(|parts| parts.place_of(file));
    json!({
        "name": file.name,
        "kind": format!("{:?}", file.kind).to_lowercase(),
        "level": file.level,
        "part": place.as_ref().map(|place| place.part.name()),
        "keyspace": place.as_ref().and_then(|place| place.keyspace.as_ref()),
        "partition": place.as_ref().and_then(|place| place.partition),
        "is_on_flash": file.tier == Tier::Fast,
        "len_bytes": file.len_bytes,
        "group": file.group.map(|group| group.0),
        "extents_blocks": extents,
    })
}
