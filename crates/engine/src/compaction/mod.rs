//! Compaction: what to merge with what (`plan`: pure), and the merge itself (`job`).
//!
//! ```text
//!   Version --plan--> Plan { inputs, output level }            decides, touches nothing
//!   Plan    --job---> tables written, one commit {+outputs, -inputs, edit}      does, decides nothing
//! ```
//!
//! Invariants
//!   P1  A table that stays in the run that outputs go to overlaps none of them (V1): either all
//!       tables there that overlap the inputs' range are inputs themselves, or the plan names those
//!       that stay, and sends nothing into them.
//!   P2  A table is an input of one running plan at most, and no two running plans write to
//!       overlapping ranges of one level.
//!   P3  What is newer stays above: of the tables of level 0 that overlap an input from level 0, all
//!       older ones are inputs too (V2).
//!   P4  An entry goes to a level only if, at its key, everything of that level and of those above
//!       that is older is an input too, and goes as deep or deeper (V2).
//!   P5  A table that could not be read, again and again, is set aside: no plan has it as an input, so by
//!       P1 and P3 what lies over it stays where it is, and all else is compacted as ever. Writes are
//!       refused only once they would stall for what it blocks, or where so many tables are set aside
//!       that the drive is failing.
//!
//! Sources: LevelDB's leveled compaction (round-robin victims, trivial moves, the limit on
//! grandparents); RocksDB's choice of the victim with the least overlap.

pub(crate) mod busy;
pub(crate) mod merge;
pub(crate) mod plan;
pub(crate) mod policy;
pub(crate) mod routes;
pub(crate) mod situation;
