//! Objects on emulated drives: streams and ranges, replacement, power cuts, a full drive.

use super::{place, refused, small};
use crate::emulated::SimDisk;
use crate::salvage::{SalvageOptions, salvage};
use crate::{ErrorKind, ObjectBatch, Objects, Options, Store, WriteOptions};
use imbrex_clockwork::{Order, Prng, Runtime, seeds};
use imbrex_disk::{Blocks, Disk};
use std::collections::BTreeMap;
use std::io::{Read, Seek, SeekFrom, Write};
use std::sync::Arc;

const NOT_SYNCED: WriteOptions = WriteOptions { sync: false };
const MIB: usize = 1 << 20;
/// The key of the header, which plain entries never have.
const HEADER: &[u8] = b"\x01imbrex objects";

/// Data that depend on `seed` and cannot be compressed.
fn data(seed: u64, len: usize) -> Vec<u8> {
    let mut data = vec![0; len];
    Prng::new(seed).fill(&mut data);
    data
}

/// A drive in memory, in virtual time, with a cache that a power cut empties.
struct Machine {
    disk: Arc<SimDisk>,
    options: Options,
}

impl Machine {
    fn new(capacity_bytes: u64) -> (Machine, Store) {
        Machine::with_seed(capacity_bytes, 1)
    }

    fn with_seed(capacity_bytes: u64, seed: u64) -> (Machine, Store) {
        let (runtime, _world) = Runtime::virtual_time(Order::SmallestTime);
        let shape = crate::emulated::Shape {
            capacity_bytes: Some(capacity_bytes),
            zone_len_bytes: Some(4 << 20),
            ..Default::default()
        };
        let profile = shape.profile(None, None).unwrap();
        let disk = SimDisk::builder(profile.geometry())
            .profile(profile)
            .clock(Arc::clone(&runtime.clock))
            .write_cache(Blocks::holding(8 << 20))
            .memory();
        let disk = Arc::new(disk.unwrap());
        let options = Options::new().runtime(runtime).values_apart_from(64 << 10).seed(seed);
        let store = options.create_on(Arc::clone(&disk) as Arc<dyn Disk>).unwrap();
        (Machine { disk, options }, store)
    }

    fn after_a_power_cut(&self, store: Store, prng: &mut Prng) -> Store {
        self.disk.cut_power();
        drop(store);
        self.disk.power_cycle(prng).unwrap();
        self.options.open_on(Arc::clone(&self.disk) as Arc<dyn Disk>).unwrap()
    }
}

fn read(objects: &Objects, name: &str) -> Option<Vec<u8>> {
    let mut reader = objects.reader(name).unwrap()?;
    let mut out = Vec::new();
    reader.read_to_end(&mut out).unwrap();
    assert_eq!(reader.stat().len_bytes, out.len() as u64);
    Some(out)
}

fn check_is_sound(objects: &Objects) -> crate::ObjectsReport {
    let report = objects.check().unwrap();
    assert_eq!(report.findings, Vec::<String>::new());
    report
}

#[test]
fn objects_of_every_length_come_back_whole_and_in_ranges() {
    let (_machine, store) = Machine::new(1 << 30);
    let objects = store.objects().unwrap();
    let lens = [0, 1, 4096, 4097, MIB - 1, MIB, MIB + 1, 3 * MIB, 9 * MIB + 77];
    for (at, len) in lens.into_iter().enumerate() {
        let (name, data) = (format!("object {at}"), data(at as u64, len));
        // As a whole, and in pieces whose ends are not those of chunks.
        objects.put(&name, "whole", &data, NOT_SYNCED).unwrap();
        assert_eq!(read(&objects, &name).unwrap(), data);
        let mut upload = objects.upload();
        for piece in data.chunks(300_001) {
            upload.write_all(piece).unwrap();
        }
        assert_eq!(upload.len_bytes(), len as u64);
        upload.finish(&name, "in pieces", WriteOptions::SYNC).unwrap();
        let mut reader = objects.reader(&name).unwrap().unwrap();
        assert_eq!(&reader.stat().metadata[..], b"in pieces");
        let mut prng = Prng::new(at as u64);
        for _ in 0..20 {
            let offset = prng.below(len as u64 + 10) as usize;
            let wanted = prng.below(2 * MIB as u64) as usize;
            let range = &data[offset.min(len)..(offset + wanted).min(len)];
            assert_eq!(reader.read_range(offset as u64, wanted).unwrap(), range);
        }
        reader.seek(SeekFrom::End(-(len.min(5) as i64))).unwrap();
        let mut end = Vec::new();
        reader.read_to_end(&mut end).unwrap();
        assert_eq!(end, data[len - len.min(5)..]);
        assert!(reader.seek(SeekFrom::Current(-1_000_000_000)).is_err());
    }
    let report = check_is_sound(&objects);
    assert_eq!(report.object_count, lens.len() as u64);
    assert_eq!(report.len_bytes, lens.iter().sum::<usize>() as u64);
    assert_eq!(report.upload_count, 0);
}

