//! The kernel's control device: whether there is one, and what to do where there is none.

use crate::DeviceError;
use std::fs::OpenOptions;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// Where Linux has the device that makes ublk devices.
const CONTROL_PATH: &str = "/dev/ublk-control";

/// Why a device cannot be served to the kernel, or not any more.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UblkError {
    /// The kernel's driver is not there.
    #[error(
        "there is no {}: `modprobe ublk_drv` loads the driver where the kernel has it (Linux 6.0 or newer, \
         CONFIG_BLK_DEV_UBLK)",
        .path.display()
    )]
    NoControl {
        /// The control device.
        path: PathBuf,
    },
    /// The driver is there, for others.
    #[error("{} may not be opened: ublk devices need root (CAP_SYS_ADMIN)", .path.display())]
    NotAllowed {
        /// The control device.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The kernel refused a step.
    #[error("{what}")]
    Kernel {
        /// What was being done.
        what: &'static str,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The last flush failed: what was written since the last flush of the device's users may be lost.
    #[error("the last flush failed: what was written since the one before may be lost")]
    Flush(#[source] DeviceError),
}

/// Whether this machine's kernel lets this process make ublk devices, as far as that can be seen without
/// making one.
///
/// # Errors
/// [`UblkError`], which says what is missing.
pub fn check_kernel() -> Result<(), UblkError> {
    check(Path::new(CONTROL_PATH))
}

/// Whether the control device at `path` can be opened. Opening it changes nothing.
fn check(path: &Path) -> Result<(), UblkError> {
    let opened = OpenOptions::new().read(true).write(true).open(path);
    let path = path.to_owned();
    match opened {
        Ok(_) => Ok(()),
        Err(source) => Err(match source.kind() {
            ErrorKind::NotFound => UblkError::NoControl { path },
            ErrorKind::PermissionDenied => UblkError::NotAllowed { path, source },
            _ => UblkError::Kernel { what: "opening the control device of ublk", source },
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_said_and_what_to_do() {
        let dir = tempfile::tempdir().unwrap();
        let said = |path: &Path| check(path).map_err(|error| error.to_string());
        let none = said(&dir.path().join("ublk-control")).unwrap_err();
        for part in ["no ", "ublk-control", "modprobe ublk_drv", "Linux 6.0"] {
            assert!(none.contains(part), "{none}");
        }
        assert_eq!(said(dir.path()).unwrap_err(), "opening the control device of ublk");
        let there = dir.path().join("there");
        std::fs::write(&there, "").unwrap();
        assert_eq!(said(&there), Ok(()));
        let refused = UblkError::NotAllowed {
            path: there,
            source: io::Error::from(ErrorKind::PermissionDenied),
        };
        assert!(refused.to_string().contains("root"), "{refused}");
    }
}
