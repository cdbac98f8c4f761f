//! From a corpus to a calibrated model; splitting by date.

use std::collections::{BTreeMap, HashSet};

use gauntlet_engine::classifier::Model;
use gauntlet_engine::classifier::training::{self, Example, Recipe};
use serde_json::json;

use super::corpus::{Corpus, Labelled};

/// How to train.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct TrainingArgs {
    /// Passes over all mail
    #[arg(long, default_value_t = Recipe::default().epochs)]
    pub(crate) epochs: u32,
    /// Learning rate
    #[arg(long, default_value_t = Recipe::default().rate)]
    pub(crate) rate: f32,
    /// Share by which weights shrink after each time
    #[arg(long, default_value_t = Recipe::default().decay)]
    pub(crate) decay: f32,
    /// Leave out features of fewer messages than this
    #[arg(long, default_value_t = Recipe::default().messages_min)]
    pub(crate) messages_min: u8,
    /// 0: every message counts the same; 1: every class of every source counts the same
    #[arg(long, default_value_t = Recipe::default().balance)]
    pub(crate) balance: f32,
    /// Probability of each group of features to be left out of one step
    #[arg(long, default_value_t = Recipe::default().dropout)]
    pub(crate) dropout: f32,
    /// How often mail dated 2014 or later counts beside older mail: what people get has changed
    #[arg(long, value_name = "TIMES", default_value_t = 5.0)]
    pub(crate) recent_weight: f32,
    /// Good messages in a language from which its words are learned; mail in a language with fewer
    /// teaches its form, links and parts alone
    #[arg(long, value_name = "MESSAGES", default_value_t = 500)]
    pub(crate) language_ham_min: usize,
    /// Seed of the order of the mail
    #[arg(long, default_value_t = Recipe::default().seed)]
    pub(crate) train_seed: u64,
}

impl TrainingArgs {
    fn recipe(&self) -> Recipe {
        Recipe {
            epochs: self.epochs,
            rate: self.rate,
            decay: self.decay,
            messages_min: self.messages_min,
            balance: self.balance,
            dropout: self.dropout,
            seed: self.train_seed,
        }
    }
}

/// 1 January 2014: from here on mail counts as recent.
const RECENT_SINCE: i64 = 1_388_534_400;

/// Share of the training mail, the newest of each source, that the calibration is made on by a
/// model that has not seen it.
const CALIBRATION_PERCENT: usize = 15;

/// All of the corpus, by position.
pub(crate) fn all(corpus: &Corpus) -> Vec<usize> {
    (0..corpus.mail.len()).collect()
}

/// Splits messages into earlier and later ones: of every source and class, the newest `percent` are
/// later. Later messages whose body is among the earlier ones are dropped.
pub(crate) fn split(corpus: &Corpus, of: &[usize], percent: usize) -> (Vec<usize>, Vec<usize>) {
    let mut by_class: BTreeMap<(u16, bool), Vec<usize>> = BTreeMap::new();
    for &i in of {
        let Some(m) = corpus.mail.get(i) else { continue };
        by_class.entry((m.example.source, m.example.spam)).or_default().push(i);
    }
    let (mut earlier, mut later) = (Vec::new(), Vec::new());
    for mut positions in by_class.into_values() {
        // A mailbox's mail has its order, which breaks ties of dates.
        positions.sort_by_key(|&i| corpus.mail.get(i).map_or(0, |m| m.date));
        let cut = positions.len() - positions.len() * percent.min(100) / 100;
        later.extend(positions.split_off(cut));
        earlier.extend(positions);
    }
    let bodies: HashSet<u64> =
        earlier.iter().filter_map(|&i| corpus.mail.get(i)).map(|m| m.body).collect();
    later.retain(|&i| corpus.mail.get(i).is_some_and(|m| !bodies.contains(&m.body)));
    earlier.sort_unstable();
    later.sort_unstable();
    (earlier, later)
}

/// Deals the sources out to `folds` parts of about as many messages, the largest source first, so
/// that each part can be judged by a model that has seen none of its sources. Parts without a
/// source are left out.
pub(crate) fn by_source(corpus: &Corpus, folds: usize) -> Vec<Vec<usize>> {
    let mut sources = vec![Vec::new(); corpus.sources.len()];
    for (mail, i) in corpus.mail.iter().zip(0..) {
        if let Some(source) = sources.get_mut(usize::from(mail.example.source)) {
            source.push(i);
        }
    }
    sources.sort_by_key(|s| std::cmp::Reverse(s.len()));
    let mut parts = vec![Vec::new(); folds];
    for source in sources {
        if let Some(least) = parts.iter_mut().min_by_key(|part| part.len()) {
            least.extend(source);
        }
    }
    parts.retain(|part| !part.is_empty());
    parts
}

