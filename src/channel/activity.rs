//! Steps of channels in the activity log of a node.

use gauntlet_store::Users;

/// Who stands there.
const WHO: &str = "channel";

/// Notes a step. One that cannot be noted is done all the same, and told in the text log.
pub(super) fn note(users: &Users, action: &str, detail: &str) {
    if let Err(error) = users.note(gauntlet_gateway::clock::now_ms(), WHO, action, detail) {
        tracing::warn!(%error, "a step of a channel is not in the activity log");
    }
}
