//! Chooses a layout by name: how the store lies on the drive. `imbrex layouts` lists them.

use imbrex::{Layout, Options};

fn main() -> Result<(), imbrex::Error> {
    for name in ["leveled-zones", "sealdb", "gear", "imr-m"] {
        let layout = Layout::by_name(name)?;
        let path = imbrex_examples::image(name);
        let store = Options::new().layout(name).capacity(2 << 30).create(path)?;
        store.put("apple", "red")?;
        println!("{name:<14} {:<11} {}", layout.recording().name(), layout.summary());
        store.close()?;
    }
    Ok(())
}
