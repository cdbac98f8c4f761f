//! Layers below IP: Ethernet, VLANs and others that name what follows by an EtherType.

use std::net::Ipv4Addr;

use super::draft::{Draft, VLANS_MAX};
use super::step::{Layer, Step};
use super::view::View;
use crate::counters::{Counter, Counters};
use crate::event;
use crate::packet::Arp;

/// Length of an Ethernet header, in bytes.
pub(super) const ETHERNET_LEN: usize = 14;
const VLAN_LEN: usize = 4;
const IEEE8021AH_LEN: usize = 18;
const VNTAG_LEN: usize = 6;
const COOKED_LEN: usize = 16;
const COOKED2_LEN: usize = 20;
const HDLC_LEN: usize = 4;
const FAMILY_LEN: usize = 4;
const ARP_LEN_MIN: usize = 8;
const ARP_LEN: usize = 28;
/// Two bytes of FabricPath, and an Ethernet header.
const DCE_LEN: usize = ETHERNET_LEN + 2;
const IPV4_LEN_MIN: usize = 20;
/// An IP packet is no longer.
const IP_LEN_MAX: usize = 0xffff;

/// EtherTypes that are decoded.
pub(super) mod ether {
    pub(crate) const IPV4: u16 = 0x0800;
    pub(crate) const ARP: u16 = 0x0806;
    pub(crate) const BRIDGE: u16 = 0x6558;
    pub(crate) const VLAN: u16 = 0x8100;
    pub(crate) const IPV6: u16 = 0x86dd;
    pub(crate) const MPLS: u16 = 0x8847;
    pub(crate) const MPLS_MULTICAST: u16 = 0x8848;
    pub(crate) const PPPOE_DISCOVERY: u16 = 0x8863;
    pub(crate) const PPPOE_SESSION: u16 = 0x8864;
    pub(crate) const QINQ: u16 = 0x88a8;
    pub(crate) const ERSPAN: u16 = 0x88be;
    pub(crate) const IEEE8021AH: u16 = 0x88e7;
    pub(crate) const DCE: u16 = 0x8903;
    pub(crate) const VNTAG: u16 = 0x8926;
    pub(crate) const NSH: u16 = 0x894f;
    pub(crate) const QINQ_OLD: u16 = 0x9100;
}

/// What follows by its EtherType; `None` if the type is not known.
fn network<'a>(
    draft: &mut Draft,
    counters: &mut Counters,
    kind: u16,
    data: View<'a>,
) -> Option<Step<'a>> {
    let layer = match kind {
        ether::IPV4 => return Some(Step::layer(Layer::Ipv4, data.first(IP_LEN_MAX))),
        ether::IPV6 => return Some(Step::layer(Layer::Ipv6, data.first(IP_LEN_MAX))),
        ether::PPPOE_SESSION => Layer::PppoeSession,
        ether::PPPOE_DISCOVERY => Layer::PppoeDiscovery,
        ether::VLAN | ether::QINQ | ether::QINQ_OLD => {
            if draft.packet.vlan.len() >= VLANS_MAX {
                draft.event(event::VLAN_TOO_MANY_LAYERS);
                return Some(Step::DONE);
            }
            Layer::Vlan
        }
        ether::IEEE8021AH => Layer::Ieee8021ah,
        ether::ARP => Layer::Arp,
        ether::MPLS | ether::MPLS_MULTICAST => Layer::Mpls,
        ether::DCE if data.len() < DCE_LEN => {
            draft.invalid(event::DCE_PKT_TOO_SMALL);
            return Some(Step::DONE);
        }
        ether::DCE => return Some(Step::layer(Layer::Ethernet, data.after(2))),
        ether::VNTAG => Layer::VnTag,
        ether::NSH => Layer::Nsh,
        _ => {
            counters.add(Counter::UnknownEthertype);
            draft.event(event::ETHERNET_UNKNOWN_ETHERTYPE);
            return None;
        }
    };
    Some(Step::layer(layer, data))
}

