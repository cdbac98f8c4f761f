//! Releasing a held message exactly once, and authorization for it.
//!
//! [`Quarantine::released_by`] is the only place that decides whether recipients may release a
//! message to themselves. Pages, the API, digests and their links ask it to show what is possible;
//! [`Quarantine::begin_release`] asks it again in the transaction that begins the release, so that
//! no entry point can forget to, and a changed setting applies.

use std::collections::BTreeMap;
use std::sync::PoisonError;

use gauntlet_mail::Direction;
use gauntlet_verdict::{ADMIN_ONLY_FOLDERS, Class, ReleasedBy};
use rusqlite::{Connection, OptionalExtension, params};
use serde::{Deserialize, Serialize};

use super::rows::set_state;
use super::{Held, Quarantine, QuarantineItem, State, audit, search};
use crate::error::StoreError;

/// Folders whose mail its recipients may release unless rule or settings say otherwise: mail that
/// is at most unwanted. All other folders need an administrator.
pub const USER_FOLDERS: [&str; 3] = ["spam", "suspect", "bulk"];

/// Who may release what is held in a folder, by the name of the folder, as configured.
pub type FolderRelease = BTreeMap<String, ReleasedBy>;

/// The authorization of a release. The default permits nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReleaseRight {
    /// A reviewer of the folder, or an administrator.
    Admin,
    /// A recipient with these addresses, to themselves.
    Recipient(Vec<String>),
}

impl Default for ReleaseRight {
    fn default() -> Self {
        ReleaseRight::Recipient(Vec::new())
    }
}

/// A request to release a message.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ReleaseOrder {
    /// Login of the user.
    pub who: String,
    /// Authorization; not stored with the release, which is authorized once it has begun.
    #[serde(skip)]
    pub right: ReleaseRight,
    /// Addresses to send it to instead of the recipients; empty for the recipients.
    pub to: Vec<String>,
    /// Train the classifier with the message as ham.
    pub learn: bool,
}

/// A release in progress, which its caller must finish or abandon.
#[derive(Debug, Clone, PartialEq)]
pub struct Release {
    /// Id of this release; use it as the spool's name for the message, so that after a crash the
    /// same release is not delivered again. Never reused.
    pub token: String,
    /// The item to release.
    pub held: Held,
    /// Who asked for it, with which right, and where it shall go.
    pub order: ReleaseOrder,
    /// Where to send it: the addresses of the request, else the item's recipients.
    pub recipients: Vec<String>,
}

/// What [`Quarantine::begin_release`] found: of many who ask, one may go on.
#[derive(Debug, Clone, PartialEq)]
pub enum Begin {
    /// The release has begun; the caller must finish or abandon it.
    Started(Box<Release>),
    /// The item is not held; this is its state.
    NotHeld(State),
    /// The request is not authorized.
    NotAllowed,
    /// There is no such item, or retention removed it.
    Unknown,
}

impl Quarantine {
    /// Applies the configuration of who may release from which folder.
    pub fn set_folder_release(&self, folders: FolderRelease) {
        *self.folder_release.write().unwrap_or_else(PoisonError::into_inner) = folders;
    }

    /// Who may release this item: [`ReleasedBy::Admin`] if its class or folder is dangerous; else
    /// the stricter one of the rule and the folder's setting; without both, [`ReleasedBy::User`] in
    /// [`USER_FOLDERS`] only. Outbound mail is never released by its recipients.
    pub fn released_by(&self, item: &QuarantineItem) -> ReleasedBy {
        let dangerous = matches!(item.class, Class::Phishing | Class::Malware | Class::Unscannable);
        let folder = item.folder.as_str();
        let inbound = item.envelope.direction == Direction::Inbound;
        if dangerous || !inbound || ADMIN_ONLY_FOLDERS.contains(&folder) {
            return ReleasedBy::Admin;
        }
        let folders = self.folder_release.read().unwrap_or_else(PoisonError::into_inner);
        let strictest = [item.release, folders.get(folder).copied()].into_iter().flatten().max();
        strictest.unwrap_or(match USER_FOLDERS.contains(&folder) {
            true => ReleasedBy::User,
            false => ReleasedBy::Admin,
        })
    }

    /// Whether a user with these addresses may release this item to themselves: they are its only
    /// recipients, and [`Quarantine::released_by`] is [`ReleasedBy::User`].
    pub fn is_released_by_recipient(&self, item: &QuarantineItem, addresses: &[String]) -> bool {
        let own = |r: &String| addresses.iter().any(|a| a.eq_ignore_ascii_case(r));
        // Of a message held for several recipients, one must not decide for the others.
        let alone = !item.recipients.is_empty() && item.recipients.iter().all(own);
        alone && self.released_by(item) == ReleasedBy::User
    }

    /// Whether the request is within its authorization.
    fn allows(&self, item: &QuarantineItem, order: &ReleaseOrder) -> bool {
        match &order.right {
            ReleaseRight::Admin => true,
            ReleaseRight::Recipient(addresses) => {
                order.to.is_empty()
                    && !order.learn
                    && self.is_released_by_recipient(item, addresses)
            }
        }
    }

