//! Stores through the C ABI: their content, shared handles, refusals.

use super::drives::{last_error, make, make_pair, make_with};
use imbrex_capi::{
    Batch, Cursor, Entry, Keyspace, Snapshot, Status, Store, imbrex_batch_close,
    imbrex_batch_delete, imbrex_batch_delete_range, imbrex_batch_open, imbrex_batch_put,
    imbrex_batch_write, imbrex_cursor_close, imbrex_cursor_next, imbrex_cursor_open,
    imbrex_cursor_prev, imbrex_cursor_seek, imbrex_cursor_seek_for_prev, imbrex_delete,
    imbrex_delete_range, imbrex_get, imbrex_keyspace_close, imbrex_keyspace_compact,
    imbrex_keyspace_open, imbrex_put, imbrex_snapshot_close, imbrex_snapshot_cursor_open,
    imbrex_snapshot_get, imbrex_snapshot_open, imbrex_store_close, imbrex_store_create,
    imbrex_store_flush, imbrex_store_format, imbrex_store_get_property, imbrex_store_open,
    imbrex_store_open_read_only, imbrex_store_sync, imbrex_store_wait_idle,
};
use imbrex_clockwork::fan_out;
use imbrex_disk_sim::SimDisk;
use std::ffi::{CStr, CString, c_char};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::ptr::{null, null_mut};

pub(crate) fn open_store(path: &Path) -> (Status, *mut Store) {
    open_as(path, None, None)
}

fn open_pair(path: &Path, flash: Option<&Path>) -> (Status, *mut Store) {
    open_as(path, flash, None)
}

fn open_as(path: &Path, flash: Option<&Path>, layout: Option<&str>) -> (Status, *mut Store) {
    open_by(imbrex_store_open, path, flash, layout)
}

type Open =
    unsafe extern "C" fn(*const c_char, *const c_char, *const c_char, *mut *mut Store) -> Status;

fn open_by(
    open: Open,
    path: &Path,
    flash: Option<&Path>,
    layout: Option<&str>,
) -> (Status, *mut Store) {
    let text = |text: &str| CString::new(text).unwrap();
    let (path, flash) = (text(path.to_str().unwrap()), flash.map(|f| text(f.to_str().unwrap())));
    let layout = layout.map(text);
    let flash = flash.as_ref().map_or(null(), |flash| flash.as_ptr());
    let layout = layout.as_ref().map_or(null(), |layout| layout.as_ptr());
    let mut store = null_mut();
    // SAFETY: strings and an out parameter that live as long as the call.
    let status = unsafe { open(path.as_ptr(), flash, layout, &raw mut store) };
    (status, store)
}

#[test]
fn every_bad_path_is_refused_in_the_words_of_the_table() {
    super::bad_paths::check_all(&super::bad_paths::Door {
        code: |row| row.outcome.1,
        has_flags: false,
        open: &|asked| {
            let how =
                if asked.is_read_only { imbrex_store_open_read_only } else { imbrex_store_open };
            let (status, store) = open_by(how, asked.path, None, asked.layout);
            if status == Status::Ok {
                // SAFETY: a handle that is open.
                assert_eq!(unsafe { imbrex_store_close(store) }, Status::Ok);
                return None;
            }
            Some((status as i32, last_error()))
        },
    });
}

