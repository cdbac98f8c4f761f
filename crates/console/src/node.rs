//! What the console may ask of the running node.

mod array;
mod channels;

use gauntlet_policy::Groups;
use gauntlet_policy::packets::PacketSettings;
use gauntlet_store::policies::{Edition, Version};
use gauntlet_store::quarantine::{AuditLine, ReleaseOrder, State};
use gauntlet_store::web_log::replay::{NoLists, UrlLookUp};
use gauntlet_verdict::{SiteCalibration, Thresholds};
use gauntlet_web::release::ReleaseRequest;
use serde::Serialize;

pub use self::array::{ArrayNode, ArrayView, HeldDecision, HeldOrder, QueueOrdered};
pub use self::channels::{
    ChangedVerdict, ChannelOrder, ChannelState, ChannelTrial, RejectedVersion,
};
use crate::release_answer::ReleaseOutcome;

/// The node refused or could not do what was asked of it. Its text is a sentence for the user who
/// asked, or for the log where the caller shows none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NodeError(String);

impl NodeError {
    /// A refusal with this reason, which the page shows.
    pub fn new(reason: impl std::fmt::Display) -> Self {
        NodeError(reason.to_string())
    }
}

/// A running node, as the console sees it. Every method may block and is called off the async
/// threads.
pub trait NodeHandle: Send + Sync {
    /// How the node is. Quick: it is called for every page of the overview.
    fn status(&self) -> NodeStatus;

    /// Its name.
    fn name(&self) -> String {
        self.status().name
    }

    /// What is wrong without keeping it from taking mail ([`NodeStatus::warnings`]). Quick.
    fn warnings(&self) -> Vec<String> {
        self.status().warnings
    }

    /// The node's metrics in Prometheus' text format, each with its `# HELP` and `# TYPE`.
    fn metrics(&self) -> String;

    /// Hands a held message to the queue, once: begins the release, spools it under the release's
    /// token, finishes.
    ///
    /// # Errors
    /// It could not be spooled; the message is then still held.
    fn release(&self, id: &str, order: &ReleaseOrder) -> Result<Released, NodeError>;

    /// Writes to somebody who asked for release of a web page, if the settings want it. A failure
    /// is logged: the decision stands.
    fn answer_release(&self, asked: &ReleaseRequest, outcome: ReleaseOutcome);

    /// Trains the classifier: a held message is spam, or is not, because the user `who` says so.
    ///
    /// # Errors
    /// The correction could not be written.
    fn learn(&self, id: &str, spam: bool, who: &str) -> Result<(), NodeError>;

    /// Applies the changed lists of senders ([`gauntlet_store::Users::listed_senders`]).
    ///
    /// # Errors
    /// The reload failed; the lists in use are then those from before.
    fn senders_changed(&self) -> Result<(), NodeError>;

    /// Applies the changed settings of single users ([`gauntlet_store::Users::people`]).
    ///
    /// # Errors
    /// The reload failed; the settings in use are then those from before.
    fn users_changed(&self) -> Result<(), NodeError>;

    /// The policy in force, as a version.
    ///
    /// # Errors
    /// The policy or the store of its versions could not be read.
    fn policy(&self) -> Result<Edition, NodeError>;

