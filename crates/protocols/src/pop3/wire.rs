//! Lines of clients and servers.

/// Longer commands, with their line's end, and longer first lines of responses are events.
const COMMAND_BYTES_MAX: usize = 256;
const RESPONSE_BYTES_MAX: usize = 512;

/// The most lines of a response that are kept.
const LINES_MAX: usize = 1024;

/// The most arguments of a command that are kept.
const ARGUMENTS_MAX: usize = 64;

/// The most digits of a mail's size.
const SIZE_DIGITS_MAX: usize = 10;

/// A command of the client.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Command {
    pub(super) name: String,
    pub(super) arguments: Vec<Vec<u8>>,
    pub(super) is_unknown: bool,
    pub(super) has_wrong_count: bool,
    pub(super) is_too_long: bool,
}

/// A response of the server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Response {
    pub(super) is_ok: bool,
    pub(super) header: Vec<u8>,
    pub(super) lines: Vec<Vec<u8>>,
    pub(super) is_too_long: bool,
}

impl Command {
    /// What stands for the answer to a challenge.
    pub(super) fn answer() -> Self {
        Self { name: "<SASL DATA>".to_owned(), ..Self::default() }
    }

    /// Whether its answer has several lines, and whether those are a mail.
    pub(super) fn answer_kind(&self) -> (bool, bool) {
        match self.name.as_str() {
            "LIST" | "UIDL" => (self.arguments.is_empty(), false),
            "TOP" => (true, false),
            "RETR" => (true, true),
            _ => (false, false),
        }
    }
}

impl Response {
    /// What stands for a challenge without text.
    pub(super) fn empty() -> Self {
        Self { is_ok: true, ..Self::default() }
    }
}

/// The first word of a line, and what is behind the space after it.
fn word(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.iter().position(|byte| matches!(byte, b' ' | b'\r')).unwrap_or(bytes.len());
    let (word, rest) = bytes.split_at_checked(end).filter(|(word, _)| !word.is_empty())?;
    Some((word, rest.strip_prefix(b" ").unwrap_or(rest)))
}

/// A line without its end, and what is behind it.
fn line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = memchr::memmem::find(bytes, b"\r\n")?;
    Some((bytes.get(..end)?, bytes.get(end + 2..)?))
}

/// Reads a command, which must be complete; says how long it is.
pub(super) fn read_command(bytes: &[u8]) -> Option<(Command, usize)> {
    let (name, rest) = word(bytes)?;
    if !name.iter().all(u8::is_ascii_alphanumeric) {
        return None;
    }
    let (text, rest) = line(rest)?;
    let words = || text.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    let count = words().count();
    let name_text = String::from_utf8_lossy(name).into_owned();
    let counts = match name {
        b"STAT" | b"NOOP" | b"RSET" | b"QUIT" | b"CAPA" | b"STLS" => Some(0..=0),
        b"SASL" => Some(1..=usize::MAX),
        b"LIST" | b"UIDL" => Some(0..=1),
        b"RETR" | b"DELE" | b"USER" | b"PASS" => Some(1..=1),
        b"AUTH" => Some(1..=2),
        b"TOP" | b"APOP" => Some(2..=2),
        _ => None,
    };
    let command = Command {
        is_unknown: counts.is_none(),
        has_wrong_count: counts.is_some_and(|counts| !counts.contains(&count)),
        is_too_long: name.len() + text.len() + 3 > COMMAND_BYTES_MAX,
        arguments: words().take(ARGUMENTS_MAX).map(<[u8]>::to_vec).collect(),
        name: name_text,
    };
    Some((command, bytes.len() - rest.len()))
}

/// Reads a response, whose first line must be complete; says how long it is. Lines up to one with
/// a dot belong to it.
pub(super) fn read_response(bytes: &[u8]) -> Option<(Response, usize)> {
    let (status, rest) = word(bytes)?;
    let is_ok = match status {
        b"+OK" => true,
        b"-ERR" => false,
        _ => return None,
    };
    let (header, rest) = line(rest)?;
    let (lines, rest) = read_lines(rest).unwrap_or((Vec::new(), rest));
    let is_too_long = status.len() + header.len() + 3 > RESPONSE_BYTES_MAX;
    let response = Response { is_ok, header: header.to_vec(), lines, is_too_long };
    Some((response, bytes.len() - rest.len()))
}

/// Lines up to one with a dot, and what is behind that.
fn read_lines(bytes: &[u8]) -> Option<(Vec<Vec<u8>>, &[u8])> {
    let mut lines = Vec::new();
    let mut rest = bytes;
    loop {
        if let Some(behind) = rest.strip_prefix(b".\r\n") {
            return Some((lines, behind));
        }
        let (text, behind) = line(rest.strip_prefix(b".").unwrap_or(rest))?;
        if lines.len() < LINES_MAX {
            lines.push(text.to_vec());
        }
        rest = behind;
    }
}

/// The size of a mail in the header of its response ("+OK 120 octets").
pub(super) fn octets(header: &[u8]) -> Option<usize> {
    let text = header.strip_prefix(b"+OK ").filter(|_| header.ends_with(b"octets"))?;
    let digits = text.iter().take(SIZE_DIGITS_MAX).take_while(|byte| byte.is_ascii_digit());
    let text = std::str::from_utf8(text.get(..digits.count())?).ok()?;
    // What is no number of 32 bits counts as none.
    text.parse::<u32>().map_or(Some(0), |size| usize::try_from(size).ok())
}
