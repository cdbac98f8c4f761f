//! What is told behind detection: transactions, their events and their files.
//!
//! When a transaction is told is as in Suricata, because it decides with which packet, time and
//! direction a record is written: with packets that changed the application layer, once both
//! directions are far enough, or when nothing more can come.

use std::cell::Cell;

use gauntlet_packet::flow::{Flow, Pseudo};
use gauntlet_packet::tcp::Update;
use gauntlet_packet::{Direction, Link, Packet, Time, Transport};
use gauntlet_protocols::{Buffer, Conversation, Event as ParserEvent, FileState, Protocol};

use super::gate::{functions, may_look};
use super::learned::{Learned, moment};
use super::observer::{
    Anomaly, AnomalyLayer, FilePart, FlowView, MailEvent, Moment, TransactionEvent,
};
use super::{Observer, Upper, Wishes};

const BOTH: [Direction; 2] = [Direction::ToServer, Direction::ToClient];

/// Tells messages that have ended; without a packet, the flow has.
pub(super) fn mail(
    flow: &mut Flow<Upper>,
    packet: Option<&Packet>,
    time: Time,
    observer: &mut dyn Observer,
) {
    let Some(conversation) = &mut flow.upper.conversation else { return };
    // What nobody is to look at is not kept, either.
    let is_wanted = may_look(&flow.core, functions::MAIL);
    for mail in conversation.take_mail(packet.is_none()).into_iter().filter(|_| is_wanted) {
        observer.mail(&MailEvent { core: &flow.core, packet, time, mail: &mail });
    }
}

/// Tells what is new of a flow's transactions; those that were told count as logged.
pub(super) fn transactions(
    flow: &mut Flow<Upper>,
    packet: &Packet,
    learned: &Learned,
    (wishes, link): (Wishes, Option<Link>),
    observer: &mut dyn Observer,
) {
    let direction = learned.facts.direction;
    let updated = flow.upper.updated.get(direction.index()).copied().unwrap_or_default();
    let is_tcp = matches!(packet.transport, Transport::Tcp(_));
    if !(learned.is_made() || updated || learned.outcome.update != Update::None)
        || (is_tcp && !learned.in_session())
    {
        return;
    }
    // Taken out, so that observers can look at it while its states change.
    let Some(mut conversation) = flow.upper.conversation.take() else { return };
    if conversation.count() == 0 {
        flow.upper.conversation = Some(conversation);
        return;
    }
    let newest = conversation.count().checked_sub(1).and_then(|place| conversation.state(place));
    let seen = newest.map_or(0, |state| state.id + 1);
    flow.upper.transactions = flow.upper.transactions.max(seen);
    // Before the protocol changes, or nothing is inspected any more, all that is there is told.
    let is_last = matches!(learned.facts.pseudo, Some(Pseudo::End { last: true } | Pseudo::Flush));
    let ended = BOTH.map(|way| conversation.ended(way));
    let turn = Turn {
        moment: moment(flow, packet, learned, link),
        direction,
        is_flow_end: matches!(learned.facts.pseudo, Some(Pseudo::End { .. })),
        ended,
        at_end: is_last || ended == [true; 2],
        is_depth: flow.core.tcp.as_ref().is_some_and(|tcp| tcp.depth_reached(direction)),
        stores: flow.upper.detection.stores,
        keeps_file: Cell::new(false),
        wishes,
    };
    turn.run(&mut conversation, observer);
    if let (true, Some(depth), Some(session)) =
        (turn.keeps_file.get() || wishes.all_files, wishes.file_depth, &mut flow.core.tcp)
    {
        session.set_depth(depth);
    }
    flow.upper.conversation = Some(conversation);
}

struct Turn<'a> {
    moment: Moment<'a>,
    /// Of the packet.
    direction: Direction,
    /// The packet was made up at the flow's end.
    is_flow_end: bool,
    /// No more data comes in these directions.
    ended: [bool; 2],
    /// Nothing more comes at all.
    at_end: bool,
    /// The stream's depth is reached in the packet's direction.
    is_depth: bool,
    /// Files of these directions of the flow are kept.
    stores: [bool; 2],
    /// A file of the flow is kept.
    keeps_file: Cell<bool>,
    wishes: Wishes,
}

