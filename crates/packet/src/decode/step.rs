//! What decoding one layer leads to.

use super::view::View;
use crate::counters::Counter;

/// A layer that can be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layer {
    Ethernet,
    Vlan,
    Ieee8021ah,
    VnTag,
    PppoeDiscovery,
    PppoeSession,
    Ppp,
    Mpls,
    Nsh,
    Arp,
    Null,
    Loop,
    Raw,
    Hdlc,
    LinuxCooked,
    LinuxCooked2,
    ErspanI,
    ErspanII,
    Ipv4,
    Ipv6,
    Tcp,
    Udp,
    Icmpv4,
    Icmpv6,
    Sctp,
    Esp,
    Gre,
}

/// Whether a layer counts as decoded; packets in tunnels whose first layer does not are dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Decoded,
    Failed,
    /// That of the layer that follows.
    Inherited,
}

/// An inner packet.
pub(crate) struct Inner<'a> {
    pub(crate) layer: Layer,
    pub(crate) data: View<'a>,
    /// As EVE names it.
    pub(crate) source: &'static str,
    /// Counts inner packets that could be decoded.
    pub(crate) counter: Option<Counter>,
    /// Drop the inner packet if it is invalid: the tunnel was a guess.
    pub(crate) valid_only: bool,
}

/// What follows a layer.
pub(crate) enum Next<'a> {
    /// Nothing.
    Done,
    /// Another layer of the same packet.
    Layer(Layer, View<'a>),
    /// A packet of its own.
    Inner(Inner<'a>),
    /// The payload of UDP, which may be a tunnel by its ports.
    Datagram(View<'a>),
    /// A part of an IP packet, which begins here; what it needs to be put together is in the
    /// draft.
    Fragment(View<'a>),
}

/// The outcome of a layer.
pub(crate) struct Step<'a> {
    pub(crate) verdict: Verdict,
    pub(crate) next: Next<'a>,
}

impl<'a> Step<'a> {
    /// The layer is wrong, and nothing follows.
    pub(crate) const FAILED: Step<'static> = Step { verdict: Verdict::Failed, next: Next::Done };
    /// The layer is decoded, and nothing follows.
    pub(crate) const DONE: Step<'static> = Step { verdict: Verdict::Decoded, next: Next::Done };

    /// The layer is decoded, and another follows.
    pub(crate) fn layer(layer: Layer, data: View<'a>) -> Self {
        Self { verdict: Verdict::Decoded, next: Next::Layer(layer, data) }
    }

    /// Another layer follows, and decides.
    pub(crate) fn inherit(layer: Layer, data: View<'a>) -> Self {
        Self { verdict: Verdict::Inherited, next: Next::Layer(layer, data) }
    }

    /// The layer is decoded, and holds a packet of its own.
    pub(crate) fn inner(inner: Inner<'a>) -> Self {
        Self { verdict: Verdict::Decoded, next: Next::Inner(inner) }
    }

    /// The layer is decoded, and something follows.
    pub(crate) fn next(next: Next<'a>) -> Self {
        Self { verdict: Verdict::Decoded, next }
    }
}
