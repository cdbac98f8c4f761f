//! One thread: frames of its port through its pipeline, and the answers back.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use gauntlet_ids::detect::{Profile, Program};
use gauntlet_ids::eve::{Beside, Writer};
use gauntlet_ids::pipeline::observer::{
    Anomaly, Dropped, FilePart, FlowEnd, GateDecision, MailEvent, TransactionEvent,
};
use gauntlet_ids::pipeline::{DropCause, Event, Fate, Interfaces, Observer, Pipeline};
use gauntlet_ids::rule::RejectTo;
use gauntlet_inspection::Inspector;
use gauntlet_netio::{Answer, Change, Port, Received, Reply, ReplyTo, reject};
use gauntlet_packet::flow::Passage;
use gauntlet_packet::{Packet, Time};

use super::blocks::Ends;
use super::costs::CLOCK;
use super::counters::Counted;
use super::rules::Ready;
use super::shared::Shared;
use crate::ips::gate::PacketGate;

/// How long a thread waits for packets before it looks around.
const WAIT: Duration = Duration::from_millis(100);
/// How often it tells its counters and looks for flows whose time is over.
const HOUSEKEEPING: Duration = Duration::from_millis(500);
/// Flows that are looked at then.
const EXPIRED_MAX: usize = 20_000;
/// Replies of one batch of frames: `reject` answers no flood.
const REPLIES_MAX: usize = 64;

/// Runs until all threads are to stop.
pub(super) fn run(number: usize, mut port: Box<dyn Port>, shared: &Shared) -> io::Result<()> {
    let ready = shared.rules.load();
    let mut generation = shared.rules.generation();
    let mut detector = ready.detector(number);
    if shared.profile_every > 0 {
        detector.profile = Some(Box::new(Profile::new(CLOCK, shared.profile_every.into())));
    }
    let mut pipeline = Pipeline::new(Arc::clone(&ready.program), detector, &ready.layers);
    pipeline.number_flows_from(first_flow(number));
    let inspector = match &shared.judges {
        Some(judges) => Some(judges.inspector(shared.is_inline)?),
        None => None,
    };
    let teller = Teller::new(&ready, inspector, shared);
    let program = Arc::clone(&ready.program);
    let mut inspection = Inspection::new(number, (pipeline, program), shared.is_inline, teller);
    drop(ready);
    let mut housekept = Instant::now();
    while !shared.is_stopping() {
        inspection.teller.replies_left = REPLIES_MAX;
        port.turn(WAIT, &mut |received| inspection.frame(received))?;
        inspection.write(shared);
        if shared.rules.generation() != generation {
            generation = shared.rules.generation();
            inspection.tell_costs(shared);
            inspection.reload(&shared.rules.load());
        }
        if housekept.elapsed() >= HOUSEKEEPING {
            housekept = Instant::now();
            inspection.expire();
            inspection.tell(shared, port.as_mut());
        }
        if let Some(progress) = shared.progress.get(number) {
            progress.advance();
        }
    }
    inspection.end();
    inspection.write(shared);
    inspection.tell(shared, port.as_mut());
    Ok(())
}

/// The pipeline, and what comes out of it.
struct Inspection<'s> {
    number: usize,
    pipeline: Pipeline,
    /// The rules that it runs.
    program: Arc<Program>,
    is_inline: bool,
    counted: Counted,
    teller: Teller<'s>,
}

/// Writes records of what the pipeline tells, and makes the replies that rules ask for.
struct Teller<'s> {
    writer: Writer<'static>,
    /// Rules for packets.
    gate: Option<Arc<PacketGate>>,
    shared: &'s Shared,
    /// Judges what packets carry.
    inspector: Option<Inspector>,
    /// Records of the batch, a line each; the writer appends to them.
    lines: Rc<RefCell<String>>,
    replies: Vec<Reply>,
    replies_left: usize,
}

impl<'s> Teller<'s> {
    fn new(ready: &Ready, inspector: Option<Inspector>, shared: &'s Shared) -> Self {
        let lines = Rc::new(RefCell::new(String::new()));
        let end = Rc::clone(&lines);
        let out = Box::new(move |line: &str| {
            let mut lines = end.borrow_mut();
            lines.push_str(line);
            lines.push('\n');
        });
        let writer = Writer::new(ready.eve.clone(), Arc::clone(&ready.program), "", out);
        let gate = ready.gate.clone();
        Self { writer, gate, shared, inspector, lines, replies: Vec::new(), replies_left: 0 }
    }

    /// Tells the writer, and who judges what packets carry.
    fn tell(&mut self, tell: impl FnOnce(&mut dyn Observer)) {
        match &mut self.inspector {
            Some(inspector) => tell(&mut Beside::new(&mut self.writer, inspector)),
            None => tell(&mut self.writer),
        }
    }
}

