//! Macros in SPF records (RFC 7208 section 7).

use std::net::IpAddr;

/// What is wrong with a text with macros; completes a sentence that begins with the term.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MacroError {
    /// It ends in no domain.
    #[error("has no domain")]
    NoDomain,
    /// `%{` that no `}` closes.
    #[error("has a macro without end")]
    Unterminated,
    /// `%` before something else than `{`, `%`, `_` and `-`.
    #[error("has a lone %")]
    LonePercent,
    /// What is between the braces is no macro.
    #[error("has the unknown macro %{{{0}}}")]
    Unknown(String),
}

/// A domain-spec with macros (RFC 7208 section 7).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    pieces: Vec<Piece>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    Macro { letter: u8, keep: usize, reverse: bool, escape: bool, delimiters: Vec<u8> },
}

/// What macros stand for.
#[derive(Debug)]
pub struct Values<'a> {
    /// `<sender>` with a local part.
    pub sender: &'a str,
    /// The domain that is checked at the moment.
    pub domain: &'a str,
    /// Address of the SMTP client.
    pub client: IpAddr,
    /// What it called itself.
    pub helo: &'a str,
    /// Its validated name; `unknown` if there is none.
    pub validated: &'a str,
    /// Host name of this node, for `%{r}`.
    pub host: &'a str,
    /// Unix time in seconds.
    pub now: i64,
}

impl Template {
    /// Reads a domain: text that ends in a top-level label or a macro.
    ///
    /// # Errors
    /// What is wrong.
    pub fn parse(text: &str) -> Result<Self, MacroError> {
        let template = Self::parse_text(text, false)?;
        let fine = match template.pieces.last() {
            Some(Piece::Macro { .. }) => true,
            Some(Piece::Text(text)) => ends_in_top_label(text),
            None => false,
        };
        if fine { Ok(template) } else { Err(MacroError::NoDomain) }
    }

    /// Reads any text; `c`, `r` and `t` stand for something in explanations only.
    ///
    /// # Errors
    /// What is wrong.
    pub fn parse_text(text: &str, explains: bool) -> Result<Self, MacroError> {
        let mut pieces = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some(at) = rest.find('%') {
            plain.push_str(&rest[..at]);
            rest = &rest[at + 1..];
            match rest.as_bytes().first() {
                Some(b'%') => plain.push('%'),
                Some(b'_') => plain.push(' '),
                Some(b'-') => plain.push_str("%20"),
                Some(b'{') => {
                    let end = rest.find('}').ok_or(MacroError::Unterminated)?;
                    if !plain.is_empty() {
                        pieces.push(Piece::Text(std::mem::take(&mut plain)));
                    }
                    pieces.push(read_macro(&rest[1..end], explains)?);
                    rest = &rest[end..];
                }
                _ => return Err(MacroError::LonePercent),
            }
            rest = rest.get(1..).unwrap_or_default();
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            pieces.push(Piece::Text(plain));
        }
        Ok(Template { pieces })
    }

    /// The text with these values.
    pub fn expand(&self, values: &Values<'_>) -> String {
        let mut text = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(plain) => text.push_str(plain),
                Piece::Macro { letter, keep, reverse, escape, delimiters } => {
                    let value = values.of(*letter);
                    let is_delimiter =
                        |c: char| u8::try_from(c).is_ok_and(|b| delimiters.contains(&b));
                    let mut parts: Vec<&str> = value.split(is_delimiter).collect();
                    if *reverse {
                        parts.reverse();
                    }
                    let from = parts.len().saturating_sub(*keep);
                    let joined = parts.get(from..).unwrap_or_default().join(".");
                    if *escape { escape_into(&joined, &mut text) } else { text.push_str(&joined) }
                }
            }
        }
        text
    }

    /// The same as a name: of at most 253 characters, cut at dots from the left (section 7.3).
    pub fn expand_name(&self, values: &Values<'_>) -> String {
        let text = self.expand(values);
        let mut name = text.strip_suffix('.').unwrap_or(&text);
        while name.len() > 253 {
            name = name.split_once('.').map_or("", |(_, parent)| parent);
        }
        name.to_owned()
    }

    /// It needs the client's validated name.
    pub fn needs_validated_name(&self) -> bool {
        self.pieces.iter().any(|p| matches!(p, Piece::Macro { letter: b'p', .. }))
    }
}

impl Values<'_> {
    fn of(&self, letter: u8) -> String {
        let (local, domain) = self.sender.rsplit_once('@').unwrap_or(("", self.sender));
        match letter {
            b's' => self.sender.to_owned(),
            b'l' => local.to_owned(),
            b'o' => domain.to_owned(),
            b'd' => self.domain.to_owned(),
            b'i' => dotted(self.client),
            b'p' => self.validated.to_owned(),
            b'v' => match self.client {
                IpAddr::V4(_) => "in-addr".to_owned(),
                IpAddr::V6(_) => "ip6".to_owned(),
            },
            b'h' => self.helo.to_owned(),
            b'c' => self.client.to_string(),
            b'r' => self.host.to_owned(),
            b't' => self.now.to_string(),
            _ => String::new(),
        }
    }
}

