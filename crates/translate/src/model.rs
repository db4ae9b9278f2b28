//! Parts of the block driver for programs that reproduce the paper's figures without a drive, or that
//! model a drive without its data.
//!
//! Not stable: names and behaviour follow the block driver and change with it.

pub use crate::block_driver::{
    CleaningChoice, MapRun, MapSpec, Mapping, MappingError, POOL_ZONE_COUNT_MIN, PbaRange, Piece,
    Regions, SPARE_ZONE_COUNT_MIN, SectorRange, SummaryValues, TableMapping, TableWrite,
    ZoneContent, ZoneFill, candidates, choose, data_checksum, spare_zone_count, zone_data_len,
};
