//! What a response is: by its header, by its name, and by its first bytes.

use gauntlet_sniff::FileKind;
use hyper::HeaderMap;
use hyper::header::{
    CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderName,
};

use super::group::group;
use super::stream::{self, Watch};
use crate::settings::content::ContentSettings;

/// Content codings that are applied on top of each other; more are a trap.
const CODINGS_MAX: usize = 4;
/// Bytes of a name that are kept.
const NAME_BYTES_MAX: usize = 255;

/// Ends of names of what runs when it is opened, and of texts.
const FILE_EXTENSIONS: [&str; 38] = [
    "txt", "exe", "com", "scr", "pif", "cpl", "msi", "msp", "msc", "dll", "bat", "cmd", "ps1",
    "psm1", "psd1", "vb", "vbs", "vbe", "jse", "wsf", "wsh", "wsc", "sct", "hta", "reg", "inf",
    "lnk", "url", "scf", "jar", "jnlp", "sh", "bash", "command", "desktop", "py", "rb", "vba",
];
/// Types of texts that are saved, or shown as they are, and no page runs.
const TEXT_FILE_TYPES: [&str; 17] = [
    "text/plain",
    "text/csv",
    "text/rtf",
    "text/vbscript",
    "text/x-vbscript",
    "text/vbs",
    "text/x-script",
    "text/x-sh",
    "text/x-shellscript",
    "text/x-bash",
    "text/x-python",
    "text/x-script.python",
    "text/x-perl",
    "text/x-ruby",
    "text/x-powershell",
    "text/x-msdos-batch",
    "text/x-bat",
];

/// What the header says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Declared {
    /// Media type in lower case, without parameters; empty if none.
    pub(super) media_type: String,
    /// Parameter `charset`.
    pub(super) charset: Option<String>,
    /// Content codings in the order in which they were applied, without `identity`.
    pub(super) codings: Vec<String>,
    /// Names that a program may save it by; the last one is that of the URL.
    pub(super) names: Vec<String>,
    /// It is to be saved, not shown.
    pub(super) is_attachment: bool,
    /// Bytes of the body, as they come.
    pub(super) length: Option<u64>,
    /// It may be a stream: it does not say how long it is, and is not to be saved.
    is_endless: bool,
    /// Parameter `boundary`.
    boundary: Option<String>,
}

/// What is done with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Class {
    /// Its text is judged.
    pub(super) is_page: bool,
    /// A scanner gets it.
    pub(super) is_download: bool,
}

impl Declared {
    pub(super) fn read(headers: &HeaderMap, path_and_query: &str) -> Self {
        let text =
            |name: HeaderName| headers.get(name).map(|v| String::from_utf8_lossy(v.as_bytes()));
        let content_type = text(CONTENT_TYPE).unwrap_or_default();
        let disposition = text(CONTENT_DISPOSITION).unwrap_or_default();
        let mut names = names(&disposition);
        let path = path_and_query.split(['?', '#']).next().unwrap_or_default();
        names.extend(Some(file_name(&percent_decoded(path))).filter(|name| !name.is_empty()));
        let kind = disposition.split(';').next().unwrap_or_default().trim();
        Declared {
            media_type: essence(&content_type),
            charset: parameter(&content_type, "charset"),
            codings: codings(headers),
            names,
            is_attachment: kind.eq_ignore_ascii_case("attachment"),
            length: text(CONTENT_LENGTH).and_then(|n| n.trim().parse().ok()),
            is_endless: !headers.contains_key(CONTENT_LENGTH)
                && (kind.is_empty() || kind.eq_ignore_ascii_case("inline")),
            boundary: parameter(&content_type, "boundary"),
        }
    }

    /// What says whether its bytes are those of the stream that it says it is; none if it can be
    /// none: a stream has no length, and nobody saves it.
    pub(super) fn stream(&self) -> Option<Watch> {
        let watch = Watch::of(&self.media_type, self.boundary.as_deref());
        watch.filter(|_| self.is_endless)
    }

    /// The name that a program would save it by.
    pub(super) fn name(&self) -> &str {
        self.names.first().map_or("", String::as_str)
    }

    /// An extension of one of its names that is blocked.
    pub(super) fn blocked_extension(&self, settings: &ContentSettings) -> Option<&str> {
        let blocked = &settings.blocked_extensions;
        let mut extensions = self.names.iter().filter_map(|name| extension(name));
        extensions.find(|extension| blocked.iter().any(|b| b.eq_ignore_ascii_case(extension)))
    }

