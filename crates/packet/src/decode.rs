//! Frames to packets, as Suricata 8 decodes them.
//!
//! Each layer is a function in a file of its own that looks at its header, notes events in the
//! [`draft::Draft`], and says what follows ([`step::Next`]); the control flow is here. Inner
//! packets (GRE, IP in IP, Teredo, VXLAN, Geneve, ERSPAN) and packets put together of fragments
//! are packets of their own.
//!
//! The order in which [`Decoder::decode`] gives packets is that in which Suricata inspects them:
//! its decoder queues each inner packet once it is decoded, hence the innermost first; the queue
//! is inspected whole before the captured packet goes on, hence that one last
//! (`TmThreadsSlotVarRun`, `TmThreadsProcessDecodePseudoPackets`).
//!
//! Events that Suricata calls invalid set [`Packet::invalid`]. It does less than its name says:
//! such packets count in `decoder.invalid`, one that seemed to be in Teredo is dropped, and an
//! ICMP error about another flow is not joined to it. Rules see them like others; whether there
//! is a flow depends on how far decoding came ([`Packet::wants_flow`]).

mod draft;
mod encapsulation;
mod gre;
mod icmp;
mod ipv4;
mod ipv4_options;
mod ipv6;
mod ipv6_extension;
mod label;
mod link_layer;
mod ppp;
mod share;
mod step;
mod tcp;
mod transport;
mod view;

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use crate::capture::Frame;
use crate::counters::{Counter, Counters};
use crate::defrag::{Defrag, Part};
use crate::event::TOO_MANY_LAYERS;
use crate::link::Link;
use crate::packet::{IpVersion, Packet, PacketSource, Transport, Tunnel};
use crate::settings::{Checksums, Settings};
use draft::Draft;
use encapsulation::Tunnel as Encapsulation;
use step::{Inner, Layer, Next, Step, Verdict};
use view::View;

/// Longer frames are counted and not decoded (Suricata's `MAX_PAYLOAD_SIZE`), in bytes.
pub const FRAME_BYTES_MAX: usize = 40 + 65_536 + 28;
/// `decoder.max-layers` is not taken higher: each layer may be a call deeper.
const LAYERS_MAX: u8 = 64;
/// Reassembled packets within reassembled packets; deeper ones are not decoded.
const REASSEMBLIES_NESTED_MAX: u8 = 8;
/// At this packet, `Checksums::Auto` decides.
const CHECKSUM_SAMPLE: u64 = 1000;
/// What part of the packets must have wrong checksums for them to be ignored: one in so many.
const CHECKSUM_RATIO: u64 = 10;

/// Decodes frames, and puts IP fragments together.
pub struct Decoder {
    settings: Settings,
    counters: Counters,
    defrag: Defrag,
    /// Whether checksums of captured packets are looked at.
    checked: bool,
    /// Checksums of the frames that come now are known to be right, or are filled in later.
    trusted: bool,
    /// That was decided by what came.
    sampled: bool,
    frames: u64,
    wrong_checksums: u64,
}

impl Decoder {
    /// A decoder that has seen nothing.
    pub fn new(mut settings: Settings) -> Self {
        settings.layers_max = settings.layers_max.min(LAYERS_MAX);
        Self {
            checked: settings.checksums != Checksums::None,
            trusted: false,
            defrag: Defrag::new(settings.defrag.clone(), settings.hosts.clone()),
            counters: Counters::default(),
            settings,
            sampled: false,
            frames: 0,
            wrong_checksums: 0,
        }
    }

    /// What was counted.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Bytes that fragments hold which wait for others.
    pub fn memory(&self) -> usize {
        self.defrag.memory()
    }

    /// From now on, checksums of frames count as right (`true`), or as the settings say: a frame of
    /// a live interface may leave them to the network card.
    pub fn trust_checksums(&mut self, trusted: bool) {
        self.trusted = trusted;
    }

    /// Decodes a frame; adds its packets in the order in which they are inspected: innermost
    /// first, the captured one last. Of a frame that is too long there is none.
    pub fn decode(&mut self, frame: &Frame, packets: &mut Vec<Packet>) {
        self.frames += 1;
        self.choose_checksums(frame.number);
        if frame.bytes.len() > FRAME_BYTES_MAX {
            self.counters.add(Counter::TooLong);
            return;
        }
        self.counters.add(Counter::Pkts);
        self.counters.add_many(Counter::Bytes, frame.bytes.len() as u64);
        let mut draft = Draft::new(Arc::clone(&frame.bytes), self.settings.layers_max);
        draft.packet.number = Some(frame.number).filter(|number| *number > 0);
        draft.packet.time = frame.time;
        draft.checked = self.checked && !self.trusted;
        if let Some(layer) = first_layer(frame.link) {
            self.run(&mut draft, layer, View::new(&frame.bytes), packets);
        }
        if draft.packet.invalid {
            self.counters.add(Counter::Invalid);
        }
        if matches!(&draft.packet.transport, Transport::Tcp(tcp) if !tcp.checksum_ok) {
            self.wrong_checksums += 1;
        }
        self.finish(draft, packets);
    }