    /// Checks a policy, makes it the newest version and the one in force: messages judged from then
    /// on are decided by it.
    ///
    /// # Errors
    /// It is no policy, another version was saved meanwhile, or it is saved but not in use yet.
    fn save_policy(&self, order: &PolicyOrder<'_>) -> Result<Version, NodeError>;

    /// One file of a message, attached or found in another, by its SHA-256 (64 hexadecimal digits):
    /// an encrypted ZIP that this password opens.
    ///
    /// # Errors
    /// The message has no such file, or files are not opened here.
    fn sealed_object(&self, raw: &[u8], sha256: &str, password: &str)
    -> Result<Vec<u8>, NodeError>;

    /// Messages that wait for delivery or are on their way, oldest first.
    fn queue(&self, max: usize) -> Vec<QueuedMail>;

    /// Does something with messages of the queue; with none named, retrying means all that wait.
    /// Result: how many it concerned.
    ///
    /// # Errors
    /// An id is malformed, or a message could not be taken out.
    fn queue_order(&self, order: QueueOrder, ids: &[&str], who: &str) -> Result<usize, NodeError>;

    /// Points and probabilities from which classes begin.
    fn thresholds(&self) -> Thresholds;

    /// How the thresholds fit the site's own mail; none before anything was corrected.
    fn calibration(&self) -> Option<SiteCalibration>;

    /// The groups of addresses that the node knows beside those in the policy itself.
    fn groups(&self) -> Groups;

    /// Every rule that can hit, in the order of their names.
    fn rules(&self) -> Vec<RuleInfo>;

    /// The rules for packets that are in use, in the order in which they were read.
    fn packet_rules(&self) -> Vec<PacketRule> {
        Vec::new()
    }

    /// What decides about flows by their first packet; none if the node inspects no packets.
    fn packet_policy(&self) -> Option<PacketSettings> {
        None
    }

    /// Tries the rules on these messages (as received) and says what each costs. Takes as long as
    /// it takes; the caller bounds number and size.
    fn rule_costs(&self, messages: &[Vec<u8>]) -> Vec<RuleCost>;

    /// Every setting with its effective value and where it came from; secrets are left out.
    fn settings(&self) -> Vec<EffectiveSetting>;

    /// Checks what the node depends on now: clock, resolver, names, certificates, disk, queue. Asks
    /// the network; takes seconds at worst.
    fn health(&self) -> Vec<HealthCheck>;

    /// Where mail goes, in the order in which it is tried.
    fn mail_routes(&self) -> Vec<MailRoute>;

    /// The disks that data is on.
    fn disks(&self) -> Vec<Disk>;

    /// The array that the node belongs to; none if it is alone. Asks the array's database.
    fn array(&self) -> Option<ArrayView> {
        None
    }

    /// Has another node of the array decide about messages that it holds: items by node and id.
    /// Waits some seconds for the answers. The result has one order an item; one that is still open
    /// is done when the node takes it.
    ///
    /// # Errors
    /// There is no such node, or the array's database cannot be used.
    fn decide_elsewhere(
        &self,
        _: &[(String, String)],
        _: &HeldDecision<'_>,
    ) -> Result<Vec<HeldOrder>, NodeError> {
        Err(NodeError::new("this node is in no array"))
    }

    /// Has another node of the array do something with messages of its queue. Waits some seconds
    /// for the answer.
    ///
    /// # Errors
    /// There is no such node, or the array's database cannot be used.
    fn queue_order_elsewhere(
        &self,
        _node: &str,
        _: QueueOrder,
        _ids: &[&str],
        _who: &str,
    ) -> Result<QueueOrdered, NodeError> {
        Err(NodeError::new("this node is in no array"))
    }

    /// What was done on other nodes of the array, newest first, each line with the name of its
    /// node. Asks the array's database.
    fn activity_elsewhere(&self, _max: u32) -> Vec<(String, AuditLine)> {
        Vec::new()
    }

    /// The last orders about held mail of other nodes, newest first. Asks the array's database.
    fn held_orders(&self) -> Vec<HeldOrder> {
        Vec::new()
    }

    /// The channels that the node follows, in the order of its configuration.
    fn channels(&self) -> Vec<ChannelState> {
        Vec::new()
    }

    /// Does something with a version of a channel. The node follows within seconds. Result: what
    /// was done, in a sentence for the activity log.
    ///
    /// # Errors
    /// There is no such channel or version, or it cannot be done with this one.
    fn channel_order(&self, channel: &str, _: ChannelOrder<'_>) -> Result<String, NodeError> {
        Err(NodeError::new(format!("this node follows no channel {channel:?}")))
    }

    /// The lists of URLs that the policy may ask for, opened anew.
    ///
    /// # Errors
    /// One cannot be opened.
    fn url_lists(&self) -> Result<Box<dyn UrlLookUp>, NodeError> {
        Ok(Box::new(NoLists))
    }

    /// Sends a request to a web server; status and body of its answer. Takes seconds at worst.
    ///
    /// # Errors
    /// No connection, no valid certificate, or no answer in time.
    fn send_web_request(&self, request: &WebRequest) -> Result<(u16, String), NodeError>;
}

/// A request to a web server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebRequest {
    /// Address of the resource.
    pub url: String,
    /// Names and values of its header fields.
    pub headers: Vec<(String, String)>,
    /// Body of a POST; none makes it a GET.
    pub body: Option<String>,
}

/// A rule that can hit.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RuleInfo {
    /// Name of the rule.
    pub name: String,
    /// What it is: `body`, `header`, `meta`, ...; `filter` for one that is written in code.
    pub kind: String,
    /// Points that a hit adds.
    pub score: f64,
    /// What it finds, in one sentence.
    pub description: String,
}

/// A rule for packets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PacketRule {
    /// Generator, number and revision: `1:2019401:3`.
    pub rule: String,
    /// Its message.
    pub title: String,
    /// Its share of what all rules take, in millionths, if it was measured and is among the most
    /// costly.
    pub cost_ppm: Option<u64>,
}