/// Reads pass, writes are refused by their own status, and the file may be read-only. Beside it, the process can have
/// other handles for reading, but none for writing.
#[test]
fn a_store_that_is_open_for_reading_refuses_writes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("drive");
    let store = store_at(&path);
    let (_, keyspace) = keyspace_of(store, c"default", false);
    assert_eq!(put(keyspace, b"apple", b"red", true), Status::Ok);
    close(store, &[keyspace]);
    let mode = |mode| std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
    mode(0o444);
    let (status, store) = open_by(imbrex_store_open_read_only, &path, None, None);
    assert_eq!(status, Status::Ok, "{}", last_error());
    let (status, again) = open_by(imbrex_store_open_read_only, &path, None, None);
    assert_eq!(status, Status::Ok, "{}", last_error());
    let (_, keyspace) = keyspace_of(store, c"default", false);
    assert_eq!(get(keyspace, b"apple"), Ok(b"red".to_vec()));
    assert_eq!(put(keyspace, b"apple", b"green", false), Status::ReadOnly);
    assert!(last_error().contains("open for reading only"), "{}", last_error());
    assert_eq!(keyspace_of(store, c"new", true).0, Status::ReadOnly);
    // SAFETY: a handle that is open.
    assert_eq!(unsafe { imbrex_store_flush(store) }, Status::ReadOnly);
    mode(0o644);
    assert_eq!(open_store(&path).0, Status::Busy);
    assert!(last_error().ends_with("is open already, for reading only"), "{}", last_error());
    close(store, &[keyspace]);
    // SAFETY: a handle that is open.
    assert_eq!(unsafe { imbrex_store_close(again) }, Status::Ok);
    let (status, store) = open_store(&path);
    assert_eq!(status, Status::Ok, "{}", last_error());
    assert_eq!(open_by(imbrex_store_open_read_only, &path, None, None).0, Status::Busy);
    assert!(last_error().ends_with("is open already, for writing"), "{}", last_error());
    // SAFETY: a handle that is open.
    assert_eq!(unsafe { imbrex_store_close(store) }, Status::Ok);
}

/// A store on a new drive, or on the existing one.
fn store_at(path: &Path) -> *mut Store {
    if !path.exists() {
        make_with(path, "leveled-first-fit", true);
    }
    let (status, store) = open_store(path);
    assert_eq!(status, Status::Ok, "{}", last_error());
    store
}

fn keyspace_of(store: *mut Store, name: &CStr, create: bool) -> (Status, *mut Keyspace) {
    let mut keyspace = null_mut();
    // SAFETY: a handle that is open, a string, an out parameter.
    let status = unsafe { imbrex_keyspace_open(store, name.as_ptr(), create, &raw mut keyspace) };
    (status, keyspace)
}

/// A handle that threads share, as the header allows.
#[derive(Clone, Copy)]
struct Shared(*mut Keyspace);
// SAFETY: every call may be made from any thread with a keyspace's handle.
unsafe impl Sync for Shared {}

fn put(keyspace: *mut Keyspace, key: &[u8], value: &[u8], sync: bool) -> Status {
    // SAFETY: a handle that is open, and buffers as long as said.
    unsafe { imbrex_put(keyspace, key.as_ptr(), key.len(), value.as_ptr(), value.len(), sync) }
}

fn get(keyspace: *mut Keyspace, key: &[u8]) -> Result<Vec<u8>, Status> {
    let mut buffer = vec![0; 4];
    loop {
        let mut len = 0;
        // SAFETY: a handle that is open, and buffers as long as said.
        let status = unsafe {
            let (at, room) = (buffer.as_mut_ptr(), buffer.len());
            imbrex_get(keyspace, key.as_ptr(), key.len(), at, room, &raw mut len)
        };
        match status {
            Status::Ok if len > buffer.len() => buffer.resize(len, 0),
            Status::Ok => return Ok(buffer[..len].to_vec()),
            status => return Err(status),
        }
    }
}

fn keys_from(keyspace: *mut Keyspace, start: &[u8]) -> Vec<String> {
    let mut cursor: *mut Cursor = null_mut();
    let mut entry = Entry { key: null(), key_len_bytes: 0, value: null(), value_len_bytes: 0 };
    let mut keys = Vec::new();
    // SAFETY: handles that are open; an entry's bytes are the cursor's until its next call.
    unsafe {
        assert_eq!(imbrex_cursor_open(keyspace, &raw mut cursor), Status::Ok);
        let mut status = imbrex_cursor_seek(cursor, start.as_ptr(), start.len(), &raw mut entry);
        while status == Status::Ok && !entry.key.is_null() {
            let key = std::slice::from_raw_parts(entry.key, entry.key_len_bytes);
            keys.push(String::from_utf8_lossy(key).into_owned());
            status = imbrex_cursor_next(cursor, &raw mut entry);
        }
        assert_eq!(status, Status::Ok, "{}", last_error());
        assert_eq!(imbrex_cursor_next(cursor, &raw mut entry), Status::Ok, "it stays there");
        assert!(entry.key.is_null());
        assert_eq!(imbrex_cursor_close(cursor), Status::Ok);
    }
    keys
}

