//! What a response is: by its header, by its name, and by its first bytes.

use encoding_rs::{Encoding, UTF_8};
use gauntlet_sniff::{FileKind, sniff};
use hyper::HeaderMap;
use hyper::header::CONTENT_LENGTH;

use super::fields::{ContentTypes, Disposition, codings, file_name, percent_decoded};
use super::group::group;
use super::stream::{self, Watch};
use crate::settings::content::ContentSettings;

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
    /// Media types; a program takes one of them, and the strictest counts here.
    pub(super) types: ContentTypes,
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
        let mut disposition = Disposition::read(headers);
        let path = path_and_query.split(['?', '#']).next().unwrap_or_default();
        let name = file_name(&percent_decoded(path));
        disposition.names.extend(Some(name).filter(|name| !name.is_empty()));
        let length = headers.get(CONTENT_LENGTH).and_then(|v| v.to_str().ok());
        Declared {
            types: ContentTypes::read(headers),
            codings: codings(headers),
            names: disposition.names,
            is_attachment: disposition.is_attachment,
            length: length.and_then(|n| n.trim().parse().ok()),
            is_endless: !headers.contains_key(CONTENT_LENGTH) && disposition.is_inline,
        }
    }

    /// What says whether its bytes are those of the stream that it says it is; none if it can be
    /// none: a stream has no length, and nobody saves it.
    pub(super) fn stream(&self) -> Option<Watch> {
        let watch = Watch::of(self.types.first(), self.types.boundary.as_deref());
        watch.filter(|_| self.is_endless && !self.types.is_repeated)
    }

    /// The name that a program would save it by.
    pub(super) fn name(&self) -> &str {
        self.names.first().map_or("", String::as_str)
    }

    /// An extension of one of its names that is blocked.
    pub(super) fn blocked_extension<'s>(&self, settings: &'s ContentSettings) -> Option<&'s str> {
        let ends = |name: &String, blocked: &str| {
            let dot = name.len().checked_sub(blocked.len() + 1);
            dot.and_then(|dot| name.get(dot..)?.strip_prefix('.'))
                .is_some_and(|end| end.eq_ignore_ascii_case(blocked))
        };
        let is_blocked = |blocked: &&String| self.names.iter().any(|name| ends(name, blocked));
        settings.blocked_extensions.iter().find(is_blocked).map(String::as_str)
    }

    /// A type of `blocked_types` that it has, by its header or its bytes.
    pub(super) fn blocked_type<'s>(
        &self,
        sniffed: FileKind,
        settings: &'s ContentSettings,
    ) -> Option<&'s str> {
        let is = |pattern: &&String| {
            self.types.are_any(|one| matches_type(pattern, one))
                || media_types(sniffed).iter().any(|name| matches_type(pattern, name))
                || group(sniffed) == Some(pattern.as_str())
        };
        settings.blocked_types.iter().find(is).map(String::as_str)
    }

    /// What is done with it: all that is done with any of its types.
    pub(super) fn class(&self, sniffed: FileKind, settings: &ContentSettings) -> Class {
        let mut class = Class { is_page: false, is_download: false };
        for media_type in &self.types.essences {
            let of_type = self.class_as(media_type, sniffed, settings);
            class.is_page |= of_type.is_page;
            class.is_download |= of_type.is_download;
        }
        class
    }

    fn class_as(&self, media_type: &str, sniffed: FileKind, settings: &ContentSettings) -> Class {
        use FileKind as K;
        // Browsers show every kind of XML, and elements of HTML within it.
        let like = if media_type.ends_with("+xml") { "application/xml" } else { media_type };
        let is_of = |t: &String| matches_type(t, media_type) || matches_type(t, like);
        let is_page_type = settings.page_types.iter().any(is_of);
        let is_shown = !matches!(sniffed, K::Image | K::Media);
        // Without a type browsers go by the bytes.
        let is_untyped = matches!(media_type, "" | "application/octet-stream" | "text/plain");
        let is_text = matches!(sniffed, K::Text | K::Svg) && is_untyped;
        // Some browsers show the last part that is a page; of pictures it would be a stream.
        let has_parts = media_type == "multipart/x-mixed-replace";
        let is_page = sniffed == K::Html || ((is_page_type || is_text || has_parts) && is_shown);
        let is_file = group(sniffed).is_some_and(|group| !matches!(group, "image" | "media"));
        // Streams are passed on before this: what is here only has the type of one.
        let is_no_stream = stream::is_type(media_type) && (!is_page || has_parts);
        let is_download = is_file
            || self.is_attachment
            || is_no_stream
            || is_file_type(media_type, sniffed)
            || self.ends_like_a_file(sniffed)
            || is_mislabelled(media_type, sniffed)
            || matches!(sniffed, K::BinHex | K::Mbox | K::Message | K::Tnef | K::Cms);
        Class { is_page, is_download: is_download && sniffed != K::Empty }
    }

    /// It says that it is a page, and nothing else.
    pub(super) fn is_html(&self) -> bool {
        self.types.are_all(|one| matches!(one, "text/html" | "application/xhtml+xml"))
    }

    /// It says that it is sound or pictures, which players ask for in parts, and nothing else.
    pub(super) fn is_media(&self) -> bool {
        let begins = ["video/", "audio/", "image/"];
        // A drawing (SVG) may be a page.
        let is = |one: &str| begins.iter().any(|b| one.starts_with(b)) && !one.ends_with("+xml");
        self.types.are_all(is)
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
}

