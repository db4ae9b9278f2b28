//! The formats; objects on drives are tested in `imbrex`, which has drives.

use crate::format::{
    CHUNK_LEN_BYTES, Chunks, Data, Header, Manifest, UploadId, chunk_key, chunk_of, decode_header,
    encode_header, manifest_key, name_of, upload_key, upload_of,
};

fn chunks(len_bytes: u64) -> Chunks {
    Chunks { upload: UploadId(7), chunk_len_bytes: CHUNK_LEN_BYTES as u32, len_bytes }
}

#[test]
fn manifests_and_headers_are_read_as_they_were_written() {
    let data = [
        Data::Inline(b""),
        Data::Inline(b"short"),
        Data::Chunks(chunks(1)),
        Data::Chunks(chunks(5 << 30)),
    ];
    for (data, metadata) in data.into_iter().flat_map(|data| [(data, &b""[..]), (data, b"of it")]) {
        let manifest = Manifest { metadata, data };
        assert_eq!(Manifest::decode(&manifest.encode()), Ok(manifest));
    }
    let header = Header { store: 7, next_upload: UploadId(4097) };
    assert_eq!(decode_header(&encode_header(header)), Ok(header));
}

#[test]
fn every_cut_and_every_flipped_bit_is_refused_or_is_another_manifest() {
    let manifest = Manifest { metadata: b"of it", data: Data::Chunks(chunks(5 << 30)) };
    let bytes = manifest.encode();
    for len in 0..bytes.len() {
        assert!(Manifest::decode(&bytes[..len]).is_err(), "the first {len} bytes");
    }
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert_ne!(Manifest::decode(&flipped), Ok(manifest), "bit {bit}");
        crate::decode_any(&flipped);
    }
    let header = encode_header(Header { store: 7, next_upload: UploadId(1) });
    for len in 0..header.len() {
        assert!(decode_header(&header[..len]).is_err());
    }
}

#[test]
fn keys_tell_what_they_are_and_keep_the_order_of_chunks() {
    let mut keys = vec![
        chunk_key(UploadId(1), 0).to_vec(),
        chunk_key(UploadId(1), 255).to_vec(),
        chunk_key(UploadId(1), 256).to_vec(),
        chunk_key(UploadId(2), 0).to_vec(),
        chunk_key(UploadId(256), 0).to_vec(),
        manifest_key(b"\0"),
        manifest_key(b"a"),
    ];
    keys.insert(0, upload_key(UploadId(u64::MAX)).to_vec());
    assert!(keys.is_sorted());
    for key in &keys {
        let kinds = [upload_of(key).is_some(), chunk_of(key).is_some(), name_of(key).is_some()];
        assert_eq!(kinds.iter().filter(|&&is| is).count(), 1, "{key:?}");
    }
    assert_eq!(chunk_of(&chunk_key(UploadId(9), 8)), Some((UploadId(9), 8)));
    assert_eq!(upload_of(b"\x02short"), None);
}

#[test]
fn the_last_chunk_has_what_is_left() {
    let full = CHUNK_LEN_BYTES as u64;
    for (len_bytes, count, last) in
        [(1, 1, 1), (full, 1, full), (full + 1, 2, 1), (3 * full, 3, full)]
    {
        assert_eq!(chunks(len_bytes).count(), count);
        assert_eq!(chunks(len_bytes).len_of(count - 1), last);
    }
}
