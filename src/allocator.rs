//! Where memory comes from.
//!
//! Scanning takes and gives back about a thousand small blocks a message; mimalloc does that with 7
//! % fewer instructions of the whole scan than glibc's allocator (docs/decisions/126-allocator.md).

use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::CStr;
use std::sync::atomic::{AtomicU8, Ordering};

use mimalloc::MiMalloc;

/// Environment variable that chooses: `system` is the C library's, or one that is loaded before it.
const VARIABLE: &CStr = c"GAUNTLET_ALLOCATOR";
/// Blocks from this size on are the C library's in any case. 32 KB: messages and what is made of
/// them, which one thread takes and another gives back; mimalloc keeps a lot of such memory for the
/// next one.
const LARGE_BYTES_MIN: usize = 32 << 10;
const NOT_CHOSEN: u8 = 0;
const OURS: u8 = 1;
const SYSTEM: u8 = 2;

/// What was chosen, for good: a block goes back to where it came from.
static CHOSEN: AtomicU8 = AtomicU8::new(NOT_CHOSEN);

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

struct Allocator;

fn is_system() -> bool {
    match CHOSEN.load(Ordering::Relaxed) {
        NOT_CHOSEN => choose(),
        chosen => chosen == SYSTEM,
    }
}

#[cold]
fn choose() -> bool {
    // SAFETY: the name ends with a zero byte. The first block is asked for before `main`, so that
    // nothing changes the environment meanwhile; what is found is compared at once, up to its zero
    // byte.
    let is_system = unsafe {
        let value = libc::getenv(VARIABLE.as_ptr());
        !value.is_null() && CStr::from_ptr(value) == c"system"
    };
    CHOSEN.store(if is_system { SYSTEM } else { OURS }, Ordering::Relaxed);
    is_system
}

/// Whether a block of so many bytes is the C library's.
fn is_from_system(bytes: usize) -> bool {
    bytes >= LARGE_BYTES_MIN || is_system()
}

// SAFETY: every block comes from one of two allocators that keep the contract, and goes back there:
// its size, which the caller has to give again, says which one it is.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract, which is the same there.
        unsafe {
            if is_from_system(layout.size()) {
                System.alloc(layout)
            } else {
                MiMalloc.alloc(layout)
            }
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        unsafe {
            if is_from_system(layout.size()) {
                System.alloc_zeroed(layout)
            } else {
                MiMalloc.alloc_zeroed(layout)
            }
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as above; the block is from the same allocator.
        unsafe {
            if is_from_system(layout.size()) {
                System.dealloc(block, layout);
            } else {
                MiMalloc.dealloc(block, layout);
            }
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: as above; the block is from the same allocator.
        unsafe {
            match (is_from_system(layout.size()), is_from_system(bytes)) {
                (true, true) => System.realloc(block, layout, bytes),
                (false, false) => MiMalloc.realloc(block, layout, bytes),
                _ => self.moved(block, layout, bytes),
            }
        }
    }
}

impl Allocator {
    /// Moves a block to the other allocator.
    ///
    /// # Safety
    /// As of [`GlobalAlloc::realloc`].
    unsafe fn moved(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: the caller says that the new size is a valid one with this alignment; the new
        // block is another one, and what is copied is in both; the old block is from where its
        // layout says.
        unsafe {
            let new = self.alloc(Layout::from_size_align_unchecked(bytes, layout.align()));
            if !new.is_null() {
                std::ptr::copy_nonoverlapping(block, new, layout.size().min(bytes));
                self.dealloc(block, layout);
            }
            new
        }
    }
}

/// Blocks of the C library from this size on are mapped, and given back when they are freed. 256
/// KB.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const MMAP_BYTES_MIN: i32 = 256 << 10;
/// Free memory at the end of its heap above which it is given back. 512 KB.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const TRIM_BYTES_MIN: i32 = 512 << 10;

/// Fixes both thresholds while a node runs. Other C libraries have nothing to fix.
///
/// glibc raises its threshold for blocks of their own each time such a block is freed, up to 32 MB.
/// Large blocks of all sizes then live in the heaps, which they tear apart: a node that took 4,800
/// messages of 30 KB over 950 sessions at once with glibc's allocator kept 300 MB, with fixed
/// thresholds 210 (bench-runs/2026-11-21-serve.md).
pub(crate) fn keep_memory_small() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: mallopt takes two numbers and changes settings of the allocator only; it is called
    // before the node starts its threads, and would be safe with them (it takes the arena's lock).
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, MMAP_BYTES_MIN);
        libc::mallopt(libc::M_TRIM_THRESHOLD, TRIM_BYTES_MIN);
    }
}

#[cfg(test)]
mod tests {
    use super::LARGE_BYTES_MIN;

    #[test]
    fn blocks_keep_their_bytes_over_both_allocators() {
        let mut block: Vec<u8> = Vec::new();
        for length in [1, LARGE_BYTES_MIN - 1, LARGE_BYTES_MIN, 9 * LARGE_BYTES_MIN, 100, 0] {
            let kept = block.len().min(length);
            block.truncate(length);
            block.shrink_to_fit();
            block.reserve_exact(length - kept);
            block.extend((kept..length).map(|at| at as u8));
            assert!(block.iter().enumerate().all(|(at, byte)| *byte == at as u8), "{length}");
        }
        assert!(vec![0_u8; LARGE_BYTES_MIN].iter().all(|byte| *byte == 0));
    }
}
