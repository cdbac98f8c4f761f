//! Header fields compared with each other: counts, recipients, subjects, message ids, templates.

use super::args::Args;
use super::context::EvalContext;
use super::domain::second_level;
use super::memo::Recipients;
use super::text::{count, eq_ignore_case, find_ignore_case, is_space, is_word, re};
use super::{date, locale};
use crate::views::{find, perl_lines};

/// Fewest recipients for which a sorted list is suspicious.
const SORTED_RECIPIENTS_MIN: usize = 7;
/// Fewest recipients for which similarity is meaningful.
const SIMILAR_RECIPIENTS_MIN: usize = 5;
/// Most recipients that are compared.
const RECIPIENTS_MAX: usize = 256;

/// `check_for_missing_to_header()`: neither To nor Apparently-To.
pub(super) fn missing_to(cx: &EvalContext<'_>, _: &Args) -> bool {
    cx.text("To").is_empty() && cx.text("Apparently-To").is_empty()
}

/// `check_equal_from_domains()`: From and the envelope sender have different second-level domains.
pub(super) fn different_from_domains(cx: &EvalContext<'_>, _: &Args) -> bool {
    let (from, envelope) = (cx.text("From:addr"), cx.text("EnvelopeFrom:addr"));
    match (second_level(&from), second_level(&envelope)) {
        (Some(a), Some(b)) => !a.eq_ignore_ascii_case(b),
        _ => false,
    }
}

/// `check_for_matching_env_and_hdr_from()`: both are the same address, or both are missing.
pub(super) fn envelope_is_from(cx: &EvalContext<'_>, _: &Args) -> bool {
    cx.text("EnvelopeFrom:addr").eq_ignore_ascii_case(&cx.text("From:addr"))
}

/// `check_illegal_chars(header, ratio, count)`: raw bytes that a header must not have.
pub(super) fn illegal_chars(cx: &EvalContext<'_>, args: &Args) -> bool {
    let Some(name) = args.word(0) else { return false };
    let raw = name.strip_suffix(":raw").unwrap_or(name);
    let text = cx.text(&[raw, ":raw"].concat());
    if !text.iter().any(|&b| !(b.is_ascii_whitespace() || b == 0x0b)) {
        return false;
    }
    let is_control = |b: u8| matches!(b, 0..=8 | 0x0b | 0x0c | 0x0e..=0x1f);
    if !text.is_ascii()
        && std::str::from_utf8(&text).is_ok()
        && !text.iter().any(|&b| is_control(b))
    {
        return false;
    }
    let mut illegal = count(&text, |&b| is_control(b) | (b >= 0x7f));
    if illegal > 0 && raw.eq_ignore_ascii_case("subject") {
        let signs = text.iter().filter(|b| matches!(b, 0xa2 | 0xa3 | 0xae)).count();
        illegal -= usize::from(signs == 1);
    }
    illegal as f64 / text.len() as f64 >= args.number(1) && illegal as f64 >= args.number(2)
}

/// `check_header_count_range(header, min, max)`: how often a field occurs with different values.
pub(super) fn header_count(cx: &EvalContext<'_>, args: &Args) -> bool {
    let Some(name) = args.word(0) else { return false };
    let mut values: Vec<&[u8]> = cx.values(name).iter().map(Vec::as_slice).collect();
    values.sort_unstable();
    values.dedup();
    let count = values.len() as f64;
    count >= args.number(1) && count <= args.number(2)
}

/// `check_unresolved_template()`: a placeholder such as `%SENDER_NAME` left in a header.
pub(super) fn unresolved_template(cx: &EvalContext<'_>, _: &Args) -> bool {
    let all = cx.text("ALL");
    if memchr::memchr(b'%', &all).is_none() {
        return false;
    }
    let ordinary = re!(
        r"(?i)\A(?:X-VMS-To|X-UIDL|X-Face|To|Cc|From|Subject|References|In-Reply-To|(?:X-|Resent-|X-Original-)?Message-Id):"
    );
    // As `%[A-Z][A-Z_-]` finds them.
    let is_placeholder = |at: &usize| {
        let next = |by: usize| all.get(at + by).copied().unwrap_or_default();
        next(1).is_ascii_uppercase() && (next(2).is_ascii_uppercase() || b"_-".contains(&next(2)))
    };
    let line_of = |at: usize| {
        let start = memchr::memrchr(b'\n', &all[..at]).map_or(0, |end| end + 1);
        let end = memchr::memchr(b'\n', &all[at..]).map_or(all.len(), |end| at + end);
        &all[start..end]
    };
    let mut placeholders = memchr::memchr_iter(b'%', &all).filter(is_placeholder);
    placeholders.any(|at| !ordinary.is_match(line_of(at)))
}

