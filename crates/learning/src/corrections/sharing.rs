//! Corrections as the nodes of an array share them: the union of what all were told.
//!
//! The journal is the state. What other nodes said goes into it by [`Corrections::merge`], so all
//! nodes learn from the same corrections, and what one reporter may say at most holds over the
//! array: a person who teaches on four nodes is one reporter with one share.
//!
//! Beside the journal, `array/corrections.shared` has the hash of each correction that the array
//! has, so that only news go out, and the number of each node's last batch. It may be lost: then
//! everything is sent, and merged, again.
//!
//! File: magic `GNTLSHRD`, length of a header (u32, little endian), the header (JSON), then 16
//! bytes of a message's name and 8 of its hash each, and the CRC-32 of all before.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use gauntlet_engine::classifier::model::FORMAT_VERSION;
use gauntlet_engine::corrections::MessageId;
use gauntlet_store::files;
use gauntlet_store::sharing::{
    BATCH_BYTES, BatchReader, Cursors, Incoming, Outgoing, SharedKind, SharedPart, SharingError,
    put_number,
};
use serde::{Deserialize, Serialize};

use super::record::{Said, Stated, next, parse, record};
use super::{Corrections, Replayed, journal_path};

/// Version of the batches' format.
const VERSION: u8 = 1;
/// Corrections in a batch.
const CORRECTIONS_MAX: usize = 500;
const MAGIC: &[u8; 8] = b"GNTLSHRD";
const KNOWN_BYTES: usize = 24;
/// Largest file that is read: every correction that can be in effect, several times over.
const FILE_BYTES_MAX: u64 = 8 << 20;

/// Hash of what was said of a message.
type Digest = [u8; 8];

/// What of the journal is shared.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Header {
    /// Name of the array.
    epoch: String,
    /// Format of the features, whose batches were taken.
    format: u32,
    cursors: Cursors,
}

#[derive(Debug, Default)]
struct Shared {
    header: Header,
    /// What the array has, by message.
    known: BTreeMap<MessageId, Digest>,
    /// What the last batch has.
    pending: Vec<(MessageId, Digest)>,
    /// The journal when all of it was known.
    seen: Option<FileMark>,
}

/// Another one means that something was written.
type FileMark = (u64, u64, i64, i64);

/// The corrections of a data folder, to be shared.
#[derive(Debug)]
pub struct SharedCorrections {
    data: PathBuf,
    path: PathBuf,
    shared: Mutex<Shared>,
}

impl SharedCorrections {
    /// Those of a data folder; what is shared of them is noted in its folder `array`.
    pub fn new(data: &Path) -> Self {
        let path = data.join("array").join("corrections.shared");
        SharedCorrections { data: data.to_owned(), path, shared: Mutex::default() }
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, shared: &Shared) -> Result<(), SharingError> {
        let header = serde_json::to_vec(&shared.header)?;
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&(header.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&header);
        for (id, digest) in &shared.known {
            bytes.extend_from_slice(id);
            bytes.extend_from_slice(digest);
        }
        bytes.extend_from_slice(&crc32fast::hash(&bytes).to_le_bytes());
        if let Some(folder) = self.path.parent() {
            files::create_folder(folder)?;
        }
        Ok(files::write_durably(&self.path, &bytes)?)
    }

    fn mark(&self) -> Option<FileMark> {
        let about = std::fs::metadata(journal_path(&self.data)).ok()?;
        Some((about.ino(), about.len(), about.mtime(), about.mtime_nsec()))
    }
}

impl SharedPart for SharedCorrections {
    fn kind(&self) -> SharedKind {
        SharedKind::Corrections
    }

