//! No TLS: the items of `session` in a build without the feature `tls`. Neither type has a value, so no code runs here
//! but the refusal.

use super::{TlsError, TlsFiles};
use std::io;

/// Certificates that cannot be loaded.
#[derive(Clone, Debug)]
pub(crate) enum Certificates {}

impl Certificates {
    pub(super) fn load(_files: &TlsFiles<'_>) -> Result<Certificates, TlsError> {
        Err(TlsError::Absent)
    }
}

/// A session that cannot begin.
#[derive(Debug)]
pub(crate) enum Session {}

impl Session {
    pub(super) fn new(certificates: &Certificates) -> io::Result<Session> {
        match *certificates {}
    }

    pub(crate) fn is_handshaking(&self) -> bool {
        match *self {}
    }

    pub(crate) fn receive_sealed(&mut self, _sealed: &[u8]) -> io::Result<usize> {
        match *self {}
    }

    pub(crate) fn read(&mut self, _buf: &mut [u8]) -> io::Result<usize> {
        match *self {}
    }

    pub(crate) fn write(&mut self, _plain: &[u8]) -> io::Result<usize> {
        match *self {}
    }

    pub(crate) fn seal(&mut self, _sealed: &mut Vec<u8>) -> io::Result<()> {
        match *self {}
    }

    pub(crate) fn close(&mut self) {
        match *self {}
    }
}
