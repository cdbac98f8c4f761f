//! The state of a running console: what it works with, its limits, and what it keeps between
//! requests.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use tokio::sync::Semaphore;

use crate::addresses::Addresses;
use crate::oidc::{RelyingParty, SignIns};
use crate::replays::Replays;
use crate::state::ConsoleState;

/// Pages that are made at once; further requests wait. Keeps the console from taking the blocking
/// threads and connections that mail needs.
const PAGES_AT_ONCE_MAX: usize = 4;
/// The same of `/health/ready`, `/health/live` and `/metrics`.
const MONITORING_AT_ONCE_MAX: usize = 2;

/// What costs were measured last.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct RuleCosts {
    /// When, in Unix milliseconds.
    pub(crate) at_ms: i64,
    /// On how many messages.
    pub(crate) messages: usize,
    /// Nanoseconds of all messages together, by rule.
    pub(crate) costs: BTreeMap<String, u64>,
}

/// The state with what the server itself keeps.
pub(crate) struct App {
    pub(crate) state: ConsoleState,
    pub(crate) addresses: Addresses,
    pub(crate) pages: Semaphore,
    pub(crate) monitoring: Semaphore,
    pub(crate) replays: Replays,
    pub(crate) sign_ins: SignIns,
    measured: Mutex<Option<RuleCosts>>,
}

impl App {
    pub(crate) fn new(state: ConsoleState, addresses: Addresses) -> Self {
        App {
            state,
            addresses,
            pages: Semaphore::new(PAGES_AT_ONCE_MAX),
            monitoring: Semaphore::new(MONITORING_AT_ONCE_MAX),
            replays: Replays::default(),
            sign_ins: SignIns::default(),
            measured: Mutex::default(),
        }
    }

    /// What a sign-in at the OpenID Connect provider needs; none if there is no provider.
    pub(crate) fn relying_party(&self) -> Option<RelyingParty<'_>> {
        let options = self.state.oidc.as_deref()?;
        Some(RelyingParty { options, users: &self.state.users, node: &*self.state.node })
    }

    /// What rules cost when that was measured last.
    pub(crate) fn measured(&self) -> Option<RuleCosts> {
        self.measured.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Keeps what rules cost.
    pub(crate) fn set_measured(&self, measured: RuleCosts) {
        *self.measured.lock().unwrap_or_else(PoisonError::into_inner) = Some(measured);
    }
}