/// What a rule cost over some messages.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RuleCost {
    /// Name of the rule.
    pub name: String,
    /// How often its pattern or function was tried.
    pub tries: u64,
    /// Nanoseconds of all tries together.
    pub cost_ns: u64,
}

/// A setting as it is in force, and where it came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EffectiveSetting {
    /// Section and name, with a dot: `scan.threads`.
    pub key: String,
    /// The value as TOML writes it.
    pub value: String,
    /// Where it came from: `default`, `gauntlet.toml:12`, `$GAUNTLET_SCAN__THREADS`.
    pub origin: String,
}

/// Result of one check of what the node depends on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HealthCheck {
    /// What was examined: `clock`, `resolver`, `disk`, ...
    pub check: String,
    /// `ok`, `warning` or `error`: the words of `gauntlet doctor` and of the API.
    pub status: &'static str,
    /// What was found and, unless the status is `ok`, what to do.
    pub text: String,
}

/// Next hop of some mail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MailRoute {
    /// Whose: domains and addresses, or a phrase for the rest.
    pub mail_for: String,
    /// The hosts with their shares, `maildir`, or the mail exchangers that the DNS names.
    pub goes_to: String,
    /// How TLS is used there.
    pub tls: String,
}

/// A disk that data is on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Disk {
    /// What it holds: `data`, `spool`.
    pub what: String,
    /// Path of the folder.
    pub path: String,
    /// Bytes free for the node.
    pub free: u64,
    /// Bytes of its file system.
    pub total: u64,
}

/// A policy that a user wants in force.
#[derive(Debug, Clone, Copy)]
pub struct PolicyOrder<'a> {
    /// TOML, as it was written.
    pub text: &'a str,
    /// The version that the user edited; if it is not the newest any more, nothing is changed.
    pub base: Option<i64>,
    /// Login of the user.
    pub who: &'a str,
    /// Reason, for the history.
    pub note: &'a str,
}

/// What can be done with a message that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueOrder {
    /// Try to deliver it now.
    Retry,
    /// Keep it waiting until it is retried.
    Hold,
    /// Delete it, without a report to its sender.
    Delete,
}

/// A message that waits for delivery.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct QueuedMail {
    /// Id of the message.
    pub id: String,
    /// When the next attempt is due, in Unix milliseconds; none if it is held or being delivered.
    pub due_ms: Option<i64>,
    /// It is being delivered.
    pub active: bool,
    /// Envelope sender; empty for bounces.
    pub from: String,
    /// Addresses that are still open; of another node's message the first.
    pub to: Vec<String>,
    /// How many more there are that are not in `to`.
    #[serde(skip_serializing_if = "is_zero")]
    pub more: u64,
    /// Size of the message in bytes.
    pub size: u64,
    /// Attempts of delivery so far.
    pub attempts: u32,
    /// What the next hop said last; empty before the first attempt.
    pub reply: String,
    /// The node of the array that it is on its way to; empty if it stays.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub leaving_to: String,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// How a node is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeStatus {
    /// Host name of the node.
    pub name: String,
    /// Version of the program.
    pub version: String,
    /// Version of ruleset, model and lists.
    pub ruleset: String,
    /// Unix time in milliseconds of its start.
    pub started_ms: i64,
    /// What keeps it from taking mail; empty when it is ready.
    pub problems: Vec<String>,
    /// What an administrator should decide, and how; the node takes mail meanwhile.
    pub questions: Vec<String>,
    /// What is wrong and does not keep it from taking mail: its array's database, object store or
    /// versions.
    pub warnings: Vec<String>,
    /// Messages waiting for delivery.
    pub queued: u64,
    /// Age of the oldest of them in milliseconds; 0 when there is none.
    pub queue_age_ms: u64,
    /// Open SMTP and LMTP sessions.
    pub sessions: u64,
    /// Listeners, next hop and folders by name: `SMTP` and `127.0.0.1:2525`, `Maildir` and a path,
    /// ...
    pub locations: Vec<(String, String)>,
}

/// What became of a request to release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Released {
    /// It is in the queue, for these addresses.
    Done(Vec<String>),
    /// Another node holds it, and releases it when it takes this order.
    Ordered(Box<HeldOrder>),
    /// It was not held any more; its state says why.
    NotHeld(State),
    /// Who asked may not release it.
    NotAllowed,
    /// There is no such message in the quarantine, or it is forgotten.
    Unknown,
}
