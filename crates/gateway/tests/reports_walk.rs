//! A walk through reports to senders, from a fixed seed; the fuzz target `reports` asks the same
//! for longer.

const PIECES: [&str; 18] = [
    "ann@example.org",
    "bob@example.net",
    "|",
    "|",
    "|",
    "\r\n",
    "\n",
    "\r",
    "\r\n\r\n",
    "Bcc: eve@example.com",
    "550 5.1.1 no such user",
    "rfc822;bob@example.net",
    "=_gauntlet_REPORT",
    "--=_gauntlet_REPORT--",
    "\0",
    "é",
    "\u{202e}",
    "Subject: hello",
];

#[test]
fn no_report_can_be_injected_into() {
    let mut state: u64 = 0x6761_756e_746c_6574;
    let mut below = |n: usize| {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        usize::try_from(state.wrapping_mul(0x2545_F491_4F6C_DD1D) % n as u64).unwrap()
    };
    for _ in 0..3_000 {
        let count = below(20);
        let text: String = (0..count).map(|_| PIECES[below(PIECES.len())]).collect();
        crate::reports_bytes::ask(text.as_bytes());
    }
}
