//! `drive create`, `list`, `format`, `info`, `bench` and `zones`: commands about the drive itself.

mod content;
mod formatting;
mod listing;

use self::content::NewContent;
use crate::count::grouped;
use crate::device;
use crate::error::{CliError, Context};
use crate::output::{Report, Table, note};
use crate::parts::Parts;
use crate::session::Session;
use crate::store::ReadDriveArgs;
use crate::target::Target;
use crate::zones::parts::ZoneParts;
use crate::zones::{ZoneMap, svg, text};
use clap::Subcommand;
use imbrex::fitting::{Fitted, Trial};
use imbrex::stack::{
    Content, Formatting, FoundDrive, Layout, LayoutError, Mounted, NewImage, Unmounted,
    create_images,
};
use imbrex_bench::BenchError;
use imbrex_bench::profile_choice::{DriveShape, flash_profile, read_profile};
use imbrex_clockwork::{Clock, Runtime, StillClock, entropy_u64};
use imbrex_disk::ByteSize;
use imbrex_disk::{Disk, Geometry, Rule};
use imbrex_disk_host::is_block_device;
use imbrex_disk_sim::{Profile, measure};
use imbrex_files::tiers::TierStats;
use imbrex_files::{FileLayer, Files, FilesError, SpaceUse};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Debug, Subcommand)]
pub(crate) enum DriveCommand {
    /// Create an emulated drive with an empty store, in one sparse file
    Create(CreateArgs),
    /// List the block devices of this machine: what each one is, and whether it can be used
    List(listing::ListArgs),
    /// Make an empty store on an existing drive, such as a block device of this machine
    Format(formatting::FormatArgs),
    /// Describe a drive: model, geometry, layout, used space
    Info(InfoArgs),
    /// Measure a drive profile in modelled time, and compare it with figures published for the real drive
    Bench(BenchArgs),
    /// Draw the zones of a drive: state, fill and content of each
    Zones(ZonesArgs),
}

impl DriveCommand {
    pub(crate) fn run(self, session: &mut Session) -> Result<(), CliError> {
        match self {
            DriveCommand::Create(args) => args.run(session),
            DriveCommand::List(args) => args.run(session),
            DriveCommand::Format(args) => args.run(session),
            DriveCommand::Info(args) => args.run(session),
            DriveCommand::Bench(args) => args.run(session),
            DriveCommand::Zones(args) => args.run(session),
        }
    }
}

/// How the errors of `drive create` begin.
const WHAT: &str = "cannot create drive";

/// Arguments of `imbrex drive create`.
#[derive(clap::Args, Debug)]
pub(crate) struct CreateArgs {
    /// The image file to create; nothing may exist at this path
    path: PathBuf,
    /// The drive to emulate: hc620, hc690, st13125nm007, st20000nm007d, st1000dm003, st500dm002, ssd120, or a
    /// TOML file with a profile of your own [default: hc620, or the profile that suits --layout]
    #[arg(long, value_name = "NAME|FILE")]
    profile: Option<String>,
    #[command(flatten)]
    shape: DriveShape,
    #[command(flatten)]
    content: NewContent,
    /// Do not model the time that the drive takes
    #[arg(long)]
    no_timing: bool,
    /// The image file to create for the flash drive, if the layout has one; nothing may exist at this
    /// path
    #[arg(long, value_name = "FILE")]
    flash: Option<PathBuf>,
    /// Capacity of the flash drive, such as 64GiB [default: 1/200 of the drive, plus room for some logs]
    #[arg(long, value_name = "SIZE", requires = "flash")]
    flash_size: Option<ByteSize>,
    /// Seed for the ids of the image and its format: the same command and seed create the same image
    /// [default: random]
    #[arg(long)]
    seed: Option<u64>,
}

