//! What another thread does between two steps of a call, simulated by the file layer below.

use super::stage::{NOW_S, Stage, content, conventional, log, read_all, table};
use crate::{FileSystem, FsOptions, Writer};
use imbrex_clockwork::fan_out;
use imbrex_disk::Disk;
use imbrex_files::{
    Commit, CommitKind, FileBuffer, FileInfo, FileReader, Files, FilesError, Hints, LogWriter,
    Persisted, SpaceUse,
};
use parking_lot::Mutex;
use std::fmt;
use std::sync::{Arc, mpsc};

type Hook = Mutex<Option<Box<dyn FnOnce() + Send>>>;

/// An action that runs once, at a given moment.
#[derive(Default)]
struct Hooks {
    log_created: Hook,
    log_syncing: Hook,
    committing: Hook,
    log_ending: Hook,
    space_asked: Hook,
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hooks")
    }
}

fn run(hook: &Hook) {
    let hook = hook.lock().take();
    hook.into_iter().for_each(|hook| hook());
}

#[derive(Debug)]
struct Busy {
    files: Arc<dyn Files>,
    hooks: Arc<Hooks>,
}

#[derive(Debug)]
struct BusyLog {
    log: Arc<dyn LogWriter>,
    hooks: Arc<Hooks>,
}

impl Files for Busy {
    fn create_log(&self, name: &str, hints: Hints) -> Result<Arc<dyn LogWriter>, FilesError> {
        let log = self.files.create_log(name, hints)?;
        run(&self.hooks.log_created);
        Ok(Arc::new(BusyLog { log, hooks: Arc::clone(&self.hooks) }))
    }
    fn commit(&self, commit: Commit) -> Result<(), FilesError> {
        run(&self.hooks.committing);
        self.files.commit(commit)
    }
    fn sync(&self) -> Result<(), FilesError> {
        self.files.sync()
    }
    fn persist(&self, files: Vec<FileBuffer>) -> Result<Vec<Box<dyn Persisted>>, FilesError> {
        self.files.persist(files)
    }
    fn open_persisted(&self, file: &dyn Persisted) -> Result<Arc<dyn FileReader>, FilesError> {
        self.files.open_persisted(file)
    }
    fn open(&self, name: &str) -> Result<Arc<dyn FileReader>, FilesError> {
        self.files.open(name)
    }
    fn list(&self, prefix: &str) -> Vec<FileInfo> {
        self.files.list(prefix)
    }
    fn app_records(&self) -> Vec<Vec<u8>> {
        self.files.app_records()
    }
    fn reclaim(&self) -> Result<(), FilesError> {
        self.files.reclaim()
    }
    fn space(&self) -> SpaceUse {
        run(&self.hooks.space_asked);
        self.files.space()
    }
    fn name_count(&self, name: &str) -> usize {
        self.files.name_count(name)
    }
    fn format_id(&self) -> u64 {
        self.files.format_id()
    }
}

impl LogWriter for BusyLog {
    fn append(&self, data: &[u8]) -> Result<u64, FilesError> {
        self.log.append(data)
    }
    fn sync(&self) -> Result<(), FilesError> {
        run(&self.hooks.log_syncing);
        self.log.sync()
    }
    fn len_bytes(&self) -> u64 {
        self.log.len_bytes()
    }
    fn finish(&self) -> Result<(), FilesError> {
        run(&self.hooks.log_ending);
        self.log.finish()
    }
}

fn busy(stage: &Stage) -> (FileSystem, Arc<Hooks>) {
    let hooks = Arc::<Hooks>::default();
    let files = Busy { files: Arc::new(stage.files()), hooks: Arc::clone(&hooks) };
    let options = FsOptions { unix_time_s: || NOW_S };
    (FileSystem::open(Arc::new(files), options).unwrap(), hooks)
}

/// Once, the tree recorded a log's length before the file layer knew that a flush was due. A commit
/// in between made a length durable whose bytes were not.
#[test]
fn a_log_is_ended_before_its_length_is_recorded() {
    let bytes = content(1, 30_000);
    for seed in 0..20 {
        let stage = conventional();
        let (fs, hooks) = busy(&stage);
        let writer = fs.create("/wal", log()).unwrap();
        writer.append(&bytes[..10_000]).unwrap();
        writer.sync().unwrap();
        writer.append(&bytes[10_000..]).unwrap();
        let (other, disk) = (fs.clone(), Arc::clone(&stage.disk));
        *hooks.log_ending.lock() = Some(Box::new(move || {
            other.make_dir("/elsewhere").unwrap();
            other.sync_names().unwrap();
            disk.cut_power();
        }));
        writer.close().unwrap();
        drop(fs);
        stage.power_cycle(seed);
        let found = read_all(&stage.open().unwrap(), "/wal").unwrap();
        assert!(found.len() >= 10_000, "seed {seed}: {} bytes", found.len());
        assert!(bytes.starts_with(&found), "seed {seed}");
    }
}

/// Once, a log begun while its file lost its name stayed stored until the next opening.
#[test]
fn a_log_begun_for_a_file_without_a_name_is_removed() {
    let stage = conventional();
    let (fs, hooks) = busy(&stage);
    let writer = fs.create("/wal", log()).unwrap();
    let bytes = content(1, 30_000);
    writer.append(&bytes).unwrap();
    let (reader, other) = (fs.open_read("/wal").unwrap(), fs.clone());
    *hooks.log_created.lock() = Some(Box::new(move || other.unlink("/wal").unwrap()));
    writer.sync().unwrap();
    let mut found = vec![0; bytes.len()];
    assert_eq!(reader.read_at(0, &mut found).unwrap(), bytes.len());
    assert_eq!(found, bytes, "who has it open may go on");
    writer.append(&bytes).unwrap();
    writer.sync().unwrap();
    writer.close().unwrap();
    fs.sync_names().unwrap();
    assert!(fs.files().list("").is_empty(), "nothing is stored for a file that is gone");
    drop((fs, reader));
    stage.assert_sound();
}