#[test]
fn a_reader_goes_on_when_its_object_is_replaced_or_deleted() {
    let (_machine, store) = Machine::new(1 << 30);
    let objects = store.objects().unwrap();
    let old = data(1, 3 * MIB);
    objects.put("film", "", &old, NOT_SYNCED).unwrap();
    let mut before = objects.reader("film").unwrap().unwrap();
    objects.put("film", "", data(2, 2 * MIB), NOT_SYNCED).unwrap();
    assert_eq!(objects.stat("film").unwrap().unwrap().len_bytes, 2 * MIB as u64);
    assert!(objects.delete("film", NOT_SYNCED).unwrap());
    assert!(!objects.delete("film", NOT_SYNCED).unwrap());
    store.compact().unwrap();
    assert_eq!(before.read_range(0, usize::MAX).unwrap(), old);
    assert!(objects.reader("film").unwrap().is_none());
    assert_eq!(check_is_sound(&objects).chunk_count, 0);
}

#[test]
fn a_batch_changes_all_objects_or_none() {
    let (_machine, store) = Machine::new(1 << 30);
    let objects = store.objects().unwrap();
    objects.put("a", "of a", data(1, 2 * MIB), NOT_SYNCED).unwrap();
    objects.put("b", "of b", "short", NOT_SYNCED).unwrap();
    let mut upload = objects.upload();
    upload.write(&data(3, 5 * MIB)).unwrap();
    let mut batch = ObjectBatch::new();
    batch.rename("a", "moved").unwrap();
    batch.set_metadata("moved", "of moved").unwrap();
    batch.finish("a", "of the new a", upload).unwrap();
    batch.put("a", "of the newest a", "newest").unwrap();
    batch.delete("b").unwrap();
    objects.write(batch, WriteOptions::SYNC).unwrap();
    let names: Vec<_> = objects.list("", None).unwrap().map(|entry| entry.unwrap()).collect();
    assert_eq!(names.len(), 2);
    assert_eq!((&names[0].0[..], &names[0].1.metadata[..]), (&b"a"[..], &b"of the newest a"[..]));
    assert_eq!((&names[1].0[..], &names[1].1.metadata[..]), (&b"moved"[..], &b"of moved"[..]));
    assert_eq!(read(&objects, "moved").unwrap(), data(1, 2 * MIB));
    check_is_sound(&objects);

    // One change that cannot be made undoes the others.
    let mut upload = objects.upload();
    upload.write(&data(4, 3 * MIB)).unwrap();
    let mut batch = ObjectBatch::new();
    batch.finish("c", "", upload).unwrap();
    batch.delete("moved").unwrap();
    batch.rename("absent", "b").unwrap();
    let error = objects.write(batch, WriteOptions::SYNC).map_err(crate::Error::from);
    refused(error, ErrorKind::NotFound, &["absent"]);
    assert!(objects.stat("c").unwrap().is_none());
    assert_eq!(read(&objects, "moved").unwrap(), data(1, 2 * MIB));
    let report = check_is_sound(&objects);
    assert_eq!((report.chunk_count, report.upload_count), (2, 0));
}

