//! Checks on headers of packets and facts of flows.

use super::draft::{Draft, List, Outcome};
use super::ip_names::protocol_number;
use super::keyword::{Keyword, digits, keyword, number};

use super::text::Quotes;
use crate::rule::matches::{
    Asn1, BitsMode, ChecksumOf, ConfigAction, Match, PacketCheck, PacketNumber, ReputationSide,
    ReputationTest, StreamSide,
};
use crate::rule::number::{Compare, compare};

const U8: u64 = u8::MAX as u64;
const U16: u64 = u16::MAX as u64;
const U32: u64 = u32::MAX as u64;

pub(super) const KEYWORDS: &[Keyword] = &[
    keyword("ttl", |d, v| generic(d, v, PacketNumber::Ttl, U8)),
    keyword("itype", |d, v| generic(d, v, PacketNumber::IcmpType, U8)),
    keyword("icode", |d, v| generic(d, v, PacketNumber::IcmpCode, U8)),
    keyword("icmpv6.mtu", |d, v| generic(d, v, PacketNumber::Icmpv6Mtu, U32)),
    keyword("tcp.mss", |d, v| generic(d, v, PacketNumber::TcpMss, U16)),
    keyword("tcp.wscale", |d, v| generic(d, v, PacketNumber::TcpWindowScale, U8)),
    keyword("flow.age", |d, v| generic(d, v, PacketNumber::FlowAge, U32)),
    keyword("flow.pkts", |d, v| flow_count(d, v, FLOW_PACKETS, U32)),
    keyword("flow.bytes", |d, v| flow_count(d, v, FLOW_BYTES, u64::MAX)),
    keyword("flow.pkts_toserver", |d, v| generic(d, v, PacketNumber::FlowPacketsToServer, U32)),
    keyword("flow.pkts_toclient", |d, v| generic(d, v, PacketNumber::FlowPacketsToClient, U32)),
    keyword("flow.bytes_toserver", |d, v| generic(d, v, PacketNumber::FlowBytesToServer, u64::MAX)),
    keyword("flow.bytes_toclient", |d, v| generic(d, v, PacketNumber::FlowBytesToClient, u64::MAX)),
    keyword("vlan.layers", vlan_layers),
    keyword("vlan.id", vlan_id),
    keyword("dsize", dsize),
    keyword("tos", tos).quotes(Quotes::Optional).negatable(),
    keyword("id", |d, v| quoted(d, v, PacketNumber::IpId)),
    keyword("icmp_id", |d, v| quoted(d, v, PacketNumber::IcmpId)),
    keyword("icmp_seq", |d, v| quoted(d, v, PacketNumber::IcmpSequence)),
    keyword("seq", |d, v| exact(d, v, PacketNumber::Sequence)),
    keyword("tcp.seq", |d, v| exact(d, v, PacketNumber::Sequence)),
    keyword("ack", |d, v| exact(d, v, PacketNumber::Acknowledgement)),
    keyword("tcp.ack", |d, v| exact(d, v, PacketNumber::Acknowledgement)),
    keyword("window", window),
    keyword("tcp.window", window),
    keyword("flags", tcp_flags),
    keyword("tcp.flags", tcp_flags),
    keyword("fragbits", fragment_bits),
    keyword("fragoffset", fragment_offset),
    keyword("ipopts", ip_option),
    keyword("ip_proto", ip_protocol).quotes(Quotes::Optional),
    keyword("l3_proto", network_protocol),
    keyword("sameip", |d, _| check(d, PacketCheck::SameIp)).without_value(),
    keyword("ipv4-csum", |d, v| checksum(d, v, ChecksumOf::Ipv4)),
    keyword("tcpv4-csum", |d, v| checksum(d, v, ChecksumOf::TcpV4)),
    keyword("tcpv6-csum", |d, v| checksum(d, v, ChecksumOf::TcpV6)),
    keyword("udpv4-csum", |d, v| checksum(d, v, ChecksumOf::UdpV4)),
    keyword("udpv6-csum", |d, v| checksum(d, v, ChecksumOf::UdpV6)),
    keyword("icmpv4-csum", |d, v| checksum(d, v, ChecksumOf::IcmpV4)),
    keyword("icmpv6-csum", |d, v| checksum(d, v, ChecksumOf::IcmpV6)),
    keyword("stream_size", stream_size),
    keyword("iprep", reputation),
    keyword("rpc", rpc),
    keyword("asn1", asn1),
    keyword("bypass", bypass).without_value(),
    keyword("config", config),
    keyword("nfq_set_mark", mark),
    keyword("lua", |_, _| Err("scripts in Lua are not supported".into())),
    keyword("luaxform", |_, _| Err("scripts in Lua are not supported".into())),
];

