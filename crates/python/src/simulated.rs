//! Stores on emulated drives in memory, in virtual time: for notebooks and tests.

use crate::failure::Failure;
use crate::held::{Held, Opened};
use crate::interrupts::check_no_handler;
use crate::making::Wishes;
use crate::place::Place;
use crate::store::{Store, default_keyspace};
use imbrex::{Layout, Options, Runtime};
use imbrex_clockwork::{Order, Prng};
use imbrex_disk::{Blocks, Disk};
use imbrex_disk_sim::SimDisk;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::Arc;

/// How long the drive is unless the caller says otherwise: its content lies in memory, as far as it is written.
const CAPACITY_BYTES: u64 = 8 << 30;

/// The drive's write cache: without one a power cut would lose nothing.
const WRITE_CACHE_LEN_BYTES: u64 = 8 << 20;

/// A store on an emulated drive in memory, in virtual time: only the drive's work makes time pass.
///
/// The same calls give the same bytes and the same nanoseconds on every machine. One call runs at a time, and background
/// work runs inside the calls.
#[pyclass(extends = Store, frozen, module = "imbrex")]
#[derive(Debug)]
pub(crate) struct SimulatedStore {
    opened: Arc<Opened>,
    place: Arc<Held<Place>>,
    disk: Arc<SimDisk>,
    runtime: Runtime,
    options: Options,
}

#[pymethods]
impl SimulatedStore {
    /// The time of the store's world, in nanoseconds since it began.
    #[getter]
    fn now_ns(&self) -> u64 {
        self.runtime.clock.now_ns()
    }

    /// Cuts the power of the drive, turns it on again, and opens the store. What was synced is there; of later writes,
    /// the newest may be gone. Iterators, snapshots, batches and keyspaces of before are closed.
    ///
    /// `seed` decides which of the writes in the drive's cache survive.
    #[pyo3(signature = (seed = 1))]
    fn cut_power(&self, py: Python<'_>, seed: u64) -> PyResult<()> {
        check_no_handler()?;
        // A closed store stays closed.
        self.opened.run_attached(&self.opened.store, |_| Ok(()))?;
        let again = py.detach(|| -> Result<(), Failure> {
            self.disk.cut_power();
            drop(self.opened.take_all());
            let lost = |error: imbrex_disk::DiskError| Failure::argument(error.to_string());
            self.disk.power_cycle(&mut Prng::new(seed)).map_err(lost)?;
            let store = self.options.open_on(Arc::clone(&self.disk) as Arc<dyn Disk>)?;
            self.opened.store.replace(store);
            self.place.replace(Place::now(default_keyspace(&self.opened)?));
            self.opened.adopt(&self.place);
            Ok(())
        });
        Ok(again?)
    }
}

/// What `imbrex.simulate` does.
#[pyfunction]
pub(crate) fn simulate_store<'py>(
    py: Python<'py>,
    keywords: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, SimulatedStore>> {
    let mut wishes = Wishes::of(keywords)?;
    wishes.shape.capacity_bytes.get_or_insert(CAPACITY_BYTES);
    let layout = wishes.layout.as_deref().map(Layout::by_name).transpose();
    let layout = layout.map_err(|error| Failure::from(imbrex::Error::from(error)))?;
    if let Some(layout) = layout.filter(|layout| layout.takes_flash()) {
        let message = format!(
            "layout {layout} takes a flash drive, which a simulated store has not; bench() has one"
        );
        return Err(Failure::argument(message).into());
    }
    let made = py.detach(|| -> Result<_, Failure> {
        let profile = wishes.shape.profile(wishes.profile.as_deref(), layout);
        let profile = profile.map_err(imbrex::Error::from)?;
        let (runtime, _world) = Runtime::virtual_time(Order::SmallestTime);
        let name = format!("simulated {}", profile.name());
        let disk = SimDisk::builder(profile.geometry())
            .profile(profile)
            .clock(Arc::clone(&runtime.clock))
            .write_cache(Blocks::holding(WRITE_CACHE_LEN_BYTES))
            .memory();
        let disk = disk.map_err(|error| Failure::argument(error.to_string()))?;
        let disk = Arc::new(disk);
        let options = wishes.options().runtime(runtime.clone());
        let store = options.create_on(Arc::clone(&disk) as Arc<dyn Disk>)?;
        Ok((Opened::new(name, store, false, true), disk, runtime, options))
    });
    let (opened, disk, runtime, options) = made?;
    let (store, place) = Store::new(&opened)?;
    Bound::new(py, store.add_subclass(SimulatedStore { opened, place, disk, runtime, options }))
}
