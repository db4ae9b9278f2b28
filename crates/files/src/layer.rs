//! [`FileLayer`]: the trait [`Files`] over one disk.
//!
//! ```text
//!   persist ----> placement.plan ------------> write ----> PersistedFile --+
//!   create_log -> placement.plan_log_pieces -> catalog                     v
//!   commit ----------------------------------> namespace -> group commit -> catalog
//!                                                            |
//!   reclaim: zones that nothing holds are reset  <-----------+   (F3: only what is durable)
//! ```

use crate::api::{
    Commit, FileInfo, FileReader, Files, LogWriter, Persisted, RegionPart, SpaceUse, UnitId, Work,
};
use crate::catalog::{CatalogStore, Pair, read_image};
use crate::check::{CheckReport, Checker, describe_catalog};
use crate::clean::{CleanJob, Cleaner};
use crate::commit::Committer;
use crate::edits::Commits;
use crate::error::{FilesError, FlashError};
use crate::file::{FileBody, Reader};
use crate::file_buffer::FileBuffer;
use crate::formatting::{FLASH_LAYOUT_NAME, FormatOptions, Plan};
use crate::hints::{FileKind, Hints, Tier};
use crate::log::Logs;
use crate::persist::{PersistedFile, TableWriter};
use crate::placement::{Placement, PlacementKind};
use crate::placer::Placer;
use crate::reclaim::Reclaimer;
use crate::report::{FreeRun, ZoneUse, free_runs, reserved, zone_map};
use crate::restore::restore;
use crate::rewrite::{Rewriter, Source};
use crate::space::{Claim, Space};
use crate::space_report::{SpaceReport, space_report};
use crate::stats::{Counts, FilesStats};
use imbrex_clockwork::{Job, Runtime};
use imbrex_disk::{Activity, BlockRange, Disk, Handles, Lba};
use parking_lot::Mutex;
use std::any::Any;
use std::collections::BTreeMap;
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
    /// The source that readers of files use.
    source: Source,
    /// Writes tables to interlaced tracks; `None` on other disks.
    pub(crate) rewriter: Option<Arc<Rewriter>>,
    pub(crate) placement: Arc<dyn Placement>,
    pub(crate) space: Arc<Space>,
    pub(crate) committer: Arc<Committer>,
    counts: Arc<Counts>,
    reclaimer: Arc<Reclaimer>,
    pub(crate) cleaner: Arc<Cleaner>,
    pub(crate) tables: TableWriter,
    logs: Arc<Logs>,
    pub(crate) commits: Commits,
    layout_name: String,
    format_id: u64,
}

impl FileLayer {
    /// Opens a formatted disk. At most one layer may write to it: an earlier one of this process must
    /// have been dropped, or must have ended its cleaning ([`FileLayer::end_cleaning`]).
    ///
    /// This writes nothing: the first change does, after a flush of everything found. The exception
    /// is interlaced tracks: data that a power cut left in the backup region are moved back.
    ///
    /// With two kinds of damage the disk can be read, and changes are refused. If the zones of the
    /// catalog's next checkpoint take no writes, the error is theirs. If part of the backup is
    /// damaged, the error names the files that lack it.
    ///
    /// # Errors
    /// [`FilesError::NotFormatted`], [`FilesError::Version`], [`FilesError::Geometry`],
    /// [`FilesError::Corrupt`], [`FilesError::Unsuitable`] (a policy that this program does not
    /// know),
    /// [`FilesError::Disk`];
    /// [`FilesError::Flash`]: the drive is one of a pair, which
    /// [`TieredFiles`](crate::tiers::TieredFiles) opens.
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

