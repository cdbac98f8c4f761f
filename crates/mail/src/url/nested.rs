//! URLs nested in other URLs: what redirectors, link rewriters, viewers and the schemes of programs
//! carry in path, query or fragment, percent-encoded up to [`LEVELS_MAX`] times, in base64 or in
//! hexadecimal.
//!
//! Only hosts are looked for. What is found too much (a parameter that names a host and leads
//! nowhere) does no harm: hosts are only looked up in lists.

use super::canonical::canonical;
use super::{CanonicalUrl, text};

/// Encodings around a nested URL that are undone, in all.
const LEVELS_MAX: usize = 6;

/// What the look at one host costs beside its length, in bytes of text looked at.
const HOST_COST_BYTES: usize = 32;

/// Looks for nested URLs, with a bound on the bytes looked at: what is quadratic in a hostile text
/// ends there, and [`Finder::exhausted`] says so.
pub(crate) struct Finder {
    work_left: usize,
    /// Not everything was looked at.
    pub(crate) exhausted: bool,
    pub(crate) found: Vec<CanonicalUrl>,
}

impl Finder {
    /// A finder that looks at about so many bytes, each time it looks at one counted.
    pub(crate) fn new(work_bytes_max: usize) -> Self {
        Finder { work_left: work_bytes_max, exhausted: false, found: Vec::new() }
    }

    /// Adds to the work budget, in bytes.
    pub(crate) fn may_read_more(&mut self, bytes: usize) {
        self.work_left = self.work_left.saturating_add(bytes);
    }

    fn may_read(&mut self, bytes: usize) -> bool {
        self.exhausted |= bytes > self.work_left;
        self.work_left = self.work_left.saturating_sub(bytes);
        !self.exhausted
    }

    /// Adds to `found` every URL that is nested in `value`, and `value` itself if it is one in a
    /// form that only browsers read. The same may come more than once.
    pub(crate) fn find(&mut self, value: &str) {
        self.level(value, LEVELS_MAX);
    }

    fn level(&mut self, value: &str, levels: usize) {
        if !self.may_read(value.len()) {
            return;
        }
        self.schemes(value);
        self.slashes(value);
        self.hosts(value);
        self.proxied_hosts(value);
        let decoded = self.decodings(value);
        let Some(levels) = levels.checked_sub(1) else {
            self.exhausted |= !decoded.is_empty();
            return;
        };
        for decoded in decoded {
            self.level(&decoded, levels);
        }
    }

    /// Each way in which the whole or a piece of `value` can be decoded once.
    fn decodings(&mut self, value: &str) -> Vec<String> {
        let bytes = value.as_bytes();
        let mut all = Vec::new();
        if let Some(percent) = memchr::memchr(b'%', bytes) {
            let decoded = crate::encoding::percent_decode(&bytes[percent..]);
            // An escape that is none leaves the text as it was.
            if decoded != bytes[percent..] {
                all.push(format!("{}{}", &value[..percent], String::from_utf8_lossy(&decoded)));
            }
        }
        // Proofpoint's first rewriter writes `-` for `%` and `_` for `/`.
        if memchr::memmem::find(bytes, b"-3A_").is_some() {
            let percent = value.replace('_', "/").replace('-', "%");
            let decoded = crate::encoding::percent_decode(percent.as_bytes());
            all.push(String::from_utf8_lossy(&decoded).into_owned());
        }
        // `http` in base64, and in base64 twice; in hexadecimal.
        for start in ["aHR0c", "YUhSMG", "SFRUU", "SHR0c"] {
            self.runs(bytes, start, is_base64_byte, base64, &mut all);
        }
        self.runs(bytes, "68747470", u8::is_ascii_hexdigit, hexadecimal, &mut all);
        all
    }

    /// Decodes what begins with `start`, as far as the alphabet goes. What begins later in the same
    /// run of the alphabet, a multiple of four characters behind, is the end of what was decoded
    /// already: so a run is decoded four times at most, however often `start` stands in it.
    fn runs(
        &mut self,
        bytes: &[u8],
        start: &str,
        is_in_alphabet: fn(&u8) -> bool,
        decode: fn(&[u8]) -> Option<String>,
        all: &mut Vec<String>,
    ) {
        let (mut run_end, mut is_decoded) = (0, [false; 4]);
        for i in memchr::memmem::find_iter(bytes, start.as_bytes()) {
            if i >= run_end {
                let length = bytes[i..].iter().position(|b| !is_in_alphabet(b));
                run_end = length.map_or(bytes.len(), |length| i + length);
                is_decoded = [false; 4];
            }
            if !std::mem::replace(&mut is_decoded[i % 4], true) && self.may_read(run_end - i) {
                all.extend(decode(&bytes[i..run_end]));
            }
        }
    }

