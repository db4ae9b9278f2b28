//! The disk, the world and the weather of one run, which all targets share.

use crate::cuts::Cuts;
use crate::kill_switch::KillSwitch;
use crate::report::{Report, WorkCounts};
use crate::scenario::{Scenario, Target, UNIT_LEN};
use imbrex::stack::{Drives, LayoutError, Mounted, Recipe, mount};
use imbrex_clockwork::{Budget, Order, Prng, Runtime, VirtualWorld};
use imbrex_disk::{Blocks, Disk, Lba};
use imbrex_disk_sim::{FailAt, FaultPlan, PowerCycle, Profile, SimDisk, SimDiskBuilder};
use imbrex_files::tiers::TieredFiles;
use imbrex_files::{FileLayer, Files, FormatOptions, PlacementKind, PlacementOptions};
use imbrex_translate::FixedBands;
use std::collections::VecDeque;
use std::sync::Arc;

/// How many operations a failure prints.
const STORY_LEN: usize = 40;

/// What goes wrong in a life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weather {
    /// Nothing.
    Fair,
    /// The power fails after this many device events.
    PowerCut { after: u64 },
    /// One read fails, or all from then on.
    ReadError { after: u64, sticky: bool },
    /// One write fails, or all from then on.
    WriteError { after: u64, sticky: bool },
    /// One flush fails. The disk then refuses writes until it is reopened.
    FlushError { after: u64 },
}

/// Where the weather comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Forecast {
    /// The seed.
    Drawn,
    /// Always fair, for one life.
    Fair,
    /// Fair except for power cuts of all drives at once: in the first life, in the recovery after
    /// it, and in the life after that.
    Cuts(Cuts),
}

/// Which drives the weather affects, if there are two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Where {
    Main,
    Flash,
    Both,
}

impl Where {
    fn is_main(self) -> bool {
        self != Where::Flash
    }

    fn is_flash(self) -> bool {
        self != Where::Main
    }
}

/// How a life ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// In good order.
    Close,
    /// The process is killed; the disk lives on.
    Kill,
    /// The power fails.
    PowerCut,
}

/// A flash drive and the files of the pair, while open.
#[derive(Debug)]
struct Flash {
    disk: Arc<SimDisk>,
    kill_switch: Arc<KillSwitch>,
    files: Option<TieredFiles>,
}

/// One run.
#[derive(Debug)]
pub(crate) struct Rig {
    pub(crate) scenario: &'static Scenario,
    pub(crate) disk: Arc<SimDisk>,
    kill_switch: Arc<KillSwitch>,
    /// Its flash drive, in some layouts.
    flash: Option<Flash>,
    /// The layer between the disk and the files, in some layouts.
    bands: Option<Arc<FixedBands>>,
    pub(crate) runtime: Runtime,
    pub(crate) world: Arc<VirtualWorld>,
    /// Draws operations.
    pub(crate) prng: Prng,
    /// Draws faults, and what a power cut leaves.
    fault_prng: Prng,
    forecast: Forecast,
    weather: Weather,
    /// Where the weather is.
    whereabouts: Where,
    /// Whose events count for a power cut. With both, the first to reach the number.
    counted: Where,
    /// Device events of the first life, once it is over: of the drive and of flash.
    life_event_counts: Option<(u64, u64)>,
    /// What power cuts at device events took from the flash drive.
    flash_lost: Blocks,
    operation_count: u64,
    life_count: u64,
    power_cut_count: u64,
    io_error_count: u64,
    pub(crate) no_space_count: u64,
    pub(crate) cleaned_zone_count: u64,
    pub(crate) work: WorkCounts,
    story: VecDeque<String>,
}

