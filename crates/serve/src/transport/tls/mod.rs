//! TLS for a server: its certificates, and the session of each connection.
//!
//! ```text
//!   Tls::load(files) --> Tls --session()--> Session, between a socket and plain bytes
//!                                             with the feature `tls`:     over rustls  (session)
//!                                             without it:                 no value exists  (absent)
//! ```
//!
//! `session` and `absent` have the same items, so that nothing outside this module depends on the feature.
//!
//! Not here: sockets, and the lock that both halves of a connection share (`stream`).

use std::io;
use std::path::{Path, PathBuf};

#[cfg(not(feature = "tls"))]
mod absent;
#[cfg(feature = "tls")]
mod session;

#[cfg(not(feature = "tls"))]
use absent::Certificates;
#[cfg(not(feature = "tls"))]
pub(crate) use absent::Session;
#[cfg(feature = "tls")]
use session::Certificates;
#[cfg(feature = "tls")]
pub(crate) use session::Session;

/// The server's side of TLS: its certificate, and the clients that it accepts.
#[derive(Clone, Debug)]
pub struct Tls {
    certificates: Certificates,
    pub(crate) is_required: bool,
}

/// PEM files and their use.
#[derive(Clone, Debug)]
pub struct TlsFiles<'a> {
    /// The server's certificate, followed by its chain without the root.
    pub certificate: &'a Path,
    /// Its private key.
    pub key: &'a Path,
    /// The authorities that sign clients' certificates; a client without such a certificate is rejected. With
    /// `None` every client is accepted.
    pub client_authority: Option<&'a Path>,
    /// Whether clients without TLS are rejected.
    pub is_required: bool,
}

/// Why TLS cannot be offered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read, or holds no PEM of the expected kind.
    #[error("cannot read {what} from {path}: {detail}; it must be PEM")]
    File {
        /// The role of the file.
        what: &'static str,
        /// Its path.
        path: PathBuf,
        /// What is wrong with it.
        detail: String,
    },
    /// The files do not match each other.
    #[error("cannot use certificate {path}: {detail}")]
    Unusable {
        /// The server's certificate.
        path: PathBuf,
        /// What is wrong.
        detail: String,
    },
    /// The feature `tls` is off. No file was read.
    #[error("this imbrex is built without TLS; build it with `--features tls`")]
    Absent,
}

impl Tls {
    /// Reads the certificate and the key.
    ///
    /// # Errors
    /// [`TlsError`]; without the feature `tls` always [`TlsError::Absent`].
    pub fn load(files: &TlsFiles<'_>) -> Result<Tls, TlsError> {
        let certificates = Certificates::load(files)?;
        Ok(Tls { certificates, is_required: files.is_required })
    }

    /// Starts the server's side of one connection.
    pub(crate) fn session(&self) -> io::Result<Session> {
        Session::new(&self.certificates)
    }
}