/// `check_ratware_name_id()`: the Message-ID of one bulk mailer, with the sender's address in it.
pub(super) fn ratware_name_id(cx: &EvalContext<'_>, _: &Args) -> bool {
    let id = cx.text("MESSAGEID");
    let Some(found) = re!(r"<[A-Z]{28}\.([^>]+?)>").captures(&id) else { return false };
    let from = cx.text("From");
    let quoted = re!(r#""[^"]+"\s*<([^>]*)>"#);
    let address = &found[1];
    quoted.captures_iter(&from).any(|c| c.get(1).is_some_and(|m| m.as_bytes() == address))
}

/// `check_ratware_envelope_from()`: the recipient's `domain.user@` hidden in the envelope sender.
pub(super) fn ratware_envelope_from(cx: &EvalContext<'_>, _: &Args) -> bool {
    let (to, from) = (cx.text("To:addr"), cx.text("EnvelopeFrom:addr"));
    let Some(at) = memchr::memchr(b'@', &to) else { return false };
    let (user, host) = (&to[..at], &to[at + 1..]);
    if user.is_empty() || host.is_empty() {
        return false;
    }
    // Few senders have the recipient's name before their `@`.
    let is_named = |start| from.get(start + user.len()) == Some(&b'@');
    if !find_ignore_case(&from, user).any(is_named) || re!(r"(?i)\ASRS\d[=+-]").is_match(&from) {
        return false;
    }
    let domain = cx.boundaries().trim(host);
    if !cx.boundaries().is_valid(&domain) {
        return false;
    }
    find_ignore_case(&from, &domain).any(|start| {
        let before = start == 0 || !is_word(from[start - 1]);
        // Between the two stands any one character.
        let rest = from.get(start + domain.len() + 1..).unwrap_or_default();
        let starts_word = domain.first().is_some_and(|&b| is_word(b));
        (if starts_word { before } else { !before })
            && rest.len() > user.len()
            && eq_ignore_case(&rest[..user.len()], user)
            && rest[user.len()] == b'@'
    })
}

/// `subject_is_all_caps()`: several words, at least ten bytes, no lower-case letter.
pub(super) fn subject_all_caps(cx: &EvalContext<'_>, _: &Args) -> bool {
    let subject = cx.text("Subject");
    let subject = subject.trim_ascii();
    let reply = re!(r"(?i)\A(?:(?:Re|Fwd|Fw|Aw|Antwort|WG|SV|VB|VS|VL):\s*)+");
    let reply = subject.contains(&b':').then(|| reply.find(subject)).flatten();
    let subject = &subject[reply.map_or(0, |m| m.end())..];
    if subject.len() < 10 || !subject.iter().any(|b| b.is_ascii_whitespace() || *b == 0x0b) {
        return false;
    }
    let has_caps = subject.iter().any(u8::is_ascii_uppercase);
    has_caps
        && !subject.iter().any(u8::is_ascii_lowercase)
        && !locale::encoded_word_in_caps_charset(&cx.text("Subject:raw"))
}

/// `check_for_to_in_subject(address|user)`: the recipient is named in the subject.
pub(super) fn to_in_subject(cx: &EvalContext<'_>, args: &Args) -> bool {
    let to = cx.text("To:addr");
    if to.is_empty() {
        return false;
    }
    let subject = cx.text("Subject");
    match args.word(0) {
        Some("address") => find_ignore_case(&subject, &to).any(|start| {
            let end = start + to.len();
            let boundary = |inside: Option<&u8>, outside: Option<&u8>| {
                inside.is_some_and(|&b| is_word(b)) != outside.is_some_and(|&b| is_word(b))
            };
            let before = start.checked_sub(1).and_then(|i| subject.get(i));
            boundary(to.first(), before) && boundary(to.last(), subject.get(end))
        }),
        Some("user") => {
            let user = to.split(|&b| b == b'@').next().unwrap_or_default();
            subject_is_for(subject.strip_suffix(b"\n").unwrap_or(&subject), user)
        }
        _ => false,
    }
}

/// The subject is the user, or addresses the user: `Re: user`, `user: ...`, `, user!`.
fn subject_is_for(subject: &[u8], user: &[u8]) -> bool {
    const MARKS: &[u8] = b",:;!?-";
    if eq_ignore_case(subject, user) {
        return true;
    }
    if let Some(rest) = subject.strip_prefix(user) {
        let mut rest = rest.trim_ascii_start().iter();
        let marked = rest.next().is_some_and(|b| MARKS.contains(b));
        if marked && rest.next().is_none_or(u8::is_ascii_whitespace) {
            return true;
        }
    }
    if let Some(rest) = subject.strip_prefix(b",")
        && let Some((last, name)) = rest.trim_ascii_start().split_last()
        && MARKS.contains(last)
        && eq_ignore_case(name, user)
    {
        return true;
    }
    let prefix = subject.get(..3).unwrap_or_default();
    if eq_ignore_case(prefix, b"re:") || eq_ignore_case(prefix, b"fw:") {
        let rest = subject[3..].trim_ascii_start();
        let word = rest.iter().take_while(|&&b| is_word(b)).count();
        let after = rest[word..].trim_ascii_start();
        let has_word = word > 0 && after.len() < rest.len() - word;
        return eq_ignore_case(rest, user) || has_word && eq_ignore_case(after, user);
    }
    false
}

/// `check_outlook_message_id()`: an Outlook Message-ID whose time fits neither Date nor Received.
pub(super) fn outlook_message_id(cx: &EvalContext<'_>, _: &Args) -> bool {
    const TICKS_PER_SECOND: f64 = 0.002_328_306_436_538_7;
    const TICKS_AT_EPOCH: f64 = 27_111_902.832_984_9;
    const TICKS_OFF_MAX: i64 = 250;
    let id = cx.text("MESSAGEID");
    if id.get(13) != Some(&b'$') {
        return false;
    }
    let shape = re!(r"\A<[0-9a-f]{4}([0-9a-f]{8})\$[0-9a-f]{8}\$[0-9a-f]{8}@");
    let Some(found) = shape.captures(&id) else { return false };
    let digits = std::str::from_utf8(&found[1]).unwrap_or_default();
    let ticks = i64::from_str_radix(digits, 16).unwrap_or_default();
    let is_off = |field: &str| {
        let time = date::parse(&cx.text(field)).unwrap_or_default();
        let expected = (time as f64 * TICKS_PER_SECOND + TICKS_AT_EPOCH) as i64;
        (ticks - expected).abs() >= TICKS_OFF_MAX
    };
    is_off("Date") && is_off("Received")
}

/// `check_for_faraway_charset_in_headers()`: From or Subject in a charset of no wanted locale.
pub(super) fn faraway_charset(cx: &EvalContext<'_>, _: &Args) -> bool {
    let Some(locales) = cx.tables.locales() else { return false };
    let word = re!(r"=\?(.+?)\?.\?.*?\?=");
    ["From:raw", "Subject:raw"]
        .iter()
        .flat_map(|name| cx.values(name))
        .any(|value| word.captures_iter(value).any(|c| !locale::charset_is_ok(&c[1], locales)))
}

/// `sorted_recipients()`: seven or more, in order.
pub(super) fn sorted_recipients(cx: &EvalContext<'_>, _: &Args) -> bool {
    recipients(cx).is_sorted
}

/// `similar_recipients(min, max)`: share of recipient pairs that begin alike; `undef` is no bound.
pub(super) fn similar_recipients(cx: &EvalContext<'_>, args: &Args) -> bool {
    let similarity = recipients(cx).similarity;
    args.bound(0).is_none_or(|min| similarity >= min)
        && args.bound(1).is_none_or(|max| similarity < max)
}

fn recipients(cx: &EvalContext<'_>) -> Recipients {
    *cx.memo.recipients.get_or_init(|| {
        let all = cx.values("ToCc:addr");
        let more = if all.len() < SIMILAR_RECIPIENTS_MIN { cx.values("Bcc:addr") } else { &[] };
        compare_recipients(all.iter().chain(more))
    })
}

fn compare_recipients<'a>(all: impl Iterator<Item = &'a Vec<u8>>) -> Recipients {
    // Only neighbours count as repeated; an empty address is taken for a repetition of nothing.
    let mut addresses: Vec<&[u8]> = Vec::new();
    for address in all {
        let previous = addresses.last().copied().unwrap_or_default();
        if !address.eq_ignore_ascii_case(previous) {
            addresses.push(address);
        }
        if addresses.len() == RECIPIENTS_MAX {
            break;
        }
    }
    let is_sorted = addresses.len() >= SORTED_RECIPIENTS_MIN && addresses.is_sorted();
    if addresses.len() < SIMILAR_RECIPIENTS_MIN {
        return Recipients { is_sorted, similarity: 0.0 };
    }
    let start = |text: &[u8]| [text.first().copied(), text.get(1).copied()];
    let users: Vec<_> = addresses.iter().map(|a| start(a)).collect();
    let after_at = |a: &&[u8]| memchr::memchr(b'@', a).map(|at| a[at + 1..].to_vec());
    let mut hosts: Vec<Vec<u8>> = addresses.iter().filter_map(after_at).collect();
    hosts.resize(addresses.len(), Vec::new());
    let (mut alike, mut pairs) = (0u32, 0u32);
    for i in 0..addresses.len() {
        for j in i + 1..addresses.len() {
            alike += u32::from(users[i] == users[j]);
            alike += u32::from(start(&hosts[i]) == start(&hosts[j]) && hosts[i] != hosts[j]);
            pairs += 1;
        }
    }
    Recipients { is_sorted, similarity: f64::from(alike) / f64::from(pairs) }
}

