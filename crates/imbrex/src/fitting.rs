//! Whether a drive is long enough for what is made on it, found by making the same in memory.
//!
//! ```text
//!   asked: 1 GiB                 zones of 1/2, 1/4, ... until there are 64, if no zone length is asked for
//!                                  |
//!                                trial on a blank drive of that shape ---- passes --> this drive
//!                                  | refused
//!   no zone length asked for     still shorter zones, down to 1 MiB ------ passes --> shorter zones
//!                                  | all refused
//!   2, 4, 8, ... times as long   until a drive passes, then between the last two -->  the least length, in the error
//! ```
//!
//! Invariants
//!   L1  A drive is accepted if and only if the trial passes on it: nothing here knows a layout's sizes.
//!   L2  The least length in an error passes the trial, and a drive that is one step shorter is refused. A step is a zone,
//!       or 1 MiB on a drive without zones.
//!   L3  A zone length that the caller names is never changed, nor one that the layout is made for.
//!   L4  Other drives have 64 zones or more, if zones of 1 MiB are short enough for that. What a store keeps free
//!       is counted in zones: with 8 zones it refused puts at 69 % live, with 16 at 83 %, with 64 at 95 %.
//!
//! Source: `docs/decisions/0062-how-long-a-drive-must-be.md`.
//! Not here: the trial itself (`Formatting::rehearse_store`), what a store needs (`engine::store::space`).

use crate::emulated::{Profile, Shape, ShapeError, flash_profile};
use crate::error::{Error, ErrorKind};
use crate::stack::{Drives, Formatting, Layout, LayoutError, causes};
use imbrex_disk::{Blocks, Geometry, GeometrySpec};
use imbrex_disk_sim::SimDisk;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// Zones that the caller does not name are not made shorter than this.
pub const ZONE_LEN_BYTES_MIN: u64 = 1 << 20;

/// Zones that the caller does not name are so short that the drive has so many of them.
pub const ZONE_COUNT_MIN: u64 = 64;

/// The precision of a least length on a drive without zones.
const STEP_BYTES: u64 = 1 << 20;

/// No longer drive is tried, nor one of more zones. A refusal that such a drive gets has another cause than its length.
const LEN_BYTES_MAX: u64 = 64 << 40;
const ZONE_COUNT_MAX: u64 = 1 << 16;

/// Makes on a drive of a geometry, in memory, what is going to be made on the real one.
pub type Trial<'a> = dyn Fn(&Geometry) -> Result<(), Error> + 'a;

/// A new emulated drive that is long enough.
#[derive(Clone, Debug)]
pub struct Fitted {
    /// The drive.
    pub profile: Profile,
    /// The usual zone length, if the drive has shorter zones because it would have too few.
    pub shortened_from: Option<Blocks>,
}

/// Blank drives in memory to try `formatting` on: a drive of `geometry`, and a flash drive of `flash_bytes`, or of the
/// usual length, if the layout takes one.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`]: there is no such drive.
pub fn blank_drives(
    formatting: &Formatting,
    geometry: &Geometry,
    flash_bytes: Option<u64>,
) -> Result<Drives, Error> {
    let blank = |geometry: Geometry| {
        let disk = SimDisk::builder(geometry).memory().map(Arc::new);
        disk.map_err(|error| Error::at("format", formatting.path(), error))
    };
    let drives = Drives::from(blank(*geometry)?);
    match flash_profile(formatting.layout, geometry, flash_bytes)? {
        Some(flash) => Ok(drives.with_flash(blank(flash.geometry())?)),
        None => Ok(drives),
    }
}

/// Why a shape is no drive, or a drive that does not do.
enum Refusal {
    Shape(ShapeError),
    Trial(Error),
}

