//! Formats and opens a pair: verifies that the two drives belong together, and resolves what a
//! power cut left.

use super::flash::{Counts, Flash, FlashCommits};
use super::format::{PairRecord, parse_name};
use super::{FlashOptions, TieredFiles};
use crate::api::Files;
use crate::catalog::{Edit, FileId, FileRecord, Pair};
use crate::commit::Live;
use crate::error::{FilesError, FlashError};
use crate::formatting::{FLASH_LAYOUT_NAME, FormatOptions, Plan};
use crate::layer::FileLayer;
use crate::placement::PlacementKind;
use imbrex_clockwork::Runtime;
use imbrex_disk::Disk;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The placement on flash, which takes writes anywhere.
const FLASH_PLACEMENT: &str = "first-fit";
/// Mixed into the format id on flash, so that the two drives of a pair have different ids.
const FLASH_ID_TAG: u64 = 0xf1a5_4000_0000_0000;

impl TieredFiles {
    /// Formats `main` with `options` and `flash` to go with it, whatever they held, and opens both.
    ///
    /// `options.format_id` must differ from that of every other pair (T4).
    ///
    /// Flash is formatted first: a power cut in between leaves main as it was, and flash blank or
    /// part of a pair that does not exist.
    ///
    /// # Errors
    /// [`FilesError::Unsuitable`], [`FlashError::TooSmall`]: nothing was written.
    /// [`FilesError::Disk`].
    pub fn format(
        main: Arc<dyn Disk>,
        flash: Arc<dyn Disk>,
        options: &FormatOptions,
        flash_options: &FlashOptions,
        runtime: &Runtime,
    ) -> Result<TieredFiles, FilesError> {
        let plan = Plan::new(Arc::clone(&main), options)?;
        let placement =
            PlacementKind::by_name(FLASH_PLACEMENT).expect("it is in the table of placements");
        let on_flash = FormatOptions {
            layout_name: FLASH_LAYOUT_NAME.to_owned(),
            format_id: options.format_id ^ FLASH_ID_TAG,
            ..FormatOptions::new(placement)
        };
        let flash_plan = Plan::new(Arc::clone(&flash), &on_flash)?;
        let (needed_bytes, got_bytes) =
            (flash_options.log_len_bytes_max, flash_plan.room().bytes());
        if got_bytes < needed_bytes {
            return Err(FlashError::TooSmall { needed_bytes, got_bytes }.into());
        }
        let (main_id, flash_id) = (plan.format_id(), flash_plan.format_id());
        let record = PairRecord { main_id, flash_id, age: 1, main_age: 0 };
        flash_plan.write(&[Edit::AppAppend(record.encode())])?;
        plan.write(&[Edit::Pair { flash_id, age: 1 }])?;
        TieredFiles::open(main, flash, runtime)
    }

    /// Opens a pair. Writes nothing until the first change, but flushes both drives.
    ///
    /// # Errors
    /// As for [`FileLayer::open`] and [`Files::sync`]; [`FlashError`] if the two are no pair, or
    /// one is an older copy.
    pub fn open(
        main: Arc<dyn Disk>,
        flash: Arc<dyn Disk>,
        runtime: &Runtime,
    ) -> Result<TieredFiles, FilesError> {
        let main = FileLayer::open_any(main, runtime)?;
        let pair = paired(&main)?.ok_or(FlashError::NotPaired)?;
        let unopened = |source| FlashError::Unopened { source: Box::new(source) };
        let flash = FileLayer::open_any(flash, runtime).map_err(unopened)?;
        let record = record_of(&flash).map_err(unopened)?;
        let (main_id, flash_id) = (main.format_id(), flash.format_id());
        let is_pair =
            record.main_id == main_id && record.flash_id == flash_id && pair.flash_id == flash_id;
        if !is_pair {
            return Err(FlashError::Foreign {
                main_id,
                flash_id: pair.flash_id,
                got_main_id: record.main_id,
                got_flash_id: flash_id,
            }
            .into());
        }
        if record.age < pair.age {
            return Err(FlashError::FlashOlder { expected: pair.age, got: record.age }.into());
        }
        if pair.age < record.main_age {
            return Err(FlashError::MainOlder { expected: record.main_age, got: pair.age }.into());
        }
        // A process that was killed during a sync may have left data in a cache. Conclusions from
        // one drive are recorded on the other, which may keep them longer, so both drives must be
        // durable first.
        main.sync()?;
        flash.sync().map_err(Flash::failed)?;
        let to_remove = reconcile(&main, &flash)?;
        let commits = FlashCommits { age: record.age, main_age: record.main_age, to_remove };
        let flash = Flash {
            files: flash,
            main_id,
            commits: Mutex::new(commits),
            promises: Mutex::new(BTreeMap::new()),
            creating: Mutex::default(),
            counts: Counts::default(),
        };
        Ok(TieredFiles { main, flash: Some(Arc::new(flash)) })
    }

