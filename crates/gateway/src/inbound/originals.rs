//! Where the original of a message is from which a policy takes something out: the ids of the
//! quarantine, and links by which recipients release it. Said before the message is spooled, so
//! that each attempt says the same.

use std::sync::Arc;

use gauntlet_mail::Direction;
use gauntlet_mail::date::DAY_MS;
use gauntlet_store::users::{Link, LinkKind};
use gauntlet_store::{LogRecord, Users};
use gauntlet_verdict::{Class, Original, ReleasedBy, Removal};

use crate::config::DigestSettings;

/// Names the originals of changed messages, so that notes can link to them.
#[derive(Debug, Clone)]
pub struct Originals {
    users: Arc<Users>,
}

impl Originals {
    /// Links are signed by these users' key.
    pub fn new(users: Arc<Users>) -> Self {
        Originals { users }
    }

    /// Says in the dispositions where the originals will be.
    pub(crate) async fn name(&self, settings: &DigestSettings, record: &mut LogRecord) {
        let is_one = |c: &gauntlet_verdict::Change| c.removal().is_some();
        if !record.dispositions.iter().flat_map(|d| &d.changes).any(is_one) {
            return;
        }
        let may_be_released = record.envelope.direction == Direction::Inbound
            && !matches!(
                record.verdict.class,
                Class::Phishing | Class::Malware | Class::Unscannable
            );
        let all = kept(record, may_be_released);
        for (index, mut place) in all.into_iter().enumerate() {
            if let Some(Place { release: ReleasedBy::User, original, .. }) = &mut place
                && !settings.url.is_empty()
            {
                original.link = self.link(settings, original, record.received_ms).await;
            }
            let Some((place, disposition)) = place.zip(record.dispositions.get_mut(index)) else {
                continue;
            };
            for removal in disposition.changes.iter_mut().filter_map(|c| c.removal_mut()) {
                removal.folder.clone_from(&place.folder);
                removal.release = place.release;
                removal.original = place.original.clone();
            }
        }
    }

    /// Empty if it cannot be signed now: an administrator releases the message then.
    async fn link(&self, settings: &DigestSettings, original: &Original, now_ms: i64) -> String {
        let link = Link {
            kind: LinkKind::Release,
            address: original.recipients.first().map(|a| a.to_lowercase()).unwrap_or_default(),
            item: original.item.clone(),
            until_ms: now_ms + i64::from(settings.link_days) * DAY_MS,
            made_ms: now_ms,
        };
        let users = self.users.clone();
        let signed = tokio::task::spawn_blocking(move || users.sign_link(&link)).await;
        match signed {
            Ok(Ok(text)) => format!("{}/link/{text}", settings.url.trim_end_matches('/')),
            Ok(Err(error)) => {
                tracing::error!(%error, "a release link cannot be signed");
                String::new()
            }
            Err(_) => String::new(),
        }
    }
}

/// Where the original for one recipient is.
struct Place {
    folder: String,
    release: ReleasedBy,
    original: Original,
}

/// One for each disposition that takes something out. Recipients who may release it have an item
/// each; the others of one folder share one.
fn kept(record: &LogRecord, may_be_released: bool) -> Vec<Option<Place>> {
    let wanted: Vec<Option<(String, ReleasedBy)>> = record
        .dispositions
        .iter()
        .map(|d| {
            let all: Vec<&Removal> = d.changes.iter().filter_map(|c| c.removal()).collect();
            // Of two rules the first says where; the stricter one says who.
            let folder = all.first()?.folder.clone();
            let strictest = all.iter().map(|r| r.release).max()?;
            let release = if may_be_released { strictest } else { ReleasedBy::Admin };
            Some((folder, release))
        })
        .collect();
    let place = |(index, one): (usize, &Option<(String, ReleasedBy)>)| {
        let one = one.as_ref()?;
        let shares = one.1 == ReleasedBy::Admin;
        let same = |(other, w): &(usize, &Option<(String, ReleasedBy)>)| {
            *other == index || (shares && w.as_ref() == Some(one))
        };
        let sharing: Vec<usize> =
            wanted.iter().enumerate().filter(same).map(|(other, _)| other).collect();
        let recipients = sharing.iter().filter_map(|i| record.dispositions.get(*i));
        let first = sharing.first().copied().unwrap_or(index);
        Some(Place {
            folder: one.0.clone(),
            release: one.1,
            original: Original {
                item: format!("{}-o{}", record.id, first + 1),
                recipients: recipients.map(|d| d.recipient.clone()).collect(),
                link: String::new(),
            },
        })
    };
    wanted.iter().enumerate().map(place).collect()
}

#[cfg(test)]
mod tests {
    use gauntlet_verdict::{Change, Disposition, Final};

    use super::*;

    #[test]
    fn who_may_release_it_has_an_item_of_their_own() {
        let disposition = |to: &str, release| Disposition {
            recipient: to.into(),
            end: Final::Deliver,
            changes: vec![Change::Strip(Removal {
                parts: Vec::new(),
                note: String::new(),
                rule: "r".into(),
                folder: "stripped".into(),
                release,
                original: Original::default(),
            })],
            rules: Vec::new(),
            release: None,
        };
        let mut plain = disposition("d@x", ReleasedBy::Admin);
        plain.changes.clear();
        let record = LogRecord {
            id: "1A".into(),
            dispositions: vec![
                disposition("a@x", ReleasedBy::Admin),
                disposition("b@x", ReleasedBy::User),
                disposition("c@x", ReleasedBy::Admin),
                plain,
                disposition("e@x", ReleasedBy::User),
            ],
            ..LogRecord::default()
        };
        let items = |user: bool| -> Vec<Option<(String, Vec<String>)>> {
            let all = kept(&record, user).into_iter();
            all.map(|p| p.map(|p| (p.original.item, p.original.recipients))).collect()
        };
        let one = |item: &str, to: &[&str]| {
            Some((item.to_owned(), to.iter().map(|a| (*a).to_owned()).collect::<Vec<_>>()))
        };
        let shared = one("1A-o1", &["a@x", "c@x"]);
        assert_eq!(
            items(true),
            [shared.clone(), one("1A-o2", &["b@x"]), shared, None, one("1A-o5", &["e@x"])]
        );
        let all = one("1A-o1", &["a@x", "b@x", "c@x", "e@x"]);
        assert_eq!(items(false), [all.clone(), all.clone(), all.clone(), None, all]);
    }
}
