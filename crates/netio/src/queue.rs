//! NFQUEUE: packets that rules of nftables or iptables hand over, and their verdicts.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use gauntlet_packet::{Frame, Link};
use rustix::net::{SendFlags, sendto};

use crate::answer::{Answer, Port, Received};
use crate::bridge::now;
use crate::error::Error;
use crate::frame;
use crate::netlink::{self, Messages, Queued, Said};
use crate::settings::{QueueMode, Settings};
use crate::statistics::{QueueDrops, Statistics};
use crate::sys::{self, Batch, Outgoing, Ready};

/// Packets of one system call.
const BATCH: usize = 64;
/// Longest message: a packet of 64 KiB with its attributes.
const MESSAGE_LEN_MAX: usize = 65_536 + 1_024;
/// Bytes that wait in a socket, unless settings say otherwise.
pub(crate) const BUFFER_BYTES: u32 = 16 << 20;
/// `NETLINK_NO_ENOBUFS`: a full buffer is counted, and no error.
const NO_ENOBUFS: i32 = 5;
/// How long the kernel may take to answer.
const ANSWER_WAIT: Duration = Duration::from_secs(2);

/// Binds a queue to a socket of its own.
pub(crate) fn open(queue: u16, settings: &Settings) -> Result<OwnedFd, Error> {
    let denied = || Error::system("binding a queue", "CAP_NET_ADMIN");
    let socket = sys::socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_NETFILTER);
    let socket = socket.map_err(denied())?;
    sys::bind_netlink(socket.as_fd()).map_err(denied())?;
    let buffer = settings.buffer_bytes.unwrap_or(BUFFER_BYTES).to_ne_bytes();
    let one = 1u32.to_ne_bytes();
    for (level, name, value) in
        [(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &buffer), (libc::SOL_NETLINK, NO_ENOBUFS, &one)]
    {
        sys::set_option(socket.as_fd(), level, name, value).map_err(denied())?;
    }
    let was_bound = QueueDrops::open().is_ok_and(|mut queues| queues.is_bound(queue));
    let mut messages = Messages::default();
    messages.bind(queue);
    ask(&socket, &messages).map_err(|error| match error.raw_os_error() {
        Some(libc::EPERM | libc::EBUSY | libc::EEXIST) if was_bound => Error::QueueTaken(queue),
        _ => denied()(error),
    })?;
    messages.clear();
    let fail_open = if settings.queue.fail_open { netlink::FAIL_OPEN } else { 0 };
    let flags = netlink::GSO | fail_open;
    let mask = netlink::GSO | netlink::FAIL_OPEN;
    messages.configure(queue, settings.queue.length, flags, mask);
    ask(&socket, &messages).map_err(denied())?;
    Ok(socket)
}

/// Sends messages, and waits for the kernel's answer to them.
pub(crate) fn ask(socket: &OwnedFd, messages: &Messages) -> io::Result<()> {
    send(socket, messages)?;
    let mut batch = Batch::new(1, MESSAGE_LEN_MAX);
    loop {
        sys::poll(&[socket.as_fd()], Ready::Read, ANSWER_WAIT)?;
        batch.receive(socket.as_fd())?;
        let mut answer = None;
        for (datagram, _) in batch.iter() {
            netlink::each(datagram, &mut |said| {
                if let Said::Result(number) = said {
                    answer = Some(number);
                }
            });
        }
        match answer {
            Some(0) => return Ok(()),
            Some(number) => return Err(io::Error::from_raw_os_error(number)),
            None => {}
        }
    }
}

pub(crate) fn send(socket: &OwnedFd, messages: &Messages) -> io::Result<()> {
    loop {
        let parts = [messages.bytes(), &[], &[], &[]];
        match sys::send(socket.as_fd(), &[Outgoing { parts }]) {
            Err(error) if error.raw_os_error() == Some(libc::EINTR) => {}
            result => return result.map(|_| ()),
        }
    }
}

/// One queue.
pub(crate) struct QueuePort {
    queue: u16,
    socket: OwnedFd,
    /// For replies: IPv4 and IPv6, with a header of ours.
    raw: [OwnedFd; 2],
    settings: Settings,
    /// What becomes of packets that a process before this one took and left without a verdict.
    leftover: Option<u32>,
    batch: Batch,
    statistics: Statistics,
}