/// Ethernet II.
pub(super) fn ethernet<'a>(draft: &mut Draft, counters: &mut Counters, data: View<'a>) -> Step<'a> {
    counters.add(Counter::Ethernet);
    if data.len() < ETHERNET_LEN {
        draft.invalid(event::ETHERNET_PKT_TOO_SMALL);
        return Step::FAILED;
    }
    if !draft.layer() {
        return Step::FAILED;
    }
    draft.packet.ethernet = Some(data.first(ETHERNET_LEN).range());
    network(draft, counters, data.u16(12), data.after(ETHERNET_LEN)).unwrap_or(Step::DONE)
}

/// IEEE 802.1Q, 802.1ad.
pub(super) fn vlan<'a>(draft: &mut Draft, counters: &mut Counters, data: View<'a>) -> Step<'a> {
    match draft.packet.vlan.len() {
        0 => counters.add(Counter::Vlan),
        1 => counters.add(Counter::VlanQinq),
        2 => counters.add(Counter::VlanQinqinq),
        _ => {}
    }
    if data.len() < VLAN_LEN {
        draft.invalid(event::VLAN_HEADER_TOO_SMALL);
        return Step::FAILED;
    }
    if !draft.layer() {
        return Step::FAILED;
    }
    if draft.packet.vlan.len() >= VLANS_MAX {
        draft.event(event::VLAN_TOO_MANY_LAYERS);
        return Step::FAILED;
    }
    draft.packet.vlan.push(data.u16(0) & 0x0fff);
    network(draft, counters, data.u16(2), data.after(VLAN_LEN)).unwrap_or_else(|| {
        draft.invalid(event::VLAN_UNKNOWN_TYPE);
        Step::FAILED
    })
}

/// IEEE 802.1ah: provider backbone bridges.
pub(super) fn ieee8021ah<'a>(
    draft: &mut Draft,
    counters: &mut Counters,
    data: View<'a>,
) -> Step<'a> {
    counters.add(Counter::Ieee8021ah);
    if data.len() < IEEE8021AH_LEN {
        draft.invalid(event::IEEE8021AH_HEADER_TOO_SMALL);
        return Step::FAILED;
    }
    if !draft.layer() {
        return Step::FAILED;
    }
    network(draft, counters, data.u16(16), data.after(IEEE8021AH_LEN)).unwrap_or(Step::DONE)
}

/// VN-Tag (IEEE 802.1Qbh).
pub(super) fn vntag<'a>(draft: &mut Draft, counters: &mut Counters, data: View<'a>) -> Step<'a> {
    counters.add(Counter::Vntag);
    if data.len() < VNTAG_LEN {
        draft.invalid(event::VNTAG_HEADER_TOO_SMALL);
        return Step::FAILED;
    }
    if !draft.layer() {
        return Step::FAILED;
    }
    network(draft, counters, data.u16(4), data.after(VNTAG_LEN)).unwrap_or_else(|| {
        draft.invalid(event::VNTAG_UNKNOWN_TYPE);
        Step::FAILED
    })
}

/// Linux "cooked" captures.
pub(super) fn cooked<'a>(draft: &mut Draft, counters: &mut Counters, data: View<'a>) -> Step<'a> {
    counters.add(Counter::Sll);
    if data.len() < COOKED_LEN {
        draft.invalid(event::SLL_PKT_TOO_SMALL);
        return Step::FAILED;
    }
    if !draft.layer() {
        return Step::FAILED;
    }
    network(draft, counters, data.u16(14), data.after(COOKED_LEN)).unwrap_or(Step::DONE)
}

/// Linux "cooked" captures, version 2.
pub(super) fn cooked2<'a>(draft: &mut Draft, counters: &mut Counters, data: View<'a>) -> Step<'a> {
    counters.add(Counter::Sll2);
    if data.len() < COOKED2_LEN {
        draft.invalid(event::SLL2_PKT_TOO_SMALL);
        return Step::FAILED;
    }
    if !draft.layer() {
        return Step::FAILED;
    }
    network(draft, counters, data.u16(0), data.after(COOKED2_LEN)).unwrap_or(Step::DONE)
}