    fn begin(&self, epoch: &str) -> Result<Cursors, SharingError> {
        let mut shared = self.shared();
        let (mut header, mut known) = match std::fs::metadata(&self.path) {
            Ok(about) if about.len() <= FILE_BYTES_MAX => {
                parse_file(&std::fs::read(&self.path)?).unwrap_or_default()
            }
            Ok(_) => Default::default(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Default::default(),
            Err(error) => return Err(error.into()),
        };
        if header.epoch != epoch {
            (header.cursors, known) = (Cursors::new(), BTreeMap::new());
        }
        // What an earlier build could not use was passed over.
        if header.format != FORMAT_VERSION {
            header.cursors = Cursors::new();
        }
        (header.epoch, header.format) = (epoch.to_owned(), FORMAT_VERSION);
        let cursors = header.cursors.clone();
        *shared = Shared { header, known, ..Shared::default() };
        Ok(cursors)
    }

    fn collect(&self) -> Result<Option<Outgoing>, SharingError> {
        let mut shared = self.shared();
        let mark = self.mark();
        if mark.is_none() || mark == shared.seen {
            return Ok(None);
        }
        let all = Corrections::read_all(&self.data)?;
        shared.known.retain(|id, _| all.live.contains_key(id) || all.forgotten.contains_key(id));
        let mut body = vec![VERSION];
        put_number(&mut body, u64::from(FORMAT_VERSION));
        shared.pending.clear();
        let mut is_full = false;
        for (id, said) in said_of(&all) {
            let mut bytes = Vec::new();
            record(&mut bytes, id, said);
            let digest = digest_of(&bytes);
            if shared.known.get(id) == Some(&digest) {
                continue;
            }
            let is_first = shared.pending.is_empty();
            let fits = body.len() + bytes.len() <= BATCH_BYTES;
            if shared.pending.len() >= CORRECTIONS_MAX || !(is_first || fits) {
                is_full = true;
                break;
            }
            body.extend_from_slice(&bytes);
            shared.pending.push((*id, digest));
        }
        if shared.pending.is_empty() {
            shared.seen = mark;
            return Ok(None);
        }
        Ok(Some(Outgoing { body, mark: 0, is_full }))
    }

    fn sent(&self, _mark: u64) -> Result<(), SharingError> {
        let mut shared = self.shared();
        let pending = std::mem::take(&mut shared.pending);
        shared.known.extend(pending);
        self.write(&shared)
    }

    fn take(&self, batches: &[Incoming]) -> Result<(), SharingError> {
        let mut shared = self.shared();
        let mut said = Vec::new();
        for batch in batches {
            match decode(&batch.body) {
                Some(more) => said.extend(more),
                None => {
                    let (node, number) = (batch.node, batch.number);
                    tracing::warn!(node, number, "corrections of another node are not understood");
                }
            }
        }
        let digests: Vec<(MessageId, Digest)> = said
            .iter()
            .map(|(id, said)| {
                let mut bytes = Vec::new();
                record(&mut bytes, id, said.as_said());
                (*id, digest_of(&bytes))
            })
            .collect();
        if !said.is_empty() {
            Corrections::open(&self.data)?.merge(said)?;
        }
        // After the journal: who dies in between merges once more, which changes nothing.
        shared.known.extend(digests);
        shared.header.cursors.extend(batches.iter().map(|batch| (batch.node, batch.number)));
        self.write(&shared)
    }
}

/// Everything that the journal says.
fn said_of(all: &Replayed) -> impl Iterator<Item = (&MessageId, Said<'_>)> {
    let live = all.live.iter().map(|(id, correction)| (id, Said::Correction(correction)));
    live.chain(all.forgotten.iter().map(|(id, at)| (id, Said::Forgotten(*at))))
}

fn digest_of(record: &[u8]) -> Digest {
    blake3::hash(record).as_bytes().first_chunk().copied().unwrap_or_default()
}

/// What a batch says; none if it is damaged, of another version, or its features are of another
/// format.
pub fn decode(bytes: &[u8]) -> Option<Vec<(MessageId, Stated)>> {
    let mut reader = BatchReader::of_version(bytes, VERSION)?;
    if reader.number()? != u64::from(FORMAT_VERSION) {
        return None;
    }
    let (rest, mut at, mut all) = (reader.rest(), 0, Vec::new());
    while at < rest.len() {
        all.push(parse(next(rest, &mut at)?)?);
    }
    Some(all)
}

fn parse_file(bytes: &[u8]) -> Option<(Header, BTreeMap<MessageId, Digest>)> {
    let (body, sum) = bytes.split_last_chunk::<4>()?;
    if crc32fast::hash(body) != u32::from_le_bytes(*sum) {
        return None;
    }
    let (length, rest) = body.strip_prefix(MAGIC)?.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    let (header, known) = rest.split_at_checked(length)?;
    let (known, []) = known.as_chunks::<KNOWN_BYTES>() else { return None };
    let entry =
        |entry: &[u8; KNOWN_BYTES]| Some((*entry.first_chunk::<16>()?, *entry.last_chunk::<8>()?));
    Some((serde_json::from_slice(header).ok()?, known.iter().map(entry).collect::<Option<_>>()?))
}

#[cfg(test)]
mod tests;