/// `check_for_shifted_date(min, max)`: hours that Date is ahead of Received; `undef` is no bound.
pub(super) fn shifted_date(cx: &EvalContext<'_>, args: &Args) -> bool {
    let seconds = *cx.memo.date_ahead.get_or_init(|| date_ahead(cx)) as f64;
    args.bound(0).is_none_or(|min| seconds >= 3600.0 * min)
        && args.bound(1).is_none_or(|max| seconds < 3600.0 * max)
}

/// `received_within_months(min, max)`: age of the message; `undef` is no bound.
pub(super) fn received_within_months(cx: &EvalContext<'_>, args: &Args) -> bool {
    const SECONDS_PER_YEAR: f64 = 31_556_952.0;
    let sent = header_date(cx);
    let received = received_times(cx);
    let mut times: Vec<i64> = Vec::new();
    times.extend(sent);
    times.extend(received.header.first());
    times.extend(received.fetchmail);
    if let (Some(sent), false) = (sent, received.header.is_empty()) {
        times.push(sent - *cx.memo.date_ahead.get_or_init(|| date_ahead(cx)));
    }
    times.sort_unstable_by(|a, b| b.cmp(a));
    let median = times.get(times.len().saturating_sub(1) / 2).copied().unwrap_or_default();
    let age = (cx.now - median) as f64;
    args.bound(0).is_none_or(|min| age >= SECONDS_PER_YEAR * (min / 12.0))
        && args.bound(1).is_none_or(|max| age < SECONDS_PER_YEAR * (max / 12.0))
}

