//! Reads the store as it was at one moment while writers go on.

use imbrex::Options;

fn main() -> Result<(), imbrex::Error> {
    let path = imbrex_examples::image("snapshots");
    let store = imbrex::create(path, Options::new().capacity(2 << 30))?;
    store.put("temperature", "21")?;

    let before = store.snapshot();
    store.put("temperature", "24")?;
    store.put("humidity", "60")?;

    println!("now    {:?}", store.get("temperature")?);
    println!("before {:?}", before.get("temperature")?);
    println!(
        "before {} keys, now {}",
        before.range::<&str>(..)?.count(),
        store.range::<&str>(..)?.count()
    );
    drop(before); // compaction may drop the old value now
    store.close()
}
