//! Quotas: how long, and how much, a person may use something in a period.

use std::fmt;

use gauntlet_mail::date::DAY_MS;
use serde::Deserialize;

use super::condition::WebCondition;
use crate::bytes::Bytes;

/// Most quotas in one policy.
pub const QUOTAS_MAX: usize = 100;
const HOUR: i64 = 3_600;
const DAY: i64 = DAY_MS / 1_000;

/// What a person may use of something in a period. A person is a login, or else an address.
#[derive(Debug, Clone, PartialEq)]
pub struct WebQuota {
    /// Unique name; rules ask for it.
    pub name: String,
    /// Which requests count; none counts all.
    pub when: Option<WebCondition>,
    /// When it begins anew.
    pub period: Period,
    /// Minutes to add to UTC, by which days and weeks begin.
    pub utc_offset_minutes: i64,
    /// Minutes of the clock in which there was a request, or bytes passed.
    pub minutes: Option<u32>,
    /// Bytes of requests and responses, both ways.
    pub bytes: Option<u64>,
    /// Line in the file, from 1.
    pub line: usize,
}

/// When a quota begins anew.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Period {
    /// With each full hour.
    Hour,
    /// At midnight.
    #[default]
    Day,
    /// At the midnight before Monday.
    Week,
}

impl Period {
    /// Seconds that it lasts.
    pub fn seconds(self) -> i64 {
        match self {
            Period::Hour => HOUR,
            Period::Day => DAY,
            Period::Week => 7 * DAY,
        }
    }
}

/// Its name, as policies write it.
impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Period::Hour => "hour",
            Period::Day => "day",
            Period::Week => "week",
        })
    }
}

/// What a person has used of a quota in its period.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QuotaUse {
    /// Minutes.
    pub minutes: u32,
    /// Bytes.
    pub bytes: u64,
}

impl WebQuota {
    /// The same without its condition: what counts is known.
    pub fn measure(&self) -> Self {
        WebQuota { name: self.name.clone(), when: None, ..*self }
    }

    /// When the period began that this Unix time is in; both in seconds.
    pub fn period_start(&self, unix: i64) -> i64 {
        let offset = self.utc_offset_minutes * 60;
        // 1 January 1970 was a Thursday.
        let offset = if self.period == Period::Week { offset + 3 * DAY } else { offset };
        let into = (unix + offset).rem_euclid(self.period.seconds());
        unix - into
    }

    /// When it begins anew, in Unix seconds.
    pub fn next_start(&self, unix: i64) -> i64 {
        self.period_start(unix) + self.period.seconds()
    }

    /// So much is all that there is.
    pub fn is_used_up(&self, used: QuotaUse) -> bool {
        self.minutes.is_some_and(|most| used.minutes >= most)
            || self.bytes.is_some_and(|most| used.bytes >= most)
    }

    /// For people: `Social media: 60 of 60 minutes and 12 MB of 500 MB this day`.
    pub fn describe(&self, used: QuotaUse) -> String {
        let minutes = self.minutes.map(|most| format!("{} of {most} minutes", used.minutes));
        let bytes = self.bytes.map(|most| format!("{} of {}", size(used.bytes), size(most)));
        let parts: Vec<String> = minutes.into_iter().chain(bytes).collect();
        format!("{}: {} this {}", self.name, parts.join(" and "), self.period)
    }

    /// For people: when it begins anew, by the clock that its days begin by.
    pub fn describe_next(&self, unix: i64) -> String {
        const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
        let local = self.next_start(unix) + self.utc_offset_minutes * 60;
        let minute = local.rem_euclid(DAY) / 60;
        let weekday = (local.div_euclid(DAY) + 3).rem_euclid(7);
        let day = usize::try_from(weekday).ok().and_then(|day| DAYS.get(day)).unwrap_or(&"");
        let zone = match self.utc_offset_minutes {
            0 => "UTC".to_owned(),
            minutes => {
                let sign = if minutes < 0 { '-' } else { '+' };
                format!("UTC{sign}{:02}:{:02}", minutes.abs() / 60, minutes.abs() % 60)
            }
        };
        format!("{day} {:02}:{:02} {zone}", minute / 60, minute % 60)
    }
}

/// `12 MB`, as policies write sizes.
fn size(bytes: u64) -> String {
    match bytes {
        n if n >= 10 << 30 => format!("{} GB", n >> 30),
        n if n >= 1 << 20 => format!("{} MB", n >> 20),
        n if n >= 10 << 10 => format!("{} KB", n >> 10),
        n => format!("{n} bytes"),
    }
}

/// A quota as TOML has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WebQuotaShape {
    name: String,
    when: Option<WebCondition>,
    #[serde(default)]
    period: Period,
    #[serde(default)]
    utc_offset_minutes: i64,
    minutes: Option<u32>,
    bytes: Option<Bytes>,
}

impl WebQuotaShape {
    /// The quota, read at this line.
    pub(crate) fn read(self, line: usize) -> WebQuota {
        WebQuota {
            name: self.name,
            when: self.when,
            period: self.period,
            utc_offset_minutes: self.utc_offset_minutes,
            minutes: self.minutes,
            bytes: self.bytes.map(|Bytes(n)| n),
            line,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quota(text: &str) -> WebQuota {
        toml::from_str::<WebQuotaShape>(text).unwrap().read(1)
    }

    #[test]
    fn periods_begin_with_the_hour_at_midnight_and_on_mondays() {
        // Thursday, 26 November 2026, 14:30:05 UTC.
        let now = 1_795_703_405;
        for (period, start, next) in [
            ("hour", 1_795_701_600, "Thu 15:00 UTC"),
            ("day", 1_795_651_200, "Fri 00:00 UTC"),
            ("week", 1_795_392_000, "Mon 00:00 UTC"),
        ] {
            let quota = quota(&format!("name = \"x\"\nminutes = 1\nperiod = \"{period}\""));
            assert_eq!(quota.period_start(now), start, "{period}");
            assert_eq!(quota.period_start(start), start);
            assert_eq!(quota.describe_next(now), next);
        }
        let ahead = quota("name = \"x\"\nminutes = 1\nutc_offset_minutes = 600");
        assert_eq!(ahead.period_start(now), 1_795_651_200 + 14 * HOUR, "their midnight");
        assert_eq!(ahead.describe_next(now), "Sat 00:00 UTC+10:00");
    }

    #[test]
    fn what_is_used_up_first_counts() {
        let quota = quota("name = \"Video\"\nminutes = 60\nbytes = \"500 MB\"");
        let used = |minutes, bytes| quota.is_used_up(QuotaUse { minutes, bytes });
        assert!(!used(59, 1) && used(60, 0) && used(0, 500 << 20));
        let text = quota.describe(QuotaUse { minutes: 60, bytes: 12 << 20 });
        assert_eq!(text, "Video: 60 of 60 minutes and 12 MB of 500 MB this day");
    }
}
