//! Paths and mailboxes (RFC 5321 section 4.1.2, RFC 6531 section 3.3).

/// Longest mailbox accepted, in bytes. RFC 5321 asks for 256; bounce addresses that encode the
/// recipient go over it.
pub const MAILBOX_BYTES_MAX: usize = 320;
/// Longest domain, in bytes (RFC 1035 section 2.3.4).
pub const DOMAIN_BYTES_MAX: usize = 255;

/// A path between angle brackets at the start of `input`: the mailbox without brackets and source
/// route, and what follows. `<>` gives an empty mailbox.
///
/// Returns none if there is no well-formed path. Source routes are read and dropped, as RFC 5321
/// appendix C asks.
pub fn path(input: &[u8]) -> Option<(&[u8], &[u8])> {
    let inside = input.strip_prefix(b"<")?;
    let end = closing_bracket(inside)?;
    let (content, rest) = (inside.get(..end)?, inside.get(end + 1..)?);
    let mailbox = match content.first() {
        Some(b'@') => {
            let colon = content.iter().position(|&b| b == b':')?;
            let route = content.get(..colon)?;
            if !route.split(|&b| b == b',').all(|hop| hop.strip_prefix(b"@").is_some_and(is_domain))
            {
                return None;
            }
            content.get(colon + 1..)?
        }
        _ => content,
    };
    Some((mailbox, rest))
}

/// Index of the `>` that ends a path; a `>` inside a quoted string does not count.
fn closing_bracket(input: &[u8]) -> Option<usize> {
    let mut quoted = false;
    let mut escaped = false;
    for (i, &b) in input.iter().enumerate().take(2 * MAILBOX_BYTES_MAX + DOMAIN_BYTES_MAX) {
        match b {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'>' if !quoted => return Some(i),
            _ => {}
        }
    }
    None
}

/// The text is a mailbox: local part, `@`, domain or address literal. Characters outside ASCII are
/// well-formed here; whether they are allowed is for SMTPUTF8 to say.
pub fn is_mailbox(text: &[u8]) -> bool {
    let Some((local, domain)) = split(text) else { return false };
    text.len() <= MAILBOX_BYTES_MAX && is_local_part(local) && is_domain(domain)
}

/// Local part and domain, split at the last `@`.
pub fn split(mailbox: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = mailbox.iter().rposition(|&b| b == b'@')?;
    Some((mailbox.get(..at)?, mailbox.get(at + 1..)?))
}

/// The mailbox with its local part in canonical form (RFC 5321 section 4.1.2): `"ann"@b` and
/// `"a\nn"@b` become `ann@b`, so that lists, limits and routes treat all spellings as one mailbox.
/// A local part that is no Dot-string stays quoted, with backslashes before `"` and `\` only, so
/// that the result is a valid path wherever the input was one. A mailbox that is not quoted is
/// returned unchanged; so are dots that a Dot-string must not have (`a..b@c`), which some carriers
/// handed out.
pub fn canonical(mailbox: &str) -> std::borrow::Cow<'_, str> {
    use std::borrow::Cow;
    let Some((local, domain)) = mailbox.rsplit_once('@') else { return Cow::Borrowed(mailbox) };
    let inner = local.strip_prefix('"').and_then(|l| l.strip_suffix('"'));
    let Some(inner) = inner.filter(|_| is_local_part(local.as_bytes())) else {
        return Cow::Borrowed(mailbox);
    };
    let (mut content, mut escaped) = (String::with_capacity(inner.len()), false);
    for c in inner.chars() {
        if c == '\\' && !escaped {
            escaped = true;
        } else {
            escaped = false;
            content.push(c);
        }
    }
    let is_dot_string =
        content.split('.').all(|atom| !atom.is_empty() && atom.bytes().all(is_atext));
    if is_dot_string {
        return Cow::Owned(format!("{content}@{domain}"));
    }
    let content = content.replace('\\', "\\\\").replace('"', "\\\"");
    Cow::Owned(format!("\"{content}\"@{domain}"))
}

/// The domain of a mailbox in lower case; empty if there is none.
pub fn domain_of(mailbox: &str) -> String {
    mailbox.rsplit_once('@').map(|(_, domain)| domain.to_ascii_lowercase()).unwrap_or_default()
}

/// Dot-string or quoted string. Consecutive and trailing dots are accepted: mobile carriers have
/// handed out such addresses, and a gateway has to relay them.
fn is_local_part(local: &[u8]) -> bool {
    if let Some(inner) = local.strip_prefix(b"\"") {
        let Some(inner) = inner.strip_suffix(b"\"") else { return false };
        let mut escaped = false;
        for &b in inner {
            match b {
                0..=31 | 127 => return false,
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => return false,
                _ => {}
            }
        }
        return !escaped;
    }
    !local.is_empty() && local.iter().all(|&b| is_atext(b) || b == b'.')
}