    /// `https://host`, `http:\\host`, `https:host` anywhere, and any other scheme with two slashes.
    fn schemes(&mut self, value: &str) {
        let bytes = value.as_bytes();
        for colon in memchr::memchr_iter(b':', bytes) {
            let word = &bytes[..colon];
            let ends_with = |scheme: &str| {
                let start = word.len().checked_sub(scheme.len());
                start.is_some_and(|start| word[start..].eq_ignore_ascii_case(scheme.as_bytes()))
            };
            if self.exhausted {
                return;
            }
            let rest = &value[colon + 1..];
            let is_slash = |b: Option<&u8>| matches!(b, Some(b'/' | b'\\'));
            let slashed = is_slash(bytes.get(colon + 1)) && is_slash(bytes.get(colon + 2));
            if slashed || SCHEMES.iter().any(|scheme| ends_with(scheme)) {
                self.authority(rest.trim_start_matches(['/', '\\', '\t', '\r', '\n']));
            }
        }
    }

    /// `//host`, `\\host` and `/\host` at the start, and behind what separates parameters.
    fn slashes(&mut self, value: &str) {
        let bytes = value.as_bytes();
        let is_slash = |b: Option<&u8>| matches!(b, Some(b'/' | b'\\'));
        let mut at = 0;
        while let Some(i) = memchr::memchr2(b'/', b'\\', &bytes[at..]).map(|i| at + i) {
            at = i + 1;
            let before = i.checked_sub(1).and_then(|before| bytes.get(before));
            let separated = before.is_none_or(|b| b"=|?&;,'\"( ".contains(b));
            if separated && is_slash(bytes.get(i + 1)) {
                let rest = value[i..].trim_start_matches(['/', '\\']);
                at = value.len() - rest.len();
                self.authority(rest);
            }
        }
    }

    /// The host at the start of `rest`, read as a browser does, and as a program does that splits
    /// parameters first.
    fn authority(&mut self, rest: &str) {
        if self.exhausted {
            return;
        }
        let ends = |b: &u8| matches!(b, b'/' | b'\\' | b'?' | b'#' | b'<' | b'>' | b' ');
        let whole = &rest[..rest.bytes().position(|b| ends(&b)).unwrap_or(rest.len())];
        if !self.may_read(whole.len() + HOST_COST_BYTES) {
            return;
        }
        let host = whole.rsplit('@').next().unwrap_or_default();
        self.push_host(host);
        let between = ['&', ';', ',', '|', '"', '\'', '(', ')', '{', '}', '!', '*'];
        let piece = whole.split(between).next();
        let piece = piece.unwrap_or_default();
        if piece.len() < whole.len() || host.len() < whole.len() {
            self.push_host(piece.rsplit('@').next().unwrap_or_default());
            self.push_host(piece.split('@').next().unwrap_or_default());
        }
    }

    fn push_host(&mut self, host: &str) {
        if host.len() < 1024
            && let Some(behind) = super::host::after_invalid_label(host)
            && let Some(url) = canonical(&format!("http://{behind}/"))
        {
            self.found.push(url);
        }
        // A share by WebDAV: `\\host@SSL@443\share`.
        let named =
            host.len() < 1024 && (host.contains(['.', '[', '%', '\u{3002}']) || is_number(host));
        if named && let Some(url) = canonical(&format!("http://{host}/")) {
            self.found.push(url);
        }
    }

    /// Values of parameters that read as a host: `?q=evil.example/x`.
    fn hosts(&mut self, value: &str) {
        if memchr::memchr2(b'=', b'#', value.as_bytes()).is_none() {
            return;
        }
        for piece in value.split(['?', '&', ';', '#', '|']).skip(1) {
            let piece = piece.split_once('=').map_or(piece, |(_, piece)| piece);
            self.host_at_start(piece);
        }
    }

