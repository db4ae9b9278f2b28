//! `checkpoint`: states of a store that are kept on its drive, sharing tables with it.

use crate::count::grouped;
use crate::error::{CliError, Context};
use crate::output::{Table, note};
use crate::session::Session;
use crate::store::{DriveArgs, ReadDriveArgs, Store};
use imbrex_disk::ByteSize;
use imbrex_engine::{Db, Pins};
use serde_json::json;

/// `imbrex checkpoint ...`.
#[derive(clap::Subcommand, Debug)]
pub(crate) enum CheckpointCommand {
    /// Keep the store as it is now, under a name; costs a flush, and the space of tables that are replaced
    Make(MakeArgs),
    /// List the checkpoints of a store, with the space that each keeps
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
                    let pins = store.db.pins();
                    if is_json {
                        return session.out.json(&json_of(&pins));
                    }
                    if pins.checkpoints.is_empty() {
                        note("there are no checkpoints");
                        return Ok(());
                    }
                    session.out.line(table_of(&pins).trim_end())
                })
            }
        }
    }
}

fn json_of(pins: &Pins) -> serde_json::Value {
    let checkpoints = pins.checkpoints.iter().map(|kept| {
        json!({
            "name": kept.name,
            "tables": kept.table_count,
            "bytes": kept.len_bytes,
            "freed_by_delete_bytes": kept.own_len_bytes,
        })
    });
    json!({
        "checkpoints": checkpoints.collect::<Vec<_>>(),
        "only_in_checkpoints_bytes": pins.checkpoints_len_bytes,
    })
}

fn table_of(pins: &Pins) -> String {
    let mut table = Table::new(&["checkpoint", "tables", "length", "freed by its deletion"]);
    for kept in &pins.checkpoints {
        table.row(vec![
            kept.name.clone(),
            grouped(kept.table_count as u64),
            ByteSize(kept.len_bytes).to_string(),
            ByteSize(kept.own_len_bytes).to_string(),
        ]);
    }
    let own_bytes: u64 = pins.checkpoints.iter().map(|kept| kept.own_len_bytes).sum();
    let shared_bytes = pins.checkpoints_len_bytes - own_bytes;
    let mut text = table.text();
    if shared_bytes > 0 {
        text.push_str(&format!(
            "\n{} more are freed when several of them are deleted\n",
            ByteSize(shared_bytes)
        ));
    }
    text
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
