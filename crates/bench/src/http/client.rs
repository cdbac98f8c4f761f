//! An HTTP/1.1 client of so many connections. In closed loop each asks again when it was answered;
//! in open loop request n is due at n / rate whatever the server does, and its latency counts from
//! then.
//!
//! One event loop a thread and one read and one write a request, no pipelining, and no more of HTTP
//! than is measured, so that the client is cheaper than the servers: it has neither the tasks nor
//! the header maps of a library's client. Whether it was the limit is for [`crate::load::health`]
//! to say.

mod slot;
mod turns;
mod wire;

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use hdrhistogram::Histogram;
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use tokio_rustls::rustls::ClientConfig;

use super::ask::{Ask, Right};
use crate::histogram::latency_histogram;
use slot::{Phase, Slot, Step};
use turns::Turns;
use wire::Wire;

/// Bytes read at once.
const READ_BYTES: usize = 256 << 10;
/// Pause of a connection that failed.
const REST: Duration = Duration::from_millis(50);
/// How often waits are looked at.
const SWEEP: Duration = Duration::from_millis(25);
/// Different errors that are kept.
const ERRORS_MAX: usize = 8;
/// Events taken at once.
const EVENTS: usize = 1_024;
/// The event that turns have become due.
const WAKER: Token = Token(usize::MAX);

/// What is asked, of whom, and by how many.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Address and port of the server.
    pub target: SocketAddr,
    /// What is asked, one after the other, again and again.
    pub asks: Arc<[Ask]>,
    /// Connections open at the same time.
    pub connections: usize,
    /// Requests/s of an open loop; none is a closed loop.
    pub rate: Option<f64>,
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
    /// How TLS is spoken where requests want it; none speaks none.
    pub tls: Option<Arc<ClientConfig>>,
}

/// What came of it.
#[derive(Debug)]
pub struct Counts {
    /// Whole answers that were as expected, in time.
    pub answered: u64,
    /// Of those, refusals by a proxy that were expected.
    pub blocked: u64,
    /// Open loop: answers as expected after the time was over. Their latency counts.
    pub late: u64,
    /// Open loop: requests that were due and could not be begun, as all connections were busy.
    pub unsent: u64,
    /// Requests with another answer than expected, or without a whole one.
    pub failed: u64,
    /// Of those, for want of something on the client's side.
    pub dropped: u64,
    /// Bytes of all answers, without their headers.
    pub body_bytes: u64,
    /// To the last byte, in nanoseconds: from asking, from connecting for a new connection; in open
    /// loop from when the request was due.
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
            blocked: 0,
            late: 0,
            unsent: 0,
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
        self.blocked += other.blocked;
        self.late += other.late;
        self.unsent += other.unsent;
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
/// If threads or event loops cannot be had, or nothing is to be asked.
pub fn run(plan: &Plan) -> anyhow::Result<Counts> {
    let start = Instant::now() + plan.warm_up;
    let threads = plan.threads.clamp(1, plan.connections.max(1));
    let polls = (0..threads).map(|_| Poll::new()).collect::<io::Result<Vec<_>>>();
    let polls = polls.context("cannot make an event loop")?;
    let turns = plan.rate.map(|rate| Turns::start(plan, rate, start, &polls)).transpose()?;
    let mut all = Counts::new()?;
    std::thread::scope(|scope| {
        let spread = plan.connections / threads;
        let more = plan.connections % threads;
        let (turns, every) = (turns.as_ref(), (plan.asks.len() / threads).max(1));
        let workers: Vec<_> = polls
            .into_iter()
            .enumerate()
            .map(|(n, poll)| {
                let connections = spread + usize::from(n < more);
                let first = n * every;
                let worker = Worker::new(plan, poll, turns, (connections, first), start);
                scope.spawn(move || worker?.run())
            })
            .collect();
        for worker in workers {
            all.add(&worker.join().map_err(|_| anyhow!("a thread of the client failed"))??)?;
        }
        anyhow::Ok(())
    })?;
    all.unsent = turns.map_or(0, Turns::end);
    Ok(all)
}

struct Worker<'a> {
    plan: &'a Plan,
    /// The open loop's; none in closed loop.
    turns: Option<&'a Turns>,
    poll: Poll,
    slots: Vec<Slot>,
    /// Open loop: connections without a request, the last used last.
    idle: Vec<usize>,
    /// Which of the plan's requests is next.
    next_ask: usize,
    /// Numbers of requests that ask for something else each.
    number: u64,
    counts: Counts,
    start: Instant,
    end: Instant,
    buffer: Vec<u8>,
}

