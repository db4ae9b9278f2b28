//! What the guest measured, as a table: the two doors side by side.

use anyhow::{Context, Result};
use std::collections::BTreeMap;

/// Operations a second, by load and requests at a time, of each door.
type Rates<'a> = BTreeMap<(&'a str, &'a str), [Vec<u64>; 2]>;

/// The doors, in the order of [`Rates`].
const DOORS: [&str; 2] = ["ublk", "nbd"];

/// Prints medians, least and most, from lines `guest: rate DOOR LOAD DEPTH READS WRITES`.
pub(super) fn print<'a>(lines: impl Iterator<Item = &'a str>) -> Result<()> {
    let rates = collect(lines)?;
    println!("| load | requests at a time | ublk, a second | NBD, a second | ublk / NBD |");
    println!("|---|---|---|---|---|");
    for ((load, depth), doors) in rates {
        let [ublk, nbd] = doors.map(spread);
        let (ublk, nbd) = (ublk.context("no rate of ublk")?, nbd.context("no rate of NBD")?);
        let ratio = ublk.1 as f64 / nbd.1.max(1) as f64;
        let shown =
            |(least, median, most): (u64, u64, u64)| format!("{median} ({least} to {most})");
        println!("| {load} | {depth} | {} | {} | {ratio:.1} |", shown(ublk), shown(nbd));
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
        let count = |word: &str| word.parse::<u64>().with_context(wrong);
        rates.entry((load, depth)).or_default()[door].push(count(reads)? + count(writes)?);
    }
    Ok(rates)
}

/// Least, median, most.
fn spread(mut rates: Vec<u64>) -> Option<(u64, u64, u64)> {
    rates.sort_unstable();
    Some((*rates.first()?, rates[rates.len() / 2], *rates.last()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_sorted_by_load_and_door() {
        let told = "guest: rate ublk randread 16 2890 0\nguest: rate nbd randread 16 1197 0\n\
                    guest: 85.89 round 2\nguest: rate ublk randread 16 3487 0";
        let rates = collect(told.lines()).unwrap();
        let expected = [vec![2890, 3487], vec![1197]];
        assert_eq!(rates, BTreeMap::from([(("randread", "16"), expected)]));
        assert_eq!(spread(vec![3, 1, 2]), Some((1, 2, 3)));
        assert!(collect(["guest: rate ublk randread 16 x 0"].into_iter()).is_err());
    }
}
