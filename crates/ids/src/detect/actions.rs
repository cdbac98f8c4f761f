//! What rules do to a transaction that they matched: its files are kept, its record is not written.

use gauntlet_packet::Direction;
use gauntlet_protocols::Conversation;

use super::flow_state::FlowState;
use super::program::Program;
use crate::rule::matches::{ConfigAction, FileScope, Match};

/// The most rules that a file remembers to be kept for.
const RULES_MAX: usize = 64;

/// Does what the rules of these numbers say of the transaction at this place.
pub(crate) fn carry_out(
    program: &Program,
    matched: &[u32],
    conversation: &mut Conversation,
    (place, direction): (usize, Direction),
    flow: Option<&mut FlowState>,
) {
    if matched.is_empty() {
        return;
    }
    let Some(state) = conversation.state_mut(place) else { return };
    let mut of_flow = [false; 2];
    for number in matched {
        let Some(rule) = program.rules.rules.get(*number as usize) else { continue };
        for action in &rule.post {
            match action {
                Match::Config(ConfigAction::NoTransactionLog) => state.logged = true,
                Match::FileStore { scope: FileScope::File, .. } => {
                    let files = state.files.get_mut(direction.index());
                    for file in files.into_iter().flatten() {
                        file.store = true;
                        if file.stored_for.len() < RULES_MAX {
                            file.stored_for.push(rule.sid);
                        }
                    }
                }
                Match::FileStore { scope, direction: wanted, both } => {
                    let wanted = wanted.filter(|_| !both).map(Direction::from);
                    let sides = match scope {
                        FileScope::Flow => &mut of_flow,
                        _ => &mut state.stores,
                    };
                    for (way, stores) in
                        [Direction::ToServer, Direction::ToClient].into_iter().zip(sides)
                    {
                        *stores |= wanted.is_none_or(|wanted| wanted == way);
                    }
                }
                _ => {}
            }
        }
    }
    if let Some(flow) = flow {
        for (stores, new) in flow.stores.iter_mut().zip(of_flow) {
            *stores |= new;
        }
    }
}
