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
    let kept = state.streams.kept.total();
    if state.regions.total() + kept != state.buffer.len() {
        return Err(format!(
            "{} buffered, {} in regions, {kept} kept",
            state.buffer.len(),
            state.regions.total()
        ));
    }
    for region in state.regions.iter() {
        let copied: Blocks = state.copies.copies_of(region).map(|(range, _)| range.len).sum();
        let pending: Blocks = state.pending.within(region).map(|range| range.len).sum();
        let held: Blocks = state.streams.held.within(region).map(|range| range.len).sum();
        if copied + pending + held < region.len {
            return Err(format!("K1: {region} is neither in the journal nor about to be"));
        }
    }
    if let Some(range) = state.streams.held.iter().find(|&range| {
        let buffered: Blocks = state.regions.within(range).map(|range| range.len).sum();
        buffered < range.len || state.pending.within(range).next().is_some()
    }) {
        return Err(format!("T1: {range} is held, but not in the buffer, or also pending"));
    }
    for kept in state.streams.kept.iter() {
        let pieces = state.pieces(kept).map_err(|error| error.to_string())?;
        let is_mapped = pieces.iter().all(|piece| piece.at.is_some());
        if !is_mapped || state.regions.within(kept).next().is_some() {
            return Err(format!("T3: {kept} is kept, but not mapped, or also to be written"));
        }
    }
    let mut broken = None;
    let disk = state.map_disk();
    let walked = state.map.each_of_base(&disk, &mut |run| {
        let slot = state.zones.pool.zone_of(run.at);
        let used = slot.map(|slot| slot.used);
        let may_hold = matches!(used, Some(Use::Open | Use::Sealed | Use::Unreadable));
        let is_live =
            (0..run.len.get()).all(|index| state.map.is_live(run.at + Blocks::new(index)));
        let is_shared = state.map.newest().owner(run.place()).is_some();
        if !may_hold || !is_live || is_shared {
            broken = Some(format!("L2: {run} in {slot:?}, live: {is_live}, shared: {is_shared}"));
        }
    });
    walked.map_err(|error| error.to_string())?;
    if let Some(broken) = broken {
        return Err(broken);
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
