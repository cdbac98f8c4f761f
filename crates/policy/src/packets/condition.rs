//! Conditions of a rule, ready to be asked.

use std::net::IpAddr;
use std::sync::Arc;

use super::address::AddressSet;
use super::service::{self, Service};
use super::zone::Zone;
use super::{Countries, Country, Opening};
use crate::condition::TimeCondition;

/// Which end of the flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    From,
    To,
}

/// What a condition asks for.
#[derive(Debug, Clone)]
pub(super) enum Asked {
    /// In one of these zones, and in none of those.
    Zones(End, Vec<Arc<Zone>>, Vec<Arc<Zone>>),
    Networks(End, AddressSet),
    /// One of these services, and none of those.
    Services(Vec<Service>, Vec<Service>),
    /// In one of these countries, and in none of those.
    Countries(End, Vec<Country>, Vec<Country>),
    Times(Vec<TimeCondition>),
}

/// A condition.
#[derive(Debug, Clone)]
pub(super) struct Condition {
    pub(super) asked: Asked,
    /// As it is written.
    pub(super) written: String,
}

impl Condition {
    /// The key of the setting.
    pub(super) fn key(&self) -> &'static str {
        match (&self.asked, self.end()) {
            (Asked::Zones(..), Some(End::To)) => "to_zone",
            (Asked::Zones(..), _) => "from_zone",
            (Asked::Networks(..), Some(End::To)) => "to",
            (Asked::Networks(..), _) => "from",
            (Asked::Countries(..), Some(End::To)) => "to_country",
            (Asked::Countries(..), _) => "from_country",
            (Asked::Services(..), _) => "service",
            (Asked::Times(_), _) => "time",
        }
    }

    fn end(&self) -> Option<End> {
        match &self.asked {
            Asked::Zones(end, ..) | Asked::Networks(end, _) | Asked::Countries(end, ..) => {
                Some(*end)
            }
            Asked::Services(..) | Asked::Times(_) => None,
        }
    }

    /// Whether it holds.
    pub(super) fn holds(&self, opening: &Opening<'_>, countries: Countries<'_>) -> bool {
        match &self.asked {
            Asked::Zones(end, zones, others) => {
                let (address, interface) = at(*end, opening);
                let is_in = |zone: &Arc<Zone>| zone.contains(address, interface);
                (zones.is_empty() || zones.iter().any(is_in)) && !others.iter().any(is_in)
            }
            Asked::Networks(end, set) => set.contains(at(*end, opening).0),
            Asked::Services(services, others) => {
                let is_it = |service: &Service| service.holds(opening);
                (services.is_empty() || services.iter().any(is_it)) && !others.iter().any(is_it)
            }
            Asked::Countries(end, wanted, others) => {
                let country = countries(at(*end, opening).0);
                let is_in = |list: &[Country]| country.is_some_and(|it| list.contains(&it));
                (wanted.is_empty() || is_in(wanted)) && !is_in(others)
            }
            Asked::Times(times) => times.iter().any(|time| time.contains(opening.unix)),
        }
    }

    /// What the flow has where the condition asks.
    pub(super) fn found(
        &self,
        opening: &Opening<'_>,
        countries: Countries<'_>,
        zones: &[Arc<Zone>],
    ) -> String {
        match &self.asked {
            Asked::Zones(end, ..) => {
                let (address, interface) = at(*end, opening);
                let of = zones.iter().filter(|zone| zone.contains(address, interface));
                let of: Vec<&str> = of.map(|zone| zone.name.as_str()).collect();
                match of.is_empty() {
                    true => "no zone".to_owned(),
                    false => of.join(", "),
                }
            }
            Asked::Networks(end, _) => at(*end, opening).0.to_string(),
            Asked::Services(..) => service::shown(opening),
            Asked::Countries(end, ..) => match countries(at(*end, opening).0) {
                Some(country) => String::from_utf8_lossy(&country).into_owned(),
                None => "unknown".to_owned(),
            },
            Asked::Times(_) => moment(opening.unix),
        }
    }
}

/// Address and interface of an end.
fn at<'a>(end: End, opening: &Opening<'a>) -> (IpAddr, Option<&'a str>) {
    match end {
        End::From => (opening.source, opening.incoming),
        End::To => (opening.destination, opening.outgoing),
    }
}

/// Day and time of day in UTC, as rules have them.
fn moment(unix: i64) -> String {
    const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
    let day = unix.div_euclid(86_400);
    let minute = unix.rem_euclid(86_400) / 60;
    // 1 January 1970 was a Thursday.
    let place = usize::try_from((day + 3).rem_euclid(7)).unwrap_or(0);
    let name = DAYS.get(place).copied().unwrap_or_default();
    format!("{name} {:02}:{:02} UTC", minute / 60, minute % 60)
}
