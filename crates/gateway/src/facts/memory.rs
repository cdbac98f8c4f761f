//! What is remembered of a message's sender.

use std::net::IpAddr;

use gauntlet_mail::Envelope;
use gauntlet_mail::address::ascii_domain;
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
