//! Why a request about objects was refused, or failed.

use crate::format::{Damage, METADATA_LEN_BYTES_MAX};
use imbrex_engine::{EngineError, KEY_LEN_BYTES_MAX};

/// An error of objects. If the engine caused it, the engine's error is its source.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ObjectsError {
    /// The keyspace holds entries that are not of objects.
    #[error(
        "the keyspace {keyspace:?} holds plain entries, such as the key {}; keep objects in a keyspace of their own",
        shown(key)
    )]
    NotObjects {
        /// The keyspace's name.
        keyspace: String,
        /// One of the keys.
        key: Vec<u8>,
    },
    /// A name is empty or too long.
    #[error("name of {got_bytes} bytes: objects have names of 1 to {} bytes", KEY_LEN_BYTES_MAX - 1)]
    NameLen {
        /// The name's length.
        got_bytes: usize,
    },
    /// Metadata are too long.
    #[error("metadata of {got_bytes} bytes: an object has at most {METADATA_LEN_BYTES_MAX}")]
    MetadataLen {
        /// Their length.
        got_bytes: usize,
    },
    /// An object has more data than its chunks have numbers.
    #[error("an object has at most {max_bytes} bytes")]
    DataLen {
        /// The longest data.
        max_bytes: u64,
    },
    /// There is no object of that name.
    #[error("there is no object {}", shown(name))]
    NoObject {
        /// The name.
        name: Vec<u8>,
    },
    /// An upload is part of other objects than the batch that ends it.
    #[error("the upload is of another store or keyspace; end it where it began")]
    ForeignUpload,
    /// An earlier write of the upload failed, or it was ended.
    #[error("the upload has ended: begin another one")]
    Ended,
    /// An entry that objects need is not what was written.
    #[error("object {}: {what}; restore it from a backup, or delete it", shown(name))]
    Damaged {
        /// The object's name.
        name: Vec<u8>,
        /// What was found.
        what: String,
    },
    /// The header of the keyspace is not what was written.
    #[error("the header of objects in the keyspace {keyspace:?}: {damage}")]
    DamagedHeader {
        /// The keyspace's name.
        keyspace: String,
        /// What was found.
        damage: Damage,
    },
    /// The engine refused or failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl ObjectsError {
    pub(crate) fn damaged(name: &[u8], what: impl Into<String>) -> ObjectsError {
        ObjectsError::Damaged { name: name.to_vec(), what: what.into() }
    }
}

/// A name for people, cut to 64 bytes.
fn shown(name: &[u8]) -> String {
    let cut = &name[..name.len().min(64)];
    let dots = if cut.len() < name.len() { "..." } else { "" };
    format!("\"{}\"{dots}", cut.escape_ascii())
}
