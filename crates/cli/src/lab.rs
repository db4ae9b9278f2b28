//! `lab`: up to four layouts at the same work, side by side in a browser, by the laboratory of `imbrex-bench`.
//!
//! ```text
//!   page --order--> OrderDesk --> loop: Lab::run_until(next slice) --> Feed --> page
//!                     start, pause, cut the power
//! ```
//!
//! Virtual time passes as fast as this machine can work, or at a chosen multiple of real time.

use crate::door::DoorArgs;
use crate::error::{CliError, Context};
use crate::interrupt::pause;
use crate::output::note;
use crate::session::Session;
use crate::site::{Desk, WatchSite};
use imbrex::Layout;
use imbrex::stack::error_text;
use imbrex_bench::BenchError;
use imbrex_bench::lab::{Lab, LabArrivals, LabSpec, LabWork};
use imbrex_clockwork::{Clock, WallClock};
use imbrex_disk::ByteSize;
use imbrex_watch::{Feed, Line};
use serde_json::{Value, json};
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Arguments of `imbrex lab`.
#[derive(clap::Args, Debug)]
pub(crate) struct LabArgs {
    /// The layouts to begin with
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    #[arg(default_value = "leveled-zones,gear,imbrex-zones")]
    layouts: Vec<String>,
    /// Capacity of each drive, which is in memory
    #[arg(long, value_name = "SIZE", default_value = "2GiB")]
    capacity: ByteSize,
    /// How much of the drive the keys and values fill, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 60)]
    live: u32,
    /// Length of a value
    #[arg(long, value_name = "SIZE", default_value = "4KiB")]
    value: ByteSize,
    /// What is done after the load: overwrite, hot-range or mixed
    #[arg(long, default_value = "overwrite")]
    work: LabWork,
    /// When operations come after the load: closed, constant:RATE or bursts:RATE
    #[arg(long, default_value = "closed")]
    arrivals: LabArrivals,
    /// Virtual seconds in a real one: a number, or max
    #[arg(long, default_value = "max")]
    speed: Speed,
    /// Seed of keys and values
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    door: DoorArgs,
}

/// How fast virtual time passes.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Speed(Option<f64>);

impl FromStr for Speed {
    type Err = String;

    fn from_str(text: &str) -> Result<Speed, String> {
        if text == "max" {
            return Ok(Speed(None));
        }
        match text.parse::<f64>() {
            Ok(speed) if (0.01..=1e6).contains(&speed) => Ok(Speed(Some(speed))),
            _ => Err(format!("{text:?} is no speed; a speed is max, or a number such as 10")),
        }
    }
}

/// The work between two looks at the orders, in virtual time.
const SLICE_NS: u64 = 50_000_000;

/// Memory for the lines of a run.
const FEED_LEN_BYTES: usize = 192 << 20;

/// The fields of the page's form.
const FIELDS: [&str; 7] = ["layout", "capacity", "live", "value", "work", "arrivals", "speed"];

/// Writes between two syncs.
const SYNC_EVERY: u64 = 1000;

/// The values that the page offers; any others are given by flags.
const CAPACITIES: [&str; 5] = ["512MiB", "1GiB", "2GiB", "4GiB", "8GiB"];
const LIVE: [&str; 6] = ["20", "40", "60", "70", "80", "90"];
const VALUES: [&str; 4] = ["256", "1KiB", "4KiB", "64KiB"];
const ARRIVALS: [&str; 6] =
    ["closed", "constant:200", "constant:1000", "bursts:200", "bursts:500", "bursts:1000"];
const SPEEDS: [&str; 5] = ["max", "20", "5", "1", "0.2"];

/// What the page asked for and the loop has not done yet.
#[derive(Debug, Default)]
struct Orders {
    start: Option<Start>,
    is_cut_asked: bool,
    is_paused: bool,
}

/// A laboratory that is set up, with its first lines.
#[derive(Debug)]
struct Start {
    lab: Lab,
    lines: Vec<Line>,
    speed: Speed,
}

