//! What data loss prevention found in an item: masked, so that it may be logged and shown.

use serde::{Deserialize, Serialize};

/// What was found; of an item that nobody asked about there is none.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DataLoss {
    /// Detectors first, then dictionaries, then documents.
    pub findings: Vec<DataFinding>,
    /// A limit was reached: not all of the item was looked through.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_cut: bool,
}

/// What one detector found.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DataFinding {
    /// The detector, such as `payment_card`; `dictionary` and `document`.
    pub detector: String,
    /// What its values are: `payment`, `identity`, `secret`; `dictionary`, `document`.
    pub family: String,
    /// Which dictionary or document.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Different values, phrases of the dictionary, or about how many words of the document.
    pub count: u32,
    /// Points of the dictionary.
    #[serde(skip_serializing_if = "is_zero")]
    pub points: f64,
    /// Share of the document that is in the item, 0 to 1.
    #[serde(skip_serializing_if = "is_zero")]
    pub share: f64,
    /// Some of the places.
    pub evidence: Vec<DataEvidence>,
}

/// A place where something was found.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DataEvidence {
    /// Which text: `subject`, `part 2`, `name of part 2`, the path of an object.
    pub place: String,
    /// First byte in that text.
    pub offset: u32,
    /// Length of the finding in bytes.
    pub length: u32,
    /// What stands there, masked: `4111 **** **** 1111`.
    pub masked: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

impl DataFinding {
    /// The detector, with the dictionary or document where there are several.
    pub fn title(&self) -> String {
        match self.name.as_str() {
            "" => self.detector.clone(),
            name => format!("{} {name}", self.detector),
        }
    }
}
