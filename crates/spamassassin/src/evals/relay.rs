//! Relays compared by their Received fields.

use super::args::Args;
use super::context::EvalContext;
use super::net;
use super::text::{is_word, re};
use crate::views::Relays;

fn relays<'a>(cx: &'a EvalContext<'_>) -> &'a Relays {
    cx.views.relays()
}

/// `check_all_trusted()`: there are relays, and all are trusted.
pub(super) fn all_trusted(cx: &EvalContext<'_>, _: &Args) -> bool {
    let relays = relays(cx);
    !relays.trusted().is_empty() && relays.untrusted().is_empty() && cx.unparseable_relays() == 0
}

/// `check_no_relays()`: no relay at all.
pub(super) fn none(cx: &EvalContext<'_>, _: &Args) -> bool {
    let relays = relays(cx);
    relays.trusted().is_empty() && relays.untrusted().is_empty() && cx.unparseable_relays() == 0
}

/// `check_relays_unparseable()`: some Received field could not be parsed.
pub(super) fn any_unparseable(cx: &EvalContext<'_>, _: &Args) -> bool {
    cx.unparseable_relays() > 0
}

/// `helo_ip_mismatch()`: HELO is an address, of another /24 than the client's.
pub(super) fn helo_address_mismatch(cx: &EvalContext<'_>, _: &Args) -> bool {
    relays(cx).untrusted().iter().any(|relay| {
        let (Some(helo), Some(client)) = (net::ipv4(&relay.helo), net::ipv4(&relay.ip)) else {
            return false;
        };
        !net::is_private_v4(helo)
            && !net::is_private_v4(client)
            && helo.octets()[..3] != client.octets()[..3]
    })
}

/// `check_for_numeric_helo()`: HELO of some untrusted relay is a public address.
pub(super) fn numeric_helo(cx: &EvalContext<'_>, _: &Args) -> bool {
    let first = relays(cx).untrusted().iter().find_map(|r| net::ipv4(&r.helo));
    first.is_some_and(|helo| !net::is_private_v4(helo))
}

/// `check_for_sender_no_reverse()`: the first hop has a public address and a name with a dot.
pub(super) fn sender_no_reverse(cx: &EvalContext<'_>, _: &Args) -> bool {
    let first = relays(cx).untrusted().last();
    first.is_some_and(|relay| relay.rdns.contains(&b'.') && !relay.private)
}

/// `check_for_no_rdns_dotcom_helo()`: HELO names a large provider, the client has no name at all.
pub(super) fn unnamed_provider(cx: &EvalContext<'_>, _: &Args) -> bool {
    let provider = re!(
        r"(?i)(?:\.|\A)(?:lycos\.com|lycos\.co\.uk|hotmail\.com|localhost\.com|excite\.com|caramail\.com|cs\.com|aol\.com|msn\.com|yahoo\.com|drizzle\.com)\z"
    );
    // Each hop overrides the one before, so the oldest public one counts.
    let oldest = relays(cx).untrusted().iter().rev().find(|relay| !relay.private);
    oldest.is_some_and(|relay| relay.no_reverse_dns && provider.is_match(&relay.helo))
}

/// `check_for_from_domain_in_received_headers(domain, wanted)`: whether a relay of the sender's
/// domain received the message from one of the same domain.
pub(super) fn domain_in_received(cx: &EvalContext<'_>, args: &Args) -> bool {
    let domain = args.word(0).unwrap_or_default().to_ascii_lowercase().into_bytes();
    let from = cx.text("From:addr");
    let claims =
        super::text::find_ignore_case(&from, &domain).any(|at| at == 0 || !is_word(from[at - 1]));
    if !claims || domain.is_empty() {
        return false;
    }
    let ends = |name: &[u8]| {
        name.strip_suffix(domain.as_slice())
            .is_some_and(|head| !head.last().is_some_and(|&b| is_word(b)))
    };
    let relays = relays(cx);
    let found = relays.all().iter().any(|r| ends(&r.lc_rdns()) && ends(&r.lc_by()));
    found == (args.word(1) == Some("true"))
}

/// `check_for_forged_received_trail()`: more than one relay has another name than its receiver
/// recorded.
pub(super) fn forged_trail(cx: &EvalContext<'_>, _: &Args) -> bool {
    mismatches(cx).0 > 1
}

/// `check_for_forged_received_ip_helo()`: HELO is an address of a distant network.
pub(super) fn forged_helo(cx: &EvalContext<'_>, _: &Args) -> bool {
    mismatches(cx).1 > 0
}

/// Relays whose name differs from the one that the next relay recorded, and HELO addresses of
/// another /16.
fn mismatches(cx: &EvalContext<'_>) -> (u32, u32) {
    let hops = relays(cx).untrusted();
    let is_name = |host: &[u8]| re!(r"\A\w+(?:[\w.-]+\.)+\w+\n?\z").is_match(host);
    let names: Vec<Vec<u8>> = hops.iter().map(|r| domain(&r.rdns)).collect();
    let (mut trail, mut helos) = (0, 0);
    let mut previous: Option<&[u8]> = None;
    for (hop, name) in hops.iter().zip(&names) {
        let by = domain(&hop.by);
        let is_local = matches!(name.as_slice(), b"localhost" | b"localhost.localdomain")
            && hop.ip == b"127.0.0.1";
        if !is_name(&by) {
            previous = Some(name);
            continue;
        }
        let (helo, client) = (net::ipv4(&domain(&hop.helo)), net::ipv4(&hop.ip));
        if let (Some(helo), Some(client)) = (helo, client) {
            let is_far = helo.octets()[..2] != client.octets()[..2];
            helos += u32::from(is_far && !net::is_private_v4(helo));
        }
        if let Some(previous) = previous {
            let is_pair = by == b"msn.com" && previous == b"hotmail.com";
            trail += u32::from(is_name(previous) && by != previous && !is_pair);
        }
        previous = (!is_local).then_some(name);
    }
    (trail, helos)
}

/// The last two labels of a host name, three under short top-level domains; addresses stay whole.
fn domain(host: &[u8]) -> Vec<u8> {
    let host = host.to_ascii_lowercase();
    if !host.iter().any(u8::is_ascii_alphabetic) {
        return host;
    }
    let end = host.iter().rposition(|&b| b != b'.').map_or(0, |last| last + 1);
    let labels: Vec<&[u8]> = host[..end].split(|&b| b == b'.').collect();
    let last = labels.last().copied().unwrap_or_default();
    let is_long = last.len() >= 3 || re!("ie|fr|de").is_match(last);
    let keep = match labels.len() {
        2.. if is_long => 2,
        3.. => 3,
        _ => return host,
    };
    labels[labels.len() - keep..].join(&b'.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domains_of_relays() {
        for (host, expected) in [
            ("a.b.example.com", "example.com"),
            ("a.b.example.co.uk", "example.co.uk"),
            ("mail.example.de", "example.de"),
            ("192.0.2.1", "192.0.2.1"),
            ("localhost", "localhost"),
            ("x.uk", "x.uk"),
        ] {
            assert_eq!(domain(host.as_bytes()), expected.as_bytes(), "{host}");
        }
    }
}
