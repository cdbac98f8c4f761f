//! Digests: a mail for everybody about what was held for them since the last one, as text and HTML,
//! with links that work once, for a while, and without a password.

use std::collections::BTreeSet;
use std::fmt::{Display, Write};
use std::sync::Arc;

use gauntlet_mail::{Direction, date};
use gauntlet_store::quarantine::{Held, HeldQuery, State};
use gauntlet_store::users::{Link, LinkKind};
use gauntlet_store::{Quarantine, StoreError, Users};
use gauntlet_verdict::Class;
use maud::{DOCTYPE, html};

use crate::format;
use crate::text::{LANGUAGE, Texts, t, translatable};

/// Messages listed in one digest; the others are counted.
const LISTED_MAX: usize = 100;
/// Addresses looked at in one go.
const ADDRESSES_AT_ONCE: usize = 500;
/// Longest address that gets a digest, in bytes (RFC 5321, section 4.5.3.1.3).
const ADDRESS_BYTES_MAX: usize = 254;
/// What everybody should know about the links.
const CAREFUL: &str = translatable(
    "Each link works once, for {} days, and opens only your own mail: do not pass it on.",
);
/// Characters of a line of base64 (RFC 2045, section 6.8).
const LINE_CHARS: usize = 76;

/// How digests are made.
#[derive(Debug, Clone)]
pub struct DigestOptions {
    /// Where users reach the console: `https://mail.example.com`.
    pub url: String,
    /// Address in their From field.
    pub from: String,
    /// Days that links work.
    pub link_days: u32,
    /// Phrases of the language in which digests are written.
    pub texts: Arc<Texts>,
    /// Addresses that get none, in lower case: probe accounts, which nobody reads.
    pub no_digest: BTreeSet<String>,
}

/// What a round of digests came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DigestRun {
    /// Digests handed to the queue.
    pub sent: u64,
    /// Digests that could not be sent; they are tried again with the next round.
    pub failed: u64,
}

/// What one person gets to see of their held mail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Digest {
    /// Whom it is for.
    pub address: String,
    /// The message, lines ending in CRLF, ASCII only.
    pub raw: String,
    /// Node (empty for a node's own quarantine) and id of each item that it is about.
    pub items: Vec<(String, String)>,
    /// `seq` of the newest of them.
    pub upto: i64,
}

/// Held mail as digests ask for it, and which of it was in one.
pub trait DigestMail {
    /// Recipients of held items in lower case, sorted, after `after`.
    ///
    /// # Errors
    /// If the store cannot be read.
    fn recipients(&self, after: &str, limit: usize) -> Result<Vec<String>, StoreError>;

    /// What is held for this address and was in none of its digests.
    ///
    /// # Errors
    /// If the store cannot be read.
    fn fresh(&self, address: &str) -> Result<Vec<Held>, StoreError>;

    /// Whether the digest of this address is sent from here, now: of many nodes that ask, one may.
    ///
    /// # Errors
    /// If it cannot be decided.
    fn take(&self, address: &str) -> Result<bool, StoreError>;

    /// Records durably that this digest was sent.
    ///
    /// # Errors
    /// If it could not be made durable.
    fn sent(&self, digest: &Digest, now_ms: i64) -> Result<(), StoreError>;
}

/// The held mail of one node, with the marks of its own users' database.
#[derive(Debug, Clone, Copy)]
pub struct OwnMail<'a> {
    /// What it holds.
    pub quarantine: &'a Quarantine,
    /// Where it is noted up to which item an address was told.
    pub users: &'a Users,
    /// Only what was received since then, in Unix milliseconds.
    pub since_ms: Option<i64>,
}

impl DigestMail for OwnMail<'_> {
    fn recipients(&self, after: &str, limit: usize) -> Result<Vec<String>, StoreError> {
        self.quarantine.recipients_with_held(after, limit)
    }

    fn fresh(&self, address: &str) -> Result<Vec<Held>, StoreError> {
        let mark = self.users.digest_mark(address)?;
        let query = HeldQuery {
            recipient: address.to_owned(),
            state: Some(State::Held),
            since_ms: self.since_ms,
            limit: 500,
            ..HeldQuery::default()
        };
        let mut held = self.quarantine.search(&query)?.items;
        held.retain(|h| h.seq > mark);
        Ok(held)
    }

    fn take(&self, _: &str) -> Result<bool, StoreError> {
        Ok(true)
    }

    fn sent(&self, digest: &Digest, now_ms: i64) -> Result<(), StoreError> {
        self.users.set_digest_mark(&digest.address, digest.upto, now_ms)
    }
}

