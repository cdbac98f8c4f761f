//! From rules as they are written to rules that can be asked.

use std::collections::BTreeMap;
use std::sync::Arc;

use gauntlet_mail::network::Network;

use super::address::AddressSet;
use super::condition::{Asked, Condition, End};
use super::service::Service;
use super::settings::{Action, PacketRule, PacketSettings};
use super::zone::Zone;
use super::{Countries, Country, Decision, Functions, Opening};
use crate::condition::TimeCondition;
use crate::suggestion::nearest;

/// Most rules of a list.
const RULES_MAX: usize = 4_096;
/// Most groups of one kind.
const GROUPS_MAX: usize = 1_024;
/// Most entries of a list, those of groups in it included.
const ENTRIES_MAX: usize = 100_000;
/// How deep groups may name groups.
const GROUP_DEPTH_MAX: usize = 8;
/// Longest name, in bytes.
const NAME_BYTES_MAX: usize = 100;
/// The name by which the default is counted; no rule may have it.
const DEFAULT_NAME: &str = "default";

/// Why rules cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {message}")]
pub struct Problem {
    /// The setting or the rule.
    pub place: String,
    /// What is wrong, and what to write.
    pub message: String,
}

/// A rule, ready to be asked.
#[derive(Debug, Clone)]
pub(super) struct Rule {
    pub(super) name: Arc<str>,
    pub(super) conditions: Vec<Condition>,
    pub(super) action: Action,
    pub(super) functions: Functions,
    pub(super) logs: bool,
    pub(super) blocks: bool,
}

/// Rules for packets, ready to be asked. The first whose conditions all hold decides.
#[derive(Debug, Clone)]
pub struct PacketPolicy {
    pub(super) rules: Vec<Rule>,
    pub(super) default: Action,
    pub(super) zones: Vec<Arc<Zone>>,
    asks_countries: bool,
}

impl PacketPolicy {
    /// Makes rules ready; none if there are no rules: everything is inspected then.
    ///
    /// # Errors
    /// All that is wrong.
    pub fn compile(settings: &PacketSettings) -> Result<Option<Self>, Vec<Problem>> {
        let mut compiler = Compiler::new(settings);
        let mut rules: Vec<Rule> = Vec::with_capacity(settings.rule.len().min(RULES_MAX));
        if settings.rule.len() > RULES_MAX {
            compiler.problem("ips.rule", format!("more than {RULES_MAX} rules"));
        }
        for (number, rule) in (1..).zip(settings.rule.iter().take(RULES_MAX)) {
            let made = compiler.rule(number, rule);
            if rules.iter().any(|earlier| earlier.name == made.name) {
                let message = "another rule has this name; names are counted by".to_owned();
                compiler.problem(&compiler.place(number, rule), message);
            }
            rules.push(made);
        }
        if !compiler.problems.is_empty() {
            return Err(compiler.problems);
        }
        if rules.is_empty() {
            return Ok(None);
        }
        let asks = |rule: &Rule| {
            rule.conditions.iter().any(|condition| matches!(condition.asked, Asked::Countries(..)))
        };
        let asks_countries = rules.iter().any(asks);
        let zones = compiler.zones.into_values().collect();
        Ok(Some(PacketPolicy { rules, default: settings.default, zones, asks_countries }))
    }

    /// Decides about a flow by its first packet.
    pub fn decide(&self, opening: &Opening<'_>, countries: Countries<'_>) -> Decision {
        for (place, rule) in (0..).zip(&self.rules) {
            if rule.conditions.iter().all(|condition| condition.holds(opening, countries)) {
                return Decision {
                    rule: Some(place),
                    action: rule.action,
                    functions: rule.functions,
                };
            }
        }
        Decision { rule: None, action: self.default, functions: Functions::ALL }
    }

    /// How many rules there are.
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The name of a rule, or `default`.
    pub fn name(&self, rule: Option<u16>) -> &str {
        let rule = rule.and_then(|rule| self.rules.get(usize::from(rule)));
        rule.map_or(DEFAULT_NAME, |rule| &rule.name)
    }

    /// What a rule, or the default, does.
    pub fn action(&self, rule: Option<u16>) -> Action {
        let rule = rule.and_then(|rule| self.rules.get(usize::from(rule)));
        rule.map_or(self.default, |rule| rule.action)
    }