fn close(store: *mut Store, keyspaces: &[*mut Keyspace]) {
    // SAFETY: handles that are open, and given back once.
    unsafe {
        assert_eq!(imbrex_store_close(store), Status::Ok, "{}", last_error());
        for keyspace in keyspaces {
            assert_eq!(imbrex_keyspace_close(*keyspace), Status::Ok);
        }
    }
}

#[test]
fn puts_survive_a_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("drive");
    let store = store_at(&path);
    assert_eq!(keyspace_of(store, c"fruit", false).0, Status::NotFound);
    let (_, fruit) = keyspace_of(store, c"fruit", true);
    let (_, default) = keyspace_of(store, c"default", false);
    assert_eq!(put(fruit, b"apple", b"red or green", false), Status::Ok);
    assert_eq!(put(fruit, b"cherry", b"", true), Status::Ok);
    assert_eq!(put(default, b"apple", b"a firm", false), Status::Ok);
    assert_eq!(get(fruit, b"apple"), Ok(b"red or green".to_vec()));
    assert_eq!(get(fruit, b"cherry"), Ok(vec![]));
    assert_eq!(get(fruit, b"banana"), Err(Status::NotFound));
    let long = vec![7; 1 << 20];
    assert_eq!(put(fruit, b"melon", &long, false), Status::Ok);
    close(store, &[default, fruit]);

    let store = store_at(&path);
    let (_, fruit) = keyspace_of(store, c"fruit", false);
    assert_eq!(get(fruit, b"melon"), Ok(long));
    assert_eq!(keys_from(fruit, b""), ["apple", "cherry", "melon"]);
    assert_eq!(keys_from(fruit, b"b"), ["cherry", "melon"]);
    assert_eq!(keys_from(fruit, b"n"), [""; 0]);
    // SAFETY: handles that are open, and a buffer as long as said.
    unsafe {
        assert_eq!(imbrex_delete(fruit, b"cherry".as_ptr(), 6, true), Status::Ok);
        assert_eq!(imbrex_store_sync(store), Status::Ok);
        assert_eq!(imbrex_store_flush(store), Status::Ok);
        assert_eq!(imbrex_store_wait_idle(store), Status::Ok);
        let (mut text, mut len) = ([0_u8; 8], 0);
        let name = c"last-sequence".as_ptr();
        let got = imbrex_store_get_property(store, name, text.as_mut_ptr(), 8, &raw mut len);
        assert_eq!((got, &text[..len]), (Status::Ok, &b"5"[..]));
        let name = c"beauty".as_ptr();
        let got = imbrex_store_get_property(store, name, text.as_mut_ptr(), 8, &raw mut len);
        assert_eq!(got, Status::NotFound);
    }
    assert_eq!(keys_from(fruit, b""), ["apple", "melon"]);
    close(store, &[fruit]);
}

