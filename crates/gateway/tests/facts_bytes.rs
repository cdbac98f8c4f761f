//! Any bytes as SPF, DKIM and DMARC records, as macros and as headers: no panic. The fuzz target
//! `facts_records` asks the same for longer.

/// Pieces that the readers react to.
const PIECES: [&str; 24] = [
    "v=spf1 ",
    "v=DMARC1; ",
    "v=DKIM1; ",
    "p=",
    "k=rsa; ",
    "a:",
    "mx/",
    "//64",
    "ip4:",
    "ip6:",
    "%{",
    "}",
    "%{ir}",
    "%{d2}",
    "exists:",
    "redirect=",
    "all ",
    "-",
    ";",
    "\r\n",
    "\r\n\r\n",
    "Authentication-Results: ",
    "MIGfMA0GCSqGSIb3DQEB",
    "\u{fffd}",
];

#[test]
fn any_bytes() {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for _ in 0..20_000 {
        let mut input = Vec::new();
        for _ in 0..next() % 12 {
            match next() % 3 {
                0 => input.push((next() & 255) as u8),
                _ => {
                    let piece = PIECES[(next() % PIECES.len() as u64) as usize];
                    input.extend_from_slice(piece.as_bytes());
                }
            }
        }
        crate::everything::ask(&input);
    }
}
