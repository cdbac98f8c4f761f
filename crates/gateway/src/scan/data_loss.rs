//! Data loss prevention of a message: its texts go through the detectors, dictionaries and
//! documents of the settings, and what the log keeps of the message has no value left that was
//! found.

mod documents;

use std::borrow::Cow;
use std::fmt;
use std::time::Instant;

use gauntlet_dlp::inspect::{DICTIONARY, DOCUMENT};
use gauntlet_dlp::{Detector, Dictionary, Inspected, Inspector, Text, detectors};
use gauntlet_mail::file_kind::object::PropertyKind;
use gauntlet_mail::{Defect, DefectKind, Facts, Message};
use gauntlet_policy::Policy;
use gauntlet_policy::pattern::{OneOrMany, Pattern};
use gauntlet_store::LogRecord;
use gauntlet_verdict::{DataEvidence, DataFinding, DataLoss, FilterCost, Verdict};

use crate::config::{DlpSettings, FingerprintSettings};
use crate::scan::unpacking::Unpacking;

pub use documents::{Document, DocumentError, documents};

/// Letters that are wrong in a name at most, so that another is taken for what was meant.
const HINT_DISTANCE_MAX: usize = 3;

/// Why data loss prevention cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum DataLossError {
    /// A name in the settings that no detector has.
    #[error(
        "dlp.detectors: no detector is called {name:?}{hint}; `gauntlet dlp detectors` lists them"
    )]
    UnknownDetector {
        /// Name in the settings.
        name: String,
        /// A name like it.
        hint: String,
    },
    /// A dictionary without a name of its own.
    #[error("dlp.dictionary: each needs a name of its own; {name:?} is none, or is there twice")]
    DictionaryName {
        /// Name in the settings.
        name: String,
    },
    /// A dictionary that cannot be read.
    #[error("dlp.dictionary {name:?}: {file}: {why}")]
    Dictionary {
        /// Name of the dictionary.
        name: String,
        /// File with its phrases.
        file: String,
        /// What is wrong with the file, with its line.
        why: String,
    },
    /// Documents that cannot be read.
    #[error("dlp.fingerprints: {0}")]
    Documents(#[from] DocumentError),
}

/// Looks through messages for what the settings name: numbers, secrets, dictionaries, documents.
#[derive(Debug, Default)]
pub struct DataLossPrevention {
    inspector: Inspector,
    always: bool,
    dictionaries: Vec<String>,
    detectors: Vec<&'static Detector>,
}

/// What a rule of a policy asks for, and nothing finds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NeverFound {
    /// The line of the rule in the policy.
    pub line: usize,
    /// Name of the rule in the policy.
    pub rule: String,
    /// Which names its pattern is compared with: `detector`, `family` or `dictionary`.
    pub field: &'static str,
    /// The pattern that fits no name.
    pub pattern: String,
    /// A name like it, in words; empty if there is none.
    pub hint: String,
}

impl fmt::Display for NeverFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NeverFound { rule, field, pattern, hint, .. } = self;
        write!(f, "rule {rule:?}: dlp.{field} {pattern:?} fits nothing that is looked for{hint}")
    }
}

/// What was found in a message, and what masks it elsewhere.
#[derive(Debug, Default)]
pub struct MessageData {
    inspected: Inspected,
    is_cut: bool,
}

impl DataLossPrevention {
    /// Of these settings; the text of documents is read as that of attachments.
    ///
    /// # Errors
    /// [`DataLossError`] names the setting or the file.
    pub fn load(
        settings: &DlpSettings,
        unpacking: Option<&Unpacking>,
    ) -> Result<Self, DataLossError> {
        let detectors = detectors(&settings.detectors)?;
        let dictionaries = dictionaries(settings)?;
        let names = dictionaries.iter().map(|d| d.name().to_owned()).collect();
        let documents = documents(&settings.fingerprints, unpacking)?.build();
        Ok(DataLossPrevention {
            inspector: Inspector::new(
                detectors.clone(),
                dictionaries,
                documents,
                settings.limits(),
            ),
            always: settings.always,
            dictionaries: names,
            detectors,
        })
    }

    /// Looks through all mail, whatever the policy asks.
    pub fn is_always(&self) -> bool {
        self.always
    }

