//! Opening, making and restoring stores.

use crate::failure::Failure;
use crate::held::Opened;
use crate::interrupts::Interrupts;
use crate::store::Store;
use imbrex::backup::restore_to;
use imbrex::emulated::Shape;
use imbrex::stack::{DrivePaths, FlashPath, Recording};
use imbrex::{Error, Options};
use imbrex_disk::ByteSize;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyInt, PyString};
use std::path::{Path, PathBuf};

/// A length in bytes: an int, or text such as "8GiB".
pub(crate) fn len_bytes(what: &str, given: Option<&Bound<'_, PyAny>>) -> PyResult<Option<u64>> {
    let Some(given) = given else { return Ok(None) };
    if given.is_instance_of::<PyInt>() {
        let len = given.extract().map_err(|_| {
            Failure::argument(format!("{what} is a length in bytes, which {given} cannot be"))
        })?;
        return Ok(Some(len));
    }
    let text: Bound<'_, PyString> = given.clone().cast_into().map_err(|_| {
        PyTypeError::new_err(format!("{what} must be an int of bytes, or text such as \"8GiB\""))
    })?;
    let ByteSize(len) =
        text.to_str()?.parse().map_err(|why| Failure::argument(format!("{what}: {why}")))?;
    Ok(Some(len))
}

/// The keyword `name`, which must be a `kind`.
fn given<T: for<'a, 'py> FromPyObject<'a, 'py>>(
    name: &str,
    kind: &str,
    value: &Bound<'_, PyAny>,
) -> PyResult<T> {
    value.extract().map_err(|_| {
        let class = value.get_type();
        PyTypeError::new_err(format!("{name} must be {kind}, not {value} ({class})"))
    })
}

fn path(name: &str, value: &Bound<'_, PyAny>) -> PyResult<PathBuf> {
    given(name, "a path", value)
}

/// What a caller says about a store, by keyword.
#[derive(Default)]
pub(crate) struct Wishes {
    pub(crate) layout: Option<String>,
    pub(crate) profile: Option<String>,
    pub(crate) shape: Shape,
    flash: Option<PathBuf>,
    erase: Vec<String>,
    may_erase: bool,
    seed: Option<u64>,
    cache_len_bytes: Option<u64>,
    memtable_len_bytes: Option<u64>,
    values_apart_from_bytes: Option<u32>,
}

impl Wishes {
    /// Reads keywords, of which None is none.
    pub(crate) fn of(keywords: &Bound<'_, PyDict>) -> PyResult<Wishes> {
        let mut wishes = Wishes::default();
        for (name, value) in keywords {
            if !value.is_none() {
                wishes.read(&name.extract::<String>()?, &value)?;
            }
        }
        Ok(wishes)
    }

    fn read(&mut self, name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let shape = &mut self.shape;
        match name {
            "layout" => self.layout = Some(given(name, "str", value)?),
            "profile" => self.profile = Some(path(name, value)?.display().to_string()),
            "flash" => self.flash = Some(path(name, value)?),
            "seed" => self.seed = Some(given(name, "an int from 0 to 2**64 - 1", value)?),
            "capacity" => shape.capacity_bytes = len_bytes(name, Some(value))?,
            "zone_len" => shape.zone_len_bytes = len_bytes(name, Some(value))?,
            "recording" => {
                shape.recording = Some(recording(&given::<String>(name, "str", value)?)?);
            }
            "cache" => self.cache_len_bytes = len_bytes(name, Some(value))?,
            "write_buffer" => self.memtable_len_bytes = len_bytes(name, Some(value))?,
            "values_apart" => {
                let len = len_bytes(name, Some(value))?;
                // Values have up to 1 GiB, so a greater length keeps none apart.
                self.values_apart_from_bytes = len.map(|len| len.try_into().unwrap_or(u32::MAX));
            }
            "erase" => match value.extract::<bool>() {
                Ok(may_erase) => self.may_erase = may_erase,
                Err(_) => self.erase.push(given(name, "True, False or str", value)?),
            },
            _ => return Err(PyTypeError::new_err(format!("no keyword {name:?}"))),
        }
        Ok(())
    }

