//! What was taken of SpamAssassin's channels, kept from one `gauntlet channel import` to the next:
//! versions, so that nobody who answers for the DNS leads back to old rules, and lists of mirrors,
//! so that a run without news asks the DNS once and fetches nothing.
//!
//! A file of JSON, [`FILE_ENDING`] beside the folder that is published unless the command names
//! another. A damaged one counts as none, with a warning.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use gauntlet_channel::hex;
use serde::{Deserialize, Serialize};

/// Ends the file's name, after that of the folder.
const FILE_ENDING: &str = ".sa-channels.json";
/// Bytes of the file.
const BYTES_MAX: u64 = 1 << 20;
/// A list of mirrors is fetched again after so many seconds, as `sa-update` does.
const MIRRORS_SECONDS_MAX: i64 = 7 * 86_400;

/// What was taken of all channels.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct State {
    channels: BTreeMap<String, Taken>,
}

/// What was taken of one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Taken {
    /// Its version.
    pub(super) version: u64,
    /// SHA-256 over the rule files that were written.
    pub(super) rules: String,
    /// Mirrors with their weights.
    pub(super) mirrors: Vec<(String, u32)>,
    /// When their list was fetched, in seconds from 1970.
    pub(super) mirrors_s: i64,
}

impl Taken {
    /// The mirrors, while their list is new enough.
    pub(super) fn mirrors_at(&self, now_s: i64) -> Option<&[(String, u32)]> {
        let is_new = (0..MIRRORS_SECONDS_MAX).contains(&now_s.saturating_sub(self.mirrors_s));
        (is_new && !self.mirrors.is_empty()).then_some(&*self.mirrors)
    }

    /// Refuses a version before the one that was taken.
    ///
    /// # Errors
    /// It is one.
    pub(super) fn check(&self, channel: &str, version: u64) -> anyhow::Result<()> {
        ensure!(
            version >= self.version,
            "{channel}: the DNS names version {version}, and {} was taken before: the channel was \
             rolled back, or somebody else answers for the DNS; --allow-older takes it",
            self.version
        );
        Ok(())
    }
}

impl State {
    /// Where the state of a folder lies.
    pub(super) fn path_of(into: &Path) -> PathBuf {
        let mut name = into.file_name().unwrap_or_default().to_owned();
        name.push(FILE_ENDING);
        into.with_file_name(name)
    }

    /// Reads it; nothing where there is none.
    pub(super) fn read(path: &Path) -> Self {
        let is_small = |about: std::fs::Metadata| about.len() <= BYTES_MAX;
        let Ok(true) = std::fs::metadata(path).map(is_small) else { return State::default() };
        let bytes = std::fs::read(path).unwrap_or_default();
        serde_json::from_slice(&bytes).unwrap_or_else(|error| {
            let path = path.display();
            eprintln!("gauntlet: {path}: {error}; what was taken before is not known");
            State::default()
        })
    }

    /// What was taken of a channel.
    pub(super) fn of(&self, channel: &str) -> Taken {
        self.channels.get(channel).cloned().unwrap_or_default()
    }

    /// Notes what was taken of one.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn note(mut self, path: &Path, channel: &str, taken: Taken) -> anyhow::Result<()> {
        self.channels.insert(channel.to_owned(), taken);
        let bytes = serde_json::to_vec_pretty(&self)?;
        gauntlet_store::files::write_durably(path, &bytes)
            .with_context(|| path.display().to_string())
    }
}

/// A hash over rule files, by name and content.
pub(super) fn hash(rules: &[(String, Vec<u8>)]) -> String {
    let lines = rules.iter().map(|(name, text)| format!("{} {name}\n", hex::sha256(text)));
    hex::sha256(lines.collect::<String>().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_taken_is_known_again_and_damage_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = State::path_of(&folder.path().join("today"));
        assert_eq!(path, folder.path().join("today.sa-channels.json"));
        assert_eq!(State::read(&path), State::default());
        let mirrors = vec![("http://a.example/".to_owned(), 5)];
        let taken = Taken { version: 7, rules: "x".to_owned(), mirrors, mirrors_s: 1_000 };
        State::read(&path).note(&path, "a.example", taken.clone()).unwrap();
        State::read(&path).note(&path, "b.example", Taken::default()).unwrap();
        let state = State::read(&path);
        assert_eq!(
            (state.of("a.example"), state.of("c.example")),
            (taken.clone(), Taken::default())
        );
        assert!(taken.check("a", 7).is_ok() && taken.check("a", 8).is_ok());
        assert!(taken.check("a", 6).unwrap_err().to_string().contains("7 was taken before"));
        assert!(taken.mirrors_at(1_000 + MIRRORS_SECONDS_MAX - 1).is_some());
        assert!(taken.mirrors_at(1_000 + MIRRORS_SECONDS_MAX).is_none());
        assert!(taken.mirrors_at(999).is_none(), "the clock was set back");
        std::fs::write(&path, "{").unwrap();
        assert_eq!(State::read(&path), State::default());
    }

    #[test]
    fn a_hash_is_of_names_and_contents() {
        let one = |name: &str, text: &str| (name.to_owned(), text.as_bytes().to_vec());
        let all =
            [hash(&[]), hash(&[one("a", "x")]), hash(&[one("a", "y")]), hash(&[one("b", "x")])];
        assert!((0..4).all(|n| (0..n).all(|m| all[n] != all[m])));
    }
}
