//! Moves money between two accounts: a batch is applied as a whole or not at all, even across a crash.

use imbrex::{Options, WriteOptions};

fn main() -> Result<(), imbrex::Error> {
    let path = imbrex_examples::image("batches");
    let store = imbrex::create(path, Options::new().capacity(2 << 30))?;
    store.put("account/anna", "100")?;
    store.put("account/bert", "0")?;

    let mut batch = store.batch();
    batch.put("account/anna", "70")?;
    batch.put("account/bert", "30")?;
    batch.put("transfer/1", "anna to bert: 30")?;
    store.write_with(batch, WriteOptions::SYNC)?; // durable on return

    for entry in store.prefix("account/")? {
        let (key, value) = entry?;
        println!("{key:?} = {value:?}");
    }
    store.close()
}
