//! What is known of a web request before anything is decided.

use std::net::IpAddr;

use gauntlet_mail::CanonicalUrl;

/// A request as the policy sees it.
#[derive(Debug, Clone, Copy)]
pub struct WebItem<'a> {
    /// When it came, in seconds since 1970.
    pub at: i64,
    /// The client's address.
    pub client: IpAddr,
    /// Who logged in, if anybody did.
    pub user: Option<&'a str>,
    /// As in `GET`; `DNS` of a DNS query.
    pub method: &'a str,
    /// What it is.
    pub kind: RequestKind,
    /// Where it goes. Of a tunnel host and port alone are known, of a DNS query the host: their
    /// path is empty.
    pub url: &'a CanonicalUrl,
    /// The port, the scheme's own if none was written; 0 of a DNS query, which is for none.
    pub port: u16,
    /// Entries of URL lists that it matches and that nothing undoes, most specific first.
    pub listed: &'a [Listed<'a>],
    /// `User-Agent`, if the client sent one.
    pub user_agent: Option<&'a str>,
    /// The response, once its header is here.
    pub response: Option<WebResponse<'a>>,
}

/// What a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestKind {
    /// One request, one response.
    Plain,
    /// A tunnel, whose content is not seen.
    Tunnel,
    /// A request that turns the connection into another protocol, such as WebSocket.
    Upgrade,
    /// A query for a name (DNS).
    Lookup,
}

/// An entry of a URL list that a request matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed<'a> {
    /// The list's name.
    pub list: &'a str,
    /// The entry's category.
    pub category: &'a str,
    /// Its pattern, as in `domain example.com`.
    pub pattern: String,
}

/// The header of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WebResponse<'a> {
    /// Its status.
    pub status: u16,
    /// Its declared type in lower case without parameters, if it has one.
    pub content_type: Option<&'a str>,
    /// Bytes of its body, if it says so.
    pub bytes: Option<u64>,
}
