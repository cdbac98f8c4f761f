//! Capture: a ring of blocks that the kernel fills with copies of an interface's frames.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use gauntlet_packet::{Frame, Link};

use crate::answer::{Answer, Port, Received, Reply};
use crate::frame;
use crate::messages::{word16, word32};
use crate::settings::Settings;
use crate::statistics::Statistics;
use crate::sys::{self, Outgoing, Ready, Ring};

/// Length of `struct tpacket3_hdr`, behind which the address is.
const HEADER_LEN: usize = 48;
/// `TP_FT_REQ_FILL_RXHASH` and others are not asked for.
const NO_FEATURES: u32 = 0;
/// What a frame takes in a ring at the most counts as this many bytes when rings are sized.
const FRAME_LEN: usize = 2048;
/// `PACKET_OUTGOING`: the machine sent it itself.
const OUTGOING: u8 = 4;

/// A thread's part of what passes an interface.
pub(crate) struct CapturePort {
    ring: Ring,
    socket: OwnedFd,
    link: Link,
    /// What the machine sends is seen again when it comes back.
    is_loopback: bool,
    next: usize,
    statistics: Statistics,
}

impl CapturePort {
    /// Makes a ring for a socket that is bound; one that an earlier process made is replaced.
    pub(crate) fn new(
        socket: OwnedFd,
        link: Link,
        is_loopback: bool,
        settings: &Settings,
    ) -> io::Result<Self> {
        let packet =
            |name, value: &[u8]| sys::set_option(socket.as_fd(), libc::SOL_PACKET, name, value);
        // The ring of an earlier process, if there was one.
        packet(libc::PACKET_RX_RING, &request(0, 0, settings))?;
        let version = (libc::tpacket_versions::TPACKET_V3 as libc::c_int).to_ne_bytes();
        packet(libc::PACKET_VERSION, &version)?;
        let block = settings.block_bytes;
        let blocks = (settings.ring_frames.saturating_mul(FRAME_LEN) / block).max(2);
        packet(libc::PACKET_RX_RING, &request(block, blocks, settings))?;
        let ring = Ring::map(socket.as_fd(), block, blocks)?;
        let statistics = Statistics::default();
        Ok(Self { ring, socket, link, is_loopback, next: 0, statistics })
    }
}

/// `struct tpacket_req3`.
fn request(block: usize, blocks: usize, settings: &Settings) -> [u8; 28] {
    let frames = block / FRAME_LEN * blocks;
    let frame_len = if blocks == 0 { 0 } else { FRAME_LEN };
    let mut bytes = [0; 28];
    let words = [block, blocks, frame_len, frames, settings.block_millis as usize, 0];
    let words = words.map(|word| u32::try_from(word).unwrap_or(u32::MAX));
    for (place, word) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(words) {
        *place = word.to_ne_bytes();
    }
    if let Some(features) = bytes.last_chunk_mut::<4>() {
        *features = NO_FEATURES.to_ne_bytes();
    }
    bytes
}

impl Port for CapturePort {
    fn turn(
        &mut self,
        wait: Duration,
        handle: &mut dyn FnMut(&Received) -> Answer,
    ) -> io::Result<usize> {
        if self.ring.block(self.next).is_none()
            && sys::poll(&[self.socket.as_fd()], Ready::Read, wait)?
        {
            // The interface went down or away; reading the error forgets it.
            let mut error = [0; 4];
            sys::option(self.socket.as_fd(), libc::SOL_SOCKET, libc::SO_ERROR, &mut error)?;
            if sys::bound_interface(self.socket.as_fd())?.0.is_none() {
                return Err(io::Error::from_raw_os_error(libc::ENODEV));
            }
        }
        let Some(block) = self.ring.block(self.next) else { return Ok(0) };
        let (link, is_loopback) = (self.link, self.is_loopback);
        let statistics = &mut self.statistics;
        let mut count = 0;
        let mut replies = Vec::new();
        walk_block(block, link, is_loopback, &mut |received| {
            count += 1;
            statistics.frames += 1;
            statistics.bytes += u64::from(received.frame.original_len);
            replies.extend(handle(&received).replies);
        });
        self.ring.release(self.next);
        self.next = (self.next + 1) % self.ring.blocks();
        for Reply { bytes, .. } in &replies {
            let sent =
                sys::send(self.socket.as_fd(), &[Outgoing { parts: [bytes, &[], &[], &[]] }]);
            self.statistics.replies += u64::from(sent.is_ok());
        }
        Ok(count)
    }

    fn statistics(&mut self) -> Statistics {
        self.statistics.kernel_drops += kernel_drops(&self.socket);
        self.statistics
    }
}

/// Frames of a packet socket that were lost for want of room, since it was last asked.
pub(crate) fn kernel_drops(socket: &OwnedFd) -> u64 {
    let mut bytes = [0; 12];
    match sys::option(socket.as_fd(), libc::SOL_PACKET, libc::PACKET_STATISTICS, &mut bytes) {
        Ok(_) => word32(&bytes, 4).into(),
        Err(_) => 0,
    }
}

/// The frames of a block (`struct tpacket_block_desc`). Ends where the block contradicts itself.
pub fn walk_block(block: &[u8], link: Link, is_loopback: bool, take: &mut dyn FnMut(Received)) {
    let count = word32(block, 12);
    let mut at = word32(block, 16) as usize;
    for _ in 0..count {
        let Some(header) = block.get(at..).filter(|rest| rest.len() >= HEADER_LEN) else { return };
        let (next, status) = (word32(header, 0) as usize, word32(header, 20));
        let (captured, len) = (word32(header, 12) as usize, word32(header, 16));
        let from = usize::from(word16(header, 24));
        let Some(bytes) = header.get(from..).and_then(|rest| rest.get(..captured)) else { return };
        let kind = header.get(HEADER_LEN + 10).copied().unwrap_or_default();
        if !(is_loopback && kind == OUTGOING) {
            let tag = frame::tag(status, word32(header, 32) as u16, word16(header, 36));
            let tag = tag.filter(|_| link == Link::Ethernet);
            let bytes: Arc<[u8]> = frame::whole(bytes, tag);
            let tag_len = u32::from(tag.is_some()) * 4;
            let time = frame::time(word32(header, 4).into(), word32(header, 8).into());
            let original_len = len.saturating_add(tag_len);
            let frame = Frame { number: 0, time, link, bytes, original_len };
            let trusted = frame::CHECKSUM_NOT_READY | frame::CHECKSUM_VALID;
            let checksums_trusted = status & trusted != 0;
            take(Received { frame, checksums_trusted, incoming: None, outgoing: None });
        }
        if next == 0 {
            return;
        }
        at = at.saturating_add(next);
    }
}