#[test]
fn lists_start_where_they_are_told_to() {
    let (_machine, store) = Machine::new(1 << 30);
    let objects = store.objects().unwrap();
    for name in ["a/1", "a/2", "a/3", "b/1"] {
        objects.put(name, name, "", NOT_SYNCED).unwrap();
    }
    let list = |prefix: &str, start: Option<&str>| -> Vec<String> {
        let listing = objects.list(prefix, start.map(str::as_bytes)).unwrap();
        listing
            .map(|entry| String::from_utf8(entry.unwrap().1.metadata.to_vec()).unwrap())
            .collect()
    };
    assert_eq!(list("a/", None), ["a/1", "a/2", "a/3"]);
    assert_eq!(list("a/", Some("a/2")), ["a/2", "a/3"]);
    assert_eq!(list("a/", Some("a/25")), ["a/3"]);
    assert_eq!(list("a/", Some("0")), ["a/1", "a/2", "a/3"]);
    assert_eq!(list("a/", Some("b")), Vec::<String>::new());
    assert_eq!(list("", None).len(), 4);
}

#[test]
fn wrong_names_plain_entries_and_foreign_uploads_are_refused() {
    let (_machine, store) = Machine::new(1 << 30);
    let objects = store.objects().unwrap();
    let as_error = |error| crate::Error::from(error);
    refused(
        objects.put("", "", "", NOT_SYNCED).map_err(as_error),
        ErrorKind::InvalidEntry,
        &["1 to 65535"],
    );
    let long = vec![b'n'; 65_536];
    refused(objects.stat(&long).map_err(as_error), ErrorKind::InvalidEntry, &["65536"]);
    objects.put(&long[1..], vec![0; MIB], "", NOT_SYNCED).unwrap();
    let metadata = vec![0; MIB + 1];
    refused(
        objects.put("a", metadata, "", NOT_SYNCED).map_err(as_error),
        ErrorKind::InvalidEntry,
        &["metadata", "1048576"],
    );
    let plain = store.create_keyspace("plain", crate::KeyspaceOptions::default()).unwrap();
    plain.put("apple", "red").unwrap();
    refused(plain.objects(), ErrorKind::InvalidArgument, &["plain", "apple"]);
    let other = store.create_keyspace("other", crate::KeyspaceOptions::default()).unwrap();
    let mut upload = other.objects().unwrap().upload();
    upload.write(&data(1, 3 * MIB)).unwrap();
    let mut batch = ObjectBatch::new();
    batch.finish("a", "", upload).unwrap();
    refused(
        objects.write(batch, NOT_SYNCED).map_err(as_error),
        ErrorKind::InvalidArgument,
        &["another store or keyspace"],
    );
    assert!(objects.stat("a").unwrap().is_none());
    assert_eq!(check_is_sound(&other.objects().unwrap()).upload_count, 0);
}

#[test]
fn two_handles_of_a_keyspace_do_not_end_each_others_uploads() {
    let (_machine, store) = Machine::new(1 << 30);
    let mut upload = store.objects().unwrap().upload();
    upload.write(&data(1, 3 * MIB)).unwrap();
    store.objects().unwrap().put("other", "", data(2, 2 * MIB), NOT_SYNCED).unwrap();
    upload.finish("film", "", NOT_SYNCED).unwrap();
    let objects = store.objects().unwrap();
    assert_eq!(read(&objects, "film").unwrap(), data(1, 3 * MIB));
    check_is_sound(&objects);
}

#[test]
fn what_an_upload_left_is_gone_after_the_next_opening() {
    let (dir, path) = place();
    let store = small().values_apart_from(64 << 10).create(&path).unwrap();
    let objects = store.objects().unwrap();
    let mut upload = objects.upload();
    upload.write(&data(1, 40 * MIB)).unwrap();
    assert_eq!(objects.check().unwrap().upload_count, 1);
    store.sync().unwrap();
    // A program that ends without a word: the image as it is now.
    let copy = dir.path().join("copy.imbrex");
    std::fs::copy(&path, &copy).unwrap();
    drop(upload);
    assert_eq!(check_is_sound(&objects).upload_count, 0);
    let store = crate::open(&copy).unwrap();
    let objects = store.objects().unwrap();
    assert_eq!(objects.check().unwrap().upload_count, 1);
    objects.put("next", "", "", NOT_SYNCED).unwrap();
    let report = check_is_sound(&objects);
    assert_eq!((report.upload_count, report.chunk_count), (0, 0));
}

