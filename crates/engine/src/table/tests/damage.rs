//! Damaged tables: an error or the right answer, never a panic, never a wrong answer.

use super::super::format::{BLOCK_TRAILER_LEN_BYTES, BlockHandle, block_trailer};
use super::super::iter::TableIter;
use super::*;
use imbrex_record_log::BLOCK_LEN_BYTES;

fn sample() -> (Entries, Vec<u8>) {
    let mut entries = Entries::new();
    for i in 0..40u64 {
        let key = format!("key{i:03}").into_bytes();
        entries.insert((key, std::cmp::Reverse(i)), (Kind::Put, vec![i as u8; 10]));
    }
    let options = TableOptions {
        block_len_bytes: 300,
        index_partition_len_bytes: 30,
        ..TableOptions::default()
    };
    let mut builder = new_builder(&options);
    for ((key, seq), (kind, value)) in &entries {
        builder.add(key, trailer(seq.0, *kind), value);
    }
    builder.add_range_tombstone(b"key001", b"key002", Seq(99));
    (entries, file_bytes(&builder.finish().0))
}

/// Reads everything, or returns the first error.
fn read_all(bytes: Vec<u8>) -> Result<Entries, EngineError> {
    let table = open(bytes)?;
    let mut iter = table.iter(TableReadOptions::default());
    iter.seek_to_first()?;
    let mut all = Entries::new();
    while iter.valid() {
        let key = iter.key();
        let kind = key.trailer.kind().expect("iterators yield known kinds");
        let at = (key.user_key.to_vec(), std::cmp::Reverse(key.trailer.seq().0));
        all.insert(at, (kind, iter.value().to_vec()));
        iter.next()?;
    }
    for (key, _) in all.keys() {
        let got = table.get(key, key_hash(key), Seq::MAX)?;
        assert!(matches!(got, TableLookup::Value { .. }), "{key:?}: {got:?}");
    }
    Ok(all)
}

fn check_corrupt(bytes: Vec<u8>, what: &str) {
    match read_all(bytes) {
        Err(EngineError::Corrupt { file, .. }) => assert_eq!(file, "t/000001"),
        other => panic!("{what}: {other:?}"),
    }
}

/// A data block and an index partition have no copy. A flipped bit anywhere else costs nothing, and
/// the verification names it.
#[test]
fn every_flipped_bit_is_noticed() {
    let (entries, bytes) = sample();
    assert_eq!(read_all(bytes.clone()).unwrap(), entries);
    let footer = open(bytes.clone()).unwrap().footer;
    let index_end = (footer.data_len_bytes + footer.index_len_bytes) as usize;
    assert!(index_end * 2 < bytes.len());
    for bit in 0..bytes.len() * 8 {
        let mut bad = bytes.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        if bit / 8 < index_end {
            check_corrupt(bad, &format!("bit {bit}"));
        } else {
            check_whole(bad, &entries, &format!("bit {bit}"));
        }
    }
}

/// The table has all entries and its range tombstone, and its verification finds damage.
fn check_whole(bytes: Vec<u8>, entries: &Entries, what: &str) {
    let all = read_all(bytes.clone()).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(&all, entries, "{what}");
    let table = open(bytes).unwrap();
    let tombstones = table.range_tombstones().fragments().count();
    assert_eq!(tombstones, 1, "{what}");
    let verified = table.verify(&mut |_| Ok(())).unwrap();
    assert!(!verified.findings.is_empty(), "{what}");
}

/// A block that cannot be read costs nothing either, because no block has both copies of a part.
#[test]
fn every_unreadable_block_behind_the_index_costs_nothing() {
    let (entries, bytes) = sample();
    let footer = open(bytes.clone()).unwrap().footer;
    let index_end = footer.data_len_bytes + footer.index_len_bytes;
    let first = index_end.div_ceil(BLOCK_LEN_BYTES as u64) as usize;
    let count = bytes.len().div_ceil(BLOCK_LEN_BYTES);
    assert!(footer.gap_len_bytes > 0 && first < count, "{footer:?}");
    for block in first..count {
        let start = block * BLOCK_LEN_BYTES;
        let mut bad = bytes.clone();
        let end = bad.len().min(start + BLOCK_LEN_BYTES);
        bad[start..end].fill(0);
        check_whole(bad, &entries, &format!("block {block}"));
    }
    // The block in which the copies end, without data and index in it.
    let mut bad = bytes;
    bad[index_end as usize..first * BLOCK_LEN_BYTES].fill(0);
    check_whole(bad, &entries, "the copies");
}

/// A table some of whose blocks lie in a zone that is offline.
#[derive(Debug)]
struct FileInZone(MemoryFile, std::ops::Range<u64>);

