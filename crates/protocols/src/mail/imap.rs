//! IMAP (RFC 9051, RFC 3501, RFC 7888): literals that are whole messages.
//!
//! A client's literal is one in APPEND, a server's one behind `BODY[]` or `RFC822` in FETCH. Parts
//! of one that come in order (`BODY[]<0>`, `BODY[]<65536>`) are put together.

use gauntlet_packet::Direction;

use super::Next;
use super::lines::{Lines, after, text, words};
use super::message::{Growing, Mail, MailEnd, MailEnvelope, Settings};
use crate::protocol::Protocol;

/// Bytes of a client that wait for the server to accept a literal.
const WAITING_BYTES_MAX: usize = 64 * 1024;

/// Where a direction is.
#[derive(Default)]
struct Side {
    lines: Lines,
    /// Bytes of a literal that are to come.
    left: u64,
    /// They are a message's.
    is_message: bool,
    /// The command or response is not over: a line with a literal goes on behind it.
    goes_on: bool,
    message: Option<Growing>,
}

pub(super) struct Imap {
    settings: Settings,
    client: Side,
    server: Side,
    /// The client's command at hand is APPEND.
    appends: bool,
    /// Tag of the command whose literal the server is asked for.
    tag: Vec<u8>,
    waits: bool,
    waiting: Vec<u8>,
    has_answers: bool,
    /// Tag of a command behind whose answer nothing is readable.
    hides: Vec<u8>,
    /// What is fetched in parts: the message (by its number), and the length of a whole part.
    parts: Option<(Vec<u8>, u64)>,
    /// Length of a part that the client asked for last.
    asked: Option<u64>,
}

impl Imap {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            settings: settings.clone(),
            client: Side::default(),
            server: Side::default(),
            appends: false,
            tag: Vec::new(),
            waits: false,
            waiting: Vec::new(),
            has_answers: false,
            hides: Vec::new(),
            parts: None,
            asked: None,
        }
    }

    pub(super) fn data(&mut self, way: Direction, bytes: &[u8], done: &mut Vec<Mail>) -> Next {
        match way {
            Direction::ToServer => self.client(bytes, done),
            Direction::ToClient => self.server(bytes, done),
        }
    }

    pub(super) fn stop(mut self, end: MailEnd, done: &mut Vec<Mail>) {
        for side in [&mut self.client, &mut self.server] {
            if let Some(message) = side.message.take() {
                done.push(message.finish(end, MailEnvelope::default()));
            }
        }
    }

    fn client(&mut self, mut bytes: &[u8], done: &mut Vec<Mail>) -> Next {
        while !bytes.is_empty() {
            if self.waits {
                self.waiting.extend_from_slice(bytes);
                if self.waiting.len() <= WAITING_BYTES_MAX {
                    return Next::Go;
                }
                return self.go_on(true, done);
            }
            if self.client.left > 0 {
                take_literal(&mut self.client, &mut bytes, done);
                continue;
            }
            let Some(line) = self.client.lines.next(&mut bytes) else { break };
            self.client_line(&line);
        }
        Next::Go
    }

    fn client_line(&mut self, line: &[u8]) {
        if !std::mem::take(&mut self.client.goes_on) {
            let mut parts = words(line);
            let tag = parts.next().unwrap_or_default().to_vec();
            let name = parts.next().unwrap_or_default().to_ascii_lowercase();
            self.appends = name == b"append";
            if matches!(name.as_slice(), b"starttls" | b"compress") {
                self.hides.clone_from(&tag);
            }
            self.tag = tag;
        }
        self.asked = asked(line).or(self.asked);
        let Some((length, is_at_once)) = literal(line) else { return };
        self.client.goes_on = true;
        self.client.left = length;
        // The name of the mailbox may be a literal, too; the message is behind the last space.
        self.client.is_message = self.appends && length > 0 && !is_mailbox(line);
        if self.client.is_message {
            let growing = Growing::new(&self.settings, Protocol::Imap, Direction::ToServer);
            self.client.message = Some(growing);
        }
        self.waits = !is_at_once && self.has_answers;
    }

    /// The server has answered the literal.
    fn go_on(&mut self, is_accepted: bool, done: &mut Vec<Mail>) -> Next {
        self.waits = false;
        if !is_accepted {
            (self.client.left, self.client.goes_on) = (0, false);
            self.client.message = None;
        }
        let bytes = std::mem::take(&mut self.waiting);
        self.client(&bytes, done)
    }

    fn server(&mut self, mut bytes: &[u8], done: &mut Vec<Mail>) -> Next {
        self.has_answers = true;
        while !bytes.is_empty() {
            if self.server.left > 0 {
                let is_part = self.parts.is_some() && self.server.is_message;
                if take_literal_of(&mut self.server, &mut bytes) && !is_part {
                    finish(&mut self.server, MailEnd::Whole, done);
                }
                continue;
            }
            let Some(line) = self.server.lines.next(&mut bytes) else { break };
            if self.server_line(&line, done) == Next::Stop {
                return Next::Stop;
            }
        }
        Next::Go
    }

    fn server_line(&mut self, line: &[u8], done: &mut Vec<Mail>) -> Next {
        let is_new = !std::mem::take(&mut self.server.goes_on);
        if is_new {
            let tag = words(line).next().unwrap_or_default();
            let is_fine = words(line).nth(1).is_some_and(|word| word.eq_ignore_ascii_case(b"ok"));
            if !tag.is_empty() && tag == self.hides && is_fine {
                return Next::Stop;
            }
            let is_accepted = tag == b"+";
            if self.waits
                && (is_accepted || tag == self.tag)
                && self.go_on(is_accepted, done) == Next::Stop
            {
                return Next::Stop;
            }
        }
        let Some((length, _)) = literal(line) else { return Next::Go };
        self.server.goes_on = true;
        self.server.left = length;
        let item = item(line);
        let place = if item.is_empty() { None } else { part(item) };
        self.server.is_message = place.is_some();
        match place {
            None => {}
            Some(None) => {
                self.end_parts(MailEnd::Cut, done);
                self.server.message = Some(self.growing());
            }
            Some(Some(offset)) => self.next_part(line, offset, length, done),
        }
        if length == 0 && self.server.is_message {
            // A part without bytes: the message ended before it.
            match self.parts {
                Some(_) => self.end_parts(MailEnd::Whole, done),
                None => finish(&mut self.server, MailEnd::Whole, done),
            }
        }
        Next::Go
    }

    fn growing(&self) -> Growing {
        Growing::new(&self.settings, Protocol::Imap, Direction::ToClient)
    }

    /// A part that begins at this place of its message.
    fn next_part(&mut self, line: &[u8], offset: u64, length: u64, done: &mut Vec<Mail>) {
        let number = words(line).nth(1).unwrap_or_default().to_vec();
        let size = self.server.message.as_ref().map(Growing::size);
        let follows = self.parts.as_ref().is_some_and(|(of, _)| *of == number);
        if !(follows && size == Some(offset)) {
            self.end_parts(MailEnd::Cut, done);
            if offset > 0 {
                // Its beginning was not seen.
                self.server.is_message = false;
                return;
            }
            let whole = self.asked.unwrap_or(length);
            self.parts = (length >= whole).then_some((number, whole));
            self.server.message = Some(self.growing());
        } else if let Some((_, whole)) = &self.parts
            && length < *whole
        {
            // Shorter than what was asked for: its end.
            self.parts = None;
        }
    }

    fn end_parts(&mut self, end: MailEnd, done: &mut Vec<Mail>) {
        if self.parts.take().is_some() {
            finish(&mut self.server, end, done);
        }
    }
}

