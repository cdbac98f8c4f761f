//! The shipped model: a table of small weights, read once and shared by all threads.
//!
//! File, little endian: magic `GNTLMODL`, format version (u32), table bits (u32), number of groups
//! (u32), bias (f32), slope and offset of the calibration (f32 each), one scale a group (f32),
//! length of the description (u32), the description (JSON, UTF-8), one signed byte a weight, and
//! the BLAKE3 hash of everything before it (32 bytes). A weight is its byte times its group's
//! scale; the description names sources and dates and is shown, never interpreted.

use std::sync::Arc;

use gauntlet_mail::Message;

use super::group::{GROUPS, Group, TABLE_BITS};
use super::group_score::{self, GroupScore};
use super::scratch::ClassifierScratch;

/// What the file begins with.
const MAGIC: &[u8; 8] = b"GNTLMODL";
/// The format that this program writes and reads.
pub const FORMAT_VERSION: u32 = 4;
/// Length of the hash at the end of the file.
const HASH_BYTES: usize = 32;
/// Longest description that a model file may have; a longer one is damage.
const DESCRIPTION_BYTES_MAX: usize = 64 << 10;
/// Pushes named in a [`Classification`], for each side.
const CONTRIBUTIONS_MAX: usize = 5;
/// The model that ships with the program; `model/README.md` is its card.
const SHIPPED_BYTES: &[u8] = include_bytes!("../../../../model/default.model");

/// Why a model could not be read.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ModelError {
    /// Not a model at all.
    #[error("not a model file (it does not begin with GNTLMODL); make one with `gauntlet train`")]
    NotAModel,
    /// Made by a newer program, or by an older one whose features were others.
    #[error(
        "model of format {found}, this program reads format {FORMAT_VERSION}; train it again with \
         this version, or use the program that made it"
    )]
    OtherVersion {
        /// Format of the file.
        found: u32,
    },
    /// Cut off, or changed.
    #[error("the model file is damaged ({0}); copy it again")]
    Damaged(&'static str),
}

/// A feature (or several that say the same) and how far it moved the log odds.
#[derive(Debug, Clone, PartialEq)]
pub struct Contribution {
    /// What it is, for display: `link to example.com`.
    pub feature: String,
    /// Its share of the log odds; above 0 towards spam.
    pub weight: f64,
}

/// What the classifier says about a message.
#[derive(Debug, Clone, PartialEq)]
pub struct Classification {
    /// Calibrated logarithm of the odds that the message is unwanted.
    pub logit: f64,
    /// Features that moved it most, the strongest first.
    pub features: Vec<Contribution>,
}

/// Weights and what they were made of.
#[derive(Debug, Clone)]
pub struct Model {
    weights: Vec<i8>,
    scales: [f32; GROUPS],
    bias: f32,
    slope: f32,
    offset: f32,
    description: String,
    version: Arc<str>,
}

impl Model {
    /// A model of these weights, quantised: one row a group for the scale, one table for all.
    pub fn from_weights(
        weights: &[f32],
        bias: f32,
        (slope, offset): (f32, f32),
        description: String,
    ) -> Self {
        // One scale serves all groups, since a feature's group is not known from its index; how
        // well a group holds on other mail is on top.
        let largest = weights.iter().fold(0f32, |m, w| m.max(w.abs()));
        let scale = if largest > 0.0 { largest / 127.0 } else { 1.0 };
        let quantise = |w: &f32| (w / scale).round().clamp(-127.0, 127.0) as i8;
        let mut model = Model {
            weights: weights.iter().map(quantise).collect(),
            scales: Group::ALL.map(|group| scale * group.transfer()),
            bias,
            slope,
            offset,
            description,
            version: "".into(),
        };
        let bytes = model.to_bytes();
        model.version = name(&bytes);
        model
    }

    /// The same with another calibration: the log odds are `slope * sum + offset`.
    #[must_use]
    pub fn calibrated(self, slope: f32, offset: f32) -> Self {
        let mut model = Model { slope, offset, ..self };
        model.version = name(&model.to_bytes());
        model
    }

