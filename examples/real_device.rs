//! A store on a block device of this machine, zoned or not: `real_device /dev/sdX`. Without an argument it uses an image.
//!
//! A device that holds data is refused; `Options::erase(true)` would format it all the same.

use imbrex::{ErrorKind, Options};
use std::path::PathBuf;

fn main() -> Result<(), imbrex::Error> {
    let argument = std::env::args_os().nth(1).map(PathBuf::from);
    let path = argument.unwrap_or_else(|| imbrex_examples::image("real_device"));
    let store = match imbrex::open(&path) {
        Ok(store) => store,
        // A blank device holds no store yet; an image is not there yet.
        Err(error) if matches!(error.kind(), ErrorKind::NotAStore | ErrorKind::NotFound) => {
            Options::new().create(&path)?
        }
        Err(error) => return Err(error),
    };
    store.put("opened", "yes")?;
    println!("layout {}, {:?}", store.layout(), store.get("opened")?);
    store.close()
}
