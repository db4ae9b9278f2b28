//! One put, as every layer it passes sees it, down to the zones of the platter.
//!
//! The drive is emulated in memory and time is virtual, so the output is always the same.
//! `journey_of_a_put.txt` next to this file holds it.

use imbrex_clockwork::{Order, Runtime};
use imbrex_disk::{Counters, Disk};
use imbrex_disk_sim::{Profile, SimDisk};
use imbrex_engine::{Db, EngineError, Options, WriteOptions};
use imbrex_files::{FileLayer, Files, FormatOptions, PlacementKind};
use std::error::Error;
use std::sync::Arc;

fn main() -> Result<(), Box<dyn Error>> {
    let (runtime, _) = Runtime::virtual_time(Order::SmallestTime);
    let profile = Profile::by_name("hc620")?.scaled(8 << 30)?;
    let disk = SimDisk::builder(profile.geometry()).profile(profile.clone());
    let disk = Arc::new(disk.clock(Arc::clone(&runtime.clock)).memory()?);
    println!("drive   {}, scaled to {}", profile.title(), disk.geometry().len());

    let placement = PlacementKind::by_name("zone-per-level").ok_or("no such placement")?;
    let format = FormatOptions::new(placement);
    let files = Arc::new(FileLayer::format(disk.clone(), &format, &runtime)?);
    let db = Db::open(files.clone(), runtime.clone(), Options::default())?;
    let stage = Stage { disk, files, runtime, db };

    stage.tell("put(\"apple\", \"red\")", |db| db.default_keyspace().put("apple", "red"))?;
    println!("engine  write #{}: in the log's open frame and in the memtable", stage.last_write());

    stage.tell("put(\"banana\", \"yellow\"), synced", |db| {
        db.default_keyspace().put_with("banana", "yellow", WriteOptions::SYNC)
    })?;
    println!(
        "engine  write #{}: the frame went to the log, with the one before",
        stage.last_write()
    );

    stage.tell("flush()", |db| db.flush())?;
    print!("engine  {}", stage.db.property("levels").unwrap_or_default());

    Ok(stage.tell("get(\"apple\")", |db| db.default_keyspace().get("apple").map(|_| ()))?)
}

struct Stage {
    disk: Arc<SimDisk>,
    files: Arc<FileLayer>,
    runtime: Runtime,
    db: Db,
}

impl Stage {
    fn last_write(&self) -> String {
        self.db.property("last-sequence").unwrap_or_default()
    }

    /// Runs `act` and prints what the layers below saw of it.
    fn tell(
        &self,
        title: &str,
        act: impl FnOnce(&Db) -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        let (before, start_ns) = (self.disk.counters(), self.runtime.clock.now_ns());
        act(&self.db)?;
        let (did, ns) = (self.disk.counters() - before, self.runtime.clock.now_ns() - start_ns);
        println!("\n{title}: {:.3} ms", ns as f64 / 1e6);
        let Counters { written_bytes, read_bytes, flushes, .. } = did;
        println!("disk    {written_bytes} bytes written, {read_bytes} read, {flushes} flushes");
        for file in self.files.list("") {
            let Some(first) = file.extents.first() else { continue };
            let zones = self.disk.report_zones();
            let zone = zones.iter().rev().find(|zone| zone.start <= first.start);
            let place = zone.map_or(String::new(), |zone| {
                format!("{}, {:?}, {} into it", zone.zone, zone.kind, first.start - zone.start)
            });
            println!("files   {}: {} bytes, in {place}", file.name, file.len_bytes);
        }
        Ok(())
    }
}