    /// A type of `blocked_types` that it has, by its header or its bytes.
    pub(super) fn blocked_type<'s>(
        &self,
        sniffed: FileKind,
        settings: &'s ContentSettings,
    ) -> Option<&'s str> {
        let is = |pattern: &&String| {
            matches_type(pattern, &self.media_type)
                || media_types(sniffed).iter().any(|name| matches_type(pattern, name))
                || group(sniffed) == Some(pattern.as_str())
        };
        settings.blocked_types.iter().find(is).map(String::as_str)
    }

    /// What is done with it.
    pub(super) fn class(&self, sniffed: FileKind, settings: &ContentSettings) -> Class {
        use FileKind as K;
        let is_page_type = settings.page_types.iter().any(|t| matches_type(t, &self.media_type));
        let is_shown = !matches!(sniffed, K::Image | K::Media);
        // Without a type browsers go by the bytes.
        let is_untyped =
            matches!(self.media_type.as_str(), "" | "application/octet-stream" | "text/plain");
        let is_text = matches!(sniffed, K::Text | K::Svg) && is_untyped;
        let is_page = sniffed == K::Html || (is_page_type && is_shown) || (is_text && is_shown);
        let is_file = group(sniffed).is_some_and(|group| !matches!(group, "image" | "media"));
        // Streams are passed on before this: what is here only has the type of one.
        let is_no_stream = stream::is_type(&self.media_type) && !is_page;
        let is_download = is_file
            || self.is_attachment
            || is_no_stream
            || self.is_file_type(sniffed)
            || self.ends_like_a_file(sniffed)
            || self.is_mislabelled(sniffed)
            || matches!(sniffed, K::BinHex | K::Mbox | K::Message | K::Tnef | K::Cms);
        Class { is_page, is_download: is_download && sniffed != K::Empty }
    }

    /// It says that it is a page.
    pub(super) fn is_html(&self) -> bool {
        matches!(self.media_type.as_str(), "text/html" | "application/xhtml+xml")
    }

    /// One of its names says that it runs when it is opened, or is a text. A page whose address
    /// ends like a program's (`/whois/example.com`) is a page; an `hta` is one that runs.
    fn ends_like_a_file(&self, sniffed: FileKind) -> bool {
        let is_page = sniffed == FileKind::Html;
        let mut extensions = self.names.iter().filter_map(|name| extension(name));
        extensions.any(|extension| {
            let is = |one: &&str| one.eq_ignore_ascii_case(extension);
            FILE_EXTENSIONS.iter().any(|one| is(one) && (!is_page || *one == "hta"))
        })
    }

    /// It is said to be what no program runs, and its bytes say otherwise. Sound, video and fonts
    /// have many forms whose bytes tell nothing, among them streams that never end.
    fn is_mislabelled(&self, sniffed: FileKind) -> bool {
        use FileKind as K;
        let is_of = |begin: &str| self.media_type.starts_with(begin);
        match sniffed {
            K::Empty | K::Image | K::Media => false,
            K::Svg => is_of("video/") || is_of("audio/") || is_of("font/"),
            K::Unknown => is_of("image/"),
            _ => {
                ["image/", "video/", "audio/", "font/", "application/font"].iter().any(|b| is_of(b))
            }
        }
    }

    /// Types of files that are saved, not shown or run by a page.
    fn is_file_type(&self, sniffed: FileKind) -> bool {
        if self.media_type.is_empty() {
            return matches!(sniffed, FileKind::Text | FileKind::Unknown);
        }
        if TEXT_FILE_TYPES.contains(&self.media_type.as_str()) {
            return true;
        }
        let Some(subtype) = self.media_type.strip_prefix("application/") else { return false };
        let of_pages = ["javascript", "x-javascript", "ecmascript", "json", "wasm", "xml"];
        let is_of_pages = of_pages.contains(&subtype)
            || ["+json", "+xml", "-stream"].iter().any(|end| subtype.ends_with(end))
            || ["font", "grpc", "x-font", "x-www-form", "vnd.ms-fontobject", "x-ndjson", "dash"]
                .iter()
                .any(|begin| subtype.starts_with(begin));
        !is_of_pages || subtype == "octet-stream"
    }
}

/// Sound and pictures: what players ask for in parts.
pub(super) fn is_media(media_type: &str) -> bool {
    ["video/", "audio/", "image/"].iter().any(|begin| media_type.starts_with(begin))
}

