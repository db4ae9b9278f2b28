//! A campaign: the runs on which a budget of processor time is spent.
//!
//! ```text
//!   seeds.txt     every seed that once failed, first
//!   first seed    then endless draws: draw i is seed `first + i` of a scenario, run or swept
//!
//!   scenario a    drawn ........ swept . drawn ........ swept .      each by its weight,
//!   scenario b    drawn .... swept . drawn .... swept .              spread evenly
//! ```
//!
//! Invariants
//!   D1  The first seed alone determines the draws. The budget determines only where they end.
//!   D2  The draws of a scenario are spread evenly: after any number of draws, each scenario has
//!       had its share, to within two draws for each way of running it.
//!
//! Not here: processor time and workers (the program), what a run does (`rig`).

use crate::{Scenario, Target};

/// The seeds that once failed: a line each, `SCENARIO SEED  # what it found`.
const KNOWN: &str = include_str!("../seeds.txt");

/// How a seed is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// Several lives, with weather that the seed draws.
    Drawn,
    /// One life, cut in turn at many of its device events.
    Swept,
}

/// One run of a campaign.
#[derive(Clone, Copy, Debug)]
pub struct Draw {
    /// The scenario.
    pub scenario: &'static Scenario,
    /// The seed.
    pub seed: u64,
    /// How it is run.
    pub way: Way,
}

/// Endless draws.
#[derive(Clone, Debug)]
pub struct Campaign {
    shares: Vec<Share>,
    next_seed: u64,
}

/// The share of one scenario, run in one way.
#[derive(Clone, Copy, Debug)]
struct Share {
    scenario: &'static Scenario,
    way: Way,
    weight: u64,
    count: u64,
    /// Its phase between two draws, in thousandths, so that equal shares do not come in a row.
    phase: u64,
}

impl Share {
    /// When its next draw is due. The smallest value is drawn next.
    fn due(&self) -> u64 {
        (self.count * 1000 + self.phase) * 1_000_000 / self.weight
    }
}

impl Campaign {
    /// The campaign of `scenarios` that begins at a seed.
    pub fn new(scenarios: &[&'static Scenario], first_seed: u64) -> Campaign {
        let ways =
            scenarios.iter().flat_map(|&scenario| [(scenario, Way::Drawn), (scenario, Way::Swept)]);
        let ways = ways.filter(|&(scenario, way)| weight(scenario, way) > 0);
        let shares = ways.enumerate().map(|(at, (scenario, way))| {
            // The golden ratio: neighbours in the list get distant phases.
            let phase = at as u64 * 618 % 1000;
            Share { scenario, way, weight: weight(scenario, way), count: 0, phase }
        });
        Campaign { shares: shares.collect(), next_seed: first_seed }
    }

    /// The next run. `None` only without a scenario.
    pub fn draw(&mut self) -> Option<Draw> {
        let next = self.shares.iter_mut().min_by_key(|share| share.due())?;
        next.count += 1;
        let seed = self.next_seed;
        self.next_seed = seed.wrapping_add(1);
        Some(Draw { scenario: next.scenario, seed, way: next.way })
    }
}

/// The seeds of `seeds.txt` that belong to `scenarios`.
///
/// # Errors
/// A line that names no scenario or no seed.
pub fn known(scenarios: &[&'static Scenario]) -> Result<Vec<Draw>, String> {
    let mut draws = Vec::new();
    for (at, line) in KNOWN.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let parsed = parse(line).map_err(|what| format!("seeds.txt:{}: {what}", at + 1))?;
        draws.extend(scenarios.iter().any(|s| s.name == parsed.scenario.name).then_some(parsed));
    }
    Ok(draws)
}

fn parse(line: &str) -> Result<Draw, String> {
    let (name, seed) = line.split_once(' ').ok_or("expected `SCENARIO SEED`")?;
    let scenario = Scenario::by_name(name).ok_or(format!("no scenario named {name:?}"))?;
    Ok(Draw { scenario, seed: parse_seed(seed.trim())?, way: Way::Drawn })
}

/// Parses a seed, in decimal or with `0x` in hexadecimal.
///
/// # Errors
/// The text is neither.
pub fn parse_seed(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    parsed.map_err(|error| format!("{text:?} is not a seed: {error}"))
}

/// Roughly, runs in a hundred. A sweep is about nine runs. Scenarios that are cheap, or have found
/// most, are drawn more often.
fn weight(scenario: &Scenario, way: Way) -> u64 {
    match (way, scenario.target) {
        (Way::Drawn, Target::Blocks) => 40,
        (Way::Drawn, Target::Files | Target::Store | Target::FileSystem) => 10,
        (Way::Drawn, Target::FullDrive) => 1,
        // Its promises are about what follows a refusal, which a sweep seldom reaches.
        (Way::Swept, Target::FullDrive) => 0,
        (Way::Swept, Target::Blocks) => 2,
        (Way::Swept, Target::Files | Target::Store | Target::FileSystem) => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn all() -> Vec<&'static Scenario> {
        Scenario::all().iter().collect()
    }

    #[test]
    fn every_known_seed_belongs_to_a_scenario() {
        let draws = known(&all()).unwrap();
        assert!(draws.len() >= 10, "{} seeds", draws.len());
        let blocks = [Scenario::by_name("blocks").unwrap()];
        let of_blocks = known(&blocks).unwrap();
        assert!(!of_blocks.is_empty() && of_blocks.iter().all(|d| d.scenario.name == "blocks"));
        let told = parse("no-such-layout 7").unwrap_err();
        assert!(told.contains("no-such-layout"), "{told}");
        assert!(parse("blocks seven").is_err() && parse("blocks").is_err());
    }

    /// D1.
    #[test]
    fn one_first_seed_is_one_campaign() {
        let draws = |first| {
            let mut campaign = Campaign::new(&all(), first);
            let next = || campaign.draw().map(|draw| (draw.scenario.name, draw.seed, draw.way));
            std::iter::from_fn(next).take(500).collect::<Vec<_>>()
        };
        assert_eq!(draws(7), draws(7));
        let (seven, other) = (draws(7), draws(u64::MAX));
        assert!(seven.iter().zip(&other).all(|(a, b)| (a.0, a.2) == (b.0, b.2) && a.1 != b.1));
        assert_eq!(other[1].1, 0, "seeds wrap");
    }

    /// D2.
    #[test]
    fn every_scenario_has_its_share_early() {
        let mut campaign = Campaign::new(&all(), 0);
        let sum: u64 = campaign.shares.iter().map(|share| share.weight).sum();
        let mut counts: BTreeMap<(&str, Way), u64> = BTreeMap::new();
        for count in 1..=3 * sum {
            let draw = campaign.draw().unwrap();
            *counts.entry((draw.scenario.name, draw.way)).or_default() += 1;
            for share in campaign.shares.iter().filter(|_| count % 97 == 0) {
                let got = counts.get(&(share.scenario.name, share.way)).copied().unwrap_or(0);
                let due = count * share.weight / sum;
                let name = share.scenario.name;
                assert!((due.saturating_sub(1)..=due + 2).contains(&got), "{name}: {got} of {due}");
            }
        }
        assert_eq!(counts.len(), campaign.shares.len());
    }

    #[test]
    fn no_scenario_no_draw() {
        assert!(Campaign::new(&[], 0).draw().is_none());
    }
}
