//! Tests on simulated drives of every rule.

mod behaviour;
mod bytes;
mod cuts;
mod stage;
mod story;