impl QueuePort {
    pub(crate) fn new(
        queue: u16,
        socket: OwnedFd,
        raw: [OwnedFd; 2],
        settings: &Settings,
        passes_leftover: bool,
    ) -> Self {
        let leftover = if passes_leftover { netlink::ACCEPT } else { netlink::DROP };
        Self {
            queue,
            socket,
            raw,
            settings: settings.clone(),
            leftover: Some(leftover),
            batch: Batch::new(BATCH, MESSAGE_LEN_MAX),
            statistics: Statistics::default(),
        }
    }

    fn packets(&mut self, handle: &mut dyn FnMut(&Received) -> Answer) -> io::Result<usize> {
        match self.batch.receive(self.socket.as_fd()) {
            Ok(0) => return Ok(0),
            Ok(_) => {}
            Err(error) => match error.raw_os_error() {
                Some(libc::EAGAIN | libc::EINTR | libc::ENOBUFS) => return Ok(0),
                _ => return Err(error),
            },
        }
        let mut verdicts = Verdicts::new(self.queue, self.settings.queue.batch);
        let mut count = 0;
        let (mut sent, mut replies) = (0, Vec::new());
        for (datagram, _) in self.batch.iter() {
            netlink::packets(datagram, &mut |packet| {
                if let Some(leftover) = self.leftover.take() {
                    verdicts.leftover(packet.id.wrapping_sub(1), leftover);
                }
                count += 1;
                let received = received(&packet);
                self.statistics.frames += 1;
                self.statistics.bytes += u64::from(received.frame.original_len);
                let answer = handle(&received);
                sent += u64::from(!answer.is_dropped);
                verdicts.add(&packet, &answer, &self.settings);
                replies.extend(answer.replies);
            });
        }
        send(&self.socket, verdicts.finish())?;
        self.statistics.sent += sent;
        for reply in &replies {
            self.statistics.replies += u64::from(self.reply(&reply.bytes));
        }
        Ok(count)
    }

    /// Sends an IP packet of ours, as the machine routes it; whether it went.
    fn reply(&self, packet: &[u8]) -> bool {
        let [v4, v6] = &self.raw;
        let address = |from: usize, len: usize| packet.get(from..from + len);
        let (socket, to) = match packet.first().map(|byte| byte >> 4) {
            Some(4) => match address(16, 4).and_then(|bytes| <[u8; 4]>::try_from(bytes).ok()) {
                Some(to) => (v4, SocketAddr::from((to, 0))),
                None => return false,
            },
            _ => match address(24, 16).and_then(|bytes| <[u8; 16]>::try_from(bytes).ok()) {
                Some(to) => (v6, SocketAddr::from((to, 0))),
                None => return false,
            },
        };
        sendto(socket, packet, SendFlags::empty(), &to).is_ok()
    }
}

fn received(packet: &Queued<'_>) -> Received {
    let len = u32::try_from(packet.payload.len()).unwrap_or(u32::MAX);
    let frame = Frame {
        number: 0,
        time: packet.time.unwrap_or_else(now),
        link: Link::Raw,
        bytes: packet.payload.into(),
        original_len: packet.original_len.unwrap_or(len),
    };
    Received {
        frame,
        checksums_trusted: packet.is_partial,
        incoming: packet.incoming,
        outgoing: packet.outgoing,
    }
}

impl Port for QueuePort {
    fn turn(
        &mut self,
        wait: Duration,
        handle: &mut dyn FnMut(&Received) -> Answer,
    ) -> io::Result<usize> {
        let count = self.packets(handle)?;
        if count > 0 || wait.is_zero() {
            return Ok(count);
        }
        sys::poll(&[self.socket.as_fd()], Ready::Read, wait)?;
        self.packets(handle)
    }

    /// Drops of the kernel are in [`QueueDrops`].
    fn statistics(&mut self) -> Statistics {
        self.statistics
    }
}

/// Verdicts of a batch. One that many packets in a row get is said once.
struct Verdicts {
    queue: u16,
    messages: Messages,
    /// Of the packets up to this id, so many of them: verdict and mark.
    open: Option<(u32, u32, Option<u32>, u16)>,
    /// Packets of one message at most.
    most: u16,
}

