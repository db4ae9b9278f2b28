//! The moments at which a sweep cuts the power.

/// Two moments of power cuts, counted in device events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cuts {
    /// How many events of the first life complete.
    pub at: u64,
    /// Whether they are events of the flash drive, which loses its power together with the other.
    pub is_on_flash: bool,
    /// How many events of the following recovery complete, and of the life after that. If the
    /// number is odd, events of the other drive count.
    pub again: u64,
}
