//! The content that `drive create` and `drive format` make on a drive: a store, room for the files of
//! another database, or nothing.

use crate::error::{CliError, Context, causes};
use crate::output::Report;
use crate::store::layout_named;
use imbrex::stack::{Drives, Layout, LayoutError};
use imbrex_bench::ByteCount;
use imbrex_bench::profile_choice::layout_for;
use imbrex_clockwork::Runtime;
use imbrex_disk::{Blocks, Geometry};
use imbrex_files::FilesError;
use imbrex_files::tiers::FlashError;
use imbrex_translate::BandsError;
use std::error::Error;
use std::path::Path;

/// Arguments that choose the content.
#[derive(clap::Args, Debug)]
pub(super) struct Content {
    /// Layout of the store on the drive; `imbrex layouts` lists them [default: the usual layout for such
    /// a drive]
    #[arg(long, value_name = "NAME")]
    layout: Option<String>,
    /// Make no store: prepare the drive for a RocksDB or LevelDB program that `imbrex run` starts
    #[arg(long)]
    no_store: bool,
    /// Leave the drive blank, for `imbrex serve`
    #[arg(long, conflicts_with_all = ["no_store", "layout"])]
    blank: bool,
    /// Longest table of that database, such as 64MiB. Layouts for interlaced drives reserve room by it,
    /// because they rewrite the tracks of two such tables together [default: set by the layout]
    #[arg(long, value_name = "SIZE", requires = "no_store")]
    table_len: Option<ByteCount>,
}

impl Content {
    /// The layout that the user named, if any.
    pub(super) fn asked(&self) -> Result<Option<Layout>, CliError> {
        layout_named(self.layout.as_deref())
    }

    /// The layout for a drive of this geometry; `None` if the drive stays blank.
    pub(super) fn layout(
        &self,
        geometry: &Geometry,
        what: &str,
    ) -> Result<Option<Layout>, CliError> {
        let asked = self.asked()?;
        if self.blank {
            return Ok(None);
        }
        let fitting = layout_for(geometry, asked);
        fitting.map(Some).map_err(|error| CliError::usage(CliError::of(what, &error).to_string()))
    }

    /// Checks that the user named a flash drive if the layout needs one, and none otherwise. `how` is the
    /// advice for a missing one.
    pub(super) fn check_flash(
        &self,
        layout: Option<Layout>,
        flash: Option<&Path>,
        what: &str,
        how: &str,
    ) -> Result<(), CliError> {
        let why = match (layout.filter(|layout| layout.takes_flash()), flash) {
            (Some(layout), _) if self.no_store => format!(
                "{layout} takes a flash drive, which the databases of `imbrex run` cannot use; choose another \
                 layout, or omit --no-store"
            ),
            (Some(layout), None) => {
                format!("{layout} takes a flash drive in addition to the drive; {how}")
            }
            (None, Some(_)) => {
                let holds = layout.map_or("a blank drive", Layout::name);
                let with: Vec<_> =
                    Layout::all().filter(|l| l.takes_flash()).map(Layout::name).collect();
                let with = with.join(", ");
                format!(
                    "{holds} has no use for a flash drive; omit --flash, or choose --layout {with}"
                )
            }
            _ => return Ok(()),
        };
        Err(CliError::usage(format!("{what}: {why}")))
    }

    /// Makes the content on blank drives.
    pub(super) fn make(
        &self,
        drives: Drives,
        layout: Option<Layout>,
        format_id: u64,
        shown: &str,
    ) -> Result<(), CliError> {
        match layout {
            None => Ok(()),
            Some(layout) if self.no_store => {
                format_files(drives, layout, self.table_len, format_id, shown)
            }
            Some(layout) => format(drives, layout, format_id, shown),
        }
    }
}

/// Adds the content to the report.
pub(super) fn describe(report: &mut Report, layout: Option<Layout>, flash: Option<&Path>) {
    let holds = layout.map_or("none: it is blank", Layout::name);
    report.row("layout", holds, layout.map(Layout::name));
    if let Some(flash) = flash {
        let flash = flash.display().to_string();
        report.row("flash drive", flash.as_str(), flash.as_str());
    }
}

/// Makes an empty store on a blank drive.
fn format(drives: Drives, layout: Layout, format_id: u64, shown: &str) -> Result<(), CliError> {
    let runtime = Runtime::threads(1);
    let recipe = layout.recipe(drives.main.geometry());
    let what = || format!("cannot make a store on {shown}");
    let stack = layout
        .format_with(drives, &runtime, &recipe, format_id)
        .map_err(|error| cannot_format(what(), &error))?;
    let room = stack.db.check_room();
    stack.close().context(what)?;
    room.map_err(|error| {
        CliError::usage(format!(
            "{}: it is too small for layout {layout}: {error}, or shorter zones",
            what()
        ))
    })
}

/// Makes a file layer without files on a blank drive.
fn format_files(
    drives: Drives,
    layout: Layout,
    table_len: Option<ByteCount>,
    format_id: u64,
    shown: &str,
) -> Result<(), CliError> {
    let mut recipe = layout.recipe(drives.main.geometry());
    if let Some(ByteCount(len_bytes)) = table_len {
        recipe.placement_options.unit_len = Blocks::holding(len_bytes);
    }
    let formatted = layout.format_files(drives, &Runtime::threads(1), &recipe, format_id);
    let what = format!("cannot format {shown}");
    formatted.map(drop).map_err(|error| cannot_format(what, &error))
}

fn cannot_format(what: String, error: &LayoutError) -> CliError {
    let error_line = CliError::of(what, error);
    if is_misfit(error) { CliError::usage(error_line.to_string()) } else { error_line }
}

/// Whether the drive does not suit the layout, as opposed to a drive that fails.
fn is_misfit(error: &(dyn Error + 'static)) -> bool {
    causes(error).any(|cause| {
        matches!(
            cause.downcast_ref(),
            Some(FilesError::Unsuitable { .. } | FilesError::Flash(FlashError::TooSmall { .. }))
        ) || matches!(
            cause.downcast_ref(),
            Some(BandsError::TooSmall { .. } | BandsError::Option { .. })
        )
    })
}