impl Verdicts {
    fn new(queue: u16, most: u16) -> Self {
        Self { queue, messages: Messages::default(), open: None, most }
    }

    /// On packets that came before all of this process's.
    fn leftover(&mut self, id: u32, verdict: u32) {
        self.messages.verdict_up_to(self.queue, id, verdict, None);
    }

    fn add(&mut self, packet: &Queued<'_>, answer: &Answer, settings: &Settings) {
        let (verdict, mark) = verdict(packet, answer, settings);
        if let Some(change) = answer.change.as_ref().filter(|_| !answer.is_dropped) {
            self.close();
            let mut bytes = packet.payload.to_vec();
            frame::change(&mut bytes, change, packet.is_partial);
            self.messages.verdict(self.queue, packet.id, verdict, mark, Some(&bytes));
            return;
        }
        if let Some((id, open, open_mark, count)) = &mut self.open
            && *open == verdict
            && *open_mark == mark
            && *count < self.most
        {
            (*id, *count) = (packet.id, *count + 1);
            return;
        }
        self.close();
        self.open = Some((packet.id, verdict, mark, 1));
    }

    fn close(&mut self) {
        match self.open.take() {
            Some((id, verdict, mark, 1)) => {
                self.messages.verdict(self.queue, id, verdict, mark, None);
            }
            Some((id, verdict, mark, _)) => {
                self.messages.verdict_up_to(self.queue, id, verdict, mark);
            }
            None => {}
        }
    }

    fn finish(&mut self) -> &Messages {
        self.close();
        &self.messages
    }
}

/// Verdict and mark of a packet.
fn verdict(packet: &Queued<'_>, answer: &Answer, settings: &Settings) -> (u32, Option<u32>) {
    if answer.is_dropped {
        return (netlink::DROP, None);
    }
    let queue = &settings.queue;
    let set = |mark: u32, mask: u32| (packet.mark & !mask) | (mark & mask);
    let bypass = answer.bypass && queue.bypass_mask != 0;
    let bypassed = bypass.then(|| set(queue.bypass_mark, queue.bypass_mask));
    match queue.mode {
        QueueMode::Accept => (netlink::ACCEPT, bypassed),
        QueueMode::Route => (netlink::QUEUE | u32::from(queue.route_queue) << 16, bypassed),
        QueueMode::Repeat => {
            let mask = queue.repeat_mask;
            let mark = (bypassed.unwrap_or(packet.mark) & !mask) | (queue.repeat_mark & mask);
            (netlink::REPEAT, Some(mark))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(id: u32, mark: u32) -> Queued<'static> {
        Queued { id, mark, payload: &[0x45], ..Queued::default() }
    }

    #[test]
    fn marks_are_set_below_their_masks() {
        let mut settings = Settings::default();
        settings.queue.bypass_mark = 1;
        settings.queue.bypass_mask = 3;
        let passes = Answer { bypass: true, ..Answer::default() };
        assert_eq!(verdict(&packet(1, 0xf2), &passes, &settings), (1, Some(0xf1)));
        assert_eq!(verdict(&packet(1, 0xf2), &Answer::pass(), &settings), (1, None));
        settings.queue.mode = QueueMode::Repeat;
        settings.queue.repeat_mark = 0x10;
        settings.queue.repeat_mask = 0x10;
        assert_eq!(verdict(&packet(1, 0x2), &passes, &settings), (4, Some(0x11)));
        settings.queue.mode = QueueMode::Route;
        settings.queue.route_queue = 7;
        assert_eq!(verdict(&packet(1, 0), &Answer::pass(), &settings), (3 | 7 << 16, None));
        assert_eq!(verdict(&packet(1, 0), &Answer::drop(), &settings), (0, None));
    }

    #[test]
    fn packets_in_a_row_share_a_message() {
        let settings = Settings::default();
        let mut verdicts = Verdicts::new(0, 255);
        for id in 1..=40 {
            verdicts.add(&packet(id, 0), &Answer::pass(), &settings);
        }
        verdicts.add(&packet(41, 0), &Answer::drop(), &settings);
        let both = verdicts.finish().bytes().len();
        assert_eq!(both, 2 * (16 + 4 + 12));
    }
}
