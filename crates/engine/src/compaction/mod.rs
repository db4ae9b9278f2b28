//! Compaction: choosing what to merge (`plan`, pure), and the merge itself (`job`).
//!
//! ```text
//!   Version --plan--> Plan { inputs, output level }            decides, touches nothing
//!   Plan    --job---> tables written, one commit {+outputs, -inputs, edit}      does, decides nothing
//! ```
//!
//! Invariants
//!   P1  A table that stays in the run that outputs go to overlaps none of them (V1). Either every
//!       table there that overlaps the inputs' range is an input, or the plan lists the staying
//!       tables and routes no entry into their ranges.
//!   P2  A table is an input of at most one running plan, and no two running plans write to
//!       overlapping ranges of one level.
//!   P3  Newer data stays above older data: if a table of level 0 is an input, all older tables of
//!       level 0 that overlap it are inputs too (V2).
//!   P4  An entry goes to a level only if all older data for its key, in that level and in those
//!       above, is part of the inputs and goes at least as deep (V2).
//!   P5  A table that repeatedly cannot be read is set aside, and no plan uses it as an input. By
//!       P1 and P3, the tables over it stay where they are; everything else is compacted as usual.
//!       Writes are refused only when they would stall because of such a table, or when enough
//!       tables are set aside to show that the drive is failing.
//!   P6  A merge that has not read exactly as many entries as its whole inputs have changes nothing, and
//!       its first input is treated like one that cannot be read (P5).
//!
//! Sources: LevelDB's leveled compaction (round-robin victims, trivial moves, the limit on
//! grandparents); RocksDB's choice of the victim with the least overlap.

pub(crate) mod busy;
pub(crate) mod merge;
pub(crate) mod plan;
pub(crate) mod policy;
pub(crate) mod routes;
pub(crate) mod situation;