    /// Decides about checksums by the frames so far, once: of a capture that several decoders
    /// share, each by those it was given.
    fn choose_checksums(&mut self, number: u64) {
        if self.settings.checksums != Checksums::Auto || self.sampled || number < CHECKSUM_SAMPLE {
            return;
        }
        self.sampled = true;
        if let Some(ratio) = self.frames.checked_div(self.wrong_checksums) {
            self.checked = ratio >= CHECKSUM_RATIO;
        }
    }

    fn finish(&mut self, draft: Draft, packets: &mut Vec<Packet>) {
        for number in &draft.packet.events {
            self.counters.event(*number);
        }
        packets.push(draft.packet);
    }

    /// Decodes from a layer on; whether that layer counts as decoded.
    fn run(
        &mut self,
        draft: &mut Draft,
        mut layer: Layer,
        mut data: View<'_>,
        packets: &mut Vec<Packet>,
    ) -> bool {
        let mut decoded = None;
        loop {
            let step = self.step(draft, layer, data);
            if step.verdict != Verdict::Inherited {
                decoded = decoded.or(Some(step.verdict == Verdict::Decoded));
            }
            match step.next {
                Next::Done => break,
                Next::Layer(next, rest) => (layer, data) = (next, rest),
                Next::Inner(inner) => {
                    self.inner(draft, &inner, packets);
                    break;
                }
                Next::Datagram(payload) => {
                    self.datagram(draft, payload, packets);
                    break;
                }
                Next::Fragment(whole) => {
                    self.fragment(draft, whole, packets);
                    break;
                }
            }
        }
        decoded.unwrap_or(true)
    }

