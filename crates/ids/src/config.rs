//! Settings as suricata.yaml writes them: a flat table of dotted keys.
//!
//! Three tables lie over each other: what Suricata does without any setting
//! ([`Settings::built_in`], where that differs from the stock file), the stock file
//! ([`Settings::stock`]), and what the user gave. A section that the user's own file lacks has
//! built-in values, not those of the stock file.

mod yaml;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Largest configuration file, in bytes.
pub const FILE_BYTES_MAX: u64 = 16 << 20;

/// A table of settings by dotted keys (`stream.reassembly.depth`, `action-order.0`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    entries: BTreeMap<String, String>,
    /// Keys that the user gave, in order.
    given: Vec<String>,
}

/// Why a configuration could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file could not be read.
    #[error("cannot read {0}: {1}")]
    Read(PathBuf, std::io::Error),
    /// It is not YAML, or nested too deep.
    #[error("{0}: {1}")]
    Syntax(PathBuf, String),
    /// `--set` without a `=`.
    #[error("{0:?} is not KEY=VALUE")]
    Assignment(String),
}

fn table(text: &str) -> BTreeMap<String, String> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let pairs = lines.filter_map(|line| line.split_once(" = "));
    pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// Takes a key and its value, and says whether the key is one of its own.
pub type Sink<'s> = &'s mut dyn FnMut(&str, &str) -> bool;

impl Settings {
    /// The settings of Suricata's stock file.
    pub fn stock() -> Self {
        Self { entries: table(include_str!("config/stock.txt")), given: Vec::new() }
    }

    /// What Suricata does without any file, where that differs from the stock file.
    pub fn built_in() -> Self {
        Self { entries: table(include_str!("config/built_in.txt")), given: Vec::new() }
    }