const FLOW_PACKETS: [PacketNumber; 3] = [
    PacketNumber::FlowPacketsToServer,
    PacketNumber::FlowPacketsToClient,
    PacketNumber::FlowPacketsEither,
];
const FLOW_BYTES: [PacketNumber; 3] = [
    PacketNumber::FlowBytesToServer,
    PacketNumber::FlowBytesToClient,
    PacketNumber::FlowBytesEither,
];

/// Whether `prefilter` may name it.
pub(super) fn has_prefilter(item: &Match) -> bool {
    match item {
        Match::Number(number, _) => !matches!(
            number,
            PacketNumber::Tos
                | PacketNumber::Window
                | PacketNumber::FlowBytesEither
                | PacketNumber::FlowBytesToServer
                | PacketNumber::FlowBytesToClient
        ),
        Match::Packet(check) => matches!(
            check,
            PacketCheck::Flow(_)
                | PacketCheck::TcpFlags { .. }
                | PacketCheck::FragmentBits { .. }
                | PacketCheck::StreamSize { .. }
                | PacketCheck::VlanId { .. }
        ),
        Match::FlowBits(_) | Match::AppProtocol(_) | Match::EngineEvent(_) => true,
        _ => false,
    }
}

/// Buffers of packets' headers need a packet that can have the header.
pub(super) fn note_header_buffer(draft: &mut Draft<'_>, buffer: &str) -> Outcome {
    let protocols = &mut draft.header.protocols;
    let wanted = match buffer {
        "ipv4.hdr" | "ipv6.hdr" => None,
        "icmpv4.hdr" => Some(1),
        "icmpv6.hdr" => Some(58),
        "tcp.hdr" => Some(6),
        "udp.hdr" => Some(17),
        _ => return Ok(()),
    };
    if wanted.is_some_and(|number| !protocols.contains(number)) {
        return Err("the rule's protocol has no such header".into());
    }
    match buffer {
        "ipv4.hdr" | "icmpv4.hdr" => protocols.only_v4 = true,
        "ipv6.hdr" | "icmpv6.hdr" => protocols.only_v6 = true,
        _ => {}
    }
    draft.needs_packet = true;
    Ok(())
}

fn add(draft: &mut Draft<'_>, number: PacketNumber, compare: Compare) -> Outcome {
    draft.append(List::Packet, Match::Number(number, compare))?;
    draft.needs_packet = true;
    Ok(())
}

/// A check that needs a packet.
fn check(draft: &mut Draft<'_>, check: PacketCheck) -> Outcome {
    draft.append(List::Packet, Match::Packet(check))?;
    draft.needs_packet = true;
    Ok(())
}

fn generic(draft: &mut Draft<'_>, value: &str, number: PacketNumber, max: u64) -> Outcome {
    add(draft, number, compare(value, max)?)
}

/// `flow.pkts:[toserver|toclient|either,]COMPARISON`.
fn flow_count(
    draft: &mut Draft<'_>,
    value: &str,
    [server, client, either]: [PacketNumber; 3],
    max: u64,
) -> Outcome {
    let (side, text) = value.split_once(',').ok_or("it is DIRECTION,COMPARISON")?;
    let number = match side.trim() {
        "toserver" => server,
        "toclient" => client,
        "either" => either,
        other => return Err(format!("{other:?} is no direction here").into()),
    };
    add(draft, number, compare(text, max)?)
}

