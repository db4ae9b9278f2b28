//! A Redis server: a record is a hash under its key, and a sorted set of all keys serves scans.
//!
//! ```text
//!   user123     hash      field0 -> value, field1 -> value, ...
//!   _indices    sorted    user123 with Java's hash of the key as its score
//! ```
//!
//! Commands, their order and the index are those of YCSB's own binding. So each can read records
//! that the other loaded, and both measure the same work: an insert is two round trips; a scan is
//! one for its keys and one per record. A scan is ordered by score, not by key.

use super::store::{RecordStore, StoreError};
use crate::error::BenchError;
use imbrex_workload::ycsb::record::{Record, Wanted};
use redis::{
    Cmd, Connection, ConnectionAddr, ConnectionInfo, FromRedisValue, IntoConnectionInfo,
    RedisError, cmd,
};
use std::time::Duration;

/// The sorted set of all keys.
const INDEX: &str = "_indices";

/// A server without a reply for this long counts as lost, so that a run ends with its measurements.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// A server to connect to.
#[derive(Clone, Debug)]
pub(crate) struct RedisServer {
    info: ConnectionInfo,
}

impl RedisServer {
    /// The server at `url`: `redis://HOST:PORT/DATABASE` or `unix:///PATH`.
    ///
    /// # Errors
    /// [`BenchError::Server`].
    pub(crate) fn new(url: &str) -> Result<RedisServer, BenchError> {
        let info = url.into_connection_info();
        let info = info.map_err(|source| failed("the server's address", source))?;
        // Older servers do not know the command by which a client sends its name.
        let settings = info.redis_settings().clone().set_skip_set_lib_name();
        Ok(RedisServer { info: info.set_redis_settings(settings) })
    }

    /// The same server with a password.
    pub(crate) fn with_password(self, password: &str) -> RedisServer {
        let settings = self.info.redis_settings().clone().set_password(password);
        RedisServer { info: self.info.set_redis_settings(settings) }
    }

    /// Its address without the password.
    pub(crate) fn address(&self) -> String {
        let scheme = match self.info.addr() {
            ConnectionAddr::Unix(_) => "unix",
            _ => "redis",
        };
        format!("{scheme}://{}", self.info.addr())
    }

    /// Opens a connection.
    ///
    /// # Errors
    /// [`BenchError::Server`].
    pub(crate) fn connect(&self) -> Result<RedisStore, BenchError> {
        let client = redis::Client::open(self.info.clone());
        let connection = client.and_then(|client| client.get_connection());
        let connection = connection.and_then(|connection| {
            connection.set_read_timeout(Some(SILENCE_MAX))?;
            connection.set_write_timeout(Some(SILENCE_MAX))?;
            Ok(connection)
        });
        let connection = connection.map_err(|source| failed(&self.address(), source))?;
        Ok(RedisStore { connection })
    }
}

fn failed(address: &str, source: RedisError) -> BenchError {
    BenchError::Server { address: address.to_owned(), source: Box::new(source) }
}

/// One connection.
pub(crate) struct RedisStore {
    connection: Connection,
}

impl RedisStore {
    fn ask<T: FromRedisValue>(
        &mut self,
        what: &'static str,
        key: &str,
        command: &Cmd,
    ) -> Result<T, StoreError> {
        command.query(&mut self.connection).map_err(|source| {
            let is_lost = source.is_io_error() || source.is_unrecoverable_error();
            match is_lost {
                true => StoreError::lost(what, key, source),
                false => StoreError::refused(what, key, source),
            }
        })
    }

    fn set(&mut self, what: &'static str, key: &str, record: &Record) -> Result<(), StoreError> {
        let mut command = cmd("HMSET");
        command.arg(key);
        for (name, value) in record.fields() {
            command.arg(name).arg(value);
        }
        self.ask(what, key, &command)
    }
}

impl RecordStore for RedisStore {
    fn read(&mut self, key: &str, wanted: Wanted<'_>) -> Result<Option<Record>, StoreError> {
        let record = match wanted {
            Wanted::All => {
                let all: Vec<(String, Vec<u8>)> = self.ask("read", key, cmd("HGETALL").arg(key))?;
                Record::new(all)
            }
            Wanted::Named(names) => {
                let mut command = cmd("HMGET");
                command.arg(key);
                names.iter().for_each(|name| {
                    command.arg(&**name);
                });
                let values: Vec<Option<Vec<u8>>> = self.ask("read", key, &command)?;
                let pairs = names.iter().zip(values);
                Record::new(pairs.filter_map(|(name, value)| Some((name, value?))).collect())
            }
        };
        Ok((!record.is_empty()).then_some(record))
    }

    fn scan(
        &mut self,
        start: &str,
        count: u64,
        wanted: Wanted<'_>,
    ) -> Result<Vec<Record>, StoreError> {
        let mut command = cmd("ZRANGEBYSCORE");
        command.arg(INDEX).arg(java_hash(start)).arg("+inf").arg("LIMIT").arg(0).arg(count);
        let keys: Vec<String> = self.ask("scan from", start, &command)?;
        let records = keys.iter().map(|key| self.read(key, wanted));
        records.filter_map(Result::transpose).collect()
    }

    fn insert(&mut self, key: &str, record: &Record) -> Result<(), StoreError> {
        self.set("insert", key, record)?;
        self.ask("insert", key, cmd("ZADD").arg(INDEX).arg(java_hash(key)).arg(key))
    }

    /// The server does not report whether the record existed.
    fn update(&mut self, key: &str, changed: &Record) -> Result<bool, StoreError> {
        self.set("update", key, changed).map(|()| true)
    }

    fn delete(&mut self, key: &str) -> Result<bool, StoreError> {
        let deleted: u64 = self.ask("delete", key, cmd("DEL").arg(key))?;
        let removed: u64 = self.ask("delete", key, cmd("ZREM").arg(INDEX).arg(key))?;
        Ok(deleted + removed > 0)
    }
}

/// Java's hash of a string.
fn java_hash(text: &str) -> i32 {
    let hashed = |hash: i32, unit: u16| hash.wrapping_mul(31).wrapping_add(i32::from(unit));
    text.encode_utf16().fold(0, hashed)
}

#[cfg(test)]
mod tests;
