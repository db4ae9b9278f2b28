//! Errors: the library is missing, is another library, or refuses a call.

/// Why a foreign database did not serve a request.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ForeignError {
    /// The library cannot be loaded.
    #[error("{library} cannot be loaded: {reason}; install {package}, or name the library's file")]
    NoLibrary {
        /// The file that was looked for.
        library: String,
        /// Debian's package for it.
        package: &'static str,
        /// The loader's message.
        reason: String,
    },
    /// The library lacks a function.
    #[error("{library} has no {function}: it is not {kind}'s library")]
    OtherLibrary {
        /// The library.
        library: String,
        /// The missing function.
        function: String,
        /// The expected library.
        kind: &'static str,
    },
    /// The library refused.
    #[error("cannot {what}: {reason}")]
    Refused {
        /// The refused call.
        what: &'static str,
        /// The library's message.
        reason: String,
    },
}
