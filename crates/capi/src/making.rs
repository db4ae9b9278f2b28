//! Making a store: a new image, or a drive that exists.

use crate::status::{Failure, Status, guard};
use crate::strings::text;
use imbrex::Options;
use imbrex_disk_host::is_block_device;
use std::ffi::c_char;
use std::path::Path;

/// Creates a drive image with an empty store at `image_path`, where nothing may exist: a sparse file that
/// emulates a drive. The store is durable on return, and not open; imbrex_store_open() opens it.
///
/// `flash_path` is the flash image to create, for a layout that has one, or NULL. `layout` names the layout,
/// `profile` the drive to emulate, by a name or as the path of a TOML file; NULL stands for the usual one of
/// each. `capacity_bytes` is the drive's length; 0 stands for 64 GiB. A zoned drive that is too small for
/// the usual zones gets shorter ones.
///
/// Errors: IMBREX_STATUS_EXISTS; IMBREX_STATUS_INVALID for a drive that is too small (the message has the
/// least length), for a layout that does not suit the drive, and for a block device, which
/// imbrex_store_format() formats; IMBREX_STATUS_IO, IMBREX_STATUS_NO_SPACE. No image is left then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn imbrex_store_create(
    image_path: *const c_char,
    flash_path: *const c_char,
    layout: *const c_char,
    profile: *const c_char,
    capacity_bytes: u64,
) -> Status {
    guard(|| {
        // SAFETY: strings, as the header's conventions say.
        let (path, profile, options) = unsafe {
            let profile = optional(profile, "the profile")?;
            (text(image_path, "the image's path")?, profile, asked(flash_path, layout)?)
        };
        if is_block_device(Path::new(path)).unwrap_or(false) {
            return Err(Failure::new(
                Status::Invalid,
                format!("cannot create {path}: it is a block device; format it instead"),
            ));
        }
        let options = profile.into_iter().fold(options, Options::profile);
        let options = if capacity_bytes == 0 { options } else { options.capacity(capacity_bytes) };
        Ok(options.create(path)?.close()?)
    })
}

/// Makes an empty store on the drive at `drive_path`, a block device or an image. The store is durable on
/// return, and not open; imbrex_store_open() opens it.
///
/// `flash_path` is the flash drive, for a layout that has one, or NULL. `layout` names the layout; NULL
/// stands for the usual one of the drive. `erase` says which content may be lost. NULL stands for none: the
/// drive must be blank. "" stands for a store or another content of Imbrex. Any other text names what other
/// programs have put there, such as "gpt,ext4"; the message of a refusal has the names.
///
/// Errors: IMBREX_STATUS_NOT_FOUND, IMBREX_STATUS_EXISTS for a drive with other content,
/// IMBREX_STATUS_BUSY, IMBREX_STATUS_INVALID, IMBREX_STATUS_UNSUPPORTED. The drive is then as it was, except
/// after IMBREX_STATUS_IO while it was erased or written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn imbrex_store_format(
    drive_path: *const c_char,
    flash_path: *const c_char,
    layout: *const c_char,
    erase: *const c_char,
) -> Status {
    guard(|| {
        // SAFETY: strings, as the header's conventions say.
        let (path, erase, options) = unsafe {
            let erase = optional(erase, "the content to erase")?;
            (text(drive_path, "the drive's path")?, erase, asked(flash_path, layout)?)
        };
        // `create` would make an image there.
        if !Path::new(path).exists() {
            let message = format!("cannot format {path}: no such drive; create one there");
            return Err(Failure::new(Status::NotFound, message));
        }
        let options = match erase {
            None => options,
            Some("") => options.erase(true),
            Some(names) => names.split(',').fold(options, |o, name| o.erase_named(name.trim())),
        };
        Ok(options.format(path)?)
    })
}

/// The text at `at`; `None` for NULL.
///
/// # Safety
/// NULL or a NUL-terminated string that outlives the result.
unsafe fn optional<'a>(at: *const c_char, what: &str) -> Result<Option<&'a str>, Failure> {
    // SAFETY: the caller's promise.
    if at.is_null() { Ok(None) } else { unsafe { text(at, what).map(Some) } }
}

/// # Safety
/// Strings or NULL, as the header's conventions say.
unsafe fn asked(flash: *const c_char, layout: *const c_char) -> Result<Options, Failure> {
    // SAFETY: the caller's promise.
    let (flash, layout) =
        unsafe { (optional(flash, "the flash drive's path")?, optional(layout, "the layout")?) };
    let options = flash.into_iter().fold(Options::new(), Options::flash);
    Ok(layout.into_iter().fold(options, Options::layout))
}