impl CreateArgs {
    fn run(self, session: &mut Session) -> Result<(), CliError> {
        session.out.is_json()?;
        let asked = self.content.asked()?;
        let shown = self.path.display().to_string();
        if is_block_device(&self.path).unwrap_or(false) {
            return Err(CliError::usage(format!(
                "cannot create {shown}: it is a block device; `imbrex drive format {shown}` makes a store on it"
            )));
        }
        let Fitted { profile, shortened_from } = self.fitted(asked)?;
        let geometry = profile.geometry();
        let seed = self.seed.unwrap_or_else(entropy_u64);
        let formatting = self.content.formatting(&self.path, &geometry, seed)?;
        let flash_profile = self.flash_profile(formatting.as_ref(), &geometry)?;
        let title = profile.title().to_owned();
        let is_timed = !self.no_timing;
        let main = NewImage { path: &self.path, profile, is_timed, seed };
        let flash = self.flash.as_deref().zip(flash_profile);
        // The flash drive's id must differ from the drive's.
        let flash = flash.map(|(path, profile)| NewImage { path, profile, is_timed, seed: !seed });
        let runtime = Runtime::threads(1);
        let clock: Arc<dyn Clock> = Arc::new(StillClock);
        create_images(&main, flash.as_ref(), &clock, |drives| {
            self.content.make(formatting.as_ref(), drives, &runtime)
        })?;
        let layout = formatting.map(|formatting| formatting.layout);
        let mut report = Report::default();
        report.row("drive", shown.as_str(), shown.as_str());
        describe(&mut report, &title, &geometry);
        content::describe(&mut report, layout, self.flash.as_deref());
        session.out.report(&report)?;
        if let (Some(usual), Some(zones)) = (shortened_from, geometry.zones()) {
            note(format!(
                "imbrex: note: zones of {} instead of {}, because the drive would have too few; --zone-len sets a length",
                ByteSize(zones.zone_len.bytes()),
                ByteSize(usual.bytes()),
            ));
        }
        Ok(())
    }

    /// The drive that the user describes, with zones short enough for its content.
    fn fitted(&self, asked: Option<Layout>) -> Result<Fitted, CliError> {
        let (name, path) = (self.profile.as_deref(), &*self.path);
        // Flags that contradict each other are named as flags.
        let whole = DriveShape { capacity: None, ..self.shape.clone() };
        let whole = whole.profile(name, asked).map_err(wrong)?.geometry();
        let formatting = self.content.formatting(path, &whole, 0)?;
        self.flash_profile(formatting.as_ref(), &whole)?;
        let flash_bytes = self.flash_size.as_ref().map(|size| size.0);
        let trial = |geometry: &Geometry| self.content.try_on(path, geometry, flash_bytes);
        let trial: Option<&Trial<'_>> = if self.content.is_blank() { None } else { Some(&trial) };
        Ok(self.shape.shape().fitted(name, asked, path, trial)?)
    }

    /// The profile of the flash drive, if the layout has one.
    fn flash_profile(
        &self,
        formatting: Option<&Formatting>,
        geometry: &Geometry,
    ) -> Result<Option<Profile>, CliError> {
        let flash = self.flash.as_deref();
        let how = "--flash FILE names the image to create";
        self.content.check_flash(formatting, flash, &self.path, how)?;
        match (formatting, flash) {
            (Some(formatting), Some(_)) => {
                flash_profile(formatting.layout, geometry, self.flash_size).map_err(wrong)
            }
            _ => Ok(None),
        }
    }
}

/// The error of a command line that describes an impossible drive.
fn wrong(error: BenchError) -> CliError {
    CliError::usage(CliError::of(WHAT, &error).to_string())
}

