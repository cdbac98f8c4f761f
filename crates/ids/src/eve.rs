//! Records as Suricata's EVE log has them, a JSON object a line.
//!
//! ```text
//! pipeline -> Writer (an Observer) -> lines
//!             settings: which types, which fields
//! ```
//!
//! What a parser knows of a transaction comes from `gauntlet_protocols` ([`Fields`]); what is
//! around it, and which of it is written, is decided here.
//!
//! [`Fields`]: gauntlet_protocols::Fields

mod alert;
mod beside;
mod file;
mod finding;
mod flow;
mod forwarded;
mod head;
mod line;
mod link;
mod metadata;
mod names;
mod packet;
mod settings;
mod stats;
mod store;
mod transaction;

use std::collections::HashSet;
use std::sync::Arc;

use gauntlet_packet::{Direction, Time};

use crate::detect::Program;
use crate::pipeline::observer::{
    Anomaly, Dropped, FilePart, FlowEnd, GateDecision, Observer, TransactionEvent, Wishes,
};
use crate::pipeline::{Counter, Event};
pub use beside::{Beside, Finder, Found};
pub use finding::Finding;
pub use head::timestamp;
use line::Line;
pub use settings::Settings;
pub use store::{Settings as StoreSettings, Store};

/// Where lines go; they come without their ends.
pub type Out<'o> = Box<dyn FnMut(&str) + 'o>;

/// Writes records of what a pipeline tells.
pub struct Writer<'o> {
    settings: Settings,
    program: Arc<Program>,
    /// Name of the capture file (`pcap-file`).
    file: Option<String>,
    store: Option<Store>,
    /// Flows of which a drop was told, by direction.
    dropped: HashSet<(u64, Direction)>,
    /// Time of the last packet.
    now: Time,
    /// Alerts so far.
    pub alerts: u64,
    /// Packets that a rule drops.
    pub drops: u64,
    out: Out<'o>,
}

impl std::fmt::Debug for Writer<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl<'o> Writer<'o> {
    /// A writer of the records that the settings ask for. `capture`: the file's name, for those
    /// that want it.
    pub fn new(settings: Settings, program: Arc<Program>, capture: &str, out: Out<'o>) -> Self {
        let file = settings.pcap_file.then(|| capture.to_owned());
        Self {
            settings,
            program,
            file,
            store: None,
            dropped: HashSet::new(),
            now: Time::default(),
            alerts: 0,
            drops: 0,
            out,
        }
    }

    /// The capture has come to this time, with packets that others told of.
    pub fn reached(&mut self, time: Time) {
        self.now = time;
    }

    /// Hands out a record that another writer has made.
    pub fn pass_on(&mut self, line: &str) {
        (self.out)(line);
    }

    /// Records are about other rules from now on.
    pub fn replace_program(&mut self, program: Arc<Program>) {
        self.program = program;
    }

    /// Files are stored, too.
    pub fn with_store(self, store: Store) -> Self {
        Self { store: Some(store), ..self }
    }

    /// What went wrong with stored files, the first of each kind.
    pub fn store_problem(&self) -> Option<&std::io::Error> {
        self.store.as_ref().and_then(Store::problem)
    }

    /// Writes the record of counters (`stats`), if such are written.
    pub fn stats(&mut self, counters: &[Counter]) {
        if let Some(options) = self.settings.of("stats") {
            let line = stats::stats(options, counters, &self.program.rules, self.now);
            self.write(line);
        }
    }

    fn write(&mut self, mut line: Line) {
        if let Some(name) = &self.settings.sensor {
            line.string("host", name);
        }
        if let Some(name) = &self.file {
            line.string("pcap_filename", name);
        }
        let text = line.finish();
        if self.settings.prefix.is_empty() {
            (self.out)(&text);
        } else {
            (self.out)(&format!("{}{text}", self.settings.prefix));
        }
    }
}

impl Observer for Writer<'_> {
    fn wishes(&self) -> Wishes {
        self.settings.wishes(self.store.as_ref().map(Store::settings))
    }

    fn packet(&mut self, event: &Event<'_>) {
        self.now = event.packet.time;
        self.alerts += event.alerts().len() as u64;
        self.drops += u64::from(event.verdict.dropped_by.is_some());
        for alert in event.alerts() {
            if let Some(line) = alert::alert(&self.settings, event, alert) {
                self.write(line);
            }
        }
        let options = self.settings.alerts.as_ref();
        if event.verdict.tagged && options.is_some_and(|options| options.tagged_packets) {
            let line = link::tagged(&self.settings, event);
            self.write(line);
        }
    }

    fn transaction(&mut self, event: &TransactionEvent<'_>) {
        self.now = event.moment.packet.time;
        let line = transaction::record(&self.settings, &self.program.rules, event);
        if let Some(line) = line {
            self.write(line);
        }
    }

    fn file(&mut self, part: &FilePart<'_>) {
        self.now = part.moment.packet.time;
        let mut stored = None;
        if let Some(store) = &mut self.store {
            stored = store.take(part);
            if stored.is_some() && store.writes_records() {
                let line = file::record(&self.settings, &self.program.rules, part, stored);
                store.write_record(&line.finish());
            }
        }
        if part.is_end && self.settings.of("files").is_some() {
            let line = file::record(&self.settings, &self.program.rules, part, stored);
            self.write(line);
        }
    }

    fn flow(&mut self, end: &FlowEnd<'_>) {
        self.now = end.now;
        for direction in [Direction::ToServer, Direction::ToClient] {
            self.dropped.remove(&(end.core.number, direction));
        }
        if let Some(store) = &mut self.store {
            store.forget(end.core.number);
        }
        let rules = &self.program.rules;
        let mut lines = Vec::new();
        if self.settings.of("flow").is_some() {
            lines.push(flow::flow(&self.settings, rules, end, end.now));
        }
        if self.settings.of("netflow").is_some() {
            lines.extend(flow::netflow(&self.settings, rules, end, end.now));
        }
        for line in lines {
            self.write(line);
        }
    }

    fn anomaly(&mut self, anomaly: &Anomaly<'_>) {
        self.now = anomaly.moment.packet.time;
        let line = packet::anomaly(&self.settings, &self.program.rules, anomaly);
        if let Some(line) = line {
            self.write(line);
        }
    }

    fn decided(&mut self, decision: &GateDecision<'_>) {
        if !decision.is_recorded {
            return;
        }
        self.now = decision.moment.packet.time;
        let line = packet::decided(&self.settings, &self.program.rules, decision);
        self.write(line);
        if decision.is_inline && !decision.passage.is_open() {
            let (moment, reason) = (decision.moment, decision.reason);
            self.dropped(&Dropped { moment, reason, flow_drops: false, verdict: None });
        }
    }

    fn dropped(&mut self, drop: &Dropped<'_>) {
        let Some(options) = self.settings.of("drop") else { return };
        let all = options.get("flows").is_some_and(|flows| flows.eq_ignore_ascii_case("all"));
        if let Some(flow) = drop.moment.flow.filter(|_| !all) {
            // Of a flow that is dropped whole, one in each direction is told.
            let by_rule = drop.verdict.is_some_and(|verdict| verdict.dropped_by.is_some());
            let key = (flow.core.number, flow.direction);
            let is_new = drop.flow_drops && self.dropped.insert(key);
            if !is_new && !by_rule {
                return;
            }
        }
        let line = packet::dropped(&self.settings, options, &self.program, drop);
        self.write(line);
    }
}
