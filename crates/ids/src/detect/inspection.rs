//! All stages of detection on one packet.

use gauntlet_packet::{Direction, Transport};
use gauntlet_protocols::Conversation;

use super::alert::{self, Alert, Origin, Verdict};
use super::flow_state::FlowState;
use super::packet::Facts;
use super::profile::Profile;
use super::program::Program;
use super::rules::{self, Scene};
use super::threshold::Occasion;
use super::{Detector, frames, tags, transaction};

/// What detection keeps of a packet's flow.
pub struct InFlow<'a> {
    /// Bits, numbers, what becomes of the rest.
    pub state: &'a mut FlowState,
    /// The application layer.
    pub conversation: Option<&'a mut Conversation>,
}

/// What rules say of a packet.
pub fn inspect(
    program: &Program,
    detector: &mut Detector,
    facts: &Facts<'_>,
    flow: Option<InFlow<'_>>,
) -> Verdict {
    let mut queue = Vec::new();
    let (mut state, mut conversation) = (None, None);
    if let Some(flow) = flow {
        state = Some(flow.state);
        conversation = flow.conversation;
    }
    let mut profile = detector.profile.as_deref_mut().and_then(Profile::next);
    let begun = profile.as_ref().map(|profile| profile.now());
    let mut scene = Scene {
        facts,
        inspector: &mut detector.inspector,
        search: &mut detector.search,
        groups: &mut detector.groups,
        host_bits: &mut detector.host_bits,
        datasets: &mut detector.datasets,
        reputations: &detector.reputations,
        flow: state,
        dce: None,
        profile: profile.as_deref_mut(),
    };
    let mut of_transactions = Vec::new();
    if !program.rules.rules.is_empty() {
        rules::inspect_addresses(program, &mut scene, &mut queue);
        let has_events = conversation.as_deref().is_some_and(has_events);
        of_transactions = rules::inspect_packet(program, &mut scene, has_events, &mut queue);
    }
    if let (Some(conversation), Some(direction)) = (conversation, facts.direction) {
        let state = scene.flow.as_deref_mut();
        name_transactions(program, facts, direction, conversation, state, &mut queue);
        frames::inspect(program, &mut scene, conversation, &mut queue);
        if may_inspect(facts) {
            transaction::inspect(program, &mut scene, conversation, &of_transactions, &mut queue);
        }
    }
    let (source, destination) = facts.addresses();
    let origin = Origin {
        occasion: Occasion { time: facts.time(), source, destination },
        is_ip: facts.packet.ip.is_some(),
        flow: scene.flow.as_deref_mut(),
        is_dropped: facts.is_dropped,
    };
    let mut verdict = alert::finalize(program, &mut detector.thresholds, queue, origin);
    let (packet, flow) = (facts.packet, scene.flow);
    if !facts.is_made {
        verdict.tagged = tags::handle(program, &verdict, packet, flow, &mut detector.tags);
    }
    if let (Some(profile), Some(begun)) = (profile, begun) {
        profile.inspected(begun, verdict.alerts.len());
    }
    verdict
}

/// Whether transactions are looked at with this packet.
fn may_inspect(facts: &Facts<'_>) -> bool {
    match &facts.packet.transport {
        Transport::Tcp(_) => facts.in_session && (facts.is_made || facts.updated),
        Transport::Icmp(_) => false,
        _ => true,
    }
}

fn has_events(conversation: &Conversation) -> bool {
    (0..conversation.count())
        .filter_map(|place| conversation.state(place))
        .any(|state| !state.events.is_empty())
}

/// Alerts of packets get the id of the transaction that is looked at next; EVE names it if it can
/// be no other.
fn name_transactions(
    program: &Program,
    facts: &Facts<'_>,
    direction: Direction,
    conversation: &Conversation,
    flow: Option<&mut FlowState>,
    queue: &mut [Alert],
) {
    if queue.is_empty() {
        return;
    }
    let side = direction.index();
    let states = (0..conversation.count()).filter_map(|place| conversation.state(place));
    let mut open = states.filter(|state| !state.inspected.get(side).copied().unwrap_or_default());
    let Some(id) = open.next().map(|state| state.id) else { return };
    let skips =
        |state: &gauntlet_protocols::State| state.skip.get(side).copied().unwrap_or_default();
    let is_only = open.next().is_none_or(skips) && open.next().is_none();
    let is_udp = matches!(facts.packet.transport, Transport::Udp(_));
    let Some(named) = flow.map(FlowState::named) else { return };
    for alert in queue {
        alert.transaction = Some(id);
        let has_protocol = program
            .rules
            .rules
            .get(alert.rule as usize)
            .is_some_and(|r| !r.app_protocols.is_empty());
        if !((has_protocol && is_udp) || (program.settings.guess_transaction && is_only)) {
            continue;
        }
        if !named.iter().any(|(other, _)| *other == id) {
            named.retain(|(other, _)| *other + NAMED_BEHIND_MAX > id);
            named.push((id, 0));
        }
        if let Some((_, count)) = named.iter_mut().find(|(other, _)| *other == id)
            && *count < program.settings.guess_max
        {
            alert.names_transaction = true;
            *count += 1;
        }
    }
}

/// Transactions so far behind are not named any more.
const NAMED_BEHIND_MAX: u64 = 64;

/// Nothing is looked at: transactions of this direction count as inspected.
pub fn skip(conversation: &mut Conversation, direction: Direction) {
    let complete = conversation.complete(direction);
    for place in 0..conversation.count() {
        if let Some(state) = conversation.state_mut(place)
            && state.progress(direction) >= complete
            && let Some(inspected) = state.inspected.get_mut(direction.index())
        {
            *inspected = true;
        }
    }
}
