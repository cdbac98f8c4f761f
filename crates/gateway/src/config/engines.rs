//! Settings of malware engines, one table `[[engine]]` each.

use std::path::PathBuf;

use gauntlet_content::OnFailure;
use gauntlet_content::engines::connection::EngineAddress;
use serde::{Deserialize, Serialize};

use super::error::ConfigError;

/// What kind of engine it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EngineKind {
    /// ClamAV's daemon, by its own protocol (`INSTREAM`, `FILDES`).
    Clamd,
    /// A service behind ICAP (RFC 3507).
    Icap,
    /// A program that is started for each file.
    Command,
    /// YARA rules, matched without a program beside.
    Yara,
    /// A list of SHA-256 or MD5 hashes.
    HashList,
}

impl EngineKind {
    /// As the settings name it.
    pub fn name(self) -> &'static str {
        match self {
            EngineKind::Clamd => "clamd",
            EngineKind::Icap => "icap",
            EngineKind::Command => "command",
            EngineKind::Yara => "yara",
            EngineKind::HashList => "hash_list",
        }
    }
}

/// What an engine looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EngineInput {
    /// Each file, and everything in it.
    Objects,
    /// The message as it came.
    Message,
}

/// How files get to clamd.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EngineTransfer {
    /// Large files as descriptors over a unix socket, the rest as a stream.
    #[default]
    Auto,
    /// All files as a stream (`INSTREAM`), which a clamd on another host needs.
    Stream,
}

/// An engine. What belongs to other kinds stays at its default.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EngineSettings {
    /// Its name in verdicts, metrics and logs.
    pub name: String,
    /// What answers there; it decides which of the other settings count.
    pub kind: EngineKind,
    /// clamd, icap: path of a socket, or host and port.
    #[serde(default)]
    pub address: String,
    /// icap: name of the service.
    #[serde(default)]
    pub service: String,
    /// clamd: how files get there.
    #[serde(default)]
    pub transfer: EngineTransfer,
    /// command: program and arguments; `{}` is replaced by the path of the file, which is its
    /// standard input, too. Read at start.
    #[serde(default)]
    pub command: Vec<String>,
    /// command: exit codes that mean that nothing was found.
    #[serde(default = "code_clean")]
    pub clean_codes: Vec<i32>,
    /// command: exit codes that mean that something was found.
    #[serde(default = "code_infected")]
    pub infected_codes: Vec<i32>,
    /// command: regular expression of the name in what it prints.
    #[serde(default)]
    pub name_pattern: String,
    /// yara: files and folders of rules; `hash_list`: files.
    #[serde(default)]
    pub paths: Vec<PathBuf>,
    /// What it looks at; if empty, clamd both, the others objects.
    #[serde(default)]
    pub scans: Vec<EngineInput>,
    /// Larger files are not given to it.
    #[serde(default = "bytes_max")]
    pub bytes_max: u64,
    /// Seconds for all files of one message.
    #[serde(default = "seconds_max")]
    pub seconds_max: u64,
    /// clamd, icap: connections at a time.
    #[serde(default = "connections_max")]
    pub connections_max: usize,
    /// What it means for a message that the engine gives no answer.
    #[serde(default)]
    pub on_failure: OnFailure,
    /// Failures in a row after which it is left alone for a while; 0 never does.
    #[serde(default = "failures_max")]
    pub failures_max: u32,
    /// For how many seconds.
    #[serde(default = "pause_seconds")]
    pub pause_seconds: u64,
    /// Names that are no finding; `*` stands for anything.
    #[serde(default)]
    pub ignore: Vec<String>,
    /// Names that make a file suspicious, and a message no malware.
    #[serde(default = "suspicious_names")]
    pub suspicious: Vec<String>,
}

fn code_clean() -> Vec<i32> {
    vec![0]
}

fn code_infected() -> Vec<i32> {
    vec![1]
}

fn bytes_max() -> u64 {
    // StreamMaxLength of clamd as Debian ships it.
    25 << 20
}

fn seconds_max() -> u64 {
    30
}

fn connections_max() -> usize {
    8
}

fn failures_max() -> u32 {
    3
}

fn pause_seconds() -> u64 {
    10
}

/// Names by which ClamAV says that something is unwanted or unusual, but no malware.
fn suspicious_names() -> Vec<String> {
    ["PUA.*", "Heuristics.*"].map(str::to_owned).to_vec()
}

impl EngineSettings {
    /// An engine that reads files, with everything else at its default.
    pub fn of_files(name: String, kind: EngineKind, paths: &[PathBuf]) -> Self {
        EngineSettings {
            name,
            kind,
            address: String::new(),
            service: String::new(),
            transfer: EngineTransfer::default(),
            command: Vec::new(),
            clean_codes: code_clean(),
            infected_codes: code_infected(),
            name_pattern: String::new(),
            paths: paths.to_vec(),
            scans: Vec::new(),
            bytes_max: bytes_max(),
            seconds_max: seconds_max(),
            connections_max: connections_max(),
            on_failure: OnFailure::default(),
            failures_max: failures_max(),
            pause_seconds: pause_seconds(),
            ignore: Vec::new(),
            suspicious: suspicious_names(),
        }
    }

