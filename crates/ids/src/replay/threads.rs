//! A capture on several threads. Frames are shared by the two addresses of their outermost IP
//! header, so that all packets of a flow, fragments of a packet, and flows that announce each other
//! come to the same thread. Records come out in the order of the frames.
//!
//! ```text
//! capture -> rounds of frames -> one part for each thread -> records of the round, sorted -> out
//! ```

use std::cell::RefCell;
use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use gauntlet_packet::{Capture, Checksums, Decoder, Frame, Time};

use super::{Replayer, Summary, next_frame};
use crate::detect::Detector;
use crate::eve::{Beside, Finder, Writer};
use crate::pipeline::observer::{
    Anomaly, Dropped, FilePart, FlowEnd, GateDecision, MailEvent, Moment, TransactionEvent,
};
use crate::pipeline::{Counter, Event, Observer, Pipeline};

/// Frames that are read before they are handed out.
const ROUND_FRAMES: usize = 1_024;
/// Rounds that are under way at a time, besides the one that is read.
const ROUNDS_MAX: usize = 4;

/// By what records are sorted: the number of the frame; at the end, when the flow began.
type Place = (u64, Time);
/// A record with its place.
type Told = (Place, String);

/// What came of a thread's part of a round.
#[derive(Default)]
struct Answer {
    records: Vec<Told>,
    alerts: u64,
    dropped: u64,
    /// At the end.
    counters: Vec<Counter>,
}

/// A thread's part of a round; empty ones keep the threads in step.
enum Part {
    Frames(Vec<Frame>),
    /// The capture ended, with a frame of this time.
    End(Time),
}

struct Worker {
    parts: SyncSender<Part>,
    answers: Receiver<Answer>,
}

/// What threads begin with.
pub(super) struct Begin<'a> {
    pub(super) capture: &'a Path,
    pub(super) detector: &'a Detector,
    /// One for each thread, if more is to be found.
    pub(super) finders: Vec<Option<Box<dyn Finder + Send>>>,
}

/// Replays the frames; what they come to is added to the summary.
pub(super) fn run(
    replayer: &Replayer<'_>,
    begin: Begin<'_>,
    frames: &mut Capture,
    summary: &mut Summary,
    writer: &mut Writer<'_>,
) {
    let count = replayer.threads;
    let capture = begin.capture;
    std::thread::scope(|scope| {
        let start = |(place, finder): (usize, Option<Box<dyn Finder + Send>>)| {
            let detector = begin.detector.sibling();
            let (parts, work) = sync_channel(ROUNDS_MAX + 1);
            let (done, answers) = sync_channel(ROUNDS_MAX + 1);
            scope.spawn(move || {
                let layers = replayer.layers.clone().share(count);
                let program = replayer.program.clone();
                let pipeline = Pipeline::new(program, detector, &layers);
                let placing = Placing::new(replayer, capture, finder);
                work_on(pipeline.one_of(place as u64, count as u64), placing, &work, &done);
            });
            Worker { parts, answers }
        };
        let workers: Vec<Worker> = begin.finders.into_iter().enumerate().map(start).collect();
        let mut rounds = Rounds { workers, open: 0, counters: Vec::new() };
        let mut sharing = Sharing::new(replayer);
        let mut time = Time::default();
        loop {
            let mut parts: Vec<Vec<Frame>> = (0..count).map(|_| Vec::new()).collect();
            let mut read = 0;
            while read < ROUND_FRAMES
                && let Some(frame) = next_frame(frames, summary)
            {
                read += 1;
                time = frame.time;
                if let Some(part) = parts.get_mut(sharing.place(&frame, count)) {
                    part.push(frame);
                }
            }
            if read == 0 {
                break;
            }
            rounds.begin(parts.into_iter().map(Part::Frames), summary, writer);
        }
        rounds.begin((0..count).map(|_| Part::End(time)), summary, writer);
        while rounds.open > 0 {
            rounds.finish(summary, writer);
        }
        writer.reached(time);
        writer.stats(&rounds.counters);
    });
}

/// Which thread frames go to.
struct Sharing {
    decoder: Decoder,
    /// With secrets, so that nobody can choose addresses that all come to one thread.
    hasher: RandomState,
}

impl Sharing {
    fn new(replayer: &Replayer<'_>) -> Self {
        let mut settings = replayer.layers.packets.clone();
        settings.checksums = Checksums::None;
        Self { decoder: Decoder::new(settings), hasher: RandomState::new() }
    }

    fn place(&mut self, frame: &Frame, count: usize) -> usize {
        let Some((one, other)) = self.decoder.addresses(frame) else { return 0 };
        let pair = if one < other { [one, other] } else { [other, one] };
        let hash = self.hasher.hash_one(pair) % count as u64;
        usize::try_from(hash).unwrap_or_default()
    }
}

struct Rounds {
    workers: Vec<Worker>,
    /// Rounds whose answers were not taken yet.
    open: usize,
    /// Sums of all threads.
    counters: Vec<Counter>,
}

impl Rounds {
    /// Hands a round out, once there is room.
    fn begin(
        &mut self,
        parts: impl Iterator<Item = Part>,
        summary: &mut Summary,
        writer: &mut Writer<'_>,
    ) {
        if self.open >= ROUNDS_MAX {
            self.finish(summary, writer);
        }
        for (worker, part) in self.workers.iter().zip(parts) {
            // It fails if the thread panicked, and then the scope panics, too.
            let _ = worker.parts.send(part);
        }
        self.open += 1;
    }

