//! [`FileLayer`]: the trait [`Files`] over one disk.
//!
//! ```text
//!   persist ----> placement.plan ----> write ----> PersistedFile --+
//!   create_log -> placement.plan_log -> catalog                    v
//!   commit -------------------------------> namespace -> group commit -> catalog
//!                                                            |
//!   reclaim: zones that nothing holds are reset  <-----------+   (F3: only what is durable)
//! ```

use crate::api::{
    Commit, FileBuffer, FileInfo, FileReader, Files, FilesError, Hints, LogWriter, Persisted,
    SpaceUse, UnitId,
};
use crate::catalog::{
    CatalogStore, Header, NAME_LEN_BYTES_MAX, Shape, read_image, regions, sequences,
};
use crate::clean::CleanJob;
use crate::commit::Committer;
use crate::file::Reader;
use crate::mount::{data_zone_count, mount};
use crate::persist::PersistedFile;
use crate::placement::{Placement, PlacementKind, PlacementOptions, Urgency};
use crate::report::Counts;
use crate::rewrite::{Rewriter, Source, files_start};
use crate::space::{NoSpace, Space};
use imbrex_clockwork::{Job, Runtime};
use imbrex_disk::{Disk, DiskError, Lba, ZoneAction, ZoneKind, ZoneState};
use parking_lot::Mutex;
use std::any::Any;
use std::sync::Arc;

/// How a disk is formatted; recorded on it and found again by [`FileLayer::open`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormatOptions {
    /// The policy that places files.
    pub placement: PlacementKind,
    /// Numbers for the policy, recorded with its name.
    pub placement_options: PlacementOptions,
    /// The layout's name, at most 64 bytes; opaque here.
    pub layout_name: String,
    /// Tells this format of the drive from others; any number will do. On a drive that had a catalog
    /// before it is mixed with the number of that.
    pub format_id: u64,
}

impl FormatOptions {
    /// Options with an empty layout name and a format id of 0.
    pub fn new(placement: PlacementKind) -> FormatOptions {
        FormatOptions {
            placement,
            placement_options: PlacementOptions::default(),
            layout_name: String::new(),
            format_id: 0,
        }
    }
}

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
    /// Held while dead space is made writable: until then nobody can use it, and who looked at the
    /// map meanwhile would find no room.
    reclaiming: Mutex<()>,
    layout_name: String,
    format_id: u64,
}

