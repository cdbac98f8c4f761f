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

/// Path and query of a canonical URL in the form for look-ups.
pub(super) fn for_look_up(path_and_query: &str) -> Cow<'_, str> {
    let end = memchr::memchr(b'?', path_and_query.as_bytes()).unwrap_or(path_and_query.len());
    let (path, query) = path_and_query.split_at(end);
    let bytes = path.as_bytes();
    let has_run = bytes.windows(2).any(|pair| pair == b"//");
    let is_slash = |escape: &[u8]| SLASHES.iter().any(|s| escape.eq_ignore_ascii_case(s));
    if !has_run && !bytes.windows(3).any(is_slash) {
        return Cow::Borrowed(path_and_query);
    }
    let path = ["%2F", "%2f", "%5C", "%5c"].iter().fold(path.to_owned(), |p, e| p.replace(e, "/"));
    let mut out = String::with_capacity(path_and_query.len());
    out.push('/');
    let mut segments = path.split('/').peekable();
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
    Cow::Owned(out)
}

/// The form for look-ups of a path as it was written, where it is another than that of the
/// canonical one. A `..` takes the empty segment of `//` away there, and for servers that join
/// slashes first the segment before: `/a//../b` is `/a/b` or `/b`.
pub(super) fn of_written(tail: &str, web: bool, canonical: &str) -> Option<Box<str>> {
    let tail = tail.split('#').next().unwrap_or_default();
    let (path, query) = match tail.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (tail, None),
    };
    // Both are rare, and most paths are done with after the first look.
    let has_escapes = memchr::memchr2(b'%', b'\\', path.as_bytes()).is_some();
    if !has_escapes && !path.contains("//") {
        return None;
    }
    if !path.contains("..") && !path.contains("%2") {
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
    let resolved = for_look_up(&written);
    let differs = matches!(resolved, Cow::Owned(_)) && resolved != for_look_up(canonical);
    differs.then(|| resolved.into_owned().into_boxed_str())
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
}
