//! Tests on simulated drives of every rule.

mod any_order;
mod behaviour;
mod bytes;
mod crowded;
mod cuts;
mod damage;
mod killed;
mod meanwhile;
mod pending;
mod stage;
mod story;
