//! `gauntlet policy explain URL`: which web rules match.

use std::io::Write;
use std::net::IpAddr;
use std::path::Path;
use std::process::ExitCode;
use std::time::SystemTime;

use anyhow::{Context, bail};
use gauntlet_gateway::config::Config;
use gauntlet_mail::url::canonical;
use gauntlet_policy::Policy;
use gauntlet_policy::web::{WebExplanation, WebInput};
use gauntlet_policy::web_rules::{QuotaUse, WebQuota};
use gauntlet_proxy::destination::Reach;
use gauntlet_proxy::policy_judge::listed;
use gauntlet_proxy::quotas::Quotas;
use gauntlet_web::release::{Asked, WebExceptions};
use gauntlet_web::{DNS_SCHEME, RequestKind, WebAction, WebItem, WebResponse};
use serde_json::json;

use crate::url_lists;
use crate::web::{LOG_FOLDER, quota_file};

/// What is known of the request beside its URL.
#[derive(Debug, clap::Args)]
pub(super) struct RequestArgs {
    /// Of a URL: the client's address
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    client: IpAddr,
    /// Of a URL: the client's login
    #[arg(long, value_name = "LOGIN")]
    user: Option<String>,
    /// Of a URL: the method; CONNECT is a tunnel
    #[arg(long, default_value = "GET")]
    method: String,
    /// Of a URL: the response's type, to try rules about responses, too
    #[arg(long, value_name = "TYPE")]
    content_type: Option<String>,
}

/// What is asked for is a URL, or was meant as one, and no file: [`explain`] says how to write it.
pub(super) fn is_url(text: &str) -> bool {
    has_scheme(text) || (is_like_host(text) && !Path::new(text).exists())
}

fn has_scheme(text: &str) -> bool {
    text.starts_with("http://") || text.starts_with("https://")
}

/// `evil.example`, `evil.example:443`, `dns:evil.example`; a message that is not there is none.
fn is_like_host(text: &str) -> bool {
    let rest = text.strip_prefix(DNS_SCHEME).unwrap_or(text);
    let is_plain = |c: char| c.is_alphanumeric() || "-._:[]".contains(c);
    let has_form = rest.contains(['.', ':']) && rest.chars().all(is_plain);
    let is_message = Path::new(text).extension().is_some_and(|end| end == "eml");
    has_form && !is_message && canonical(&format!("https://{rest}/")).is_some()
}

/// Says what would be done with a request for this URL, and why.
///
/// # Errors
/// It is no URL, or a list of the configuration cannot be opened.
pub(super) fn explain(
    text: &str,
    request: &RequestArgs,
    (policy, config, exceptions): (&Policy, &Config, &WebExceptions),
    json: bool,
) -> anyhow::Result<ExitCode> {
    if !has_scheme(text) {
        let host = text.strip_prefix(DNS_SCHEME).unwrap_or(text);
        bail!(
            "{text:?}: no such file; for a web request write https://{host}/ (of a tunnel with \
             --method CONNECT)"
        );
    }
    let url = canonical(text).with_context(|| format!("{text:?} is no URL with a host"))?;
    let lists = url_lists::open(&config.url_list)?.lists;
    let matches = lists.look_up(&url);
    let listed = listed(&matches);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let kind = match request.method.as_str() {
        "CONNECT" => RequestKind::Tunnel,
        _ => RequestKind::Plain,
    };
    let default_port = if url.scheme() == "https" { 443 } else { 80 };
    let response = request.content_type.as_deref();
    let item = WebItem {
        at: i64::try_from(now.as_secs()).unwrap_or(0),
        client: request.client,
        user: request.user.as_deref(),
        method: &request.method,
        kind,
        url: &url,
        port: url.port().unwrap_or(default_port),
        listed: &listed,
        user_agent: None,
        response: response.map(|kind| WebResponse {
            status: 200,
            content_type: Some(kind),
            bytes: None,
        }),
    };
    let used = used(&item, policy, config);
    let explained = policy.explain_web(&WebInput { item: &item, continued: &[], used: &used });
    let found: Vec<String> =
        listed.iter().map(|l| format!("{}: {}: {}", l.list, l.category, l.pattern)).collect();
    let asked = Asked {
        url: &url,
        is_tunnel: kind == RequestKind::Tunnel,
        client: request.client,
        user: request.user.as_deref(),
        now_ms: i64::try_from(now.as_millis()).unwrap_or(0),
    };
    let released = exceptions
        .find(&asked)
        .map(|exception| format!("{} by {}: {}", exception.rule(), exception.by, exception.target));
    let refused = refused(&item, config);
    // Lists are asked for what a name is looked up to, too, but only when somebody asks for it.
    let is_name = url.host().trim_matches(['[', ']']).parse::<IpAddr>().is_err();
    let has_unseen = is_name && config.proxy.listed_addresses && !config.url_list.is_empty();
    let besides = Besides { listed: &found, released: released.as_deref(), refused, has_unseen };
    print(url.as_str(), &besides, &explained, json)
}

