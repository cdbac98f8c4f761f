//! Names of servers in front of a domain that squidGuard takes no notice of.

/// A host without a leading `www.`, `web.` or `ftp.`, each perhaps with digits. At least two labels
/// stay: `www.example` is a domain, not a server of one.
pub(crate) fn without(host: &str) -> &str {
    match host.split_once('.') {
        Some((label, rest)) if is_one(label) && rest.contains('.') => rest,
        _ => host,
    }
}

/// Whether a label is such a name.
pub(crate) fn is_one(label: &str) -> bool {
    let digits = ["www", "web", "ftp"].iter().find_map(|name| label.strip_prefix(name));
    digits.is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_digit()))
}
