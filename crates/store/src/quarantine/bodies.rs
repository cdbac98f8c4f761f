//! Reading bodies, and finding those that cannot be read.

use rusqlite::{OptionalExtension, params};

use super::Quarantine;
use crate::content::{Content, ContentHash};
use crate::error::StoreError;
use crate::packs::index::{self, PackState, location, stored};
use crate::packs::{Kind, Location};

/// Rows looked at in one query.
const SLICE: usize = 500;

/// A held message that cannot be read.
#[derive(Debug)]
pub struct DamagedItem {
    /// Id of the item.
    pub id: String,
    /// What is wrong, with the file.
    pub error: StoreError,
}

impl Quarantine {
    /// The message as received; none if the item is unknown or its body is deleted.
    ///
    /// # Errors
    /// If the body cannot be read, or is damaged.
    pub fn body(&self, id: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let hash = self.read(|c| {
            let mut find = c.prepare_cached("SELECT content FROM item WHERE id = ?1")?;
            find.query_row([id], |row| row.get::<_, Option<String>>(0)).optional()
        })?;
        match hash.flatten().as_deref().and_then(ContentHash::parse) {
            Some(hash) => self.content_of(hash),
            None => Ok(None),
        }
    }

    /// A body by its hash.
    fn content_of(&self, hash: ContentHash) -> Result<Option<Vec<u8>>, StoreError> {
        self.find_content(hash, || self.content.get(hash), |at| self.body_at(hash, at))
    }

    /// The same as it is stored; what is in clear is verified.
    pub(super) fn raw_content_of(&self, hash: ContentHash) -> Result<Option<Vec<u8>>, StoreError> {
        let in_pack = |at: Location| {
            let Some(raw) = self.raw_body_at(hash, at)? else { return Ok(None) };
            if !Content::is_sealed(&raw) {
                return self.content.decode(hash, &self.packs.path(at.pack), raw).map(Some);
            }
            Ok(Some(raw))
        };
        self.find_content(hash, || self.content.stored(hash), in_pack)
    }

    /// A body, read by one of these: from a file of its own, or from a pack.
    fn find_content(
        &self,
        hash: ContentHash,
        in_file: impl Fn() -> Result<Option<Vec<u8>>, StoreError>,
        in_pack: impl Fn(Location) -> Result<Option<Vec<u8>>, StoreError>,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let mut before = None;
        loop {
            let Some(at) = self.read(|c| index::find_body(c, hash))? else {
                if let Some(bytes) = in_file()? {
                    return Ok(Some(bytes));
                }
                // Moved into a pack since the index was read, or deleted.
                let Some(at) = self.read(|c| index::find_body(c, hash))? else { return Ok(None) };
                return in_pack(at)?.map_or_else(|| Err(self.missing(at.pack)), |b| Ok(Some(b)));
            };
            if let Some(bytes) = in_pack(at)? {
                return Ok(Some(bytes));
            }
            // The pack was compacted since the index was read; or it is missing.
            if before == Some(at) {
                return Err(self.missing(at.pack));
            }
            before = Some(at);
        }
    }

    /// The body at this location in clear, verified; none if the pack is missing.
    pub(super) fn body_at(
        &self,
        hash: ContentHash,
        at: Location,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let Some(raw) = self.raw_body_at(hash, at)? else { return Ok(None) };
        self.content.decode(hash, &self.packs.path(at.pack), raw).map(Some)
    }

    /// The same as it is stored.
    pub(super) fn raw_body_at(
        &self,
        hash: ContentHash,
        at: Location,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let Some((head, raw)) = self.packs.read(at)? else { return Ok(None) };
        if head.kind != Kind::Body || head.hash != hash {
            return Err(StoreError::Damaged {
                path: self.packs.path(at.pack),
                what: format!("the record at byte {}", at.offset),
                cause: "it is another one than the index says; restore both from one backup"
                    .to_owned(),
            });
        }
        Ok(Some(raw))
    }