#[test]
fn a_batch_is_all_or_nothing_and_of_one_store() {
    let dir = tempfile::tempdir().unwrap();
    let stores = ["one", "two"].map(|name| store_at(&dir.path().join(name)));
    let [one, two] = stores.map(|store| keyspace_of(store, c"default", false).1);
    assert_eq!(put(one, b"old", b"1", false), Status::Ok);
    let mut batch: *mut Batch = null_mut();
    let (key, value) = (b"new".as_ptr(), b"2".as_ptr());
    // SAFETY: handles that are open, and buffers as long as said.
    unsafe {
        assert_eq!(imbrex_batch_open(&raw mut batch), Status::Ok);
        assert_eq!(imbrex_batch_write(batch, true), Status::Ok, "nothing to do");
        assert_eq!(imbrex_batch_put(batch, two, key, 0, value, 1), Status::Invalid);
        assert_eq!(imbrex_batch_put(batch, one, key, 3, value, 1), Status::Ok, "it was empty");
        assert_eq!(imbrex_batch_delete(batch, one, b"old".as_ptr(), 3), Status::Ok);
        assert_eq!(imbrex_batch_put(batch, two, key, 3, value, 1), Status::Invalid);
        assert!(last_error().contains("another store"), "{}", last_error());
        assert_eq!(imbrex_batch_put(batch, one, key, 0, value, 1), Status::Invalid);
        assert_eq!(keys_from(one, b""), ["old"]);
        assert_eq!(imbrex_batch_write(batch, true), Status::Ok);
        assert_eq!(keys_from(one, b""), ["new"]);
        assert_eq!(imbrex_batch_put(batch, two, key, 3, value, 1), Status::Ok, "it is empty");
        assert_eq!(imbrex_batch_close(batch), Status::Ok);
    }
    assert_eq!(keys_from(two, b""), [""; 0]);
    close(stores[0], &[one]);
    close(stores[1], &[two]);
}

#[test]
fn invalid_arguments_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let check = |path: &Path, expected, says: &str| {
        assert_eq!(open_store(path).0, expected, "{}", last_error());
        assert!(last_error().contains(says), "{:?} does not say {says:?}", last_error());
    };
    check(&at("none"), Status::NotFound, "create a drive there first");
    std::fs::write(at("text"), "no drive at all").unwrap();
    check(&at("text"), Status::Unsupported, "not an Imbrex drive image");
    let store = store_at(&at("drive"));
    let (_, keyspace) = keyspace_of(store, c"default", false);
    let huge = vec![b'k'; (1 << 16) + 1];
    assert_eq!(put(keyspace, &huge, b"", false), Status::Invalid);
    assert!(last_error().contains("1 to 65536 bytes"), "{}", last_error());
    assert_eq!(put(keyspace, &huge[1..], b"long", false), Status::Ok);
    assert_eq!(get(keyspace, &huge[1..]), Ok(b"long".to_vec()));
    // SAFETY: a handle that is open, a key as long as said, and no buffer.
    let into_null = |len_bytes: usize| unsafe {
        let mut len = 0;
        let (key, key_len) = (huge[1..].as_ptr(), huge.len() - 1);
        (imbrex_get(keyspace, key, key_len, null_mut(), len_bytes, &raw mut len), len)
    };
    assert_eq!(into_null(0), (Status::Ok, 4), "how long it is");
    assert_eq!(into_null(4).0, Status::Invalid);
    assert_eq!(put(keyspace, b"", b"", false), Status::Invalid);
    assert_eq!(get(keyspace, b""), Err(Status::Invalid));
    assert_eq!(put(null_mut(), b"key", b"", false), Status::Invalid);
    assert_eq!(keyspace_of(store, c"\n", true).0, Status::Invalid);
    assert_eq!(keyspace_of(null_mut(), c"default", false).0, Status::Invalid);
    close(store, &[keyspace]);
    close(null_mut(), &[null_mut()]);
    // A drive with a file system is not a store, and does not become one.
    make(&at("files"), "leveled-zones");
    assert_eq!(super::drives::fill(&at("files")), Status::Ok);
    check(&at("files"), Status::Unsupported, "files");
    super::drives::make_device(&at("device"));
    check(&at("device"), Status::Unsupported, "it holds a block device");
    assert_eq!(super::drives::open(&at("device"), None).0, Status::Unsupported);
    assert!(last_error().contains("it holds a block device"), "{}", last_error());
    assert_eq!(super::drives::open(&at("files"), None).0, Status::Ok, "{}", last_error());
}

