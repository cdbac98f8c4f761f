//! Keywords of certificates that compare texts and dates.

use super::draft::{Draft, List, Outcome};
use super::keyword::{Keyword, keyword};
use super::protocol::{append, present};
use super::text::Quotes;
use crate::rule::matches::{Match, ProtocolValue};
use crate::rule::number::Compare;

pub(super) const KEYWORDS: &[Keyword] = &[
    keyword("tls_cert_expired", |draft, _| present(draft, "tls", "tls_cert", "tls_cert_expired"))
        .without_value(),
    keyword("tls_cert_valid", |draft, _| present(draft, "tls", "tls_cert", "tls_cert_valid"))
        .without_value(),
    keyword("tls_cert_notbefore", |draft, value| validity(draft, value, "tls_cert_notbefore")),
    keyword("tls_cert_notafter", |draft, value| validity(draft, value, "tls_cert_notafter")),
    keyword("tls.store", store).without_value(),
    keyword("tls_store", store).without_value(),
    keyword("tls.subject", |draft, value| text(draft, value, "tls.subject"))
        .quotes(Quotes::Mandatory)
        .negatable(),
    keyword("tls.issuerdn", |draft, value| text(draft, value, "tls.issuerdn"))
        .quotes(Quotes::Mandatory)
        .negatable(),
    keyword("tls.fingerprint", fingerprint).quotes(Quotes::Mandatory).negatable(),
];

/// Length of a fingerprint as text, in bytes.
const FINGERPRINT_LEN: usize = 59;

fn store(draft: &mut Draft<'_>, _: &str) -> Outcome {
    draft.set_protocol("tls")?;
    draft.append(List::Post, Match::TlsStore).map(|_| ())
}

/// Pairs of hex digits with colons between them, of SHA-1.
fn fingerprint(draft: &mut Draft<'_>, value: &str) -> Outcome {
    if value.len() != FINGERPRINT_LEN || !value.contains(':') {
        return Err("it is 20 pairs of hex digits with colons".into());
    }
    text(draft, value, "tls.fingerprint")
}

/// The text, with `!` before it if it must not be there.
fn text(draft: &mut Draft<'_>, value: &str, keyword: &'static str) -> Outcome {
    draft.set_protocol("tls")?;
    let text = if draft.is_negated { format!("!{value}") } else { value.to_owned() };
    append(draft, "tls_cert", keyword, ProtocolValue::Words(vec![text]))
}

/// `DATE`, `<DATE` (at most), `>DATE` (at least) or `DATE<>DATE` (from, to).
fn validity(draft: &mut Draft<'_>, value: &str, keyword: &'static str) -> Outcome {
    draft.set_protocol("tls")?;
    let bad = || format!("{value:?} is no date, comparison or range of dates");
    let date = |text: &str| date(text).ok_or_else(bad);
    let text = value.trim();
    let compare = if let Some(rest) = text.strip_prefix('<') {
        Compare::AtMost(date(rest)?)
    } else if let Some(rest) = text.strip_prefix('>') {
        Compare::AtLeast(date(rest)?)
    } else if let Some((from, to)) = text.split_once("<>") {
        let (from, to) = (date(from)?, date(to)?);
        if to <= from {
            return Err(bad().into());
        }
        // Both ends count, which a range does not have.
        Compare::Between(from.saturating_sub(1), to.saturating_add(1))
    } else {
        Compare::Equal(date(text)?)
    };
    append(draft, "tls_cert", keyword, ProtocolValue::Number(compare))
}

/// Seconds of the epoch: a number, or a date as ISO 8601 writes it, with parts left out at its end.
fn date(text: &str) -> Option<u64> {
    let text = text.trim();
    if text.is_empty() {
        return None;
    }
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().ok();
    }
    let (day, time) = match text.split_once(['T', ' ']) {
        Some((day, time)) => (day, Some(time.trim())),
        None => (text, None),
    };
    let mut parts = day.split('-').map(|part| part.parse::<i64>().ok());
    let (year, month) = (parts.next()??, parts.next()??);
    let date = match parts.next() {
        Some(date) => date?,
        None if time.is_some() => return None,
        None => 1,
    };
    let is_date = (1..=12).contains(&month) && (1..=31).contains(&date);
    if parts.next().is_some() || !is_date || !(0..=9_999).contains(&year) {
        return None;
    }
    let mut seconds = days(year, month, date) * 86_400;
    let mut parts = time.into_iter().flat_map(|time| time.split(':'));
    for (unit, max) in [(3_600, 23), (60, 59), (1, 60)] {
        let Some(part) = parts.next() else { break };
        let part: i64 = part.parse().ok().filter(|part| (0..=max).contains(part))?;
        seconds += part * unit;
    }
    if parts.next().is_some() { None } else { u64::try_from(seconds).ok() }
}

/// Days from 1970-01-01 to a date of the Gregorian calendar, which counts years from March here:
/// the day that is added in some years is the last.
fn days(year: i64, month: i64, date: i64) -> i64 {
    let year = if month > 2 { year } else { year - 1 };
    let days_before_month = (153 * ((month + 9) % 12) + 2) / 5;
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    365 * year + leap_days + days_before_month + date - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_seconds() {
        assert_eq!(date("2015"), Some(2015));
        assert_eq!(date(" 1970-01 "), Some(0));
        assert_eq!(date("2000-02-29"), Some(951_782_400));
        assert_eq!(date("2015-10-22T23:59:59"), Some(1_445_558_399));
        assert_eq!(date("2015-10-22 23"), Some(1_445_554_800));
        for text in
            ["", "2015-13", "2015-10 12:00", "2015-10-22T24", "2015-10-22T1:2:3:4", "1960-1"]
        {
            assert_eq!(date(text), None, "{text}");
        }
    }
}
