//! `drive format`: an empty store, or room for another database or a block device, on a drive that is there.

use super::{describe, format, format_files};
use crate::Session;
use crate::blank::written;
use crate::error::{CliError, Context, Exit};
use crate::output::Report;
use crate::store::{layout_named, open_drive};
use imbrex_bench::{ByteCount, layout_for};
use imbrex_clockwork::entropy_u64;
use imbrex_layouts::{Drives, FoundDrive, Layout};
use std::path::{Path, PathBuf};

/// Arguments of `imbrex drive format`.
#[derive(clap::Args, Debug)]
pub(crate) struct FormatArgs {
    /// The drive: a block device such as /dev/sdb, zoned or conventional, or a drive image
    #[arg(value_name = "DRIVE")]
    drive: PathBuf,
    /// How the store lies on the drive; `imbrex layouts` lists them [default: the usual one of such
    /// a drive]
    #[arg(long, value_name = "NAME")]
    layout: Option<String>,
    /// Make no store on it: the drive is for a database that `imbrex run` puts there
    #[arg(long)]
    no_store: bool,
    /// Make nothing on it at all: a blank drive is what `imbrex serve` gives to others
    #[arg(long, conflicts_with_all = ["no_store", "layout"])]
    blank: bool,
    /// How long that database's tables are at most, where the layout must keep room by it: interlaced
    /// drives rewrite the tracks of two such tables together [default: the layout's own]
    #[arg(long, value_name = "SIZE", requires = "no_store")]
    table_len: Option<ByteCount>,
    /// The flash drive beside it, if the layout has one: a conventional block device or a drive image
    #[arg(long, value_name = "DRIVE")]
    flash: Option<PathBuf>,
    /// Format drives that something was written to: what they hold is lost
    #[arg(long)]
    erase: bool,
    /// Decides the format's id; without it that is drawn from the operating system
    #[arg(long)]
    seed: Option<u64>,
}

impl FormatArgs {
    pub(super) fn run(self, session: &mut Session) -> Result<(), CliError> {
        session.out.is_json()?;
        let asked = layout_named(self.layout.as_deref())?;
        let shown = self.drive.display().to_string();
        let drive = open_drive(&self.drive, None)?;
        let disk = drive.disk();
        let geometry = *disk.geometry();
        let layout = if self.blank {
            None
        } else {
            Some(layout_for(&geometry, asked).map_err(|error| {
                let what = format!("cannot format {shown}");
                CliError::usage(CliError::of(what, &error).to_string())
            })?)
        };
        self.check_flash(layout, &shown)?;
        let flash = self.flash.as_ref().map(|path| open_drive(path, None)).transpose()?;
        // Neither is touched before both are known to be blank, or to be had.
        self.check_blank(&drive, &self.drive)?;
        if let (Some(flash), Some(path)) = (&flash, &self.flash) {
            self.check_blank(flash, path)?;
        }
        if self.erase {
            for drive in [Some(&drive), flash.as_ref()].into_iter().flatten() {
                drive.erase().context(|| format!("cannot erase {shown}"))?;
            }
        }
        let mut report = Report::default();
        report.row("drive", shown.as_str(), shown.as_str());
        describe(&mut report, &title(&drive), &geometry);
        report.row(
            "layout",
            layout.map_or("none: it is blank", Layout::name),
            layout.map(Layout::name),
        );
        if let Some(path) = &self.flash {
            let path = path.display().to_string();
            report.row("flash drive", path.as_str(), path.as_str());
        }
        let drives = Drives::from(disk);
        let drives = match flash {
            Some(flash) => drives.with_flash(flash.disk()),
            None => drives,
        };
        let format_id = self.seed.unwrap_or_else(entropy_u64);
        match layout {
            None => {}
            Some(layout) if self.no_store => {
                format_files(drives, layout, self.table_len, format_id, &shown)?;
            }
            Some(layout) => format(drives, layout, format_id, &shown)?,
        }
        session.out.report(&report)
    }

    fn check_flash(&self, layout: Option<Layout>, shown: &str) -> Result<(), CliError> {
        let wanted = layout.filter(|layout| layout.takes_flash());
        let why = match (wanted, &self.flash) {
            (Some(layout), _) if self.no_store => format!(
                "{layout} takes a flash drive, which the databases of `imbrex run` know nothing of; choose another \
                 layout, or leave --no-store away"
            ),
            (Some(layout), None) => {
                format!("{layout} takes a flash drive beside the drive; --flash DRIVE names it")
            }
            (None, Some(_)) => {
                let holds = layout.map_or("a blank drive", Layout::name);
                format!("{holds} has no use for a flash drive; leave --flash away")
            }
            _ => return Ok(()),
        };
        Err(CliError::usage(format!("cannot format {shown}: {why}")))
    }

    fn check_blank(&self, drive: &FoundDrive, path: &Path) -> Result<(), CliError> {
        if self.erase {
            return Ok(());
        }
        let shown = path.display();
        match written(&*drive.disk()).context(|| format!("cannot read {shown}"))? {
            None => Ok(()),
            Some(what) => Err(CliError::new(
                Exit::Store,
                format!(
                    "cannot format {shown}: {what}; with --erase it is formatted, and what it holds is lost"
                ),
            )),
        }
    }
}

/// What a drive is called.
pub(super) fn title(drive: &FoundDrive) -> String {
    match drive {
        FoundDrive::Device(device) if device.model().is_empty() => "a block device".to_owned(),
        FoundDrive::Device(device) => device.model().to_owned(),
        FoundDrive::Image(image) => match image.image() {
            Some(image) if !image.profile_name.is_empty() => {
                imbrex_bench::read_profile(&image.profile_name)
                    .map_or_else(|_| image.profile_name.clone(), |p| p.title().to_owned())
            }
            _ => "emulated, without timing".to_owned(),
        },
    }
}