    /// The model that ships with the program. Read anew each time (under a millisecond): snapshots
    /// are few, and share it.
    pub fn shipped() -> Arc<Self> {
        // A test reads the file, so a broken one cannot ship; an empty model is harmless.
        let ignorant = |_| Self::from_weights(&[], 0.0, (1.0, 0.0), String::new());
        Arc::new(Self::from_bytes(SHIPPED_BYTES).unwrap_or_else(ignorant))
    }

    /// The model as the bytes of its file, which `from_bytes` reads.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        for n in [FORMAT_VERSION, TABLE_BITS, GROUPS as u32] {
            out.extend_from_slice(&n.to_le_bytes());
        }
        for n in [self.bias, self.slope, self.offset].iter().chain(&self.scales) {
            out.extend_from_slice(&n.to_le_bytes());
        }
        out.extend_from_slice(&(self.description.len() as u32).to_le_bytes());
        out.extend_from_slice(self.description.as_bytes());
        out.extend(self.weights.iter().map(|w| w.to_le_bytes()[0]));
        let hash = blake3::hash(&out);
        out.extend_from_slice(hash.as_bytes());
        out
    }

    /// Reads a file's bytes, and checks them.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ModelError> {
        use ModelError::Damaged;
        if bytes.get(..MAGIC.len()) != Some(MAGIC) {
            return Err(ModelError::NotAModel);
        }
        let mut reader = Reader { bytes, at: MAGIC.len() };
        let found = reader.number().ok_or(Damaged("too short"))?;
        if found != FORMAT_VERSION {
            return Err(ModelError::OtherVersion { found });
        }
        let hashed = bytes.len().checked_sub(HASH_BYTES).ok_or(Damaged("too short"))?;
        let (content, hash) = bytes.split_at(hashed);
        if blake3::hash(content).as_bytes() != hash {
            return Err(Damaged("its checksum is wrong"));
        }
        reader.bytes = content;
        let mut number = || reader.number().ok_or(Damaged("too short"));
        if number()? != TABLE_BITS || number()? as usize != GROUPS {
            return Err(Damaged("a table of another size"));
        }
        let mut real = || number().map(f32::from_bits);
        let (bias, slope, offset) = (real()?, real()?, real()?);
        let mut scales = [0.0; GROUPS];
        for scale in &mut scales {
            *scale = real()?;
        }
        let length = number()? as usize;
        if ![bias, slope, offset].iter().chain(&scales).all(|n| n.is_finite()) {
            return Err(Damaged("a number that is none"));
        }
        let text = reader.take(length.min(DESCRIPTION_BYTES_MAX)).ok_or(Damaged("too short"))?;
        let description = String::from_utf8_lossy(text).into_owned();
        let weights: Vec<i8> = reader.rest().iter().map(|&b| i8::from_le_bytes([b])).collect();
        if weights.len() != 1 << TABLE_BITS {
            return Err(Damaged("a table of another size"));
        }
        let version = name(bytes);
        Ok(Model { weights, scales, bias, slope, offset, description, version })
    }

    /// Names the model in versions of rulesets: the start of its hash.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// What it was made of, as JSON.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// Uncalibrated log odds of features in groups that end at `ends`.
    pub fn raw_logit_of(&self, features: &[u32], ends: [usize; GROUPS]) -> f32 {
        self.bias + self.group_scores(features, ends).iter().sum::<f32>()
    }

    /// What each group adds to [`Model::raw_logit_of`].
    pub fn group_scores(&self, features: &[u32], ends: [usize; GROUPS]) -> [f32; GROUPS] {
        self.shares(features, ends).map(|share| share.value)
    }

    /// What the words of the text add, in the unit of [`Model::raw_logit_of`].
    pub fn text_share(&self, scratch: &ClassifierScratch) -> f32 {
        let (features, ends) = scratch.features();
        self.group_scores(features, *ends)[Group::Text.index()]
    }

    fn shares(&self, features: &[u32], ends: [usize; GROUPS]) -> [GroupScore; GROUPS] {
        let mut from = 0;
        let mut shares = Group::ALL.map(|group| {
            let end = ends[group.index()];
            let score = self.group_score(group, features.get(from..end).unwrap_or_default());
            from = end;
            score
        });
        group_score::bound_good_content(&mut shares);
        shares
    }

    fn group_score(&self, group: Group, features: &[u32]) -> GroupScore {
        let scale = self.scales[group.index()];
        let sum = |block: &[u32]| {
            let sum: i32 = block.iter().map(|&i| i32::from(self.weight(i))).sum();
            scale * sum as f32
        };
        group_score::group_score(group, features, sum)
    }

    /// Calibrated log odds of the message that the scratch has read.
    pub fn logit(&self, scratch: &ClassifierScratch) -> f64 {
        let (features, ends) = scratch.features();
        self.logit_of(features, *ends)
    }

    /// Calibrated log odds of features in groups that end at `ends`.
    pub fn logit_of(&self, features: &[u32], ends: [usize; GROUPS]) -> f64 {
        f64::from(self.slope * self.raw_logit_of(features, ends) + self.offset)
    }

    fn weight(&self, index: u32) -> i8 {
        self.weights.get(index as usize).copied().unwrap_or(0)
    }

    /// Reads and judges a message, and says what pushed the judgement.
    pub fn classify(
        &self,
        message: &Message<'_>,
        scratch: &mut ClassifierScratch,
    ) -> Classification {
        scratch.read(message);
        let mut features = self.explain(scratch, true);
        features.extend(self.explain(scratch, false));
        features.sort_by(|a, b| b.weight.abs().total_cmp(&a.weight.abs()));
        Classification { logit: self.logit(scratch), features }
    }

    /// The features of the message that the scratch has read that push most towards spam, or
    /// towards ham; the strongest first. Where a block determines the text's score, features of
    /// that block.
    pub fn explain(&self, scratch: &ClassifierScratch, spam: bool) -> Vec<Contribution> {
        let (features, ends) = scratch.features();
        let side = if spam { 1.0 } else { -1.0 };
        let mut strongest = Strongest::default();
        let mut from = 0;
        let shares = self.shares(features, *ends);
        for ((group, &end), share) in Group::ALL.into_iter().zip(ends).zip(&shares) {
            let all = features.get(from..end).unwrap_or_default();
            // Comparable between groups: shares of the log odds.
            let unit = side * self.slope * self.scales[group.index()] * share.unit();
            let speaking = all.get(share.from.clone()).unwrap_or_default();
            for (&i, position) in speaking.iter().zip(from + share.from.start..) {
                strongest.offer(unit * f32::from(self.weight(i)), position);
            }
            from = end;
        }
        let name = |&(weight, position): &(f32, usize)| Contribution {
            feature: scratch.name(position),
            weight: (f64::from(side * weight) * 1e3).round() / 1e3,
        };
        strongest.found.iter().filter(|p| p.0 > 0.0).map(name).collect()
    }
}

