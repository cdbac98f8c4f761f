//! Good mail that nobody corrects: which messages are samples of it, and the way to the disk.
//!
//! A message from the internet counts if somebody here wrote to its author before (or released mail
//! of theirs) and DMARC proves that the author is who it says; so does a message that somebody
//! releases without a correction. What keeps a class that was called wrongly out of it would hide
//! what the thresholds are checked for, so suspect and spam count; what the engine calls phishing
//! or malware, or cannot judge, does not, whoever sent it.
//!
//! Scans hand over numbers and never wait; a thread writes them
//! ([`gauntlet_learning::good_mail`]), and the node applies them with its next poll.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use gauntlet_engine::site_model::good_mail::{GoodSample, SampleKind, author_id};
use gauntlet_learning::good_mail::GoodMailWriter;
use gauntlet_mail::Direction;
use gauntlet_mail::date::DAY_MS;
use gauntlet_mail::facts::AuthResult;
use gauntlet_store::LogRecord;
use gauntlet_verdict::{Class, Verdict};

use crate::clock::Clock;
use crate::facts::authors;

/// Samples that wait to be written; beyond these, further ones do not count.
const QUEUE_MAX: usize = 256;
/// Between two times that samples are written: each changes the version of the ruleset.
const WRITE_PAUSE: Duration = Duration::from_secs(60);
/// Authors of a message that are read: of more than one nobody can tell who it is that is known.
const AUTHORS_MAX: usize = 2;

/// The way to the file of samples. Clones share it.
#[derive(Debug, Clone)]
pub struct GoodMailSamples(Sender<GoodSample>);

impl GoodMailSamples {
    /// Starts the thread that writes. It ends when the last clone is gone.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn start(data: PathBuf, clock: Clock) -> io::Result<Self> {
        let (queue, samples) = bounded(QUEUE_MAX);
        std::thread::Builder::new()
            .name("good-mail".to_owned())
            .spawn(move || write(&data, &clock, &samples))?;
        Ok(GoodMailSamples(queue))
    }

    /// Takes a sample of a message that was just judged, if it is one. Never waits.
    pub fn notice(&self, record: &LogRecord, raw: &[u8]) {
        if is_known_good(record)
            && let [author] = &*authors(raw, AUTHORS_MAX).mailboxes
        {
            let kind = SampleKind::KnownAuthor;
            self.add(kind, &record.verdict, &author.address, record.received_ms);
        }
    }

    /// Takes a sample of a message with this verdict and author, if it could be judged.
    pub fn add(&self, kind: SampleKind, verdict: &Verdict, author: &str, at_ms: i64) {
        let Some(odds) = verdict.stranger_odds.filter(|_| is_judged(verdict)) else { return };
        let day = u32::try_from(at_ms / DAY_MS).unwrap_or(0);
        let sample = GoodSample { kind, odds: odds as f32, author: author_id(author), day };
        if self.0.try_send(sample).is_err() {
            tracing::debug!("a sample of good mail was left out: too many at once");
        }
    }
}

/// It came from the internet, somebody here knows its author, and DMARC proves them.
fn is_known_good(record: &LogRecord) -> bool {
    let LogRecord { envelope, facts, verdict, .. } = record;
    envelope.direction == Direction::Inbound
        && envelope.auth_user.is_none()
        && facts.correspondent_days.is_some()
        && facts.dmarc == AuthResult::Pass
        && is_judged(verdict)
}

/// The verdict is one that a threshold gave, on a message that reads in one way.
pub(crate) fn is_judged(verdict: &Verdict) -> bool {
    verdict.class <= Class::Spam && !verdict.defects.iter().any(|d| d.kind.is_ambiguous())
}

/// Writes what comes, now and then.
fn write(data: &Path, clock: &Clock, queue: &Receiver<GoodSample>) {
    let mut writer = GoodMailWriter::open(data).unwrap_or_else(|error| {
        tracing::warn!(%error, "samples of good mail cannot be read");
        GoodMailWriter::empty(data)
    });
    let mut written = None;
    loop {
        let come = queue.recv_timeout(WRITE_PAUSE);
        let ends = come == Err(RecvTimeoutError::Disconnected);
        come.into_iter().chain(queue.try_iter()).for_each(|sample| writer.add(sample));
        let rested = written.is_none_or(|at| clock.elapsed(at) >= WRITE_PAUSE);
        if ends || (rested && writer.is_due()) {
            written = Some(clock.now());
            if let Err(error) = writer.write() {
                tracing::error!(%error, "samples of good mail could not be written");
            }
        }
        if ends {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gauntlet_learning::good_mail;
    use gauntlet_mail::{Defect, DefectKind};

    fn record() -> LogRecord {
        let mut record = LogRecord { received_ms: 20_000 * DAY_MS, ..LogRecord::default() };
        record.facts.correspondent_days = Some(3);
        record.facts.dmarc = AuthResult::Pass;
        record.verdict.stranger_odds = Some(-4.5);
        record
    }

    /// How many samples are on disk after this.
    fn samples(notice: impl FnOnce(&GoodMailSamples)) -> Vec<GoodSample> {
        let folder = tempfile::tempdir().unwrap();
        let (queue, waiting) = bounded(QUEUE_MAX);
        notice(&GoodMailSamples(queue));
        write(folder.path(), &Clock::system(), &waiting);
        good_mail::read(folder.path()).unwrap()
    }

    #[test]
    fn only_mail_that_a_known_author_provably_wrote_counts() {
        let raw = b"From: Ann <Ann@example.org>\r\n\r\nhello\r\n";
        let count = |change: &dyn Fn(&mut LogRecord)| {
            let mut record = record();
            change(&mut record);
            samples(|good_mail| good_mail.notice(&record, raw)).len()
        };
        assert_eq!(count(&|_| {}), 1);
        assert_eq!(count(&|r| r.verdict.class = Class::Spam), 1, "what the thresholds got wrong");
        assert_eq!(count(&|r| r.facts.correspondent_days = None), 0);
        for forged in [AuthResult::Fail, AuthResult::Unknown, AuthResult::None] {
            assert_eq!(count(&|r| r.facts.dmarc = forged), 0, "{forged:?}");
        }
        for class in [Class::Phishing, Class::Malware, Class::Unscannable] {
            assert_eq!(count(&|r| r.verdict.class = class), 0, "{class}");
        }
        let two_readings = Defect::new(DefectKind::AmbiguousFrom, 0);
        assert_eq!(count(&|r| r.verdict.defects.push(two_readings.clone())), 0);
        assert_eq!(count(&|r| r.envelope.direction = Direction::Outbound), 0);
        assert_eq!(count(&|r| r.verdict.stranger_odds = None), 0, "nothing was scanned");
    }

    #[test]
    fn nothing_but_numbers_is_kept_and_two_authors_are_nobody() {
        let kept = samples(|good_mail| {
            good_mail.notice(&record(), b"From: ann@example.org, eve@example.com\r\n\r\nhello\r\n");
            good_mail.notice(&record(), b"From: ann@example.org\r\n\r\nhello\r\n");
        });
        let author = author_id("ann@example.org");
        let expected =
            GoodSample { kind: SampleKind::KnownAuthor, odds: -4.5, author, day: 20_000 };
        assert_eq!(kept, [expected]);
    }

    #[test]
    fn a_flood_waits_for_nobody() {
        let (queue, waiting) = bounded(1);
        let good_mail = GoodMailSamples(queue);
        (0..100).for_each(|_| good_mail.notice(&record(), b"From: ann@example.org\r\n\r\nx\r\n"));
        assert_eq!(waiting.len(), 1);
    }
}
