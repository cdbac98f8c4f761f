//! Who has to log in to the proxy, and how.

use std::path::PathBuf;

use gauntlet_mail::Network;
use serde::{Deserialize, Serialize};

use super::SettingsError;

const DAY: u64 = 24 * 3600;
/// Bytes of a realm: browsers show it to people.
const REALM_BYTES_MAX: usize = 64;

/// Logins of clients, `[login]`. Times are seconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LoginSettings {
    /// How clients may log in; none: nobody is asked. Clients are offered the strongest first,
    /// whatever the order here.
    pub methods: Vec<LoginMethod>,
    /// What browsers say whose login they ask for. Entries of `digest_file` are made for it.
    pub realm: String,
    /// Networks of clients that need not log in. Credentials that they send all the same are
    /// checked.
    pub exempt_networks: Vec<String>,
    /// Users and hashes of their passwords, as `htpasswd -B` makes them; empty takes the node's
    /// users.
    pub password_file: PathBuf,
    /// Users and their hashes for Digest, as `htdigest` makes them.
    pub digest_file: PathBuf,
    /// Hand Basic credentials that were right on to `upstream`, unless that has credentials of its
    /// own. Without it, no other program gets them.
    pub pass_to_upstream: bool,
    /// For how long a password that was checked is not checked again; as long, an old one may work
    /// on.
    pub remember_seconds: u64,
    /// Credentials that are remembered.
    pub remembered_max: usize,
    /// For how long the nonce of Digest is good.
    pub nonce_seconds_max: u64,
    /// Nonces whose use is remembered; who comes by another is asked for a new one.
    pub nonces_max: usize,
    /// Failed logins from one address (IPv6: /64) within `failures_window_seconds`; beyond, those
    /// who are not remembered get 429.
    pub failures_max: u32,
    /// These are within so many seconds.
    pub failures_window_seconds: u64,
    /// Addresses whose failures are counted.
    pub failure_addresses_max: usize,
}

impl Default for LoginSettings {
    fn default() -> Self {
        LoginSettings {
            methods: Vec::new(),
            realm: "Gauntlet proxy".to_owned(),
            exempt_networks: Vec::new(),
            password_file: PathBuf::new(),
            digest_file: PathBuf::new(),
            pass_to_upstream: false,
            remember_seconds: 60,
            remembered_max: 10_000,
            nonce_seconds_max: 300,
            nonces_max: 10_000,
            failures_max: 20,
            failures_window_seconds: 60,
            failure_addresses_max: 10_000,
        }
    }
}

/// A way to log in (RFC 9110 section 11).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LoginMethod {
    /// Login and password with every request (RFC 7617).
    Basic,
    /// A proof of the password with every request (RFC 7616).
    Digest,
}

impl LoginMethod {
    /// The name in settings and logs.
    pub fn name(self) -> &'static str {
        match self {
            LoginMethod::Basic => "basic",
            LoginMethod::Digest => "digest",
        }
    }
}

impl LoginSettings {
    /// Clients are asked who they are.
    pub fn is_on(&self) -> bool {
        !self.methods.is_empty()
    }

    /// Clients may log in by this method.
    pub fn offers(&self, method: LoginMethod) -> bool {
        self.methods.contains(&method)
    }

    /// The networks of clients that need not log in.
    ///
    /// # Errors
    /// If one is no network.
    pub fn exempt(&self) -> Result<Vec<Network>, SettingsError> {
        let parse = |text: &String| {
            text.parse().map_err(|e| SettingsError::Login(format!("exempt_networks: {e}")))
        };
        self.exempt_networks.iter().map(parse).collect()
    }

    /// Whether every value is within its bounds.
    ///
    /// # Errors
    /// The first that is not.
    pub(crate) fn check(&self) -> Result<(), SettingsError> {
        self.exempt()?;
        let wrong = |text: &str| Err(SettingsError::Login(text.to_owned()));
        // It stands in quotation marks, and between colons in `digest_file`.
        let is_plain = |b: u8| (b.is_ascii_graphic() || b == b' ') && !b"\"\\:".contains(&b);
        let fits = (1..=REALM_BYTES_MAX).contains(&self.realm.len());
        if !fits || !self.realm.bytes().all(is_plain) {
            return wrong("realm: 1 to 64 visible ASCII characters, without \" \\ and :");
        }
        if self.offers(LoginMethod::Digest) && self.digest_file.as_os_str().is_empty() {
            return wrong("methods: digest needs digest_file; hashes of passwords are not enough");
        }
        if !self.password_file.as_os_str().is_empty() && !self.offers(LoginMethod::Basic) {
            return wrong("password_file is for the method basic, which methods does not have");
        }
        if self.pass_to_upstream && !self.offers(LoginMethod::Basic) {
            return wrong(
                "pass_to_upstream needs the method basic: others prove to one proxy only",
            );
        }
        let size = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
        for (name, value, min, max) in [
            ("login.remember_seconds", self.remember_seconds, 0, 3600),
            ("login.remembered_max", size(self.remembered_max), 100, 1_000_000),
            ("login.nonce_seconds_max", self.nonce_seconds_max, 10, DAY),
            ("login.nonces_max", size(self.nonces_max), 100, 1_000_000),
            ("login.failures_max", self.failures_max.into(), 1, 10_000),
            ("login.failures_window_seconds", self.failures_window_seconds, 1, DAY),
            ("login.failure_addresses_max", size(self.failure_addresses_max), 100, 1_000_000),
        ] {
            if value < min || value > max {
                return Err(SettingsError::Bounds { name, value, min, max });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(text: &str) -> String {
        let settings: LoginSettings = toml::from_str(text).unwrap();
        settings.check().map_or_else(|e| e.to_string(), |()| String::new())
    }

    #[test]
    fn what_cannot_be_is_named() {
        assert_eq!(problem(""), "");
        assert_eq!(problem("methods = [\"digest\", \"basic\"]\ndigest_file = \"x\""), "");
        for (text, why) in [
            ("methods = [\"digest\"]", "digest needs digest_file"),
            ("password_file = \"x\"", "which methods does not have"),
            ("pass_to_upstream = true", "needs the method basic"),
            ("realm = \"a\\\"b\"", "visible ASCII"),
            ("realm = \"\"", "visible ASCII"),
            ("exempt_networks = [\"office\"]", "exempt_networks: 'office' is no network"),
            ("failures_max = 0", "login.failures_max = 0 is out of its bounds"),
        ] {
            assert!(problem(text).contains(why), "{text}: {}", problem(text));
        }
    }
}
