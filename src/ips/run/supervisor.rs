//! The supervisor: holds the sockets, and starts the worker anew when it ends or hangs.
//!
//! Packets that come while there is no worker wait in the sockets, where they are taken from and
//! passed on or dropped here. It has one thread, reads no rules and looks into no packet.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use gauntlet_netio::{Answer, Plan, Port, Signal, Signals, inheritable};

use super::blocks::{self, Blocker, ENTRY_LEN, Ends, MESSAGE_MAX};
use super::worker::{BLOCK, GO, READY};
use super::{Args, OnCrash, plan};
use crate::ips::node::RELOAD;

/// How long one look at signals, worker and packets takes at most.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// How long a worker may take to end when told to.
const STOP_WAIT: Duration = Duration::from_secs(30);
/// Pause before a worker that did not get ready is started anew; it doubles up to the second.
const PAUSE: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// How much longer than a thread the whole worker may be silent.
const SILENCE_EXTRA: Duration = Duration::from_secs(2);
/// What a worker says is read in pieces of this length.
const HEARD_BYTES: usize = 4_096;
/// How long a worker may take to read its rules.
const READY_WAIT: Duration = Duration::from_secs(600);

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let signals = Signals::take().context("signals cannot be read")?;
    let (plan, options) = plan::read(args)?;
    plan::tell_unknown(&options);
    plan::account(args)?;
    let sockets = plan.open()?;
    let blocker = args.blocks.open(plan.is_inline())?;
    let node = match args.for_node {
        true => {
            let node = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
            node.set_nonblocking(true)?;
            Some(node)
        }
        false => None,
    };
    let was_ready = false;
    let mut supervisor = Supervisor { args, plan, sockets, signals, node, blocker, was_ready };
    supervisor.run()
}

struct Supervisor<'a> {
    args: &'a Args,
    plan: Plan,
    sockets: Vec<OwnedFd>,
    signals: Signals,
    /// The node whose packets these are.
    node: Option<UnixStream>,
    /// Adds senders of drops to the kernel's sets.
    blocker: Option<Blocker>,
    /// A worker has inspected packets.
    was_ready: bool,
}

/// A worker that runs.
struct Worker {
    child: Child,
    stream: UnixStream,
    is_ready: bool,
    /// When it last said something.
    heard: Instant,
    /// What it has said and not to its end.
    unread: Vec<u8>,
}

/// Why nobody inspects packets any more.
enum Ended {
    /// The worker ended with this code, by itself or by a signal.
    Worker(Option<i32>),
    /// We are told to stop.
    Told,
}