    fn host_at_start(&mut self, piece: &str) {
        let host = piece.split(['/', '\\', '?', '#', ':']).next().unwrap_or_default();
        if !host.contains('.') || host.contains('@') || host.len() > 253 {
            return;
        }
        // With a path behind it, a host is not taken for the name of a file.
        let with_path = format!("{host}/");
        let first = text::find(&with_path).next();
        let reads_as_host = first.is_some_and(|f| f.range.start == 0 && f.range.end >= host.len());
        if (reads_as_host || !host.is_ascii())
            && let Some(url) = canonical(&format!("http://{with_path}"))
        {
            self.found.push(url);
        }
    }

    /// Hosts that a proxy's URL contains: caches of AMP pages (`/amp/s/host/`,
    /// `host-name.cdn.ampproject.org`), translated pages (`host-name.translate.goog`), and
    /// Proofpoint's third rewriter, which replaces characters by `*` and keeps them behind.
    fn proxied_hosts(&mut self, value: &str) {
        let bytes = value.as_bytes();
        for mark in ["/amp/s/", "/amp/", "/c/s/", "/v/s/", "/i/s/", "/c/", "/s/"] {
            for i in memchr::memmem::find_iter(bytes, mark.as_bytes()) {
                self.host_at_start(&value[i + mark.len()..]);
            }
        }
        for relay in [".translate.goog", ".cdn.ampproject.org"] {
            for i in memchr::memmem::find_iter(bytes, relay.as_bytes()) {
                let is_host = |b: &u8| b.is_ascii_alphanumeric() || *b == b'-';
                let length = bytes[..i].iter().rev().take_while(|b| is_host(b)).count();
                let name =
                    value[i - length..i].replace("--", "\0").replace('-', ".").replace('\0', "-");
                if let Some(url) = canonical(&format!("http://{name}/")) {
                    self.found.push(url);
                }
            }
        }
        if let Some(url) = proofpoint_v3_url(value).and_then(|url| canonical(&url)) {
            self.found.push(url);
        }
    }
}

fn is_base64_byte(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_')
}

fn base64(bytes: &[u8]) -> Option<String> {
    let length = bytes.iter().take_while(|b| is_base64_byte(b)).count();
    let usual: Vec<u8> = bytes[..length]
        .iter()
        .map(|b| match b {
            b'-' => b'+',
            b'_' => b'/',
            b => *b,
        })
        .collect();
    let decoded = crate::encoding::base64(&usual).bytes;
    (!decoded.is_empty()).then(|| String::from_utf8_lossy(&decoded).into_owned())
}

fn hexadecimal(bytes: &[u8]) -> Option<String> {
    let pairs = bytes.chunks_exact(2).map_while(|pair| {
        Some(crate::encoding::hex(pair[0])? << 4 | crate::encoding::hex(pair[1])?)
    });
    let decoded: Vec<u8> = pairs.collect();
    (decoded.len() > 7).then(|| String::from_utf8_lossy(&decoded).into_owned())
}

/// Schemes that lead to a host. Browsers need no slashes behind those of the web, and take any
/// number of either kind (URL Standard, section 4.4).
const SCHEMES: [&str; 12] =
    ["https", "http", "ftps", "ftp", "wss", "ws", "file", "smb", "hxxps", "hxxp", "webdav", "dav"];

/// An IPv4 address as one number.
fn is_number(host: &str) -> bool {
    let host = host.split(':').next().unwrap_or_default();
    let hex = host.strip_prefix("0x").or_else(|| host.strip_prefix("0X"));
    host.len() >= 8
        && hex.map_or(host.bytes().all(|b| b.is_ascii_digit()), |hex| {
            hex.bytes().all(|b| b.is_ascii_hexdigit())
        })
}

/// `/v3/__http://b*d.example/__;YQ!!...`: each `*` stands for the next character behind `__;`.
fn proofpoint_v3_url(value: &str) -> Option<String> {
    let inside = &value[value.find("/v3/__")? + 6..];
    let (url, behind) = inside.split_once("__;")?;
    if !url.contains('*') {
        return None;
    }
    let characters = base64(behind.split('!').next()?.as_bytes())?;
    let mut characters = characters.chars();
    let url = url.chars().map(|c| if c == '*' { characters.next().unwrap_or(c) } else { c });
    Some(url.collect())
}
