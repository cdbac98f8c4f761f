//! Expansion of an `askdns` template to names, for one message.

use std::net::IpAddr;

use super::auth::valid_signatures;
use super::context::EvalContext;
use super::host_names::{host_name, host_of, reversed, unique};
use super::links::links;
use super::senders::envelope_domain;
use super::template::Piece;
use crate::views::Relay;

/// Most names of one template.
const EXPANSIONS_MAX: usize = 20;
/// Most values of one tag.
const VALUES_MAX: usize = 40;

/// The names of a template; none if one of its tags has no value.
pub(super) fn expanded(cx: &EvalContext<'_>, pieces: &[Piece]) -> Vec<String> {
    let mut names = vec![String::new()];
    for piece in pieces {
        let values = match piece {
            Piece::Text(text) => vec![text.clone()],
            Piece::Tag(tag) => tag_values(cx, tag),
            Piece::Header(selector) => header_values(cx, selector),
        };
        let longer = names.iter().flat_map(|name| values.iter().map(move |v| format!("{name}{v}")));
        names = longer.take(EXPANSIONS_MAX).collect();
    }
    unique(names.iter().filter_map(|name| host_name(name.as_bytes())))
}

fn tag_values(cx: &EvalContext<'_>, tag: &str) -> Vec<String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let relays = cx.views.relays();
    let (external, trusted) = (relays.external().first(), relays.trusted().last());
    let address = |relay: Option<&Relay>| relay.and_then(|r| r.address);
    match tag {
        "AUTHORDOMAIN" => {
            let values = cx.values("From:addr");
            unique(values.iter().filter_map(|a| host_of(a)).filter_map(|h| host_name(&h)))
        }
        "SENDERDOMAIN" => envelope_domain(cx).into_iter().collect(),
        "DKIMDOMAIN" => {
            let valid = valid_signatures(cx);
            unique(valid.map(|s| s.domain.to_ascii_lowercase()))
        }
        "DKIMSELECTOR" => {
            let valid = valid_signatures(cx);
            unique(valid.map(|s| s.selector.to_ascii_lowercase()))
        }
        "FIRSTTRUSTEDIP" => address(trusted).iter().map(IpAddr::to_string).collect(),
        "FIRSTTRUSTEDREVIP" => address(trusted).map(reversed).into_iter().collect(),
        "LASTEXTERNALIP" => address(external).iter().map(IpAddr::to_string).collect(),
        "LASTEXTERNALREVIP" => address(external).map(reversed).into_iter().collect(),
        "LASTEXTERNALRDNS" => external.iter().map(|r| text(&r.rdns)).collect(),
        "LASTEXTERNALHELO" => external.iter().map(|r| text(&r.helo)).collect(),
        "URIDOMAINS" => unique(links(cx).iter().map(|l| l.domain.clone())),
        "URIHOSTS" => unique(links(cx).iter().map(|l| l.host.clone())),
        _ => Vec::new(),
    }
}

fn header_values(cx: &EvalContext<'_>, selector: &str) -> Vec<String> {
    let text = |value: &[u8]| String::from_utf8_lossy(value.trim_ascii()).into_owned();
    let values = cx.values(selector);
    unique(values.iter().take(VALUES_MAX).map(|value| text(value)).filter(|t| !t.is_empty()))
}
