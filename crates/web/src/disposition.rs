//! What is done with a web request.

use serde::{Deserialize, Serialize};

/// How a request ends, and what is changed on its way.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct WebDisposition {
    /// How it ends.
    pub action: WebAction,
    /// What is changed.
    pub changes: Vec<WebChange>,
    /// Names of the rules that matched, in their order; the last one that decides is
    /// [`WebDisposition::decided_by`].
    pub rules: Vec<String>,
    /// The rule that decided; none if the request is allowed because no rule did.
    pub decided_by: Option<String>,
    /// A rule asks for the response, and none before it has decided: with its header the rules are
    /// tried again.
    pub asks_response: bool,
}

/// How a request ends.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WebAction {
    /// It passes.
    #[default]
    Allow,
    /// The client gets a page with this text.
    Block {
        /// Why, in a sentence.
        text: String,
    },
    /// The client gets a page with this text, and may go on for some time after giving a reason.
    Warn {
        /// Why, in a sentence.
        text: String,
        /// For how long, in minutes.
        minutes: u32,
    },
    /// The client is sent elsewhere.
    Redirect {
        /// The URI.
        to: String,
    },
}

impl WebAction {
    /// Its name in policies, logs and counters.
    pub fn name(&self) -> &'static str {
        match self {
            WebAction::Allow => "allow",
            WebAction::Block { .. } => "block",
            WebAction::Warn { .. } => "warn",
            WebAction::Redirect { .. } => "redirect",
        }
    }
}

/// What is changed of a request or its response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WebChange {
    /// These fields of the request's header are not sent to the server.
    Strip {
        /// Their names.
        fields: Vec<String>,
    },
    /// The response comes no faster.
    LimitRate {
        /// Bytes a second.
        bytes_per_second: u64,
    },
    /// A tunnel is not decrypted.
    BypassTls,
}
