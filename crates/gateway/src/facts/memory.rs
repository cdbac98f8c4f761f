//! What is remembered of a message's sender.

use std::net::IpAddr;

use gauntlet_mail::Envelope;
use gauntlet_mail::address::ascii_domain;
use gauntlet_mail::authors::Authors;
use gauntlet_mail::facts::{AuthResult, Facts};
use gauntlet_store::History;
use gauntlet_store::history::network_key;

/// Signing domains of one message that are remembered.
const SIGNERS_MAX: usize = 3;

/// Whose message it is, what is proven best first: who signed it, the domain that SPF passes for,
/// the client's network. A domain that nothing proves is nobody's.
pub fn keys(client: IpAddr, envelope: &Envelope, facts: &Facts) -> Vec<String> {
    let whole =
        |s: &&gauntlet_mail::facts::DkimSignature| s.result == AuthResult::Pass && !s.partial_body;
    let mut keys: Vec<String> =
        facts.dkim.iter().filter(whole).map(|s| format!("k {}", s.domain)).collect();
    keys.dedup();
    keys.truncate(SIGNERS_MAX);
    let domain = envelope.mail_from.rsplit_once('@').and_then(|(_, domain)| ascii_domain(domain));
    if let Some(domain) = domain.filter(|_| facts.spf == AuthResult::Pass) {
        keys.push(format!("d {domain}"));
    }
    keys.push(network_key(client));
    keys
}

/// Recipients of one message up to which it says that its sender knows them: who writes to more
/// at once does not know them all.
const WRITTEN_TO_MAX: usize = 20;

/// Remembers whom a message from here goes to. A report about a message (RFC 5321 section 4.5.5)
/// goes to whom its sender named: anybody could have themselves known by it.
pub fn remember_recipients(history: &History, envelope: &Envelope) {
    if envelope.rcpt_to.len() <= WRITTEN_TO_MAX && !envelope.mail_from.is_empty() {
        history.know(&envelope.rcpt_to, envelope.received_at);
    }
}

/// Puts into the facts when somebody here last wrote to the author. Of several authors, or of one
/// that mail programs read differently, nobody can tell who it is that is known.
pub fn recall_author(history: &History, authors: &Authors, now_s: i64, facts: &mut Facts) {
    if let [author] = &*authors.mailboxes
        && authors.others.is_empty()
        && !authors.incomplete
    {
        facts.correspondent_days = history.known_days(&author.address, now_s);
    }
}

/// Puts what is remembered into the facts: of the best key that is known.
pub fn recall(history: &History, client: IpAddr, envelope: &Envelope, facts: &mut Facts) {
    let now_s = envelope.received_at;
    let known = keys(client, envelope, facts);
    let known = known.iter().find_map(|key| history.lookup(key, now_s));
    if let Some(known) = known {
        facts.sender_seen = Some(known.volume().round().clamp(0.0, 4e9) as u32);
        // Hundredths are enough for a rule, and short in the log.
        facts.sender_spam_share = Some((known.spam_share() * 100.0).round() as f32 / 100.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_written_to_is_known_alone_and_not_from_mass_mail() {
        let folder = tempfile::tempdir().unwrap();
        let history = History::open(folder.path()).unwrap();
        let to = |rcpt_to: Vec<String>| Envelope {
            mail_from: "bob@home.example".into(),
            rcpt_to,
            received_at: 86_400,
            ..Envelope::default()
        };
        let report = Envelope { mail_from: String::new(), ..to(vec!["eve@example.com".into()]) };
        remember_recipients(&history, &report);
        remember_recipients(&history, &to(vec!["ann@example.org".into()]));
        let many = (0..=WRITTEN_TO_MAX).map(|i| format!("u{i}@example.net")).collect();
        remember_recipients(&history, &to(many));
        let days = |from: &[u8]| {
            let mut facts = Facts::default();
            recall_author(&history, &Authors::read([from], 16), 3 * 86_400, &mut facts);
            facts.correspondent_days
        };
        assert_eq!(days(b"Ann <Ann@example.org>"), Some(2));
        assert_eq!(days(b"u1@example.net"), None);
        assert_eq!(days(b"eve@example.com"), None, "a bounce");
        assert_eq!(days(b"ann@example.org, eve@example.com"), None);
        assert_eq!(days(b"<ann@example.org> <eve@example.com>"), None);
    }
}
