//! How the C library's allocator treats large blocks while a node runs.
//!
//! glibc raises its threshold for blocks of their own each time such a block is freed, up to 32 MB.
//! Bodies of all sizes then live in the heaps, which they tear apart: a node that took 4,800 messages
//! of 30 KB over 950 sessions at once kept 300 MB. With fixed thresholds it peaks at 210 MB and gives
//! memory back, for about 1 % more CPU (bench-runs/2026-11-21-serve.md).

/// Blocks from this size on are mapped, and given back when they are freed. 256 KB.
const MMAP_BYTES_MIN: i32 = 256 << 10;
/// Free memory at the end of the heap above which it is given back. 512 KB.
const TRIM_BYTES_MIN: i32 = 512 << 10;

/// Fixes both thresholds. Other C libraries have nothing to fix.
pub(crate) fn keep_memory_small() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: mallopt takes two numbers and changes settings of the allocator only; it is called
    // before the node starts its threads, and would be safe with them (it takes the arena's lock).
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, MMAP_BYTES_MIN);
        libc::mallopt(libc::M_TRIM_THRESHOLD, TRIM_BYTES_MIN);
    }
}