fn vlan_layers(draft: &mut Draft<'_>, value: &str) -> Outcome {
    let wanted = compare(value, U8)?;
    if !(0..=3).any(|layers| wanted.holds(layers)) {
        return Err("there are at most three layers".into());
    }
    add(draft, PacketNumber::VlanLayers, wanted)
}

fn vlan_id(draft: &mut Draft<'_>, value: &str) -> Outcome {
    let (id, layer) = value.split_once(',').unwrap_or((value, "any"));
    let layer = match layer.trim() {
        "any" => crate::rule::matches::ElementIndex::Any,
        "all" => crate::rule::matches::ElementIndex::AllOne,
        "all_or_absent" => crate::rule::matches::ElementIndex::All,
        text => match text.parse::<i32>() {
            Ok(layer @ -3..=2) => crate::rule::matches::ElementIndex::At(layer),
            _ => {
                let count = text.strip_prefix("nb").ok_or("the layer is -3 to 2, any or all")?;
                crate::rule::matches::ElementIndex::Count(compare(count, U8)?)
            }
        },
    };
    check(draft, PacketCheck::VlanId { layer, compare: compare(id, U16)? })
}

fn dsize(draft: &mut Draft<'_>, value: &str) -> Outcome {
    let is_size = |item: &Match| matches!(item, Match::Number(PacketNumber::PayloadSize, _));
    if draft.packet.iter().any(|entry| is_size(&entry.item)) {
        return Err("dsize is there twice".into());
    }
    generic(draft, value, PacketNumber::PayloadSize, U16)
}

/// A number with or without quotes of its own.
fn quoted(draft: &mut Draft<'_>, value: &str, number: PacketNumber) -> Outcome {
    let text = value.trim().trim_matches('"').trim();
    let id = digits(text).filter(|id| *id <= U16);
    let id = id.ok_or_else(|| format!("{value:?} is no number up to 65535"))?;
    add(draft, number, Compare::Equal(id))
}

fn exact(draft: &mut Draft<'_>, value: &str, which: PacketNumber) -> Outcome {
    let text = value.trim();
    let wanted = digits(text.strip_prefix('+').unwrap_or(text)).filter(|wanted| *wanted <= U32);
    let wanted = wanted.ok_or_else(|| format!("{value:?} is no number up to {U32}"))?;
    add(draft, which, Compare::Equal(wanted))
}

fn tos(draft: &mut Draft<'_>, value: &str) -> Outcome {
    let text = value.trim();
    let tos = match text.strip_prefix(['x', 'X']) {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => digits(text),
    };
    let tos = tos.filter(|tos| *tos <= U8);
    let tos = tos.ok_or_else(|| format!("{value:?} is no type of service"))?;
    let wanted = if draft.is_negated { Compare::NotEqual(tos) } else { Compare::Equal(tos) };
    add(draft, PacketNumber::Tos, wanted)
}

fn window(draft: &mut Draft<'_>, value: &str) -> Outcome {
    let text = value.trim();
    let negated = text.starts_with('!');
    let size = digits(text.trim_start_matches('!').trim()).filter(|size| *size <= U16);
    let size = size.ok_or_else(|| format!("{value:?} is no window"))?;
    let wanted = if negated { Compare::NotEqual(size) } else { Compare::Equal(size) };
    add(draft, PacketNumber::Window, wanted)
}

fn bits_mode(letter: char) -> Option<BitsMode> {
    Some(match letter {
        '!' => BitsMode::Not,
        '+' => BitsMode::All,
        '*' => BitsMode::Any,
        _ => return None,
    })
}

fn tcp_flag(letter: char) -> Option<u8> {
    Some(match letter {
        'F' => 0x01,
        'S' => 0x02,
        'R' => 0x04,
        'P' => 0x08,
        'A' => 0x10,
        'U' => 0x20,
        'E' | '2' => 0x40,
        'C' | '1' => 0x80,
        _ => return None,
    })
}

