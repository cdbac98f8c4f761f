//! The TREC on-line protocol.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use gauntlet_engine::classifier::metrics::Scored;
use gauntlet_engine::classifier::online::OnlineFilter;
use gauntlet_engine::random::{Random, mix};

use crate::train::progress::Progress;

/// Bytes read of each message; the filters look at less.
const MESSAGE_BYTES_MAX: u64 = 64 << 10;
/// Messages read ahead at a time, so that reading is not in the time of a filter.
const BLOCK_MESSAGES: usize = 256;
/// Largest batch with delayed feedback.
const BATCH_MESSAGES_MAX: u32 = 1_000;

/// Which filter to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum LearnerChoice {
    /// Learners on header, body and Subject apart, whose scores are fused.
    Default,
    /// Byte 4-grams of the first 3,500 bytes, logistic regression with rate 0.004.
    Baseline,
    /// Both, in one run over the same messages.
    All,
}

/// When the filter gets the label of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Feedback {
    /// After every message.
    Immediate,
    /// After batches of random size, 1,000 messages at most.
    Delayed,
    /// After every message of some recipients, drawn by the seed.
    Partial,
}

/// How the filter learns.
#[derive(Debug)]
pub(crate) struct Protocol {
    /// When it gets the label.
    pub(crate) feedback: Feedback,
    /// Share of recipients that give feedback, with [`Feedback::Partial`].
    pub(crate) partial_percent: u32,
    /// Draws the batches and the recipients.
    pub(crate) seed: u64,
}

/// One line of the index.
#[derive(Debug, PartialEq)]
pub(crate) struct Entry {
    /// The gold standard of the index.
    pub(crate) spam: bool,
    pub(crate) path: PathBuf,
}

/// What one filter did.
#[derive(Debug)]
pub(crate) struct Run {
    /// `default` or `baseline`.
    pub(crate) name: &'static str,
    /// In the order of the index.
    pub(crate) scored: Vec<Scored>,
    /// Time spent classifying and learning.
    pub(crate) spent: Duration,
}

/// Reads an index; paths are relative to it.
pub(crate) fn read_index(index: &Path) -> anyhow::Result<Vec<Entry>> {
    let text = std::fs::read_to_string(index)
        .with_context(|| format!("cannot read the index {}", index.display()))?;
    let folder = index.parent().unwrap_or(Path::new(""));
    let entries = parse_index(&text, folder).with_context(|| index.display().to_string())?;
    if entries.is_empty() {
        bail!("{}: no messages; an index has lines such as `spam data/inmail.1`", index.display());
    }
    Ok(entries)
}

fn parse_index(text: &str, folder: &Path) -> anyhow::Result<Vec<Entry>> {
    let lines = text.lines().zip(1..).filter(|(line, _)| !line.trim().is_empty());
    lines
        .map(|(line, number)| {
            let (label, path) = line.trim().split_once(char::is_whitespace).unwrap_or((line, ""));
            let spam = match label.to_ascii_lowercase().as_str() {
                "spam" => true,
                "ham" => false,
                _ => bail!("line {number}: {label:?} is neither `spam` nor `ham`"),
            };
            if path.trim().is_empty() {
                bail!("line {number}: no path after `{label}`");
            }
            Ok(Entry { spam, path: folder.join(path.trim()) })
        })
        .collect()
}

/// Runs the chosen filters over the messages, each message through all of them in turn.
pub(crate) fn run(
    index: &[Entry],
    choice: LearnerChoice,
    protocol: &Protocol,
) -> anyhow::Result<Vec<Run>> {
    let mut learners = Vec::new();
    if choice != LearnerChoice::Baseline {
        learners.push(OnlineLearner::new("default", OnlineFilter::views(), protocol));
    }
    if choice != LearnerChoice::Default {
        learners.push(OnlineLearner::new("baseline", OnlineFilter::baseline(), protocol));
    }
    let progress = Progress::of(index.len(), "messages");
    for block in index.chunks(BLOCK_MESSAGES) {
        let mut messages = Vec::with_capacity(block.len());
        for entry in block {
            messages.push((read_start(&entry.path)?, entry.spam));
            progress.step();
        }
        for learner in &mut learners {
            learner.block(&messages, protocol);
        }
    }
    progress.end();
    let runs = learners.into_iter().map(|s| Run { name: s.name, scored: s.scored, spent: s.spent });
    Ok(runs.collect())
}

fn read_start(path: &Path) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    file.take(MESSAGE_BYTES_MAX)
        .read_to_end(&mut bytes)
        .with_context(|| format!("cannot read {}", path.display()))?;
    Ok(bytes)
}

/// A filter at school.
struct OnlineLearner {
    name: &'static str,
    filter: OnlineFilter,
    scored: Vec<Scored>,
    spent: Duration,
    /// Messages that wait for their batch to end.
    waiting: VecDeque<(Vec<u8>, bool)>,
    batch_left: u32,
    random: Random,
}

