//! What the rules that run ask of the DNS, found when they are loaded.

use std::collections::{BTreeMap, HashSet};

use super::asking::{LinkHosts, LinkLookup, Piece, Plan, Senders, TAGS, template};
use super::dns::bare_zone;
use super::{EvalContext, EvalTables};
use crate::questions::{QUESTIONS_MAX, Question, RecordType};
use crate::rule::{EvalCall, Rule, Test};
use crate::settings::Settings;

/// Commands that ask lists about links, with how.
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

/// Header fields whose addresses `check_rbl_headers` asks about by default.
const RBL_HEADERS: [&str; 3] = ["EnvelopeFrom", "Reply-To", "Disposition-Notification-To"];

/// A plan, and what its answer must be.
type Tested = (Plan, Option<String>);

/// What rules ask.
#[derive(Debug, Default)]
pub(super) struct NetworkTables {
    /// By the set that `check_rbl` and its kin name.
    sets: BTreeMap<String, Vec<Plan>>,
    /// By the name of `urirhssub` and its kin.
    uri_queries: BTreeMap<String, Tested>,
    /// By the name of the `askdns` rule.
    templates: BTreeMap<String, Tested>,
    /// All of them, each once.
    plans: Vec<Plan>,
    pub(super) links: LinkRules,
}

/// Which links lists are asked about.
#[derive(Debug)]
pub(super) struct LinkRules {
    /// Domains and hosts that are never asked about.
    pub(super) skipped: HashSet<String>,
    /// Domains of one message.
    pub(super) domains_max: usize,
}

impl Default for LinkRules {
    fn default() -> Self {
        LinkRules { skipped: HashSet::new(), domains_max: 20 }
    }
}

impl EvalTables {
    /// The same, knowing what these rules (those that run) ask of the DNS.
    #[must_use]
    pub fn with_questions<'r>(
        mut self,
        settings: &Settings,
        rules: impl Iterator<Item = &'r Rule> + Clone,
    ) -> Self {
        let mut network = NetworkTables { links: link_rules(settings), ..Default::default() };
        let queries = uri_queries(settings, &flags(rules.clone()));
        for rule in rules {
            match &rule.test {
                Test::Eval { call, .. } => network.add_call(rule, call, &queries),
                Test::AskDns { query, kinds, filter } => {
                    let plan = Plan::Template { pieces: template(query), kinds: kinds.clone() };
                    network.plan(&plan);
                    network.templates.insert(rule.name.to_string(), (plan, filter.clone()));
                }
                _ => {}
            }
        }
        self.network = network;
        self
    }

    /// What the rules of a set ask.
    pub(super) fn set(&self, set: &str) -> &[Plan] {
        self.network.sets.get(set).map_or(&[], Vec::as_slice)
    }

    pub(super) fn uri_query(&self, name: &str) -> Option<&Tested> {
        self.network.uri_queries.get(name)
    }

    pub(super) fn template(&self, rule: &str) -> Option<&Tested> {
        self.network.templates.get(rule)
    }

    /// Whether rules ask anything at all.
    pub fn asks(&self) -> bool {
        !self.network.plans.is_empty()
    }

    /// What the rules ask about a message: each question once, in the order of the rules.
    pub fn questions(&self, cx: &EvalContext<'_>) -> Vec<Question> {
        let mut known = HashSet::new();
        let all = self.network.plans.iter().flat_map(|plan| plan.questions(cx));
        all.filter(|question| known.insert(question.clone())).take(QUESTIONS_MAX).collect()
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
        let zone = bare_zone(word(1));
        let plan = match call.function.as_str() {
            "check_rbl" | "check_rbl_txt" => {
                let is_text = call.function == "check_rbl_txt";
                Plan::Relays {
                    set: word(0).unwrap_or_default().to_owned(),
                    kind: if is_text { RecordType::Txt } else { RecordType::A },
                    nice: rule.has_flag("nice"),
                    zone,
                }
            }
            "check_rbl_from_host" => Plan::Senders { of: Senders::FromHost, zone },
            "check_rbl_from_domain" => Plan::Senders { of: Senders::FromDomain, zone },
            "check_rbl_envfrom" => {
                Plan::Senders { of: Senders::Fields(vec!["EnvelopeFrom".into()]), zone }
            }
            "check_rbl_headers" => {
                let named = |list: &str| list.split(',').map(|f| f.trim().to_owned()).collect();
                let default = || RBL_HEADERS.map(str::to_owned).to_vec();
                Plan::Senders { of: Senders::Fields(word(3).map_or_else(default, named)), zone }
            }
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
        Plan::Relays { zone, .. } | Plan::Senders { zone, .. } | Plan::Links { zone, .. } => {
            Some(zone)
        }
        _ => None,
    }
}

/// Flags by the rule's name.
fn flags<'r>(rules: impl Iterator<Item = &'r Rule>) -> BTreeMap<&'r str, &'r Rule> {
    rules.map(|rule| (&*rule.name, rule)).collect()
}

/// `urirhssub NAME zone type subtest` and its kin, by name; the flags of the rule of that name say
/// which hosts are asked about.
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
            let only = match (has("domains_only"), has("ips_only")) {
                (true, false) => LinkHosts::Names,
                (false, true) => LinkHosts::Addresses,
                _ => LinkHosts::All,
            };
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
    }
}

/// Tags of an `askdns` query that never have a value here.
pub(crate) fn unknown_tags(query: &str) -> Vec<String> {
    let tags = template(query).into_iter().filter_map(|piece| match piece {
        Piece::Tag(tag) if !TAGS.contains(&tag.as_str()) => Some(tag),
        _ => None,
    });
    tags.collect()
}
