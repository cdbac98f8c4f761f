//! What an administrator sets about content: defaults, and bounds.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// What is looked for in content, and what happens then. Sizes are bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ContentSettings {
    /// Lists of phrases; without one, words are not looked at.
    pub phrases: Vec<PathBuf>,
    /// Points that a page may have.
    pub phrase_limit: i64,
    /// How often a phrase counts.
    pub phrase_count: PhraseCount,
    /// Media types whose text is judged; with `application/xml` all that end in `+xml`. What is
    /// HTML by its bytes is judged, whatever it is called.
    pub page_types: Vec<String>,
    /// Bytes of a page's text that are judged; as long, the page is held back.
    pub page_bytes_max: u64,
    /// A page or a download that is larger than what can be judged.
    pub on_too_large: Action,
    /// Content in a coding that is not known or is broken, or a page in parts.
    pub on_unreadable: Action,
    /// Responses with a part of the content (206).
    pub partial: Partial,
    /// Media types that are blocked, by what is declared and by the bytes: `video/*`,
    /// `application/x-dosexec`, or a group: `program`, `archive`, `document`, `image`, `media`.
    pub blocked_types: Vec<String>,
    /// Extensions of names that are blocked, without the first dot: `exe`, `tar.gz`.
    pub blocked_extensions: Vec<String>,
    /// Bytes of a response's body; 0 sets no limit.
    pub size_max: u64,
    /// Bytes of a download that a scanner gets.
    pub scan_bytes_max: u64,
    /// How long a scan may take.
    pub scan_seconds_max: u64,
    /// What happens to a download if the scanner fails.
    pub fail: Fail,
    /// Let bytes of a download through while it is scanned, so that the client does not give up.
    pub trickle: bool,
    /// A client waits so long for its first bytes.
    pub trickle_after_seconds: u64,
    /// Then it gets some every so often.
    pub trickle_every_seconds: u64,
    /// So many at a time.
    pub trickle_bytes: u64,
    /// Never the last ones: what a program needs to be whole is held back until the verdict.
    pub held_back_bytes: u64,
    /// Bytes of all responses that are held back.
    pub all_held_bytes_max: u64,
    /// Content that is so many times larger than what came is a bomb, beyond the first megabyte
    /// (or `page_bytes_max`, if that is less).
    pub ratio_max: u64,
    /// Time that decoding and judging one response may take.
    pub judge_milliseconds_max: u64,
    /// Search engines leave out what is not for children: Google, Bing, DuckDuckGo.
    pub safe_search: bool,
    /// YouTube's Restricted Mode.
    pub youtube: YouTube,
    /// Fields of requests that are removed.
    pub remove: Vec<RemovedHeader>,
}

/// Groups of kinds that `blocked_types` knows beside media types.
const GROUPS: [&str; 5] = ["program", "archive", "document", "image", "media"];

/// How often a phrase counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PhraseCount {
    /// Once on a page.
    Once,
    /// Each time.
    Every,
}

/// What happens to content that cannot be judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// The client gets it, and the record says so.
    Pass,
    /// The client gets a page, or the transfer is cut.
    Block,
}

/// What happens to parts of content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Partial {
    /// `Range` is taken out of requests, so that servers send all; players of media keep it.
    Strip,
    /// The client gets them unjudged.
    Pass,
    /// The client gets a page.
    Block,
}

/// What happens without a scanner's verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fail {
    /// It is blocked.
    Closed,
    /// It passes, and the record says so.
    Open,
}

/// YouTube's Restricted Mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum YouTube {
    /// Not set by us.
    Off,
    /// `YouTube-Restrict: Moderate`.
    Moderate,
    /// `YouTube-Restrict: Strict`.
    Strict,
}

/// A field that servers do not get.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemovedHeader {
    /// Its name.
    pub header: String,
    /// Hosts, each with all below it; `*` is every host.
    pub hosts: Vec<String>,
}

impl Default for ContentSettings {
    fn default() -> Self {
        let types =
            ["text/html", "application/xhtml+xml", "text/plain", "text/xml", "application/xml"];
        ContentSettings {
            phrases: Vec::new(),
            phrase_limit: 100,
            phrase_count: PhraseCount::Once,
            page_types: types.map(str::to_owned).to_vec(),
            page_bytes_max: 2 << 20,
            on_too_large: Action::Pass,
            on_unreadable: Action::Block,
            partial: Partial::Strip,
            blocked_types: Vec::new(),
            blocked_extensions: Vec::new(),
            size_max: 0,
            scan_bytes_max: 16 << 20,
            scan_seconds_max: 60,
            fail: Fail::Closed,
            trickle: true,
            trickle_after_seconds: 10,
            trickle_every_seconds: 5,
            trickle_bytes: 4096,
            held_back_bytes: 64 << 10,
            all_held_bytes_max: 512 << 20,
            ratio_max: 200,
            judge_milliseconds_max: 2000,
            safe_search: false,
            youtube: YouTube::Off,
            remove: Vec::new(),
        }
    }
}

/// A setting that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ContentSettingsError {
    /// A number out of its bounds.
    #[error("content.{name} = {value} is out of its bounds: from {min} to {max}")]
    Bounds {
        /// The setting.
        name: &'static str,
        /// Its value.
        value: u64,
        /// The least.
        min: u64,
        /// The most.
        max: u64,
    },
    /// Not a media type.
    #[error("content.{0} = {1:?} is no media type such as video/* (or a group)")]
    Type(&'static str, String),
    /// Not an extension.
    #[error("content.blocked_extensions = {0:?}: write an extension such as exe or tar.gz")]
    Extension(String),
    /// A field that a request needs, or no field's name.
    #[error("content.remove: the field {0:?} cannot be removed")]
    Header(String),
}

