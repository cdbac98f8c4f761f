//! RFB, the protocol of VNC (RFC 6143), up to where the screen begins. One transaction a flow.

use gauntlet_packet::Direction;

use crate::buffer::{Buffer, Bytes, Kind, Number, to_client, to_server};
use crate::parser::{At, Input, Module, Outcome, Parser, Wishes};
use crate::protocol::Protocol;
use crate::reader::Reader;
use crate::record::Fields;
use crate::rooms;
use crate::tables::{TWO_STATES, number_row, row, stream_begins, transactions_in};
use crate::transaction::{Transaction, Transactions};

/// Longer names and reasons are an error.
const TEXT_BYTES_MAX: usize = 64 * 1024;

/// Bytes of a challenge and of its answer.
const SECRET_BYTES: usize = 16;

const UNIMPLEMENTED_SECURITY: u8 = 0;
const UNKNOWN_RESULT: u8 = 1;
const MALFORMED: u8 = 2;
const CONFUSED: u8 = 3;

const NAME: Buffer = Buffer::new(rooms::RFB, 0);
const SECURITY: Number = Number::new(rooms::RFB, 0);
const RESULT: Number = Number::new(rooms::RFB, 1);

pub(crate) static MODULE: Module = Module {
    protocol: Protocol::Rfb,
    events: &[
        "unimplemented_security_type",
        "unknown_security_result",
        "malformed_message",
        "confused_state",
    ],
    states: TWO_STATES,
    buffers: &[row(NAME, "rfb.name", Kind::Single, &[to_client(Protocol::Rfb, 0)])],
    numbers: &[
        number_row(SECURITY, "rfb.sectype", &[to_server(Protocol::Rfb, 0)]),
        number_row(RESULT, "rfb.secresult", &[to_client(Protocol::Rfb, 0)]),
    ],
    patterns: &[
        stream_begins(Direction::ToServer, b"RFB "),
        stream_begins(Direction::ToClient, b"RFB "),
    ],
    probes: &[],
    accepts_gaps: false,
    first: None,
    make: |_, _| Some(Box::new(Rfb::default())),
};

/// Who has to say what next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Step {
    #[default]
    ServerVersion,
    ClientVersion,
    /// Kinds of security that a server offers.
    Offer,
    /// The one that an old server dictates.
    Dictate,
    Choice,
    Challenge,
    Answer,
    Result,
    Failure,
    ClientInit,
    ServerInit,
    Over,
}

/// Why a step was not made.
enum Stop {
    More,
    Malformed,
    /// Not a stream of this protocol.
    Fatal,
    /// Nothing more is read.
    Over(Option<u8>),
}

#[derive(Debug, Clone, Default)]
struct Session {
    versions: [Option<(Vec<u8>, Vec<u8>)>; 2],
    offered: Vec<u8>,
    security: Option<u32>,
    is_chosen: bool,
    challenge: Option<Vec<u8>>,
    answer: Option<Vec<u8>>,
    result: Option<u32>,
    failure: Option<Vec<u8>>,
    shared: Option<u8>,
    screen: Option<Screen>,
}

#[derive(Debug, Clone, Default)]
struct Screen {
    width: u16,
    height: u16,
    format: [u8; 13],
    name: Vec<u8>,
}

#[derive(Default)]
struct Rfb {
    step: Step,
    sessions: Transactions<Session>,
}

fn more<T>(value: Option<T>) -> Result<T, Stop> {
    value.ok_or(Stop::More)
}

/// "RFB 003.008\n".
fn read_version(reader: &mut Reader<'_>) -> Result<(Vec<u8>, Vec<u8>), Stop> {
    let known = reader.rest().iter().zip(b"RFB ");
    if known.into_iter().any(|(byte, wanted)| byte != wanted) {
        return Err(Stop::Fatal);
    }
    let line = more(reader.take(12))?;
    match (line.get(4..7), line.get(7..8), line.get(8..11), line.get(11)) {
        (Some(major), Some(b"."), Some(minor), Some(b'\n'))
            if major.is_ascii() && minor.is_ascii() =>
        {
            Ok((major.to_vec(), minor.to_vec()))
        }
        _ => Err(Stop::Fatal),
    }
}

fn read_text(reader: &mut Reader<'_>) -> Result<Vec<u8>, Stop> {
    let length = usize::try_from(more(reader.be32())?).unwrap_or(usize::MAX);
    if length > TEXT_BYTES_MAX {
        return Err(Stop::Malformed);
    }
    Ok(more(reader.take(length))?.to_vec())
}

