//! What moves on with each commit: the first seed of torture, and the part of the seeds that unit tests take.

use imbrex_system_tests::program::said;
use std::path::Path;
use std::process::Command;

/// How many commits it takes until the unit tests have run all seeds of their loops.
const PARTS: u64 = 8;

/// A commit, as far as seeds follow from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Commit {
    /// The first 48 bits of its hash; 0 without git.
    head: u64,
}

impl Commit {
    /// The one that is checked out.
    pub(super) fn of(root: &Path) -> Commit {
        let told = said(Command::new("git").args(["rev-parse", "HEAD"]).current_dir(root));
        if told.is_err() {
            println!("no commit: git says nothing here, so seeds begin at 0");
        }
        Commit::parse(&told.unwrap_or_default())
    }

    fn parse(hash: &str) -> Commit {
        let head = hash.get(..12).and_then(|head| u64::from_str_radix(head, 16).ok());
        Commit { head: head.unwrap_or(0) }
    }

    /// Torture's first seed: those of two commits are further apart than either goes.
    pub(super) fn first_seed(self) -> String {
        format!("{:#x}", self.head << 16)
    }

    /// What unit tests find in `IMBREX_SEEDS`.
    pub(super) fn part(self) -> String {
        format!("{}/{PARTS}", self.head % PARTS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_follow_from_the_hash() {
        let commit = Commit::parse("2fcd133b8a5f00112233445566778899aabbccdd\n");
        assert_eq!(commit.first_seed(), "0x2fcd133b8a5f0000");
        assert_eq!(commit.part(), "7/8");
        assert_eq!(Commit::parse(""), Commit { head: 0 });
    }
}
