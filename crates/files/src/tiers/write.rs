//! Changes to a pair: files go to the drive that they are meant for, and a commit has three steps.

use super::flash::Flash;
use super::format::{log_name, number};
use super::log::FlashLog;
use crate::api::{Commit, Files, LogWriter, Persisted};
use crate::catalog::{Edit, FILE_COST_BYTES, FileId, FileRecord};
use crate::edits::BesideAdds;
use crate::error::FilesError;
use crate::file_buffer::FileBuffer;
use crate::hints::{Hints, Tier};
use crate::layer::FileLayer;
use crate::names::{self, FILE_NAME_LEN_BYTES_MAX};
use crate::persist::PersistError;
use crate::room::CommitKind;
use imbrex_disk::{BlockRange, Blocks};
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A file that is written to flash but not committed.
#[derive(Debug)]
pub(super) struct FlashFile {
    name: String,
    hints: Hints,
    id: FileId,
    pub(super) written: Box<dyn Persisted>,
}

impl Persisted for FlashFile {
    fn name(&self) -> &str {
        &self.name
    }

    fn len_bytes(&self) -> u64 {
        self.written.len_bytes()
    }

    fn extents(&self) -> Vec<BlockRange> {
        self.written.extents()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any + Send> {
        self
    }
}

/// Hints for flash itself, which has no reserve to keep, because nothing makes room there.
fn on_flash(hints: &Hints) -> Hints {
    Hints { purpose: hints.purpose.max(CommitKind::Upkeep), ..*hints }
}

/// The record in main's catalog of a file on flash.
fn record(id: FileId, hints: &Hints) -> FileRecord {
    FileRecord {
        id,
        kind: hints.kind,
        level: hints.level,
        written_level: hints.level,
        group: hints.group,
        stream: hints.stream,
        is_open: false,
        is_beside: true,
        span: None,
        extents: Vec::new(),
    }
}

/// Changes both drives of a pair.
pub(super) struct PairWriter<'a> {
    pub(super) main: &'a FileLayer,
    pub(super) flash: &'a Arc<Flash>,
}

