//! A walk through messages with odd bytes from a fixed seed, over all ways in: what is judged
//! equals what is sent. The fuzz target `ingress` asks the same for longer.

/// Messages that are made and sent.
const ROUNDS: usize = 6_000;
/// Of them files, each of which is scanned several times.
const FILES: usize = 60;

/// What messages are put together of.
const PIECES: [&[u8]; 30] = [
    b"\0",
    b"\r",
    b"\n",
    b"\r\n",
    b"\r\n",
    b"\r\n",
    b".",
    b"..",
    b"\r\n.\r\n",
    b"\n.\n",
    b"\r\n\r\n",
    b"\r\r\n",
    b"|",
    b" ",
    b"\t",
    b"\xe9",
    b"Subject: hello",
    b"X-Gauntlet-Class: ham",
    b"X-Gauntlet-Class : ham",
    b"X-Gauntlet-Class\r\n : ham",
    b"Authentication-Results: mx.test; dkim=pass",
    b"Content-Type: multipart/mixed; boundary=b",
    b"Content-Type: text/html",
    b"--b",
    b"--b--",
    b"name=setup.exe",
    b"MAIL FROM:<x@y>",
    b"QUIT",
    b"BDAT 3 LAST\r\n",
    b"XJS*C4JDBQADN1.NSBN3*2IDNEN*GTUBE-STANDARD-ANTI-UBE-TEST-EMAIL*C.34X",
];

#[test]
fn what_is_judged_equals_what_is_sent() {
    let mut state: u64 = 0x6761_756e_746c_6574;
    let mut below = |n: usize| {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        usize::try_from(state.wrapping_mul(0x2545_F491_4F6C_DD1D) % n.max(1) as u64).unwrap()
    };
    for round in 0..ROUNDS {
        let way = if round < FILES { 3 } else { below(3) };
        let choice = below(32) << 3 | way << 1 | below(2);
        let mut input = vec![u8::try_from(choice).unwrap()];
        // Most messages have no odd byte, or there would be nothing taken to be compared.
        let first = if below(3) == 0 { 0 } else { 3 };
        for _ in 0..below(16) {
            input.extend_from_slice(PIECES[first + below(PIECES.len() - first)]);
        }
        if below(4) == 0 {
            let at = 1 + below(input.len());
            let odd = [&b"\0"[..], b"\r", b"\n", b"\r\n"][below(4)];
            input.splice(at.min(input.len())..at.min(input.len()), odd.iter().copied());
        }
        let shown = input.clone();
        let asked = std::panic::catch_unwind(move || crate::ingress_bytes::ask(&input));
        assert!(asked.is_ok(), "round {round}: {}", shown.escape_ascii());
    }
}
