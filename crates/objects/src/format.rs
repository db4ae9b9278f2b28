#![doc = include_str!("../docs/formats/objects.md")]

use std::fmt;

/// The length of a chunk.
pub const CHUNK_LEN_BYTES: usize = 1 << 20;

/// The longest data that lie beside their metadata.
pub const INLINE_LEN_BYTES_MAX: usize = 4 << 10;

/// The longest metadata.
pub const METADATA_LEN_BYTES_MAX: usize = 1 << 20;

const FORMAT_VERSION: u8 = 1;
const MAGIC: [u8; 8] = *b"ImbrexOb";

/// The key of the header.
pub(crate) const HEADER_KEY: &[u8] = b"\x01imbrex objects";
/// What the keys of uploads that have not ended start with, of chunks, and of manifests.
pub(crate) const UPLOADS: u8 = 2;
pub(crate) const CHUNKS: u8 = 3;
pub(crate) const MANIFESTS: u8 = 4;

const HEADER_LEN: usize = 32;
const STORE_AT: usize = 16;
const NEXT_UPLOAD_AT: usize = 24;

const KIND_AT: usize = 1;
const RESERVED_AT: usize = 2;
const METADATA_LEN_AT: usize = 4;
const DATA_LEN_AT: usize = 8;
const UPLOAD_AT: usize = 16;
const CHUNK_LEN_AT: usize = 24;
const MANIFEST_LEN: usize = 28;

/// The number of an upload in its keyspace; never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct UploadId(pub(crate) u64);

/// Why some bytes are not a header or a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage(pub(crate) &'static str);

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// The key of an upload that has not ended.
pub(crate) fn upload_key(upload: UploadId) -> [u8; 9] {
    let mut key = [UPLOADS; 9];
    key[1..].copy_from_slice(&upload.0.to_be_bytes());
    key
}

/// The upload whose key this is.
pub(crate) fn upload_of(key: &[u8]) -> Option<UploadId> {
    let (UPLOADS, number) = (*key.first()?, key.get(1..)?) else { return None };
    Some(UploadId(u64::from_be_bytes(number.try_into().ok()?)))
}

/// The key of a chunk. The key of number 0 of the next upload is after those of all chunks of this one.
pub(crate) fn chunk_key(upload: UploadId, number: u32) -> [u8; 13] {
    let mut key = [CHUNKS; 13];
    key[1..9].copy_from_slice(&upload.0.to_be_bytes());
    key[9..].copy_from_slice(&number.to_be_bytes());
    key
}

/// The upload and the number of the chunk whose key this is.
pub(crate) fn chunk_of(key: &[u8]) -> Option<(UploadId, u32)> {
    let (CHUNKS, rest) = (*key.first()?, key.get(1..)?) else { return None };
    let (upload, number) = rest.split_first_chunk()?;
    Some((UploadId(u64::from_be_bytes(*upload)), u32::from_be_bytes(number.try_into().ok()?)))
}

/// The key of the manifest of the object `name`.
pub(crate) fn manifest_key(name: &[u8]) -> Vec<u8> {
    [&[MANIFESTS], name].concat()
}

/// The name of the object whose manifest has this key.
pub(crate) fn name_of(key: &[u8]) -> Option<&[u8]> {
    key.strip_prefix(&[MANIFESTS])
}

/// Which numbers uploads have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// The store that wrote it.
    pub(crate) store: u64,
    /// No upload has this number or a greater one yet.
    pub(crate) next_upload: UploadId,
}

/// The value of the header.
pub(crate) fn encode_header(header: Header) -> [u8; HEADER_LEN] {
    let mut out = [0; HEADER_LEN];
    out[..MAGIC.len()].copy_from_slice(&MAGIC);
    out[MAGIC.len()] = FORMAT_VERSION;
    out[STORE_AT..NEXT_UPLOAD_AT].copy_from_slice(&header.store.to_le_bytes());
    out[NEXT_UPLOAD_AT..].copy_from_slice(&header.next_upload.0.to_le_bytes());
    out
}

/// Reads the value of the header.
pub(crate) fn decode_header(bytes: &[u8]) -> Result<Header, Damage> {
    let bytes: &[u8; HEADER_LEN] = bytes.try_into().map_err(|_| Damage("a header has 32 bytes"))?;
    if bytes[..MAGIC.len()] != MAGIC {
        return Err(Damage("not a header of objects"));
    }
    if bytes[MAGIC.len()] != FORMAT_VERSION {
        return Err(Damage("not a header of format version 1"));
    }
    if bytes[MAGIC.len() + 1..STORE_AT].iter().any(|&byte| byte != 0) {
        return Err(Damage("reserved bytes are not zero"));
    }
    let next_upload = UploadId(u64_at(bytes, NEXT_UPLOAD_AT));
    Ok(Header { store: u64_at(bytes, STORE_AT), next_upload })
}

