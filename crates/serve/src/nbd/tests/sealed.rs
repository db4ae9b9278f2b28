//! TLS: with it, without it, and with a man in the middle.

use super::*;
use crate::transport::{Tls, TlsError, TlsFiles};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::path::PathBuf;

/// Certificates for tests: an authority, and a server and a client signed by it.
struct Papers {
    dir: tempfile::TempDir,
    authority: CertificateDer<'static>,
}

impl Papers {
    fn new() -> Papers {
        let dir = tempfile::tempdir().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        std::fs::write(dir.path().join("ca"), issuer.pem()).unwrap();
        for name in ["server", "client"] {
            let key = KeyPair::generate().unwrap();
            let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
            let certificate = params.signed_by(&key, &issuer).unwrap();
            std::fs::write(dir.path().join(name), certificate.pem()).unwrap();
            std::fs::write(dir.path().join(format!("{name}-key")), key.serialize_pem()).unwrap();
        }
        Papers { authority: issuer.der().clone(), dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn tls(&self, is_required: bool, knows_clients: bool) -> Tls {
        let authority = self.path("ca");
        let client_authority = knows_clients.then_some(authority.as_path());
        let (certificate, key) = (&self.path("server"), &self.path("server-key"));
        Tls::load(&TlsFiles { certificate, key, client_authority, is_required }).unwrap()
    }

    fn stand(&self, is_required: bool, knows_clients: bool) -> Stand {
        let tls = self.tls(is_required, knows_clients);
        Stand::of(MemoryDevice::of_sectors(2048), |_, options| options.tls = Some(tls))
    }

    /// A client that trusts the authority, with or without its own certificate.
    fn config(&self, has_certificate: bool) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(self.authority.clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let config = if has_certificate {
            let chain = vec![CertificateDer::from_pem_file(self.path("client")).unwrap()];
            let key = PrivateKeyDer::from_pem_file(self.path("client-key")).unwrap();
            builder.with_client_auth_cert(chain, key).unwrap()
        } else {
            builder.with_no_client_auth()
        };
        Arc::new(config)
    }
}

/// Continues the client under TLS.
fn sealed(
    mut client: Client<UnixStream>,
    config: Arc<ClientConfig>,
) -> Client<StreamOwned<ClientConnection, UnixStream>> {
    assert_eq!(client.refused(option::STARTTLS, &[]), option_reply::ACK);
    let name = ServerName::try_from("localhost").unwrap();
    let connection = ClientConnection::new(config, name).unwrap();
    Client::on(StreamOwned::new(connection, client.stream))
}

#[test]
fn everything_works_under_tls() {
    let papers = Papers::new();
    let stand = papers.stand(false, false);
    let mut client = sealed(stand.greeted(), papers.config(false));
    client.go(true);
    let data: Vec<u8> = (0..1 << 20).map(|n: u32| (n % 253) as u8).collect();
    client.write(0, &data).unwrap();
    assert!(client.read(0, 1 << 20).unwrap() == data);
    client.flush().unwrap();
    for n in 0..300_u32 {
        assert!(client.read(u64::from(n) * 512, 512).unwrap() == data[n as usize * 512..][..512]);
    }
    let disc = client.request(0, command::DISC, 0, 0);
    client.send(&disc.encode());
    assert_eq!(client.stream.read(&mut [0]).unwrap(), 0, "a proper end, not a cut");
    stand.check_alive();
    assert_eq!(stand.counts().broken_off, 0);
}

#[test]
fn with_tls_required_nothing_is_revealed_before_it() {
    let papers = Papers::new();
    let stand = papers.stand(true, false);
    let mut client = stand.greeted();
    for (option, data) in [
        (option::LIST, vec![]),
        (option::GO, go("disk", &[])),
        (option::INFO, go("nothing", &[])),
        (option::STRUCTURED_REPLY, vec![]),
        (option::LIST_META_CONTEXT, queries("", &[])),
        (77, vec![]),
        (option::LIST, vec![0; 1 << 20]),
    ] {
        assert_eq!(client.refused(option, &data), option_reply::ERR_TLS_REQD, "H2: {option}");
    }
    let mut client = sealed(client, papers.config(false));
    client.go(true);
    client.write(0, &[1; 512]).unwrap();
    let mut old = stand.greeted();
    old.send_option(option::EXPORT_NAME, b"disk");
    assert!(old.is_closed(), "H2");
}

#[test]
fn options_agreed_on_before_tls_are_discarded() {
    let papers = Papers::new();
    let stand = papers.stand(false, false);
    let mut client = stand.greeted();
    assert_eq!(client.refused(option::STRUCTURED_REPLY, &[]), option_reply::ACK);
    client.option(option::SET_META_CONTEXT, &queries("disk", &["base:allocation"]));
    assert_eq!(client.refused(option::STARTTLS, b"x"), option_reply::ERR_INVALID);
    let mut client = sealed(client, papers.config(false));
    assert_eq!(client.refused(option::STARTTLS, &[]), option_reply::ERR_INVALID, "twice");
    client.option(option::GO, &go("disk", &[]));
    // A simple reply, or the client panics.
    assert_eq!(client.read(0, 512).unwrap(), [0; 512]);
    assert!(client.call((command::BLOCK_STATUS, 0), 0, 512, &[]).is_err());
}

#[test]
fn options_sent_along_before_tls_are_not_obeyed_under_it() {
    let papers = Papers::new();
    let stand = papers.stand(false, false);
    let mut client = stand.greeted();
    let injected = option_bytes(option::STRUCTURED_REPLY, &[]);
    client.send(&[option_bytes(option::STARTTLS, &[]), injected].concat());
    assert_eq!(client.option_reply(option::STARTTLS).0, option_reply::ACK);
    assert!(client.is_closed() || client.bytes(1)[0] != 0, "N3");
    stand.check_alive();
}

#[test]
fn a_client_is_accepted_by_its_certificate() {
    let papers = Papers::new();
    let stand = papers.stand(true, true);
    let mut client = sealed(stand.greeted(), papers.config(true));
    client.go(false);
    client.write(0, &[1; 512]).unwrap();
    let mut stranger = sealed(stand.greeted(), papers.config(false));
    let asked = stranger.stream.write_all(&option_bytes(option::LIST, &[]));
    let answered = stranger.stream.read_exact(&mut [0; 20]);
    assert!(asked.is_err() || answered.is_err());
    let other = Papers::new();
    let mut forger = sealed(stand.greeted(), other.config(true));
    let asked = forger.stream.write_all(&option_bytes(option::LIST, &[]));
    assert!(asked.is_err(), "it does not trust the server either");
}

#[test]
fn garbage_instead_of_tls_ends_only_its_own_connection() {
    let papers = Papers::new();
    let stand = papers.stand(false, false);
    for garbage in [&[0; 5][..], &[0x16, 3, 1, 0xff, 0xff, 1, 2, 3], b"GET / HTTP/1.1\r\n\r\n", &[]]
    {
        let mut client = stand.greeted();
        assert_eq!(client.refused(option::STARTTLS, &[]), option_reply::ACK);
        client.send(garbage);
        client.stream.shutdown(Shutdown::Write).unwrap();
        let mut said = Vec::new();
        let _ = client.stream.read_to_end(&mut said);
        assert!(said.len() < 100, "an alert at most");
    }
    stand.check_alive();
}

#[test]
fn invalid_certificate_files_are_named() {
    let papers = Papers::new();
    let load = |certificate: &str, key: &str, authority: Option<&str>| {
        let (certificate, key) = (papers.path(certificate), papers.path(key));
        let authority = authority.map(|name| papers.path(name));
        let client_authority = authority.as_deref();
        let (certificate, key) = (&*certificate, &*key);
        Tls::load(&TlsFiles { certificate, key, client_authority, is_required: false }).unwrap_err()
    };
    std::fs::write(papers.path("empty"), "").unwrap();
    for (error, expected) in [
        (load("none", "server-key", None), "the certificate from"),
        (load("empty", "server-key", None), "the file has no such entry"),
        (load("server-key", "server-key", None), "the file has no such entry"),
        (load("server", "server", None), "the private key from"),
        (load("server", "server-key", Some("client-key")), "the clients' authority from"),
    ] {
        assert!(error.to_string().contains(expected), "{error}");
    }
    let mismatch = load("server", "client-key", None);
    assert!(matches!(mismatch, TlsError::Unusable { .. }), "{mismatch}");
}