    /// Opens the main drive of a pair without its flash drive, to read the files on it (T7).
    ///
    /// # Errors
    /// As for [`FileLayer::open`]; [`FlashError::NotPaired`].
    pub fn open_without_flash(
        main: Arc<dyn Disk>,
        runtime: &Runtime,
    ) -> Result<TieredFiles, FilesError> {
        let main = FileLayer::open_any(main, runtime)?;
        paired(&main)?.ok_or(FlashError::NotPaired)?;
        Ok(TieredFiles { main, flash: None })
    }
}

/// What a main drive records about its flash drive, if it has one.
fn paired(main: &FileLayer) -> Result<Option<Pair>, FilesError> {
    if main.layout_name() == FLASH_LAYOUT_NAME {
        return Err(FlashError::Alone.into());
    }
    Ok(main.pair())
}

/// What a flash drive records about its pair.
fn record_of(flash: &FileLayer) -> Result<PairRecord, FilesError> {
    if flash.layout_name() != FLASH_LAYOUT_NAME {
        let reason =
            format!("it holds layout {:?}, so it is not a flash drive", flash.layout_name());
        return Err(FilesError::NotFormatted { reason });
    }
    let corrupt = |reason| FilesError::Corrupt {
        structure: "record of the pair",
        place: "the flash drive's catalog".to_owned(),
        reason,
    };
    match flash.app_records().as_slice() {
        [record] => PairRecord::decode(record).map_err(corrupt),
        records => Err(corrupt(format!("{} records; one is expected", records.len()))),
    }
}

/// Resolves the files on flash. Logs that main does not know are recorded there, as files or as
/// gone. Returns the files to remove on flash.
fn reconcile(main: &FileLayer, flash: &FileLayer) -> Result<BTreeSet<FileId>, FilesError> {
    let mut found: BTreeMap<FileId, (Option<String>, FileRecord)> = BTreeMap::new();
    for (name, file) in flash.inner.committer.lock().namespace.list("") {
        let Some((id, created)) = parse_name(name) else {
            return Err(FilesError::Corrupt {
                structure: "name on the flash drive",
                place: format!("{name:?}"),
                reason: "a file id in 16 hexadecimal digits is expected first".to_owned(),
            });
        };
        found.insert(id, (created.map(str::to_owned), file.clone()));
    }
    let committer = &main.inner.committer;
    if let Some(&last) = found.keys().last() {
        committer.reserve_id(last);
    }
    let mut live = committer.lock();
    for (name, file) in live.namespace.list("").filter(|(_, file)| file.is_beside) {
        if !found.contains_key(&file.id) {
            return Err(FlashError::Lost { name: name.to_owned() }.into());
        }
    }
    let gone = live.namespace.pair().map(|pair| pair.gone.clone()).unwrap_or_default();
    for &id in gone.iter().filter(|id| !found.contains_key(id)) {
        live.defer(Edit::Swept { id }, false);
    }
    let mut to_remove = BTreeSet::new();
    for (id, (created, file)) in found {
        if live.namespace.is_beside(id) {
            continue;
        }
        match created {
            Some(name) if !gone.contains(&id) && is_free(&live, &name, id) => {
                let file = FileRecord {
                    id,
                    is_open: false,
                    is_beside: true,
                    span: None,
                    extents: Vec::new(),
                    ..file
                };
                live.defer(Edit::Add { name, file }, false);
            }
            created => {
                // A log that main never recorded, whose name is taken. Main must record it as gone
                // before the name can become free, or the log would get that name at the next
                // opening (T3).
                let is_strange = !gone.contains(&id) && live.namespace.file(id).is_none();
                if created.is_some() && is_strange {
                    live.defer(Edit::Gone { id }, false);
                }
                to_remove.insert(id);
            }
        }
    }
    Ok(to_remove)
}

/// Whether main can record the log under its name. If not, its creation had not returned.
fn is_free(live: &Live, name: &str, id: FileId) -> bool {
    let is_name = crate::names::check(name).is_ok();
    is_name && live.namespace.id_of(name).is_none() && live.namespace.file(id).is_none()
}
