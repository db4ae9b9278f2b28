//! Why a layout could not be chosen, put on a drive, or opened, and why a drive is not formatted.

use imbrex_engine::EngineError;
use imbrex_files::FilesError;
use imbrex_translate::BandsError;

/// An error of this crate; the failing layer's own error, where there is one, is its source.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// No layout of that name.
    #[error("no layout {name:?}{}; there are {known}", hint(.nearest))]
    Unknown {
        /// What was asked for.
        name: String,
        /// The known name that looks most like it.
        nearest: Option<&'static str>,
        /// All names.
        known: String,
    },
    /// The layout cannot live on this drive. Nothing was written.
    #[error("layout {layout} cannot use this drive: {reason}")]
    Unsuitable {
        /// The layout.
        layout: &'static str,
        /// Why not, and what would do.
        reason: String,
    },
    /// The drive is too small for the layout.
    #[error("the drive is too small for layout {layout}: {reason}")]
    TooSmall {
        /// The layout.
        layout: &'static str,
        /// What it lacks.
        reason: String,
    },
    /// The drive was formatted as something else. Nothing was written but what
    /// [`mount`](super::mount) writes.
    #[error(
        "the drive holds layout {recorded}, not {asked}; open it as {recorded} (or name no \
         layout), or format another drive"
    )]
    Other {
        /// The name recorded in the drive.
        recorded: String,
        /// The one asked for.
        asked: &'static str,
    },
    /// The drive records a layout that this program does not have.
    #[error(
        "the drive holds layout {recorded:?}, which this program does not know; use a newer one"
    )]
    Foreign {
        /// The name recorded in the drive.
        recorded: String,
    },
    /// The bands below the files cannot be made or opened.
    #[error("{what}: {source}")]
    Bands {
        /// What was being done.
        what: &'static str,
        /// Their error.
        #[source]
        source: BandsError,
    },
    /// The file layer failed.
    #[error("{what}: {source}")]
    Files {
        /// What was being done.
        what: &'static str,
        /// Its error.
        #[source]
        source: FilesError,
    },
    /// The store failed.
    #[error("{what}: {source}")]
    Engine {
        /// What was being done.
        what: &'static str,
        /// Its error.
        #[source]
        source: EngineError,
    },
}

/// Why a drive is not formatted: it is not blank.
#[derive(Debug, thiserror::Error)]
#[error("{what}; choose another drive, or erase this one{}, whose content is then lost", by(.name))]
pub struct Occupied {
    pub(super) what: String,
    /// The name by which alone the content is erased, if another program has put it there.
    pub name: Option<&'static str>,
}

fn by(name: &Option<&str>) -> String {
    name.map_or(String::new(), |name| format!(" by name ({name})"))
}

fn hint(nearest: &Option<&'static str>) -> String {
    nearest.map_or(String::new(), |name| format!(" (did you mean {name}?)"))
}

/// Of `known`, the name nearest to `name`, if it is near enough to be a slip.
pub(crate) fn nearest(
    name: &str,
    known: impl Iterator<Item = &'static str>,
) -> Option<&'static str> {
    let far = name.chars().count().div_ceil(2).max(1);
    known
        .map(|candidate| (edit_count(name, candidate), candidate))
        .min()
        .and_then(|(edits, candidate)| (edits <= far).then_some(candidate))
}

/// How many letters must be added, dropped or changed to make `b` of `a` (Levenshtein).
fn edit_count(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &y) in b.iter().enumerate() {
            let changed = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_are_counted_and_only_near_names_are_suggested() {
        assert_eq!(edit_count("", "abc"), 3);
        assert_eq!(edit_count("abc", "abc"), 0);
        assert_eq!(edit_count("kitten", "sitting"), 3);
        let near = |name| nearest(name, ["sealdb", "smrdb", "gear"].into_iter());
        assert_eq!(near("seal-db"), Some("sealdb"));
        assert_eq!(near("geer"), Some("gear"));
        assert_eq!(near("something-else"), None);
    }
}
