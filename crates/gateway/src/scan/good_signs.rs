//! Signs that a message is good which neither rules nor its text give: who provably wrote it.

use gauntlet_mail::facts::AuthResult;
use gauntlet_mail::{Envelope, Facts};

/// Messages of a sender from which its history says something.
const SEEN_MIN: u32 = 10;
/// Share of spam below which a sender is known for good mail.
const SPAM_SHARE_MAX: f32 = 0.02;

/// A user of ours sent it; or DMARC proves the author, and somebody here writes to them, or they
/// have long sent good mail, as mailing lists do.
pub fn has_good_sign(envelope: &Envelope, facts: &Facts) -> bool {
    if envelope.auth_user.is_some() {
        return true;
    }
    let is_known = facts.sender_seen.is_some_and(|seen| seen >= SEEN_MIN)
        && facts.sender_spam_share.is_some_and(|share| share < SPAM_SHARE_MAX);
    facts.dmarc == AuthResult::Pass && (facts.correspondent_days.is_some() || is_known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_proven_authors_who_are_known_count() {
        let known = |facts: Facts| has_good_sign(&Envelope::default(), &facts);
        let proven = Facts { dmarc: AuthResult::Pass, ..Facts::default() };
        assert!(!known(proven.clone()));
        assert!(known(Facts { correspondent_days: Some(400), ..proven.clone() }));
        assert!(!known(Facts { correspondent_days: Some(400), ..Facts::default() }));
        let seen = |seen, share| Facts {
            sender_seen: Some(seen),
            sender_spam_share: Some(share),
            ..proven.clone()
        };
        assert!(known(seen(SEEN_MIN, 0.0)));
        assert!(!known(seen(SEEN_MIN - 1, 0.0)) && !known(seen(SEEN_MIN, 0.02)));
        let ours = Envelope { auth_user: Some("ann".to_owned()), ..Envelope::default() };
        assert!(has_good_sign(&ours, &Facts::default()));
    }
}