/// The features with most weight, heaviest first.
#[derive(Default)]
struct Strongest {
    found: [(f32, usize); CONTRIBUTIONS_MAX],
}

impl Strongest {
    #[inline]
    fn offer(&mut self, weight: f32, position: usize) {
        let last = CONTRIBUTIONS_MAX - 1;
        if weight <= self.found[last].0 {
            return;
        }
        self.found[last] = (weight, position);
        for i in (1..CONTRIBUTIONS_MAX).rev() {
            if self.found[i].0 > self.found[i - 1].0 {
                self.found.swap(i, i - 1);
            }
        }
    }
}

/// A file's name in versions: 48 bits of its hash.
fn name(bytes: &[u8]) -> Arc<str> {
    let hex = blake3::hash(bytes).to_hex();
    hex.get(..12).unwrap_or_default().into()
}

struct Reader<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl<'b> Reader<'b> {
    fn take(&mut self, count: usize) -> Option<&'b [u8]> {
        let piece = self.bytes.get(self.at..self.at.checked_add(count)?)?;
        self.at += count;
        Some(piece)
    }

    fn number(&mut self) -> Option<u32> {
        let bytes = self.take(4)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?))
    }

    fn rest(&mut self) -> &'b [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some_model() -> Model {
        let weights: Vec<f32> = (0..1u32 << TABLE_BITS).map(|i| (i % 7) as f32 - 3.0).collect();
        Model::from_weights(&weights, 0.5, (1.0, 0.0), "{}".into())
    }

    #[test]
    fn a_file_gives_the_model_again() {
        let model = some_model();
        let again = Model::from_bytes(&model.to_bytes()).unwrap();
        assert_eq!(again.weights, model.weights);
        assert_eq!(again.version(), model.version());
        assert_eq!(again.description(), "{}");
    }

    #[test]
    fn the_shipped_model_is_whole() {
        let model = Model::from_bytes(SHIPPED_BYTES).unwrap();
        assert_eq!(model.version(), Model::shipped().version());
        assert!(model.weights.iter().filter(|&&w| w != 0).count() > 10_000);
    }

    #[test]
    fn damaged_and_newer_files_are_distinguished() {
        let good = some_model().to_bytes();
        let error = |bytes: &[u8]| Model::from_bytes(bytes).unwrap_err();
        assert_eq!(error(b"From: somebody"), ModelError::NotAModel);
        assert_eq!(error(&[]), ModelError::NotAModel);
        let mut newer = good.clone();
        newer[8] = 200;
        assert_eq!(error(&newer), ModelError::OtherVersion { found: 200 });
        assert_eq!(error(&good[..8]), ModelError::Damaged("too short"));
        for cut in [9, 12, 30, 100, good.len() / 2, good.len() - 1] {
            assert!(matches!(error(&good[..cut]), ModelError::Damaged(_)), "cut at {cut}");
        }
        let mut flipped = good.clone();
        flipped[1_000] ^= 1;
        assert_eq!(error(&flipped), ModelError::Damaged("its checksum is wrong"));
    }

    #[test]
    fn collectors_and_recipients_leave_no_trace() {
        let body =
            "Subject: hello\nFrom: Ann <ann@example.org>\nTo: bob@example.net\n\nGood day.\n";
        let added = "Received: from a by b; Mon, 1 Jan 2024 00:00:00 +0000\nDelivered-To: x@pot\n\
            X-MS-Exchange-Organization-SCL: 9\nList-Id: <l.example>\nX-Spam-Status: Yes\n\
            Authentication-Results: mx; spf=fail\nReturn-Path: <>\n";
        let other =
            body.replace("bob@example.net", "phishing@pot").replace("hello", "[list] hello");
        let features = |raw: &str| {
            let mut scratch = ClassifierScratch::default();
            scratch.read(&Message::parse(raw.as_bytes()));
            scratch.features().0.to_vec()
        };
        assert_eq!(features(body), features(&format!("{added}{body}")));
        assert_eq!(features(body), features(&other));
    }

    #[test]
    fn an_explanation_names_what_is_there() {
        let raw = "From: Ann <ann@example.org>\nSubject: cheap pills\n\nhttp://example.com/x\n";
        let message = Message::parse(raw.as_bytes());
        let (model, mut scratch) = (some_model(), ClassifierScratch::default());
        let said = model.classify(&message, &mut scratch);
        assert!(!said.features.is_empty() && said.features.len() <= 2 * CONTRIBUTIONS_MAX);
        assert!(said.features.windows(2).all(|p| p[0].weight.abs() >= p[1].weight.abs()));
        assert!(said.features.iter().all(|p| p.feature.contains(": ")), "{:?}", said.features);
    }
}
