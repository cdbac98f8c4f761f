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
use super::scratch::{ClassifierScratch, ascii_hash};

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
/// Shortest word of a sender's name that is looked for in the domain, in bytes.
const NAME_WORD_BYTES_MIN: usize = 4;
/// Longest footer of a mailing list, in bytes: what is longer is text, whatever line stands before it.
const FOOTER_BYTES_MAX: usize = 600;
/// A line like this begins a mailing list's footer.
const FOOTER: &str = "_______________________________________________";

/// Gives every feature of the message to the scratch, group by group.
pub(super) fn read(message: &Message<'_>, sink: &mut ClassifierScratch) {
    let from = message.from();
    let address = from.as_ref().map(|f| f.address.to_lowercase()).unwrap_or_default();
    let domain = address.rsplit_once('@').map_or("", |(_, d)| d);
    let organisation = crate::lookalike::organisation(domain).unwrap_or(domain);
    sender(message, from.as_ref().map_or("", |f| &f.name), &address, organisation, sink);
    sink.end(Group::Sender);
    subject(message, sink);
    sink.end(Group::Subject);
    form(message, organisation, sink);
    sink.end(Group::Form);
    text(message, sink);
    sink.end(Group::Text);
    pages(message, sink);
    sink.end(Group::Page);
    links(message, organisation, sink);
    sink.end(Group::Links);
    files(message, sink);
    sink.end(Group::Files);
}

fn sender(
    message: &Message<'_>,
    name: &str,
    address: &str,
    organisation: &str,
    sink: &mut ClassifierScratch,
) {
    let group = Group::Sender;
    sink.words(start(name, FIELD_BYTES_MAX), group);
    sink.fact(group, "domain", organisation);
    sink.fact(group, "top-level domain", organisation.rsplit('.').next().unwrap_or_default());
    let (local, host) = address.rsplit_once('@').unwrap_or((address, ""));
    shape(sink, group, "address shape", local);
    let registered = organisation.split('.').next().unwrap_or_default();
    shape(sink, group, "shape of the domain", registered);
    sink.fact_of(group, "letters of the domain", format_args!("{}", registered.len().min(24) / 3));
    let labels = host.split('.').count();
    sink.fact_of(group, "labels in the domain", format_args!("{}", labels.min(6)));
    if name.contains('@') {
        sink.fact(group, "an address in the name of the sender", "");
    }
    if name.is_empty() {
        sink.fact(group, "no name of the sender", "");
    } else {
        let named = is_named(name, registered, local);
        sink.fact(
            group,
            ["a name unlike the address", "a name like the address"][usize::from(named)],
            "",
        );
    }
    if let Some(reply) = message.header("reply-to") {
        let value = String::from_utf8_lossy(&reply.unfolded()).to_lowercase();
        let same = !organisation.is_empty() && value.contains(organisation);
        sink.fact(group, if same { "answers to itself" } else { "answers to another domain" }, "");
    }
}

/// Whether a word of the sender's name is in the domain or the address.
fn is_named(name: &str, registered: &str, local: &str) -> bool {
    let name = start(name, FIELD_BYTES_MAX).to_lowercase();
    let words = name.split(|c: char| !c.is_alphanumeric());
    words
        .filter(|w| w.len() >= NAME_WORD_BYTES_MIN)
        .any(|w| registered.contains(w) || local.contains(w))
        || (!registered.is_empty() && name.replace([' ', '.', '-', '\''], "").contains(registered))
}

fn subject(message: &Message<'_>, sink: &mut ClassifierScratch) {
    let subject = message.subject();
    let mut rest = start(&subject, FIELD_BYTES_MAX).trim();
    // [tags] are a mailing list's.
    while let Some(tag) = rest.find('[').filter(|&i| i < 12) {
        let Some(end) = rest.get(tag..).and_then(|t| t.find(']')) else { break };
        rest = rest.get(tag + end + 1..).unwrap_or_default().trim_start();
    }
    let group = Group::Subject;
    sink.words(rest, group);
    let letters = || rest.chars().filter(|c| c.is_alphabetic());
    if letters().count() > 5 && letters().all(char::is_uppercase) {
        sink.fact(group, "all in capitals", "");
    }
    if rest.chars().any(|c| ('\u{2600}'..='\u{27BF}').contains(&c) || c >= '\u{1F000}') {
        sink.fact(group, "a pictograph", "");
    }
    if rest.is_empty() {
        sink.fact(group, "empty", "");
    }
}

