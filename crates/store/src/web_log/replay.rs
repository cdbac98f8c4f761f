//! Policy replay over the web log: which requests of the last days a policy would have decided
//! otherwise.
//!
//! Bounded in memory however many requests there were: changes are counted by what decided before
//! and now, with the hosts and clients that they concern and a few examples of each.

mod report;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;

use gauntlet_mail::CanonicalUrl;
use gauntlet_mail::url::canonical;
use gauntlet_policy::Policy;
use gauntlet_policy::web::replay::{PastClient, PastRequest, WebReplay, WebReplayed};
use gauntlet_policy::web_rules::WebRule;
use gauntlet_web::{
    DNS_SCHEME, Listed, OWN_PATHS, RELEASED_ACTION, RequestKind, WebAction, WebChange,
    WebDisposition, WebItem, WebOutcome, WebRecord, WebResponse,
};

use super::query::{self, WebQuery, WebRow};
use crate::error::StoreError;
use crate::replay::Progress;

pub use self::report::{WebChanged, WebExample, WebName, WebReplayReport};

/// Requests read from the log at once.
const PAGE: usize = 500;

/// What says which lists have a URL; behind a trait because stores know no lists.
pub trait UrlLookUp {
    /// Entries that count.
    fn listed<'a>(&'a self, url: &CanonicalUrl) -> Vec<Listed<'a>>;

    /// Entries that count of an address that the URL's host was looked up to.
    fn listed_at<'a>(&'a self, url: &CanonicalUrl, address: SocketAddr) -> Vec<Listed<'a>>;
}

/// No lists at all.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoLists;

impl UrlLookUp for NoLists {
    fn listed<'a>(&'a self, _url: &CanonicalUrl) -> Vec<Listed<'a>> {
        Vec::new()
    }

    fn listed_at<'a>(&'a self, _url: &CanonicalUrl, _address: SocketAddr) -> Vec<Listed<'a>> {
        Vec::new()
    }
}

/// What to replay, over which requests.
#[derive(Clone, Copy)]
pub struct WebReplayRequest<'a> {
    /// The policy to test.
    pub policy: &'a Policy,
    /// The policy that was in force.
    pub before: &'a Policy,
    /// The lists of URLs to test it with.
    pub lists: &'a dyn UrlLookUp,
    /// Requests at or after this Unix time in milliseconds.
    pub since_ms: i64,
}

/// Replays a policy over the web log in a folder. `progress` is called after every page and returns
/// whether to continue; if not, the report covers the requests so far.
///
/// # Errors
/// If the log cannot be read.
pub fn replay(
    folder: &Path,
    request: &WebReplayRequest<'_>,
    mut progress: impl FnMut(Progress) -> bool,
) -> Result<WebReplayReport, StoreError> {
    let compared = WebReplay::new(request.policy, request.before);
    let mut report = WebReplayReport::default();
    for (rule, field) in compared.not_replayable() {
        report.not_replayable.insert(rule.to_owned(), field.to_owned());
    }
    let mut query =
        WebQuery { since_ms: Some(request.since_ms), limit: PAGE, ..WebQuery::default() };
    loop {
        let page = query::search(folder, &query)?;
        for row in &page.requests {
            replay_request(&compared, request, row, &mut report);
        }
        let reached_ms = page.requests.last().map_or(request.since_ms, |row| row.record.at_ms);
        let go_on = progress(Progress { items: report.requests, reached_ms });
        match page.next {
            Some(next) if go_on => query.after = Some(next),
            Some(_) => {
                report.reached_ms = Some(reached_ms);
                break;
            }
            None => break,
        }
    }
    report.finish();
    Ok(report)
}

/// What was decided, or would be.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Decided {
    /// A name of [`WebAction`].
    action: String,
    /// Empty if no rule decided.
    rule: String,
}

