//! Translates a [`Commit`] into edits, and checks them against the namespace before any of them is
//! applied.

use crate::api::{AppRecord, Commit};
use crate::catalog::{APP_COST_BYTES, Edit, FileId, FileRecord, NamesOf, Namespace};
use crate::clean::Cleaner;
use crate::commit::{Committer, PendingFrees};
use crate::error::FilesError;
use crate::file::FileBody;
use crate::names;
use crate::persist::PersistedFile;
use crate::reclaim::Reclaimer;
use crate::space::Space;
use crate::stats::Counts;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Files that a commit adds on the flash drive, where they are durable already.
#[derive(Debug, Default)]
pub(crate) struct BesideAdds {
    /// Their names, with records that own no blocks here.
    pub(crate) files: Vec<(String, FileRecord)>,
    /// The edit that records how many commits the flash drive has made.
    pub(crate) pair: Option<Edit>,
}

/// The outcome of a durable commit.
#[derive(Debug, Default)]
pub(crate) struct Settled {
    /// Files that it left without a name on the flash drive.
    pub(crate) gone_beside: Vec<FileId>,
    /// The age of the flash drive that the catalog records now.
    pub(crate) flash_age: u64,
}

/// Makes commits durable.
#[derive(Debug)]
pub(crate) struct Commits {
    pub(crate) space: Arc<Space>,
    pub(crate) committer: Arc<Committer>,
    pub(crate) counts: Arc<Counts>,
    pub(crate) reclaimer: Arc<Reclaimer>,
    pub(crate) cleaner: Arc<Cleaner>,
}

impl Commits {
    pub(crate) fn commit(&self, commit: Commit) -> Result<(), FilesError> {
        self.commit_beside(commit, BesideAdds::default()).map(drop)
    }

    /// Like `commit`, with files on the flash drive. If it fails and the catalog is not poisoned,
    /// nothing has changed.
    pub(crate) fn commit_beside(
        &self,
        mut commit: Commit,
        beside: BesideAdds,
    ) -> Result<Settled, FilesError> {
        let added = std::mem::take(&mut commit.add)
            .into_iter()
            .map(|file| {
                let name = file.name().to_owned();
                file.into_any().downcast::<PersistedFile>().map_err(|_| FilesError::BadName {
                    name,
                    reason: "the file was persisted by another implementation of `Files`",
                })
            })
            .collect::<Result<Vec<_>, _>>()?;
        for file in &added {
            if !Arc::ptr_eq(&file.space, &self.space) {
                let reason = "the file was persisted on another drive";
                return Err(FilesError::BadName { name: file.name.clone(), reason });
            }
        }
        self.reclaimer.reclaim()?;
        let mut live = self.committer.lock();
        live.check()?;
        let mut draft = CommitDraft::new(&live.namespace);
        draft.check(&commit)?;
        let mut bodies: Vec<Arc<FileBody>> = Vec::new();
        for file in added {
            let record = file.record();
            draft.add(file.name.clone(), record)?;
            bodies.push(Arc::clone(&file.body));
        }
        for (name, record) in beside.files {
            draft.add(name, record)?;
        }
        draft.edits.extend(beside.pair);
        let kind = commit.kind;
        draft.finish(commit)?;
        let growth_bytes = draft.growth_bytes.saturating_sub(draft.shrink_bytes);
        let edits = draft.edits;
        self.committer.admit(&live, growth_bytes, kind)?;
        if edits.is_empty() {
            return Ok(Settled::default());
        }
        let needs_flush = !bodies.is_empty();
        for body in bodies {
            body.set_named(true);
            live.bodies.insert(body.id, body);
        }
        let ticket = live.enqueue(edits, PendingFrees::default(), needs_flush);
        let flash_age = live.namespace.pair().map_or(0, |pair| pair.age);
        drop(live);
        let gone_beside = self.committer.settle(ticket)?;
        self.counts.commit();
        // The commit is durable; the next change meets any error again.
        let _ = self.reclaimer.reclaim();
        self.cleaner.wake();
        Ok(Settled { gone_beside, flash_age })
    }
}

