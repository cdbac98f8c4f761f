//! Commands and replies in step.

use gauntlet_packet::Direction;

use super::event::{
    BDAT_CHUNK_LEN_EXCEEDED, DATA_COMMAND_REJECTED, DUPLICATE_FIELDS, INVALID_PIPELINED_SEQUENCE,
    INVALID_REPLY, MIME_INVALID_BASE64, MIME_INVALID_QP, MIME_LONG_BOUNDARY, MIME_LONG_ENC_LINE,
    MIME_LONG_FILENAME, MIME_LONG_HEADER_NAME, MIME_LONG_HEADER_VALUE, MIME_LONG_LINE,
    NO_SERVER_WELCOME_MESSAGE, TLS_REJECTED, TRUNCATED_LINE, UNPARSABLE_CONTENT,
};
use super::lines::{Line, Lines, Next};
use super::message::{Message, Oddities, Step};
use super::{Configuration, reply};
use crate::files::{self, Opening, Pace};
use crate::parser::{Change, Input, Outcome, Wishes};
use crate::protocol::Protocol;
use crate::text::{begins_with, decimal};
use crate::transaction::{Transaction, Transactions};

/// Commands that wait for their replies.
const COMMANDS_MAX: usize = 65_535;
/// Recipients of a message that are kept.
const RECIPIENTS_MAX: usize = 10_000;
/// Longest name of a file.
const FILE_NAME_BYTES_MAX: usize = 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Command {
    StartTls,
    Data,
    Bdat,
    /// The dot: the message itself has a reply.
    MessageEnd,
    Rset,
    #[default]
    Other,
}

/// A message's envelope and content.
#[derive(Debug, Default)]
pub(super) struct Mail {
    pub(super) from: Option<Vec<u8>>,
    pub(super) recipients: Vec<Vec<u8>>,
    pub(super) message: Option<Message>,
    has_data: bool,
    is_done: bool,
}

/// A session.
#[derive(Default)]
pub(super) struct Session {
    configuration: Configuration,
    pub(super) transactions: Transactions<Mail>,
    current: Option<u64>,
    pub(super) helo: Option<Vec<u8>>,
    /// Commands without their replies yet, from `answered` on.
    commands: Vec<Command>,
    answered: usize,
    command: Command,
    in_data: bool,
    greeted: bool,
    in_long_reply: bool,
    server_pipelines: bool,
    bdat_length: u64,
    bdat_seen: u64,
    lines: Lines,
    files: u32,
}

/// The protocol is broken.
struct Broken;

impl Session {
    pub(super) fn new(configuration: Configuration) -> Self {
        Self { configuration, ..Self::default() }
    }

    pub(super) fn parse(&mut self, input: Input<'_>, wishes: &mut Wishes) -> Outcome {
        let parsed = match input.direction {
            Direction::ToServer => self.requests(input.bytes, wishes),
            Direction::ToClient => self.replies(input.bytes, wishes),
        };
        parsed.unwrap_or(Outcome::Failed)
    }

    pub(super) fn remove(&mut self, place: usize) {
        let id = self.transactions.at(place).map(|transaction| transaction.state.id);
        if id == self.current {
            self.current = None;
        }
        self.transactions.remove(place);
    }

    fn mail(&mut self) -> Option<&mut Transaction<Mail>> {
        self.transactions.of_id_mut(self.current?)
    }

    fn event(&mut self, event: u8) {
        if let Some(mail) = self.mail() {
            mail.state.event(event);
        }
    }

    fn is_message_data(&self) -> bool {
        self.in_data && self.command == Command::Data
    }

    fn requests(&mut self, input: &[u8], wishes: &mut Wishes) -> Result<Outcome, Broken> {
        let mut place = 0;
        if self.in_data && matches!(self.command, Command::Data | Command::Bdat) {
            place = self.data(input, place, wishes)?;
        }
        loop {
            if place < input.len() && !self.is_message_data() {
                self.lines.open(Direction::ToServer, place, None, wishes);
            }
            match self.lines.next(input, place, Direction::ToServer) {
                Next::Nothing => return Ok(Outcome::Done),
                Next::Wait => {
                    let needed = input.len() - place + 1;
                    return Ok(Outcome::Incomplete { consumed: place, needed });
                }
                Next::Endless(line) => {
                    self.request(line, wishes)?;
                    self.drop_line(Direction::ToServer);
                    return Ok(Outcome::Done);
                }
                Next::Line(line) => {
                    place = line.end;
                    self.lines.close(Direction::ToServer, place, None, wishes);
                    self.request(line, wishes)?;
                    if line.is_cut() {
                        // What is behind it in the input goes, too: as Suricata has it.
                        self.event(TRUNCATED_LINE);
                        return Ok(Outcome::Done);
                    }
                }
            }
            if place < input.len() && self.is_message_data() {
                place = self.data(input, place, wishes)?;
            }
        }
    }