impl Session {
    /// Makes a step; says the next one.
    fn step(&mut self, step: Step, reader: &mut Reader<'_>) -> Result<Step, Stop> {
        Ok(match step {
            Step::ServerVersion => {
                self.versions[1] = Some(read_version(reader)?);
                Step::ClientVersion
            }
            Step::ClientVersion => {
                let (major, minor) = read_version(reader)?;
                let is_old = major == b"003" && minor == b"003";
                self.versions[0] = Some((major, minor));
                if is_old { Step::Dictate } else { Step::Offer }
            }
            Step::Offer => {
                self.offered = more(reader.prefixed8())?.to_vec();
                if self.offered.is_empty() { Step::Failure } else { Step::Choice }
            }
            Step::Dictate => self.dictate(reader)?,
            Step::Choice => self.choose(reader)?,
            Step::Challenge => {
                self.challenge = Some(more(reader.take(SECRET_BYTES))?.to_vec());
                Step::Answer
            }
            Step::Answer => {
                self.answer = Some(more(reader.take(SECRET_BYTES))?.to_vec());
                Step::Result
            }
            Step::Result => match more(reader.be32())? {
                0 => {
                    self.result = Some(0);
                    Step::ClientInit
                }
                1 => Step::Failure,
                _ => return Err(Stop::Over(Some(UNKNOWN_RESULT))),
            },
            Step::Failure => {
                self.failure = Some(read_text(reader)?);
                return Err(Stop::Over(None));
            }
            Step::ClientInit => {
                self.shared = Some(more(reader.u8())?);
                Step::ServerInit
            }
            Step::ServerInit => {
                let (width, height) = (more(reader.be16())?, more(reader.be16())?);
                let format = more(reader.array::<13>())?;
                more(reader.skip(3))?;
                self.screen = Some(Screen { width, height, format, name: read_text(reader)? });
                Step::Over
            }
            Step::Over => return Err(Stop::Over(None)),
        })
    }

    /// The kind of security that an old server dictates; says the next step.
    fn dictate(&mut self, reader: &mut Reader<'_>) -> Result<Step, Stop> {
        let security = more(reader.be32())?;
        let next = match security {
            0 => Step::Failure,
            1 => Step::ClientInit,
            2 => Step::Challenge,
            _ => return Err(Stop::Over(Some(UNIMPLEMENTED_SECURITY))),
        };
        self.security = Some(security);
        Ok(next)
    }

    /// The kind of security that a client chooses; says the next step.
    fn choose(&mut self, reader: &mut Reader<'_>) -> Result<Step, Stop> {
        let security = more(reader.u8())?;
        self.security = Some(u32::from(security));
        self.is_chosen = true;
        match security {
            1 => Ok(Step::ClientInit),
            2 => Ok(Step::Challenge),
            _ => Err(Stop::Over(Some(UNIMPLEMENTED_SECURITY))),
        }
    }
}

impl Step {
    fn is_of(self, direction: Direction) -> bool {
        let of_client =
            matches!(self, Self::ClientVersion | Self::Choice | Self::Answer | Self::ClientInit);
        of_client == (direction == Direction::ToServer)
    }
}

impl Rfb {
    fn session(&mut self) -> Option<&mut Transaction<Session>> {
        let last = self.sessions.last_mut()?;
        last.state.updated = [true, true];
        Some(last)
    }

    fn end(&mut self, event: Option<u8>) {
        self.step = Step::Over;
        if let Some(session) = self.session() {
            session.state.progress = [1, 1];
            if let Some(event) = event {
                session.state.event(event);
            }
        }
    }
}

