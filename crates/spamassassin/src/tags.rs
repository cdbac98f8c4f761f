//! Standard tags, which every message has: `%{LASTEXTERNALIP}` in a pattern.

use crate::evals::EvalContext;
use crate::views::{Relay, reversed_ip};

/// The values of a standard tag (SpamAssassin's template tags, as far as they are known before the
/// message is classified); `None` if it is no such tag. Empty values are left out.
pub(crate) fn standard(name: &str, evals: &EvalContext<'_>) -> Option<Vec<Vec<u8>>> {
    let relays = evals.views.relays();
    let text = |text: &[u8]| vec![text.to_vec()];
    let of = |relay: Option<&Relay>, what: &dyn Fn(&Relay) -> Vec<u8>| {
        vec![relay.map(what).unwrap_or_default()]
    };
    let (external, trusted) = (relays.external().first(), relays.trusted().last());
    let all_reversed = |all: &[Relay]| -> Vec<Vec<u8>> {
        all.iter().filter(|r| !r.private).map(reversed_ip).collect()
    };
    let hosts = |selector: &str| -> Vec<Vec<u8>> { evals.values(selector).to_vec() };
    let mut values = match name {
        "VERSION" => text(b"4.0.1"),
        "REQD" => text(format!("{:.1}", evals.tables.required_score).as_bytes()),
        "BAYES" => text(b"0.5"),
        "FIRSTTRUSTEDIP" => of(trusted, &|r| r.ip.clone()),
        "FIRSTTRUSTEDREVIP" => of(trusted, &|r| reversed_ip(r)),
        "LASTEXTERNALIP" => of(external, &|r| r.ip.clone()),
        "LASTEXTERNALREVIP" => of(external, &|r| reversed_ip(r)),
        "LASTEXTERNALRDNS" => of(external, &|r| r.rdns.clone()),
        "LASTEXTERNALHELO" => of(external, &|r| r.helo.clone()),
        "RELAYSTRUSTED" => text(&relays.trusted_text),
        "RELAYSUNTRUSTED" => text(&relays.untrusted_text),
        "RELAYSINTERNAL" => text(&relays.internal_text),
        "RELAYSEXTERNAL" => text(&relays.external_text),
        "RELAYSTRUSTEDREVIP" => all_reversed(relays.trusted()),
        "RELAYSUNTRUSTEDREVIP" => all_reversed(relays.untrusted()),
        "RELAYSINTERNALREVIP" => all_reversed(relays.internal()),
        "RELAYSEXTERNALREVIP" => all_reversed(relays.external()),
        "SENDERDOMAIN" => hosts("EnvelopeFrom:first:addr:host"),
        "AUTHORDOMAIN" => hosts("From:addr:host"),
        _ => {
            let header = name.strip_prefix("HEADER(")?.strip_suffix(')')?;
            vec![evals.text(header).into_owned()]
        }
    };
    values.retain(|v| !v.is_empty());
    Some(values)
}
