//! The running node as the console sees it.

use std::sync::Arc;

use gauntlet_console::release_answer::{self, ReleaseOutcome};
use gauntlet_console::{
    ArrayView, ChannelOrder, ChannelState, Disk, EffectiveSetting, HealthCheck, HeldDecision,
    HeldOrder, MailRoute, NodeError, NodeHandle, NodeStatus, PacketRule, PolicyOrder, QueueOrder,
    QueueOrdered, QueuedMail, Released, RuleCost, RuleInfo, WebRequest,
};
use gauntlet_gateway::admin::policy_source;
use gauntlet_gateway::config::Config;
use gauntlet_gateway::secrets::Secrets;
use gauntlet_gateway::{Node, Release, control, ids};
use gauntlet_policy::Groups;
use gauntlet_policy::packets::PacketSettings;
use gauntlet_store::Policies;
use gauntlet_store::policies::{Edition, Version};
use gauntlet_store::quarantine::{AuditLine, ReleaseOrder};
use gauntlet_store::web_log::replay::UrlLookUp;
use gauntlet_verdict::{SiteCalibration, Thresholds};
use gauntlet_web::release::ReleaseRequest;

use super::node_state::{self, EffectiveSettings};
use super::now_ms;
use super::packets::Packets;
use crate::array::member::Membership;
use crate::array::{held, queue_orders};
use crate::channel::overview;
use crate::digest;
use crate::doctor::{Confinement, Running};
use crate::web::ListLookUp;

/// The node, its policies and its settings.
pub(super) struct Handle {
    pub(super) node: Arc<Node>,
    pub(super) policies: Arc<Policies>,
    pub(super) settings: EffectiveSettings,
    pub(super) secrets: Arc<Secrets>,
    /// How the processes are confined.
    pub(super) sandbox: Confinement,
    /// Packets, if the configuration wants them inspected.
    pub(super) packets: Option<Arc<Packets>>,
    /// Its membership in an array.
    pub(super) array: Option<Arc<Membership>>,
}