/// An IPv4 address as usual, an IPv6 address as 32 digits with dots between.
fn dotted(address: IpAddr) -> String {
    match address {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => {
            let digits = format!("{:032x}", ip.to_bits());
            let mut text = String::with_capacity(63);
            for digit in digits.chars() {
                if !text.is_empty() {
                    text.push('.');
                }
                text.push(digit);
            }
            text
        }
    }
}

/// `letter [digits] ["r"] *delimiter`.
fn read_macro(text: &str, explains: bool) -> Result<Piece, MacroError> {
    let wrong = || MacroError::Unknown(text.to_owned());
    let first = *text.as_bytes().first().ok_or_else(wrong)?;
    let letter = first.to_ascii_lowercase();
    let known: &[u8] = if explains { b"slodiphvcrt" } else { b"slodiphv" };
    if !known.contains(&letter) {
        return Err(wrong());
    }
    let rest = &text[1..];
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (digits, rest) = rest.split_at(end);
    let keep = match digits {
        "" => usize::MAX,
        digits => digits.parse().ok().filter(|n: &usize| *n > 0).ok_or_else(wrong)?,
    };
    let (reverse, rest) = match rest.strip_prefix(['r', 'R']) {
        Some(rest) => (true, rest),
        None => (false, rest),
    };
    if !rest.bytes().all(|b| b".-+,/_=".contains(&b)) {
        return Err(wrong());
    }
    let delimiters = if rest.is_empty() { vec![b'.'] } else { rest.as_bytes().to_vec() };
    Ok(Piece::Macro { letter, keep, reverse, escape: first.is_ascii_uppercase(), delimiters })
}

/// The text ends in a dot and a label that is no number.
fn ends_in_top_label(text: &str) -> bool {
    let text = text.strip_suffix('.').unwrap_or(text);
    let Some((_, label)) = text.rsplit_once('.') else { return false };
    let fine = label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    let number = label.bytes().all(|b| b.is_ascii_digit());
    fine && !number && !label.starts_with('-') && !label.ends_with('-')
}

/// Escapes as in URIs: all but unreserved characters (RFC 3986 section 2.3).
fn escape_into(value: &str, text: &mut String) {
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of RFC 7208 section 7.4.
    #[test]
    fn examples_of_the_rfc() {
        let values = |client: &str| Values {
            sender: "strong-bad@email.example.com",
            domain: "email.example.com",
            client: client.parse().unwrap(),
            helo: "mx.example.org",
            validated: "mx.example.org",
            host: "here.example",
            now: 0,
        };
        for (text, expected) in [
            ("%{s}", "strong-bad@email.example.com"),
            ("%{o}", "email.example.com"),
            ("%{d4}", "email.example.com"),
            ("%{d2}", "example.com"),
            ("%{d1}", "com"),
            ("%{dr}", "com.example.email"),
            ("%{d2r}", "example.email"),
            ("%{l}", "strong-bad"),
            ("%{l-}", "strong.bad"),
            ("%{lr-}", "bad.strong"),
            ("%{l1r-}", "strong"),
            ("%{ir}.%{v}._spf.%{d2}", "3.2.0.192.in-addr._spf.example.com"),
            ("%{lr-}.lp._spf.%{d2}", "bad.strong.lp._spf.example.com"),
            ("%{ir}.%{v}.%{l1r-}.lp._spf.%{d2}", "3.2.0.192.in-addr.strong.lp._spf.example.com"),
            ("%{d2}.trusted-domains.example.net", "example.com.trusted-domains.example.net"),
            ("%{S}%_%%%-", "strong-bad%40email.example.com %%20"),
        ] {
            let template = Template::parse_text(text, false).unwrap();
            assert_eq!(template.expand(&values("192.0.2.3")), expected, "{text}");
        }
        let template = Template::parse_text("%{ir}.%{v}._spf.%{d2}", false).unwrap();
        assert_eq!(
            template.expand(&values("2001:db8::cb01")),
            "1.0.b.c.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6._spf.example.com"
        );
    }

    #[test]
    fn long_names_lose_their_left() {
        let template = Template::parse(&format!("{}%{{d}}", "abcdefgh.".repeat(40))).unwrap();
        let values = Values {
            sender: "a@b",
            domain: "example.com",
            client: "192.0.2.3".parse().unwrap(),
            helo: "",
            validated: "unknown",
            host: "",
            now: 0,
        };
        let name = template.expand_name(&values);
        assert!(
            name.len() <= 253 && name.starts_with("abcdefgh.") && name.ends_with("example.com")
        );
    }
}
