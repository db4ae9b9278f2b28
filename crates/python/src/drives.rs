//! What there is to choose from: layouts and profiles of drives.

use imbrex::Layout;
use imbrex::emulated::Profile;
use pyo3::prelude::*;

/// Each layout's name, recording, source and summary, and whether it takes a flash drive.
#[pyfunction]
pub(crate) fn layout_table() -> Vec<(&'static str, &'static str, &'static str, &'static str, bool)>
{
    let row = |layout: Layout| {
        let recording = layout.recording().name();
        (layout.name(), recording, layout.source(), layout.summary(), layout.takes_flash())
    };
    Layout::all().map(row).collect()
}

/// The names of the profiles: real models of drives that an emulated one can be like.
#[pyfunction]
pub(crate) fn profiles() -> Vec<&'static str> {
    Profile::names().collect()
}