fn finish(side: &mut Side, end: MailEnd, done: &mut Vec<Mail>) {
    if let Some(message) = side.message.take() {
        done.push(message.finish(end, MailEnvelope::default()));
    }
}

/// Takes bytes of a literal; a message ends with it.
fn take_literal(side: &mut Side, bytes: &mut &[u8], done: &mut Vec<Mail>) {
    if take_literal_of(side, bytes) {
        finish(side, MailEnd::Whole, done);
    }
}

/// The same; whether it was a message's, and is over.
fn take_literal_of(side: &mut Side, bytes: &mut &[u8]) -> bool {
    let len = usize::try_from(side.left).unwrap_or(usize::MAX).min(bytes.len());
    let (piece, rest) = bytes.split_at(len);
    *bytes = rest;
    side.left -= piece.len() as u64;
    if side.is_message
        && let Some(message) = &mut side.message
    {
        message.push(piece);
    }
    side.left == 0 && side.is_message
}

/// The length of a literal at the end of a line (`{12}`, `{12+}`), and whether it follows without
/// being asked for.
fn literal(line: &[u8]) -> Option<(u64, bool)> {
    let line = line.strip_suffix(b"}")?;
    let begin = line.iter().rposition(|byte| *byte == b'{')?;
    let digits = line.get(begin + 1..)?;
    let (digits, is_at_once) = match digits.strip_suffix(b"+").or(digits.strip_suffix(b"-")) {
        Some(digits) => (digits, true),
        None => (digits, false),
    };
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(digits).ok().filter(|_| is_number)?;
    Some((text.parse().ok()?, is_at_once))
}

/// Whether the literal of an APPEND is its mailbox: nothing but the tag and the name of the command
/// is before it.
fn is_mailbox(line: &[u8]) -> bool {
    words(line).count() == 3 && words(line).nth(1).is_some_and(|w| after(w, b"append").is_some())
}

/// The name of the item that a literal of FETCH is the value of.
fn item(line: &[u8]) -> &[u8] {
    let before = line.iter().rposition(|byte| *byte == b'{').unwrap_or_default();
    let before = line.get(..before).unwrap_or_default();
    let before = before.strip_suffix(b"~").unwrap_or(before).trim_ascii_end();
    let begin = before.iter().rposition(|byte| matches!(byte, b' ' | b'('));
    before.get(begin.map_or(0, |place| place + 1)..).unwrap_or_default()
}

/// The length in `BODY.PEEK[]<0.65536>`.
fn asked(line: &[u8]) -> Option<u64> {
    let begin = memchr::memmem::find(line, b"[]<")? + 3;
    let rest = line.get(begin..)?;
    let range = rest.get(..memchr::memchr(b'>', rest)?)?;
    let (_, length) = std::str::from_utf8(range).ok()?.split_once('.')?;
    length.parse().ok()
}

/// Whether an item is a whole message (`Some(None)`), or the part of one that begins at this place.
fn part(item: &[u8]) -> Option<Option<u64>> {
    let item = text(item).to_ascii_lowercase();
    match item.as_str() {
        "body[]" | "rfc822" | "binary[]" => Some(None),
        _ => {
            let place = item.strip_prefix("body[]<").or(item.strip_prefix("binary[]<"))?;
            Some(Some(place.strip_suffix('>')?.parse().ok()?))
        }
    }
}
