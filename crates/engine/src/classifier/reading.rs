//! What the shipped classifier looks at: features of a parsed message that the sender made.
//!
//! **What a collector or the receiving side added is not looked at**, so that a model cannot learn
//! where its training mail came from: only the header fields of [`FIELDS`] count, which excludes
//! `Received`, `Return-Path`, `Delivered-To`, `List-*`, `Authentication-Results`, `X-MS-*`, DKIM and
//! ARC; recipients are not read; `[tags]` of the Subject, the names of addresses in text and the footers of
//! mailing lists are left out. A feature that is not here cannot be learned.
//!
//! Features come in [`Group`]s. Each group's sum is divided by the square root of its number of
//! features, and bounded, so that padding dilutes one group and can never outvote the others.

use gauntlet_mail::html::{Token, Tokenizer};
use gauntlet_mail::url::UrlTraits;
use gauntlet_mail::{Header, Message};

use super::random::mix;

/// Kinds of features.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// Who it says it is from.
    Sender,
    /// Words of the Subject.
    Subject,
    /// Which fields there are, and how they are written.
    Form,
    /// Words of the text.
    Text,
    /// Structure of the HTML.
    Page,
    /// Hosts and shapes of links.
    Links,
    /// Types of parts and attachments.
    Files,
}

impl Group {
    /// Every group, in the order they are read.
    pub const ALL: [Group; 7] = [
        Group::Sender,
        Group::Subject,
        Group::Form,
        Group::Text,
        Group::Page,
        Group::Links,
        Group::Files,
    ];

    /// Position in [`Group::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }

    /// The name in a sentence.
    pub fn name(self) -> &'static str {
        match self {
            Group::Sender => "sender",
            Group::Subject => "subject",
            Group::Form => "header form",
            Group::Text => "text",
            Group::Page => "page structure",
            Group::Links => "links",
            Group::Files => "parts",
        }
    }
}

/// Takes features.
pub trait Sink {
    /// A feature of this group; `words` tells a person what it is.
    fn take(&mut self, group: Group, hash: u64, words: impl FnOnce() -> String);
}

/// Header fields that senders write, and that are looked at.
pub const FIELDS: [&str; 20] = [
    "from",
    "to",
    "cc",
    "subject",
    "date",
    "message-id",
    "mime-version",
    "content-type",
    "content-transfer-encoding",
    "content-disposition",
    "reply-to",
    "in-reply-to",
    "references",
    "x-mailer",
    "user-agent",
    "x-priority",
    "x-msmail-priority",
    "importance",
    "thread-index",
    "organization",
];

/// Most bytes of text read from the start of one part, and from its end if it is longer.
const PART_START_BYTES: usize = 3_000;
const PART_END_BYTES: usize = 1_000;
/// Most bytes of text read of all parts.
const TEXT_BYTES_MAX: usize = 8_000;
/// Most bytes of a header field.
const FIELD_BYTES_MAX: usize = 400;
/// Most tags of one page, and most pages.
const TAGS_MAX: usize = 150;
const PAGES_MAX: usize = 2;
/// Most links.
const LINKS_MAX: usize = 40;
/// Most parts.
const PARTS_MAX: usize = 20;
/// Longest word; longer ones count as one kind.
const WORD_BYTES_MAX: usize = 24;
/// A line like this begins a mailing list's footer.
const FOOTER: &str = "_______________________________________________";

/// Gives every feature of the message to the sink, group by group.
pub fn read(message: &Message<'_>, sink: &mut impl Sink) {
    let from = message.from();
    let address = from.as_ref().map(|f| f.address.to_lowercase()).unwrap_or_default();
    let domain = address.rsplit_once('@').map_or("", |(_, d)| d);
    let organisation = crate::lookalike::organisation(domain).unwrap_or(domain);
    sender(message, from.as_ref().map_or("", |f| &f.name), &address, organisation, sink);
    subject(message, sink);
    form(message, organisation, sink);
    text(message, sink);
    pages(message, sink);
    links(message, organisation, sink);
    files(message, sink);
}

/// A hash of a kind of feature and its value.
fn hash(kind: u8, value: &[u8]) -> u64 {
    let mut hash = mix(u64::from(kind) + 0x1000);
    for chunk in value.chunks(8) {
        let mut word = [0u8; 8];
        for (to, &from) in word.iter_mut().zip(chunk) {
            *to = from;
        }
        hash =
            (hash ^ u64::from_le_bytes(word)).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
    }
    mix(hash ^ value.len() as u64)
}

