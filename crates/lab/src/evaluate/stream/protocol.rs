//! Of which messages a filter gets the label, and when.

use std::collections::VecDeque;

use gauntlet_bench::learners::Learner;
use gauntlet_engine::random::Random;
use serde::Serialize;

use super::mailbox::Mail;
use crate::train::progress::Progress;

/// Of which messages the filter may get the label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LabelScope {
    Any,
    /// Those that were judged wrongly.
    Errors,
}

/// How the filter gets labels.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Protocol {
    pub(crate) told: LabelScope,
    /// Share of those messages whose label is given, 0 to 1.
    pub(crate) share: f64,
    /// Messages that come in between.
    pub(crate) delay: usize,
    /// First messages of the stream whose label is given before anything is judged.
    pub(crate) beforehand: usize,
    /// Draws whose labels are given.
    pub(crate) seed: u64,
}

/// What became of one message.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Outcome {
    pub(crate) spam: bool,
    /// It was called spam, phishing or malware.
    pub(crate) called: bool,
    /// It was called suspect at least.
    pub(crate) suspect: bool,
    /// How much it looks like spam.
    pub(crate) score: f64,
    /// Messages whose label the filter had.
    pub(crate) known: usize,
}

impl Protocol {
    /// Judges the stream.
    ///
    /// # Errors
    /// If the filter fails.
    pub(crate) fn run(
        &self,
        filter: &mut dyn Learner,
        stream: &[Mail],
        before: &[Mail],
    ) -> anyhow::Result<Vec<Outcome>> {
        let (first, rest) = stream.split_at(self.beforehand.min(stream.len()));
        let progress = Progress::of(stream.len() + before.len(), "messages");
        for mail in before.iter().chain(first) {
            filter.teach(&mail.raw, mail.spam)?;
            progress.step();
        }
        let mut random = Random::new(self.seed);
        let mut waiting: VecDeque<(usize, &Mail)> = VecDeque::new();
        let mut known = before.len() + first.len();
        let mut outcomes = Vec::with_capacity(rest.len());
        for (at, mail) in rest.iter().enumerate() {
            while let Some(&(_, labelled)) = waiting.front().filter(|(due, _)| *due <= at) {
                filter.teach(&labelled.raw, labelled.spam)?;
                known += 1;
                waiting.pop_front();
            }
            let opinion = filter.judge(&mail.raw)?;
            let (spam, called) = (mail.spam, opinion.spam);
            let (suspect, score) = (opinion.suspect, opinion.score);
            outcomes.push(Outcome { spam, called, suspect, score, known });
            // Drawn for each message, so that every filter gets the same labels.
            let drawn = f64::from(random.unit()) < self.share;
            if drawn && (self.told == LabelScope::Any || called != spam) {
                waiting.push_back((at + 1 + self.delay, mail));
            }
            progress.step();
        }
        progress.end();
        Ok(outcomes)
    }

    /// `told 10 %`, `told errors, 20 later`.
    pub(crate) fn name(&self) -> String {
        let what = if self.told == LabelScope::Errors { " of the errors" } else { "" };
        let mut name = format!("told {:.0} %{what}", 100.0 * self.share);
        if self.delay > 0 {
            name += &format!(", {} later", self.delay);
        }
        if self.beforehand > 0 {
            name += &format!(", {} beforehand", self.beforehand);
        }
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gauntlet_bench::learners::Opinion;

    /// Answers with the last label that it was given.
    #[derive(Default)]
    struct Parrot(bool, usize);

    impl Learner for Parrot {
        fn name(&self) -> String {
            "parrot".into()
        }
        fn about(&self) -> String {
            String::new()
        }
        fn judge(&mut self, _: &[u8]) -> anyhow::Result<Opinion> {
            Ok(Opinion { spam: self.0, suspect: self.0, score: 0.0 })
        }
        fn teach(&mut self, _: &[u8], spam: bool) -> anyhow::Result<()> {
            self.0 = spam;
            self.1 += 1;
            Ok(())
        }
    }

    fn called(protocol: Protocol) -> (Vec<bool>, usize) {
        let mail = |spam| Mail { raw: Vec::new(), spam, date: 0 };
        let stream: Vec<Mail> = [true, true, false, false, false].map(mail).into();
        let mut parrot = Parrot::default();
        let outcomes = protocol.run(&mut parrot, &stream, &[]).unwrap();
        (outcomes.iter().map(|o| o.called).collect(), parrot.1)
    }

    #[test]
    fn labels_come_by_scope_delay_and_beforehand() {
        let all = Protocol { told: LabelScope::Any, share: 1.0, delay: 0, beforehand: 0, seed: 1 };
        assert_eq!(called(all), (vec![false, true, true, false, false], 4));
        let late = Protocol { delay: 1, ..all };
        assert_eq!(called(late), (vec![false, false, true, true, false], 3));
        let errors = Protocol { told: LabelScope::Errors, ..all };
        assert_eq!(called(errors), (vec![false, true, true, false, false], 2));
        assert_eq!(called(Protocol { share: 0.0, ..all }).1, 0);
        let before = Protocol { beforehand: 2, share: 0.0, ..all };
        assert_eq!(called(before), (vec![true, true, true], 2));
    }
}
