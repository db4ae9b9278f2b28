//! First fit by address: each file goes to the first free run that holds it, roughly as in ext4.
//!
//! ```text
//!   | held |  free  | held |    free    | held |   free ...
//!             ^ a small file   ^ a larger one
//! ```
//!
//! A file that no single run holds is split over several runs, in order of address. Nothing is ever
//! moved.
//! Source: the baseline under LevelDB in the SEALDB paper (figure 2: tables scatter).

use super::draft::RunDraft;
use super::growing;
use super::policy::{FileRequest, Placement, Planned, admit};
use crate::extent::fill;
use crate::hints::Hints;
use crate::space::{Fit, NoSpace, SpaceMap};
use imbrex_disk::{BlockRange, Blocks, Geometry, Rule};

pub(super) const NAME: &str = "first-fit";

#[derive(Debug)]
pub(super) struct FirstFit;

impl Placement for FirstFit {
    fn name(&self) -> &'static str {
        NAME
    }

    fn suits(&self, geometry: &Geometry) -> Result<(), String> {
        match geometry.rule() {
            Rule::Anywhere => Ok(()),
            Rule::IsolationDistance(_) => {
                Err("the drive is shingled, and first fit overwrites in \
                 place; use dynamic-bands, or fixed bands under it"
                    .to_owned())
            }
            Rule::Neighbours(_) => {
                Err("the drive is interlaced, and first fit overwrites in place; \
                 use a conventional drive, or track-tiers"
                    .to_owned())
            }
            other => Err(format!(
                "the drive is {}, and first fit overwrites in place; use a conventional drive",
                other.name()
            )),
        }
    }

    fn plan(&self, space: &SpaceMap, files: &[FileRequest]) -> Result<Vec<Planned>, NoSpace> {
        admit(space, files)?;
        let mut draft = RunDraft::new(space, Fit::Lowest);
        files
            .iter()
            .map(|file| {
                let ranges = draft
                    .pieces(file.blocks())
                    .ok_or(NoSpace { needed: file.blocks(), free: space.runs().len() })?;
                Ok(Planned::alone(fill(&ranges, file.len_bytes)))
            })
            .collect()
    }

    fn plan_log_pieces(
        &self,
        space: &SpaceMap,
        hints: &Hints,
        owned: Blocks,
    ) -> Result<Vec<BlockRange>, NoSpace> {
        growing::plan_log(space, hints, owned, Fit::Lowest).map(|run| vec![run])
    }
}