/// Adds `kind: value`.
fn fact(sink: &mut impl Sink, group: Group, kind: &'static str, value: &str) {
    // The kinds are few and short: their bytes are part of the value.
    let whole = hash(group as u8, kind.as_bytes()) ^ hash(100, value.as_bytes()).rotate_left(7);
    sink.take(group, whole, || format!("{kind} {value}"));
}

fn sender(
    message: &Message<'_>,
    name: &str,
    address: &str,
    organisation: &str,
    sink: &mut impl Sink,
) {
    let group = Group::Sender;
    words(name, group, 1, sink);
    fact(sink, group, "domain", organisation);
    fact(sink, group, "top-level domain", organisation.rsplit('.').next().unwrap_or_default());
    let local = address.split('@').next().unwrap_or_default();
    fact(sink, group, "address shape", &shape(local));
    let labels = address.rsplit('@').next().unwrap_or_default().split('.').count();
    fact(sink, group, "labels in the domain", &labels.min(6).to_string());
    if name.contains('@') {
        fact(sink, group, "an address in the name of the sender", "");
    }
    if name.is_empty() {
        fact(sink, group, "no name of the sender", "");
    }
    if let Some(reply) = message.header("reply-to") {
        let value = String::from_utf8_lossy(&reply.unfolded()).to_lowercase();
        let same = !organisation.is_empty() && value.contains(organisation);
        fact(sink, group, if same { "answers to itself" } else { "answers to another domain" }, "");
    }
}

fn subject(message: &Message<'_>, sink: &mut impl Sink) {
    let subject = message.subject();
    let mut rest = start(&subject, FIELD_BYTES_MAX).trim();
    // [tags] are a mailing list's.
    while let Some(tag) = rest.find('[').filter(|&i| i < 12) {
        let Some(end) = rest.get(tag..).and_then(|t| t.find(']')) else { break };
        rest = rest.get(tag + end + 1..).unwrap_or_default().trim_start();
    }
    words(rest, Group::Subject, 2, sink);
    let letters = || rest.chars().filter(|c| c.is_alphabetic());
    if letters().count() > 5 && letters().all(char::is_uppercase) {
        fact(sink, Group::Subject, "all in capitals", "");
    }
    if rest.chars().any(|c| ('\u{2600}'..='\u{27BF}').contains(&c) || c >= '\u{1F000}') {
        fact(sink, Group::Subject, "a pictograph", "");
    }
    if rest.is_empty() {
        fact(sink, Group::Subject, "empty", "");
    }
}

fn form(message: &Message<'_>, organisation: &str, sink: &mut impl Sink) {
    let group = Group::Form;
    let mut last = "start";
    for header in message.headers() {
        let Some(name) = FIELDS.iter().find(|f| header.is(f)) else { continue };
        fact(sink, group, "field", name);
        fact(sink, group, "field order", &format!("{last}, {name}"));
        fact(sink, group, "spelling of a field", &header.name_str());
        last = name;
    }
    let value = |name: &str| message.header(name).map(Header::unfolded);
    if let Some(id) = value("message-id") {
        let id = String::from_utf8_lossy(&id);
        let (local, host) = id.split_once('@').unwrap_or((&id, ""));
        fact(sink, group, "Message-ID shape", &shape(local));
        let same = !organisation.is_empty() && host.to_lowercase().contains(organisation);
        fact(
            sink,
            group,
            if same { "Message-ID of the sender" } else { "Message-ID of another" },
            "",
        );
    }
    if let Some(date) = value("date") {
        let date = String::from_utf8_lossy(&date);
        let zone = date.split_whitespace().skip(4).collect::<Vec<_>>().join(" ");
        fact(sink, group, "time zone", start(&zone, 16));
    }
    for name in ["x-mailer", "user-agent"] {
        if let Some(value) = value(name) {
            let value = String::from_utf8_lossy(&value);
            let program: String =
                value.split([' ', '/', ',']).take(2).collect::<Vec<_>>().join(" ");
            fact(sink, group, "mail program", start(&program, 40));
        }
    }
    if let Some(kind) = value("content-type") {
        let kind = String::from_utf8_lossy(&kind);
        if let Some((_, boundary)) = kind.split_once("boundary=") {
            fact(sink, group, "boundary shape", &shape(start(boundary.trim_matches('"'), 40)));
        }
    }
    let to = value("to").unwrap_or_default();
    let recipients = to.iter().filter(|&&b| b == b'@').count();
    fact(sink, group, "recipients", ["none", "one", "two", "several"][recipients.min(3)]);
}

