//! Who was warned, and who goes on after a warning: bounded tables in memory. A restart forgets
//! them, and people are asked once more.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Pages with a form that may be sent.
const OPEN_MAX: usize = 10_000;
/// For how long a form may be sent.
const OPEN_FOR: Duration = Duration::from_secs(3_600);
/// People who go on; the oldest is asked again.
const GOING_ON_MAX: usize = 100_000;

/// A page with a form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Open {
    /// Who got it: a login, else an address.
    pub(crate) person: String,
    /// The rule that warned.
    pub(crate) rule: String,
    /// The site that it warned of.
    pub(crate) site: String,
    /// Where the person wanted to go.
    pub(crate) url: String,
    pub(crate) minutes: u32,
}

/// Who goes on, where, and what had warned.
type GoingOn = (String, String, String);

/// Both tables.
#[derive(Debug, Default)]
pub(crate) struct Warnings {
    tables: Mutex<Tables>,
}

#[derive(Debug, Default)]
struct Tables {
    open: HashMap<String, (Open, Instant)>,
    /// Tokens in the order in which they were made.
    order: VecDeque<String>,
    going_on: HashMap<(String, String), Vec<(String, Instant)>>,
    going_on_order: VecDeque<GoingOn>,
}

impl Warnings {
    /// Notes a page with a form under this token, which nobody can guess.
    pub(crate) fn open(&self, token: String, open: Open, now: Instant) {
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        while tables.order.len() >= OPEN_MAX {
            if let Some(oldest) = tables.order.pop_front() {
                tables.open.remove(&oldest);
            }
        }
        tables.order.push_back(token.clone());
        tables.open.insert(token, (open, now + OPEN_FOR));
    }

    /// Takes the form of this token from the person who got it, who may then go on.
    pub(crate) fn go_on(&self, token: &str, person: &str, now: Instant) -> Option<Open> {
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        let (open, until) = tables.open.get(token)?.clone();
        if open.person != person || until < now {
            return None;
        }
        while tables.going_on_order.len() >= GOING_ON_MAX {
            if let Some((person, site, rule)) = tables.going_on_order.pop_front() {
                tables.forget(person, site, &rule);
            }
        }
        let until = now + Duration::from_secs(60 * u64::from(open.minutes));
        tables.forget(open.person.clone(), open.site.clone(), &open.rule);
        let key = (open.person.clone(), open.site.clone());
        tables.going_on.entry(key).or_default().push((open.rule.clone(), until));
        let order = (open.person.clone(), open.site.clone(), open.rule.clone());
        tables.going_on_order.push_back(order);
        Some(open)
    }

    /// Rules whose warning this person has answered for the site.
    pub(crate) fn continued(&self, person: &str, site: &str, now: Instant) -> Vec<String> {
        let tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        if tables.going_on.is_empty() {
            return Vec::new();
        }
        let rules =
            tables.going_on.get(&(person.to_owned(), site.to_owned())).into_iter().flatten();
        rules.filter(|(_, until)| *until > now).map(|(rule, _)| rule.clone()).collect()
    }
}

impl Tables {
    fn forget(&mut self, person: String, site: String, rule: &str) {
        let key = (person, site);
        if let Some(rules) = self.going_on.get_mut(&key) {
            rules.retain(|(known, _)| known != rule);
            if rules.is_empty() {
                self.going_on.remove(&key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(site: &str) -> Open {
        let (person, rule) = ("ann".to_owned(), "r".to_owned());
        Open { person, rule, site: site.to_owned(), url: format!("http://{site}/"), minutes: 10 }
    }

    #[test]
    fn who_answered_goes_on_for_some_minutes() {
        let (warnings, now) = (Warnings::default(), Instant::now());
        warnings.open("t".into(), open("a.example"), now);
        let (client, other) = ("ann", "bob");
        assert_eq!(warnings.go_on("x", client, now), None, "a token that was never made");
        assert_eq!(warnings.go_on("t", other, now), None, "somebody else's");
        assert_eq!(warnings.go_on("t", client, now), Some(open("a.example")));
        assert_eq!(warnings.continued(client, "a.example", now), ["r"]);
        assert!(warnings.continued(other, "a.example", now).is_empty());
        assert!(warnings.continued(client, "b.example", now).is_empty());
        let later = now + Duration::from_secs(601);
        assert!(warnings.continued(client, "a.example", later).is_empty());
    }

    #[test]
    fn a_form_is_not_open_for_ever_and_tables_are_bounded() {
        let (warnings, now) = (Warnings::default(), Instant::now());
        warnings.open("t".into(), open("a.example"), now);
        assert_eq!(warnings.go_on("t", "ann", now + OPEN_FOR * 2), None);
        (0..OPEN_MAX + 5).for_each(|n| warnings.open(n.to_string(), open("b.example"), now));
        let tables = warnings.tables.lock().unwrap();
        assert_eq!((tables.open.len(), tables.order.len()), (OPEN_MAX, OPEN_MAX));
        assert!(!tables.open.contains_key("t"));
    }
}
