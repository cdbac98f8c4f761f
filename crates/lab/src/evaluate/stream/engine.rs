//! The whole engine as it ships, taught as a node is.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Context;
use gauntlet_bench::learners::{Learner, Opinion};
use gauntlet_engine::classifier::Model;
use gauntlet_engine::corrections::{Correction, MessageId, message_id, reports};
use gauntlet_engine::learning::Said;
use gauntlet_engine::signatures::KnownSignatures;
use gauntlet_engine::signatures::known::DAYS_DEFAULT;
use gauntlet_engine::{Learned, Scratch, Settings, SiteModel, Snapshot, scan};
use gauntlet_mail::{Envelope, Facts, Message, trace};
use gauntlet_store::History;
use gauntlet_store::history::network_key;
use gauntlet_verdict::Class;

/// Corrections up to which the model is made anew after each.
const EACH_UP_TO: usize = 400;
/// Share of the corrections that are to be new before it is made anew beyond that, as a divisor.
const NEWS_SHARE: usize = 100;

/// The engine, the labels that it was given, and what it remembers of senders.
pub(super) struct Engine {
    snapshot: Snapshot,
    model: Arc<Model>,
    corrections: BTreeMap<MessageId, Correction>,
    /// Corrections that the snapshot does not know yet.
    news: usize,
    history: History,
    scratch: Scratch,
    _folder: tempfile::TempDir,
}

impl Engine {
    /// One without any label.
    pub(super) fn new(model: Arc<Model>) -> anyhow::Result<Self> {
        let settings = Settings { model: Some(Arc::clone(&model)), ..Settings::default() };
        let folder = tempfile::tempdir().context("cannot make a folder for sender history")?;
        Ok(Engine {
            snapshot: Snapshot::build(&settings)?,
            model,
            corrections: BTreeMap::new(),
            news: 0,
            history: History::open(folder.path())?,
            scratch: Scratch::default(),
            _folder: folder,
        })
    }

    fn learn(&mut self) {
        let enough = self.corrections.len() <= EACH_UP_TO
            || self.news * NEWS_SHARE >= self.corrections.len();
        if self.news == 0 || !enough {
            return;
        }
        let known = KnownSignatures::new(None, &[], &reports(&self.corrections), DAYS_DEFAULT);
        let learned = Learned {
            site: Some(Arc::new(SiteModel::learn(&self.corrections))),
            signatures: Some(Arc::new(known)),
            ..Learned::default()
        };
        self.snapshot = self.snapshot.clone().with_learned(learned);
        self.news = 0;
    }

    /// What is known of how a message came.
    fn circumstances(&self, message: &Message<'_>) -> (Envelope, Facts) {
        let envelope = trace::of_trace(message, 0);
        let mut facts = Facts::default();
        let known = envelope
            .client_ip
            .and_then(|ip| self.history.lookup(&network_key(ip), envelope.received_at));
        if let Some(known) = known {
            facts.sender_seen = Some(known.volume().round().clamp(0.0, 4e9) as u32);
            facts.sender_spam_share = Some((known.spam_share() * 100.0).round() as f32 / 100.0);
        }
        (envelope, facts)
    }
}

impl Learner for Engine {
    fn name(&self) -> String {
        "gauntlet".to_owned()
    }

    fn about(&self) -> String {
        format!("Gauntlet {}, model {}", env!("CARGO_PKG_VERSION"), self.model.version())
    }

    fn judge(&mut self, raw: &[u8]) -> anyhow::Result<Opinion> {
        self.learn();
        let message = Message::parse(raw);
        let (envelope, facts) = self.circumstances(&message);
        let verdict = scan(&message, &envelope, &facts, &self.snapshot, &mut self.scratch);
        let held = |least| verdict.class >= least && verdict.class != Class::Unscannable;
        let spam = held(Class::Spam);
        if let Some(ip) = envelope.client_ip {
            self.history.record(&[network_key(ip)], spam, envelope.received_at);
        }
        let score = verdict.probability.unwrap_or(0.0);
        Ok(Opinion { spam, suspect: held(Class::Suspect), score })
    }

    fn teach(&mut self, raw: &[u8], spam: bool) -> anyhow::Result<()> {
        let message = Message::parse(raw);
        let (envelope, facts) = self.circumstances(&message);
        let (message, envelope, facts) = (&message, &envelope, &facts);
        let at = envelope.received_at;
        let said = Said { message, envelope, facts, spam, reporter: 0, at };
        let correction = said.correction(&self.snapshot, &mut self.scratch);
        self.corrections.insert(message_id(raw), correction);
        self.news += 1;
        Ok(())
    }
}
