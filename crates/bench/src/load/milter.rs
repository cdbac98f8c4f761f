//! The protocol between an MTA and its mail filters (milter, version 6), the MTA's side.
//!
//! As an MTA does, every step waits for its answer unless the filter said in the negotiation that
//! it will give none or does not want the step. Any number of messages go over one connection.

use gauntlet_mail::encoding::with_crlf;

use super::wire::{Failure, Link, Outcome, Prepared};

/// Version of the protocol that is offered.
const VERSION: u32 = 6;
/// Changes that a filter may make: all of version 6.
const ACTIONS: u32 = 0x1ff;
/// Steps that a filter may do without or not answer: all of version 6 but the one that keeps the
/// space after a field's colon, since messages are made into packets before the negotiation.
const STEPS: u32 = 0x0f_ffff;
/// Longest packet that is accepted of a filter.
const PACKET_BYTES_MAX: usize = 2 << 20;
/// Bytes of a body packet (`MILTER_CHUNK_SIZE`).
const BODY_BYTES: usize = 65_535;

/// The filter does not want the step, or does not answer it: bits of the negotiation for each
/// command.
fn bits(command: u8) -> (u32, u32) {
    match command {
        b'C' => (0x1, 0x1000),
        b'H' => (0x2, 0x2000),
        b'M' => (0x4, 0x4000),
        b'R' => (0x8, 0x8000),
        b'T' => (0x200, 0x1_0000),
        b'L' => (0x20, 0x80),
        b'N' => (0x40, 0x4_0000),
        b'B' => (0x10, 0x8_0000),
        _ => (0, 0),
    }
}

fn packet(command: u8, parts: &[&[u8]], out: &mut Vec<u8>) {
    let length: usize = 1 + parts.iter().map(|p| p.len()).sum::<usize>();
    out.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
    out.push(command);
    parts.iter().for_each(|part| out.extend_from_slice(part));
}

/// Header and body as packets, each a piece. Files mostly end lines by LF alone, an MTA never does.
pub(crate) fn prepare(raw: &[u8]) -> Prepared {
    let raw = &with_crlf(raw);
    let mut prepared = Prepared::default();
    let mut add = |command: u8, parts: &[&[u8]]| {
        packet(command, parts, &mut prepared.wire);
        prepared.pieces.push(prepared.wire.len());
    };
    let (fields, body) = split(raw);
    for field in fields {
        let (name, value) = match field.iter().position(|b| *b == b':') {
            Some(colon) => (&field[..colon], &field[colon + 1..]),
            None => (&field[..0], field),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        add(b'L', &[name, b"\0", value, b"\0"]);
    }
    add(b'N', &[]);
    body.chunks(BODY_BYTES).for_each(|chunk| add(b'B', &[chunk]));
    add(b'E', &[]);
    prepared
}

/// Header fields, folded lines kept together and without their last line end, and the body.
fn split(raw: &[u8]) -> (Vec<&[u8]>, &[u8]) {
    let mut fields: Vec<(usize, usize)> = Vec::new();
    let mut at = 0;
    while let Some(length) = raw.get(at..).and_then(|r| r.iter().position(|b| *b == b'\n')) {
        let (start, end) = (at, at + length);
        at = end + 1;
        let line = raw.get(start..end).unwrap_or_default();
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            break;
        }
        match fields.last_mut() {
            Some(last) if line.starts_with(b" ") || line.starts_with(b"\t") => {
                last.1 = start + line.len();
            }
            _ => fields.push((start, start + line.len())),
        }
    }
    let fields = fields.iter().filter_map(|&(start, end)| raw.get(start..end)).collect();
    (fields, raw.get(at..).unwrap_or_default())
}

/// A connection after its negotiation.
pub(crate) struct Conversation {
    link: Link,
    steps: u32,
    connected: bool,
    out: Vec<u8>,
}

impl Conversation {
    /// Negotiates version, actions and steps (`SMFIC_OPTNEG`).
    pub(crate) async fn open(link: Link) -> Result<Self, Failure> {
        let mut conversation = Conversation { link, steps: 0, connected: false, out: Vec::new() };
        let offer = [VERSION.to_be_bytes(), ACTIONS.to_be_bytes(), STEPS.to_be_bytes()].concat();
        packet(b'O', &[&offer], &mut conversation.out);
        conversation.flush().await?;
        let (command, data) = conversation.read().await?;
        let steps = data.get(8..12).and_then(|b| b.try_into().ok()).map(u32::from_be_bytes);
        match (command, steps) {
            (b'O', Some(steps)) => conversation.steps = steps,
            _ => return Err(Failure::Protocol("the filter does not negotiate".to_owned())),
        }
        Ok(conversation)
    }

    async fn flush(&mut self) -> Result<(), Failure> {
        self.link.write(&self.out).await?;
        self.out.clear();
        Ok(())
    }

    async fn read(&mut self) -> Result<(u8, Vec<u8>), Failure> {
        loop {
            if let Some(length) = self.link.input.first_chunk::<4>() {
                let length = u32::from_be_bytes(*length) as usize;
                if length == 0 || length > PACKET_BYTES_MAX {
                    return Err(Failure::Protocol(format!("a packet of {length} bytes")));
                }
                if self.link.input.len() >= length + 4 {
                    let mut packet: Vec<u8> = self.link.input.drain(..length + 4).collect();
                    return Ok((packet[4], packet.split_off(5)));
                }
            }
            self.link.more().await?;
        }
    }