/// Where the data of an object are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Data<'a> {
    /// In the manifest.
    Inline(&'a [u8]),
    /// In chunks.
    Chunks(Chunks),
}

/// The chunks of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chunks {
    pub(crate) upload: UploadId,
    pub(crate) chunk_len_bytes: u32,
    pub(crate) len_bytes: u64,
}

impl Chunks {
    /// How many there are.
    pub(crate) fn count(self) -> u32 {
        self.len_bytes.div_ceil(self.chunk_len_bytes.into()) as u32
    }

    /// The length of chunk `number`, which is one of them.
    pub(crate) fn len_of(self, number: u32) -> u64 {
        let start = u64::from(number) * u64::from(self.chunk_len_bytes);
        (self.len_bytes - start).min(self.chunk_len_bytes.into())
    }
}

/// What an object is: its metadata, and where its data are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Manifest<'a> {
    pub(crate) metadata: &'a [u8],
    pub(crate) data: Data<'a>,
}

impl<'a> Manifest<'a> {
    /// The length of the data.
    pub(crate) fn len_bytes(&self) -> u64 {
        match self.data {
            Data::Inline(data) => data.len() as u64,
            Data::Chunks(chunks) => chunks.len_bytes,
        }
    }

    /// The value of its entry. The caller has checked the lengths.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let metadata_len = u32::try_from(self.metadata.len()).expect("metadata have at most 1 MiB");
        let (kind, upload, chunk_len, inline) = match self.data {
            Data::Inline(data) => (1, 0, 0, data),
            Data::Chunks(chunks) => (2, chunks.upload.0, chunks.chunk_len_bytes, &[][..]),
        };
        let mut out = vec![0; MANIFEST_LEN];
        (out[0], out[KIND_AT]) = (FORMAT_VERSION, kind);
        out[METADATA_LEN_AT..DATA_LEN_AT].copy_from_slice(&metadata_len.to_le_bytes());
        out[DATA_LEN_AT..UPLOAD_AT].copy_from_slice(&self.len_bytes().to_le_bytes());
        out[UPLOAD_AT..CHUNK_LEN_AT].copy_from_slice(&u64::to_le_bytes(upload));
        out[CHUNK_LEN_AT..].copy_from_slice(&u32::to_le_bytes(chunk_len));
        out.extend_from_slice(self.metadata);
        out.extend_from_slice(inline);
        out
    }

    /// Reads the value of an entry. Never panics, whatever the bytes.
    pub(crate) fn decode(bytes: &'a [u8]) -> Result<Manifest<'a>, Damage> {
        let (head, rest) =
            bytes.split_first_chunk::<MANIFEST_LEN>().ok_or(Damage("shorter than a manifest"))?;
        if head[0] != FORMAT_VERSION {
            return Err(Damage("not a manifest of format version 1"));
        }
        if head[RESERVED_AT..METADATA_LEN_AT] != [0, 0] {
            return Err(Damage("reserved bytes are not zero"));
        }
        let metadata_len = u32_at(head, METADATA_LEN_AT) as usize;
        if metadata_len > METADATA_LEN_BYTES_MAX {
            return Err(Damage("metadata of more than 1 MiB"));
        }
        let (metadata, inline) =
            rest.split_at_checked(metadata_len).ok_or(Damage("metadata cut short"))?;
        let len_bytes = u64_at(head, DATA_LEN_AT);
        let (upload, chunk_len_bytes) =
            (UploadId(u64_at(head, UPLOAD_AT)), u32_at(head, CHUNK_LEN_AT));
        let data = match head[KIND_AT] {
            1 if upload.0 != 0 || chunk_len_bytes != 0 => {
                return Err(Damage("chunks of an object whose data are in the manifest"));
            }
            1 if inline.len() as u64 != len_bytes || inline.len() > INLINE_LEN_BYTES_MAX => {
                return Err(Damage("the data have another length"));
            }
            1 => Data::Inline(inline),
            2 if !inline.is_empty() => return Err(Damage("bytes after the metadata")),
            2 if upload.0 == 0 || chunk_len_bytes == 0 || len_bytes == 0 => {
                return Err(Damage("an object without chunks"));
            }
            2 if len_bytes.div_ceil(chunk_len_bytes.into()) > u32::MAX.into() => {
                return Err(Damage("more chunks than numbers"));
            }
            2 => Data::Chunks(Chunks { upload, chunk_len_bytes, len_bytes }),
            _ => return Err(Damage("unknown kind of manifest")),
        };
        Ok(Manifest { metadata, data })
    }
}

/// Decodes `bytes` as each of the values, for a test with bytes that no one wrote.
pub fn decode_any(bytes: &[u8]) {
    let _header = decode_header(bytes);
    if let Ok(manifest) = Manifest::decode(bytes) {
        assert_eq!(manifest.encode(), bytes, "a manifest has one encoding");
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}
