//! Everything that a policy may use.

use std::collections::HashMap;

use gauntlet_mail::{Envelope, Facts, Message};
use gauntlet_verdict::{Thresholds, Verdict};

use crate::condition::RateKey;

/// Messages in the last hour by sender, client and recipient, as the node counts them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rates {
    /// Count by key and value (address in lower case, or IP address).
    pub per_hour: HashMap<(RateKey, String), u32>,
}

/// Everything that a policy may use.
#[derive(Debug, Clone, Copy)]
pub struct PolicyInput<'a> {
    /// Id of the message, for texts: the reference code.
    pub id: &'a str,
    /// The item as it was parsed.
    pub message: &'a Message<'a>,
    /// What is known of the connection.
    pub envelope: &'a Envelope,
    /// What is known from the network.
    pub facts: &'a Facts,
    /// The verdict of the engine.
    pub verdict: &'a Verdict,
    /// Where the classes began when it said so.
    pub thresholds: &'a Thresholds,
    /// Message rates of sender, client and recipient.
    pub rates: &'a Rates,
}