impl Shape {
    /// The profile called `name`, or a fitting one, in this shape, if `trial` passes on it; with shorter zones if there are
    /// too few or it only passes then, and this shape names no length. `layout` is what the drive will be formatted as, where that is known,
    /// and `path` where it will be. A drive that stays blank has neither `trial` nor `layout`.
    ///
    /// Cost: a trial, and some ten more for a drive that is refused.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`]: there is no drive of that shape, or it is too small. The error has the least length.
    /// Else the error of `trial`.
    pub fn fitted(
        &self,
        name: Option<&str>,
        layout: Option<Layout>,
        path: &Path,
        trial: Option<&Trial<'_>>,
    ) -> Result<Fitted, Error> {
        let candidates = Candidates { shape: self, name, layout, trial };
        let refusal = match candidates.attempt(self) {
            Ok(profile) if self.zone_len_bytes.is_none() => {
                return Ok(candidates.with_enough_zones(profile));
            }
            Ok(profile) => return Ok(Fitted { profile, shortened_from: None }),
            Err(refusal) => refusal,
        };
        // No length mends a shape that the whole drive cannot have.
        let whole = Shape { capacity_bytes: None, ..self.clone() }.profile(name, layout);
        let whole = whole.map_err(|error| Error::at("create", path, error))?.geometry();
        let asked_bytes = self.capacity_bytes.unwrap_or(whole.len().bytes());
        let usual = whole.zones().map(|zones| zones.zone_len);
        let shorter = shorter_zones(usual);
        let passing = || {
            let longest = shorter.iter().find_map(|&zone| candidates.passing(asked_bytes, zone))?;
            Some(candidates.with_enough_zones(longest).profile)
        };
        let named = self.zone_len_bytes;
        if named.is_none()
            && let Some(profile) = passing()
        {
            return Ok(Fitted { profile, shortened_from: usual });
        }
        let zone_len = named.or(shorter.last().copied()).or(usual.map(Blocks::bytes));
        let passes = |len_bytes| candidates.sized(len_bytes, zone_len).is_ok();
        let Some(least) = least_len(asked_bytes, zone_len, whole.len().bytes(), &passes) else {
            return Err(refusal.into_error(path));
        };
        let mut advice = format!("use {} or more", Exact(least));
        let shorter = named.and_then(|_| Some(passing()?.geometry().zones()?.zone_len.bytes()));
        match (named, zone_len, shorter) {
            (None, Some(zone_len), _) => {
                advice.push_str(&format!(", with zones of {}", Exact(zone_len)));
            }
            (_, _, Some(shorter)) => {
                advice.push_str(&format!(", or zones of {}", Exact(shorter)));
            }
            _ => {}
        }
        let usual_layout = || trial.and_then(|_| Layout::default_for(whole.rule()));
        let layout = layout.or_else(usual_layout);
        let tried = named.or(usual.map(Blocks::bytes));
        let drive = TooSmall { len_bytes: asked_bytes, zone_len: tried, layout };
        Err(drive.error("create", path, refusal.reason(path), &advice))
    }
}

/// The drives of one shape, in other lengths and with other zones.
struct Candidates<'a> {
    shape: &'a Shape,
    name: Option<&'a str>,
    layout: Option<Layout>,
    trial: Option<&'a Trial<'a>>,
}

impl Candidates<'_> {
    /// `profile`, which passes, or the same with shorter zones, if it has too few (L4).
    fn with_enough_zones(&self, profile: Profile) -> Fitted {
        let usual = profile.geometry().zones().map(|zones| zones.zone_len);
        let len_bytes = profile.geometry().len().bytes();
        let is_made_for = self.layout.and_then(Layout::usual_zone_len_bytes).is_some();
        let has_enough = |zone_len: &u64| len_bytes / zone_len >= ZONE_COUNT_MIN;
        if !is_made_for && usual.is_some_and(|zone_len| !has_enough(&zone_len.bytes())) {
            let shorter = shorter_zones(usual);
            let zone_len = shorter.iter().find(|len| has_enough(len)).or(shorter.last());
            let asked_bytes = self.shape.capacity_bytes.unwrap_or(len_bytes);
            if let Some(profile) = zone_len.and_then(|&len| self.passing(asked_bytes, len)) {
                return Fitted { profile, shortened_from: usual };
            }
        }
        Fitted { profile, shortened_from: None }
    }

    fn attempt(&self, shape: &Shape) -> Result<Profile, Refusal> {
        let profile = shape.profile(self.name, self.layout).map_err(Refusal::Shape)?;
        self.trial.map_or(Ok(()), |trial| trial(&profile.geometry())).map_err(Refusal::Trial)?;
        Ok(profile)
    }

    fn sized(&self, len_bytes: u64, zone_len: Option<u64>) -> Result<Profile, Refusal> {
        let (capacity_bytes, zone_len_bytes) = (Some(len_bytes), zone_len);
        self.attempt(&Shape { capacity_bytes, zone_len_bytes, ..self.shape.clone() })
    }

    fn passing(&self, len_bytes: u64, zone_len: u64) -> Option<Profile> {
        self.sized(len_bytes, Some(zone_len)).ok()
    }
}

