//! Trying another policy on web requests of the log.
//!
//! Of a request its line of the log is left. What a rule asks for and the line does not have
//! (programs, paths and clients where the settings do not keep them, the response of a request that
//! was blocked) is not known, and is never guessed: a rule that stands unchanged in the policy that
//! decided then has its answer of that day; of another the outcome is unknown where it matters.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::HashMap;

use gauntlet_mail::Network;
use gauntlet_web::{RequestKind, WebAction, WebDisposition, WebItem};

use crate::condition::TimeCondition;
use crate::file::Policy;
use crate::pattern::{OneOrMany, Pattern};
use crate::three_valued as three;
use crate::web_rules::WebRule;
use crate::web_rules::condition::{ClientCondition, ContentCondition, UrlCondition, WebCondition};

/// A field that no log has: `User-Agent` says too much of a person's machine.
const PROGRAM: &str = "client.program";

/// What a policy would have done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WebReplayed {
    /// The policy decides so.
    Decided(WebDisposition),
    /// A rule asks for something that was not kept.
    Unknown {
        /// The rule.
        rule: String,
        /// The field that it asks for, as in `client.program`.
        field: &'static str,
    },
}

/// How the log has the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PastClient {
    /// By address and login.
    Address,
    /// By its network, without login.
    Network(Network),
    /// Not at all.
    None,
}

/// What the log has of a request.
#[derive(Debug, Clone, Copy)]
pub struct PastRequest<'a> {
    /// The request and its response. Its `user_agent` is not used.
    pub item: WebItem<'a>,
    /// How its client stands there; if not by address, that of `item` means nothing.
    pub client: PastClient,
    /// Path and query are kept.
    pub has_path: bool,
    /// What the lists said is known.
    pub has_lists: bool,
    /// The declared size of the response is known.
    pub has_size: bool,
    /// The rules that matched that day, if that is known.
    pub rules: Option<&'a [String]>,
    /// The rule whose warning the client had answered.
    pub answered: Option<&'a str>,
}

/// Two policies, compared once, so that each request is quick.
#[derive(Debug)]
pub struct WebReplay<'p> {
    policy: &'p Policy,
    before: &'p Policy,
    /// Place in `before` of each rule that stands unchanged in both, by its name.
    unchanged: HashMap<&'p str, usize>,
}

impl<'p> WebReplay<'p> {
    /// Replays `policy` over requests that `before` decided on.
    pub fn new(policy: &'p Policy, before: &'p Policy) -> Self {
        let has_same_groups = policy.groups == before.groups;
        let positions = before.web.iter().enumerate().filter(|(_, old)| {
            let now = policy.web.iter().find(|rule| rule.name == old.name);
            has_same_groups && now.is_some_and(|now| now.when == old.when)
        });
        let unchanged = positions.map(|(at, rule)| (rule.name.as_str(), at)).collect();
        WebReplay { policy, before, unchanged }
    }

    /// Rules of the policy that ask for what no log has, with the field. They have an answer only
    /// where they stand unchanged, or where the rest of their conditions decides.
    pub fn not_replayable(&self) -> Vec<(&'p str, &'static str)> {
        let asks = |rule: &&WebRule| rule.when.as_ref().is_some_and(asks_program);
        self.policy.web.iter().filter(asks).map(|rule| (rule.name.as_str(), PROGRAM)).collect()
    }

    /// What the policy would have done with the request: by the request alone, then with its
    /// response, as a proxy does.
    pub fn decide(&self, past: &PastRequest<'_>) -> WebReplayed {
        let first = self.try_rules(past, Stage::Request);
        match &first {
            WebReplayed::Decided(d) if d.action == WebAction::Allow && d.asks_response => {
                self.try_rules(past, Stage::Response)
            }
            _ => first,
        }
    }

    fn try_rules(&self, past: &PastRequest<'_>, stage: Stage) -> WebReplayed {
        let mut disposition = WebDisposition::default();
        let other_paths = past.item.url.other_paths_for_look_up();
        for rule in &self.policy.web {
            if rule.asks_response() && stage == Stage::Request {
                disposition.asks_response |= disposition.decided_by.is_none();
                continue;
            }
            let missing = Cell::new("");
            let known = Known { policy: self.policy, past, path: None, missing: &missing };
            let matched = rule.when.as_ref().map_or(Some(true), |when| {
                let first = known.table(when);
                let by = |path| Known { path: Some(path), ..known }.table(when);
                let all = other_paths.iter().map(|path| by(path)).chain([first]);
                if rule.lets_through() { three::all(all) } else { three::any(all) }
            });
            match matched.or_else(|| self.recorded(rule, past)) {
                None => {
                    let (rule, field) = (rule.name.clone(), missing.get());
                    return WebReplayed::Unknown { rule, field };
                }
                Some(false) => continue,
                Some(true) => {}
            }
            disposition.rules.push(rule.name.clone());
            disposition.changes.extend(rule.changes.iter().cloned());
            if let (None, Some(action)) = (&disposition.decided_by, &rule.action) {
                let is_answered = matches!(action, WebAction::Warn { .. })
                    && past.answered == Some(rule.name.as_str());
                disposition.decided_by = Some(rule.name.clone());
                disposition.action = if is_answered { WebAction::Allow } else { action.clone() };
            }
            if rule.stop {
                break;
            }
        }
        WebReplayed::Decided(disposition)
    }

