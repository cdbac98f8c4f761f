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

use super::worker::{GO, READY};
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
/// How long a worker may take to read its rules.
const READY_WAIT: Duration = Duration::from_secs(600);

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let signals = Signals::take().context("signals cannot be read")?;
    let (plan, options) = plan::read(args)?;
    plan::tell_unknown(&options);
    plan::account(args)?;
    let sockets = plan.open()?;
    let node = match args.for_node {
        true => {
            let node = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
            node.set_nonblocking(true)?;
            Some(node)
        }
        false => None,
    };
    let mut supervisor = Supervisor { args, plan, sockets, signals, node, was_ready: false };
    supervisor.run()
}

struct Supervisor<'a> {
    args: &'a Args,
    plan: Plan,
    sockets: Vec<OwnedFd>,
    signals: Signals,
    /// The node whose packets these are.
    node: Option<UnixStream>,
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
        Ok(Worker { child, stream: ours, is_ready: false, heard: Instant::now() })
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
            let said = worker.hear();
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

    /// Ports for the time without a worker. A ring has no use for them: it is the worker's.
    fn ports(&self) -> anyhow::Result<Vec<Box<dyn Port>>> {
        if !self.plan.is_inline() {
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
    /// Whether it has said anything since it was last asked.
    fn hear(&mut self) -> bool {
        let mut bytes = [0; 64];
        match self.stream.read(&mut bytes) {
            Ok(read) if read > 0 => {
                self.heard = Instant::now();
                self.is_ready || bytes.first() == Some(&READY)
            }
            _ => false,
        }
    }

    fn tell(&self, signal: Signal) {
        // If it has ended meanwhile, `try_wait` says so.
        let _ = signal.send(self.child.id());
    }
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
