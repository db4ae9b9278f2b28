//! What policies and merges need to know from the store about tables, and where merges put them.

use super::Store;
use crate::EngineError;
use crate::batch::KeyspaceId;
use crate::compaction::merge::output::{Moment, TableHome};
use crate::compaction::plan::{GivesBack, TableFacts};
use crate::table::TableProperties;
use crate::version::{TableId, TableSlot};
use imbrex_files::{FileBuffer, FilesError, Persisted, UnitId};

impl TableFacts for Store {
    fn unit_of(&self, table: &TableSlot) -> Option<UnitId> {
        let file = table.file().filter(|_| !table.is_on_flash())?;
        self.files.unit_at(file.extents().first()?.start)
    }

    fn is_filling(&self, unit: UnitId) -> bool {
        self.files.is_filling(unit)
    }

    fn gives_no_zone_back(&self, table: &TableSlot) -> bool {
        table.is_on_flash() || self.files.name_count(&table.meta.id.file_name()) > 1
    }

    fn is_in_set(&self, table: &TableSlot) -> bool {
        table.file().is_some_and(|file| file.is_in_set())
    }

    fn properties(&self, table: &TableSlot) -> Option<TableProperties> {
        table.properties(&self.cache)
    }
}

/// The facts that cost no read: of a table that is not open, a policy learns what it would of one that cannot be read.
#[derive(Debug)]
pub(crate) struct OpenTables<'a>(pub(crate) &'a Store);

impl TableFacts for OpenTables<'_> {
    fn unit_of(&self, table: &TableSlot) -> Option<UnitId> {
        self.0.unit_of(table)
    }

    fn is_filling(&self, unit: UnitId) -> bool {
        self.0.is_filling(unit)
    }

    fn gives_no_zone_back(&self, table: &TableSlot) -> bool {
        self.0.gives_no_zone_back(table)
    }

    fn is_in_set(&self, table: &TableSlot) -> bool {
        self.0.is_in_set(table)
    }

    fn properties(&self, table: &TableSlot) -> Option<TableProperties> {
        table.opened().and_then(|_| table.properties(&self.0.cache))
    }
}

impl TableHome for Store {
    fn new_table_id(&self) -> TableId {
        TableId(self.new_id())
    }

    fn check_room(&self, tables: &[FileBuffer], gives_back: GivesBack) -> Result<(), EngineError> {
        self.check_room_for_outputs(tables.iter().map(FileBuffer::len_bytes), gives_back)
    }

    fn moment(&self, keyspace: KeyspaceId, table: TableId, len_bytes: u64) -> Option<Moment> {
        Some(self.moment_of(keyspace, table, len_bytes))
    }

    fn persist(&self, tables: Vec<FileBuffer>) -> Result<Vec<Box<dyn Persisted>>, FilesError> {
        self.files.persist(tables)
    }
}
