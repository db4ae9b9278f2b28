//! The guest's figures as tables: what the two drives wrote and read for the same writes, and the lengths of the devices.

use crate::report::Report;
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeMap;

/// The devices, in the order of [`Figures::loads`].
const SYSTEMS: [&str; 2] = ["imbrex", "dm-zoned"];

/// The guest's loads, and what the table calls them.
const LOADS: [(&str, &str); 4] = [
    ("fill", "in sequence, 256 KiB"),
    ("random-4k", "at random, 4 KiB"),
    ("random-64k", "at random, 64 KiB"),
    ("fsync-4k", "at random, 4 KiB, a flush after each 32"),
];

const MIB: f64 = 1024.0 * 1024.0;

/// What one drive did for one load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Work {
    host_sectors: u64,
    written_sectors: u64,
    read_sectors: u64,
    reset_zones: u64,
}

#[derive(Debug, Default)]
struct Figures {
    /// In bytes, by what is so long.
    lengths: BTreeMap<String, u64>,
    /// By load, for each of [`SYSTEMS`].
    loads: BTreeMap<String, [Option<Work>; 2]>,
}

/// Adds the tables to the report.
pub(super) fn print<'a>(lines: impl Iterator<Item = &'a str>, report: &mut Report) -> Result<()> {
    let figures = Figures::collect(lines)?;
    let mut columns = vec!["writes of the host".to_owned(), "MiB".to_owned()];
    for what in ["written for each byte of the host's", "read", "zones reset"] {
        columns.extend(SYSTEMS.map(|system| format!("{system}: {what}")));
    }
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    report.table("What the drive did for the same writes", &columns);
    for (name, title) in LOADS {
        let [Some(ours), Some(theirs)] = figures.loads.get(name).copied().unwrap_or_default()
        else {
            bail!("the guest did not measure {name} on both devices");
        };
        ensure!(ours.host_sectors == theirs.host_sectors, "{name}: the writes were not the same");
        let host = ours.host_sectors as f64;
        let mut cells = vec![title.to_owned(), format!("{:.0}", host * 512.0 / MIB)];
        let works = [ours, theirs];
        cells.extend(works.map(|work| format!("{:.2}", work.written_sectors as f64 / host)));
        cells.extend(works.map(|work| format!("{:.2}", work.read_sectors as f64 / host)));
        cells.extend(works.map(|work| work.reset_zones.to_string()));
        report.row(cells);
    }
    let drive = figures.length("drive")?;
    report.table("The devices' lengths", &["device", "MiB", "% of the drive"]);
    for (what, title) in [
        ("drive", "the drive"),
        ("imbrex", "imbrex"),
        ("dm-zoned", "dm-zoned"),
        ("used", "written"),
    ] {
        let length = figures.length(what)?;
        let share = format!("{:.1}", length / drive * 100.0);
        report.row(vec![title.to_owned(), format!("{:.0}", length / MIB), share]);
    }
    Ok(())
}

impl Figures {
    /// From lines `guest: length WHAT BYTES`, and `guest: load DEVICE LOAD SECTORS` with the sectors that the drive had
    /// written and read, and the zones reset, before the load and after it.
    fn collect<'a>(lines: impl Iterator<Item = &'a str>) -> Result<Figures> {
        let mut figures = Figures::default();
        for line in lines {
            let wrong = || format!("the guest said {line:?}");
            let words: Vec<&str> = line.split(' ').skip(1).collect();
            let count = |word: &str| word.parse::<u64>().with_context(wrong);
            match words[..] {
                ["length", what, bytes] => {
                    figures.lengths.insert(what.to_owned(), count(bytes)?);
                }
                ["load", system, load, host, ref counts @ ..] => {
                    let system = SYSTEMS.iter().position(|name| *name == system);
                    let system = system.with_context(wrong)?;
                    let counts =
                        counts.iter().map(|word| count(word)).collect::<Result<Vec<_>>>()?;
                    let [written, read, resets, written_after, read_after, resets_after] =
                        counts[..]
                    else {
                        bail!(wrong());
                    };
                    let grown =
                        |before: u64, after: u64| after.checked_sub(before).with_context(wrong);
                    let work = Work {
                        host_sectors: count(host)?,
                        written_sectors: grown(written, written_after)?,
                        read_sectors: grown(read, read_after)?,
                        reset_zones: grown(resets, resets_after)?,
                    };
                    ensure!(work.host_sectors > 0, wrong());
                    figures.loads.entry(load.to_owned()).or_default()[system] = Some(work);
                }
                _ => {}
            }
        }
        Ok(figures)
    }

    fn length(&self, what: &str) -> Result<f64> {
        let length = self.lengths.get(what).copied();
        Ok(length.with_context(|| format!("the guest did not say the length of {what}"))? as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_is_what_the_counts_grew_by() {
        let told = "guest: 3.68 two drives\nguest: length drive 1048576\n\
                    guest: load imbrex fill 100 7 8 9 107 8 12\nguest: load dm-zoned fill 100 0 0 0 200 100 1";
        let figures = Figures::collect(told.lines()).unwrap();
        let work = |written_sectors, read_sectors, reset_zones| {
            Some(Work { host_sectors: 100, written_sectors, read_sectors, reset_zones })
        };
        assert_eq!(figures.loads["fill"], [work(100, 0, 3), work(200, 100, 1)]);
        assert!(figures.length("drive").is_ok() && figures.length("used").is_err());
    }

    #[test]
    fn lines_that_make_no_sense_are_errors() {
        for line in [
            "guest: load imbrex fill 100 7 8 9 107 8",
            "guest: load imbrex fill 0 7 8 9 107 8 12",
            "guest: load imbrex fill 100 7 8 9 6 8 12",
            "guest: load other fill 100 7 8 9 107 8 12",
            "guest: length drive much",
        ] {
            assert!(Figures::collect([line].into_iter()).is_err(), "{line}");
        }
    }
}