fn describe(report: &mut Report, title: &str, geometry: &Geometry) {
    report.row("model", title, title);
    let len_bytes = geometry.len().bytes();
    report.row("capacity", ByteSize(len_bytes).to_string(), len_bytes);
    report.row("recording", geometry.rule().name(), geometry.rule().name());
    if let Rule::IsolationDistance(tracks) = geometry.rule() {
        let track_len_bytes = tracks.track_len.bytes();
        let overlap_bytes = track_len_bytes * u64::from(tracks.overlap_tracks);
        report.row(
            "tracks",
            format!(
                "of {}; a write destroys the next {} tracks, {}",
                ByteSize(track_len_bytes),
                tracks.overlap_tracks,
                ByteSize(overlap_bytes)
            ),
            json!({ "len_bytes": track_len_bytes, "overlap_count": tracks.overlap_tracks }),
        );
    }
    if let Some(tracks) = geometry.interlaced() {
        let (bottom, top) = (tracks.bottom_track_len.bytes(), tracks.top_track_len.bytes());
        report.row(
            "tracks",
            format!(
                "bottom tracks of {}, top tracks of {}; a write to a bottom track destroys its two \
                 neighbours",
                ByteSize(bottom),
                ByteSize(top)
            ),
            json!({ "bottom_len_bytes": bottom, "top_len_bytes": top }),
        );
    }
    let Some(zones) = geometry.zones() else { return };
    let zone_count = u64::from(geometry.zone_count());
    let zone_len_bytes = zones.zone_len.bytes();
    report.row(
        "zones",
        format!(
            "{} of {}, {} of them conventional",
            grouped(zone_count),
            ByteSize(zone_len_bytes),
            grouped(u64::from(zones.conventional_zone_count))
        ),
        json!({
            "count": zone_count,
            "len_bytes": zone_len_bytes,
            "capacity_bytes": zones.zone_capacity.bytes(),
            "conventional_count": zones.conventional_zone_count,
        }),
    );
    let limit = zones.open_zone_limit;
    let shown = limit.map_or("none".to_owned(), |limit| limit.to_string());
    report.row("open zone limit", shown, json!(limit));
}

/// Arguments of `imbrex drive info`.
#[derive(clap::Args, Debug)]
pub(crate) struct InfoArgs {
    #[command(flatten)]
    drive: ReadDriveArgs,
}

impl InfoArgs {
    fn run(self, session: &mut Session) -> Result<(), CliError> {
        session.out.is_json()?;
        let shown = self.drive.shown();
        let (found, mounted) = self.drive.mount(&Runtime::threads(1))?;
        let drive = found.main();
        let mut report = Report::default();
        report.row("drive", shown.as_str(), shown.as_str());
        describe(&mut report, &formatting::title(drive), drive.disk().geometry());
        if let FoundDrive::Image(image) = drive {
            if let Some(image) = image.image() {
                let id = format!("{:016x}", image.image_id);
                report.row("image id", id.as_str(), id.as_str());
            }
            let stored_bytes =
                image.stored_bytes().context(|| format!("cannot measure {shown}"))?;
            report.row("on the host", ByteSize(stored_bytes).to_string(), stored_bytes);
        }
        match mounted {
            Ok(mounted) => {
                let layout = mounted.layout;
                report.row("layout", layout.name(), layout.name());
                report.row("placement", layout.placement(), layout.placement());
                space(&mut report, &mounted.files);
                if let Some(stats) = mounted.tiers.and_then(|tiers| tiers.tier_stats()) {
                    flash_space(&mut report, &stats);
                }
                session.out.report(&report)
            }
            Err(unmounted) => {
                // The drive could be described although its files could not.
                let content = unmounted.content.map(Content::describe);
                content.iter().for_each(|what| report.row("holds", *what, *what));
                let told = session.out.report(&report);
                if content.is_some() { told } else { Err(self.drive.cannot_open(unmounted)) }
            }
        }
    }
}

/// The use of the drive's space.
pub(crate) fn space(report: &mut Report, files: &FileLayer) {
    report.section("space");
    space_rows(report, &files.space());
}

/// The use of the flash drive's space.
pub(crate) fn flash_space(report: &mut Report, stats: &TierStats) {
    report.section("flash");
    report.row("files", grouped(stats.file_count), stats.file_count);
    space_rows(report, &stats.space);
}

fn space_rows(report: &mut Report, space: &SpaceUse) {
    for (name, bytes) in [
        ("for files", space.capacity_bytes),
        ("live", space.live_bytes),
        ("dead", space.dead_bytes),
        ("free", space.free_bytes),
        ("reserve", space.reserve_bytes),
    ] {
        report.row(name, ByteSize(bytes).to_string(), bytes);
    }
}

/// Arguments of `imbrex drive bench`.
#[derive(clap::Args, Debug)]
pub(crate) struct BenchArgs {
    /// The profile to measure: hc620, hc690, st13125nm007, st20000nm007d, st1000dm003, st500dm002, ssd120, or
    /// a TOML file
    #[arg(default_value = "hc620", value_name = "PROFILE")]
    profile: String,
}