/// Fields without which a request is another one, or none.
const NEEDED: [&str; 6] =
    ["host", "content-length", "transfer-encoding", "connection", "content-type", "via"];

impl ContentSettings {
    /// Whether every value is within its bounds.
    ///
    /// # Errors
    /// The first that is not.
    pub fn check(&self) -> Result<(), ContentSettingsError> {
        const GIB: u64 = 1 << 30;
        let limit = u64::try_from(self.phrase_limit).unwrap_or(0);
        for (name, value, min, max) in [
            ("phrase_limit", limit, 1, 1_000_000),
            ("page_bytes_max", self.page_bytes_max, 1024, GIB),
            ("size_max", self.size_max, 0, 1 << 50),
            ("scan_bytes_max", self.scan_bytes_max, 1024, GIB),
            ("scan_seconds_max", self.scan_seconds_max, 1, 600),
            ("trickle_after_seconds", self.trickle_after_seconds, 0, 600),
            ("trickle_every_seconds", self.trickle_every_seconds, 1, 600),
            ("trickle_bytes", self.trickle_bytes, 1, 1 << 20),
            ("held_back_bytes", self.held_back_bytes, 1024, GIB),
            ("all_held_bytes_max", self.all_held_bytes_max, 1 << 20, 1 << 40),
            ("ratio_max", self.ratio_max, 10, 100_000),
            ("judge_milliseconds_max", self.judge_milliseconds_max, 10, 60_000),
        ] {
            if value < min || value > max {
                return Err(ContentSettingsError::Bounds { name, value, min, max });
            }
        }
        self.check_names()
    }

    /// Bytes of one response that may be held back: the proxy's `limits.held_bytes_max` must not be
    /// less, or it cuts before these settings have their say.
    pub fn held_bytes_needed(&self) -> u64 {
        self.page_bytes_max.max(self.scan_bytes_max)
    }

    fn check_names(&self) -> Result<(), ContentSettingsError> {
        let is_type = |text: &String| {
            let is_mark = |b: u8| b"!#$&^_.+-".contains(&b);
            let is_name = |part: &str| {
                !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || is_mark(b))
            };
            text.split_once('/').is_some_and(|(a, b)| is_name(a) && (b == "*" || is_name(b)))
        };
        if let Some(wrong) = self.page_types.iter().find(|text| !is_type(text)) {
            return Err(ContentSettingsError::Type("page_types", wrong.clone()));
        }
        let is_known = |text: &String| is_type(text) || GROUPS.contains(&&**text);
        if let Some(wrong) = self.blocked_types.iter().find(|text| !is_known(text)) {
            return Err(ContentSettingsError::Type("blocked_types", wrong.clone()));
        }
        let is_odd = |c: char| c.is_whitespace() || c.is_control() || "/\\*?;,".contains(c);
        let is_wrong =
            |text: &&String| text.is_empty() || text.starts_with('.') || text.contains(is_odd);
        if let Some(wrong) = self.blocked_extensions.iter().find(is_wrong) {
            return Err(ContentSettingsError::Extension(wrong.clone()));
        }
        let is_needed = |rule: &&RemovedHeader| {
            let is_name = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
            let name = rule.header.to_ascii_lowercase();
            name.is_empty() || !name.bytes().all(is_name) || NEEDED.contains(&name.as_str())
        };
        match self.remove.iter().find(is_needed) {
            Some(wrong) => Err(ContentSettingsError::Header(wrong.header.clone())),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_within_their_bounds() {
        assert_eq!(ContentSettings::default().check(), Ok(()));
    }

    #[test]
    fn what_cannot_be_is_named() {
        for (text, error) in [
            ("phrase_limit = 0", "content.phrase_limit = 0 is out of its bounds"),
            ("scan_bytes_max = 99999999999", "content.scan_bytes_max = 99999999999 is out"),
            ("page_types = [\"html\"]", "content.page_types = \"html\" is no media type"),
            ("blocked_types = [\"exe\"]", "content.blocked_types = \"exe\" is no media type"),
            ("blocked_extensions = [\".exe\"]", "content.blocked_extensions = \".exe\": write"),
            ("blocked_extensions = [\"*.e\"]", "content.blocked_extensions = \"*.e\": write"),
            ("blocked_types = [\"video/*; x\"]", "content.blocked_types = \"video/*; x\" is no"),
            ("page_types = [\"text/htm l\"]", "content.page_types = \"text/htm l\" is no media"),
            ("remove = [{ header = \"Host\", hosts = [\"*\"] }]", "content.remove: the field"),
            ("remove = [{ header = \"a b\", hosts = [\"*\"] }]", "content.remove: the field"),
        ] {
            let settings: ContentSettings = toml::from_str(text).unwrap();
            let found = settings.check().unwrap_err().to_string();
            assert!(found.starts_with(error), "{text}: {found}");
        }
        let fine = "blocked_types = [\"program\", \"video/*\"]\nyoutube = \"strict\"";
        let settings: ContentSettings = toml::from_str(fine).unwrap();
        assert_eq!(settings.check(), Ok(()));
    }
}