    /// Whether its decisions are recorded.
    pub fn logs(&self, rule: Option<u16>) -> bool {
        let rule = rule.and_then(|rule| self.rules.get(usize::from(rule)));
        rule.map_or(!self.default.passes(), |rule| rule.logs)
    }

    /// Whether senders of what it refuses go into the set of the kernel's firewall.
    pub fn blocks(&self, rule: Option<u16>) -> bool {
        rule.and_then(|rule| self.rules.get(usize::from(rule))).is_some_and(|rule| rule.blocks)
    }

    /// Whether a rule asks for countries, so that a database is needed.
    pub fn asks_countries(&self) -> bool {
        self.asks_countries
    }

    /// Interfaces that zones name.
    pub fn interfaces(&self) -> Vec<&str> {
        let names = self.zones.iter().flat_map(|zone| &zone.interfaces);
        let mut names: Vec<&str> = names.map(String::as_str).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// The first interface of a zone; none if it has none.
    ///
    /// # Errors
    /// If there is no such zone.
    pub fn interface_of(&self, zone: &str) -> Result<Option<&str>, String> {
        let found = self.zones.iter().find(|known| known.name == zone);
        let found = found.ok_or_else(|| format!("there is no zone {zone:?} in [ips.zones]"))?;
        Ok(found.interfaces.first().map(String::as_str))
    }
}

/// Entries of a list, and those with `!`.
type Entries<T> = (Vec<T>, Vec<T>);

struct Compiler<'a> {
    settings: &'a PacketSettings,
    zones: BTreeMap<String, Arc<Zone>>,
    problems: Vec<Problem>,
}

impl<'a> Compiler<'a> {
    fn new(settings: &'a PacketSettings) -> Self {
        let mut compiler = Self { settings, zones: BTreeMap::new(), problems: Vec::new() };
        for (kind, count) in [
            ("ips.zones", settings.zones.len()),
            ("ips.networks", settings.networks.len()),
            ("ips.services", settings.services.len()),
            ("ips.times", settings.times.len()),
        ] {
            if count > GROUPS_MAX {
                compiler.problem(kind, format!("more than {GROUPS_MAX} entries"));
            }
        }
        // Groups that no rule uses are to be right, too.
        for (name, entries) in &settings.networks {
            compiler.networks(&format!("ips.networks.{name}"), entries);
        }
        for (name, entries) in &settings.services {
            compiler.services(&format!("ips.services.{name}"), entries);
        }
        for (name, times) in &settings.times {
            let place = format!("ips.times.{name}");
            if times.is_empty() {
                compiler.problem(&place, "is empty; write { from = \"08:00\", to = \"18:00\" }");
            }
            // Zones of the world are from 12 hours behind to 14 ahead.
            let is_zone = |time: &TimeCondition| (-720..=840).contains(&time.utc_offset_minutes);
            if !times.iter().all(is_zone) {
                compiler.problem(&place, "utc_offset_minutes are -720 to 840");
            }
        }
        for (name, zone) in &settings.zones {
            let place = format!("ips.zones.{name}");
            if zone.interface.is_empty() && zone.networks.is_empty() {
                compiler.problem(&place, "has neither `interface` nor `networks`");
            }
            let networks = match zone.networks.is_empty() {
                true => None,
                false => Some(compiler.networks(&place, &zone.networks)),
            };
            let (name, interfaces) = (name.clone(), zone.interface.clone());
            let zone = Zone { name: name.clone(), interfaces, networks };
            compiler.zones.insert(name, Arc::new(zone));
        }
        compiler
    }

    fn problem(&mut self, place: &str, message: impl Into<String>) {
        self.problems.push(Problem { place: place.to_owned(), message: message.into() });
    }

    fn place(&self, number: usize, rule: &PacketRule) -> String {
        match rule.name.is_empty() {
            true => format!("ips.rule {number}"),
            false => format!("ips.rule {:?}", rule.name),
        }
    }

