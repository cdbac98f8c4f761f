//! The path of a URL as servers read it.
//!
//! The canonical form keeps `//` and `%2F`, which some servers tell from `/`: it is what was
//! written. Most do not (nginx and Apache join slashes, nginx takes `%2F` for one), so that a
//! look-up by the canonical form alone could be evaded. Runs of slashes are one here, as in the
//! canonicalisation of Google's Safe Browsing; `%2F` is a slash, and so is `%5C`, for which IIS
//! takes it; dot segments are resolved after that.

use std::borrow::Cow;

use super::escapes::push_escaped;

/// What servers take for a slash beside it, in any case.
const SLASHES: [&[u8]; 2] = [b"%2f", b"%5c"];

/// Paths as servers read them where they do not follow from the canonical one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Readings {
    /// Slashes joined before dot segments were resolved. A `..` takes the empty segment of `//`
    /// away in the canonical form, and for servers that join slashes first the segment before:
    /// `/a//../b` is `/a/b` or `/b`.
    pub(super) joined: Option<Box<str>>,
    /// The same without the parameters of segments.
    pub(super) bare: Option<Box<str>>,
}

/// Path and query of a canonical URL in the form for look-ups.
pub(super) fn for_look_up(path_and_query: &str) -> Cow<'_, str> {
    let (path, query) = split_query(path_and_query);
    let bytes = path.as_bytes();
    let has_run = bytes.windows(2).any(|pair| pair == b"//");
    let is_slash = |escape: &[u8]| SLASHES.iter().any(|s| escape.eq_ignore_ascii_case(s));
    if !has_run && !bytes.windows(3).any(is_slash) {
        return Cow::Borrowed(path_and_query);
    }
    Cow::Owned(resolved(path, query, |segment| segment))
}

/// A path for look-ups without the parameters of its segments.
pub fn without_parameters(path_and_query: &str) -> Cow<'_, str> {
    let (path, query) = split_query(path_and_query);
    match path.contains(';') {
        true => Cow::Owned(resolved(path, query, bare)),
        false => Cow::Borrowed(path_and_query),
    }
}

/// Path, and query from the `?`.
fn split_query(path_and_query: &str) -> (&str, &str) {
    let end = memchr::memchr(b'?', path_and_query.as_bytes()).unwrap_or(path_and_query.len());
    path_and_query.split_at(end)
}

fn bare(segment: &str) -> &str {
    segment.split(';').next().unwrap_or_default()
}

/// One slash for many, and for its escapes; then segments as `read` has them, without dots.
fn resolved(path: &str, query: &str, read: fn(&str) -> &str) -> String {
    let path = ["%2F", "%2f", "%5C", "%5c"].iter().fold(path.to_owned(), |p, e| p.replace(e, "/"));
    let mut out = String::with_capacity(path.len() + query.len() + 1);
    out.push('/');
    let mut segments = path.split('/').map(read).peekable();
    while let Some(segment) = segments.next() {
        match segment {
            "" | "." => {}
            ".." => {
                out.pop();
                out.truncate(out.rfind('/').map_or(0, |slash| slash + 1));
                if out.is_empty() {
                    out.push('/');
                }
            }
            segment => {
                out.push_str(segment);
                if segments.peek().is_some() {
                    out.push('/');
                }
            }
        }
    }
    out.push_str(query);
    out
}

/// The readings of a path as it was written, where they are others than that of the canonical one.
pub(super) fn of_written(tail: &str, web: bool, canonical: &str) -> Option<Box<Readings>> {
    let tail = tail.split('#').next().unwrap_or_default();
    let (path, query) = match tail.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (tail, None),
    };
    // All are rare, and most paths are done with after the first looks.
    let has_escapes = memchr::memchr2(b'%', b'\\', path.as_bytes()).is_some();
    let has_parameters = memchr::memchr(b';', path.as_bytes()).is_some();
    let may_join =
        (has_escapes || path.contains("//")) && (path.contains("..") || path.contains("%2"));
    if !may_join && !has_parameters {
        return None;
    }
    let slashed = if web { path.replace('\\', "/") } else { path.to_owned() };
    let mut written = String::with_capacity(tail.len() + 1);
    written.push('/');
    push_escaped(slashed.strip_prefix('/').unwrap_or(&slashed), &mut written);
    if let Some(query) = query {
        written.push('?');
        push_escaped(query, &mut written);
    }
    let of_canonical = for_look_up(canonical);
    let joined = Some(for_look_up(&written))
        .filter(|joined| may_join && matches!(joined, Cow::Owned(_)) && *joined != of_canonical);
    let read = joined.as_ref().unwrap_or(&of_canonical);
    let bare = without_parameters(&written);
    let bare = Some(bare).filter(|bare| has_parameters && bare != read);
    let kept = |path: Cow<'_, str>| path.into_owned().into_boxed_str();
    let readings = Readings { joined: joined.clone().map(kept), bare: bare.map(kept) };
    (readings.joined.is_some() || readings.bare.is_some()).then(|| Box::new(readings))
}