impl FileReader for FileInZone {
    fn len_bytes(&self) -> u64 {
        self.0.len_bytes()
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn read_at<'a>(
        &self,
        offset: u64,
        len_bytes: usize,
        scratch: &'a mut Vec<u8>,
    ) -> Result<&'a [u8], FilesError> {
        if offset < self.1.end && self.1.start < offset + len_bytes as u64 {
            let source = imbrex_disk::DiskError::Offline { zone: imbrex_disk::ZoneId(4) };
            return Err(FilesError::Disk { what: "reading".to_owned(), source });
        }
        self.0.read_at(offset, len_bytes, scratch)
    }

    fn extents(&self) -> Vec<BlockRange> {
        self.0.extents()
    }
}

/// Zeros in the place of what cannot be read made a lost zone look like a damaged footer.
#[test]
fn a_table_that_cannot_be_read_is_not_called_damaged() {
    let (_, bytes) = sample();
    let len_bytes = bytes.len() as u64;
    let open_without = |lost: std::ops::Range<u64>| {
        let file = FileInZone(MemoryFile(bytes.clone()), lost);
        Table::open(Arc::new(file), Arc::new(BlockCache::new(32 << 10)))
    };
    let error = open_without(0..len_bytes).unwrap_err();
    let source = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
    assert!(source.contains("zone 4 is offline"), "{error}: {source}");
    // What has a copy elsewhere opens.
    let last = (len_bytes - 1) / BLOCK_LEN_BYTES as u64 * BLOCK_LEN_BYTES as u64;
    open_without(last..len_bytes).unwrap();
}

/// The same table in version 1.
fn as_version_1(bytes: &[u8]) -> Vec<u8> {
    let footer = open(bytes.to_vec()).unwrap().footer;
    let payload = |part: BlockHandle| {
        &bytes[part.offset as usize..part.end() as usize - BLOCK_TRAILER_LEN_BYTES]
    };
    let index_end = (footer.data_len_bytes + footer.index_len_bytes) as usize;
    let mut old = bytes[..index_end].to_vec();
    let parts = [footer.filter(), footer.tombstones(), footer.properties(), footer.top_index()]
        .map(payload);
    for part in parts {
        let offset = old.len() as u64;
        let trailer = block_trailer(footer.table_id, offset, part, part.len(), Compression::None);
        old.extend_from_slice(part);
        old.extend_from_slice(&trailer);
    }
    let mut end = footer.encode(false);
    end[8] = 1;
    end[72..80].fill(0);
    let crc = crc32c::crc32c(&end[..92]);
    end[92..].copy_from_slice(&crc.to_le_bytes());
    old.extend_from_slice(&end);
    old
}

/// Tables of version 1 have no copies.
#[test]
fn a_table_of_version_1_is_read() {
    let (entries, bytes) = sample();
    let old = as_version_1(&bytes);
    assert_eq!(read_all(old.clone()).unwrap(), entries);
    let table = open(old.clone()).unwrap();
    assert_eq!(table.range_tombstones().fragments().count(), 1);
    assert_eq!(table.verify(&mut |_| Ok(())).unwrap().findings, Vec::<String>::new());
    let footer = table.footer;
    assert_eq!(footer.version(), 1);
    for part in [footer.tombstones(), footer.top_index()] {
        let mut bad = old.clone();
        bad[part.offset as usize] ^= 1;
        check_corrupt(bad, "a part without a copy");
    }
    let mut bad = old;
    let at = bad.len() - 1;
    bad[at] ^= 1;
    check_corrupt(bad, "a footer without a copy");
}

/// A value that is a whole table is not taken for the end of the table around it.
#[test]
fn the_footer_of_a_table_in_a_value_is_not_taken() {
    let (_, inner) = sample();
    let mut entries = Entries::new();
    entries.insert((b"key".to_vec(), std::cmp::Reverse(1)), (Kind::Put, inner));
    let options = TableOptions { compression: Compression::None, ..TableOptions::default() };
    let (bytes, _) = build(&entries, &options);
    let footer = open(bytes.clone()).unwrap().footer;
    let mut bad = bytes;
    let (copy, end) = (footer.footer_copy().offset as usize, bad.len() - 1);
    bad[end] ^= 1;
    assert_eq!(read_all(bad.clone()).unwrap(), entries);
    bad[copy + 20] ^= 1;
    check_corrupt(bad, "both footers are damaged");
}

#[test]
fn every_cut_is_noticed() {
    let (_, bytes) = sample();
    for len in 0..bytes.len() {
        check_corrupt(bytes[..len].to_vec(), &format!("cut at {len}"));
    }
    let mut longer = bytes;
    longer.push(0);
    check_corrupt(longer, "one byte more");
}

