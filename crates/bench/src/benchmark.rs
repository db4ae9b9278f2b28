//! db_bench's benchmarks by name, and the task of a run.

use std::fmt;
use std::str::FromStr;

/// One benchmark, under db_bench's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Benchmark {
    /// Write all keys in order.
    FillSeq,
    /// Write `num` randomly drawn keys, some of them more than once.
    FillRandom,
    /// Write every key once, in random order.
    FillUniqueRandom,
    /// Like `FillRandom` with a sync of the log at every write, and a thousandth of the operations.
    FillSync,
    /// Overwrite `num` random keys.
    Overwrite,
    /// Get random keys.
    ReadRandom,
    /// Get random keys, `batch_size` per call.
    MultiReadRandom,
    /// Get absent keys.
    ReadMissing,
    /// Iterate forward from the first key.
    ReadSeq,
    /// Iterate backward from the last key.
    ReadReverse,
    /// Seek to random keys, then step `seek_nexts` times.
    SeekRandom,
    /// Like `ReadRandom`, while one further client overwrites as fast as it can.
    ReadWhileWriting,
    /// Delete all keys in order.
    DeleteSeq,
    /// Delete `num` random keys.
    DeleteRandom,
    /// Flush the memtable.
    Flush,
    /// Compact everything.
    Compact,
    /// Wait until no background work is left.
    WaitForCompaction,
}

/// Each benchmark and its name, in the order of the help text.
const NAMES: [(Benchmark, &str); 17] = [
    (Benchmark::FillSeq, "fillseq"),
    (Benchmark::FillRandom, "fillrandom"),
    (Benchmark::FillUniqueRandom, "filluniquerandom"),
    (Benchmark::FillSync, "fillsync"),
    (Benchmark::Overwrite, "overwrite"),
    (Benchmark::ReadRandom, "readrandom"),
    (Benchmark::MultiReadRandom, "multireadrandom"),
    (Benchmark::ReadMissing, "readmissing"),
    (Benchmark::ReadSeq, "readseq"),
    (Benchmark::ReadReverse, "readreverse"),
    (Benchmark::SeekRandom, "seekrandom"),
    (Benchmark::ReadWhileWriting, "readwhilewriting"),
    (Benchmark::DeleteSeq, "deleteseq"),
    (Benchmark::DeleteRandom, "deleterandom"),
    (Benchmark::Flush, "flush"),
    (Benchmark::Compact, "compact"),
    (Benchmark::WaitForCompaction, "waitforcompaction"),
];

impl Benchmark {
    /// Whether it starts with an empty store.
    pub(crate) fn is_fresh(self) -> bool {
        matches!(
            self,
            Benchmark::FillSeq
                | Benchmark::FillRandom
                | Benchmark::FillUniqueRandom
                | Benchmark::FillSync
        )
    }

    /// Whether its clients change the store, so that it leaves background work behind.
    pub(crate) fn is_write(self) -> bool {
        self.is_fresh()
            || matches!(
                self,
                Benchmark::Overwrite
                    | Benchmark::ReadWhileWriting
                    | Benchmark::DeleteSeq
                    | Benchmark::DeleteRandom
            )
    }

    /// Whether its length is `--reads` rather than `--num`.
    pub(crate) fn is_read(self) -> bool {
        matches!(
            self,
            Benchmark::ReadRandom
                | Benchmark::MultiReadRandom
                | Benchmark::ReadMissing
                | Benchmark::ReadSeq
                | Benchmark::ReadReverse
                | Benchmark::SeekRandom
                | Benchmark::ReadWhileWriting
        )
    }
}

impl fmt::Display for Benchmark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = NAMES.iter().find(|(b, _)| b == self).map_or("unnamed", |(_, name)| name);
        f.pad(name)
    }
}

impl FromStr for Benchmark {
    type Err = String;
    fn from_str(text: &str) -> Result<Benchmark, String> {
        NAMES.iter().find(|(_, name)| *name == text).map(|(b, _)| *b).ok_or_else(|| {
            let names: Vec<&str> = NAMES.iter().map(|(_, name)| *name).collect();
            format!("{text:?} is not a benchmark; choose from {}", names.join(", "))
        })
    }
}

/// A benchmark to run, with the number of operations per client if it differs from the default:
/// `readrandom`, `readrandom:20000`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// What to run.
    pub benchmark: Benchmark,
    /// Operations per client; by default `--num`, or `--reads` for benchmarks that read.
    pub ops: Option<u64>,
}

impl FromStr for Task {
    type Err = String;
    fn from_str(text: &str) -> Result<Task, String> {
        let Some((name, ops)) = text.split_once(':') else {
            return Ok(Task { benchmark: text.parse()?, ops: None });
        };
        let ops = ops.parse().map_err(|e| format!("operations of {text:?}: {e}"))?;
        Ok(Task { benchmark: name.parse()?, ops: Some(ops) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_there_and_back() {
        for (benchmark, name) in NAMES {
            assert_eq!(benchmark.to_string(), name);
            assert_eq!(name.parse::<Benchmark>(), Ok(benchmark));
        }
        let task = |text: &str| text.parse::<Task>().map(|t| (t.benchmark, t.ops));
        assert_eq!(task("readseq"), Ok((Benchmark::ReadSeq, None)));
        assert_eq!(task("readseq:7"), Ok((Benchmark::ReadSeq, Some(7))));
        assert!(task("readseq:-1").is_err());
        assert!(task(":7").is_err());
        let error = "fillrandon".parse::<Benchmark>().unwrap_err();
        assert!(error.contains("fillrandom"), "{error}");
    }
}
