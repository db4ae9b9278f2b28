//! The certificates of a server for TLS.

use rustls::RootCertStore;
use rustls::ServerConfig;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem};
use rustls::server::WebPkiClientVerifier;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The server's side of TLS: its certificate, and the clients that it accepts.
#[derive(Clone, Debug)]
pub struct Tls {
    pub(crate) config: Arc<ServerConfig>,
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

/// Certificates that cannot be used.
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
}

impl Tls {
    /// Reads the certificate and the key.
    ///
    /// # Errors
    /// [`TlsError`].
    pub fn load(files: &TlsFiles<'_>) -> Result<Tls, TlsError> {
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
        let config = config.map_err(|error| unusable(error.to_string()))?;
        Ok(Tls { config: Arc::new(config), is_required: files.is_required })
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
