//! The ring of a packet socket (TPACKET_V3, `Documentation/networking/packet_mmap.rst`): blocks
//! that the kernel fills and this process reads.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// Place of `block_status` in a block.
const STATUS_AT: usize = 8;
/// `TP_STATUS_USER`: the block is ours to read.
const USER: u32 = 1;
/// `TP_STATUS_KERNEL`: the block is the kernel's.
const KERNEL: u32 = 0;

/// Memory of a ring.
pub(crate) struct Ring {
    start: NonNull<u8>,
    block_len: usize,
    blocks: usize,
}

// SAFETY: the memory belongs to this value alone in this process; what the kernel writes is guarded
// by the status of each block.
unsafe impl Send for Ring {}

impl Ring {
    /// Maps the ring that a socket was given, of so many blocks of this length.
    pub(crate) fn map(socket: BorrowedFd<'_>, block_len: usize, blocks: usize) -> io::Result<Self> {
        let len = block_len.checked_mul(blocks).ok_or(io::ErrorKind::InvalidInput)?;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let null = std::ptr::null_mut();
        // SAFETY: the kernel chooses where; the mapping is as long as told or there is an error.
        let start =
            unsafe { libc::mmap(null, len, protection, libc::MAP_SHARED, socket.as_raw_fd(), 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, block_len, blocks })
    }

    /// How many blocks there are.
    pub(crate) fn blocks(&self) -> usize {
        self.blocks
    }

    fn status(&self, block: usize) -> &AtomicU32 {
        debug_assert!(block < self.blocks);
        // SAFETY: the block is within the mapping, which lives as long as `self`; blocks are whole
        // pages, so that the word is aligned; the kernel and we access it as a whole word.
        unsafe {
            let place = self.start.add(block * self.block_len + STATUS_AT);
            AtomicU32::from_ptr(place.as_ptr().cast())
        }
    }

    /// The bytes of a block, if the kernel is through with it.
    pub(crate) fn block(&self, place: usize) -> Option<&[u8]> {
        if place >= self.blocks || self.status(place).load(Ordering::Acquire) & USER == 0 {
            return None;
        }
        // SAFETY: within the mapping. While the status says that the block is ours, the kernel
        // writes nothing into it, and we change its status in `release` alone, which takes `self`
        // exclusively and so ends this borrow.
        Some(unsafe {
            let start = self.start.add(place * self.block_len);
            std::slice::from_raw_parts(start.as_ptr(), self.block_len)
        })
    }

    /// Gives a block back to the kernel.
    pub(crate) fn release(&mut self, place: usize) {
        if place < self.blocks {
            self.status(place).store(KERNEL, Ordering::Release);
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: this is the mapping as it was made, and nothing borrows from it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.block_len * self.blocks) };
    }
}
