//! Hashes of bodies that evaluation must leave out: the mail that a model was trained on, and the
//! workloads that speed is measured on.
//!
//! `gauntlet train` writes them beside the model (`default.bodies` beside `default.model`), so that
//! judging by the shipped model, or by any other that has the file beside it, leaves them out by
//! itself. 32 bits of each hash: of 40,000 bodies, one strange message in 100,000 is left out for
//! nothing.
//!
//! File, little endian: magic `GNTLBODY`, two counts (u32), the hashes (u32 each, training mail
//! then workloads, each sorted), and the BLAKE3 hash of all before (32 bytes).

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, bail};

const MAGIC: &[u8; 8] = b"GNTLBODY";
const HASH_BYTES: usize = 32;
/// Of the model that ships.
const SHIPPED: &[u8] = include_bytes!("../../../model/default.bodies");

/// Hashes of bodies, as [`short`] keeps them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bodies {
    /// Training mail of a model.
    pub trained: BTreeSet<u32>,
    /// Workloads for measuring speed, which overlap the corpora.
    pub workloads: BTreeSet<u32>,
}

impl Bodies {
    /// Those of the shipped model.
    ///
    /// # Errors
    /// If the program was built with a damaged file.
    pub fn shipped() -> anyhow::Result<Self> {
        Self::from_bytes(SHIPPED).context("the hashes of bodies in the program")
    }

    /// Those beside a model's file; if there are none, a note on standard error and the workloads
    /// of the shipped model.
    ///
    /// # Errors
    /// If the file cannot be read or is damaged; the error names its path.
    pub fn beside(model: &Path) -> anyhow::Result<Self> {
        let path = model.with_extension("bodies");
        match std::fs::read(&path) {
            Ok(bytes) => Self::from_bytes(&bytes).with_context(|| path.display().to_string()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let _ = writeln!(
                    io::stderr(),
                    "gauntlet: no {}: mail that the model was trained on is judged too",
                    path.display()
                );
                Self::shipped().map(Self::workloads_alone)
            }
            Err(error) => Err(error).with_context(|| path.display().to_string()),
        }
    }

    /// Without those of training mail.
    pub fn workloads_alone(self) -> Self {
        Bodies { trained: BTreeSet::new(), ..self }
    }

    /// Whether a body with this hash ([`body_hash`]) is to be left out.
    pub fn contain(&self, body: u64) -> bool {
        let hash = short(body);
        self.trained.contains(&hash) || self.workloads.contains(&hash)
    }

    /// The sets as a file: magic, lengths, hashes, checksum.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        for set in [&self.trained, &self.workloads] {
            out.extend_from_slice(&(set.len() as u32).to_le_bytes());
        }
        for hash in self.trained.iter().chain(&self.workloads) {
            out.extend_from_slice(&hash.to_le_bytes());
        }
        let hash = blake3::hash(&out);
        out.extend_from_slice(hash.as_bytes());
        out
    }

    fn from_bytes(bytes: &[u8]) -> anyhow::Result<Self> {
        let whole = bytes.split_at_checked(bytes.len().saturating_sub(HASH_BYTES));
        let (content, hash) = whole.unwrap_or_default();
        let rest = content.strip_prefix(MAGIC);
        let Some(rest) = rest.filter(|_| blake3::hash(content).as_bytes() == hash) else {
            bail!(
                "not a whole file of hashes of bodies; make model and hashes with `gauntlet train`"
            );
        };
        let mut numbers = rest.chunks_exact(4).map(|n| n.try_into().map_or(0, u32::from_le_bytes));
        let trained = numbers.next().unwrap_or(0) as usize;
        numbers.next();
        let trained = numbers.by_ref().take(trained).collect();
        Ok(Bodies { trained, workloads: numbers.collect() })
    }
}

/// A hash of the body of a whole message that line ends, trailing white space and the header do not
/// change.
pub fn body_hash(raw: &[u8]) -> u64 {
    let mut lines = raw.split(|&b| b == b'\n');
    for line in lines.by_ref() {
        if line.trim_ascii().is_empty() {
            break;
        }
    }
    let mut hasher = blake3::Hasher::new();
    for word in lines.flat_map(|l| l.split(u8::is_ascii_whitespace)).filter(|w| !w.is_empty()) {
        hasher.update(word);
        hasher.update(b" ");
    }
    let mut eight = [0; 8];
    hasher.finalize_xof().fill(&mut eight);
    u64::from_le_bytes(eight)
}

/// What is kept of a hash: its upper 32 bits.
pub fn short(body: u64) -> u32 {
    (body >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_gives_the_hashes_again_and_damage_is_seen() {
        let bodies = Bodies {
            trained: [1, 7, u32::MAX].into_iter().collect(),
            workloads: [3].into_iter().collect(),
        };
        let bytes = bodies.to_bytes();
        assert_eq!(Bodies::from_bytes(&bytes).unwrap(), bodies);
        assert!(bodies.contain(3 << 32 | 99) && !bodies.contain(3));
        assert!(!bodies.workloads_alone().contain(7 << 32));
        for cut in [0, 5, 20, bytes.len() - 1] {
            assert!(Bodies::from_bytes(&bytes[..cut]).is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn the_shipped_hashes_are_whole() {
        let bodies = Bodies::shipped().unwrap();
        assert!(bodies.trained.len() > 10_000 && bodies.workloads.len() > 1_000);
    }

    #[test]
    fn bodies_are_equal_whatever_the_line_ends_and_headers() {
        let one = body_hash(b"From: a\n\nhello  world\n");
        assert_eq!(one, body_hash(b"From: b\r\nX: y\r\n\r\nhello world\r\n\r\n"));
        assert_ne!(one, body_hash(b"From: a\n\nhello worlds\n"));
    }
}
