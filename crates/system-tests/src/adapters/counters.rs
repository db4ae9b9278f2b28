//! What an adapter reports when a program ends: counters by name.

use anyhow::{Context, Result, ensure};
use regex::Regex;
use std::collections::BTreeMap;

/// The counters of one program, or of several, added up.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counters(BTreeMap<String, u64>);

impl Counters {
    /// Reads one JSON object without nested objects, as `imbrex run --report` writes it.
    pub(crate) fn parse(text: &str) -> Result<Counters> {
        let pair = Regex::new(r#""(\w+)":(\d+)"#).expect("a constant that is one");
        let found = pair.captures_iter(text).map(|found| {
            let (_, [name, number]) = found.extract();
            let number = number.parse().with_context(|| format!("{name} is {number}"))?;
            Ok((name.to_owned(), number))
        });
        let counters = found.collect::<Result<BTreeMap<String, u64>>>()?;
        ensure!(!counters.is_empty(), "the program opened no database on the drive");
        Ok(Counters(counters))
    }

    /// The counter called `name`. An older adapter may not report it, which is an error.
    pub(crate) fn get(&self, name: &str) -> Result<f64> {
        let number = self.0.get(name).with_context(|| format!("the adapter reports no {name}"))?;
        Ok(*number as f64)
    }

    /// What two programs did, one after the other. Counters of a moment are those of the later program.
    pub(crate) fn then(&self, later: &Counters) -> Counters {
        const OF_A_MOMENT: [&str; 5] =
            ["capacity_bytes", "live_bytes", "dead_bytes", "free_bytes", "kept_in_mind"];
        let mut sum = later.clone();
        for (name, number) in &self.0 {
            if !OF_A_MOMENT.contains(&name.as_str()) {
                *sum.0.entry(name.clone()).or_default() += number;
            }
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_add_up_except_those_of_a_moment() {
        let first = Counters::parse("{\"busy_ns\":5,\"live_bytes\":7}\n").unwrap();
        let later = Counters::parse("{\"busy_ns\":6,\"live_bytes\":4}\n").unwrap();
        let sum = first.then(&later);
        assert_eq!((sum.get("busy_ns").unwrap(), sum.get("live_bytes").unwrap()), (11.0, 4.0));
        assert!(sum.get("seeks").unwrap_err().to_string().contains("no seeks"));
        assert!(Counters::parse("").is_err());
    }
}
