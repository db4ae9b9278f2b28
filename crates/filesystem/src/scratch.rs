//! The buffer into which a thread reads blocks before it copies out the bytes. One per thread,
//! because there are thousands more open files than threads.

use std::cell::Cell;

/// A longer buffer is not kept. Compactions read 2 MiB at once.
const KEPT_LEN_BYTES_MAX: usize = 4 << 20;

thread_local! {
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Calls `work` with this thread's buffer.
pub(crate) fn with_scratch<T>(work: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    // Databases read even while their process exits, when a thread's locals are already destroyed.
    let mut scratch = SCRATCH.try_with(Cell::take).unwrap_or_default();
    let result = work(&mut scratch);
    if scratch.capacity() <= KEPT_LEN_BYTES_MAX {
        let _ = SCRATCH.try_with(|kept| kept.set(scratch));
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_kept_unless_it_is_long() {
        let capacity = || with_scratch(|scratch| scratch.capacity());
        with_scratch(|scratch| scratch.resize(512 << 10, 0));
        assert_eq!(capacity(), 512 << 10);
        // A nested read gets another buffer.
        with_scratch(|_| assert_eq!(capacity(), 0));
        with_scratch(|scratch| scratch.resize(KEPT_LEN_BYTES_MAX + 1, 0));
        assert_eq!(capacity(), 0);
    }
}
