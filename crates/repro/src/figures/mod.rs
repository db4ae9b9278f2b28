//! The figures. Each file declares one figure, or several that use the same runs.
//!
//! To add a figure: a `Figure` constant in a file of its paper's folder, and one line in [`ALL`].

mod driver;
mod geardb;
mod kvimr;
pub(crate) mod measures;
mod sealdb;
mod thesis;

use crate::figure::{Figure, Runs};
use crate::spec::Size;
use imbrex_bench::BenchError;

/// All figures, grouped by paper, in the paper's order.
const ALL: &[Figure] = &[
    sealdb::placement::FIGURE_2,
    sealdb::bands::FIGURE_3,
    sealdb::table_2::TABLE_2,
    sealdb::micro::FIGURE_8,
    sealdb::ycsb::FIGURE_9,
    sealdb::compaction::FIGURE_10,
    sealdb::placement::FIGURE_11,
    sealdb::amplification::FIGURE_12,
    sealdb::fragments::FIGURE_13,
    sealdb::parts::FIGURE_14,
    sealdb::sets::SETS,
    thesis::sequential_put::FIGURE_3_9,
    thesis::sequential_put::FIGURE_3_10,
    thesis::random_put::FIGURE_3_11,
    thesis::random_put::FIGURE_3_12,
    thesis::delay::FIGURE_3_13,
    thesis::random_get::FIGURE_3_14,
    thesis::band_len::FIGURE_3_15,
    thesis::ycsb::FIGURE_3_16,
    thesis::ycsb::FIGURE_3_17,
    thesis::arrivals::FIGURE_4_5,
    thesis::arrivals::FIGURE_4_6,
    thesis::arrivals::FIGURE_4_7,
    thesis::arrivals::FIGURE_4_8,
    thesis::arrivals::FIGURE_4_9,
    thesis::hurst::TABLE_4_2,
    thesis::demonstration::FIGURE_4_10,
    thesis::offload::life::FIGURE_5_3,
    thesis::offload::micro::FIGURE_5_5,
    thesis::offload::clients::FIGURE_5_6,
    thesis::offload::poisson::FIGURE_5_7,
    thesis::offload::poisson::FIGURE_5_8,
    thesis::offload::poisson::FIGURE_5_9,
    thesis::offload::bursts::TABLE_5_1,
    geardb::motivation::CLEANING_TIME,
    geardb::motivation::CLEANING_UTILISATION,
    geardb::load::LOAD,
    geardb::load::MICRO,
    geardb::breakdown::BREAKDOWN,
    geardb::compaction::COMPACTION,
    geardb::zones::ZONES,
    kvimr::motivation::FIGURE_2,
    kvimr::load::FIGURE_5,
    kvimr::load::FIGURE_6,
    kvimr::load::LOAD,
    kvimr::mixes::FIGURE_7,
    kvimr::table_len::FIGURE_8,
    kvimr::databases::FIGURE_9,
    kvimr::fill::FILL,
    kvimr::overwrite::OVERWRITE,
    driver::latency::FIGURE_5,
    driver::latency::FIGURE_6,
    driver::tables::FIGURE_7,
    driver::tables::FIGURE_8,
    driver::mapping::TABLE_1,
    driver::cleaning::TABLE_2,
    driver::cleaning::TABLE_3,
];

/// All figures, grouped by paper.
pub fn figures() -> &'static [Figure] {
    ALL
}

/// The figures that `name` selects: one figure, a paper (`sealdb`), a chapter (`thesis-5`), or
/// `all`.
///
/// # Errors
/// [`BenchError::Options`]: no figure has this name; the message lists the names.
pub fn figures_named(name: &str) -> Result<Vec<Figure>, BenchError> {
    let is_part = |figure: &&Figure| {
        figure.name.strip_prefix(name).is_some_and(|rest| rest.starts_with(['-', '.']))
    };
    let found: Vec<Figure> = match name {
        "all" => figures().to_vec(),
        _ => match figures().iter().find(|figure| figure.name == name) {
            Some(figure) => vec![*figure],
            None => figures().iter().filter(is_part).copied().collect(),
        },
    };
    if found.is_empty() {
        let names: Vec<&str> = figures().iter().map(|f| f.name).collect();
        return Err(BenchError::Options(format!(
            "no figure {name:?}; there are all, sealdb, thesis, geardb, kvimr, driver, {}",
            names.join(", ")
        )));
    }
    Ok(found)
}

/// Returns an error if `size` names traces that `figures` cannot be restricted to.
pub(crate) fn check_only(figures: &[Figure], size: &Size) -> Result<(), String> {
    if size.only.is_empty() {
        return Ok(());
    }
    if !figures.iter().any(|figure| matches!(figure.runs, Runs::Replays(_))) {
        return Err(
            "none of these figures replays block traces; only those of `driver` do".to_owned()
        );
    }
    driver::check_only(size)
}