    /// Reads a configuration file with its includes; what it does not say is built in.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let mut settings = Self::built_in();
        yaml::read(path, &mut settings, 0)?;
        Ok(settings)
    }

    /// Reads the text of a configuration file; includes are beside `path`.
    pub fn read_text(path: &Path, text: &str) -> Result<Self, ConfigError> {
        let mut settings = Self::built_in();
        yaml::read_text(path, text, &mut settings, 0)?;
        Ok(settings)
    }

    /// Settings of a parity case: the stock file, or built-in values for the sections that the
    /// case's own file lacks, then what differs.
    pub fn for_case<'a>(
        sections_absent: impl IntoIterator<Item = &'a str>,
        overrides: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Self {
        let mut settings = Self::stock();
        for section in sections_absent {
            settings.remove_section(section);
        }
        for (key, value) in overrides {
            settings.set(key, value);
        }
        settings
    }

    /// Applies one `--set KEY=VALUE`.
    pub fn assign(&mut self, assignment: &str) -> Result<(), ConfigError> {
        let bad = || ConfigError::Assignment(assignment.to_owned());
        let (key, value) = assignment.split_once('=').ok_or_else(bad)?;
        let (key, value) = (key.trim(), value.trim());
        if key.is_empty() {
            return Err(bad());
        }
        self.set(key, value);
        Ok(())
    }

    /// Sets one key.
    pub fn set(&mut self, key: &str, value: &str) {
        self.entries.insert(key.to_owned(), value.to_owned());
        if !self.given.iter().any(|known| known == key) {
            self.given.push(key.to_owned());
        }
    }

    /// Takes out all below a key that a file writes anew, so that a shorter list has no old rest.
    pub(crate) fn clear_list(&mut self, key: &str) {
        let below = format!("{key}.");
        self.entries.retain(|known, _| !known.starts_with(&below));
    }

    /// Replaces a section by what is built in.
    pub fn remove_section(&mut self, section: &str) {
        let below = format!("{section}.");
        let is_in = |key: &str| key == section || key.starts_with(&below);
        self.entries.retain(|key, _| !is_in(key));
        for (key, value) in Self::built_in().entries {
            if is_in(&key) {
                self.entries.insert(key, value);
            }
        }
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.entries.get(key).map(String::as_str)
    }

    /// All keys and values, sorted by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.entries.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// Keys and values below a key, without it.
    pub fn below(&self, key: &str) -> Vec<(&str, &str)> {
        let prefix = format!("{key}.");
        let all = self.entries.range(prefix.clone()..);
        all.take_while(|(known, _)| known.starts_with(&prefix))
            .filter_map(|(known, value)| Some((known.strip_prefix(&prefix)?, value.as_str())))
            .collect()
    }

    /// The values of a list (`key.0`, `key.1` ...), or of a value with commas or brackets.
    pub fn list(&self, key: &str) -> Vec<&str> {
        let mut out = Vec::new();
        while let Some(value) = self.get(&format!("{key}.{}", out.len())) {
            out.push(value);
        }
        if out.is_empty()
            && let Some(value) = self.get(key)
        {
            let inner = value.trim().trim_start_matches('[').trim_end_matches(']');
            out.extend(inner.split(',').map(str::trim).filter(|item| !item.is_empty()));
        }
        out
    }

    /// A whole number, with a unit if it has one (`1 MiB`, `100kb`).
    pub fn size(&self, key: &str) -> Option<u64> {
        parse_size(self.get(key)?)
    }

    /// A whole number that fits.
    pub fn number<T: TryFrom<u64>>(&self, key: &str) -> Option<T> {
        T::try_from(self.size(key)?).ok()
    }

    /// Yes or no, as Suricata reads it.
    pub fn flag(&self, key: &str) -> Option<bool> {
        parse_flag(self.get(key)?)
    }

    /// Whether flows of a protocol are detected (`app-layer.protocols.NAME.enabled`, or the same
    /// below `tcp` or `udp`).
    pub fn is_protocol_enabled(&self, name: &str, default: bool) -> bool {
        let base = format!("app-layer.protocols.{name}");
        let value = |key: &str| {
            let value = self.get(&format!("{base}.{key}enabled"))?;
            Some(value.eq_ignore_ascii_case("detection-only") || parse_flag(value) == Some(true))
        };
        value("").unwrap_or_else(|| match (value("tcp."), value("udp.")) {
            (None, None) => default,
            (tcp, udp) => tcp.unwrap_or(default) || udp.unwrap_or(default),
        })
    }

    /// Hands all settings to `sinks`, each of which says whether a key is one of its own. Returns
    /// the keys that the user gave and that nobody took.
    pub fn apply(&self, sinks: &mut [Sink<'_>]) -> Vec<&str> {
        let mut taken = std::collections::HashSet::new();
        for (key, value) in self.iter() {
            let mut is_taken = is_own(key);
            for sink in sinks.iter_mut() {
                is_taken |= sink(key, value);
            }
            if is_taken {
                taken.insert(key);
            }
        }
        let given = self.given.iter().map(String::as_str);
        given.filter(|key| !taken.contains(key)).collect()
    }
}

/// Whether rules or settings themselves use a key.
fn is_own(key: &str) -> bool {
    let prefixes = [
        "vars.address-groups.",
        "vars.port-groups.",
        "action-order.",
        "pcre.",
        "datasets.rules.",
        "rule-files.",
    ];
    let keys = [
        "legacy.uricontent",
        "default-rule-path",
        "default-data-dir",
        "threshold-file",
        "classification-file",
        "reference-config-file",
        "geoip-database",
    ];
    let is_switch = key.starts_with("app-layer.protocols.") && key.ends_with(".enabled");
    prefixes.iter().any(|prefix| key.starts_with(prefix)) || keys.contains(&key) || is_switch
}

/// A whole number with an optional unit: `kb`, `KiB`, `mb`, `MiB`, `gb`, `GiB`.
pub fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let factor = match unit.trim().to_ascii_lowercase().as_str() {
        "" => 1_u64,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1 << 30,
        _ => return None,
    };
    match digits.parse::<u64>() {
        Ok(number) => number.checked_mul(factor),
        Err(_) => {
            let number = digits.parse::<f64>().ok().filter(|number| number.is_finite())?;
            Some((number * factor as f64) as u64)
        }
    }
}