impl Parser for Rfb {
    fn parse(&mut self, input: Input<'_>, wishes: &mut Wishes) -> Outcome {
        let mut consumed = 0;
        while let Some(rest) = input.bytes.get(consumed..).filter(|rest| !rest.is_empty()) {
            if self.step == Step::Over {
                return Outcome::Done;
            }
            if !self.step.is_of(input.direction) {
                self.end(Some(CONFUSED));
                return Outcome::Done;
            }
            let mut fresh = Session::default();
            let step = self.step;
            let mut reader = Reader::new(rest);
            let is_first = step == Step::ServerVersion;
            let made = match self.session() {
                Some(session) if !is_first => session.data.step(step, &mut reader),
                _ => fresh.step(step, &mut reader),
            };
            match made {
                Ok(next) => {
                    if is_first {
                        self.sessions.push(fresh);
                        self.session();
                    }
                    self.step = next;
                    wishes.open_frame("pdu", consumed, Some(reader.position() as u64), None);
                    consumed += reader.position();
                    wishes.inspect(input.direction);
                    if next == Step::Over {
                        self.end(None);
                    }
                }
                Err(Stop::More) => {
                    return Outcome::Incomplete { consumed, needed: rest.len() + 1 };
                }
                Err(Stop::Fatal) => return Outcome::Failed,
                Err(Stop::Malformed) => self.end(Some(MALFORMED)),
                // A client's choice leaves the transaction open.
                Err(Stop::Over(event)) => {
                    // The reason of a failure has none.
                    if step != Step::Failure && step != Step::Over {
                        let taken = reader.position() as u64;
                        wishes.open_frame("pdu", consumed, Some(taken), None);
                    }
                    wishes.inspect(input.direction);
                    let is_open = matches!(step, Step::Choice | Step::Failure);
                    self.step = Step::Over;
                    if !is_open {
                        self.end(event);
                    } else if let (Some(session), Some(event)) = (self.session(), event) {
                        session.state.event(event);
                    }
                }
            }
        }
        Outcome::Done
    }

    transactions_in!(sessions);

    fn buffer(&self, place: usize, _: At, _: usize) -> Option<Bytes<'_>> {
        let name = &self.sessions.at(place)?.data.screen.as_ref()?.name;
        (!name.is_empty()).then(|| Bytes::whole(name))
    }

    fn number(&self, place: usize, number: Number, _: Direction, i: usize) -> Option<i64> {
        let session = &self.sessions.at(place)?.data;
        let value = if number == SECURITY { session.security } else { session.result };
        value.filter(|_| i == 0).map(i64::from)
    }

    fn record(&self, place: usize, fields: &mut Fields) {
        if let Some(transaction) = self.sessions.at(place) {
            describe(&transaction.data, fields);
        }
    }
}

fn describe(session: &Session, fields: &mut Fields) {
    let mut rfb = Fields::default();
    let names = ["client_protocol_version", "server_protocol_version"];
    for (name, version) in names.into_iter().zip(&session.versions).rev() {
        if let Some((major, minor)) = version {
            let mut inner = Fields::default();
            inner.text("major", major);
            inner.text("minor", minor);
            rfb.object(name, inner);
        }
    }
    let mut authentication = Fields::default();
    if let Some(security) = session.security {
        authentication.number("security_type", i64::from(security));
    }
    let mut vnc = Fields::default();
    for (name, value) in [("challenge", &session.challenge), ("response", &session.answer)] {
        if let Some(value) = value {
            vnc.text(name, crate::text::hex(value).as_bytes());
        }
    }
    if !vnc.0.is_empty() {
        authentication.object("vnc", vnc);
    }
    if session.result.is_some() {
        authentication.text("security_result", b"OK");
    }
    if !authentication.0.is_empty() {
        rfb.object("authentication", authentication);
    }
    if let Some(reason) = &session.failure {
        rfb.text("server_security_failure_reason", reason);
    }
    if let Some(shared) = session.shared {
        rfb.truth("screen_shared", shared != 0);
    }
    if let Some(screen) = &session.screen {
        rfb.object("framebuffer", describe_screen(screen));
    }
    fields.object("rfb", rfb);
}

fn describe_screen(screen: &Screen) -> Fields {
    let mut fields = Fields::default();
    fields.number("width", i64::from(screen.width));
    fields.number("height", i64::from(screen.height));
    fields.text("name", &screen.name);
    let [bits, depth, big, colour, r1, r2, g1, g2, b1, b2, red, green, blue] = screen.format;
    let mut format = Fields::default();
    format.number("bits_per_pixel", i64::from(bits));
    format.number("depth", i64::from(depth));
    format.truth("big_endian", big != 0);
    format.truth("true_color", colour != 0);
    format.number("red_max", i64::from(u16::from_be_bytes([r1, r2])));
    format.number("green_max", i64::from(u16::from_be_bytes([g1, g2])));
    format.number("blue_max", i64::from(u16::from_be_bytes([b1, b2])));
    format.number("red_shift", i64::from(red));
    format.number("green_shift", i64::from(green));
    format.number("blue_shift", i64::from(blue));
    fields.object("pixel_format", format);
    fields
}
