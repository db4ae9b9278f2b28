//! Models from YCSB-style properties: the keys of table 4.1 of the thesis, and a file.
//!
//! `docs/arrivals.md` has the table. Defaults are the values with which the thesis runs its
//! workloads (4.3.4, table 5.1).

use super::error::ArrivalError;
use super::file::read_recorded;
use super::gaps::Interarrival;
use super::model::ArrivalModel;
use std::path::Path;

const BIAS_DEFAULT: f64 = 0.65;
const CYCLE_LEN_MINUTES_DEFAULT: f64 = 15.0;
const SHAPE_DEFAULT: f64 = 1.5;

type Get<'a> = &'a dyn Fn(&str) -> Option<String>;

impl ArrivalModel {
    /// The model that the properties `arrivalgenerator` and those of its model describe;
    /// `docs/arrivals.md` lists them. Without `arrivalgenerator` arrivals are constant, as with
    /// YCSB's target.
    ///
    /// # Errors
    /// [`ArrivalError`]: a name is unknown, a value is not a number or outside its range, a
    /// required property is missing, or a file does not contain a series.
    pub fn from_properties(
        get: &dyn Fn(&str) -> Option<String>,
    ) -> Result<ArrivalModel, ArrivalError> {
        let name = get("arrivalgenerator").unwrap_or_else(|| "constant".to_owned());
        let model = match name.trim() {
            "constant" => ArrivalModel::Constant,
            "poisson" => ArrivalModel::Poisson,
            // The thesis' table writes it as two words.
            "selfsimilar" | "self similar" => {
                ArrivalModel::SelfSimilar { bias: number(get, "ss.bias")?.unwrap_or(BIAS_DEFAULT) }
            }
            "diurnal" => diurnal(get)?,
            "recorded" => {
                let file = get("recorded.file").ok_or(ArrivalError::Missing {
                    model: "recorded",
                    key: "recorded.file",
                    what: "the file of times",
                })?;
                ArrivalModel::Recorded(read_recorded(Path::new(&file))?)
            }
            _ => return Err(ArrivalError::Model { got: name }),
        };
        model.check()?;
        Ok(model)
    }
}

fn diurnal(get: Get<'_>) -> Result<ArrivalModel, ArrivalError> {
    let modulation_per_s = number(get, "diurnal.modulation")?.ok_or(ArrivalError::Missing {
        model: "diurnal",
        key: "diurnal.modulation",
        what: "operations a second above and below the mean",
    })?;
    let minutes = number(get, "diurnal.cyclelength")?.unwrap_or(CYCLE_LEN_MINUTES_DEFAULT);
    let name = get("diurnal.distribution").unwrap_or_else(|| "pareto".to_owned());
    let gaps = match name.trim() {
        "constant" => Interarrival::Constant,
        "uniform" => Interarrival::Uniform,
        "exponential" => Interarrival::Exponential,
        "pareto" => Interarrival::Pareto {
            shape: number(get, "diurnal.distribution.shape")?.unwrap_or(SHAPE_DEFAULT),
        },
        _ => return Err(ArrivalError::Distribution { got: name }),
    };
    Ok(ArrivalModel::Diurnal { modulation_per_s, cycle_len_s: minutes * 60.0, gaps })
}

fn number(get: Get<'_>, key: &'static str) -> Result<Option<f64>, ArrivalError> {
    let Some(text) = get(key) else { return Ok(None) };
    match text.trim().parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(Some(number)),
        _ => Err(ArrivalError::Number { key, got: text }),
    }
}
