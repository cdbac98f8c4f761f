//! The web part of a report: what the proxy was asked for, what was blocked, by whom and by what.

use std::collections::BTreeMap;

use gauntlet_mail::date::{DAY_MS, day_name};
use gauntlet_store::web_log::{WebCount, WebSummary};
use serde::Serialize;

use crate::text::translatable;

/// Web requests of some days.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct WebReport {
    /// All requests.
    pub requests: u64,
    /// Those that were blocked.
    pub blocked: u64,
    /// Bytes to clients.
    pub bytes_out: u64,
    /// Day by day, oldest first; days without a request are left out.
    pub days: Vec<WebDay>,
    /// Hosts that were asked for most.
    pub hosts: Vec<WebCount>,
    /// Hosts that were blocked most.
    pub blocked_hosts: Vec<WebCount>,
    /// Clients with most requests, as far as the settings keep them.
    pub clients: Vec<WebCount>,
    /// Rules and other reasons that blocked most.
    pub rules: Vec<WebCount>,
    /// Categories of URL lists that were asked for most.
    pub categories: Vec<WebCount>,
}

/// Numbers of one day.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct WebDay {
    /// Day of UTC, `2026-11-15`.
    pub day: String,
    /// All requests.
    pub requests: u64,
    /// Those that were blocked.
    pub blocked: u64,
    /// Bytes to clients.
    pub bytes_out: u64,
}

/// How clients may stand in a report: as the setting `web.log_clients` has it now, whatever was
/// logged before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientsShown {
    /// By address.
    Address,
    /// By network.
    Network,
    /// Not at all.
    None,
}

impl ClientsShown {
    /// The one that a value of the setting means; of what is not known, nothing is shown.
    pub fn of_setting(value: &str) -> Self {
        match value.trim_matches('"') {
            "address" => ClientsShown::Address,
            "network" => ClientsShown::Network,
            _ => ClientsShown::None,
        }
    }

    fn shows(self, client: &str) -> bool {
        match self {
            ClientsShown::Address => true,
            ClientsShown::Network => client.contains('/'),
            ClientsShown::None => false,
        }
    }
}

/// A list of counts with its title, which is a phrase.
pub(crate) type Top<'a> = (&'static str, &'a [WebCount], fn(&WebCount) -> u64);

impl WebReport {
    /// The report of what was counted.
    pub fn new(summary: WebSummary, clients: ClientsShown) -> Self {
        let mut days: BTreeMap<i64, WebDay> = BTreeMap::new();
        for hour in &summary.hours {
            let number = hour.at_ms.div_euclid(DAY_MS);
            let day = days.entry(number).or_default();
            day.day = day_name(number);
            day.requests += hour.requests;
            day.blocked += hour.blocked;
            day.bytes_out += hour.bytes_out;
        }
        let mut shown = summary.clients;
        shown.retain(|client| clients.shows(&client.name));
        WebReport {
            requests: summary.requests,
            blocked: summary.blocked,
            bytes_out: summary.bytes_out,
            days: days.into_values().collect(),
            hosts: summary.hosts,
            blocked_hosts: summary.blocked_hosts,
            clients: shown,
            rules: summary.rules,
            categories: summary.categories,
        }
    }

    /// The lists with their titles, and what of each line is counted.
    pub(crate) fn tops(&self) -> [Top<'_>; 5] {
        [
            (translatable("Top sites"), &self.hosts, |count| count.requests),
            (translatable("Top blocked sites"), &self.blocked_hosts, |count| count.blocked),
            (translatable("Top clients"), &self.clients, |count| count.requests),
            (translatable("Blocked by"), &self.rules, |count| count.blocked),
            (translatable("Top categories"), &self.categories, |count| count.requests),
        ]
    }
}

/// The rule that decided, of several in a line of the log.
pub(crate) fn name(count: &WebCount) -> &str {
    count.name.lines().next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use gauntlet_store::web_log::WebHour;

    use super::*;

    #[test]
    fn hours_become_days_and_clients_are_shown_as_the_setting_says() {
        let hour = |at_ms| WebHour { at_ms, requests: 3, blocked: 1, bytes_out: 10 };
        let client = |name: &str| WebCount { name: name.to_owned(), ..WebCount::default() };
        let summary = WebSummary {
            hours: vec![hour(0), hour(3_600_000), hour(DAY_MS)],
            clients: vec![client("10.0.0.1"), client("10.0.0.0/24")],
            ..WebSummary::default()
        };
        let report = |setting| WebReport::new(summary.clone(), ClientsShown::of_setting(setting));
        let days: Vec<_> = report("\"address\"").days;
        assert_eq!((days.len(), days[0].requests, days[0].day.as_str()), (2, 6, "1970-01-01"));
        assert_eq!(report("\"address\"").clients.len(), 2);
        assert_eq!(report("\"network\"").clients, [client("10.0.0.0/24")]);
        assert!(report("\"none\"").clients.is_empty() && report("").clients.is_empty());
    }
}