impl Rig {
    pub(crate) fn new(scenario: &'static Scenario, seed: u64, forecast: Forecast) -> Rig {
        let root = Prng::new(seed);
        let mut setup = root.derive("setup");
        let order = Order::Seeded(root.derive("order"));
        let budget = Budget { io_bytes: 4096 << setup.below(9) };
        let world = Arc::new(VirtualWorld::with_budget(order, budget));
        let runtime = world.runtime();
        let sector_len_bytes = scenario.draw_sector_len(&mut root.derive("sectors"));
        // Not on interlaced tracks. If the header of a backup breaks, and a file has a block of
        // zeros in a top track, recovery cannot know whether that block was moved away. The drive
        // can then only be read.
        let may_break = scenario.geometry().interlaced().is_none();
        let breaks = root.derive("breaking sectors").chance(1, 2) && may_break;
        let with_sectors = |builder: SimDiskBuilder| {
            let builder = builder.sectors(sector_len_bytes);
            if breaks { builder.breaking_sectors() } else { builder }
        };
        let flash = scenario.flash_geometry().map(|geometry| {
            let disk = with_sectors(SimDisk::builder(geometry))
                .clock(Arc::clone(&runtime.clock))
                .profile(Profile::by_name("ssd120").expect("a profile of the simulator"))
                .write_cache(geometry.len())
                .event_log();
            let disk = Arc::new(disk.memory().expect("the rules of the scenarios are simulated"));
            Flash { kill_switch: Arc::new(KillSwitch::new(Arc::clone(&disk))), disk, files: None }
        });
        let geometry = scenario.draw_geometry(&mut root.derive("zones"));
        let disk = with_sectors(SimDisk::builder(geometry))
            .clock(Arc::clone(&runtime.clock))
            .profile(Profile::by_name("st1000dm003").expect("a profile of the simulator"))
            // As large as the disk: nothing is durable before its flush.
            .write_cache(if setup.chance(9, 10) { geometry.len() } else { Blocks::ZERO })
            .event_log()
            // On overlapping tracks, a write that would destroy valid data fails at once.
            .refuse_destroying()
            .memory()
            .expect("the rules of the scenarios are simulated");
        let disk = Arc::new(disk);
        Rig {
            scenario,
            kill_switch: Arc::new(KillSwitch::new(Arc::clone(&disk))),
            disk,
            flash,
            bands: None,
            runtime,
            world,
            prng: root.derive("operations"),
            fault_prng: root.derive("faults"),
            forecast,
            weather: Weather::Fair,
            whereabouts: Where::Main,
            counted: Where::Main,
            life_event_counts: None,
            flash_lost: Blocks::ZERO,
            operation_count: 0,
            life_count: 0,
            power_cut_count: 0,
            io_error_count: 0,
            no_space_count: 0,
            cleaned_zone_count: 0,
            work: WorkCounts::default(),
            story: VecDeque::with_capacity(STORY_LEN),
        }
    }

    /// The disk as a new process sees it.
    pub(crate) fn process_disk(&mut self) -> Arc<dyn Disk> {
        self.kill_switch = Arc::new(KillSwitch::new(Arc::clone(&self.disk)));
        Arc::clone(&self.kill_switch) as Arc<dyn Disk>
    }

    /// The drives as a new process sees them.
    fn drives(&mut self) -> Drives {
        let drives = Drives::from(self.process_disk());
        let Some(flash) = &mut self.flash else { return drives };
        flash.files = None;
        flash.kill_switch = Arc::new(KillSwitch::new(Arc::clone(&flash.disk)));
        let kill_switch = Arc::clone(&flash.kill_switch);
        self.tie();
        drives.with_flash(kill_switch as Arc<dyn Disk>)
    }

    /// Drives that both lose their power lose it at the same moment.
    fn tie(&self) {
        let Some(flash) = &self.flash else { return };
        let is_cut = matches!(self.weather, Weather::PowerCut { .. });
        let are_tied = is_cut && self.whereabouts == Where::Both;
        self.kill_switch.tie(are_tied.then(|| Arc::clone(&flash.disk)));
        flash.kill_switch.tie(are_tied.then(|| Arc::clone(&self.disk)));
    }

