//! Settings of data loss prevention.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// What data is looked for in messages, and how much of a message is read for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DlpSettings {
    /// Look through all mail; else only where a rule of the policy has a condition on data.
    pub always: bool,
    /// Detectors that are on, by name; all if none is named.
    pub detectors: Vec<String>,
    /// Bytes of text of one message that are looked through.
    pub text_bytes_max: usize,
    /// Different values of one message that are counted.
    pub values_max: usize,
    /// Places reported of one finding.
    pub evidence_max: usize,
    /// Lists of words, one table a dictionary.
    pub dictionary: Vec<DictionarySettings>,
    /// Documents whose passages are looked for.
    pub fingerprints: FingerprintSettings,
}

impl Default for DlpSettings {
    fn default() -> Self {
        let limits = gauntlet_dlp::Limits::default();
        DlpSettings {
            always: false,
            detectors: Vec::new(),
            text_bytes_max: limits.text_bytes_max,
            values_max: limits.values_max,
            evidence_max: limits.evidence_max,
            dictionary: Vec::new(),
            fingerprints: FingerprintSettings::default(),
        }
    }
}

impl DlpSettings {
    /// The limits of one message.
    pub fn limits(&self) -> gauntlet_dlp::Limits {
        gauntlet_dlp::Limits {
            text_bytes_max: self.text_bytes_max,
            values_max: self.values_max,
            evidence_max: self.evidence_max,
        }
    }
}

/// Weighted phrases that data loss prevention looks for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DictionarySettings {
    /// The name in policies and findings.
    pub name: String,
    /// Its phrases, one a line, with a weight behind `=`.
    pub file: PathBuf,
    /// Weight from which it is found.
    pub threshold: f64,
    /// Only phrases within so many words of each other add up; 0 adds up all of a message.
    pub within_words: usize,
}

impl Default for DictionarySettings {
    fn default() -> Self {
        DictionarySettings {
            name: String::new(),
            file: PathBuf::new(),
            threshold: 1.0,
            within_words: 0,
        }
    }
}

/// Documents whose passages are looked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FingerprintSettings {
    /// Folder of the documents, read with its folders; empty for none.
    pub folder: PathBuf,
    /// Folder of texts that do not count: letterheads, disclaimers, what is published.
    pub ignore_folder: PathBuf,
    /// Documents of a folder.
    pub files_max: usize,
    /// Bytes of one document.
    pub file_bytes_max: u64,
}

impl Default for FingerprintSettings {
    fn default() -> Self {
        FingerprintSettings {
            folder: PathBuf::new(),
            ignore_folder: PathBuf::new(),
            files_max: 10_000,
            file_bytes_max: 64 << 20,
        }
    }
}