    /// The same without documents: knows all names that a policy may use, and reads no file but
    /// those of the dictionaries.
    ///
    /// # Errors
    /// As [`DataLossPrevention::load`].
    pub fn names_of(settings: &DlpSettings) -> Result<Self, DataLossError> {
        let fingerprints = FingerprintSettings::default();
        Self::load(&DlpSettings { fingerprints, ..settings.clone() }, None)
    }

    /// What a policy asks for and will never get: patterns that fit no detector, family or
    /// dictionary.
    pub fn never_found(&self, policy: &Policy) -> Vec<NeverFound> {
        let families = || self.detectors.iter().map(|d| d.family.name());
        let named = || self.detectors.iter().map(|d| d.name).chain([DICTIONARY, DOCUMENT]);
        let dictionaries = || self.dictionaries.iter().map(String::as_str);
        let mut all = Vec::new();
        for (rule, condition) in policy.data_conditions() {
            let mut check = |field, patterns: &Option<OneOrMany<Pattern>>, names: &[&str]| {
                for pattern in patterns.iter().flat_map(|p| p.as_slice()) {
                    if !names.iter().any(|name| pattern.matches(name)) {
                        all.push(NeverFound {
                            line: rule.line,
                            rule: rule.name.clone(),
                            field,
                            pattern: pattern.as_str().to_owned(),
                            hint: hint(pattern.as_str(), names.iter().copied()),
                        });
                    }
                }
            };
            let families: Vec<&str> = families().chain([DICTIONARY, DOCUMENT]).collect();
            check("detector", &condition.detector, &named().collect::<Vec<_>>());
            check("family", &condition.family, &families);
            check("dictionary", &condition.dictionary, &dictionaries().collect::<Vec<_>>());
        }
        all
    }

    /// Looks through the subject, the names of files, the texts, and the texts inside files.
    pub fn inspect(&self, message: &Message<'_>, facts: &Facts) -> MessageData {
        let texts = texts(message, facts);
        let each = texts.iter().map(|(place, text)| Text { place, text });
        let inspected = self.inspector.inspect(each);
        let too_large = |defect: &Defect| {
            matches!(defect.kind, DefectKind::TextTooLarge | DefectKind::DecodedTooLarge)
        };
        let is_cut = inspected.is_cut
            || message.defects().iter().any(too_large)
            || facts.content.objects.iter().any(|object| object.has(PropertyKind::TextCut))
            || facts.content.unread().next().is_some();
        MessageData { inspected, is_cut }
    }

    /// The same, with the time it took, into the verdict.
    pub fn look(&self, message: &Message<'_>, facts: &Facts, verdict: &mut Verdict) -> MessageData {
        let start = Instant::now();
        let data = self.inspect(message, facts);
        data.add_to(verdict);
        let micros = start.elapsed().as_secs_f32() * 1e6;
        verdict.costs.push(FilterCost { filter: "data loss prevention".into(), micros });
        data
    }

    /// Looks through one text.
    pub fn inspect_text(&self, place: &str, text: &str) -> MessageData {
        let inspected = self.inspector.inspect([Text { place, text }]);
        MessageData { is_cut: inspected.is_cut, inspected }
    }
}

impl MessageData {
    /// The findings, as the verdict has them.
    pub fn data_loss(&self) -> DataLoss {
        let findings = self.inspected.findings.iter().map(finding).collect();
        DataLoss { findings, is_cut: self.is_cut }
    }

    /// Adds the findings to the verdict, and a defect if something was not read.
    pub fn add_to(&self, verdict: &mut Verdict) {
        verdict.data_loss = Some(self.data_loss());
        if self.is_cut {
            verdict.defects.push(Defect::new(DefectKind::DataUnread, 0));
        }
        if self.inspected.has_values() {
            self.mask_verdict(verdict);
        }
    }

    /// Masks in a line of the log what was found in the message: rules and facts quote it, too.
    pub fn mask(&self, record: &mut LogRecord) {
        if !self.inspected.has_values() {
            return;
        }
        for text in [&mut record.subject, &mut record.from, &mut record.message_id] {
            self.mask_text(text);
        }
        for object in &mut record.facts.content.objects {
            self.mask_text(&mut object.path);
            self.mask_text(&mut object.name);
            object.properties.iter_mut().for_each(|property| self.mask_text(&mut property.detail));
            object.defects.iter_mut().for_each(|defect| self.mask_text(&mut defect.detail));
        }
        record.facts.notes.iter_mut().for_each(|note| self.mask_text(note));
    }

