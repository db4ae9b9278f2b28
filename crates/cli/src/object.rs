//! `object`: data of any length, in and out as streams.

use crate::checkpoint;
use crate::count::grouped;
use crate::error::{CliError, Context, Exit};
use crate::interrupt::Stdin;
use crate::key::{self, KeyNotation, entry_json, to_hex};
use crate::output::Report;
use crate::session::Session;
use crate::store::{DriveArgs, KeyspaceArgs, ReadDriveArgs, Store, keyspace_in, salvage_hint};
use imbrex::{Listing, ObjectBatch, Objects};
use imbrex_disk::ByteSize;
use imbrex_engine::WriteOptions;
use imbrex_files::Files;
use std::ffi::OsString;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

/// How much is copied at a time.
const PIECE_LEN_BYTES: usize = 1 << 20;

/// `imbrex object ...`.
#[derive(clap::Subcommand, Debug)]
pub(crate) enum ObjectCommand {
    /// Store a file or a pipe as an object, in place of what it was; durable when the command returns
    Put(PutArgs),
    /// Print the data of an object, or a part of them
    Get(GetArgs),
    /// List objects with their lengths, in the order of their names
    List(ListArgs),
    /// Delete objects; durable when the command returns
    Delete(DeleteArgs),
    /// Read all objects, and compare what belongs together; exit code 5 if something is wrong
    Check(CheckArgs),
}

/// Arguments of `imbrex object put`.
#[derive(clap::Args, Debug)]
pub(crate) struct PutArgs {
    #[command(flatten)]
    drive: DriveArgs,
    /// Name of the object
    name: OsString,
    /// The file; - or nothing reads standard input
    file: Option<PathBuf>,
    /// Metadata to keep beside the data
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    metadata: OsString,
    #[command(flatten)]
    notation: KeyNotation,
    #[command(flatten)]
    keyspace: KeyspaceArgs,
}

/// Arguments of `imbrex object get`.
#[derive(clap::Args, Debug)]
pub(crate) struct GetArgs {
    #[command(flatten)]
    drive: ReadDriveArgs,
    /// Name of the object
    name: OsString,
    /// Where to start, in bytes or as a size such as 1MiB
    #[arg(long, value_name = "SIZE", default_value = "0", hide_default_value = true)]
    offset: ByteSize,
    /// How much to print [default: up to the end]
    #[arg(long, value_name = "SIZE")]
    len: Option<ByteSize>,
    /// Print the metadata instead of the data
    #[arg(long, conflicts_with_all = ["offset", "len"])]
    metadata: bool,
    #[command(flatten)]
    notation: KeyNotation,
    #[command(flatten)]
    keyspace: KeyspaceArgs,
    /// Read a checkpoint instead of the present state
    #[arg(long, value_name = "NAME")]
    checkpoint: Option<String>,
}

/// Arguments of `imbrex object list`.
#[derive(clap::Args, Debug)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    drive: ReadDriveArgs,
    /// List only names that start with this
    #[arg(long, default_value = "", hide_default_value = true)]
    prefix: OsString,
    /// Start at this name, inclusive
    #[arg(long)]
    from: Option<OsString>,
    /// List at most so many
    #[arg(long, value_name = "COUNT")]
    limit: Option<usize>,
    #[command(flatten)]
    notation: KeyNotation,
    #[command(flatten)]
    keyspace: KeyspaceArgs,
    /// Read a checkpoint instead of the present state
    #[arg(long, value_name = "NAME")]
    checkpoint: Option<String>,
}

/// Arguments of `imbrex object delete`.
#[derive(clap::Args, Debug)]
pub(crate) struct DeleteArgs {
    #[command(flatten)]
    drive: DriveArgs,
    /// Names of the objects; a missing one is not an error
    #[arg(required = true, value_name = "NAME")]
    names: Vec<OsString>,
    #[command(flatten)]
    notation: KeyNotation,
    #[command(flatten)]
    keyspace: KeyspaceArgs,
}

/// Arguments of `imbrex object check`.
#[derive(clap::Args, Debug)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    drive: ReadDriveArgs,
    #[command(flatten)]
    keyspace: KeyspaceArgs,
}

impl ObjectCommand {
    pub(crate) fn run(self, session: &mut Session) -> Result<(), CliError> {
        match self {
            ObjectCommand::Put(args) => args.run(session),
            ObjectCommand::Get(args) => args.run(session),
            ObjectCommand::List(args) => args.run(session),
            ObjectCommand::Delete(args) => args.run(session),
            ObjectCommand::Check(args) => args.run(session),
        }
    }
}

/// The objects of the keyspace that `args` names: as they are now, or at a checkpoint.
fn objects(
    store: &Store,
    args: &KeyspaceArgs,
    checkpoint: Option<&str>,
) -> Result<Objects, CliError> {
    let keyspace = match checkpoint {
        None => store.keyspace(args)?,
        Some(name) => keyspace_in(&checkpoint::open(store, name)?, args)?,
    };
    let opened = Objects::open(&keyspace, store.files.format_id(), Arc::default(), None);
    opened.context(|| format!("cannot read the objects of {}", store.path.display()))
}

