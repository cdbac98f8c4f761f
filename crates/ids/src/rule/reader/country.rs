//! `geoip`: countries of addresses.

use super::draft::{Draft, List, Outcome};
use super::keyword::{Keyword, keyword};
use crate::rule::matches::{GeoIp, Match, PacketCheck, ReputationSide};

pub(super) const KEYWORDS: &[Keyword] = &[keyword("geoip", geoip)];

/// The most countries of one rule.
const COUNTRIES_MAX: usize = 64;

/// `[SIDE,][!]COUNTRY[,COUNTRY...]`: a `!` is for all of them.
fn geoip(draft: &mut Draft<'_>, value: &str) -> Outcome {
    if draft.shared.settings.get("geoip-database").is_none() {
        return Err("geoip-database names no database, so the rule can never match".into());
    }
    let (side, rest) = match value.split_once(',') {
        Some(("src", rest)) => (ReputationSide::Source, rest),
        Some(("dst", rest)) => (ReputationSide::Destination, rest),
        Some(("both", rest)) => (ReputationSide::Both, rest),
        Some(("any", rest)) => (ReputationSide::Any, rest),
        _ => (ReputationSide::Any, value),
    };
    let mut check = GeoIp { side, negated: false, countries: Vec::new() };
    for word in rest.split(',').map(str::trim) {
        let country = word.strip_prefix('!').unwrap_or(word);
        check.negated |= word.starts_with('!');
        if country.len() != 2 || check.countries.len() >= COUNTRIES_MAX {
            return Err(format!("{value:?} is not [SIDE,][!]COUNTRY[,COUNTRY...]").into());
        }
        check.countries.push(country.to_owned());
    }
    draft.append(List::Packet, Match::Packet(PacketCheck::GeoIp(check))).map(|_| ())
}
