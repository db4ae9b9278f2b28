//! [`FileLayer`]: the trait [`Files`] over one disk.
//!
//! ```text
//!   persist ----> placement.plan ----> write ----> PersistedFile --+
//!   create_log -> placement.plan_log_pieces -> catalog                  v
//!   commit -------------------------------> namespace -> group commit -> catalog
//!                                                            |
//!   reclaim: zones that nothing holds are reset  <-----------+   (F3: only what is durable)
//! ```

use crate::api::{Commit, FileInfo, FileReader, Files, LogWriter, Persisted, SpaceUse, UnitId};
use crate::catalog::{CatalogStore, Pair, read_image};
use crate::clean::{CleanJob, Cleaning};
use crate::commit::Committer;
use crate::error::FilesError;
use crate::error::FlashError;
use crate::file::Reader;
use crate::file_buffer::FileBuffer;
use crate::hints::{Hints, Tier};
use crate::persist::PersistedFile;
use crate::placement::{Placement, PlacementKind, Urgency};
use crate::report::Counts;
use crate::restore::restore;
use crate::rewrite::{Rewriter, Source};
use crate::space::{NoSpace, Space};
use crate::tiers::FLASH_LAYOUT_NAME;
use imbrex_clockwork::{Job, Runtime};
use imbrex_disk::{BlockRange, Disk, DiskError, Rule, ZoneAction, ZoneId, ZoneKind, ZoneState};
use parking_lot::Mutex;
use std::any::Any;
use std::sync::Arc;

/// An append-only file namespace on one disk; cheap to clone.
#[derive(Clone, Debug)]
pub struct FileLayer {
    pub(crate) inner: Arc<Inner>,
}

/// What all handles of a file layer share.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) disk: Arc<dyn Disk>,
    /// Where files are read.
    pub(crate) source: Source,
    /// Writes tables, where tracks lie on top of others.
    pub(crate) rewriter: Option<Rewriter>,
    pub(crate) runtime: Runtime,
    pub(crate) placement: Box<dyn Placement>,
    pub(crate) space: Arc<Space>,
    pub(crate) committer: Committer,
    pub(crate) counts: Counts,
    /// Held by a writer that cleans because it has no room.
    pub(crate) cleaning: Mutex<()>,
    /// What background cleaning has begun: locked for a step, and by a writer that has no room, which ends
    /// it first, for as long as that one cleans.
    pub(crate) background: Mutex<Option<Cleaning>>,
    /// Whether background cleaning has ended. Its job locks this for a step; it outlives what the step holds.
    pub(crate) cleaning_has_ended: Arc<Mutex<bool>>,
    /// Held while dead space is made writable: until then nobody can use it, and who looked at the
    /// map meanwhile would find no room.
    reclaiming: Mutex<Reclaiming>,
    layout_name: String,
    format_id: u64,
}

/// What whoever makes dead space writable goes by.
#[derive(Debug, Default)]
struct Reclaiming {
    /// Whether what opening found was flushed since, or is not of another process.
    found_is_durable: bool,
}

impl FileLayer {
    /// Opens a formatted disk. Writes nothing: the first change does, and flushes what was found before; but on
    /// interlaced tracks what a power cut left in the backup region is moved back. Where the drive takes no writes any more in the
    /// zones of the catalog's next checkpoint, all can be read, and a change is refused with their error;
    /// and where a part of what was moved back is damaged, with the names of the files that lack it.
    ///
    /// # Errors
    /// [`FilesError::NotFormatted`], [`FilesError::Version`], [`FilesError::Geometry`],
    /// [`FilesError::Corrupt`], [`FilesError::Unsuitable`] (a policy this program does not know),
    /// [`FilesError::Disk`];
    /// [`FilesError::Flash`]: the drive is one of a pair, which [`TieredFiles`](crate::TieredFiles) opens.
    pub fn open(disk: Arc<dyn Disk>, runtime: &Runtime) -> Result<FileLayer, FilesError> {
        let files = FileLayer::open_any(disk, runtime)?;
        if files.layout_name() == FLASH_LAYOUT_NAME {
            return Err(FlashError::Alone.into());
        }
        match files.pair() {
            Some(pair) => Err(FlashError::NotGiven { flash_id: pair.flash_id }.into()),
            None => Ok(files),
        }
    }