fn tcp_flags(draft: &mut Draft<'_>, value: &str) -> Outcome {
    let (wanted, ignored) = match value.split_once(',') {
        Some((wanted, ignored)) => (wanted.trim(), Some(ignored.trim())),
        None => (value.trim(), None),
    };
    // There may be space behind a modifier that comes first, and nowhere else.
    let behind = wanted.strip_prefix(|c| bits_mode(c).is_some()).unwrap_or(wanted).trim_start();
    if behind.contains(char::is_whitespace) || ignored.is_some_and(|i| i.contains(' ')) {
        return Err("there are spaces between the flags".into());
    }
    let (mut flags, mut mode, mut count) = (0, None, 0);
    for letter in wanted.chars().filter(|c| !c.is_whitespace()) {
        if let Some(other) = bits_mode(letter) {
            if mode.replace(other).is_some() {
                return Err("one modifier at a time".into());
            }
        } else if letter == '0' {
            (flags, count) = (0, count + 1);
        } else {
            flags |= tcp_flag(letter).ok_or_else(|| format!("{letter:?} is no flag"))?;
            count += 1;
        }
    }
    if count == 0 {
        return Err("there are no flags".into());
    }
    let mut mask = 0xff;
    for letter in ignored.unwrap_or_default().chars().filter(|c| !c.is_whitespace() && *c != '0') {
        mask &= !tcp_flag(letter).ok_or_else(|| format!("{letter:?} is no flag"))?;
    }
    if ignored.is_some() && mask == 0xff {
        return Err("there are no flags to ignore".into());
    }
    let mode = mode.unwrap_or(BitsMode::Exactly);
    check(draft, PacketCheck::TcpFlags { flags, mask, mode })
}

fn fragment_bits(draft: &mut Draft<'_>, value: &str) -> Outcome {
    let mode = value.chars().next().and_then(bits_mode);
    let letters = if mode.is_some() { value.get(1..).unwrap_or_default() } else { value };
    let mut bits = 0;
    // As in Suricata what comes behind the letters is not looked at: `M+` is `M`.
    for letter in letters.trim_start().chars() {
        bits |= match letter {
            'R' => 1,
            'D' => 2,
            'M' => 4,
            _ => break,
        };
    }
    if bits == 0 {
        return Err(format!("{value:?} names none of M, D and R").into());
    }
    let mode = mode.unwrap_or(BitsMode::Exactly);
    check(draft, PacketCheck::FragmentBits { bits, mode })
}

fn fragment_offset(draft: &mut Draft<'_>, value: &str) -> Outcome {
    let text = value.trim();
    let (make, digits): (fn(u64) -> Compare, &str) = match text.strip_prefix(['<', '>']) {
        Some(rest) if text.starts_with('<') => (Compare::Less, rest),
        Some(rest) => (Compare::More, rest),
        None => (Compare::Equal, text),
    };
    let offset = u16::try_from(number("fragoffset", digits)?).map_err(|_| "it is too large")?;
    add(draft, PacketNumber::FragmentOffset, make(offset.into()))
}

fn ip_option(draft: &mut Draft<'_>, value: &str) -> Outcome {
    let kinds = [
        ("eol", 0),
        ("nop", 1),
        ("rr", 7),
        ("qs", 25),
        ("ts", 68),
        ("sec", 130),
        ("lsrr", 131),
        ("esec", 133),
        ("cipso", 134),
        ("satid", 136),
        ("ssrr", 137),
        ("rtralt", 148),
    ];
    if value.eq_ignore_ascii_case("any") {
        return check(draft, PacketCheck::IpOption(None));
    }
    let found = kinds.iter().find(|(name, _)| value.eq_ignore_ascii_case(name));
    let (_, kind) = found.ok_or_else(|| format!("unknown IP option {value:?}"))?;
    check(draft, PacketCheck::IpOption(Some(*kind)))
}