/// The time in Resent-Date, else in Date.
fn header_date(cx: &EvalContext<'_>) -> Option<i64> {
    let first = |name| cx.values(name).iter().find_map(|value| date::parse(value));
    first("Resent-Date").or_else(|| first("Date"))
}

#[derive(Debug, Default)]
struct ReceivedTimes {
    header: Vec<i64>,
    fetchmail: Option<i64>,
}

/// The date in a line of Received: what `\s.?\d+ \S\S\S \d+ \d+:\d+:\d+ \S+` finds first. The
/// search goes from its first colon to both sides.
fn dated(line: &[u8]) -> Option<&[u8]> {
    fn run(text: &[u8], is_so: impl Fn(&u8) -> bool) -> Option<&[u8]> {
        let length = text.iter().position(|b| !is_so(b)).unwrap_or(text.len());
        text.get(length..).filter(|_| length > 0)
    }
    fn digits(text: &[u8]) -> Option<&[u8]> {
        run(text, u8::is_ascii_digit)
    }
    // What precedes the digits at the end, and a space at the end.
    let before_digits = |text: &'_ [u8]| -> Option<usize> {
        let count = text.iter().rev().take_while(|b| b.is_ascii_digit()).count();
        (count > 0).then(|| text.len() - count)
    };
    let word_start = |end: usize| -> Option<usize> {
        let start = before_digits(&line[..end])?;
        start.checked_sub(1).filter(|space| line[*space] == b' ')
    };
    memchr::memchr_iter(b':', line).find_map(|colon| {
        let after = digits(digits(&line[colon + 1..])?.strip_prefix(b":")?)?;
        let rest = run(after.strip_prefix(b" ")?, |b| !is_space(*b))?;
        let month_end = word_start(word_start(colon)?)?;
        let month = month_end.checked_sub(3)?;
        let is_word = !line[month..month_end].iter().any(|b| is_space(*b));
        let day_end = month.checked_sub(1).filter(|at| is_word && line[*at] == b' ')?;
        let day = before_digits(&line[..day_end])?;
        let space = |back: usize| day.checked_sub(back).filter(|at| is_space(line[*at]));
        let start = space(2).filter(|at| line[at + 1] != b'\n').or_else(|| space(1))?;
        line.get(start..line.len() - rest.len())
    })
}

