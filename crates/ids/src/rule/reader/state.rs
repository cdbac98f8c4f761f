//! State of flows and hosts: `flow`, `flowbits`, `flowint`, `xbits`, `hostbits`, variables.

use super::draft::{Draft, List, Outcome};
use super::keyword::{Keyword, keyword};
use super::text::Quotes;
use crate::rule::buffers;
use crate::rule::header::{Direction, Hook};
use crate::rule::matches::{
    BitCommand, Flow, FlowBits, FlowInt, HostBits, IntCommand, IntValue, Match, PacketCheck, Track,
    VariableCheck,
};

pub(super) const KEYWORDS: &[Keyword] = &[
    keyword("flow", flow),
    keyword("flowbits", flow_bits),
    keyword("flowint", flow_int),
    keyword("xbits", x_bits),
    keyword("hostbits", host_bits),
    keyword("flowvar", |draft, value| variable(draft, value, false))
        .quotes(Quotes::Optional)
        .negatable(),
    keyword("pktvar", |draft, value| variable(draft, value, true))
        .quotes(Quotes::Optional)
        .negatable(),
];

/// Most flowbits in one `|` list.
const BITS_MAX: usize = 100;
/// Names of flowbits in one keyword are shorter, in bytes.
const NAMES_BYTES_MAX: usize = 256;
/// How long a host's bit lives unless the rule says.
const EXPIRE_SECONDS: u32 = 30;

fn flow(draft: &mut Draft<'_>, value: &str) -> Outcome {
    let words: Vec<&str> = value.split(',').map(str::trim).collect();
    if words.len() > 3 {
        return Err("flow has at most three words".into());
    }
    // A direction alone is not counted: it may be said before.
    if draft.has_flow {
        return Err("flow is there twice".into());
    }
    let mut flow = Flow::default();
    for word in words {
        take_flow_word(&mut flow, &word.to_ascii_lowercase())?;
    }
    let clash = flow.established && (flow.not_established || flow.stateless)
        || flow.only_fragment && flow.no_fragment
        || flow.only_stream && flow.no_stream;
    if clash {
        return Err("its words exclude each other".into());
    }
    let towards = &mut draft.towards;
    match flow.direction {
        Some(_) if draft.is_bidirectional => {
            return Err("a rule with => is for both directions".into());
        }
        Some(Direction::ToServer) if towards.client => {
            return Err("the rule is for the other direction already".into());
        }
        Some(Direction::ToClient) if towards.server => {
            return Err("the rule is for the other direction already".into());
        }
        Some(Direction::ToServer) => towards.server = true,
        Some(Direction::ToClient) => towards.client = true,
        None if !towards.server && !towards.client => {
            (towards.server, towards.client) = (true, true);
        }
        None => {}
    }
    let state = Flow { direction: None, only_stream: false, no_stream: false, ..flow };
    if state != Flow::default() {
        draft.has_flow = true;
        draft.append(List::Packet, Match::Packet(PacketCheck::Flow(flow)))?;
    }
    draft.needs_stream |= flow.only_stream;
    draft.needs_packet |= flow.no_stream;
    draft.flow = flow;
    Ok(())
}

fn take_flow_word(flow: &mut Flow, word: &str) -> Outcome {
    let slot = match word {
        "to_server" | "from_client" | "to_client" | "from_server" => {
            let is_server = matches!(word, "to_server" | "from_client");
            let direction = if is_server { Direction::ToServer } else { Direction::ToClient };
            return match flow.direction.replace(direction) {
                None => Ok(()),
                Some(_) => Err("a direction is there twice".into()),
            };
        }
        "established" => &mut flow.established,
        "not_established" => &mut flow.not_established,
        "stateless" => &mut flow.stateless,
        "only_stream" => &mut flow.only_stream,
        "no_stream" => &mut flow.no_stream,
        "only_frag" => &mut flow.only_fragment,
        "no_frag" => &mut flow.no_fragment,
        _ => return Err(format!("invalid flow option {word:?}").into()),
    };
    if std::mem::replace(slot, true) {
        Err(format!("{word} is there twice").into())
    } else {
        Ok(())
    }
}