    /// The front door's options.
    pub(crate) fn options(&self) -> Options {
        let mut options = Options::new().shape(self.shape.clone()).erase(self.may_erase);
        if let Some(layout) = &self.layout {
            options = options.layout(layout);
        }
        if let Some(profile) = &self.profile {
            options = options.profile(profile);
        }
        if let Some(flash) = &self.flash {
            options = options.flash(flash);
        }
        if let Some(seed) = self.seed {
            options = options.seed(seed);
        }
        if let Some(len_bytes) = self.values_apart_from_bytes {
            options = options.values_apart_from(len_bytes);
        }
        for name in &self.erase {
            options = options.erase_named(name);
        }
        let (cache_len_bytes, memtable_len_bytes) = (self.cache_len_bytes, self.memtable_len_bytes);
        options.engine(move |engine| {
            engine.block_cache_len_bytes = cache_len_bytes.unwrap_or(engine.block_cache_len_bytes);
            engine.memtable_len_bytes = memtable_len_bytes.unwrap_or(engine.memtable_len_bytes);
        })
    }
}

fn recording(name: &str) -> Result<Recording, Failure> {
    let all = Recording::all();
    all.into_iter().find(|recording| recording.name() == name).ok_or_else(|| {
        let names = all.map(Recording::name).join(", ");
        Failure::argument(format!("recording is {name:?}; it must be one of {names}"))
    })
}

/// The Python object of an open store.
fn object<'py>(
    py: Python<'py>,
    path: &Path,
    store: Result<imbrex::Store, Error>,
    is_read_only: bool,
) -> PyResult<Bound<'py, Store>> {
    let store = store.map_err(Failure::from)?;
    let opened = Opened::new(path.display().to_string(), store, is_read_only, false);
    Bound::new(py, Store::new(&opened)?.0)
}

/// What `imbrex.open` does.
#[pyfunction]
pub(crate) fn open_store<'py>(
    py: Python<'py>,
    path: PathBuf,
    read_only: bool,
    create: bool,
    keywords: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, Store>> {
    let options = Wishes::of(keywords)?.options();
    let store = py.detach(|| match (create && !path.exists(), read_only) {
        (true, _) => options.create(&path),
        (false, true) => options.open_read_only(&path),
        (false, false) => options.open(&path),
    });
    object(py, &path, store, read_only)
}

/// What `imbrex.create` does.
#[pyfunction]
pub(crate) fn create_store<'py>(
    py: Python<'py>,
    path: PathBuf,
    keywords: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, Store>> {
    let options = Wishes::of(keywords)?.options();
    let store = py.detach(|| options.create(&path));
    object(py, &path, store, false)
}

/// What `imbrex.format` does.
#[pyfunction]
pub(crate) fn format_drive(
    py: Python<'_>,
    path: PathBuf,
    keywords: &Bound<'_, PyDict>,
) -> PyResult<()> {
    let options = Wishes::of(keywords)?.options();
    Ok(py.detach(|| options.format(&path)).map_err(Failure::from)?)
}

/// Restores a copy of the backup in `directory` to the empty store at `path`, and returns the number of the copy.
///
/// The newest copy, or `number`. With `any_layout` the drive may have another layout than the copy. Ctrl-C stops it.
#[pyfunction]
#[pyo3(signature = (directory, path, *, number = None, any_layout = false, flash = None))]
pub(crate) fn restore(
    py: Python<'_>,
    directory: PathBuf,
    path: PathBuf,
    number: Option<u64>,
    any_layout: bool,
    flash: Option<PathBuf>,
) -> PyResult<u64> {
    let restored = py.detach(|| -> Result<u64, Failure> {
        let flash = flash.map_or(FlashPath::NotNamed, FlashPath::At);
        let target = DrivePaths { flash, ..DrivePaths::of(&path) }.find()?;
        let interrupts = Interrupts::default();
        let mut watch = |_| interrupts.ask();
        let done = restore_to(&directory, number, &target, any_layout, &mut watch);
        interrupts.end(done).map(|report| report.number)
    });
    Ok(restored?)
}