/// Letters become `a`, capitals `A`, digits `9`, runs one sign; at most 24 signs.
fn shape(text: &str) -> String {
    let mut out = String::new();
    let mut last = '\0';
    for c in text.chars() {
        let sign = match c {
            'a'..='z' => 'a',
            'A'..='Z' => 'A',
            '0'..='9' => '9',
            c if c.is_ascii_graphic() => c,
            _ => '?',
        };
        if sign != last && out.len() < 24 {
            out.push(sign);
        }
        last = sign;
    }
    out
}

fn text(message: &Message<'_>, sink: &mut impl Sink) {
    let mut left = TEXT_BYTES_MAX;
    for part in message.texts() {
        let shown = part.text.split(FOOTER).next().unwrap_or_default();
        let head = start(shown, PART_START_BYTES.min(left));
        words(head, Group::Text, 3, sink);
        left -= head.len();
        let tail = end(shown.get(head.len()..).unwrap_or_default(), PART_END_BYTES.min(left));
        words(tail, Group::Text, 3, sink);
        left -= tail.len();
        if part.part.is_attachment() {
            fact(sink, Group::Text, "text is attached", "");
        }
    }
    let empty = left == TEXT_BYTES_MAX;
    if empty {
        fact(sink, Group::Text, "no text", "");
    }
}

/// How many words a pair reaches back.
const REACH: usize = 3;

/// Words in lower case and pairs of words near each other. Digits become `0`; invisible characters are
/// dropped; words that mix alphabets are read as what they look like; addresses are left out.
fn words(text: &str, group: Group, kind: u8, sink: &mut impl Sink) {
    let salt = mix(u64::from(kind));
    let mut window = [0u64; REACH];
    let mut before: [&str; REACH] = [""; REACH];
    let mut seen = 0;
    let boundary = |c: char| !(c.is_alphanumeric() || is_joiner(c) || is_invisible(c));
    for word in text.split(boundary) {
        if word.is_empty() || word.contains('@') {
            continue;
        }
        let value = word_hash(word, sink, group);
        if value == 0 {
            continue;
        }
        sink.take(group, value ^ salt, || format!("word \"{}\"", start(word, 40)));
        for ((&earlier, name), distance) in window.iter().zip(before).zip(1u64..).take(seen) {
            let pair =
                mix(value.wrapping_mul(31) ^ earlier.rotate_left(distance as u32 * 9)) ^ salt;
            sink.take(group, pair, || {
                let gap = [" ", " \u{2026} "][usize::from(distance > 1)];
                format!("words \"{}{gap}{}\"", start(name, 40), start(word, 40))
            });
        }
        window.rotate_right(1);
        before.rotate_right(1);
        (window[0], before[0]) = (value, word);
        seen = (seen + 1).min(REACH);
    }
}

/// Characters inside a word beside letters and digits; `@` so that an address is one word.
fn is_joiner(c: char) -> bool {
    matches!(c, '\'' | '\u{2019}' | '-' | '@' | '$' | '€' | '£' | '%')
}

/// Characters that show nothing and are put into words to hide them.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{AD}' | '\u{200B}'..='\u{200F}' | '\u{2060}'..='\u{2064}' | '\u{FEFF}' | '\u{34F}')
}

/// The hash of a word as a person reads it; 0 if nothing is left.
fn word_hash(word: &str, sink: &mut impl Sink, group: Group) -> u64 {
    if word.is_ascii() {
        return ascii_hash(word.as_bytes());
    }
    if word.contains(is_invisible) {
        let visible: String = word.chars().filter(|&c| !is_invisible(c)).collect();
        fact(sink, group, "invisible characters in a word", "");
        return word_hash(&visible, sink, group);
    }
    let latin = word.chars().any(|c| c.is_ascii_alphabetic());
    let foreign = word.chars().any(|c| matches!(c, '\u{370}'..='\u{52F}'));
    if latin && foreign {
        fact(sink, group, "a word of mixed alphabets", "");
        return ascii_hash(crate::lookalike::skeleton(word).as_bytes());
    }
    hash(101, start(&word.to_lowercase(), 2 * WORD_BYTES_MAX).as_bytes())
}

