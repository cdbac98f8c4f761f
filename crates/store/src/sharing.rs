//! State that the nodes of an array share: what a part of a node has to offer, so that it can be
//! exchanged, and how its numbers are written.
//!
//! Each node keeps its own state durable and decides by it. What changed goes out in *batches*:
//! bytes that only its part understands, under a number that ascends for each node and kind. Other
//! nodes take batches in that order. A part merges them so that taking one again, or another node's
//! before or after, gives the same.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Most bytes of a batch before it is compressed; a part stays below unless one entry is larger.
pub const BATCH_BYTES: usize = 64 << 10;
/// Most bytes of a batch that is read.
pub const BATCH_BYTES_MAX: usize = 2 << 20;

/// Why a part cannot give or take.
pub type SharingError = Box<dyn std::error::Error + Send + Sync>;

/// By the number of a node in its array, the number of its last batch that was taken.
pub type Cursors = BTreeMap<i16, i64>;

/// What is shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SharedKind {
    /// What people and policies said about messages.
    Corrections,
    /// Fingerprints of mail to probe accounts.
    Signatures,
    /// Histories of senders, and known correspondents.
    Senders,
    /// Who waits, and who came again.
    Greylist,
    /// How often clients and senders came of late.
    Rates,
    /// Users of the console, their settings, tokens and lists.
    Users,
}

impl SharedKind {
    /// All of them.
    pub const ALL: [SharedKind; 6] = [
        SharedKind::Corrections,
        SharedKind::Signatures,
        SharedKind::Senders,
        SharedKind::Greylist,
        SharedKind::Rates,
        SharedKind::Users,
    ];

    /// Name in settings and metrics.
    pub fn name(self) -> &'static str {
        match self {
            SharedKind::Corrections => "corrections",
            SharedKind::Signatures => "signatures",
            SharedKind::Senders => "senders",
            SharedKind::Greylist => "greylist",
            SharedKind::Rates => "rates",
            SharedKind::Users => "users",
        }
    }

    /// Number in tables.
    pub fn number(self) -> i16 {
        match self {
            SharedKind::Corrections => 1,
            SharedKind::Signatures => 2,
            SharedKind::Senders => 3,
            SharedKind::Greylist => 4,
            SharedKind::Rates => 5,
            SharedKind::Users => 6,
        }
    }

    /// The kind of this number, if this program knows it.
    pub fn of_number(number: i16) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.number() == number)
    }
}

/// A batch for other nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outgoing {
    /// What changed.
    pub body: Vec<u8>,
    /// For [`SharedPart::sent`].
    pub mark: u64,
    /// More is waiting.
    pub is_full: bool,
}

/// A batch of another node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Incoming {
    /// The node's number in the array.
    pub node: i16,
    /// Number of the batch.
    pub number: i64,
    /// What changed there.
    pub body: Vec<u8>,
}

/// A part of a node whose state is shared. All of it may block.
pub trait SharedPart: Send + Sync {
    /// Which part.
    fn kind(&self) -> SharedKind;

    /// Begins to note changes. `epoch` names the array and this node in it: with another one than
    /// last time all that there is waits, and what other nodes sent before counts no more. Returns
    /// what was taken already.
    ///
    /// # Errors
    /// If the part's files cannot be used.
    fn begin(&self, epoch: &str) -> Result<Cursors, SharingError>;

    /// What changed and was not sent, oldest first; none if nothing.
    ///
    /// # Errors
    /// If it cannot be read.
    fn collect(&self) -> Result<Option<Outgoing>, SharingError>;

    /// The array has the last batch that was collected.
    ///
    /// # Errors
    /// If that cannot be written: then it is sent again.
    fn sent(&self, mark: u64) -> Result<(), SharingError>;

    /// Merges batches of other nodes, those of one node in the order of their numbers. What they
    /// hold that this program does not understand is left out.
    ///
    /// # Errors
    /// If nothing could be written: then all come again.
    fn take(&self, batches: &[Incoming]) -> Result<(), SharingError>;
}

/// Appends a number, seven bits a byte, the lowest first.
pub fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push((number as u8 & 0x7f) | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Reads what a batch holds; whatever does not fit is none.
#[derive(Debug, Clone)]
pub struct BatchReader<'b>(&'b [u8]);

impl<'b> BatchReader<'b> {
    /// Reads these bytes, if they begin with this version of a format.
    pub fn of_version(bytes: &'b [u8], version: u8) -> Option<Self> {
        let (first, rest) = bytes.split_first()?;
        (*first == version && bytes.len() <= BATCH_BYTES_MAX).then_some(BatchReader(rest))
    }

    /// The next bytes.
    pub fn bytes(&mut self, count: usize) -> Option<&'b [u8]> {
        let (piece, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(piece)
    }

    /// The next number of [`put_number`].
    pub fn number(&mut self) -> Option<u64> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = *self.bytes(1)?.first()?;
            number |= u64::from(byte & 0x7f).checked_shl(shift)?;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    /// The next number, as a count of things of at least `bytes_min` bytes each: never more than
    /// what is left can hold.
    pub fn count(&mut self, bytes_min: usize) -> Option<usize> {
        let count = usize::try_from(self.number()?).ok()?;
        (count.checked_mul(bytes_min.max(1))? <= self.0.len()).then_some(count)
    }

    /// All that is left.
    pub fn rest(self) -> &'b [u8] {
        self.0
    }
}

#[cfg(test)]
pub(crate) mod relay;
#[cfg(test)]
pub(crate) mod seeded;
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_they_were_written_and_counts_never_promise_more_than_there_is() {
        let all = [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX];
        let mut bytes = vec![7];
        all.iter().for_each(|number| put_number(&mut bytes, *number));
        let mut reader = BatchReader::of_version(&bytes, 7).unwrap();
        assert!(all.iter().all(|number| reader.number() == Some(*number)));
        assert!(reader.number().is_none() && BatchReader::of_version(&bytes, 8).is_none());
        let mut reader = BatchReader::of_version(&[1, 3, 0, 0], 1).unwrap();
        assert_eq!(reader.count(1), None);
        assert_eq!(BatchReader::of_version(&[1, 2, 0, 0], 1).unwrap().count(1), Some(2));
        assert_eq!(
            BatchReader::of_version(&[&[1][..], &[0xff; 11]].concat(), 1).unwrap().number(),
            None
        );
        for kind in SharedKind::ALL {
            assert_eq!(SharedKind::of_number(kind.number()), Some(kind));
        }
    }
}
