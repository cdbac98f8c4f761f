//! The worker: a thread for each port, and a main thread that reads rules anew, writes statistics
//! and watches.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, RawFd};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use gauntlet_ids::eve;
use gauntlet_ids::replay::Options;
use gauntlet_netio::{
    NET_ADMIN, Plan, Port, QueueDrops, Signal, Signals, adopt, keep_capabilities,
    limit_capabilities,
};
use serde_json::json;

use super::blocks::ENTRY_LEN;
use super::cpus::Cpus;
use super::records::Records;
use super::rules::Ready;
use super::shared::Shared;
use super::{Args, OnCrash, metrics, plan, thread};
use crate::ips::gate::{GateArgs, PacketGate, database};
use crate::ips::inspection::Judges;
use crate::ips::node;

/// Sent to the supervisor: rules are read, packets can be taken over.
pub(super) const READY: u8 = b'R';
/// Sent to it now and then: all threads make progress.
pub(super) const ALIVE: u8 = b'A';
/// Sent to it: senders of drops follow, a byte that says how many, and each as
/// [`super::blocks::ends`] reads it.
pub(super) const BLOCK: u8 = b'B';
/// Received from it: packets are this process's now.
pub(super) const GO: u8 = b'G';

/// How often `stats` is written, as Suricata does.
const STATS_EVERY: Duration = Duration::from_secs(8);
/// How often the main thread looks around.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Exit code after a thread made no progress or failed.
const EXIT_BROKEN: u8 = 3;

pub(super) fn run(args: &Args, sockets: &[RawFd]) -> anyhow::Result<ExitCode> {
    let signals = Signals::take().context("signals cannot be read")?;
    let supervisor = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let (plan, options) = plan::read(args)?;
    let sockets = adopt(sockets)?;
    let listener = match args.metrics {
        Some(address) => {
            Some(metrics::listen(address).with_context(|| format!("cannot listen at {address}"))?)
        }
        None => None,
    };
    // While it may start programs, and read what only root may.
    let judges = args.scan.open()?;
    judges.iter().for_each(Judges::start);
    let drops = if plan.queues().is_empty() { None } else { QueueDrops::open().ok() };
    give_up_root(args, &plan)?;
    let cpus = Cpus::read(args.cpus.as_deref(), &options.settings)?;
    cpus.check(plan.ports_len())?;
    let ports = plan.ports(sockets, args.on_crash() == OnCrash::Pass)?;
    let records = Records::open(args.eve.as_deref(), args.for_node).with_context(|| {
        format!("cannot write {:?}", args.eve.as_deref().unwrap_or("-".as_ref()))
    })?;
    let ready = Ready::read(&plan, &options, None)?;
    let gate = gate(&args.gate, &options, None)?;
    let ready = ready.for_node(args).telling(judges.as_ref(), args.reset).gated(gate);
    // A node that is gone is noticed soon.
    let _ = records.tell_node(&node::rules(&ready.program));
    let (used, left_out) = ready.counts();
    eprintln!("gauntlet: {used} rules, {left_out} left out (`gauntlet ips rules check` says why)");
    let shared = Arc::new(Shared::new(ready, records, judges, (&plan, args)));
    if let Some(listener) = listener {
        metrics::serve(listener, Arc::clone(&shared))?;
    }
    if !take_over(&supervisor)? {
        return Ok(ExitCode::SUCCESS);
    }
    let threads = start(ports, &shared, &cpus)?;
    let main = Main { args, plan: &plan, options, shared, supervisor, signals, drops };
    main.run(threads)
}

/// Rules for packets, if there are any.
fn gate(
    args: &GateArgs,
    options: &Options,
    earlier: Option<&PacketGate>,
) -> anyhow::Result<Option<Arc<PacketGate>>> {
    args.open(database(&options.settings, &options.directory).as_deref(), earlier)
}

/// Becomes the user of `--user`. Verdicts of queues go on to need a capability.
fn give_up_root(args: &Args, plan: &Plan) -> anyhow::Result<()> {
    let Some(account) = plan::account(args)? else { return Ok(()) };
    let has_queues = !plan.queues().is_empty();
    if has_queues {
        keep_capabilities().context("capabilities cannot be kept")?;
    }
    account.enter().with_context(|| format!("cannot become user {:?}", args.user))?;
    if has_queues {
        limit_capabilities(NET_ADMIN).context("CAP_NET_ADMIN cannot be kept")?;
    }
    Ok(())
}

