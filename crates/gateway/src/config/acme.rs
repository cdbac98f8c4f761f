//! Settings of certificates that an authority gives (ACME, RFC 8555).

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::address::socket_address;
use super::error::ConfigError;

/// Certificates from an authority, for every listener that names none of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AcmeSettings {
    /// URL of the authority's directory; empty gets no certificates. Whoever sets it agrees to the
    /// authority's terms of service.
    pub directory: String,
    /// Names that the certificate is for; empty takes the node's.
    pub names: Vec<String>,
    /// Mail address that the authority may write to; empty gives none.
    pub contact: String,
    /// Where the authority asks for the proof that the names are ours (HTTP-01): it comes to port
    /// 80 of each name.
    pub address: String,
    /// Connections there at once.
    pub connections_max: usize,
    /// Connections there at once from one address.
    pub connections_per_client_max: usize,
    /// Seconds for a request and its answer.
    pub seconds_max: u64,
    /// PEM bundle of roots that the authority's own certificate is verified by; empty takes the
    /// system's.
    pub roots: PathBuf,
}

impl Default for AcmeSettings {
    fn default() -> Self {
        AcmeSettings {
            directory: String::new(),
            names: Vec::new(),
            contact: String::new(),
            address: "0.0.0.0:80".into(),
            connections_max: 16,
            connections_per_client_max: 4,
            seconds_max: 10,
            roots: PathBuf::new(),
        }
    }
}

impl AcmeSettings {
    /// An authority is set.
    pub fn is_on(&self) -> bool {
        !self.directory.is_empty()
    }

    /// The names that the certificate is for, of a node that is called so.
    pub fn names(&self, node: &str) -> Vec<String> {
        match self.names.is_empty() {
            true => vec![node.to_ascii_lowercase()],
            false => self.names.iter().map(|name| name.to_ascii_lowercase()).collect(),
        }
    }

    /// Refuses what cannot work.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let wrong =
            |key: &str, message: String| Err(ConfigError::invalid(format!("acme.{key}"), message));
        if !self.is_on() {
            return Ok(());
        }
        let plain = |text: &str| text.bytes().all(|b| b.is_ascii_graphic());
        if !self.directory.starts_with("https://") || !plain(&self.directory) {
            return wrong("directory", format!("{:?} is no https:// address", self.directory));
        }
        for name in &self.names {
            let host = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.');
            if name.starts_with('*') {
                let message =
                    "is proved by the DNS only (DNS-01), which is not done here: list the names";
                return wrong("names", format!("{name:?} {message}"));
            }
            if !name.contains('.') || !name.bytes().all(host) {
                return wrong("names", format!("{name:?} is no full host name"));
            }
        }
        if !self.contact.is_empty() && (!plain(&self.contact) || !self.contact.contains('@')) {
            return wrong("contact", format!("{:?} is no mail address", self.contact));
        }
        if socket_address(&self.address).is_none() {
            let message = format!("{:?} is no address and port, e.g. 0.0.0.0:80", self.address);
            return wrong("address", message);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_work_is_refused_by_name() {
        let on = |change: fn(&mut AcmeSettings)| {
            let directory = "https://ca.example/directory".to_owned();
            let mut settings = AcmeSettings { directory, ..AcmeSettings::default() };
            change(&mut settings);
            settings.check().map_err(|e| e.to_string())
        };
        assert_eq!(on(|_| {}), Ok(()));
        assert_eq!(AcmeSettings::default().check(), Ok(()));
        type Change = fn(&mut AcmeSettings);
        let wrong: [(Change, &str); 5] = [
            (|s| s.directory = "http://ca.example/".into(), "acme.directory: "),
            (|s| s.names = vec!["*.a.example".into()], "acme.names: \"*.a.example\" is proved"),
            (|s| s.names = vec!["mail".into()], "acme.names: \"mail\" is no full host name"),
            (|s| s.contact = "nobody".into(), "acme.contact: "),
            (|s| s.address = "80".into(), "acme.address: "),
        ];
        for (change, begins) in wrong {
            let said = on(change).unwrap_err();
            assert!(said.starts_with(begins), "{said}");
        }
    }
}