    /// Sends a step unless the filter does not want it; its final answer, if it gives one now.
    async fn step(&mut self, command: u8, parts: &[&[u8]]) -> Result<Option<Outcome>, Failure> {
        let (unwanted, unanswered) = bits(command);
        if self.steps & unwanted != 0 {
            return Ok(None);
        }
        packet(command, parts, &mut self.out);
        if self.steps & unanswered != 0 {
            return Ok(None);
        }
        self.flush().await?;
        self.answer().await.map(|answer| answer.outcome)
    }

    /// Has the filter judge a message, command by command.
    pub(crate) async fn pass(
        &mut self,
        message: &Prepared,
        from: &str,
        to: &str,
    ) -> Result<Outcome, Failure> {
        if !std::mem::replace(&mut self.connected, true) {
            let parts: [&[u8]; 4] = [b"localhost\0", b"4", &25_u16.to_be_bytes(), b"127.0.0.1\0"];
            if let Some(outcome) = self.step(b'C', &parts).await? {
                return Ok(outcome);
            }
            if let Some(outcome) = self.step(b'H', &[b"bench.example\0"]).await? {
                return Ok(outcome);
            }
        }
        for (command, address) in [(b'M', from), (b'R', to)] {
            let address = format!("<{address}>\0");
            if let Some(outcome) = self.step(command, &[address.as_bytes()]).await? {
                return Ok(outcome);
            }
        }
        if let Some(outcome) = self.step(b'T', &[]).await? {
            return Ok(outcome);
        }
        self.content(message).await
    }

    async fn content(&mut self, message: &Prepared) -> Result<Outcome, Failure> {
        let (mut start, mut skip) = (0, false);
        for &end in &message.pieces {
            let piece = message.wire.get(start..end).unwrap_or_default();
            start = end;
            let command = piece.get(4).copied().unwrap_or_default();
            let (unwanted, unanswered) = bits(command);
            if self.steps & unwanted != 0 || (skip && command == b'B') {
                continue;
            }
            self.out.extend_from_slice(piece);
            if self.steps & unanswered != 0 {
                continue;
            }
            self.flush().await?;
            if command == b'E' {
                break;
            }
            let answer = self.answer().await?;
            skip |= answer.skip;
            if let Some(outcome) = answer.outcome {
                return Ok(outcome);
            }
        }
        self.end().await
    }

    /// Reads changes up to the final answer.
    async fn end(&mut self) -> Result<Outcome, Failure> {
        let mut spam = false;
        loop {
            let (command, data) = self.read().await?;
            match command {
                // Changes, quarantine among them, and progress.
                b'q' => spam = true,
                b'h' | b'i' | b'm' if is_spam_flag(&data) => spam = true,
                b'+' | b'2' | b'-' | b'b' | b'h' | b'i' | b'm' | b'e' | b'p' => {}
                b'c' | b'a' if spam => return Ok(Outcome::Spam),
                other => {
                    return Ok(final_answer(other, &data)?.outcome.unwrap_or(Outcome::Passed));
                }
            }
        }
    }

    async fn answer(&mut self) -> Result<Answer, Failure> {
        loop {
            let (command, data) = self.read().await?;
            if command != b'p' {
                return final_answer(command, &data);
            }
        }
    }
}

/// A header that says that the message is spam.
fn is_spam_flag(data: &[u8]) -> bool {
    let text = String::from_utf8_lossy(data).to_ascii_lowercase();
    text.contains("x-spam-flag\0yes") || text.contains("x-spam\0yes")
}

struct Answer {
    outcome: Option<Outcome>,
    skip: bool,
}

fn final_answer(command: u8, data: &[u8]) -> Result<Answer, Failure> {
    let outcome = match command {
        b'c' | b's' => None,
        b'a' => Some(Outcome::Passed),
        b'r' => Some(Outcome::Refused),
        b'd' => Some(Outcome::Spam),
        b't' | b'f' => Some(Outcome::Deferred),
        b'y' if data.starts_with(b"4") => Some(Outcome::Deferred),
        b'y' => Some(Outcome::Refused),
        other => {
            return Err(Failure::Protocol(format!("the filter answered {:?}", char::from(other))));
        }
    };
    Ok(Answer { outcome, skip: command == b's' })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_becomes_packets() {
        let (fields, body) = split(b"A: 1\r\nB: 2\r\n\tmore\r\n\r\nbody\r\n");
        assert_eq!(fields, [&b"A: 1"[..], b"B: 2\r\n\tmore"]);
        assert_eq!(body, b"body\r\n");
        let prepared = prepare(b"A: 1\n\nx");
        assert_eq!(prepared.wire, b"\0\0\0\x05LA\x001\0\0\0\0\x01N\0\0\0\x02Bx\0\0\0\x01E");
        assert_eq!(prepared.pieces, [9, 14, 20, 25]);
        assert_eq!(prepare(b"A: 1\n\nbody\n").wire, prepare(b"A: 1\r\n\r\nbody\r\n").wire);
        assert_eq!(prepare(b"").pieces.len(), 2, "end of header and of message");
    }

    #[test]
    fn answers() {
        assert_eq!(final_answer(b'y', b"451 4.7.1 x").unwrap().outcome, Some(Outcome::Deferred));
        assert_eq!(final_answer(b'r', b"").unwrap().outcome, Some(Outcome::Refused));
        assert!(final_answer(b's', b"").unwrap().skip);
        assert!(final_answer(b'?', b"").is_err());
        assert!(is_spam_flag(b"X-Spam-Flag\0YES\0") && !is_spam_flag(b"X-Spam-Status\0No\0"));
    }
}