/// Says that all is ready, and waits until packets are ours. Whether they are: the supervisor may
/// end.
fn take_over(mut supervisor: &UnixStream) -> anyhow::Result<bool> {
    supervisor.write_all(&[READY]).context("the supervisor is gone")?;
    let mut answer = [0];
    let read = supervisor.read(&mut answer)?;
    Ok(read == 1 && answer == [GO])
}

fn start(
    ports: Vec<Box<dyn Port>>,
    shared: &Arc<Shared>,
    cpus: &Cpus,
) -> io::Result<Vec<JoinHandle<io::Result<()>>>> {
    let start = |(number, port): (usize, Box<dyn Port>)| {
        let (shared, cpus) = (Arc::clone(shared), cpus.clone());
        let name = format!("ips-{number}");
        std::thread::Builder::new().name(name).spawn(move || {
            cpus.pin(number)?;
            thread::run(number, port, &shared)
        })
    };
    ports.into_iter().enumerate().map(start).collect()
}

/// The main thread.
struct Main<'a> {
    args: &'a Args,
    plan: &'a Plan,
    options: Options,
    shared: Arc<Shared>,
    supervisor: UnixStream,
    signals: Signals,
    drops: Option<QueueDrops>,
}

impl Main<'_> {
    fn run(mut self, threads: Vec<JoinHandle<io::Result<()>>>) -> anyhow::Result<ExitCode> {
        self.supervisor.set_nonblocking(true)?;
        let begun = Instant::now();
        let mut watch = Watch::new(&self.shared, self.args.watchdog);
        let mut told = Instant::now();
        let mut reading = Reading::default();
        loop {
            std::thread::sleep(LOOK_EVERY);
            match self.signals.next() {
                Some(Signal::Stop) => break,
                Some(Signal::Reload) => {
                    self.reopen();
                    reading.is_wanted = true;
                }
                Some(Signal::Child) | None => {}
            }
            if reading.may_begin() {
                reading.thread = Some(self.reload()?);
            }
            if !self.is_supervised() {
                break;
            }
            if threads.iter().any(JoinHandle::is_finished) {
                return Ok(self.broken(threads));
            }
            if let Some(thread) = watch.stuck(&self.shared) {
                eprintln!("gauntlet: thread {thread} makes no progress; the process ends");
                return Ok(ExitCode::from(EXIT_BROKEN));
            }
            self.count_queue_drops();
            self.hand_over();
            if told.elapsed() >= STATS_EVERY {
                told = Instant::now();
                self.tell(begun.elapsed());
            }
        }
        self.stop(threads, begun.elapsed())
    }

    /// Says that this process is alive; whether the supervisor is.
    fn is_supervised(&mut self) -> bool {
        let mut bytes = [0; 16];
        let gone = matches!(self.supervisor.read(&mut bytes), Ok(0));
        // A full buffer is emptied by a supervisor that has been busy.
        let _ = self.supervisor.write(&[ALIVE]);
        !gone
    }

    fn reopen(&self) {
        if let Err(error) = self.shared.records.reopen() {
            eprintln!("gauntlet: records go on into the old file: {error}");
        }
    }

    /// Reads the rules anew in a thread of their own.
    fn reload(&self) -> io::Result<JoinHandle<()>> {
        let (plan, shared) = (self.plan.clone(), Arc::clone(&self.shared));
        let args = self.args.gate.clone();
        // Variables and thresholds may have changed with the rules.
        let options = match plan::options_anew(self.args, self.plan.is_inline()) {
            Ok(options) => options,
            Err(error) => {
                eprintln!("gauntlet: the old settings stay: {error:#}");
                self.options.clone()
            }
        };
        std::thread::Builder::new().name("reload".to_owned()).spawn(move || {
            if let Some(Err(error)) = shared.judges.as_ref().map(Judges::reload) {
                eprintln!("gauntlet: what judges mail and web stays: {error:#}");
            }
            let earlier = shared.rules.load();
            let gate = gate(&args, &options, earlier.gate.as_deref()).unwrap_or_else(|error| {
                eprintln!("gauntlet: the old packet policy stays: {error:#}");
                earlier.gate.clone()
            });
            match Ready::read(&plan, &options, Some(&earlier.program)) {
                Ok(ready) => {
                    let (used, left_out) = ready.counts();
                    let _ = shared.records.tell_node(&node::rules(&ready.program));
                    let ready = ready.telling(shared.judges.as_ref(), shared.resets).gated(gate);
                    shared.rules.replace(ready);
                    eprintln!("gauntlet: rules read anew: {used} rules, {left_out} left out");
                }
                Err(error) => eprintln!("gauntlet: the old rules stay: {error}"),
            }
        })
    }

    fn count_queue_drops(&mut self) {
        if let Some(drops) = &mut self.drops {
            self.shared.set_queue_drops(drops.of(&self.plan.queues()));
        }
    }

    /// Hands senders of drops to the supervisor, which adds them to the kernel's sets.
    fn hand_over(&mut self) {
        let entries = self.shared.blocks.take();
        if let Ok(count) = u8::try_from(entries.len() / ENTRY_LEN)
            && count > 0
        {
            let message = [&[BLOCK, count][..], &entries].concat();
            // The buffer of a stream takes it whole, or the supervisor hangs, and all is over soon.
            let _ = self.supervisor.write_all(&message);
        }
    }

    fn tell(&self, uptime: Duration) {
        let stats = self.shared.sum().stats(uptime);
        let timestamp = eve::timestamp(thread::now());
        let record = json!({ "timestamp": timestamp, "event_type": "stats", "stats": stats });
        self.shared.records.write(&format!("{record}\n"));
        if self.shared.profile_every > 0 {
            let costs = self.shared.costs.record(self.shared.profile_every);
            let kind = node::RULE_COSTS;
            let record = json!({ "timestamp": timestamp, "event_type": kind, kind: costs });
            self.shared.records.write(&format!("{record}\n"));
        }
    }

    /// A thread has ended though nobody told it to.
    fn broken(&self, threads: Vec<JoinHandle<io::Result<()>>>) -> ExitCode {
        self.shared.stop();
        for thread in threads {
            match thread.join() {
                Ok(Ok(())) => {}
                Ok(Err(error)) => eprintln!("gauntlet: no more packets: {error}"),
                Err(_) => eprintln!("gauntlet: a thread panicked"),
            }
        }
        ExitCode::from(EXIT_BROKEN)
    }

    fn stop(
        mut self,
        threads: Vec<JoinHandle<io::Result<()>>>,
        uptime: Duration,
    ) -> anyhow::Result<ExitCode> {
        self.shared.stop();
        for thread in threads {
            match thread.join() {
                Ok(result) => result?,
                Err(_) => bail!("a thread panicked"),
            }
        }
        self.count_queue_drops();
        self.tell(uptime);
        eprintln!("{}", self.shared.sum().summary());
        let costs = self.shared.costs.summary();
        if !costs.is_empty() {
            eprintln!("{costs}");
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Rules that are being read: one reload at a time, and one more if it was asked for meanwhile.
#[derive(Default)]
struct Reading {
    thread: Option<JoinHandle<()>>,
    is_wanted: bool,
}

impl Reading {
    /// Whether a reload is asked for and none is under way; it is not asked for any more then.
    fn may_begin(&mut self) -> bool {
        let is_under_way = self.thread.as_ref().is_some_and(|thread| !thread.is_finished());
        !is_under_way && std::mem::take(&mut self.is_wanted)
    }
}

/// Sees to it that threads make progress.
struct Watch {
    /// Turns of each thread, and since when they are so many.
    seen: Vec<(u64, Instant)>,
    most: Duration,
}

impl Watch {
    fn new(shared: &Shared, seconds: u16) -> Self {
        let seen = shared.progress.iter().map(|_| (0, Instant::now())).collect();
        Self { seen, most: Duration::from_secs(seconds.into()) }
    }

    /// A thread that has made none for too long.
    fn stuck(&mut self, shared: &Shared) -> Option<usize> {
        for (number, (place, progress)) in self.seen.iter_mut().zip(&shared.progress).enumerate() {
            let turns = progress.turns();
            if turns != place.0 {
                *place = (turns, Instant::now());
            } else if place.1.elapsed() > self.most {
                return Some(number);
            }
        }
        None
    }
}
