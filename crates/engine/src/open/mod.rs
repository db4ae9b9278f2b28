//! Procedures over a whole store: opening it, checking it, printing what it consists of.

pub(crate) mod check;
pub(crate) mod dump;
pub(crate) mod recover;
