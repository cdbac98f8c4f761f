//! An HTTP/1.1 client in closed loop: so many connections, each asks again when it was answered.
//!
//! One event loop a thread and one read and one write a request, no pipelining, so that the client
//! is seldom the limit. Whether it was is for [`crate::load::health`] to say.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use hdrhistogram::Histogram;
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};

use super::head::{self, Head};
use crate::histogram::latency_histogram;

/// Bytes read at once.
const READ_BYTES: usize = 256 << 10;
/// Bytes of an answer's head at most.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// Pause of a connection that failed.
const REST: Duration = Duration::from_millis(50);
/// How often waits are looked at.
const SWEEP: Duration = Duration::from_millis(25);
/// Different errors that are kept.
const ERRORS_MAX: usize = 8;
/// Events taken at once.
const EVENTS: usize = 1_024;

/// What is asked, of whom, and by how many.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Address and port of the server.
    pub target: SocketAddr,
    /// Value of the Host field.
    pub host: String,
    /// Path and query that are requested.
    pub path: String,
    /// Connections open at the same time.
    pub connections: usize,
    /// Ask again over the same connection.
    pub keep_alive: bool,
    /// Time before the measurement that is not counted.
    pub warm_up: Duration,
    /// Time that is measured, after the warm-up.
    pub time: Duration,
    /// Longest wait for an answer.
    pub timeout: Duration,
    /// Threads of the client.
    pub threads: usize,
    /// Answers after which a thread stops; 0 for no limit.
    pub requests: u64,
}

impl Plan {
    fn request(&self) -> Vec<u8> {
        let connection = if self.keep_alive { "" } else { "Connection: close\r\n" };
        let Plan { path, host, .. } = self;
        format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{connection}\r\n").into_bytes()
    }
}

/// What came of it.
#[derive(Debug)]
pub struct Counts {
    /// Whole answers with a status below 400.
    pub answered: u64,
    /// Requests with a status of 400 and above, or without a whole answer.
    pub failed: u64,
    /// Of those, for want of something on the client's side.
    pub dropped: u64,
    /// Bytes of all answers, without their headers.
    pub body_bytes: u64,
    /// From asking (or from connecting, for a new connection) to the last byte, in nanoseconds.
    pub latency: Histogram<u64>,
    /// Errors with how often each came.
    pub errors: BTreeMap<String, u64>,
    /// Failures by the server's own doing: it refused the connection or broke it off.
    pub broken_off: u64,
    /// Seconds in which that was counted.
    pub seconds: f64,
    /// Seconds until the client had asked for all connections.
    pub opening_seconds: f64,
}

impl Counts {
    fn new() -> anyhow::Result<Self> {
        Ok(Counts {
            answered: 0,
            failed: 0,
            dropped: 0,
            body_bytes: 0,
            latency: latency_histogram()?,
            errors: BTreeMap::new(),
            broken_off: 0,
            seconds: 0.0,
            opening_seconds: 0.0,
        })
    }

    fn add(&mut self, other: &Counts) -> anyhow::Result<()> {
        self.answered += other.answered;
        self.failed += other.failed;
        self.dropped += other.dropped;
        self.body_bytes += other.body_bytes;
        self.latency.add(&other.latency)?;
        self.broken_off += other.broken_off;
        for (error, count) in &other.errors {
            *self.errors.entry(error.clone()).or_default() += count;
        }
        self.seconds = self.seconds.max(other.seconds);
        self.opening_seconds = self.opening_seconds.max(other.opening_seconds);
        Ok(())
    }
}

/// Asks as planned.
///
/// # Errors
/// If threads or event loops cannot be had.
pub fn run(plan: &Plan) -> anyhow::Result<Counts> {
    let start = Instant::now() + plan.warm_up;
    let threads = plan.threads.clamp(1, plan.connections.max(1));
    let mut all = Counts::new()?;
    std::thread::scope(|scope| {
        let spread = plan.connections / threads;
        let more = plan.connections % threads;
        let workers: Vec<_> = (0..threads)
            .map(|n| {
                let connections = spread + usize::from(n < more);
                scope.spawn(move || Worker::new(plan, connections, start)?.run())
            })
            .collect();
        for worker in workers {
            all.add(&worker.join().map_err(|_| anyhow!("a thread of the client failed"))??)?;
        }
        anyhow::Ok(())
    })?;
    Ok(all)
}

/// How far a connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Not connected until then.
    Resting(Instant),
    Connecting,
    /// So many bytes of the request are written.
    Asking(usize),
    /// The request is written; the head of the answer comes.
    Head,
    /// So many bytes of the body are to come; none: until the server closes.
    Body(Option<u64>),
}