fn ascii_hash(word: &[u8]) -> u64 {
    if word.is_empty() {
        return 0;
    }
    if word.len() > WORD_BYTES_MAX {
        return 0x0010_0000 + (word.len().min(63) / 8) as u64;
    }
    let mut hash = 0u64;
    for &byte in word {
        let byte = if byte.is_ascii_digit() { b'0' } else { byte.to_ascii_lowercase() };
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3).rotate_left(5);
    }
    mix(hash)
}

fn pages(message: &Message<'_>, sink: &mut impl Sink) {
    let group = Group::Page;
    let pages = message.parts().iter().filter(|p| p.content_type.is("text", "html"));
    for part in pages.take(PAGES_MAX) {
        let (Some(source), Some(page)) = (part.text(), part.rendered()) else { continue };
        let mut last = [0u64; 2];
        let tags = Tokenizer::new(source.as_bytes()).filter_map(|(token, _)| match token {
            Token::Start(tag) => Some(tag.name),
            _ => None,
        });
        for name in tags.take(TAGS_MAX) {
            let value = ascii_hash(name.get(..12).unwrap_or(name));
            let three = mix(value ^ last[0].rotate_left(11) ^ last[1].rotate_left(22));
            let words = || format!("tag {} in its place", String::from_utf8_lossy(name));
            sink.take(group, mix(three ^ 0x7A6), words);
            last = [value, last[0]];
        }
        let s = page.structure;
        let counts = [
            ("tags", s.tags),
            ("images", s.images),
            ("forms", s.forms),
            ("inputs", s.inputs),
            ("scripts", s.scripts),
            ("frames", s.frames),
            ("tables", s.tables),
            ("comments", s.comments),
            ("links", page.links.len() as u32),
            ("pieces of invisible text", page.hidden.len() as u32),
            ("bytes of text", page.text.len() as u32),
            ("bytes of source", source.len() as u32),
        ];
        for (kind, count) in counts {
            // Powers of two: how many bits the number has.
            fact(sink, group, kind, &format!("about {}", count.next_power_of_two().min(1 << 20)));
        }
        if !page.title.is_empty() {
            words(start(&page.title, FIELD_BYTES_MAX), group, 4, sink);
        }
    }
}

fn links(message: &Message<'_>, organisation: &str, sink: &mut impl Sink) {
    let group = Group::Links;
    let urls = message.urls();
    fact(sink, group, "links", &format!("about {}", urls.len().next_power_of_two().min(256)));
    for url in urls.iter().take(LINKS_MAX) {
        let canonical = &url.canonical;
        if canonical.scheme() == "mailto" {
            continue;
        }
        let domain = canonical.registrable_domain();
        fact(sink, group, "link to", domain);
        fact(
            sink,
            group,
            "link to top-level domain",
            domain.rsplit('.').next().unwrap_or_default(),
        );
        fact(sink, group, "link scheme", canonical.scheme());
        let own = !organisation.is_empty() && domain == organisation;
        let whose = if own { "to the sender" } else { "elsewhere" };
        fact(sink, group, whose, &format!("by {:?}", url.source));
        let path = canonical.path_and_query();
        fact(sink, group, "link shape", &shape(start(path, 200)));
        let last =
            path.split('?').next().unwrap_or_default().rsplit('/').next().unwrap_or_default();
        if let Some((_, extension)) = last.rsplit_once('.') {
            fact(sink, group, "link to a file", start(extension, 8));
        }
        let traits = canonical.traits();
        let odd = [
            (UrlTraits::USER_INFO, "a user name"),
            (UrlTraits::IP, "an address as host"),
            (UrlTraits::IDN, "a host in another alphabet"),
            (UrlTraits::ESCAPED_HOST, "an escaped host"),
            (UrlTraits::PORT, "a port"),
            (UrlTraits::MALFORMED, "malformed"),
        ];
        for (bit, what) in odd {
            if traits.has(bit) {
                fact(sink, group, "link with", what);
            }
        }
    }
}

fn files(message: &Message<'_>, sink: &mut impl Sink) {
    let group = Group::Files;
    for part in message.parts().iter().take(PARTS_MAX) {
        let kind = &part.content_type;
        fact(sink, group, "part", &format!("{} at depth {}", kind.essence(), part.depth.min(4)));
        if let Some(charset) = kind.param("charset") {
            fact(sink, group, "charset", start(&charset.to_lowercase(), 20));
        }
        fact(sink, group, "encoding", &format!("{:?} of {}", part.transfer_encoding, kind.kind));
        if let Some(name) = part.file_name() {
            let extension = name.rsplit_once('.').map_or("none", |(_, e)| e).to_lowercase();
            fact(sink, group, "attachment", start(&extension, 12));
        }
    }
}