fn form(message: &Message<'_>, organisation: &str, sink: &mut ClassifierScratch) {
    let group = Group::Form;
    let mut last = "start";
    for header in message.headers() {
        let Some(name) = field(header) else { continue };
        sink.fact(group, "field", name);
        sink.fact_of(group, "field order", format_args!("{last}, {name}"));
        sink.fact(group, "spelling of a field", &header.name_str());
        last = name;
    }
    let value = |name: &str| message.header(name).map(Header::unfolded);
    if let Some(id) = value("message-id") {
        let id = String::from_utf8_lossy(&id);
        let (local, host) = id.split_once('@').unwrap_or((&id, ""));
        shape(sink, group, "Message-ID shape", local);
        let same = !organisation.is_empty() && host.to_lowercase().contains(organisation);
        let whose = if same { "Message-ID of the sender" } else { "Message-ID of another" };
        sink.fact(group, whose, "");
    }
    if let Some(date) = value("date") {
        let date = String::from_utf8_lossy(&date);
        let at = sink.arena().len();
        for (i, piece) in date.split_whitespace().skip(4).enumerate() {
            let gap = if i > 0 { " " } else { "" };
            sink.arena().push_str(gap);
            sink.arena().push_str(start(piece, 16));
        }
        sink.fact_since(group, "time zone", at);
    }
    for name in ["x-mailer", "user-agent"] {
        if let Some(value) = value(name) {
            let value = String::from_utf8_lossy(&value);
            let mut words = value.split([' ', '/', ',']);
            let mut next = || start(words.next().unwrap_or_default(), 20);
            sink.fact_of(group, "mail program", format_args!("{} {}", next(), next()));
        }
    }
    if let Some(kind) = value("content-type") {
        let kind = String::from_utf8_lossy(&kind);
        if let Some((_, boundary)) = kind.split_once("boundary=") {
            shape(sink, group, "boundary shape", start(boundary.trim_matches('"'), 40));
        }
    }
    let to = value("to").unwrap_or_default();
    let recipients = to.iter().filter(|&&b| b == b'@').count();
    sink.fact(group, "recipients", ["none", "one", "two", "several"][recipients.min(3)]);
}

