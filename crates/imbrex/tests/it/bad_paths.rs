//! The paths at which no store opens, and the words for each: one table for Rust, C and the command line.
//!
//! The tests of three crates run it, each through its own door: `imbrex`, `capi`, which includes this file, and `cli`, which
//! does too. The words are compared whole, so they are the same at all three. Each path is opened twice: for writing, and
//! for reading only.
//!
//! ```text
//!   PATH   the path that is opened        PID   the process that holds it        SUM   a checksum, as 0x12345678
//! ```

use imbrex::ErrorKind::{self, *};
use imbrex::stack::{DrivePaths, Layout};
use imbrex::{Options, Store};
use imbrex_clockwork::Runtime;
use imbrex_disk::{BLOCK_LEN_BYTES, Blocks, Disk, Geometry, GeometrySpec, Rule};
use imbrex_disk_sim::SimDisk;
use imbrex_translate::{BlockDriver, DriverOptions};
use rustix::process::{Uid, geteuid};
use std::fmt::Debug;
use std::fs::{self, File, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

/// One bad path.
pub(crate) struct Row {
    /// What lies there, and the name of its file.
    name: &'static str,
    make: fn(&Path) -> Made,
    /// The kind in Rust, the status in C, the exit code.
    pub(crate) outcome: (ErrorKind, i32, i32),
    /// The error after "cannot open PATH: ".
    words: &'static str,
}

/// What is there for the time of one row.
#[derive(Default)]
struct Made {
    /// Where, if not at the path given.
    at: Option<PathBuf>,
    /// The layout to ask for.
    layout: Option<&'static str>,
    /// The process that has it open.
    holder: Option<Child>,
    /// Whether the caller must be a user without rights on it.
    as_other_user: bool,
}

const NO_FILE: &str = "no such file; check the path, or create a drive there first";
const READ_ONLY: &str =
    "is read-only; open it read-only, or make the file and its file system writable";
const DENIED: &str = "permission denied: opening repairs what a crash left, so it needs to read and write the file; \
                      change its permissions, or work on a copy";

const DENIED_TO_READ: &str =
    "permission denied: opening needs to read the file; change its permissions, or work on a copy";

/// What the command line adds for a file that it could read.
const FLAG: &str = "; --read-only reads it without writing to it";

const TABLE: &[Row] = &[
    Row { name: "nothing", make: |_| Made::default(), outcome: (NotFound, 1, 4), words: NO_FILE },
    Row {
        name: "nothing, below a file",
        make: |path| {
            fs::write(path, "a file").unwrap();
            Made { at: Some(path.join("d")), ..Made::default() }
        },
        outcome: (NotFound, 1, 4),
        words: NO_FILE,
    },
    Row {
        name: "a link to nothing",
        make: |path| {
            symlink("nowhere", path).unwrap();
            Made::default()
        },
        outcome: (NotFound, 1, 4),
        words: NO_FILE,
    },
    Row {
        name: "a device that is not there",
        make: |_| Made { at: Some("/dev/nosuchdisk".into()), ..Made::default() },
        outcome: (NotFound, 1, 4),
        words: "no such device; `imbrex drive list` lists them",
    },
    Row {
        name: "a directory",
        make: |path| {
            fs::create_dir(path).unwrap();
            Made::default()
        },
        outcome: (NotAStore, 12, 4),
        words: "is a directory, not a regular file; give the path of a drive image",
    },
    Row {
        name: "a terminal",
        make: |_| Made { at: Some("/dev/null".into()), ..Made::default() },
        outcome: (NotAStore, 12, 4),
        words: "is a device, pipe or socket, not a regular file; give the path of a drive image",
    },
    Row {
        name: "a foreign file",
        make: |path| {
            fs::write(path, "a shopping list").unwrap();
            Made::default()
        },
        outcome: (NotAStore, 12, 4),
        words: "is not an Imbrex drive image: it begins with \"a shoppi\", not with \"IMBREXDK\"",
    },
    Row {
        name: "an empty file",
        make: |path| {
            fs::write(path, "").unwrap();
            Made::default()
        },
        outcome: (NotAStore, 12, 4),
        words: "is not an Imbrex drive image: it is empty",
    },
    Row {
        name: "a blank drive",
        make: |path| {
            drop(drive(path, Rule::Anywhere));
            Made::default()
        },
        outcome: (NotAStore, 12, 4),
        words: "it holds no data; `imbrex drive format` makes a store on it",
    },
    Row {
        name: "a block device",
        make: |path| {
            let disk = drive(path, *SimDisk::tiny_zoned(64, Blocks::new(256)).geometry().rule());
            let options = DriverOptions { buffer_len: Blocks::new(256), ..Default::default() };
            drop(BlockDriver::format(Arc::new(disk), &options).unwrap());
            Made::default()
        },
        outcome: (NotAStore, 12, 4),
        words: "it holds a block device, not a store; `imbrex serve` serves it, `imbrex check` verifies it",
    },
    Row {
        name: "another database",
        make: |path| {
            let disk = Arc::new(drive(path, Rule::Anywhere));
            let layout = Layout::by_name("leveled-first-fit").unwrap();
            let (runtime, recipe) = (Runtime::threads(1), layout.recipe(disk.geometry()));
            drop(layout.format_files(disk, &runtime, &recipe, 7).unwrap());
            let found = DrivePaths::of(path).find().unwrap();
            let (_mounted, files) = found.open_file_system(&runtime).unwrap();
            files.make_dir("/db").unwrap();
            files.sync_all().unwrap();
            Made::default()
        },
        outcome: (NotAStore, 12, 4),
        words: "it holds the files of another database, not a store; `imbrex run` starts programs on it",
    },
    Row {
        name: "a cut image",
        make: |path| {
            let file = closed_store(path);
            file.set_len(file.metadata().unwrap().len() - 4096).unwrap();
            Made::default()
        },
        outcome: (Damaged, 10, 5),
        words: "68153344 bytes long, but its header says 68157440; the image was cut or appended to, restore it from a \
                copy",
    },
    Row {
        name: "a damaged header",
        make: |path| {
            drop(drive(path, Rule::Anywhere));
            image(path).write_all_at(&[0x41], 100).unwrap();
            Made::default()
        },
        outcome: (Damaged, 10, 5),
        words: "header is damaged: checksum SUM, expected SUM; restore the image from a copy",
    },
    Row {
        name: "a newer image",
        make: |path| {
            // The version follows the magic; see docs/formats/image_header.md.
            closed_store(path).write_all_at(&99_u32.to_le_bytes(), 8).unwrap();
            Made::default()
        },
        outcome: (NewerVersion, 12, 4),
        words: "drive image of format version 99, but this program reads versions up to 3; use the program that wrote it",
    },
    Row {
        name: "a damaged catalog",
        make: |path| {
            damage_catalog(&closed_store(path));
            Made::default()
        },
        outcome: (Damaged, 10, 5),
        words: "opening the files: damaged catalog checkpoint at block 1 of the region at lba 256: its checksum is SUM, \
                but the header has SUM; if it had a store, `imbrex salvage PATH TARGET` writes everything that can \
                still be read to another store",
    },
    Row {
        name: "a drive in use",
        make: |path| {
            drop(closed_store(path));
            Made { holder: Some(hold(path)), ..Made::default() }
        },
        outcome: (InUse, 8, 4),
        words: "is in use by process PID (sh); end that use first",
    },
    Row {
        name: "a read-only file",
        make: |path| {
            drop(closed_store(path));
            fs::set_permissions(path, Permissions::from_mode(0o444)).unwrap();
            Made::default()
        },
        outcome: (NotPermitted, 11, 4),
        words: READ_ONLY,
    },
    Row {
        name: "another user's file that all may read",
        make: |path| {
            drop(closed_store(path));
            fs::set_permissions(path, Permissions::from_mode(0o644)).unwrap();
            Made { as_other_user: true, ..Made::default() }
        },
        outcome: (NotPermitted, 11, 4),
        words: READ_ONLY,
    },
    Row {
        name: "another user's file",
        make: |path| {
            drop(closed_store(path));
            fs::set_permissions(path, Permissions::from_mode(0o200)).unwrap();
            Made { as_other_user: true, ..Made::default() }
        },
        outcome: (NotPermitted, 11, 4),
        words: DENIED,
    },
    Row {
        name: "another user's directory",
        make: |path| {
            fs::create_dir(path).unwrap();
            fs::set_permissions(path, Permissions::from_mode(0o000)).unwrap();
            Made { at: Some(path.join("d")), as_other_user: true, ..Made::default() }
        },
        outcome: (NotPermitted, 11, 4),
        words: DENIED,
    },
    Row {
        name: "another layout",
        make: |path| {
            drop(closed_store(path));
            Made { layout: Some("gear"), ..Made::default() }
        },
        outcome: (WrongLayout, 12, 4),
        words: "the drive holds layout leveled-first-fit, not gear; open it as leveled-first-fit (or name no layout), or \
                format another drive",
    },
];

impl Row {
    /// The words for a caller that wants to read only; `None` if the store opens.
    fn words_for_reading(&self) -> Option<&'static str> {
        match self.words {
            READ_ONLY => None,
            DENIED => Some(DENIED_TO_READ),
            words => Some(words),
        }
    }
}

