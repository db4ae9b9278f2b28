//! Cuts the power of an emulated drive: what was synced is there afterwards, what was not may be gone.

use imbrex::emulated::SimDisk;
use imbrex::{Options, WriteOptions};
use imbrex_clockwork::Prng;
use imbrex_disk::Blocks;
use std::error::Error;
use std::sync::Arc;

fn main() -> Result<(), Box<dyn Error>> {
    let disk = Arc::new(SimDisk::tiny_zoned(64, Blocks::new(256)));
    let store = Options::new().create_on(disk.clone())?;
    store.put_with("synced", "yes", WriteOptions::SYNC)?;
    store.put("unsynced", "who knows")?;

    disk.cut_power();
    if let Err(error) = store.put_with("late", "no", WriteOptions::SYNC) {
        println!("without power: {error}");
    }
    drop(store);

    disk.power_cycle(&mut Prng::new(1))?; // the power is back
    let store = Options::new().open_on(disk)?;
    println!("synced: {:?}, unsynced: {:?}", store.get("synced")?, store.get("unsynced")?);
    Ok(store.close()?)
}
