//! The front door as a program meets it: paths, defaults, and one error type.

mod objects;

use crate::emulated::{Shape, SimDisk};
use crate::{Error, ErrorKind, KeyspaceOptions, Layout, Options, Store, WriteOptions};
use imbrex_disk::Blocks;
use std::error::Error as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A directory of its own, and a path in it.
fn place() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk.imbrex");
    (dir, path)
}

fn small() -> Options {
    Options::new().capacity(2 << 30)
}

fn refused<T>(result: Result<T, Error>, kind: ErrorKind, words: &[&str]) {
    let Err(error) = result else { panic!("it was not refused: {words:?}") };
    assert_eq!(error.kind(), kind, "{error}");
    for word in words {
        assert!(error.to_string().contains(word), "{error}: no {word:?}");
    }
}

#[test]
fn a_store_is_created_closed_and_opened_again() {
    let (_dir, path) = place();
    let store = crate::create(&path, small()).unwrap();
    store.put("apple", "red").unwrap();
    store.put_with("banana", "yellow", WriteOptions::SYNC).unwrap();
    store.delete("apple").unwrap();
    store.close().unwrap();
    let store = crate::open(&path).unwrap();
    assert_eq!(store.get("apple").unwrap(), None);
    assert_eq!(store.get("banana").unwrap().as_deref(), Some(&b"yellow"[..]));
    assert_eq!(store.layout(), Layout::by_name("imbrex-zones").unwrap());
}

#[test]
fn ranges_batches_and_snapshots_agree() {
    let (_dir, path) = place();
    let store = small().create(&path).unwrap();
    let inbox = store.create_keyspace("inbox", KeyspaceOptions::default()).unwrap();
    let mut batch = store.batch();
    for key in ["a", "b", "c"] {
        batch.put(key, "1").unwrap();
        batch.put_in(&inbox, key, "2").unwrap();
    }
    assert_eq!((batch.len(), batch.is_empty()), (6, false));
    store.write(batch).unwrap();
    let before = store.snapshot();
    store.delete_range("a".."c").unwrap();
    let keys = |entries: crate::Entries| -> Vec<String> {
        entries.map(|entry| String::from_utf8(entry.unwrap().0.to_vec()).unwrap()).collect()
    };
    assert_eq!(keys(store.range::<&str>(..).unwrap()), ["c"]);
    assert_eq!(keys(before.range("b"..).unwrap()), ["b", "c"]);
    assert_eq!(keys(before.range_in(&inbox, ..="b").unwrap()), ["a", "b"]);
    assert_eq!(keys(inbox.prefix("b").unwrap()), ["b"]);
    assert_eq!(before.get("a").unwrap().as_deref(), Some(&b"1"[..]));
    assert_eq!(store.keyspace_names(), ["default", "inbox"]);
    refused(store.keyspace("outbox"), ErrorKind::NotFound, &["outbox"]);
}

#[test]
fn every_wrong_path_has_its_kind_and_says_what_to_do() {
    let (dir, path) = place();
    refused(crate::open(&path), ErrorKind::NotFound, &["disk.imbrex", "no such file"]);
    refused(crate::open(dir.path()), ErrorKind::NotAStore, &["a directory"]);
    std::fs::write(&path, "a shopping list").unwrap();
    refused(crate::open(&path), ErrorKind::NotAStore, &["not an Imbrex drive image"]);
    refused(small().create(&path), ErrorKind::AlreadyExists, &["exists already"]);
    refused(
        Options::new().create(dir.path().join("no/such/directory")),
        ErrorKind::NotFound,
        &["no/such/directory"],
    );
}