    fn replies(&mut self, input: &[u8], wishes: &mut Wishes) -> Result<Outcome, Broken> {
        let mut place = 0;
        loop {
            if place < input.len() {
                self.lines.open(Direction::ToClient, place, self.current, wishes);
            }
            match self.lines.next(input, place, Direction::ToClient) {
                Next::Nothing => return Ok(Outcome::Done),
                Next::Wait => {
                    let needed = input.len() - place + 1;
                    return Ok(Outcome::Incomplete { consumed: place, needed });
                }
                Next::Endless(line) => {
                    self.reply(line, false, wishes)?;
                    self.drop_line(Direction::ToClient);
                    return Ok(Outcome::Done);
                }
                Next::Line(line) => {
                    place = line.end;
                    self.lines.close(Direction::ToClient, place, None, wishes);
                    self.reply(line, place == 1, wishes)?;
                    if line.is_cut() {
                        self.event(TRUNCATED_LINE);
                        return Ok(Outcome::Done);
                    }
                }
            }
        }
    }

    fn drop_line(&mut self, direction: Direction) {
        self.lines.drop_rest(direction);
        self.event(TRUNCATED_LINE);
    }

    /// Takes lines of a message's body without a limit of their lengths, even without their ends.
    /// Says where it stopped: at what may be a boundary, at the end of the message or of the
    /// input.
    fn data(&mut self, input: &[u8], begin: usize, wishes: &mut Wishes) -> Result<usize, Broken> {
        let in_header = self.mail().and_then(|mail| mail.data.message.as_ref());
        if in_header.is_some_and(Message::is_in_header) {
            return Ok(begin);
        }
        let mut place = begin;
        while let Some(rest) = input.get(place..).filter(|rest| !rest.is_empty()) {
            if matches!(rest, [b'-'] | [b'-', b'-', ..]) {
                return Ok(place);
            }
            let text_end = memchr::memchr2(b'\r', b'\n', rest).unwrap_or(rest.len());
            let ending = match rest.get(text_end..) {
                Some([b'\r', b'\n', ..]) => 2,
                Some([]) | None => 0,
                _ => 1,
            };
            let text = rest.get(..text_end).unwrap_or_default();
            let full = rest.get(..text_end + ending).unwrap_or_default();
            let at = place;
            place += full.len();
            self.request(Line { text, full, at, end: place }, wishes)?;
            if !self.in_data {
                wishes.close_frame("data", place, None);
                break;
            }
        }
        Ok(place)
    }

    fn request(&mut self, line: Line<'_>, wishes: &mut Wishes) -> Result<(), Broken> {
        if line.is_nothing() {
            self.lines.close(Direction::ToServer, line.at, None, wishes);
            return Ok(());
        }
        let is_line = !self.is_message_data();
        let is_done = self.mail().is_none_or(|mail| mail.data.is_done);
        let stays =
            !self.in_data && (begins_with(line.text, b"rset") || begins_with(line.text, b"quit"));
        if self.mail().is_none() || (is_done && !stays) {
            if self.transactions.total() > self.configuration.smtp.max_tx {
                return Err(Broken);
            }
            self.current = self.transactions.push(Mail::default()).map(|mail| mail.state.id);
        }
        let end = line.at + line.text.len();
        if !self.lines.close(Direction::ToServer, end, self.current, wishes) && is_line {
            // A line that is whole has a second frame, without its end.
            let length = line.text.len() as u64;
            wishes.open_frame("command_line", line.at, Some(length), self.current);
        }
        if let Some(mail) = self.mail() {
            mail.state.touch(Direction::ToServer);
        }
        if !self.greeted {
            self.event(NO_SERVER_WELCOME_MESSAGE);
        }
        if self.in_data {
            match self.command {
                Command::Data => self.message_line(line, wishes),
                Command::Bdat => self.chunk_line(line)?,
                _ => {}
            }
            return Ok(());
        }
        wishes.inspect(Direction::ToServer);
        self.command(line, wishes)
    }

    fn command(&mut self, line: Line<'_>, wishes: &mut Wishes) -> Result<(), Broken> {
        let text = line.text;
        let begins = |word: &[u8]| begins_with(text, word);
        self.command = if begins(b"starttls") {
            Command::StartTls
        } else if begins(b"data") {
            self.command = Command::Data;
            if !self.data_command() {
                return Ok(());
            }
            wishes.open_frame("data", line.end, None, self.current);
            Command::Data
        } else if begins(b"bdat") {
            self.bdat_length = chunk_length(text).ok_or(Broken)?;
            self.in_data = true;
            Command::Bdat
        } else if begins(b"helo") || begins(b"ehlo") {
            if self.helo.is_some() {
                self.event(DUPLICATE_FIELDS);
            } else {
                self.helo = Some(parameter(text, 4));
            }
            Command::Other
        } else if begins(b"mail from") {
            self.sender(text);
            Command::Other
        } else if begins(b"rcpt to") {
            if let Some(mail) = self.mail()
                && mail.data.recipients.len() < RECIPIENTS_MAX
            {
                mail.data.recipients.push(parameter(text, 7));
            }
            Command::Other
        } else if begins(b"rset") {
            self.bdat_seen = 0;
            Command::Rset
        } else {
            Command::Other
        };
        self.expect_reply(self.command)
    }

