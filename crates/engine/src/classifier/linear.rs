//! Learners of one weight a feature.

use super::features::FeatureSet;

/// Logistic regression by gradient steps of a fixed rate: the baseline (Goodman and Yih, "Online
/// Discriminative Spam Filter Training", 2006; Cormack used it with byte 4-grams).
#[derive(Debug)]
pub struct Logistic {
    weights: Vec<f32>,
    rate: f32,
}

impl Logistic {
    /// A learner that knows nothing, with `1 << bits` weights.
    pub fn new(bits: u32, rate: f32) -> Self {
        Logistic { weights: vec![0.0; 1 << bits], rate }
    }

    /// The logarithm of the odds that a message with these features is spam.
    pub fn score(&self, features: &FeatureSet) -> f32 {
        features.indices().iter().map(|&i| self.weights[i as usize]).sum()
    }

    /// Moves the weights towards the gold standard.
    ///
    /// `score` is what [`Self::score`] said.
    pub fn train(&mut self, features: &FeatureSet, score: f32, spam: bool) {
        let probability = 1.0 / (1.0 + (-score).exp());
        let step = self.rate * (f32::from(u8::from(spam)) - probability);
        for &i in features.indices() {
            self.weights[i as usize] += step;
        }
    }
}

/// A weight and how unsure it is.
#[derive(Debug, Clone, Copy)]
struct Gauss {
    mean: f32,
    variance: f32,
}

/// AROW: adaptive regularisation of weights (Crammer, Kulesza and Dredze, 2009), with the diagonal
/// of the covariance.
///
/// Each weight has a variance that shrinks whenever its feature was part of a correction: frequent
/// features become stable, a feature seen for the first time learns at full speed. Messages that
/// are right by a margin of 1 cause no update, so bulk mail that is recognised does not drown the
/// rest.
#[derive(Debug)]
pub struct Arow {
    weights: Vec<Gauss>,
    slack: f32,
}

impl Arow {
    /// A learner that knows nothing, with `1 << bits` weights. The larger the slack, the smaller
    /// the steps.
    pub fn new(bits: u32, slack: f32) -> Self {
        Arow { weights: vec![Gauss { mean: 0.0, variance: 1.0 }; 1 << bits], slack }
    }

    /// The margin: above 0 is spam, 1 is as sure as training asks for.
    pub fn score(&self, features: &FeatureSet) -> f32 {
        features.indices().iter().map(|&i| self.weights[i as usize].mean).sum()
    }

    /// Corrects the weights if the margin, which is what [`Self::score`] said, is below 1 on the
    /// right side.
    pub fn train(&mut self, features: &FeatureSet, margin: f32, spam: bool) {
        let side = if spam { 1.0 } else { -1.0 };
        let short = 1.0 - side * margin;
        if short <= 0.0 {
            return;
        }
        let variance: f32 =
            features.indices().iter().map(|&i| self.weights[i as usize].variance).sum();
        let beta = 1.0 / (variance + self.slack);
        let step = short * beta * side;
        for &i in features.indices() {
            let weight = &mut self.weights[i as usize];
            weight.mean += step * weight.variance;
            weight.variance -= beta * weight.variance * weight.variance;
        }
    }
}

/// Logistic regression whose step shrinks, weight by weight, with the corrections it has taken part
/// in (AdaGrad; Duchi, Hazan and Singer, 2011).
///
/// Unlike [`Arow`] it keeps learning from messages that are right already, so its score grows with
/// how often something was seen: a body that comes a thousand times is surer than one that came
/// once.
#[derive(Debug)]
pub struct AdaptiveLogistic {
    /// Weight, and sum of its squared gradients.
    weights: Vec<(f32, f32)>,
    rate: f32,
}

impl AdaptiveLogistic {
    /// A learner that knows nothing, with `1 << bits` weights.
    pub fn new(bits: u32, rate: f32) -> Self {
        AdaptiveLogistic { weights: vec![(0.0, 0.0); 1 << bits], rate }
    }

    /// The logarithm of the odds that a message with these features is spam.
    pub fn score(&self, features: &FeatureSet) -> f32 {
        features.indices().iter().map(|&i| self.weights[i as usize].0).sum()
    }

    /// Moves the weights towards the gold standard. `score` is what [`Self::score`] said.
    pub fn train(&mut self, features: &FeatureSet, score: f32, spam: bool) {
        let probability = 1.0 / (1.0 + (-score).exp());
        let gradient = f32::from(u8::from(spam)) - probability;
        let (step, square) = (self.rate * gradient, gradient * gradient);
        for &i in features.indices() {
            let (weight, sum) = &mut self.weights[i as usize];
            *sum += square;
            *weight += step / (1.0 + *sum).sqrt();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn features(text: &[u8]) -> FeatureSet {
        let mut set = FeatureSet::new(16, 1_000);
        set.add_ngrams(text, 4, 0);
        set
    }

    #[test]
    fn adaptive_steps_shrink() {
        let set = features(b"12345");
        let mut learner = AdaptiveLogistic::new(16, 0.1);
        learner.train(&set, 0.0, true);
        // Two features, gradient 1/2, sum of squares 1/4.
        let first = 2.0 * 0.1 * 0.5 / 1.25f32.sqrt();
        assert!((learner.score(&set) - first).abs() < 1e-6);
        learner.train(&set, 0.0, true);
        assert!((learner.score(&set) - first - 2.0 * 0.1 * 0.5 / 1.5f32.sqrt()).abs() < 1e-6);
    }

    #[test]
    fn logistic_regression_takes_the_step_it_should() {
        let set = features(b"12345");
        let mut learner = Logistic::new(16, 0.004);
        learner.train(&set, 0.0, true);
        // Two features, each moved by 0.004 x (1 - 1/2).
        assert!((learner.score(&set) - 0.004).abs() < 1e-7);
    }

    #[test]
    fn arow_takes_the_step_it_should() {
        let set = features(b"12345");
        let mut learner = Arow::new(16, 2.0);
        learner.train(&set, 0.0, false);
        // Two features of variance 1: beta is 1/4, each mean moves by -1/4, the margin by -1/2.
        assert!((learner.score(&set) + 0.5).abs() < 1e-6);
        learner.train(&set, -0.5, false);
        // Variances are 3/4 now: beta is 1/3.5, step -(1/2)/3.5, each mean moves by -(3/4)/7.
        assert!((learner.score(&set) + 0.5 + 1.5 / 7.0).abs() < 1e-6);
    }

    #[test]
    fn both_separate_two_kinds() {
        let (ham, spam) =
            (features(b"minutes of the meeting"), features(b"cheap pills, no doctor"));
        let (mut a, mut b) = (Logistic::new(16, 0.01), Arow::new(16, 10.0));
        for _ in 0..20 {
            for (set, is_spam) in [(&ham, false), (&spam, true)] {
                a.train(set, a.score(set), is_spam);
                b.train(set, b.score(set), is_spam);
            }
        }
        assert!(a.score(&spam) > 0.5 && a.score(&ham) < -0.5);
        assert!(b.score(&spam) > 0.9 && b.score(&ham) < -0.9);
    }
}