    /// The same of a drive that may be one of a pair.
    pub(crate) fn open_any(
        disk: Arc<dyn Disk>,
        runtime: &Runtime,
    ) -> Result<FileLayer, FilesError> {
        let image = read_image(&*disk)?;
        let mut namespace = image.namespace()?;
        let name = image.header.placement.clone();
        let Some(kind) = PlacementKind::by_name(&name) else {
            let known: Vec<_> = PlacementKind::names().collect();
            let reason = format!("this program knows only {}", known.join(", "));
            return Err(FilesError::Unsuitable { placement: name, reason });
        };
        let placement = kind.build_with(&image.header.placement_options);
        placement
            .reads(disk.geometry())
            .map_err(|reason| FilesError::Unsuitable { placement: name, reason })?;
        let rewriter = Rewriter::new(
            &disk,
            &image.regions,
            image.header.placement_options.unit_len,
            image.header.format_id,
            placement.rewriting(),
        )
        .map_err(|reason| FilesError::NotFormatted { reason })?;
        let flaw = match &rewriter {
            Some(rewriter) => rewriter.recover(&namespace)?,
            None => None,
        };
        let (space, bodies) = restore(
            &*disk,
            &image.regions,
            &mut namespace,
            &*placement,
            &image.header.placement_options,
        )?;
        let layout_name = image.header.layout.clone();
        let format_id = image.header.format_id;
        let store =
            CatalogStore::new(Arc::clone(&disk), image.regions, image.current, image.header);
        let committer = Committer::new(Arc::clone(&disk), namespace, bodies, store);
        if let Some(flaw) = flaw {
            committer.lock().refuse(flaw);
        }
        let detours = rewriter.as_ref().map(|rewriter| Arc::clone(rewriter.detours()));
        let inner = Inner {
            source: Source::new(Arc::clone(&disk), detours),
            disk,
            rewriter,
            runtime: runtime.clone(),
            placement,
            space,
            committer,
            counts: Counts::default(),
            cleaning: Mutex::new(()),
            background: Mutex::new(None),
            cleaning_has_ended: Arc::default(),
            reclaiming: Mutex::default(),
            layout_name,
            format_id,
        };
        Ok(FileLayer { inner: Arc::new(inner) })
    }

    /// What the drive records about a flash drive beside it.
    pub(crate) fn pair(&self) -> Option<Pair> {
        self.inner.committer.lock().namespace.pair().cloned()
    }

    /// The disk below.
    pub fn disk(&self) -> &Arc<dyn Disk> {
        &self.inner.disk
    }

    /// The policy that places files.
    pub fn placement_name(&self) -> &'static str {
        self.inner.placement.name()
    }

    /// The layout's name, as the disk was formatted with.
    pub fn layout_name(&self) -> &str {
        &self.inner.layout_name
    }

    /// A job that cleans in the background where the policy wants it; to be spawned by the opener.
    ///
    /// It waits while there is nothing to clean, and ends when the layer is dropped or poisoned.
    pub fn clean_job(&self) -> Box<dyn Job> {
        Box::new(CleanJob::new(&self.inner))
    }

    /// Ends the job of [`FileLayer::clean_job`]; waits for the step that it is in. After that no job keeps the disk
    /// open, and it can be opened again as soon as the last of its files is dropped.
    pub fn end_cleaning(&self) {
        let mut has_ended = self.inner.cleaning_has_ended.lock();
        *has_ended = true;
        *self.inner.background.lock() = None;
    }
}

