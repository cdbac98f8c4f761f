//! Conditions: data, not code. All fields of one table must hold; `all`, `any` and `not` nest.

use gauntlet_mail::NameKind;
use gauntlet_mail::date::DAY_SECONDS;
use gauntlet_mail::facts::{AuthResult, DmarcPolicy};
use gauntlet_verdict::Class;
use serde::{Deserialize, Serialize};

pub use crate::bytes::Bytes;
use crate::data_condition::DataCondition;
use crate::objects::ObjectCondition;
use crate::pattern::{OneOrMany, Pattern};

/// Deepest nesting of `all`, `any` and `not`.
pub const CONDITION_DEPTH_MAX: usize = 16;

/// One table of conditions. A field that is absent does not constrain.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Condition {
    /// Class of the verdict.
    pub class: Option<OneOrMany<Class>>,
    /// Score at least this many points.
    pub score_min: Option<f64>,
    /// Score below this many points.
    pub score_below: Option<f64>,
    /// Probability at least this (0 to 1); a verdict without one does not match.
    pub probability_min: Option<f64>,
    /// Spam above the snapshot's high threshold.
    pub explicit: Option<bool>,
    /// A rule that hit, by pattern.
    pub hit: Option<OneOrMany<Pattern>>,
    /// A defect of the message, by pattern over its name.
    pub defect: Option<OneOrMany<Pattern>>,
    /// Envelope sender; `<>` is the null sender.
    pub sender: Option<OneOrMany<Pattern>>,
    /// Group that the envelope sender is in.
    pub sender_group: Option<OneOrMany<String>>,
    /// Address of the From field.
    pub from: Option<OneOrMany<Pattern>>,
    /// Address of the recipient that is decided for.
    pub recipient: Option<OneOrMany<Pattern>>,
    /// Group that this recipient is in.
    pub recipient_group: Option<OneOrMany<String>>,
    /// Recipients of the message, at least.
    pub recipients_min: Option<usize>,
    /// Size of the message at least.
    pub size_min: Option<Bytes>,
    /// Size of the message below.
    pub size_below: Option<Bytes>,
    /// An attachment that fits all that is given.
    pub attachment: Option<AttachmentCondition>,
    /// A file, attached or found inside another, that fits all that is given.
    pub object: Option<ObjectCondition>,
    /// So many attachments, or more.
    pub attachments_min: Option<usize>,
    /// Host of any URL in the message; `*.example.org` style patterns.
    pub url_host: Option<OneOrMany<Pattern>>,
    /// A URL of the message that is on a URL list, by list and category.
    pub url: Option<ListedUrlCondition>,
    /// ISO 3166 country of the client, if known.
    pub country: Option<OneOrMany<Pattern>>,
    /// A field of the header, and what its value must be.
    pub header: Option<HeaderCondition>,
    /// Subject, with encoded words decoded.
    pub subject: Option<OneOrMany<Pattern>>,
    /// Time at which the message came.
    pub time: Option<TimeCondition>,
    /// Result of an authentication method.
    pub auth: Option<AuthCondition>,
    /// The client logged in.
    pub authenticated: Option<bool>,
    /// The connection was encrypted.
    pub tls: Option<bool>,
    /// A DNS list that names the client or a URL of the message.
    pub listed: Option<OneOrMany<Pattern>>,
    /// Messages of this sender, client or recipient in a span of time.
    pub rate: Option<RateCondition>,
    /// Language of the message (ISO 639-1, e.g. `de`): that of its text where it is known,
    /// else what its Content-Language field states (RFC 3282).
    pub language: Option<OneOrMany<Pattern>>,
    /// What data loss prevention found.
    pub dlp: Option<DataCondition>,
    /// Every one of these.
    pub all: Option<Vec<Condition>>,
    /// At least one of these.
    pub any: Option<Vec<Condition>>,
    /// The item does not meet this condition.
    pub not: Option<Box<Condition>>,
}

/// An attachment that fits all fields that are given.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AttachmentCondition {
    /// File name: any of the names of the part, in any interpretation of it.
    pub name: Option<OneOrMany<Pattern>>,
    /// What a file of any of its names does when it is opened: `program`, `shortcut`,
    /// `active_document`, `macro_document` or `disk_image`.
    #[serde(rename = "kind")]
    pub opens_as: Option<OneOrMany<NameKind>>,
    /// Declared or recognised type, e.g. `application/pdf`.
    #[serde(rename = "type")]
    pub kind: Option<OneOrMany<Pattern>>,
    /// Decoded size at least.
    pub size_min: Option<Bytes>,
    /// Encrypted, so that it cannot be scanned.
    pub encrypted: Option<bool>,
}

/// A URL that is on a list of URLs (`[[url_list]]`), and fits all fields that are given: as `url`
/// of web rules, but of one URL of many.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ListedUrlCondition {
    /// The list.
    pub list: Option<OneOrMany<Pattern>>,
    /// The category of the entry that counts.
    pub category: Option<OneOrMany<Pattern>>,
}

/// A header field by name, and what its decoded value fits (any value if none is given).
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeaderCondition {
    /// Field name, or a pattern over it.
    pub name: Pattern,
    /// Patterns over the decoded value.
    pub value: Option<OneOrMany<Pattern>>,
}

