//! What the test programs of the adapters print: counts, levels, the last line of a kind.

use anyhow::{Context, Result, ensure};

/// What follows `words` in the last complete line that begins with them. A killed program may leave an incomplete one.
pub(super) fn last_after(said: &str, words: &str) -> Option<String> {
    let whole = said.rsplit_once('\n').map_or("", |(lines, _)| lines);
    whole.lines().filter_map(|line| line.strip_prefix(words)).next_back().map(str::to_owned)
}

/// The number in the line that begins with `name`.
pub(super) fn count(said: &str, name: &str) -> Result<u64> {
    let line = said.lines().find(|line| line.trim_start().starts_with(name));
    let digits: String = line.unwrap_or_default().chars().filter(char::is_ascii_digit).collect();
    digits.parse().with_context(|| format!("no count of {name} in:\n{said}"))
}

/// At least 99.9 % of the tables were of the level that was known when they were placed.
pub(super) fn check_levels(said: &str) -> Result<()> {
    let (tables, right) = (count(said, "tables")?, count(said, "right")?);
    ensure!(tables > 100, "only {tables} tables were made");
    ensure!(right * 1000 >= tables * 999, "levels right: {right} of {tables}");
    println!("  {:<18} levels right: {right} of {tables}", "");
    Ok(())
}
