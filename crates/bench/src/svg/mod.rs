//! Building blocks of SVG pictures: scales with round ticks, colours, texts, compact coordinates.
//!
//! Users: the picture of `arrival_bench`, and the charts of the crate `imbrex-repro`.

mod axis;
mod draw;

pub use axis::{Scale, short};
pub use draw::{colour, escape, px, text};