/// Who may release what, and the keys of links.
#[derive(Debug, Clone, Copy)]
pub struct DigestRights<'a> {
    /// The quarantine whose settings say who may release what.
    pub quarantine: &'a Quarantine,
    /// The database whose key signs links: that of the console where they lead.
    pub users: &'a Users,
}

/// The digest of one address: what is held since the last one that was sent. None if there is
/// nothing new.
///
/// # Errors
/// If the stores cannot be read.
pub fn digest(
    mail: &dyn DigestMail,
    rights: DigestRights<'_>,
    options: &DigestOptions,
    address: &str,
    now_ms: i64,
) -> Result<Option<Digest>, StoreError> {
    let mut held = mail.fresh(address)?;
    // What goes out is not for its recipients to decide.
    held.retain(|h| h.item.envelope.direction == Direction::Inbound);
    let Some(upto) = held.iter().map(|h| h.seq).max() else { return Ok(None) };
    let builder = Builder { rights, options, address, now_ms };
    let raw = builder.message(&held)?;
    let items = held.into_iter().map(|h| (h.node, h.item.id)).collect();
    Ok(Some(Digest { address: address.to_owned(), raw, items, upto }))
}

/// Makes and sends the digests of everybody for whom something new is held.
///
/// # Errors
/// If the stores cannot be read or written. What was sent until then is not sent again.
pub fn round(
    mail: &dyn DigestMail,
    rights: DigestRights<'_>,
    options: &DigestOptions,
    now_ms: i64,
    send: &mut dyn FnMut(&Digest) -> Result<(), String>,
) -> Result<DigestRun, StoreError> {
    let mut done = DigestRun::default();
    let mut after = String::new();
    loop {
        let some = mail.recipients(&after, ADDRESSES_AT_ONCE)?;
        let Some(last) = some.last() else { return Ok(done) };
        after.clone_from(last);
        let gets_one = |a: &&String| is_fit(a) && !options.no_digest.contains(&a.to_lowercase());
        for address in some.iter().filter(gets_one) {
            let Some(made) = digest(mail, rights, options, address, now_ms)? else { continue };
            if !mail.take(address)? {
                continue;
            }
            match send(&made) {
                Ok(()) => {
                    mail.sent(&made, now_ms)?;
                    done.sent += 1;
                }
                Err(error) => {
                    tracing::error!(address, error, "a digest could not be sent");
                    done.failed += 1;
                }
            }
        }
    }
}

/// An address that may stand in a header field.
pub(crate) fn is_fit(address: &str) -> bool {
    address.len() <= ADDRESS_BYTES_MAX
        && address.contains('@')
        && address.bytes().all(|b| b.is_ascii_graphic() && !b"<>,;:\"()[]\\".contains(&b))
}

/// A line of a digest.
struct Line {
    from: String,
    subject: String,
    when: String,
    class: Class,
    /// Links to release it, and to allow its sender, too.
    links: Option<(String, Option<String>)>,
}

struct Builder<'a> {
    rights: DigestRights<'a>,
    options: &'a DigestOptions,
    address: &'a str,
    now_ms: i64,
}