impl NodeHandle for Handle {
    fn status(&self) -> NodeStatus {
        let node = &self.node;
        NodeStatus {
            name: node.config().node.host_name(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ruleset: node.ruleset(),
            started_ms: node.started_ms(),
            problems: node.problems(),
            questions: node.questions(),
            warnings: self.warnings(),
            queued: node.queue.count(),
            queue_age_ms: node.queue_age_ms(),
            sessions: node.sessions(),
            locations: locations(node),
        }
    }

    fn warnings(&self) -> Vec<String> {
        self.array.as_ref().and_then(|array| array.problem()).into_iter().collect()
    }

    fn metrics(&self) -> String {
        let mut text = self.node.render_metrics();
        text.push_str(&node_state::disk_metrics(&self.node.config()));
        text
    }

    fn array(&self) -> Option<ArrayView> {
        self.array.as_ref().map(|array| array.view())
    }

    fn name(&self) -> String {
        self.node.config().node.host_name()
    }

    fn decide_elsewhere(
        &self,
        items: &[(String, String)],
        decision: &HeldDecision<'_>,
    ) -> Result<Vec<HeldOrder>, NodeError> {
        let alone = || NodeError::new("this node is in no array");
        held::decide(self.array.as_ref().ok_or_else(alone)?, items, decision)
    }

    fn queue_order_elsewhere(
        &self,
        node: &str,
        order: QueueOrder,
        ids: &[&str],
        who: &str,
    ) -> Result<QueueOrdered, NodeError> {
        let alone = || NodeError::new("this node is in no array");
        queue_orders::give(self.array.as_ref().ok_or_else(alone)?, node, order, ids, who)
    }

    fn activity_elsewhere(&self, max: u32) -> Vec<(String, AuditLine)> {
        let own = self.node.config().node.host_name();
        self.array.as_ref().map(|array| array.activity(&own, max)).unwrap_or_default()
    }

    fn held_orders(&self) -> Vec<HeldOrder> {
        self.array.as_ref().map(|array| held::orders(array)).unwrap_or_default()
    }

    fn channels(&self) -> Vec<ChannelState> {
        overview::states(&self.node.config())
    }

    fn channel_order(&self, channel: &str, order: ChannelOrder<'_>) -> Result<String, NodeError> {
        overview::order(&self.node.config(), channel, order)
    }

    fn packet_rules(&self) -> Vec<PacketRule> {
        self.packets.as_ref().map(|packets| packets.rules()).unwrap_or_default()
    }

    fn packet_policy(&self) -> Option<PacketSettings> {
        self.packets.as_ref().map(|_| self.node.config().ips.packet_settings())
    }

    fn senders_changed(&self) -> Result<(), NodeError> {
        // Rules are read again too: a second at most, and no session notices.
        self.node.reload(Config::clone(&self.node.config())).map_err(|e| with_causes(&e))
    }

    fn release(&self, id: &str, order: &ReleaseOrder) -> Result<Released, NodeError> {
        Ok(match self.node.release(id, order).map_err(NodeError::new)? {
            Release::Done(addresses) => Released::Done(addresses),
            Release::NotHeld(state) => Released::NotHeld(state),
            Release::NotAllowed => Released::NotAllowed,
            Release::Unknown => Released::Unknown,
        })
    }

    fn answer_release(&self, asked: &ReleaseRequest, outcome: ReleaseOutcome) {
        let config = self.node.config();
        if !config.web.answer_requests {
            return;
        }
        let sent = digest::options(&config).and_then(|options| {
            let (from, texts) = (&options.from, &options.texts);
            match release_answer::mail(asked, outcome, from, now_ms(), texts) {
                Some(raw) => Ok(self.node.send_own(&asked.mail, raw.into_bytes()).map(drop)?),
                None => Ok(()),
            }
        });
        if let Err(error) = sent {
            let (reference, error) = (&asked.reference, format!("{error:#}"));
            tracing::error!(reference, error, "who asked for release could not be answered");
        }
    }

    fn users_changed(&self) -> Result<(), NodeError> {
        self.node.reload_policy().map_err(|e| with_causes(&e))
    }

    fn policy(&self) -> Result<Edition, NodeError> {
        let now = now_ms();
        policy_source::note(&self.node.config(), &self.policies, now).map_err(|e| with_causes(&e))
    }

    fn save_policy(&self, order: &PolicyOrder<'_>) -> Result<Version, NodeError> {
        let PolicyOrder { text, base, who, note } = *order;
        if let Some(array) = &self.array {
            // All nodes get it, this one too; what no policy of this node can be is not published.
            let config = self.node.config();
            policy_source::check(&config, &self.policies, text, base)
                .and_then(|()| array.publish_policy(text, who, note).map(drop))
                .map_err(|e| with_causes(&e))?;
        }
        let wanted = policy_source::Wanted { text, base, who, note, now_ms: now_ms() };
        let saved = policy_source::save(&self.node.config(), &self.policies, &wanted);
        let version = saved.map_err(|e| with_causes(&e))?;
        let kept = |e| {
            NodeError::new(format!("Version {} is kept, but not in use yet: {e:#}", version.number))
        };
        self.node.reload_policy().map_err(kept)?;
        Ok(version)
    }

    fn queue(&self, max: usize) -> Vec<QueuedMail> {
        let listed = control::list(&self.node, max);
        let waiting = listed.into_iter().map(|w| QueuedMail {
            id: w.id,
            due_ms: w.due_ms,
            active: w.active,
            from: w.from,
            to: w.to,
            more: 0,
            size: w.size,
            attempts: w.attempts,
            reply: w.reply,
            leaving_to: w.leaving_to,
        });
        waiting.collect()
    }

    fn queue_order(&self, order: QueueOrder, ids: &[&str], who: &str) -> Result<usize, NodeError> {
        let queue = &self.node.queue;
        let parse = |id: &&str| {
            ids::parse(id).ok_or_else(|| NodeError::new(format!("{id:?} is no message id")))
        };
        let ids = ids.iter().map(parse).collect::<Result<Vec<u64>, NodeError>>()?;
        queue.check_here(&ids).map_err(NodeError::new)?;
        match order {
            QueueOrder::Retry => Ok(queue.retry(&ids)),
            QueueOrder::Hold => Ok(queue.hold(&ids)),
            QueueOrder::Delete => {
                ids.iter().try_for_each(|id| queue.delete(*id, who)).map_err(NodeError::new)?;
                Ok(ids.len())
            }
        }
    }

    fn thresholds(&self) -> Thresholds {
        self.node.judge().snapshot.thresholds
    }

    fn calibration(&self) -> Option<SiteCalibration> {
        self.node.judge().snapshot.calibration()
    }

    fn url_lists(&self) -> Result<Box<dyn UrlLookUp>, NodeError> {
        let lists = self.node.judge().snapshot.url_lists.clone();
        let addresses = self.node.config().proxy.listed_addresses;
        Ok(Box::new(ListLookUp { lists, addresses }))
    }

    fn send_web_request(&self, request: &WebRequest) -> Result<(u16, String), NodeError> {
        node_state::send_web_request(&self.node.config(), request).map_err(|e| with_causes(&e))
    }

    fn sealed_object(
        &self,
        raw: &[u8],
        sha256: &str,
        password: &str,
    ) -> Result<Vec<u8>, NodeError> {
        let judge = self.node.judge();
        let unpacking = judge.unpacking.as_ref();
        let unpacking = unpacking.ok_or_else(|| NodeError::new("content.enabled is false"))?;
        let found = unpacking.object(&gauntlet_mail::Message::parse(raw), sha256);
        let (name, bytes) = found.ok_or_else(|| NodeError::new("the message has no such file"))?;
        let last = name.rsplit(['/', '\\']).next().filter(|last| !last.is_empty());
        let name = last.unwrap_or("unnamed");
        gauntlet_content::sealed::seal(name, &bytes, password).map_err(NodeError::new)
    }

    fn groups(&self) -> Groups {
        self.node.judge().policy.groups.clone()
    }

    fn rules(&self) -> Vec<RuleInfo> {
        node_state::rules(&self.node.judge().snapshot)
    }

    fn rule_costs(&self, messages: &[Vec<u8>]) -> Vec<RuleCost> {
        node_state::rule_costs(&self.node.judge().snapshot, messages)
    }

    fn settings(&self) -> Vec<EffectiveSetting> {
        self.settings.list()
    }

    fn health(&self) -> Vec<HealthCheck> {
        let running = Running { secrets: &self.secrets, sandbox: &self.sandbox };
        node_state::health(&self.node.config(), running)
    }

    fn mail_routes(&self) -> Vec<MailRoute> {
        node_state::mail_routes(&self.node.config())
    }

    fn disks(&self) -> Vec<Disk> {
        node_state::disks(&self.node.config())
    }

    fn learn(&self, id: &str, spam: bool, who: &str) -> Result<(), NodeError> {
        self.node.correct(id, spam, who).map_err(NodeError::new)
    }
}

/// An error with all its causes on one line.
fn with_causes(error: &anyhow::Error) -> NodeError {
    NodeError::new(format!("{error:#}"))
}

/// Listeners, next hop and folders as (name, address or path), for the overview and the log.
pub(super) fn locations(node: &Node) -> Vec<(String, String)> {
    let config = node.config();
    let mut locations: Vec<(String, String)> = Vec::new();
    for (role, address) in node.addresses() {
        locations.push((format!("SMTP, {role:?}").to_lowercase(), address.to_string()));
    }
    for (protocol, place) in node.services() {
        locations.push((protocol.name().to_owned(), place.clone()));
    }
    // The routes of `[[next_hop]]` are the first.
    for route in node_state::mail_routes(&config).iter().take(config.next_hop.len()) {
        locations.push(("next hop".into(), format!("{}: {}", route.mail_for, route.goes_to)));
    }
    if node_state::without_next_hop(&config).is_some() {
        locations.push(match config.route.next_hop.as_str() {
            "" => ("maildir".into(), node.maildir().display().to_string()),
            next_hop => ("next hop".into(), next_hop.to_owned()),
        });
    }
    locations.push(("data".into(), config.node.data.display().to_string()));
    locations
}
