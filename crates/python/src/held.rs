//! Handles of an open store: what keeps it open, and the threads and processes that may use it.
//!
//! ```text
//!   Opened { store, dependents }        one for each open store
//!        |              \
//!   Held<imbrex::Store>  weak --> Held<Place>, Held<Mutex<Iter>>, Held<Mutex<Batch>>, ...   one for each Python object
//! ```
//!
//! Invariants
//!   H1  Closing takes the content out of every handle, so the drive is free when `close` returns, whatever Python
//!       still refers to.
//!   H2  No thread that has the interpreter waits for a thread that wants it. A call takes the lock of its handle
//!       detached. An attached thread only reads what a handle is, past writers that wait ([`Held::peek`]).
//!   H3  A forked child never uses, locks or drops the content of its parent's handles. It leaks them.
//!   H4  A store in virtual time serves one call at a time, because its world has one client.

use crate::failure::Failure;
use crate::interrupts::check_no_handler;
use crate::process;
use imbrex_engine::Db;
use parking_lot::{Mutex, RwLock, RwLockReadGuard};
use pyo3::prelude::*;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Weak};

/// The content of a Python object, until it is closed.
pub(crate) struct Held<T> {
    /// What it is, for messages.
    what: &'static str,
    content: RwLock<Option<T>>,
    /// The process that made it.
    opener: u32,
}

impl<T> Held<T> {
    pub(crate) fn new(what: &'static str, content: T) -> Held<T> {
        Held { what, content: RwLock::new(Some(content)), opener: process::id() }
    }

    /// Puts other content in.
    pub(crate) fn replace(&self, content: T) {
        *self.content.write() = Some(content);
    }

    /// Takes the content out, when no call uses it any more.
    pub(crate) fn take(&self) -> Option<T> {
        self.content.write().take()
    }

    /// The content, for an attached thread. A thread that closes waits for calls to end, and does not stop this one (H2).
    fn peek(&self) -> RwLockReadGuard<'_, Option<T>> {
        self.content.read_recursive()
    }

    /// Whether it was closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.peek().is_none()
    }

    /// Refuses a handle of another process (H3).
    pub(crate) fn check_process(&self) -> Result<(), Failure> {
        if self.opener == process::id() {
            return Ok(());
        }
        Err(Failure::Forked(format!(
            "refused: process {} opened the {}, and this is its child {} after a fork; open a store after the fork, in \
             one process only",
            self.opener,
            self.what,
            process::id()
        )))
    }
}

impl<T> Drop for Held<T> {
    fn drop(&mut self) {
        if self.opener != process::id() {
            std::mem::forget(self.content.get_mut().take());
        }
    }
}

impl<T> fmt::Debug for Held<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held").field("what", &self.what).finish_non_exhaustive()
    }
}

/// A handle that closes with its store.
trait Dependent: Send + Sync {
    fn clear(&self);
}

impl<T: Send + Sync> Dependent for Held<T> {
    fn clear(&self) {
        drop(self.take());
    }
}

/// An open store, and all handles of it.
pub(crate) struct Opened {
    /// The path, or what else a person calls it.
    pub(crate) name: String,
    pub(crate) is_read_only: bool,
    pub(crate) store: Held<imbrex::Store>,
    dependents: Mutex<Dependents>,
    /// For a store in virtual time (H4).
    turn: Option<Mutex<()>>,
}

#[derive(Default)]
struct Dependents {
    handles: Vec<Weak<dyn Dependent>>,
    /// When there are so many, those that are gone are removed.
    swept_at: usize,
}

/// Fewer handles are not worth a sweep.
const SWEPT_AT_MIN: usize = 64;

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opened").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The stores that this process has open, for the end of the interpreter.
static OPEN: Mutex<Vec<Weak<Opened>>> = Mutex::new(Vec::new());

impl Opened {
    pub(crate) fn new(
        name: String,
        store: imbrex::Store,
        is_read_only: bool,
        is_virtual: bool,
    ) -> Arc<Opened> {
        let opened = Arc::new(Opened {
            name,
            is_read_only,
            store: Held::new("store", store),
            dependents: Mutex::default(),
            turn: is_virtual.then(Mutex::default),
        });
        let mut open = OPEN.lock();
        open.retain(|other| other.strong_count() > 0);
        open.push(Arc::downgrade(&opened));
        opened
    }

