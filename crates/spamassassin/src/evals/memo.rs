//! The memo of a message: values that several eval functions need, and their types.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::net::IpAddr;

/// Buckets of the header values of a message, by a hash of their selectors.
pub(super) const HEADER_LISTS: usize = 64;

/// Header values of one selector, each computed when first needed.
#[derive(Debug)]
pub(super) struct HeaderMemo<'a> {
    /// The selector as the function writes it.
    pub(super) selector: Box<str>,
    pub(super) text: OnceCell<Cow<'a, [u8]>>,
    pub(super) values: OnceCell<Vec<Vec<u8>>>,
    pub(super) next: HeaderMemos<'a>,
}

/// A list that only grows, so that references into it stay valid.
pub(super) type HeaderMemos<'a> = OnceCell<Box<HeaderMemo<'a>>>;

/// Header values by the hash of their selectors. A ruleset names a few dozen, of which a message
/// has some.
#[derive(Debug)]
pub(super) struct Headers<'a>(pub(super) [HeaderMemos<'a>; HEADER_LISTS]);

impl Default for Headers<'_> {
    fn default() -> Self {
        Headers(std::array::from_fn(|_| OnceCell::new()))
    }
}

/// Values that several functions need, computed when first needed.
#[derive(Debug, Default)]
pub(super) struct Memo<'a> {
    pub(super) headers: Headers<'a>,
    pub(super) all_from: OnceCell<Vec<Vec<u8>>>,
    pub(super) all_to: OnceCell<Vec<Vec<u8>>>,
    pub(super) base64_length: OnceCell<usize>,
    pub(super) blank_lines: OnceCell<(usize, usize)>,
    pub(super) body_freemails: OnceCell<Option<Vec<Vec<u8>>>>,
    pub(super) date_ahead: OnceCell<i64>,
    pub(super) default_list_status: OnceCell<ListStatus>,
    pub(super) difference: OnceCell<Difference>,
    pub(super) hotmail: OnceCell<Hotmail>,
    pub(super) images: OnceCell<Images>,
    pub(super) links: OnceCell<Vec<LinkHost>>,
    pub(super) mime: OnceCell<MimeFacts>,
    pub(super) own_list_status: OnceCell<ListStatus>,
    pub(super) received_removed: OnceCell<bool>,
    pub(super) recipients: OnceCell<Recipients>,
    pub(super) space_percent: OnceCell<f64>,
    pub(super) uppercase: OnceCell<f64>,
}

/// How different the alternatives are.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Difference {
    /// Percent of the HTML's words that the text lacks, in the worst multipart.
    pub(super) percent: f64,
    /// Different words of the last multipart that had any HTML word.
    pub(super) html_words: usize,
    pub(super) text_words: usize,
}

/// Whether a claim to be Hotmail is forged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hotmail {
    /// Nothing is forged, or that cannot be decided.
    Fine,
    /// A relay claims to be hotmail.com and is not.
    Forged,
    /// The sender claims hotmail.com, but no relay is a Hotmail server.
    Absent,
}

/// Comparison of adjacent recipients.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Recipients {
    pub(super) is_sorted: bool,
    /// Share of pairs with the same beginning, 0 to 2.
    pub(super) similarity: f64,
}

/// Status of the sender on the lists of address and relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ListStatus {
    /// The address is on no list of this kind.
    Unlisted,
    /// Listed, and the relay matches.
    Welcome,
    /// Listed, but sent through another relay.
    Forged,
}

/// Sums over all parts.
#[derive(Debug, Default)]
pub(super) struct MimeFacts {
    pub(super) base64_count: usize,
    /// There is text in base64 that need not be encoded.
    pub(super) base64_text: bool,
    pub(super) html_count: usize,
    pub(super) text_count: usize,
    pub(super) attachments: usize,
    pub(super) bad_iso_charset: bool,
    pub(super) faraway_charset: bool,
    pub(super) has_alternative: bool,
    /// Bytes of the last plain text per byte of the last HTML.
    pub(super) multipart_ratio: f64,
    /// Bytes in quoted-printable that need not be encoded; parts, if there are none such bytes.
    pub(super) qp_count: usize,
    pub(super) qp_bytes: usize,
    pub(super) qp_long_line: bool,
    /// Lines of ASCII text with other bytes.
    pub(super) ascii_illegal: usize,
    /// Unicode entities per byte of plain text.
    pub(super) unicode_ratio: f64,
    pub(super) missing_boundary: bool,
    /// Charsets of all parts, in lower case.
    pub(super) charsets: Vec<Vec<u8>>,
}

/// Images of one kind.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally {
    pub(super) count: u64,
    /// Sum of width times height, in pixels.
    pub(super) area: u64,
    /// Height and width of each size that occurs.
    pub(super) sizes: BTreeSet<(u32, u32)>,
}

/// All images that are attached in base64.
#[derive(Debug, Default)]
pub(super) struct Images {
    pub(super) gif: Tally,
    pub(super) png: Tally,
    pub(super) jpeg: Tally,
    pub(super) names: BTreeSet<Vec<u8>>,
}

impl Images {
    pub(super) fn of(&self, kind: &str) -> Option<Tally> {
        match kind {
            "gif" => Some(self.gif.clone()),
            "png" => Some(self.png.clone()),
            "jpeg" => Some(self.jpeg.clone()),
            "all" => {
                let mut all = Tally::default();
                for tally in [&self.gif, &self.png, &self.jpeg] {
                    all.count += tally.count;
                    all.area += tally.area;
                    all.sizes.extend(&tally.sizes);
                }
                Some(all)
            }
            _ => None,
        }
    }
}

/// A host of links, with its registered domain.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct LinkHost {
    pub(super) host: String,
    pub(super) domain: String,
    pub(super) address: Option<IpAddr>,
}
