//! SMTP and LMTP: a conversation of any number of messages, pipelined where the server allows it.

use gauntlet_smtp::{Client, ClientConfig, ClientEvent, Outgoing, OutgoingRecipient, dot_stuff};

use super::wire::{Failure, Link, Outcome, Prepared};

/// Name that the client gives in EHLO.
const HELO: &str = "bench.gauntlet.example";

/// The message as it goes over the wire after DATA.
pub(crate) fn prepare(raw: &[u8]) -> Prepared {
    let mut wire = Vec::new();
    dot_stuff(raw, &mut wire);
    Prepared { wire, eight_bit: !raw.is_ascii(), ..Prepared::default() }
}

/// A conversation after its EHLO.
pub(crate) struct Conversation {
    link: Link,
    client: Client,
    out: Vec<u8>,
}

fn failure(error: impl std::fmt::Display) -> Failure {
    Failure::Protocol(error.to_string())
}

impl Conversation {
    /// Waits for the greeting and says EHLO or LHLO.
    pub(crate) async fn open(link: Link, lmtp: bool) -> Result<Self, Failure> {
        let config = ClientConfig { helo: HELO.to_owned(), lmtp, ..ClientConfig::default() };
        let client = Client::new(config, false);
        let mut conversation = Conversation { link, client, out: Vec::new() };
        match conversation.event().await? {
            ClientEvent::Ready => Ok(conversation),
            other => {
                Err(Failure::Protocol(format!("unexpected before the first message: {other:?}")))
            }
        }
    }

    /// Another message may be sent.
    pub(crate) fn is_open(&self) -> bool {
        !self.client.is_closing()
    }

    async fn event(&mut self) -> Result<ClientEvent, Failure> {
        loop {
            let mut input = self.link.input.as_slice();
            let event = self.client.next(&mut input, &mut self.out).map_err(failure)?;
            let used = self.link.input.len() - input.len();
            self.link.input.drain(..used);
            if !self.out.is_empty() {
                self.link.write(&self.out).await?;
                self.out.clear();
            }
            if event != ClientEvent::More {
                return Ok(event);
            }
            self.link.more().await?;
        }
    }

    /// Sends a message to one recipient.
    pub(crate) async fn pass(
        &mut self,
        message: &Prepared,
        from: &str,
        to: &str,
    ) -> Result<Outcome, Failure> {
        let outgoing = outgoing(from, &[to.to_owned()], message.size, message.eight_bit);
        let codes = self.send(outgoing, &[&message.wire]).await?;
        outcome(codes.first().copied().unwrap_or(0))
    }

    /// Sends a message whose stuffed body comes in pieces; a reply code for each recipient.
    pub(crate) async fn send(
        &mut self,
        message: Outgoing,
        body: &[&[u8]],
    ) -> Result<Vec<u16>, Failure> {
        self.client.send(message, &mut self.out);
        self.link.write(&self.out).await?;
        self.out.clear();
        loop {
            match self.event().await? {
                ClientEvent::Body => {
                    for piece in body {
                        self.link.write(piece).await?;
                    }
                }
                ClientEvent::Done(replies) => return Ok(replies.iter().map(|r| r.code).collect()),
                other => return Err(Failure::Protocol(format!("unexpected: {other:?}"))),
            }
        }
    }

    /// Says QUIT and waits until the server has closed.
    pub(crate) async fn quit(&mut self) -> Result<(), Failure> {
        self.client.quit(&mut self.out);
        self.link.write(&self.out).await?;
        while self.link.read().await? {}
        Ok(())
    }
}

/// The envelope of a message of so many bytes.
pub(crate) fn outgoing(from: &str, to: &[String], size: u64, eight_bit: bool) -> Outgoing {
    let recipient = |to: &String| OutgoingRecipient { to: to.clone(), ..Default::default() };
    Outgoing {
        from: from.to_owned(),
        recipients: to.iter().map(recipient).collect(),
        size,
        eight_bit,
        ..Outgoing::default()
    }
}

/// What a reply code says of a message.
pub(crate) fn outcome(code: u16) -> Result<Outcome, Failure> {
    match code / 100 {
        2 => Ok(Outcome::Passed),
        4 => Ok(Outcome::Deferred),
        5 => Ok(Outcome::Refused),
        _ => Err(Failure::Protocol(format!("the message was answered {code}"))),
    }
}
