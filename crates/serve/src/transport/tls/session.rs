//! TLS over rustls.

use super::{TlsError, TlsFiles};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection};
use std::io::{self, ErrorKind, Read, Write};
use std::path::Path;
use std::sync::Arc;

/// The server's certificate and key, and the clients that it accepts.
#[derive(Clone, Debug)]
pub(crate) struct Certificates(Arc<ServerConfig>);

impl Certificates {
    /// Reads the files.
    pub(super) fn load(files: &TlsFiles<'_>) -> Result<Certificates, TlsError> {
        let chain = certificates("the certificate", files.certificate)?;
        let key = PrivateKeyDer::from_pem_file(files.key)
            .map_err(|error| unreadable("the private key", files.key, &error))?;
        let unusable =
            |detail: String| TlsError::Unusable { path: files.certificate.to_owned(), detail };
        let provider: Arc<CryptoProvider> = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| unusable(error.to_string()))?;
        let builder = match files.client_authority {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let what = "the clients' authority";
                let mut roots = RootCertStore::empty();
                for root in certificates(what, path)? {
                    roots.add(root).map_err(|error| TlsError::File {
                        what,
                        path: path.to_owned(),
                        detail: error.to_string(),
                    })?;
                }
                let roots = Arc::new(roots);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider).build();
                builder.with_client_cert_verifier(verifier.map_err(|e| unusable(e.to_string()))?)
            }
        };
        let config = builder.with_single_cert(chain, key);
        config.map(|config| Certificates(Arc::new(config))).map_err(|e| unusable(e.to_string()))
    }
}

fn certificates(what: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let chain: Vec<_> = read.map_err(|error| unreadable(what, path, &error))?;
    if chain.is_empty() {
        return Err(unreadable(what, path, &pem::Error::NoItemsFound));
    }
    Ok(chain)
}

fn unreadable(what: &'static str, path: &Path, error: &pem::Error) -> TlsError {
    let detail = match error {
        pem::Error::Io(error) => error.to_string(),
        pem::Error::NoItemsFound => "the file has no such entry".to_owned(),
        other => other.to_string(),
    };
    TlsError::File { what, path: path.to_owned(), detail }
}

/// The server's side of one connection. It turns plain bytes into sealed ones and back, and owns no socket.
#[derive(Debug)]
pub(crate) struct Session(ServerConnection);

impl Session {
    pub(super) fn new(certificates: &Certificates) -> io::Result<Session> {
        let connection = ServerConnection::new(Arc::clone(&certificates.0));
        connection.map(Session).map_err(|error| invalid(&error))
    }

    /// Whether the peers do not agree on keys yet.
    pub(crate) fn is_handshaking(&self) -> bool {
        self.0.is_handshaking()
    }

    /// Takes some of the bytes that the peer sent, and returns their count. Not all are taken while much is unread.
    ///
    /// If they break the protocol, [`Session::seal`] still gives the alert for the peer.
    pub(crate) fn receive_sealed(&mut self, mut sealed: &[u8]) -> io::Result<usize> {
        let len = sealed.len();
        let taken = match self.0.read_tls(&mut sealed)? {
            // After the peer's close message TLS accepts no bytes: the rest is dropped.
            0 => len,
            taken => taken,
        };
        self.0.process_new_packets().map_err(|error| invalid(&error))?;
        Ok(taken)
    }

    /// Reads some decrypted bytes; 0 after the peer's close message, and [`ErrorKind::WouldBlock`] while none are
    /// there.
    pub(crate) fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.reader().read(buf)
    }

    /// Takes some of `plain` for sending, and returns their count.
    pub(crate) fn write(&mut self, plain: &[u8]) -> io::Result<usize> {
        self.0.writer().write(plain)
    }

    /// Appends all sealed bytes that the peer must get.
    pub(crate) fn seal(&mut self, sealed: &mut Vec<u8>) -> io::Result<()> {
        while self.0.wants_write() {
            self.0.write_tls(sealed)?;
        }
        Ok(())
    }

    /// Makes TLS's close message the last one to be sent.
    pub(crate) fn close(&mut self) {
        self.0.send_close_notify();
    }
}

fn invalid(error: &rustls::Error) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("TLS: {error}"))
}