#[test]
fn checkpoints_and_backups_have_objects() {
    let (dir, path) = place();
    let store = small().values_apart_from(64 << 10).create(&path).unwrap();
    let film = data(1, 5 * MIB);
    store.objects().unwrap().put("film", "old", &film, NOT_SYNCED).unwrap();
    store.checkpoint("monday").unwrap();
    let copy = dir.path().join("copy.imbrex");
    store.backup_to(&copy, &small()).unwrap();
    store.objects().unwrap().put("film", "new", data(2, 5 * MIB), NOT_SYNCED).unwrap();
    let monday = store.open_checkpoint("monday").unwrap().objects().unwrap();
    assert_eq!(read(&monday, "film").unwrap(), film);
    refused(
        monday.put("film", "", "", NOT_SYNCED).map_err(crate::Error::from),
        ErrorKind::ReadOnly,
        &[],
    );
    let copied = crate::open_read_only(&copy).unwrap().objects().unwrap();
    assert_eq!(read(&copied, "film").unwrap(), film);
}

/// Between two reads of the drive the platter turns on: a stream of chunks that were read one by one lost a part of a turn
/// with each.
#[test]
fn chunks_that_follow_one_another_are_read_together() {
    let (machine, store) = Machine::new(1 << 30);
    let objects = store.objects().unwrap();
    let film = data(1, 64 * MIB);
    for (name, len) in [("clip", 2 * MIB + 300_000), ("film", film.len())] {
        let mut upload = objects.upload();
        upload.write(&film[..len]).unwrap();
        upload.finish(name, "", WriteOptions::SYNC).unwrap();
    }
    store.flush().unwrap();
    store.compact().unwrap();
    let cost = |read: &mut dyn FnMut(&mut crate::ObjectReader) -> Vec<u8>, name: &str| {
        let mut reader = objects.reader(name).unwrap().unwrap();
        // The index of each file is read once.
        let whole = read(&mut reader);
        let before = machine.disk.counters();
        let mut reader = objects.reader(name).unwrap().unwrap();
        assert!(read(&mut reader) == whole && film.starts_with(&whole), "{name}");
        let now = machine.disk.counters();
        (now.reads - before.reads, now.seeks - before.seeks, (now.busy_ns - before.busy_ns) / 1000)
    };
    let mut apart = |reader: &mut crate::ObjectReader| {
        let count = reader.stat().len_bytes.div_ceil(MIB as u64);
        // Backwards, so that no chunk seems to follow the last one.
        let mut chunks: Vec<_> = (0..count)
            .rev()
            .map(|number| reader.read_range(number * MIB as u64, MIB).unwrap())
            .collect();
        chunks.reverse();
        chunks.concat()
    };
    let mut stream = |reader: &mut crate::ObjectReader| {
        let mut out = Vec::new();
        reader.read_to_end(&mut out).unwrap();
        out
    };
    let mut range = |reader: &mut crate::ObjectReader| reader.read_range(0, usize::MAX).unwrap();
    for name in ["clip", "film"] {
        let apart = cost(&mut apart, name);
        let (stream, range) = (cost(&mut stream, name), cost(&mut range, name));
        println!("{name}: {apart:?}, {stream:?}, {range:?}: reads, seeks, us");
        assert!(range.0 < apart.0 && range.2 < apart.2, "{name}: {apart:?}, {range:?}");
        assert!(stream.0 < apart.0 && stream.2 < apart.2, "{name}: {apart:?}, {stream:?}");
    }
}

