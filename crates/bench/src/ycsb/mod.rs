//! YCSB: its core workload from its own property files.
//!
//! ```text
//!   -P workloads/a -p k=v --> Properties --> CoreWorkload
//!                                               |  keys: which record     lengths: how long
//!                                               |  values: which fields   stream: which operation
//! ```
//!
//! One implementation serves the property files and the published figures: [`YcsbWorkload`] names a
//! mix and a distribution as the figures use them.
//!
//! Sources: YCSB's CoreWorkload and generators (`site.ycsb:core`), read and not copied.

mod client;
mod core;
mod export;
mod keys;
mod lengths;
mod letters;
mod measure;
mod options;
mod own;
mod pace;
mod properties;
mod record;
mod redis;
mod report;
mod run;
mod settings;
mod status;
mod store;
mod stream;
mod values;
mod zipf;

pub use export::YcsbOutput;
pub use letters::YcsbWorkload;
pub use options::YcsbOptions;
pub use pace::{KEPT_WITHIN_NS, ScheduleFigures};
pub use properties::{Properties, PropertyError, PropertyOrigin};
pub use record::format::RecordError;
pub use record::{Record, Wanted};
pub use report::{OperationFigures, YcsbReport, YcsbSetup};
pub use run::{YcsbPhase, ycsb};
pub use status::{YcsbProgress, YcsbWatch};
pub use store::{RecordStore, StoreError, Traffic};

pub(crate) use keys::scatter;
pub(crate) use stream::{YcsbOp, YcsbStream};
