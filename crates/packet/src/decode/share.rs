//! By what frames are shared among several decoders, each with its own flows.

use std::net::IpAddr;
use std::sync::Arc;

use super::draft::Draft;
use super::step::{Layer, Next};
use super::view::View;
use super::{Decoder, FRAME_BYTES_MAX, first_layer};
use crate::capture::Frame;
use crate::packet::{IpVersion, Transport};

impl Decoder {
    /// Source and destination of the outermost IP header, or, of an ICMP error over IPv4, those of
    /// the packet that it is about. Frames with the same two addresses, whichever way, are to go
    /// to the same decoder: those of a flow, fragments of a packet, what a tunnel carries, and
    /// flows between two hosts that announce each other. `None` of frames without an IP header.
    ///
    /// To be asked of a decoder that decodes nothing else.
    pub fn addresses(&mut self, frame: &Frame) -> Option<(IpAddr, IpAddr)> {
        if frame.bytes.len() > FRAME_BYTES_MAX {
            return None;
        }
        let mut layer = first_layer(frame.link)?;
        let mut draft = Draft::new(Arc::clone(&frame.bytes), self.settings.layers_max);
        draft.checked = false;
        let mut data = View::new(&frame.bytes);
        loop {
            let is_icmp = layer == Layer::Icmpv4;
            if let (Some(ip), false) = (&draft.packet.ip, is_icmp) {
                return Some((ip.source, ip.destination));
            }
            match self.step(&mut draft, layer, data).next {
                Next::Layer(next, rest) => (layer, data) = (next, rest),
                _ => break,
            }
        }
        let ip = draft.packet.ip.as_ref()?;
        if let (Transport::Icmp(icmp), IpVersion::V4) = (&draft.packet.transport, ip.version)
            && let Some(about) = &icmp.embedded
        {
            return Some((about.source, about.destination));
        }
        Some((ip.source, ip.destination))
    }
}