    /// Formats `disk`, whatever it held, and opens it.
    ///
    /// Every sequential zone is reset. A power cut during the call leaves the old files, or no
    /// catalog.
    ///
    /// # Errors
    /// [`FilesError::Unsuitable`]: the policy cannot live on this drive; nothing was written.
    /// [`FilesError::Disk`].
    pub fn format(
        disk: Arc<dyn Disk>,
        options: &FormatOptions,
        runtime: &Runtime,
    ) -> Result<FileLayer, FilesError> {
        Plan::new(Arc::clone(&disk), options)?.write(&[])?;
        let layer = FileLayer::open(disk, runtime)?;
        layer.inner.reclaimer.trust_found();
        Ok(layer)
    }

    /// Like `open`, for a drive that may be one of a pair.
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
        let placement: Arc<dyn Placement> = kind.build_with(&image.header.placement_options).into();
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
        let disks = Handles::new(&disk);
        let catalog_disk = disks.of(Activity::Catalog);
        let store = CatalogStore::new(Arc::clone(catalog_disk), image);
        let committer = Committer::new(Arc::clone(catalog_disk), namespace, bodies, store);
        if let Some(flaw) = flaw {
            committer.lock().refuse(flaw);
        }
        let runtime = runtime.clone();
        let parts = Parts { disk, disks, runtime, placement, space, committer, rewriter };
        Ok(FileLayer { inner: Arc::new(parts.assemble(layout_name, format_id)) })
    }

    /// What the catalog records about a flash drive, if the drive is one of a pair.
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

    /// The layout name that the disk was formatted with.
    pub fn layout_name(&self) -> &str {
        &self.inner.layout_name
    }

    /// A job that cleans in the background when the policy wants it. The opener spawns it.
    ///
    /// The job waits while there is nothing to clean, and ends when the layer is dropped or
    /// poisoned.
    pub fn clean_job(&self) -> Box<dyn Job> {
        Box::new(CleanJob::new(&self.inner.cleaner))
    }

    /// Ends the job of [`FileLayer::clean_job`], and waits for its current step. After that no job
    /// keeps the disk open; the disk can be opened again as soon as the last of its files is
    /// dropped.
    pub fn end_cleaning(&self) {
        self.inner.cleaner.end();
    }

    /// Opens the file called `name`; messages call it `shown`.
    pub(crate) fn open_file(
        &self,
        name: &str,
        shown: &str,
    ) -> Result<Arc<dyn FileReader>, FilesError> {
        let live = self.inner.committer.lock();
        let id = live.namespace.id_of(name);
        let body = id.and_then(|id| live.bodies.get(&id)).map(Arc::clone);
        let is_beside = id.is_some_and(|id| live.namespace.is_beside(id));
        let file = id.and_then(|id| live.namespace.file(id));
        let is_log = file.is_some_and(|file| file.kind == FileKind::Log);
        drop(live);
        let source = self.inner.source.clone();
        match body {
            Some(body) if is_log => Ok(Reader::of_log(source, body, shown.to_owned())),
            Some(body) => Ok(Reader::new(source, body, shown.to_owned())),
            None if is_beside => Err(FlashError::OnFlash { name: shown.to_owned() }.into()),
            None => Err(FilesError::NotFound { name: shown.to_owned() }),
        }
    }

    /// What the layer has done since it was opened.
    pub fn stats(&self) -> FilesStats {
        let catalog = self.inner.committer.with_store(|store| store.counts());
        self.inner.counts.stats(catalog)
    }

    /// The present use of each zone, in order of address.
    pub fn zone_map(&self) -> Vec<ZoneUse> {
        let Inner { disk, space, committer, rewriter, .. } = &*self.inner;
        // On interlaced tracks everything before the files serves the catalog or the backup.
        let files_start = rewriter.as_ref().map(|rewriter| rewriter.files_start());
        zone_map(&**disk, space, committer, files_start)
    }

    /// The runs without data on a disk without zones, in order of address; none on other disks and on
    /// interlaced tracks. What is in no run belongs to a file, to the catalog, or is dead.
    ///
    /// Cost: a visit to every free run.
    pub fn free_runs(&self) -> Vec<FreeRun> {
        free_runs(&self.inner.space)
    }

    /// The blocks that no file may use, because the catalog has them, in order of address. On a disk
    /// without zones these are all before the first file.
    pub fn reserved(&self) -> Vec<BlockRange> {
        reserved(&self.inner.space, &self.inner.committer)
    }

    /// How the space is used. Free runs shorter than `set_len_bytes` count as fragments. Without it
    /// the threshold is the mean length of a set, or of a table where there are no sets.
    ///
    /// Cost: a visit to every zone, free run and set.
    pub fn space_report(&self, set_len_bytes: Option<u64>) -> SpaceReport {
        space_report(&self.inner.space, set_len_bytes)
    }

    /// Verifies that extents are on the disk, disjoint and below the write pointers; that the
    /// accounts agree with them; that the catalog reads back as it is in memory; and that an
    /// interrupted rewrite of interlaced tracks was completed.
    ///
    /// Reads the catalog's region. Writers should be idle meanwhile: the check reports concurrent
    /// changes as faults.
    ///
    /// # Errors
    /// [`FilesError::Disk`] if the catalog cannot be read at all.
    pub fn check(&self) -> Result<CheckReport, FilesError> {
        let Inner { disk, space, committer, .. } = &*self.inner;
        Checker { disk: &**disk, space, committer }.check()
    }

    /// The catalog on the disk in words, one line for each edit.
    ///
    /// # Errors
    /// As for [`FileLayer::open`].
    pub fn describe_catalog(&self) -> Result<Vec<String>, FilesError> {
        describe_catalog(&*self.inner.disk)
    }
}

