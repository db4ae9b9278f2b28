//! What this process has open: each image once, however often it is asked for.
//!
//! ```text
//!   open    there?             -> one more handle of it
//!           opening or closing -> wait until it is open or closed, then ask again
//!           else               -> open
//!   the last handle goes -> closed, then forgotten, then whoever waits may open
//! ```
//!
//! Invariants
//!   A4  An image is forgotten after it is closed: who opens it next never meets its own process in the way.
//!   A5  What another process opened is neither used nor dropped: a child that was forked has a copy of it.
//!   A6  Nobody opens or closes an image under the lock: a child that is forked meanwhile would wait for ever for
//!       a thread that it does not have.

use crate::process::{self, Held};
use crate::status::{Failure, Status};
use imbrex::{FoundDrive, Layout, LayoutError};
use imbrex_clockwork::{Runtime, ThreadScheduler, WallClock};
use imbrex_disk_sim::OpenOptions;
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

/// The images that are open, by their paths.
#[derive(Debug)]
pub(crate) struct Registry<T: 'static> {
    open: Mutex<Known<T>>,
    changed: Condvar,
}

#[derive(Debug)]
struct Known<T: 'static> {
    /// Whose images these are.
    process: u32,
    images: BTreeMap<PathBuf, Image<T>>,
}

#[derive(Debug)]
enum Image<T: 'static> {
    /// Somebody is opening it.
    Opening,
    /// It was opened; nobody has it any more while it is closed.
    Open(Weak<Opened<T>>),
}

/// An open image: what all its handles share.
#[derive(Debug)]
pub(crate) struct Opened<T: 'static> {
    /// Which process opened it.
    process: u32,
    registry: &'static Registry<T>,
    path: PathBuf,
    /// There until it is dropped.
    inner: Option<T>,
}

impl<T> Registry<T> {
    pub(crate) const fn new() -> Registry<T> {
        let known = Known { process: 0, images: BTreeMap::new() };
        Registry { open: Mutex::new(known), changed: Condvar::new() }
    }

    /// What is open at `path` as [`image_at`] gave it, or what `open` makes of it; and whether it was made now.
    pub(crate) fn open(
        &'static self,
        path: PathBuf,
        open: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<(Arc<Opened<T>>, bool), Failure> {
        let process = process::id();
        let mut known = self.open.lock();
        if known.process != process {
            *known = Known { process, images: BTreeMap::new() };
        }
        while let Some(image) = known.images.get(&path) {
            if let Image::Open(there) = image
                && let Some(opened) = there.upgrade()
            {
                return Ok((opened, false));
            }
            self.changed.wait(&mut known);
        }
        known.images.insert(path.clone(), Image::Opening);
        drop(known);
        let forget = Forget { registry: self, path: &path };
        let inner = Some(open()?);
        std::mem::forget(forget);
        let opened = Arc::new(Opened { process, registry: self, path: path.clone(), inner });
        self.open.lock().images.insert(path, Image::Open(Arc::downgrade(&opened)));
        self.changed.notify_all();
        Ok((opened, true))
    }
}

/// Forgets an image when it is dropped: one that is closed (A4) or could not be opened, also if that panics.
struct Forget<'a, T: 'static> {
    registry: &'static Registry<T>,
    path: &'a Path,
}

impl<T> Drop for Forget<'_, T> {
    fn drop(&mut self) {
        self.registry.open.lock().images.remove(self.path);
        self.registry.changed.notify_all();
    }
}

impl<T> Deref for Opened<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.inner.as_ref().expect("it is there until it is dropped")
    }
}

impl<T> Held for Opened<T> {
    fn opener(&self) -> Option<u32> {
        Some(self.process)
    }
}

impl<T> Drop for Opened<T> {
    fn drop(&mut self) {
        let inner = self.inner.take();
        if self.process != process::id() {
            std::mem::forget(inner);
            return;
        }
        let _forget = Forget { registry: self.registry, path: &self.path };
        drop(inner);
    }
}

/// The threads for a drive's background work. Once dropped they have ended, and hold nothing of the drive:
/// a job may hold its files for a moment longer than the store does (A4).
#[derive(Debug)]
pub(crate) struct Workers(Arc<ThreadScheduler>);