/// Once, `add` overwrote chunks with those of the other store that had the same numbers: objects had each other's data.
#[test]
fn nothing_is_salvaged_to_a_store_with_objects() {
    let (dir, path) = place();
    let create = |name: &str| small().values_apart_from(64 << 10).create(dir.path().join(name));
    let lost = small().values_apart_from(64 << 10).create(&path).unwrap();
    let (ours, theirs) = (data(1, 3 * MIB), data(2, 3 * MIB));
    lost.objects().unwrap().put("film", "", &theirs, NOT_SYNCED).unwrap();
    drop(lost);
    let target = create("target.imbrex").unwrap();
    target.objects().unwrap().put("song", "", &ours, NOT_SYNCED).unwrap();
    for add in [false, true] {
        let options = SalvageOptions { add, ..SalvageOptions::default() };
        let place = path.to_str().unwrap();
        let wanted = [place, "the keyspace default", "holds objects", "an empty store"];
        refused(salvage(&path, &target, &options), ErrorKind::InvalidArgument, &wanted);
    }
    assert_eq!(read(&target.objects().unwrap(), "song").unwrap(), ours);
    assert_eq!(read(&target.objects().unwrap(), "film"), None);
    let empty = create("empty.imbrex").unwrap();
    salvage(&path, &empty, &SalvageOptions::default()).unwrap();
    assert_eq!(read(&empty.objects().unwrap(), "film").unwrap(), theirs);
}

#[test]
fn a_full_drive_refuses_uploads_and_takes_deletes() {
    let (_machine, store) = Machine::new(512 << 20);
    let objects = store.objects().unwrap();
    let mut names = Vec::new();
    let refusal = loop {
        let name = format!("film {}", names.len());
        let mut upload = objects.upload();
        let written = (0..4).try_for_each(|at| upload.write(&data(at, 3 * MIB)));
        match written.and_then(|()| upload.finish(&name, "", WriteOptions::SYNC)) {
            Ok(()) => names.push(name),
            Err(error) => break crate::Error::from(error),
        }
        assert!(names.len() < 512 / 12, "the drive is never full");
    };
    assert_eq!(refusal.kind(), ErrorKind::NoSpace, "{refusal}");
    assert!(names.len() > 20, "{} films", names.len());
    check_is_sound(&objects);
    // What is deleted can be written again, several times over.
    for round in 0..100 {
        let name = &names[round * 7 % names.len()];
        objects.delete(name, WriteOptions::SYNC).unwrap();
        let again = data(round as u64, 12 * MIB);
        objects.put(name, "", &again, WriteOptions::SYNC).unwrap();
        assert!(read(&objects, name).unwrap() == again);
    }
    assert_eq!(check_is_sound(&objects).object_count, names.len() as u64);
}

/// What the objects should be: the state at each change, and which of the changes was the last to be synced.
#[derive(Default)]
struct Model {
    states: Vec<BTreeMap<String, (u64, usize)>>,
    synced: usize,
}

#[test]
fn a_power_cut_takes_whole_objects_from_the_end_only() {
    for seed in seeds(12) {
        let prng = &mut Prng::new(seed);
        let (machine, mut store) = Machine::new(512 << 20);
        let mut model = Model { states: vec![BTreeMap::new()], ..Model::default() };
        for _ in 0..4 {
            let objects = store.objects().unwrap();
            let mut open = Vec::new();
            for _ in 0..prng.below(40) {
                change(&objects, &mut model, &mut open, prng);
            }
            // Nothing of before may write after the cut, and nothing may be abandoned before it.
            machine.disk.cut_power();
            drop((open, objects));
            store = machine.after_a_power_cut(store, prng);
            let objects = store.objects().unwrap();
            let found = contents(&objects);
            let at = model.states.iter().rposition(|state| *state == found);
            let at = at.unwrap_or_else(|| panic!("seed {seed}: no state has {found:?}"));
            assert!(at >= model.synced, "seed {seed}: {at} is before the sync of {}", model.synced);
            model = Model { states: vec![found], synced: 0 };
            objects.put("after", "", "", WriteOptions::SYNC).unwrap();
            objects.delete("after", WriteOptions::SYNC).unwrap();
            assert_eq!(check_is_sound(&objects).upload_count, 0, "seed {seed}");
        }
    }
}

