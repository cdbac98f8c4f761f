//! A capture on several threads. Frames are shared by the two addresses of their outermost IP
//! header, so that all packets of a flow, fragments of a packet, and flows that announce each other
//! come to the same thread. Records come out in the order of the frames.
//!
//! ```text
//! capture -> rounds of frames -> one part for each thread -> records of the round, sorted -> out
//! ```

use std::hash::{BuildHasher, RandomState};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use gauntlet_packet::{Capture, Checksums, Decoder, Frame, Time};

use super::{Replayer, Summary, next_frame, tell};
use crate::detect::Detector;
use crate::pipeline::Pipeline;

/// Frames that are read before they are handed out.
const ROUND_FRAMES: usize = 1_024;
/// Rounds that are under way at a time, besides the one that is read.
const ROUNDS_MAX: usize = 4;

/// A record, and by what it is sorted: the number of its frame; at the end, when its flow began.
type Told = ((u64, Time), String);

/// What came of a thread's part of a round.
#[derive(Default)]
struct Answer {
    records: Vec<Told>,
    counts: Summary,
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

/// Replays the frames; what they come to is added to the summary.
pub(super) fn run(
    replayer: &Replayer<'_>,
    detector: &Detector,
    frames: &mut Capture,
    summary: &mut Summary,
    line: &mut dyn FnMut(&str),
) {
    let count = replayer.threads;
    std::thread::scope(|scope| {
        let start = |place: usize| {
            let detector = detector.sibling();
            let (parts, work) = sync_channel(ROUNDS_MAX + 1);
            let (done, answers) = sync_channel(ROUNDS_MAX + 1);
            scope.spawn(move || {
                let layers = replayer.layers.clone().share(count);
                let program = replayer.program.clone();
                let pipeline = Pipeline::new(program, detector, &layers);
                work_on(pipeline.one_of(place as u64, count as u64), &work, &done);
            });
            Worker { parts, answers }
        };
        let workers: Vec<Worker> = (0..count).map(start).collect();
        let mut rounds = Rounds { workers, open: 0 };
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
            rounds.begin(parts.into_iter().map(Part::Frames), summary, line);
        }
        rounds.begin((0..count).map(|_| Part::End(time)), summary, line);
        while rounds.open > 0 {
            rounds.finish(summary, line);
        }
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
}

impl Rounds {
    /// Hands a round out, once there is room.
    fn begin(
        &mut self,
        parts: impl Iterator<Item = Part>,
        summary: &mut Summary,
        line: &mut dyn FnMut(&str),
    ) {
        if self.open >= ROUNDS_MAX {
            self.finish(summary, line);
        }
        for (worker, part) in self.workers.iter().zip(parts) {
            // It fails if the thread panicked, and then the scope panics, too.
            let _ = worker.parts.send(part);
        }
        self.open += 1;
    }

    /// Takes what came of the oldest round.
    fn finish(&mut self, summary: &mut Summary, line: &mut dyn FnMut(&str)) {
        self.open = self.open.saturating_sub(1);
        let mut records = Vec::new();
        for worker in &self.workers {
            let Ok(answer) = worker.answers.recv() else { continue };
            records.extend(answer.records);
            summary.alerts += answer.counts.alerts;
            summary.dropped += answer.counts.dropped;
        }
        records.sort_by_key(|(place, _)| *place);
        for (_, text) in records {
            line(&text);
        }
    }
}

/// One thread.
fn work_on(mut pipeline: Pipeline, work: &Receiver<Part>, done: &SyncSender<Answer>) {
    while let Ok(part) = work.recv() {
        let mut answer = Answer::default();
        let Answer { records, counts } = &mut answer;
        match part {
            Part::Frames(frames) => {
                for frame in frames {
                    let place = (frame.number, Time::default());
                    pipeline.frame(&frame, &mut |event| {
                        tell(event, counts, &mut |text| records.push((place, text.to_owned())));
                    });
                }
            }
            Part::End(time) => {
                pipeline.reached(time);
                pipeline.end(&mut |event| {
                    let place = (u64::MAX, event.began);
                    tell(event, counts, &mut |text| records.push((place, text.to_owned())));
                });
            }
        }
        if done.send(answer).is_err() {
            return;
        }
    }
}
