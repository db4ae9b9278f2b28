//! Procedures over a whole store: opening it, checking it, scrubbing it, printing its content.

pub(crate) mod check;
pub(crate) mod dump;
pub(crate) mod parts;
pub(crate) mod recover;
pub(crate) mod scrub;

#[cfg(test)]
mod opening_cost;
