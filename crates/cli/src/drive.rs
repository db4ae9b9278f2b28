//! `drive create`, `info`, `bench` and `zones`: the emulated drive itself.

use crate::Session;
use crate::byte_size::{ByteSize, grouped};
use crate::error::{CliError, Context, Exit};
use crate::output::{Report, Table};
use crate::store::{open_disk, open_files, options};
use crate::zones::{ZoneMap, svg, text};
use clap::Subcommand;
use imbrex::Db;
use imbrex_clockwork::{Runtime, entropy_u64};
use imbrex_disk::{Disk, Geometry};
use imbrex_disk_sim::{Profile, SimDisk, measure};
use imbrex_files::{FileLayer, FilesError, FormatOptions, PlacementKind};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Debug, Subcommand)]
pub(crate) enum DriveCommand {
    /// Make an emulated drive with an empty store on it, in one sparse file
    Create(CreateArgs),
    /// Describe a drive: profile, geometry, space
    Info(InfoArgs),
    /// Measure a drive profile in modelled time, beside the real drive's published figures
    Bench(BenchArgs),
    /// Draw the drive: each zone's state, fill and level
    Zones(ZonesArgs),
}

impl DriveCommand {
    pub(crate) fn run(self, session: &mut Session) -> Result<(), CliError> {
        match self {
            DriveCommand::Create(args) => args.run(session),
            DriveCommand::Info(args) => args.run(session),
            DriveCommand::Bench(args) => args.run(session),
            DriveCommand::Zones(args) => args.run(session),
        }
    }
}

/// Arguments of `imbrex drive create`.
#[derive(clap::Args, Debug)]
pub(crate) struct CreateArgs {
    /// Where to make the image; nothing may be there yet
    path: PathBuf,
    /// The drive to emulate: hc620, st13125nm007, st1000dm003, or a profile of your own (TOML)
    #[arg(long, default_value = "hc620", value_name = "NAME|FILE")]
    profile: String,
    /// A smaller drive of the same make; without it the full length of the real one
    #[arg(long, value_name = "SIZE")]
    capacity: Option<ByteSize>,
    /// Other zones than the real drive's, for small drives
    #[arg(long, value_name = "SIZE")]
    zone_len: Option<ByteSize>,
    /// How files are placed: zone-per-level, log-structured, first-fit; without it what suits the
    /// drive
    #[arg(long, value_name = "NAME")]
    layout: Option<String>,
    /// Do not model how long the drive takes
    #[arg(long)]
    no_timing: bool,
    /// Decides the image's id and the format's, so that the same command makes the same image;
    /// without it both are drawn from the operating system
    #[arg(long)]
    seed: Option<u64>,
}

impl CreateArgs {
    fn run(self, session: &mut Session) -> Result<(), CliError> {
        let profile = self.scaled_profile()?;
        let geometry = profile.geometry();
        let layout = match &self.layout {
            Some(name) => PlacementKind::by_name(name).ok_or_else(|| {
                let known: Vec<_> = PlacementKind::names().collect();
                CliError::usage(format!("no layout {name:?}; there are {}", known.join(", ")))
            })?,
            None => default_layout(&geometry)?,
        };
        let shown = self.path.display().to_string();
        let parent = self.path.parent().filter(|parent| !parent.as_os_str().is_empty());
        if let Some(parent) = parent.filter(|parent| !parent.is_dir()) {
            let parent = parent.display();
            let message =
                format!("cannot create drive: {shown}: {parent} is no directory; make it");
            return Err(CliError::new(Exit::Store, message));
        }
        let mut builder = SimDisk::builder(geometry);
        if !self.no_timing {
            builder = builder.profile(profile.clone());
        }
        let seed = self.seed.unwrap_or_else(entropy_u64);
        let disk = builder.create_image(&self.path, "", seed).context(|| "cannot create drive")?;
        if let Err(error) = format(Arc::new(disk), layout, seed, &shown) {
            // The file is ours and holds nothing yet.
            let _ = std::fs::remove_file(&self.path);
            return Err(error);
        }
        let mut report = Report::default();
        report.row("drive", shown.as_str(), shown.as_str());
        describe(&mut report, profile.title(), &geometry);
        report.row("layout", layout.to_string(), layout.to_string());
        session.out.report(&report)
    }

    fn scaled_profile(&self) -> Result<Profile, CliError> {
        let wrong =
            |error| CliError::usage(CliError::of("cannot create drive", &error).to_string());
        let mut profile = profile(&self.profile)?;
        if let Some(ByteSize(len_bytes)) = self.zone_len {
            let len = imbrex_disk::Blocks::holding(len_bytes);
            profile = profile.with_zone_len(len).map_err(wrong)?;
        }
        match self.capacity {
            Some(ByteSize(len_bytes)) => profile.scaled(len_bytes).map_err(wrong),
            None => Ok(profile),
        }
    }
}

/// The layout that suits a drive: by level where there are zones to tell levels apart.
fn default_layout(geometry: &Geometry) -> Result<PlacementKind, CliError> {
    let name = if geometry.zones().is_some() { "zone-per-level" } else { "first-fit" };
    PlacementKind::by_name(name)
        .ok_or_else(|| CliError::usage(format!("layout {name:?} is missing; choose with --layout")))
}