fn essence(content_type: &str) -> String {
    content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// `video/*` or a whole type.
fn matches_type(pattern: &str, media_type: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(begin) => media_type.get(..begin.len()).is_some_and(|b| b.eq_ignore_ascii_case(begin)),
        None => pattern.eq_ignore_ascii_case(media_type),
    }
}

/// Names of a kind: the registered one, and those that other programs give it.
fn media_types(kind: FileKind) -> &'static [&'static str] {
    use FileKind as K;
    match kind {
        K::WindowsProgram => &[
            "application/vnd.microsoft.portable-executable",
            "application/x-dosexec",
            "application/x-msdownload",
            "application/x-msdos-program",
        ],
        K::ElfProgram => &["application/x-executable", "application/x-elf"],
        K::Script => &["text/x-script", "text/x-shellscript", "application/x-sh"],
        K::Gzip => &["application/gzip", "application/x-gzip"],
        K::Zip => &["application/zip", "application/x-zip-compressed"],
        K::Rar => &["application/vnd.rar", "application/x-rar", "application/x-rar-compressed"],
        K::Ole => &["application/x-ole-storage", "application/msword", "application/x-msi"],
        K::Empty | K::Unknown | K::Text => &[],
        kind => SINGLE.iter().find(|(k, _)| *k == kind).map_or(&[][..], |(_, names)| *names),
    }
}

/// Kinds with one name.
const SINGLE: [(FileKind, &[&str]); 10] = [
    (FileKind::Html, &["text/html"]),
    (FileKind::Pdf, &["application/pdf"]),
    (FileKind::Rtf, &["application/rtf"]),
    (FileKind::Image, &["image/*"]),
    (FileKind::Svg, &["image/svg+xml"]),
    (FileKind::Media, &["video/*", "audio/*"]),
    (FileKind::SevenZip, &["application/x-7z-compressed"]),
    (FileKind::Tar, &["application/x-tar"]),
    (FileKind::Jar, &["application/java-archive"]),
    (FileKind::Apk, &["application/vnd.android.package-archive"]),
];

/// Codings without those that mean nothing. Browsers ignore names that they do not know; those
/// that are registered, or that some programs undo, and are not known here are kept, and named when
/// they are met. Parameters mean nothing either: a program may look at the name alone.
fn codings(headers: &HeaderMap) -> Vec<String> {
    let values = headers.get_all(CONTENT_ENCODING).iter().filter_map(|v| v.to_str().ok());
    let name = |coding: &str| coding.split(';').next().unwrap_or_default().trim().to_lowercase();
    let all = values.flat_map(|v| v.split(',')).map(name);
    all.filter(|c| KNOWN.contains(&c.as_str())).take(CODINGS_MAX + 1).collect()
}

/// Registered content codings but `identity` (IANA), their old names, and those of wget2.
const KNOWN: [&str; 20] = [
    "gzip",
    "x-gzip",
    "deflate",
    "br",
    "zstd",
    "compress",
    "x-compress",
    "exi",
    "pack200-gzip",
    "dcb",
    "dcz",
    "bzip2",
    "x-bzip2",
    "xz",
    "x-xz",
    "lzma",
    "x-lzma",
    "lzip",
    "lz4",
    "snappy",
];

/// A parameter of a field such as `Content-Type` (RFC 9110 section 5.6.6).
fn parameter(value: &str, name: &str) -> Option<String> {
    let mut all = parameters(value);
    all.find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value)
}

fn parameters(value: &str) -> impl Iterator<Item = (String, String)> {
    let mut parts = Vec::new();
    let (mut part, mut is_quoted, mut is_escaped) = (String::new(), false, false);
    for c in value.chars() {
        match c {
            _ if is_escaped => {
                part.push(c);
                is_escaped = false;
            }
            '\\' if is_quoted => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            ';' if !is_quoted => parts.push(std::mem::take(&mut part)),
            c => part.push(c),
        }
    }
    parts.push(part);
    parts.into_iter().skip(1).filter_map(|part| {
        let (name, value) = part.split_once('=')?;
        Some((name.trim().to_owned(), value.trim().to_owned()))
    })
}

/// Names of `Content-Disposition` (RFC 6266): programs differ in which one they take.
fn names(disposition: &str) -> Vec<String> {
    let mut names = Vec::new();
    for (name, value) in parameters(disposition) {
        let value = match name.to_ascii_lowercase().as_str() {
            "filename" => percent_decoded(&value),
            // RFC 8187: charset'language'value.
            "filename*" => percent_decoded(value.splitn(3, '\'').nth(2).unwrap_or(&value)),
            _ => continue,
        };
        names.extend(Some(file_name(&value)).filter(|name| !name.is_empty()));
    }
    names
}