impl Inner {
    /// Resets zones that nothing holds and discards runs given back, so that they can be written;
    /// keeps within the drive's limit on active zones. A zone that cannot be reset is retired.
    ///
    /// Before anything is written: what opening found free may be so by a commit that a killed process
    /// left in the drive's cache. A power cut could take that commit alone, and name again what lay there.
    pub(crate) fn reclaim(&self) -> Result<(), FilesError> {
        self.committer.lock().check()?;
        let mut reclaiming = self.reclaiming.lock();
        if !reclaiming.found_is_durable {
            self.flush_found()?;
            reclaiming.found_is_durable = true;
        }
        while let Some((zone, kind, range)) = self.space.with(|map| map.begin_reset()) {
            let result = match kind {
                ZoneKind::SequentialRequired => self.disk.manage_zone(zone, ZoneAction::Reset),
                ZoneKind::Conventional => self.disk.discard(range),
            };
            match result {
                Ok(()) => {
                    self.space.with(|map| map.was_reset(zone));
                    self.counts.reset_zone();
                }
                Err(source) => self.give_up(zone, "resetting", source)?,
            }
        }
        self.finish_zones()?;
        let runs = self.space.with(|map| map.begin_discard());
        let failed = runs.iter().enumerate().find_map(|(done_count, &run)| {
            self.discard(run).err().map(|source| (done_count, source))
        });
        let done_count = failed.as_ref().map_or(runs.len(), |(done_count, _)| *done_count);
        let (done, left) = runs.split_at(done_count);
        self.space.with(|map| {
            map.was_discarded(done);
            map.was_not_discarded(left);
        });
        failed.map_or(Ok(()), |(_, source)| {
            Err(FilesError::Disk { what: "discarding free blocks".into(), source })
        })
    }

    /// Discards a run; where writes go anywhere that is a hint, which a drive need not take.
    fn discard(&self, run: BlockRange) -> Result<(), DiskError> {
        let is_hint = *self.disk.geometry().rule() == Rule::Anywhere;
        match self.disk.discard(run) {
            Err(error @ (DiskError::PowerLost | DiskError::Poisoned)) => Err(error),
            Err(_) if is_hint => Ok(()),
            discarded => discarded,
        }
    }

    /// Says that what opening found is durable: whoever opened it had just written it.
    pub(crate) fn trust_found(&self) {
        self.reclaiming.lock().found_is_durable = true;
    }

    /// Makes durable what opening found. Where that fails nothing is written any more: a second flush would
    /// say nothing about what the first one lost.
    fn flush_found(&self) -> Result<(), FilesError> {
        let flushed = self.disk.flush();
        flushed.map_err(|source| {
            let error =
                FilesError::Disk { what: "making durable what was found".to_owned(), source };
            self.committer.lock().poison(&error);
            error
        })
    }

    /// Keeps within the drive's limit on active zones.
    pub(crate) fn finish_zones(&self) -> Result<(), FilesError> {
        while let Some(zone) = self.space.with(|map| map.begin_finish()) {
            let ended = match self.disk.manage_zone(zone, ZoneAction::Finish) {
                Ok(()) => {
                    self.space.with(|map| map.was_finished(zone));
                    Ok(())
                }
                Err(source) => self.give_up(zone, "finishing", source),
            };
            self.space.wake();
            ended?;
        }
        Ok(())
    }

    /// Begins the zone of `range`, as soon as the drive's limit on active zones allows it.
    pub(crate) fn begin_zone(&self, range: BlockRange) {
        while !self.space.begin_zone(range) {
            // If it fails, the write that follows meets the same error.
            let _ = self.finish_zones();
        }
    }

    /// Retires a zone on which the drive failed: what it holds may still be read.
    ///
    /// # Errors
    /// The drive takes nothing any more.
    fn give_up(&self, zone: ZoneId, doing: &str, source: DiskError) -> Result<(), FilesError> {
        let state = self.disk.zone(zone).map(|info| info.state);
        let is_active = !matches!(state, Some(ZoneState::ReadOnly | ZoneState::Offline));
        self.space.with(|map| map.give_up(zone, is_active));
        match source {
            DiskError::PowerLost | DiskError::Poisoned => {
                Err(FilesError::Disk { what: format!("{doing} {zone}"), source })
            }
            _ => Ok(()),
        }
    }

    /// Wakes the cleaner if the policy wants it.
    pub(crate) fn wake_cleaner(&self) {
        let due = |map: &mut crate::space::SpaceMap| {
            self.placement.plan_reclaim(map, Urgency::Background).is_some()
        };
        if self.space.with(due) {
            self.runtime.scheduler.notify();
        }
    }

