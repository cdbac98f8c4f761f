//! Domains in addresses.

/// The last two labels of an address's domain (all of it if it has fewer); `None` without a domain.
pub(super) fn second_level(address: &[u8]) -> Option<&[u8]> {
    let at = memchr::memrchr(b'@', address)?;
    let domain = &address[at + 1..];
    if domain.is_empty() {
        return None;
    }
    let mut dots = memchr::memrchr_iter(b'.', domain);
    let (Some(last), Some(second)) = (dots.next(), dots.next()) else { return Some(domain) };
    // A domain with empty labels stays whole.
    let is_whole = second == 0 || second + 1 == last || last + 1 == domain.len();
    Some(if is_whole { domain } else { &domain[second + 1..] })
}

#[cfg(test)]
mod tests {
    use super::second_level;

    #[test]
    fn last_two_labels() {
        for (address, domain) in [
            ("a@b.example.com", Some("example.com")),
            ("a@example.com", Some("example.com")),
            ("a@x@local", Some("local")),
            ("a@b..com", Some("b..com")),
            ("a@", None),
            ("a", None),
        ] {
            assert_eq!(second_level(address.as_bytes()), domain.map(str::as_bytes), "{address}");
        }
    }
}
