//! HTML and XML as tags and text, as a browser splits them (HTML standard section 13.2.5), without
//! a tree.

/// A piece of a page.
#[derive(Debug, PartialEq)]
pub(super) enum Piece<'a> {
    /// Text between tags, with its references not yet replaced.
    Text(&'a str),
    /// A start tag, with the text of an element that has text only (script, style, title).
    Open {
        name: String,
        attributes: Vec<(String, String)>,
        raw: Option<&'a str>,
    },
    Close(String),
    Comment(&'a str),
}

/// Attributes of one tag.
const ATTRIBUTES_MAX: usize = 256;
/// Elements whose content is text.
const RAW: [&str; 6] = ["script", "style", "textarea", "title", "xmp", "noembed"];

/// Splits a page into texts, tags and comments, as browsers do.
pub(super) struct Pieces<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Pieces<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Pieces { text, at: 0 }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// What stands before `end`, which is passed over; all that is left without it.
    fn until(&mut self, end: &str) -> &'a str {
        let rest = self.rest();
        let length = rest.find(end);
        self.at += length.map_or(rest.len(), |length| length + end.len());
        &rest[..length.unwrap_or(rest.len())]
    }

    fn open(&mut self) -> Piece<'a> {
        let rest = self.rest();
        let end = rest.find(|c: char| c.is_ascii_whitespace() || matches!(c, '>' | '/'));
        let name = &rest[..end.unwrap_or(rest.len())];
        self.at += name.len();
        let attributes = self.attributes();
        let name = name.to_ascii_lowercase();
        let name = name.rsplit_once(':').map_or(name.as_str(), |(_, local)| local).to_owned();
        let raw = RAW.contains(&name.as_str()).then(|| self.raw(&name));
        Piece::Open { name, attributes, raw }
    }

    /// The content of an element up to its end tag.
    fn raw(&mut self, name: &str) -> &'a str {
        let rest = self.rest();
        let mut from = 0;
        while let Some(at) = rest[from..].find("</") {
            let start = from + at;
            let word = rest[start + 2..].get(..name.len()).unwrap_or_default();
            if word.eq_ignore_ascii_case(name) {
                self.at += start + 2 + name.len();
                self.until(">");
                return &rest[..start];
            }
            from = start + 2;
        }
        self.at = self.text.len();
        rest
    }

    fn attributes(&mut self) -> Vec<(String, String)> {
        let mut attributes = Vec::new();
        loop {
            let rest = self.rest();
            let start = rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '/');
            self.at += rest.len() - start.len();
            match start.chars().next() {
                None => break,
                Some('>') => {
                    self.at += 1;
                    break;
                }
                Some(first) => {
                    let name_end = start[first.len_utf8()..]
                        .find(|c: char| c.is_ascii_whitespace() || matches!(c, '=' | '>' | '/'))
                        .map_or(start.len(), |end| end + first.len_utf8());
                    let name = start[..name_end].to_ascii_lowercase();
                    self.at += name_end;
                    let value = self.value();
                    if attributes.len() < ATTRIBUTES_MAX {
                        attributes.push((name, value));
                    }
                }
            }
        }
        attributes
    }

    /// The value behind an attribute's name, empty without an equals sign.
    fn value(&mut self) -> String {
        let rest = self.rest();
        let Some(value) = rest.trim_ascii_start().strip_prefix('=') else { return String::new() };
        let value = value.trim_ascii_start();
        self.at = self.text.len() - value.len();
        match value.chars().next() {
            Some(quote @ ('"' | '\'')) => {
                self.at += 1;
                let mut buffer = [0; 4];
                decoded(self.until(quote.encode_utf8(&mut buffer)))
            }
            _ => {
                let end = value.find(|c: char| c.is_ascii_whitespace() || c == '>');
                let value = &value[..end.unwrap_or(value.len())];
                self.at += value.len();
                decoded(value)
            }
        }
    }
}

impl<'a> Iterator for Pieces<'a> {
    type Item = Piece<'a>;

    fn next(&mut self) -> Option<Piece<'a>> {
        let rest = self.rest();
        if rest.is_empty() {
            return None;
        }
        let Some(after) = rest.strip_prefix('<') else {
            let end = rest.find('<').unwrap_or(rest.len());
            self.at += end;
            return Some(Piece::Text(&rest[..end]));
        };
        self.at += 1;
        Some(match after.bytes().next() {
            Some(b'!') if after.starts_with("!--") => {
                self.at += 3;
                Piece::Comment(self.until("-->"))
            }
            Some(b'!') if after.starts_with("![CDATA[") => {
                self.at += 8;
                Piece::Text(self.until("]]>"))
            }
            Some(b'!' | b'?') => Piece::Comment(self.until(">")),
            Some(b'/') => {
                self.at += 1;
                let name = self.until(">");
                let end = name.find(|c: char| c.is_ascii_whitespace()).unwrap_or(name.len());
                let name = name[..end].to_ascii_lowercase();
                Piece::Close(name.rsplit(':').next().unwrap_or_default().to_owned())
            }
            Some(b) if b.is_ascii_alphabetic() => self.open(),
            _ => Piece::Text("<"),
        })
    }
}

/// Names of references that stand in text and addresses.
const NAMED: [(&str, char); 18] = [
    ("amp", '&'),
    ("lt", '<'),
    ("gt", '>'),
    ("quot", '"'),
    ("apos", '\''),
    ("nbsp", ' '),
    ("colon", ':'),
    ("sol", '/'),
    ("period", '.'),
    ("lpar", '('),
    ("rpar", ')'),
    ("comma", ','),
    ("Tab", '\t'),
    ("NewLine", '\n'),
    ("equals", '='),
    ("num", '#'),
    ("quest", '?'),
    ("semi", ';'),
];

/// Text with its character references replaced.
pub(super) fn decoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '#');
        let word = &rest[..end.unwrap_or(rest.len())];
        let number = word.strip_prefix('#').and_then(|digits| {
            let hex = digits.strip_prefix(['x', 'X']);
            match hex {
                Some(hex) => u32::from_str_radix(hex, 16),
                None => digits.parse(),
            }
            .ok()
            .and_then(char::from_u32)
        });
        let named = || NAMED.iter().find(|(name, _)| *name == word).map(|(_, c)| *c);
        match number.or_else(named) {
            Some(c) => {
                out.push(c);
                rest = &rest[word.len()..];
                rest = rest.strip_prefix(';').unwrap_or(rest);
            }
            None => out.push('&'),
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_split_as_browsers_do() {
        let page =
            "a<!-- x --><A HREF = 'b&#x3a;c' title=d/e>t</a ><script>if(a<b)'</b>'</SCRIPT >z<";
        let pieces: Vec<Piece<'_>> = Pieces::new(page).collect();
        let attributes =
            vec![("href".to_owned(), "b:c".to_owned()), ("title".to_owned(), "d/e".to_owned())];
        assert_eq!(pieces[2], Piece::Open { name: "a".to_owned(), attributes, raw: None });
        assert_eq!(pieces[4], Piece::Close("a".to_owned()));
        let Piece::Open { raw, .. } = &pieces[5] else { panic!() };
        assert_eq!(*raw, Some("if(a<b)'</b>'"));
        assert_eq!(pieces[6..], [Piece::Text("z"), Piece::Text("<")]);
        assert_eq!(decoded("&lt;&amp;amp;&#65;&bogus;&"), "<&amp;A&bogus;&");
    }
}
