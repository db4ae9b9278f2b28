//! The drives of a testbed: a user's images or devices, or emulated drives made for the run.

use super::TestbedPlan;
use crate::error::BenchError;
use crate::options::{Mode, TestbedOptions};
use crate::profile_choice::{DriveShape, flash_profile, layout_for};
use imbrex::stack::{Drives, FoundDrive, Layout};
use imbrex_clockwork::{Order, Runtime, VirtualWorld};
use imbrex_disk::{Disk, Geometry};
use imbrex_disk_sim::{OpenOptions, Profile, SimDisk};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The origin of the drives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// Created for this run, in memory.
    Memory,
    /// Created for this run, in files that remain.
    NewImages(Vec<PathBuf>),
    /// They existed before.
    UsersImage,
}

impl Origin {
    /// Removes the files created for this run. The drives must be closed.
    pub(super) fn remove(&self) -> Result<(), BenchError> {
        let Origin::NewImages(paths) = self else { return Ok(()) };
        let remove = |path: &PathBuf| {
            std::fs::remove_file(path).map_err(|source| failed(&path.display().to_string(), source))
        };
        paths.iter().try_for_each(remove)
    }
}

/// A drive, its flash drive if the layout has one, and their origin.
pub(super) struct TestbedDrives {
    pub(super) name: String,
    pub(super) origin: Origin,
    pub(super) geometry: Geometry,
    pub(super) drives: Drives,
}

impl TestbedDrives {
    pub(super) fn new(
        plan: TestbedPlan<'_>,
        layout: Option<Layout>,
        runtime: &Runtime,
    ) -> Result<TestbedDrives, BenchError> {
        let name = plan.options.drive.as_deref();
        match name.filter(|name| Path::new(name).exists() && !name.ends_with(".toml")) {
            Some(image) => users(plan, image, runtime),
            None => made(plan, layout, runtime),
        }
    }
}

fn users(
    plan: TestbedPlan<'_>,
    image: &str,
    runtime: &Runtime,
) -> Result<TestbedDrives, BenchError> {
    let options = plan.options;
    let is_shaped = options.shape != DriveShape::default() || options.flash_size.is_some();
    if options.image.is_some() || is_shaped {
        return Err(BenchError::Options(format!(
            "{image} is an existing drive: --image, and the flags that shape a new drive (--rule, \
             --capacity, --flash-size and so on), need the name of a profile instead"
        )));
    }
    let open = |path: &Path| {
        let how =
            OpenOptions::default().clock(Arc::clone(&runtime.clock)).mechanics(options.mechanics);
        match FoundDrive::open(path, how).map_err(|source| BenchError::Open { source })? {
            FoundDrive::Device(_) if plan.mode == Mode::Virtual => {
                Err(BenchError::Options(format!(
                    "{} is a real drive, which has its own time: use --mode threads",
                    path.display()
                )))
            }
            found => Ok(found.disk()),
        }
    };
    let disk = open(Path::new(image))?;
    let geometry = *disk.geometry();
    let mut drives = Drives::from(disk);
    if let Some(flash) = &options.flash {
        drives = drives.with_flash(open(flash)?);
    }
    Ok(TestbedDrives { name: image.to_owned(), origin: Origin::UsersImage, geometry, drives })
}

fn made(
    plan: TestbedPlan<'_>,
    layout: Option<Layout>,
    runtime: &Runtime,
) -> Result<TestbedDrives, BenchError> {
    let options = plan.options;
    let profile = options.shape.profile(options.drive.as_deref(), layout)?;
    let geometry = profile.geometry();
    let layout = layout_for(&geometry, layout)?;
    check_flash(options, layout)?;
    let flash = flash_profile(layout, &geometry, options.flash_size)?;
    let name = profile.name().to_owned();
    let mut images = Vec::new();
    let mut make = |profile: Profile, image: Option<&PathBuf>, seed| {
        let name = profile.name().to_owned();
        let builder = SimDisk::builder(profile.geometry())
            .profile(profile)
            .mechanics(options.mechanics)
            .clock(Arc::clone(&runtime.clock));
        let Some(path) = image else { return builder.memory().map_err(|e| failed(&name, e)) };
        let disk = builder.create_image(path, "bench", seed).map_err(|e| failed(&name, e))?;
        images.push(path.clone());
        Ok(disk)
    };
    let made = make(profile, options.image.as_ref(), plan.seed).and_then(|disk| {
        let drives = Drives::from(Arc::new(disk) as Arc<dyn Disk>);
        // An id other than the drive's.
        let flash =
            flash.map(|flash| make(flash, options.flash.as_ref(), !plan.seed)).transpose()?;
        Ok(match flash {
            Some(flash) => drives.with_flash(Arc::new(flash)),
            None => drives,
        })
    });
    let origin = if images.is_empty() { Origin::Memory } else { Origin::NewImages(images) };
    match made {
        Ok(drives) => Ok(TestbedDrives { name, origin, geometry, drives }),
        Err(error) => {
            // The first of two files is ours and still empty.
            origin.remove()?;
            Err(error)
        }
    }
}

/// A new flash drive is kept where the drive is: both in memory or both in files.
fn check_flash(options: &TestbedOptions, layout: Layout) -> Result<(), BenchError> {
    let refused = |text: String| Err(BenchError::Options(text));
    match (&options.flash, &options.image) {
        (Some(_), _) if !layout.takes_flash() => {
            refused(format!("{layout} has no use for a flash drive; omit --flash"))
        }
        _ if options.flash_size.is_some() && !layout.takes_flash() => {
            refused(format!("{layout} has no use for a flash drive; omit --flash-size"))
        }
        (Some(_), None) => refused(
            "--flash is for a drive in a file; the flash drive of one in memory is in memory too"
                .into(),
        ),
        (None, Some(_)) if layout.takes_flash() => refused(format!(
            "{layout} needs a flash drive, which must stay with the drive in --image; pass --flash \
             FILE"
        )),
        _ => Ok(()),
    }
}

/// An empty drive in memory with its mechanics and its own clock.
pub(crate) fn bare_drive(
    options: &TestbedOptions,
) -> Result<(SimDisk, Arc<VirtualWorld>), BenchError> {
    let (runtime, world) = Runtime::virtual_time(Order::SmallestTime);
    let profile = options.shape.profile(options.drive.as_deref(), None)?;
    let name = profile.name().to_owned();
    let disk = SimDisk::builder(profile.geometry())
        .profile(profile)
        .clock(runtime.clock)
        .memory()
        .map_err(|e| failed(&name, e))?;
    Ok((disk, world))
}

fn failed(drive: &str, source: impl std::error::Error + Send + Sync + 'static) -> BenchError {
    BenchError::Drive { drive: drive.to_owned(), source: Box::new(source) }
}
