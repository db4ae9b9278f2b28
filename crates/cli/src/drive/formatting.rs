//! `drive format`: makes an empty store, room for another database, or a blank drive, on an existing drive.

use super::content::{self, NewContent};
use super::describe;
use crate::error::CliError;
use crate::output::Report;
use crate::session::Session;
use imbrex::emulated::read_profile;
use imbrex::fitting::refused;
use imbrex::stack::{DrivePaths, Erase, FlashPath, FoundDrive, Occupied, causes};
use imbrex_clockwork::{Runtime, entropy_u64};
use imbrex_disk::Geometry;
use std::path::PathBuf;

/// Arguments of `imbrex drive format`.
#[derive(clap::Args, Debug)]
pub(crate) struct FormatArgs {
    /// The drive: a block device such as /dev/sdb, zoned or conventional, or a drive image
    #[arg(value_name = "DRIVE")]
    drive: PathBuf,
    #[command(flatten)]
    content: NewContent,
    /// The flash drive, if the layout has one: a conventional block device or a drive image
    #[arg(long, value_name = "DRIVE")]
    flash: Option<PathBuf>,
    /// Format a drive that is not blank: its content is lost. What another program has put there, such as
    /// a file system or a partition table, is erased only by its name: --erase=ext4
    #[arg(long, value_name = "CONTENT", num_args = 0.., require_equals = true, value_delimiter = ',')]
    erase: Option<Vec<String>>,
    /// Seed for the id of the format, for drive images only: the same seed gives the same image
    /// [default: random]
    #[arg(long)]
    seed: Option<u64>,
}

impl FormatArgs {
    pub(super) fn run(self, session: &mut Session) -> Result<(), CliError> {
        session.out.is_json()?;
        let runtime = Runtime::threads(1);
        let flash = self.flash.clone().map_or(FlashPath::NotNamed, FlashPath::At);
        let found = DrivePaths { flash, ..DrivePaths::of(&self.drive) }.find()?;
        let geometry = *found.main().disk().geometry();
        let format_id = self.seed.unwrap_or_else(entropy_u64);
        let trial = |geometry: &Geometry| self.content.try_on(&self.drive, geometry, None);
        let asked = self.content.asked()?;
        let advised = |error| refused(&self.drive, &geometry, asked, error, &trial);
        let formatting = self.content.formatting(&self.drive, &geometry, format_id);
        let formatting = formatting.map_err(advised)?;
        let formatting = formatting.as_ref();
        let how = "name it with --flash DRIVE";
        self.content.check_flash(formatting, self.flash.as_deref(), &self.drive, how)?;
        // Erasing leaves old data on most of the platter. With the same id, recovery would take the log of the
        // old store for the new one's.
        let shown = self.drive.display().to_string();
        if self.seed.is_some() && found.all().any(|drive| matches!(drive, FoundDrive::Device(_))) {
            return Err(CliError::usage(format!(
                "cannot format {shown}: --seed is for drive images; a real drive gets a new random id each time; omit \
                 --seed"
            )));
        }
        let erase = match &self.erase {
            None => Erase::Nothing,
            Some(names) if names.is_empty() => Erase::Own,
            Some(names) => Erase::Named(names.clone()),
        };
        let rehearsed = |copies| self.content.rehearse(formatting, copies).map_err(advised);
        let drives = found.blank(&erase, rehearsed);
        let drives = drives.map_err(|error| {
            let occupied = causes(&error).find_map(|cause| cause.downcast_ref::<Occupied>());
            let hint = occupied.map(|occupied| match occupied.name {
                Some(name) => format!("--erase={name} erases it"),
                None => "--erase erases it".to_owned(),
            });
            let error = CliError::from(error);
            match hint {
                Some(hint) => error.with_hint(hint),
                None => error,
            }
        })?;
        self.content.make(formatting, drives, &runtime)?;
        let mut report = Report::default();
        report.row("drive", shown.as_str(), shown.as_str());
        describe(&mut report, &title(found.main()), &geometry);
        let layout = formatting.map(|formatting| formatting.layout);
        content::describe(&mut report, layout, self.flash.as_deref());
        session.out.report(&report)
    }
}

/// The name of a drive's model.
pub(super) fn title(drive: &FoundDrive) -> String {
    match drive {
        FoundDrive::Device(device) if device.model().is_empty() => "a block device".to_owned(),
        FoundDrive::Device(device) => device.model().to_owned(),
        FoundDrive::Image(image) => match image.image() {
            Some(image) if !image.profile_name.is_empty() => read_profile(&image.profile_name)
                .map_or_else(|_| image.profile_name.clone(), |p| p.title().to_owned()),
            _ => "emulated, without timing".to_owned(),
        },
    }
}