    /// Takes what came of the oldest round.
    fn finish(&mut self, summary: &mut Summary, writer: &mut Writer<'_>) {
        self.open = self.open.saturating_sub(1);
        let mut records = Vec::new();
        for worker in &self.workers {
            let Ok(answer) = worker.answers.recv() else { continue };
            records.extend(answer.records);
            summary.alerts += answer.alerts;
            summary.dropped += answer.dropped;
            for counter in answer.counters {
                match self.counters.iter_mut().find(|known| known.name == counter.name) {
                    Some(known) => known.value += counter.value,
                    None => self.counters.push(counter),
                }
            }
        }
        records.sort_by_key(|(place, _)| *place);
        for (_, text) in records {
            writer.pass_on(&text);
        }
    }
}

/// Writes records of a thread, each with its place.
struct Placing {
    writer: Writer<'static>,
    finder: Option<Box<dyn Finder + Send>>,
    /// Place of the records that come now, and records so far; the writer appends to them.
    told: Rc<RefCell<(Place, Vec<Told>)>>,
    /// The capture has ended: flows are told in the order in which they began.
    is_end: bool,
    /// Alerts and dropped packets that were told of.
    counted: (u64, u64),
}

impl Placing {
    fn new(
        replayer: &Replayer<'_>,
        capture: &Path,
        finder: Option<Box<dyn Finder + Send>>,
    ) -> Self {
        let told = Rc::new(RefCell::new(((0, Time::default()), Vec::new())));
        let end = Rc::clone(&told);
        let out = Box::new(move |line: &str| {
            let (place, records) = &mut *end.borrow_mut();
            records.push((*place, line.to_owned()));
        });
        let writer = replayer.writer(capture, out);
        Self { writer, finder, told, is_end: false, counted: (0, 0) }
    }

    fn at(&self, place: Place) {
        self.told.borrow_mut().0 = place;
    }

    fn begin(&self, moment: &Moment<'_>) {
        if self.is_end {
            let began = moment.flow.map_or(moment.packet.time, |flow| flow.core.first);
            self.at((u64::MAX, began));
        }
    }

    /// Tells the writer, and who finds more.
    fn tell(&mut self, tell: impl FnOnce(&mut dyn Observer)) {
        match &mut self.finder {
            Some(finder) => tell(&mut Beside::new(&mut self.writer, finder.as_mut())),
            None => tell(&mut self.writer),
        }
    }

    fn answer(&mut self) -> Answer {
        let records = std::mem::take(&mut self.told.borrow_mut().1);
        let now = (self.writer.alerts, self.writer.drops);
        let before = std::mem::replace(&mut self.counted, now);
        let (alerts, dropped) = (now.0 - before.0, now.1 - before.1);
        Answer { records, alerts, dropped, counters: Vec::new() }
    }
}

impl Observer for Placing {
    fn packet(&mut self, event: &Event<'_>) {
        self.begin(&event.moment());
        self.tell(|observer| observer.packet(event));
    }

    fn transaction(&mut self, event: &TransactionEvent<'_>) {
        self.begin(&event.moment);
        self.tell(|observer| observer.transaction(event));
    }

    fn request(&mut self, event: &TransactionEvent<'_>) {
        self.begin(&event.moment);
        self.tell(|observer| observer.request(event));
    }

    fn mail(&mut self, event: &MailEvent<'_>) {
        if self.is_end {
            self.at((u64::MAX, event.core.first));
        }
        self.tell(|observer| observer.mail(event));
    }

    fn drops_flow(&mut self) -> bool {
        self.finder.as_mut().is_some_and(|finder| finder.drops_flow())
    }

    fn file(&mut self, part: &FilePart<'_>) {
        self.begin(&part.moment);
        self.tell(|observer| observer.file(part));
    }

    fn flow(&mut self, end: &FlowEnd<'_>) {
        if self.is_end {
            self.at((u64::MAX, end.core.first));
        }
        self.tell(|observer| observer.flow(end));
    }

    fn anomaly(&mut self, anomaly: &Anomaly<'_>) {
        self.begin(&anomaly.moment);
        self.tell(|observer| observer.anomaly(anomaly));
    }

    fn decided(&mut self, decision: &GateDecision<'_>) {
        self.begin(&decision.moment);
        self.tell(|observer| observer.decided(decision));
    }

    fn dropped(&mut self, drop: &Dropped<'_>) {
        self.begin(&drop.moment);
        self.tell(|observer| observer.dropped(drop));
    }
}

/// One thread.
fn work_on(
    mut pipeline: Pipeline,
    mut placing: Placing,
    work: &Receiver<Part>,
    done: &SyncSender<Answer>,
) {
    while let Ok(part) = work.recv() {
        let mut counters = Vec::new();
        match part {
            Part::Frames(frames) => {
                for frame in frames {
                    placing.at((frame.number, Time::default()));
                    pipeline.frame(&frame, &mut placing);
                }
            }
            Part::End(time) => {
                placing.is_end = true;
                pipeline.reached(time);
                pipeline.end(&mut placing);
                counters = pipeline.counters();
            }
        }
        let answer = Answer { counters, ..placing.answer() };
        if done.send(answer).is_err() {
            return;
        }
    }
}
