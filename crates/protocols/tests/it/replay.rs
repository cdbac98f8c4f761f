//! A capture through decoder, flows, streams and conversations, as the detection loop does it, with
//! a detection engine that looks at everything.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use gauntlet_packet::flow::{self, FlowTable, Lookup, PacketFacts};
use gauntlet_packet::tcp::{self, Engine, RawPacket};
use gauntlet_packet::{Capture, Decoder, Direction, Packet, Transport};
use gauntlet_protocols::{Carrier, Conversation, FileState, Flow, Protocol, Settings};

/// A file as records tell it.
pub(super) type FileLine = (String, u64, String, String, String);

/// What a flow left behind.
#[derive(Default)]
pub(super) struct Seen {
    pub protocols: Vec<Option<Protocol>>,
    pub http: u64,
    pub files: Vec<FileLine>,
}

/// A flow's conversation, made with its first packet.
#[derive(Default)]
struct Upper(Option<Box<Conversation>>);

/// All that is needed.
pub(super) struct Replay {
    flows: FlowTable<Upper>,
    engine: Engine,
    settings: Arc<Settings>,
    pub seen: Seen,
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Replay {
    pub(super) fn new(flows: flow::Settings, streams: tcp::Settings, settings: Settings) -> Self {
        Self {
            flows: FlowTable::new(flows),
            engine: Engine::new(streams),
            settings: Arc::new(settings),
            seen: Seen::default(),
        }
    }

    /// All packets of a file.
    pub(super) fn file(&mut self, path: &Path, settings: gauntlet_packet::Settings) -> Option<()> {
        let mut decoder = Decoder::new(settings);
        let mut capture = Capture::open(File::open(path).ok()?).ok()?;
        let mut packets = Vec::new();
        while let Ok(Some(frame)) = capture.next() {
            packets.clear();
            decoder.decode(&frame, &mut packets);
            for packet in &packets {
                self.packet(packet);
            }
        }
        self.flows.end();
        self.ended();
        Some(())
    }

    fn packet(&mut self, packet: &Packet) {
        let found = self.flows.handle(packet, &self.engine.settings);
        if let Lookup::Flow(id, mut facts) = found
            && let Some(flow) = self.flows.get_mut(id)
        {
            let settings = &self.settings;
            handle(flow, packet, &mut facts, &mut self.engine, settings, &mut self.seen);
        }
        self.ended();
    }

    fn ended(&mut self) {
        while let Some(mut ended) = self.flows.next_ended() {
            for (packet, mut facts) in ended.final_packets([true; 2], self.flows.now()) {
                let (flow, settings) = (&mut ended.flow, &self.settings);
                handle(flow, &packet, &mut facts, &mut self.engine, settings, &mut self.seen);
            }
            let Some(mut conversation) = ended.flow.upper.0.take() else { continue };
            self.seen.protocols.push(conversation.protocol());
            count(&mut conversation, &mut self.seen, true);
        }
    }
}

fn handle(
    flow: &mut flow::Flow<Upper>,
    packet: &Packet,
    facts: &mut PacketFacts,
    engine: &mut Engine,
    settings: &Arc<Settings>,
    seen: &mut Seen,
) {
    let carrier = match packet.transport {
        Transport::Tcp(_) => Carrier::Tcp,
        Transport::Udp(_) => Carrier::Udp,
        _ => return,
    };
    let ports = (flow.core.client().port, flow.core.server().port);
    let conversation = flow.upper.0.get_or_insert_with(|| {
        let inline = engine.settings.inline;
        let about = Flow { carrier, ports, midstream: false, inline };
        Box::new(Conversation::new(settings.clone(), about))
    });
    if carrier == Carrier::Udp {
        conversation.datagram(facts.direction, packet.payload());
    } else {
        let outcome = flow.core.handle_tcp(packet, facts, engine, &mut **conversation);
        let changes = conversation.take_orders().wishes.change.is_some();
        if let Some(session) = &mut flow.core.tcp
            && outcome.established
        {
            let raw = RawPacket::new(packet, facts.direction, &outcome);
            if session.raw_ready(&raw, &engine.settings) {
                let progress = session.raw_data(&raw, &engine.settings, true, &mut |_, _| {});
                session.raw_done(facts.direction, progress);
            }
            session.prune(facts.direction, None, &engine.settings);
        }
        if changes {
            // What is there of the old protocol goes away with the next bytes.
            count(conversation, seen, true);
            return;
        }
    }
    inspect(conversation);
    count(conversation, seen, false);
    conversation.clean(facts.direction);
}

/// Looks at what is complete.
fn inspect(conversation: &mut Conversation) {
    for place in 0..conversation.count() {
        for way in [Direction::ToServer, Direction::ToClient] {
            conversation.inspected(place, way);
            let done = conversation.progress(place, way) >= conversation.complete(way);
            if let (true, Some(state)) = (done, conversation.state_mut(place)) {
                state.inspected[way.index()] = true;
            }
        }
    }
}

/// Counts transactions and files that are over, each once; with `all` those that are not, too.
fn count(conversation: &mut Conversation, seen: &mut Seen, all: bool) {
    let http =
        matches!(conversation.protocol(), Some(Protocol::Http1 | Protocol::Http2 | Protocol::Doh2));
    let ways = [Direction::ToServer, Direction::ToClient];
    for place in 0..conversation.count() {
        let over = ways
            .iter()
            .all(|way| conversation.progress(place, *way) >= conversation.complete(*way));
        let told = !conversation.record(place).0.is_empty();
        let Some(state) = conversation.state_mut(place) else { continue };
        if (over || all) && !std::mem::replace(&mut state.logged, true) {
            seen.http += u64::from(http && told);
        }
        for file in state.files.iter_mut().flatten() {
            let open = file.state == FileState::Open;
            if (open && !all) || std::mem::replace(&mut file.logged, true) {
                continue;
            }
            let hash = |hash: Option<&[u8]>| hash.map(hex).unwrap_or_default();
            let state = if open { FileState::Truncated } else { file.state };
            seen.files.push((
                String::from_utf8_lossy(&file.name).into_owned(),
                file.size,
                state.name().to_owned(),
                hash(file.md5.as_ref().map(|hash| hash.as_slice())),
                hash(file.sha256.as_ref().map(|hash| hash.as_slice())),
            ));
        }
    }
}
