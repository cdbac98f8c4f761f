//! Which messages of other nodes were taken in: a file that only grows, in the data folder.
//!
//! ```text
//! record  kind:u8 0:u8*3 sum:u32 token:u8*16 id:u64 at_ms:i64
//! ```
//!
//! Each message has two records: *intended*, with the id that it gets, durable before the spool has
//! it, and *taken*, durable before it is delivered. The spool forgets a message once it is
//! delivered; without this file a node that asks again, because it did not hear our answer, would
//! have it delivered twice. An intent without its end is looked up in the spool at the next start.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use gauntlet_store::files;

use super::bundle::Token;

/// Bytes of a record.
const RECORD_BYTES: usize = 40;
/// A move is finished or given up within so many days; later its token is forgotten.
const DAYS_KEPT: i64 = 400;
const DAY_MS: i64 = 86_400_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Intended = 1,
    Taken = 2,
}

/// What the file says of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Known {
    /// Nobody knows whether the spool got it.
    Intended(u64),
    /// It was taken in under this id.
    Taken(u64),
}

/// The file.
#[derive(Debug)]
pub(super) struct Ledger {
    path: PathBuf,
    file: File,
    /// Length up to the last whole record.
    bytes: u64,
    known: HashMap<Token, (Known, i64)>,
}

impl Ledger {
    /// Opens the file in this folder, or makes it. What a crash left half written is cut off;
    /// tokens that are too old are forgotten.
    ///
    /// # Errors
    /// If it cannot be read or written.
    pub(super) fn open(folder: &Path, now_ms: i64) -> io::Result<Self> {
        let path = folder.join("arrivals");
        let read = match std::fs::read(&path) {
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                files::create(&path)?.sync_all()?;
                files::sync_folder(folder)?;
                Vec::new()
            }
            Err(error) => return Err(error),
        };
        let mut known = HashMap::new();
        let (mut whole, mut sound, mut old) = (0, 0, 0);
        for (index, record) in read.chunks_exact(RECORD_BYTES).enumerate() {
            let Some((kind, token, id, at_ms)) = decode(record) else { continue };
            whole = (index + 1) * RECORD_BYTES;
            sound += 1;
            if at_ms < now_ms - DAYS_KEPT * DAY_MS {
                old += 1;
                continue;
            }
            let new = if kind == Kind::Taken { Known::Taken(id) } else { Known::Intended(id) };
            known.insert(token, (new, at_ms));
        }
        // Behind the last sound record is what a crash cut short.
        let damaged = whole / RECORD_BYTES - sound;
        if damaged > 0 {
            let path = path.display();
            tracing::warn!(%path, damaged, "records of moved messages are damaged");
        }
        let file = File::options().append(true).open(&path)?;
        let mut ledger = Ledger { path, file, bytes: whole as u64, known };
        if old > 0 {
            ledger.rewrite()?;
        } else {
            ledger.file.set_len(ledger.bytes)?;
        }
        Ok(ledger)
    }

    /// Writes all that is known into a new file.
    fn rewrite(&mut self) -> io::Result<()> {
        let mut all = Vec::with_capacity(self.known.len() * RECORD_BYTES);
        for (token, (known, at_ms)) in &self.known {
            let (kind, id) = match known {
                Known::Intended(id) => (Kind::Intended, *id),
                Known::Taken(id) => (Kind::Taken, *id),
            };
            all.extend(encode(kind, *token, id, *at_ms));
        }
        files::write_durably(&self.path, &all)?;
        self.file = File::options().append(true).open(&self.path)?;
        self.bytes = all.len() as u64;
        Ok(())
    }

    pub(super) fn get(&self, token: Token) -> Option<Known> {
        self.known.get(&token).map(|(known, _)| *known)
    }

    /// Moves of which nobody knows whether the spool has them.
    pub(super) fn open_intents(&self) -> Vec<(Token, u64)> {
        let open = self.known.iter().filter_map(|(token, (known, _))| match known {
            Known::Intended(id) => Some((*token, *id)),
            Known::Taken(_) => None,
        });
        open.collect()
    }

    /// These are about to be put into the spool. Durable when it returns.
    ///
    /// # Errors
    /// If it cannot be written; then nothing is intended.
    pub(super) fn intend(&mut self, moves: &[(Token, u64)], now_ms: i64) -> io::Result<()> {
        self.append(Kind::Intended, moves, now_ms)?;
        let new = moves.iter().map(|(token, id)| (*token, (Known::Intended(*id), now_ms)));
        self.known.extend(new);
        Ok(())
    }

    /// The spool has these. Durable when it returns.
    ///
    /// # Errors
    /// If it cannot be written; they stay intended.
    pub(super) fn take(&mut self, moves: &[(Token, u64)], now_ms: i64) -> io::Result<()> {
        self.append(Kind::Taken, moves, now_ms)?;
        self.believe(moves, now_ms);
        Ok(())
    }

    /// As [`Ledger::take`] where it cannot be written: this process knows it, the next one may not.
    pub(super) fn believe(&mut self, moves: &[(Token, u64)], now_ms: i64) {
        let new = moves.iter().map(|(token, id)| (*token, (Known::Taken(*id), now_ms)));
        self.known.extend(new);
    }

    /// The spool does not have it: it may be intended anew.
    pub(super) fn forget(&mut self, token: Token) {
        self.known.remove(&token);
    }

    fn append(&mut self, kind: Kind, moves: &[(Token, u64)], now_ms: i64) -> io::Result<()> {
        if moves.is_empty() {
            return Ok(());
        }
        let records = moves.iter().flat_map(|(token, id)| encode(kind, *token, *id, now_ms));
        let bytes: Vec<u8> = records.collect();
        let written = self.file.write_all(&bytes).and_then(|()| self.file.sync_data());
        if written.is_err() {
            // A part of a record would shift all that follow.
            self.file.set_len(self.bytes)?;
            return written;
        }
        self.bytes += bytes.len() as u64;
        Ok(())
    }
}

