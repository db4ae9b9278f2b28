//! Reads ranges of keys: forwards, backwards, by prefix, and a page at a time.

use imbrex::Options;

fn main() -> Result<(), imbrex::Error> {
    let path = imbrex_examples::image("scans");
    let store = imbrex::create(path, Options::new().capacity(2 << 30))?;
    for day in 1..=9 {
        store.put(format!("2026-11-0{day}"), format!("{} steps", day * 1000))?;
    }

    let (newest, _) = store.range::<&str>(..)?.next_back().expect("nine days")?;
    println!("the newest day is {newest:?}");

    let week = store.range("2026-11-03".."2026-11-06")?.count();
    println!("{week} days from the 3rd to the 5th");

    let mut page_start = b"2026-".to_vec();
    loop {
        let page: Vec<_> = store.range(page_start..)?.take(4).collect::<Result<_, _>>()?;
        let Some((last, _)) = page.last() else { break };
        println!("a page of {} up to {last:?}", page.len());
        page_start = [last, &b"\0"[..]].concat(); // the next possible key
    }
    store.close()
}
