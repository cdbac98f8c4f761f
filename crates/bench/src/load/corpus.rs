//! Messages to send: read once, put into the form of the protocol once, mixed by label.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

/// Bytes of messages held in memory at most.
const CORPUS_BYTES_MAX: u64 = 2 << 30;

/// What a message is known to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Label {
    /// Labelled as mail that its recipient wanted.
    Ham,
    /// Labelled as mail that its recipient did not want.
    Spam,
    /// No label says which.
    Unknown,
}

impl Label {
    /// The label of that name; anything but `ham` and `spam` is unknown.
    pub fn named(name: &str) -> Self {
        match name {
            "ham" => Label::Ham,
            "spam" => Label::Spam,
            _ => Label::Unknown,
        }
    }

    /// As reports and JSON have it.
    pub fn name(self) -> &'static str {
        match self {
            Label::Ham => "ham",
            Label::Spam => "spam",
            Label::Unknown => "unknown",
        }
    }
}

/// A message and what it is known to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Its bytes as they were read.
    pub raw: Vec<u8>,
    /// Ham or spam, where its folder or `labels.tsv` says so.
    pub label: Label,
}

/// Messages in the order in which they are sent, again and again.
#[derive(Debug, Clone)]
pub struct Corpus {
    /// Messages, by the names of their files.
    pub items: Vec<Item>,
    /// Which is sent when: numbers into `items`.
    pub order: Vec<usize>,
    /// Size of all messages together, in bytes.
    pub bytes: u64,
    /// Names the corpus: the first 64 bits of a hash over its messages.
    pub hash: String,
}

impl Corpus {
    /// Reads every file below the folders (or the files given) in the order of their names. Hidden
    /// files are left out. A `labels.tsv` in a folder, whose first line names the columns `file`
    /// and `label`, says what its messages are.
    ///
    /// # Errors
    /// A folder that cannot be read or holds no message, or more than 2 GiB of them.
    pub fn load(folders: &[PathBuf]) -> anyhow::Result<Self> {
        let (mut items, mut bytes) = (Vec::new(), 0);
        for folder in folders {
            let labels = labels(folder)?;
            let mut paths = Vec::new();
            collect(folder, &mut paths)?;
            paths.sort();
            for path in &paths {
                let raw = std::fs::read(path)
                    .with_context(|| format!("cannot read {}", path.display()))?;
                bytes += raw.len() as u64;
                if bytes > CORPUS_BYTES_MAX {
                    bail!(
                        "the messages are more than {CORPUS_BYTES_MAX} bytes: give a smaller folder"
                    );
                }
                let name = path.strip_prefix(folder).unwrap_or(path).to_string_lossy();
                let label = labels.get(name.as_ref()).copied().unwrap_or(Label::Unknown);
                items.push(Item { raw, label });
            }
        }
        if items.is_empty() {
            bail!("there is no message in the folders given");
        }
        Ok(Self::of(items))
    }

    /// These messages, each once.
    pub fn of(items: Vec<Item>) -> Self {
        let (mut bytes, mut hash) = (0, blake3::Hasher::new());
        for item in &items {
            bytes += item.raw.len() as u64;
            hash.update(&(item.raw.len() as u64).to_le_bytes());
            hash.update(&item.raw);
        }
        let order = (0..items.len()).collect();
        Corpus { items, order, bytes, hash: hash.finalize().to_hex()[..16].to_owned() }
    }

    /// The messages of these labels alone, mixed by their weights.
    ///
    /// # Errors
    /// As [`Corpus::mix`].
    pub fn of_mix(self, weights: &[(Label, u32)]) -> anyhow::Result<Self> {
        let wanted = |label| weights.iter().any(|(name, weight)| *name == label && *weight > 0);
        let mut corpus =
            Self::of(self.items.into_iter().filter(|item| wanted(item.label)).collect());
        corpus.mix(weights)?;
        Ok(corpus)
    }