    fn step<'a>(&mut self, draft: &mut Draft, layer: Layer, data: View<'a>) -> Step<'a> {
        let counters = &mut self.counters;
        match layer {
            Layer::Ethernet => link_layer::ethernet(draft, counters, data),
            Layer::Vlan => link_layer::vlan(draft, counters, data),
            Layer::Ieee8021ah => link_layer::ieee8021ah(draft, counters, data),
            Layer::VnTag => link_layer::vntag(draft, counters, data),
            Layer::Arp => link_layer::arp(draft, counters, data),
            Layer::Null => link_layer::loopback(draft, counters, data, false),
            Layer::Loop => link_layer::loopback(draft, counters, data, true),
            Layer::Raw => link_layer::raw(draft, counters, data),
            Layer::Hdlc => link_layer::hdlc(draft, counters, data),
            Layer::LinuxCooked => link_layer::cooked(draft, counters, data),
            Layer::LinuxCooked2 => link_layer::cooked2(draft, counters, data),
            Layer::PppoeDiscovery => ppp::pppoe_discovery(draft, counters, data),
            Layer::PppoeSession => ppp::pppoe_session(draft, counters, data),
            Layer::Ppp => ppp::ppp(draft, counters, data),
            Layer::Mpls => label::mpls(draft, counters, data),
            Layer::Nsh => label::nsh(draft, counters, data),
            Layer::ErspanI => gre::erspan_i(counters, data),
            Layer::ErspanII => gre::erspan_ii(draft, counters, data),
            Layer::Ipv4 => ipv4::ipv4(draft, counters, data),
            Layer::Ipv6 => ipv6::ipv6(draft, counters, data),
            Layer::Tcp => tcp::tcp(draft, counters, data),
            Layer::Udp => transport::udp(draft, counters, data),
            Layer::Sctp => transport::sctp(draft, counters, data),
            Layer::Esp => transport::esp(draft, counters, data),
            Layer::Icmpv4 => icmp::icmpv4(draft, counters, data),
            Layer::Icmpv6 => icmp::icmpv6(draft, counters, data),
            Layer::Gre => gre::gre(draft, counters, data),
        }
    }

    /// Decodes a packet within another; whether it is one.
    fn inner(&mut self, parent: &mut Draft, inner: &Inner<'_>, packets: &mut Vec<Packet>) -> bool {
        if parent.layers.saturating_add(1) >= parent.layers_max {
            parent.invalid(TOO_MANY_LAYERS);
            return false;
        }
        let bytes: Arc<[u8]> = inner.data.bytes().into();
        let mut child = parent.child(Arc::clone(&bytes), PacketSource::Tunnel(inner.source));
        child.layers = parent.layers + 1;
        child.packet.tunnel = Some(Box::new(around(&parent.packet, 1)));
        let decoded = self.run(&mut child, inner.layer, View::new(&bytes), packets);
        if !decoded || (inner.valid_only && child.packet.invalid) {
            return false;
        }
        self.finish(child, packets);
        parent.packet.no_payload_inspection = true;
        if let Some(counter) = inner.counter {
            self.counters.add(counter);
        }
        true
    }

    /// Tunnels over UDP, by their ports.
    fn datagram(&mut self, draft: &mut Draft, payload: View<'_>, packets: &mut Vec<Packet>) {
        let (source, destination) = draft.packet.ports();
        if self.settings.teredo.has(source) || self.settings.teredo.has(destination) {
            let found = encapsulation::teredo(payload);
            if let Encapsulation::Inner(inner) = found
                && self.inner(draft, &inner, packets)
            {
                return;
            }
        }
        if self.settings.geneve.has(source) || self.settings.geneve.has(destination) {
            match encapsulation::geneve(draft, &mut self.counters, payload) {
                Encapsulation::No => {}
                Encapsulation::Opaque => return,
                Encapsulation::Inner(inner) => {
                    self.inner(draft, &inner, packets);
                    return;
                }
            }
        }
        if self.settings.vxlan.has(destination)
            && let Encapsulation::Inner(inner) =
                encapsulation::vxlan(draft, &mut self.counters, payload)
        {
            self.inner(draft, &inner, packets);
        }
    }

    /// Hands a fragment to the defragmenter, and decodes the packet that it completes.
    fn fragment(&mut self, draft: &mut Draft, whole: View<'_>, packets: &mut Vec<Packet>) {
        let Some(ip) = &draft.packet.ip else { return };
        let layer = match ip.version {
            IpVersion::V4 => Layer::Ipv4,
            IpVersion::V6 => Layer::Ipv6,
        };
        let (header, data) = match layer {
            Layer::Ipv4 => (ip.header.clone(), ip.payload.clone()),
            // All before the fragment header, and all behind it.
            _ => {
                let data_at = draft.fragment.at + 8;
                (ip.header.start..draft.fragment.at, data_at..data_at + draft.fragment.data_len)
            }
        };
        let part = Part {
            packet: &draft.packet,
            header,
            data,
            next_header_at: draft.fragment.previous_at.unwrap_or(ip.header.start + 6),
            next_header: draft.fragment.next_header,
            start: whole.start(),
        };
        let outcome = self.defrag.add(&part, &mut self.counters);
        for number in outcome.events {
            draft.event(number);
        }
        let Some(bytes) = outcome.bytes else { return };
        if draft.reassemblies >= REASSEMBLIES_NESTED_MAX {
            draft.invalid(TOO_MANY_LAYERS);
            return;
        }
        let bytes: Arc<[u8]> = bytes.into();
        let mut child = draft.child(Arc::clone(&bytes), PacketSource::Defragmented);
        child.reassemblies += 1;
        child.packet.vlan = draft.packet.vlan.clone();
        child.packet.tunnel = Some(Box::new(around(&draft.packet, 0)));
        if self.run(&mut child, layer, View::new(&bytes), packets) {
            self.finish(child, packets);
            draft.packet.no_payload_inspection = true;
        }
    }
}

/// What a frame begins with.
fn first_layer(link: Link) -> Option<Layer> {
    Some(match link {
        Link::Ethernet => Layer::Ethernet,
        Link::LinuxCooked => Layer::LinuxCooked,
        Link::LinuxCooked2 => Layer::LinuxCooked2,
        Link::Ppp => Layer::Ppp,
        Link::Raw | Link::Ipv4 | Link::Ipv6 => Layer::Raw,
        Link::Null => Layer::Null,
        Link::Loop => Layer::Loop,
        Link::Hdlc => Layer::Hdlc,
        Link::Other(_) => return None,
    })
}

/// What an inner packet has to know of the captured one; `deeper` is how much deeper it is than
/// its parent.
fn around(parent: &Packet, deeper: u8) -> Tunnel {
    if let Some(tunnel) = &parent.tunnel {
        return Tunnel { depth: tunnel.depth.saturating_add(deeper), ..(**tunnel).clone() };
    }
    let nowhere = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    let (source, destination, protocol) = match &parent.ip {
        Some(ip) => (ip.source, ip.destination, ip.protocol),
        None => (nowhere, nowhere, 0),
    };
    Tunnel { source, destination, ports: parent.ports(), protocol, depth: deeper }
}
