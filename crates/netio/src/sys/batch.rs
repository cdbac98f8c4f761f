//! Many datagrams in one system call (recvmmsg(2), sendmmsg(2)).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Bytes for control messages of one datagram; those that are asked for need 72.
const CONTROL_LEN: usize = 128;

/// Room for datagrams, and what was received last.
pub(crate) struct Batch {
    slot_len: usize,
    slots: usize,
    bytes: Vec<u8>,
    /// In words, so that headers in it are aligned.
    control: Vec<u64>,
    /// Length of each datagram and of its control messages.
    received: Vec<(usize, usize)>,
}

impl Batch {
    /// Room for so many datagrams of at most this length.
    pub(crate) fn new(slots: usize, slot_len: usize) -> Self {
        Self {
            slot_len,
            slots,
            bytes: vec![0; slots * slot_len],
            control: vec![0; slots * CONTROL_LEN / 8],
            received: Vec::with_capacity(slots),
        }
    }

    /// Receives what is there, without waiting; how many datagrams.
    pub(crate) fn receive(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        self.received.clear();
        // SAFETY: all zeros is a valid header and a valid vector: integers and null pointers.
        let (header, vector): (libc::mmsghdr, libc::iovec) = unsafe { std::mem::zeroed() };
        let mut vectors = vec![vector; self.slots];
        let mut headers = vec![header; self.slots];
        let places = self.bytes.chunks_exact_mut(self.slot_len);
        let controls = self.control.chunks_exact_mut(CONTROL_LEN / 8);
        let rows = headers.iter_mut().zip(&mut vectors).zip(places).zip(controls);
        for (((header, vector), place), control) in rows {
            vector.iov_base = place.as_mut_ptr().cast();
            vector.iov_len = place.len();
            header.msg_hdr.msg_iov = vector;
            header.msg_hdr.msg_iovlen = 1;
            header.msg_hdr.msg_control = control.as_mut_ptr().cast();
            // C libraries have their own types for lengths and flags.
            header.msg_hdr.msg_controllen = CONTROL_LEN as _;
        }
        let count = libc::c_uint::try_from(self.slots).map_err(io::Error::other)?;
        let flags = libc::MSG_DONTWAIT as _;
        let none = std::ptr::null_mut();
        // SAFETY: there are `count` headers. Each points to a vector of its own, and that to a slot
        // of its own, as long as told; all live through the call.
        let result =
            unsafe { libc::recvmmsg(socket.as_raw_fd(), headers.as_mut_ptr(), count, flags, none) };
        let count = usize::try_from(result).map_err(|_| io::Error::last_os_error())?;
        for header in headers.iter().take(count) {
            let len = (header.msg_len as usize).min(self.slot_len);
            let control: usize = header.msg_hdr.msg_controllen as _;
            self.received.push((len, control.min(CONTROL_LEN)));
        }
        Ok(count)
    }

    /// The datagrams that were received, each with its control messages.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let places = self.bytes.chunks_exact(self.slot_len);
        let controls = self.control.chunks_exact(CONTROL_LEN / 8);
        self.received.iter().zip(places.zip(controls)).map(|(&(len, control_len), both)| {
            let (place, control) = both;
            (place.get(..len).unwrap_or_default(), as_bytes(control, control_len))
        })
    }
}

/// The first bytes of words.
fn as_bytes(words: &[u64], len: usize) -> &[u8] {
    let len = len.min(size_of_val(words));
    // SAFETY: the bytes are those of the words, of which all values are valid; a byte is aligned
    // anywhere.
    unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), len) }
}

/// A datagram that is to be sent, in parts.
#[derive(Debug, Default)]
pub(crate) struct Outgoing<'a> {
    pub(crate) parts: [&'a [u8]; 4],
}

/// Sends datagrams without waiting; how many were sent. None of them: the first one's error.
pub(crate) fn send(socket: BorrowedFd<'_>, datagrams: &[Outgoing<'_>]) -> io::Result<usize> {
    // SAFETY: all zeros is a valid header: integers and null pointers.
    let header: libc::mmsghdr = unsafe { std::mem::zeroed() };
    let mut headers = vec![header; datagrams.len()];
    let mut vectors: Vec<[libc::iovec; 4]> = Vec::with_capacity(datagrams.len());
    for datagram in datagrams {
        vectors.push(datagram.parts.map(|part| libc::iovec {
            iov_base: part.as_ptr().cast_mut().cast(),
            iov_len: part.len(),
        }));
    }
    for (header, vector) in headers.iter_mut().zip(&mut vectors) {
        header.msg_hdr.msg_iov = vector.as_mut_ptr();
        header.msg_hdr.msg_iovlen = vector.len() as _;
    }
    let count = libc::c_uint::try_from(headers.len()).map_err(io::Error::other)?;
    let flags = libc::MSG_DONTWAIT as _;
    // SAFETY: there are `count` headers, each with the vectors of its own datagram, which point to
    // bytes that live through the call. The kernel reads them only.
    let result = unsafe { libc::sendmmsg(socket.as_raw_fd(), headers.as_mut_ptr(), count, flags) };
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}