    /// All files, including those of the flash drive.
    pub(crate) fn all_files(&self, files: &FileLayer) -> Arc<dyn Files> {
        match self.flash.as_ref().and_then(|flash| flash.files.clone()) {
            Some(files) => Arc::new(files),
            None => Arc::new(files.clone()),
        }
    }

    /// Formats the disk for the scenario's layout or placement.
    pub(crate) fn format(&mut self) -> Result<(), String> {
        let recipe = self.default_recipe().or_else(|| self.scenario.recipe());
        if let Some((layout, recipe)) = self.scenario.layout.zip(recipe) {
            let formatted = layout.format_files(self.drives(), &self.runtime, &recipe, 1);
            return formatted.map(drop).map_err(|error| format!("format: {}", chain(&error)));
        }
        let name = self.scenario.placement;
        let placement = PlacementKind::by_name(name).ok_or(format!("no placement {name}"))?;
        // Tables of a few blocks, not of 4 MiB.
        let placement_options =
            PlacementOptions { unit_len: UNIT_LEN, ..PlacementOptions::default() };
        let options = FormatOptions { placement_options, ..FormatOptions::new(placement) };
        FileLayer::format(self.process_disk(), &options, &self.runtime)
            .map(drop)
            .map_err(|error| format!("format: {}", chain(&error)))
    }

    /// The layout's own recipe for the drive, if the run uses that.
    pub(crate) fn default_recipe(&self) -> Option<Recipe> {
        let layout = self.scenario.layout.filter(|_| self.scenario.target == Target::FullDrive);
        layout.map(|layout| layout.recipe(self.disk.geometry()))
    }

    /// Opens the file layer, with its cleaning in the background.
    pub(crate) fn open_files(&mut self) -> Result<FileLayer, LayoutError> {
        self.say("open the file layer".to_string());
        self.bands = None;
        let files = match self.scenario.layout {
            None => FileLayer::open(self.process_disk(), &self.runtime)
                .map_err(|source| LayoutError::Files { what: "opening the files", source })?,
            Some(tortured) => {
                let Mounted { layout, bands, files, tiers, .. } =
                    mount(self.drives(), &self.runtime)?;
                if let Some(flash) = &mut self.flash {
                    flash.files = tiers;
                }
                assert_eq!(layout, tortured, "the drive forgot its layout");
                // What opening did before the first write.
                let is_finished = |b: &Arc<FixedBands>| b.band_counters().rewritten_bytes > 0;
                self.work.cut_rewrite_count += u64::from(bands.as_ref().is_some_and(is_finished));
                self.bands = bands;
                files
            }
        };
        self.runtime.scheduler.spawn(files.clean_job());
        Ok(files)
    }

    /// Records what the file layer and the layer below it did in a finished life.
    pub(crate) fn note_life(&mut self, files: &FileLayer) {
        let stats = files.stats();
        self.cleaned_zone_count += stats.cleaned_zones;
        self.work.cut_cleaning_count += stats.failed_cleanings;
        self.work.band_rewrite_count +=
            self.bands.as_ref().map_or(0, |bands| bands.band_counters().rewrites);
    }

    /// The block of the drive that holds a block of the files.
    pub(crate) fn on_drive(&self, at: Lba) -> Lba {
        self.bands.as_ref().map_or(at, |bands| Lba::new(bands.locate(at).get()))
    }

    /// Records what is about to happen, for the story of a failure.
    pub(crate) fn say(&mut self, line: String) {
        self.operation_count += 1;
        if self.story.len() == STORY_LEN {
            self.story.pop_front();
        }
        self.story.push_back(format!("{:5}  {line}", self.operation_count));
    }

    pub(crate) fn story(&self) -> Vec<String> {
        self.story.iter().cloned().collect()
    }

    /// How many lives the run has.
    pub(crate) fn draw_life_count(&mut self) -> u64 {
        match self.forecast {
            Forecast::Drawn => 3 + self.prng.below(4),
            Forecast::Fair => 1,
            Forecast::Cuts(_) => 2,
        }
    }

