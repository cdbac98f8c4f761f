//! What a group of features adds to the log odds: the one rule by which models are trained and
//! judge.
//!
//! A group's share is the sum of its weights, divided by the square root of their number so that
//! length does not count, and bounded. **Text is read in blocks beside that**: its share is at most
//! [`BLOCK_LEAD_MAX`] below that of its most spam-like block. Without it, a spammer who puts the
//! words of a good message behind, before or between his own would drown them; with it, they take a
//! unit from him, however many they are (`docs/decisions/138-text-in-blocks.md`).
//!
//! **Good words and links count within a bound**: whoever writes a message can put any into it, so
//! text and links together take at most [`GOOD_CONTENT_MAX`] from what the rest says.

use std::ops::Range;

use super::group::{GROUP_BOUND, GROUPS, Group};

/// Features of a block of text, about 60 words with their pairs. Texts of up to one and a half are
/// one block.
const BLOCK_FEATURES: usize = 170;
/// Units of log odds by which all of a text may be less spam-like than its worst block.
pub(super) const BLOCK_LEAD_MAX: f32 = 1.0;
/// Units of log odds by which text and links together may speak for a message. Models are trained
/// without it: a model trained within it caught 51 % instead of 56 % of unseen mail of today.
const GOOD_CONTENT_MAX: f32 = 1.0;

/// A group's share of the log odds.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct GroupScore {
    /// Units of log odds, within ± [`GROUP_BOUND`].
    pub(super) value: f32,
    /// Positions in the group of the features that it comes from: all, or those of a block.
    pub(super) from: Range<usize>,
    /// What the share was multiplied by to stay within a bound of several groups; 1 if it did.
    pub(super) factor: f32,
}

impl GroupScore {
    fn new(value: f32, from: Range<usize>) -> Self {
        GroupScore { value, from, factor: 1.0 }
    }

    /// What the weight of one of its features counts.
    pub(super) fn unit(&self) -> f32 {
        self.factor * unit(self.from.len())
    }
}

/// Holds what text and links say for a message within [`GOOD_CONTENT_MAX`]; what they say against
/// it stays.
pub(super) fn bound_good_content(shares: &mut [GroupScore; GROUPS]) {
    let content = [Group::Text, Group::Links].map(Group::index);
    let good: f32 = content.iter().map(|&i| shares[i].value.min(0.0)).sum();
    if good >= -GOOD_CONTENT_MAX {
        return;
    }
    for i in content {
        if shares[i].value < 0.0 {
            shares[i].value *= -GOOD_CONTENT_MAX / good;
            shares[i].factor = -GOOD_CONTENT_MAX / good;
        }
    }
}

/// The share of a group of features, of which `sum` adds up weights.
pub(super) fn group_score(
    group: Group,
    features: &[u32],
    sum: impl Fn(&[u32]) -> f32,
) -> GroupScore {
    let length = features.len();
    let blocks = match group {
        Group::Text => ((length + BLOCK_FEATURES / 2) / BLOCK_FEATURES).max(1),
        _ => 1,
    };
    let bounded = |sum: f32, length| (sum * unit(length)).clamp(-GROUP_BOUND, GROUP_BOUND);
    let (mut total, mut worst) = (0.0, GroupScore::new(-GROUP_BOUND, 0..length));
    for block in 0..blocks {
        let from = block * length / blocks..(block + 1) * length / blocks;
        let part = sum(features.get(from.clone()).unwrap_or_default());
        let value = bounded(part, from.len()) - BLOCK_LEAD_MAX;
        total += part;
        if value > worst.value {
            worst = GroupScore::new(value, from);
        }
    }
    let whole = bounded(total, length);
    if worst.value > whole { worst } else { GroupScore::new(whole, 0..length) }
}

fn unit(length: usize) -> f32 {
    1.0 / (length.max(1) as f32).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A text whose features weigh what they are: 1 for spam, 0 for ham, as much to the other side.
    fn of(text: &[u32]) -> GroupScore {
        group_score(Group::Text, text, |f| f.iter().map(|&f| 0.2 * (2.0 * f as f32 - 1.0)).sum())
    }

    #[test]
    fn good_words_take_a_unit_from_a_block_wherever_they_stand() {
        let spam = [1; BLOCK_FEATURES];
        let alone = of(&spam);
        assert_eq!(alone.from, 0..BLOCK_FEATURES);
        for (before, behind) in [(0, 20), (20, 0), (7, 13), (1, 1)] {
            let ham = |blocks: usize| vec![0; blocks * BLOCK_FEATURES];
            let padded = of(&[&ham(before)[..], &spam, &ham(behind)].concat());
            assert_eq!(padded.value, alone.value - BLOCK_LEAD_MAX);
            assert_eq!(padded.from, before * BLOCK_FEATURES..(before + 1) * BLOCK_FEATURES);
            assert_eq!(padded.unit(), alone.unit());
        }
    }

    #[test]
    fn other_groups_and_short_texts_are_one_block() {
        let mixed = [[0; BLOCK_FEATURES], [1; BLOCK_FEATURES]].concat();
        let sum = |f: &[u32]| f.iter().map(|&f| f as f32).sum();
        assert_eq!(group_score(Group::Links, &mixed, sum).from, 0..2 * BLOCK_FEATURES);
        assert_eq!(of(&mixed[100..300]).from, 0..200);
        assert_eq!(of(&[]), GroupScore::new(0.0, 0..0));
    }

    #[test]
    fn text_and_links_speak_for_a_message_within_a_bound() {
        let shares = |text: f32, links: f32| {
            let score = |value| GroupScore::new(value, 0..1);
            let mut shares = Group::ALL.map(|group| match group {
                Group::Text => score(text),
                Group::Links => score(links),
                _ => score(-3.0),
            });
            bound_good_content(&mut shares);
            let value = |group: Group| shares[group.index()].value;
            assert_eq!(value(Group::Form), -3.0, "other groups are as they were");
            (value(Group::Text), value(Group::Links))
        };
        assert_eq!(shares(-3.0, -1.0), (-0.75, -0.25));
        assert_eq!(shares(-3.0, 2.0), (-1.0, 2.0), "what they say against it stays");
        assert_eq!(shares(-0.5, -0.25), (-0.5, -0.25));
    }
}