    /// The answer that an unchanged rule gave that day; none if it was not tried then. Rules that
    /// ask for the response were not tried where a rule before the response had decided.
    fn recorded(&self, rule: &WebRule, past: &PastRequest<'_>) -> Option<bool> {
        let position = *self.unchanged.get(rule.name.as_str())?;
        let rules = past.rules?;
        let matched = |rule: &WebRule| rules.contains(&rule.name);
        if matched(rule) {
            return Some(true);
        }
        let are_known = rules.iter().all(|name| self.before.web.iter().any(|r| r.name == *name));
        let stopped = self.before.web.iter().position(|r| r.stop && matched(r));
        let was_tried = !rule.asks_response() && stopped.is_none_or(|stop| position <= stop);
        (are_known && was_tried).then_some(false)
    }
}

/// What a proxy knows when rules are tried.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Request,
    Response,
}

fn asks_program(when: &WebCondition) -> bool {
    when.client.as_ref().is_some_and(|client| client.program.is_some())
        || when.inner().any(asks_program)
}

/// Conditions on what the log has.
#[derive(Clone, Copy)]
struct Known<'e> {
    policy: &'e Policy,
    past: &'e PastRequest<'e>,
    /// The path as some servers read it; none: as most do.
    path: Option<&'e str>,
    /// The last field that was asked for and is not there.
    missing: &'e Cell<&'static str>,
}

impl Known<'_> {
    fn missing(&self, field: &'static str) -> Option<bool> {
        self.missing.set(field);
        None
    }

    fn table(&self, when: &WebCondition) -> Option<bool> {
        // Every field by its name: one that is added later has to be thought of here.
        let WebCondition { url, method, tunnel, client, content, time, quota, all, any, not } =
            when;
        let item = &self.past.item;
        let fits = |patterns: &OneOrMany<Pattern>| patterns.matching(item.method).is_some();
        let is_tunnel = item.kind == RequestKind::Tunnel;
        three::all([
            method.as_ref().map_or(Some(true), |patterns| Some(fits(patterns))),
            Some(tunnel.is_none_or(|wanted| wanted == is_tunnel)),
            Some(time.as_ref().is_none_or(|time: &TimeCondition| time.contains(item.at))),
            url.as_ref().map_or(Some(true), |url| self.url(url)),
            client.as_ref().map_or(Some(true), |client| self.client(client)),
            content.as_ref().map_or(Some(true), |content| self.content(content)),
            quota.as_ref().map_or(Some(true), |names| self.quota(names)),
            three::all(all.iter().flatten().map(|when| self.table(when))),
            any.as_ref().map_or(Some(true), |any| three::any(any.iter().map(|w| self.table(w)))),
            not.as_deref().map_or(Some(true), |when| three::not(self.table(when))),
        ])
    }

    /// How much people had used is not in the log: of a request that counts for no quota it does
    /// not matter.
    fn quota(&self, names: &OneOrMany<String>) -> Option<bool> {
        let asked = self.policy.web_quotas.iter().filter(|q| names.as_slice().contains(&q.name));
        three::any(asked.map(|quota| match quota.when.as_ref().map(|when| self.table(when)) {
            Some(Some(false)) => Some(false),
            _ => self.missing("quota"),
        }))
    }

    fn url(&self, when: &UrlCondition) -> Option<bool> {
        let UrlCondition { host, path, port, category, list } = when;
        let item = &self.past.item;
        let fits = |patterns: &OneOrMany<Pattern>, text: &str| patterns.matching(text).is_some();
        let on_list = |found: bool| match found || self.past.has_lists {
            true => Some(found),
            false => self.missing("url.list"),
        };
        let path = path.as_ref().map(|patterns| match self.past.has_path {
            true => {
                let read = || item.url.path_for_look_up();
                Some(fits(patterns, &self.path.map_or_else(read, Cow::Borrowed)))
            }
            false => self.missing("url.path"),
        });
        let category = category.as_ref().map(|patterns| {
            on_list(item.listed.iter().any(|listed| fits(patterns, listed.category)))
        });
        let list = list
            .as_ref()
            .map(|patterns| on_list(item.listed.iter().any(|listed| fits(patterns, listed.list))));
        three::all([
            Some(host.as_ref().is_none_or(|patterns| fits(patterns, item.url.host()))),
            path.unwrap_or(Some(true)),
            Some(port.as_ref().is_none_or(|ports| ports.as_slice().contains(&item.port))),
            category.unwrap_or(Some(true)),
            list.unwrap_or(Some(true)),
        ])
    }

    fn client(&self, when: &ClientCondition) -> Option<bool> {
        let ClientCondition { network, user, group, program } = when;
        let item = &self.past.item;
        let is_kept = self.past.client == PastClient::Address;
        let network = network.as_ref().map(|networks| {
            three::any(networks.as_slice().iter().map(|network| self.in_network(&network.0)))
        });
        let user = user.as_ref().map(|patterns| match is_kept {
            true => Some(item.user.is_some_and(|user| patterns.matching(user).is_some())),
            false => self.missing("client.user"),
        });
        let group = group.as_ref().map(|groups| match is_kept {
            true => Some(groups.as_slice().iter().any(|group| {
                item.user.is_some_and(|user| self.policy.groups.contains(group, user))
                    || self.policy.groups.has_address(group, item.client)
            })),
            false => self.missing("client.group"),
        });
        let program = program.as_ref().map(|_| self.missing(PROGRAM));
        three::all([network, user, group, program].into_iter().flatten())
    }

    fn in_network(&self, wanted: &Network) -> Option<bool> {
        match &self.past.client {
            PastClient::Address => Some(wanted.contains(self.past.item.client)),
            PastClient::Network(kept) if wanted.covers(kept) => Some(true),
            PastClient::Network(kept) if !kept.covers(wanted) => Some(false),
            PastClient::Network(_) | PastClient::None => self.missing("client.network"),
        }
    }

    fn content(&self, when: &ContentCondition) -> Option<bool> {
        let ContentCondition { kind, size_min, status } = when;
        let Some(response) = self.past.item.response else { return self.missing("content") };
        let fits = |patterns: &OneOrMany<Pattern>| {
            response.content_type.is_some_and(|text| patterns.matching(text).is_some())
        };
        let size = size_min.map(|min| match self.past.has_size {
            true => Some(response.bytes.is_some_and(|bytes| bytes >= min.0)),
            false => self.missing("content.size_min"),
        });
        three::all([
            Some(kind.as_ref().is_none_or(fits)),
            size.unwrap_or(Some(true)),
            Some(status.as_ref().is_none_or(|all| all.as_slice().contains(&response.status))),
        ])
    }
}