/// What the first bytes are; a text in UTF-16 (by its mark, which browsers go by) is what its
/// letters say.
pub(super) fn kind_of(first: &[u8]) -> FileKind {
    use FileKind as K;
    let kind = sniff(first);
    let encoding = Encoding::for_bom(first).map(|(encoding, _)| encoding);
    let Some(encoding) = encoding.filter(|e| kind == K::Unknown && *e != UTF_8) else {
        return kind;
    };
    match sniff(encoding.decode(first).0.as_bytes()) {
        text @ (K::Html | K::Svg | K::Text) => text,
        _ => kind,
    }
}

/// It is said to be what no program runs, and its bytes say otherwise. Sound, video and fonts have
/// many forms whose bytes tell nothing, among them streams that never end.
fn is_mislabelled(media_type: &str, sniffed: FileKind) -> bool {
    use FileKind as K;
    let is_of = |begin: &str| media_type.starts_with(begin);
    match sniffed {
        K::Empty | K::Image | K::Media => false,
        K::Svg => is_of("video/") || is_of("audio/") || is_of("font/"),
        K::Unknown => is_of("image/"),
        _ => ["image/", "video/", "audio/", "font/", "application/font"].iter().any(|b| is_of(b)),
    }
}

/// Types of files that are saved, not shown or run by a page.
fn is_file_type(media_type: &str, sniffed: FileKind) -> bool {
    if media_type.is_empty() {
        return matches!(sniffed, FileKind::Text | FileKind::Unknown);
    }
    if TEXT_FILE_TYPES.contains(&media_type) {
        return true;
    }
    let Some(subtype) = media_type.strip_prefix("application/") else { return false };
    let of_pages = ["javascript", "x-javascript", "ecmascript", "json", "wasm", "xml"];
    let is_of_pages = of_pages.contains(&subtype)
        || ["+json", "+xml", "-stream"].iter().any(|end| subtype.ends_with(end))
        || ["font", "grpc", "x-font", "x-www-form", "vnd.ms-fontobject", "x-ndjson", "dash"]
            .iter()
            .any(|begin| subtype.starts_with(begin));
    !is_of_pages || subtype == "octet-stream"
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

fn extension(name: &str) -> Option<&str> {
    name.rsplit_once('.').map(|(_, extension)| extension)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declared(fields: &[(&str, &str)], path: &str) -> Declared {
        let mut map = HeaderMap::new();
        for (name, value) in fields {
            map.append(name.parse::<hyper::header::HeaderName>().unwrap(), value.parse().unwrap());
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
        let types = (all.types.first(), &all.types.charsets[..]);
        assert_eq!(types, ("text/html", &["UTF-8".to_owned()][..]));
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
            ("attachment; filename=\"=?utf-8?B?YS5leGU=?=\"", "/x"),
            ("attachment; filename==?utf-8?Q?a=2Eexe?=", "/x"),
            ("filename=a.exe", "/x"),
            ("inline", "/a.exe"),
            ("inline", "/a%2eexe?x"),
        ] {
            let all = declared(&[("content-disposition", disposition)], path);
            let found = all.blocked_extension(&settings).map(str::to_ascii_lowercase);
            assert_eq!(found.as_deref(), Some("exe"), "{disposition} {path}");
        }
        assert_eq!(declared(&[], "/exe?a.exe").blocked_extension(&settings), None);
        let blocked_extensions = vec!["tar.gz".to_owned(), "Zip".to_owned()];
        let settings = ContentSettings { blocked_extensions, ..settings };
        for (path, extension) in [
            ("/a.TAR.gz", Some("tar.gz")),
            ("/a.zip", Some("Zip")),
            ("/a.gz", None),
            ("/star.gz", None),
            ("/zip", None),
            ("/\u{fc}zip", None),
        ] {
            assert_eq!(declared(&[], path).blocked_extension(&settings), extension, "{path}");
        }
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
            ("multipart/x-mixed-replace", FileKind::Text, true, true),
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
            // Browsers show elements of HTML within XML.
            ("image/svg+xml", FileKind::Svg, true, false),
            ("application/rss+xml", FileKind::Text, true, false),
            ("text/xml", FileKind::Text, true, false),
            ("unknown/unknown", FileKind::Text, true, true),
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

    #[test]
    fn of_several_types_the_strictest_counts() {
        let settings = ContentSettings {
            blocked_types: vec!["video/*".to_owned()],
            blocked_extensions: vec!["exe".to_owned()],
            ..ContentSettings::default()
        };
        let types = |all: &[&str]| {
            let fields: Vec<_> = all.iter().map(|one| ("content-type", *one)).collect();
            declared(&fields, "/")
        };
        for all in [
            &["image/png", "text/html"][..],
            &["text/css", "foo"],
            &["text/css, application/octet-stream"],
            &["foo"],
        ] {
            let class = types(all).class(FileKind::Text, &settings);
            assert!(class.is_page, "{all:?}");
        }
        assert!(
            types(&["text/css", "video/mp4"]).blocked_type(FileKind::Text, &settings).is_some()
        );
        assert!(types(&["text/event-stream", "text/event-stream"]).stream().is_none());
        assert!(!types(&["text/html", "text/css"]).is_html());
        assert!(!types(&["video/mp4", "text/html"]).is_media());
        let two = [
            ("content-disposition", "inline"),
            ("content-disposition", "attachment; filename=a.exe"),
        ];
        let two = declared(&two, "/");
        assert!(two.is_attachment && two.blocked_extension(&settings).is_some());
    }
}
