//! Detours: while a track is moved away and back, its readers read the backup.
//!
//! ```text
//!   read 100..164    detours: 120..140 is at 8 in the backup region
//!   -> disk 100..120, backup 8..28, disk 140..164
//! ```
//!
//! A reader holds the list during its read, so that no block is destroyed under it.

use super::backup::Saved;
use crate::region::Region;
use imbrex_disk::{Activity, BlockRange, Blocks, Disk, DiskError, Handles, Lba, ReadRequest};
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The blocks that must be read in the backup region, with their positions there.
#[derive(Debug)]
pub(crate) struct Detours {
    region: Region,
    /// First block -> length, and position in the region.
    open: RwLock<BTreeMap<Lba, (Blocks, Blocks)>>,
}

impl Detours {
    pub(crate) fn new(region: Region) -> Arc<Detours> {
        Arc::new(Detours { region, open: RwLock::default() })
    }

    /// Sends readers to the backup. On return no reader uses the blocks themselves any more.
    pub(crate) fn open(&self, saved: &[Saved]) {
        let mut open = self.open.write();
        open.extend(saved.iter().map(|s| (s.home.start, (s.home.len, s.offset))));
    }

    /// Sends readers back to the blocks themselves.
    pub(crate) fn close(&self) {
        self.open.write().clear();
    }

    fn read(
        &self,
        disk: &dyn Disk,
        open: &BTreeMap<Lba, (Blocks, Blocks)>,
        request: &mut ReadRequest<'_>,
    ) -> Result<(), DiskError> {
        let range = BlockRange::new(request.at, Blocks::holding(request.buf.len() as u64));
        let mut at = range.start;
        let mut rest = &mut *request.buf;
        while at < range.end() {
            let before = open.range(..=at).next_back();
            let around = before.filter(|(start, (len, _))| at < **start + *len);
            let end = match around {
                Some((&start, &(len, _))) => start + len,
                None => open.range(at..).next().map_or(range.end(), |(&start, _)| start),
            };
            let len = end.min(range.end()) - at;
            let (now, later) = rest.split_at_mut(len.bytes() as usize);
            match around {
                Some((&start, &(_, offset))) => {
                    self.region.read(disk, offset + (at - start), now)?;
                }
                None => disk.read(at, now)?,
            }
            at += len;
            rest = later;
        }
        Ok(())
    }
}

/// The source that readers of files use: the disk, with detours.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    disks: Arc<Handles>,
    activity: Activity,
    detours: Option<Arc<Detours>>,
}

impl Source {
    /// The source for reads that name no activity.
    pub(crate) fn new(disks: Handles, detours: Option<Arc<Detours>>) -> Source {
        Source { disks: Arc::new(disks), activity: Activity::Other, detours }
    }

    /// The same source, for reads that serve `activity`.
    pub(crate) fn for_activity(&self, activity: Activity) -> Source {
        Source { activity, ..self.clone() }
    }

    fn disk(&self) -> &dyn Disk {
        &**self.disks.of(self.activity)
    }

    /// Whether both read one disk, so that it can order their reads.
    pub(crate) fn is_same_disk(&self, other: &Source) -> bool {
        Arc::ptr_eq(&self.disks, &other.disks)
    }

    pub(crate) fn read(&self, at: Lba, buf: &mut [u8]) -> Result<(), DiskError> {
        if self.detours.is_none() {
            return self.disk().read(at, buf);
        }
        self.read_batch(&mut [ReadRequest { at, buf }])
    }

    pub(crate) fn read_batch(&self, requests: &mut [ReadRequest<'_>]) -> Result<(), DiskError> {
        let Some(detours) = &self.detours else { return self.disk().read_batch(requests) };
        let open = detours.open.read();
        if open.is_empty() {
            return self.disk().read_batch(requests);
        }
        requests.iter_mut().try_for_each(|request| detours.read(self.disk(), &open, request))
    }
}
