//! Files of the host as files of a store: a copy in a directory opens like a drive that is only read.

use super::directory::Directory;
use super::format::CopyRecord;
use crate::error::{Error, ErrorKind};
use imbrex_disk::BlockRange;
use imbrex_engine::PinnedTable;
use imbrex_files::{
    Commit, FileBuffer, FileInfo, FileKind, FileReader, Files, FilesError, Hints, LogWriter,
    Persisted, SpaceUse, Tier,
};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The failure of the host at `path` while `doing` something, such as "read".
pub(super) fn host_error(doing: &str, path: &Path, error: &io::Error) -> Error {
    use io::ErrorKind as Io;
    let (kind, advice) = match error.kind() {
        Io::NotFound => (ErrorKind::NotFound, ""),
        Io::PermissionDenied | Io::ReadOnlyFilesystem => {
            (ErrorKind::NotPermitted, "; check who may write there")
        }
        Io::StorageFull | Io::QuotaExceeded | Io::FileTooLarge => {
            (ErrorKind::NoSpace, "; make room there and repeat the command: it continues")
        }
        Io::NotADirectory => (ErrorKind::NotAStore, ""),
        _ => (ErrorKind::Io, ""),
    };
    Error::new(kind, format!("cannot {doing} {}: {error}{advice}", path.display()))
}

/// A file of the host, open for reading.
#[derive(Debug)]
pub(super) struct HostFile {
    file: File,
    path: PathBuf,
    /// The name of the file in the store, for messages.
    name: String,
    len_bytes: u64,
}

impl HostFile {
    pub(super) fn open(path: &Path, name: impl Into<String>) -> Result<HostFile, Error> {
        let opened = File::open(path).and_then(|file| {
            let len_bytes = file.metadata()?.len();
            Ok(HostFile { file, path: path.to_owned(), name: name.into(), len_bytes })
        });
        opened.map_err(|error| host_error("read", path, &error))
    }

    /// The checksum of all of it.
    pub(super) fn crc(&self) -> Result<u32, Error> {
        let mut buf = vec![0; FileBuffer::CHUNK_LEN_BYTES];
        let (mut crc, mut at) = (0, 0);
        while at < self.len_bytes {
            let len_bytes = (self.len_bytes - at).min(buf.len() as u64) as usize;
            let read = self.file.read_exact_at(&mut buf[..len_bytes], at);
            read.map_err(|error| host_error("read", &self.path, &error))?;
            crc = crc32c::crc32c_append(crc, &buf[..len_bytes]);
            at += len_bytes as u64;
        }
        Ok(crc)
    }
}

impl FileReader for HostFile {
    fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn read_at<'a>(
        &self,
        offset: u64,
        len_bytes: usize,
        scratch: &'a mut Vec<u8>,
    ) -> Result<&'a [u8], FilesError> {
        let end = offset.checked_add(len_bytes as u64);
        if end.is_none_or(|end| end > self.len_bytes) {
            let (name, file_len_bytes) = (self.name.clone(), self.len_bytes);
            return Err(FilesError::PastEnd { name, offset, len_bytes, file_len_bytes });
        }
        if scratch.len() < len_bytes {
            scratch.resize(len_bytes, 0);
        }
        let read = self.file.read_exact_at(&mut scratch[..len_bytes], offset);
        read.map_err(|source| FilesError::Disk {
            what: format!("reading {} at {offset}", self.path.display()),
            source: imbrex_disk::DiskError::Host { what: "reading".to_owned(), source },
        })?;
        Ok(&scratch[..len_bytes])
    }

    fn extents(&self) -> Vec<BlockRange> {
        Vec::new()
    }
}

/// A copy of a backup, as the files of a store that is only read.
#[derive(Debug)]
pub(super) struct CopyFiles {
    store_id: u64,
    record: Vec<u8>,
    /// The paths of the tables' files, by their names in the store.
    tables: BTreeMap<String, (PathBuf, u64)>,
}

impl CopyFiles {
    pub(super) fn new(dir: &Directory, copy: &CopyRecord) -> CopyFiles {
        let place = |table: &super::format::TableEntry| {
            let path = dir.table_path(&table.file_name());
            (PinnedTable::file_name_of(table.id), (path, table.len_bytes))
        };
        CopyFiles {
            store_id: copy.store_id,
            record: copy.record.clone(),
            tables: copy.tables.iter().map(place).collect(),
        }
    }
}

fn refused<T>() -> Result<T, FilesError> {
    Err(FilesError::BadName { name: String::new(), reason: "a backup is only read" })
}

impl Files for CopyFiles {
    fn persist(&self, _files: Vec<FileBuffer>) -> Result<Vec<Box<dyn Persisted>>, FilesError> {
        refused()
    }

    fn open_persisted(&self, _file: &dyn Persisted) -> Result<Arc<dyn FileReader>, FilesError> {
        refused()
    }

    fn create_log(&self, _name: &str, _hints: Hints) -> Result<Arc<dyn LogWriter>, FilesError> {
        refused()
    }

    fn open(&self, name: &str) -> Result<Arc<dyn FileReader>, FilesError> {
        let missing = || FilesError::NotFound { name: name.to_owned() };
        let (path, _) = self.tables.get(name).ok_or_else(missing)?;
        Ok(Arc::new(HostFile::open(path, name).map_err(|_| missing())?))
    }

    fn commit(&self, _commit: Commit) -> Result<(), FilesError> {
        refused()
    }

    fn sync(&self) -> Result<(), FilesError> {
        Ok(())
    }

    fn list(&self, prefix: &str) -> Vec<FileInfo> {
        let named = self.tables.iter().filter(|(name, _)| name.starts_with(prefix));
        let info = |(name, (_, len_bytes)): (&String, &(PathBuf, u64))| FileInfo {
            name: name.clone(),
            len_bytes: *len_bytes,
            kind: FileKind::Table,
            level: 0,
            group: None,
            tier: Tier::Main,
            extents: Vec::new(),
        };
        named.map(info).collect()
    }

    fn app_records(&self) -> Vec<Vec<u8>> {
        vec![self.record.clone()]
    }

    fn space(&self) -> SpaceUse {
        SpaceUse::default()
    }

    fn name_count(&self, name: &str) -> usize {
        usize::from(self.tables.contains_key(name))
    }

    fn format_id(&self) -> u64 {
        self.store_id
    }
}
