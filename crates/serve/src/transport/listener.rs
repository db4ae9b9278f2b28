//! The address of a server: a socket in the file system, or a TCP port.
//!
//! Invariants
//!   E1  The server listens to other machines only if the caller asks for it.
//!   E2  From its creation on, a socket in the file system is accessible to its owner only.
//!   E3  A path is taken over only from a socket without a listener, and removed only while it is still this
//!       server's. If several servers start at one path together, one gets it: each checks and binds while it
//!       holds a lock on the directory. Without that lock, if another program keeps it, they may race.

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

/// The queue length of connections that are not accepted yet.
const BACKLOG: i32 = 128;

/// How often a server tries to lock its directory, with the pause below: a second in all. Another starting
/// server holds the lock for an instant only.
const DIRECTORY_TRIES: u32 = 1000;
const DIRECTORY_PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };

/// TCP keepalive: the idle time before the first probe; the number and interval of probes follow.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(60);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_COUNT: u32 = 6;

/// The longest time that sent data may stay unacknowledged or unread: as long as all keepalive probes, which are
/// not sent while data is in flight.
const USER_TIMEOUT_MS: u32 = 120_000;

/// The machines that can reach a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// This machine only.
    Loopback,
    /// Every machine with a route to the address.
    Anywhere,
}

/// An address that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// Another server listens there.
    #[error("{at} is in use: a server listens there; stop it, or choose another address")]
    InUse {
        /// The address or path.
        at: String,
    },
    /// The path exists and is not a socket.
    #[error("{} exists and is not a socket; choose another path", path.display())]
    NoSocket {
        /// The path.
        path: PathBuf,
    },
    /// Other machines can reach the address.
    #[error("other machines can reach {address}, which needs an explicit permission")]
    Remote {
        /// The address.
        address: SocketAddr,
    },
    /// The operating system refused.
    #[error("cannot listen at {at}: {source}")]
    Refused {
        /// The address or path.
        at: String,
        /// The system's error.
        #[source]
        source: io::Error,
    },
}

/// A bound socket; dropping it removes a socket file.
#[derive(Debug)]
pub struct Listener {
    socket: Bound,
    replaced: bool,
}

#[derive(Debug)]
enum Bound {
    Tcp(TcpListener),
    /// `made` identifies this server's file at `path`.
    Unix {
        listener: UnixListener,
        path: PathBuf,
        made: (u64, u64),
    },
}

impl Listener {
    /// Binds a socket at `path`, to which only the server's user may connect (E2). Replaces the socket of a server
    /// that has ended (E3).
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

    /// Binds the port of `address`; port 0 selects a free port.
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

    /// Whether the socket of a server that has ended was replaced.
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

    /// The machines that can reach it; an unknown address counts as [`Reach::Anywhere`].
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
                // A peer that vanishes frees its connection within two minutes, and so does a peer that reads nothing
                // for that long while a reply waits for it.
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

/// The identity of the file at `path`, unique among all files that ever had this path.
fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let found = std::fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino()))
}

/// Locks the directory of `path`, after waiting for other servers. Returns `None` if the directory cannot be read, or
/// if a program keeps the lock, perhaps for ever.
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

/// Like [`UnixListener::bind`], but the mode is set before the socket is visible (E2).
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
            // The file may be gone, and another server may have created its own.
            if identity(path).is_ok_and(|found| found == *made) {
                let _ = std::fs::remove_file(path);
            }
        }
    }
}
