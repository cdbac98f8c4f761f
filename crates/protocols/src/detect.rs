//! Recognises protocols by the first bytes of each direction.
//!
//! Patterns first, then probing functions by port; what is not recognised within the longest
//! pattern and by any function stays unknown. Each direction by itself.

use gauntlet_packet::Direction;

use crate::parser::{Flow, Guess, Pattern, Probe, ProbeFn, Question};
use crate::protocol::{Carrier, Protocol};
use crate::registry;
use crate::settings::Settings;

/// What is known of one direction.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Progress {
    /// Patterns cannot say more.
    pub patterns_done: bool,
    /// Probing functions cannot say more.
    pub probes_done: bool,
    /// Probing functions that said no, by their order.
    excluded: u64,
}

/// What was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Found {
    /// The protocol.
    pub protocol: Protocol,
    /// Client and server are to be swapped.
    pub reversed: bool,
    /// A pattern told, not a probing function.
    pub by_pattern: bool,
}

/// What the detector is told.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hints {
    /// Protocol of the other direction, if known.
    pub other: Option<Protocol>,
    /// Protocol that is expected after a change.
    pub expected: Option<Protocol>,
}

/// Looks at the first bytes of a direction.
pub(crate) fn detect(
    settings: &Settings,
    question: &Question<'_>,
    progress: &mut Progress,
    hints: Hints,
) -> Option<Found> {
    if !progress.patterns_done
        && let Some(found) = by_patterns(settings, question, progress)
    {
        return Some(Found { by_pattern: true, ..found });
    }
    if progress.probes_done {
        return None;
    }
    by_probes(settings, question, progress, hints)
}

/// Both longest place of a pattern, and most bytes that a confirming function wants.
fn depths(settings: &Settings, carrier: Carrier, direction: Direction) -> (usize, usize) {
    let of = patterns(settings, carrier, direction);
    of.fold((0, 0), |(depth, confirm), (_, pattern)| {
        let wanted = pattern.confirm.map_or(0, |(_, _, max)| usize::from(max));
        (depth.max(usize::from(pattern.depth)), confirm.max(wanted))
    })
}

fn patterns(
    settings: &Settings,
    carrier: Carrier,
    direction: Direction,
) -> impl Iterator<Item = (Protocol, &'static Pattern)> {
    // What is looked up comes last: few patterns are left by then.
    registry::MODULES
        .iter()
        .flat_map(|module| module.patterns.iter().map(|pattern| (module.protocol, pattern)))
        .filter(move |(_, pattern)| pattern.carrier == carrier && pattern.direction == direction)
        .filter(|(protocol, _)| !settings.disabled.contains(protocol))
}

