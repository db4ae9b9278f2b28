//! A program that writes: appends, overwrites, renames, directories, deletes, syncs.
//!
//! It does not know about drives. Each writer has its own directory, and records in its [`Tree`] every change
//! before the request and after the acknowledgement.

use super::content::FileId;
use super::kind::Kind;
use super::tree::{DirId, Entry, ROOT, Tree};
use crate::random::Random;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;

/// The number of files that are overwritten in place, and of their blocks.
const PLACES: [(&str, usize); 2] = [("place-a", 64), ("place-b", 1024)];

/// The most bytes of a writer; above it, the writer deletes.
const LIVE_BYTES_MAX: u64 = 12 << 20;

/// The length of fill files: several per zone, so that removing some leaves zones to clean.
const FILLER_LEN: usize = 128 << 10;

/// A directory whose content is not judged.
pub(super) const PROBES: &str = "probes";

/// The counts of written and acknowledged changes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Written {
    pub(super) changes: u64,
    pub(super) syncs: u64,
    pub(super) synced_bytes: u64,
    pub(super) trims: u64,
}

/// The kind of sync.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sync {
    No,
    Data,
    All,
}

impl Sync {
    fn draw(random: &mut Random) -> Sync {
        match random.below(4) {
            0 => Sync::Data,
            1 => Sync::All,
            _ => Sync::No,
        }
    }
}

/// A writer.
pub(super) struct Writer<'a> {
    tree: &'a mut Tree,
    kind: Kind,
    /// The mount point of the file system.
    mount: PathBuf,
    random: Random,
    pub(super) written: Written,
}