    /// Whether the run ends with damage.
    pub(crate) fn has_last_act(&self) -> bool {
        self.forecast == Forecast::Drawn
    }

    /// Draws the weather of the next life.
    pub(crate) fn begin_life(&mut self) {
        self.life_count += 1;
        match (self.forecast, self.life_count) {
            (Forecast::Drawn, _) => self.draw_weather(),
            (Forecast::Fair, _) => self.set_weather(Weather::Fair),
            (Forecast::Cuts(cuts), 1) => self.cut_after(cuts.at, cuts.is_on_flash),
            (Forecast::Cuts(cuts), _) => self.cut_again(cuts),
        }
    }

    /// Cuts the power of all drives after this many events of one of them.
    fn cut_after(&mut self, after: u64, is_on_flash: bool) {
        self.whereabouts = Where::Both;
        self.counted = if is_on_flash { Where::Flash } else { Where::Main };
        self.set_weather(Weather::PowerCut { after });
    }

    /// Each of the drives counts the later cuts of a sweep equally often.
    fn cut_again(&mut self, cuts: Cuts) {
        let is_on_other = cuts.again % 2 == 1;
        let is_on_flash = self.flash.is_some() && cuts.is_on_flash != is_on_other;
        self.cut_after(cuts.again, is_on_flash);
    }

    fn draw_weather(&mut self) {
        let prng = &mut self.fault_prng;
        // A layout's special work happens only when there is something to compact and to clean, so
        // the power may fail late.
        let is_store = self.scenario.target == Target::Store;
        let bits_end = if is_store && self.scenario.layout.is_some() { 12 } else { 9 };
        let after = draw_len(prng, 0, bits_end);
        self.weather = match prng.below(10) {
            0..=2 => Weather::Fair,
            3..=7 => Weather::PowerCut { after },
            _ => match prng.below(3) {
                0 => Weather::ReadError { after, sticky: prng.chance(1, 2) },
                1 => Weather::WriteError { after, sticky: prng.chance(1, 2) },
                _ => Weather::FlushError { after },
            },
        };
        if self.flash.is_some() {
            self.draw_whereabouts();
        }
        self.set_weather(self.weather);
    }

    /// Either drive may be affected, or both.
    fn draw_whereabouts(&mut self) {
        let places = [Where::Main, Where::Flash, Where::Both];
        self.whereabouts = places[self.fault_prng.below(3) as usize];
        self.counted = match self.whereabouts {
            Where::Both => places[self.fault_prng.below(3) as usize],
            alone => alone,
        };
        self.say(format!("on {:?}, counted on {:?}", self.whereabouts, self.counted));
    }

    /// With some probability, cuts the power or fails a request during the recovery that follows,
    /// which is attempt `attempt`.
    pub(crate) fn begin_recovery(&mut self, attempt: u64) {
        match self.forecast {
            Forecast::Drawn => {}
            Forecast::Cuts(cuts) if self.life_count == 1 && attempt == 0 => {
                return self.cut_again(cuts);
            }
            Forecast::Fair | Forecast::Cuts(_) => return self.set_weather(Weather::Fair),
        }
        let prng = &mut self.fault_prng;
        let after = prng.below(12);
        let weather = match prng.below(12) {
            0..=2 => Weather::PowerCut { after },
            3 => Weather::ReadError { after, sticky: prng.chance(1, 2) },
            4 => Weather::FlushError { after: after % 4 },
            _ => Weather::Fair,
        };
        if self.flash.is_some() {
            self.draw_whereabouts();
        }
        self.set_weather(weather);
    }

