//! What the array asks of the running node, and what it orders.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gauntlet_array::LocalNode;
use gauntlet_array::activity::{ActivityLog, NumberedLine};
use gauntlet_array::editions::Edition;
use gauntlet_array::nodes::Status;
use gauntlet_array::orders::{Order, Outcome};
use gauntlet_array::transfers::Departing;
use gauntlet_gateway::admin::policy_source::{self, Wanted};
use gauntlet_gateway::clock::now_ms;
use gauntlet_gateway::config::{Config, SharedSettings};
use gauntlet_gateway::outbound::queue::{Arrival, Bundle};
use gauntlet_gateway::{Node, Release, ids};
use gauntlet_store::quarantine::{Deletion, ReleaseOrder, ReleaseRight, State};
use gauntlet_store::{Policies, Users};

use super::{queue, upgrade};
use crate::node_args::NodeArgs;
use crate::shared_settings;

/// The node, as the array asks of it.
pub(super) struct RunningNode {
    pub(super) node: Arc<Node>,
    /// Where its configuration is.
    pub(super) args: NodeArgs,
    pub(super) policies: Arc<Policies>,
    pub(super) users: Arc<Users>,
    /// [`LocalNode::knows_held`].
    pub(super) knows_held: Arc<AtomicBool>,
}

impl LocalNode for RunningNode {
    fn knows_held(&self) -> bool {
        self.knows_held.load(Ordering::Acquire)
    }

    fn status(&self) -> Status {
        Status {
            program: env!("CARGO_PKG_VERSION").to_owned(),
            started_ms: self.node.started_ms(),
            queued: self.node.queue.count(),
            sessions: self.node.sessions(),
            draining: self.node.draining_since_ms().is_some(),
            waiting: queue::waiting(&self.node),
            ..Status::default()
        }
    }

    fn apply_policy(&self, edition: &Edition) -> Result<(), String> {
        let note = format!("edition {} of the array: {}", edition.number, edition.note);
        let wanted = Wanted {
            text: &edition.body,
            base: None,
            who: &edition.who,
            note: note.trim_end_matches([':', ' ']),
            now_ms: now_ms(),
        };
        let config: Arc<Config> = self.node.config();
        let applied = policy_source::save(&config, &self.policies, &wanted)
            .and_then(|_version| self.node.reload_policy());
        applied.map_err(|error| format!("{error:#}"))
    }

    fn settings(&self) -> i64 {
        shared_settings::kept(&self.node.config()).map_or(0, |kept| kept.number)
    }

    fn apply_settings(&self, edition: Option<&Edition>) -> Result<(), String> {
        let shared = edition
            .map(|edition| SharedSettings { number: edition.number, text: edition.body.clone() });
        let config = self.node.config();
        let applied = || {
            if let Some(shared) = &shared {
                self.node.reload(self.args.loaded_over(shared)?.config)?;
            }
            shared_settings::keep(&config, shared.as_ref())
        };
        applied().map_err(|error| format!("{error:#}"))?;
        // What else goes by the configuration follows, as at any reload.
        reload().map(drop)
    }

    fn queued(&self) -> Vec<String> {
        self.node.queue.list(usize::MAX).into_iter().map(|entry| entry.id).collect()
    }

    fn leaving(&self) -> Vec<(String, String)> {
        let leaving = self.node.queue.leaving().into_iter();
        leaving.map(|(id, to)| (ids::to_text(id), to)).collect()
    }

    fn keep(&self, id: u64) {
        self.node.queue.keep(id);
    }

    fn leave(&self, id: &str, to: &str) -> Result<Departing, String> {
        let number = ids::parse(id).ok_or_else(|| format!("{id:?} is no message id"))?;
        let bundle = self.node.queue.leave(number, to).map_err(|error| error.to_string())?;
        Ok(Departing { id: number, token: bundle.token().to_text(), body: bundle.encode() })
    }

    fn take_in(&self, bodies: Vec<Vec<u8>>) -> Vec<Option<String>> {
        let mut answers: Vec<Option<Arrival>> = Vec::with_capacity(bodies.len());
        let mut bundles = Vec::new();
        for body in bodies {
            match Bundle::decode(&body) {
                Ok(bundle) => {
                    bundles.push(bundle);
                    answers.push(None);
                }
                Err(error) => answers.push(Some(Arrival::Refused { why: error.to_string() })),
            }
        }
        let mut taken = self.node.queue.take_in(bundles).into_iter();
        let one = |answer: Option<Arrival>| match answer.or_else(|| taken.next())? {
            // It may be handed over again: the row waits.
            Arrival::Later { .. } => None,
            answer => serde_json::to_string(&answer).ok(),
        };
        answers.into_iter().map(one).collect()
    }

