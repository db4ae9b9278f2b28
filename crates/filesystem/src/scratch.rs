//! The buffer that a thread reads blocks into before it takes the bytes out: one for a thread, because there are
//! more open files than threads by the thousand.

use std::cell::Cell;

/// A longer buffer is not kept. Compactions read 2 MiB at once.
const KEPT_LEN_BYTES_MAX: usize = 4 << 20;

thread_local! {
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Does `work` with this thread's buffer.
pub(crate) fn with_scratch<T>(work: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    // Databases read while their process ends, when a thread has nothing of its own any more.
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
        // Who reads in a read has another one.
        with_scratch(|_| assert_eq!(capacity(), 0));
        with_scratch(|scratch| scratch.resize(KEPT_LEN_BYTES_MAX + 1, 0));
        assert_eq!(capacity(), 0);
    }
}
