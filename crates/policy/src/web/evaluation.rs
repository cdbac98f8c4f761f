//! Evaluating the conditions of web rules.

use std::borrow::Cow;

use gauntlet_web::{RequestKind, WebItem};

use crate::evaluation::{All, Answer};
use crate::file::Policy;
use crate::pattern::{OneOrMany, Pattern};
use crate::web_rules::condition::{ClientCondition, ContentCondition, UrlCondition, WebCondition};
use crate::web_rules::{QuotaUse, WebQuota, WebRule};

#[derive(Clone, Copy)]
pub(super) struct Evaluation<'e> {
    pub(super) item: &'e WebItem<'e>,
    pub(super) used: &'e [(String, QuotaUse)],
    pub(super) policy: &'e Policy,
    /// The path as some servers read it; none: as most do.
    pub(super) path: Option<&'e str>,
    /// Answers say what decided them; else their texts are empty, and nothing is formatted.
    pub(super) explains: bool,
}

impl Evaluation<'_> {
    /// Whether a rule matches by one reading of the path, or, if it lets through, by each.
    pub(super) fn rule(&self, rule: &WebRule, other_paths: &[Cow<'_, str>]) -> Answer {
        let Some(when) = &rule.when else { return (true, self.always()) };
        let first = self.table(when);
        let wanted = !rule.lets_through();
        if first.0 == wanted {
            return first;
        }
        let by = |path| Evaluation { path: Some(path), ..*self }.table(when);
        other_paths.iter().map(|path| by(path)).find(|answer| answer.0 == wanted).unwrap_or(first)
    }

    /// The request counts for the quota.
    pub(super) fn counts(&self, quota: &WebQuota) -> bool {
        quota.when.as_ref().is_none_or(|when| self.table(when).0)
    }

    /// What was used of a quota that the request counts for, if it is used up.
    pub(super) fn used_up(&self, quota: &WebQuota) -> Option<QuotaUse> {
        let used = self.used.iter().find(|(name, _)| *name == quota.name)?.1;
        (quota.is_used_up(used) && self.counts(quota)).then_some(used)
    }

    /// One of the quotas is used up.
    fn quota(&self, all: &mut All, when: Option<&OneOrMany<String>>) {
        let Some(names) = when else { return };
        let asked = self.policy.web_quotas.iter().filter(|q| names.as_slice().contains(&q.name));
        let found = asked.clone().find(|quota| self.used_up(quota).is_some());
        all.and(found.is_some(), || {
            let describe = |quota: &WebQuota| {
                let used = self.used.iter().find(|(name, _)| *name == quota.name);
                quota.describe(used.map(|(_, used)| *used).unwrap_or_default())
            };
            let counts = asked.clone().any(|quota| self.counts(quota));
            match found.or_else(|| asked.clone().next()) {
                _ if !counts => "the request does not count for the quota".to_owned(),
                Some(quota) => format!("quota {}", describe(quota)),
                None => "no such quota".to_owned(),
            }
        });
    }

    fn always(&self) -> String {
        if self.explains { "always".to_owned() } else { String::new() }
    }

    fn table(&self, when: &WebCondition) -> Answer {
        let mut all = All::new(self.explains);
        if let Some(patterns) = &when.method {
            self.text(&mut all, "method", patterns, Some(self.item.method));
        }
        if let Some(wanted) = when.tunnel {
            let is_tunnel = self.item.kind == RequestKind::Tunnel;
            all.and(is_tunnel == wanted, || format!("tunnel is {is_tunnel}"));
        }
        if let Some(time) = &when.time {
            all.and(time.contains(self.item.at), || {
                format!("it is {}", time.describe(self.item.at))
            });
        }
        self.quota(&mut all, when.quota.as_ref());
        self.url(&mut all, when.url.as_ref());
        self.client(&mut all, when.client.as_ref());
        self.content(&mut all, when.content.as_ref());
        self.nested(&mut all, when);
        all.answer().unwrap_or_else(|| (true, self.always()))
    }

    /// Whether a text fits one of the patterns.
    fn text(&self, all: &mut All, name: &str, patterns: &OneOrMany<Pattern>, value: Option<&str>) {
        let found = value.and_then(|value| patterns.matching(value));
        all.and(found.is_some(), || match (value, found) {
            (None, _) => format!("no {name}"),
            (Some(value), Some(pattern)) => format!("{name} {value} fits {}", pattern.as_str()),
            (Some(value), None) => format!("{name} {value}"),
        });
    }

    fn url(&self, all: &mut All, when: Option<&UrlCondition>) {
        let (Some(when), item) = (when, self.item) else { return };
        if let Some(patterns) = &when.host {
            self.text(all, "host", patterns, Some(item.url.host()));
        }
        if let Some(patterns) = &when.path {
            let path = self.path.map_or_else(|| item.url.path_for_look_up(), Cow::Borrowed);
            self.text(all, "path", patterns, Some(&path));
        }
        if let Some(ports) = &when.port {
            all.and(ports.as_slice().contains(&item.port), || format!("port {}", item.port));
        }
        if let Some(patterns) = &when.category {
            let found = item.listed.iter().find(|l| patterns.matching(l.category).is_some());
            all.and(found.is_some(), || match found {
                Some(l) => format!("category {} ({}: {})", l.category, l.list, l.pattern),
                None if item.listed.is_empty() => "in no category".to_owned(),
                None => format!("in {} other categories", item.listed.len()),
            });
        }
        if let Some(patterns) = &when.list {
            let found = item.listed.iter().find(|l| patterns.matching(l.list).is_some());
            all.and(found.is_some(), || match found {
                Some(l) => format!("list {} ({})", l.list, l.pattern),
                None if item.listed.is_empty() => "on no list".to_owned(),
                None => format!("on {} other lists", item.listed.len()),
            });
        }
    }

    fn client(&self, all: &mut All, when: Option<&ClientCondition>) {
        let (Some(when), item) = (when, self.item) else { return };
        if let Some(networks) = &when.network {
            let fits = networks.as_slice().iter().any(|n| n.0.contains(item.client));
            all.and(fits, || format!("client {}", item.client));
        }
        if let Some(patterns) = &when.user {
            self.text(all, "login", patterns, item.user);
        }
        if let Some(groups) = &when.group {
            let is_in = |group: &&String| {
                item.user.is_some_and(|user| self.policy.groups.contains(group, user))
                    || self.policy.groups.has_address(group, item.client)
            };
            let found = groups.as_slice().iter().find(is_in);
            all.and(found.is_some(), || match found {
                Some(group) => format!("client in group {group}"),
                None => "client in none of the groups".to_owned(),
            });
        }
        if let Some(patterns) = &when.program {
            self.text(all, "program", patterns, item.user_agent);
        }
    }

    fn content(&self, all: &mut All, when: Option<&ContentCondition>) {
        let Some(when) = when else { return };
        let Some(response) = self.item.response else {
            return all.and(false, || "there is no response yet".to_owned());
        };
        if let Some(patterns) = &when.kind {
            self.text(all, "type", patterns, response.content_type);
        }
        if let Some(min) = when.size_min {
            all.and(response.bytes.is_some_and(|n| n >= min.0), || match response.bytes {
                Some(bytes) => format!("{bytes} bytes"),
                None => "no declared size".to_owned(),
            });
        }
        if let Some(statuses) = &when.status {
            let fits = statuses.as_slice().contains(&response.status);
            all.and(fits, || format!("status {}", response.status));
        }
    }

    fn nested(&self, all: &mut All, when: &WebCondition) {
        for inner in when.all.iter().flatten() {
            let (fits, because) = self.table(inner);
            all.and(fits, || because);
        }
        if let Some(any) = &when.any {
            match any.iter().map(|c| self.table(c)).find(|answer| answer.0) {
                Some((_, because)) => all.and(true, || because),
                None => all.and(false, || "none of `any`".into()),
            }
        }
        if let Some(not) = &when.not {
            let (fits, because) = self.table(not);
            all.and(!fits, || format!("not ({because})"));
        }
    }
}