#[test]
fn random_bytes_are_no_table() {
    let mut prng = Prng::new(3).derive("random bytes");
    for _ in 0..200 {
        let bytes = (0..prng.below(3000)).map(|_| prng.below(256) as u8).collect();
        check_corrupt(bytes, "random bytes");
    }
}

#[test]
fn blocks_in_each_others_place_are_noticed() {
    let mut entries = Entries::new();
    for i in 0..2u8 {
        entries.insert((vec![i], std::cmp::Reverse(1)), (Kind::Put, vec![i; 10]));
    }
    let options = TableOptions { block_len_bytes: 1, ..TableOptions::default() };
    let (bytes, properties) = build(&entries, &options);
    let half = properties.data_len_bytes as usize / 2;
    let swapped = [&bytes[half..2 * half], &bytes[..half], &bytes[2 * half..]].concat();
    check_corrupt(swapped, "swapped blocks");
}

/// `verify` finds defects that checksums cannot show, such as in this wrongly written table.
#[test]
fn verify_doubts_the_properties_and_the_filter() {
    let (_, bytes) = sample();
    let table = open(bytes.clone()).unwrap();
    table.verify(&mut |_| Ok(())).unwrap();
    let check = |lie: &dyn Fn(&mut Table), expected: &str| {
        let mut liar = Arc::into_inner(open(bytes.clone()).unwrap()).unwrap();
        lie(&mut liar);
        let told = match liar.verify(&mut |_| Ok(())) {
            Ok(report) => report.findings.concat(),
            Err(error) => error.to_string(),
        };
        assert!(told.contains(expected), "{told}");
    };
    check(&|t| t.properties.entry_count += 1, "damaged table properties in t/000001 at offset");
    check(&|t| t.properties.largest_user_key.push(0), "table properties");
    check(&|t| t.properties.smallest_seq = Seq(1), "table properties");
    check(&|t| t.filter = Some(super::super::filter::Filter::build(&[1], 10)), "filter");
}

#[test]
fn verify_reads_every_byte() {
    let (_, bytes) = sample();
    for byte in 0..bytes.len() {
        let table = open(bytes.clone()).unwrap();
        let mut bad = bytes.clone();
        bad[byte] ^= 0x10;
        let mut table = Arc::into_inner(table).unwrap();
        table.file = Arc::new(MemoryFile(bad));
        let verified = table.verify(&mut |_| Ok(()));
        assert!(!verified.is_ok_and(|report| report.findings.is_empty()), "byte {byte}");
    }
}

type Entry = (Vec<u8>, u64, Vec<u8>);

fn entry_of(iter: &TableIter) -> Entry {
    let key = iter.key();
    (key.user_key.to_vec(), key.trailer.seq().0, iter.value().to_vec())
}

/// A table of several partitions with several blocks each.
fn partitioned() -> (Entries, Vec<u8>) {
    let entries: Entries = (0..300_u64)
        .map(|i| {
            (
                (format!("key{i:03}").into_bytes(), std::cmp::Reverse(i)),
                (Kind::Put, vec![i as u8; 10]),
            )
        })
        .collect();
    let options = TableOptions {
        block_len_bytes: 100,
        index_partition_len_bytes: 100,
        ..TableOptions::default()
    };
    let (bytes, _) = build(&entries, &options);
    (entries, bytes)
}

/// Two bytes are wrong, in two blocks. Both are reported, and the entries of the other blocks are
/// counted.
#[test]
fn verify_goes_on_behind_a_damaged_block() {
    let (entries, bytes) = partitioned();
    let mut table = Arc::into_inner(open(bytes.clone()).unwrap()).unwrap();
    let (mut bad, data_len) = (bytes, table.footer.data_len_bytes as usize);
    for at in [data_len / 3, data_len / 2] {
        bad[at] ^= 1;
    }
    table.file = Arc::new(MemoryFile(bad));
    let report = table.verify(&mut |_| Ok(())).unwrap();
    assert_eq!(report.findings.len(), 2, "{:?}", report.findings);
    assert!(report.entry_count < entries.len() as u64 && report.entry_count > 250, "{report:?}");
}

