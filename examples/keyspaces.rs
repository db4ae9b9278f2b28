//! Keeps two kinds of data apart, each with its own options; one batch spans both.

use imbrex::{KeyspaceOptions, Options};

fn main() -> Result<(), imbrex::Error> {
    let path = imbrex_examples::image("keyspaces");
    let store = imbrex::create(path, Options::new().capacity(2 << 30))?;
    // Long values that are read one at a time: larger blocks compress better.
    let large_blocks = KeyspaceOptions { block_len_bytes: 64 << 10, ..KeyspaceOptions::default() };
    let mails = store.create_keyspace("mails", large_blocks)?;
    let index = store.create_keyspace("index", KeyspaceOptions::default())?;

    let mut batch = store.batch();
    batch.put_in(&mails, "42", "Dear all, the roof is tiled.")?;
    batch.put_in(&index, "roof/42", "")?;
    batch.put_in(&index, "tiled/42", "")?;
    store.write(batch)?;

    for entry in index.prefix("roof/")? {
        let id = entry?.0.slice("roof/".len()..);
        println!("{id:?}: {:?}", mails.get(&id)?);
    }
    println!("keyspaces: {:?}", store.keyspace_names());
    store.close()
}