impl Start {
    fn new(spec: &LabSpec, speed: Speed) -> Result<Start, BenchError> {
        let mut lines = Vec::new();
        let lab = Lab::new(spec, &mut |line| lines.push(line.clone()))?;
        Ok(Start { lab, lines, speed })
    }
}

/// The desk where orders wait for the loop.
#[derive(Clone, Debug, Default)]
struct OrderDesk {
    orders: Arc<Mutex<Orders>>,
}

impl OrderDesk {
    fn lock(&self) -> MutexGuard<'_, Orders> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Desk for OrderDesk {
    fn order(&self, order: &str, form: &[(String, String)]) -> Result<String, String> {
        // What does not suit a layout is refused here, while the old laboratory works on.
        let start = match order {
            "start" => {
                let (spec, speed) = spec_of(form)?;
                Some(Start::new(&spec, speed).map_err(|error| error_text(&error))?)
            }
            _ => None,
        };
        let mut orders = self.lock();
        match order {
            "start" => {
                orders.start = start;
                orders.is_paused = false;
                Ok("starting".to_owned())
            }
            "pause" => {
                orders.is_paused = !orders.is_paused;
                Ok(if orders.is_paused { "paused" } else { "going on" }.to_owned())
            }
            "cut" => {
                orders.is_cut_asked = true;
                Ok("the power is cut".to_owned())
            }
            _ => Err(format!("{order:?} is no order; orders are start, pause and cut")),
        }
    }
}

fn spec_of(form: &[(String, String)]) -> Result<(LabSpec, Speed), String> {
    if let Some((unknown, _)) = form.iter().find(|(key, _)| !FIELDS.contains(&&key[..])) {
        return Err(format!("{unknown:?} is no field; fields are {}", FIELDS.join(", ")));
    }
    let value = |name: &str| {
        let found = form.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str()).ok_or_else(|| format!("{name} is missing"))
    };
    let layouts = form.iter().filter(|(key, _)| key == "layout").map(|(_, name)| layout(name));
    let size = |name: &str| {
        let text = value(name)?;
        ByteSize::from_str(text).map_err(|error| format!("{name}: {error}"))
    };
    let live = value("live")?;
    let spec = LabSpec {
        layouts: layouts.collect::<Result<Vec<_>, _>>()?,
        capacity_bytes: size("capacity")?.0,
        live_percent: live.parse().map_err(|_| format!("live: {live:?} is no percentage"))?,
        value_len_bytes: value_len(size("value")?),
        work: value("work")?.parse()?,
        arrivals: value("arrivals")?.parse()?,
        sync_every: SYNC_EVERY,
        seed: 1,
    };
    spec.check().map_err(|error| error.to_string())?;
    Ok((spec, value("speed")?.parse()?))
}

fn layout(name: &str) -> Result<Layout, String> {
    Layout::by_name(name).map_err(|error| error_text(&error))
}

/// A length that is too long stays so, for the specification's own check.
fn value_len(size: ByteSize) -> u32 {
    u32::try_from(size.0).unwrap_or(u32::MAX)
}

impl LabArgs {
    pub(crate) fn run(self, session: &mut Session) -> Result<(), CliError> {
        let layouts: Result<Vec<Layout>, String> =
            self.layouts.iter().map(|name| layout(name)).collect();
        let spec = LabSpec {
            layouts: layouts.map_err(CliError::usage)?,
            capacity_bytes: self.capacity.0,
            live_percent: self.live,
            value_len_bytes: value_len(self.value),
            work: self.work,
            arrivals: self.arrivals,
            sync_every: SYNC_EVERY,
            seed: self.seed,
        };
        spec.check().map_err(|error| CliError::usage(error.to_string()))?;
        let feed = Feed::new(FEED_LEN_BYTES);
        let desk = OrderDesk::default();
        let choices = self.choices();
        let start = Start::new(&spec, self.speed).context(|| "cannot set up the laboratory")?;
        desk.lock().start = Some(start);
        let site = WatchSite::new(feed.clone(), "laboratory".to_owned());
        let site = site.with_lab(choices, Box::new(desk.clone()));
        let door = self.door.open(Arc::new(site), &mut session.out)?;
        let outcome = work(session, &desk, &feed);
        door.close();
        outcome
    }