fn is_atext(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b >= 0x80 || b"!#$%&'*+-/=?^_`{|}~".contains(&b)
}

/// Labels of letters, digits, `-` and `_` (the last is not in the RFC, but in the DNS), or an
/// address literal.
pub fn is_domain(domain: &[u8]) -> bool {
    if domain.is_empty() || domain.len() > DOMAIN_BYTES_MAX {
        return false;
    }
    if let Some(inner) = domain.strip_prefix(b"[") {
        return inner.strip_suffix(b"]").is_some_and(is_literal);
    }
    domain.split(|&b| b == b'.').all(|label| {
        (1..=63).contains(&label.len())
            && label
                .iter()
                .all(|&b| b.is_ascii_alphanumeric() || b >= 0x80 || b == b'-' || b == b'_')
    })
}

/// The content of an address literal: `[192.0.2.1]`, `[IPv6:2001:db8::1]`.
fn is_literal(inner: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(inner) else { return false };
    match text.get(..5) {
        Some(tag) if tag.eq_ignore_ascii_case("IPv6:") => {
            text.get(5..).is_some_and(|rest| rest.parse::<std::net::Ipv6Addr>().is_ok())
        }
        _ => text.parse::<std::net::Ipv4Addr>().is_ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn well_formed_and_malformed_mailboxes() {
        for good in [
            "a@b",
            "user.name+tag@mail.example.org",
            "\"a b\\\"c\"@example.org",
            "x@[192.0.2.1]",
            "x@[IPv6:2001:db8::1]",
            "a..b.@docomo.example",
            "dömi@exämple.org",
            "under_score@_dmarc.example.org",
        ] {
            assert!(is_mailbox(good.as_bytes()), "{good}");
        }
        for bad in [
            "",
            "a",
            "@b",
            "a@",
            "a b@c",
            "a@b..c",
            "a@[1.2.3]",
            "\"a@b",
            "\"a\"b@c",
            "a@b\0",
            "a\r@b",
            "<a@b",
            "a@-\n",
        ] {
            assert!(!is_mailbox(bad.as_bytes()), "{bad:?}");
        }
    }

    #[test]
    fn spellings_of_one_mailbox_have_one_form() {
        for (given, form) in [
            (r#"ann@ours.example"#, r#"ann@ours.example"#),
            (r#""ann"@ours.example"#, r#"ann@ours.example"#),
            (r#""a\nn"@ours.example"#, r#"ann@ours.example"#),
            (r#""\a\n\n"@Ours.example"#, r#"ann@Ours.example"#),
            (r#""a.n\.n"@[192.0.2.1]"#, r#"a.n.n@[192.0.2.1]"#),
            (r#""\d\ö"@x"#, r#"dö@x"#),
            (r#""a b"@x"#, r#""a b"@x"#),
            (r#""a\ b"@x"#, r#""a b"@x"#),
            (r#""a\"\\\b"@x"#, r#""a\"\\b"@x"#),
            (r#""bo\@ss"@x"#, r#""bo@ss"@x"#),
            (r#""u\%other.net"@x"#, r#"u%other.net@x"#),
            (r#""a\..b"@x"#, r#""a..b"@x"#),
            (r#"".a"@x"#, r#"".a"@x"#),
            (r#"a..b.@x"#, r#"a..b.@x"#),
            (r#"""@x"#, r#"""@x"#),
            (r#""a>\b"@x"#, r#""a>b"@x"#),
            ("", ""),
            ("postmaster", "postmaster"),
            (r#""a"b"@x"#, r#""a"b"@x"#),
        ] {
            let found = canonical(given);
            assert_eq!(found, form, "{given}");
            assert_eq!(canonical(&found), form, "twice: {given}");
            assert_eq!(is_mailbox(given.as_bytes()), is_mailbox(form.as_bytes()), "{given}");
        }
    }

    #[test]
    fn source_routes_are_dropped_and_quotes_respected() {
        assert_eq!(path(b"<@one,@two:joe@three> X"), Some((&b"joe@three"[..], &b" X"[..])));
        assert_eq!(path(b"<\"a>b\"@c>"), Some((&b"\"a>b\"@c"[..], &b""[..])));
        assert_eq!(path(b"<>"), Some((&b""[..], &b""[..])));
        assert_eq!(path(b"<a@b"), None);
        assert_eq!(path(b"a@b"), None);
    }
}
