//! A captured packet within a record.

use gauntlet_packet::{Link, Packet, PacketSource};

use super::head::{self, Way};
use super::line::Line;
use super::settings::Settings;
use crate::pipeline::Event;

/// The record of a packet that an earlier alert tagged.
pub(super) fn tagged(settings: &Settings, event: &Event<'_>) -> Line {
    let (moment, kind) = (event.moment(), ("packet", Way::Packet));
    let mut line = head::of_packet(settings, &event.program.rules, &moment, kind, None);
    packet(event.packet, event.link, event.packet.bytes.len(), &mut line);
    line
}

/// Writes the first bytes of a packet, and what they begin with.
pub(super) fn packet(packet: &Packet, link: Option<Link>, bytes_max: usize, line: &mut Line) {
    let bytes = packet.bytes.get(..bytes_max).unwrap_or(&packet.bytes);
    line.base64("packet", bytes);
    let link = match packet.source {
        PacketSource::Tunnel(_) => Link::Raw,
        _ => link.unwrap_or(Link::Raw),
    };
    let (number, name) = describe(link);
    line.object("packet_info", |line| {
        line.number("linktype", number);
        line.string("linktype_name", name);
    });
}

/// Number and name of a link type; the number is the usual one of those that have several.
fn describe(link: Link) -> (u32, &'static str) {
    match link {
        Link::Null => (0, "NULL"),
        Link::Ethernet => (1, "EN10MB"),
        Link::Ppp => (9, "PPP"),
        Link::Raw => (12, "RAW"),
        Link::Ipv4 => (228, "IPv4"),
        Link::Ipv6 => (229, "IPv6"),
        Link::Hdlc => (104, "C_HDLC"),
        Link::Loop => (108, "n/a"),
        Link::LinuxCooked => (113, "LINUX_SLL"),
        Link::LinuxCooked2 => (276, "LINUX_SLL2"),
        Link::Other(number) => (number, "n/a"),
    }
}