    /// Orders the messages so that each label comes by its weight, evenly spread: of 3 to 1, every
    /// fourth message is the other one.
    ///
    /// # Errors
    /// A label that no message has.
    pub fn mix(&mut self, weights: &[(Label, u32)]) -> anyhow::Result<()> {
        let mut kinds = Vec::new();
        for &(label, weight) in weights.iter().filter(|w| w.1 > 0) {
            let of: Vec<usize> =
                (0..self.items.len()).filter(|&i| self.items[i].label == label).collect();
            if of.is_empty() {
                bail!("no message is labelled {}: see labels.tsv", label.name());
            }
            kinds.push((f64::from(weight), 0.0, of, 0_usize));
        }
        let total: f64 = kinds.iter().map(|k| k.0).sum();
        if kinds.is_empty() {
            bail!("the mix has no label with a weight above 0");
        }
        let rounds = self.items.len();
        self.order.clear();
        for _ in 0..rounds {
            // Smooth weighted round robin: who is most behind is next.
            for kind in &mut kinds {
                kind.1 += kind.0;
            }
            let next = kinds.iter_mut().max_by(|a, b| a.1.total_cmp(&b.1));
            let Some((_, behind, of, at)) = next else { break };
            *behind -= total;
            self.order.extend(of.get(*at % of.len()));
            *at += 1;
        }
        Ok(())
    }
}

fn collect(path: &Path, paths: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    let readable = || format!("cannot read {}", path.display());
    if !std::fs::metadata(path).with_context(readable)?.is_dir() {
        paths.push(path.to_owned());
        return Ok(());
    }
    for entry in std::fs::read_dir(path).with_context(readable)? {
        let name = entry.with_context(readable)?.file_name();
        if !name.as_encoded_bytes().starts_with(b".") && name != "labels.tsv" {
            collect(&path.join(name), paths)?;
        }
    }
    Ok(())
}

/// What `labels.tsv` in the folder says; nothing if there is none.
fn labels(folder: &Path) -> anyhow::Result<BTreeMap<String, Label>> {
    let path = folder.join("labels.tsv");
    let Ok(text) = std::fs::read_to_string(&path) else { return Ok(BTreeMap::new()) };
    let mut lines = text.lines();
    let head: Vec<&str> = lines.next().unwrap_or_default().split('\t').collect();
    let column = |name: &str| head.iter().position(|h| *h == name);
    let (Some(file), Some(label)) = (column("file"), column("label")) else {
        bail!("{}: the first line does not name the columns file and label", path.display());
    };
    let pair = |line: &str| {
        let cells: Vec<&str> = line.split('\t').collect();
        Some(((*cells.get(file)?).to_owned(), Label::named(cells.get(label)?)))
    };
    Ok(lines.filter_map(pair).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [("a", "x"), ("b", "yy"), ("c", "zzz")] {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        std::fs::write(folder.path().join("labels.tsv"), "label\tfile\nspam\ta\nham\tb\n").unwrap();
        folder
    }

    #[test]
    fn labels_come_by_name() {
        let folder = folder();
        let corpus = Corpus::load(&[folder.path().to_owned()]).unwrap();
        let labels: Vec<Label> = corpus.items.iter().map(|i| i.label).collect();
        assert_eq!(labels, [Label::Spam, Label::Ham, Label::Unknown]);
        assert_eq!((corpus.bytes, corpus.order), (6, vec![0, 1, 2]));
    }

    #[test]
    fn a_mix_is_spread_evenly() {
        let folder = folder();
        let mut corpus = Corpus::load(&[folder.path().to_owned()]).unwrap();
        corpus.items = std::iter::repeat_n(corpus.items, 4).flatten().collect();
        corpus.mix(&[(Label::Spam, 3), (Label::Ham, 1)]).unwrap();
        let spam: Vec<bool> =
            corpus.order.iter().map(|i| corpus.items[*i].label == Label::Spam).collect();
        assert_eq!(spam.len(), 12);
        for four in spam.chunks(4) {
            assert_eq!(four.iter().filter(|s| **s).count(), 3, "{spam:?}");
        }
        let spam = corpus.clone().of_mix(&[(Label::Spam, 1), (Label::Ham, 0)]).unwrap();
        assert_eq!((spam.items.len(), spam.order.len(), spam.bytes), (4, 4, 4));
        corpus.items.retain(|i| i.label != Label::Ham);
        let error = corpus.mix(&[(Label::Ham, 1)]).unwrap_err().to_string();
        assert!(error.contains("no message is labelled ham"), "{error}");
    }
}
