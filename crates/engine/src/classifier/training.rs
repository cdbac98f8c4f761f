//! Making a model: logistic regression over all training mail, several times, in an order drawn
//! from a seed.

use super::group::{FEATURES_MAX, GROUPS, Group, TABLE_BITS};
use super::group_score::{GroupScore, group_score};
use super::model::Model;
use super::scratch::ClassifierScratch;
use crate::random::Random;

/// One message to learn from.
#[derive(Debug, Clone)]
pub struct Example {
    features: Vec<u32>,
    ends: [u16; GROUPS],
    /// Its label: unwanted, or good.
    pub spam: bool,
    /// Which source it came from, an index of the caller's.
    pub source: u16,
    /// How often it counts; set by [`balance`].
    pub weight: f32,
    /// How often it counts beside others of its source and class.
    pub importance: f32,
    /// Whether its words are learned, or only its form, links and parts.
    pub has_known_language: bool,
}

impl Example {
    /// The message that the scratch has read.
    pub fn new(scratch: &ClassifierScratch, spam: bool, source: u16) -> Self {
        let (features, ends) = scratch.features();
        debug_assert!(FEATURES_MAX <= usize::from(u16::MAX));
        Example {
            features: features.to_vec(),
            ends: ends.map(|e| e as u16),
            spam,
            source,
            weight: 1.0,
            importance: 1.0,
            has_known_language: true,
        }
    }

    /// Indices into the table of weights, group after group.
    pub fn features(&self) -> &[u32] {
        &self.features
    }

    /// Where each group of features ends.
    pub fn ends(&self) -> [usize; GROUPS] {
        self.ends.map(usize::from)
    }
}

/// Parameters of a training run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Recipe {
    /// Passes over all messages.
    pub epochs: u32,
    /// First step; AdaGrad makes it smaller, weight by weight.
    pub rate: f32,
    /// Share by which a weight shrinks towards 0 with each epoch.
    pub decay: f32,
    /// A feature of fewer messages than this is left out: it says who wrote, not what.
    pub messages_min: u8,
    /// Weight of a source's class relative to its size: 0 every message counts the same, 1 every
    /// class of every source counts the same.
    pub balance: f32,
    /// Probability of each group of a message to be left out of one step: no group may rely on what
    /// another says, so that the rest still judges when one misleads or is missing.
    pub dropout: f32,
    /// Draws the order, and what is left out.
    pub seed: u64,
}

impl Default for Recipe {
    fn default() -> Self {
        Recipe {
            epochs: 20,
            rate: 0.15,
            decay: 0.03,
            messages_min: 2,
            balance: 0.9,
            dropout: 0.0,
            seed: 1,
        }
    }
}

/// A message never counts more than this often because its source is small.
const WEIGHT_MAX: f32 = 12.0;

/// Learns weights. The calibration is the identity; see [`calibrate`].
pub fn train(examples: &mut [Example], recipe: &Recipe, description: String) -> Model {
    balance(examples, recipe.balance);
    let common = common_features(examples, recipe.messages_min);
    let mut weights = vec![0f32; 1 << TABLE_BITS];
    let mut squares = vec![0f32; 1 << TABLE_BITS];
    let (mut bias, mut bias_square) = (0f32, 0f32);
    let mut order: Vec<u32> = (0..examples.len() as u32).collect();
    let mut random = Random::new(recipe.seed);
    for _ in 0..recipe.epochs {
        random.shuffle(&mut order);
        for &i in &order {
            let Some(example) = examples.get(i as usize) else { continue };
            let is_learned = |group: Group| example.has_known_language || !group.has_words();
            let kept = Group::ALL.map(|g| random.unit() >= recipe.dropout && is_learned(g));
            let shares = shares(example, &weights);
            let counted = shares.iter().zip(kept).filter(|s| s.1);
            let logit = bias + counted.map(|s| s.0.value).sum::<f32>();
            let probability = 1.0 / (1.0 + (-logit).exp());
            let gradient = example.weight * (f32::from(u8::from(example.spam)) - probability);
            bias_square += gradient * gradient;
            bias += recipe.rate * gradient / (1.0 + bias_square).sqrt();
            let tables = (&mut weights[..], &mut squares[..]);
            step(example, (&shares, &kept), (gradient, recipe.rate), &common, tables);
        }
        for weight in &mut weights {
            *weight *= 1.0 - recipe.decay;
        }
    }
    Model::from_weights(&weights, bias, (1.0, 0.0), description)
}

fn groups(example: &Example) -> impl Iterator<Item = &[u32]> {
    let mut from = 0;
    example.ends.iter().map(move |&end| {
        let group = example.features.get(from..usize::from(end)).unwrap_or_default();
        from = usize::from(end);
        group
    })
}

fn shares(example: &Example, weights: &[f32]) -> [GroupScore; GROUPS] {
    let weight = |&i: &u32| weights.get(i as usize).copied().unwrap_or(0.0);
    let mut groups = groups(example);
    Group::ALL.map(|group| {
        group_score(group, groups.next().unwrap_or_default(), |block| {
            block.iter().map(weight).sum()
        })
    })
}