/// The last part of a path; what Windows cuts from its end is cut.
fn file_name(path: &str) -> String {
    let last = path.rsplit(['/', '\\']).next().unwrap_or_default();
    let shown = last.chars().filter(|c| !c.is_control()).take(NAME_BYTES_MAX);
    shown.collect::<String>().trim_end_matches(['.', ' ']).trim_start().to_owned()
}

fn extension(name: &str) -> Option<&str> {
    name.rsplit_once('.').map(|(_, extension)| extension)
}

pub(super) fn percent_decoded(text: &str) -> String {
    let hex = |byte: Option<&u8>| byte.and_then(|b| char::from(*b).to_digit(16));
    let bytes = text.as_bytes();
    let (mut out, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while let Some(byte) = bytes.get(at) {
        let digits = (hex(bytes.get(at + 1)), hex(bytes.get(at + 2)));
        match (byte, digits) {
            (b'%', (Some(high), Some(low))) => {
                out.push((high * 16 + low) as u8);
                at += 3;
            }
            (byte, _) => {
                out.push(*byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declared(fields: &[(&str, &str)], path: &str) -> Declared {
        let mut map = HeaderMap::new();
        for (name, value) in fields {
            map.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        }
        Declared::read(&map, path)
    }

    #[test]
    fn the_header_is_read() {
        let all = declared(
            &[
                ("content-type", "Text/HTML; a=\"x;y\"; Charset=\"UTF-8\""),
                ("content-encoding", "gzip, identity"),
                ("content-encoding", "BR, nonsense"),
                ("content-length", "17"),
            ],
            "/a/b.html?x=y.exe",
        );
        assert_eq!((all.media_type.as_str(), all.charset.as_deref()), ("text/html", Some("UTF-8")));
        assert_eq!((all.codings, all.length), (vec!["gzip".to_owned(), "br".to_owned()], Some(17)));
        assert_eq!(all.names, ["b.html"]);
    }

    #[test]
    fn codings_that_some_program_undoes_are_kept() {
        for (value, codings) in [
            ("gzip;q=1", &["gzip"][..]),
            ("utf-8, none", &[]),
            ("xz", &["xz"]),
            ("GZIP ; x, Br", &["gzip", "br"]),
        ] {
            assert_eq!(declared(&[("content-encoding", value)], "/").codings, codings, "{value}");
        }
    }

    #[test]
    fn every_name_that_a_program_may_take_counts() {
        let settings = ContentSettings {
            blocked_extensions: vec!["exe".to_owned()],
            ..ContentSettings::default()
        };
        for (disposition, path) in [
            ("attachment; filename=a.exe", "/x"),
            ("attachment; filename=\"a;b.EXE\"", "/x"),
            ("attachment; filename=a.txt; filename*=UTF-8''a%2Eexe", "/x"),
            ("attachment; filename=\"..\\\\a.exe. \"", "/x"),
            ("inline", "/a.exe"),
            ("inline", "/a%2eexe?x"),
        ] {
            let all = declared(&[("content-disposition", disposition)], path);
            let found = all.blocked_extension(&settings).map(str::to_ascii_lowercase);
            assert_eq!(found.as_deref(), Some("exe"), "{disposition} {path}");
        }
        assert_eq!(declared(&[], "/exe?a.exe").blocked_extension(&settings), None);
    }

    #[test]
    fn types_are_matched_by_header_and_bytes() {
        let settings = |t: &str| ContentSettings {
            blocked_types: vec![t.to_owned()],
            ..ContentSettings::default()
        };
        let image = declared(&[("content-type", "image/png")], "/");
        for (kind, pattern, is_blocked) in [
            (FileKind::WindowsProgram, "application/x-dosexec", true),
            (FileKind::WindowsProgram, "program", true),
            (FileKind::Image, "program", false),
            (FileKind::Image, "IMAGE/*", true),
            (FileKind::Zip, "archive", true),
            (FileKind::Unknown, "application/octet-stream", false),
        ] {
            let is_found = image.blocked_type(kind, &settings(pattern)).is_some();
            assert_eq!(is_found, is_blocked, "{kind:?} {pattern}");
        }
    }

    #[test]
    fn what_has_a_length_or_is_to_be_saved_is_no_stream() {
        let events = ("content-type", "text/event-stream; charset=utf-8");
        let of = |more: &[(&str, &str)]| declared(&[&[events], more].concat(), "/").stream();
        assert!(of(&[]).is_some() && of(&[("content-disposition", "Inline")]).is_some());
        for more in [
            ("content-length", "634"),
            ("content-length", "x"),
            ("content-disposition", "attachment; filename=a.exe"),
            ("content-disposition", "save; filename=a.exe"),
        ] {
            assert!(of(&[more]).is_none(), "{more:?}");
        }
        assert!(declared(&[("content-type", "text/html")], "/").stream().is_none());
        let pictures = [("content-type", "multipart/x-mixed-replace; boundary=\"a b\"")];
        assert!(declared(&pictures, "/").stream().is_some());
    }

    #[test]
    fn pages_and_downloads_are_told_apart() {
        let settings = ContentSettings::default();
        for (media_type, kind, is_page, is_download) in [
            ("text/html", FileKind::Html, true, false),
            ("text/html", FileKind::Text, true, false),
            ("text/html", FileKind::Unknown, true, false),
            // A program that says that it is a page is judged as both.
            ("text/html", FileKind::WindowsProgram, true, true),
            // A picture that is none is scanned, too.
            ("image/png", FileKind::Html, true, true),
            ("image/png", FileKind::Image, false, false),
            ("text/html", FileKind::Image, false, false),
            ("application/octet-stream", FileKind::Text, true, true),
            ("application/zip", FileKind::Zip, false, true),
            ("application/octet-stream", FileKind::Unknown, false, true),
            ("application/json", FileKind::Text, false, false),
            ("text/css", FileKind::Text, false, false),
            ("video/mp4", FileKind::Media, false, false),
            // The types of streams say nothing of what is none.
            ("text/event-stream", FileKind::WindowsProgram, false, true),
            ("text/event-stream", FileKind::Html, true, false),
            ("application/grpc", FileKind::Unknown, false, true),
            ("", FileKind::ElfProgram, false, true),
            ("", FileKind::Empty, false, false),
            ("", FileKind::Html, true, false),
            ("", FileKind::Text, true, true),
            ("text/plain", FileKind::Text, true, true),
            ("text/plain", FileKind::Unknown, true, true),
            ("text/csv", FileKind::Text, false, true),
            ("text/x-python", FileKind::Text, false, true),
            ("text/javascript", FileKind::Text, false, false),
            ("application/javascript", FileKind::Text, false, false),
            ("text/html", FileKind::Message, true, true),
            ("image/png", FileKind::Text, false, true),
            ("image/png", FileKind::Unknown, false, true),
            ("image/avif", FileKind::Media, false, false),
            ("image/svg+xml", FileKind::Svg, false, false),
            ("video/mp4", FileKind::Text, false, true),
            // Pieces of sound and video, and fonts: nothing is known of how they begin.
            ("video/mp2t", FileKind::Unknown, false, false),
            ("font/woff2", FileKind::Unknown, false, false),
            ("font/woff2", FileKind::Text, false, true),
        ] {
            let class = declared(&[("content-type", media_type)], "/").class(kind, &settings);
            let expected = Class { is_page, is_download };
            assert_eq!(class, expected, "{media_type} {kind:?}");
        }
    }

    #[test]
    fn what_is_saved_or_has_the_name_of_a_program_is_scanned_whatever_its_type() {
        let settings = ContentSettings::default();
        let attachment = ("content-disposition", "attachment; filename=a.js");
        for (media_type, other, path, kind, is_download) in [
            ("text/html", Some(attachment), "/", FileKind::Html, true),
            ("text/javascript", Some(attachment), "/", FileKind::Text, true),
            ("text/javascript", None, "/a.js", FileKind::Text, false),
            ("text/html", None, "/eicar.com.TXT", FileKind::Text, true),
            ("text/html", None, "/a.com", FileKind::Text, true),
            ("text/css", None, "/a%2eps1?x=y.css", FileKind::Text, true),
            ("text/html", None, "/a.hta", FileKind::Html, true),
            ("text/html", None, "/whois/example.com", FileKind::Html, false),
            ("text/html", None, "/a.html?to=b.exe", FileKind::Text, false),
        ] {
            let fields: Vec<_> = [("content-type", media_type)].into_iter().chain(other).collect();
            let class = declared(&fields, path).class(kind, &settings);
            assert_eq!(class.is_download, is_download, "{media_type} {path} {kind:?}");
        }
    }
}
