//! Objects of any length over an ordered key-value store.
//!
//! ```text
//!   Upload:  write, write, write ...      1 MiB chunks, each an entry       finish: one batch
//!                                          c 7/0  c 7/1  c 7/2 ...          m "photo" -> upload 7, 3 chunks, metadata
//!                                                                           the mark of upload 7 goes, the chunks of
//!                                                                           the object that it replaces go
//!   ObjectReader:  m "photo" --> c 7/1 --> bytes 1,500,000 to 1,500,100
//! ```
//!
//! An object has a name, metadata and data. Its length need not be known before it has been written. Data of up to 4 KiB lie
//! beside the metadata, so a short object is one entry. A keyspace that keeps long values apart
//! (`KeyspaceOptions::values_apart_from_bytes`) writes each chunk once, whatever compactions do.
//!
//! Invariants
//!   O1  An object is visible completely or not at all. It takes effect, and what it replaces ends, in one batch of the
//!       engine, together with what else the batch has.
//!   O2  Every chunk is of one manifest, or of an upload that has a mark. The first batch of an upload makes the mark
//!       before any chunk; the batch that ends it removes the mark. So what a crash left behind is found by the marks.
//!   O3  The number of an upload is never used again. The header has a number that is greater than each of them; it is
//!       written before the first of them, and the log loses writes from its end only. Without a header of this store,
//!       as after a salvage, the first writer counts above everything that it finds.
//!   O4  A reader reads the object that it opened, at a snapshot, even if the object is replaced or deleted meanwhile.
//!   O5  A writer that changes manifests holds one lock from reading the old ones until the batch is visible. No writer
//!       waits for the drive's flush with it.
//!   O6  The memory of an upload is one chunk, that of a reader four chunks, and twice that while it reads.
//!
//! Cost: a put writes its data once to the log, and one small entry. A read looks up the manifest, then each chunk that
//! it touches; a range reads whole chunks. Replacing or deleting writes one small entry for each chunk, or one for all if
//! there are many.
//!
//! Not here: where values lie on the drive and when they are moved (`engine`), the paths of drives (`imbrex`).

mod batch;
mod error;
mod format;
mod handle;
mod objects;
mod reader;
mod upload;

pub use batch::ObjectBatch;
pub use error::ObjectsError;
pub use format::{
    CHUNK_LEN_BYTES, Damage, INLINE_LEN_BYTES_MAX, METADATA_LEN_BYTES_MAX, decode_any,
};
pub use handle::{Ledger, Objects};
pub use objects::{Listing, ObjectsReport};
pub use reader::{ObjectReader, ObjectStat};
pub use upload::Upload;

#[cfg(test)]
mod tests;