/// Once, a rename that replaces flushed the file that had the name, and then moved another, which
/// had taken the name meanwhile. After a power cut nothing was left of either content.
#[test]
fn a_rename_flushes_the_file_that_it_moves() {
    for seed in 0..20 {
        let stage = conventional();
        let (fs, hooks) = busy(&stage);
        let write = |fs: &FileSystem, path: &str, tag| {
            let writer = fs.create(path, log()).unwrap();
            writer.append(&content(tag, 30_000)).unwrap();
            writer
        };
        write(&fs, "/a", 1).sync().unwrap();
        let _first = write(&fs, "/a.tmp", 2);
        let (other, second) = (fs.clone(), Arc::<Mutex<Option<Writer>>>::default());
        let kept = Arc::clone(&second);
        *hooks.log_syncing.lock() = Some(Box::new(move || {
            *kept.lock() = Some(write(&other, "/a.tmp", 3));
        }));
        fs.rename("/a.tmp", "/a").unwrap();
        assert!(second.lock().is_some(), "it happened meanwhile");
        fs.sync_names().unwrap();
        stage.disk.cut_power();
        drop((fs, second));
        stage.power_cycle(seed);
        let found = read_all(&stage.open().unwrap(), "/a").unwrap();
        assert_eq!(found.len(), 30_000, "seed {seed}");
        assert!(found == content(3, 30_000), "seed {seed}");
    }
}

/// Once, a log begun between the check of the catalog's room and the commit took the space that the
/// commit needed. That poisoned the file system until it was opened again.
#[test]
fn room_that_others_take_before_a_commit_poisons_nothing() {
    for name_len in (100..200).step_by(10) {
        let stage = conventional();
        let (fs, hooks) = busy(&stage);
        let create = |index| fs.create(&format!("/{index:0name_len$}"), table(1)).ok();
        let writers: Vec<Writer> = (0..).map_while(create).collect();
        let mut refused = 0;
        for (index, writer) in writers.iter().enumerate() {
            let (files, store) = (Arc::clone(fs.files()), format!("fs/{:08x}", (1 << 30) + index));
            *hooks.committing.lock() = Some(Box::new(move || {
                let hints = Hints { purpose: CommitKind::Upkeep, ..log() };
                let _ = files.create_log(&store, hints);
            }));
            writer.append(&[7; 5_000]).unwrap();
            match writer.sync() {
                Ok(()) => {}
                Err(error) if error.is_no_space() => refused += 1,
                Err(error) => panic!("names of {name_len}: {error}"),
            }
            if refused > 5 {
                break;
            }
        }
        assert!(refused > 5, "the catalog got full");
        *hooks.committing.lock() = None;
        let unlink = |index| fs.unlink(&format!("/{index:0name_len$}")).unwrap();
        (0..writers.len()).for_each(unlink);
        fs.sync_names().unwrap();
    }
}

/// Once, a reader that follows a growing log read it again from the start whenever it had grown.
#[test]
fn a_log_that_is_followed_is_not_read_from_its_beginning_each_time() {
    let stage = conventional();
    let fs = stage.open().unwrap();
    let writer = fs.create("/wal", log()).unwrap();
    let reader = fs.open_read("/wal").unwrap();
    let before = stage.disk.counters().read_bytes;
    let bytes = content(1, 100);
    let rounds = 300;
    for round in 0..rounds {
        writer.append(&bytes).unwrap();
        writer.sync().unwrap();
        let mut found = vec![0; bytes.len()];
        reader.read_at(round * bytes.len() as u64, &mut found).unwrap();
        assert_eq!(found, bytes);
    }
    // Each sync is a block.
    let read_blocks = (stage.disk.counters().read_bytes - before) / 4096;
    assert!(read_blocks <= 3 * rounds, "{read_blocks} blocks read");
}

/// Once, a table was refused, and its file lost, while the commit that would have made room was
/// under way.
#[test]
fn a_table_waits_for_the_room_that_a_commit_makes() {
    let stage = conventional();
    let (fs, hooks) = busy(&stage);
    let put = |index: usize| {
        let writer = fs.create(&format!("/{index}"), table(1))?;
        writer.append(&content(1, 64 * 4096))?;
        writer.sync()
    };
    (0..100).find(|&index| put(index).is_err()).expect("there is an end");
    (0..2).for_each(|index| fs.unlink(&format!("/{index}")).unwrap());
    let writer = fs.create("/new", table(1)).unwrap();
    writer.append(&content(2, 64 * 4096)).unwrap();
    let ((committing, begun), (asking, asked)) = (mpsc::channel(), mpsc::channel());
    let same = Arc::clone(&hooks);
    *hooks.committing.lock() = Some(Box::new(move || {
        *same.space_asked.lock() = Some(Box::new(move || asking.send(()).unwrap()));
        committing.send(()).unwrap();
        asked.recv().unwrap();
    }));
    let begun = Mutex::new(begun);
    let outcomes = fan_out(2, &["names", "table"], |&what| match what {
        "names" => fs.sync_names(),
        _ => {
            begun.lock().recv().unwrap();
            writer.sync()
        }
    });
    outcomes.into_iter().for_each(|outcome| outcome.unwrap());
}
