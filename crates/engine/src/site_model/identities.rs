//! Who sent a message and how it came, as a site may learn it: addresses, domains, accounts at
//! mailing services, networks, and which header fields there are.
//!
//! The shipped classifier looks at none of it, for it would learn where its training mail was
//! collected. For a site this is the point: its own senders come again.
//!
//! What nothing proves can be forged. An identity that the facts contradict is another one than
//! the same without doubt, and one that they prove is known twice: nobody can use the good name of
//! a sender whose mail is signed without signing it.

use gauntlet_mail::address::{self, ascii_domain};
use gauntlet_mail::facts::AuthResult;
use gauntlet_mail::{Envelope, Facts, Message};

use super::weights::{FIELD_NAMES, IDENTITY_BITS};
use crate::lookalike::organizational_domain;
use crate::random::mix;

/// Identities of one message at most.
const IDENTITIES_MAX: usize = 96;
/// Bytes of a value that are looked at.
const VALUE_BYTES_MAX: usize = 200;
/// Signing domains that are looked at.
const SIGNERS_MAX: usize = 3;
/// Header fields whose names are looked at.
const FIELDS_MAX: usize = 60;

/// The identities of a message, as indices into the site's table.
pub(crate) fn of_message(message: &Message<'_>, envelope: &Envelope, facts: &Facts) -> Vec<u32> {
    let mut found = Identities::default();
    authors(message, facts, &mut found);
    services(message, &mut found);
    path(envelope, facts, &mut found);
    for field in message.headers().iter().take(FIELDS_MAX) {
        found.add("field", &field.name_str().to_ascii_lowercase());
    }
    found.0
}

#[derive(Default)]
struct Identities(Vec<u32>);

impl Identities {
    fn add(&mut self, kind: &str, value: &str) {
        let value = value.trim().as_bytes();
        if value.is_empty() || self.0.len() >= IDENTITIES_MAX {
            return;
        }
        let value = value.get(..VALUE_BYTES_MAX).unwrap_or(value);
        let fold = |hash: u64, byte: &u8| mix(hash ^ u64::from(*byte));
        let hash = kind.bytes().fold(0x5157_u64, |hash, byte| fold(hash, &byte));
        let hash = value.iter().fold(mix(hash), fold);
        let index = match kind {
            "field" => hash % u64::from(FIELD_NAMES),
            _ => u64::from(FIELD_NAMES) + hash % u64::from((1 << IDENTITY_BITS) - FIELD_NAMES),
        } as u32;
        if !self.0.contains(&index) {
            self.0.push(index);
        }
    }
}

/// The registrable domain of an address or host; the host itself where there is none.
fn domain_of(address: &str) -> String {
    let host = address.rsplit('@').next().unwrap_or_default().trim_end_matches(['.', '>']);
    let host = ascii_domain(host).unwrap_or_else(|| host.to_lowercase());
    organizational_domain(&host).map(str::to_owned).unwrap_or(host)
}

fn authors(message: &Message<'_>, facts: &Facts, found: &mut Identities) {
    let doubted = facts.doubts_authors();
    if let Some(from) = message.from() {
        let domain = domain_of(&from.address);
        let kinds = if doubted { ["from?", "author?"] } else { ["from", "author"] };
        found.add(kinds[0], &from.address.to_lowercase());
        found.add(kinds[1], &domain);
        if facts.dmarc == AuthResult::Pass {
            found.add("proven", &domain);
        }
        found.add("name", &from.name.to_lowercase());
    }
    if let Some(reply) = message.header("reply-to") {
        let reply = address::mailboxes(&reply.unfolded(), 1).into_iter().next();
        found.add("reply", &reply.map_or_else(String::new, |reply| domain_of(&reply.address)));
    }
    if let Some(id) = message.header("message-id") {
        found.add("id", &domain_of(&String::from_utf8_lossy(&id.unfolded())));
    }
}

/// Mailing services and the accounts of senders there.
fn services(message: &Message<'_>, found: &mut Identities) {
    let value = |name: &str| {
        message.header(name).map(|f| String::from_utf8_lossy(&f.unfolded()).to_lowercase())
    };
    for signature in message.headers_named("dkim-signature").take(SIGNERS_MAX) {
        let text = String::from_utf8_lossy(&signature.unfolded()).to_lowercase();
        let signer = text.split(';').find_map(|tag| tag.trim().strip_prefix("d="));
        found.add("signer", &domain_of(signer.unwrap_or_default().trim()));
    }
    if let Some(list) = value("list-id") {
        let id = list.rsplit('<').next().unwrap_or_default().trim_end_matches('>');
        found.add("list", id);
    }
    if let Some(feedback) = value("feedback-id") {
        // "campaign:customer:kind:sender": the last names the service (Google's postmaster pages).
        let mut parts = feedback.rsplit(':');
        found.add("service", parts.next().unwrap_or_default());
        parts.for_each(|part| found.add("account", part));
    }
    for link in value("list-unsubscribe").iter().flat_map(|v| v.split(',')).take(2) {
        let host = link.trim().trim_matches(['<', '>']);
        let host = host.split_once("://").map_or(host, |(_, rest)| rest);
        let host = host.strip_prefix("mailto:").unwrap_or(host);
        let host = host.split(['/', '?', ':']).next().unwrap_or_default();
        found.add("unsubscribe", &domain_of(host));
    }
}

/// The envelope's sender and the client.
fn path(envelope: &Envelope, facts: &Facts, found: &mut Identities) {
    let sender = domain_of(&envelope.mail_from);
    found.add(if facts.doubts_envelope() { "sender?" } else { "sender" }, &sender);
    if facts.spf == AuthResult::Pass {
        found.add("allowed", &sender);
    }
    for signature in facts.dkim.iter().filter(|s| s.result == AuthResult::Pass).take(SIGNERS_MAX) {
        found.add("signed", &domain_of(&signature.domain));
    }
    if let Some(client) = envelope.client_ip {
        found.add("network", &crate::site_model::network(client));
    }
    found.add("client", &domain_of(envelope.client_name.as_deref().unwrap_or_default()));
    found.add("helo", &domain_of(&envelope.helo));
}