    /// What the page offers, with this command's own values chosen.
    fn choices(&self) -> Value {
        let layouts: Vec<Value> = Layout::all()
            .filter(|layout| !layout.takes_flash())
            .map(|layout| {
                let name = layout.name();
                let is_chosen = self.layouts.iter().any(|chosen| chosen == name);
                json!({ "name": name, "says": layout.summary(), "is_chosen": is_chosen })
            })
            .collect();
        let speed = self.speed.0.map_or_else(|| "max".to_owned(), |speed| speed.to_string());
        // The offered spelling of a size, or its own.
        let compact = |size: ByteSize, offered: &[&str]| {
            let same = offered.iter().find(|text| ByteSize::from_str(text) == Ok(size));
            same.map_or_else(|| size.0.to_string(), |text| (*text).to_owned())
        };
        let work = LabWork::ALL.map(|work| work.to_string());
        let work: Vec<&str> = work.iter().map(String::as_str).collect();
        let choice = |name: &str, says: &str, offered: &[&str], chosen: String| {
            let mut values: Vec<String> = offered.iter().map(|&value| value.to_owned()).collect();
            if !values.contains(&chosen) {
                values.push(chosen.clone());
            }
            json!({ "name": name, "says": says, "values": values, "value": chosen })
        };
        json!({
            "layouts": layouts,
            "choices": [
                choice("capacity", "of each drive, in memory", &CAPACITIES, compact(self.capacity, &CAPACITIES)),
                choice("live", "percent of the drive that keys and values fill", &LIVE, self.live.to_string()),
                choice("value", "length of a value", &VALUES, compact(self.value, &VALUES)),
                choice("work", "what is done after the load", &work, self.work.to_string()),
                choice("arrivals", "when operations come", &ARRIVALS, self.arrivals.to_string()),
                choice("speed", "virtual seconds in a real one", &SPEEDS, speed),
            ],
        })
    }
}

/// Does what the desk is asked for until the user interrupts.
fn work(session: &Session, desk: &OrderDesk, feed: &Feed) -> Result<(), CliError> {
    let clock = WallClock::new();
    let mut push = |line: &Line| feed.push(line);
    let mut lab: Option<Lab> = None;
    let mut speed = Speed(None);
    let mut until_ns = 0;
    // Where virtual time and this machine's time were the same.
    let mut since = (0, 0);
    while !session.interrupt.is_asked() {
        let (start, is_cut_asked, is_paused) = {
            let mut orders = desk.lock();
            let is_cut_asked = std::mem::take(&mut orders.is_cut_asked);
            (orders.start.take(), is_cut_asked, orders.is_paused)
        };
        if let Some(Start { lab: new, lines, speed: asked_speed }) = start {
            lab = Some(new);
            feed.clear();
            lines.iter().for_each(&mut push);
            speed = asked_speed;
            (until_ns, since) = (0, (0, clock.now_ns()));
        }
        let Some(running) = &mut lab else {
            pause(50);
            continue;
        };
        if is_cut_asked {
            match running.cut_power(&mut push) {
                Ok(told) => told.iter().for_each(|line| note(format!("imbrex: {line}"))),
                Err(error) => {
                    // The page stays, so that what led here can be seen.
                    note(format!("imbrex: after the power cut: {}", error_text(&error)));
                    lab = None;
                    continue;
                }
            }
            until_ns = until_ns.max(running.now_ns());
            since = (until_ns, clock.now_ns());
        }
        if is_paused || running.is_at_rest() {
            pause(50);
            since = (until_ns, clock.now_ns());
            continue;
        }
        if let Speed(Some(speed)) = speed {
            let passed_ns = (clock.now_ns() - since.1) as f64 * speed;
            if since.0 as f64 + passed_ns < until_ns as f64 {
                pause(10);
                continue;
            }
        }
        until_ns += SLICE_NS;
        running.run_until(until_ns, &mut push);
    }
    Ok(())
}
