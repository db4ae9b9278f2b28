//! The functions of a library, and the objects they allocate.

use crate::{EachEntry, ForeignError, ForeignKind};
use libloading::{Library, Symbol};
use std::ffi::{CStr, CString, OsStr, c_char, c_uchar, c_void};
use std::path::Path;
use std::ptr;

type Object = *mut c_void;
type Destroy = unsafe extern "C" fn(Object);
type Create = unsafe extern "C" fn() -> Object;
type SetFlag = unsafe extern "C" fn(Object, c_uchar);
type SetSize = unsafe extern "C" fn(Object, usize);
type Open = unsafe extern "C" fn(Object, *const c_char, *mut *mut c_char) -> Object;
type Put = unsafe extern "C" fn(
    Object,
    Object,
    *const c_char,
    usize,
    *const c_char,
    usize,
    *mut *mut c_char,
);
type Delete = unsafe extern "C" fn(Object, Object, *const c_char, usize, *mut *mut c_char);
type Get = unsafe extern "C" fn(
    Object,
    Object,
    *const c_char,
    usize,
    *mut usize,
    *mut *mut c_char,
) -> *mut c_char;
type CreateIter = unsafe extern "C" fn(Object, Object) -> Object;
type IterValid = unsafe extern "C" fn(Object) -> c_uchar;
type IterSeek = unsafe extern "C" fn(Object, *const c_char, usize);
type IterPart = unsafe extern "C" fn(Object, *mut usize) -> *const c_char;
type IterError = unsafe extern "C" fn(Object, *mut *mut c_char);

/// A library's functions.
#[derive(Debug)]
pub(crate) struct Api {
    free: Destroy,
    options_create: Create,
    options_destroy: Destroy,
    options_set_create_if_missing: SetFlag,
    options_set_write_buffer_size: SetSize,
    readoptions_create: Create,
    readoptions_destroy: Destroy,
    writeoptions_create: Create,
    writeoptions_destroy: Destroy,
    writeoptions_set_sync: SetFlag,
    open: Open,
    close: Destroy,
    put: Put,
    delete: Delete,
    get: Get,
    create_iterator: CreateIter,
    iter_destroy: Destroy,
    iter_valid: IterValid,
    iter_seek: IterSeek,
    iter_next: Destroy,
    iter_key: IterPart,
    iter_value: IterPart,
    iter_get_error: IterError,
}

/// An object that the library made, and the function that destroys it.
#[derive(Debug)]
pub(crate) struct Handle {
    object: Object,
    destroy: Destroy,
}

// SAFETY: the headers of LevelDB and RocksDB let any threads share a database. Options are only
// read once they are made; iterators do not leave the call that made them.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Handle {
    /// Wraps the `object` that the library returned.
    fn of(what: &'static str, object: Object, destroy: Destroy) -> Result<Handle, ForeignError> {
        if object.is_null() {
            let reason = "the library made nothing".to_owned();
            return Err(ForeignError::Refused { what, reason });
        }
        Ok(Handle { object, destroy })
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: the object was made by the library that `destroy` is of, is not null, and is destroyed once.
        unsafe { (self.destroy)(self.object) }
    }
}