    /// A new handle, which closes with this store.
    pub(crate) fn hold<T: Send + Sync + 'static>(
        &self,
        what: &'static str,
        content: T,
    ) -> Arc<Held<T>> {
        let held = Arc::new(Held::new(what, content));
        self.adopt(&held);
        held
    }

    /// Closes `held` with this store.
    pub(crate) fn adopt<T: Send + Sync + 'static>(&self, held: &Arc<Held<T>>) {
        let mut dependents = self.dependents.lock();
        if dependents.handles.len() >= dependents.swept_at.max(SWEPT_AT_MIN) {
            dependents.handles.retain(|handle| handle.strong_count() > 0);
            dependents.swept_at = 2 * dependents.handles.len();
        }
        let weak: Weak<Held<T>> = Arc::downgrade(held);
        dependents.handles.push(weak);
    }

    /// Runs `call` on the content of `held`, a handle of this store, while other threads have the interpreter.
    pub(crate) fn run<T: Send + Sync, R: Send>(
        &self,
        py: Python<'_>,
        held: &Held<T>,
        call: impl FnOnce(&T) -> Result<R, Failure> + Send,
    ) -> PyResult<R> {
        held.check_process()?;
        check_no_handler()?;
        Ok(py.detach(|| self.run_detached(held, call))?)
    }

    /// Runs `call` on the store itself, as [`Opened::run`].
    pub(crate) fn run_on_store<R: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&imbrex::Store) -> Result<R, Failure> + Send,
    ) -> PyResult<R> {
        self.run(py, &self.store, call)
    }

    /// Like [`Opened::run`], in a thread that is detached already, or whose `call` takes no time.
    pub(crate) fn run_detached<T, R>(
        &self,
        held: &Held<T>,
        call: impl FnOnce(&T) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        let _turn = self.turn.as_ref().map(Mutex::lock);
        let content = held.content.read();
        let Some(content) = &*content else { return Err(self.closed(held.what)) };
        catch_unwind(AssertUnwindSafe(|| call(content))).unwrap_or_else(|panic| {
            // What the call left half done must not be written.
            if let Some(store) = &*self.store.peek() {
                store.stack().db.abandon("a bug in imbrex; close the store and open it again");
            }
            resume_unwind(panic)
        })
    }

    /// Runs `call`, which takes no time, in a thread that stays attached to the interpreter.
    pub(crate) fn run_attached<T, R>(
        &self,
        held: &Held<T>,
        call: impl FnOnce(&T) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        held.check_process()?;
        match &*held.peek() {
            Some(content) => call(content),
            None => Err(self.closed(held.what)),
        }
    }

    /// The engine's handle of the store.
    pub(crate) fn db(&self) -> Result<Db, Failure> {
        let store = self.store.peek();
        let db = store.as_ref().map(|store| store.stack().db.clone());
        db.ok_or_else(|| self.closed("store"))
    }

    fn closed(&self, what: &str) -> Failure {
        let name = &self.name;
        let is_store_closed = what == "store" || self.store.is_closed();
        Failure::Closed(match is_store_closed {
            true => format!("the store {name} is closed; open it again"),
            false => format!("the {what} of {name} is closed; make another one"),
        })
    }

    /// Takes the store and every handle away from the Python objects, and returns the store (H1).
    pub(crate) fn take_all(&self) -> Option<imbrex::Store> {
        let store = self.store.take();
        let handles = std::mem::take(&mut self.dependents.lock().handles);
        handles.iter().filter_map(Weak::upgrade).for_each(|handle| handle.clear());
        store
    }

    /// Closes the store for all handles; a second time does nothing.
    pub(crate) fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.store.check_process()?;
        check_no_handler()?;
        let closed = py.detach(|| self.take_all().map_or(Ok(()), imbrex::Store::close));
        Ok(closed.map_err(Failure::from)?)
    }
}

/// Closes what is open at the end of the interpreter: Python drops some objects never.
#[pyfunction]
pub(crate) fn close_all(py: Python<'_>) {
    let open = std::mem::take(&mut *OPEN.lock());
    for opened in open.iter().filter_map(Weak::upgrade) {
        if opened.store.check_process().is_err() {
            continue;
        }
        if let Err(error) = opened.close(py) {
            error.write_unraisable(py, None);
        }
    }
}