    pub(crate) fn set_weather(&mut self, weather: Weather) {
        self.say(format!("weather: {weather:?}"));
        self.weather = weather;
        let mut plan = FaultPlan::default();
        let once = |after| Some(FailAt { after, sticky: false });
        match weather {
            Weather::Fair => {}
            Weather::PowerCut { after } => plan.power_cut_after = Some(after),
            Weather::ReadError { after, sticky } => {
                plan.fail_read = Some(FailAt { after, sticky });
            }
            Weather::WriteError { after, sticky } => {
                plan.fail_write = Some(FailAt { after, sticky });
                plan.write_part = Some(self.fault_prng.next_u64());
            }
            Weather::FlushError { after } => plan.fail_flush = once(after),
        }
        let hit = match weather {
            Weather::PowerCut { .. } => self.counted,
            _ => self.whereabouts,
        };
        if let Some(flash) = &self.flash {
            let is_hit = hit.is_flash();
            flash.disk.set_faults(if is_hit { plan.clone() } else { FaultPlan::default() });
        }
        let is_hit = self.flash.is_none() || hit.is_main();
        self.disk.set_faults(if is_hit { plan } else { FaultPlan::default() });
        self.tie();
    }

    /// Whether the power has failed, on either drive.
    pub(crate) fn is_dark(&self) -> bool {
        let Weather::PowerCut { after } = self.weather else { return false };
        let is_counted_on_main = self.flash.is_none() || self.counted.is_main();
        let is_counted_on_flash = self.counted.is_flash();
        is_counted_on_main && self.disk.fault_event_count() > after
            || is_counted_on_flash
                && self.flash.iter().any(|flash| flash.disk.fault_event_count() > after)
    }

    /// Which drives lose their power at a cut: both, unless only one was chosen.
    fn without_power(&self) -> Where {
        if self.flash.is_some() && self.is_dark() { self.whereabouts } else { Where::Both }
    }

    /// Whether an error of a disk has reached the stack in this life.
    pub(crate) fn is_foul(&self) -> bool {
        let of_flash = self.flash.iter().map(|flash| &flash.disk);
        let is_hit = std::iter::once(&self.disk).chain(of_flash).any(|d| d.fault_hit_count() > 0);
        is_hit || self.is_dark()
    }

    /// R2: an unexplained error is a failure of the run.
    pub(crate) fn excuse(
        &mut self,
        doing: &str,
        error: &dyn std::error::Error,
    ) -> Result<(), String> {
        if self.is_foul() {
            self.io_error_count += 1;
            self.say(format!("{doing} failed: {}", chain(error)));
            return Ok(());
        }
        Err(format!("{doing} failed in fair weather: {}", chain(error)))
    }

    /// Runs the file layer's check of itself against the disk.
    pub(crate) fn check_files(&mut self, files: &FileLayer) -> Result<(), String> {
        if self.is_foul() {
            // A layer that gave up in the middle of a change does not balance its counts.
            return Ok(());
        }
        let pair = self.flash.as_ref().and_then(|flash| flash.files.clone());
        match pair.map_or_else(|| files.check(), |pair| pair.check()) {
            Err(error) => self.excuse("check", &error),
            Ok(report) => match report.findings.first() {
                None => Ok(()),
                Some(finding) => Err(format!("check: {finding}")),
            },
        }
    }

    /// Checks both drives against each other, if there are two.
    pub(crate) fn check_pair(&mut self) -> Result<(), String> {
        let pair = self.flash.as_ref().and_then(|flash| flash.files.clone());
        pair.map_or(Ok(()), |pair| self.check_files(pair.main()))
    }

    /// How many lives there were, including this one.
    pub(crate) fn life_count(&self) -> u64 {
        self.life_count
    }

    /// A drive that failed to flush takes no writes until its power was cycled.
    fn is_poisoned(&self) -> bool {
        matches!(self.weather, Weather::FlushError { .. }) && self.is_foul()
    }

    /// Draws how a life ends that the weather did not end.
    pub(crate) fn ending(&mut self) -> Ending {
        if self.is_dark() || self.is_poisoned() {
            return Ending::PowerCut;
        }
        match self.prng.below(4) {
            0 => Ending::Close,
            1 => Ending::Kill,
            _ => Ending::PowerCut,
        }
    }

