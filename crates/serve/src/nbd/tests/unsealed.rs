//! A build without the feature `tls`.

use super::*;
use crate::transport::{Tls, TlsError, TlsFiles};
use std::path::Path;

#[test]
fn certificates_are_refused_with_the_feature_that_they_need() {
    let none = Path::new("/nonexistent");
    let files =
        TlsFiles { certificate: none, key: none, client_authority: None, is_required: true };
    let error = Tls::load(&files).unwrap_err();
    assert!(matches!(error, TlsError::Absent), "{error}");
    let words = "this imbrex is built without TLS; build it with `--features tls`";
    assert_eq!(error.to_string(), words);
}

#[test]
fn a_client_that_asks_for_tls_is_refused_and_goes_on() {
    let stand = Stand::of(MemoryDevice::of_sectors(2048), |_, _| {});
    let mut client = stand.greeted();
    assert_eq!(client.refused(option::STARTTLS, &[]), option_reply::ERR_UNSUP);
    client.go(false);
    client.write(0, &[1; 512]).unwrap();
}
