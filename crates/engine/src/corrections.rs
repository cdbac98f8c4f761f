//! Corrections: what administrators and users have said about messages, spam or not, with the
//! features and fingerprints that are learned from.

use std::collections::BTreeMap;

use gauntlet_mail::date::DAY_SECONDS;

use crate::classifier::group::GROUPS;
use crate::signatures::fingerprint::Fingerprint;
use crate::signatures::known::Report;

/// Corrections kept; the oldest make room for new ones.
pub const CORRECTIONS_MAX: usize = 20_000;

/// A message and its reported class.
#[derive(Debug, Clone, PartialEq)]
pub struct Correction {
    /// What the reporter says that it is: unwanted, or good.
    pub spam: bool,
    /// Hash of who said so; 0 is the administrator, whose corrections count in full.
    pub reporter: u64,
    /// Unix time in seconds at which it was said.
    pub at: i64,
    /// The log odds that the engine gave without what the site has learned, so that only what it
    /// does not know is learned.
    pub base: f32,
    /// Indices into the table of weights, group after group.
    pub features: Vec<u32>,
    /// Where each group of features ends.
    pub ends: [u16; GROUPS],
    /// Who sent it and how it came, as indices into the site's table of identities.
    pub identities: Vec<u32>,
    /// What its near duplicates are known by.
    pub fingerprints: Vec<Fingerprint>,
}

/// Names a message: the hash of its bytes.
pub type MessageId = [u8; 16];

/// Names a message by its bytes.
pub fn message_id(raw: &[u8]) -> MessageId {
    let hash = blake3::hash(raw);
    std::array::from_fn(|i| hash.as_bytes()[i])
}

/// Names a reporter; an empty name is the administrator.
pub fn reporter_id(name: &str) -> u64 {
    if name.is_empty() {
        return 0;
    }
    let hash = blake3::hash(name.to_lowercase().as_bytes());
    u64::from_le_bytes(std::array::from_fn(|i| hash.as_bytes()[i])).max(1)
}

/// Upper half of the reporter ids of policy rules: no more than one in four billion names of people
/// has it.
const POLICY_REPORTERS: u64 = 0x706f_6c69 << 32;

/// Names a rule of the policy with `learn`: all of them together count as one reporter, see
/// [`voter`].
pub fn policy_reporter_id(rule: &str) -> u64 {
    POLICY_REPORTERS | (reporter_id(&format!("policy:{rule}")) & 0xffff_ffff)
}

/// Whether a correction is by a policy rule, not by a person.
pub fn is_policy(reporter: u64) -> bool {
    reporter >> 32 == POLICY_REPORTERS >> 32
}

/// Whose vote a reporter's correction is: policy rules have one vote together, or many rules would
/// count as many people.
pub fn voter(reporter: u64) -> u64 {
    if is_policy(reporter) { POLICY_REPORTERS } else { reporter }
}

/// The reports about fingerprints in the current corrections.
pub fn reports(corrections: &BTreeMap<MessageId, Correction>) -> Vec<Report> {
    let of = |c: &Correction| {
        let day = u16::try_from(c.at.max(0) / DAY_SECONDS).unwrap_or(u16::MAX);
        let (spam, reporter) = (c.spam, voter(c.reporter));
        let report = move |fingerprint| Report { fingerprint, spam, reporter, day };
        c.fingerprints.clone().into_iter().map(report)
    };
    corrections.values().flat_map(of).collect()
}
