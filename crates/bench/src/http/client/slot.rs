//! A connection of the client: how far it is, and its next steps.

use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::Instant;

use tokio_rustls::rustls::ClientConfig;

use super::wire::Wire;
use crate::http::ask::Ask;
use crate::http::head::{self, Head};

/// Bytes of an answer's head at most.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// How far a connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Not connected until then.
    Resting(Instant),
    /// Waits for a turn; connected or not.
    Idle,
    Connecting,
    /// So many bytes of the CONNECT are written.
    Opening(usize),
    /// The CONNECT is written; the head of its answer comes.
    Opened,
    /// So many bytes of the request are written.
    Asking(usize),
    /// The request is written; the head of the answer comes.
    Head,
    /// So many bytes of the body are to come; none: until the server closes.
    Body(Option<u64>),
}

/// A connection and the request that it has under way.
pub(super) struct Slot {
    pub(super) stream: Option<Wire>,
    pub(super) phase: Phase,
    /// When the request was begun, or was due.
    pub(super) begun: Instant,
    /// Which of the plan's requests it is.
    pub(super) ask: usize,
    /// The request, as it goes over the wire.
    pub(super) request: Vec<u8>,
    /// The answer under way.
    pub(super) answer: Head,
    /// Bytes of its body that have come.
    pub(super) come: u64,
    /// The piece of a head that has come.
    head: Vec<u8>,
}

/// What a step found.
pub(super) enum Step {
    /// Wait for the next event.
    Wait,
    /// The answer is whole.
    Answered,
}

impl Slot {
    pub(super) fn new(phase: Phase, now: Instant) -> Slot {
        Slot {
            stream: None,
            phase,
            begun: now,
            ask: 0,
            request: Vec::new(),
            answer: Head::default(),
            come: 0,
            head: Vec::new(),
        }
    }

    /// A new connection is being made: nothing of the last one counts.
    pub(super) fn connecting(&mut self) {
        self.head.clear();
        self.phase = Phase::Connecting;
    }

    /// A request is under way.
    pub(super) fn is_busy(&self) -> bool {
        !matches!(self.phase, Phase::Resting(_) | Phase::Idle)
    }

    /// Goes on with this request until it has to wait or has its answer. `closed`: the system says
    /// that no more comes than what is there.
    pub(super) fn advance(
        &mut self,
        asked: (&Ask, Option<&Arc<ClientConfig>>),
        buffer: &mut [u8],
        closed: bool,
    ) -> io::Result<Step> {
        let Some(mut stream) = self.stream.take() else { return Ok(Step::Wait) };
        let step = self.advance_on(&mut stream, asked, buffer, closed);
        self.stream = Some(stream);
        step
    }

    fn advance_on(
        &mut self,
        stream: &mut Wire,
        (ask, tls): (&Ask, Option<&Arc<ClientConfig>>),
        buffer: &mut [u8],
        closed: bool,
    ) -> io::Result<Step> {
        if self.phase == Phase::Connecting {
            if let Some(error) = stream.socket.take_error()? {
                return Err(error);
            }
            match stream.socket.peer_addr() {
                Ok(_) => stream.socket.set_nodelay(true)?,
                Err(error) if error.kind() == ErrorKind::NotConnected => return Ok(Step::Wait),
                Err(error) => return Err(error),
            }
            self.phase = ask.connect.as_ref().map_or(Phase::Asking(0), |_| Phase::Opening(0));
        }
        stream.flush()?;
        if self.has_to_write() {
            if matches!(self.phase, Phase::Asking(_)) {
                stream.secure(ask, tls)?;
            }
            // The answer makes an event of its own; to look for it now is mostly in vain.
            if !self.write(stream, ask)? || !closed {
                return Ok(Step::Wait);
            }
        }
        loop {
            let count = match stream.read(buffer) {
                Ok(0) if self.phase == Phase::Body(None) => return Ok(Step::Answered),
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Step::Wait),
                Err(error) => return Err(error),
            };
            let piece = buffer.get(..count).unwrap_or_default();
            if self.take(piece)? {
                return Ok(Step::Answered);
            }
            if self.has_to_write() {
                stream.secure(ask, tls)?;
                if !self.write(stream, ask)? {
                    return Ok(Step::Wait);
                }
            }
            // Less than there was room for: nothing is left, and what comes next makes an event.
            if count < buffer.len() && !closed && !stream.is_secure() {
                return Ok(Step::Wait);
            }
        }
    }

    fn has_to_write(&self) -> bool {
        matches!(self.phase, Phase::Opening(_) | Phase::Asking(_))
    }

    /// Writes what is to be written; whether that was all.
    fn write(&mut self, stream: &mut Wire, ask: &Ask) -> io::Result<bool> {
        let connect = ask.connect.as_deref().unwrap_or_default();
        let (bytes, mut written, next) = match self.phase {
            Phase::Opening(written) => (connect, written, Phase::Opened),
            Phase::Asking(written) => (self.request.as_slice(), written, Phase::Head),
            _ => return Ok(true),
        };
        while let Some(rest) = bytes.get(written..).filter(|rest| !rest.is_empty()) {
            match stream.write(rest) {
                Ok(count) => written += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.phase = match next {
                        Phase::Opened => Phase::Opening(written),
                        _ => Phase::Asking(written),
                    };
                    return Ok(false);
                }
                Err(error) => return Err(error),
            }
        }
        self.phase = next;
        Ok(true)
    }

    /// Takes what was read; whether the answer is whole.
    fn take(&mut self, piece: &[u8]) -> io::Result<bool> {
        let mut body = piece.len() as u64;
        if matches!(self.phase, Phase::Head | Phase::Opened) {
            let found = if self.head.is_empty() {
                head::parse(piece)?
            } else {
                self.head.extend_from_slice(piece);
                head::parse(&self.head)?
            };
            let Some(found) = found else {
                if self.head.is_empty() {
                    self.head.extend_from_slice(piece);
                }
                if self.head.len() > HEAD_BYTES_MAX {
                    return Err(io::Error::other("an endless head of an answer"));
                }
                return Ok(false);
            };
            let all = self.head.len().max(piece.len());
            body = all.saturating_sub(found.bytes) as u64;
            self.head.clear();
            self.answer = found;
            self.come = 0;
            if self.phase == Phase::Opened {
                return self.opened(body);
            }
            self.phase = Phase::Body(found.length);
        }
        self.come += body;
        match self.phase {
            Phase::Body(Some(left)) if body > left => {
                Err(io::Error::other("the server said more than it announced"))
            }
            Phase::Body(Some(left)) => {
                self.phase = Phase::Body(Some(left - body));
                Ok(left == body)
            }
            _ => Ok(false),
        }
    }

    /// The proxy has answered the CONNECT: its refusal is the answer, else the request goes out.
    fn opened(&mut self, more: u64) -> io::Result<bool> {
        if !(200..300).contains(&self.answer.status) {
            self.answer.keep = false;
            return Ok(true);
        }
        if more > 0 {
            return Err(io::Error::other("a tunnel that speaks first"));
        }
        self.phase = Phase::Asking(0);
        Ok(false)
    }
}