/// The first `bytes` of a text, cut at a character.
fn start(text: &str, bytes: usize) -> &str {
    if text.len() <= bytes {
        return text;
    }
    text.get(..text.floor_char_boundary(bytes)).unwrap_or_default()
}

/// The last `bytes` of a text, cut at a character.
fn end(text: &str, bytes: usize) -> &str {
    if text.len() <= bytes {
        return text;
    }
    text.get(text.ceil_char_boundary(text.len() - bytes)..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classifier::model::{FEATURES_MAX, GROUP_BOUND};
    use crate::classifier::{ClassifierScratch, Model};

    const SPAM: &str = "From: \"Pills 4U\" <x83@cheap.example.net>\nSubject: CHEAP viagra online\n\n\
        Buy cheap viagra and cialis online, no prescription needed.\n";

    fn raw_logit(raw: &str) -> f32 {
        let mut scratch = ClassifierScratch::default();
        scratch.read(&Message::parse(raw.as_bytes()));
        let (features, ends) = scratch.features();
        assert!(features.len() <= FEATURES_MAX);
        Model::shipped().raw_logit_of(features, *ends)
    }

    fn features(body: &str) -> Vec<u32> {
        let raw = format!("From: a@example.org\nSubject: x\n\n{body}\n");
        let mut scratch = ClassifierScratch::default();
        scratch.read(&Message::parse(raw.as_bytes()));
        scratch.features().0.to_vec()
    }

    #[test]
    fn good_words_move_one_group_within_its_bounds() {
        let good = "thanks for the patch, I will look at the kernel log and reply to the list\n";
        let before = raw_logit(SPAM);
        for times in [1, 10, 100, 1_000] {
            let padded = format!("{SPAM}{}", good.repeat(times));
            assert!((before - raw_logit(&padded)).abs() <= 2.0 * GROUP_BOUND, "{times} times");
        }
        // What is beyond the parts that are read changes nothing at all.
        let (long, longer) = (good.repeat(400), good.repeat(800));
        let logits = [long, longer].map(|pad| raw_logit(&format!("{SPAM}{pad}")));
        assert!((logits[0] - logits[1]).abs() < 1.0, "{logits:?}");
    }

    #[test]
    fn a_megabyte_of_noise_is_read_in_part() {
        let mut random = crate::classifier::random::Random::new(1);
        let mut noise = String::new();
        while noise.len() < 1 << 20 {
            noise.push(char::from(b'a' + random.below(26) as u8));
            if random.below(6) == 0 {
                noise.push(' ');
            }
        }
        let moved = raw_logit(&format!("{SPAM}{noise}")) - raw_logit(SPAM);
        assert!(moved.abs() <= 2.0 * GROUP_BOUND, "{moved}");
    }

    #[test]
    fn disguised_words_are_read_as_they_look() {
        let plain = features("viagra");
        for disguised in ["vi\u{200B}agra", "v\u{AD}iagra", "vi\u{430}gra"] {
            let found = features(disguised);
            assert!(plain.iter().all(|f| found.contains(f)), "{disguised:?}");
            assert!(found.len() > plain.len(), "and the disguise is a feature itself");
        }
    }

    #[test]
    fn hidden_text_of_a_page_is_not_read_as_text() {
        let page = |hidden: &str| {
            format!(
                "From: a@example.org\nContent-Type: text/html\n\n<p>Buy pills</p>\
                 <div style=\"display:none\">{hidden}</div>\n"
            )
        };
        let good = "thanks for the patch reply to the list";
        let moved = raw_logit(&page(good)) - raw_logit(&page("thanks"));
        assert!(moved.abs() < 1.0, "{moved}");
    }

    #[test]
    fn addresses_and_list_footers_are_left_out() {
        let footer = format!("{FOOTER}\nusers mailing list\nusers@lists.example.org\n");
        assert_eq!(features("hello there"), features(&format!("hello there\n{footer}")));
        // Who it is to does not matter; only that there is an address, and its last labels, do.
        assert_eq!(features("hello ann@example.net"), features("hello bob@example.net"));
    }
}