impl PutArgs {
    fn run(self, session: &mut Session) -> Result<(), CliError> {
        let name = self.notation.bytes(&self.name)?;
        let path = self.file.as_deref().filter(|path| path.as_os_str() != "-");
        let (mut from, shown): (Box<dyn Read>, _) = match path {
            Some(path) => {
                let shown = path.display().to_string();
                let file = std::fs::File::open(path).context(|| format!("cannot open {shown}"))?;
                (Box::new(file), shown)
            }
            None => (Box::new(Stdin::new(session.interrupt.clone())), "standard input".to_owned()),
        };
        self.drive.open()?.with(|store| {
            let objects = objects(store, &self.keyspace, None)?;
            let failed = || format!("cannot put the object {}", key::shown(&name));
            let mut upload = objects.upload();
            let mut piece = vec![0; PIECE_LEN_BYTES];
            loop {
                session.interrupt.check()?;
                let len = from.read(&mut piece).context(|| format!("cannot read {shown}"))?;
                if len == 0 {
                    break;
                }
                upload.write(&piece[..len]).context(failed)?;
            }
            session.interrupt.check()?;
            let finished = upload.finish(&name, self.metadata.as_bytes(), WriteOptions::SYNC);
            finished.context(failed)
        })
    }
}

impl GetArgs {
    fn run(self, session: &mut Session) -> Result<(), CliError> {
        let name = self.notation.bytes(&self.name)?;
        let ByteSize(offset) = self.offset;
        let mut left = self.len.map_or(u64::MAX, |ByteSize(len)| len);
        self.drive.open_quiet()?.with(|store| {
            let objects = objects(store, &self.keyspace, self.checkpoint.as_deref())?;
            let failed = || format!("cannot get the object {}", key::shown(&name));
            let hint = |error: CliError| error.with_damage_hint(|| salvage_hint(&store.path));
            let reader = objects.reader(&name).context(failed).map_err(hint)?;
            let mut reader = reader.ok_or_else(|| {
                CliError::new(Exit::NotFound, format!("{}: no such object", key::shown(&name)))
            })?;
            if self.metadata {
                return session.out.bytes(&reader.stat().metadata);
            }
            let mut at = offset;
            while left > 0 {
                session.interrupt.check()?;
                let len_max = left.min(PIECE_LEN_BYTES as u64) as usize;
                let piece = reader.bytes_at(at, len_max).context(failed).map_err(hint)?;
                if piece.is_empty() {
                    break;
                }
                session.out.bytes(&piece)?;
                at += piece.len() as u64;
                left -= piece.len() as u64;
            }
            Ok(())
        })
    }
}

impl ListArgs {
    fn run(self, session: &mut Session) -> Result<(), CliError> {
        let prefix = self.notation.bytes(&self.prefix)?;
        let from = self.from.as_deref().map(|from| self.notation.bytes(from)).transpose()?;
        let is_json = session.out.is_json()?;
        self.drive.open_quiet()?.with(|store| {
            let objects = objects(store, &self.keyspace, self.checkpoint.as_deref())?;
            let failed = || format!("cannot list the objects of {}", store.path.display());
            let listing: Listing = objects.list(&prefix, from.as_deref()).context(failed)?;
            for entry in listing.take(self.limit.unwrap_or(usize::MAX)) {
                session.interrupt.check()?;
                let (name, stat) = entry.context(failed)?;
                if is_json {
                    let mut line = entry_json(&name, None);
                    line["len_bytes"] = stat.len_bytes.into();
                    match std::str::from_utf8(&stat.metadata) {
                        Ok(text) => line["metadata"] = text.into(),
                        Err(_) => line["metadata_hex"] = to_hex(&stat.metadata).into(),
                    }
                    session.out.line(line.to_string())?;
                } else {
                    let len = ByteSize(stat.len_bytes).to_string();
                    session.out.line(format!("{len:>10}  {}", name.escape_ascii()))?;
                }
            }
            Ok(())
        })
    }
}

impl DeleteArgs {
    fn run(self, _session: &mut Session) -> Result<(), CliError> {
        let mut batch = ObjectBatch::new();
        for name in &self.names {
            let name = self.notation.bytes(name)?;
            batch.delete(&name).context(|| format!("cannot delete {}", key::shown(&name)))?;
        }
        self.drive.open()?.with(|store| {
            let objects = objects(store, &self.keyspace, None)?;
            objects.write(batch, WriteOptions::SYNC).context(|| "cannot delete the objects")
        })
    }
}

impl CheckArgs {
    fn run(self, session: &mut Session) -> Result<(), CliError> {
        let is_json = session.out.is_json()?;
        self.drive.open_quiet()?.with(|store| {
            let objects = objects(store, &self.keyspace, None)?;
            let failed = || format!("cannot check the objects of {}", store.path.display());
            let checked = objects.check().context(failed);
            let found = checked.map_err(|e| e.with_damage_hint(|| salvage_hint(&store.path)))?;
            let mut report = Report::default();
            let counts = [
                ("objects", found.object_count),
                ("chunks", found.chunk_count),
                ("uploads not ended", found.upload_count),
            ];
            for (name, count) in counts {
                report.row(name, grouped(count), count);
            }
            report.row("data", ByteSize(found.len_bytes).to_string(), found.len_bytes);
            if is_json {
                report.row("findings", "", found.findings.clone());
            }
            session.out.report(&report)?;
            if !is_json {
                found.findings.iter().try_for_each(|finding| session.out.line(finding))?;
            }
            match found.findings.len() {
                0 => Ok(()),
                count => {
                    let what = format!(
                        "{count} findings about objects; read what you can of them, then delete or put them again"
                    );
                    Err(CliError::new(Exit::Corrupt, what))
                }
            }
        })
    }
}
