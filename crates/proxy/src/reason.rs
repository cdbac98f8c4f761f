//! Why a request is blocked or warned of, for the page and the log.

use std::net::IpAddr;

use gauntlet_web::WebListed;

/// Why something is blocked, for the page and the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockReason {
    /// The rule or list.
    pub rule: String,
    /// In a sentence, for the person at the browser.
    pub text: String,
}

/// What the log says about a decision.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Note {
    /// Rules that matched, the one that decided first.
    pub rules: Vec<String>,
    /// Category of the URL by its list; empty if it is on none.
    pub category: String,
    /// What decided, such as the entry of a list.
    pub evidence: String,
    /// What the policy decided, as in `allow`; empty if it was not asked.
    pub action: &'static str,
    /// Lists that the URL is on.
    pub listed: Vec<WebListed>,
    /// The address of the host that was looked up and is on a list, if it decided.
    pub address: Option<IpAddr>,
}

/// As a sentence has it.
pub(crate) fn minutes(count: u32) -> String {
    match count {
        1 => "1 minute".to_owned(),
        count => format!("{count} minutes"),
    }
}

/// How a person who was warned may go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// Where the form on the page is sent to, with `reason` as its field.
    pub action: String,
    /// What the form has to bring back.
    pub token: String,
    /// For how long it is good, in minutes.
    pub minutes: u32,
}
