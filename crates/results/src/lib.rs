//! Results pages: the data file that a command writes, and the page and the chart that come from it.
//!
//! ```text
//!   imbrex bench, imbrex repro, cargo xtask databases ...
//!        |  Measured: the command as typed, its tables             --data FILE
//!        v
//!   docs/results/data/NAME.json    Data
//!        |--page--> the block between the markers of docs/results/NAME.md
//!        +--chart-> docs/results/charts/NAME.svg
//! ```
//!
//! A command knows what it ran and what it measured. A person adds the question, the smallest form of the command, the
//! machine and the limits.
//!
//! Invariants
//!   P1  The generated block and the chart of every page are what its data file gives, byte for byte.
//!   P2  A page has at most [`PAGE_LEN_BYTES_MAX`] bytes and asks the question of its data file.
//!   P3  A data file names command, commit, date and machine, and exactly three limits.
//!   P4  A command that writes into a data file changes only what it measured: the command, the tables of the same
//!       titles, commit and date. Commit and date are empty if the command does not know them, so that P3 asks for them.
//!
//! A data file has more tables than its page shows: the page shows the first and counts the others. One page more,
//! the headline claims, has figures of several data files (`headlines`).
//!
//! Not here: the measurements (the commands), reading and writing files (the commands and `cargo xtask results`).

mod chart;
mod data;
mod headlines;
mod measured;
mod page;
mod site;

pub use data::{Data, Table};
pub use measured::{Measured, command_line};
pub use site::{Fault, PAGE_LEN_BYTES_MAX, RESULTS_DIR, Site, faults, site};

#[cfg(test)]
mod tests;