/// Changes one object, or writes to an upload that goes on.
fn change(objects: &Objects, model: &mut Model, open: &mut Vec<crate::Upload>, prng: &mut Prng) {
    let name = format!("object {}", prng.below(6));
    let options = WriteOptions { sync: prng.chance(1, 3) };
    let mut state = model.states.last().unwrap().clone();
    let len = prng.below(3 * MIB as u64) as usize >> (prng.below(3) * 7);
    let content = (prng.below(1000), len);
    match prng.below(6) {
        0 => {
            objects.delete(&name, options).unwrap();
            state.remove(&name);
        }
        1 => {
            let mut upload = objects.upload();
            upload.write(&data(content.0, len)).unwrap();
            open.push(upload);
            return;
        }
        2 => {
            let mut upload = objects.upload();
            data(content.0, len).chunks(100_000).for_each(|piece| upload.write(piece).unwrap());
            upload.finish(&name, content.0.to_string(), options).unwrap();
            state.insert(name, content);
        }
        3 if state.contains_key(&name) => {
            let mut batch = ObjectBatch::new();
            batch.rename(&name, "moved").unwrap();
            batch.put(&name, content.0.to_string(), data(content.0, len)).unwrap();
            objects.write(batch, options).unwrap();
            let old = state.insert(name, content).unwrap();
            state.insert("moved".to_owned(), old);
        }
        _ => {
            let metadata = content.0.to_string();
            objects.put(&name, metadata, data(content.0, len), options).unwrap();
            state.insert(name, content);
        }
    }
    model.states.push(state);
    if options.sync {
        model.synced = model.states.len() - 1;
    }
}

/// Seed and length of every object; the data are those.
fn contents(objects: &Objects) -> BTreeMap<String, (u64, usize)> {
    let listing = objects.list("", None).unwrap();
    let content = |entry: Result<_, _>| {
        let (name, stat): (bytes::Bytes, crate::ObjectStat) = entry.unwrap();
        let name = String::from_utf8(name.to_vec()).unwrap();
        let seed: u64 = std::str::from_utf8(&stat.metadata).unwrap().parse().unwrap();
        let found = read(objects, &name).unwrap();
        assert!(found == data(seed, found.len()), "{name} has other data");
        (name, (seed, found.len()))
    };
    listing.map(content).collect()
}

/// A copy whose header is older than its other entries, or is gone, takes no number a second time.
#[test]
fn a_store_without_a_header_of_its_own_takes_no_number_twice() {
    let (_machine, store) = Machine::new(1 << 30);
    let objects = store.objects().unwrap();
    objects.put("old", "", data(1, 2 * MIB), NOT_SYNCED).unwrap();
    let older = store.get(HEADER).unwrap().unwrap();
    for at in 0..5000 {
        objects.put("marks", "", data(at, 5000), NOT_SYNCED).unwrap();
    }
    objects.put("new", "", data(2, 2 * MIB), NOT_SYNCED).unwrap();
    // As a salvage leaves it: entries of this store in another one, the last chunk of "new" lost.
    for header in [Some(older), None] {
        let (_machine, copy) = Machine::with_seed(1 << 30, 2);
        for entry in store.range::<&[u8]>(..).unwrap() {
            let (key, value) = entry.unwrap();
            if &key[..] != HEADER && value != data(2, 2 * MIB)[MIB..] {
                copy.put(key, value).unwrap();
            }
        }
        if let Some(header) = header {
            copy.put(HEADER, header).unwrap();
        }
        let copied = copy.objects().unwrap();
        assert_eq!(read(&copied, "old").unwrap(), data(1, 2 * MIB));
        for at in 0..10 {
            copied.put(format!("fresh {at}"), "", data(9, 2 * MIB), NOT_SYNCED).unwrap();
        }
        let mut new = copied.reader("new").unwrap().unwrap();
        assert!(new.bytes_at(0, MIB).unwrap() == data(2, 2 * MIB)[..MIB]);
        let missing = new.bytes_at(MIB as u64, MIB).map_err(crate::Error::from);
        refused(missing, ErrorKind::Damaged, &["chunk 1 is missing"]);
        let findings = copied.check().unwrap().findings;
        assert_eq!(findings.len(), 1, "{findings:?}");
    }
}

#[test]
fn a_check_finds_entries_of_no_object() {
    let (_machine, store) = Machine::new(1 << 30);
    let objects = store.objects().unwrap();
    objects.put("film", "", data(1, 2 * MIB), NOT_SYNCED).unwrap();
    for key in [&b"\x01other"[..], b"zzz", b"\x02short", b"\x03short"] {
        store.put(key, "plain").unwrap();
    }
    assert_eq!(objects.check().unwrap().findings.len(), 4);
}
