//! The URI of a request: its parts, and the form that rules look at.

use super::decode;
use super::settings::Settings;
use super::values::{HostPort, host_port, port_number, split_host, split_port};

/// Parts, normalised.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Uri {
    pub scheme: Option<Vec<u8>>,
    pub user: Option<Vec<u8>>,
    pub password: Option<Vec<u8>>,
    pub host: Option<Vec<u8>>,
    pub port: Option<u16>,
    /// The host or the port is none.
    pub invalid_host: bool,
    pub path: Option<Vec<u8>>,
    /// Not decoded yet.
    pub query: Option<Vec<u8>>,
    pub fragment: Option<Vec<u8>>,
}

/// A URI as text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Normalized {
    /// From the path on.
    pub partial: Option<Vec<u8>>,
    /// With scheme and authority.
    pub complete: Option<Vec<u8>>,
    /// Something was encoded twice.
    pub double_encoded: bool,
}

impl Uri {
    /// Of a request's URI.
    pub(super) fn parse(settings: &Settings, bytes: &[u8]) -> Self {
        let mut uri = Self::default();
        let rest = uri.take_authority(settings, bytes).unwrap_or(bytes);
        let cut = |rest: &[u8], ends: &[u8]| {
            rest.iter().position(|byte| ends.contains(byte)).unwrap_or(rest.len())
        };
        let (path, rest) = rest.split_at(cut(rest, b"#?"));
        if !path.is_empty() {
            uri.path = Some(decode::path(settings, path));
        }
        let mut rest = rest;
        if let Some(query) = rest.strip_prefix(b"?") {
            let (query, after) = query.split_at(cut(query, b"#"));
            uri.query = Some(query.to_vec());
            rest = after;
        }
        if let Some(fragment) = rest.strip_prefix(b"#") {
            uri.fragment = Some(decode::text(settings, fragment));
        }
        uri
    }

    /// Scheme, and what names the server. `None`: there is no scheme, so all is path.
    fn take_authority<'a>(&mut self, settings: &Settings, bytes: &'a [u8]) -> Option<&'a [u8]> {
        if bytes.starts_with(b"/") {
            return None;
        }
        let colon = memchr::memchr(b':', bytes)?;
        let (scheme, rest) = bytes.split_at(colon);
        self.scheme = Some(scheme.to_ascii_lowercase());
        let mut rest = rest.get(1..)?;
        if let Some(after) = rest.strip_prefix(b"//")
            && !after.starts_with(b"/")
            && let Some(at) = memchr::memchr(b'@', after)
        {
            let (credentials, after) = after.split_at(at);
            let (user, password) = match memchr::memchr(b':', credentials) {
                Some(colon) => (credentials.get(..colon), credentials.get(colon + 1..)),
                None => (Some(credentials), None),
            };
            self.user = user.map(|user| decode::text(settings, user));
            self.password = password.map(|password| decode::text(settings, password));
            rest = after.get(1..)?;
        }
        let Some((host, after)) = split_host(rest) else { return Some(rest) };
        let mut host = decode::text(settings, host).to_ascii_lowercase();
        while host.last() == Some(&b'.') {
            host.pop();
        }
        self.host = Some(host);
        let Some((port, after)) = split_port(after) else { return Some(after) };
        self.port = port_number(port);
        self.invalid_host |= self.port.is_none();
        Some(after)
    }

    /// Of the target of CONNECT.
    pub(super) fn authority(settings: &Settings, bytes: &[u8]) -> Self {
        let mut uri = Self::default();
        let Some(HostPort { host, port, number, valid }) = host_port(bytes) else { return uri };
        let mut host = decode::text(settings, host).to_ascii_lowercase();
        while host.last() == Some(&b'.') {
            host.pop();
        }
        uri.host = Some(host);
        uri.port = number;
        uri.invalid_host = !valid || (port.is_some() && number.is_none());
        uri
    }

    /// As text, decoded as the settings say.
    pub(super) fn normalized(&self, settings: &Settings) -> Normalized {
        let mut complete = Vec::new();
        if let Some(scheme) = &self.scheme {
            complete.extend_from_slice(scheme);
            complete.extend_from_slice(b"://");
        }
        if self.user.is_some() || self.password.is_some() {
            complete.extend_from_slice(self.user.as_deref().unwrap_or_default());
            complete.push(b':');
            complete.extend_from_slice(self.password.as_deref().unwrap_or_default());
            complete.push(b'@');
        }
        complete.extend_from_slice(self.host.as_deref().unwrap_or_default());
        let mut partial = Vec::new();
        let mut double_encoded = false;
        if let Some(path) = &self.path {
            if settings.double_decode_path {
                let again = decode::text(settings, path);
                double_encoded |= again.len() < path.len();
                partial.extend_from_slice(&again);
            } else {
                partial.extend_from_slice(path);
            }
        }
        if let Some(query) = &self.query {
            let mut query = decode::text(settings, query);
            if settings.double_decode_query {
                let again = decode::text(settings, &query);
                double_encoded |= again.len() < query.len();
                query = again;
            }
            partial.push(b'?');
            partial.extend_from_slice(&query);
        }
        if let Some(fragment) = &self.fragment {
            partial.push(b'#');
            partial.extend_from_slice(fragment);
        }
        complete.extend_from_slice(&partial);
        let some = |bytes: Vec<u8>| (!bytes.is_empty()).then_some(bytes);
        Normalized { partial: some(partial), complete: some(complete), double_encoded }
    }
}