impl Builder<'_> {
    fn message(&self, held: &[Held]) -> Result<String, StoreError> {
        let lines = held.iter().take(LISTED_MAX).map(|h| self.line(h));
        let lines = lines.collect::<Result<Vec<Line>, StoreError>>()?;
        let enter = self.link(LinkKind::Enter, "")?;
        let count = held.len();
        let subject = match count {
            1 => self.say("{} message is held for you", &[&count]),
            _ => self.say("{} messages are held for you", &[&count]),
        };
        let subject = encoded_words(&subject);
        let (text, page) = (self.text(&lines, count, &enter), self.page(&lines, count, &enter));
        let domain = self.options.from.rsplit_once('@').map_or("localhost", |(_, d)| d);
        let mark = blake3_name(&enter);
        let date = rfc5322(self.now_ms);
        let (from, to) = (&self.options.from, self.address);
        Ok(format!(
            "From: {from}\r\nTo: {to}\r\nSubject: {subject}\r\nDate: {date}\r\n\
             Message-ID: <digest-{mark}@{domain}>\r\nAuto-Submitted: auto-generated\r\n\
             MIME-Version: 1.0\r\nContent-Type: multipart/alternative; boundary=\"{mark}\"\r\n\r\n\
             --{mark}\r\n{}\r\n--{mark}\r\n{}\r\n--{mark}--\r\n",
            part("plain", &text),
            part("html", &page)
        ))
    }

    fn line(&self, held: &Held) -> Result<Line, StoreError> {
        let item = &held.item;
        let own = [self.address.to_owned()];
        let links = if self.rights.quarantine.is_released_by_recipient(item, &own) {
            let release = self.link(LinkKind::Release, &held.reference())?;
            let sender = &item.envelope.mail_from;
            let allow = (!sender.is_empty()).then(|| self.link(LinkKind::Allow, &held.reference()));
            Some((release, allow.transpose()?))
        } else {
            None
        };
        let subject = format::plain(&item.subject);
        Ok(Line {
            from: format::plain(&item.from),
            subject: match subject.trim() {
                "" => self.say("(no subject)", &[]),
                _ => subject,
            },
            when: format!("{} UTC", format::day_and_clock(item.received_ms)),
            class: item.class,
            links,
        })
    }

    fn link(&self, kind: LinkKind, item: &str) -> Result<String, StoreError> {
        let link = Link {
            kind,
            address: self.address.to_lowercase(),
            item: item.to_owned(),
            until_ms: self.now_ms + i64::from(self.options.link_days) * date::DAY_MS,
            made_ms: self.now_ms,
        };
        let url = self.options.url.trim_end_matches('/');
        Ok(format!("{url}/link/{}", self.rights.users.sign_link(&link)?))
    }

    fn text(&self, lines: &[Line], count: usize, enter: &str) -> String {
        let mut out = self.say("These messages were held for you and not delivered.", &[]);
        out.push_str("\r\n\r\n");
        for line in lines {
            let Line { from, subject, when, class, links } = line;
            let (from, class) = (self.say("from {}", &[from]), self.say(class.name(), &[]));
            let _ = write!(out, "{subject}\r\n  {from}\r\n  {when}, {class}\r\n");
            match links {
                Some((release, allow)) => {
                    let what = self.say("Release", &[]);
                    let _ = write!(out, "  {what}:\r\n  {release}\r\n");
                    if let Some(allow) = allow {
                        let what = self.say("Release, and always let its sender in", &[]);
                        let _ = write!(out, "  {what}:\r\n  {allow}\r\n");
                    }
                }
                None => {
                    let why = self.say("Only a reviewer or an administrator can release it.", &[]);
                    let _ = write!(out, "  {why}\r\n");
                }
            }
            out.push_str("\r\n");
        }
        if count > lines.len() {
            let more = self.say("And {} more.", &[&(count - lines.len())]);
            let _ = write!(out, "{more}\r\n\r\n");
        }
        let all = self.say("See everything that is held for you, and choose how strict to be", &[]);
        let careful = self.say(CAREFUL, &[&self.options.link_days]);
        let _ = write!(out, "{all}:\r\n{enter}\r\n\r\n{careful}\r\n");
        out
    }

    fn say(&self, english: &str, values: &[&dyn Display]) -> String {
        self.options.texts.say(english, values)
    }

    fn page(&self, lines: &[Line], count: usize, enter: &str) -> String {
        let page = html! {
            (DOCTYPE)
            html lang=(t(LANGUAGE)) {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    title { (t("Held for you")) }
                }
                body style="font-family:system-ui,sans-serif;font-size:15px;line-height:1.5;max-width:640px" {
                    h1 style="font-size:20px" { (t("Held for you")) }
                    p { (t("These messages were not delivered to {}.").with(self.address)) }
                    @for line in lines {
                        div style="border-top:1px solid #ccc;padding:12px 0" {
                            b { (line.subject) } br;
                            (t("from {}").with(&line.from)) br;
                            (line.when) ", " (t(line.class.name())) br;
                            @match &line.links {
                                Some((release, allow)) => {
                                    a href=(release) { (t("Release")) }
                                    @if let Some(allow) = allow {
                                        " · " a href=(allow) { (t("Release, and always let its sender in")) } }
                                },
                                None => (t("Only a reviewer or an administrator can release it.")),
                            }
                        }
                    }
                    @if count > lines.len() { p { (t("And {} more.").with(count - lines.len())) } }
                    p style="border-top:1px solid #ccc;padding-top:12px" {
                        a href=(enter) {
                            (t("See everything that is held for you, and choose how strict to be")) } }
                    p style="font-size:13px" { (t(CAREFUL).with(self.options.link_days)) }
                }
            }
        };
        self.options.texts.localize(&page.into_string())
    }
}

