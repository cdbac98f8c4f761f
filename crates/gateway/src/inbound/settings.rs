//! What a reload changes for mail that comes in.

use std::sync::Arc;

use crate::config::{
    DigestSettings, PolicySettings, ReceiverSettings, StressSettings, TrapSettings,
};
use crate::facts::FactCollector;
use crate::inbound::rate_limiter::RateRules;
use crate::inbound::recipients::Recipients;
use crate::outbound::route::Routes;
use crate::scan::judge::Judge;

/// One generation of settings for receiving and judging: never changed, taken once for each message
/// (and for what a session is offered, once a session).
#[derive(Debug, Clone)]
pub struct InboundSettings {
    /// What a client may send, and how long it may take.
    pub receiver: ReceiverSettings,
    /// How clients are treated under pressure.
    pub stress: StressSettings,
    /// What listeners for traps take.
    pub traps: TrapSettings,
    /// Rates of clients and senders, and greylisting.
    pub rates: RateRules,
    /// Which recipients of our domains exist.
    pub recipients: Arc<Recipients>,
    /// Domains that are ours, and where their mail goes.
    pub routes: Arc<Routes>,
    /// Collects what the network says about a message before the scan.
    pub facts: Arc<FactCollector>,
    /// Limits of what the policy asks for beside dispositions.
    pub policy: PolicySettings,
    /// Where people reach the console, for links in notes.
    pub digest: DigestSettings,
    /// Ruleset, model and policy.
    pub judge: Arc<Judge>,
}