fn ip_protocol(draft: &mut Draft<'_>, value: &str) -> Outcome {
    let text = value.trim();
    let (operator, name) = match text.chars().next() {
        Some(sign @ ('!' | '<' | '>')) => (sign, text.get(1..).unwrap_or_default().trim()),
        _ => ('=', text),
    };
    let number = protocol_number(name).ok_or_else(|| format!("unknown protocol {name:?}"))?;
    let protocols = &mut draft.header.protocols;
    if protocols.is_any || protocols.only_v4 || protocols.only_v6 {
        protocols.is_any = false;
        protocols.bits = [u64::MAX; 4];
    } else if draft.ip_protocols.is_empty() {
        return Err("ip_proto needs the protocol ip in the header".into());
    }
    let clashes = draft.ip_protocols.iter().any(|(other, bound)| match (*other, operator) {
        ('=', _) | (_, '=') | ('<', '<') | ('>', '>') => true,
        ('<', '>') => *bound <= number,
        ('>', '<') => number <= *bound,
        _ => false,
    });
    if clashes {
        return Err("ip_proto is there twice, and both cannot be".into());
    }
    draft.ip_protocols.push((operator, number));
    for other in 0..=u8::MAX {
        let stays = match operator {
            '!' => other != number,
            '<' => other < number,
            '>' => other > number,
            _ => other == number,
        };
        if !stays {
            protocols.remove(other);
        }
    }
    // Where no protocol is left (`>255`) the rule is one that never matches, as in Suricata.
    draft.needs_packet = true;
    Ok(())
}

fn network_protocol(draft: &mut Draft<'_>, value: &str) -> Outcome {
    let protocols = &mut draft.header.protocols;
    protocols.is_any = false;
    match value.to_ascii_lowercase().as_str() {
        _ if protocols.only_v6 => return Err("two network protocols".into()),
        "ipv4" | "ip4" => protocols.only_v4 = true,
        "ipv6" | "ip6" => protocols.only_v6 = true,
        _ => return Err(format!("{value:?} is no network protocol").into()),
    }
    Ok(())
}

fn checksum(draft: &mut Draft<'_>, value: &str, of: ChecksumOf) -> Outcome {
    let valid = match value.trim_matches('"').to_ascii_lowercase().as_str() {
        "valid" => true,
        "invalid" => false,
        _ => return Err("it is valid or invalid".into()),
    };
    // Suricata does not ask for a packet here.
    let item = Match::Packet(PacketCheck::Checksum { of, valid });
    draft.append(List::Packet, item).map(|_| ())
}

fn stream_size(draft: &mut Draft<'_>, value: &str) -> Outcome {
    let parts: Vec<&str> = value.split(',').map(str::trim).collect();
    let [side, operator, size] = parts.as_slice() else {
        return Err("it is SIDE,OPERATOR,SIZE".into());
    };
    let side = match *side {
        "server" => StreamSide::Server,
        "client" => StreamSide::Client,
        "both" => StreamSide::Both,
        "either" => StreamSide::Either,
        other => return Err(format!("{other:?} is no side").into()),
    };
    let size = size.parse::<u32>().map_err(|_| format!("{size:?} is no size"))?;
    let size = u64::from(size);
    let compare = match *operator {
        "=" => Compare::Equal(size),
        "!=" | "!" => Compare::NotEqual(size),
        "<" => Compare::Less(size),
        "<=" => Compare::AtMost(size),
        ">" => Compare::More(size),
        ">=" => Compare::AtLeast(size),
        other => return Err(format!("{other:?} is no operator").into()),
    };
    let item = Match::Packet(PacketCheck::StreamSize { side, compare });
    draft.append(List::Packet, item).map(|_| ())
}

fn reputation(draft: &mut Draft<'_>, value: &str) -> Outcome {
    let parts: Vec<&str> = value.split(',').map(str::trim).collect();
    let (side, category, rest) = match parts.as_slice() {
        [side, category, rest @ ..] => (*side, *category, rest),
        _ => return Err("it is SIDE,CATEGORY,OPERATOR,VALUE".into()),
    };
    let side = match side {
        "any" => ReputationSide::Any,
        "src" => ReputationSide::Source,
        "dst" => ReputationSide::Destination,
        "both" => ReputationSide::Both,
        other => return Err(format!("{other:?} is no side").into()),
    };
    let test = match rest {
        ["isset"] => ReputationTest::IsSet,
        ["isnotset"] => ReputationTest::IsNotSet,
        [operator, value] => {
            let text = format!("{operator}{value}");
            ReputationTest::Value(compare(&text, 127)?)
        }
        _ => return Err("the operator is missing".into()),
    };
    let category = category.to_owned();
    let item = Match::Packet(PacketCheck::Reputation { side, category, test });
    draft.append(List::Packet, item).map(|_| ())
}

