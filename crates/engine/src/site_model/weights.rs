//! The table of weights that a site's corrections train: logistic regression beside what the engine
//! says without them, so that what it does not know is learned first.

/// Bits of the table of identities: 262,144 weights.
pub(crate) const IDENTITY_BITS: u32 = 18;
/// Identities below this index are names of header fields: most mail has the same ones, so they say
/// as little about who sent a message as its words do.
pub(crate) const FIELD_NAMES: u32 = 1 << 16;
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
/// Corrections of one kind with which what a message says and looks like counts half: all mail has
/// words and fields in common, so a few corrections say only who is wanted, not what.
const GENERAL_FROM: f32 = 10.0;
/// Log odds by which one correction moves mail that has no more in common with it than any mail.
/// What it moves a message by beyond that counts from the first one on: such mail is nearly the
/// same.
const COMMON_TO_ALL: f32 = 8.0;

/// A correction as it is learned from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample<'c> {
    /// Log odds that the engine gives without the site's evidence.
    pub(crate) base: f32,
    /// What was said: unwanted, or good.
    pub(crate) spam: bool,
    /// Messages that it counts: 1, or less where its reporter said much.
    pub(crate) share: f32,
    /// How far its words and its form are believed, 0 to 1: see [`credibility`].
    pub(crate) credibility: f32,
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
    /// How far what is not about the sender counts towards good, and towards unwanted: 0 to 1.
    general: [f32; 2],
}

/// How far a correction's words and form are believed, from the log odds that what ships and the
/// other corrections give the message, towards what was said of it: one that all else contradicts
/// counts for its sender, and for what it says only once others agree.
pub(crate) fn credibility(agreed: f64) -> f32 {
    /// Log odds of the contrary at which it is half.
    const CONTRADICTED: f64 = 4.0;
    (1.0 / (1.0 + (-(agreed + CONTRADICTED)).exp())) as f32
}

impl Weights {
    /// Trains on these samples from zero; `bits` is the size of the table of features.
    pub(crate) fn train(samples: &[Sample<'_>], bits: u32) -> Self {
        let empty = |bits: u32| vec![0f32; 1 << bits];
        let general = [false, true].map(|spam| {
            let of_kind = samples.iter().filter(|s| s.spam == spam);
            let squared = of_kind.map(|s| s.share).sum::<f32>().powi(2);
            squared / (squared + GENERAL_FROM.powi(2))
        });
        let identities = empty(IDENTITY_BITS);
        let mut weights = Weights { features: empty(bits), identities, general };
        for _ in 0..EPOCHS {
            for sample in samples {
                let [sender, general] = weights.sums(sample);
                let wanted = f32::from(u8::from(sample.spam));
                let gradient = |odds: f32| {
                    let odds = BASE_SHARE * sample.base + odds;
                    sample.share * (wanted - 1.0 / (1.0 + (-odds).exp()))
                };
                // The sender is learned as if nothing else were.
                weights.step(sample, gradient(sender), gradient(sender + general));
            }
        }
        weights
    }

    /// How far these weights move the log odds of a message.
    pub(crate) fn sum(&self, sample: &Sample<'_>) -> f32 {
        let [sender, general] = self.sums(sample);
        let share = self.general[usize::from(general > 0.0)];
        let alike = general - general.clamp(-COMMON_TO_ALL, COMMON_TO_ALL);
        sender + share * general + (1.0 - share) * alike
    }

    /// What is said of the sender, and of what the message says and looks like, in full.
    fn sums(&self, sample: &Sample<'_>) -> [f32; 2] {
        let (mut from, mut general) = (0, 0.0);
        let bounded = |sum: f32| sum.clamp(-GROUP_BOUND, GROUP_BOUND);
        for end in sample.ends.iter().map(|&end| usize::from(end)) {
            let group = sample.features.get(from..end).unwrap_or_default();
            general += bounded(group_sum(&self.features, group.iter().copied()));
            from = end;
        }
        let sender = bounded(group_sum(&self.identities, senders(sample.identities)));
        [sender, general + bounded(group_sum(&self.identities, field_names(sample.identities)))]
    }

    fn step(&mut self, sample: &Sample<'_>, of_sender: f32, gradient: f32) {
        let mut from = 0;
        for end in sample.ends.iter().map(|&end| usize::from(end)) {
            let group = sample.features.get(from..end).unwrap_or_default();
            step(&mut self.features, group.iter().copied(), gradient * sample.credibility);
            from = end;
        }
        let names = field_names(sample.identities);
        step(&mut self.identities, names, gradient * sample.credibility);
        step(&mut self.identities, senders(sample.identities), of_sender);
    }
}

fn field_names(identities: &[u32]) -> impl Iterator<Item = u32> + Clone {
    identities.iter().copied().filter(|&i| i < FIELD_NAMES)
}

fn senders(identities: &[u32]) -> impl Iterator<Item = u32> + Clone {
    identities.iter().copied().filter(|&i| i >= FIELD_NAMES)
}

/// The weights of a group, added, over the square root of their number: a long text says no more
/// than a short one.
fn group_sum(weights: &[f32], group: impl Iterator<Item = u32> + Clone) -> f32 {
    let count = group.clone().count().max(1) as f32;
    group.filter_map(|i| weights.get(i as usize)).sum::<f32>() / count.sqrt()
}

fn step(weights: &mut [f32], group: impl Iterator<Item = u32> + Clone, gradient: f32) {
    let part = RATE * gradient / (group.clone().count().max(1) as f32).sqrt();
    for i in group {
        if let Some(weight) = weights.get_mut(i as usize) {
            *weight += part;
        }
    }
}