/// A part in base64, so that no line is too long and nothing needs 8 bits.
pub(crate) fn part(subtype: &str, text: &str) -> String {
    let head = format!(
        "Content-Type: text/{subtype}; charset=utf-8\r\nContent-Transfer-Encoding: base64\r\n\r\n"
    );
    head + &base64_lines(text.as_bytes())
}

/// Bytes in base64, in lines of [`LINE_CHARS`].
pub(crate) fn base64_lines(bytes: &[u8]) -> String {
    let encoded = base64_simd::STANDARD.encode_to_string(bytes);
    let mut out = String::with_capacity(encoded.len() + encoded.len() / 32);
    let mut rest = encoded.as_str();
    while !rest.is_empty() {
        let (line, after) = rest.split_at(rest.len().min(LINE_CHARS));
        out.push_str(line);
        out.push_str("\r\n");
        rest = after;
    }
    out
}

/// A text for a header field: as it is, or as encoded words (RFC 2047, section 2), none over 75
/// characters.
pub(crate) fn encoded_words(text: &str) -> String {
    if text.bytes().all(|b| (b' '..=b'~').contains(&b)) {
        return text.to_owned();
    }
    let mut words: Vec<String> = vec![String::new()];
    for c in text.chars().filter(|c| !c.is_control()) {
        match words.last_mut() {
            Some(word) if word.len() + c.len_utf8() <= 45 => word.push(c),
            _ => words.push(c.to_string()),
        }
    }
    let encode = |w: &String| format!("=?utf-8?B?{}?=", base64_simd::STANDARD.encode_to_string(w));
    words.iter().map(encode).collect::<Vec<_>>().join("\r\n ")
}

/// A name for boundary and Message-ID: of the link, which no two digests share.
fn blake3_name(link: &str) -> String {
    blake3::hash(link.as_bytes()).to_hex().chars().take(32).collect()
}

/// `Sat, 21 Nov 2026 04:23:05 +0000` (RFC 5322, section 3.3).
pub(crate) fn rfc5322(ms: i64) -> String {
    let days = ms.div_euclid(date::DAY_MS);
    let (year, month, day) = date::civil(days);
    let month = date::MONTHS[(month - 1) as usize];
    let (weekday, time) = (date::weekday_name(days), date::time_of_day(ms));
    format!("{weekday}, {day:02} {month} {year:04} {time} +0000")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_parts_are_as_the_standards_say() {
        assert_eq!(rfc5322(1_795_235_000_000), "Sat, 21 Nov 2026 04:23:20 +0000");
        let encoded = part("plain", &"é".repeat(200));
        assert!(encoded.lines().all(|l| l.len() <= LINE_CHARS) && encoded.is_ascii());
        assert_eq!(encoded_words("2 messages"), "2 messages");
        let long = encoded_words(&"ü".repeat(40));
        assert!(
            long.lines().all(|l| l.trim().len() <= 75) && long.matches("=?utf-8?B?").count() == 2
        );
        assert!(is_fit("a+b@example.org") && !is_fit("a\r\nBcc: x@y.z") && !is_fit("a, b@c.d"));
    }
}
