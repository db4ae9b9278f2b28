//! `checkpoint`: states of a store that are kept on its drive, sharing tables with it.

use crate::error::{CliError, Context};
use crate::session::Session;
use crate::store::{DriveArgs, ReadDriveArgs, Store};
use imbrex_engine::Db;
use serde_json::json;

/// `imbrex checkpoint ...`.
#[derive(clap::Subcommand, Debug)]
pub(crate) enum CheckpointCommand {
    /// Keep the store as it is now, under a name; costs a flush, and the space of tables that are replaced
    Make(MakeArgs),
    /// List the checkpoints of a store
    List(ListArgs),
    /// Delete a checkpoint, which gives back the space of tables that only it has
    Delete(DeleteArgs),
}

/// Arguments of `imbrex checkpoint make`.
#[derive(clap::Args, Debug)]
pub(crate) struct MakeArgs {
    #[command(flatten)]
    drive: DriveArgs,
    /// Name of the checkpoint
    name: String,
}

/// Arguments of `imbrex checkpoint list`.
#[derive(clap::Args, Debug)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    drive: ReadDriveArgs,
}

/// Arguments of `imbrex checkpoint delete`.
#[derive(clap::Args, Debug)]
pub(crate) struct DeleteArgs {
    #[command(flatten)]
    drive: DriveArgs,
    /// Name of the checkpoint
    name: String,
}

impl CheckpointCommand {
    pub(crate) fn run(self, session: &mut Session) -> Result<(), CliError> {
        match self {
            CheckpointCommand::Make(MakeArgs { drive, name }) => {
                drive.open_quiet()?.with(|store| {
                    let made = store.db.checkpoint(&name);
                    made.context(|| format!("cannot make a checkpoint of {}", store.path.display()))
                })
            }
            CheckpointCommand::Delete(DeleteArgs { drive, name }) => {
                drive.open_quiet()?.with(|store| {
                    let deleted = store.db.delete_checkpoint(&name);
                    deleted.map_err(|error| failed(store, "delete", &name, &error))
                })
            }
            CheckpointCommand::List(ListArgs { drive }) => {
                let is_json = session.out.is_json()?;
                drive.open_quiet()?.with(|store| {
                    let names = store.db.checkpoints();
                    if is_json {
                        return session.out.json(&json!(names));
                    }
                    names.iter().try_for_each(|name| session.out.line(name))
                })
            }
        }
    }
}

/// Opens checkpoint `name` of `store` to read it.
pub(crate) fn open(store: &Store, name: &str) -> Result<Db, CliError> {
    store.db.open_checkpoint(name).map_err(|error| failed(store, "open", name, &error))
}

/// The error with the names of the checkpoints that there are.
fn failed(store: &Store, doing: &str, name: &str, error: &imbrex_engine::EngineError) -> CliError {
    let names = store.db.checkpoints();
    let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    CliError::of(format!("cannot {doing} checkpoint {name:?} of {}", store.path.display()), error)
        .with_hint(format!("its checkpoints are: {known}"))
}