#[test]
fn a_drive_in_use_a_wrong_layout_and_a_wrong_drive_are_refused() {
    let (dir, path) = place();
    let store = small().create(&path).unwrap();
    refused(crate::open(&path), ErrorKind::InUse, &["disk.imbrex", "in use"]);
    drop(store);
    refused(
        Options::new().layout("gear").open(&path),
        ErrorKind::WrongLayout,
        &["imbrex-zones", "gear"],
    );
    refused(Options::new().layout("gaer").open(&path), ErrorKind::InvalidArgument, &["mean gear"]);
    let other = dir.path().join("other.imbrex");
    let unsuitable = small().layout("sealdb").profile("hc620").create(&other);
    refused(unsuitable, ErrorKind::InvalidArgument, &["sealdb", "zoned"]);
    let flashless = small().layout("smrdb-offload").create(&other);
    refused(flashless, ErrorKind::InvalidArgument, &["smrdb-offload", "flash"]);
    assert!(!other.exists(), "a refused create leaves nothing");
}

#[test]
fn a_drive_too_small_for_its_layout_is_refused_and_leaves_nothing() {
    let (_dir, path) = place();
    let named = |zone_len_bytes| {
        let shape = Shape { zone_len_bytes, capacity_bytes: Some(1 << 30), ..Shape::default() };
        Options::new().shape(shape)
    };
    let too_small = named(Some(256 << 20)).create(&path);
    let words = ["cannot create", "too small for layout imbrex-zones", "or zones of"];
    refused(too_small, ErrorKind::InvalidArgument, &words);
    let too_small = Options::new().capacity(1 << 20).create(&path);
    refused(too_small, ErrorKind::InvalidArgument, &["1 MiB with zones of 256 MiB", "; use "]);
    assert!(!path.exists());
    // Zones that are not named are shortened, the same way each time.
    for erase in [false, true] {
        let store = named(None).erase(erase).create(&path).unwrap();
        store.put("apple", "red").unwrap();
        store.close().unwrap();
    }
    let disk = SimDisk::tiny_zoned(4, Blocks::new(256));
    let too_small = Options::new().create_on(Arc::new(disk));
    refused(
        too_small,
        ErrorKind::InvalidArgument,
        &["4 MiB with zones of 1 MiB", "use a drive of"],
    );
}

#[test]
fn a_newer_image_is_refused_as_such() {
    let (_dir, path) = place();
    drop(small().create(&path).unwrap());
    let mut bytes = vec![0; 4096];
    let file = std::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
    use std::os::unix::fs::FileExt;
    file.read_exact_at(&mut bytes, 0).unwrap();
    // The version follows the magic; see docs/formats/image_header.md.
    bytes[8..12].copy_from_slice(&99_u32.to_le_bytes());
    let sum = crc32c::crc32c(&bytes[..4092]);
    bytes[4092..].copy_from_slice(&sum.to_le_bytes());
    file.write_all_at(&bytes, 0).unwrap();
    refused(crate::open(&path), ErrorKind::NewerVersion, &["version"]);
}

#[test]
fn a_store_open_for_reading_refuses_writes() {
    let (_dir, path) = place();
    let store = small().create(&path).unwrap();
    store.put("apple", "red").unwrap();
    store.close().unwrap();
    let store = crate::open_read_only(&path).unwrap();
    assert_eq!(store.get("apple").unwrap().as_deref(), Some(&b"red"[..]));
    refused(store.put("apple", "green"), ErrorKind::ReadOnly, &["reading only"]);
}

#[test]
fn a_flash_drive_is_made_and_wanted_again() {
    let (dir, path) = place();
    let flash = dir.path().join("flash.imbrex");
    let options = small().layout("smrdb-offload").flash(&flash);
    let store = options.create(&path).unwrap();
    store.put("apple", "red").unwrap();
    store.close().unwrap();
    refused(crate::open(&path), ErrorKind::WrongLayout, &["flash"]);
    let store = options.open(&path).unwrap();
    assert_eq!(store.get("apple").unwrap().as_deref(), Some(&b"red"[..]));
}

