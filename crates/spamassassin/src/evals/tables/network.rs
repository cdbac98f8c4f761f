//! What the rules that run look up in the DNS, found when they are loaded.

use std::collections::BTreeMap;

use gauntlet_rules::RecordType;
use gauntlet_rules::rule::{EvalCall, Rule, Test};
use gauntlet_rules::settings::Settings;

use super::EvalTables;
use crate::evals::plan::{LinkHosts, LinkLookup, LinkRules, Plan, Senders, bare_zone};
use crate::evals::template::template;
use crate::questions::Restrictions;

/// Commands that look links up in lists, with how.
const LINK_COMMANDS: [(&str, LinkLookup); 8] = [
    ("urirhsbl", LinkLookup::Domain),
    ("urirhssub", LinkLookup::Domain),
    ("uridnsbl", LinkLookup::Servers),
    ("uridnssub", LinkLookup::Servers),
    ("urinsrhsbl", LinkLookup::ServerNames { whole: false }),
    ("urinsrhssub", LinkLookup::ServerNames { whole: false }),
    ("urifullnsrhsbl", LinkLookup::ServerNames { whole: true }),
    ("urifullnsrhssub", LinkLookup::ServerNames { whole: true }),
];

/// Header fields whose addresses `check_rbl_headers` looks up by default.
const RBL_HEADERS: &str =
    "EnvelopeFrom,Reply-To,Disposition-Notification-To,X-WebmailclientIP,X-Source-IP";

/// A plan, and the test of its answer.
pub(in crate::evals) type Tested = (Plan, Option<String>);

/// The plans of all rules.
#[derive(Debug, Default)]
pub(in crate::evals) struct NetworkTables {
    /// By the set that `check_rbl` and related functions name.
    sets: BTreeMap<String, Vec<Plan>>,
    /// By the name of `urirhssub` and related lines.
    uri_queries: BTreeMap<String, Tested>,
    /// By the name of the `askdns` rule.
    templates: BTreeMap<String, Tested>,
    /// All of them, each once.
    pub(in crate::evals) plans: Vec<Plan>,
    pub(in crate::evals) links: LinkRules,
    /// Fields of `check_rbl_headers` without an argument.
    list_fields: Vec<String>,
    /// Lookups of `check_rbl` and related functions, or of `check_uridnsbl`, are switched off
    /// (`skip_rbl_checks`, `skip_uribl_checks`).
    skips: Skips,
    /// Which lookups are allowed.
    pub(in crate::evals) restrictions: Restrictions,
}

#[derive(Debug, Default)]
struct Skips {
    lists: bool,
    links: bool,
}

impl EvalTables {
    /// The same with the DNS lookups of these rules (those that run).
    #[must_use]
    pub fn with_questions<'r>(
        mut self,
        settings: &Settings,
        rules: impl Iterator<Item = &'r Rule> + Clone,
    ) -> Self {
        let fields = settings.last("rbl_headers").unwrap_or(RBL_HEADERS);
        let mut network = NetworkTables {
            links: link_rules(settings),
            list_fields: names(fields),
            skips: Skips {
                lists: settings.flag("skip_rbl_checks", false),
                links: settings.flag("skip_uribl_checks", false),
            },
            restrictions: Restrictions::from_settings(settings),
            ..Default::default()
        };
        let queries = uri_queries(settings, &flags(rules.clone()));
        for rule in rules {
            match &rule.test {
                Test::Eval { call, .. } => network.add_call(rule, call, &queries),
                Test::AskDns { query, kinds, filter } => {
                    let plan = Plan::Template {
                        pieces: template(query),
                        kinds: kinds.clone(),
                        status: filter.as_deref().is_some_and(|f| f.starts_with('[')),
                    };
                    network.plan(&plan);
                    network.templates.insert(rule.name.to_string(), (plan, filter.clone()));
                }
                _ => {}
            }
        }
        self.network = network;
        self
    }

    /// The plans of a set.
    pub(in crate::evals) fn set(&self, set: &str) -> &[Plan] {
        self.network.sets.get(set).map_or(&[], Vec::as_slice)
    }

    pub(in crate::evals) fn uri_query(&self, name: &str) -> Option<&Tested> {
        self.network.uri_queries.get(name)
    }

    pub(in crate::evals) fn template(&self, rule: &str) -> Option<&Tested> {
        self.network.templates.get(rule)
    }

    /// Whether any rule has DNS questions.
    pub fn asks(&self) -> bool {
        !self.network.plans.is_empty()
    }

    /// Which names rules may look up, and which rules block lookups for a while.
    pub fn restrictions(&self) -> &Restrictions {
        &self.network.restrictions
    }
}

impl NetworkTables {
    fn plan(&mut self, plan: &Plan) {
        if !self.plans.contains(plan) {
            self.plans.push(plan.clone());
        }
    }