#[test]
fn threads_share_a_store_that_is_closed_and_opened_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("drive");
    let first = store_at(&path);
    let (_, keyspace) = keyspace_of(first, c"default", false);
    // Another process would meet the same error.
    let error = SimDisk::open_image(&path, Default::default()).unwrap_err();
    assert!(matches!(error, imbrex_disk_sim::ImageError::InUse { .. }), "{error}");
    // A keyspace keeps the store open.
    close(first, &[]);
    let shared = Shared(keyspace);
    let writers: Vec<u32> = (0..8).collect();
    fan_out(8, &writers, |writer| {
        let shared = &shared;
        for count in 0..200 {
            let key = format!("{writer} {count:03}");
            assert_eq!(put(shared.0, key.as_bytes(), key.as_bytes(), count % 50 == 0), Status::Ok);
            assert_eq!(get(shared.0, key.as_bytes()), Ok(key.into_bytes()));
        }
    });
    assert_eq!(keys_from(keyspace, b"").len(), 1600);
    close(null_mut(), &[keyspace]);
    // A4: a caller that comes during a close waits.
    fan_out(8, &writers, |writer| {
        for _ in 0..10 {
            let store = store_at(&path);
            let (_, keyspace) = keyspace_of(store, c"default", false);
            let key = format!("{writer} 199");
            assert_eq!(get(keyspace, key.as_bytes()), Ok(key.clone().into_bytes()));
            assert_eq!(put(keyspace, key.as_bytes(), key.as_bytes(), false), Status::Ok);
            close(store, &[keyspace]);
        }
    });
    SimDisk::open_image(&path, Default::default()).unwrap();
}

#[test]
fn a_store_opens_with_its_flash_drive() {
    let dir = tempfile::tempdir().unwrap();
    let [main, flash, other] = ["main", "flash", "other"].map(|name| dir.path().join(name));
    make_pair(&main, &flash, 7);
    make_pair(&dir.path().join("other main"), &other, 8);
    let (status, store) = open_pair(&main, Some(&flash));
    assert_eq!(status, Status::Ok, "{}", last_error());
    let (_, fruit) = keyspace_of(store, c"fruit", true);
    for number in 0..200_u32 {
        assert_eq!(put(fruit, &number.to_be_bytes(), &[7; 9000], number == 199), Status::Ok);
    }
    let (status, again) = open_pair(&main, Some(&flash));
    assert_eq!(status, Status::Ok, "{}", last_error());
    for wrong in [None, Some(&*other)] {
        assert_eq!(open_pair(&main, wrong).0, Status::Busy);
        assert!(last_error().contains("is open already, with flash drive"), "{}", last_error());
    }
    close(again, &[]);
    close(store, &[fruit]);

    let refused = |flash: Option<&Path>, status: Status, why: &str| {
        assert_eq!(open_pair(&main, flash).0, status, "{}", last_error());
        assert!(last_error().contains(why), "{}", last_error());
    };
    refused(None, Status::Unsupported, "which was not given");
    refused(Some(&other), Status::Unsupported, "the wrong flash drive");
    refused(Some(&dir.path().join("nosuch")), Status::NotFound, "nosuch: no such file");
    refused(Some(&main), Status::Busy, "in use by this process");
    let (status, store) = open_pair(&main, Some(&flash));
    assert_eq!(status, Status::Ok, "{}", last_error());
    let (_, fruit) = keyspace_of(store, c"fruit", false);
    for number in 0..200_u32 {
        assert_eq!(get(fruit, &number.to_be_bytes()), Ok(vec![7; 9000]));
    }
    close(store, &[fruit]);
}

fn c_path(path: &Path) -> CString {
    CString::new(path.to_str().unwrap()).unwrap()
}

/// An image of 64 MiB, with `layout` or the usual one.
fn create(path: &Path, layout: Option<&CStr>) -> Status {
    let (path, layout) = (c_path(path), layout.map_or(null(), CStr::as_ptr));
    // SAFETY: strings that live as long as the call.
    unsafe { imbrex_store_create(path.as_ptr(), null(), layout, null(), 64 << 20) }
}

