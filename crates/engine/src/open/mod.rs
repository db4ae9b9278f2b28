//! Procedures over a whole store: opening it, checking it, printing its content.

pub(crate) mod check;
pub(crate) mod dump;
pub(crate) mod recover;

#[cfg(test)]
mod opening_cost;
