//! Where a server listens: a socket in the file system, or a port.
//!
//! Invariants
//!   E1  Nothing beyond this machine is listened to unless the caller says so.
//!   E2  A socket in the file system is its owner's alone from the moment it exists.
//!   E3  A path is taken over only from a socket that nobody listens on any more, and given up only if it is still ours.
//!       Of servers that start there in the same moment one gets it: each looks and binds while it holds the directory,
//!       if nobody else keeps that.

use super::stream::Socket;
use rustix::event::{Timespec, poll};
use rustix::fs::{FlockOperation, Mode, fchmod, flock};
use rustix::io::Errno;
use rustix::net::sockopt::{
    set_socket_keepalive, set_tcp_keepcnt, set_tcp_keepidle, set_tcp_keepintvl,
    set_tcp_user_timeout,
};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How many clients may stand before the door.
const BACKLOG: i32 = 128;

/// How often a server tries to hold its directory, and the pause between: a second in all. Others that start hold it
/// for an instant.
const DIRECTORY_TRIES: u32 = 1000;
const DIRECTORY_PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };

/// After how long without a word a peer is asked whether it is there, how often, and at what intervals.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(60);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_COUNT: u32 = 6;

/// How long a peer may leave unacknowledged, or refuse to take, what is sent to it: as long as all of the above. Nobody
/// is asked whether it is there while something is on its way to it.
const USER_TIMEOUT_MS: u32 = 120_000;

/// From where a server can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Programs on this machine.
    Loopback,
    /// Whoever can send a packet.
    Anywhere,
}

/// A place to listen that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// Somebody listens there.
    #[error("{at} is in use: a server listens there; stop it or choose another")]
    InUse {
        /// The address or path.
        at: String,
    },
    /// The path is there and is something else.
    #[error("{} is there and no socket; choose another path", path.display())]
    NoSocket {
        /// The path.
        path: PathBuf,
    },
    /// The address is one that other machines reach.
    #[error("{address} can be reached from other machines, and that was not asked for")]
    Remote {
        /// The address.
        address: SocketAddr,
    },
    /// The operating system refused.
    #[error("cannot listen at {at}: {source}")]
    Refused {
        /// The address or path.
        at: String,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// A bound socket; one in the file system goes with it.
#[derive(Debug)]
pub struct Listener {
    socket: Bound,
    replaced: bool,
}

#[derive(Debug)]
enum Bound {
    Tcp(TcpListener),
    /// `made` says which file at `path` is ours.
    Unix {
        listener: UnixListener,
        path: PathBuf,
        made: (u64, u64),
    },
}

impl Listener {
    /// A socket at `path`, which only the user that runs the server may connect to (E2). Takes the place
    /// of a socket that a dead server left (E3).
    ///
    /// # Errors
    /// [`ListenError`].
    pub fn unix(path: &Path) -> Result<Listener, ListenError> {
        Listener::unix_after(path, DIRECTORY_TRIES)
    }

    pub(crate) fn unix_after(path: &Path, directory_tries: u32) -> Result<Listener, ListenError> {
        let at = || path.display().to_string();
        let refused = |source: io::Error| ListenError::Refused { at: at(), source };
        let mut replaced = false;
        let _held = hold_directory(path, directory_tries);
        let listener = match bind_unix(path) {
            Err(error) if error.kind() == ErrorKind::AddrInUse => {
                let found = std::fs::symlink_metadata(path).map_err(refused)?;
                if !found.file_type().is_socket() {
                    return Err(ListenError::NoSocket { path: path.to_owned() });
                }
                match UnixStream::connect(path) {
                    Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
                    Err(error) => return Err(refused(error)),
                    Ok(_) => return Err(ListenError::InUse { at: at() }),
                }
                std::fs::remove_file(path).map_err(refused)?;
                replaced = true;
                bind_unix(path).map_err(refused)?
            }
            bound => bound.map_err(refused)?,
        };
        let made = identity(path).map_err(refused)?;
        Ok(Listener { socket: Bound::Unix { listener, path: path.to_owned(), made }, replaced })
    }

    /// The port of `address`; port 0 takes any that is free.
    ///
    /// # Errors
    /// [`ListenError`].
    pub fn tcp(address: SocketAddr, reach: Reach) -> Result<Listener, ListenError> {
        if reach == Reach::Loopback && !is_loopback(address.ip()) {
            return Err(ListenError::Remote { address });
        }
        let listener = TcpListener::bind(address).map_err(|source| match source.kind() {
            ErrorKind::AddrInUse => ListenError::InUse { at: address.to_string() },
            _ => ListenError::Refused { at: address.to_string(), source },
        })?;
        Ok(Listener { socket: Bound::Tcp(listener), replaced: false })
    }

    /// Whether a dead server's socket was in the way and is gone.
    pub fn has_replaced(&self) -> bool {
        self.replaced
    }

    /// The address that clients connect to; `None` for a socket in the file system.
    pub fn address(&self) -> Option<SocketAddr> {
        match &self.socket {
            Bound::Tcp(listener) => listener.local_addr().ok(),
            Bound::Unix { .. } => None,
        }
    }

    /// From where it can be reached; a port whose address is unknown counts as anywhere.
    pub fn reach(&self) -> Reach {
        match &self.socket {
            Bound::Unix { .. } => Reach::Loopback,
            Bound::Tcp(listener) => match listener.local_addr() {
                Ok(address) if is_loopback(address.ip()) => Reach::Loopback,
                _ => Reach::Anywhere,
            },
        }
    }

    pub(crate) fn set_nonblocking(&self) -> io::Result<()> {
        match &self.socket {
            Bound::Tcp(listener) => listener.set_nonblocking(true),
            Bound::Unix { listener, .. } => listener.set_nonblocking(true),
        }
    }

    pub(crate) fn accept(&self) -> io::Result<Socket> {
        match &self.socket {
            Bound::Tcp(listener) => {
                let (socket, _) = listener.accept()?;
                socket.set_nonblocking(false)?;
                socket.set_nodelay(true)?;
                // A peer that is gone without a word is noticed within two minutes, and its place is free; so is that
                // of one who reads nothing for as long while a reply waits for it.
                set_socket_keepalive(&socket, true)?;
                set_tcp_keepidle(&socket, KEEPALIVE_AFTER)?;
                set_tcp_keepintvl(&socket, KEEPALIVE_INTERVAL)?;
                set_tcp_keepcnt(&socket, KEEPALIVE_COUNT)?;
                set_tcp_user_timeout(&socket, USER_TIMEOUT_MS)?;
                Ok(Socket::Tcp(socket))
            }
            Bound::Unix { listener, .. } => {
                let (socket, _) = listener.accept()?;
                socket.set_nonblocking(false)?;
                Ok(Socket::Unix(socket))
            }
        }
    }
}

fn is_loopback(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}

/// Which file `path` is, of all that were ever there.
fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let found = std::fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino()))
}