/// The error that a door reports for the path of a row: its code, and its words.
pub(crate) type Refusal<T> = (T, String);

/// How a door opens the path of a row.
pub(crate) struct Asked<'a> {
    pub(crate) path: &'a Path,
    pub(crate) layout: Option<&'a str>,
    pub(crate) is_read_only: bool,
}

/// A way into the program.
pub(crate) struct Door<'a, T> {
    /// Picks its column.
    pub(crate) code: fn(&Row) -> T,
    /// Whether it names the flag that would help.
    pub(crate) has_flags: bool,
    /// Opens a path; `None` if it could.
    pub(crate) open: &'a (dyn Fn(&Asked<'_>) -> Option<Refusal<T>> + Sync),
}

/// Opens every bad path of the table by `door`.
pub(crate) fn check_all<T: PartialEq + Debug + Send>(door: &Door<'_, T>) {
    let dir = tempfile::tempdir().unwrap();
    // Another user must get as far as the files in it.
    fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    for row in TABLE {
        let made = (row.make)(&dir.path().join(row.name));
        let path = made.at.clone().unwrap_or_else(|| dir.path().join(row.name));
        let pid = made.holder.as_ref().map_or(String::new(), |holder| holder.id().to_string());
        for is_read_only in [false, true] {
            let asked = Asked { path: &path, layout: made.layout, is_read_only };
            let got = match made.as_other_user {
                true => as_other_user(|| (door.open)(&asked)),
                false => (door.open)(&asked),
            };
            let name = format!("{}, is_read_only: {is_read_only}", row.name);
            let words = if is_read_only { row.words_for_reading() } else { Some(row.words) };
            let flag = if door.has_flags && row.words == READ_ONLY { FLAG } else { "" };
            let Some(words) = words else {
                assert_eq!(got, None, "{name}");
                continue;
            };
            let expected = format!("cannot open PATH: {words}{flag}");
            let expected = expected.replace("PATH", path.to_str().unwrap()).replace("PID", &pid);
            let (code, got) = got.unwrap_or_else(|| panic!("{name}: it opened"));
            // The name of a directory may look like the beginning of a sum.
            assert_eq!(without_sums(&got), without_sums(&expected), "{name}");
            assert_eq!(code, (door.code)(row), "{name}: {got}");
        }
        if let Some(mut holder) = made.holder {
            drop(holder.stdin.take());
            holder.wait().unwrap();
        }
    }
}