/// Cisco HDLC.
pub(super) fn hdlc<'a>(draft: &mut Draft, counters: &mut Counters, data: View<'a>) -> Step<'a> {
    counters.add(Counter::Chdlc);
    if data.len() < HDLC_LEN {
        draft.invalid(event::CHDLC_PKT_TOO_SMALL);
        return Step::FAILED;
    }
    if data.len() > HDLC_LEN + IP_LEN_MAX || !draft.layer() {
        return Step::FAILED;
    }
    network(draft, counters, data.u16(2), data.after(HDLC_LEN)).unwrap_or(Step::DONE)
}

/// BSD loopback: a family in the capturing machine's order (taken for little-endian), or in
/// network order.
pub(super) fn loopback<'a>(
    draft: &mut Draft,
    counters: &mut Counters,
    data: View<'a>,
    network_order: bool,
) -> Step<'a> {
    counters.add(Counter::Null);
    if data.len() < FAMILY_LEN {
        draft.invalid(event::LTNULL_PKT_TOO_SMALL);
        return Step::FAILED;
    }
    if data.len() > FAMILY_LEN + IP_LEN_MAX {
        return Step::FAILED;
    }
    let family =
        if network_order { data.u32(0) } else { u32::from_le_bytes(data.array::<FAMILY_LEN>(0)) };
    match family {
        2 => Step::layer(Layer::Ipv4, data.after(FAMILY_LEN)),
        // Linux, Winsock, BSD, Solaris, FreeBSD, Darwin.
        10 | 23 | 24 | 26 | 28 | 30 => Step::layer(Layer::Ipv6, data.after(FAMILY_LEN)),
        _ => {
            draft.event(event::LTNULL_UNSUPPORTED_TYPE);
            Step::DONE
        }
    }
}

/// IP without anything around it.
pub(super) fn raw<'a>(draft: &mut Draft, counters: &mut Counters, data: View<'a>) -> Step<'a> {
    counters.add(Counter::Raw);
    if data.len() < IPV4_LEN_MIN {
        draft.invalid(event::IPV4_PKT_TOO_SMALL);
        return Step::FAILED;
    }
    if data.len() > IP_LEN_MAX {
        return Step::FAILED;
    }
    match data.u8(0) >> 4 {
        4 => Step::layer(Layer::Ipv4, data),
        6 => Step::layer(Layer::Ipv6, data),
        _ => {
            draft.event(event::IPRAW_INVALID_IP_VERSION);
            Step::DONE
        }
    }
}

/// ARP (RFC 826) for IPv4 over Ethernet.
pub(super) fn arp(draft: &mut Draft, counters: &mut Counters, data: View<'_>) -> Step<'static> {
    counters.add(Counter::Arp);
    if data.len() < ARP_LEN_MIN {
        draft.invalid(event::ARP_PKT_TOO_SMALL);
        return Step::FAILED;
    }
    if !draft.layer() {
        return Step::FAILED;
    }
    let operation = data.u16(6);
    let wrong = if data.u16(0) != 1 {
        Some(event::ARP_UNSUPPORTED_HARDWARE)
    } else if data.u16(2) != ether::IPV4 {
        Some(event::ARP_UNSUPPORTED_PROTOCOL)
    } else if data.len() < ARP_LEN {
        Some(event::ARP_INVALID_PKT)
    } else if data.u8(4) != 6 {
        Some(event::ARP_INVALID_HARDWARE_SIZE)
    } else if data.u8(5) != 4 {
        Some(event::ARP_INVALID_PROTOCOL_SIZE)
    } else if !(1..=4).contains(&operation) {
        Some(event::ARP_UNSUPPORTED_OPCODE)
    } else {
        None
    };
    if let Some(wrong) = wrong {
        draft.invalid(wrong);
        return Step::FAILED;
    }
    draft.packet.arp = Some(Box::new(Arp {
        operation,
        sender_mac: data.array(8),
        sender: Ipv4Addr::from(data.array::<4>(14)),
        target_mac: data.array(18),
        target: Ipv4Addr::from(data.array::<4>(24)),
    }));
    Step::DONE
}