    fn sender(&mut self, text: &[u8]) {
        let from = parameter(text, 9);
        match self.mail() {
            Some(mail) if mail.data.from.is_some() => mail.state.event(DUPLICATE_FIELDS),
            Some(mail) => mail.data.from = Some(from),
            None => {}
        }
    }

    /// DATA; `false` if it comes a second time, which ends the look at it.
    fn data_command(&mut self) -> bool {
        let smtp = self.configuration.smtp.clone();
        let id = self.files;
        let hashes = HashSettingsOfRaw::of(&self.configuration);
        let Some(mail) = self.mail() else { return true };
        if mail.data.has_data {
            mail.state.event(UNPARSABLE_CONTENT);
            return false;
        }
        mail.data.has_data = true;
        if smtp.decode_mime {
            mail.data.message = Some(Message::new(smtp.decoding.clone()));
        } else if smtp.raw_extraction {
            let pace = pace(&smtp);
            let opening = Opening { name: b"rawmsg", track_id: id, pace, hashes: hashes.0 };
            let [to_server, _] = &mut mail.state.files;
            files::add(to_server, opening);
            self.files += 1;
        }
        self.in_data |= self.server_pipelines;
        true
    }

    /// Notes a command whose reply is to come.
    fn expect_reply(&mut self, command: Command) -> Result<(), Broken> {
        if matches!(self.commands.last(), Some(Command::StartTls | Command::Data)) {
            // These must be the last ones of a group (RFC 2920 section 3.1).
            self.event(INVALID_PIPELINED_SEQUENCE);
        }
        if self.commands.len() >= COMMANDS_MAX {
            return Err(Broken);
        }
        self.commands.push(command);
        Ok(())
    }

    fn chunk_line(&mut self, line: Line<'_>) -> Result<(), Broken> {
        self.bdat_seen += line.full.len() as u64;
        self.in_data = self.bdat_seen < self.bdat_length;
        if self.bdat_seen > self.bdat_length {
            self.event(BDAT_CHUNK_LEN_EXCEEDED);
            return Err(Broken);
        }
        Ok(())
    }

    fn message_line(&mut self, line: Line<'_>, wishes: &mut Wishes) {
        let raw = self.configuration.smtp.raw_extraction && !self.configuration.smtp.decode_mime;
        if line.text == b"." {
            self.in_data = false;
            let _ = self.expect_reply(Command::MessageEnd);
            let Some(mail) = self.mail() else { return };
            if let Some(message) = &mut mail.data.message {
                message.finish();
            }
            close_last(mail);
            finish(mail);
            return;
        }
        if raw {
            if let Some(mail) = self.mail() {
                append(mail, line.full);
            }
            return;
        }
        self.mime_line(line, wishes);
    }

    fn mime_line(&mut self, line: Line<'_>, wishes: &mut Wishes) {
        let pace = pace(&self.configuration.smtp);
        let hashes = self.configuration.hashes;
        let track_id = self.files;
        let Some(mail) = self.mail() else { return };
        let Some(message) = &mut mail.data.message else { return };
        let mut decoded = Vec::new();
        let mut oddities = Oddities::default();
        let step = message.line(line.text, line.full, &mut decoded, &mut oddities);
        let name = message.file_name().to_vec();
        note(mail, oddities);
        append(mail, &decoded);
        match step {
            Step::Open if !name.is_empty() => {
                if name.len() > FILE_NAME_BYTES_MAX {
                    mail.state.event(MIME_LONG_FILENAME);
                }
                let name = name.get(..FILE_NAME_BYTES_MAX).unwrap_or(&name);
                let [to_server, _] = &mut mail.state.files;
                files::add(to_server, Opening { name, track_id, pace, hashes });
                self.files += 1;
            }
            Step::Close => {
                close_last(mail);
                wishes.inspect(Direction::ToServer);
            }
            Step::Open | Step::Chunk | Step::More => {}
        }
    }

