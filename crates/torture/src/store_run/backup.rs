//! A backup to a second drive, compared with the model.

use super::cursor::Trouble;
use super::model::Model;
use super::store::{KEYSPACES, Store};
use crate::rig::{Rig, chain};
use imbrex_disk::{Blocks, Disk, Geometry, GeometrySpec, Rule};
use imbrex_disk_sim::SimDisk;
use imbrex_engine::{Db, Options};
use imbrex_files::{FileLayer, FormatOptions, PlacementKind};
use std::sync::Arc;

/// Backs the store up to a new drive, opens the copy and compares all of it.
pub(crate) fn compare(rig: &mut Rig, store: &Store, model: &mut Model) -> Result<(), Trouble> {
    let target = format(rig).map_err(Trouble::Wrong)?;
    store.db.backup_to(&target)?;
    let options = Options { background_work: false, ..Options::default() };
    let db = Db::open(Arc::new(target.clone()), rig.runtime.clone(), options)
        .map_err(|error| Trouble::Wrong(format!("the backup does not open: {}", chain(&error))))?;
    let mut keyspaces = vec![db.default_keyspace()];
    for keyspace in KEYSPACES {
        keyspaces.push(db.keyspace(keyspace)?);
    }
    let copy = Store { files: target, db, keyspaces };
    let got = copy
        .read_all()
        .map_err(|error| Trouble::Wrong(format!("reading the backup: {}", chain(&error))))?;
    if let Some(difference) = model.now.difference(&got) {
        return Err(Trouble::Wrong(format!("the backup: {difference}")));
    }
    copy.check().map_err(|what| Trouble::Wrong(format!("the backup: {what}")))
}

/// A drive with enough room: without zones, twice as long, and without faults.
fn format(rig: &Rig) -> Result<FileLayer, String> {
    let len = Blocks::new(2 * rig.scenario.geometry().len().get());
    let geometry = Geometry::new(GeometrySpec { len, rule: Rule::Anywhere });
    let geometry = geometry.map_err(|error| error.to_string())?;
    let disk = SimDisk::builder(geometry).memory().map_err(|error| error.to_string())?;
    let placement = PlacementKind::by_name("first-fit").ok_or("no placement first-fit")?;
    let options = FormatOptions::new(placement);
    FileLayer::format(Arc::new(disk) as Arc<dyn Disk>, &options, &rig.runtime)
        .map_err(|error| format!("format the target of a backup: {}", chain(&error)))
}