impl Observer for Teller<'_> {
    fn packet(&mut self, event: &Event<'_>) {
        self.tell(|observer| observer.packet(event));
        replies_to(event, &mut self.replies_left, &mut self.replies);
        if let Some(rule) = event.verdict.dropped_by.filter(|_| self.shared.is_inline)
            && let Some(rule) = event.program.rules.rules.get(rule as usize)
        {
            self.shared.blocks.dropped_by_rule((rule.gid, rule.sid), ends(event.packet));
        }
    }

    fn transaction(&mut self, event: &TransactionEvent<'_>) {
        self.tell(|observer| observer.transaction(event));
    }

    fn request(&mut self, event: &TransactionEvent<'_>) {
        self.tell(|observer| observer.request(event));
    }

    fn mail(&mut self, event: &MailEvent<'_>) {
        self.tell(|observer| observer.mail(event));
    }

    fn drops_flow(&mut self) -> bool {
        self.inspector.as_mut().is_some_and(Observer::drops_flow)
    }

    fn file(&mut self, part: &FilePart<'_>) {
        self.tell(|observer| observer.file(part));
    }

    fn flow(&mut self, end: &FlowEnd<'_>) {
        self.tell(|observer| observer.flow(end));
    }

    fn anomaly(&mut self, anomaly: &Anomaly<'_>) {
        self.tell(|observer| observer.anomaly(anomaly));
    }

    fn decided(&mut self, decision: &GateDecision<'_>) {
        self.tell(|observer| observer.decided(decision));
        if !decision.passage.is_open()
            && decision.is_inline
            && self.gate.as_ref().is_some_and(|gate| gate.blocks(decision.number))
        {
            self.shared.blocks.add(ends(decision.moment.packet));
        }
        if decision.passage == Passage::Rejected {
            let packet = decision.moment.packet;
            reply(packet, &[ReplyTo::Source], &mut self.replies_left, &mut self.replies);
        }
    }

    fn dropped(&mut self, drop: &Dropped<'_>) {
        self.tell(|observer| observer.dropped(drop));
        if self.shared.resets && drop.reason == DropCause::Observer.name() {
            let both = [ReplyTo::Source, ReplyTo::Destination];
            reply(drop.moment.packet, &both, &mut self.replies_left, &mut self.replies);
        }
    }
}

impl<'s> Inspection<'s> {
    fn new(
        number: usize,
        (pipeline, program): (Pipeline, Arc<Program>),
        is_inline: bool,
        teller: Teller<'s>,
    ) -> Self {
        Self { number, pipeline, program, is_inline, counted: Counted::default(), teller }
    }

    fn frame(&mut self, received: &Received) -> Answer {
        self.pipeline.trust_checksums(received.checksums_trusted);
        let &Received { incoming, outgoing, .. } = received;
        self.pipeline.arrived(Interfaces { incoming, outgoing });
        let fate = self.pipeline.frame(&received.frame, &mut self.teller);
        let replies = std::mem::take(&mut self.teller.replies);
        self.answer(fate, replies)
    }

    fn answer(&mut self, fate: Fate, replies: Vec<Reply>) -> Answer {
        let mut answer = Answer { replies, ..Answer::default() };
        if !self.is_inline {
            return answer;
        }
        if let Some(cause) = fate.drop {
            *self.counted.drops.entry(cause.name()).or_default() += 1;
            answer.is_dropped = true;
            return answer;
        }
        answer.bypass = fate.passes;
        answer.change = fate.rewrite.map(|rewrite| {
            self.counted.replaced += 1;
            let (place, bytes, checksum_at) = (rewrite.place, rewrite.bytes, rewrite.checksum_at);
            Change { place, bytes, checksum_at }
        });
        answer
    }

    fn reload(&mut self, ready: &Ready) {
        let detector = ready.detector(self.number);
        self.teller.writer.replace_program(Arc::clone(&ready.program));
        self.program = Arc::clone(&ready.program);
        self.teller.gate.clone_from(&ready.gate);
        self.pipeline.reload(Arc::clone(&ready.program), detector, &ready.layers);
    }

    fn expire(&mut self) {
        self.pipeline.expire(now(), EXPIRED_MAX, &mut self.teller);
    }

    fn end(&mut self) {
        self.pipeline.end(&mut self.teller);
    }

    fn write(&mut self, shared: &Shared) {
        let mut lines = self.teller.lines.borrow_mut();
        if !lines.is_empty() {
            shared.records.write(&lines);
            lines.clear();
        }
    }

    fn tell(&mut self, shared: &Shared, port: &mut dyn Port) {
        self.counted.port = port.statistics();
        self.counted.load = self.pipeline.load();
        self.counted.alerts = self.teller.writer.alerts;
        self.counted.decoder = self.pipeline.decoded().iter().collect();
        shared.board.tell(self.number, self.counted.clone());
        self.tell_costs(shared);
    }

    /// What rules have cost since the last time.
    fn tell_costs(&mut self, shared: &Shared) {
        if let Some(taken) = self.pipeline.take_costs() {
            shared.costs.add(&self.program, &taken);
        }
    }
}

/// Sender and receiver.
fn ends(packet: &Packet) -> Option<Ends> {
    packet.ip.as_ref().map(|ip| (ip.source, ip.destination))
}

/// What a rule with `reject` sends.
fn replies_to(event: &Event<'_>, left: &mut usize, replies: &mut Vec<Reply>) {
    let sides: &[ReplyTo] = match event.verdict.reject {
        None => &[],
        Some(RejectTo::Source) => &[ReplyTo::Source],
        Some(RejectTo::Destination) => &[ReplyTo::Destination],
        Some(RejectTo::Both) => &[ReplyTo::Source, ReplyTo::Destination],
    };
    reply(event.packet, sides, left, replies);
}

/// Makes replies to these sides, as long as some are left.
fn reply(packet: &Packet, sides: &[ReplyTo], left: &mut usize, replies: &mut Vec<Reply>) {
    for side in sides {
        if *left > 0
            && let Some(reply) = reject::reply(packet, *side)
        {
            *left -= 1;
            replies.push(reply);
        }
    }
}

/// The number of a thread's first flow: 8 bits for the thread, 12 for when it began, and room for
/// 2^33 flows; readers of JSON keep 53 bits.
fn first_flow(thread: usize) -> u64 {
    let began = now().seconds.unsigned_abs() & 0xfff;
    (began << 8 | thread as u64 & 0xff) << 33
}

/// The time of packets that would come now.
pub(super) fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time {
        seconds: i64::try_from(since.as_secs()).unwrap_or_default(),
        micros: since.subsec_micros(),
    }
}