    /// Begins a release, which reserves the item for the caller. An unauthorized request is refused
    /// and recorded in the audit log.
    ///
    /// # Errors
    /// If the change could not be made durable.
    pub fn begin_release(
        &self,
        id: &str,
        order: &ReleaseOrder,
        now_ms: i64,
    ) -> Result<Begin, StoreError> {
        let json = |e| rusqlite::Error::ToSqlConversionFailure(Box::new(e));
        let begun = self.change(|batch| {
            let sql = format!("SELECT {} FROM item WHERE id = ?1", search::COLUMNS);
            let found = batch.prepare_cached(&sql)?.query_row([id], search::held).optional()?;
            let Some(Held { seq, item, state, .. }) = found else { return Ok(Err(Begin::Unknown)) };
            if !self.allows(&item, order) {
                audit::write(batch, now_ms, &order.who, "release refused", id, "")?;
                return Ok(Err(Begin::NotAllowed));
            }
            if state != State::Held {
                return Ok(Err(Begin::NotHeld(state)));
            }
            // `seq` is never reused and an item is released at most once unless a release is
            // abandoned, for which nothing was spooled, or its message reached nobody: the token
            // is unique.
            let token = format!("release-{seq}-{now_ms}");
            set_state(batch, seq, State::Releasing, now_ms)?;
            let order_json = serde_json::to_string(order).map_err(json)?;
            batch
                .prepare_cached(
                    "UPDATE item SET token = ?2, release = ?3, noted = '' WHERE seq = ?1",
                )?
                .execute(params![seq, token, order_json])?;
            audit::write(batch, now_ms, &order.who, "release", id, &order.to.join(", "))?;
            Ok(Ok(seq))
        })?;
        match begun {
            Err(refused) => Ok(refused),
            Ok(seq) => {
                // Before anything is sent: a list that is made again must not send it once more.
                if let Err(error) = self.note_changes() {
                    let token = format!("release-{seq}-{now_ms}");
                    self.abandon_release(&token, &error.to_string(), now_ms)?;
                    return Err(error);
                }
                let release = self.read(|c| read_release(c, "seq = ?1", seq))?;
                Ok(release
                    .into_iter()
                    .next()
                    .map_or(Begin::Unknown, |r| Begin::Started(Box::new(r))))
            }
        }
    }

    /// The message is in the spool: the item is released. False if this release is not in progress.
    ///
    /// # Errors
    /// If the change could not be made durable; then call it again.
    pub fn finish_release(&self, token: &str, now_ms: i64) -> Result<bool, StoreError> {
        self.end_release(token, State::Released, "released", "", now_ms)
    }

    /// The message could not be spooled: the item is held again. False if this release is not in
    /// progress.
    ///
    /// # Errors
    /// If the change could not be made durable.
    pub fn abandon_release(
        &self,
        token: &str,
        cause: &str,
        now_ms: i64,
    ) -> Result<bool, StoreError> {
        self.end_release(token, State::Held, "release failed", cause, now_ms)
    }

    /// The released message could not be delivered: recorded in the audit log, and, if it is to be
    /// held `again`, it can be released once more. Result: the item; none if it was released anew
    /// or forgotten meanwhile.
    ///
    /// # Errors
    /// If the change could not be made durable.
    pub fn release_failed(
        &self,
        token: &str,
        cause: &str,
        again: bool,
        now_ms: i64,
    ) -> Result<Option<Held>, StoreError> {
        let failed = self.change(|batch| {
            // A next hop may refuse it before the release is noted as finished.
            let sql = format!(
                "SELECT {} FROM item WHERE token = ?1 AND state IN ('releasing', 'released')",
                search::COLUMNS
            );
            let found = batch.prepare_cached(&sql)?.query_row([token], search::held).optional()?;
            let Some(held) = found else { return Ok(None) };
            if again {
                set_state(batch, held.seq, State::Held, now_ms)?;
            }
            audit::write(batch, now_ms, "gauntlet", "release failed", &held.item.id, cause)?;
            Ok(Some(held))
        })?;
        // The next change, or the node's next round, notes it again.
        if let Err(error) = self.note_changes() {
            tracing::warn!(%error, "a change of held mail could not be noted in the packs");
        }
        Ok(failed)
    }

    fn end_release(
        &self,
        token: &str,
        state: State,
        action: &str,
        detail: &str,
        now_ms: i64,
    ) -> Result<bool, StoreError> {
        let ended = self.change(|batch| {
            let mut find = batch.prepare_cached(
                "SELECT seq, id FROM item WHERE token = ?1 AND state = 'releasing'",
            )?;
            let found: Option<(i64, String)> =
                find.query_row([token], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
            let Some((seq, id)) = found else { return Ok(false) };
            set_state(batch, seq, state, now_ms)?;
            audit::write(batch, now_ms, "gauntlet", action, &id, detail)?;
            Ok(true)
        })?;
        // The next change, or the node's next round, notes it again.
        if let Err(error) = self.note_changes() {
            tracing::warn!(%error, "a change of held mail could not be noted in the packs");
        }
        Ok(ended)
    }

    /// Releases in progress: after a start, those that a crash interrupted. The spool knows by the
    /// token whether the message reached it.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn unfinished_releases(&self) -> Result<Vec<Release>, StoreError> {
        self.read(|c| read_release(c, "state = ?1", "releasing"))
    }
}

fn read_release(
    connection: &Connection,
    condition: &str,
    value: impl rusqlite::ToSql,
) -> rusqlite::Result<Vec<Release>> {
    let columns = search::COLUMNS;
    let sql = format!("SELECT {columns}, token, release FROM item WHERE {condition} ORDER BY seq");
    let mut find = connection.prepare_cached(&sql)?;
    let rows = find.query_map([value], |row| {
        let held = search::held(row)?;
        let order: ReleaseOrder = search::json(row, search::COLUMNS_COUNT + 1)?;
        let recipients =
            if order.to.is_empty() { held.item.recipients.clone() } else { order.to.clone() };
        Ok(Release { token: row.get(search::COLUMNS_COUNT)?, held, order, recipients })
    })?;
    rows.collect()
}
