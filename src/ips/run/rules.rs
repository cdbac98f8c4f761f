//! Rules and settings made ready for the threads, again with each reload.

use std::sync::{Arc, Mutex, PoisonError};

use gauntlet_ids::detect::{Detector, Program};
use gauntlet_ids::eve;
use gauntlet_ids::pipeline::{self, Gate};
use gauntlet_ids::replay::{self, Options, ReplayError};
use gauntlet_netio::Plan;
use gauntlet_packet::Checksums;

use super::Args;
use crate::ips::gate::PacketGate;
use crate::ips::inspection::Judges;

/// What all threads run with.
pub(super) struct Ready {
    pub(super) program: Arc<Program>,
    pub(super) layers: pipeline::Settings,
    /// Which records are written.
    pub(super) eve: eve::Settings,
    /// A thread's sets and reputations, until it takes them.
    detectors: Vec<Mutex<Option<Detector>>>,
    /// Rules for packets.
    pub(super) gate: Option<Arc<PacketGate>>,
}

impl Ready {
    /// Reads rules; `earlier` is what they take the place of.
    pub(super) fn read(
        plan: &Plan,
        options: &Options,
        earlier: Option<&Program>,
    ) -> Result<Self, ReplayError> {
        let program = match earlier {
            Some(earlier) => replay::next_program(options, earlier)?,
            None => replay::program(options)?,
        };
        let first = replay::detector(options, &program)?;
        let others = (1..plan.ports_len()).map(|_| first.sibling()).collect::<Vec<_>>();
        let all = std::iter::once(first).chain(others);
        let detectors = all.map(|detector| Mutex::new(Some(detector))).collect();
        let eve = eve::Settings::read(&options.settings);
        let mut layers = layers(plan, options, &program);
        layers.protocols.hashes = replay::hashes(&eve);
        program.wants(&mut layers.protocols);
        layers.wishes = eve.wishes(None);
        Ok(Self { program: Arc::new(program), layers, eve, detectors, gate: None })
    }

    /// With records as the node wants them: without a file of all, alerts alone.
    pub(super) fn for_node(mut self, args: &Args) -> Self {
        if args.for_node {
            let eve = if args.eve.is_some() { self.eve } else { self.eve.alerts_only() };
            self.eve = eve.with_evidence();
            self.layers.wishes = self.eve.wishes(None);
        }
        self
    }

    /// Flows are decided about by their first packet.
    pub(super) fn gated(mut self, gate: Option<Arc<PacketGate>>) -> Self {
        self.layers.gate = gate.clone().map(|gate| gate as Arc<dyn Gate>);
        self.gate = gate;
        self
    }

    /// Also tells what is judged of what packets carry; `resets`: and what is dropped for it.
    pub(super) fn telling(mut self, judges: Option<&Judges>, resets: bool) -> Self {
        if let Some(judges) = judges {
            let wishes = judges.wishes();
            self.layers.wishes = self.layers.wishes.and(wishes);
            self.layers.wishes.drops |= resets;
            self.layers.protocols.hashes.data |= wishes.files;
            self.layers.protocols.mail = judges.mail_limits();
        }
        self
    }

    /// What detection knows before its first packet. A thread takes it once.
    pub(super) fn detector(&self, thread: usize) -> Detector {
        let place = self.detectors.get(thread);
        place
            .and_then(|place| place.lock().unwrap_or_else(PoisonError::into_inner).take())
            .unwrap_or_default()
    }

    /// Rules in use, and rules left out.
    pub(super) fn counts(&self) -> (usize, usize) {
        let unsupported = self.program.unsupported().count();
        let rules = &self.program.rules;
        (rules.rules.len() - unsupported, rules.problems.len() + unsupported)
    }
}

/// Settings of one thread's layers: limits of memory are shared out.
fn layers(plan: &Plan, options: &Options, program: &Program) -> pipeline::Settings {
    let (mut layers, _, _) = replay::layers(options);
    let threads = plan.ports_len().max(1);
    let share = |bytes: &mut u64| *bytes /= threads as u64;
    share(&mut layers.flows.bytes_max);
    share(&mut layers.streams.session_bytes_max);
    share(&mut layers.streams.reassembly_bytes_max);
    layers.packets.defrag.memory_bytes_max /= threads;
    // The kernel says of which frames checksums mean nothing; nothing is to be guessed.
    let checked = plan.settings.checksums;
    layers.packets.checksums = if checked { Checksums::All } else { Checksums::None };
    layers.streams.check_overlaps |= program.asks_overlaps();
    layers
}
