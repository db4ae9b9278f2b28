//! Errors: the library is not there, is another one, or refuses.

/// Why a database of others does not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ForeignError {
    /// The library cannot be loaded.
    #[error("{library} cannot be loaded: {reason}; install {package}, or name the library's file")]
    NoLibrary {
        /// What was looked for.
        library: String,
        /// Debian's package.
        package: &'static str,
        /// What the loader says.
        reason: String,
    },
    /// The library lacks a function.
    #[error("{library} has no {function}: it is not {kind}'s library")]
    OtherLibrary {
        /// The library.
        library: String,
        /// What it should have.
        function: String,
        /// Whose library it should be.
        kind: &'static str,
    },
    /// The library refused.
    #[error("cannot {what}: {reason}")]
    Refused {
        /// What was asked.
        what: &'static str,
        /// What the library says.
        reason: String,
    },
}
