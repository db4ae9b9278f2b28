//! What every picture in SVG needs: scales with round ticks, colours, texts, coordinates as short as they can be.
//!
//! Users: the picture of `arrival_bench`, and the charts of the crate `imbrex-repro`.

mod axis;
mod draw;

pub use axis::{Scale, short};
pub use draw::{colour, escape, px, text};