#[cfg(test)]
mod tests {
    use gauntlet_mail::url::canonical;
    use gauntlet_web::{Listed, WebResponse};

    use super::*;
    use crate::groups::Groups;
    use crate::web::WebInput;

    fn policy(text: &str) -> Policy {
        Policy::parse(text, &Groups::default()).unwrap()
    }

    fn rule(name: &str, when: &str, end: &str) -> String {
        format!("[[web_rule]]\nname = \"{name}\"\nwhen = {{ {when} }}\ndo = {end}\n")
    }

    const BLOCK: &str = "{ block = \"No.\" }";

    /// A request of the log of which everything is known.
    fn past<'a>(url: &'a gauntlet_mail::CanonicalUrl, listed: &'a [Listed<'a>]) -> PastRequest<'a> {
        let item = WebItem {
            at: 1_700_000_000,
            client: [10, 1, 2, 3].into(),
            user: Some("ann"),
            method: "GET",
            kind: RequestKind::Plain,
            url,
            port: 80,
            listed,
            user_agent: None,
            response: Some(WebResponse {
                status: 200,
                content_type: Some("video/mp4"),
                bytes: Some(5_000_000),
            }),
        };
        PastRequest {
            item,
            client: PastClient::Address,
            has_path: true,
            has_lists: true,
            has_size: true,
            rules: Some(&[]),
            answered: None,
        }
    }

    fn end(text: &str, before: &str, past: &PastRequest<'_>) -> String {
        let (policy, before) = (policy(text), policy(before));
        match WebReplay::new(&policy, &before).decide(past) {
            WebReplayed::Decided(d) => d.action.name().to_owned(),
            WebReplayed::Unknown { rule, field } => format!("{rule}: {field}"),
        }
    }

    #[test]
    fn what_was_used_of_a_quota_is_not_known() {
        let quota = "[[web_quota]]\nname = \"q\"\nwhen = { url.host = \"video.example\" }\n\
                     minutes = 1\n";
        let text = format!("{quota}{}", rule("used up", "quota = \"q\"", BLOCK));
        let ends = |url: &str| {
            let url = canonical(url).unwrap();
            end(&text, "", &past(&url, &[]))
        };
        assert_eq!(ends("http://video.example/"), "used up: quota");
        assert_eq!(ends("http://other.example/"), "allow");
    }

    #[test]
    fn of_a_request_that_is_known_a_replay_decides_as_the_policy_does() {
        let url = canonical("http://www.example.org/a?b").unwrap();
        let listed = [Listed { list: "bad", category: "games", pattern: String::new() }];
        let past = past(&url, &listed);
        for when in [
            "url.host = \"*.example.org\"",
            "url.host = \"example.org\"",
            "url.path = \"/a*\"",
            "url.port = [80, 81]",
            "url.category = \"games\"",
            "url.list = \"good\"",
            "method = \"POST\"",
            "tunnel = true",
            "client.network = \"10.0.0.0/8\"",
            "client.user = \"bob\"",
            "content.type = \"video/*\"",
            "content.size_min = \"4 MB\"",
            "content.size_min = \"8 MB\"",
            "content.status = 404",
            "time = { from = \"00:00\", to = \"23:59\" }",
            "not = { url.host = \"a.example\" }",
            "any = [{ method = \"POST\" }, { url.port = 80 }]",
            "all = [{ method = \"GET\" }, { url.port = 81 }]",
        ] {
            let text = rule("r", when, BLOCK);
            let policy = policy(&text);
            let now = policy.decide_web(&WebInput { item: &past.item, continued: &[], used: &[] });
            assert_eq!(end(&text, "", &past), now.action.name(), "{when}");
        }
    }

    #[test]
    fn what_was_not_kept_is_not_guessed() {
        let url = canonical("http://www.example.org/").unwrap();
        let whole = past(&url, &[]);
        let masked = PastRequest {
            client: PastClient::Network("10.1.2.0/24".parse().unwrap()),
            has_path: false,
            has_lists: false,
            has_size: false,
            item: WebItem { response: None, ..whole.item },
            ..whole
        };
        for (when, answer) in [
            ("url.path = \"/a*\"", "r: url.path"),
            ("url.list = \"bad\"", "r: url.list"),
            ("url.category = \"bad\"", "r: url.list"),
            ("client.user = \"ann\"", "r: client.user"),
            ("client.program = \"curl*\"", "r: client.program"),
            ("client.network = \"10.0.0.0/8\"", "block"),
            ("client.network = \"10.2.0.0/16\"", "allow"),
            ("client.network = \"10.1.2.128/25\"", "r: client.network"),
            ("content.type = \"video/*\"", "r: content"),
            ("content.type = \"video/*\", url.host = \"a.example\"", "allow"),
            ("client.program = \"curl*\", url.host = \"a.example\"", "allow"),
            ("any = [{ client.program = \"curl*\" }, { method = \"GET\" }]", "block"),
            ("not = { client.program = \"curl*\" }", "r: client.program"),
        ] {
            assert_eq!(end(&rule("r", when, BLOCK), "", &masked), answer, "{when}");
        }
    }

    #[test]
    fn a_rule_that_stands_unchanged_keeps_its_answer_of_that_day() {
        let url = canonical("http://www.example.org/").unwrap();
        let curl = rule("curl", "client.program = \"curl*\"", BLOCK);
        let matched = ["curl".to_owned()];
        let of_curl = PastRequest { rules: Some(&matched), ..past(&url, &[]) };
        assert_eq!(end(&curl, &curl, &of_curl), "block");
        assert_eq!(end(&curl, &curl, &past(&url, &[])), "allow");
        let unknown = PastRequest { rules: None, ..past(&url, &[]) };
        assert_eq!(end(&curl, &curl, &unknown), "curl: client.program");
        let other = rule("curl", "client.program = \"wget*\"", BLOCK);
        assert_eq!(end(&other, &curl, &of_curl), "curl: client.program");
        let first = rule("first", "method = \"GET\"", "\"allow\"") + &curl;
        let stopped = ["first".to_owned()];
        let stopped = PastRequest { rules: Some(&stopped), ..past(&url, &[]) };
        assert_eq!(end(&curl, &first, &stopped), "curl: client.program", "it was not tried");
        let gone = ["gone".to_owned()];
        let gone = PastRequest { rules: Some(&gone), ..past(&url, &[]) };
        assert_eq!(end(&curl, &curl, &gone), "curl: client.program", "another policy decided");
        let (curl, none) = (policy(&curl), policy(""));
        assert_eq!(WebReplay::new(&curl, &none).not_replayable(), [("curl", "client.program")]);
    }

    #[test]
    fn who_answered_a_warning_goes_on() {
        let url = canonical("http://www.example.org/").unwrap();
        let text = rule("w", "method = \"GET\"", "{ warn = { text = \"Sure?\" } }");
        assert_eq!(end(&text, &text, &past(&url, &[])), "warn");
        let answered = PastRequest { answered: Some("w"), ..past(&url, &[]) };
        assert_eq!(end(&text, &text, &answered), "allow");
    }
}