fn bit_command(word: &str) -> Outcome<BitCommand> {
    Ok(match word {
        "set" => BitCommand::Set,
        "unset" => BitCommand::Unset,
        "toggle" => BitCommand::Toggle,
        "isset" => BitCommand::IsSet,
        "isnotset" => BitCommand::IsNotSet,
        _ => return Err(format!("{word:?} is not an action on bits").into()),
    })
}

/// The list of an action on bits: tests before a match, acts after it.
fn list_of(command: BitCommand) -> List {
    match command {
        BitCommand::IsSet | BitCommand::IsNotSet => List::Packet,
        _ => List::Post,
    }
}

fn flow_bits(draft: &mut Draft<'_>, value: &str) -> Outcome {
    let (command, names) = match value.split_once(',') {
        Some((command, names)) => (command, names.trim_start().trim_end_matches([' ', '\t'])),
        None => (value.trim_end(), ""),
    };
    if command == "noalert" {
        draft.no_alert = true;
        return if names.is_empty() { Ok(()) } else { Err("noalert has no name".into()) };
    }
    let command = bit_command(command)?;
    if names.len() >= NAMES_BYTES_MAX {
        return Err(format!("the names have {NAMES_BYTES_MAX} bytes or more").into());
    }
    let count = names.split('|').count();
    let names: Vec<&str> = names
        .split('|')
        .map(|name| name.trim_matches([' ', '\t']))
        .filter(|name| !name.is_empty())
        .collect();
    if names.len() > BITS_MAX {
        return Err(format!("more than {BITS_MAX} names").into());
    }
    if names.is_empty() {
        return Err("the name of a flowbit is missing".into());
    }
    if names.iter().any(|name| name.contains([' ', '\t'])) {
        return Err("names of flowbits have no spaces".into());
    }
    // With `|` Suricata loads what changes bits, too, and changes none.
    let is_test = list_of(command) == List::Packet;
    let bits = names.iter().filter(|_| is_test || count == 1);
    let bits = bits.map(|name| draft.shared.flowbits.of(name)).collect();
    draft.append(list_of(command), Match::FlowBits(FlowBits { command, bits })).map(|_| ())
}

fn flow_int(draft: &mut Draft<'_>, value: &str) -> Outcome {
    let bad = || format!("{value:?} is not NAME, OPERATOR[, VALUE]");
    let mut parts = value.splitn(3, ',').map(str::trim);
    let name = parts.next().filter(|name| is_counter(name, "_./")).ok_or_else(bad)?.to_owned();
    let operation = parts.next().ok_or_else(bad)?;
    let known = |(sign, _): &&(&str, IntCommand)| operation.starts_with(sign);
    let (sign, command) = *COUNTER_COMMANDS.iter().find(known).ok_or_else(bad)?;
    // The comma between operator and value may be missing.
    let behind = operation.strip_prefix(sign).unwrap_or_default();
    let rest = match parts.next() {
        Some(rest) if behind.trim().is_empty() => rest,
        Some(_) => return Err(bad().into()),
        None => behind,
    };
    let rest = rest.trim();
    let value = match command {
        IntCommand::IsSet | IntCommand::IsNotSet => IntValue::None,
        _ if rest.starts_with(|c: char| c.is_ascii_digit()) => {
            IntValue::Number(rest.parse().map_err(|_| bad())?)
        }
        _ if !is_counter(rest, "_") => return Err(bad().into()),
        _ => IntValue::Variable(draft.shared.variables.of(rest)),
    };
    let variable = draft.shared.variables.of(&name);
    let list = match command {
        IntCommand::Set | IntCommand::Add | IntCommand::Subtract => List::Post,
        _ => List::Packet,
    };
    draft.append(list, Match::FlowInt(FlowInt { command, variable, value })).map(|_| ())
}

/// What `flowint` does; of signs that begin alike the longer one first.
const COUNTER_COMMANDS: &[(&str, IntCommand)] = &[
    ("==", IntCommand::Equal),
    ("!=", IntCommand::NotEqual),
    ("<=", IntCommand::AtMost),
    (">=", IntCommand::AtLeast),
    ("=", IntCommand::Set),
    ("+", IntCommand::Add),
    ("-", IntCommand::Subtract),
    ("<", IntCommand::Less),
    (">", IntCommand::More),
    ("isset", IntCommand::IsSet),
    ("isnotset", IntCommand::IsNotSet),
    ("notset", IntCommand::IsNotSet),
];

