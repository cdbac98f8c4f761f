//! GRE (RFC 2784, 2890, 1701, and version 1 of RFC 2637) and ERSPAN in it.

use super::draft::{Draft, VLANS_MAX};
use super::link_layer::ether;
use super::step::{Inner, Layer, Step};
use super::view::View;
use crate::counters::{Counter, Counters};
use crate::event;

const HEADER_LEN: usize = 4;
/// Each of key, sequence number, acknowledgement, checksum with offset, routing entry.
const PART_LEN: usize = 4;
const PPP: u16 = 0x880b;
const ERSPAN_LEN: usize = 8;

const CHECKSUM: u8 = 0x80;
const ROUTING: u8 = 0x40;
const KEY: u8 = 0x20;
const SEQUENCE: u8 = 0x10;
const STRICT_ROUTE: u8 = 0x08;
const RECURSION: u8 = 0x07;
/// In the second byte.
const ACKNOWLEDGEMENT: u8 = 0x80;
const RESERVED: u8 = 0x78;

/// GRE; what it carries is a packet of its own, and there is no flow of the packet around it.
pub(super) fn gre<'a>(draft: &mut Draft, counters: &mut Counters, data: View<'a>) -> Step<'a> {
    counters.add(Counter::Gre);
    if data.len() < HEADER_LEN {
        draft.invalid(event::GRE_PKT_TOO_SMALL);
        return Step::FAILED;
    }
    if !draft.layer() {
        return Step::FAILED;
    }
    let version = data.u8(1) & 0x07;
    let header_len = match version {
        0 => version_0(data),
        1 => version_1(data),
        _ => Err(event::GRE_WRONG_VERSION),
    };
    let header_len = match header_len {
        Ok(header_len) => header_len,
        Err(wrong) => {
            draft.invalid(wrong);
            return Step::DONE;
        }
    };
    let layer = match data.u16(2) {
        ether::IPV4 => Layer::Ipv4,
        ether::IPV6 => Layer::Ipv6,
        // Version 1 with a length of 0 is an acknowledgement.
        PPP if version == 1 && data.u16(4) == 0 => return Step::DONE,
        PPP => Layer::Ppp,
        ether::VLAN => Layer::Vlan,
        ether::ERSPAN if data.u8(0) & SEQUENCE == 0 => Layer::ErspanI,
        ether::ERSPAN => Layer::ErspanII,
        ether::BRIDGE => Layer::Ethernet,
        ether::ARP => Layer::Arp,
        _ => return Step::DONE,
    };
    Step::inner(Inner {
        layer,
        data: data.after(header_len),
        source: "gre tunnel",
        counter: None,
        valid_only: false,
    })
}

/// The length of the header, or what is wrong with it.
fn version_0(data: View<'_>) -> Result<usize, u16> {
    let flags = data.u8(0);
    if flags & RECURSION != 0 {
        return Err(event::GRE_VERSION0_RECUR);
    }
    if data.u8(1) & RESERVED != 0 {
        return Err(event::GRE_VERSION0_FLAGS);
    }
    let parts = [flags & KEY, flags & SEQUENCE, flags & (CHECKSUM | ROUTING)];
    let header_len = HEADER_LEN + PART_LEN * parts.into_iter().filter(|part| *part != 0).count();
    if header_len > data.len() {
        return Err(event::GRE_VERSION0_HDR_TOO_BIG);
    }
    if flags & ROUTING == 0 { Ok(header_len) } else { behind_routing(data, header_len) }
}

/// Where the routing entries from a place on end: with an empty one.
fn behind_routing(data: View<'_>, mut at: usize) -> Result<usize, u16> {
    loop {
        if at + PART_LEN > data.len() {
            return Err(event::GRE_VERSION0_MALFORMED_SRE_HDR);
        }
        let (family, length) = (data.u16(at), usize::from(data.u8(at + 3)));
        at += PART_LEN;
        if family == 0 && length == 0 {
            return Ok(at);
        }
        at += length;
        if at > data.len() {
            return Err(event::GRE_VERSION0_MALFORMED_SRE_HDR);
        }
    }
}

fn version_1(data: View<'_>) -> Result<usize, u16> {
    let (flags, second) = (data.u8(0), data.u8(1));
    let wrong = [
        (flags & CHECKSUM != 0, event::GRE_VERSION1_CHKSUM),
        (flags & ROUTING != 0, event::GRE_VERSION1_ROUTE),
        (flags & STRICT_ROUTE != 0, event::GRE_VERSION1_SSR),
        (flags & RECURSION != 0, event::GRE_VERSION1_RECUR),
        (second & RESERVED != 0, event::GRE_VERSION1_FLAGS),
        (data.u16(2) != PPP, event::GRE_VERSION1_WRONG_PROTOCOL),
        (flags & KEY == 0, event::GRE_VERSION1_NO_KEY),
    ];
    if let Some((_, wrong)) = wrong.into_iter().find(|(is_wrong, _)| *is_wrong) {
        return Err(wrong);
    }
    let parts = [flags & KEY, flags & SEQUENCE, second & ACKNOWLEDGEMENT];
    let header_len = HEADER_LEN + PART_LEN * parts.into_iter().filter(|part| *part != 0).count();
    if header_len > data.len() {
        return Err(event::GRE_VERSION1_HDR_TOO_BIG);
    }
    Ok(header_len)
}

/// ERSPAN, type I: Ethernet, without a header of its own.
pub(super) fn erspan_i<'a>(counters: &mut Counters, data: View<'a>) -> Step<'a> {
    counters.add(Counter::Erspan);
    Step::inherit(Layer::Ethernet, data)
}

/// ERSPAN, type II.
pub(super) fn erspan_ii<'a>(
    draft: &mut Draft,
    counters: &mut Counters,
    data: View<'a>,
) -> Step<'a> {
    counters.add(Counter::Erspan);
    if data.len() < ERSPAN_LEN {
        draft.event(event::ERSPAN_HEADER_TOO_SMALL);
        return Step::FAILED;
    }
    if !draft.layer() {
        return Step::FAILED;
    }
    let first = data.u16(0);
    if first >> 12 != 1 {
        draft.event(event::ERSPAN_UNSUPPORTED_VERSION);
        return Step::FAILED;
    }
    let vlan = first & 0x0fff;
    if vlan > 0 {
        if draft.packet.vlan.len() >= VLANS_MAX {
            draft.event(event::ERSPAN_TOO_MANY_VLAN_LAYERS);
            return Step::FAILED;
        }
        draft.packet.vlan.push(vlan);
    }
    Step::inherit(Layer::Ethernet, data.after(ERSPAN_LEN))
}
