//! Layers that steer packets through a network: MPLS (RFC 3032) and NSH (RFC 8300).

use super::draft::Draft;
use super::step::{Layer, Step};
use super::view::View;
use crate::counters::{Counter, Counters};
use crate::event;

const SHIM_LEN: usize = 4;
const PSEUDOWIRE_LEN: usize = 4;
const NSH_LEN: usize = 8;
const NSH_FIXED_LEN: usize = 24;
const IP_LEN_MAX: usize = 0xffff;

/// A stack of MPLS labels, behind which there is IP or a pseudowire with Ethernet.
pub(super) fn mpls<'a>(draft: &mut Draft, counters: &mut Counters, data: View<'a>) -> Step<'a> {
    counters.add(Counter::Mpls);
    if !draft.layer() {
        return Step::FAILED;
    }
    let mut rest = data;
    let label = loop {
        if rest.len() < SHIM_LEN {
            draft.invalid(event::MPLS_HEADER_TOO_SMALL);
            return Step::FAILED;
        }
        let shim = rest.u32(0);
        rest = rest.after(SHIM_LEN);
        if shim & 0x100 != 0 {
            break shim >> 12;
        }
    };
    let fits = rest.len() <= IP_LEN_MAX;
    let reserved = match label {
        0 | 2 if !fits => return Step::FAILED,
        0 => return Step::inherit(Layer::Ipv4, rest),
        2 => return Step::inherit(Layer::Ipv6, rest),
        1 => Some(event::MPLS_BAD_LABEL_ROUTER_ALERT),
        3 => Some(event::MPLS_BAD_LABEL_IMPLICIT_NULL),
        4..15 => Some(event::MPLS_BAD_LABEL_RESERVED),
        _ => None,
    };
    if let Some(reserved) = reserved {
        draft.event(reserved);
        return Step::DONE;
    }
    if rest.len() < PSEUDOWIRE_LEN {
        draft.invalid(event::MPLS_PKT_TOO_SMALL);
        return Step::FAILED;
    }
    match rest.u8(0) >> 4 {
        4 | 6 if !fits => Step::FAILED,
        4 => Step::layer(Layer::Ipv4, rest),
        6 => Step::layer(Layer::Ipv6, rest),
        0 => Step::layer(Layer::Ethernet, rest.after(PSEUDOWIRE_LEN)),
        _ => {
            draft.invalid(event::MPLS_UNKNOWN_PAYLOAD_TYPE);
            Step::DONE
        }
    }
}

/// A network service header.
pub(super) fn nsh<'a>(draft: &mut Draft, counters: &mut Counters, data: View<'a>) -> Step<'a> {
    counters.add(Counter::Nsh);
    if data.len() < NSH_LEN {
        draft.invalid(event::NSH_HEADER_TOO_SMALL);
        return Step::FAILED;
    }
    if !draft.layer() {
        return Step::FAILED;
    }
    if data.u8(0) >> 6 != 0 {
        draft.event(event::NSH_UNSUPPORTED_VERSION);
        return Step::DONE;
    }
    let length = usize::from(data.u8(1) & 0x3f) * 4;
    let kind = data.u8(2);
    if length >= data.len() {
        draft.invalid(event::NSH_BAD_HEADER_LENGTH);
        return Step::FAILED;
    }
    match kind {
        0 | 0x0f => {
            draft.event(event::NSH_RESERVED_TYPE);
            return Step::DONE;
        }
        1 if length != NSH_FIXED_LEN => {
            draft.invalid(event::NSH_BAD_HEADER_LENGTH);
            return Step::FAILED;
        }
        1 | 2 => {}
        _ => {
            draft.event(event::NSH_UNSUPPORTED_TYPE);
            return Step::DONE;
        }
    }
    let inner = data.after(length);
    match data.u8(3) {
        1 | 2 if inner.len() > IP_LEN_MAX => Step::FAILED,
        1 => Step::inherit(Layer::Ipv4, inner),
        2 => Step::inherit(Layer::Ipv6, inner),
        3 => Step::inherit(Layer::Ethernet, inner),
        5 => Step::inherit(Layer::Mpls, inner),
        _ => {
            draft.event(event::NSH_UNKNOWN_PAYLOAD);
            Step::DONE
        }
    }
}
