//! The content that `drive create` and `drive format` make on a drive: a store, room for the files of
//! another database, or nothing.

use crate::error::CliError;
use crate::output::Report;
use crate::store::layout_named;
use imbrex::fitting::blank_drives;
use imbrex::stack::{Drives, Formatting, Layout};
use imbrex_clockwork::Runtime;
use imbrex_disk::ByteSize;
use imbrex_disk::{Blocks, Geometry};
use std::path::Path;

/// Arguments that choose the content.
#[derive(clap::Args, Debug)]
pub(super) struct NewContent {
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
    table_len: Option<ByteSize>,
    /// Write values from this length on once, apart from their keys, such as 64KiB: for a store of objects
    /// [default: values are beside their keys, and compactions write them again]
    #[arg(long, value_name = "SIZE", conflicts_with_all = ["no_store", "blank"])]
    values_apart: Option<ByteSize>,
}

impl NewContent {
    /// The layout that the user named, if any.
    pub(super) fn asked(&self) -> Result<Option<Layout>, CliError> {
        layout_named(self.layout.as_deref())
    }

    /// Whether the drive stays blank.
    pub(super) fn is_blank(&self) -> bool {
        self.blank
    }

    /// How a drive of this geometry at `path` is formatted; `None` if it stays blank.
    pub(super) fn formatting(
        &self,
        path: &Path,
        geometry: &Geometry,
        format_id: u64,
    ) -> Result<Option<Formatting>, imbrex::Error> {
        if self.blank {
            return Ok(None);
        }
        Ok(Some(self.planned(path, geometry, format_id)?))
    }

    fn planned(
        &self,
        path: &Path,
        geometry: &Geometry,
        format_id: u64,
    ) -> Result<Formatting, imbrex::Error> {
        let asked = self.layout.as_deref().map(Layout::by_name).transpose()?;
        let usual = || Layout::default_for_database(geometry.rule()).filter(|_| self.no_store);
        let asked = asked.or_else(usual);
        let mut formatting = Formatting::new(path, geometry, asked, format_id)?;
        if let Some(ByteSize(len_bytes)) = self.table_len {
            formatting.recipe.placement_options.unit_len = Blocks::holding(len_bytes);
        }
        if let Some(ByteSize(len_bytes)) = self.values_apart {
            let from = &mut formatting.recipe.options.keyspace.values_apart_from_bytes;
            *from = u32::try_from(len_bytes).unwrap_or(u32::MAX);
        }
        Ok(formatting)
    }

    /// Makes the content in memory on a drive of this geometry, to see whether it can be made there. `flash_bytes` is the
    /// length of its flash drive, if the user chose one.
    pub(super) fn try_on(
        &self,
        path: &Path,
        geometry: &Geometry,
        flash_bytes: Option<u64>,
    ) -> Result<(), imbrex::Error> {
        if self.blank {
            return Ok(());
        }
        let formatting = self.planned(path, geometry, 0)?;
        let drives = blank_drives(&formatting, geometry, flash_bytes)?;
        self.rehearse(Some(&formatting), drives)
    }

    /// Checks that the user named a flash drive if the layout needs one, and none otherwise. `how` is the
    /// advice for a missing one.
    pub(super) fn check_flash(
        &self,
        formatting: Option<&Formatting>,
        flash: Option<&Path>,
        path: &Path,
        how: &str,
    ) -> Result<(), CliError> {
        let cannot =
            |why: String| CliError::usage(format!("cannot format {}: {why}", path.display()));
        match formatting {
            None if flash.is_some() => {
                Err(cannot("a blank drive has no use for a flash drive; omit --flash".to_owned()))
            }
            Some(formatting) if self.no_store && formatting.layout.takes_flash() => {
                Err(cannot(format!(
                    "{} takes a flash drive, which the databases of `imbrex run` cannot use; choose another layout, \
                     or omit --no-store",
                    formatting.layout
                )))
            }
            Some(formatting) => formatting.check_flash(flash.is_some()).map_err(|error| {
                CliError::from(error).with_hint(if flash.is_some() { "omit --flash" } else { how })
            }),
            None => Ok(()),
        }
    }

    /// Makes the content on blank drives.
    pub(super) fn make(
        &self,
        formatting: Option<&Formatting>,
        drives: Drives,
        runtime: &Runtime,
    ) -> Result<(), imbrex::Error> {
        match formatting {
            None => Ok(()),
            Some(formatting) if self.no_store => {
                formatting.foreign_files(drives, runtime).map(drop)
            }
            Some(formatting) => formatting.closed_store(drives, runtime),
        }
    }

    /// Makes the content on copies of drives.
    pub(super) fn rehearse(
        &self,
        formatting: Option<&Formatting>,
        copies: Drives,
    ) -> Result<(), imbrex::Error> {
        match formatting {
            None => Ok(()),
            Some(formatting) if self.no_store => formatting.rehearse_foreign_files(copies),
            Some(formatting) => formatting.rehearse_store(copies),
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