fn format(path: &Path, layout: Option<&CStr>, erase: Option<&CStr>) -> Status {
    let (path, layout) = (c_path(path), layout.map_or(null(), CStr::as_ptr));
    let erase = erase.map_or(null(), CStr::as_ptr);
    // SAFETY: strings that live as long as the call.
    unsafe { imbrex_store_format(path.as_ptr(), null(), layout, erase) }
}

#[test]
fn stores_are_created_and_formatted() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("drive");
    assert_eq!(format(&path, None, None), Status::NotFound, "{}", last_error());
    assert_eq!(create(&path, None), Status::Ok, "{}", last_error());
    assert_eq!(create(&path, None), Status::Exists, "{}", last_error());
    let store = store_at(&path);
    let (_, keyspace) = keyspace_of(store, c"default", false);
    assert_eq!(put(keyspace, b"apple", b"red", true), Status::Ok);
    assert_eq!(format(&path, None, Some(c"")), Status::Busy, "{}", last_error());
    close(store, &[keyspace]);
    assert_eq!(format(&path, None, None), Status::Exists);
    assert!(last_error().contains("it holds a store"), "{}", last_error());
    assert_eq!(format(&path, Some(c"gear"), Some(c"")), Status::Ok, "{}", last_error());
    let (status, store) = open_as(&path, None, Some("gear"));
    assert_eq!(status, Status::Ok, "{}", last_error());
    let (_, keyspace) = keyspace_of(store, c"default", false);
    assert_eq!(get(keyspace, b"apple"), Err(Status::NotFound));
    close(store, &[keyspace]);
    let short = dir.path().join("short");
    let layout = Some(c"leveldb-banded");
    assert_eq!(create(&short, layout), Status::Invalid);
    assert!(last_error().contains("use 458 MiB or more"), "{}", last_error());
    assert!(!short.exists());
    assert_eq!(create(&short, Some(c"lsm")), Status::Invalid, "{}", last_error());
}

fn entry_key(entry: &Entry) -> Option<String> {
    if entry.key.is_null() {
        return None;
    }
    // SAFETY: the cursor has not moved since.
    let key = unsafe { std::slice::from_raw_parts(entry.key, entry.key_len_bytes) };
    Some(String::from_utf8_lossy(key).into_owned())
}

#[test]
fn a_cursor_goes_back() {
    let dir = tempfile::tempdir().unwrap();
    let store = store_at(&dir.path().join("drive"));
    let (_, keyspace) = keyspace_of(store, c"default", false);
    for key in ["a", "b", "c"] {
        assert_eq!(put(keyspace, key.as_bytes(), b"", false), Status::Ok);
    }
    let mut cursor: *mut Cursor = null_mut();
    let mut entry = Entry { key: null(), key_len_bytes: 0, value: null(), value_len_bytes: 0 };
    let at = &raw mut entry;
    // SAFETY: handles that are open, keys as long as said, an out parameter.
    unsafe {
        let key = |status: Status| {
            assert_eq!(status, Status::Ok, "{}", last_error());
            entry_key(&*at)
        };
        assert_eq!(imbrex_cursor_open(keyspace, &raw mut cursor), Status::Ok);
        assert_eq!(key(imbrex_cursor_prev(cursor, at)), None, "no position");
        let last = imbrex_cursor_seek_for_prev(cursor, null(), 0, at);
        assert_eq!(key(last).as_deref(), Some("c"));
        assert_eq!(key(imbrex_cursor_prev(cursor, at)).as_deref(), Some("b"));
        assert_eq!(key(imbrex_cursor_next(cursor, at)).as_deref(), Some("c"), "it turns");
        let before = imbrex_cursor_seek_for_prev(cursor, b"bb".as_ptr(), 2, at);
        assert_eq!(key(before).as_deref(), Some("b"));
        assert_eq!(key(imbrex_cursor_prev(cursor, at)).as_deref(), Some("a"));
        assert_eq!(key(imbrex_cursor_prev(cursor, at)), None);
        let none = imbrex_cursor_seek_for_prev(cursor, b"A".as_ptr(), 1, at);
        assert_eq!(key(none), None);
        assert_eq!(imbrex_cursor_close(cursor), Status::Ok);
    }
    close(store, &[keyspace]);
}