/// What is said beside the rules.
struct Besides<'a> {
    /// Entries of lists.
    listed: &'a [String],
    released: Option<&'a str>,
    refused: Option<String>,
    /// Lists may have addresses of the host, which are not looked up.
    has_unseen: bool,
}

/// Why the proxy refuses the request by its settings, whatever the policy says. Addresses of names
/// are not looked up.
fn refused(item: &WebItem<'_>, config: &Config) -> Option<String> {
    if let Err(setting) = config.proxy.check_port(item.kind, item.port) {
        return Some(format!("port {} is not one of proxy.{setting}", item.port));
    }
    let address: IpAddr = item.url.host().trim_matches(['[', ']']).parse().ok()?;
    let is_reached = Reach::new(config.proxy.networks().ok()?).allows(address);
    (!is_reached).then(|| format!("{address} is private, and in none of proxy.private_networks"))
}

/// What the person has used of quotas, as the node has written it last.
fn used(item: &WebItem<'_>, policy: &Policy, config: &Config) -> Vec<(String, QuotaUse)> {
    if policy.web_quotas.is_empty() {
        return Vec::new();
    }
    let quotas = Quotas::new(config.proxy.limits.quota_people_max);
    let file = config.node.data.join(LOG_FOLDER).join(quota_file::FILE);
    match quota_file::read(&file) {
        Ok(entries) => quotas.restore(entries),
        Err(error) => eprintln!("what was used of quotas is not known: {error:#}"),
    }
    let person = item.user.map_or_else(|| item.client.to_string(), str::to_owned);
    let used = |quota: &WebQuota| (quota.name.clone(), quotas.get(quota, &person, item.at));
    policy.web_quotas.iter().map(used).collect()
}

fn print(
    url: &str,
    besides: &Besides<'_>,
    explained: &WebExplanation,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let mut out = std::io::stdout().lock();
    let WebExplanation { disposition, trace } = explained;
    if json {
        let line = json!({
            "url": url, "listed": besides.listed, "released": besides.released,
            "refused": besides.refused, "disposition": disposition, "trace": trace,
        });
        writeln!(out, "{line}")?;
        return Ok(ExitCode::SUCCESS);
    }
    let text = match &disposition.action {
        WebAction::Allow => String::new(),
        WebAction::Block { text } | WebAction::Warn { text, .. } => format!(": {text}"),
        WebAction::Redirect { to } => format!(" to {to}"),
    };
    let is_blocked = matches!(disposition.action, WebAction::Block { .. } | WebAction::Warn { .. });
    if let Some(refused) = &besides.refused {
        writeln!(out, "{url}: the proxy refuses it: {refused}; by the policy alone:")?;
    }
    if let Some(released) = besides.released.filter(|_| is_blocked) {
        writeln!(out, "{url}: passes by {released}; without it:")?;
    }
    writeln!(out, "{url}: {}{text}", disposition.action.name())?;
    for entry in besides.listed {
        writeln!(out, "  listed: {entry}")?;
    }
    if besides.has_unseen {
        writeln!(out, "  not looked up: addresses and aliases of the host, which lists may have")?;
    }
    for change in &disposition.changes {
        writeln!(out, "  change: {}", serde_json::to_string(change)?)?;
    }
    if disposition.asks_response {
        writeln!(out, "  then by the response (--content-type tries it)")?;
    }
    writeln!(out, "  rules tried:")?;
    for trace in trace {
        let mark = if trace.matched { "+" } else { "-" };
        writeln!(out, "  {mark} {}  ({})", trace.rule, trace.because)?;
    }
    Ok(ExitCode::SUCCESS)
}