/// The name in [`FIELDS`] of a header field that is looked at. Most fields are not, and most of those
/// have another length.
fn field(header: &Header<'_>) -> Option<&'static str> {
    FIELDS.into_iter().find(|f| f.len() == header.name.len() && header.is(f))
}

/// Most signs of a shape.
const SHAPE_BYTES_MAX: usize = 24;

/// Adds the shape of a value: letters become `a`, capitals `A`, digits `9`, runs one sign.
fn shape(sink: &mut ClassifierScratch, group: Group, kind: &'static str, value: &str) {
    let out = sink.arena();
    let at = out.len();
    let mut last = 0;
    for byte in value.bytes() {
        let sign = match byte {
            b'a'..=b'z' => b'a',
            b'A'..=b'Z' => b'A',
            b'0'..=b'9' => b'9',
            b if b.is_ascii_graphic() => b,
            _ => b'?',
        };
        if sign != last {
            out.push(char::from(sign));
            if out.len() - at == SHAPE_BYTES_MAX {
                break;
            }
        }
        last = sign;
    }
    sink.fact_since(group, kind, at);
}

fn text(message: &Message<'_>, sink: &mut ClassifierScratch) {
    let group = Group::Text;
    let mut left = TEXT_BYTES_MAX;
    for part in message.texts() {
        if left == 0 {
            break;
        }
        let limit = (PART_START_BYTES + PART_END_BYTES).min(left);
        let shown = without_footer(part.text);
        let head = start(shown, PART_START_BYTES.min(limit));
        sink.words(head, group);
        left -= head.len();
        let tail = end(shown.get(head.len()..).unwrap_or_default(), PART_END_BYTES.min(left));
        sink.words(tail, group);
        left -= tail.len();
        if part.part.is_attachment() {
            sink.fact(group, "text is attached", "");
        }
    }
    if left == TEXT_BYTES_MAX {
        sink.fact(group, "no text", "");
    }
}

/// A text without the mailing list's footer at its end.
fn without_footer(text: &str) -> &str {
    let footer = memchr::memmem::rfind(text.as_bytes(), FOOTER.as_bytes());
    let footer = footer.filter(|at| text.len() - at <= FOOTER_BYTES_MAX);
    text.get(..footer.unwrap_or(text.len())).unwrap_or_default()
}

fn pages(message: &Message<'_>, sink: &mut ClassifierScratch) {
    let group = Group::Page;
    let pages = message.parts().iter().filter(|p| p.content_type.is("text", "html"));
    for part in pages.take(PAGES_MAX) {
        let (Some(source), Some(page)) = (part.text(), part.rendered()) else { continue };
        let mut last = [0u64; 2];
        let tags = Tokenizer::new(source.as_bytes()).filter_map(|(token, _)| match token {
            Token::Start(tag) => Some(tag),
            _ => None,
        });
        for tag in tags.take(TAGS_MAX) {
            let name = tag.name.get(..12).unwrap_or(tag.name);
            let value = ascii_hash(name);
            sink.tag(value);
            let three = mix(value ^ last[0].rotate_left(11) ^ last[1].rotate_left(22));
            sink.hashed(group, "tag in its place", three, name);
            for attribute in tag.attributes().take(ATTRIBUTES_MAX) {
                let which = attribute.name.get(..16).unwrap_or(attribute.name);
                let pair = mix(value.rotate_left(7) ^ ascii_hash(which));
                sink.hashed(group, "tag with attribute", pair, which);
            }
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
            about(sink, group, kind, count, 1 << 20);
        }
        if !page.title.is_empty() {
            sink.words(start(&page.title, FIELD_BYTES_MAX), group);
        }
    }
}

/// Attributes of a tag that are read.
const ATTRIBUTES_MAX: usize = 8;

/// Adds a count by its order of magnitude: powers of two.
fn about(sink: &mut ClassifierScratch, group: Group, kind: &'static str, count: u32, most: u32) {
    let power = count.min(most).next_power_of_two().trailing_zeros() as usize;
    sink.fact(group, kind, MAGNITUDES.get(power).copied().unwrap_or("more"));
}

/// Orders of magnitude in words: formatting a dozen numbers a page would cost more than reading it.
#[rustfmt::skip]
const MAGNITUDES: [&str; 21] = [
    "about 1", "about 2", "about 4", "about 8", "about 16", "about 32", "about 64", "about 128",
    "about 256", "about 512", "about 1024", "about 2048", "about 4096", "about 8192", "about 16384",
    "about 32768", "about 65536", "about 131072", "about 262144", "about 524288", "about 1048576",
];

fn links(message: &Message<'_>, organisation: &str, sink: &mut ClassifierScratch) {
    let group = Group::Links;
    let urls = message.urls();
    about(sink, group, "links", urls.len() as u32, 256);
    let mut domains: Vec<&str> = Vec::new();
    for url in urls.iter().take(LINKS_MAX) {
        let canonical = &url.canonical;
        if canonical.scheme() == "mailto" {
            continue;
        }
        let domain = canonical.registrable_domain();
        if !domains.contains(&domain) {
            domains.push(domain);
            link_domain(domain, sink);
        }
        sink.fact(group, "link scheme", canonical.scheme());
        let own = !organisation.is_empty() && domain == organisation;
        let whose = if own { "to the sender" } else { "elsewhere" };
        sink.fact_of(group, whose, format_args!("by {:?}", url.source));
        let labels = canonical.host().split('.').count().min(6);
        sink.fact_of(group, "labels of a link's host", format_args!("{labels}"));
        let path = canonical.path_and_query();
        shape(sink, group, "link shape", start(path, 200));
        let last =
            path.split('?').next().unwrap_or_default().rsplit('/').next().unwrap_or_default();
        if let Some((_, extension)) = last.rsplit_once('.') {
            sink.fact(group, "link to a file", start(extension, 8));
        }
        odd_link(canonical.traits(), sink);
    }
    about(sink, group, "different hosts linked", domains.len() as u32, 64);
    if !domains.is_empty() && !organisation.is_empty() && !domains.contains(&organisation) {
        sink.fact(group, "no link to the sender", "");
    }
}

/// A domain that is linked, once a message.
fn link_domain(domain: &str, sink: &mut ClassifierScratch) {
    let group = Group::Links;
    sink.fact(group, "link to", domain);
    let (registered, _) = domain.split_once('.').unwrap_or((domain, ""));
    sink.fact(group, "link to top-level domain", domain.rsplit('.').next().unwrap_or_default());
    shape(sink, group, "shape of a linked domain", registered);
}

fn odd_link(traits: UrlTraits, sink: &mut ClassifierScratch) {
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
            sink.fact(Group::Links, "link with", what);
        }
    }
}

