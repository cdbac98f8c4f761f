//! A share of the pages, for lists of phrases that are tried beside those in force.
//!
//! A page is handed on once it is read; whoever tries the other lists scores it on a thread of its
//! own. Nothing here waits: if the other cannot keep up, pages are left out.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Instant;

use arc_swap::ArcSwapOption;
use gauntlet_phrases::{Form, Kind, PhraseSet, ScoreOptions};

use super::text::PageText;

/// Pages that wait to be scored.
const QUEUE_MAX: usize = 16;
/// Larger pages are left out: what waits is bounded by both.
pub(super) const BYTES_MAX: usize = 1 << 20;
/// Phrases that are named of a page.
const PHRASES_MAX: usize = 8;

/// A page without its content coding.
#[derive(Debug)]
pub struct PageSample {
    pub(super) bytes: Vec<u8>,
    pub(super) form: Form,
    pub(super) charset: Option<String>,
    pub(super) options: ScoreOptions,
}

/// What lists of phrases say of a page.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PageScore {
    /// It is blocked by them.
    pub blocks: bool,
    /// Phrases that speak for that.
    pub phrases: Vec<String>,
    /// Time in microseconds.
    pub micros: f64,
}

impl PageSample {
    /// Scores it by these lists; without any, nothing is found.
    pub fn score(&self, set: Option<&Arc<PhraseSet>>) -> PageScore {
        let Some(set) = set else { return PageScore::default() };
        let began = Instant::now();
        let mut text = PageText::new(set, self.form, self.charset.clone());
        text.push(&self.bytes);
        let score = text.finish(&self.options);
        let micros = began.elapsed().as_secs_f64() * 1e6;
        let speaks = |hit: &&gauntlet_phrases::Hit| match hit.kind {
            Kind::Banned => true,
            Kind::Weighted(_) => hit.points > 0,
            Kind::Exception => false,
        };
        let phrases = score.hits().iter().filter(speaks).take(PHRASES_MAX);
        let phrases = phrases.map(|hit| hit.phrase.clone()).collect();
        PageScore { blocks: score.blocks(), phrases, micros }
    }
}

#[derive(Debug)]
struct Trial {
    percent: u64,
    seen: AtomicU64,
    queue: SyncSender<PageSample>,
}

/// The place where a trial listens, if there is one. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct PageShadow(Arc<ArcSwapOption<Trial>>);

impl PageShadow {
    /// Begins to hand on so many of a hundred pages; ends what was begun before.
    pub fn begin(&self, percent: u8) -> Receiver<PageSample> {
        let (queue, samples) = sync_channel(QUEUE_MAX);
        let trial = Trial { percent: u64::from(percent), seen: AtomicU64::new(0), queue };
        self.0.store(Some(Arc::new(trial)));
        samples
    }

    /// Hands nothing on any more; the other end is told.
    pub fn end(&self) {
        self.0.store(None);
    }

    /// Whether the page that comes now is one of those.
    pub(super) fn chooses(&self) -> bool {
        self.0.load().as_ref().is_some_and(|trial| {
            let number = trial.seen.fetch_add(1, Ordering::Relaxed);
            // Evenly spread: as often as the product passes a hundred.
            (number + 1) * trial.percent / 100 != number * trial.percent / 100
        })
    }

    /// Hands a page on.
    pub(super) fn notice(&self, sample: PageSample) {
        if let Some(trial) = &*self.0.load()
            && trial.queue.try_send(sample).is_err()
        {
            tracing::trace!("a page was not tried by new phrases: too many wait");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gauntlet_phrases::{Count, Reader, Role};

    #[test]
    fn a_share_of_the_pages_is_handed_on_and_nothing_waits() {
        let sample = || PageSample {
            bytes: b"<p>tomatoes, potatoes".to_vec(),
            form: Form::Html,
            charset: None,
            options: ScoreOptions { limit: 50, count: Count::Once },
        };
        let shadow = PageShadow::default();
        assert!(!shadow.chooses());
        let samples = shadow.begin(5);
        assert_eq!((0..100).filter(|_| shadow.chooses()).count(), 5);
        for _ in 0..1_000 {
            shadow.notice(sample());
        }
        assert_eq!(samples.try_iter().count(), QUEUE_MAX);
        shadow.end();
        assert!(!shadow.chooses() && samples.recv().is_err());
        let fetch = |_: &std::path::Path| Ok(b"<tomatoes><60>\n< potatoes><-5>\n".to_vec());
        let mut reader = Reader::new(&fetch);
        reader.read("list".as_ref(), Role::Banned);
        let set = Arc::new(PhraseSet::compile(&reader.finish()).unwrap());
        let score = sample().score(Some(&set));
        assert!(score.blocks && score.phrases == ["tomatoes"], "{score:?}");
        assert_eq!(sample().score(None), PageScore::default());
    }
}
