//! IPv6 (RFC 8200): the fixed header, and what follows it.

use std::net::{IpAddr, Ipv6Addr};

use super::draft::Draft;
use super::ipv6_extension;
use super::step::{Inner, Layer, Next, Step};
use super::view::View;
use crate::counters::{Counter, Counters};
use crate::event;
use crate::packet::{Ip, IpVersion};

const HEADER_LEN: usize = 40;

/// The header, and what follows by its next header.
pub(super) fn ipv6<'a>(draft: &mut Draft, counters: &mut Counters, data: View<'a>) -> Step<'a> {
    counters.add(Counter::Ipv6);
    if !draft.layer() {
        return Step::FAILED;
    }
    if data.len() < HEADER_LEN {
        // Suricata, too, tells nothing of it: `ipv6.pkt_too_small` has no use.
        return Step::FAILED;
    }
    if data.u8(0) >> 4 != 6 {
        draft.invalid(event::IPV6_WRONG_IP_VERSION);
        return Step::FAILED;
    }
    let payload_len = usize::from(data.u16(4));
    if data.len() < HEADER_LEN + payload_len {
        draft.invalid(event::IPV6_TRUNC_PKT);
        return Step::FAILED;
    }
    let payload = data.after(HEADER_LEN).first(payload_len);
    let next_header = data.u8(6);
    draft.packet.ip = Some(Ip {
        version: IpVersion::V6,
        source: IpAddr::V6(Ipv6Addr::from(data.array::<16>(8))),
        destination: IpAddr::V6(Ipv6Addr::from(data.array::<16>(24))),
        protocol: next_header,
        ttl: data.u8(7),
        // The traffic class lies across two bytes.
        tos: (data.u16(0) >> 4) as u8,
        id: 0,
        more_fragments: false,
        dont_fragment: false,
        reserved: false,
        fragment_offset: 0,
        header: data.first(HEADER_LEN).range(),
        options: Vec::new(),
        extensions: 0,
        payload: payload.range(),
        checksum_ok: true,
    });
    follow(draft, data, payload, next_header)
}

fn follow<'a>(draft: &mut Draft, whole: View<'a>, payload: View<'a>, next_header: u8) -> Step<'a> {
    match next_header {
        6 => Step::layer(Layer::Tcp, payload),
        17 => Step::layer(Layer::Udp, payload),
        58 => Step::layer(Layer::Icmpv6, payload),
        132 => Step::layer(Layer::Sctp, payload),
        47 => Step::layer(Layer::Gre, payload),
        4 => Step::next(ipv6_extension::ipv4_within(draft, payload)),
        41 => Step::next(ipv6_within(draft, payload)),
        0 | 43 | 44 | 50 | 51 | 59 | 60 | 135 | 139 | 140 => {
            let next = ipv6_extension::walk(draft, payload, next_header);
            // A fragment is put together with all that is before it.
            Step::next(match next {
                Next::Fragment(_) => Next::Fragment(whole),
                other => other,
            })
        }
        1 => {
            set_protocol(draft, 0);
            draft.event(event::IPV6_ICMPV4);
            Step::DONE
        }
        _ => {
            draft.event(event::IPV6_UNKNOWN_NEXT_HEADER);
            Step::DONE
        }
    }
}

fn set_protocol(draft: &mut Draft, protocol: u8) {
    if let Some(ip) = &mut draft.packet.ip {
        ip.protocol = protocol;
    }
}

fn ipv6_within<'a>(draft: &mut Draft, payload: View<'a>) -> Next<'a> {
    if payload.len() < HEADER_LEN {
        draft.invalid(event::IPV6_IPV6_IN_IPV6_TOO_SMALL);
        return Next::Done;
    }
    if payload.u8(0) >> 4 != 6 {
        draft.invalid(event::IPV6_IPV6_IN_IPV6_WRONG_VERSION);
        return Next::Done;
    }
    draft.packet.wants_flow = true;
    Next::Inner(Inner {
        layer: Layer::Ipv6,
        data: payload,
        source: "ipv6 tunnel",
        counter: Some(Counter::Ipv6InIpv6),
        valid_only: false,
    })
}
