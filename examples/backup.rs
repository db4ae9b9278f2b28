//! Keeps a checkpoint on the same drive, and a copy of the store on another one.

use imbrex::Options;

fn main() -> Result<(), imbrex::Error> {
    let drive = Options::new().capacity(2 << 30);
    let store = drive.create(imbrex_examples::image("backup"))?;
    store.put("apple", "red")?;

    store.checkpoint("monday")?; // shares the tables: no copy
    let copy = imbrex_examples::image("backup-copy");
    store.backup_to(&copy, &drive)?; // reads and writes every table once
    store.put("apple", "green")?;

    let monday = store.open_checkpoint("monday")?;
    println!("now        {:?}", store.get("apple")?);
    println!("monday     {:?}", monday.default_keyspace().get("apple")?);
    println!("in copy    {:?}", imbrex::open(&copy)?.get("apple")?);
    drop(monday);
    store.delete_checkpoint("monday")?;
    store.close()
}
