//! Torture of the whole stack: a key-value store, checked against a map.
//!
//! What must hold after a recovery: the store equals the model after some prefix of the
//! acknowledged writes that includes every synced one. Batches are there as a whole or not at all.
//! After a close in good order nothing is missing. The check of the whole store finds nothing. Then
//! comes damage (`damage`).

mod backup;
mod cursor;
mod damage;
pub(crate) mod full;
mod keys;
mod model;
mod operations;
mod store;

use crate::rig::{Ending, Rig, Weather, chain};
use model::Model;
use operations::Life;
use store::{KEYSPACES, Store, draw_options};

/// Runs the lives of one seed.
pub(crate) fn run(rig: &mut Rig) -> Result<(), String> {
    rig.format()?;
    let mut model = Model::new(1 + KEYSPACES.len());
    let mut ending = Ending::Close;
    for _ in 0..rig.draw_life_count() {
        let mut store = recover(rig, &mut model, ending)?;
        rig.begin_life();
        ending = Life::new(&mut store).live(rig, &mut model)?;
        note_life(rig, &store);
        ending = end_life(rig, store, &mut model, ending)?;
    }
    let store = recover(rig, &mut model, ending)?;
    rig.world.run_until_idle();
    let got = store.read_all().map_err(|error| chain(&error))?;
    if let Some(difference) = model.now.difference(&got) {
        return Err(format!("after background work came to rest: {difference}"));
    }
    store.check()?;
    note_life(rig, &store);
    end_life(rig, store, &mut model, Ending::Close)?;
    if rig.has_last_act() { damage::run(rig, &mut model) } else { Ok(()) }
}

/// Records what the store did in a finished life.
fn note_life(rig: &mut Rig, store: &Store) {
    rig.note_life(&store.files);
    let compaction = store.keyspaces[0].options().compaction;
    rig.work.note(&store.db.metrics(), compaction);
}

/// Ends a life as drawn. Returns the ending that counts.
fn end_life(
    rig: &mut Rig,
    store: Store,
    model: &mut Model,
    ending: Ending,
) -> Result<Ending, String> {
    rig.kill(ending);
    let ending = match store.close() {
        Ok(()) if ending == Ending::Close => {
            model.synced();
            ending
        }
        Ok(()) => ending,
        Err(error) if ending == Ending::Close => {
            rig.excuse("close", &error)?;
            Ending::PowerCut
        }
        Err(error) => {
            rig.say(format!("close failed: {}", chain(&error)));
            ending
        }
    };
    rig.reboot(ending)
}

/// Opens the store, through power cuts, and compares what it found with the model.
fn recover(rig: &mut Rig, model: &mut Model, ending: Ending) -> Result<Store, String> {
    // A store may be opened with other options each time; the options of keyspaces are stored.
    let options = draw_options(rig);
    for attempt in 0.. {
        if attempt < 3 {
            rig.begin_recovery(attempt);
        }
        match Store::open(rig, &options) {
            Ok(store) if !rig.is_foul() => {
                rig.set_weather(Weather::Fair);
                rig.say("compare everything".to_string());
                let got = store.read_all().map_err(|e| format!("recovery: {}", chain(&e)))?;
                let lost = model.settle(got, ending != Ending::Close)?;
                if lost > 0 {
                    rig.say(format!("{lost} unsynced writes are gone"));
                }
                let checkpoints = store.read_checkpoints();
                let checkpoints = checkpoints.map_err(|e| format!("checkpoints: {}", chain(&e)))?;
                model.settle_checkpoints(checkpoints)?;
                store.check()?;
                rig.check_pair()?;
                return Ok(store);
            }
            Ok(store) => {
                rig.kill(Ending::PowerCut);
                drop(store);
            }
            Err(error) => rig.excuse("recovery", &error)?,
        }
        rig.reboot(Ending::PowerCut)?;
    }
    unreachable!("in fair weather a recovery succeeds or ends the run")
}