fn encode(kind: Kind, token: Token, id: u64, at_ms: i64) -> [u8; RECORD_BYTES] {
    let mut record = [0; RECORD_BYTES];
    record[0] = kind as u8;
    record[8..24].copy_from_slice(&token.0);
    record[24..32].copy_from_slice(&id.to_le_bytes());
    record[32..40].copy_from_slice(&at_ms.to_le_bytes());
    let sum = sum_of(&record);
    record[4..8].copy_from_slice(&sum);
    record
}

fn decode(record: &[u8]) -> Option<(Kind, Token, u64, i64)> {
    let record: &[u8; RECORD_BYTES] = record.try_into().ok()?;
    let kind = match record[0] {
        1 => Kind::Intended,
        2 => Kind::Taken,
        _ => return None,
    };
    let token = Token(record[8..24].try_into().ok()?);
    let id = u64::from_le_bytes(record[24..32].try_into().ok()?);
    let at_ms = i64::from_le_bytes(record[32..40].try_into().ok()?);
    (record[4..8] == sum_of(record)).then_some((kind, token, id, at_ms))
}

/// The checksum of all but itself.
fn sum_of(record: &[u8; RECORD_BYTES]) -> [u8; 4] {
    let mut hash = blake3::Hasher::new();
    hash.update(&record[..4]);
    hash.update(&record[8..]);
    let mut sum = [0; 4];
    hash.finalize_xof().fill(&mut sum);
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Token = Token([1; 16]);
    const B: Token = Token([2; 16]);

    #[test]
    fn what_is_taken_is_known_after_a_restart_and_a_torn_end_is_cut_off() {
        let folder = tempfile::tempdir().unwrap();
        let open = || Ledger::open(folder.path(), 1_000).unwrap();
        let mut ledger = open();
        ledger.intend(&[(A, 7), (B, 8)], 1_000).unwrap();
        ledger.take(&[(A, 7)], 1_000).unwrap();
        drop(ledger);
        let path = folder.path().join("arrivals");
        let whole = std::fs::read(&path).unwrap();
        for cut in 0..RECORD_BYTES {
            std::fs::write(&path, &whole[..whole.len() - cut]).unwrap();
            let ledger = open();
            let known = if cut == 0 { Known::Taken(7) } else { Known::Intended(7) };
            assert_eq!(ledger.get(A), Some(known), "{cut} bytes are missing");
            assert_eq!(ledger.get(B), Some(Known::Intended(8)));
        }
        // What is appended behind a torn end can be read.
        let mut ledger = open();
        ledger.take(&[(B, 8)], 1_000).unwrap();
        ledger.forget(A);
        drop(ledger);
        assert_eq!(open().get(B), Some(Known::Taken(8)));
        assert_eq!(open().open_intents(), [(A, 7)], "forgotten only by the process");
    }

    #[test]
    fn a_damaged_record_hides_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let mut ledger = Ledger::open(folder.path(), 0).unwrap();
        ledger.take(&[(A, 7), (B, 8)], 0).unwrap();
        let path = folder.path().join("arrivals");
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[9] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        let ledger = Ledger::open(folder.path(), 0).unwrap();
        assert_eq!((ledger.get(A), ledger.get(B)), (None, Some(Known::Taken(8))));
    }

    #[test]
    fn old_tokens_are_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let mut ledger = Ledger::open(folder.path(), 0).unwrap();
        ledger.take(&[(A, 7)], 0).unwrap();
        ledger.take(&[(B, 8)], 2 * DAY_MS).unwrap();
        for _ in 0..2 {
            let ledger = Ledger::open(folder.path(), DAYS_KEPT * DAY_MS + DAY_MS).unwrap();
            assert_eq!((ledger.get(A), ledger.get(B)), (None, Some(Known::Taken(8))));
        }
        let bytes = std::fs::metadata(folder.path().join("arrivals")).unwrap().len();
        assert_eq!(bytes, RECORD_BYTES as u64);
    }
}
