//! Extension headers of IPv6 (RFC 8200 section 4; RFC 4302, 6275, 7401, 5533).

use super::draft::{Draft, FragmentHeader};
use super::step::{Inner, Layer, Next};
use super::view::View;
use crate::counters::Counter;
use crate::event;

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const NONE: u8 = 59;
const DESTINATION: u8 = 60;
const MOBILITY: u8 = 135;
const HOST_IDENTITY: u8 = 139;
const SHIM6: u8 = 140;

const FRAGMENT_LEN: usize = 8;
const AUTHENTICATION_LEN_MIN: usize = 12;
const IPV4_LEN_MIN: usize = 20;

/// Which headers were there.
#[derive(Default)]
struct Seen {
    hop_by_hop: bool,
    /// Two are allowed.
    destination: u8,
    routing: bool,
    authentication: bool,
    fragment: bool,
}

/// Goes through the headers to the transport, or to a fragment.
pub(super) fn walk<'a>(draft: &mut Draft, payload: View<'a>, first: u8) -> Next<'a> {
    let mut seen = Seen::default();
    let (mut rest, mut kind) = (payload, first);
    // Unless a header says otherwise.
    set_protocol(draft, 0);
    // The length of the header before, and where it begins.
    let mut previous_at = None;
    loop {
        if let Some(ip) = &mut draft.packet.ip {
            ip.extensions = rest.start() - payload.start();
        }
        if kind == NONE {
            if rest.len() > 0 {
                draft.event(event::IPV6_DATA_AFTER_NONE_HEADER);
            }
            return Next::Done;
        }
        if rest.len() < 2 {
            draft.invalid(event::IPV6_TRUNC_EXTHDR);
            return Next::Done;
        }
        if let Some(next) = transport(draft, kind, rest) {
            return next;
        }
        let Some(len) = header_len(kind, rest) else {
            draft.event(event::IPV6_UNKNOWN_NEXT_HEADER);
            set_protocol(draft, kind);
            return Next::Done;
        };
        if !matches!(kind, MOBILITY | HOST_IDENTITY | SHIM6) {
            set_protocol(draft, kind);
        }
        if len > rest.len() {
            draft.invalid(event::IPV6_TRUNC_EXTHDR);
            return Next::Done;
        }
        match kind {
            ROUTING => routing(draft, &mut seen, rest),
            HOP_BY_HOP | DESTINATION => options(draft, &mut seen, kind, rest.first(len)),
            AUTHENTICATION => authentication(draft, &mut seen, rest),
            FRAGMENT if fragment(draft, &mut seen, rest, previous_at) => {
                return Next::Fragment(rest);
            }
            _ => {}
        }
        previous_at = Some(rest.start());
        kind = rest.u8(0);
        rest = rest.after(len);
    }
}

fn set_protocol(draft: &mut Draft, protocol: u8) {
    if let Some(ip) = &mut draft.packet.ip {
        ip.protocol = protocol;
    }
}

/// What is no extension header.
fn transport<'a>(draft: &mut Draft, kind: u8, rest: View<'a>) -> Option<Next<'a>> {
    let layer = match kind {
        6 => Layer::Tcp,
        17 => Layer::Udp,
        58 => Layer::Icmpv6,
        132 => Layer::Sctp,
        50 => Layer::Esp,
        4 => {
            set_protocol(draft, kind);
            return Some(ipv4_within(draft, rest));
        }
        1 => {
            draft.event(event::IPV6_ICMPV4);
            return Some(Next::Done);
        }
        _ => return None,
    };
    set_protocol(draft, kind);
    Some(Next::Layer(layer, rest))
}

/// How long a header is by its length field; `None` of one that is not known.
fn header_len(kind: u8, header: View<'_>) -> Option<usize> {
    let length = usize::from(header.u8(1));
    match kind {
        ROUTING | HOP_BY_HOP | DESTINATION | MOBILITY | HOST_IDENTITY | SHIM6 => {
            Some(8 + length * 8)
        }
        FRAGMENT => Some(FRAGMENT_LEN),
        AUTHENTICATION => Some(AUTHENTICATION_LEN_MIN + length.saturating_sub(1) * 4),
        _ => None,
    }
}

fn routing(draft: &mut Draft, seen: &mut Seen, header: View<'_>) {
    if seen.routing {
        draft.event(event::IPV6_EXTHDR_DUPL_RH);
        return;
    }
    seen.routing = true;
    if header.u8(2) == 0 {
        draft.event(event::IPV6_RH_TYPE_0);
    }
}