fn received_times(cx: &EvalContext<'_>) -> ReceivedTimes {
    let received = cx.text("Received");
    let lines = perl_lines(&received).filter(|line| !line.trim_ascii().is_empty());
    let mut lines: Vec<&[u8]> =
        lines.map(|line| line.strip_suffix(b"\n").unwrap_or(line)).collect();
    let local_hop = re!(
        r"\bfrom (?:localhost\s|(?:\S+ ){1,2}\S*\b127\.0\.0\.1\b)|qmail \d+ invoked by uid \d+"
    );
    let fetchmail = re!(r"\bby localhost with \w+ \(fetchmail-[\d.]+");
    // Every such line has one of these words.
    let words: [&[u8]; 3] = [b"localhost", b"127.0.0.1", b"invoked by uid"];
    let is_local = |line: &&[u8]| words.iter().any(|word| find(line, word).is_some());
    let is_local_hop = lines.first().is_some_and(|l| is_local(l) && local_hop.is_match(l));
    // Fields that fetchmail and the local delivery before it added are not part of the path.
    let mut local: Vec<&[u8]> = Vec::new();
    let hops = usize::from(is_local_hop);
    let is_fetched =
        |line: &&[u8]| find(line, b"(fetchmail-").is_some() && fetchmail.is_match(line);
    if lines.get(hops).is_some_and(is_fetched) {
        local.extend(lines.drain(..=hops));
    }
    let time = |line: &&[u8]| date::parse(dated(line)?);
    ReceivedTimes {
        header: lines.iter().filter_map(time).collect(),
        fetchmail: local.iter().filter_map(time).filter(|&t| t <= cx.now).max(),
    }
}

/// Seconds that Date is ahead of the Received field that is nearest to it; 0 if either is missing.
fn date_ahead(cx: &EvalContext<'_>) -> i64 {
    let Some(sent) = header_date(cx) else { return 0 };
    let mut ahead: Vec<i64> = received_times(cx).header.iter().map(|t| sent - t).collect();
    // The sender's own hop often has exactly the time of Date, which proves nothing.
    if ahead.len() > 1 && ahead.last() == Some(&0) {
        ahead.pop();
    }
    ahead.into_iter().min_by_key(|d| d.abs()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_received_lines_are_found_as_the_expression_finds_them() {
        let expression = re!(r"\s.?\d+ \S\S\S \d+ \d+:\d+:\d+ \S+");
        let mut seed = 1u32;
        let mut next = |bound: usize| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 16) as usize % bound
        };
        let mut found = 0;
        for _ in 0..50_000 {
            let mut line = b"id 1; Mon,  2 Jan 2023 10:11:12 -0100 3 Feb 2024 1:1:1 X".to_vec();
            for _ in 0..next(4) {
                let (at, byte) = (next(line.len()), b" 1:a,\t\n\xff"[next(8)]);
                match next(3) {
                    0 => line[at] = byte,
                    1 => line.insert(at, byte),
                    _ => drop(line.remove(at)),
                }
            }
            let wanted = expression.find(&line).map(|m| m.as_bytes());
            assert_eq!(dated(&line), wanted, "{:?}", String::from_utf8_lossy(&line));
            found += usize::from(wanted.is_some());
        }
        assert!(found > 40_000);
    }
}
