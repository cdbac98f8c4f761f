//! What the tests of parsers share: bytes in, a parser with transactions out.

use gauntlet_packet::Direction;

use crate::buffer::{Buffer, Number};
use crate::parser::{At, Flow, Guess, Input, Module, Outcome, Parser, Question, Wishes};
use crate::protocol::Carrier;
use crate::settings::Settings;

/// Who sends, and what.
pub(crate) type Piece<'a> = (Direction, &'a [u8]);

pub(crate) const UP: Direction = Direction::ToServer;
pub(crate) const DOWN: Direction = Direction::ToClient;

fn flow(carrier: Carrier) -> Flow {
    Flow { carrier, ports: (40_000, 1), midstream: false, inline: false }
}

/// A parser that has taken these, and what it said of the last one.
pub(crate) fn play(
    module: &Module,
    carrier: Carrier,
    pieces: &[Piece<'_>],
) -> (Box<dyn Parser>, Outcome) {
    let mut parser = (module.make)(&Settings::default(), &flow(carrier)).expect("it has a parser");
    let mut outcome = Outcome::Done;
    for (direction, bytes) in pieces {
        let input = Input { direction: *direction, bytes, end: false };
        outcome = parser.parse(input, &mut Wishes { frames_wanted: true, ..Wishes::default() });
    }
    (parser, outcome)
}

/// What the module's probe takes these bytes for.
pub(crate) fn guess(
    module: &Module,
    carrier: Carrier,
    direction: Direction,
    bytes: &[u8],
) -> Guess {
    let flow = flow(carrier);
    let question = Question { flow: &flow, direction, bytes, other: None, other_bytes: 0 };
    let probe = module.probes.iter().find(|probe| probe.carrier == carrier);
    probe.and_then(|probe| probe.to_port).map_or(Guess::Unsure, |probe| probe(&question))
}

/// The bytes of a buffer by its keyword.
pub(crate) fn text(parser: &dyn Parser, place: usize, keyword: &str, i: usize) -> Option<Vec<u8>> {
    let buffer = Buffer::of_keyword(keyword).expect("the keyword is known");
    let at = At { buffer, direction: UP, end: false };
    parser.buffer(place, at, i).map(|bytes| bytes.data.into_owned())
}

/// A number by its keyword.
pub(crate) fn number(parser: &dyn Parser, place: usize, keyword: &str) -> Option<i64> {
    let number = Number::of_keyword(keyword).expect("the keyword is known");
    parser.number(place, number, UP, 0)
}

/// Names of a transaction's events.
pub(crate) fn events(module: &Module, parser: &dyn Parser, place: usize) -> Vec<&'static str> {
    let events = parser.state(place).map_or(&[][..], |state| &state.events);
    events.iter().filter_map(|event| module.events.get(usize::from(*event)).copied()).collect()
}

/// Every prefix of the last piece, and every byte of it changed to nasty ones: nothing may panic,
/// and all that there is must be readable.
pub(crate) fn walk(module: &Module, carrier: Carrier, pieces: &[Piece<'_>]) {
    let Some(((direction, last), before)) = pieces.split_last() else { return };
    let take = |bytes: &[u8]| {
        let all: Vec<Piece<'_>> = before.iter().copied().chain([(*direction, bytes)]).collect();
        let (parser, outcome) = play(module, carrier, &all);
        if let Outcome::Incomplete { consumed, .. } = outcome {
            assert!(consumed <= bytes.len());
        }
        read_all(module, parser.as_ref());
    };
    for end in 0..=last.len() {
        take(last.get(..end).expect("it is a prefix"));
    }
    for place in 0..last.len() {
        for value in [0, 1, 0x7f, 0x80, 0xff] {
            let mut changed = last.to_vec();
            changed[place] = value;
            take(&changed);
        }
    }
}

fn read_all(module: &Module, parser: &dyn Parser) {
    for place in 0..parser.count() {
        for direction in [UP, DOWN] {
            for spec in module.buffers {
                let at = At { buffer: spec.buffer, direction, end: true };
                let _ = (parser.buffer(place, at, 0), parser.buffer(place, at, 1));
            }
            for spec in module.numbers {
                let _ = parser.number(place, spec.number, direction, 0);
            }
        }
        parser.record(place, &mut crate::record::Fields::default());
    }
}
