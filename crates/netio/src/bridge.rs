//! A bridge between two interfaces: what comes in on one side goes out on the other, unless it is
//! dropped.
//!
//! Frames are read and sent by batches of a system call, not by a ring: TPACKET_V3 hands a frame
//! over once its block is full or a millisecond is over. With each frame comes what is left to the
//! network card (checksums, large segments), and goes out again with it: segments are not cut here.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gauntlet_packet::{Frame, Link, Time};

use crate::answer::{Answer, Port, Received, Reply, ReplyTo};
use crate::capture::kernel_drops;
use crate::frame::{self, ADDRESSES, OFFLOAD_LEN, Offload, Tag};
use crate::messages;
use crate::statistics::Statistics;
use crate::sys::{self, Batch, Outgoing, Ready};

/// Frames of one system call.
const BATCH: usize = 64;
/// Longest frame: an IP packet of 64 KiB that the card is to cut, with its link layer.
const FRAME_LEN_MAX: usize = 65_536 + 128;
/// Bytes of a VLAN tag.
const TAG_LEN: u16 = 4;
/// How long a side may take no frame before those at hand are given up.
const SEND_WAIT: Duration = Duration::from_millis(20);

/// A thread's part of a bridge.
pub(crate) struct BridgePort {
    sides: [OwnedFd; 2],
    /// Numbers of their interfaces.
    interfaces: [Option<u32>; 2],
    link: Link,
    batch: Batch,
    statistics: Statistics,
}

/// A frame that goes on.
struct Onward {
    offload: Offload,
    tag: Option<Tag>,
    /// The whole frame, if bytes were changed.
    changed: Option<Vec<u8>>,
    /// Place in the batch.
    place: usize,
}

impl BridgePort {
    pub(crate) fn new(sides: [OwnedFd; 2], link: Link) -> Self {
        let batch = Batch::new(BATCH, OFFLOAD_LEN + FRAME_LEN_MAX);
        let number = |side: &OwnedFd| sys::bound_interface(side.as_fd()).ok().and_then(|it| it.0);
        let interfaces = sides.each_ref().map(number);
        Self { sides, interfaces, link, batch, statistics: Statistics::default() }
    }

    /// What has come to one side.
    fn side(
        &mut self,
        side: usize,
        handle: &mut dyn FnMut(&Received) -> Answer,
    ) -> io::Result<usize> {
        let Self { sides: [one, other], interfaces, link, batch, statistics } = self;
        let [first, second] = *interfaces;
        let (from, to) = if side == 0 { (one, other) } else { (other, one) };
        let (incoming, outgoing) = if side == 0 { (first, second) } else { (second, first) };
        match batch.receive(from.as_fd()) {
            Ok(0) => return Ok(0),
            Ok(_) => {}
            Err(error) => return no_frames(error),
        }
        let (mut onward, mut replies) = (Vec::with_capacity(BATCH), Vec::new());
        let frames: Vec<&[u8]> = batch.iter().map(|(bytes, _)| bytes).collect();
        for (place, (bytes, control)) in batch.iter().enumerate() {
            let Some((offload, bytes)) = bytes.split_first_chunk::<OFFLOAD_LEN>() else { continue };
            let beside = messages::control(control);
            let tag = beside.tag.filter(|_| *link == Link::Ethernet);
            let mut offload = Offload(*offload);
            let received = Received {
                incoming,
                outgoing,
                ..received(offload, bytes, tag, beside.time, *link)
            };
            offload = offload.moved(if tag.is_some() { TAG_LEN } else { 0 });
            statistics.frames += 1;
            statistics.bytes += u64::from(received.frame.original_len);
            let answer = handle(&received);
            replies.extend(answer.replies);
            if answer.is_dropped {
                continue;
            }
            let changed = answer.change.map(|change| {
                let mut whole = received.frame.bytes.to_vec();
                frame::change(&mut whole, &change, offload.is_partial());
                whole
            });
            onward.push(Onward { offload, tag, changed, place });
        }
        let outgoing: Vec<Outgoing<'_>> =
            onward.iter().map(|onward| parts(onward, &frames)).collect();
        let sent = send_all(to, &outgoing)?;
        statistics.sent += sent as u64;
        statistics.send_failures += (outgoing.len() - sent) as u64;
        let none = [0; OFFLOAD_LEN];
        for Reply { to: whom, bytes } in &replies {
            let socket = if *whom == ReplyTo::Source { &*from } else { &*to };
            let sent = send_all(socket, &[Outgoing { parts: [&none, bytes, &[], &[]] }])?;
            statistics.replies += sent as u64;
        }
        Ok(frames.len())
    }
}