impl BenchArgs {
    fn run(self, session: &mut Session) -> Result<(), CliError> {
        let is_json = session.out.is_json()?;
        let profile = read_profile(&self.profile).map_err(|error| {
            CliError::usage(CliError::of("cannot use profile", &error).to_string())
        })?;
        let measured = measure(&profile).context(|| format!("cannot measure {}", self.profile))?;
        if is_json {
            let figures: Vec<_> = measured
                .figures
                .iter()
                .map(|figure| {
                    json!({
                        "workload": figure.workload.to_string(),
                        "unit": figure.workload.unit(),
                        "measured": figure.measured,
                        "published": figure.published,
                        "ratio": figure.ratio(),
                        "source": figure.source,
                    })
                })
                .collect();
            let title = measured.title;
            return session.out.json(&json!({
                "profile": measured.profile, "title": title, "figures": figures
            }));
        }
        session
            .out
            .line(format!("{}: {}, in modelled time\n", measured.profile, measured.title))?;
        let mut table =
            Table::new(&["workload", "measured", "published", "ratio", "unit", "source"]);
        for figure in &measured.figures {
            let or_dash = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
            table.row(vec![
                figure.workload.to_string(),
                format!("{:.1}", figure.measured),
                or_dash(figure.published.map(|value| format!("{value:.1}"))),
                or_dash(figure.ratio().map(|ratio| format!("{ratio:.2}"))),
                figure.workload.unit().to_owned(),
                or_dash(figure.source.clone()),
            ]);
        }
        session.out.bytes(table.text().as_bytes())
    }
}

/// Arguments of `imbrex drive zones`.
#[derive(clap::Args, Debug)]
pub(crate) struct ZonesArgs {
    #[command(flatten)]
    drive: ReadDriveArgs,
    /// Write the picture to this file, as SVG, and print nothing else
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// List each zone that is not empty: how much of it is live, and the parts of the store in it
    #[arg(long, conflicts_with = "svg")]
    each: bool,
}

impl ZonesArgs {
    fn run(self, session: &mut Session) -> Result<(), CliError> {
        let is_json = session.out.is_json()?;
        let svg = self.svg.as_deref().map(|path| Target::new(path, &self.drive.images()));
        let svg = svg.transpose()?;
        let (found, mounted) = self.drive.mount(&Runtime::threads(1))?;
        let disk = found.drives().main;
        let mut device = None;
        let mounted = match mounted {
            Ok(mounted) => Some(mounted),
            Err(unmounted) if unmounted.is_block_device() => {
                match device::open(Arc::clone(&disk), &self.drive.shown()) {
                    Ok(driver) => device = Some(driver.zones()),
                    Err(error) => {
                        note(format!(
                            "imbrex: warning: {error}; the picture shows the drive's own report of its zones"
                        ));
                    }
                }
                None
            }
            // The drive's own report can still be drawn.
            Err(unmounted) if unmounted.is_unformatted() || is_of_other_geometry(&unmounted) => {
                None
            }
            Err(unmounted) => return Err(self.drive.cannot_open(unmounted)),
        };
        let map = |cell_count_max| match &mounted {
            Some(mounted) => {
                let mut map = map(&*mounted.disk, &mounted.files, cell_count_max);
                let (drive, below) = (mounted.drive.geometry().rule(), mounted.disk.geometry());
                if drive != below.rule() {
                    let (drive, below) = (drive.name(), below.rule().name());
                    map.recording = format!("{below}, by translation over a {drive} drive");
                }
                map
            }
            None => match &device {
                Some(zones) => ZoneMap::of_device(disk.geometry(), zones, cell_count_max),
                None => ZoneMap::of_report(disk.geometry(), &disk.report_zones(), cell_count_max),
            },
        };
        if let (Some(target), Some(path)) = (svg, &self.svg) {
            write_svg(&target, &self.drive.drive, found.main(), &map(svg::CELL_COUNT_MAX))?;
            let shown = path.display().to_string();
            return if is_json {
                session.out.json(&json!({ "svg": shown }))
            } else {
                session.out.line(format!("{shown}: written"))
            };
        }
        let flash = |cell_count_max| flash_map(mounted.as_ref()?, cell_count_max);
        let parts = mounted.as_ref().and_then(parts_of_zones);
        if is_json {
            let mut zones = zones_json(&map(usize::MAX), parts.as_ref().map(|(_, parts)| parts));
            if let Some(flash) = flash(usize::MAX) {
                zones["flash"] = zones_json(&flash, None);
            }
            return session.out.json(&zones);
        }
        session.out.bytes(text::draw(&map(text::CELL_COUNT_MAX)).as_bytes())?;
        if let Some((parts, zones)) = &parts {
            print_parts(session, parts, zones, &map(usize::MAX), self.each)?;
        } else if self.each {
            note("imbrex: warning: without a store, no zone serves a part of one");
        }
        let Some(flash) = flash(text::CELL_COUNT_MAX) else { return Ok(()) };
        session.out.line("\nflash")?;
        session.out.bytes(text::draw(&flash).as_bytes())
    }
}