/// Waits for others who hold the directory of `path`, and holds it; not where it cannot be read, nor where
/// some program keeps it: that one may never let go.
fn hold_directory(path: &Path, try_count: u32) -> Option<File> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let held = File::open(directory.unwrap_or(Path::new("."))).ok()?;
    for index in 0..try_count {
        if 0 < index {
            let _ = poll(&mut [], Some(&DIRECTORY_PAUSE));
        }
        match flock(&held, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Some(held),
            Err(Errno::WOULDBLOCK | Errno::INTR) => {}
            Err(_) => return None,
        }
    }
    None
}

/// As [`UnixListener::bind`], but for E2: the mode is set before anybody can see the socket.
fn bind_unix(path: &Path) -> io::Result<UnixListener> {
    let address = SocketAddrUnix::new(path)?;
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    rustix::net::bind(&socket, &address)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(UnixListener::from(socket))
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.socket {
            Bound::Tcp(listener) => listener.as_fd(),
            Bound::Unix { listener, .. } => listener.as_fd(),
        }
    }
}

impl fmt::Display for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.socket {
            Bound::Tcp(listener) => match listener.local_addr() {
                Ok(address) => write!(f, "{address}"),
                Err(_) => f.write_str("a port"),
            },
            Bound::Unix { path, .. } => write!(f, "{}", path.display()),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Bound::Unix { path, made, .. } = &self.socket {
            // Somebody may have removed it already, and somebody else have put another there.
            if identity(path).is_ok_and(|found| found == *made) {
                let _ = std::fs::remove_file(path);
            }
        }
    }
}