impl Workers {
    /// So many threads, and the runtime that uses them.
    pub(crate) fn start(count: usize) -> (Workers, Runtime) {
        let scheduler = Arc::new(ThreadScheduler::new(count));
        let clock = Arc::new(WallClock::new());
        (Workers(Arc::clone(&scheduler)), Runtime { clock, scheduler })
    }

    /// Whether one of them met a bug (A3).
    pub(crate) fn have_panicked(&self) -> bool {
        self.0.has_panicked()
    }

    /// Lets one of them meet a bug, and waits until it has.
    #[cfg(test)]
    pub(crate) fn break_one(&self) {
        use imbrex_clockwork::{Budget, Job, Scheduler, Step};
        struct Unlucky;
        impl Job for Unlucky {
            fn name(&self) -> &'static str {
                "unlucky"
            }
            fn step(&mut self, _: Budget) -> Step {
                panic!("a bug in the background")
            }
        }
        self.0.spawn(Box::new(Unlucky));
        self.0.wait_until(&mut || false).unwrap_err();
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// The one path of the image at `path`; `hint` says how to make one.
pub(crate) fn image_at(path: &Path, hint: &str) -> Result<PathBuf, Failure> {
    path.canonicalize().map_err(|error| {
        let (status, hint) = match error.kind() {
            std::io::ErrorKind::NotFound => (Status::NotFound, hint),
            _ => (Status::Io, ""),
        };
        Failure::new(status, format!("cannot open drive {}: {error}{hint}", path.display()))
    })
}

/// Opens the drive at `path`; `what` begins what goes wrong.
pub(crate) fn open_drive(
    path: &Path,
    options: OpenOptions,
    what: &str,
) -> Result<FoundDrive, Failure> {
    FoundDrive::open(path, options)
        .map_err(|error| Failure::of_opening(Status::Unsupported, what, &error))
}

/// The layout of that name.
pub(crate) fn layout_named(name: Option<&str>) -> Result<Option<Layout>, Failure> {
    let asked = name.map(Layout::by_name).transpose();
    asked.map_err(|error| Failure::of(Status::Invalid, "", &error))
}

/// Refuses a drive of layout `held` where `asked` is another.
pub(crate) fn check_layout(
    path: &Path,
    held: Layout,
    asked: Option<Layout>,
) -> Result<(), Failure> {
    match asked {
        Some(asked) if asked != held => {
            let recorded = held.name().to_owned();
            let error = LayoutError::Other { recorded, asked: asked.name() };
            let what = format!("cannot open drive {}: ", path.display());
            Err(Failure::of(Status::Unsupported, &what, &error))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// While one image is opened another can be, as a child that is forked then would; who asks for the first one waits
    /// and has the same; and what could not be opened can be tried again.
    #[test]
    fn an_image_is_opened_beside_others_and_once() {
        static OPEN: Registry<u32> = Registry::new();
        let at = |name: &str| PathBuf::from(name);
        let (begun, has_begun) = mpsc::channel();
        let (go, gone) = mpsc::channel();
        std::thread::scope(|scope| {
            let slow = scope.spawn(move || {
                OPEN.open(at("slow"), || {
                    begun.send(()).unwrap();
                    gone.recv().unwrap();
                    Ok(1)
                })
            });
            has_begun.recv().unwrap();
            let (other, is_new) = OPEN.open(at("other"), || Ok(2)).unwrap();
            assert_eq!((**other, is_new), (2, true));
            let again = scope.spawn(move || OPEN.open(at("slow"), || panic!("it is opened twice")));
            go.send(()).unwrap();
            let (first, is_first_new) = slow.join().unwrap().unwrap();
            let (second, is_second_new) = again.join().unwrap().unwrap();
            assert!(Arc::ptr_eq(&first, &second) && is_first_new && !is_second_new);
        });
        let fails = || Err(Failure::new(Status::Io, "it cannot be opened".to_owned()));
        assert!(OPEN.open(at("slow"), fails).is_err());
        assert_eq!(**OPEN.open(at("slow"), || Ok(3)).unwrap().0, 3);
    }
}