fn rpc(draft: &mut Draft<'_>, value: &str) -> Outcome {
    let mut parts = value.split(',').map(str::trim);
    let program = parts.next().and_then(|text| text.parse::<u32>().ok());
    let program = program.ok_or("the program is missing")?;
    let mut next = || match parts.next() {
        None | Some("*") => Ok(None),
        Some(text) => text.parse::<u32>().map(Some).map_err(|_| format!("{text:?} is no number")),
    };
    let (version, procedure) = (next()?, next()?);
    if parts.next().is_some() {
        return Err("it is PROGRAM[,VERSION[,PROCEDURE]]".into());
    }
    check(draft, PacketCheck::Rpc { program, version, procedure })
}

fn asn1(draft: &mut Draft<'_>, value: &str) -> Outcome {
    let mut asn1 = Asn1 {
        bitstring_overflow: false,
        double_overflow: false,
        oversize_length: None,
        absolute_offset: None,
        relative_offset: None,
    };
    let mut words = value.split([',', ' ', '\t']).filter(|word| !word.is_empty());
    while let Some(word) = words.next() {
        let mut argument = || words.next().ok_or_else(|| format!("{word} needs a value"));
        match word {
            "bitstring_overflow" => asn1.bitstring_overflow = true,
            "double_overflow" => asn1.double_overflow = true,
            "oversize_length" => {
                asn1.oversize_length = Some(argument()?.parse().map_err(|_| "no length")?);
            }
            "absolute_offset" => {
                asn1.absolute_offset = Some(argument()?.parse().map_err(|_| "no offset")?);
            }
            "relative_offset" => {
                asn1.relative_offset = Some(argument()?.parse().map_err(|_| "no offset")?);
            }
            _ => return Err(format!("{word:?} is not known").into()),
        }
    }
    draft.append(List::Payload, Match::Asn1(asn1))?;
    draft.needs_packet = true;
    Ok(())
}

fn bypass(draft: &mut Draft<'_>, _: &str) -> Outcome {
    if draft.stores_files {
        return Err("it cannot be used with filestore".into());
    }
    draft.append(List::Post, Match::Bypass).map(|_| ())
}

fn config(draft: &mut Draft<'_>, value: &str) -> Outcome {
    let words: Vec<&str> = value.split(',').map(str::trim).collect();
    let argument = |name: &str| {
        let found = words.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix(' '));
        found.map(str::trim)
    };
    let action = match (words.first().copied(), argument("type"), argument("scope")) {
        (Some("logging disable"), Some("tx"), Some("tx")) => {
            draft.is_app_layer = true;
            ConfigAction::NoTransactionLog
        }
        (Some("logging disable"), Some("tx" | "flow"), Some("flow")) => ConfigAction::NoFlowLog,
        (Some("tracking disable"), Some("flow"), Some("packet" | "flow")) => {
            ConfigAction::NoFlowTracking
        }
        _ => return Err(format!("{value:?} is not supported").into()),
    };
    draft.append(List::Post, Match::Config(action)).map(|_| ())
}

fn mark(draft: &mut Draft<'_>, value: &str) -> Outcome {
    let number = |text: &str| match text.trim().strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16).ok(),
        None => text.trim().parse::<u32>().ok(),
    };
    let (value, mask) = value.split_once('/').ok_or("it is MARK/MASK")?;
    let value = number(value).ok_or("the mark is no number")?;
    let mask = number(mask).ok_or("the mask is no number")?;
    draft.append(List::Post, Match::Mark { value, mask }).map(|_| ())
}