impl<'a> Writer<'a> {
    pub(super) fn new(tree: &'a mut Tree, kind: Kind, mount: &Path, seed: u64) -> Writer<'a> {
        let (mount, random) = (mount.to_owned(), Random::new(seed));
        Writer { tree, kind, mount, random, written: Written::default() }
    }

    /// Creates the writer's directory and the files that are overwritten in place.
    pub(super) fn settle_in(&mut self, block_len: usize) -> io::Result<()> {
        fs::create_dir(self.path(""))?;
        for (name, blocks) in PLACES {
            self.file(ROOT, "", name, blocks * block_len, Sync::All)?;
        }
        self.sync_dir(ROOT, "")
    }

    /// Writes files until the file system is full, and removes those for which `is_kept` is false.
    pub(super) fn fill(&mut self, is_kept: impl Fn(u64) -> bool) -> io::Result<()> {
        fs::create_dir(self.path(""))?;
        loop {
            match self.file(ROOT, "", "filler-#", FILLER_LEN, Sync::No) {
                Err(error) if error.kind() == ErrorKind::StorageFull => break,
                done => done?,
            }
        }
        // The last file is incomplete or empty.
        let last = self.tree.entries(ROOT).into_iter().max_by_key(|(_, entry)| *entry);
        if let Some((name, _)) = last
            && let Err(error) = self.remove(ROOT, "", &name)
            && error.kind() != ErrorKind::NotFound
        {
            return Err(error);
        }
        for (index, (name, _)) in (0..).zip(self.tree.entries(ROOT)) {
            if !is_kept(index) {
                self.remove(ROOT, "", &name)?;
            }
        }
        self.sync_dir(ROOT, "")
    }

    /// Removes the remains of a power cut.
    pub(super) fn tidy_up(&mut self) -> io::Result<()> {
        for (name, entry) in self.tree.entries(ROOT) {
            match entry {
                Entry::Dir(dir) if name.ends_with(".new") => self.remove_dir(dir, &name)?,
                Entry::File(_) if name.ends_with(".new") => self.remove(ROOT, "", &name)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Makes one change, and perhaps syncs it.
    pub(super) fn act(&mut self) -> io::Result<()> {
        if self.tree.live_bytes() > LIVE_BYTES_MAX {
            return self.delete();
        }
        match self.random.below(64) {
            0..=17 => self.append(15),
            18..=33 => self.overwrite(),
            34..=45 => self.replace(),
            46..=49 => {
                let (len, sync) = (self.len(16), Sync::draw(&mut self.random));
                self.file(ROOT, "", "log-#", len, sync)
            }
            50..=52 => self.delete(),
            53..=56 => self.make_dir(),
            57..=58 => match self.dirs().first() {
                Some((name, dir)) => self.remove_dir(*dir, name),
                None => Ok(()),
            },
            59..=60 => self.sync_dir(ROOT, ""),
            61..=62 => self.append(23),
            _ => self.trim(),
        }
    }

    fn len(&mut self, bits_max: u64) -> usize {
        1 + self.random.below_some(bits_max) as usize
    }

    fn path(&self, name: &str) -> PathBuf {
        self.mount.join(&self.tree.name).join(name)
    }

    fn logs(&self) -> Vec<(String, Entry)> {
        let logs = self.tree.entries(ROOT).into_iter();
        logs.filter(|(name, _)| name.starts_with("log-")).collect()
    }

    fn dirs(&self) -> Vec<(String, DirId)> {
        let all = self.tree.entries(ROOT).into_iter();
        let dirs = all.filter_map(|(name, entry)| match entry {
            Entry::Dir(dir) => Some((name, dir)),
            Entry::File(_) | Entry::Absent => None,
        });
        dirs.collect()
    }

    fn append(&mut self, bits_max: u64) -> io::Result<()> {
        let logs = self.logs();
        if logs.len() < 3 {
            return self.file(ROOT, "", "log-#", 1, Sync::No);
        }
        let (name, entry) = &logs[self.random.below(logs.len() as u64) as usize];
        let Entry::File(id) = *entry else { return Ok(()) };
        let len = self.len(bits_max);
        let content = self.tree.content(id);
        if content.has_holes {
            return self.remove(ROOT, "", name);
        }
        let at = content.len;
        let bytes = content.append(len);
        let file = OpenOptions::new().write(true).open(self.path(name))?;
        file.write_all_at(&bytes, at)?;
        self.written.changes += 1;
        let sync = Sync::draw(&mut self.random);
        self.sync(&file, id, name, sync)
    }

    fn overwrite(&mut self) -> io::Result<()> {
        let (name, _) = PLACES[self.random.below(2) as usize];
        let places = self.tree.entries(ROOT);
        let Some((_, Entry::File(id))) = places.into_iter().find(|(other, _)| other == name) else {
            return Ok(());
        };
        let file = OpenOptions::new().write(true).open(self.path(name))?;
        for _ in 0..self.len(6) {
            let block_count = self.tree.content(id).block_count();
            let block = self.random.below(block_count);
            let (at, bytes) = self.tree.content(id).overwrite(block);
            file.write_all_at(&bytes, at)?;
            self.written.changes += 1;
        }
        let sync = Sync::draw(&mut self.random);
        self.sync(&file, id, name, sync)
    }

    /// Replaces a file by a new, synced one.
    fn replace(&mut self) -> io::Result<()> {
        let to = format!("safe-{}", self.random.below(4));
        let len = self.len(17);
        let (id, from) = self.tree.create(ROOT, &format!("{to}-#.new"));
        let bytes = self.tree.content(id).append(len);
        let mut file = File::create_new(self.path(&from))?;
        file.write_all(&bytes)?;
        self.sync(&file, id, &from, Sync::All)?;
        self.tree.rename(ROOT, &from, &to);
        fs::rename(self.path(&from), self.path(&to))?;
        self.written.changes += 1;
        if self.random.below(2) == 0 { self.sync_dir(ROOT, "") } else { Ok(()) }
    }

    fn file(&mut self, dir: DirId, at: &str, name: &str, len: usize, sync: Sync) -> io::Result<()> {
        let (id, name) = self.tree.create(dir, name);
        let bytes = self.tree.content(id).append(len);
        let mut file = File::create_new(self.path(at).join(&name))?;
        file.write_all(&bytes)?;
        self.written.changes += 1;
        self.sync(&file, id, &name, sync)
    }

    fn sync(&mut self, file: &File, id: FileId, name: &str, sync: Sync) -> io::Result<()> {
        match sync {
            Sync::No => return Ok(()),
            Sync::Data => file.sync_data()?,
            Sync::All => file.sync_all()?,
        }
        // After a power cut btrfs can report success: seen on Linux 6.18.44, when another thread had aborted the
        // transaction and no superblock was written. Probably `btrfs_sync_file` takes an aborted transaction for a
        // committed one (-ENOENT of `btrfs_attach_transaction_barrier`). It refuses the next change, even that of a
        // time.
        if self.kind == Kind::Btrfs {
            let probes = File::open(self.mount.join(PROBES))?;
            probes.set_modified(SystemTime::UNIX_EPOCH)?;
        }
        self.written.syncs += 1;
        self.written.synced_bytes += self.tree.content(id).unsynced_len();
        self.tree.synced(id, name, sync == Sync::All);
        Ok(())
    }

    fn sync_dir(&mut self, dir: DirId, name: &str) -> io::Result<()> {
        File::open(self.path(name))?.sync_all()?;
        // If the commit of another thread with these names has failed, ext4 and xfs have nothing left to commit and
        // report success. They refuse the next change.
        let probe = self.mount.join(PROBES).join(&self.tree.name);
        match fs::create_dir(&probe) {
            // The power went before its removal in an earlier life.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            made => made?,
        }
        fs::remove_dir(&probe)?;
        self.written.syncs += 1;
        self.tree.synced_dir(dir);
        Ok(())
    }

    fn delete(&mut self) -> io::Result<()> {
        let logs = self.logs();
        if logs.is_empty() {
            return Ok(());
        }
        let (name, _) = &logs[self.random.below(logs.len() as u64) as usize];
        self.remove(ROOT, "", name)
    }

    fn remove(&mut self, dir: DirId, at: &str, name: &str) -> io::Result<()> {
        self.tree.remove(dir, name);
        fs::remove_file(self.path(at).join(name))?;
        self.written.changes += 1;
        Ok(())
    }

    /// Creates a directory of files that appears as a whole.
    fn make_dir(&mut self) -> io::Result<()> {
        if self.dirs().len() > 4 {
            return Ok(());
        }
        let (dir, name) = self.tree.create_dir();
        fs::create_dir(self.path(&name))?;
        for _ in 0..self.random.below(8) {
            let (len, sync) = (self.len(13), Sync::draw(&mut self.random));
            self.file(dir, &name, "member-#", len, sync)?;
        }
        self.sync_dir(dir, &name)?;
        let to = name.trim_end_matches(".new");
        self.tree.rename(ROOT, &name, to);
        fs::rename(self.path(&name), self.path(to))?;
        self.written.changes += 1;
        if self.random.below(2) == 0 { self.sync_dir(ROOT, "") } else { Ok(()) }
    }

    fn remove_dir(&mut self, dir: DirId, name: &str) -> io::Result<()> {
        for (member, _) in self.tree.entries(dir) {
            self.remove(dir, name, &member)?;
        }
        self.tree.remove(ROOT, name);
        fs::remove_dir(self.path(name))?;
        self.written.changes += 1;
        Ok(())
    }

    fn trim(&mut self) -> io::Result<()> {
        if self.random.below(8) > 0 {
            return Ok(());
        }
        let mut fstrim = Command::new("fstrim");
        fstrim.arg(&self.mount).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if !fstrim.status()?.success() {
            return Err(io::Error::other("fstrim failed"));
        }
        self.written.trims += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// btrfs acknowledged a sync after the power cut, and its file was reported as lost.
    #[test]
    fn a_sync_of_btrfs_counts_only_if_the_file_system_takes_a_later_change() {
        for (kind, takes_changes, is_durable) in [
            (Kind::Btrfs, false, false),
            (Kind::Btrfs, true, true),
            (Kind::Ext4, false, true),
            (Kind::Xfs, false, true),
        ] {
            let mount = tempfile::tempdir().unwrap();
            fs::create_dir(mount.path().join("writer")).unwrap();
            if takes_changes {
                fs::create_dir(mount.path().join(PROBES)).unwrap();
            }
            let mut tree = Tree::new(1, "writer".to_owned(), 4096);
            let mut writer = Writer::new(&mut tree, kind, mount.path(), 0);
            let synced = writer.file(ROOT, "", "log-#", 5000, Sync::All);
            assert_eq!(synced.is_ok(), is_durable, "{kind:?}");
            let [(_, Entry::File(id))] = tree.entries(ROOT)[..] else { panic!("one file") };
            let unsynced_len = if is_durable { 0 } else { 5000 };
            assert_eq!(tree.content(id).unsynced_len(), unsynced_len, "{kind:?}");
        }
    }
}
