//! Fingerprints of a message.
//!
//! Text and HTML structure are sets of *shingles* (three words, or four tags, in a row), of which a
//! sketch is kept by which the share that two sets have in common can be estimated (MinHash;
//! Broder, "On the resemblance and containment of documents", 1997), with one permutation cut into
//! [`SKETCH_LENGTH`] pieces (Li, Owen and Zhang, 2012; empty pieces borrow from the next,
//! Shrivastava and Li, 2014). Numbers, addresses and URLs are no words here, so that a name in a
//! link or an order number changes nothing; an inserted word changes three shingles of all.
//!
//! Attached files and images are fingerprinted by their bytes and size: exact, so an image that is
//! encoded anew for each copy is not found by this.

use gauntlet_mail::Message;

use crate::classifier::ClassifierScratch;
use crate::random::mix;

/// Values of a sketch.
pub const SKETCH_LENGTH: usize = 24;
/// Keys under which a fuzzy fingerprint is found: pairs of values of its sketch. A resemblance of
/// 0.7 shares a pair with a probability of 98 %, one of 0.5 with 82 %, one of 0.1 with 6 %.
pub const KEYS: usize = 6;
/// Fewest different shingles of text that say something: below, all short notes are alike.
const TEXT_SHINGLES_MIN: usize = 12;
/// Fewest different shingles of tags.
const PAGE_SHINGLES_MIN: usize = 16;
/// Smallest file in bytes: tracking pixels and empty parts are common to all mail.
const FILE_BYTES_MIN: usize = 200;
/// Files of a message that are fingerprinted.
const FILES_MAX: usize = 8;
/// Bytes of a file that are hashed; its size is part of the fingerprint too.
const FILE_BYTES_MAX: usize = 1 << 20;

/// What a fingerprint is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The words of all text.
    Text,
    /// The tags of the HTML.
    Page,
    /// The bytes of an attached image.
    Image,
    /// The bytes of any other attached file.
    File,
}

impl Kind {
    /// Every kind, by its [`Kind::code`].
    pub const ALL: [Kind; 4] = [Kind::Text, Kind::Page, Kind::Image, Kind::File];

    /// The number that files have for it; never changed, as tables and journals hold it.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// The kind of a number in a file.
    pub fn of_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }

    /// The name in a sentence.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Text => "text",
            Kind::Page => "page structure",
            Kind::Image => "image",
            Kind::File => "file",
        }
    }

    /// Compared by resemblance; others are equal or not.
    pub fn is_fuzzy(self) -> bool {
        matches!(self, Kind::Text | Kind::Page)
    }

    /// Resemblance (0 to 1) from which two of this kind are nearly the same. Many good and bad
    /// mails are made with the same tool, so structure has to agree nearly fully.
    pub fn resemblance_min(self) -> f32 {
        match self {
            Kind::Text => 0.5,
            Kind::Page => 0.85,
            Kind::Image | Kind::File => 1.0,
        }
    }
}

/// A fingerprint. Made by [`of_message`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint {
    /// What it is of.
    pub kind: Kind,
    /// Shingles (text, page) or bytes (image, file).
    pub size: u32,
    /// The sketch, or a hash.
    pub sketch: [u16; SKETCH_LENGTH],
}

impl Fingerprint {
    /// Estimated share of shingles in common, 0 to 1 (a standard error of 0.1 at one half); 1 or 0
    /// for exact kinds.
    pub fn resemblance(&self, other: &Fingerprint) -> f32 {
        if self.kind != other.kind {
            return 0.0;
        }
        let equal = self.sketch.iter().zip(&other.sketch).filter(|(a, b)| a == b).count();
        match self.kind.is_fuzzy() {
            true => equal as f32 / SKETCH_LENGTH as f32,
            false => f32::from(u8::from(equal == SKETCH_LENGTH && self.size == other.size)),
        }
    }

    /// The keys under which it is looked up: [`KEYS`] for fuzzy kinds, one for exact ones.
    pub fn keys(&self) -> impl Iterator<Item = u32> + '_ {
        let count = if self.kind.is_fuzzy() { KEYS } else { 1 };
        let salt = u64::from(self.kind.code()) << 40;
        self.sketch.chunks_exact(2).zip(0u64..).take(count).map(move |(pair, band)| {
            let pair = pair.iter().fold(0u64, |key, &v| key << 16 | u64::from(v));
            (mix(pair ^ band << 32 ^ salt) >> 32) as u32
        })
    }
}