/// A time of day and days of the week, in UTC plus an offset.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimeCondition {
    /// `HH:MM`, the start; with an end before it the span goes over midnight.
    pub from: TimeOfDay,
    /// `HH:MM`, the end (not included).
    pub to: TimeOfDay,
    /// Days of the week, `mon` to `sun`; all if absent.
    #[serde(default)]
    pub days: Vec<Day>,
    /// Minutes to add to UTC.
    #[serde(default)]
    pub utc_offset_minutes: i64,
}

/// Results of authentication methods (RFC 8601 words: `pass`, `fail`, `none`, `unknown` ...).
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AuthCondition {
    /// SPF of the envelope sender.
    pub spf: Option<OneOrMany<AuthResult>>,
    /// The best result of any DKIM signature; `none` if there is none.
    pub dkim: Option<OneOrMany<AuthResult>>,
    /// DMARC of the From domain.
    pub dmarc: Option<OneOrMany<AuthResult>>,
    /// What the From domain asks receivers to do.
    pub dmarc_policy: Option<OneOrMany<DmarcPolicy>>,
    /// What came of the ARC chain (RFC 8617).
    pub arc: Option<OneOrMany<AuthResult>>,
}

/// What a rate is counted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RateKey {
    /// Messages of one envelope sender.
    Sender,
    /// By address of the client.
    Client,
    /// Messages to one recipient.
    Recipient,
}

/// At least so many messages in the last hour.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateCondition {
    /// Whose messages are counted.
    pub by: RateKey,
    /// Messages in the last hour, this one included, at least.
    pub per_hour_min: u32,
}

/// Minutes since midnight, written `HH:MM`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TimeOfDay(pub u16);

impl From<TimeOfDay> for String {
    fn from(time: TimeOfDay) -> String {
        format!("{:02}:{:02}", time.0 / 60, time.0 % 60)
    }
}

impl TryFrom<String> for TimeOfDay {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        let parts = text.split_once(':').and_then(|(h, m)| {
            let (h, m): (u16, u16) = (h.parse().ok()?, m.parse().ok()?);
            ((h < 24 && m < 60) || (h == 24 && m == 0)).then_some(h * 60 + m)
        });
        parts.map(TimeOfDay).ok_or_else(|| format!("{text:?} is no time of day; write e.g. 08:30"))
    }
}

/// A day of the week.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names say all")]
pub enum Day {
    Mon,
    Tue,
    Wed,
    Thu,
    Fri,
    Sat,
    Sun,
}

impl TimeCondition {
    /// Whether this Unix time in seconds is inside.
    pub fn contains(&self, unix: i64) -> bool {
        let (weekday, minute) = self.local(unix);
        let (from, to) = (i64::from(self.from.0), i64::from(self.to.0));
        let inside =
            if from <= to { (from..to).contains(&minute) } else { minute >= from || minute < to };
        inside && (self.days.is_empty() || self.days.iter().any(|&d| d as i64 == weekday))
    }

    /// Weekday and time of day as the condition counts them, as in `Mon 09:01`.
    pub(crate) fn describe(&self, unix: i64) -> String {
        const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
        let (weekday, minute) = self.local(unix);
        let day = usize::try_from(weekday).ok().and_then(|day| DAYS.get(day)).unwrap_or(&"");
        format!("{day} {:02}:{:02}", minute / 60, minute % 60)
    }

    /// Day of the week, from 0 for Monday, and minute of the day.
    fn local(&self, unix: i64) -> (i64, i64) {
        let local = unix + self.utc_offset_minutes * 60;
        // 1 January 1970 was a Thursday.
        let weekday = (local.div_euclid(DAY_SECONDS) + 3).rem_euclid(7);
        (weekday, local.rem_euclid(DAY_SECONDS) / 60)
    }
}

impl Condition {
    /// The conditions on objects that must hold where this one does.
    pub fn objects(&self) -> Vec<&ObjectCondition> {
        let nested = self.all.iter().flatten().flat_map(Condition::objects);
        self.object.iter().chain(nested).collect()
    }

    /// How deep `all`, `any` and `not` nest; 1 for a flat table.
    pub fn depth(&self) -> usize {
        1 + self.inner().map(Condition::depth).max().unwrap_or(0)
    }

    /// The conditions right inside this one.
    pub(crate) fn inner(&self) -> impl Iterator<Item = &Condition> {
        let lists = [&self.all, &self.any];
        lists.into_iter().flatten().flatten().chain(self.not.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        let night = TimeCondition {
            from: TimeOfDay(22 * 60),
            to: TimeOfDay(6 * 60),
            days: vec![Day::Thu],
            utc_offset_minutes: 0,
        };
        assert!(night.contains(0) && night.contains(23 * 3600) && !night.contains(12 * 3600));
        assert!(!night.contains(86_400), "that is a Friday");
        assert_eq!(night.describe(86_400 + 23 * 3600 + 61), "Fri 23:01");
        let west = TimeCondition { utc_offset_minutes: -60, ..night };
        assert_eq!((west.describe(0).as_str(), west.contains(0)), ("Wed 23:00", false));
    }
}