    fn reply(&mut self, line: Line<'_>, is_first: bool, wishes: &mut Wishes) -> Result<(), Broken> {
        // A line end by itself at the beginning.
        if is_first && line.text.is_empty() && line.full.len() == 1 {
            return Ok(());
        }
        if let Some(mail) = self.mail() {
            mail.state.touch(Direction::ToClient);
        }
        let Some(code) = line.text.get(..3) else {
            self.event(INVALID_REPLY);
            return Err(Broken);
        };
        self.in_long_reply = line.text.get(3) == Some(&b'-');
        let Some(code) = reply::code(code) else {
            self.event(INVALID_REPLY);
            return Err(Broken);
        };
        if self.answered == self.commands.len() {
            if !self.greeted {
                self.greeted = !self.in_long_reply;
                if code != 220 {
                    self.event(INVALID_REPLY);
                }
            }
            return Ok(());
        }
        self.match_reply(code, wishes);
        if !self.in_long_reply {
            self.answered += 1;
        } else if self.greeted
            && code == 250
            && line.text.len() == 14
            && line.text.get(4..).is_some_and(|word| word.eq_ignore_ascii_case(b"pipelining"))
        {
            self.server_pipelines = true;
        }
        if self.answered == self.commands.len() {
            self.commands.clear();
            self.answered = 0;
        }
        wishes.inspect(Direction::ToClient);
        Ok(())
    }

    fn match_reply(&mut self, code: u16, wishes: &mut Wishes) {
        match self.commands.get(self.answered) {
            Some(Command::StartTls) if code == 220 => {
                self.in_data = true;
                let expect = Some(Protocol::Tls);
                wishes.change = Some(Change { expect, forced: false, port: None });
                if let Some(mail) = self.mail() {
                    finish(mail);
                }
            }
            Some(Command::StartTls) => self.event(TLS_REJECTED),
            Some(Command::Data) if code == 354 => self.in_data = true,
            Some(Command::Data) => {
                if self.server_pipelines {
                    self.in_data = false;
                }
                self.event(DATA_COMMAND_REJECTED);
            }
            Some(Command::Rset) if code == 250 && !self.in_long_reply => {
                if let Some(mail) = self.mail() {
                    finish(mail);
                }
            }
            _ => {}
        }
    }
}

/// Whole messages as files have no MD5 in Suricata.
struct HashSettingsOfRaw(crate::files::HashSettings);

impl HashSettingsOfRaw {
    fn of(configuration: &Configuration) -> Self {
        Self(crate::files::HashSettings { md5: false, ..configuration.hashes })
    }
}

fn pace(settings: &super::Settings) -> Pace {
    Pace::Whole { limit: settings.content_limit, min: settings.content_inspect_min_size }
}

fn finish(mail: &mut Transaction<Mail>) {
    mail.data.is_done = true;
    mail.state.advance(Direction::ToServer, 1);
    mail.state.advance(Direction::ToClient, 1);
}

fn append(mail: &mut Transaction<Mail>, bytes: &[u8]) {
    let [to_server, _] = &mut mail.state.files;
    if let Some(file) = to_server.last_mut().filter(|_| !bytes.is_empty()) {
        file.append(bytes);
    }
}

fn close_last(mail: &mut Transaction<Mail>) {
    let [to_server, _] = &mut mail.state.files;
    if let Some(file) = to_server.last_mut() {
        file.close(false);
    }
}

fn note(mail: &mut Transaction<Mail>, oddities: Oddities) {
    let noted = [
        (oddities.invalid_base64, MIME_INVALID_BASE64),
        (oddities.invalid_quoted_printable, MIME_INVALID_QP),
        (oddities.long_line, MIME_LONG_LINE),
        (oddities.long_encoded_line, MIME_LONG_ENC_LINE),
        (oddities.long_field_name, MIME_LONG_HEADER_NAME),
        (oddities.long_field_value, MIME_LONG_HEADER_VALUE),
        (oddities.long_boundary, MIME_LONG_BOUNDARY),
        (oddities.long_file_name, MIME_LONG_FILENAME),
    ];
    for (_, event) in noted.iter().filter(|(holds, _)| *holds) {
        mail.state.event(*event);
    }
}

/// What follows a command up to the next space (behind it stand extensions, RFC 1870).
fn parameter(text: &[u8], command_bytes: usize) -> Vec<u8> {
    let rest = text.get(command_bytes + 1..).unwrap_or_default();
    let begin = rest.iter().position(|&byte| byte != b' ').unwrap_or(rest.len());
    let rest = rest.get(begin..).unwrap_or_default();
    rest.split(|&byte| byte == b' ').next().unwrap_or_default().to_vec()
}

/// The length that BDAT announces (RFC 3030); `None` without one.
fn chunk_length(text: &[u8]) -> Option<u64> {
    let rest = text.get(4..)?.strip_prefix(b" ")?;
    let begin = rest.iter().position(|&byte| byte != b' ')?;
    let (length, _) = decimal(rest.get(begin..)?)?;
    u32::try_from(length).ok().map(u64::from)
}
