//! Whether the parts of a state agree.

use super::*;

/// Checks that the parts agree.
///
/// # Errors
/// The first violation, in words.
pub(super) fn check(state: &DriverState) -> Result<(), String> {
    state.map.check()?;
    state.buffer.check()?;
    state.regions.check()?;
    state.pending.check()?;
    state.copies.check()?;
    state.zones.summaries.check(&state.zones.pool)?;
    state.zones.pool.check()?;
    if state.regions.total() != state.buffer.len() {
        return Err(format!(
            "{} buffered, {} in regions",
            state.buffer.len(),
            state.regions.total()
        ));
    }
    for region in state.regions.iter() {
        let copied: Blocks = state.copies.copies_of(region).map(|(range, _)| range.len).sum();
        let pending: Blocks = state.pending.within(region).map(|range| range.len).sum();
        if copied + pending < region.len {
            return Err(format!("K1: {region} is neither in the journal nor about to be"));
        }
    }
    for slot in state.zones.pool.iter() {
        let valid = state.map.valid(slot.zone);
        let may_hold = matches!(slot.used, Use::Open | Use::Sealed | Use::Unreadable);
        if !may_hold && !valid.is_zero() {
            return Err(format!("K3: {} is {:?} and holds {valid}", slot.zone, slot.used));
        }
        let owned = state.zones.open.contains(&Some(slot.zone));
        if (slot.used == Use::Open) != owned {
            return Err(format!("{} is {:?}, but owned: {owned}", slot.zone, slot.used));
        }
    }
    Ok(())
}