    /// The process or the power is gone: nothing that is dropped from now on reaches the disk.
    pub(crate) fn kill(&mut self, ending: Ending) {
        if ending == Ending::PowerCut {
            let hit = self.without_power();
            if hit.is_main() {
                self.disk.cut_power();
            }
            self.flash.iter().filter(|_| hit.is_flash()).for_each(|flash| flash.disk.cut_power());
        }
        if ending != Ending::Close {
            self.kill_switch.kill();
            self.flash.iter().for_each(|flash| flash.kill_switch.kill());
        }
    }

    /// Ends a life whose store was already closed or dropped. Jobs end with the process, and after
    /// a power cut the disk loses what it had not flushed. Returns the ending that counts.
    pub(crate) fn reboot(&mut self, ending: Ending) -> Result<Ending, String> {
        // A flush may have failed during the close.
        let ending = if self.is_poisoned() { Ending::PowerCut } else { ending };
        self.say(format!("{ending:?}"));
        if self.life_count == 1 {
            let of_flash = self.flash.as_ref().map_or(0, |flash| flash.disk.fault_event_count());
            self.life_event_counts.get_or_insert((self.disk.fault_event_count(), of_flash));
        }
        self.world.drop_jobs();
        if ending == Ending::PowerCut || self.is_dark() {
            self.power_cut_count += 1;
            let (hit, is_dark) = (self.without_power(), self.is_dark());
            if hit.is_main() {
                let left = self.disk.power_cycle(&mut self.fault_prng);
                let left = left.map_err(|error| format!("power cycle: {error}"))?;
                self.say(format!("power cut: {}", tell(&left)));
            }
            if hit.is_flash() {
                self.reboot_flash(is_dark)?;
            }
        }
        self.flash.iter_mut().for_each(|flash| flash.files = None);
        self.set_weather(Weather::Fair);
        Ok(ending)
    }

    /// The flash drive loses what it had not flushed. `is_dark` if the cut was at a device event.
    fn reboot_flash(&mut self, is_dark: bool) -> Result<(), String> {
        let Some(flash) = &self.flash else { return Ok(()) };
        let left = flash.disk.power_cycle(&mut self.fault_prng);
        let left = left.map_err(|error| format!("power cycle of flash: {error}"))?;
        if is_dark {
            self.flash_lost += left.lost;
        }
        self.say(format!("and of flash: {}", tell(&left)));
        Ok(())
    }

    pub(crate) fn report(&mut self) -> Result<Report, String> {
        let (life_event_count, flash_event_count) = self.life_event_counts.unwrap_or_default();
        Ok(Report {
            scenario: self.scenario.name,
            operation_count: self.operation_count,
            life_event_count,
            flash_event_count,
            life_count: self.life_count,
            power_cut_count: self.power_cut_count,
            io_error_count: self.io_error_count,
            no_space_count: self.no_space_count,
            cleaned_zone_count: self.cleaned_zone_count,
            flash_lost: self.flash_lost,
            work: self.work,
            step_count: self.world.step_count(),
            zone_reset_count: self.disk.counters().zone_resets,
            event_log_hash: self.disk.event_log_hash().expect("the rig asks for it"),
            image_hash: self.disk.image_hash().map_err(|error| error.to_string())?,
            trace_hash: self.world.trace_hash(),
            clock_ns: self.runtime.clock.now_ns(),
            next_random: self.prng.next_u64(),
        })
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        // Jobs hold the world, which holds them.
        self.world.drop_jobs();
    }
}

/// A length of up to `bits_end - 1` bits. Each number of bits from `bits_min` on is equally likely,
/// so short lengths are common.
pub(crate) fn draw_len(prng: &mut Prng, bits_min: u64, bits_end: u64) -> u64 {
    let bits = bits_min + prng.below(bits_end - bits_min);
    prng.below(1 << bits)
}

/// What a power cut left.
fn tell(left: &PowerCycle) -> String {
    let broken = left.broken.map_or(String::new(), |at| format!(", {at} broken"));
    format!("{} survived, {} lost{broken}", left.survived, left.lost)
}

/// An error with all its causes.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