/// The parts of the store, and those in each zone of the main drive. Damaged records are a warning.
fn parts_of_zones(mounted: &Mounted) -> Option<(Parts, ZoneParts)> {
    let files = mounted.all_files();
    let parts = Parts::of(&*files).map_err(|error| note(format!("imbrex: warning: {error}")));
    let parts = parts.ok()?;
    let zones = ZoneParts::of(&mounted.files.zone_map(), &files.list(""), &parts);
    Some((parts, zones))
}

fn print_parts(
    session: &mut Session,
    parts: &Parts,
    zones: &ZoneParts,
    map: &ZoneMap,
    is_each: bool,
) -> Result<(), CliError> {
    if parts.has_partitions() {
        session.out.line("")?;
        session.out.bytes(zones.summary(&map.cells).as_bytes())?;
    }
    if is_each {
        session.out.line("")?;
        session.out.bytes(zones.lines(&map.cells).as_bytes())?;
    }
    Ok(())
}

fn is_of_other_geometry(unmounted: &Unmounted) -> bool {
    let LayoutError::Files { source, .. } = &*unmounted.source else { return false };
    matches!(source, FilesError::Geometry { .. })
}

/// The zone map of an open drive.
pub(crate) fn map(disk: &dyn Disk, files: &FileLayer, cell_count_max: usize) -> ZoneMap {
    let geometry = disk.geometry();
    ZoneMap::of_files(geometry, &files.zone_map(), cell_count_max)
        .with_lanes(geometry, &files.list(""))
}

/// The zone map of the flash drive, if there is one.
fn flash_map(mounted: &Mounted, cell_count_max: usize) -> Option<ZoneMap> {
    let flash = mounted.tiers.as_ref()?.flash()?;
    Some(map(&**flash.disk(), flash, cell_count_max))
}

pub(crate) fn write_svg(
    target: &Target,
    path: &Path,
    drive: &FoundDrive,
    map: &ZoneMap,
) -> Result<(), CliError> {
    let title = path.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
    let model = match drive {
        FoundDrive::Device(device) => device.model(),
        FoundDrive::Image(image) => match image.image() {
            Some(image) if !image.profile_name.is_empty() => image.profile_name.as_str(),
            _ => "emulated",
        },
    };
    let subtitle = format!("{model}, {}", ByteSize(drive.disk().geometry().len().bytes()));
    let text = svg::draw(map, &title, &subtitle);
    target.write(&text)
}

fn zones_json(map: &ZoneMap, parts: Option<&ZoneParts>) -> serde_json::Value {
    let zones: Vec<_> = map
        .cells
        .iter()
        .enumerate()
        .map(|(index, cell)| {
            let live: serde_json::Map<_, _> = cell
                .live_bytes
                .iter()
                .map(|(content, bytes)| (content.name().replace(' ', "_"), (*bytes).into()))
                .collect();
            json!({
                "zone": cell.zone,
                "state": cell.state.name(),
                "capacity_bytes": cell.capacity_bytes,
                "written_bytes": cell.written_bytes,
                "live_bytes": live,
                "dead_bytes": cell.dead_bytes(),
                "catalog": cell.has_catalog,
                "parts": parts.map(|parts| parts.json(index)),
            })
        })
        .collect();
    json!({ "zone_len_bytes": map.zone_len_bytes, "zones": zones })
}
