//! Opens the store at a path, or creates it when nothing is there.

use imbrex::{ErrorKind, Options, Store};

fn main() -> Result<(), imbrex::Error> {
    let path = imbrex_examples::image("open_or_create");
    for run in ["first", "second"] {
        let store = open_or_create(&path)?;
        println!("{run} run: {:?}", store.get("visits")?);
        store.put("visits", run)?;
        store.close()?;
    }
    Ok(())
}

fn open_or_create(path: &std::path::Path) -> Result<Store, imbrex::Error> {
    match imbrex::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            imbrex::create(path, Options::new().capacity(2 << 30))
        }
        opened => opened,
    }
}
