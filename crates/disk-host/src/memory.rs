//! Memory that this process no longer uses, back to the host. It is here because only this crate below the command
//! line may call C.

/// Returns memory that was freed to the operating system, which the allocator otherwise keeps for later. Other allocators
/// than glibc's are left alone.
///
/// Cost: a pass over the free memory, some tenths of a second for a GiB. Threads that allocate wait meanwhile.
pub fn return_free_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes no pointer, is safe with threads, and touches free memory only.
    unsafe {
        libc::malloc_trim(0);
    }
}
