//! Conditions on web requests: data, not code. All fields of one table must hold; `all`, `any` and
//! `not` nest.

use gauntlet_mail::Network;
use serde::{Deserialize, Deserializer};

use crate::bytes::Bytes;
use crate::condition::TimeCondition;
use crate::pattern::{OneOrMany, Pattern};

/// One table of conditions. A field that is absent does not constrain.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WebCondition {
    /// Where the request goes.
    pub url: Option<UrlCondition>,
    /// As in `GET`.
    pub method: Option<OneOrMany<Pattern>>,
    /// Whether it is a tunnel (CONNECT, or TLS on a transparent listener).
    pub tunnel: Option<bool>,
    /// Who asks.
    pub client: Option<ClientCondition>,
    /// What the server answers. A rule that asks for it is tried when the header of the response
    /// is here.
    pub content: Option<ContentCondition>,
    /// A quota (`[[web_quota]]`) that the request counts for, and that this person has used up.
    pub quota: Option<OneOrMany<String>>,
    /// When the request came.
    pub time: Option<TimeCondition>,
    /// Every one of these.
    pub all: Option<Vec<WebCondition>>,
    /// At least one of these.
    pub any: Option<Vec<WebCondition>>,
    /// The request does not meet this condition.
    pub not: Option<Box<WebCondition>>,
}

/// Where a request goes.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct UrlCondition {
    /// Its host in canonical form (lower case, international names as `xn--`).
    pub host: Option<OneOrMany<Pattern>>,
    /// Its path with its query; of a tunnel it is not known, and no pattern but `*` fits.
    pub path: Option<OneOrMany<Pattern>>,
    /// Its port.
    pub port: Option<OneOrMany<u16>>,
    /// A category of a URL list that it is on.
    pub category: Option<OneOrMany<Pattern>>,
    /// A URL list that it is on.
    pub list: Option<OneOrMany<Pattern>>,
}

/// Who asks.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClientCondition {
    /// Networks in CIDR form, or addresses.
    pub network: Option<OneOrMany<ClientNetwork>>,
    /// The login.
    pub user: Option<OneOrMany<Pattern>>,
    /// A group that the login, or the address, is in.
    pub group: Option<OneOrMany<String>>,
    /// `User-Agent`.
    pub program: Option<OneOrMany<Pattern>>,
}

/// What the server answers.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ContentCondition {
    /// Declared type without parameters, e.g. `application/x-msdownload`, `video/*`.
    #[serde(rename = "type")]
    pub kind: Option<OneOrMany<Pattern>>,
    /// Declared size at least.
    pub size_min: Option<Bytes>,
    /// Status of the response.
    pub status: Option<OneOrMany<u16>>,
}

/// A network as policies write it.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientNetwork(pub Network);

impl<'de> Deserialize<'de> for ClientNetwork {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map(ClientNetwork).map_err(serde::de::Error::custom)
    }
}

impl WebCondition {
    /// Some part of it asks for the response.
    pub fn asks_response(&self) -> bool {
        self.content.is_some() || self.inner().any(Self::asks_response)
    }

    /// Some part of it asks for this quota.
    pub fn names_quota(&self, name: &str) -> bool {
        let names = self.quota.iter().flat_map(OneOrMany::as_slice);
        names.into_iter().any(|n| n == name) || self.inner().any(|inner| inner.names_quota(name))
    }

    /// Some part of it asks for a quota.
    pub fn asks_quota(&self) -> bool {
        self.quota.is_some() || self.inner().any(Self::asks_quota)
    }

    /// How deep `all`, `any` and `not` nest; 1 for a flat table.
    pub fn depth(&self) -> usize {
        1 + self.inner().map(Self::depth).max().unwrap_or(0)
    }

    /// The conditions right inside this one.
    pub(crate) fn inner(&self) -> impl Iterator<Item = &WebCondition> {
        let lists = [&self.all, &self.any];
        lists.into_iter().flatten().flatten().chain(self.not.as_deref())
    }
}
