//! PPP (RFC 1661) and PPP over Ethernet (RFC 2516).

use super::draft::Draft;
use super::step::{Layer, Step, Verdict};
use super::view::View;
use crate::counters::{Counter, Counters};
use crate::event;

const IPV4: u16 = 0x0021;
const VJ_UNCOMPRESSED: u16 = 0x002f;
const IPV6: u16 = 0x0057;

const IPV4_LEN_MIN: usize = 20;
const IPV6_LEN: usize = 40;
const IP_LEN_MAX: usize = 0xffff;
/// Both kinds of PPPoE: version, code, session, length; of a session, the first byte of PPP, too.
const DISCOVERY_LEN: usize = 6;
const SESSION_LEN: usize = 7;

/// What a protocol number of PPP means for decoding.
enum Protocol {
    Ip(u16),
    /// Control protocols: valid, not decoded.
    Control,
    /// Known, not decoded.
    Unsupported,
    Unknown,
}

fn protocol(number: u16) -> Protocol {
    match number {
        IPV4 | VJ_UNCOMPRESSED | IPV6 => Protocol::Ip(number),
        // Compressed datagrams, IPCP, IPv6CP, CCP, CDPCP, LCP, PAP, LQM, CBCP, CHAP.
        0x00fd | 0x8021 | 0x8057 | 0x80fd | 0x8207 | 0xc021 | 0xc023 | 0xc025 | 0xc029 | 0xc223 => {
            Protocol::Control
        }
        // OSI, NS, DECnet, AppleTalk, IPX, compressed VJ, bridging, ST-II, Vines, and what
        // negotiates them; MPLS.
        0x0023 | 0x0025 | 0x0027 | 0x0029 | 0x002b | 0x002d | 0x0031 | 0x0033 | 0x0035 | 0x0201
        | 0x0231 | 0x0233 | 0x0281 | 0x0283 | 0x8023 | 0x8025 | 0x8027 | 0x8029 | 0x802b
        | 0x8033 | 0x8035 | 0x8281 => Protocol::Unsupported,
        _ => Protocol::Unknown,
    }
}

/// PPP, with or without the two bytes of HDLC-like framing, and its protocol in one or two bytes.
pub(super) fn ppp<'a>(draft: &mut Draft, counters: &mut Counters, data: View<'a>) -> Step<'a> {
    counters.add(Counter::Ppp);
    let protocol_at = if data.u8(0) == 0xff { 2 } else { 0 };
    let short = data.u8(protocol_at) & 1 != 0;
    let protocol_len = if short { 1 } else { 2 };
    if data.len() < protocol_at + protocol_len || data.len() < 1 {
        draft.invalid(event::PPP_PKT_TOO_SMALL);
        return Step::FAILED;
    }
    if !draft.layer() {
        return Step::FAILED;
    }
    let inner = data.after(protocol_at + protocol_len);
    if short {
        return compressed(draft, u16::from(data.u8(protocol_at)), inner);
    }
    match protocol(data.u16(protocol_at)) {
        Protocol::Ip(number) => ip(draft, number, inner),
        Protocol::Control => Step::DONE,
        Protocol::Unsupported => {
            draft.event(event::PPP_UNSUP_PROTO);
            Step::DONE
        }
        Protocol::Unknown => {
            draft.invalid(event::PPP_WRONG_TYPE);
            Step::DONE
        }
    }
}

/// Behind a protocol of two bytes.
fn ip<'a>(draft: &mut Draft, number: u16, inner: View<'a>) -> Step<'a> {
    let (least, event, layer) = match number {
        IPV4 => (IPV4_LEN_MIN, event::PPP_IP4_PKT_TOO_SMALL, Layer::Ipv4),
        IPV6 => (IPV6_LEN, event::PPP_IP6_PKT_TOO_SMALL, Layer::Ipv6),
        _ => (IPV4_LEN_MIN, event::PPP_VJU_PKT_TOO_SMALL, Layer::Ipv4),
    };
    if inner.len() < least {
        draft.invalid(event);
        return Step::FAILED;
    }
    if inner.len() > IP_LEN_MAX || (number == VJ_UNCOMPRESSED && inner.u8(0) >> 4 != 4) {
        return Step::FAILED;
    }
    Step::inherit(layer, inner)
}

/// Behind a protocol of one byte.
fn compressed<'a>(draft: &mut Draft, number: u16, inner: View<'a>) -> Step<'a> {
    match number {
        IPV4 if inner.len() < IPV4_LEN_MIN => {
            draft.invalid(event::PPP_VJU_PKT_TOO_SMALL);
            Step::FAILED
        }
        IPV6 if inner.len() < IPV6_LEN => {
            draft.invalid(event::PPP_IP6_PKT_TOO_SMALL);
            Step::FAILED
        }
        IPV4 => Step::inherit(Layer::Ipv4, inner.first(IP_LEN_MAX)),
        IPV6 => Step::inherit(Layer::Ipv6, inner.first(IP_LEN_MAX)),
        VJ_UNCOMPRESSED => {
            let step = ip(draft, number, inner);
            draft.van_jacobson |= step.verdict == Verdict::Inherited;
            step
        }
        _ => {
            draft.event(event::PPP_UNSUP_PROTO);
            Step::DONE
        }
    }
}

/// The discovery stage: only checked.
pub(super) fn pppoe_discovery(
    draft: &mut Draft,
    counters: &mut Counters,
    data: View<'_>,
) -> Step<'static> {
    counters.add(Counter::Pppoe);
    if data.len() < DISCOVERY_LEN {
        draft.invalid(event::PPPOE_PKT_TOO_SMALL);
        return Step::FAILED;
    }
    // PADO, PADI, PADR, PADS, PADT.
    if !matches!(data.u8(1), 0x07 | 0x09 | 0x19 | 0x65 | 0xa7) {
        draft.invalid(event::PPPOE_WRONG_CODE);
    } else if usize::from(data.u16(4)) > data.len() - DISCOVERY_LEN {
        draft.invalid(event::PPPOE_MALFORMED_TAGS);
    }
    Step::DONE
}

/// The session stage: a PPP packet.
pub(super) fn pppoe_session<'a>(
    draft: &mut Draft,
    counters: &mut Counters,
    data: View<'a>,
) -> Step<'a> {
    counters.add(Counter::Pppoe);
    if data.len() < SESSION_LEN {
        draft.invalid(event::PPPOE_PKT_TOO_SMALL);
        return Step::FAILED;
    }
    if data.u16(4) == 0 {
        return Step::DONE;
    }
    // As RFC 1661 has it, the last byte of the protocol is odd, and others are even.
    let mut number = u16::from(data.u8(6));
    let mut inner = data.after(SESSION_LEN);
    if number & 1 == 0 {
        if data.len() < SESSION_LEN + 1 {
            draft.invalid(event::PPPOE_PKT_TOO_SMALL);
            return Step::FAILED;
        }
        number = data.u16(6);
        inner = data.after(SESSION_LEN + 1);
    }
    match protocol(number) {
        Protocol::Ip(number) => {
            let step = ip(draft, number, inner);
            // Whatever is in it, the session counts as decoded.
            Step { verdict: Verdict::Decoded, ..step }
        }
        Protocol::Control => Step::DONE,
        Protocol::Unsupported => {
            draft.event(event::PPP_UNSUP_PROTO);
            Step::DONE
        }
        Protocol::Unknown => {
            draft.invalid(event::PPP_WRONG_TYPE);
            Step::DONE
        }
    }
}