    fn left(&self, answers: &[(u64, String)]) {
        for (id, answer) in answers {
            match serde_json::from_str::<Arrival>(answer) {
                Ok(arrival) => {
                    self.node.queue.left(*id, &arrival);
                    if let Arrival::Refused { why } = arrival {
                        let id = ids::to_text(*id);
                        tracing::warn!(id, why, "another node refused a message");
                    }
                }
                Err(error) => {
                    tracing::error!(%error, answer, "an answer of another node is not understood");
                }
            }
        }
        self.node.queue.sync();
    }

    fn upgrade(&self, order: i64, seconds: u64) -> Option<Outcome> {
        upgrade::step(&self.node, order, seconds)
            .unwrap_or_else(|error| Some(Outcome { is_good: false, text: format!("{error:#}") }))
    }

    fn activity(
        &self,
        log: ActivityLog,
        after: i64,
        max: u64,
    ) -> Result<Vec<NumberedLine>, String> {
        let lines = match log {
            ActivityLog::Users => self.users.audit_after(after, max),
            ActivityLog::Held => self.node.quarantine.audit_after(after, max),
        };
        lines.map_err(|error| error.to_string())
    }

    fn carry_out(&self, order: Order, who: &str) -> Outcome {
        let done = match order {
            Order::Release { item, to, learn, addresses } => {
                let right = addresses.map_or(ReleaseRight::Admin, ReleaseRight::Recipient);
                self.release(&item, &ReleaseOrder { who: who.to_owned(), right, to, learn })
            }
            Order::Delete { item } => self.delete(&item, who),
            Order::Learn { item, spam } => match self.node.correct(&item, spam, who) {
                Ok(()) => Ok("learned".to_owned()),
                Err(error) => Err(error.to_string()),
            },
            Order::Retry { ids } => queue::retry(&self.node, &ids),
            Order::Hold { ids } => queue::hold(&self.node, &ids),
            Order::Discard { ids } => queue::discard(&self.node, &ids, who),
            Order::Reload => reload(),
            Order::Move { .. } | Order::Upgrade { .. } => {
                Err("the member of the array does it".to_owned())
            }
            Order::Drain => match self.node.drain() {
                Ok(true) => Ok("it takes no new mail, and finishes its queue".to_owned()),
                Ok(false) => Ok("it was drained before".to_owned()),
                Err(error) => Err(error.to_string()),
            },
            Order::Undrain => match self.node.undo_drain() {
                Ok(true) => Ok("it takes mail again".to_owned()),
                Ok(false) => Ok("it took mail".to_owned()),
                Err(error) => Err(error.to_string()),
            },
        };
        match done {
            Ok(text) => Outcome { is_good: true, text },
            Err(text) => Outcome { is_good: false, text },
        }
    }
}

impl RunningNode {
    fn release(&self, item: &str, order: &ReleaseOrder) -> Result<String, String> {
        match self.node.release(item, order).map_err(|error| error.to_string())? {
            Release::Done(addresses) => Ok(format!("released to {}", addresses.join(", "))),
            // An order that is carried out a second time.
            Release::NotHeld(State::Released | State::Releasing) => {
                Ok("it was released before".to_owned())
            }
            Release::NotHeld(state) => Err(format!("it is {} already", state.name())),
            Release::NotAllowed => Err("it may not be released".to_owned()),
            Release::Unknown => Err(self.unknown(item)),
        }
    }

    fn delete(&self, item: &str, who: &str) -> Result<String, String> {
        let now = now_ms();
        let held = self.node.quarantine.get(item).map_err(|error| error.to_string())?;
        match self.node.quarantine.delete(item, who, now).map_err(|error| error.to_string())? {
            Deletion::Done => {
                if let Some(held) = held {
                    let deleted = vec![held.item.deleted(who, now)];
                    self.node.log.append_or_tell(Vec::new(), deleted);
                }
                Ok("deleted".to_owned())
            }
            Deletion::NotHeld(State::Deleted) => Ok("it was deleted before".to_owned()),
            Deletion::NotHeld(state) => Err(format!("it is {} already", state.name())),
            Deletion::Unknown => Err(self.unknown(item)),
        }
    }

    /// Says that the item is not held here.
    fn unknown(&self, item: &str) -> String {
        let name = self.node.config().node.host_name();
        format!("{name} holds nothing as {item}; `gauntlet quarantine list --array` says who does")
    }
}

/// Reads the configuration again, as a hang-up signal does.
fn reload() -> Result<String, String> {
    let own = rustix::process::getpid();
    rustix::process::kill_process(own, rustix::process::Signal::HUP)
        .map_err(|error| error.to_string())?;
    Ok("the configuration is read again; the node's log says with what result".to_owned())
}