    pub(crate) fn no_space(no_space: NoSpace) -> FilesError {
        FilesError::NoSpace {
            needed_bytes: no_space.needed.bytes(),
            free_bytes: no_space.free.bytes(),
        }
    }

    /// Opens the file called `name`; messages call it `shown`.
    pub(crate) fn open_file(
        &self,
        name: &str,
        shown: &str,
    ) -> Result<Arc<dyn FileReader>, FilesError> {
        let live = self.committer.lock();
        let id = live.namespace.id_of(name);
        let body = id.and_then(|id| live.bodies.get(&id)).map(Arc::clone);
        let is_beside = id.is_some_and(|id| live.namespace.is_beside(id));
        drop(live);
        match body {
            Some(body) => Ok(Reader::new(self.source.clone(), body, shown.to_owned())),
            None if is_beside => Err(FlashError::OnFlash { name: shown.to_owned() }.into()),
            None => Err(FilesError::NotFound { name: shown.to_owned() }),
        }
    }
}

impl Files for FileLayer {
    fn persist(&self, files: Vec<FileBuffer>) -> Result<Vec<Box<dyn Persisted>>, FilesError> {
        self.inner.persist(files)
    }

    fn open_persisted(&self, file: &dyn Persisted) -> Result<Arc<dyn FileReader>, FilesError> {
        let any: &dyn Any = file;
        match any.downcast_ref::<PersistedFile>() {
            Some(file) => {
                let source = self.inner.source.clone();
                Ok(Reader::new(source, Arc::clone(&file.body), file.name.clone()))
            }
            None => Err(FilesError::NotFound { name: file.name().to_owned() }),
        }
    }

    fn create_log(&self, name: &str, hints: Hints) -> Result<Arc<dyn LogWriter>, FilesError> {
        self.inner.create_log(name, hints)
    }

    fn open(&self, name: &str) -> Result<Arc<dyn FileReader>, FilesError> {
        self.inner.open_file(name, name)
    }

    fn commit(&self, commit: Commit) -> Result<(), FilesError> {
        self.inner.commit(commit)
    }

    fn sync(&self) -> Result<(), FilesError> {
        let mut reclaiming = self.inner.reclaiming.lock();
        let what = "syncing the drive".to_owned();
        self.inner.disk.flush().map_err(|source| FilesError::Disk { what, source })?;
        reclaiming.found_is_durable = true;
        Ok(())
    }

    fn list(&self, prefix: &str) -> Vec<FileInfo> {
        let live = self.inner.committer.lock();
        live.namespace
            .list(prefix)
            .map(|(name, file)| FileInfo {
                name: name.to_owned(),
                len_bytes: live.bodies.get(&file.id).map_or(0, |body| body.len_bytes()),
                kind: file.kind,
                level: file.level,
                group: file.group,
                tier: if file.is_beside { Tier::Fast } else { Tier::Main },
                extents: file.extents.iter().map(|e| e.range()).collect(),
            })
            .collect()
    }

    fn app_records(&self) -> Vec<Vec<u8>> {
        self.inner.committer.lock().namespace.app_records().to_vec()
    }

    fn name_count(&self, name: &str) -> usize {
        self.inner.committer.lock().namespace.name_count(name)
    }

    fn unit_of(&self, name: &str) -> Option<UnitId> {
        let live = self.inner.committer.lock();
        let file = live.namespace.file(live.namespace.id_of(name)?)?;
        let start = file.extents.first()?.start;
        drop(live);
        self.inner.space.with(|map| map.unit_at(start)).map(UnitId)
    }

    fn format_id(&self) -> u64 {
        self.inner.format_id
    }

    fn space(&self) -> SpaceUse {
        let catalog = self.inner.committer.catalog_use();
        self.inner.space.with(|map| {
            let reserve = map.reserve().min(map.free());
            SpaceUse {
                capacity_bytes: map.capacity().bytes(),
                live_bytes: map.held().bytes(),
                dead_bytes: map.dead().bytes(),
                // Blocks that no catalog can name are not free for just anybody.
                free_bytes: if catalog.is_crowded() { reserve } else { map.free() }.bytes(),
                reserve_bytes: reserve.bytes(),
                grain_bytes: map.grain().bytes(),
                catalog,
            }
        })
    }
}
