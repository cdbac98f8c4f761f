//! What is kept of a web request when it has ended.

use serde::{Deserialize, Serialize};

/// A line of the web log.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebRecord {
    /// When the request came, in milliseconds since 1970.
    pub at_ms: i64,
    /// From its header to the last byte of the response or tunnel, in milliseconds.
    pub took_ms: u64,
    /// The code on the page that the client got, if it got one of ours.
    pub reference: String,
    /// The client's address, or its network if addresses are not kept; may be empty.
    pub client: String,
    /// Who logged in; empty if nobody did.
    pub user: String,
    /// As in `GET`.
    pub method: String,
    /// The URL's host.
    pub host: String,
    /// The URL; `host:port` of a tunnel; without path and query if those are not kept.
    pub url: String,
    /// Status of the response; 0 if there was none.
    pub status: u16,
    /// How it ended.
    pub outcome: WebOutcome,
    /// The rules of the policy that matched, the one that decided first; else the name of what
    /// refused the request, such as `name_not_found`. Empty if nothing did.
    pub rule: String,
    /// Category of the URL by its list; empty if it is on none.
    pub category: String,
    /// What decided: the entry of a list, with its list.
    pub evidence: String,
    /// Declared type of the response.
    pub content_type: String,
    /// Bytes of the request's body, or from the client into the tunnel.
    pub bytes_in: u64,
    /// Bytes of the response's body, or from the tunnel to the client.
    pub bytes_out: u64,
    /// What the policy decided before the request was sent: a name of [`crate::WebAction`], or
    /// [`crate::RELEASED_ACTION`]; empty if it was not asked. None in days of older versions.
    pub action: Option<String>,
    /// Lists that the URL was on; none in days of older versions and if the policy was not asked.
    pub listed: Option<Vec<WebListed>>,
    /// Bytes of the response's body by its header.
    pub bytes_declared: Option<u64>,
    /// The address of the server that answered, or that a list refused; empty if nobody was asked,
    /// behind another proxy, and in days of older versions.
    pub server_address: String,
}

/// A list that a URL was on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebListed {
    /// The list's name.
    pub list: String,
    /// The entry's category.
    pub category: String,
}

/// How a request ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WebOutcome {
    /// The server's response, whole.
    #[default]
    Passed,
    /// A tunnel or an upgraded connection.
    Tunnel,
    /// Blocked by a rule or a setting.
    Blocked,
    /// Our own error page.
    Failed,
    /// Cut before its end, by either side.
    Aborted,
}

impl WebOutcome {
    /// All of them.
    pub const ALL: [WebOutcome; 5] = [
        WebOutcome::Passed,
        WebOutcome::Tunnel,
        WebOutcome::Blocked,
        WebOutcome::Failed,
        WebOutcome::Aborted,
    ];

    /// The name in the log and in queries.
    pub fn name(self) -> &'static str {
        match self {
            WebOutcome::Passed => "passed",
            WebOutcome::Tunnel => "tunnel",
            WebOutcome::Blocked => "blocked",
            WebOutcome::Failed => "failed",
            WebOutcome::Aborted => "aborted",
        }
    }

    /// The one of this name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|outcome| outcome.name() == name)
    }
}