#[test]
fn checkpoints_and_backups_keep_what_was() {
    let (dir, path) = place();
    let store = small().create(&path).unwrap();
    store.put("apple", "red").unwrap();
    store.checkpoint("monday").unwrap();
    let copy = dir.path().join("copy.imbrex");
    store.backup_to(&copy, &small()).unwrap();
    store.put("apple", "green").unwrap();
    let monday = store.open_checkpoint("monday").unwrap();
    assert_eq!(monday.default_keyspace().get("apple").unwrap().as_deref(), Some(&b"red"[..]));
    assert_eq!(store.checkpoint_names(), ["monday"]);
    refused(store.checkpoint("monday"), ErrorKind::AlreadyExists, &["monday"]);
    refused(store.backup_to(&copy, &small()), ErrorKind::AlreadyExists, &["exists already"]);
    let copy = crate::open(&copy).unwrap();
    assert_eq!(copy.get("apple").unwrap().as_deref(), Some(&b"red"[..]));
}

#[test]
fn erasing_replaces_a_store_only_when_asked() {
    let (_dir, path) = place();
    let store = small().create(&path).unwrap();
    store.put("apple", "red").unwrap();
    store.close().unwrap();
    let store = Options::new().erase(true).create(&path).unwrap();
    assert_eq!(store.get("apple").unwrap(), None);
}

#[test]
fn what_another_program_has_put_there_is_erased_only_by_its_name() {
    use std::os::unix::fs::FileExt;
    let (_dir, path) = place();
    let options = || Options::new().layout("leveled-first-fit");
    options().capacity(64 << 20).create(&path).unwrap().close().unwrap();
    // The first bytes of the drive; see docs/formats/image_header.md.
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(b"LUKS\xBA\xBE\0\x01", 1 << 20).unwrap();
    let found = ["an encrypted volume, crypto_LUKS (found at byte 0)", "by name (crypto_LUKS)"];
    refused(options().erase(true).create(&path), ErrorKind::AlreadyExists, &found);
    refused(options().erase_named("ext4").create(&path), ErrorKind::AlreadyExists, &found);
    let store = options().erase_named("crypto_luks").create(&path).unwrap();
    store.put("apple", "red").unwrap();
    store.close().unwrap();
    let gone = options().erase_named("crypto_LUKS").create(&path);
    refused(gone, ErrorKind::AlreadyExists, &["it does not hold crypto_LUKS"]);
}

/// The drive was erased first and refused afterwards.
#[test]
fn a_refused_create_leaves_the_store_as_it_was() {
    let (dir, path) = place();
    let store = Options::new().layout("leveled-first-fit").capacity(64 << 20).create(&path);
    let store = store.unwrap();
    store.put("apple", "red").unwrap();
    store.close().unwrap();
    let before = std::fs::read(&path).unwrap();
    let kept = |options: Options, kind, words: &[&str]| {
        refused(options.erase(true).create(&path), kind, words);
        assert!(std::fs::read(&path).unwrap() == before, "{words:?}: it was written to");
    };
    let erase = || Options::new().erase(true);
    use ErrorKind::{InUse, InvalidArgument, NotFound};
    kept(erase().layout("gear"), InvalidArgument, &["gear", "cannot use this drive"]);
    let other = || Options::new().layout("leveled-first-fit");
    kept(other().capacity(96 << 20), InvalidArgument, &["another shape than is asked for"]);
    kept(other().profile("no-such-profile"), InvalidArgument, &["no-such-profile"]);
    kept(erase().layout("gaer"), InvalidArgument, &["mean gear"]);
    let large = erase().engine(|options| options.free_memtable_count_min = 100);
    kept(large, InvalidArgument, &["too small for layout"]);
    let bad = erase().engine(|options| options.keyspace.block_len_bytes = 0);
    kept(bad, InvalidArgument, &["block_len_bytes"]);
    let flash = dir.path().join("flash.imbrex");
    kept(erase().flash(&flash), NotFound, &["flash.imbrex", "no such file"]);
    let _used = small().create(&flash).unwrap();
    kept(erase().flash(&flash), InUse, &["flash.imbrex", "this process"]);
    let _used = crate::open(&path).unwrap();
    refused(erase().create(&path), InUse, &["disk.imbrex", "this process"]);
    assert_eq!(_used.get("apple").unwrap().as_deref(), Some(&b"red"[..]));
}