    /// Reads the record of an item.
    fn check_entry(&self, at: Location) -> Result<(), StoreError> {
        match self.packs.read(at)? {
            Some((head, raw)) => {
                self.content.decode(head.hash, &self.packs.path(at.pack), raw).map(|_| ())
            }
            // Moved meanwhile, or missing with its body.
            None => Ok(()),
        }
    }

    fn missing(&self, pack: u64) -> StoreError {
        StoreError::Damaged {
            path: self.packs.path(pack),
            what: "the pack".to_owned(),
            cause: "the file is missing; restore it from a backup, or delete the messages in it \
                    (`gauntlet quarantine verify` names them)"
                .to_owned(),
        }
    }

    /// Reads every body that is held, and reports items whose body cannot be read. Returns how many
    /// bodies were read.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn verify(&self, mut report: impl FnMut(DamagedItem)) -> Result<u64, StoreError> {
        let (mut after, mut read) = (0, 0);
        loop {
            let slice = self.read(|c| {
                let mut find = c.prepare_cached(
                    "SELECT seq, id, content, pack, entry_offset, entry_bytes FROM item \
                     WHERE seq > ?1 AND content IS NOT NULL ORDER BY seq LIMIT ?2",
                )?;
                let rows = find.query_map(params![after, SLICE as i64], |row| {
                    let entry = row.get::<_, Option<i64>>(3)?.map(|_| location(row, 3));
                    let content = ContentHash::parse(row.get_ref(2)?.as_str()?);
                    Ok((
                        row.get::<_, i64>(0)?,
                        row.get::<_, String>(1)?,
                        content,
                        entry.transpose()?,
                    ))
                })?;
                rows.collect::<rusqlite::Result<Vec<_>>>()
            })?;
            let Some((last, ..)) = slice.last() else { return Ok(read) };
            after = *last;
            for (_, id, hash, entry) in slice {
                read += 1;
                let seen = hash.map_or(Ok(None), |hash| self.content_of(hash));
                // The item's own record, from which a lost index is made again.
                let seen = seen.and_then(|body| {
                    entry.map_or(Ok(()), |at| self.check_entry(at)).map(|()| body)
                });
                match seen {
                    Ok(Some(_)) => {}
                    Err(error) => report(DamagedItem { id, error }),
                    // Deleted meanwhile, or gone.
                    Ok(None)
                        if self.get(&id)?.is_none_or(|held| held.state != super::State::Held) => {}
                    Ok(None) => {
                        let error = StoreError::Damaged {
                            path: self.path.clone(),
                            what: "the body".to_owned(),
                            cause: "it is in no pack and in no file".to_owned(),
                        };
                        report(DamagedItem { id, error });
                    }
                }
            }
        }
    }

    /// Packs that are missing or shorter than the index says, each with what to do. Reads no body.
    ///
    /// # Errors
    /// If the database or the folder cannot be read.
    pub fn damaged_packs(&self) -> Result<Vec<String>, StoreError> {
        let mut found = Vec::new();
        for pack in self.read(index::packs)? {
            if pack.live == 0 || pack.state == PackState::Dropped {
                continue;
            }
            let what = match self.packs.size(pack.number)? {
                None => "is missing",
                Some(size) if size < pack.bytes => "is too short",
                Some(_) => continue,
            };
            // It may have been compacted since.
            let still = self.read(|c| {
                let sql = "SELECT 1 FROM pack WHERE number = ?1 AND live > 0";
                c.prepare_cached(sql)?.exists([stored(pack.number)])
            })?;
            if still {
                found.push(format!(
                    "{} {what}, with {} records of held mail ({}): restore it from a backup, or see \
                     `gauntlet quarantine verify` and delete the messages",
                    self.packs.path(pack.number).display(),
                    pack.live,
                    pack.group
                ));
            }
        }
        Ok(found)
    }
}