/// Trains on these messages of the corpus, and calibrates.
pub(crate) fn train(corpus: &Corpus, of: &[usize], training_args: &TrainingArgs) -> Model {
    let recipe = training_args.recipe();
    let known = known_languages(corpus, of, training_args.language_ham_min);
    let examples = |of: &[usize]| -> Vec<Example> {
        let mail = of.iter().filter_map(|&i| corpus.mail.get(i));
        let example = |m: &Labelled| {
            let mut example = m.example.clone();
            example.has_known_language = known.contains(m.language);
            if m.date >= RECENT_SINCE {
                example.importance = training_args.recent_weight;
            }
            example
        };
        mail.map(example).collect()
    };
    let (earlier, later) = split(corpus, of, CALIBRATION_PERCENT);
    let trial = training::train(&mut examples(&earlier), &recipe, String::new());
    let mut unseen = examples(&later);
    training::balance(&mut unseen, recipe.balance);
    let scores =
        unseen.iter().map(|e| (trial.raw_logit_of(e.features(), e.ends()), e.spam, e.weight));
    let (slope, offset) = training::calibrate(&scores.collect::<Vec<_>>());
    let description = describe(corpus, of, training_args);
    training::train(&mut examples(of), &recipe, description).calibrated(slope, offset)
}

/// The languages in which there is enough good mail. Where there is less, almost all mail in the
/// language is spam, and its commonest words would be taken for marks of it.
fn known_languages(corpus: &Corpus, of: &[usize], ham_min: usize) -> HashSet<&'static str> {
    let mut good = BTreeMap::<&'static str, usize>::new();
    for mail in of.iter().filter_map(|&i| corpus.mail.get(i)) {
        *good.entry(mail.language).or_default() += usize::from(!mail.example.spam);
    }
    good.retain(|_, count| *count >= ham_min);
    good.into_keys().collect()
}

/// What the model was made of, as JSON.
fn describe(corpus: &Corpus, of: &[usize], training_args: &TrainingArgs) -> String {
    let mut sources: BTreeMap<&str, (u32, u32, i64, i64)> = BTreeMap::new();
    for m in of.iter().filter_map(|&i| corpus.mail.get(i)) {
        let Some(name) = corpus.sources.get(usize::from(m.example.source)) else { continue };
        let entry = sources.entry(name).or_insert((0, 0, i64::MAX, 0));
        entry.0 += u32::from(!m.example.spam);
        entry.1 += u32::from(m.example.spam);
        if m.date > 0 {
            entry.2 = entry.2.min(m.date);
            entry.3 = entry.3.max(m.date);
        }
    }
    let sources: Vec<_> = sources
        .into_iter()
        .map(|(name, (ham, spam, from, to))| {
            json!({"source": name, "ham": ham, "spam": spam, "from": from.min(to), "to": to})
        })
        .collect();
    json!({"sources": sources, "recipe": format!("{:?}", training_args.recipe())}).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gauntlet_engine::classifier::ClassifierScratch;

    #[test]
    fn sources_are_dealt_out_whole() {
        let scratch = ClassifierScratch::default();
        let of = |source| Labelled {
            example: Example::new(&scratch, false, source),
            date: 0,
            body: 0,
            language: "eng",
            file: String::new(),
        };
        let mail = [0, 1, 0, 2, 0, 1].map(of).into();
        let sources = ["a", "b", "c"].map(String::from).into();
        let corpus = Corpus { sources, mail, ..Corpus::default() };
        assert_eq!(by_source(&corpus, 2), [vec![0, 2, 4], vec![1, 5, 3]]);
        assert_eq!(by_source(&corpus, 9).len(), 3);
    }

    #[test]
    fn later_mail_is_newer_and_has_other_bodies() {
        let scratch = ClassifierScratch::default();
        let labelled = |date, body| Labelled {
            example: Example::new(&scratch, false, 0),
            date,
            body,
            language: "eng",
            file: String::new(),
        };
        let mail = vec![labelled(5, 1), labelled(1, 2), labelled(3, 3), labelled(9, 2)];
        let corpus = Corpus { sources: vec!["a".into()], mail, ..Corpus::default() };
        assert_eq!(split(&corpus, &all(&corpus), 50), (vec![1, 2], vec![0]));
        assert_eq!(split(&corpus, &all(&corpus), 0).1, Vec::<usize>::new());
    }
}