fn files(message: &Message<'_>, sink: &mut ClassifierScratch) {
    let group = Group::Files;
    for part in message.parts().iter().take(PARTS_MAX) {
        let kind = &part.content_type;
        let essence = kind.essence();
        sink.fact_of(group, "part", format_args!("{essence} at depth {}", part.depth.min(4)));
        if let Some(charset) = kind.param("charset") {
            sink.fact(group, "charset", start(&charset.to_lowercase(), 20));
        }
        let encoding = part.transfer_encoding;
        sink.fact_of(group, "encoding", format_args!("{encoding:?} of {}", kind.kind));
        if let Some(name) = part.file_name() {
            let extension = name.rsplit_once('.').map_or("none", |(_, e)| e).to_lowercase();
            sink.fact(group, "attachment", start(&extension, 12));
        }
    }
}

/// The first `bytes` of a text, cut at a character.
pub(super) fn start(text: &str, bytes: usize) -> &str {
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

    /// Some 70 words of spam, and twice as many of good mail.
    const PITCH: &str = "Dear customer, our online pharmacy offers the cheapest viagra, cialis and levitra \
        on the internet. No prescription needed, discreet packaging, worldwide shipping and a full money \
        back guarantee. Save up to 80% on all pills if you order today, our doctors approve every order. \
        Click here now to visit our licensed store and get four free bonus pills with each purchase. \
        This special offer is limited, so do not wait, buy your meds now and enjoy a better sex life.\n";
    const CHAT: &str = "Hi all, thanks for the review. I looked at the patch again last night and I think the \
        lock should be taken before the list is walked, otherwise two threads could free the same entry. \
        With the fix below the test passes here on both machines, and the kernel log shows no warnings.\n\
        > Did you try to build it without the debug option?\n\
        Yes, but the compiler then complains about an unused variable in the driver, so I moved it into \
        the function that needs it. I also split the change into three commits as you asked, the first \
        only renames the helper, the second adds the missing check, and the last one updates the \
        documentation.\n> What happens when the device is removed while it is suspended?\n\
        Good question, I have not seen that yet. Could somebody with the older board run the script \
        and send me the output? I will be away until Tuesday and will post a new version after that, \
        together with the results of the benchmark that we talked about on the call.\n\nRegards, Ann\n";

    #[test]
    fn a_good_message_beside_the_words_of_a_spam_does_not_drown_them() {
        let mail = |body: &str| {
            let header = "From: a@example.org\nSubject: hello\n\n";
            raw_logit(&format!("{header}{body}"))
        };
        let (alone, good) = (mail(PITCH), mail(CHAT));
        assert!(alone > good + 3.0, "{alone} and {good}");
        for padded in [
            format!("{PITCH}\n{CHAT}"),
            format!("{CHAT}\n{PITCH}"),
            format!("{CHAT}\n{PITCH}\n{CHAT}"),
        ] {
            // A unit for the blocks, and what the block at the edge is mixed.
            assert!(mail(&padded) > alone - 2.0, "{alone} fell to {}", mail(&padded));
        }
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
        let body = "buy cheap pills here now ".repeat(40);
        assert_eq!(features(&format!("{FOOTER}\n{body}")), features(&body), "too long for one");
        // Who it is to does not matter; only that there is an address, and its last labels, do.
        assert_eq!(features("hello ann@example.net"), features("hello bob@example.net"));
    }
}