fn received(
    offload: Offload,
    bytes: &[u8],
    tag: Option<Tag>,
    time: Option<Time>,
    link: Link,
) -> Received {
    let bytes = frame::whole(bytes, tag);
    let original_len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    let frame = Frame { number: 0, time: time.unwrap_or_else(now), link, bytes, original_len };
    let checksums_trusted = offload.is_trusted();
    Received { frame, checksums_trusted, incoming: None, outgoing: None }
}

/// The parts of a frame, without copying what was received.
fn parts<'a>(onward: &'a Onward, frames: &[&'a [u8]]) -> Outgoing<'a> {
    let offload = onward.offload.0.as_slice();
    if let Some(changed) = &onward.changed {
        return Outgoing { parts: [offload, changed, &[], &[]] };
    }
    let all = frames.get(onward.place).copied().unwrap_or_default();
    let bytes = all.get(OFFLOAD_LEN..).unwrap_or_default();
    match (&onward.tag, bytes.split_at_checked(ADDRESSES)) {
        (Some(tag), Some((addresses, rest))) => Outgoing { parts: [offload, addresses, tag, rest] },
        _ => Outgoing { parts: [offload, bytes, &[], &[]] },
    }
}

impl Port for BridgePort {
    fn turn(
        &mut self,
        wait: Duration,
        handle: &mut dyn FnMut(&Received) -> Answer,
    ) -> io::Result<usize> {
        let mut count = self.side(0, handle)? + self.side(1, handle)?;
        if count == 0 && !wait.is_zero() {
            let [one, other] = &self.sides;
            sys::poll(&[one.as_fd(), other.as_fd()], Ready::Read, wait)?;
            count = self.side(0, handle)? + self.side(1, handle)?;
        }
        Ok(count)
    }

    fn statistics(&mut self) -> Statistics {
        let drops: u64 = self.sides.iter().map(kernel_drops).sum();
        self.statistics.kernel_drops += drops;
        self.statistics
    }
}

/// Nothing is there, or nothing can be while the interface is down.
fn no_frames(error: io::Error) -> io::Result<usize> {
    match error.raw_os_error() {
        Some(libc::EAGAIN | libc::EINTR | libc::ENETDOWN) => Ok(0),
        _ => Err(error),
    }
}

/// Sends frames in order; how many were sent. A full queue is waited for a while; a frame that the
/// interface refuses (longer than its MTU) is left out.
fn send_all(socket: &OwnedFd, mut frames: &[Outgoing<'_>]) -> io::Result<usize> {
    let (mut sent, mut waited) = (0, false);
    while !frames.is_empty() {
        match sys::send(socket.as_fd(), frames) {
            Ok(count) => {
                sent += count;
                waited = false;
                frames = frames.get(count..).unwrap_or_default();
            }
            Err(error) => match error.raw_os_error() {
                Some(libc::EINTR) => {}
                Some(libc::EAGAIN | libc::ENOBUFS) if !waited => {
                    waited = true;
                    sys::poll(&[socket.as_fd()], Ready::Write, SEND_WAIT)?;
                }
                Some(libc::ENETDOWN) => return Ok(sent),
                Some(libc::ENXIO | libc::EBADF) => return Err(error),
                _ => {
                    waited = false;
                    frames = frames.get(1..).unwrap_or_default();
                }
            },
        }
    }
    Ok(sent)
}

/// Of a frame without a time of its own.
pub(crate) fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    frame::time(since.as_secs(), since.subsec_nanos().into())
}