#[cfg(test)]
mod tests {
    use crate::url::canonical;

    #[test]
    fn one_path_for_what_servers_take_for_one() {
        for (path, expected) in [
            ("/secret/x", "/secret/x"),
            ("//secret/x", "/secret/x"),
            ("/.//secret/x", "/secret/x"),
            ("/%2fsecret/x", "/secret/x"),
            ("/a/..%2fsecret/x", "/secret/x"),
            ("/%2e%2fsecret/x", "/secret/x"),
            ("/secret%2Fx", "/secret/x"),
            ("/secret///x//", "/secret/x/"),
            ("/%5Csecret/x", "/secret/x"),
            ("/a/..%5csecret%5Cx", "/secret/x"),
            ("/..%2f..%2fsecret", "/secret"),
            ("/a%2f.", "/a/"),
            ("/a/b%2f..", "/a/"),
            ("//", "/"),
            ("/%2f", "/"),
            ("/x%252fy", "/x%252fy"),
            ("/go?to=http://a.example//b%2Fc", "/go?to=http://a.example//b%2Fc"),
            ("//go?a//b", "/go?a//b"),
            ("/x//../secret/", "/secret/"),
            ("/x//..//secret/?a/../b", "/secret/?a/../b"),
            ("/a//%2e%2e/secret/", "/secret/"),
            ("/a//%2E./secret/", "/secret/"),
            ("/x//./../secret/", "/secret/"),
            ("/x\\/../secret/", "/secret/"),
            ("/a//b/../../secret/", "/secret/"),
            ("/x/%2f/../secret", "/secret"),
            ("/x/y//../..//secret/#//..", "/secret/"),
            ("/a//b/../c", "/a/c"),
        ] {
            let url = canonical(&format!("http://a.example{path}")).unwrap();
            assert_eq!(url.path_for_look_up(), expected, "{path}");
            let again = canonical(&format!("http://a.example{expected}")).unwrap();
            assert_eq!(again.path_for_look_up(), expected, "a fixed point");
        }
        assert_eq!(canonical("mailto:a@b.example").unwrap().path_for_look_up(), "");
    }

    #[test]
    fn other_servers_leave_parameters_of_segments_out() {
        for (path, read, others) in [
            ("/a/b?c;d", "/a/b?c;d", &[][..]),
            ("/;x/secret", "/;x/secret", &["/secret"]),
            ("/..;/secret", "/..;/secret", &["/secret"]),
            ("/a/..;x=1/secret;y?z;z", "/a/..;x=1/secret;y?z;z", &["/secret?z;z"]),
            ("/a/%2e%2e;/secret", "/a/..;/secret", &["/secret"]),
            ("/a/.;/secret", "/a/.;/secret", &["/a/secret"]),
            ("/secret;x", "/secret;x", &["/secret"]),
            ("/secret;", "/secret;", &["/secret"]),
            ("/secret/;x", "/secret/;x", &["/secret/"]),
            ("/;x//..;%2Fsecret", "/;x/..;/secret", &["/secret"]),
            ("/;", "/;", &["/"]),
            // Resolved first, the parameter alone goes.
            ("/a/b/;/../c", "/a/b/c", &["/a/c"]),
            ("/a%3Bx/b", "/a%3Bx/b", &[]),
            ("/a//../b", "/b", &["/a/b"]),
            ("/a;x//../b", "/b", &["/a;x/b"]),
        ] {
            let url = canonical(&format!("http://a.example{path}")).unwrap();
            assert_eq!(url.path_for_look_up(), read, "{path}");
            assert_eq!(url.other_paths_for_look_up(), others, "{path}");
        }
    }
}