impl Supervisor<'_> {
    fn run(&mut self) -> anyhow::Result<ExitCode> {
        let mut pause = PAUSE;
        loop {
            let mut worker = self.start()?;
            let ended = self.watch(&mut worker)?;
            let code = match ended {
                Ended::Told => return stop(worker),
                Ended::Worker(code) => code,
            };
            match code {
                Some(0) => return Ok(ExitCode::SUCCESS),
                // It has said why.
                Some(code) if !self.was_ready => {
                    return Ok(ExitCode::from(u8::try_from(code).unwrap_or(2)));
                }
                _ => {}
            }
            pause = if worker.is_ready { PAUSE } else { (pause * 2).min(PAUSE_MAX) };
            let how = code.map_or("by a signal".to_owned(), |code| format!("with code {code}"));
            let fate = if self.passes() { "pass" } else { "stop" };
            eprintln!("gauntlet: the worker ended {how}; it is started anew, and packets {fate}");
            if !worker.is_ready && self.idle(pause)? {
                return Ok(ExitCode::SUCCESS);
            }
        }
    }

    /// What signals, or the node, tell.
    fn told(&self) -> Option<Signal> {
        if let Some(mut node) = self.node.as_ref() {
            let mut byte = [0];
            match node.read(&mut byte) {
                Ok(0) => return Some(Signal::Stop),
                Ok(_) if byte == [RELOAD] => return Some(Signal::Reload),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return Some(Signal::Stop),
            }
        }
        self.signals.next()
    }

    /// Whether packets pass while nobody inspects them.
    fn passes(&self) -> bool {
        self.args.on_crash() == OnCrash::Pass
    }

    fn start(&self) -> anyhow::Result<Worker> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let numbers = inheritable(&self.sockets)?;
        let numbers: Vec<String> = numbers.iter().map(ToString::to_string).collect();
        // The program that runs, even if the file was replaced meanwhile.
        let child = Command::new("/proc/self/exe")
            .args(std::env::args_os().skip(1))
            .arg(format!("--worker-sockets={}", numbers.join(",")))
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .spawn()
            .context("the worker cannot be started")?;
        let heard = Instant::now();
        Ok(Worker { child, stream: ours, is_ready: false, heard, unread: Vec::new() })
    }

    /// Waits for the end of a worker, and deals with packets until it is ready.
    fn watch(&mut self, worker: &mut Worker) -> anyhow::Result<Ended> {
        let mut ports = self.ports()?;
        let silence_max = Duration::from_secs(self.args.watchdog.into()) + SILENCE_EXTRA;
        loop {
            self.turn(&mut ports)?;
            match self.told() {
                Some(Signal::Stop) => return Ok(Ended::Told),
                Some(Signal::Reload) => worker.tell(Signal::Reload),
                Some(Signal::Child) | None => {}
            }
            let Heard { anything: said, blocks } = worker.hear();
            if let Some(blocker) = &mut self.blocker {
                blocker.add(&blocks);
            }
            if let Some(status) = worker.child.try_wait()? {
                return Ok(Ended::Worker(status.code()));
            }
            if said && !worker.is_ready {
                // From here on, packets are the worker's.
                ports.clear();
                worker.is_ready = true;
                self.was_ready = true;
                let _ = worker.stream.write_all(&[GO]);
            }
            let silence_max = if worker.is_ready { silence_max } else { READY_WAIT };
            if worker.heard.elapsed() > silence_max {
                eprintln!("gauntlet: the worker says nothing any more; it is ended");
                worker.child.kill()?;
                worker.heard = Instant::now();
            }
        }
    }

    /// Ports for the time without a worker. A ring has no use for them: it is the worker's,
    /// as keys and sessions of a tunnel are.
    fn ports(&self) -> anyhow::Result<Vec<Box<dyn Port>>> {
        if !self.plan.is_inline() || self.plan.is_tunnel() {
            return Ok(Vec::new());
        }
        let copies: io::Result<Vec<OwnedFd>> =
            self.sockets.iter().map(OwnedFd::try_clone).collect();
        Ok(self.plan.ports(copies?, self.passes())?)
    }

    /// Deals with packets for a moment, or waits for one.
    fn turn(&self, ports: &mut [Box<dyn Port>]) -> anyhow::Result<()> {
        let answer = if self.passes() { Answer::pass } else { Answer::drop };
        if ports.is_empty() {
            std::thread::sleep(LOOK_EVERY);
        }
        let share = u32::try_from(ports.len()).unwrap_or(u32::MAX).max(1);
        for port in ports {
            port.turn(LOOK_EVERY / share, &mut |_| answer()).context("no more packets")?;
        }
        Ok(())
    }

    /// Deals with packets for so long; whether we were told to stop.
    fn idle(&self, pause: Duration) -> anyhow::Result<bool> {
        let (begun, mut ports) = (Instant::now(), self.ports()?);
        while begun.elapsed() < pause {
            self.turn(&mut ports)?;
            if self.told() == Some(Signal::Stop) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Worker {
    /// What it has said since it was last asked.
    fn hear(&mut self) -> Heard {
        let mut bytes = [0; HEARD_BYTES];
        let read = self.stream.read(&mut bytes).unwrap_or(0);
        if read == 0 {
            return Heard::default();
        }
        self.heard = Instant::now();
        self.unread.extend_from_slice(bytes.get(..read).unwrap_or_default());
        let (is_ready, blocks, taken) = understand(&self.unread);
        self.unread.drain(..taken);
        Heard { anything: self.is_ready || is_ready, blocks }
    }

    fn tell(&self, signal: Signal) {
        // If it has ended meanwhile, `try_wait` says so.
        let _ = signal.send(self.child.id());
    }
}

/// What a worker has said.
#[derive(Default)]
struct Heard {
    /// That it is ready; once it is, anything.
    anything: bool,
    /// Senders of drops.
    blocks: Vec<Ends>,
}

/// Reads what a worker says: whether it is ready, senders of drops, and how many bytes that was. A
/// worker that was taken over says what it likes, so nothing of it is believed but addresses.
fn understand(said: &[u8]) -> (bool, Vec<Ends>, usize) {
    let (mut is_ready, mut blocks, mut rest) = (false, Vec::new(), said);
    while let Some((kind, behind)) = rest.split_first() {
        if *kind != BLOCK {
            is_ready |= *kind == READY;
            rest = behind;
            continue;
        }
        let Some((count, behind)) = behind.split_first() else { break };
        let count = usize::from(*count).min(MESSAGE_MAX);
        let Some((entries, behind)) = behind.split_at_checked(count * ENTRY_LEN) else { break };
        blocks.extend(entries.as_chunks::<ENTRY_LEN>().0.iter().map(blocks::ends));
        rest = behind;
    }
    (is_ready, blocks, said.len() - rest.len())
}

/// Lets a worker end, and ends with its code.
fn stop(mut worker: Worker) -> anyhow::Result<ExitCode> {
    if !worker.is_ready {
        // It reads rules, and would look at signals only after that.
        worker.child.kill()?;
        worker.child.wait()?;
        return Ok(ExitCode::SUCCESS);
    }
    worker.tell(Signal::Stop);
    let begun = Instant::now();
    loop {
        if let Some(status) = worker.child.try_wait()? {
            let is_told = status.code().is_none_or(|code| code == 0);
            return Ok(ExitCode::from(if is_told { 0 } else { 2 }));
        }
        if begun.elapsed() > STOP_WAIT {
            worker.child.kill()?;
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_worker_says_is_understood_in_any_pieces() {
        let entry = [7; ENTRY_LEN];
        let said = [&b"AR"[..], &[BLOCK, 2], &entry, &entry, b"A"].concat();
        assert!(understand(&said).0);
        for cut in 0..said.len() {
            let (mut unread, mut count, mut ready) = (Vec::new(), 0, false);
            for piece in [&said[..cut], &said[cut..]] {
                unread.extend_from_slice(piece);
                let (is_ready, blocks, taken) = understand(&unread);
                unread.drain(..taken);
                count += blocks.len();
                ready |= is_ready;
            }
            assert_eq!((ready, count, unread.len()), (true, 2, 0), "{cut}");
        }
        // More than it may say at a time, and what never ends.
        assert_eq!(understand(&[&[BLOCK, 255][..], &[0; 64 * ENTRY_LEN]].concat()).1.len(), 64);
        assert_eq!(understand(&[BLOCK]), (false, vec![], 0));
    }
}
