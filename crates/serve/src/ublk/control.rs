//! The kernel's control device of ublk: whether it can be used, and advice if not.

use crate::DeviceError;
use std::fs::OpenOptions;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// The control device that creates ublk devices.
const CONTROL_PATH: &str = "/dev/ublk-control";

/// Why a device cannot be served to the kernel, or why serving ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UblkError {
    /// The kernel's driver is not loaded.
    #[error(
        "there is no {}: `modprobe ublk_drv` loads the driver where the kernel has it (Linux 6.0 or newer, \
         CONFIG_BLK_DEV_UBLK)",
        .path.display()
    )]
    NoControl {
        /// The control device.
        path: PathBuf,
    },
    /// This process may not use the driver.
    #[error("no permission to open {}: ublk devices need root (CAP_SYS_ADMIN)", .path.display())]
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
    /// The last flush failed: data written since the last flush of the device's users may be lost.
    #[error("the last flush failed: data written since the previous flush may be lost")]
    Flush(#[source] DeviceError),
}

/// Checks that this process may create ublk devices, as far as that can be checked without creating one.
///
/// # Errors
/// [`UblkError`], which names what is missing.
pub fn check_kernel() -> Result<(), UblkError> {
    check(Path::new(CONTROL_PATH))
}

/// Checks that the control device at `path` can be opened; opening it has no effect.
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
    fn the_error_names_the_missing_part_and_the_remedy() {
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
