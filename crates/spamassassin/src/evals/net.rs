//! Addresses in text.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::LazyLock;

/// A pattern for an IPv4 or IPv6 address in text, the latter perhaps with the prefix `IPv6:`. It
/// has look-around, so it is for [`gauntlet_rules::Pattern`].
pub(super) static ADDRESS: LazyLock<String> = LazyLock::new(|| {
    let byte = r"(?:1\d\d|2[0-4]\d|25[0-5]|[1-9]\d|\d)";
    let v4 = format!(r"{byte}\.{byte}\.{byte}\.{byte}");
    let group = "[a-f0-9]{1,4}";
    let mut forms = vec![format!("(?:{group}:){{6}}{v4}"), format!("(?:{group}:){{7}}{group}")];
    // One form for each position of `::`.
    for left in 0..=7 {
        let head = if left == 0 { ":".to_owned() } else { format!("(?:{group}:){{{left}}}") };
        if left <= 5 {
            forms.push(format!("{head}:(?:{group}:){{0,{}}}{v4}", 5 - left));
        }
        forms.push(format!("{head}(?::{group}){{1,{}}}", 8 - left.max(1)));
    }
    forms.push(format!("(?:{group}:){{1,7}}:"));
    forms.push("::".to_owned());
    let v6 = forms.join("|");
    format!(r"(?:\b(?<!:){v4}\b|(?:IPv6:|(?<![a-f0-9:]))(?:{v6})(?![a-f0-9:]))")
});

/// An IPv4 address as text, if the text is nothing else.
pub(super) fn ipv4(text: &[u8]) -> Option<Ipv4Addr> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Any address as text, if the text is nothing else.
pub(super) fn address(text: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(text).ok()?;
    text.strip_prefix("IPv6:").unwrap_or(text).parse().ok()
}

/// Loopback, link-local, private and shared ranges (RFC 1918, 3927, 5735, 6598).
pub(super) fn is_private_v4(address: Ipv4Addr) -> bool {
    let [a, b, ..] = address.octets();
    address.is_loopback()
        || address.is_private()
        || address.is_link_local()
        || (a == 100 && (64..128).contains(&b))
}

/// Whether an address lies in a range: a whole address, the first octets of one (`192.0.2`), or an
/// address with a prefix length (`2001:db8::/32`).
pub(super) fn in_range(range: &[u8], text: &[u8]) -> bool {
    if text.is_empty() {
        return false;
    }
    if ipv4(range).is_some() {
        return range == text;
    }
    if range.iter().all(|b| b.is_ascii_digit() || *b == b'.') {
        let end = range.iter().rposition(|&b| b != b'.').map_or(0, |last| last + 1);
        return text.strip_prefix(&range[..end]).is_some_and(|rest| rest.starts_with(b"."));
    }
    let slash = memchr::memchr(b'/', range).unwrap_or(range.len());
    let (Some(base), Some(subject)) = (address(&range[..slash]), address(text)) else {
        return false;
    };
    let digits = range.get(slash + 1..).and_then(|d| std::str::from_utf8(d).ok());
    let bits: Option<u32> = digits.and_then(|d| d.parse().ok());
    match (base, subject) {
        (IpAddr::V4(a), IpAddr::V4(b)) => {
            let shift = 32 - bits.unwrap_or(32).min(32);
            u64::from(a.to_bits()) >> shift == u64::from(b.to_bits()) >> shift
        }
        (IpAddr::V6(a), IpAddr::V6(b)) => {
            let shift = 128 - bits.unwrap_or(128).min(128);
            shift == 128 || a.to_bits() >> shift == b.to_bits() >> shift
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gauntlet_rules::pattern::Pattern;

    #[test]
    fn addresses_in_text() {
        let pattern = Pattern::new(&format!(r"^\[{}\]$", *ADDRESS)).unwrap();
        for ok in [
            "192.0.2.1",
            "2001:db8::1",
            "::1",
            "::ffff:192.0.2.1",
            "IPv6:fe80::a:b",
            "1:2:3:4:5:6:7:8",
            "1::",
            "2603:10a6:802:b::13",
        ] {
            assert!(pattern.is_match(format!("[{ok}]").as_bytes()), "{ok}");
        }
        for bad in ["192.0.2.256", "1:2", "2001:db8::1::2", "x", "01.2.3.4"] {
            assert!(!pattern.is_match(format!("[{bad}]").as_bytes()), "{bad}");
        }
    }

    #[test]
    fn ranges() {
        for (range, text, inside) in [
            ("192.0.2.1", "192.0.2.1", true),
            ("192.0.2.1", "192.0.2.10", false),
            ("192.0.2", "192.0.2.10", true),
            ("192.0.2.", "192.0.20.1", false),
            ("192.0.2.0/24", "192.0.2.77", true),
            ("0.0.0.0/0", "192.0.2.77", true),
            ("2001:db8::/32", "2001:db8:1::5", true),
            ("::/0", "2001:db8:1::5", true),
            ("2001:db8::/32", "192.0.2.77", false),
            ("2001:db8::1", "2001:db8::1", true),
            ("x", "192.0.2.77", false),
        ] {
            assert_eq!(in_range(range.as_bytes(), text.as_bytes()), inside, "{range} {text}");
        }
    }

    #[test]
    fn private_ranges() {
        assert!(is_private_v4(Ipv4Addr::new(100, 64, 0, 1)));
        assert!(is_private_v4(Ipv4Addr::new(172, 31, 0, 1)));
        assert!(!is_private_v4(Ipv4Addr::new(172, 32, 0, 1)));
        assert!(ipv4(b"1.2.3.04").is_none());
        assert_eq!(address(b"IPv6:::1"), "::1".parse().ok());
    }
}
