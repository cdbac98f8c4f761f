//! Alerts of one packet: gathered, put in order, limited, and what they do to packet and flow.

use super::threshold::{Occasion, RuleId, Said, Thresholds};
use super::{FlowActions, FlowState, Program};
use crate::rule::{Action, RejectTo, Rule, RuleKind, Scope};

/// A rule that matched a packet.
#[derive(Debug, Clone)]
pub struct Alert {
    /// Its place in [`crate::rule::RuleSet::rules`].
    pub rule: u32,
    /// What happens; a rate filter may have replaced the rule's action.
    pub action: Action,
    /// The transaction that matched, by its id, or the next one to be inspected.
    pub transaction: Option<u64>,
    /// EVE names the transaction.
    pub names_transaction: bool,
    /// It matched on a transaction.
    pub(crate) of_state: bool,
    /// It matched on the reassembled stream.
    pub(crate) of_stream: bool,
    /// A rate filter replaced the action.
    pub is_rate_filtered: bool,
}

impl Alert {
    /// It matched on the reassembled stream or a transaction, not on the packet's payload.
    pub fn is_of_stream(&self) -> bool {
        self.of_state || self.of_stream
    }
}

/// What came of a packet's alerts.
#[derive(Debug, Clone, Default)]
pub struct Verdict {
    /// Those that are logged, in order.
    pub alerts: Vec<Alert>,
    /// The packet is dropped by a rule: the first that says so.
    pub dropped_by: Option<u32>,
    /// A rule that dropped it asks for an error message to be sent, to these sides.
    pub reject: Option<RejectTo>,
    /// An earlier alert asks for the packet to be logged (`tag`).
    pub tagged: bool,
    /// A rule that passes ended the list.
    pub passes: bool,
    /// Matches beyond `packet-alert-max`.
    pub discarded: u32,
    /// Matches that limits or `noalert` kept from being logged.
    pub suppressed: u32,
}

impl Verdict {
    /// Why a packet is dropped that a rule drops, as EVE names it.
    pub fn drop_reason(&self) -> &'static str {
        let by = |alert: &&Alert| Some(alert.rule) == self.dropped_by;
        match self.alerts.iter().find(by) {
            Some(alert) if alert.is_rate_filtered => "threshold detection_filter",
            _ => "rules",
        }
    }
}

/// Where an alert's packet came from.
pub(crate) struct Origin<'a> {
    pub(crate) occasion: Occasion,
    pub(crate) is_ip: bool,
    pub(crate) flow: Option<&'a mut FlowState>,
    /// The packet is dropped already (by the stream engine).
    pub(crate) is_dropped: bool,
}

/// Sorts the matches of a packet in the order of evaluation, applies limits and actions.
pub(crate) fn finalize(
    program: &Program,
    thresholds: &mut Thresholds,
    mut queue: Vec<Alert>,
    mut origin: Origin<'_>,
) -> Verdict {
    if queue.is_empty() {
        return Verdict::default();
    }
    queue.sort_by(|a, b| a.rule.cmp(&b.rule).then_with(|| later_first(a, b)));
    let mut verdict = Verdict::default();
    let mut is_dropped = origin.is_dropped;
    for mut alert in queue {
        let Some(rule) = program.rules.rules.get(alert.rule as usize) else { continue };
        let said = limit(program, thresholds, rule, &mut alert, &mut origin);
        if said != Said::Nothing {
            let is_pass = alert.action == Action::Pass;
            if !(is_dropped && is_pass) {
                let to_flow = applies_to_flow(rule, &alert);
                is_dropped |= apply(&mut verdict, &alert, to_flow, origin.flow.as_deref_mut());
            }
        }
        // `noalert` takes the alert from the rule's actions, and leaves the others.
        let is_logged = !rule.no_alert && !matches!(rule.action, Action::Config);
        if said != Said::Alert || (!is_logged && rule.action != Action::Pass) {
            verdict.suppressed += 1;
        } else if verdict.alerts.len() < program.settings.packet_alert_max {
            // A rule that passes ends the list, and is logged only if it says `alert`.
            let ends = alert.action == Action::Pass;
            if !ends || (is_logged && rule.action == Action::Pass) {
                verdict.alerts.push(alert);
            }
            if ends {
                verdict.passes = true;
                break;
            }
        } else {
            verdict.discarded += 1;
        }
    }
    verdict
}

/// Of one rule, alerts without a transaction come last, and later transactions first.
fn later_first(a: &Alert, b: &Alert) -> std::cmp::Ordering {
    match (a.transaction, b.transaction) {
        (Some(a), Some(b)) => b.cmp(&a),
        (a, b) => a.is_none().cmp(&b.is_none()),
    }
}

fn limit(
    program: &Program,
    thresholds: &mut Thresholds,
    rule: &Rule,
    alert: &mut Alert,
    origin: &mut Origin<'_>,
) -> Said {
    if !origin.is_ip {
        return Said::Alert;
    }
    let limits = program.limits(alert.rule);
    for suppress in &limits.suppress {
        if suppress.covers(origin.occasion.source, origin.occasion.destination) {
            return Said::Silent;
        }
    }
    let id = RuleId { gid: rule.gid, sid: rule.sid, rev: rule.rev };
    for limit in &limits.thresholds {
        let of_flow = origin.flow.as_deref_mut().map(FlowState::thresholds);
        let (said, replaced) =
            thresholds.check(limit, id, &origin.occasion, of_flow, &mut alert.action);
        alert.is_rate_filtered |= replaced;
        if said != Said::Alert {
            return said;
        }
    }
    Said::Alert
}

/// Whether the action is for the rest of the flow.
fn applies_to_flow(rule: &Rule, alert: &Alert) -> bool {
    match rule.scope {
        Scope::Flow => true,
        Scope::Packet => false,
        Scope::Automatic => match rule.kind {
            RuleKind::IpOnly
            | RuleKind::LikeIpOnly
            | RuleKind::ProtocolDetectionOnly
            | RuleKind::AppLayer
            | RuleKind::Transaction => true,
            RuleKind::PacketStream | RuleKind::Stream => alert.of_state || alert.of_stream,
            RuleKind::DecodeEventOnly | RuleKind::Packet => false,
        },
    }
}

/// Carries the action out; whether the packet is dropped.
fn apply(
    verdict: &mut Verdict,
    alert: &Alert,
    to_flow: bool,
    flow: Option<&mut FlowState>,
) -> bool {
    let drops = matches!(alert.action, Action::Drop | Action::Reject(_));
    if drops {
        verdict.dropped_by.get_or_insert(alert.rule);
        if let Action::Reject(to) = alert.action {
            verdict.reject.get_or_insert(to);
        }
    }
    // The first to set it wins.
    if let (true, Some(flow)) = (to_flow, flow)
        && flow.action == FlowActions::None
    {
        if drops {
            flow.action = FlowActions::Drop;
        } else if alert.action == Action::Pass {
            flow.action = FlowActions::Pass;
        }
    }
    drops
}