/// A fingerprint and the part of the message that it is of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// What near duplicates of the part share.
    pub fingerprint: Fingerprint,
    /// Index of the part; the first that has text or a page for those.
    pub part: u16,
}

/// Every fingerprint of a message that the scratch has read.
pub fn of_message(message: &Message<'_>, scratch: &ClassifierScratch) -> Vec<Found> {
    let mut found = Vec::new();
    let part_of = |is: &dyn Fn(usize) -> bool| {
        (0..message.parts().len()).find(|&i| is(i)).map_or(0, |i| i as u16)
    };
    let parts = message.parts();
    let has_text = |i: usize| parts.get(i).is_some_and(|p| p.content_type.kind == "text");
    let has_page = |i: usize| parts.get(i).is_some_and(|p| p.content_type.is("text", "html"));
    let sequences = [
        (Kind::Text, scratch.sequence(), 3, TEXT_SHINGLES_MIN, part_of(&has_text)),
        (Kind::Page, scratch.tags(), 4, PAGE_SHINGLES_MIN, part_of(&has_page)),
    ];
    for (kind, sequence, length, least, part) in sequences {
        found.extend(
            sketch(kind, sequence, length, least).map(|fingerprint| Found { fingerprint, part }),
        );
    }
    let files = parts
        .iter()
        .zip(0u16..)
        .filter(|(p, _)| !p.is_container && (p.content_type.kind != "text" || p.is_attachment()));
    for (part, number) in files.take(FILES_MAX) {
        let body = part.body();
        if body.len() >= FILE_BYTES_MIN {
            let is_image = part.content_type.kind == "image";
            let kind = if is_image { Kind::Image } else { Kind::File };
            found.push(Found { fingerprint: exact(kind, body), part: number });
        }
    }
    found
}

/// The sketch of a sequence; None if it has too few different shingles.
fn sketch(kind: Kind, sequence: &[u64], length: usize, least: usize) -> Option<Fingerprint> {
    let mut lowest = [u64::MAX; SKETCH_LENGTH];
    let mut size = 0u32;
    for shingle in sequence.windows(length) {
        let hash = shingle.iter().fold(0x51A6, |hash: u64, &word| {
            (hash.rotate_left(23) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15)
        });
        let hash = mix(hash);
        let bin = ((hash >> 32) * SKETCH_LENGTH as u64) >> 32;
        if let Some(low) = lowest.get_mut(bin as usize) {
            *low = (*low).min(hash.rotate_right(32));
        }
        size += 1;
    }
    let filled = lowest.iter().filter(|&&low| low != u64::MAX).count();
    // Repetition makes many shingles of few; the bins that have none show it.
    if (size as usize) < least || filled < SKETCH_LENGTH / 3 {
        return None;
    }
    let mut sketch = [0; SKETCH_LENGTH];
    for (i, value) in sketch.iter_mut().enumerate() {
        let from = (0..SKETCH_LENGTH).find_map(|step| {
            let low = lowest.get((i + step) % SKETCH_LENGTH).copied()?;
            (low != u64::MAX).then_some((low, step as u64))
        });
        let (low, step) = from.unwrap_or_default();
        *value = (mix(low ^ step << 56) >> 48) as u16;
    }
    Some(Fingerprint { kind, size, sketch })
}