fn authentication(draft: &mut Draft, seen: &mut Seen, header: View<'_>) {
    if header.u16(2) != 0 {
        draft.event(event::IPV6_EXTHDR_AH_RES_NOT_NULL);
    }
    if seen.authentication {
        draft.event(event::IPV6_EXTHDR_DUPL_AH);
    }
    seen.authentication = true;
}

/// Options of a hop-by-hop or destination header, which is given whole.
fn options(draft: &mut Draft, seen: &mut Seen, kind: u8, header: View<'_>) {
    let hop_by_hop = kind == HOP_BY_HOP;
    if hop_by_hop {
        if seen.hop_by_hop {
            draft.event(event::IPV6_EXTHDR_DUPL_HH);
            return;
        }
        seen.hop_by_hop = true;
    } else {
        if seen.destination >= 2 {
            draft.event(event::IPV6_EXTHDR_DUPL_DH);
            return;
        }
        seen.destination += 1;
    }
    let (unknown, only_padding) = if hop_by_hop {
        (event::IPV6_HOPOPTS_UNKNOWN_OPT, event::IPV6_HOPOPTS_ONLY_PADDING)
    } else {
        (event::IPV6_DSTOPTS_UNKNOWN_OPT, event::IPV6_DSTOPTS_ONLY_PADDING)
    };
    let (mut padded, mut others) = (false, false);
    let mut rest = header.after(2);
    while rest.len() > 0 {
        let option = rest.u8(0);
        if option == 0 {
            padded = true;
            rest = rest.after(1);
            continue;
        }
        let len = usize::from(rest.u8(1));
        // One byte more than fits is let pass, as Suricata does.
        if rest.len() < 2 || 1 + len > rest.len() {
            draft.invalid(event::IPV6_EXTHDR_INVALID_OPTLEN);
            break;
        }
        let least = match option {
            // Router alert, jumbo payload, home address.
            0x05 => 2,
            0xc2 => 4,
            0xc9 => 16,
            _ => 0,
        };
        if len < least {
            draft.invalid(event::IPV6_EXTHDR_INVALID_OPTLEN);
            break;
        }
        match option {
            1 => {
                padded = true;
                if len == 0 {
                    draft.event(event::IPV6_ZERO_LEN_PADN);
                }
            }
            0xc2 => {}
            0x05 | 0xc9 => others = true,
            _ => {
                draft.event(unknown);
                others = true;
            }
        }
        rest = rest.after(len + 2);
    }
    if padded && !others {
        draft.event(only_padding);
    }
}

/// Whether it is a part of a packet, rather than a whole one with a useless header.
fn fragment(
    draft: &mut Draft,
    seen: &mut Seen,
    header: View<'_>,
    previous_at: Option<usize>,
) -> bool {
    if header.u8(1) != 0 {
        draft.event(event::IPV6_FH_NON_ZERO_RESERVED_FIELD);
    }
    if seen.fragment {
        draft.event(event::IPV6_EXTHDR_DUPL_FH);
        return false;
    }
    seen.fragment = true;
    let (offset, more) = (header.u16(2) & 0xfff8, header.u16(2) & 1 != 0);
    if let Some(ip) = &mut draft.packet.ip {
        ip.id = header.u32(4);
        ip.fragment_offset = u32::from(offset);
        ip.more_fragments = more;
    }
    if offset == 0 && !more {
        draft.event(event::IPV6_EXTHDR_USELESS_FH);
        return false;
    }
    if more && !header.len().is_multiple_of(8) {
        draft.event(event::IPV6_FRAG_INVALID_LENGTH);
    }
    draft.packet.fragment = true;
    draft.fragment = FragmentHeader {
        at: header.start(),
        data_len: header.len() - FRAGMENT_LEN,
        previous_at,
        next_header: header.u8(0),
    };
    true
}

/// IPv4 in IPv6.
pub(super) fn ipv4_within<'a>(draft: &mut Draft, payload: View<'a>) -> Next<'a> {
    if payload.len() < IPV4_LEN_MIN {
        draft.invalid(event::IPV6_IPV4_IN_IPV6_TOO_SMALL);
        return Next::Done;
    }
    if payload.u8(0) >> 4 != 4 {
        draft.invalid(event::IPV6_IPV4_IN_IPV6_WRONG_VERSION);
        return Next::Done;
    }
    draft.packet.wants_flow = true;
    Next::Inner(Inner {
        layer: Layer::Ipv4,
        data: payload,
        source: "ipv6 tunnel",
        counter: Some(Counter::Ipv4InIpv6),
        valid_only: false,
    })
}