impl Api {
    /// The functions of `kind`'s library in `file`, or in the system's library.
    pub(crate) fn load(kind: ForeignKind, file: Option<&Path>) -> Result<Api, ForeignError> {
        let system = kind.library_names();
        let names: Vec<&OsStr> = match file {
            Some(file) => vec![file.as_os_str()],
            None => system.iter().map(OsStr::new).collect(),
        };
        let mut failure = None;
        for &name in &names {
            // SAFETY: loading these libraries runs only the C++ constructors of their globals,
            // which require nothing of the process that loads them.
            match unsafe { Library::new(name) } {
                Ok(library) => return Api::of(kind, library, &name.to_string_lossy()),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        Err(ForeignError::NoLibrary {
            library: names[0].to_string_lossy().into_owned(),
            package: kind.package(),
            reason: failure.map_or_else(String::new, |error| error.to_string()),
        })
    }

    fn of(kind: ForeignKind, library: Library, file: &str) -> Result<Api, ForeignError> {
        /// The function `name` of the library.
        ///
        /// # Safety
        /// Its type is `T`.
        unsafe fn find<T: Copy>(
            (library, kind, file): (&Library, ForeignKind, &str),
            name: &str,
        ) -> Result<T, ForeignError> {
            let function = format!("{}_{name}", kind.name());
            // SAFETY: as the caller promises.
            let symbol: Result<Symbol<'_, T>, _> = unsafe { library.get(function.as_bytes()) };
            symbol.map(|symbol| *symbol).map_err(|_| ForeignError::OtherLibrary {
                library: file.to_owned(),
                function,
                kind: kind.name(),
            })
        }
        let from = (&library, kind, file);
        // SAFETY: the types are those of leveldb/c.h (1.23) and rocksdb/c.h (7.8), where both agree.
        let api = unsafe {
            Api {
                free: find(from, "free")?,
                options_create: find(from, "options_create")?,
                options_destroy: find(from, "options_destroy")?,
                options_set_create_if_missing: find(from, "options_set_create_if_missing")?,
                options_set_write_buffer_size: find(from, "options_set_write_buffer_size")?,
                readoptions_create: find(from, "readoptions_create")?,
                readoptions_destroy: find(from, "readoptions_destroy")?,
                writeoptions_create: find(from, "writeoptions_create")?,
                writeoptions_destroy: find(from, "writeoptions_destroy")?,
                writeoptions_set_sync: find(from, "writeoptions_set_sync")?,
                open: find(from, "open")?,
                close: find(from, "close")?,
                put: find(from, "put")?,
                delete: find(from, "delete")?,
                get: find(from, "get")?,
                create_iterator: find(from, "create_iterator")?,
                iter_destroy: find(from, "iter_destroy")?,
                iter_valid: find(from, "iter_valid")?,
                iter_seek: find(from, "iter_seek")?,
                iter_next: find(from, "iter_next")?,
                iter_key: find(from, "iter_key")?,
                iter_value: find(from, "iter_value")?,
                iter_get_error: find(from, "iter_get_error")?,
            }
        };
        // The library stays loaded (F1).
        std::mem::forget(library);
        Ok(api)
    }

    /// Converts the error that `call` left, if any (F2).
    fn checked<T>(
        &self,
        what: &'static str,
        call: impl FnOnce(*mut *mut c_char) -> T,
    ) -> Result<T, ForeignError> {
        let mut message: *mut c_char = ptr::null_mut();
        let result = call(&mut message);
        if message.is_null() {
            return Ok(result);
        }
        // SAFETY: an error is a string that ends in a zero byte, allocated for us.
        let reason = unsafe { CStr::from_ptr(message) }.to_string_lossy().into_owned();
        // SAFETY: the library frees what it allocated, and no other reference is left.
        unsafe { (self.free)(message.cast()) };
        Err(ForeignError::Refused { what, reason })
    }

    pub(crate) fn options(&self, write_buffer: Option<usize>) -> Result<Handle, ForeignError> {
        // SAFETY: the call takes nothing, and makes a new object.
        let object = unsafe { (self.options_create)() };
        let options = Handle::of("make options", object, self.options_destroy)?;
        // SAFETY: the object is options, and is alive.
        unsafe { (self.options_set_create_if_missing)(options.object, 1) };
        if let Some(len_bytes) = write_buffer {
            // SAFETY: as above.
            unsafe { (self.options_set_write_buffer_size)(options.object, len_bytes) };
        }
        Ok(options)
    }

    pub(crate) fn read_options(&self) -> Result<Handle, ForeignError> {
        // SAFETY: the call takes nothing, and makes a new object.
        let object = unsafe { (self.readoptions_create)() };
        Handle::of("make read options", object, self.readoptions_destroy)
    }

    pub(crate) fn write_options(&self, sync: bool) -> Result<Handle, ForeignError> {
        // SAFETY: the call takes nothing, and makes a new object.
        let object = unsafe { (self.writeoptions_create)() };
        let options = Handle::of("make write options", object, self.writeoptions_destroy)?;
        // SAFETY: the object is write options, and is alive.
        unsafe { (self.writeoptions_set_sync)(options.object, c_uchar::from(sync)) };
        Ok(options)
    }

    pub(crate) fn open(&self, options: &Handle, name: &CString) -> Result<Handle, ForeignError> {
        // SAFETY: options and name are alive during the call, which keeps neither.
        let open = |error| unsafe { (self.open)(options.object, name.as_ptr(), error) };
        let object = self.checked("open", open)?;
        Handle::of("open", object, self.close)
    }

    pub(crate) fn put(
        &self,
        db: &Handle,
        options: &Handle,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), ForeignError> {
        let (k, v) = (key.as_ptr().cast(), value.as_ptr().cast());
        // SAFETY: handles are alive, the lengths are those of the slices, and the call keeps
        // neither.
        self.checked("put", |error| unsafe {
            (self.put)(db.object, options.object, k, key.len(), v, value.len(), error);
        })
    }

    pub(crate) fn delete(
        &self,
        db: &Handle,
        options: &Handle,
        key: &[u8],
    ) -> Result<(), ForeignError> {
        // SAFETY: as for `put`.
        self.checked("delete", |error| unsafe {
            (self.delete)(db.object, options.object, key.as_ptr().cast(), key.len(), error);
        })
    }

    pub(crate) fn get(
        &self,
        db: &Handle,
        options: &Handle,
        key: &[u8],
    ) -> Result<Option<Vec<u8>>, ForeignError> {
        let mut len = 0;
        let k = key.as_ptr().cast();
        // SAFETY: as for `put`; `len` is our own variable.
        let value = self.checked("get", |error| unsafe {
            (self.get)(db.object, options.object, k, key.len(), &mut len, error)
        })?;
        if value.is_null() {
            return Ok(None);
        }
        // SAFETY: a value that is not null has `len` bytes, allocated for us.
        let copy = unsafe { bytes(value, len) }.to_vec();
        // SAFETY: the library frees what it allocated, and no other reference is left.
        unsafe { (self.free)(value.cast()) };
        Ok(Some(copy))
    }

    pub(crate) fn scan(
        &self,
        db: &Handle,
        options: &Handle,
        start: &[u8],
        each: &mut EachEntry<'_>,
    ) -> Result<(), ForeignError> {
        // SAFETY: both are alive, and outlive the iterator.
        let object = unsafe { (self.create_iterator)(db.object, options.object) };
        let iter = Handle::of("scan", object, self.iter_destroy)?;
        // SAFETY: the iterator is alive, and the call keeps no key.
        unsafe { (self.iter_seek)(iter.object, start.as_ptr().cast(), start.len()) };
        // SAFETY: the iterator is alive.
        while unsafe { (self.iter_valid)(iter.object) } != 0 {
            let part = |of: IterPart| {
                let mut len = 0;
                // SAFETY: the iterator is valid, and lends the bytes until it moves, which is after
                // `each`.
                unsafe { bytes(of(iter.object, &mut len), len) }
            };
            if each(part(self.iter_key), part(self.iter_value)).is_break() {
                return Ok(());
            }
            // SAFETY: the iterator is valid.
            unsafe { (self.iter_next)(iter.object) };
        }
        // SAFETY: the iterator is alive.
        self.checked("scan", |error| unsafe { (self.iter_get_error)(iter.object, error) })
    }
}

/// The `len` bytes at `start`. Empty if `start` is null, which some versions return for an empty
/// value.
///
/// # Safety
/// `len` bytes are at `start` and stay there while the slice is used.
unsafe fn bytes<'a>(start: *const c_char, len: usize) -> &'a [u8] {
    match start.is_null() {
        true => &[],
        // SAFETY: as the caller promises.
        false => unsafe { std::slice::from_raw_parts(start.cast(), len) },
    }
}
