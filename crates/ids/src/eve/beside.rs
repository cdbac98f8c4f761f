//! A writer of records, and who finds more in what a pipeline tells.

use gauntlet_packet::flow::FlowCore;
use gauntlet_packet::{Packet, Time};
use gauntlet_protocols::Protocol;

use super::{Finding, Writer};
use crate::pipeline::Event;
use crate::pipeline::observer::{
    Anomaly, Dropped, FilePart, FlowEnd, GateDecision, MailEvent, Moment, Observer,
    TransactionEvent, Wishes,
};

/// Looks at what a pipeline tells: messages, files, requests.
pub trait Finder: Observer {
    /// What was found since the last call, in what was told last.
    fn take(&mut self) -> Vec<Found>;
}

/// What was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// The protocol that carried it.
    pub protocol: Protocol,
    /// The value of `gauntlet` in its record.
    pub value: serde_json::Value,
}

/// Both as one observer.
pub struct Beside<'a, 'o> {
    writer: &'a mut Writer<'o>,
    finder: &'a mut dyn Finder,
}

impl std::fmt::Debug for Beside<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Beside").field("writer", &self.writer).finish_non_exhaustive()
    }
}

impl<'a, 'o> Beside<'a, 'o> {
    /// Whatever `finder` finds is written by `writer`, behind what that tells itself.
    pub fn new(writer: &'a mut Writer<'o>, finder: &'a mut dyn Finder) -> Self {
        Self { writer, finder }
    }

    fn tell(&mut self, core: &FlowCore, packet: Option<&Packet>, time: Time) {
        for Found { protocol, value } in self.finder.take() {
            let protocol = protocol.eve_name();
            self.writer.finding(&Finding { core, packet, time, protocol, found: &value });
        }
    }

    fn tell_at(&mut self, moment: &Moment<'_>) {
        if let Some(flow) = moment.flow {
            self.tell(flow.core, Some(moment.packet), moment.packet.time);
        }
    }
}

impl Observer for Beside<'_, '_> {
    fn wishes(&self) -> Wishes {
        self.writer.wishes().and(self.finder.wishes())
    }

    fn packet(&mut self, event: &Event<'_>) {
        self.writer.packet(event);
        self.finder.packet(event);
        self.tell_at(&event.moment());
    }

    fn transaction(&mut self, event: &TransactionEvent<'_>) {
        self.writer.transaction(event);
        self.finder.transaction(event);
        self.tell_at(&event.moment);
    }

    fn request(&mut self, event: &TransactionEvent<'_>) {
        self.finder.request(event);
        self.tell_at(&event.moment);
    }

    fn mail(&mut self, event: &MailEvent<'_>) {
        self.finder.mail(event);
        self.tell(event.core, event.packet, event.time);
    }

    fn drops_flow(&mut self) -> bool {
        self.finder.drops_flow()
    }

    fn file(&mut self, part: &FilePart<'_>) {
        self.writer.file(part);
        self.finder.file(part);
        self.tell_at(&part.moment);
    }

    fn flow(&mut self, end: &FlowEnd<'_>) {
        self.finder.flow(end);
        self.tell(end.core, None, end.now);
        self.writer.flow(end);
    }

    fn anomaly(&mut self, anomaly: &Anomaly<'_>) {
        self.writer.anomaly(anomaly);
        self.finder.anomaly(anomaly);
    }

    fn decided(&mut self, decision: &GateDecision<'_>) {
        self.writer.decided(decision);
        self.finder.decided(decision);
    }

    fn dropped(&mut self, drop: &Dropped<'_>) {
        self.writer.dropped(drop);
        self.finder.dropped(drop);
    }
}
