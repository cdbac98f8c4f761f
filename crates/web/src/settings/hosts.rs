//! Hosts that are not decrypted, as the settings name them.

use std::collections::HashSet;
use std::net::IpAddr;

use super::SettingsError;

/// Which hosts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hosts {
    /// Names, and addresses.
    exact: HashSet<String>,
    /// Names with all below, without the first dot.
    below: HashSet<String>,
}

impl Hosts {
    /// Reads `bank.example` (it and all below), `*.bank.example` (what is below), addresses.
    ///
    /// # Errors
    /// If one is no host.
    pub fn new(texts: &[String]) -> Result<Self, SettingsError> {
        let mut hosts = Hosts::default();
        for text in texts {
            let lower = text.trim().trim_end_matches('.').to_ascii_lowercase();
            let wrong = || SettingsError::Bypass(text.clone());
            if let Ok(address) = lower.trim_matches(['[', ']']).parse::<IpAddr>() {
                hosts.exact.insert(address.to_string());
                continue;
            }
            let name = lower.strip_prefix("*.").or(lower.strip_prefix('.')).unwrap_or(&lower);
            let is_name = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
            if name.is_empty() || name.starts_with('.') || !name.bytes().all(is_name) {
                return Err(wrong());
            }
            hosts.below.insert(name.to_owned());
            if !lower.starts_with("*.") {
                hosts.exact.insert(name.to_owned());
            }
        }
        Ok(hosts)
    }

    /// The host, a name in lower case or an address, is one of them.
    pub fn has(&self, host: &str) -> bool {
        if self.exact.contains(host) {
            return true;
        }
        let mut rest = host;
        while let Some((_, parent)) = rest.split_once('.') {
            if self.below.contains(parent) {
                return true;
            }
            rest = parent;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_meant_with_all_below_it() {
        let texts = ["bank.example", "*.Health.example.", "192.0.2.7", "[2001:DB8::1]"];
        let hosts = Hosts::new(&texts.map(str::to_owned)).unwrap();
        for host in ["bank.example", "a.b.bank.example", "x.health.example", "192.0.2.7"] {
            assert!(hosts.has(host), "{host}");
        }
        assert!(hosts.has("2001:db8::1"));
        for host in ["ebank.example", "health.example", "example", "192.0.2.8", ""] {
            assert!(!hosts.has(host), "{host}");
        }
    }

    #[test]
    fn what_is_no_host_is_named() {
        for wrong in ["", "*.", "a b", "http://x.example/", "*", "..x"] {
            let error = Hosts::new(&[wrong.to_owned()]).unwrap_err();
            assert!(error.to_string().contains(&format!("{wrong:?}")), "{error}");
        }
    }
}
