//! Reads the first half of a rule: action, protocol, addresses, ports.

use super::draft::{Draft, Outcome};
use super::shared::Shared;
use super::text::HeaderText;
use crate::rule::header::{Direction, Header, Hook, Protocols};
use crate::rule::network::{addresses, ports};
use crate::rule::{Action, RejectTo, Scope, Towards, protocol};

/// What the first half says.
pub(super) struct Head {
    pub(super) header: Header,
    action: Action,
    scope: Scope,
    protocol: Option<&'static str>,
    hook: Option<Hook>,
    towards: Towards,
    needs_packet: bool,
    needs_stream: bool,
    is_bidirectional: bool,
    has_negation: bool,
}

impl Head {
    /// Begins a draft with it.
    pub(super) fn apply(self, draft: &mut Draft<'_>) {
        draft.header = self.header;
        draft.action = self.action;
        // Rules that pass log nothing unless they say `alert`.
        draft.no_alert = self.action == Action::Pass;
        draft.scope = self.scope;
        draft.protocol = self.protocol;
        draft.is_app_layer = self.protocol.is_some();
        draft.hook = self.hook;
        draft.towards = self.towards;
        draft.needs_packet = self.needs_packet;
        draft.needs_stream = self.needs_stream;
        draft.is_bidirectional = self.is_bidirectional;
        draft.has_negated_addresses = self.has_negation;
    }
}

/// Reads the header; `is_swapped` takes the destination for the source.
pub(super) fn read(text: &HeaderText<'_>, shared: &Shared, is_swapped: bool) -> Outcome<Head> {
    let (action, scope) = action(text.action)?;
    let mut head = Head {
        header: header(text, shared, is_swapped)?,
        action,
        scope,
        protocol: None,
        hook: None,
        towards: Towards::default(),
        needs_packet: false,
        needs_stream: false,
        is_bidirectional: text.direction == "=>",
        has_negation: false,
    };
    if !matches!(text.direction, "->" | "<>" | "=>") {
        let direction = text.direction;
        return Err(format!("{direction:?} is not a direction; -> and <> are").into());
    }
    for address in [text.source, text.destination] {
        head.has_negation |= addresses(address, shared)?.1;
    }
    read_protocol(text.protocol, shared, &mut head)?;
    Ok(head)
}

fn action(text: &str) -> Outcome<(Action, Scope)> {
    let (name, scope) = match text.split_once(':') {
        Some((name, scope)) => (name, Some(scope)),
        None => (text, None),
    };
    let action = match name.to_ascii_lowercase().as_str() {
        "alert" => Action::Alert,
        "drop" => Action::Drop,
        "pass" => Action::Pass,
        "reject" | "rejectsrc" => Action::Reject(RejectTo::Source),
        "rejectdst" => Action::Reject(RejectTo::Destination),
        "rejectboth" => Action::Reject(RejectTo::Both),
        "config" => Action::Config,
        "accept" => return Err("accept is for firewall rules only".into()),
        _ => return Err(format!("an invalid action {name:?} was given").into()),
    };
    let scope = match (scope, action) {
        (None, _) => Scope::Automatic,
        (Some("packet"), Action::Config) => Scope::Packet,
        (Some("packet"), Action::Drop | Action::Pass | Action::Reject(_)) => Scope::Packet,
        (Some("flow"), Action::Drop | Action::Pass | Action::Reject(_)) => Scope::Flow,
        _ => return Err(format!("invalid scope in the action {text:?}").into()),
    };
    Ok((action, scope))
}

fn header(text: &HeaderText<'_>, shared: &Shared, is_swapped: bool) -> Outcome<Header> {
    let (mut from, mut to) =
        ((text.source, text.source_ports), (text.destination, text.destination_ports));
    if is_swapped {
        std::mem::swap(&mut from, &mut to);
    }
    let is_any = |text: &str| text.eq_ignore_ascii_case("any");
    Ok(Header {
        protocols: Protocols::of(&[]),
        source: addresses(from.0, shared)?.0,
        source_ports: ports(from.1, shared)?,
        destination: addresses(to.0, shared)?.0,
        destination_ports: ports(to.1, shared)?,
        source_is_any: is_any(from.0),
        destination_is_any: is_any(to.0),
        source_ports_any: is_any(from.1),
        destination_ports_any: is_any(to.1),
    })
}

fn read_protocol(text: &str, shared: &Shared, head: &mut Head) -> Outcome {
    let (name, hook) = match text.split_once(':') {
        Some((name, hook)) => (name, Some(hook)),
        None => (text, None),
    };
    let protocols = &mut head.header.protocols;
    match name.to_ascii_lowercase().as_str() {
        "tcp" => *protocols = Protocols::of(&[6]),
        "tcp-pkt" => (*protocols, head.needs_packet) = (Protocols::of(&[6]), true),
        "tcp-stream" => (*protocols, head.needs_stream) = (Protocols::of(&[6]), true),
        "udp" => *protocols = Protocols::of(&[17]),
        "icmpv4" => *protocols = Protocols::of(&[1]),
        "icmpv6" => *protocols = Protocols::of(&[58]),
        "icmp" => *protocols = Protocols::of(&[1, 58]),
        "sctp" => *protocols = Protocols::of(&[132]),
        "ipv4" | "ip4" => *protocols = Protocols { only_v4: true, ..Protocols::any() },
        "ipv6" | "ip6" => *protocols = Protocols { only_v6: true, ..Protocols::any() },
        "ip" => *protocols = Protocols::any(),
        "pkthdr" => *protocols = Protocols { is_packet_header: true, ..Protocols::any() },
        _ => return read_app_protocol(name, hook, shared, head),
    }
    head.hook = match hook {
        None => None,
        Some("flow_start") => Some(Hook::FlowStart),
        Some("pre_flow") => Some(Hook::PreFlow),
        Some("pre_stream") => Some(Hook::PreStream),
        Some("all") => Some(Hook::All),
        Some(hook) => return Err(format!("protocol {name:?} has no hook {hook:?}").into()),
    };
    Ok(())
}

fn read_app_protocol(name: &str, hook: Option<&str>, shared: &Shared, head: &mut Head) -> Outcome {
    let info = protocol::find(name).filter(|info| shared.is_enabled(info.name));
    let info = info.ok_or_else(|| {
        let setting = "app-layer.protocols";
        format!("protocol {name:?} cannot be used: unknown, or off by {setting}.{name}.enabled")
    })?;
    head.protocol = Some(info.name);
    for (is_over, number) in [(info.tcp, 6), (info.udp, 17)] {
        if is_over {
            head.header.protocols.insert(number);
        }
    }
    if let Some(hook) = hook {
        let found = protocol::hook(info.name, hook);
        let (direction, progress) =
            found.ok_or_else(|| format!("protocol {name:?} has no hook {hook:?}"))?;
        match direction {
            Direction::ToServer => head.towards.server = true,
            Direction::ToClient => head.towards.client = true,
        }
        head.hook = Some(Hook::Transaction { direction, progress });
    }
    Ok(())
}

/// Both directions of `<>` are the same.
pub(super) fn is_symmetric(header: &Header) -> bool {
    let ports_any = header.source_ports_any && header.destination_ports_any;
    let addresses_any = header.source_is_any && header.destination_is_any;
    (ports_any || header.source_ports == header.destination_ports)
        && (addresses_any || header.source == header.destination)
}