    /// What the engine looks at.
    pub fn looks_at(&self, input: EngineInput) -> bool {
        match self.scans.as_slice() {
            // Signatures of mail itself are part of ClamAV's database.
            [] => input == EngineInput::Objects || self.kind == EngineKind::Clamd,
            scans => scans.contains(&input),
        }
    }

    fn problem(&self) -> Result<(), (&'static str, String)> {
        let needs = |key: &'static str, is_there: bool, example: &str| match is_there {
            true => Ok(()),
            false => Err((key, format!("kind = {:?} needs it, e.g. {example}", self.kind.name()))),
        };
        if self.name.trim().is_empty() || self.name.contains([':', '"', '\\']) {
            let text = "an engine needs a name, without colon, quote and backslash";
            return Err(("name", text.to_owned()));
        }
        match self.kind {
            EngineKind::Clamd | EngineKind::Icap => {
                let example = match self.kind {
                    EngineKind::Clamd => "\"/run/clamav/clamd.ctl\" or \"127.0.0.1:3310\"",
                    _ => "\"127.0.0.1:1344\"",
                };
                needs("address", !self.address.is_empty(), example)?;
                let address = self.address.parse::<EngineAddress>();
                address.map_err(|error| ("address", error.to_string()))?;
                let has_service = self.kind == EngineKind::Clamd || !self.service.is_empty();
                needs("service", has_service, "\"avscan\"")
            }
            EngineKind::Command => {
                let example = "[\"/usr/bin/clamscan\", \"--no-summary\", \"{}\"]";
                needs("command", !self.command.is_empty(), example)?;
                let pattern = regex::Regex::new(&self.name_pattern);
                pattern.map(drop).map_err(|error| ("name_pattern", error.to_string()))
            }
            EngineKind::Yara => needs("paths", !self.paths.is_empty(), "[\"/etc/gauntlet/yara\"]"),
            EngineKind::HashList => {
                needs("paths", !self.paths.is_empty(), "[\"/etc/gauntlet/sha256.txt\"]")
            }
        }
    }
}

/// Refuses engines that cannot work.
pub(super) fn check(engines: &[EngineSettings], opens: bool) -> Result<(), ConfigError> {
    let wrong =
        |key: &str, message: String| Err(ConfigError::invalid(format!("engine.{key}"), message));
    for (number, engine) in engines.iter().enumerate() {
        if let Err((key, message)) = engine.problem() {
            return wrong(key, format!("{:?}: {message}", engine.name));
        }
        if engines[..number].iter().any(|e| e.name == engine.name) {
            return wrong("name", format!("two engines are called {:?}", engine.name));
        }
    }
    match engines.first() {
        Some(engine) if !opens => {
            let message = "engines look at what unpacking finds: set content.enabled = true";
            wrong("name", format!("{:?}: {message}", engine.name))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<EngineSettings, toml::de::Error> {
        toml::from_str(text)
    }

    #[test]
    fn defaults_and_what_is_missing() {
        let clamd = "name = \"av\"\nkind = \"clamd\"\n";
        let engine = read(&format!("{clamd}address = \"/run/clamd\"")).unwrap();
        assert!(engine.looks_at(EngineInput::Message) && engine.looks_at(EngineInput::Objects));
        assert_eq!(engine.on_failure, OnFailure::Tempfail);
        assert!(check(std::slice::from_ref(&engine), true).is_ok());
        let twice = [engine.clone(), engine.clone()];
        assert!(check(&twice, true).unwrap_err().to_string().contains("two engines"));
        let closed = check(&[engine], false).unwrap_err().to_string();
        assert!(closed.contains("content.enabled"), "{closed}");
        for (text, expected) in [
            (clamd.to_owned(), "engine.address"),
            (format!("{clamd}address = \"clamd\""), "host:port"),
            ("name = \"x\"\nkind = \"icap\"\naddress = \"h:1344\"".to_owned(), "engine.service"),
            ("name = \"x\"\nkind = \"command\"".to_owned(), "engine.command"),
            ("name = \"\"\nkind = \"yara\"".to_owned(), "engine.name"),
            ("name = \"x\"\nkind = \"yara\"".to_owned(), "engine.paths"),
            (
                "name = \"x\"\nkind = \"command\"\ncommand = [\"a\"]\nname_pattern = \"(\""
                    .to_owned(),
                "engine.name_pattern",
            ),
        ] {
            let error = check(&[read(&text).unwrap()], true).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
        assert!(read("name = \"x\"\nkind = \"clamav\"").is_err());
        assert!(read("name = \"x\"\nkind = \"yara\"\nport = 1").is_err());
    }
}