/// The parts of a file layer, before each procedure gets those that it needs.
struct Parts {
    disk: Arc<dyn Disk>,
    /// The same disk, for each activity.
    disks: Handles,
    runtime: Runtime,
    placement: Arc<dyn Placement>,
    space: Arc<Space>,
    committer: Committer,
    rewriter: Option<Rewriter>,
}

impl Parts {
    /// Gives each procedure the parts that it needs.
    fn assemble(self, layout_name: String, format_id: u64) -> Inner {
        let Parts { disk, disks, runtime, placement, space, committer, rewriter } = self;
        let disk_for = |activity| Arc::clone(disks.of(activity));
        let placement = || Arc::clone(&placement);
        let space = || Arc::clone(&space);
        let rewriter = rewriter.map(Arc::new);
        let detours = rewriter.as_ref().map(|rewriter| Arc::clone(rewriter.detours()));
        let committer = Arc::new(committer);
        let committer = || Arc::clone(&committer);
        let counts = Arc::new(Counts::default());
        let counts = || Arc::clone(&counts);
        let reclaimer = Arc::new(Reclaimer::new(&disks, space(), committer(), counts()));
        let reclaimer = || Arc::clone(&reclaimer);
        let placer = Arc::new(Placer::new(disks.clone(), space(), placement(), reclaimer()));
        let cleaner = Arc::new(Cleaner {
            disk: disk_for(Activity::Cleaning),
            space: space(),
            placement: placement(),
            committer: committer(),
            counts: counts(),
            runtime,
            reclaimer: reclaimer(),
            placer: Arc::clone(&placer),
            turn: Mutex::new(()),
            background: Mutex::new(None),
            has_ended: Arc::default(),
        });
        let cleaner = || Arc::clone(&cleaner);
        let tables = TableWriter {
            space: space(),
            placement: placement(),
            committer: committer(),
            counts: counts(),
            reclaimer: reclaimer(),
            placer,
            cleaner: cleaner(),
            rewriter: rewriter.clone(),
        };
        let logs = Logs {
            disk: disk_for(Activity::Log),
            space: space(),
            placement: placement(),
            committer: committer(),
            counts: counts(),
            reclaimer: reclaimer(),
            cleaner: cleaner(),
        };
        let commits = Commits {
            space: space(),
            committer: committer(),
            counts: counts(),
            reclaimer: reclaimer(),
            cleaner: cleaner(),
        };
        Inner {
            source: Source::new(disks.clone(), detours),
            disk,
            rewriter,
            placement: placement(),
            space: space(),
            committer: committer(),
            counts: counts(),
            reclaimer: reclaimer(),
            cleaner: cleaner(),
            tables,
            logs: Arc::new(logs),
            commits,
            layout_name,
            format_id,
        }
    }
}