fn by_patterns(
    settings: &Settings,
    question: &Question<'_>,
    progress: &mut Progress,
) -> Option<Found> {
    let own = scan(settings, question, question.direction);
    if let Scan::Found(found) = own {
        progress.patterns_done = true;
        return Some(found);
    }
    if !settings.midstream {
        progress.patterns_done = own == Scan::Hopeless;
        return None;
    }
    let other = scan(settings, question, question.direction.reverse());
    if let Scan::Found(found) = other {
        progress.patterns_done = true;
        return Some(found);
    }
    progress.patterns_done = own == Scan::Hopeless && other == Scan::Hopeless;
    None
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scan {
    Found(Found),
    Unsure,
    Hopeless,
}

/// Tries the patterns of this direction on the question's bytes.
fn scan(settings: &Settings, question: &Question<'_>, direction: Direction) -> Scan {
    let carrier = question.flow.carrier;
    let (depth, confirm) = depths(settings, carrier, direction);
    if depth == 0 {
        return Scan::Hopeless;
    }
    let bytes = question.bytes;
    let head = bytes.get(..depth).unwrap_or(bytes);
    let mut hits = false;
    for (protocol, pattern) in patterns(settings, carrier, direction) {
        if !matches(pattern, head) {
            continue;
        }
        hits = true;
        let reversed = match pattern.confirm {
            None => direction != question.direction,
            Some((_, min, _)) if bytes.len() < usize::from(min) => continue,
            Some((probe, _, _)) => match probe(question) {
                Guess::Yes => false,
                Guess::Reversed => true,
                Guess::No | Guess::Unsure => continue,
            },
        };
        return Scan::Found(Found { protocol, reversed, by_pattern: false });
    }
    let enough = if hits { bytes.len() >= confirm } else { bytes.len() >= depth };
    if enough { Scan::Hopeless } else { Scan::Unsure }
}

/// Whether the pattern lies between its bounds. All bytes up to the depth must be there.
fn matches(pattern: &Pattern, bytes: &[u8]) -> bool {
    let Some(part) = bytes.get(usize::from(pattern.offset)..usize::from(pattern.depth)) else {
        return false;
    };
    part.windows(pattern.bytes.len().max(1)).any(|window| {
        if pattern.case {
            window == pattern.bytes
        } else {
            window.eq_ignore_ascii_case(pattern.bytes)
        }
    })
}

/// The ports on which a probing function is asked.
fn ports_of<'a>(settings: &'a Settings, protocol: Protocol, probe: &'a Probe) -> &'a [u16] {
    let of = |carrier| settings.ports.get(&(protocol, carrier));
    match of(None).or_else(|| of(Some(probe.carrier))) {
        Some(ports) if !probe.ports.contains(&0) => ports,
        _ => probe.ports,
    }
}

/// Probes for a port: its own, then those for any port.
fn probes_of(
    settings: &Settings,
    carrier: Carrier,
    port: u16,
    direction: Direction,
) -> impl Iterator<Item = (Protocol, &'static Probe)> {
    let all = move |own: bool| {
        registry::MODULES
            .iter()
            .flat_map(|module| module.probes.iter().map(|probe| (module.protocol, probe)))
            .filter(move |(_, probe)| probe.carrier == carrier && probe.direction == direction)
            .filter(|(protocol, _)| !settings.disabled.contains(protocol))
            .filter(move |(protocol, probe)| {
                let ports = ports_of(settings, *protocol, probe);
                if own { port != 0 && ports.contains(&port) } else { ports.contains(&0) }
            })
    };
    all(true).chain(all(false))
}

fn by_probes(
    settings: &Settings,
    question: &Question<'_>,
    progress: &mut Progress,
    hints: Hints,
) -> Option<Found> {
    let mut any = false;
    let known = hints.expected.or(hints.other);
    if let Some(found) = known.and_then(|protocol| by_hint(settings, question, protocol, &mut any))
    {
        return Some(found);
    }
    let (client, server) = question.flow.ports;
    let mut tried = 0_u32;
    let carrier = question.flow.carrier;
    let by_destination = probes_of(settings, carrier, server, Direction::ToServer);
    let by_source = probes_of(settings, carrier, client, Direction::ToClient);
    for (protocol, probe) in by_destination.chain(by_source) {
        any = true;
        let bit = 1_u64 << tried.min(63);
        tried += 1;
        if question.bytes.len() < usize::from(probe.min) || progress.excluded & bit != 0 {
            continue;
        }
        let guess = ask(probe, question);
        if let Some(reversed) = guess.reversed() {
            return Some(Found { protocol, reversed, by_pattern: false });
        }
        let spent = probe.max != 0 && question.bytes.len() > usize::from(probe.max);
        if guess == Guess::No || spent {
            progress.excluded |= bit;
        }
    }
    if settings.midstream
        && let Some(found) = swapped(settings, question, &mut any)
    {
        return Some(found);
    }
    let all = if tried >= 64 { u64::MAX } else { (1_u64 << tried) - 1 };
    progress.probes_done = !any || (tried > 0 && progress.excluded == all);
    None
}

/// The probe of a protocol that is expected, or was found in the other direction.
fn by_hint(
    settings: &Settings,
    question: &Question<'_>,
    protocol: Protocol,
    any: &mut bool,
) -> Option<Found> {
    if settings.disabled.contains(&protocol) {
        return None;
    }
    let module = registry::module(protocol)?;
    let mut probes = module.probes.iter();
    let probe = probes.find(|probe| probe.carrier == question.flow.carrier)?;
    *any = true;
    if question.bytes.len() < usize::from(probe.min) {
        return None;
    }
    ask(probe, question).reversed().map(|reversed| Found { protocol, reversed, by_pattern: false })
}

/// Of connections whose beginning was not seen, client and server may be the other way round.
fn swapped(settings: &Settings, question: &Question<'_>, any: &mut bool) -> Option<Found> {
    let (client, server) = question.flow.ports;
    let carrier = question.flow.carrier;
    let by_destination = probes_of(settings, carrier, client, Direction::ToServer);
    let by_source = probes_of(settings, carrier, server, Direction::ToClient);
    for (protocol, probe) in by_destination.chain(by_source) {
        *any = true;
        if question.bytes.len() < usize::from(probe.min) {
            continue;
        }
        if let Some(reversed) = ask(probe, question).reversed() {
            return Some(Found { protocol, reversed, by_pattern: false });
        }
    }
    None
}

fn ask(probe: &Probe, question: &Question<'_>) -> Guess {
    let forth = question.direction == probe.direction;
    let function: Option<ProbeFn> = if forth { probe.to_port } else { probe.from_port };
    function.map_or(Guess::Unsure, |function| function(question))
}

impl Guess {
    /// Of a yes, whether it is one for the reversed flow.
    fn reversed(self) -> Option<bool> {
        match self {
            Guess::Yes => Some(false),
            Guess::Reversed => Some(true),
            Guess::No | Guess::Unsure => None,
        }
    }
}

/// A flow with another server's port, for detection after CONNECT and STARTTLS.
pub(crate) fn with_port(flow: &Flow, port: Option<u16>) -> Flow {
    match port {
        Some(port) if port != 0 => Flow { ports: (flow.ports.0, port), ..*flow },
        _ => *flow,
    }
}
