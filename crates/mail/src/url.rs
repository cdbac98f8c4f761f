//! URLs: one canonical form for lookups, and finding them in text.
//!
//! Mail, web proxy and packet path share [`canonical`]; the variants that rules of other programs
//! expect are made from what is found here, in the crate that needs them.

mod canonical;
mod escapes;
mod host;
pub(crate) mod nested;
pub(crate) mod normalized;
mod path;
pub mod text;

use std::borrow::Cow;
use std::ops::Range;

use crate::evidence::View;

pub use self::canonical::canonical;
pub(crate) use self::canonical::cut_at;
pub use self::path::without_parameters;

/// Longest URL that is read, in bytes; the rest is cut off.
pub const URL_BYTES_MAX: usize = 4096;

/// What named a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum UrlSource {
    /// Text, with its scheme.
    Text,
    /// Text, without scheme: `www.example.com`, `example.com/path`.
    Schemeless,
    /// Text: a bare host name, `example.com`. May be an innocent file name or a missing space.
    BareHost,
    /// The visible text of a link.
    LinkText,
    /// `href` of `<a>` or `<area>`.
    Href,
    /// `src`, `data`, `poster` of anything.
    Src,
    /// `action` of a form, `formaction` of a button.
    Action,
    /// Attribute `background` of any tag.
    Background,
    /// Attribute `href` of `<link>`.
    Link,
    /// Attribute `href` of `<base>`.
    Base,
    /// Where `<meta http-equiv=refresh>` leads.
    MetaRefresh,
    /// `url(...)` in a style.
    Css,
    /// Nested in another URL, in a conditional comment, or written in a form that the usual
    /// extraction does not read: see [`crate::Message::hidden_urls`].
    Hidden,
}

impl UrlSource {
    /// Mail clients load it without a click, when they show remote content.
    pub fn is_loaded(self) -> bool {
        use UrlSource as S;
        matches!(self, S::Src | S::Background | S::Link | S::Css | S::MetaRefresh)
    }
}

/// A URL of a message, where it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    /// The canonical form for lookups.
    pub canonical: CanonicalUrl,
    /// As found, character references decoded; at most [`URL_BYTES_MAX`] bytes.
    pub raw: String,
    /// The place in text or markup that names it.
    pub source: UrlSource,
    /// Index of the part in [`crate::Message::parts`].
    pub part: u16,
    /// The text that `offset` counts in: [`View::Text`] (for HTML the rendered text),
    /// [`View::Html`] or [`View::Header`] (the decoded Subject).
    pub view: View,
    /// Byte offset in the view.
    pub offset: u32,
    /// Length in the view, in bytes.
    pub length: u32,
    /// For [`UrlSource::Href`]: where the link's visible text stands in the part's rendered text.
    /// [`crate::Message::link_text`] gives the text.
    pub link_text: Option<Range<u32>>,
}

/// What is remarkable about how a URL was written: one bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UrlTraits(pub u16);

impl UrlTraits {
    /// `user@` or `user:password@` before the host.
    pub const USER_INFO: UrlTraits = UrlTraits(1);
    /// The host is an IP address.
    pub const IP: UrlTraits = UrlTraits(2);
    /// An IPv4 address not written as four decimal numbers.
    pub const IP_DISGUISED: UrlTraits = UrlTraits(4);
    /// A label in punycode, written so or as Unicode.
    pub const IDN: UrlTraits = UrlTraits(8);
    /// `%` escapes in the host.
    pub const ESCAPED_HOST: UrlTraits = UrlTraits(16);
    /// A port other than the scheme's own.
    pub const PORT: UrlTraits = UrlTraits(32);
    /// `hxxp`, `[.]` and the like.
    pub const DEFANGED: UrlTraits = UrlTraits(64);
    /// Back slashes, control characters or a wrong number of slashes.
    pub const MALFORMED: UrlTraits = UrlTraits(128);
    /// No scheme was written.
    pub const NO_SCHEME: UrlTraits = UrlTraits(256);
    /// Longer than [`URL_BYTES_MAX`]; the rest is missing.
    pub const CUT: UrlTraits = UrlTraits(512);

    /// Whether this includes `other`.
    pub fn has(self, other: UrlTraits) -> bool {
        self.0 & other.0 != 0
    }

    fn set(&mut self, other: UrlTraits) {
        self.0 |= other.0;
    }
}

/// One form for every way to write the same URL.
///
/// Scheme and host in lower case; host in ASCII (IDNA, UTS 46), without a final dot, addresses in
/// their usual notation, those of IPv4 within IPv6 (`::ffff:192.0.2.1`) as IPv4; no user
/// information, default port or fragment; dot segments resolved; escapes of unreserved characters
/// decoded, other escapes in upper case; what may not stand in a URL escaped; an empty path is `/`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CanonicalUrl {
    text: String,
    host: (u32, u32),
    /// Where the registrable domain begins.
    registrable: u32,
    /// Where the path begins.
    path: u32,
    port: Option<u16>,
    traits: u16,
    /// How servers read the path where that does not follow from it.
    readings: Option<Box<path::Readings>>,
}

impl CanonicalUrl {
    /// The whole of it.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// As in `https`, in lower case.
    pub fn scheme(&self) -> &str {
        self.text.split_once(':').map_or("", |(scheme, _)| scheme)
    }

    /// The host: `www.example.co.uk`, `192.0.2.1`, `[2001:db8::1]`.
    pub fn host(&self) -> &str {
        self.slice(self.host.0, self.host.1)
    }

    /// `example.co.uk` by the public suffix list; the whole host if it is an address or a suffix.
    pub fn registrable_domain(&self) -> &str {
        self.slice(self.registrable, self.host.1)
    }

    /// Path and query, from the `/`. Empty for `mailto:`.
    pub fn path_and_query(&self) -> &str {
        self.slice(self.path, self.text.len() as u32)
    }

    /// Path and query with what most servers take for one slash as one: runs of slashes and `%2F`.
    /// Dot segments are resolved after that. What a list or a rule says of paths is asked of this.
    pub fn path_for_look_up(&self) -> Cow<'_, str> {
        match self.readings.as_ref().and_then(|readings| readings.joined.as_ref()) {
            Some(path) => Cow::Borrowed(path),
            None => path::for_look_up(self.path_and_query()),
        }
    }

    /// Path and query as other servers read them, where that differs from
    /// [`CanonicalUrl::path_for_look_up`]; mostly there are none. What blocks counts if one of all
    /// readings has it, what allows if each of them has it.
    ///
    /// - Segments without their parameters (`/a;x=1/b`, RFC 3986 section 3.3), as servers of Java
    ///   have them: dot segments are resolved after that, so that `/a/..;/b` is `/b`.
    /// - Dot segments resolved before slashes are joined.
    pub fn other_paths_for_look_up(&self) -> Vec<Cow<'_, str>> {
        let Some(readings) = &self.readings else { return Vec::new() };
        let mut others = Vec::new();
        if readings.joined.is_some() {
            others.push(path::for_look_up(self.path_and_query()));
        }
        others.extend(readings.bare.as_deref().map(Cow::Borrowed));
        others
    }

    /// The port, if it is not the scheme's own.
    pub fn port(&self) -> Option<u16> {
        self.port
    }

    /// What was remarkable about how it was written.
    pub fn traits(&self) -> UrlTraits {
        UrlTraits(self.traits)
    }

    fn slice(&self, from: u32, to: u32) -> &str {
        self.text.get(from as usize..to as usize).unwrap_or_default()
    }
}