/// Setting the same shape again is no other shape; and zeros are not written to the host, which may have no room.
#[test]
fn erasing_keeps_the_shape_and_the_hosts_room() {
    let (_dir, path) = place();
    let options = || Options::new().layout("leveled-first-fit").capacity(2 << 30);
    options().create(&path).unwrap().close().unwrap();
    let store = options().erase(true).create(&path).unwrap();
    store.close().unwrap();
    use std::os::unix::fs::MetadataExt;
    let stored_bytes = std::fs::metadata(&path).unwrap().blocks() * 512;
    assert!(stored_bytes < 8 << 20, "{stored_bytes}");
}

/// Settings that say less than a whole shape mean the same drive the second time.
#[test]
fn the_same_options_erase_what_they_created() {
    let (_dir, path) = place();
    let options = || Options::new().profile("hc620");
    options().create(&path).unwrap().close().unwrap();
    options().erase(true).create(&path).unwrap().close().unwrap();
}

#[test]
fn a_batch_is_its_stores() {
    let (dir, path) = place();
    let store = small().create(&path).unwrap();
    let other = small().create(dir.path().join("other.imbrex")).unwrap();
    let mut batch = other.batch();
    batch.put("apple", "red").unwrap();
    refused(store.write(batch.clone()), ErrorKind::InvalidArgument, &["Store::batch"]);
    let mut own = store.batch();
    let put = own.put_in(&other.keyspace("default").unwrap(), "pear", "green");
    refused(put, ErrorKind::InvalidArgument, &["Store::batch"]);
    assert!(own.is_empty());
    other.write(batch).unwrap();
    assert_eq!(store.get("apple").unwrap(), None);
}

/// What a program prints whose `main` returns the error.
#[test]
fn an_error_is_readable_as_debug() {
    let (_dir, path) = place();
    let error = crate::open(&path).unwrap_err();
    let debug = format!("{error:?}");
    assert!(debug.starts_with("cannot open ") && debug.ends_with("(NotFound)"), "{debug}");
}

#[test]
fn a_full_host_is_a_full_drive() {
    let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
    let error = imbrex_disk::DiskError::Host { what: "writing".to_owned(), source: full };
    assert_eq!(ErrorKind::of(&error), ErrorKind::NoSpace);
}

#[test]
fn an_argument_that_cannot_be_is_told_from_a_failing_drive() {
    let (_dir, path) = place();
    let store = small().create(&path).unwrap();
    refused(store.put("", "x"), ErrorKind::InvalidEntry, &["key of 0 bytes"]);
    let error = store.put([0; 65_537], "x").unwrap_err();
    assert!(error.source().is_some(), "the layer's error is the source");
    fn is_shared<T: Send + Sync>() {}
    is_shared::<Store>();
    is_shared::<Error>();
}

#[test]
fn the_same_seed_makes_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let image = |name: &str| {
        let path = dir.path().join(name);
        let (runtime, _) = crate::Runtime::virtual_time(imbrex_clockwork::Order::SmallestTime);
        let options = small().seed(7).runtime(runtime);
        let store = options.create(&path).unwrap();
        store.put("apple", "red").unwrap();
        store.close().unwrap();
        hash(&path)
    };
    assert_eq!(image("a"), image("b"));
}

/// Of the first 64 MiB, where everything lies that so small a store has.
fn hash(path: &Path) -> u64 {
    use std::hash::{DefaultHasher, Hasher};
    use std::io::Read;
    let mut bytes = Vec::new();
    std::fs::File::open(path).unwrap().take(64 << 20).read_to_end(&mut bytes).unwrap();
    let mut hasher = DefaultHasher::new();
    hasher.write(&bytes);
    hasher.finish()
}