/// The error of a drive of `geometry` at `path` that `refusal` refuses: the same, or, if longer drives of its kind pass
/// `trial`, that it is too small, with the least length.
pub fn refused(
    path: &Path,
    geometry: &Geometry,
    layout: Option<Layout>,
    refusal: Error,
    trial: &Trial<'_>,
) -> Error {
    if refusal.kind() != ErrorKind::InvalidArgument {
        return refusal;
    }
    let zone_len = geometry.zones().map(|zones| zones.zone_len.bytes());
    let passes = |len_bytes| {
        let spec = GeometrySpec { len: Blocks::holding(len_bytes), rule: *geometry.rule() };
        Geometry::new(spec).is_ok_and(|longer| trial(&longer).is_ok())
    };
    let len_bytes = geometry.len().bytes();
    let Some(least) = least_len(len_bytes, zone_len, LEN_BYTES_MAX, &passes) else {
        return refusal;
    };
    let layout = layout.or_else(|| Layout::default_for(geometry.rule()));
    let advice = format!("use a drive of {} or more", Exact(least));
    let reason = Refusal::Trial(refusal).reason(path);
    TooSmall { len_bytes, zone_len, layout }.error("format", path, reason, &advice)
}

/// Half of `usual`, a quarter of it, and so on.
fn shorter_zones(usual: Option<Blocks>) -> Vec<u64> {
    let half = |len: &Blocks| Some(Blocks::new(len.get() / 2));
    let lens = std::iter::successors(usual, half).skip(1).map(Blocks::bytes);
    lens.take_while(|&len_bytes| ZONE_LEN_BYTES_MIN <= len_bytes).collect()
}

/// The least length that passes, longer than `refused_bytes` and at most `bytes_max` (L2).
fn least_len(
    refused_bytes: u64,
    zone_len: Option<u64>,
    bytes_max: u64,
    passes: &dyn Fn(u64) -> bool,
) -> Option<u64> {
    let step = zone_len.unwrap_or(STEP_BYTES).max(1);
    let zone_max = zone_len.map_or(u64::MAX, |_| ZONE_COUNT_MAX);
    let max = (bytes_max.min(LEN_BYTES_MAX) / step).min(zone_max);
    let mut refused = refused_bytes / step;
    let mut passing = refused;
    loop {
        if max <= passing {
            return None;
        }
        passing = (2 * passing).clamp(1, max);
        if passes(passing * step) {
            break;
        }
        refused = passing;
    }
    while refused + 1 < passing {
        let middle = refused + (passing - refused) / 2;
        if passes(middle * step) {
            passing = middle;
        } else {
            refused = middle;
        }
    }
    Some(passing * step)
}

impl Refusal {
    fn into_error(self, path: &Path) -> Error {
        match self {
            Refusal::Shape(error) => Error::at("create", path, error),
            Refusal::Trial(error) => error,
        }
    }

    /// What the drive lacks, without its path; nothing for a length that no drive can be cut to.
    fn reason(&self, path: &Path) -> Option<String> {
        let Refusal::Trial(error) = self else { return None };
        let too_small = causes(error).find_map(|cause| match cause.downcast_ref() {
            Some(LayoutError::TooSmall { reason, .. }) => Some(reason.clone()),
            _ => None,
        });
        let text = error.to_string();
        let prefix = format!("cannot format {}: ", path.display());
        Some(too_small.unwrap_or_else(|| text.strip_prefix(&prefix).unwrap_or(&text).to_owned()))
    }
}

/// A drive that is too small for its layout, for messages.
struct TooSmall {
    len_bytes: u64,
    zone_len: Option<u64>,
    layout: Option<Layout>,
}

impl TooSmall {
    fn error(&self, doing: &str, path: &Path, reason: Option<String>, advice: &str) -> Error {
        let zones = self.zone_len.map(|len| format!(" with zones of {}", Exact(len)));
        let layout = self.layout.map(|layout| format!(" for layout {layout}"));
        let message = format!(
            "cannot {doing} {}: {}{} is too small{}{}; {advice}",
            path.display(),
            Exact(self.len_bytes),
            zones.unwrap_or_default(),
            layout.unwrap_or_default(),
            reason.map_or(String::new(), |reason| format!(": {reason}")),
        );
        Error::new(ErrorKind::InvalidArgument, message)
    }
}

/// A length without rounding, as `53.75 MiB`: in the largest unit of which it is a multiple of a quarter.
struct Exact(u64);

impl fmt::Display for Exact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(1_u64 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
        let suits = |(unit, _): &&(u64, _)| *unit <= self.0 && self.0.is_multiple_of(unit / 4);
        let Some((unit, name)) = units.iter().find(suits) else {
            return write!(f, "{} bytes", self.0);
        };
        let fraction = ["", ".25", ".5", ".75"][(self.0 % unit * 4 / unit) as usize];
        write!(f, "{}{fraction} {name}", self.0 / unit)
    }
}

#[cfg(test)]
mod tests;