impl Files for FileLayer {
    fn persist(&self, files: Vec<FileBuffer>) -> Result<Vec<Box<dyn Persisted>>, FilesError> {
        self.inner.tables.persist(files)
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
        self.inner.logs.create_log(name, hints)
    }

    fn open(&self, name: &str) -> Result<Arc<dyn FileReader>, FilesError> {
        self.open_file(name, name)
    }

    fn commit(&self, commit: Commit) -> Result<(), FilesError> {
        self.inner.commits.commit(commit)
    }

    fn sync(&self) -> Result<(), FilesError> {
        self.inner.reclaimer.sync()
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

    fn unit_at(&self, at: Lba) -> Option<UnitId> {
        self.inner.space.with(|map| map.unit_at(at)).map(UnitId)
    }

    fn is_filling(&self, unit: UnitId) -> bool {
        self.inner.space.with(|map| map.takes_more(unit.0))
    }

    fn work(&self) -> Work {
        Work { files: self.stats(), drive: self.inner.disk.counters(), ..Work::default() }
    }

    fn format_id(&self) -> u64 {
        self.inner.format_id
    }

    fn reclaim(&self) -> Result<(), FilesError> {
        self.inner.reclaimer.reclaim()
    }

    fn region_parts(&self, names: &[String]) -> Vec<Vec<RegionPart>> {
        let geometry = self.inner.disk.geometry();
        let live = self.inner.committer.lock();
        let bodies: Vec<_> = names
            .iter()
            .map(|name| live.bodies.get(&live.namespace.id_of(name)?).map(Arc::clone))
            .collect();
        drop(live);
        self.inner.space.with(|map| {
            let parts = |body: &Option<Arc<FileBody>>| {
                let ranges = body.iter().flat_map(|body| body.ranges());
                let zones =
                    ranges.filter_map(|range| Some((geometry.zone_of(range.start)?, range.len)));
                let mut own: BTreeMap<u32, u64> = BTreeMap::new();
                zones.for_each(|(zone, len)| *own.entry(zone.0).or_default() += len.bytes());
                let part = |(id, own_bytes): (u32, u64)| {
                    let zone = map.zones().get(id as usize)?;
                    Some(RegionPart {
                        region: id.into(),
                        own_bytes,
                        live_bytes: zone.held.bytes(),
                        dead_bytes: zone.dead().bytes(),
                    })
                };
                own.into_iter().filter_map(part).collect()
            };
            bodies.iter().map(parts).collect()
        })
    }

    fn space(&self) -> SpaceUse {
        let catalog = self.inner.committer.catalog_use();
        let moves_sets = self.inner.placement.moves_sets();
        let has_units = moves_sets || self.inner.rewriter.is_some();
        self.inner.space.with(|map| {
            let reserve = map.reserve().min(map.free());
            let upkeep = map.free_once_clean(Claim::Reserve);
            SpaceUse {
                capacity_bytes: map.capacity().bytes(),
                live_bytes: map.held().bytes(),
                dead_bytes: map.dead().bytes(),
                // Blocks that the catalog has no room to name are free only for writes that may use
                // the reserve.
                free_bytes: if catalog.is_crowded() { reserve } else { map.free() }.bytes(),
                reserve_bytes: reserve.bytes(),
                ordinary_bytes: map.free_once_clean(Claim::Normal).bytes(),
                upkeep_bytes: upkeep.bytes(),
                lent_bytes: if moves_sets { upkeep.max(map.lent_once_clean()) } else { upkeep }
                    .bytes(),
                grain_bytes: map.grain().bytes(),
                unit_bytes: if has_units { map.runs().class_len().bytes() } else { 0 },
                catalog,
            }
        })
    }
}