/// Decides about one request again.
fn replay_request(
    compared: &WebReplay<'_>,
    request: &WebReplayRequest<'_>,
    row: &WebRow,
    report: &mut WebReplayReport,
) {
    let record = &row.record;
    report.requests += 1;
    let rules: Vec<String> = record.rule.lines().map(str::to_owned).collect();
    let (Some(target), Some(was)) = (target(record), was(record, request.before, &rules)) else {
        report.not_asked += 1;
        return;
    };
    let kept = record.listed.iter().flatten();
    let mut listed = request.lists.listed(&target.url);
    // What lists said of a path that is not kept, only the log knows.
    if !target.has_path {
        let kept = kept.map(|l| (l.list.as_str(), l.category.as_str(), String::new()));
        listed.extend(kept.map(|(list, category, pattern)| Listed { list, category, pattern }));
    }
    let client = client(&record.client);
    let address = record.client.parse().ok();
    let answered = was.action == "allow" && rules.first().is_some_and(|r| warns(request, r));
    let past = PastRequest {
        item: WebItem {
            at: record.at_ms.div_euclid(1_000),
            client: address.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
            user: Some(record.user.as_str()).filter(|user| !user.is_empty()),
            method: &record.method,
            kind: target.kind,
            url: &target.url,
            port: target.port,
            listed: &listed,
            user_agent: None,
            response: response(record),
        },
        client,
        has_path: target.has_path,
        has_lists: target.has_path || record.listed.is_some(),
        has_size: record.action.is_some(),
        rules: Some(&rules),
        answered: rules.first().map(String::as_str).filter(|_| answered),
    };
    match decide(compared, request.lists, &past, &record.server_address) {
        WebReplayed::Unknown { rule, field } => report.add_unknown(rule, field),
        WebReplayed::Decided(now) => {
            let has_passed = now.action == WebAction::Allow && record.action.is_some();
            let has_other_changes = has_passed
                && changes(request.before, &rules) != changes(request.policy, &now.rules);
            report.add(row, was, decided(now, request.policy), has_other_changes);
        }
    }
}

/// What the policy decides; what it would let through, once more with what lists say of the address
/// that the proxy had looked up.
fn decide(
    compared: &WebReplay<'_>,
    lists: &dyn UrlLookUp,
    past: &PastRequest<'_>,
    server: &str,
) -> WebReplayed {
    let first = compared.decide(past);
    let passes = matches!(&first, WebReplayed::Decided(d) if d.action == WebAction::Allow);
    let Some(address) = server.parse().ok().filter(|_| passes) else { return first };
    let of_address = lists.listed_at(past.item.url, SocketAddr::new(address, past.item.port));
    if of_address.is_empty() {
        return first;
    }
    let listed: Vec<Listed<'_>> = past.item.listed.iter().cloned().chain(of_address).collect();
    let item = WebItem { listed: &listed, ..past.item };
    compared.decide(&PastRequest { item, ..*past })
}

fn warns(request: &WebReplayRequest<'_>, name: &str) -> bool {
    let rule = request.before.web.iter().find(|rule| rule.name == name);
    rule.is_some_and(|rule| matches!(rule.action, Some(WebAction::Warn { .. })))
}

/// Where a request went.
struct Target {
    url: CanonicalUrl,
    port: u16,
    kind: RequestKind,
    has_path: bool,
}

/// None if the record names no host, or is about a page of the proxy's own.
fn target(record: &WebRecord) -> Option<Target> {
    if record.method == "CONNECT" {
        let url = canonical(&format!("https://{}", record.url))?;
        let port = record.url.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
        let port = port.unwrap_or(443);
        // Of a tunnel nobody knows a path, so that nothing is missing.
        return Some(Target { url, port, kind: RequestKind::Tunnel, has_path: true });
    }
    if let Some(name) = record.url.strip_prefix(DNS_SCHEME) {
        let name = name.split('?').next().unwrap_or_default();
        let url = canonical(&format!("https://{name}"))?;
        return Some(Target { url, port: 0, kind: RequestKind::Lookup, has_path: true });
    }
    let url = canonical(&record.url)?;
    if url.path_and_query().starts_with(OWN_PATHS) {
        return None;
    }
    let scheme_port = if url.scheme() == "https" { 443 } else { 80 };
    let kind = match record.outcome {
        WebOutcome::Tunnel => RequestKind::Upgrade,
        _ => RequestKind::Plain,
    };
    let rest = record.url.split_once("://").map_or(record.url.as_str(), |(_, rest)| rest);
    let has_path = rest.contains(['/', '?']);
    Some(Target { port: url.port().unwrap_or(scheme_port), url, kind, has_path })
}

