//! Telnet (RFC 854): no transactions, but frames of commands and of lines.

use gauntlet_packet::Direction;

use crate::buffer::Bytes;
use crate::parser::{At, Guess, Input, Module, Outcome, Parser, Probe, Question, Wishes};
use crate::protocol::{Carrier, Protocol};
use crate::tables::TWO_STATES;
use crate::transaction::State;

/// Interpret as command: the first byte of all commands, and the end of a subnegotiation.
const COMMAND: u8 = 0xff;
const SUBNEGOTIATION: u8 = 250;
const SUBNEGOTIATION_END: &[u8] = b"\xff\xf0";

pub(crate) static MODULE: Module = Module {
    protocol: Protocol::Telnet,
    events: &[],
    states: TWO_STATES,
    buffers: &[],
    numbers: &[],
    patterns: &[],
    probes: &[Probe {
        carrier: Carrier::Tcp,
        ports: &[23],
        direction: Direction::ToServer,
        min: 0,
        max: 16,
        to_port: Some(probe),
        from_port: Some(probe),
    }],
    accepts_gaps: true,
    first: None,
    make: |_, _| Some(Box::new(Telnet::default())),
};

/// Whatever has two bytes on this port.
fn probe(question: &Question<'_>) -> Guess {
    if question.bytes.len() > 1 { Guess::Yes } else { Guess::Unsure }
}

/// How far the login is: questions end with a colon, not with a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Login {
    #[default]
    Idle,
    NameAsked,
    NameGiven,
    PasswordAsked,
    PasswordGiven,
    Over,
    Refused,
}

#[derive(Default)]
struct Telnet {
    login: Login,
    /// A frame is open of which the end was not there.
    open: [Option<&'static str>; 2],
}

enum Message<'a> {
    Command,
    Data(&'a [u8]),
}

enum Stop {
    More,
    Wrong,
}

/// Reads a message; says how long it is.
fn read<'a>(bytes: &'a [u8], end: &[u8]) -> Result<(Message<'a>, usize), Stop> {
    if bytes.first() != Some(&COMMAND) {
        let place = memchr::memmem::find(bytes, end).ok_or(Stop::More)?;
        let data = bytes.get(..place).unwrap_or_default();
        return Ok((Message::Data(data), place + end.len()));
    }
    let length = match bytes.get(1).ok_or(Stop::More)? {
        251..=254 => 3,
        &SUBNEGOTIATION => {
            let rest = bytes.get(3..).ok_or(Stop::More)?;
            // What ends it is a message of its own.
            3 + memchr::memmem::find(rest, SUBNEGOTIATION_END).ok_or(Stop::More)?
        }
        _ => 2,
    };
    if bytes.len() < length { Err(Stop::Wrong) } else { Ok((Message::Command, length)) }
}

impl Telnet {
    /// What ends the next text.
    fn text_end(&self, direction: Direction) -> &'static [u8] {
        let is_question = matches!(self.login, Login::Idle | Login::Refused | Login::NameGiven);
        if is_question && direction == Direction::ToClient { b": " } else { b"\n" }
    }

    fn said(&mut self, direction: Direction, data: &[u8]) {
        self.login = match (direction, self.login) {
            (Direction::ToServer, Login::NameAsked) => Login::NameGiven,
            (Direction::ToServer, Login::PasswordAsked) => Login::PasswordGiven,
            (Direction::ToClient, Login::Idle | Login::Refused) => Login::NameAsked,
            (Direction::ToClient, Login::NameGiven) => Login::PasswordAsked,
            (Direction::ToClient, Login::PasswordGiven) => match std::str::from_utf8(data) {
                Ok("Login incorrect") => Login::Refused,
                Ok("") | Err(_) => Login::PasswordGiven,
                Ok(_) => Login::Over,
            },
            (_, login) => login,
        };
    }

    /// The frames of a message, whose end may not be there yet.
    fn frames(
        &mut self,
        direction: Direction,
        name: &'static str,
        at: usize,
        length: Option<usize>,
        wishes: &mut Wishes,
    ) {
        let Some(open) = self.open.get_mut(direction.index()) else { return };
        match (*open, length) {
            (None, None) => {
                *open = Some(name);
                wishes.open_frame("pdu", at, None, None);
                wishes.open_frame(name, at, None, None);
            }
            (None, Some(length)) => {
                wishes.open_frame("pdu", at, Some(length as u64), None);
                wishes.open_frame(name, at, Some(length as u64), None);
            }
            (Some(name), Some(length)) => {
                *open = None;
                wishes.close_frame("pdu", at + length, None);
                wishes.close_frame(name, at + length, None);
            }
            (Some(_), None) => {}
        }
    }
}