/// Yes or no, as Suricata reads it.
pub fn parse_flag(text: &str) -> Option<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "1" | "yes" | "true" | "on" => Some(true),
        "0" | "no" | "false" | "off" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_with_lists_and_anchors() {
        let text = "%YAML 1.1\n---\n\
            vars:\n  address-groups:\n    HOME_NET: \"[10.0.0.0/8]\"\n    EXTERNAL_NET: any\n\
            action-order:\n  - pass\n  - alert\n\
            stream: {midstream: true, reassembly: {depth: 1mb}}\n\
            app-layer:\n  protocols:\n    tls: &tls\n      enabled: no\n    ssh: *tls\n\
            \n    dns:\n      tcp:\n        enabled: yes\n      udp:\n        enabled: no\n\
            empty:\n";
        let settings = Settings::read_text(Path::new("x.yaml"), text).expect("it is YAML");
        assert_eq!(settings.get("vars.address-groups.HOME_NET"), Some("[10.0.0.0/8]"));
        assert_eq!(settings.list("action-order"), ["pass", "alert"]);
        assert_eq!(settings.flag("stream.midstream"), Some(true));
        assert_eq!(settings.size("stream.reassembly.depth"), Some(1 << 20));
        assert!(!settings.is_protocol_enabled("tls", true));
        assert!(!settings.is_protocol_enabled("ssh", true));
        assert!(settings.is_protocol_enabled("dns", false));
        assert!(settings.is_protocol_enabled("ftp", true));
        assert_eq!(settings.size("flow.memcap"), Some(32 << 20), "built in");
        let unused = settings.apply(&mut [&mut |key, _| key.starts_with("stream.")]);
        assert_eq!(unused, ["empty"]);
    }

    #[test]
    fn bad_files_are_told() {
        for text in ["a: [", "a: b: c", "a: *nothing"] {
            assert!(Settings::read_text(Path::new("x.yaml"), text).is_err(), "{text:?}");
        }
        let deep = "[".repeat(10_000);
        assert!(Settings::read_text(Path::new("x.yaml"), &deep).is_err());
    }

    #[test]
    fn cases_fall_back_to_what_is_built_in() {
        let stock = Settings::for_case([], []);
        assert_eq!(stock.size("stream.reassembly.depth"), Some(1 << 20));
        assert!(!stock.is_protocol_enabled("pgsql", true));
        let own = Settings::for_case(["stream", "vars", "app-layer"], [("stream.inline", "true")]);
        assert_eq!(own.size("stream.reassembly.depth"), Some(0));
        assert_eq!(own.flag("stream.inline"), Some(true));
        assert_eq!(own.get("vars.address-groups.HOME_NET"), None);
        assert!(own.is_protocol_enabled("pgsql", true));
        let body = "app-layer.protocols.http.libhtp.default-config.request-body-limit";
        assert_eq!(own.size(body), Some(4096));
        let personality = "app-layer.protocols.http.libhtp.default-config.personality";
        assert_eq!(own.get(personality), Some("MINIMAL"));
        assert_eq!(own.list("app-layer.protocols.smb.detection-ports.dp"), ["445"]);
    }

    #[test]
    fn assignments_and_values_are_read() {
        let mut settings = Settings::stock();
        settings.assign("stream.midstream=true").expect("it is one");
        assert_eq!(settings.flag("stream.midstream"), Some(true));
        assert!(settings.assign("stream.midstream").is_err());
        assert_eq!(parse_size("1.5 KiB"), Some(1536));
        assert_eq!(parse_size("12 parsecs"), None);
        assert_eq!(settings.list("vars.port-groups.SIP_PORTS"), ["5060", "5061"]);
    }
}
