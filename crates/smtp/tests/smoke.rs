//! Random bytes and mangled conversations through every parser of the crate: nothing may panic, loop
//! or grow. The stable sister of the fuzz target, from a fixed seed.

use std::sync::Arc;

use gauntlet_smtp::{
    Client, ClientConfig, ClientEvent, Command, DataDecoder, Event, Features, Outgoing,
    OutgoingRecipient, Reply, ReplyReader, Session, SessionConfig, SessionLimits,
};

/// xorshift64*: small, and the same everywhere.
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

const WORDS: [&[u8]; 28] = [
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

fn serve(session: &mut Session, bytes: &[u8], random: &mut Random) {
    let mut out = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let (mut piece, tail) = rest.split_at(1 + random.below(rest.len()));
        rest = tail;
        let mut turns = 0;
        loop {
            turns += 1;
            assert!(turns <= 2 * bytes.len() + 2, "the session makes no progress");
            let mut event = Some(session.next(&mut piece, &mut out));
            let mut done = false;
            while let Some(e) = event.take() {
                event = match e {
                    Event::More => {
                        done = true;
                        None
                    }
                    Event::Close(_) => return,
                    Event::Mail(_) | Event::Rcpt(_) => {
                        let code = [250, 450, 550][random.below(3)];
                        let class = u8::try_from(code / 100).unwrap();
                        session.answer(&Reply::new(code, (class, 0, 0), "x"), &mut out)
                    }
                    Event::Data if random.below(4) == 0 => {
                        session.refuse_data(Reply::new(452, (4, 3, 1), "full"), &mut out)
                    }
                    Event::Data => session.start_body(b"Received: x\r\n".to_vec(), &mut out),
                    Event::Message => {
                        let message = session.take_message().expect("a message");
                        assert!(message.body.len() <= bytes.len() + 16);
                        assert!(!message.recipients.is_empty());
                        session.answer_message(&[Reply::new(250, (2, 0, 0), "x")], &mut out);
                        None
                    }
                    Event::Auth { .. } => session.answer_auth(random.below(2) == 0, &mut out),
                    Event::StartTls => {
                        session.tls_started();
                        None
                    }
                };
            }
            if done {
                break;
            }
        }
    }
}

#[test]
fn sessions_survive_anything() {
    let mut random = Random(0x6761_756e_746c_6574);
    for round in 0..4_000 {
        let config = SessionConfig {
            host: "mx.test".into(),
            limits: SessionLimits { message_bytes_max: 64, ..SessionLimits::default() },
            features: Features {
                starttls: round % 2 == 0,
                auth: true,
                auth_required: round % 5 == 0,
                lmtp: round % 7 == 0,
            },
        };
        let mut session = Session::new(Arc::new(config), round % 3 == 0);
        let bytes = conversation(&mut random);
        serve(&mut session, &bytes, &mut random);
        let _ = Command::parse(&bytes);
        let _ = DataDecoder::default().decode(&bytes, &mut Vec::new());
        let mut stuffed = Vec::new();
        gauntlet_smtp::stuff(&bytes, &mut stuffed);
        let _ = ReplyReader::default().read(&mut &bytes[..]);
    }
}

#[test]
fn clients_survive_anything() {
    let mut random = Random(0x636c_6965_6e74_2121);
    for _ in 0..4_000 {
        let mut client = Client::new(ClientConfig { tls: true, ..ClientConfig::default() }, false);
        let bytes = conversation(&mut random);
        let (mut input, mut out) = (&bytes[..], Vec::new());
        let recipient = OutgoingRecipient { to: "c@d".into(), ..OutgoingRecipient::default() };
        let message = Outgoing { recipients: vec![recipient; 2], ..Outgoing::default() };
        loop {
            match client.next(&mut input, &mut out) {
                Ok(ClientEvent::Ready) => client.send(message.clone(), &mut out),
                Ok(ClientEvent::StartTls) => client.tls_started(&mut out),
                Ok(ClientEvent::Body) => gauntlet_smtp::stuff(&bytes, &mut out),
                Ok(ClientEvent::Done(replies)) => {
                    assert_eq!(replies.len(), 2);
                    client.send(message.clone(), &mut out);
                }
                Ok(ClientEvent::More) | Err(_) => break,
            }
        }
    }
}