/// The edits so far, and the names that exist after them.
struct CommitDraft<'a> {
    namespace: &'a Namespace,
    /// The names that the edits touch, each with the file that it will name.
    names: BTreeMap<String, Option<FileId>>,
    /// The files among them, with the names that they will have.
    files: BTreeMap<FileId, NamesOf>,
    edits: Vec<Edit>,
    growth_bytes: u64,
    shrink_bytes: u64,
}

impl<'a> CommitDraft<'a> {
    fn new(namespace: &'a Namespace) -> CommitDraft<'a> {
        CommitDraft {
            namespace,
            names: BTreeMap::new(),
            files: BTreeMap::new(),
            edits: Vec::new(),
            growth_bytes: 0,
            shrink_bytes: 0,
        }
    }

    fn id_of(&self, name: &str) -> Option<FileId> {
        let before = || self.namespace.id_of(name);
        self.names.get(name).copied().unwrap_or_else(before)
    }

    fn need(&self, name: &str) -> Result<FileId, FilesError> {
        self.id_of(name).ok_or_else(|| FilesError::NotFound { name: name.to_owned() })
    }

    fn need_free(&self, name: &str) -> Result<(), FilesError> {
        names::check(name)?;
        match self.id_of(name) {
            None => Ok(()),
            Some(_) => Err(FilesError::Exists { name: name.to_owned() }),
        }
    }

    /// From now on `name` names `id` instead of its former file.
    fn set_name(&mut self, name: &str, id: Option<FileId>) {
        let before = self.id_of(name);
        self.names.insert(name.to_owned(), id);
        let mut change = |id: FileId, change: fn(NamesOf, &str) -> NamesOf| {
            let names = self.files.entry(id).or_insert_with(|| self.namespace.names_of(id));
            *names = change(*names, name);
        };
        if let Some(before) = before {
            change(before, NamesOf::without);
        }
        if let Some(id) = id {
            change(id, NamesOf::with);
        }
    }

    /// Removals, renames and links.
    fn check(&mut self, commit: &Commit) -> Result<(), FilesError> {
        for name in &commit.remove {
            self.need(name)?;
            self.set_name(name, None);
            self.edits.push(Edit::Remove { name: name.clone() });
        }
        for (from, to) in &commit.rename {
            let id = self.need(from)?;
            names::check(to)?;
            self.set_name(from, None);
            self.set_name(to, Some(id));
            self.edits.push(Edit::Rename { from: from.clone(), to: to.clone() });
        }
        for (existing, name) in &commit.link {
            let id = self.need(existing)?;
            self.need_free(name)?;
            self.set_name(name, Some(id));
            self.edits.push(Edit::Link { existing: existing.clone(), name: name.clone() });
        }
        Ok(())
    }

    fn add(&mut self, name: String, file: FileRecord) -> Result<(), FilesError> {
        self.need_free(&name)?;
        self.set_name(&name, Some(file.id));
        self.growth_bytes += file.extents_cost_bytes();
        self.edits.push(Edit::Add { name, file });
        Ok(())
    }

    /// Adds up the cost of names, and of files that lost their last name.
    fn count_names(&mut self) {
        for (id, names) in &self.files {
            self.growth_bytes += names.cost_bytes();
            self.shrink_bytes += self.namespace.names_of(*id).cost_bytes();
            if let Some(file) = self.namespace.file(*id).filter(|_| names.is_none()) {
                self.growth_bytes += file.gone_cost_bytes();
                self.shrink_bytes += file.extents_cost_bytes();
            }
        }
    }

    /// Levels and the application's record.
    fn finish(&mut self, commit: Commit) -> Result<(), FilesError> {
        self.count_names();
        for (name, level) in commit.level {
            self.need(&name)?;
            self.edits.push(Edit::SetLevel { name, level });
        }
        match commit.app {
            None => {}
            Some(AppRecord::Append(record)) => {
                self.growth_bytes += APP_COST_BYTES + record.len() as u64;
                self.edits.push(Edit::AppAppend(record));
            }
            Some(AppRecord::Replace(record)) => {
                self.growth_bytes += APP_COST_BYTES + record.len() as u64;
                self.shrink_bytes += self.namespace.app_cost_bytes();
                self.edits.push(Edit::AppReplace(record));
            }
        }
        Ok(())
    }
}
