//! Templates of `askdns` rules: names with tags, `_SENDERDOMAIN_.list.example`.

/// A piece of an `askdns` template.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Piece {
    Text(String),
    Tag(String),
    /// `HEADER(selector)`: the values of a header field.
    Header(String),
}

/// The pieces of `_TAG_.rest`. Tags are upper-case letters and digits, with single `_` between;
/// `_HEADER(Reply-To:addr:host)_` is a header field.
pub(super) fn template(text: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut plain = String::new();
    let mut rest = text.trim_end_matches('.');
    while let Some(at) = rest.find('_') {
        let (before, tail) = rest.split_at(at);
        plain.push_str(before);
        let inner = tail.get(1..).unwrap_or_default();
        match tag(inner) {
            Some((piece, bytes)) => {
                if !plain.is_empty() {
                    pieces.push(Piece::Text(std::mem::take(&mut plain)));
                }
                pieces.push(piece);
                rest = inner.get(bytes..).unwrap_or_default();
            }
            None => {
                plain.push('_');
                rest = inner;
            }
        }
    }
    plain.push_str(rest);
    if !plain.is_empty() {
        pieces.push(Piece::Text(plain));
    }
    pieces
}

/// The tag at the start of `text`, and its length with the `_` after it.
fn tag(text: &str) -> Option<(Piece, usize)> {
    if let Some(inner) = text.strip_prefix("HEADER(") {
        let end = inner.find(")_")?;
        let selector = inner.get(..end)?.to_owned();
        return Some((Piece::Header(selector), "HEADER(".len() + end + 2));
    }
    let is_part = |b: &u8| b.is_ascii_uppercase() || b.is_ascii_digit() || *b == b'_';
    let run = text.bytes().take_while(is_part).count();
    let run = text.get(..run)?;
    // The longest that is a tag.
    let ends = run.match_indices('_').map(|(at, _)| at).rev();
    let name = ends.filter_map(|end| run.get(..end)).find(|name| is_tag(name))?;
    Some((Piece::Tag(name.to_owned()), name.len() + 1))
}

fn is_tag(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_uppercase()) && text.split('_').all(|w| !w.is_empty())
}

/// Tags that are supported.
const TAGS: [&str; 12] = [
    "AUTHORDOMAIN",
    "DKIMDOMAIN",
    "DKIMSELECTOR",
    "FIRSTTRUSTEDIP",
    "FIRSTTRUSTEDREVIP",
    "LASTEXTERNALHELO",
    "LASTEXTERNALIP",
    "LASTEXTERNALRDNS",
    "LASTEXTERNALREVIP",
    "SENDERDOMAIN",
    "URIDOMAINS",
    "URIHOSTS",
];

/// Tags of an `askdns` query that are not supported.
pub(crate) fn unknown_tags(query: &str) -> Vec<String> {
    let tags = template(query).into_iter().filter_map(|piece| match piece {
        Piece::Tag(tag) if !TAGS.contains(&tag.as_str()) => Some(tag),
        _ => None,
    });
    tags.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates() {
        let tag = |t: &str| Piece::Tag(t.to_owned());
        let text = |t: &str| Piece::Text(t.to_owned());
        let header = Piece::Header("Reply-To:addr:host".to_owned());
        assert_eq!(template("_AUTHORDOMAIN_.a.b."), [tag("AUTHORDOMAIN"), text(".a.b")]);
        assert_eq!(template("_dmarc._SENDERDOMAIN_"), [text("_dmarc."), tag("SENDERDOMAIN")]);
        assert_eq!(template("a_b_c"), [text("a_b_c")]);
        assert_eq!(template("_A__B_"), [tag("A"), tag("B")]);
        assert_eq!(template("_A_B_.c"), [tag("A_B"), text(".c")]);
        assert_eq!(template("_HEADER(Reply-To:addr:host)_.c"), [header, text(".c")]);
        assert_eq!(template("_HEADER(X"), [text("_HEADER(X")]);
        assert_eq!(template("x_"), [text("x_")]);
        assert_eq!(unknown_tags("_ASN_.x._SENDERDOMAIN_"), ["ASN"]);
    }
}