/// Names of counters begin with a letter and have two characters at least.
fn is_counter(name: &str, others: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || others.contains(c);
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic());
    begins && name.len() > 1 && name.chars().all(is_part)
}

fn x_bits(draft: &mut Draft<'_>, value: &str) -> Outcome {
    let mut command = None;
    let mut name = None;
    let mut track = None;
    let mut expire = None;
    for word in value.split(',').map(|word| word.trim_matches([' ', '\t'])) {
        let (key, argument) = word.split_once(' ').unwrap_or((word, ""));
        let argument = argument.trim();
        if key.is_empty() {
            continue;
        }
        if command.is_none() {
            if key == "noalert" {
                draft.no_alert = true;
                return Ok(());
            }
            command = Some(bit_command(word)?);
        } else if name.is_none() {
            if !argument.is_empty() {
                return Err("names of xbits have no spaces".into());
            }
            name = Some(key);
        } else if key == "track" && track.is_none() {
            track = Some(match argument {
                "ip_src" => Track::Source,
                "ip_dst" => Track::Destination,
                "ip_pair" => Track::Pair,
                "tx" => Track::Transaction,
                _ => return Err(format!("invalid xbits tracker {argument:?}").into()),
            });
        } else if key == "expire" && expire.is_none() {
            let seconds = argument.parse::<u32>().ok().filter(|&seconds| seconds > 0);
            expire = Some(seconds.ok_or("expire is a number of seconds from 1")?);
        } else {
            return Err(format!("{word:?} is not known").into());
        }
    }
    let command = command.ok_or("the action is missing")?;
    let track = track.ok_or("track is missing")?;
    if track == Track::Transaction && !matches!(command, BitCommand::IsSet | BitCommand::Set) {
        return Err("bits of transactions know set and isset only".into());
    }
    let bit = draft.shared.xbits.of(name.ok_or("the name is missing")?);
    let expire_seconds = expire.unwrap_or(EXPIRE_SECONDS);
    let list = match track {
        Track::Transaction if command == BitCommand::IsSet => transaction_list(draft)?,
        _ => list_of(command),
    };
    let bits = HostBits { command, bit, track, expire_seconds, is_hostbits: false };
    draft.append(list, Match::HostBits(bits)).map(|_| ())
}

/// The list of the rule's hook.
fn transaction_list(draft: &mut Draft<'_>) -> Outcome<List> {
    let Some(Hook::Transaction { .. }) = draft.hook else {
        return Err("bits of transactions need a hook in the header".into());
    };
    let name = buffers::buffer("hook").map_or("hook", |info| info.name);
    Ok(List::Buffer(draft.key(name)))
}

/// How long a bit of `hostbits` stays set.
const HOSTBITS_SECONDS: u32 = 300;

fn host_bits(draft: &mut Draft<'_>, value: &str) -> Outcome {
    let mut parts = value.splitn(3, ',').map(str::trim);
    let command = parts.next().unwrap_or_default();
    let name = parts.next().unwrap_or_default();
    let side = parts.next();
    if command == "noalert" {
        draft.no_alert = true;
        return if name.is_empty() { Ok(()) } else { Err("noalert has no name".into()) };
    }
    let command = bit_command(command)?;
    let track = match side {
        None | Some("src") => Track::Source,
        Some("dst") => Track::Destination,
        Some(side) => return Err(format!("{side:?} is neither src nor dst").into()),
    };
    if name.is_empty() || name.contains(char::is_whitespace) {
        return Err("the name is missing or has spaces".into());
    }
    let bit = draft.shared.xbits.of(name);
    let bits =
        HostBits { command, bit, track, expire_seconds: HOSTBITS_SECONDS, is_hostbits: true };
    draft.append(list_of(command), Match::HostBits(bits)).map(|_| ())
}

fn variable(draft: &mut Draft<'_>, value: &str, of_packet: bool) -> Outcome {
    let (name, content) = value.split_once(',').ok_or("it is NAME, CONTENT")?;
    let content = content.trim().trim_start_matches('"').trim_end_matches('"');
    let check = VariableCheck {
        of_packet,
        variable: draft.shared.variables.of(name.trim()),
        bytes: super::content::bytes(content)?,
    };
    draft.append(List::Packet, Match::Variable(check)).map(|_| ())
}
