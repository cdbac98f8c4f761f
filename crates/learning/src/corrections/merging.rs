//! Which of two words about a message stands, and how much is kept.

use std::collections::BTreeMap;

use gauntlet_engine::corrections::{CORRECTIONS_MAX, Correction, MessageId, is_policy, voter};

use super::record::{Said, Stated, record};
use super::{Corrections, CorrectionsError, POLICY_CORRECTIONS_MAX, REPORTER_CORRECTIONS_MAX};

/// Messages of which something was taken back that are remembered: for nodes of an array that were
/// away meanwhile.
const FORGOTTEN_MAX: usize = 5_000;

/// Where a word stands in the one order by which nodes merge: people before policies, then the
/// later one, then by its bytes.
type Rank = (bool, i64, Vec<u8>);

fn rank(id: &MessageId, said: Said<'_>) -> Rank {
    let mut bytes = Vec::new();
    record(&mut bytes, id, said);
    match said {
        Said::Correction(c) => (!is_policy(c.reporter), c.at, bytes),
        Said::Forgotten(at) => (true, at, bytes),
    }
}

impl Corrections {
    /// Merges what other nodes of an array said, durably, all with one flush. In whatever order
    /// nodes merge, and however often, they end with the same: of two words about a message that of
    /// a person stands before a policy's, else the later one. Returns how many were news.
    ///
    /// # Errors
    /// If the journal cannot be written.
    pub fn merge(
        &mut self,
        said: impl IntoIterator<Item = (MessageId, Stated)>,
    ) -> Result<usize, CorrectionsError> {
        let mut bytes = Vec::new();
        let mut added = 0;
        for (id, said) in said {
            let live = self.live.get(&id).map(Said::Correction);
            let known = live.or_else(|| self.forgotten.get(&id).map(|at| Said::Forgotten(*at)));
            if known.is_some_and(|known| rank(&id, known) >= rank(&id, said.as_said())) {
                continue;
            }
            record(&mut bytes, &id, said.as_said());
            match said {
                Stated::Correction(correction) => {
                    self.forgotten.remove(&id);
                    self.live.insert(id, correction);
                }
                Stated::Forgotten(at) => {
                    self.live.remove(&id);
                    self.forgotten.insert(id, at);
                }
            }
            self.records += 1;
            added += 1;
        }
        if added > 0 {
            self.append(&bytes)?;
            make_room(&mut self.live);
            make_room_for_forgotten(&mut self.forgotten);
            self.compact_if_due()?;
        }
        Ok(added)
    }
}

/// Forgets the oldest of what was taken back, over the limit.
pub(super) fn make_room_for_forgotten(forgotten: &mut BTreeMap<MessageId, i64>) {
    let over = forgotten.len().saturating_sub(FORGOTTEN_MAX);
    if over > 0 {
        let mut all: Vec<(i64, MessageId)> = forgotten.iter().map(|(id, at)| (*at, *id)).collect();
        all.sort_unstable();
        for (_, id) in all.into_iter().take(over) {
            forgotten.remove(&id);
        }
    }
}

/// Drops the oldest corrections over the limit. Policies together, and each reporter, have lower
/// limits of their own, so that they crowd out nobody's.
pub(super) fn make_room(live: &mut BTreeMap<MessageId, Correction>) {
    let mut by_voter: BTreeMap<u64, Vec<(i64, MessageId)>> = BTreeMap::new();
    for (id, c) in live.iter().filter(|(_, c)| c.reporter != 0) {
        by_voter.entry(voter(c.reporter)).or_default().push((c.at, *id));
    }
    for (who, said) in by_voter {
        let most = match is_policy(who) {
            true => POLICY_CORRECTIONS_MAX,
            false => REPORTER_CORRECTIONS_MAX,
        };
        drop_oldest(live, said, most);
    }
    let all = live.iter().map(|(id, c)| (c.at, *id)).collect();
    drop_oldest(live, all, CORRECTIONS_MAX);
}

fn drop_oldest(
    live: &mut BTreeMap<MessageId, Correction>,
    mut said: Vec<(i64, MessageId)>,
    most: usize,
) {
    let over = said.len().saturating_sub(most);
    if over == 0 {
        return;
    }
    said.sort_unstable();
    for (_, id) in said.into_iter().take(over) {
        live.remove(&id);
    }
}
