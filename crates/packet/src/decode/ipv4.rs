//! IPv4 (RFC 791).

use std::net::{IpAddr, Ipv4Addr};

use super::draft::Draft;
use super::ipv4_options;
use super::step::{Inner, Layer, Next, Step};
use super::view::View;
use crate::checksum::Sum;
use crate::counters::{Counter, Counters};
use crate::event;
use crate::packet::{Ip, IpVersion};

/// Length of the header without options, in bytes.
const HEADER_LEN_MIN: usize = 20;

/// The header, options, and what follows by the protocol number.
pub(super) fn ipv4<'a>(draft: &mut Draft, counters: &mut Counters, data: View<'a>) -> Step<'a> {
    counters.add(Counter::Ipv4);
    if !draft.layer() {
        return Step::FAILED;
    }
    let ip = match header(draft, data) {
        Ok(ip) => ip,
        Err(wrong) => {
            draft.invalid(wrong);
            return Step::FAILED;
        }
    };
    let mut ip = ip;
    let options = data.first(ip.header.len()).after(HEADER_LEN_MIN);
    if options.len() > 0 && !ipv4_options::read(draft, &mut ip, options) {
        draft.packet.refused = Some(Box::new([ip.source, ip.destination]));
        return Step::FAILED;
    }
    let payload = data.first(ip.payload.end - data.start()).after(ip.header.len());
    let (protocol, is_fragment) = (ip.protocol, ip.is_fragment());
    draft.packet.ip = Some(ip);
    if is_fragment {
        draft.packet.fragment = true;
        return Step::next(Next::Fragment(data));
    }
    follow(draft, protocol, payload)
}

fn header(draft: &Draft, data: View<'_>) -> Result<Ip, u16> {
    if data.len() < HEADER_LEN_MIN {
        return Err(event::IPV4_PKT_TOO_SMALL);
    }
    if data.u8(0) >> 4 != 4 {
        return Err(event::IPV4_WRONG_IP_VERSION);
    }
    let header_len = usize::from(data.u8(0) & 0x0f) * 4;
    let total_len = usize::from(data.u16(2));
    if header_len < HEADER_LEN_MIN {
        return Err(event::IPV4_HLEN_TOO_SMALL);
    }
    if total_len < header_len {
        return Err(event::IPV4_IPLEN_SMALLER_THAN_HLEN);
    }
    if data.len() < total_len {
        return Err(event::IPV4_TRUNC_PKT);
    }
    let fragment = data.u16(6);
    let header = data.first(header_len);
    Ok(Ip {
        version: IpVersion::V4,
        source: IpAddr::V4(Ipv4Addr::from(data.array::<4>(12))),
        destination: IpAddr::V4(Ipv4Addr::from(data.array::<4>(16))),
        protocol: data.u8(9),
        ttl: data.u8(8),
        tos: data.u8(1),
        id: u32::from(data.u16(4)),
        more_fragments: fragment & 0x2000 != 0,
        dont_fragment: fragment & 0x4000 != 0,
        reserved: fragment & 0x8000 != 0,
        fragment_offset: u32::from(fragment & 0x1fff) * 8,
        header: header.range(),
        options: Vec::new(),
        extensions: 0,
        payload: data.first(total_len).after(header_len).range(),
        checksum_ok: !draft.checked || Sum::default().bytes(header.bytes()).is_right(),
    })
}

fn follow<'a>(draft: &mut Draft, protocol: u8, payload: View<'a>) -> Step<'a> {
    let inner = |layer, counter| {
        Step::inner(Inner {
            layer,
            data: payload,
            source: "ipv4 tunnel",
            counter: Some(counter),
            valid_only: false,
        })
    };
    match protocol {
        1 => Step::layer(Layer::Icmpv4, payload),
        6 => Step::layer(Layer::Tcp, payload),
        17 => Step::layer(Layer::Udp, payload),
        47 => Step::layer(Layer::Gre, payload),
        50 => Step::layer(Layer::Esp, payload),
        132 => Step::layer(Layer::Sctp, payload),
        4 | 41 => {
            draft.packet.wants_flow = true;
            if protocol == 4 {
                inner(Layer::Ipv4, Counter::Ipv4InIpv4)
            } else {
                inner(Layer::Ipv6, Counter::Ipv6InIpv4)
            }
        }
        0 if draft.van_jacobson => Step::layer(Layer::Tcp, payload),
        58 => {
            draft.invalid(event::IPV4_ICMPV6);
            Step::DONE
        }
        _ => Step::DONE,
    }
}