/// What was decided that day; none if the policy was not asked, or an administrator had released
/// it.
fn was(record: &WebRecord, before: &Policy, rules: &[String]) -> Option<Decided> {
    let first = rules.first().map(String::as_str).unwrap_or_default();
    let known = before.web.iter().find(|rule| rule.name == first);
    let decides = known.is_none_or(|rule| rule.action.is_some());
    let rule = |is_decided: bool| match is_decided {
        true => first.to_owned(),
        false => String::new(),
    };
    if let Some(action) = record.action.as_deref() {
        if action == RELEASED_ACTION {
            return None;
        }
        let blocks = |rule: &WebRule| {
            let action = &rule.action;
            matches!(action, Some(WebAction::Block { .. } | WebAction::Warn { .. }))
        };
        // Blocked after the request was allowed: by a rule about responses, or by what looks into
        // content, which is not the policy's.
        let is_late = record.outcome == WebOutcome::Blocked && action == "allow";
        if is_late && known.is_some_and(|rule| rule.asks_response() && blocks(rule)) {
            return Some(Decided { action: "block".to_owned(), rule: first.to_owned() });
        }
        // A rule of an older policy may have any name; of requests that pass, one that is not known
        // may not have decided.
        let is_decided = decides && (known.is_some() || action != "allow");
        return (!action.is_empty())
            .then(|| Decided { action: action.to_owned(), rule: rule(is_decided) });
    }
    // Days of older versions: by how it ended.
    let action = match (record.outcome, known.and_then(|rule| rule.action.as_ref())) {
        (
            WebOutcome::Blocked,
            Some(action @ (WebAction::Block { .. } | WebAction::Warn { .. })),
        ) => action.name(),
        (WebOutcome::Blocked | WebOutcome::Failed, _) => return None,
        (_, Some(action @ WebAction::Redirect { .. })) => action.name(),
        (WebOutcome::Passed | WebOutcome::Tunnel | WebOutcome::Aborted, _) => "allow",
    };
    Some(Decided { action: action.to_owned(), rule: rule(decides && known.is_some()) })
}

/// What the log says of the response; none if the client did not get the server's.
fn response(record: &WebRecord) -> Option<WebResponse<'_>> {
    let is_of_server = match record.outcome {
        WebOutcome::Passed | WebOutcome::Tunnel => true,
        WebOutcome::Aborted => record.status > 0,
        WebOutcome::Blocked | WebOutcome::Failed => false,
    };
    // A redirection by a rule came before the server was asked.
    let is_ours = record.action.as_deref() == Some("redirect");
    let kind = record.content_type.split(';').next().unwrap_or_default().trim();
    (is_of_server && !is_ours).then_some(WebResponse {
        status: record.status,
        content_type: Some(kind).filter(|kind| !kind.is_empty()),
        bytes: record.bytes_declared,
    })
}

fn client(text: &str) -> PastClient {
    match (text.contains('/'), text.parse()) {
        (true, Ok(network)) => PastClient::Network(network),
        (false, Ok(_)) => PastClient::Address,
        (_, Err(_)) => PastClient::None,
    }
}

/// What a policy decides. That a rule about responses let one pass is not in the log, either.
fn decided(now: WebDisposition, policy: &Policy) -> Decided {
    let rule = now.decided_by.unwrap_or_default();
    let is_late = policy.web.iter().any(|r| r.name == rule && r.asks_response());
    match now.action == WebAction::Allow && is_late {
        true => Decided { action: now.action.name().to_owned(), rule: String::new() },
        false => Decided { action: now.action.name().to_owned(), rule },
    }
}

/// What rules of these names change of a request; which rules about responses matched is not in
/// the log.
fn changes<'p>(policy: &'p Policy, rules: &[String]) -> Vec<&'p WebChange> {
    let matched = |rule: &&WebRule| !rule.asks_response() && rules.contains(&rule.name);
    policy.web.iter().filter(matched).flat_map(|rule| &rule.changes).collect()
}

#[cfg(test)]
mod tests;