struct Slot {
    stream: Option<TcpStream>,
    state: State,
    begun: Instant,
}

struct State {
    phase: Phase,
    /// The piece of a head that has come.
    head: Vec<u8>,
    /// The answer under way.
    answer: Head,
    /// Bytes of its body that have come.
    come: u64,
}

/// What a step found.
enum Step {
    /// Wait for the next event.
    Wait,
    /// The answer is whole.
    Answered,
}

struct Worker<'a> {
    plan: &'a Plan,
    request: Vec<u8>,
    poll: Poll,
    slots: Vec<Slot>,
    counts: Counts,
    start: Instant,
    end: Instant,
    buffer: Vec<u8>,
}

impl<'a> Worker<'a> {
    fn new(plan: &'a Plan, connections: usize, start: Instant) -> anyhow::Result<Self> {
        let now = Instant::now();
        let slot = || Slot {
            stream: None,
            state: State {
                phase: Phase::Resting(now),
                head: Vec::new(),
                answer: Head::default(),
                come: 0,
            },
            begun: now,
        };
        Ok(Worker {
            plan,
            request: plan.request(),
            poll: Poll::new().context("cannot make an event loop")?,
            slots: std::iter::repeat_with(slot).take(connections).collect(),
            counts: Counts::new()?,
            start,
            end: start + plan.time,
            buffer: vec![0; READ_BYTES],
        })
    }

    fn run(mut self) -> anyhow::Result<Counts> {
        let mut events = Events::with_capacity(EVENTS);
        let mut swept = Instant::now();
        self.sweep(swept);
        self.counts.opening_seconds = swept.elapsed().as_secs_f64();
        let limit = if self.plan.requests == 0 { u64::MAX } else { self.plan.requests };
        while self.counts.answered + self.counts.failed < limit {
            match self.poll.poll(&mut events, Some(SWEEP)) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error).context("the event loop failed"),
            }
            for event in &events {
                let Token(number) = event.token();
                let closed = event.is_read_closed() || event.is_error();
                self.step(number, closed);
            }
            let now = Instant::now();
            if now >= self.end {
                break;
            }
            if now - swept >= SWEEP {
                self.sweep(now);
                swept = now;
            }
        }
        // A request that waits longer than the whole run has failed, too.
        let now = Instant::now();
        let late = |slot: &&Slot| slot.stream.is_some() && now - slot.begun >= self.plan.timeout;
        self.counts.failed += self.slots.iter().filter(late).count() as u64;
        self.counts.seconds = now.saturating_duration_since(self.start).as_secs_f64();
        Ok(self.counts)
    }

    /// Connects who may, and gives up who waited too long.
    fn sweep(&mut self, now: Instant) {
        for number in 0..self.slots.len() {
            let Some(slot) = self.slots.get(number) else { return };
            match slot.state.phase {
                Phase::Resting(until) if until <= now => self.connect(number),
                Phase::Resting(_) => {}
                _ if now - slot.begun >= self.plan.timeout => {
                    self.fail(number, &io::Error::from(ErrorKind::TimedOut));
                }
                _ => {}
            }
        }
    }

    fn connect(&mut self, number: usize) {
        let Some(slot) = self.slots.get_mut(number) else { return };
        slot.begun = Instant::now();
        slot.state.head.clear();
        slot.state.phase = Phase::Connecting;
        let connected = TcpStream::connect(self.plan.target).and_then(|mut stream| {
            let both = Interest::READABLE | Interest::WRITABLE;
            self.poll.registry().register(&mut stream, Token(number), both)?;
            slot.stream = Some(stream);
            Ok(())
        });
        if let Err(error) = connected {
            self.fail(number, &error);
        }
    }

    /// Goes on with a connection as far as it goes.
    fn step(&mut self, number: usize, closed: bool) {
        loop {
            let Some(slot) = self.slots.get_mut(number) else { return };
            match advance(slot, &self.request, &mut self.buffer, closed) {
                Ok(Step::Wait) => return,
                Ok(Step::Answered) => self.answered(number),
                Err(error) => return self.fail(number, &error),
            }
        }
    }

    /// Counts an answer and asks again.
    fn answered(&mut self, number: usize) {
        let Some(slot) = self.slots.get_mut(number) else { return };
        let now = Instant::now();
        if slot.state.answer.status >= 400 {
            let status = slot.state.answer.status;
            return self.fail(number, &io::Error::other(format!("HTTP status {status}")));
        }
        if now >= self.start {
            self.counts.answered += 1;
            self.counts.body_bytes += slot.state.come;
            let nanos = u64::try_from((now - slot.begun).as_nanos()).unwrap_or(u64::MAX);
            self.counts.latency.saturating_record(nanos);
        }
        if self.plan.keep_alive && slot.state.answer.keep {
            slot.begun = now;
            slot.state.phase = Phase::Asking(0);
        } else {
            slot.stream = None;
            self.connect(number);
        }
    }

    fn fail(&mut self, number: usize, error: &io::Error) {
        let now = Instant::now();
        if let Some(slot) = self.slots.get_mut(number) {
            slot.stream = None;
            slot.state.phase = Phase::Resting(now + REST);
        }
        if now < self.start {
            return;
        }
        self.counts.failed += 1;
        let ours = [libc::EMFILE, libc::ENFILE, libc::EADDRNOTAVAIL, libc::ENOMEM, libc::ENOBUFS];
        let is_ours = error.raw_os_error().is_some_and(|number| ours.contains(&number));
        self.counts.dropped += u64::from(is_ours);
        let by_server = matches!(
            error.kind(),
            ErrorKind::ConnectionRefused
                | ErrorKind::ConnectionReset
                | ErrorKind::ConnectionAborted
                | ErrorKind::BrokenPipe
                | ErrorKind::UnexpectedEof
        );
        self.counts.broken_off += u64::from(by_server);
        let text = error.to_string();
        let known = self.counts.errors.contains_key(&text);
        if known || self.counts.errors.len() < ERRORS_MAX {
            *self.counts.errors.entry(text).or_default() += 1;
        }
    }
}