/// With any one byte wrong, a cursor that skips damage shows all entries outside the block or
/// partition with that byte: forward, backward and by seeks.
#[test]
fn a_cursor_passes_over_what_is_damaged() {
    let (entries, bytes) = partitioned();
    let all: Vec<Entry> = entries
        .iter()
        .map(|((key, seq), (_, value))| (key.clone(), seq.0, value.clone()))
        .collect();
    let footer = open(bytes.clone()).unwrap().footer;
    let index_end = (footer.data_len_bytes + footer.index_len_bytes) as usize;
    let (mut lost_count_max, mut opened_count) = (0, 0);
    for byte in 0..bytes.len() {
        let mut bad = bytes.clone();
        bad[byte] ^= 0x10;
        let (losses, cache) = (Arc::default(), Arc::new(BlockCache::new(0)));
        let file = Arc::new(MemoryFile(bad));
        let Ok(table) = Table::open_in_part(file, cache, false, &losses) else { continue };
        opened_count += 1;
        let mut iter = table.iter(TableReadOptions::default().passing(&losses));
        let mut got = Vec::new();
        iter.seek_to_first().unwrap();
        while iter.valid() {
            got.push(entry_of(&iter));
            iter.next().unwrap();
        }
        let lost: Vec<_> = all.iter().filter(|entry| !got.contains(entry)).collect();
        assert!(
            got.iter().all(|entry| all.contains(entry)) && got.is_sorted_by_key(|(key, _, _)| key)
        );
        let told = losses.sentences();
        // What follows the index has a copy, or is a hint.
        assert!(!told.is_empty() || index_end <= byte, "byte {byte}");
        let has_lost = told.iter().any(|loss| !loss.contains("lost: no key"));
        assert_eq!(!lost.is_empty(), has_lost, "byte {byte}: {told:?}");
        lost_count_max = lost_count_max.max(lost.len());
        let mut back = Vec::new();
        iter.seek_to_last().unwrap();
        while iter.valid() {
            back.push(entry_of(&iter));
            iter.prev().unwrap();
        }
        back.reverse();
        assert!(back == got, "byte {byte}: backwards");
        for (key, _, _) in all.iter().step_by(7) {
            let target = InternalKey::new(key, Trailer::seek(Seq::MAX));
            iter.seek(target).unwrap();
            let expected = got.iter().find(|(other, _, _)| other >= key);
            assert_eq!(iter.valid().then(|| entry_of(&iter)).as_ref(), expected, "byte {byte}");
            iter.seek_before(target).unwrap();
            let expected = got.iter().rfind(|(other, _, _)| other < key);
            assert_eq!(iter.valid().then(|| entry_of(&iter)).as_ref(), expected, "byte {byte}");
        }
    }
    assert!(opened_count > bytes.len() / 2, "{opened_count} of {}", bytes.len());
    assert!((5..100).contains(&lost_count_max), "{lost_count_max}");
}

/// If the checksum matches, the block decoder alone must find the damage.
#[test]
fn garbage_in_a_block_never_panics() {
    use super::super::block::{BlockBuilder, BlockCursor};
    let mut builder = BlockBuilder::default();
    let mut good: Vec<Vec<u8>> = Vec::new();
    // The second block shares prefixes, because the first one showed that this saves space.
    for _ in 0..2 {
        builder.clear();
        for i in 0..50u64 {
            let key = format!("a-common-prefix-{i:04}");
            let shared = if i == 0 { 0 } else { 18 };
            builder.add(key.as_bytes(), shared, trailer(i << 20, Kind::Put), &[1; 3]);
        }
        good.push(builder.finish().to_vec());
    }
    assert!(good[1].len() < good[0].len() * 3 / 4, "sharing prefixes pays");
    let mut prng = Prng::new(5).derive("garbage");
    for round in 0..20_000 {
        let mut block = good[round % 2].clone();
        for _ in 0..=prng.below(4) {
            let at = prng.below(block.len() as u64) as usize;
            block[at] = [0, 0xff, prng.below(256) as u8][prng.below(3) as usize];
        }
        if prng.below(4) == 0 {
            block.truncate(prng.below(block.len() as u64) as usize);
        }
        let mut cursor = BlockCursor::default();
        let _ = exercise(&mut cursor, &block);
    }

    fn exercise(cursor: &mut BlockCursor, block: &[u8]) -> Result<(), super::super::block::Damage> {
        cursor.open(block)?;
        let target = InternalKey::new(b"a-common-prefix-0025", Trailer::seek(Seq::MAX));
        for start in 0..4 {
            match start {
                0 => cursor.seek_to_first(block),
                1 => cursor.seek_to_last(block),
                2 => cursor.seek(block, target),
                _ => cursor.seek_before(block, target),
            }?;
            for step in 0..60 {
                if !cursor.valid() {
                    break;
                }
                let _ = (cursor.key(block), block.get(cursor.value_range()));
                if (start + step / 7) % 2 == 0 { cursor.next(block) } else { cursor.prev(block) }?;
            }
        }
        Ok(())
    }
}
