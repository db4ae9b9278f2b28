//! Stores other than ours, named by the property `db`.
//!
//! ```text
//!   db=basic              nothing: what the client itself costs
//!   db=redis://HOST:PORT  a server of Redis                       feature `redis`
//!   db=rocksdb:///PATH    RocksDB or LevelDB in this process      feature `foreign`
//! ```
//!
//! A build without a feature refuses such a store and names the feature.

use super::basic::BasicStore;
#[cfg(feature = "foreign")]
use super::encoded::{EncodedStore, Stripes};
#[cfg(feature = "foreign")]
use super::foreign::ForeignServer;
use super::options::YcsbOptions;
#[cfg(feature = "redis")]
use super::redis::RedisServer;
use super::store::RecordStore;
use crate::error::BenchError;
use imbrex_workload::ycsb::properties::Properties;

/// Opens a store for one more client.
pub(super) type Connect<'a> = dyn Fn() -> Result<Box<dyn RecordStore>, BenchError> + 'a;

/// A store other than ours.
pub(super) enum Server {
    Basic,
    #[cfg(feature = "redis")]
    Redis(RedisServer),
    #[cfg(feature = "foreign")]
    Foreign(ForeignServer),
}

/// The possible values of the property `db`.
const KNOWN: &str = "expected imbrex, redis (with redis.host), redis://HOST:PORT, unix:///PATH, \
     rocksdb:///PATH, leveldb:///PATH or basic";

impl Server {
    /// The store that the property `db` names; `None` for our own.
    ///
    /// # Errors
    /// [`BenchError::Property`]: the store is unknown, or this build does not support it;
    /// [`BenchError::Server`]: the address is invalid.
    pub(super) fn named(properties: &Properties) -> Result<Option<Server>, BenchError> {
        match properties.get("db") {
            // The second name is our class for the original YCSB.
            None | Some("imbrex" | "imbrex.ycsb.ImbrexDb") => Ok(None),
            Some("basic" | "site.ycsb.BasicDB") => Ok(Some(Server::Basic)),
            Some(db) if is_foreign(db) => foreign(db, properties).map(Some),
            // YCSB's class, with the properties of YCSB's binding.
            Some("redis" | "site.ycsb.db.RedisClient") => redis(None, properties).map(Some),
            Some(url) if url.contains("://") => redis(Some(url), properties).map(Some),
            Some(_) => Err(properties.wrong("db", KNOWN).into()),
        }
    }

    /// Whether it is a database in this process, which uses `--sync` and `--write_buffer_size`.
    pub(super) fn is_in_process(&self) -> bool {
        match self {
            Server::Basic => false,
            #[cfg(feature = "redis")]
            Server::Redis(_) => false,
            #[cfg(feature = "foreign")]
            Server::Foreign(_) => true,
        }
    }

    /// A function that opens a store for one client, and the address of the server. A whole record
    /// has `field_count` fields.
    ///
    /// # Errors
    /// [`BenchError::Server`].
    #[cfg_attr(
        not(feature = "foreign"),
        expect(unused_variables, reason = "both are for a database in this process")
    )]
    pub(super) fn connector(
        &self,
        options: &YcsbOptions,
        field_count: usize,
    ) -> Result<(Box<Connect<'_>>, String), BenchError> {
        Ok(match self {
            Server::Basic => {
                let connect = || Ok(Box::new(BasicStore) as Box<dyn RecordStore>);
                (Box::new(connect), "basic".to_owned())
            }
            #[cfg(feature = "redis")]
            Server::Redis(server) => {
                let connect = || Ok(Box::new(server.connect()?) as Box<dyn RecordStore>);
                (Box::new(connect), server.address())
            }
            #[cfg(feature = "foreign")]
            Server::Foreign(server) => {
                let write_buffer = options.testbed.write_buffer_size.map(|bytes| bytes.0);
                let table = server.open(options.sync, write_buffer)?;
                let stripes = Stripes::new();
                let connect = move || {
                    let (table, stripes) = (table.clone(), stripes.clone());
                    let store = EncodedStore::new(table, field_count, stripes);
                    Ok(Box::new(store) as Box<dyn RecordStore>)
                };
                (Box::new(connect), server.address())
            }
        })
    }
}

/// Whether `db` names a database that runs in this process: `rocksdb`, `rocksdb:///PATH` or YCSB's class; LevelDB alike.
fn is_foreign(db: &str) -> bool {
    let is_named = |name: &str| {
        db.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with("://"))
    };
    is_named("rocksdb") || is_named("leveldb") || db == "site.ycsb.db.rocksdb.RocksDBClient"
}

#[cfg(feature = "foreign")]
fn foreign(db: &str, properties: &Properties) -> Result<Server, BenchError> {
    match ForeignServer::named(db, properties)? {
        Some(server) => Ok(Server::Foreign(server)),
        None => Err(properties.wrong("db", KNOWN).into()),
    }
}

#[cfg(not(feature = "foreign"))]
fn foreign(_db: &str, properties: &Properties) -> Result<Server, BenchError> {
    let what = "this build has no foreign databases; build with `--features foreign`";
    Err(properties.wrong("db", what).into())
}

/// The server at `url`, or the one that the properties of YCSB's binding describe.
#[cfg(feature = "redis")]
fn redis(url: Option<&str>, properties: &Properties) -> Result<Server, BenchError> {
    if let Some(url) = url {
        return RedisServer::new(url).map(Server::Redis);
    }
    let host = properties.get("redis.host").unwrap_or("127.0.0.1");
    let port = properties.number("redis.port", 6379, (1, 65_535))?;
    let server = RedisServer::new(&format!("redis://{host}:{port}"))?;
    Ok(Server::Redis(match properties.get("redis.password") {
        Some(password) => server.with_password(password),
        None => server,
    }))
}

#[cfg(not(feature = "redis"))]
fn redis(_url: Option<&str>, properties: &Properties) -> Result<Server, BenchError> {
    let what = "this build has no client for Redis; build with `--features redis`";
    Err(properties.wrong("db", what).into())
}
