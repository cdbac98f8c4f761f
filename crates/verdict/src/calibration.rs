//! How the thresholds fit a site's own mail: what the engine finds and the console shows.

use serde::{Deserialize, Serialize};

/// What a site's good mail says of the thresholds.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct SiteCalibration {
    /// Corrections that said unwanted.
    pub spam: usize,
    /// Corrections that said good.
    pub good: usize,
    /// Messages released from quarantine without a correction.
    #[serde(default)]
    pub released: usize,
    /// Messages of known authors that DMARC proves.
    #[serde(default)]
    pub known_authors: usize,
    /// What these two count together for the thresholds, in good corrections.
    #[serde(default)]
    pub uncorrected_share: f64,
    /// What the site's evidence is multiplied by: below 1 where corrections contradict each other.
    pub trust: f64,
    /// For each class that begins at a probability.
    pub checks: Vec<ThresholdCheck>,
}

/// One threshold: promised, in force, found.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ThresholdCheck {
    /// The class that begins there: `suspect`, `spam`, `explicit spam`.
    pub class: String,
    /// Share of good mail that may reach it.
    pub promised: f64,
    /// The probability that is set or ships for that.
    pub configured: f64,
    /// The probability in force.
    pub probability: f64,
    /// 95 % interval of the probability that keeps the promise here.
    pub interval: [f64; 2],
    /// Good messages that reach it, judged by what had not seen them; each of a reporter who said
    /// much counts less, and so does one that nobody corrected.
    pub over: f64,
    /// Share of all good messages that they are.
    pub found: f64,
    /// 95 % upper bound of that share.
    pub found_max: f64,
}