impl PairWriter<'_> {
    pub(super) fn persist(
        &self,
        files: Vec<FileBuffer>,
    ) -> Result<Vec<Box<dyn Persisted>>, FilesError> {
        files.iter().try_for_each(|file| names::check(file.name()))?;
        let is_fast: Vec<bool> = files.iter().map(|file| file.hints().tier == Tier::Fast).collect();
        let (fast, main): (Vec<_>, Vec<_>) =
            files.into_iter().partition(|file| file.hints().tier == Tier::Fast);
        let (mut on_flash, mut on_main) = (Vec::new(), main);
        if !fast.is_empty() {
            match self.persist_on_flash(fast) {
                Ok(written) => on_flash = written,
                Err(PersistError { error: FilesError::NoSpace { .. }, files })
                    if !files.is_empty() =>
                {
                    // In their original order, which the placement relies on.
                    let (mut fast, mut main) = (files.into_iter(), on_main.into_iter());
                    let next = |&is_fast: &bool| if is_fast { fast.next() } else { main.next() };
                    on_main = is_fast.iter().filter_map(next).collect();
                    return self.main.persist(on_main);
                }
                Err(refused) => return Err(Flash::failed(refused.error)),
            }
        }
        let on_main = if on_main.is_empty() { Vec::new() } else { self.main.persist(on_main)? };
        let (mut fast, mut main) = (on_flash.into_iter(), on_main.into_iter());
        let next = |&is_fast: &bool| if is_fast { fast.next() } else { main.next() };
        Ok(is_fast.iter().filter_map(next).collect())
    }

    /// Writes files to flash; returns those for which it has no room.
    fn persist_on_flash(
        &self,
        files: Vec<FileBuffer>,
    ) -> Result<Vec<Box<dyn Persisted>>, PersistError> {
        let flash = self.flash;
        let len_bytes = files.iter().map(|file| Blocks::holding(file.len_bytes()).bytes()).sum();
        let asked: Vec<(String, Hints, FileId)> = files
            .iter()
            .map(|file| (file.name().to_owned(), *file.hints(), self.main.inner.committer.new_id()))
            .collect();
        let rename = |(file, (_, hints, id)): (FileBuffer, &(String, Hints, FileId))| {
            file.renamed(number(*id), on_flash(hints))
        };
        let Some(&(_, _, first)) = asked.first() else { return Ok(Vec::new()) };
        let written = if flash.promise(first, len_bytes) {
            let numbered = files.into_iter().zip(&asked).map(rename).collect();
            let written = flash.files.inner.tables.persist_or_return(numbered);
            flash.keep_promise(first);
            written
        } else {
            let free_bytes = flash.files.space().free_bytes;
            Err(PersistError {
                error: FilesError::NoSpace { needed_bytes: len_bytes, free_bytes },
                files,
            })
        };
        match written {
            Ok(written) => {
                let counts = &flash.counts;
                counts.tables.fetch_add(written.len() as u64, Ordering::Relaxed);
                counts.written_bytes.fetch_add(len_bytes, Ordering::Relaxed);
                let flash_file = |((name, hints, id), written)| -> Box<dyn Persisted> {
                    Box::new(FlashFile { name, hints, id, written })
                };
                Ok(asked.into_iter().zip(written).map(flash_file).collect())
            }
            Err(PersistError { error, files }) => {
                flash.fall_back(files.len(), len_bytes);
                let named = files.into_iter().zip(asked);
                let rename = |(file, (name, hints, _)): (FileBuffer, _)| file.renamed(name, hints);
                Err(PersistError { error, files: named.map(rename).collect() })
            }
        }
    }

    /// Creates a log on flash (T3); `None` if flash has no room for it.
    pub(super) fn create_on_flash(
        &self,
        name: &str,
        hints: Hints,
    ) -> Result<Option<Arc<dyn LogWriter>>, FilesError> {
        let flash = self.flash;
        names::check(name)?;
        let _creating = flash.begin_creating(name)?;
        let committer = &self.main.inner.committer;
        let id = {
            let live = committer.lock();
            live.check()?;
            if live.namespace.id_of(name).is_some() {
                return Err(FilesError::Exists { name: name.to_owned() });
            }
            committer.admit(&live, FILE_COST_BYTES + name.len() as u64, hints.purpose)?;
            committer.new_id()
        };
        let flash_name = log_name(id, name);
        let expected_len_bytes = hints.expected_len_bytes.unwrap_or(0);
        if FILE_NAME_LEN_BYTES_MAX < flash_name.len() || !flash.promise(id, expected_len_bytes) {
            flash.fall_back(1, 0);
            return Ok(None);
        }
        let log = match flash.files.create_log(&flash_name, on_flash(&hints)) {
            Ok(log) => FlashLog::new(flash, id, log),
            Err(error) => {
                flash.keep_promise(id);
                if !matches!(error, FilesError::NoSpace { .. }) {
                    return Err(Flash::failed(error));
                }
                flash.fall_back(1, 0);
                return Ok(None);
            }
        };
        let mut live = committer.lock();
        live.check()?;
        if live.namespace.id_of(name).is_some() {
            // Before the name can become free again, or flash would bring the log back under it.
            live.defer(Edit::Gone { id }, false);
            drop(live);
            flash.commits.lock().to_remove.insert(id);
            return Err(FilesError::Exists { name: name.to_owned() });
        }
        let edit = Edit::Add { name: name.to_owned(), file: record(id, &hints) };
        live.defer(edit, false);
        drop(live);
        // While another file has the name on main, an opening would take this log for one whose
        // creation did not return.
        committer.settle_freed(name)?;
        flash.counts.logs.fetch_add(1, Ordering::Relaxed);
        Ok(Some(Arc::new(log)))
    }

    pub(super) fn commit(&self, mut commit: Commit) -> Result<(), FilesError> {
        let flash = self.flash;
        let is_on_flash = |file: &dyn Persisted| (file as &dyn Any).is::<FlashFile>();
        let add = std::mem::take(&mut commit.add).into_iter();
        let (on_flash, on_main): (Vec<_>, Vec<_>) = add.partition(|file| is_on_flash(&**file));
        commit.add = on_main;
        let mut beside = BesideAdds::default();
        let (mut added, mut age) = (Vec::new(), None);
        if !on_flash.is_empty() {
            let kind = commit.kind.max(CommitKind::Upkeep);
            let mut step = Commit { kind, ..Commit::default() };
            for file in on_flash {
                let file = file.into_any().downcast::<FlashFile>();
                let FlashFile { name, hints, id, written } =
                    *file.expect("they were sorted by type");
                beside.files.push((name, record(id, &hints)));
                added.push(id);
                step.add.push(written);
            }
            age = Some(flash.commits.lock().commit(flash, step)?);
        }
        let settled = self.sync_renamed(&commit).and_then(|renamed_at| {
            let flash_id = flash.files.format_id();
            beside.pair = renamed_at.or(age).map(|age| Edit::Pair { flash_id, age });
            self.main.inner.commits.commit_beside(commit, beside)
        });
        match settled {
            Ok(settled) => {
                let mut commits = flash.commits.lock();
                commits.main_age = commits.main_age.max(settled.flash_age);
                commits.to_remove.extend(settled.gone_beside);
                drop(commits);
                // The commit is durable; anything that is not removed now is removed at the next
                // opening.
                let _ = self.sweep();
                Ok(())
            }
            Err(error) => {
                // Unless it is unknown what is durable, nothing has changed on main.
                if self.main.inner.committer.lock().check().is_ok() {
                    flash.commits.lock().to_remove.extend(added);
                    let _ = self.sweep();
                }
                Err(error)
            }
        }
    }

    /// Makes durable the files on flash that are renamed: a log that a table will need, including
    /// its end (T2). Returns the age of flash then, if there are such files.
    fn sync_renamed(&self, commit: &Commit) -> Result<Option<u64>, FilesError> {
        let flash = self.flash;
        let live = self.main.inner.committer.lock();
        let is_beside = |(from, _): &(String, String)| {
            live.namespace.id_of(from).is_some_and(|id| live.namespace.is_beside(id))
        };
        let is_any = commit.rename.iter().chain(&commit.link).any(is_beside);
        drop(live);
        if !is_any {
            return Ok(None);
        }
        let what = "syncing renamed files of the flash drive".to_owned();
        flash.files.disk().flush().map_err(|source| FilesError::Disk { what, source })?;
        // Another caller may have queued the record of a log's end, which is not durable yet.
        let is_settled = flash.files.inner.committer.lock().is_settled();
        let mut commits = flash.commits.lock();
        if !is_settled {
            let step = Commit { kind: CommitKind::Upkeep, ..Commit::default() };
            commits.commit(flash, step)?;
        }
        Ok(Some(commits.age))
    }

    /// Removes nameless files on flash, and lets main's next record note it.
    fn sweep(&self) -> Result<(), FilesError> {
        let flash = self.flash;
        let mut commits = flash.commits.lock();
        if commits.to_remove.is_empty() {
            return Ok(());
        }
        let ids: Vec<FileId> = commits.to_remove.iter().copied().collect();
        let remove = ids.iter().filter_map(|&id| flash.name_of(id)).collect();
        let step = Commit { remove, kind: CommitKind::Upkeep, ..Commit::default() };
        let age = commits.commit(flash, step)?;
        commits.to_remove.clear();
        let mut live = self.main.inner.committer.lock();
        live.check()?;
        for id in ids {
            if live.namespace.pair().is_some_and(|pair| pair.gone.contains(&id)) {
                live.defer(Edit::Swept { id }, false);
            }
        }
        live.defer(Edit::Pair { flash_id: flash.files.format_id(), age }, false);
        Ok(())
    }
}
