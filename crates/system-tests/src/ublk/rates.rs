//! The guest's measurements as a table: ublk and NBD compared.

use crate::report::Report;
use crate::spread::Spread;
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;

/// Operations per second by load and queue depth, for each server.
type Rates<'a> = BTreeMap<(&'a str, &'a str), [Vec<f64>; 2]>;

/// The servers, in the order of [`Rates`].
const DOORS: [&str; 2] = ["ublk", "nbd"];

/// Prints the median, minimum and maximum from lines `guest: rate DOOR LOAD DEPTH READS WRITES`.
pub(super) fn print<'a>(lines: impl Iterator<Item = &'a str>, report: &mut Report) -> Result<()> {
    let rates = collect(lines)?;
    let title = "ublk and the kernel's NBD client, 4 KiB, operations a second";
    let columns = ["load", "requests at a time", "ublk, a second", "NBD, a second", "ublk / NBD"];
    report.table(title, &columns);
    for ((load, depth), doors) in rates {
        let missing = doors.iter().position(Vec::is_empty).map(|door| DOORS[door]);
        ensure!(missing.is_none(), "no rate of {}", missing.unwrap_or_default());
        let [ublk, nbd] = doors.map(|rates| Spread::of(&rates));
        let ratio = ublk.median / nbd.median.max(1.0);
        let rates = [format!("{ublk:.0}"), format!("{nbd:.0}"), format!("{ratio:.1}")];
        report.row([&[load.to_owned(), depth.to_owned()], &rates[..]].concat());
    }
    Ok(())
}

fn collect<'a>(lines: impl Iterator<Item = &'a str>) -> Result<Rates<'a>> {
    let mut rates = Rates::new();
    for line in lines.filter(|line| line.starts_with("guest: rate ")) {
        let wrong = || format!("the guest said {line:?}");
        let words: Vec<&str> = line.split(' ').skip(2).collect();
        let [door, load, depth, reads, writes] = words[..] else {
            anyhow::bail!(wrong());
        };
        let door = DOORS.iter().position(|name| *name == door).with_context(wrong)?;
        let count = |word: &str| word.parse::<u32>().map(f64::from).with_context(wrong);
        rates.entry((load, depth)).or_default()[door].push(count(reads)? + count(writes)?);
    }
    Ok(rates)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_sorted_by_load_and_door() {
        let told = "guest: rate ublk randread 16 2890 0\nguest: rate nbd randread 16 1197 0\n\
                    guest: 85.89 round 2\nguest: rate ublk randread 16 3487 0";
        let rates = collect(told.lines()).unwrap();
        let expected = [vec![2890.0, 3487.0], vec![1197.0]];
        assert_eq!(rates, BTreeMap::from([(("randread", "16"), expected)]));
        assert!(collect(["guest: rate ublk randread 16 x 0"].into_iter()).is_err());
    }
}