    fn rule(&mut self, number: usize, rule: &PacketRule) -> Rule {
        let place = self.place(number, rule);
        if rule.name.is_empty() {
            self.problem(&place, "has no `name`; records and counters need one");
        }
        if rule.name.len() > NAME_BYTES_MAX || rule.name.chars().any(char::is_control) {
            let limit = format!("names have at most {NAME_BYTES_MAX} bytes, all printable");
            self.problem(&place, limit);
        }
        if rule.name == DEFAULT_NAME {
            self.problem(&place, "\"default\" names what no rule fits; choose another name");
        }
        let Some(action) = rule.action else {
            self.problem(&place, "has no `do`; write allow, inspect, drop or reject");
            return self.made(rule, Action::Drop, Vec::new());
        };
        if action != Action::Inspect && !rule.functions.is_empty() {
            let message =
                format!("`functions` belong to `do = \"inspect\"`, not {}", action.name());
            self.problem(&place, message);
        }
        if action.passes() && rule.block_source {
            self.problem(&place, "`block_source` belongs to `drop` and `reject`");
        }
        let conditions = self.conditions(&place, rule);
        self.made(rule, action, conditions)
    }

    fn made(&self, rule: &PacketRule, action: Action, conditions: Vec<Condition>) -> Rule {
        Rule {
            name: rule.name.as_str().into(),
            conditions,
            action,
            functions: match rule.functions.is_empty() {
                true => Functions::ALL,
                false => Functions::of(&rule.functions),
            },
            logs: rule.log.unwrap_or(!action.passes()),
            blocks: rule.block_source,
        }
    }

    fn conditions(&mut self, place: &str, rule: &PacketRule) -> Vec<Condition> {
        let mut conditions = Vec::new();
        let mut add = |asked, written: &[String]| {
            conditions.push(Condition { asked, written: written.join(", ") });
        };
        // What is cheap to ask and rules out most comes first.
        if !rule.service.is_empty() {
            let (services, others) = self.services(&format!("{place}: service"), &rule.service);
            add(Asked::Services(services, others), &rule.service);
        }
        for (end, key, entries) in [(End::From, "from", &rule.from), (End::To, "to", &rule.to)] {
            if !entries.is_empty() {
                let set = self.networks(&format!("{place}: {key}"), entries);
                add(Asked::Networks(end, set), entries);
            }
        }
        for (end, key, entries) in
            [(End::From, "from_zone", &rule.from_zone), (End::To, "to_zone", &rule.to_zone)]
        {
            if !entries.is_empty() {
                let (zones, others) = self.zones(&format!("{place}: {key}"), entries);
                add(Asked::Zones(end, zones, others), entries);
            }
        }
        for (end, key, entries) in [
            (End::From, "from_country", &rule.from_country),
            (End::To, "to_country", &rule.to_country),
        ] {
            if !entries.is_empty() {
                let (wanted, others) = self.countries(&format!("{place}: {key}"), entries);
                add(Asked::Countries(end, wanted, others), entries);
            }
        }
        if !rule.time.is_empty() {
            let mut times = Vec::new();
            for name in &rule.time {
                match self.settings.times.get(name) {
                    Some(known) => times.extend(known.iter().cloned()),
                    None => {
                        let message = no_such("time", name, self.settings.times.keys());
                        self.problem(&format!("{place}: time"), message);
                    }
                }
            }
            add(Asked::Times(times), &rule.time);
        }
        conditions
    }

    fn zones(&mut self, place: &str, entries: &[String]) -> Entries<Arc<Zone>> {
        let mut found = (Vec::new(), Vec::new());
        for entry in entries {
            let (name, list) = side(entry, &mut found);
            match self.zones.get(name) {
                Some(zone) => list.push(Arc::clone(zone)),
                None => {
                    let message = no_such("zone", name, self.settings.zones.keys());
                    self.problem(place, message);
                }
            }
        }
        found
    }

    fn countries(&mut self, place: &str, entries: &[String]) -> Entries<Country> {
        let mut found = (Vec::new(), Vec::new());
        for entry in entries {
            let (code, list) = side(entry, &mut found);
            match <[u8; 2]>::try_from(code.as_bytes()) {
                Ok(code) if code.iter().all(u8::is_ascii_uppercase) => list.push(code),
                _ => {
                    let message = format!("{code:?} is no country; write two letters, e.g. SE");
                    self.problem(place, message);
                }
            }
        }
        found
    }

    fn networks(&mut self, place: &str, entries: &[String]) -> AddressSet {
        let mut walk = Walk::new("network", "ips.networks", &self.settings.networks);
        let mut found = (Vec::new(), Vec::new());
        let read = |text: &str| match text {
            "any" => Ok(["0.0.0.0/0", "::/0"].iter().filter_map(|all| all.parse().ok()).collect()),
            text => text.parse::<Network>().map(|network| vec![network]),
        };
        walk.read(entries, &read, &mut found);
        let problem = walk.problem.take();
        if let Some(message) = problem {
            self.problem(place, message);
        }
        AddressSet::new(&found.0, &found.1)
    }