impl Parser for Telnet {
    fn parse(&mut self, input: Input<'_>, wishes: &mut Wishes) -> Outcome {
        let direction = input.direction;
        if input.end && direction == Direction::ToServer {
            return Outcome::Done;
        }
        let mut consumed = 0;
        while let Some(rest) = input.bytes.get(consumed..).filter(|rest| !rest.is_empty()) {
            let name = if rest.first() == Some(&COMMAND) { "ctl" } else { "data" };
            match read(rest, self.text_end(direction)) {
                Ok((message, length)) => {
                    self.frames(direction, name, consumed, Some(length), wishes);
                    if let Message::Data(data) = message {
                        self.said(direction, data);
                    }
                    consumed += length;
                }
                Err(Stop::More) => {
                    self.frames(direction, name, consumed, None, wishes);
                    return Outcome::Incomplete { consumed, needed: rest.len() + 1 };
                }
                Err(Stop::Wrong) => {
                    self.frames(direction, name, consumed, None, wishes);
                    return Outcome::Failed;
                }
            }
        }
        Outcome::Done
    }

    fn gap(&mut self, _: Direction, _: u64, _: &mut Wishes) -> Outcome {
        Outcome::Done
    }

    fn count(&self) -> usize {
        0
    }

    fn state(&self, _: usize) -> Option<&State> {
        None
    }

    fn state_mut(&mut self, _: usize) -> Option<&mut State> {
        None
    }

    fn remove(&mut self, _: usize) {}

    fn buffer(&self, _: usize, _: At, _: usize) -> Option<Bytes<'_>> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::{Login, MODULE, Telnet};
    use crate::frames::FrameNote;
    use crate::parser::{Guess, Input, Outcome, Parser, Wishes};
    use crate::protocol::Carrier::Tcp;
    use crate::testing::{DOWN, Piece, UP, guess, play, walk};

    const TALK: [Piece<'_>; 6] = [
        (DOWN, b"\xff\xfd\x18\xff\xfa\x18\x01\xff\xf0login: "),
        (UP, b"\xff\xfb\x18me\r\n"),
        (DOWN, b"Password: "),
        (UP, b"secret\r\n"),
        (DOWN, b"Welcome\r\n"),
        (UP, b"ls\r\n"),
    ];

    #[test]
    fn a_login_is_followed() {
        let mut telnet = Telnet::default();
        for (direction, bytes) in TALK {
            let input = Input { direction, bytes, end: false };
            assert_eq!(telnet.parse(input, &mut Wishes::default()), Outcome::Done);
        }
        assert_eq!(telnet.login, Login::Over);
        for end in 1..=TALK.len() {
            walk(&MODULE, Tcp, &TALK[..end]);
        }
    }

    #[test]
    fn lines_and_commands_are_frames() {
        let mut telnet = Telnet::default();
        let mut wishes = Wishes { frames_wanted: true, ..Wishes::default() };
        let input = Input { direction: UP, bytes: b"\xff\xfb\x18ls", end: false };
        let outcome = telnet.parse(input, &mut wishes);
        assert_eq!(outcome, Outcome::Incomplete { consumed: 3, needed: 3 });
        let note = |name, at, len| FrameNote::Open { name, at, len, transaction: None };
        assert_eq!(
            wishes.frames,
            [
                note("pdu", 0, Some(3)),
                note("ctl", 0, Some(3)),
                note("pdu", 3, None),
                note("data", 3, None)
            ]
        );
        wishes.frames.clear();
        let input = Input { direction: UP, bytes: b"ls\n", end: false };
        assert_eq!(telnet.parse(input, &mut wishes), Outcome::Done);
        let note = |name, at| FrameNote::Close { name, at, transaction: None };
        assert_eq!(wishes.frames, [note("pdu", 3), note("data", 3)]);
    }

    #[test]
    fn a_command_that_is_cut_fails() {
        assert_eq!(play(&MODULE, Tcp, &[(UP, b"\xff\xfb")]).1, Outcome::Failed);
        assert_eq!(guess(&MODULE, Tcp, UP, b"ab"), Guess::Yes);
        assert_eq!(guess(&MODULE, Tcp, UP, b"a"), Guess::Unsure);
    }
}
