//! ICMP (RFC 792, 950, 1256) and ICMPv6 (RFC 4443 and those after it).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::draft::Draft;
use super::step::Step;
use super::view::View;
use crate::checksum::Sum;
use crate::counters::{Counter, Counters};
use crate::event;
use crate::packet::{Embedded, Icmp, Transport};

const HEADER_LEN: usize = 8;
/// An information message of ICMPv6 has no more header than type, code and checksum.
const INFORMATION_LEN: usize = 4;
const IPV4_LEN_MIN: usize = 20;
const IPV6_LEN: usize = 40;
const TCP_LEN_MIN: usize = 20;
const UDP_LEN: usize = 8;
const PORTS_LEN: usize = 4;
/// Three times behind the header of a timestamp message.
const TIMESTAMPS_LEN: usize = 12;

/// ICMP.
pub(super) fn icmpv4(draft: &mut Draft, counters: &mut Counters, data: View<'_>) -> Step<'static> {
    counters.add(Counter::Icmpv4);
    if data.len() < HEADER_LEN {
        draft.invalid(event::ICMPV4_PKT_TOO_SMALL);
        return Step::FAILED;
    }
    let (kind, code) = (data.u8(0), data.u8(1));
    let mut header_len = HEADER_LEN;
    let mut embedded = None;
    match kind {
        // Unreachable, source quench, redirect, time exceeded, parameter problem.
        3 | 4 | 5 | 11 | 12 => {
            let codes_max = match kind {
                3 => 15,
                5 => 3,
                11 => 1,
                _ => 0,
            };
            let inner = data.after(HEADER_LEN);
            if code > codes_max {
                draft.event(event::ICMPV4_UNKNOWN_CODE);
            } else if inner.len() > 0 || kind == 4 {
                embedded = embedded_ipv4(draft, inner);
            }
        }
        // Echo, its reply, information, address mask; timestamps.
        0 | 8 | 13..=18 => {
            if code != 0 {
                draft.event(event::ICMPV4_UNKNOWN_CODE);
            }
            if matches!(kind, 13 | 14) {
                if data.len() < HEADER_LEN + TIMESTAMPS_LEN {
                    draft.event(event::ICMPV4_IPV4_TRUNC_PKT);
                } else {
                    header_len += TIMESTAMPS_LEN;
                }
            }
        }
        // Router advertisement.
        9 => {
            let addresses_len = usize::from(data.u8(4)) * usize::from(data.u8(5)) * 4;
            if data.len() < HEADER_LEN + addresses_len {
                draft.event(event::ICMPV4_IPV4_TRUNC_PKT);
            } else {
                header_len += addresses_len;
            }
        }
        _ => draft.event(event::ICMPV4_UNKNOWN_TYPE),
    }
    let has_id = matches!(kind, 0 | 8 | 13..=18);
    draft.packet.transport = Transport::Icmp(Icmp {
        kind,
        code,
        id: has_id.then(|| data.u16(4)),
        sequence: has_id.then(|| data.u16(6)),
        mtu: None,
        header: data.first(header_len).range(),
        embedded: embedded.map(Box::new),
        checksum_ok: !draft.checked || sum_without_field(Sum::default(), data) == data.u16(2),
    });
    draft.packet.payload = data.after(header_len).range();
    draft.packet.wants_flow = true;
    Step::DONE
}

/// The checksum of a message, whose own lies in bytes 2 and 3.
fn sum_without_field(begun: Sum, data: View<'_>) -> u16 {
    begun.bytes(data.first(2).bytes()).bytes(data.after(4).bytes()).checksum()
}

fn embedded_ipv4(draft: &mut Draft, inner: View<'_>) -> Option<Embedded> {
    if inner.len() < IPV4_LEN_MIN {
        draft.invalid(event::ICMPV4_IPV4_TRUNC_PKT);
        return None;
    }
    if inner.u8(0) >> 4 != 4 {
        draft.invalid(event::ICMPV4_IPV4_UNKNOWN_VER);
        return None;
    }
    let protocol = inner.u8(9);
    // Options are not skipped: Suricata, too, takes the ports right behind 20 bytes.
    let transport = inner.after(IPV4_LEN_MIN);
    let has_ports = match protocol {
        6 => transport.len() >= PORTS_LEN,
        17 => transport.len() >= UDP_LEN,
        _ => false,
    };
    Some(Embedded {
        source: IpAddr::V4(Ipv4Addr::from(inner.array::<4>(12))),
        destination: IpAddr::V4(Ipv4Addr::from(inner.array::<4>(16))),
        protocol,
        ports: if has_ports { (transport.u16(0), transport.u16(2)) } else { (0, 0) },
    })
}

/// ICMPv6.
pub(super) fn icmpv6(draft: &mut Draft, counters: &mut Counters, data: View<'_>) -> Step<'static> {
    counters.add(Counter::Icmpv6);
    if data.len() < HEADER_LEN {
        draft.invalid(event::ICMPV6_PKT_TOO_SMALL);
        return Step::FAILED;
    }
    let (kind, code) = (data.u8(0), data.u8(1));
    let mut icmp = Icmp {
        kind,
        code,
        header: data.first(HEADER_LEN).range(),
        checksum_ok: icmpv6_checksum_is_right(draft, data),
        ..Icmp::default()
    };
    let code_is_known = code_is_known(kind, code);
    if !code_is_known {
        draft.event(event::ICMPV6_UNKNOWN_CODE);
    }
    let mut whole_header = false;
    match kind {
        // Unreachable, too big, time exceeded, parameter problem.
        1..=4 if code_is_known => {
            icmp.mtu = (kind == 2).then(|| data.u32(4));
            icmp.embedded = embedded_ipv6(draft, data.after(HEADER_LEN)).map(Box::new);
            whole_header = true;
        }
        128 | 129 => {
            // With another code, Suricata leaves them 0.
            icmp.id = Some(if code_is_known { data.u16(4) } else { 0 });
            icmp.sequence = Some(if code_is_known { data.u16(6) } else { 0 });
            whole_header = code_is_known;
        }
        // Listener discovery stays on its link.
        130..=132 if draft.packet.ip.as_ref().is_some_and(|ip| ip.ttl != 1) => {
            draft.event(event::ICMPV6_MLD_MESSAGE_WITH_INVALID_HL);
        }
        1..=4 | 130..=159 => {}
        100 | 101 | 200 | 201 => draft.event(event::ICMPV6_EXPERIMENTATION_TYPE),
        0 | 127 => draft.event(event::ICMPV6_UNKNOWN_TYPE),
        _ => draft.event(event::ICMPV6_UNASSIGNED_TYPE),
    }
    draft.packet.payload = if whole_header {
        data.after(HEADER_LEN).range()
    } else {
        // The last four bytes of the message are cut off where it is longer than the header, and
        // there is none where it is not: what Suricata's rules see.
        match data.len().checked_sub(HEADER_LEN + INFORMATION_LEN) {
            Some(len) => data.after(INFORMATION_LEN).first(len).range(),
            None => data.start()..data.start(),
        }
    };
    draft.packet.transport = Transport::Icmp(icmp);
    draft.packet.wants_flow = true;
    Step::DONE
}

fn icmpv6_checksum_is_right(draft: &Draft, data: View<'_>) -> bool {
    let Some(ip) = draft.packet.ip.as_ref().filter(|_| draft.checked) else { return true };
    let begun = Sum::default().pseudo(ip.source, ip.destination, 58, data.len());
    sum_without_field(begun, data) == data.u16(2)
}

fn code_is_known(kind: u8, code: u8) -> bool {
    match kind {
        1 => code <= 6,
        3 => code <= 1,
        4 | 139 | 140 => code <= 2,
        // Router renumbering.
        138 => code <= 2 || code == 255,
        // RPL.
        155 => code <= 3 || (128..=132).contains(&code),
        2 | 128..=137 | 141..=149 | 154 | 156..=159 => code == 0,
        _ => true,
    }
}

fn embedded_ipv6(draft: &mut Draft, inner: View<'_>) -> Option<Embedded> {
    if inner.len() < IPV6_LEN {
        draft.invalid(event::ICMPV6_IPV6_TRUNC_PKT);
        return None;
    }
    if inner.u8(0) >> 4 != 6 {
        draft.invalid(event::ICMPV6_IPV6_UNKNOWN_VERSION);
        return None;
    }
    let protocol = inner.u8(6);
    let transport = inner.after(IPV6_LEN);
    let has_ports = match protocol {
        6 => transport.len() >= TCP_LEN_MIN,
        17 => transport.len() >= UDP_LEN,
        _ => false,
    };
    Some(Embedded {
        source: IpAddr::V6(Ipv6Addr::from(inner.array::<16>(8))),
        destination: IpAddr::V6(Ipv6Addr::from(inner.array::<16>(24))),
        protocol,
        ports: if has_ports { (transport.u16(0), transport.u16(2)) } else { (0, 0) },
    })
}
