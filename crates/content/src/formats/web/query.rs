//! Queries of Excel: small texts whose data is fetched into a sheet when they are opened, and may
//! be formulas. Web queries (`.iqy`) hold an address, those of databases (`.dqy`, `.oqy`, `.rqy`) a
//! connection.

use crate::object::{PropertyKind, UrlSource};
use crate::unpack::Unpacker;

/// Endings of queries of databases.
const DATABASES: [&str; 3] = ["dqy", "oqy", "rqy"];
/// Lines of a query that are read.
const LINES_MAX: usize = 1_000;

/// Whether the name or the first lines say so.
pub(super) fn is_match(extension: &str, text: &str) -> bool {
    extension == "iqy" || DATABASES.contains(&extension) || is_web(text) || is_database(text)
}

/// Notes where the data comes from.
pub(super) fn read(extension: &str, text: &str, unpacker: &mut Unpacker<'_>) {
    unpacker.text(text);
    if extension == "iqy" || is_web(text) {
        // Type and version may be left out, parameters follow.
        let lines = text.lines().take(LINES_MAX).map(clean);
        if let Some(address) = lines.clone().find(|line| is_address(line)) {
            note(address, unpacker);
        }
        return;
    }
    // A connection within the own network is everyday; one to an address is not.
    for line in text.lines().take(LINES_MAX) {
        for field in line.split([';', '"', '\t']) {
            let value = field.split_once('=').map_or(field, |(_, value)| value).trim();
            if is_address(value) {
                note(value, unpacker);
            }
        }
    }
}

fn note(address: &str, unpacker: &mut Unpacker<'_>) {
    unpacker.property(PropertyKind::DataQuery, address);
    unpacker.url(address, UrlSource::External);
}

/// `WEB`, a version, an address, a line each.
fn is_web(text: &str) -> bool {
    let mut lines = text.lines().map(clean);
    lines.next().is_some_and(|line| line.eq_ignore_ascii_case("web"))
        && lines.next().is_some_and(|line| line.len() <= 2 && line.parse::<u8>().is_ok())
        && lines.next().is_some_and(is_address)
}

fn is_database(text: &str) -> bool {
    let first = text.lines().next().map(clean).unwrap_or_default().to_ascii_lowercase();
    first == "xlodbc" || first.starts_with("querytype=")
}

fn clean(line: &str) -> &str {
    line.trim_start_matches('\u{feff}').trim()
}

/// A URL, or a file of another computer.
fn is_address(value: &str) -> bool {
    const SCHEMES: [&str; 4] = ["http://", "https://", "ftp://", "file://"];
    let begins = |scheme: &str| {
        value.get(..scheme.len()).is_some_and(|head| head.eq_ignore_ascii_case(scheme))
    };
    value.starts_with("\\\\") || SCHEMES.iter().any(|scheme| begins(scheme))
}

#[cfg(test)]
mod tests {
    use crate::formats::testing::{nasty, tree};
    use crate::object::{PropertyKind, UrlSource};

    /// Where the data of a query comes from; it is a URL, too.
    fn from(name: &str, text: &str) -> Option<String> {
        let found = tree(text.as_bytes(), name);
        let object = &found.objects[0];
        let query = object.properties.iter().find(|p| p.kind == PropertyKind::DataQuery)?;
        let is_url = |url: &crate::object::FoundUrl| {
            url.source == UrlSource::External && url.url == query.detail
        };
        assert!(object.urls.iter().any(is_url), "{object:?}");
        Some(query.detail.clone())
    }

    #[test]
    fn queries_tell_where_their_data_comes_from() {
        let url = "http://a.example/2.php?id=1";
        for (name, text, expected) in [
            ("a.iqy", "WEB\r\n1\r\nhttp://a.example/2.php?id=1\r\n2\r\nSelection=1\r\n", url),
            ("a.iqy", "http://a.example/2.php?id=1", url),
            ("a.iqy", "\u{feff}WEB\n1\n\\\\198.51.100.7\\s\\a\n", "\\\\198.51.100.7\\s\\a"),
            ("a.txt", "web\n1\nHTTPS://a.example/\n", "HTTPS://a.example/"),
            (
                "a.oqy",
                "QueryType=OLEDB\nVersion=1\nCommandType=Cube\n\
                 Connection=Provider=MSOLAP;Data Source=http://a.example/x;Timeout=9\n",
                "http://a.example/x",
            ),
            (
                "a.dqy",
                "XLODBC\n1\nDRIVER={Microsoft Excel Driver};DBQ=\\\\198.51.100.7\\s\\a.xls;\nSELECT 1\n",
                "\\\\198.51.100.7\\s\\a.xls",
            ),
        ] {
            assert_eq!(from(name, text).as_deref(), Some(expected), "{name}: {text}");
            nasty(text.as_bytes(), name);
        }
    }

    #[test]
    fn ordinary_texts_and_connections_are_no_findings() {
        for (name, text) in [
            ("a.dqy", "XLODBC\n1\nDSN=Sales;UID=ann;DATABASE=sales\nSELECT a FROM b\n"),
            ("a.rqy", "QueryType=OLEDB\nConnection=Provider=SQLOLEDB;Data Source=SERVER\n"),
            ("a.txt", "Web\n1\nsee http://a.example/\n"),
            ("a.txt", "web\nhttp://a.example/\n"),
            ("a.txt", "DSN=http://a.example/\n"),
            ("a.csv", "WEB,1,http://a.example/\r\n"),
        ] {
            assert_eq!(from(name, text), None, "{name}: {text}");
        }
    }

    #[test]
    fn saved_searches_name_their_folders() {
        let text = "<?xml version=\"1.0\"?><persistedQuery version=\"1.0\"><query><scope>\
            <include path=\"\\\\198.51.100.7\\share\"/><include path=\"C:\\Users\"/>\
            </scope></query></persistedQuery>";
        let found = tree(text.as_bytes(), "a.search-ms");
        let urls: Vec<&str> = found.objects[0].urls.iter().map(|u| u.url.as_str()).collect();
        assert_eq!(urls, ["\\\\198.51.100.7\\share"]);
        nasty(text.as_bytes(), "a.search-ms");
    }
}