fn step(
    example: &Example,
    (shares, kept): (&[GroupScore; GROUPS], &[bool; GROUPS]),
    (gradient, rate): (f32, f32),
    common: &[bool],
    (weights, squares): (&mut [f32], &mut [f32]),
) {
    for ((group, share), _) in groups(example).zip(shares).zip(kept).filter(|g| *g.1) {
        let part = gradient * share.unit();
        // Where a block determines the text's score, its weights are updated.
        for &i in group.get(share.from.clone()).unwrap_or_default() {
            let i = i as usize;
            let (Some(weight), Some(square)) = (weights.get_mut(i), squares.get_mut(i)) else {
                continue;
            };
            if common.get(i) == Some(&true) {
                *square += part * part;
                *weight += rate * part / (0.01 + *square).sqrt();
            }
        }
    }
}

/// Which features occur in enough messages.
fn common_features(examples: &[Example], messages_min: u8) -> Vec<bool> {
    let mut counts = vec![0u8; 1 << TABLE_BITS];
    for &i in examples.iter().flat_map(|e| &e.features) {
        if let Some(count) = counts.get_mut(i as usize) {
            *count = count.saturating_add(1);
        }
    }
    counts.iter().map(|&c| c >= messages_min).collect()
}

/// Lets small sources count more, by `share` of the way to equal weight.
pub fn balance(examples: &mut [Example], share: f32) {
    let mut counts = std::collections::BTreeMap::new();
    for e in examples.iter() {
        *counts.entry((e.source, e.spam)).or_insert(0u32) += 1;
    }
    let mean = examples.len() as f32 / counts.len().max(1) as f32;
    for e in examples.iter_mut() {
        let count = counts.get(&(e.source, e.spam)).copied().unwrap_or(1) as f32;
        let weight = (mean / count).powf(share).clamp(1.0 / WEIGHT_MAX, WEIGHT_MAX);
        e.weight = e.importance * weight;
    }
}

/// Slope and offset that turn a score into log odds: Platt's scaling (1999) by gradient steps on
/// `(score, spam, weight)`. Of mail that the scores were not trained on.
pub fn calibrate(scores: &[(f32, bool, f32)]) -> (f32, f32) {
    let (mut slope, mut offset) = (1f64, 0f64);
    let total: f64 = scores.iter().map(|s| f64::from(s.2)).sum();
    if total <= 0.0 {
        return (1.0, 0.0);
    }
    for _ in 0..2_000 {
        let (mut by_slope, mut by_offset) = (0f64, 0f64);
        for &(score, spam, weight) in scores {
            let score = f64::from(score);
            let p = 1.0 / (1.0 + (-(slope * score + offset)).exp());
            let error = f64::from(weight) * (f64::from(u8::from(spam)) - p);
            by_slope += error * score;
            by_offset += error;
        }
        slope = (slope + 0.05 * by_slope / total).clamp(0.05, 3.0);
        offset += 0.5 * by_offset / total;
    }
    (slope as f32, offset as f32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gauntlet_mail::Message;

    fn examples() -> Vec<Example> {
        let mut scratch = ClassifierScratch::default();
        let mut read = |raw: String, spam| {
            scratch.read(&Message::parse(raw.as_bytes()));
            Example::new(&scratch, spam, 0)
        };
        let message = |subject: &str, body: &str, i: usize| {
            format!("From: a{i}@example.org\nSubject: {subject} {i}\n\n{body} number {i}\n")
        };
        (0..60)
            .map(|i| match i % 2 {
                0 => read(message("minutes", "the minutes of the meeting", i), false),
                _ => read(message("pills", "cheap pills for you", i), true),
            })
            .collect()
    }

    #[test]
    fn learns_and_repeats_for_a_seed() {
        let train = |seed| {
            let recipe = Recipe { seed, ..Recipe::default() };
            train(&mut examples(), &recipe, String::new())
        };
        let model = train(1);
        assert_eq!(model.to_bytes(), train(1).to_bytes());
        let mut scratch = ClassifierScratch::default();
        scratch.read(&Message::parse(b"Subject: cheap pills\n\npills for you\n"));
        assert!(model.logit(&scratch) > 0.5);
        scratch.read(&Message::parse(b"Subject: minutes\n\nof the meeting\n"));
        assert!(model.logit(&scratch) < -0.5);
    }

    #[test]
    fn a_few_wrong_labels_and_duplicates_do_not_turn_the_model() {
        let mut all = examples();
        for i in [0, 1, 2, 3] {
            all[i].spam = !all[i].spam;
        }
        let copies = all[10..20].to_vec();
        all.extend(copies);
        let model = train(&mut all, &Recipe::default(), String::new());
        let mut scratch = ClassifierScratch::default();
        scratch.read(&Message::parse(b"Subject: cheap pills\n\npills for you\n"));
        let spam = model.logit(&scratch);
        scratch.read(&Message::parse(b"Subject: minutes\n\nof the meeting\n"));
        assert!(spam > 0.0 && model.logit(&scratch) < 0.0);
    }

    #[test]
    fn calibration_finds_slope_and_offset() {
        // Odds of 3 to 1 at score 1 and 1 to 3 at score -1: slope ln 3, offset 0.
        let scores: Vec<_> = [(1.0, true), (1.0, true), (1.0, true), (1.0, false)]
            .iter()
            .flat_map(|&(s, spam)| [(s, spam, 1.0), (-s, !spam, 1.0)])
            .collect();
        let (slope, offset) = calibrate(&scores);
        assert!((slope - 3f32.ln()).abs() < 0.01 && offset.abs() < 0.01, "{slope} {offset}");
    }
}