impl Turn<'_> {
    fn run(&self, conversation: &mut Conversation, observer: &mut dyn Observer) {
        let Some(protocol) = conversation.protocol() else { return };
        let end = BOTH.map(|way| conversation.complete(way));
        let due = due(protocol, conversation, end);
        for place in 0..conversation.count() {
            let progress = BOTH.map(|way| conversation.progress(place, way));
            let complete = [progress[0] >= end[0], progress[1] >= end[1]];
            self.request(conversation, (protocol, place), (progress[0], complete[0]), observer);
            self.files(conversation, (protocol, place), complete, observer);
            let Some(state) = conversation.state(place) else { continue };
            if state.updated == [false; 2] && complete == [false; 2] && self.ended == [false; 2] {
                continue;
            }
            self.anomalies(conversation, (protocol, place), observer);
            let is_due = self.at_end || (progress[0] >= due[0] && progress[1] >= due[1]);
            let Some(state) = conversation.state(place) else { continue };
            if state.logged || !is_due {
                continue;
            }
            if self.wishes.transactions {
                let moment = self.moment(conversation);
                observer.transaction(&TransactionEvent {
                    moment,
                    conversation,
                    protocol,
                    place,
                    state,
                    complete,
                });
            }
            if let Some(state) = conversation.state_mut(place) {
                state.logged = true;
            }
        }
    }

    fn request(
        &self,
        conversation: &mut Conversation,
        (protocol, place): (Protocol, usize),
        (progress, complete): (u8, bool),
        observer: &mut dyn Observer,
    ) {
        let Some(state) = conversation.state(place) else { return };
        let is_open = self.wishes.requests && !state.asked && self.may_look(functions::URLS);
        let is_whole = || {
            let waits = progress + 1 == asked(protocol) && is_tunnel(conversation, place);
            complete || progress >= asked(protocol) || waits
        };
        if !is_open || !is_whole() {
            return;
        }
        let complete = [complete, false];
        let moment = self.moment(conversation);
        let event = TransactionEvent { moment, conversation, protocol, place, state, complete };
        observer.request(&event);
        if let Some(state) = conversation.state_mut(place) {
            state.asked = true;
        }
    }

    /// Whether something may look at the flow.
    fn may_look(&self, function: u8) -> bool {
        self.moment.flow.is_none_or(|flow| may_look(flow.core, function))
    }

    fn moment<'a>(&'a self, conversation: &'a Conversation) -> Moment<'a> {
        let view = |flow| FlowView { conversation: Some(conversation), ..flow };
        Moment { flow: self.moment.flow.map(view), ..self.moment }
    }

    fn anomalies(
        &self,
        conversation: &mut Conversation,
        (protocol, place): (Protocol, usize),
        observer: &mut dyn Observer,
    ) {
        if !self.wishes.anomalies {
            return;
        }
        let Some(state) = conversation.state(place) else { return };
        for number in state.occurrences.iter().skip(state.events_told) {
            let event = ParserEvent { protocol, number: *number }.name();
            let moment = self.moment(conversation);
            let layer = AnomalyLayer::Transaction { id: state.id };
            observer.anomaly(&Anomaly { moment, layer, event });
        }
        if let Some(state) = conversation.state_mut(place) {
            state.events_told = state.occurrences.len();
        }
    }

    /// Files of the packet's direction, and at the end those of the other, too.
    fn files(
        &self,
        conversation: &mut Conversation,
        (protocol, place): (Protocol, usize),
        complete: [bool; 2],
        observer: &mut dyn Observer,
    ) {
        let Some(state) = conversation.state_mut(place) else { return };
        for direction in [self.direction, self.direction.reverse()] {
            if direction != self.direction && !self.at_end {
                break;
            }
            let is_over = self.at_end
                || self.is_flow_end
                || self.is_depth
                || (direction != self.direction && complete == [true; 2]);
            let side = direction.index();
            let stores = |of: [bool; 2]| of.get(side).copied().unwrap_or_default();
            let is_stored = stores(state.stores) || stores(self.stores);
            for file in state.files.get_mut(side).into_iter().flatten() {
                file.store |= is_stored;
                self.keeps_file.set(self.keeps_file.get() || file.store);
                if is_over && file.state == FileState::Open {
                    file.truncate();
                }
            }
        }
        let ways = if self.at_end { 2 } else { 1 };
        for direction in [self.direction, self.direction.reverse()].into_iter().take(ways) {
            self.parts(conversation, (protocol, place), direction, observer);
        }
    }

    fn parts(
        &self,
        conversation: &mut Conversation,
        (protocol, place): (Protocol, usize),
        direction: Direction,
        observer: &mut dyn Observer,
    ) {
        let count = conversation.state(place).map_or(0, |state| state.files(direction).len());
        for index in 0..count {
            let Some(state) = conversation.state(place) else { return };
            let Some(file) = state.files(direction).get(index).filter(|file| !file.logged) else {
                continue;
            };
            let is_end = file.state > FileState::Open;
            let (data, offset) = file.untold();
            let told = offset + data.len() as u64;
            if self.wishes.files && (is_end || !data.is_empty()) {
                let moment = self.moment(conversation);
                observer.file(&FilePart {
                    moment,
                    conversation,
                    protocol,
                    place,
                    state,
                    direction,
                    index,
                    file,
                    offset,
                    data,
                    is_end,
                });
            }
            let state = conversation.state_mut(place);
            let files = state.and_then(|state| state.files.get_mut(direction.index()));
            if let Some(file) = files.and_then(|files| files.get_mut(index)) {
                file.told = told;
                file.logged = is_end;
            }
        }
    }
}

/// Whether a request of HTTP/1 is CONNECT: its parser waits for the answer before it goes on.
fn is_tunnel(conversation: &Conversation, place: usize) -> bool {
    let method = Buffer::of_keyword("http.method");
    let method =
        method.and_then(|method| conversation.buffer(place, method, Direction::ToServer, 0));
    method.is_some_and(|method| method.data.eq_ignore_ascii_case(b"CONNECT"))
}

/// How far a request has to be to be told: its header is there.
fn asked(protocol: Protocol) -> u8 {
    match protocol {
        Protocol::Http1 => 3,
        _ => 1,
    }
}

/// How far a transaction has to be to be told.
fn due(protocol: Protocol, conversation: &Conversation, end: [u8; 2]) -> [u8; 2] {
    match protocol {
        // Handshakes that are done.
        Protocol::Tls => [3, 4],
        // Banners, or with fingerprints the exchange of keys.
        Protocol::Ssh if !conversation.settings().ssh.hassh => [2, 2],
        Protocol::Ssh => [3, 3],
        _ => end,
    }
}