/// The fingerprint of bytes.
fn exact(kind: Kind, body: &[u8]) -> Fingerprint {
    let mut bytes = [0; 2 * SKETCH_LENGTH];
    let read = body.get(..FILE_BYTES_MAX).unwrap_or(body);
    let mut hasher = blake3::Hasher::new();
    hasher.update(read).finalize_xof().fill(&mut bytes);
    let mut sketch = [0; SKETCH_LENGTH];
    for (value, pair) in sketch.iter_mut().zip(bytes.chunks_exact(2)) {
        *value = pair.iter().fold(0, |value, &b| value << 8 | u16::from(b));
    }
    Fingerprint { kind, size: u32::try_from(body.len()).unwrap_or(u32::MAX), sketch }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTICE: &str = "Dear customer, our records show that your parcel could not be delivered \
        because the address was incomplete. Please confirm the address and pay the small fee for a \
        second delivery within two days, or the parcel goes back to the sender. You can follow it \
        at any time on our page. We thank you for your trust and wish you a pleasant day. The team \
        of your parcel service, central office, department for undeliverable goods and returns.";

    fn of(raw: &str) -> Vec<Found> {
        let mut scratch = ClassifierScratch::default();
        let message = Message::parse(raw.as_bytes());
        scratch.read(&message);
        of_message(&message, &scratch)
    }

    fn text(body: &str) -> Fingerprint {
        of(&format!("From: a@example.org\nSubject: x\n\n{body}\n"))[0].fingerprint
    }

    #[test]
    fn changed_links_numbers_names_and_noise_leave_the_text_alike() {
        let one = text(NOTICE);
        let linked = |url: &str| text(&NOTICE.replace("our page", url));
        let a = linked("http://one.example/track?id=1 now");
        let b = linked("https://two.example.net/xyz#7 now");
        assert_eq!(a.resemblance(&b), 1.0, "links are no words");
        let greeted = text(&NOTICE.replace("Dear customer", "Hello Mrs Eva Maria Smith 4711"));
        assert!(one.resemblance(&greeted) > 0.75);
        let inserted = text(&NOTICE.replace("the", "the kind"));
        assert!(one.resemblance(&inserted) > 0.2, "{}", one.resemblance(&inserted));
        let page = format!("<b>{}</b>", NOTICE.replace(' ', " <i></i>").replace('.', ".<br>"));
        let html = of(&format!("From: a@b.example\nContent-Type: text/html\n\n{page}\n"));
        assert!(one.resemblance(&html[0].fingerprint) > 0.95, "HTML around the words");
        let other = text(
            &"The minutes of the meeting are attached, with the changes that Ann \
            asked for; please read them before Friday and tell me what is missing or wrong. "
                .repeat(2),
        );
        assert!(one.resemblance(&other) < 0.15);
    }

    #[test]
    fn a_third_of_padding_leaves_the_text_alike() {
        let padded = format!("{NOTICE} {}", &NOTICE[..NOTICE.len() / 3].replace("th", "qu"));
        assert!(text(NOTICE).resemblance(&text(&padded)) >= 0.5);
    }

    #[test]
    fn short_texts_and_repetition_have_no_fingerprint() {
        assert!(of("From: a@example.org\n\nThanks, see you tomorrow at ten.\n").is_empty());
        let again = "buy now ".repeat(300);
        assert!(of(&format!("From: a@example.org\n\n{again}\n")).is_empty());
    }

    #[test]
    fn files_are_alike_if_their_bytes_are() {
        let image = |byte: char| {
            let body = byte.to_string().repeat(400);
            of(&format!("Content-Type: image/png\nContent-Transfer-Encoding: base64\n\n{body}\n"))
        };
        let (a, b) = (image('A'), image('B'));
        assert_eq!(a[0].fingerprint.kind, Kind::Image);
        assert_eq!(a[0].fingerprint.resemblance(&image('A')[0].fingerprint), 1.0);
        assert_eq!(a[0].fingerprint.resemblance(&b[0].fingerprint), 0.0);
    }

    #[test]
    fn pages_are_alike_by_their_tags() {
        let page = |text: &str, tag: &str| {
            let last = ["ul", "ol", "dl", "pre", "div"];
            let row = |i: usize| {
                let last = last[i % last.len()];
                format!("<tr><td><{tag}>{text}{i}</{tag}><img><hr><p><a><{last}>")
            };
            let rows: String = (0..12).map(row).collect();
            of(&format!("Content-Type: text/html\n\n<html><body><table>{rows}</table>\n"))
        };
        let structure = |found: &[Found]| {
            found.iter().find(|f| f.fingerprint.kind == Kind::Page).map(|f| f.fingerprint)
        };
        let (a, b, c) = (page("one", "b"), page("two", "b"), page("one", "form"));
        let (a, b, c) = (structure(&a).unwrap(), structure(&b).unwrap(), structure(&c).unwrap());
        assert_eq!(a.resemblance(&b), 1.0);
        assert!(a.resemblance(&c) < 0.85);
    }
}
