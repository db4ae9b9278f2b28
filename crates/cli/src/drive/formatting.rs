//! `drive format`: makes an empty store, room for another database, or a blank drive, on an existing drive.

use super::content::{self, Content};
use super::describe;
use crate::error::{CliError, Context, Exit};
use crate::output::Report;
use crate::session::Session;
use crate::store::open_drive;
use imbrex::stack::{Drives, FoundDrive, first_data};
use imbrex_clockwork::entropy_u64;
use imbrex_disk::{Disk, ZoneState};
use imbrex_disk_sim::{SimDisk, ZoneFailure};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Arguments of `imbrex drive format`.
#[derive(clap::Args, Debug)]
pub(crate) struct FormatArgs {
    /// The drive: a block device such as /dev/sdb, zoned or conventional, or a drive image
    #[arg(value_name = "DRIVE")]
    drive: PathBuf,
    #[command(flatten)]
    content: Content,
    /// The flash drive, if the layout has one: a conventional block device or a drive image
    #[arg(long, value_name = "DRIVE")]
    flash: Option<PathBuf>,
    /// Format a drive that is not blank: its content is lost
    #[arg(long)]
    erase: bool,
    /// Seed for the id of the format, for drive images only: the same seed gives the same image
    /// [default: random]
    #[arg(long)]
    seed: Option<u64>,
}

impl FormatArgs {
    pub(super) fn run(self, session: &mut Session) -> Result<(), CliError> {
        session.out.is_json()?;
        let shown = self.drive.display().to_string();
        let what = format!("cannot format {shown}");
        let drive = open_drive(&self.drive, None)?;
        let disk = drive.disk();
        let geometry = *disk.geometry();
        let layout = self.content.layout(&geometry, &what)?;
        let how = "name it with --flash DRIVE";
        self.content.check_flash(layout, self.flash.as_deref(), &what, how)?;
        let flash = self.flash.as_ref().map(|path| open_drive(path, None)).transpose()?;
        // No drive is written before both are known to be blank, or may be erased.
        self.check_blank(&drive, &self.drive)?;
        let both = [(Some(&drive), Some(&self.drive)), (flash.as_ref(), self.flash.as_ref())];
        let both = both.into_iter().filter_map(|(drive, path)| drive.zip(path));
        both.clone().try_for_each(|(drive, path)| self.check_blank(drive, path))?;
        // Erasing leaves old data on most of the platter. With the same id, recovery would take the log of the
        // old store for the new one's.
        if self.seed.is_some() && both.clone().any(|(d, _)| matches!(d, FoundDrive::Device(_))) {
            return Err(CliError::usage(format!(
                "{what}: --seed is for drive images; a real drive gets a new random id each time; omit --seed"
            )));
        }
        // The layout is first made on drives of the same shape in memory: a drive that is too small or lacks
        // zones is refused before anything is erased.
        let format_id = self.seed.unwrap_or_else(entropy_u64);
        let mut like = Drives::from(blank_like(&*disk, &what)?);
        if let Some(flash) = &flash {
            like = like.with_flash(blank_like(&*flash.disk(), &what)?);
        }
        self.content.make(like, layout, format_id, &shown)?;
        for (drive, path) in both.filter(|_| self.erase) {
            drive.erase().context(|| format!("cannot erase {}", path.display()))?;
        }
        let mut report = Report::default();
        report.row("drive", shown.as_str(), shown.as_str());
        describe(&mut report, &title(&drive), &geometry);
        content::describe(&mut report, layout, self.flash.as_deref());
        let drives = Drives::from(disk);
        let drives = match flash {
            Some(flash) => drives.with_flash(flash.disk()),
            None => drives,
        };
        self.content.make(drives, layout, format_id, &shown)?;
        session.out.report(&report)
    }

    fn check_blank(&self, drive: &FoundDrive, path: &Path) -> Result<(), CliError> {
        if self.erase {
            return Ok(());
        }
        let shown = path.display();
        match first_data(&*drive.disk()).context(|| format!("cannot read {shown}"))? {
            None => Ok(()),
            Some(what) => Err(CliError::new(
                Exit::Store,
                format!(
                    "cannot format {shown}: {what}; --erase formats it all the same, and its content is lost"
                ),
            )),
        }
    }
}

/// A blank drive in memory with the same geometry, and with the same zones read-only or offline.
fn blank_like(disk: &dyn Disk, what: &str) -> Result<Arc<SimDisk>, CliError> {
    let like = SimDisk::builder(*disk.geometry()).memory().context(|| what)?;
    for zone in disk.report_zones() {
        let failure = match zone.state {
            ZoneState::ReadOnly => ZoneFailure::ReadOnly,
            ZoneState::Offline => ZoneFailure::Offline,
            _ => continue,
        };
        like.fail_zone(zone.zone, failure).context(|| what)?;
    }
    Ok(Arc::new(like))
}

/// The name of a drive's model.
pub(super) fn title(drive: &FoundDrive) -> String {
    match drive {
        FoundDrive::Device(device) if device.model().is_empty() => "a block device".to_owned(),
        FoundDrive::Device(device) => device.model().to_owned(),
        FoundDrive::Image(image) => match image.image() {
            Some(image) if !image.profile_name.is_empty() => {
                imbrex_bench::profile_choice::read_profile(&image.profile_name)
                    .map_or_else(|_| image.profile_name.clone(), |p| p.title().to_owned())
            }
            _ => "emulated, without timing".to_owned(),
        },
    }
}
