//! The table of weights that a site's corrections train: logistic regression beside what the engine
//! says without them, so that what it does not know is learned first.

/// Bits of the table of identities: 262,144 weights.
pub(crate) const IDENTITY_BITS: u32 = 18;
/// Passes over all corrections.
const EPOCHS: u32 = 3;
/// Step of a weight.
const RATE: f32 = 2.0;
/// What the log odds of all that ships count while the weights are trained. If they counted in
/// full, mail that they know already would teach nothing of what the site's mail looks like.
const BASE_SHARE: f32 = 0.3;
/// Most that one group of features, or the identities, move the log odds: words cannot outvote who
/// sent them.
const GROUP_BOUND: f32 = 4.0;

/// A correction as it is learned from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample<'c> {
    /// Log odds that the engine gives without the site's evidence.
    pub(crate) base: f32,
    /// What was said: unwanted, or good.
    pub(crate) spam: bool,
    /// Messages that it counts: 1, or less where its reporter said much.
    pub(crate) share: f32,
    /// Indices of features, group after group.
    pub(crate) features: &'c [u32],
    /// Where each group ends.
    pub(crate) ends: &'c [u16],
    /// Indices of who sent it and how it came.
    pub(crate) identities: &'c [u32],
}

/// Weights of features and identities.
pub(crate) struct Weights {
    features: Vec<f32>,
    identities: Vec<f32>,
}

impl Weights {
    /// Trains on these samples from zero; `bits` is the size of the table of features.
    pub(crate) fn train(samples: &[Sample<'_>], bits: u32) -> Self {
        let empty = |bits: u32| vec![0f32; 1 << bits];
        let mut weights = Weights { features: empty(bits), identities: empty(IDENTITY_BITS) };
        for _ in 0..EPOCHS {
            for sample in samples {
                let odds = BASE_SHARE * sample.base + weights.sum(sample);
                let wanted = f32::from(u8::from(sample.spam));
                let gradient = sample.share * (wanted - 1.0 / (1.0 + (-odds).exp()));
                weights.step(sample, gradient);
            }
        }
        weights
    }

    /// How far these weights move the log odds of a message.
    pub(crate) fn sum(&self, sample: &Sample<'_>) -> f32 {
        let (mut from, mut total) = (0, 0.0);
        let bounded = |sum: f32| sum.clamp(-GROUP_BOUND, GROUP_BOUND);
        for end in sample.ends.iter().map(|&end| usize::from(end)) {
            let group = sample.features.get(from..end).unwrap_or_default();
            total += bounded(group_sum(&self.features, group));
            from = end;
        }
        total + bounded(group_sum(&self.identities, sample.identities))
    }

    fn step(&mut self, sample: &Sample<'_>, gradient: f32) {
        let mut from = 0;
        for end in sample.ends.iter().map(|&end| usize::from(end)) {
            let group = sample.features.get(from..end).unwrap_or_default();
            step(&mut self.features, group, gradient);
            from = end;
        }
        step(&mut self.identities, sample.identities, gradient);
    }
}

/// The weights of a group, added, over the square root of their number: a long text says no more
/// than a short one.
fn group_sum(weights: &[f32], group: &[u32]) -> f32 {
    let sum: f32 = group.iter().map(|&i| weights.get(i as usize).copied().unwrap_or(0.0)).sum();
    sum / (group.len().max(1) as f32).sqrt()
}

fn step(weights: &mut [f32], group: &[u32], gradient: f32) {
    let part = RATE * gradient / (group.len().max(1) as f32).sqrt();
    for &i in group {
        if let Some(weight) = weights.get_mut(i as usize) {
            *weight += part;
        }
    }
}