/// A profile by name, or from a TOML file.
pub(crate) fn profile(name: &str) -> Result<Profile, CliError> {
    let wrong = |error| CliError::usage(CliError::of("cannot use profile", &error).to_string());
    if !name.ends_with(".toml") {
        return Profile::by_name(name).map_err(wrong);
    }
    let text = std::fs::read_to_string(name).context(|| format!("cannot read profile {name}"))?;
    Profile::from_toml(&text).map_err(wrong)
}

/// An empty store on an empty drive.
fn format(
    disk: Arc<SimDisk>,
    placement: PlacementKind,
    format_id: u64,
    shown: &str,
) -> Result<(), CliError> {
    let runtime = Runtime::threads(1);
    let format = FormatOptions {
        layout_name: placement.to_string(),
        format_id,
        ..FormatOptions::new(placement)
    };
    let files =
        FileLayer::format(disk, &format, &runtime).context(|| format!("cannot format {shown}"))?;
    let options = options(&files);
    let db = Db::open(Arc::new(files), runtime, options)
        .context(|| format!("cannot make a store on {shown}"))?;
    db.close().context(|| format!("cannot make a store on {shown}"))
}

fn describe(report: &mut Report, title: &str, geometry: &Geometry) {
    report.row("model", title, title);
    let len_bytes = geometry.len().bytes();
    report.row("capacity", ByteSize(len_bytes).to_string(), len_bytes);
    report.row("recording", geometry.rule().name(), geometry.rule().name());
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
    /// The drive image
    drive: PathBuf,
}

impl InfoArgs {
    fn run(self, session: &mut Session) -> Result<(), CliError> {
        session.out.is_json()?;
        let shown = self.drive.display().to_string();
        let disk = Arc::new(open_disk(&self.drive)?);
        let mut report = Report::default();
        report.row("drive", shown.as_str(), shown.as_str());
        let image = disk.image().cloned();
        let title = match &image {
            Some(image) if !image.profile_name.is_empty() => profile(&image.profile_name)
                .map_or_else(|_| image.profile_name.clone(), |p| p.title().to_owned()),
            _ => "emulated, without timing".to_owned(),
        };
        describe(&mut report, &title, disk.geometry());
        if let Some(image) = &image {
            let id = format!("{:016x}", image.image_id);
            report.row("image id", id.as_str(), id.as_str());
        }
        let stored_bytes = disk.stored_bytes().context(|| format!("cannot measure {shown}"))?;
        report.row("on the host", ByteSize(stored_bytes).to_string(), stored_bytes);
        let runtime = Runtime::threads(1);
        let files = open_files(&self.drive, &disk, &runtime)?;
        report.row("layout", files.placement_name(), files.placement_name());
        space(&mut report, &files);
        session.out.report(&report)
    }
}

/// How the space is used.
pub(crate) fn space(report: &mut Report, files: &FileLayer) {
    use imbrex_files::Files;
    let space = files.space();
    report.section("space");
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
    /// hc620, st13125nm007, st1000dm003, or a TOML file
    #[arg(default_value = "hc620", value_name = "PROFILE")]
    profile: String,
}

impl BenchArgs {
    fn run(self, session: &mut Session) -> Result<(), CliError> {
        let is_json = session.out.is_json()?;
        let profile = profile(&self.profile)?;
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
    /// The drive image
    drive: PathBuf,
    /// Write the picture to this file, as SVG
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

impl ZonesArgs {
    fn run(self, session: &mut Session) -> Result<(), CliError> {
        let is_json = session.out.is_json()?;
        let disk = Arc::new(open_disk(&self.drive)?);
        let files = match FileLayer::open(Arc::clone(&disk) as _, &Runtime::threads(1)) {
            Ok(files) => Some(files),
            // The drive itself can still be drawn.
            Err(FilesError::NotFormatted { .. }) => None,
            Err(error) => {
                let what = format!("cannot open the files on {}", self.drive.display());
                return Err(CliError::of(what, &error));
            }
        };
        let map = |cell_count_max| match &files {
            Some(files) => map(&disk, files, cell_count_max),
            None => ZoneMap::of_report(disk.geometry(), &disk.report_zones(), cell_count_max),
        };
        if let Some(path) = &self.svg {
            write_svg(path, &self.drive, &disk, &map(svg::CELL_COUNT_MAX))?;
            return session.out.line(format!("{}: written", path.display()));
        }
        if is_json {
            return session.out.json(&zones_json(&map(usize::MAX)));
        }
        session.out.bytes(text::draw(&map(text::CELL_COUNT_MAX)).as_bytes())
    }
}

/// The picture of an open drive.
pub(crate) fn map(disk: &SimDisk, files: &FileLayer, cell_count_max: usize) -> ZoneMap {
    ZoneMap::of_files(disk.geometry(), &files.zone_map(), cell_count_max)
}

pub(crate) fn write_svg(
    path: &Path,
    drive: &Path,
    disk: &SimDisk,
    map: &ZoneMap,
) -> Result<(), CliError> {
    let title = drive.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
    let model = match disk.image() {
        Some(image) if !image.profile_name.is_empty() => image.profile_name.as_str(),
        _ => "emulated",
    };
    let subtitle = format!("{model}, {}", ByteSize(disk.geometry().len().bytes()));
    let text = svg::draw(map, &title, &subtitle);
    std::fs::write(path, text).context(|| format!("cannot write {}", path.display()))
}

fn zones_json(map: &ZoneMap) -> serde_json::Value {
    let zones: Vec<_> = map
        .cells
        .iter()
        .map(|cell| {
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
            })
        })
        .collect();
    json!({ "zone_len_bytes": map.zone_len_bytes, "zones": zones })
}
