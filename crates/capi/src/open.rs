//! The registry of open images. A process opens each image once, however many handles it has.
//!
//! ```text
//!   open    registered?        -> one more handle of it
//!           opening or closing -> wait until that has ended, then look again
//!           otherwise          -> open
//!   the last handle is released -> closed, then removed, then waiting callers may open
//! ```
//!
//! Invariants
//!   A4  An image is removed from the registry after it is closed, so the next opening never meets the lock of
//!       its own process.
//!   A5  An image that another process opened is not used and not dropped: a forked child has a copy of it.
//!   A6  The registry's lock is not held while an image is opened or closed. A child forked meanwhile would
//!       wait for ever for a thread that it does not have.

use crate::process::{self, Held};
use crate::status::Failure;
use imbrex::Layout;
use imbrex_clockwork::{Runtime, ThreadScheduler, WallClock};
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

/// The open images, by path.
#[derive(Debug)]
pub(crate) struct Registry<T: 'static> {
    open: Mutex<Known<T>>,
    changed: Condvar,
}

#[derive(Debug)]
struct Known<T: 'static> {
    /// The process that opened these images.
    process: u32,
    images: BTreeMap<PathBuf, Image<T>>,
}

#[derive(Debug)]
enum Image<T: 'static> {
    /// A thread is opening it.
    Opening,
    /// It is open; while it is being closed the pointer is dead.
    Open(Weak<Opened<T>>),
}

/// An open image, shared by all its handles.
#[derive(Debug)]
pub(crate) struct Opened<T: 'static> {
    /// The process that opened it.
    process: u32,
    registry: &'static Registry<T>,
    path: PathBuf,
    /// `Some` until the image is dropped.
    inner: Option<T>,
}

impl<T> Registry<T> {
    pub(crate) const fn new() -> Registry<T> {
        let known = Known { process: 0, images: BTreeMap::new() };
        Registry { open: Mutex::new(known), changed: Condvar::new() }
    }

    /// The image at `path`, which is canonical: the registered one, or the result of `open`. Also
    /// returns whether it was opened now.
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

/// Removes an image from the registry on drop: after its close (A4), or after an opening that failed or
/// panicked.
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

/// The threads for a drive's background work. Dropping them waits until they have ended, because a job may
/// hold the drive's files a moment longer than the store does (A4).
#[derive(Debug)]
pub(crate) struct Workers(Arc<ThreadScheduler>);

impl Workers {
    /// Starts `count` threads, and returns them with the runtime that uses them.
    pub(crate) fn start(count: usize) -> (Workers, Runtime) {
        let scheduler = Arc::new(ThreadScheduler::new(count));
        let clock = Arc::new(WallClock::new());
        (Workers(Arc::clone(&scheduler)), Runtime { clock, scheduler })
    }

    /// Whether a thread has panicked (A3).
    pub(crate) fn have_panicked(&self) -> bool {
        self.0.has_panicked()
    }

    /// Makes one thread panic, and waits until it has.
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

/// The layout called `name`; `None` without a name.
pub(crate) fn layout_named(name: Option<&str>) -> Result<Option<Layout>, Failure> {
    Ok(name.map(Layout::by_name).transpose().map_err(imbrex::Error::from)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::Status;
    use std::sync::mpsc;

    /// A slow opening does not block the opening of another image. A second caller of the same image waits and
    /// gets the same one. A failed opening can be tried again.
    #[test]
    fn images_open_concurrently_and_each_only_once() {
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