/// The words with `SUM` for each checksum.
fn without_sums(words: &str) -> String {
    let mut parts = words.split("0x");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        text + "SUM" + part.trim_start_matches(|digit: char| digit.is_ascii_hexdigit())
    })
}

/// Runs `open` without the rights of root, to which every file is open. The rights of one thread are its own.
fn as_other_user<T: Send>(open: impl FnOnce() -> T + Send) -> T {
    const NOBODY: u32 = 65_534;
    if !geteuid().is_root() {
        return open();
    }
    let nobody = Uid::from_raw(NOBODY);
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
            open()
        });
        thread.join().unwrap()
    })
}

/// A process that locks the file, as a store does, until its standard input is closed.
fn hold(path: &Path) -> Child {
    let mut holder = Command::new("flock")
        .arg("--no-fork")
        .arg(path)
        .args(["sh", "-c", "echo locked; read line"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(holder.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "locked\n");
    holder
}

/// A blank drive of 64 MiB.
fn drive(path: &Path, rule: Rule) -> SimDisk {
    let len = Blocks::new((64 << 20) / BLOCK_LEN_BYTES as u64);
    let geometry = Geometry::new(GeometrySpec { len, rule }).unwrap();
    SimDisk::builder(geometry).create_image(path, "", 7).unwrap()
}

/// A store on a drive of 64 MiB, the same each time; its image.
fn closed_store(path: &Path) -> File {
    let store: Store =
        Options::new().layout("leveled-first-fit").capacity(64 << 20).seed(7).create(path).unwrap();
    store.put("apple", "red").unwrap();
    store.close().unwrap();
    image(path)
}

fn image(path: &Path) -> File {
    File::options().read(true).write(true).open(path).unwrap()
}

/// Overwrites the blocks after the headers of both regions of the catalog.
fn damage_catalog(image: &File) {
    const DATA_OFFSET: u64 = 1 << 20;
    for block in [1, 257] {
        image.write_all_at(&[0xEE; 64], DATA_OFFSET + block * BLOCK_LEN_BYTES as u64).unwrap();
    }
}