/// What tells this format of a drive from others: as chosen on a drive without a catalog, and never
/// the same again on one that had `sequence` checkpoints.
fn format_id(chosen: u64, sequence: u64) -> u64 {
    chosen ^ sequence.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl FileLayer {
    /// Formats `disk`, whatever it held, and opens it.
    ///
    /// Every sequential zone is reset. A power cut in between leaves the old files or no catalog.
    ///
    /// # Errors
    /// [`FilesError::Unsuitable`]: the policy cannot live on this drive; nothing was written.
    /// [`FilesError::Disk`].
    pub fn format(
        disk: Arc<dyn Disk>,
        options: &FormatOptions,
        runtime: &Runtime,
    ) -> Result<FileLayer, FilesError> {
        let placement = options.placement.build_with(&options.placement_options);
        let unsuitable = |reason: String| FilesError::Unsuitable {
            placement: placement.name().to_owned(),
            reason,
        };
        let geometry = *disk.geometry();
        options.placement_options.check().map_err(unsuitable)?;
        placement.suits(&geometry).map_err(unsuitable)?;
        let regions = regions(&geometry).map_err(unsuitable)?;
        if geometry.zones().is_some() {
            let count = data_zone_count(&*disk, &regions);
            let needed = placement.zones_needed();
            if count < needed {
                let reason = format!("it has {count} zones for files; {needed} are needed");
                return Err(unsuitable(reason));
            }
        }
        if geometry.zones().is_none() {
            let unit_len = options.placement_options.unit_len;
            let start = files_start(&geometry, &regions, unit_len).map_err(unsuitable)?;
            let room = geometry.len().saturating_sub(start - Lba::new(0));
            let needed = placement.room_needed(&geometry);
            if room < needed {
                return Err(unsuitable(format!(
                    "it has {room} for files, and {needed} are needed for a few tables with their \
                     guards; use a larger drive or shorter tables"
                )));
            }
        }
        if options.layout_name.len() > NAME_LEN_BYTES_MAX {
            return Err(unsuitable("the layout's name is longer than 64 bytes".to_owned()));
        }
        let failed = |source: DiskError| FilesError::Disk {
            what: "formatting the drive".to_owned(),
            source,
        };
        let [a, b] = sequences(&*disk, &regions);
        // The catalog in use goes last: a cut in between must not bring the one before it back.
        let order = if a < b { [0, 1] } else { [1, 0] };
        order.iter().try_for_each(|&i| regions[i].clear(&*disk)).map_err(failed)?;
        let sequence = a.max(b);
        for info in disk.report_zones() {
            let untouched = matches!(
                info.state,
                ZoneState::NoPointer | ZoneState::Empty | ZoneState::ReadOnly | ZoneState::Offline
            );
            if !untouched {
                disk.manage_zone(info.zone, ZoneAction::Reset).map_err(failed)?;
            }
        }
        let header = Header {
            shape: Shape::of(&geometry),
            sequence,
            log_id: 0,
            body_len_bytes: 0,
            body_crc32c: 0,
            placement: placement.name().to_owned(),
            placement_options: options.placement_options,
            layout: options.layout_name.clone(),
            next_file_id: 1,
            format_id: format_id(options.format_id, sequence),
        };
        let mut store = CatalogStore::new(Arc::clone(&disk), regions, 1, header);
        store.checkpoint(crate::catalog::encode_edits(&[]), 1).map_err(failed)?;
        FileLayer::open(disk, runtime)
    }

    /// Opens a formatted disk. Writes nothing: the first change does; but on interlaced tracks what a
    /// power cut left in the backup region is moved back.
    ///
    /// # Errors
    /// [`FilesError::NotFormatted`], [`FilesError::Version`], [`FilesError::Corrupt`],
    /// [`FilesError::Unsuitable`] (a policy this program does not know), [`FilesError::Disk`].
    pub fn open(disk: Arc<dyn Disk>, runtime: &Runtime) -> Result<FileLayer, FilesError> {
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
            .suits(disk.geometry())
            .map_err(|reason| FilesError::Unsuitable { placement: name, reason })?;
        let rewriter = Rewriter::new(
            &disk,
            &image.regions,
            image.header.placement_options.unit_len,
            image.header.format_id,
            placement.rewriting(),
        )
        .map_err(|reason| FilesError::NotFormatted { reason })?;
        if let Some(rewriter) = &rewriter {
            rewriter.recover()?;
        }
        let (space, bodies) = mount(
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
            reclaiming: Mutex::new(()),
            layout_name,
            format_id,
        };
        Ok(FileLayer { inner: Arc::new(inner) })
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
}

impl Inner {
    /// Resets zones that nothing holds and discards runs given back, so that they can be written;
    /// keeps within the drive's limit on active zones.
    pub(crate) fn reclaim(&self) -> Result<(), FilesError> {
        self.committer.lock().check()?;
        let _reclaiming = self.reclaiming.lock();
        while let Some((zone, kind, range)) = self.space.with(|map| map.begin_reset()) {
            let result = match kind {
                ZoneKind::SequentialRequired => self.disk.manage_zone(zone, ZoneAction::Reset),
                ZoneKind::Conventional => self.disk.discard(range),
            };
            self.space.with(|map| map.was_reset(zone, result.is_ok()));
            result
                .map_err(|source| FilesError::Disk { what: format!("resetting {zone}"), source })?;
            self.counts.reset_zone();
        }
        self.finish_zones()?;
        let runs = self.space.with(|map| map.begin_discard());
        let result = runs.iter().try_for_each(|&run| self.disk.discard(run));
        self.space.with(|map| map.was_discarded(&runs));
        result.map_err(|source| FilesError::Disk { what: "discarding free blocks".into(), source })
    }

    /// Keeps within the drive's limit on active zones.
    pub(crate) fn finish_zones(&self) -> Result<(), FilesError> {
        while let Some(zone) = self.space.with(|map| map.zone_to_finish()) {
            self.disk
                .manage_zone(zone, ZoneAction::Finish)
                .map_err(|source| FilesError::Disk { what: format!("finishing {zone}"), source })?;
            self.space.with(|map| map.was_finished(zone));
        }
        Ok(())
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

    fn open_file(&self, name: &str) -> Result<Arc<dyn FileReader>, FilesError> {
        let live = self.committer.lock();
        let body = live
            .namespace
            .id_of(name)
            .and_then(|id| live.bodies.get(&id))
            .map(Arc::clone)
            .ok_or_else(|| FilesError::NotFound { name: name.to_owned() })?;
        drop(live);
        Ok(Reader::new(self.source.clone(), body, name.to_owned()))
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
        self.inner.open_file(name)
    }

    fn commit(&self, commit: Commit) -> Result<(), FilesError> {
        self.inner.commit(commit)
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