    fn mask_verdict(&self, verdict: &mut Verdict) {
        for evidence in verdict.hits.iter_mut().flat_map(|hit| &mut hit.evidence) {
            self.mask_text(&mut evidence.text);
            if let Some(name) = &mut evidence.name {
                self.mask_text(name);
            }
        }
        verdict.defects.iter_mut().for_each(|defect| self.mask_text(&mut defect.detail));
        verdict.url_lists.iter_mut().for_each(|listed| self.mask_text(&mut listed.url));
    }

    /// The text with every value masked that was found anywhere in the message.
    pub fn masked<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match self.inspected.has_values() {
            true => self.inspected.redact(text),
            false => Cow::Borrowed(text),
        }
    }

    fn mask_text(&self, text: &mut String) {
        if let Cow::Owned(masked) = self.inspected.redact(text) {
            *text = masked;
        }
    }
}

fn finding(found: &gauntlet_dlp::Finding) -> DataFinding {
    let number = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
    let place = |evidence: &gauntlet_dlp::Evidence| DataEvidence {
        place: evidence.place.clone(),
        offset: number(evidence.offset),
        length: number(evidence.length),
        masked: evidence.masked.clone(),
    };
    DataFinding {
        detector: found.detector.to_owned(),
        family: found.family.to_owned(),
        name: found.name.clone(),
        count: number(found.count),
        points: found.points,
        share: found.share,
        evidence: found.evidence.iter().map(place).collect(),
    }
}

/// Texts of a message, with their places.
fn texts<'m>(message: &'m Message<'_>, facts: &'m Facts) -> Vec<(String, Cow<'m, str>)> {
    let mut texts = vec![("subject".to_owned(), message.subject())];
    for (part, index) in message.parts().iter().zip(0u32..) {
        if let Some(name) = part.file_name() {
            texts.push((format!("name of part {index}"), Cow::Borrowed(name)));
        }
    }
    for text in message.texts() {
        texts.push((format!("part {}", text.index), Cow::Borrowed(text.text)));
    }
    for object in &facts.content.objects {
        // The names of files that were given are those of their parts.
        if object.parent.is_some() && !object.name.is_empty() {
            texts.push((format!("name of {}", object.path), Cow::Borrowed(&object.name)));
        }
        if !object.text.is_empty() {
            texts.push((object.path.clone(), Cow::Borrowed(&object.text)));
        }
    }
    texts
}

fn detectors(names: &[String]) -> Result<Vec<&'static Detector>, DataLossError> {
    if names.is_empty() {
        return Ok(detectors::all().collect());
    }
    let by_name = |name: &String| {
        detectors::by_name(name).ok_or_else(|| {
            let hint = hint(name, detectors::all().map(|d| d.name));
            DataLossError::UnknownDetector { name: name.clone(), hint }
        })
    };
    names.iter().map(by_name).collect()
}

/// ` (did you mean "x"?)` with the name that is most like this one; empty if none is.
fn hint<'n>(name: &str, names: impl Iterator<Item = &'n str>) -> String {
    let nearest = names
        .map(|known| (strsim::damerau_levenshtein(known, name), known))
        .min()
        .filter(|(distance, _)| *distance <= HINT_DISTANCE_MAX);
    nearest.map_or(String::new(), |(_, near)| format!(" (did you mean {near:?}?)"))
}

fn dictionaries(settings: &DlpSettings) -> Result<Vec<Dictionary>, DataLossError> {
    let mut all: Vec<Dictionary> = Vec::new();
    for dictionary in &settings.dictionary {
        let name = dictionary.name.clone();
        if name.is_empty() || all.iter().any(|known| known.name() == name) {
            return Err(DataLossError::DictionaryName { name });
        }
        let wrong = |why: String| DataLossError::Dictionary {
            name: dictionary.name.clone(),
            file: dictionary.file.display().to_string(),
            why,
        };
        let text = std::fs::read_to_string(&dictionary.file).map_err(|e| wrong(e.to_string()))?;
        let within = Some(dictionary.within_words).filter(|words| *words > 0);
        let read = Dictionary::parse(&name, &text, dictionary.threshold, within);
        all.push(read.map_err(|error| wrong(error.to_string()))?);
    }
    Ok(all)
}

#[cfg(test)]
mod tests;
