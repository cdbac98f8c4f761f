//! A packet while it is decoded.

use std::sync::Arc;

use crate::event::{PACKET_EVENTS_MAX, TOO_MANY_LAYERS};
use crate::packet::{Packet, PacketSource};

/// VLANs of one packet.
pub(crate) const VLANS_MAX: usize = 3;

/// What is needed of an IPv6 fragment besides the header.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FragmentHeader {
    /// Where the fragment header begins in the packet.
    pub(crate) at: usize,
    /// How long what follows it is.
    pub(crate) data_len: usize,
    /// Where the extension header before it begins, whose first byte names what follows.
    pub(crate) previous_at: Option<usize>,
    /// What the fragments hold, by the header.
    pub(crate) next_header: u8,
}

/// A packet and what decoding has to remember of it.
pub(crate) struct Draft {
    pub(crate) packet: Packet,
    /// Layers so far, those around it included.
    pub(crate) layers: u8,
    pub(crate) layers_max: u8,
    /// Reassembled packets around it.
    pub(crate) reassemblies: u8,
    /// PPP says that IPv4's protocol number is not to be trusted (Van Jacobson).
    pub(crate) van_jacobson: bool,
    /// Whether wrong checksums count.
    pub(crate) checked: bool,
    /// Of an IPv6 fragment.
    pub(crate) fragment: FragmentHeader,
}

impl Draft {
    pub(crate) fn new(bytes: Arc<[u8]>, layers_max: u8) -> Self {
        Self {
            packet: Packet::new(bytes),
            layers: 0,
            layers_max,
            reassemblies: 0,
            van_jacobson: false,
            checked: true,
            fragment: FragmentHeader::default(),
        }
    }

    /// A packet within this one or of its fragments, with what it has from it.
    pub(crate) fn child(&self, bytes: Arc<[u8]>, source: PacketSource) -> Self {
        let mut child = Self::new(bytes, self.layers_max);
        child.reassemblies = self.reassemblies;
        child.packet.number = self.packet.number;
        child.packet.time = self.packet.time;
        child.packet.source = source;
        child
    }

    /// Notes an event.
    pub(crate) fn event(&mut self, number: u16) {
        if self.packet.events.len() < PACKET_EVENTS_MAX {
            self.packet.events.push(number);
        }
    }

    /// Notes an event that makes the packet invalid.
    pub(crate) fn invalid(&mut self, number: u16) {
        self.packet.invalid = true;
        self.event(number);
    }

    /// Counts a layer; whether there may be one more.
    pub(crate) fn layer(&mut self) -> bool {
        self.layers = self.layers.saturating_add(1);
        let fits = self.layers < self.layers_max;
        if !fits {
            self.invalid(TOO_MANY_LAYERS);
        }
        fits
    }
}