impl<'a> Worker<'a> {
    fn new(
        plan: &'a Plan,
        poll: Poll,
        turns: Option<&'a Turns>,
        (connections, first): (usize, usize),
        start: Instant,
    ) -> anyhow::Result<Self> {
        let now = Instant::now();
        let phase = if turns.is_some() { Phase::Idle } else { Phase::Resting(now) };
        Ok(Worker {
            plan,
            turns,
            poll,
            slots: (0..connections).map(|_| Slot::new(phase, now)).collect(),
            idle: if turns.is_some() { (0..connections).rev().collect() } else { Vec::new() },
            next_ask: first,
            number: first_number(first as u64),
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
            self.take_turns();
            let now = Instant::now();
            if now >= self.end && self.has_ended(now) {
                break;
            }
            if now - swept >= SWEEP {
                self.sweep(now);
                swept = now;
            }
        }
        // A request that waits longer than the whole run has failed, too.
        let now = Instant::now();
        let late = |slot: &&Slot| match self.turns {
            None => slot.stream.is_some() && now - slot.begun >= self.plan.timeout,
            Some(_) => slot.is_busy() && slot.begun >= self.start,
        };
        self.counts.failed += self.slots.iter().filter(late).count() as u64;
        let end = if self.turns.is_some() { now.min(self.end) } else { now };
        self.counts.seconds = end.saturating_duration_since(self.start).as_secs_f64();
        Ok(self.counts)
    }

    /// The time is over. In open loop, what has been begun is waited for: to forget it would be to
    /// forget the slowest.
    fn has_ended(&self, now: Instant) -> bool {
        self.turns.is_none()
            || now >= self.end + self.plan.timeout
            || !self.slots.iter().any(Slot::is_busy)
    }

    /// Open loop: begins what is due, as far as there are connections.
    fn take_turns(&mut self) {
        let Some(turns) = self.turns else { return };
        while let Some(number) = self.idle.pop() {
            let Some(due) = turns.take() else {
                self.idle.push(number);
                return;
            };
            self.begin(number, due);
        }
    }

    /// Begins the next request over this connection.
    fn begin(&mut self, number: usize, at: Instant) {
        let plan = self.plan;
        let asks = &plan.asks;
        let which = self.next_ask % asks.len().max(1);
        let (Some(slot), Some(ask)) = (self.slots.get_mut(number), asks.get(which)) else { return };
        self.next_ask = which + 1;
        self.number += 1;
        slot.begun = at;
        slot.ask = which;
        ask.write(self.number, &mut slot.request);
        if ask.connect.is_some() && !ask.keeps_tunnel {
            slot.stream = None;
        }
        if slot.stream.is_some() {
            slot.phase = Phase::Asking(0);
            self.step(number, false);
        } else {
            self.connect(number);
        }
    }

    /// Connects who may, and gives up who waited too long.
    fn sweep(&mut self, now: Instant) {
        for number in 0..self.slots.len() {
            let Some(slot) = self.slots.get_mut(number) else { return };
            match slot.phase {
                Phase::Resting(until) if until <= now && self.turns.is_some() => {
                    slot.phase = Phase::Idle;
                    self.idle.push(number);
                }
                Phase::Resting(until) if until <= now => self.begin(number, Instant::now()),
                Phase::Resting(_) | Phase::Idle => {}
                _ if now.saturating_duration_since(slot.begun) >= self.plan.timeout => {
                    self.fail(number, &io::Error::from(ErrorKind::TimedOut));
                }
                _ => {}
            }
        }
    }

    fn connect(&mut self, number: usize) {
        let Some(slot) = self.slots.get_mut(number) else { return };
        slot.connecting();
        let connected = TcpStream::connect(self.plan.target).and_then(|mut stream| {
            let both = Interest::READABLE | Interest::WRITABLE;
            self.poll.registry().register(&mut stream, Token(number), both)?;
            slot.stream = Some(Wire::plain(stream));
            Ok(())
        });
        if let Err(error) = connected {
            self.fail(number, &error);
        }
    }

    /// Goes on with a connection as far as it goes.
    fn step(&mut self, number: usize, closed: bool) {
        let Some(slot) = self.slots.get_mut(number) else { return };
        if !slot.is_busy() {
            if closed {
                slot.stream = None;
            }
            return;
        }
        let Some(ask) = self.plan.asks.get(slot.ask) else { return };
        match slot.advance((ask, self.plan.tls.as_ref()), &mut self.buffer, closed) {
            Ok(Step::Wait) => {}
            Ok(Step::Answered) => self.answered(number, closed),
            Err(error) => self.fail(number, &error),
        }
    }

    /// Counts an answer and asks again; over another connection if the server has closed this one.
    fn answered(&mut self, number: usize, closed: bool) {
        let Some(slot) = self.slots.get_mut(number) else { return };
        let Some(ask) = self.plan.asks.get(slot.ask) else { return };
        let now = Instant::now();
        let right = match ask.judge(slot.answer.status, slot.come) {
            Ok(right) => right,
            Err(error) => return self.fail(number, &error),
        };
        let counts = &mut self.counts;
        if self.turns.map_or(now, |_| slot.begun) >= self.start {
            let is_late = self.turns.is_some() && now > self.end;
            counts.answered += u64::from(!is_late);
            counts.late += u64::from(is_late);
            counts.blocked += u64::from(right == Right::Blocked && !is_late);
            counts.body_bytes += if is_late { 0 } else { slot.come };
            let nanos = u64::try_from((now - slot.begun).as_nanos()).unwrap_or(u64::MAX);
            counts.latency.saturating_record(nanos);
        }
        let ends = ask.connect.is_some() && !ask.keeps_tunnel;
        if closed || !(self.plan.keep_alive && slot.answer.keep) || ends {
            slot.stream = None;
        }
        if self.turns.is_some() {
            slot.phase = Phase::Idle;
            self.idle.push(number);
        } else {
            self.begin(number, now);
        }
    }

    fn fail(&mut self, number: usize, error: &io::Error) {
        let now = Instant::now();
        let mut begun = now;
        if let Some(slot) = self.slots.get_mut(number) {
            slot.stream = None;
            slot.phase = Phase::Resting(now + REST);
            begun = slot.begun;
        }
        if self.turns.map_or(now, |_| begun) < self.start {
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

/// Numbers of a thread's requests do not meet those of others, nor those of earlier runs: what a
/// cache has of them would not be what they measure. A million of each millisecond.
fn first_number(thread: u64) -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let milliseconds = u64::try_from(now.unwrap_or_default().as_millis()).unwrap_or(0);
    (milliseconds + thread) % 1_000_000 * 1_000_000
}