#[test]
fn ranges_are_deleted_and_a_snapshot_still_has_them() {
    let dir = tempfile::tempdir().unwrap();
    let stores = ["one", "two"].map(|name| store_at(&dir.path().join(name)));
    let [keyspace, other] = stores.map(|store| keyspace_of(store, c"default", false).1);
    for key in ["a", "b", "c", "d"] {
        assert_eq!(put(keyspace, key.as_bytes(), b"old", false), Status::Ok);
    }
    let (mut snapshot, mut cursor): (*mut Snapshot, *mut Cursor) = (null_mut(), null_mut());
    let mut batch: *mut Batch = null_mut();
    let mut entry = Entry { key: null(), key_len_bytes: 0, value: null(), value_len_bytes: 0 };
    let (mut value, mut len) = ([0_u8; 8], 0);
    let [a, b, d] = [b"a".as_ptr(), b"b".as_ptr(), b"d".as_ptr()];
    // SAFETY: handles that are open, keys and buffers as long as said, out parameters.
    unsafe {
        assert_eq!(imbrex_snapshot_open(stores[0], &raw mut snapshot), Status::Ok);
        assert_eq!(imbrex_delete_range(keyspace, d, 1, b, 1, true), Status::Invalid);
        assert_eq!(imbrex_delete_range(keyspace, b, 1, d, 1, true), Status::Ok);
        assert_eq!(keys_from(keyspace, b""), ["a", "d"]);
        assert_eq!(imbrex_batch_open(&raw mut batch), Status::Ok);
        assert_eq!(imbrex_batch_delete_range(batch, keyspace, d, 1, b, 1), Status::Invalid);
        assert_eq!(imbrex_batch_delete_range(batch, keyspace, a, 1, b, 1), Status::Ok);
        assert_eq!(imbrex_batch_delete_range(batch, other, a, 1, b, 1), Status::Invalid);
        assert_eq!(imbrex_batch_write(batch, true), Status::Ok);
        assert_eq!(imbrex_batch_close(batch), Status::Ok);
        assert_eq!(keys_from(keyspace, b""), ["d"]);
        assert_eq!(imbrex_keyspace_compact(keyspace), Status::Ok, "{}", last_error());
        let (to, room, out) = (value.as_mut_ptr(), value.len(), &raw mut len);
        let old = imbrex_snapshot_get(snapshot, keyspace, b, 1, to, room, out);
        assert_eq!((old, &value[..len]), (Status::Ok, &b"old"[..]));
        let foreign = imbrex_snapshot_get(snapshot, other, b, 1, value.as_mut_ptr(), 8, out);
        assert_eq!(foreign, Status::Invalid, "{}", last_error());
        let foreign = imbrex_snapshot_cursor_open(snapshot, other, &raw mut cursor);
        assert_eq!(foreign, Status::Invalid, "{}", last_error());
        let opened = imbrex_snapshot_cursor_open(snapshot, keyspace, &raw mut cursor);
        assert_eq!(opened, Status::Ok, "{}", last_error());
        assert_eq!(imbrex_snapshot_close(snapshot), Status::Ok);
        let mut keys = Vec::new();
        let mut status = imbrex_cursor_seek(cursor, null(), 0, &raw mut entry);
        while let (Status::Ok, Some(key)) = (status, entry_key(&entry)) {
            keys.push(key);
            status = imbrex_cursor_next(cursor, &raw mut entry);
        }
        assert_eq!((status, keys.concat().as_str()), (Status::Ok, "abcd"));
        assert_eq!(imbrex_cursor_close(cursor), Status::Ok);
    }
    close(stores[0], &[keyspace]);
    close(stores[1], &[other]);
}
