//! Any bytes as a query, and as the answer of a resolver. Shared with the fuzz target
//! `fuzz/fuzz_targets/proxy_dns.rs`.

use gauntlet_proxy::dns::answer_bytes;

/// Feeds the bytes to the DNS service: the first byte says where the answer begins.
pub(crate) fn feed(input: &[u8]) {
    let Some((at, rest)) = input.split_first() else { return };
    let (query, upstream) = rest.split_at(usize::from(*at).min(rest.len()));
    if let Some(answer) = answer_bytes(query, upstream) {
        // An answer to datagrams: a number, and the bit that says that it is one.
        assert!((12..=1_232).contains(&answer.len()), "{} bytes", answer.len());
        assert_eq!(answer.get(..2), query.get(..2));
        assert!(answer[2] & 0x80 != 0);
    }
}
