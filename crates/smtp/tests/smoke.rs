//! Random bytes and mangled sessions through every parser of the crate: nothing may panic, loop or
//! grow. Runs on stable Rust what the fuzz target does, from a fixed seed.

/// xorshift64*: small, and the same on every platform.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % n as u64).unwrap()
    }
}

const WORDS: [&[u8]; 40] = [
    b"EHLO x\r\n",
    b"HELO y\r\n",
    b"LHLO z\r\n",
    b"MAIL FROM:<a@b>\r\n",
    b"MAIL FROM:<> SIZE=9 BODY=8BITMIME SMTPUTF8 RET=FULL ENVID=x\r\n",
    b"RCPT TO:<c@d>\r\n",
    b"RCPT TO:<@e,@f:\"g>h\"@i> NOTIFY=NEVER ORCPT=rfc822;x\r\n",
    b"DATA\r\n",
    b"BDAT 5\r\n",
    b"BDAT 3 LAST\r\n",
    b"BDAT 0 LAST\r\n",
    b"RSET\r\n",
    b"STARTTLS\r\n",
    b"AUTH PLAIN AHVzZXIAc2VjcmV0\r\n",
    b"AUTH LOGIN\r\n",
    b"dXNlcg==\r\n",
    b"*\r\n",
    b"QUIT\r\n",
    b".\r\n",
    b"..\r\n",
    b"\r",
    b"\n",
    b"\0",
    b"Subject: x\r\n\r\n",
    b"250-a\r\n",
    b"250 2.0.0 b\r\n",
    b"354 go\r\n",
    b"\xff\xfe",
    b"CHECK SPAMC/1.5\r\n",
    b"TELL SPAMC/1.3\r\nMessage-class: spam\r\nSet: local\r\n",
    b"Content-length: 4\r\nUser: x\r\n\r\nbody",
    b"SPAMD/1.1 0 EX_OK\r\n",
    b"Spam: True ; 5.5 / 5.0\r\n\r\n",
    b"\0\0\0\x0dO\0\0\0\x06\0\0\x01\xff\0\x1f\xff\xff",
    b"\0\0\0\x06M<a@b>",
    b"\0\0\0\x05LA\0b\0\0\0\0\x01N",
    b"\0\0\0\x04Bxyz\0\0\0\x01E",
    b"\0\0\0\x0cCa\x004\0\x19::1\0\xff\0",
    b"\xff\xff\xff\xff",
    b"\r\n",
];

fn conversation(random: &mut Random) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..random.below(24) {
        bytes.extend_from_slice(WORDS[random.below(WORDS.len())]);
    }
    for _ in 0..random.below(3) {
        if !bytes.is_empty() {
            let at = random.below(bytes.len());
            bytes[at] = u8::try_from(random.below(256)).unwrap();
        }
    }
    bytes
}

#[test]
fn nothing_that_a_peer_sends_breaks_a_promise() {
    let mut random = Random(0x6761_756e_746c_6574);
    for round in 0..12_000 {
        let mut bytes = vec![u8::try_from(round % 256).unwrap()];
        bytes.extend(conversation(&mut random));
        crate::everything::ask(&bytes);
    }
}