    fn add_call(&mut self, rule: &Rule, call: &EvalCall, queries: &BTreeMap<String, Tested>) {
        let word = |i: usize| call.args.get(i).map(String::as_str);
        let function = call.function.as_str();
        let skipped =
            if function == "check_uridnsbl" { self.skips.links } else { self.skips.lists };
        if skipped {
            return;
        }
        let zone = bare_zone(word(1));
        let only = only(|flag| rule.has_flag(flag));
        let senders = |of: Senders| Plan::Senders { of, zone: zone.clone(), only };
        let plan = match function {
            "check_rbl" | "check_rbl_txt" | "check_rbl_accreditor" => Plan::Relays {
                set: word(0).unwrap_or_default().to_owned(),
                kind: if function == "check_rbl_txt" { RecordType::Txt } else { RecordType::A },
                nice: rule.has_flag("nice"),
                accreditor: (function == "check_rbl_accreditor")
                    .then(|| word(3).unwrap_or_default().to_ascii_lowercase()),
                zone,
            },
            "check_rbl_from_host" => senders(Senders::FromHost),
            "check_rbl_from_domain" => senders(Senders::FromDomain),
            "check_rbl_envfrom" => senders(Senders::Envelope),
            "check_rbl_headers" => {
                let fields = word(3).map_or_else(|| self.list_fields.clone(), names);
                senders(Senders::Fields(fields))
            }
            "check_rbl_rcvd" => Plan::FirstHop { zone, only },
            "check_rbl_ns_from" => Plan::Authorities { zone },
            "check_uridnsbl" => {
                let Some((name, query)) = word(0).and_then(|name| queries.get_key_value(name))
                else {
                    return;
                };
                self.plan(&query.0);
                self.uri_queries.insert(name.clone(), query.clone());
                return;
            }
            "check_dns_sender" => return self.plan(&Plan::SenderExists),
            _ => return,
        };
        if zone_of(&plan).is_some_and(str::is_empty) {
            return;
        }
        self.plan(&plan);
        let set = self.sets.entry(word(0).unwrap_or_default().to_owned()).or_default();
        if !set.contains(&plan) {
            set.push(plan);
        }
    }
}

fn zone_of(plan: &Plan) -> Option<&str> {
    match plan {
        Plan::Relays { zone, .. }
        | Plan::Senders { zone, .. }
        | Plan::FirstHop { zone, .. }
        | Plan::Authorities { zone }
        | Plan::Links { zone, .. } => Some(zone),
        _ => None,
    }
}

/// Names between commas, without white space around them.
fn names(list: &str) -> Vec<String> {
    list.split(',').map(|field| field.trim().to_owned()).collect()
}

/// The hosts that a rule with these flags looks up.
fn only(has: impl Fn(&str) -> bool) -> LinkHosts {
    match (has("domains_only"), has("ips_only")) {
        (true, false) => LinkHosts::Names,
        (false, true) => LinkHosts::Addresses,
        _ => LinkHosts::All,
    }
}

/// Flags by the rule's name.
fn flags<'r>(rules: impl Iterator<Item = &'r Rule>) -> BTreeMap<&'r str, &'r Rule> {
    rules.map(|rule| (&*rule.name, rule)).collect()
}

/// `urirhssub NAME zone type subtest` and related lines, by name; the flags of the rule of that
/// name select the hosts.
fn uri_queries(settings: &Settings, rules: &BTreeMap<&str, &Rule>) -> BTreeMap<String, Tested> {
    let mut queries = BTreeMap::new();
    for (command, how) in LINK_COMMANDS {
        for line in settings.all(command) {
            let mut words = line.value.split_ascii_whitespace();
            let (Some(name), Some(zone)) = (words.next(), words.next()) else { continue };
            let kind = words.next().and_then(RecordType::named).unwrap_or(RecordType::A);
            let test = words.next().map(str::to_owned);
            let has = |flag: &str| rules.get(name).is_some_and(|rule| rule.has_flag(flag));
            let how = match how {
                LinkLookup::Domain if has("notrim") => LinkLookup::Host,
                LinkLookup::Servers if has("a") && has("ns") => LinkLookup::AddressesAndServers,
                LinkLookup::Servers if has("a") => LinkLookup::Addresses,
                other => other,
            };
            let only = only(has);
            let plan = Plan::Links { how, zone: bare_zone(Some(zone)), kind, only };
            queries.insert(name.to_owned(), (plan, test));
        }
    }
    queries
}

fn link_rules(settings: &Settings) -> LinkRules {
    let cleared = settings.all("clear_uridnsbl_skip_domain").iter().map(|l| l.order).max();
    let lines = settings.all("uridnsbl_skip_domain").iter();
    let kept = lines.filter(|line| cleared.is_none_or(|cleared| line.order > cleared));
    let words = kept.flat_map(|line| line.value.split_ascii_whitespace());
    LinkRules {
        skipped: words.map(str::to_ascii_lowercase).collect(),
        domains_max: settings.number("uridnsbl_max_domains", 20.0).clamp(0.0, 100.0) as usize,
        mailto: !settings.flag("uridnsbl_skip_mailto", true),
    }
}