/// A connection's next steps, until it has to wait or has its answer. `closed`: the system says
/// that no more comes than what is there.
fn advance(slot: &mut Slot, request: &[u8], buffer: &mut [u8], closed: bool) -> io::Result<Step> {
    let Slot { stream, state, .. } = slot;
    let Some(stream) = stream else { return Ok(Step::Wait) };
    let mut stream: &TcpStream = stream;
    if state.phase == Phase::Connecting {
        if let Some(error) = stream.take_error()? {
            return Err(error);
        }
        match stream.peer_addr() {
            Ok(_) => stream.set_nodelay(true)?,
            Err(error) if error.kind() == ErrorKind::NotConnected => return Ok(Step::Wait),
            Err(error) => return Err(error),
        }
        state.phase = Phase::Asking(0);
    }
    if let Phase::Asking(mut written) = state.phase {
        while let Some(rest) = request.get(written..).filter(|rest| !rest.is_empty()) {
            match stream.write(rest) {
                Ok(count) => written += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    state.phase = Phase::Asking(written);
                    return Ok(Step::Wait);
                }
                Err(error) => return Err(error),
            }
        }
        state.phase = Phase::Head;
        // The answer makes an event of its own; to look for it now is mostly in vain.
        if !closed {
            return Ok(Step::Wait);
        }
    }
    loop {
        let count = match stream.read(buffer) {
            Ok(0) if state.phase == Phase::Body(None) => return Ok(Step::Answered),
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Step::Wait),
            Err(error) => return Err(error),
        };
        let piece = buffer.get(..count).unwrap_or_default();
        if take(state, piece)? {
            return Ok(Step::Answered);
        }
        // Less than there was room for: nothing is left, and what comes next makes an event.
        if count < buffer.len() && !closed {
            return Ok(Step::Wait);
        }
    }
}

/// Takes what was read; whether the answer is whole.
fn take(state: &mut State, piece: &[u8]) -> io::Result<bool> {
    let mut body = piece.len() as u64;
    if state.phase == Phase::Head {
        let found = if state.head.is_empty() {
            head::parse(piece)?
        } else {
            state.head.extend_from_slice(piece);
            head::parse(&state.head)?
        };
        let Some(found) = found else {
            if state.head.is_empty() {
                state.head.extend_from_slice(piece);
            }
            if state.head.len() > HEAD_BYTES_MAX {
                return Err(io::Error::other("an endless head of an answer"));
            }
            return Ok(false);
        };
        let all = state.head.len().max(piece.len());
        body = all.saturating_sub(found.bytes) as u64;
        state.head.clear();
        state.answer = found;
        state.come = 0;
        state.phase = Phase::Body(found.length);
    }
    state.come += body;
    match state.phase {
        Phase::Body(Some(left)) if body > left => {
            Err(io::Error::other("the server said more than it announced"))
        }
        Phase::Body(Some(left)) => {
            state.phase = Phase::Body(Some(left - body));
            Ok(left == body)
        }
        _ => Ok(false),
    }
}
