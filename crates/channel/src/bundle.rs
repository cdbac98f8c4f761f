//! What a version of a channel holds: files by name, each of a kind that its first folder says.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::hex;
use crate::limits::{DELTAS_PER_FILE_MAX, DEPTH_MAX, FILES_MAX, NAME_BYTES_MAX};

/// What a file is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Rules of ours (`rules/*.cf`).
    Rules,
    /// Rules in SpamAssassin's language (`spamassassin/*.cf`).
    SpamAssassin,
    /// The classifier's model (`model/NAME.model`, one).
    Model,
    /// Tables of near-duplicate signatures, and entries since (`signatures/*`).
    Signatures,
    /// Lists of URLs and hosts (`urls/phishing/NAME`, `urls/spam/NAME`).
    Urls,
    /// Weighted phrases (`phrases/*`).
    Phrases,
    /// YARA rules (`yara/*.yar`).
    Yara,
    /// Lists of hashes (`hashes/*`).
    Hashes,
    /// Fragments of a policy (`policy/*.toml`).
    Policy,
    /// Hints in which order rules decide soonest (`order/*`).
    Order,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 10] = [
        Kind::Rules,
        Kind::SpamAssassin,
        Kind::Model,
        Kind::Signatures,
        Kind::Urls,
        Kind::Phrases,
        Kind::Yara,
        Kind::Hashes,
        Kind::Policy,
        Kind::Order,
    ];

    /// The first folder of its files.
    pub fn folder(self) -> &'static str {
        match self {
            Kind::Rules => "rules",
            Kind::SpamAssassin => "spamassassin",
            Kind::Model => "model",
            Kind::Signatures => "signatures",
            Kind::Urls => "urls",
            Kind::Phrases => "phrases",
            Kind::Yara => "yara",
            Kind::Hashes => "hashes",
            Kind::Policy => "policy",
            Kind::Order => "order",
        }
    }

    /// The kind of a file by its name; none of a file that this program does not know, as a later
    /// one may publish. It is kept and passed on, and nothing reads it.
    pub fn of(name: &str) -> Option<Kind> {
        let folder = name.split_once('/')?.0;
        Kind::ALL.into_iter().find(|kind| kind.folder() == folder)
    }
}

/// What a version says about itself.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct BundleInfo {
    /// Earliest program that understands it, `MAJOR.MINOR.PATCH`; empty is any.
    #[serde(default)]
    pub requires: String,
    /// What the publisher says of it.
    #[serde(default)]
    pub note: String,
    /// When it was published.
    #[serde(default)]
    pub published: String,
}

impl BundleInfo {
    /// Whether a program of this version understands it.
    pub fn fits(&self, program: &str) -> bool {
        let numbers = |text: &str| {
            let parts = text.split(['.', '-', '+']).take(3);
            parts.map(|part| part.parse::<u64>().ok()).collect::<Option<Vec<_>>>()
        };
        match (self.requires.as_str(), numbers(&self.requires), numbers(program)) {
            ("", ..) => true,
            // A form that is not known is one of a later program.
            (_, Some(needs), Some(has)) => needs <= has,
            _ => false,
        }
    }
}

/// A file of a version as metadata describe it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileInfo {
    /// Bytes.
    pub length: u64,
    /// `sha256`, and perhaps others.
    pub hashes: BTreeMap<String, String>,
    /// What The Update Framework leaves to us.
    #[serde(default)]
    pub custom: Custom,
}

/// How else the file can be had.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Custom {
    /// Smaller files that it can be made of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deltas: Vec<DeltaInfo>,
}

/// A file that, with another one, makes a file of a version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeltaInfo {
    /// SHA-256 of the file that it begins with; none: it is the whole file, packed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Bytes of the delta.
    pub length: u64,
    /// SHA-256 of the delta.
    pub sha256: String,
}

impl DeltaInfo {
    /// Where a channel has it.
    pub fn path(&self) -> String {
        format!("deltas/{}.zst", self.sha256)
    }
}

impl FileInfo {
    /// Its SHA-256 in digits.
    pub fn sha256(&self) -> &str {
        self.hashes.get("sha256").map_or("", String::as_str)
    }