impl OnlineLearner {
    fn new(name: &'static str, filter: OnlineFilter, protocol: &Protocol) -> Self {
        let mut random = Random::new(protocol.seed);
        let batch_left = 1 + random.below(BATCH_MESSAGES_MAX);
        OnlineLearner {
            name,
            filter,
            scored: Vec::new(),
            spent: Duration::ZERO,
            waiting: VecDeque::new(),
            batch_left,
            random,
        }
    }

    fn block(&mut self, messages: &[(Vec<u8>, bool)], protocol: &Protocol) {
        // Copies for the batch and the choice of recipients are not the filter's work.
        match protocol.feedback {
            Feedback::Immediate => self.at_once(messages, |_| true),
            Feedback::Partial => self.at_once(messages, |raw| gives_feedback(raw, protocol)),
            Feedback::Delayed => messages.iter().for_each(|m| self.later(m)),
        }
    }

    fn at_once(&mut self, messages: &[(Vec<u8>, bool)], has_feedback: impl Fn(&[u8]) -> bool) {
        let labelled: Vec<bool> = messages.iter().map(|(raw, _)| has_feedback(raw)).collect();
        let start = Instant::now();
        for ((raw, spam), is_labelled) in messages.iter().zip(labelled) {
            let score =
                if is_labelled { self.filter.train(raw, *spam) } else { self.filter.score(raw) };
            self.scored.push(Scored { score: f64::from(score), spam: *spam });
        }
        self.spent += start.elapsed();
    }

    fn later(&mut self, message: &(Vec<u8>, bool)) {
        self.waiting.push_back(message.clone());
        let start = Instant::now();
        let score = self.filter.score(&message.0);
        self.scored.push(Scored { score: f64::from(score), spam: message.1 });
        self.batch_left -= 1;
        if self.batch_left == 0 {
            for (raw, spam) in self.waiting.drain(..) {
                self.filter.train(&raw, spam);
            }
            self.batch_left = 1 + self.random.below(BATCH_MESSAGES_MAX);
        }
        self.spent += start.elapsed();
    }
}

/// Whether the message's recipient is one of those who give feedback. The recipient is the address
/// of the To line; mail without one counts as labelled.
fn gives_feedback(raw: &[u8], protocol: &Protocol) -> bool {
    let mut lines = raw.split(|&b| b == b'\n').take_while(|l| !l.trim_ascii().is_empty());
    let to = lines.find(|l| l.get(..3).is_some_and(|n| n.eq_ignore_ascii_case(b"to:")));
    let Some(to) = to else { return true };
    let value = to.get(3..).unwrap_or_default().to_ascii_lowercase();
    let address = value.split(|b| b" \t\r<>,\"".contains(b)).find(|word| word.contains(&b'@'));
    let hash = address
        .unwrap_or(&value)
        .iter()
        .fold(mix(protocol.seed), |hash, &byte| mix(hash ^ u64::from(byte)));
    hash % 100 < u64::from(protocol.partial_percent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_is_relative_to_its_folder() {
        let entries = parse_index("spam data/1\nHAM ../2\n\n", Path::new("x")).unwrap();
        let spam = Entry { spam: true, path: "x/data/1".into() };
        let ham = Entry { spam: false, path: "x/../2".into() };
        assert_eq!(entries, [spam, ham]);
        let error = parse_index("spam 1\neggs 2\n", Path::new("")).unwrap_err().to_string();
        assert_eq!(error, "line 2: \"eggs\" is neither `spam` nor `ham`");
        assert!(parse_index("spam\n", Path::new("")).is_err());
    }

    fn stream(count: usize) -> Vec<(Vec<u8>, bool)> {
        let message = |i: usize| {
            let spam = i.is_multiple_of(2);
            let word = if spam { "pills" } else { "minutes" };
            (format!("To: <u{}@x>\nSubject: {word}\n\nabout {word} {i}\n", i % 10).into(), spam)
        };
        (0..count).map(message).collect()
    }

    fn wrong(feedback: Feedback, partial_percent: u32) -> usize {
        let protocol = Protocol { feedback, partial_percent, seed: 1 };
        let mut learner = OnlineLearner::new("baseline", OnlineFilter::baseline(), &protocol);
        for block in stream(3_000).chunks(100) {
            learner.block(block, &protocol);
        }
        learner.scored.iter().filter(|s| (s.score > 0.0) != s.spam).count()
    }

    #[test]
    fn late_or_scarce_feedback_costs_errors_and_none_teaches_nothing() {
        let immediate = wrong(Feedback::Immediate, 100);
        assert!(immediate < 30, "{immediate}");
        assert!(wrong(Feedback::Delayed, 100) > immediate);
        let partial = wrong(Feedback::Partial, 50);
        assert!(partial > immediate && partial < 1_500, "{partial}");
        assert_eq!(wrong(Feedback::Partial, 0), 1_500, "every spam");
    }
}