    fn services(&mut self, place: &str, entries: &[String]) -> Entries<Service> {
        let mut walk = Walk::new("service", "ips.services", &self.settings.services);
        let mut found = (Vec::new(), Vec::new());
        walk.read(entries, &|text| Service::read(text).map(|one| vec![one]), &mut found);
        let problem = walk.problem.take();
        if let Some(message) = problem {
            self.problem(place, message);
        }
        found
    }
}

/// An entry without its `!`, and the list that it belongs to.
fn side<'e, 'l, T>(entry: &'e str, lists: &'l mut Entries<T>) -> (&'e str, &'l mut Vec<T>) {
    match entry.strip_prefix('!') {
        Some(rest) => (rest.trim(), &mut lists.1),
        None => (entry.trim(), &mut lists.0),
    }
}

fn no_such<'n>(kind: &str, name: &str, known: impl Iterator<Item = &'n String>) -> String {
    let known: Vec<String> = known.cloned().collect();
    match nearest(name, known.iter().cloned()) {
        Some(near) => format!("no {kind} is called {name:?}; did you mean {near:?}?"),
        None if known.is_empty() => {
            format!("no {kind} is called {name:?}: [ips.{kind}s] has none")
        }
        None => format!("no {kind} is called {name:?}; there are {}", known.join(", ")),
    }
}

/// Reads entries, and those of the groups that they name.
struct Walk<'a> {
    kind: &'static str,
    section: &'static str,
    groups: &'a BTreeMap<String, Vec<String>>,
    /// The first that was found.
    problem: Option<String>,
    count: usize,
    depth: usize,
}

impl<'a> Walk<'a> {
    fn new(
        kind: &'static str,
        section: &'static str,
        groups: &'a BTreeMap<String, Vec<String>>,
    ) -> Self {
        Self { kind, section, groups, problem: None, count: 0, depth: 0 }
    }

    fn read<T>(
        &mut self,
        entries: &[String],
        read: &dyn Fn(&str) -> Result<Vec<T>, String>,
        found: &mut Entries<T>,
    ) {
        if self.depth > GROUP_DEPTH_MAX {
            let Self { section, kind, .. } = self;
            self.problem.get_or_insert_with(|| {
                format!(
                    "groups of [{section}] name each other more than {GROUP_DEPTH_MAX} deep; \
                     write each {kind} out"
                )
            });
            return;
        }
        for entry in entries {
            self.count += 1;
            if self.count > ENTRIES_MAX {
                self.problem.get_or_insert_with(|| format!("more than {ENTRIES_MAX} entries"));
                return;
            }
            if self.problem.is_some() {
                return;
            }
            self.entry(entry, read, found);
        }
    }

    fn entry<T>(
        &mut self,
        entry: &str,
        read: &dyn Fn(&str) -> Result<Vec<T>, String>,
        found: &mut Entries<T>,
    ) {
        let (text, is_excluded) = match entry.strip_prefix('!') {
            Some(rest) => (rest.trim(), true),
            None => (entry.trim(), false),
        };
        let groups = self.groups;
        if let Some(group) = groups.get(text) {
            let mut inner = (Vec::new(), Vec::new());
            self.depth += 1;
            self.read(group, read, &mut inner);
            self.depth -= 1;
            if is_excluded && !inner.1.is_empty() {
                self.problem.get_or_insert_with(|| {
                    format!("!{text}: a group with exclusions of its own cannot be excluded")
                });
            }
            let place = if is_excluded { &mut found.1 } else { &mut found.0 };
            place.append(&mut inner.0);
            found.1.append(&mut inner.1);
            return;
        }
        match read(text) {
            Ok(mut values) if is_excluded => found.1.append(&mut values),
            Ok(mut values) => found.0.append(&mut values),
            Err(message) => {
                let near = nearest(text, groups.keys().cloned());
                let near = near.map(|near| format!("; did you mean {near:?}?"));
                let message = format!("{message}{}", near.unwrap_or_default());
                self.problem.get_or_insert(message);
            }
        }
    }
}
