//! What the packs know of held messages beside their bodies: the item itself, and what became of
//! it. A lost database is made again from these.

use std::borrow::Cow;

use gauntlet_mail::date::{DAY_MS, day_name};
use serde::{Deserialize, Serialize};

use super::{QuarantineItem, State};
use crate::content::{Content, ContentHash};
use crate::error::StoreError;
use crate::packs::{GROUP_BYTES_MAX, Kind, NewRecord};

/// Group of the packs that say what became of items.
pub const CHANGES: &str = "changes";

/// The record of an item.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Entry<'a> {
    pub item: Cow<'a, QuarantineItem>,
    /// Hash of its body.
    pub content: String,
    /// Bytes of the message.
    pub size: u64,
}

/// A state that an item came into.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Change {
    /// Id of the item.
    pub id: String,
    pub state: State,
    pub changed_ms: i64,
    /// Of a release: its token, and the order as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release: Option<String>,
}

/// A record with the bytes that it holds.
#[derive(Debug)]
pub(super) struct OwnedRecord<'a> {
    pub kind: Kind,
    pub hash: ContentHash,
    pub payload: Cow<'a, [u8]>,
}

impl OwnedRecord<'_> {
    pub(super) fn as_new(&self) -> NewRecord<'_> {
        let is_sealed = Content::is_sealed(&self.payload);
        NewRecord { kind: self.kind, is_sealed, hash: self.hash, payload: &self.payload }
    }
}

/// The record of an item, sealed as bodies are.
pub(super) fn entry_record(
    content: &Content,
    item: &QuarantineItem,
    size: u64,
    body: ContentHash,
) -> Result<OwnedRecord<'static>, StoreError> {
    let mut item = Cow::Borrowed(item);
    if !item.score.is_finite() {
        // JSON has no such number.
        item.to_mut().score = 0.0;
    }
    record(content, Kind::Entry, &Entry { item, content: body.to_string(), size })
}

/// The record of a change, sealed as bodies are: it may name addresses.
pub(super) fn change_record(
    content: &Content,
    change: &Change,
) -> Result<OwnedRecord<'static>, StoreError> {
    record(content, Kind::Change, change)
}

fn record(
    content: &Content,
    kind: Kind,
    value: &impl Serialize,
) -> Result<OwnedRecord<'static>, StoreError> {
    let json = serde_json::to_vec(value)
        .map_err(|e| StoreError::Invalid { what: "a held message", cause: e.to_string() })?;
    let hash = ContentHash::of(&json);
    let payload = content.encode(hash, &json)?.into_owned();
    Ok(OwnedRecord { kind, hash, payload: payload.into() })
}

/// The packs that an item belongs into: those of the day of its reception, since retention counts
/// days; and of its folder if that has a retention of its own.
pub(super) fn group_of(received_ms: i64, own_folder: Option<&str>) -> String {
    let day = day_name(received_ms.div_euclid(DAY_MS));
    let group = own_folder.map_or_else(|| day.clone(), |folder| format!("{day} {folder}"));
    match group.len() > GROUP_BYTES_MAX {
        true => format!("{day} {}", ContentHash::of(group.as_bytes())),
        false => group,
    }
}
