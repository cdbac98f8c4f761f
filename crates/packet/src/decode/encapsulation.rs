//! Tunnels over UDP: Teredo (RFC 4380), VXLAN (RFC 7348), Geneve (RFC 8926).

use super::draft::Draft;
use super::link_layer::{ETHERNET_LEN, ether};
use super::step::{Inner, Layer};
use super::view::View;
use crate::counters::{Counter, Counters};
use crate::event;

const IPV6_LEN: usize = 40;
const ORIGIN_LEN: usize = 8;
const VXLAN_LEN: usize = 8;
const GENEVE_LEN_MIN: usize = 8;
const GENEVE_OPTION_LEN: usize = 4;

/// What a datagram on the port of a tunnel turned out to be.
pub(super) enum Tunnel<'a> {
    /// Something else.
    No,
    /// The tunnel, with something that is not decoded in it.
    Opaque,
    /// The tunnel.
    Inner(Inner<'a>),
}

/// Teredo: IPv6 that fills the datagram, perhaps behind an origin indication.
pub(super) fn teredo(payload: View<'_>) -> Tunnel<'_> {
    if payload.len() < IPV6_LEN {
        return Tunnel::No;
    }
    let data = match (payload.u8(0), payload.u8(1)) {
        (0, 0) if payload.len() < ORIGIN_LEN + IPV6_LEN => return Tunnel::No,
        (0, 0) => payload.after(ORIGIN_LEN),
        // An authentication, which is no packet.
        (0, _) => return Tunnel::No,
        _ => payload,
    };
    let payload_len = usize::from(data.u16(4));
    // Nothing else tells Teredo from other datagrams, so doubtful ones are let go: without hops,
    // or too short for the hop-by-hop header that they announce.
    let doubtful = data.u8(7) == 0 || (data.u8(6) == 0 && payload_len < 8);
    if data.u8(0) >> 4 != 6 || doubtful || data.len() != IPV6_LEN + payload_len {
        return Tunnel::No;
    }
    Tunnel::Inner(Inner {
        layer: Layer::Ipv6,
        data,
        source: "teredo tunnel",
        counter: Some(Counter::Teredo),
        valid_only: true,
    })
}

/// VXLAN: an Ethernet frame.
pub(super) fn vxlan<'a>(
    draft: &mut Draft,
    counters: &mut Counters,
    payload: View<'a>,
) -> Tunnel<'a> {
    if payload.len() < VXLAN_LEN + ETHERNET_LEN || !draft.layer() {
        return Tunnel::No;
    }
    if payload.u8(0) & 0x08 == 0 || payload.u8(7) != 0 {
        return Tunnel::No;
    }
    counters.add(Counter::Vxlan);
    let frame = payload.after(VXLAN_LEN);
    let layer = match frame.u16(12) {
        ether::IPV4 => Layer::Ipv4,
        ether::IPV6 => Layer::Ipv6,
        ether::VLAN | ether::QINQ | ether::QINQ_OLD => Layer::Vlan,
        ether::ARP => return Tunnel::Opaque,
        _ => {
            draft.invalid(event::VXLAN_UNKNOWN_PAYLOAD_TYPE);
            return Tunnel::Opaque;
        }
    };
    let data = frame.after(ETHERNET_LEN);
    let source = "vxlan encapsulation";
    Tunnel::Inner(Inner { layer, data, source, counter: None, valid_only: false })
}

/// Geneve: an Ethernet frame or IP behind options.
pub(super) fn geneve<'a>(
    draft: &mut Draft,
    counters: &mut Counters,
    payload: View<'a>,
) -> Tunnel<'a> {
    if payload.len() < GENEVE_LEN_MIN || !draft.layer() {
        return Tunnel::No;
    }
    let options_len = usize::from(payload.u8(0) & 0x3f) * 4;
    if payload.len() < GENEVE_LEN_MIN + options_len {
        return Tunnel::No;
    }
    let (version, reserved) = (payload.u8(0) >> 6, payload.u8(1) & 0x3f);
    if version != 0 || reserved != 0 || payload.u8(7) != 0 {
        return Tunnel::No;
    }
    let mut options = payload.after(GENEVE_LEN_MIN).first(options_len);
    while options.len() > 0 {
        let len = GENEVE_OPTION_LEN + usize::from(options.u8(3) & 0x1f) * 4;
        if len > options.len() {
            return Tunnel::No;
        }
        options = options.after(len);
    }
    counters.add(Counter::Geneve);
    let layer = match payload.u16(2) {
        ether::IPV4 => Layer::Ipv4,
        ether::IPV6 => Layer::Ipv6,
        ether::BRIDGE => Layer::Ethernet,
        ether::ARP => return Tunnel::Opaque,
        _ => {
            draft.invalid(event::GENEVE_UNKNOWN_PAYLOAD_TYPE);
            return Tunnel::Opaque;
        }
    };
    let data = payload.after(GENEVE_LEN_MIN + options_len);
    let source = "geneve encapsulation";
    Tunnel::Inner(Inner { layer, data, source, counter: None, valid_only: false })
}