    /// Where a channel has the whole file of this name: `targets/FOLDER/SHA256.BASE`, as consistent
    /// snapshots of The Update Framework have it.
    pub fn path(&self, name: &str) -> String {
        let (folder, base) = name.rsplit_once('/').unwrap_or(("", name));
        let slash = if folder.is_empty() { "" } else { "/" };
        format!("targets/{folder}{slash}{}.{base}", self.sha256())
    }

    pub(crate) fn check(&self, name: &str) -> Result<(), Error> {
        let deltas = &self.custom.deltas;
        let hashes = deltas.iter().flat_map(|d| [Some(&d.sha256), d.from.as_ref()]).flatten();
        if !hex::is_sha256(self.sha256()) || !hashes.into_iter().all(|h| hex::is_sha256(h)) {
            return Err(Error::malformed("targets", format!("{name}: no SHA-256")));
        }
        match deltas.len() > DELTAS_PER_FILE_MAX {
            true => Err(Error::malformed("targets", format!("{name}: too many deltas"))),
            false => Ok(()),
        }
    }
}

/// Checks that a name leads to a file below a folder of ours on every system, and to one only.
///
/// # Errors
/// What is wrong with it.
pub fn check_name(name: &str) -> Result<(), Error> {
    let bad = |why| Err(Error::BadName { name: name.chars().take(80).collect(), why });
    let parts: Vec<&str> = name.split('/').collect();
    if name.len() > NAME_BYTES_MAX {
        return bad("too long");
    }
    if parts.len() < 2 || parts.len() > DEPTH_MAX + 1 {
        return bad("not in a folder, or too deep in folders");
    }
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    for part in parts {
        if part.is_empty() || part.starts_with(['.', '-']) {
            return bad("a part of it is empty, or begins with a dot or hyphen");
        }
        if !part.chars().all(is_plain) {
            return bad("other signs than letters, digits, '.', '_' and '-'");
        }
    }
    Ok(())
}

/// The same for all names of a version: no two that differ in case only, no file where another has
/// a folder.
///
/// # Errors
/// What is wrong with one of them.
pub fn check_names<'n>(names: impl Iterator<Item = &'n str>) -> Result<(), Error> {
    let mut all = BTreeSet::new();
    for name in names {
        check_name(name)?;
        let is_new = all.insert(name.to_ascii_lowercase());
        if !is_new || all.len() > FILES_MAX {
            let why = "too many files, or two whose names differ in case only";
            return Err(Error::BadName { name: name.to_owned(), why });
        }
    }
    for name in &all {
        let folders = name.match_indices('/').filter_map(|(at, _)| name.get(..at));
        if folders.into_iter().any(|folder| all.contains(folder)) {
            let why = "a file has the name of its folder";
            return Err(Error::BadName { name: name.clone(), why });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        for good in ["rules/a.cf", "urls/phishing/today-2.txt", "signatures/0001.entries"] {
            check_name(good).unwrap();
            assert!(Kind::of(good).is_some());
        }
        for bad in [
            "",
            "a.cf",
            "/etc/passwd",
            "rules/../../x",
            "rules//x",
            "rules/.x",
            "rules/a b",
            "rules/a\\b",
            "rules/a\0b",
            "rules/é",
            "a/b/c/d/e/f",
            "rules/-rf",
            "C:/x",
            "rules/",
        ] {
            assert!(check_name(bad).is_err(), "{bad:?}");
        }
        assert!(check_name(&format!("rules/{}", "x".repeat(NAME_BYTES_MAX))).is_err());
        assert!(check_names(["rules/a", "rules/A"].into_iter()).is_err());
        assert!(check_names(["rules/a", "rules/a/b"].into_iter()).is_err());
        check_names(["rules/a", "rules/ab", "urls/a"].into_iter()).unwrap();
    }

    #[test]
    fn a_bundle_fits_programs_of_its_version_and_later() {
        let needs = |requires: &str| BundleInfo { requires: requires.into(), ..Default::default() };
        for (requires, program, fits) in [
            ("", "0.1.0", true),
            ("0.1.0", "0.1.0", true),
            ("0.2.0", "0.1.9", false),
            ("0.9.0", "0.10.0", true),
            ("1.0.0", "0.10.0", false),
            ("0.1.0", "0.2.0-rc1", true),
            ("next", "9.9.9", false),
        ] {
            assert_eq!(needs(requires).fits(program), fits, "{requires} {program}");
        }
    }
}
