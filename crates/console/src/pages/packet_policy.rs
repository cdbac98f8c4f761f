//! The policy for packets: its rules, why a flow is decided as it is, and other rules tried on the
//! flows of kept alerts. It is changed in the configuration alone.

use std::net::{IpAddr, SocketAddr};

use axum::http::StatusCode;
use axum::response::Response;
use gauntlet_mail::date::DAY_MS;
use gauntlet_policy::packets::{
    Carried, Explanation, Opening, PacketPolicy, PacketRule, PacketSettings, Problem,
};
use gauntlet_store::AlertLog;
use gauntlet_store::alert_log::AlertQuery;
use maud::{Markup, html};

use super::alerts::{end, log};
use super::query_fields::number;
use crate::app::App;
use crate::error::RequestError;
use crate::packet_trial::{Change, Flow, Trial, no_country};
use crate::request::RequestContext;
use crate::text::{t, translatable};
use crate::{format, layout, response};

/// Days of alerts that rules are tried on by default, and at most.
const DAYS_DEFAULT: i64 = 7;
const DAYS_MAX: i64 = 100;
/// Alerts that rules are tried on, the newest first: about a second.
const ALERTS_MAX: u64 = 20_000;
/// Alerts that are read at once.
const SLICE: usize = 500;

/// Words for what is done.
const _: [&str; 4] =
    [translatable("allow"), translatable("inspect"), translatable("drop"), translatable("reject")];

/// The settings in use.
fn settings(app: &App) -> Result<PacketSettings, RequestError> {
    let none = || RequestError::NotFound(translatable("This node inspects no packets."));
    app.state.node.packet_policy().ok_or_else(none)
}

/// Rules that can be asked; none without any. What is wrong is for the person who wrote them.
fn compile(settings: &PacketSettings) -> Result<Option<PacketPolicy>, String> {
    let text = |problems: Vec<Problem>| {
        problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    PacketPolicy::compile(settings).map_err(text)
}

/// `GET /alerts/policy`: the rules, and an explanation if one is asked for.
pub(crate) fn show(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let settings = settings(app)?;
    let policy = compile(&settings).map_err(RequestError::Bad)?;
    let asked = !request.field("to").is_empty() || !request.field("from").is_empty();
    let explained = match (&policy, asked) {
        (Some(policy), true) => Some(explanation(policy, request)),
        _ => None,
    };
    let status = match explained {
        Some(Err(_)) => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    };
    let body = html! {
        (head())
        @match &policy {
            None => p { (t("There are no rules for packets ([[ips.rule]]): everything is inspected.")) },
            Some(_) => {
                (rules(&settings))
                (question(request))
                @match &explained {
                    Some(Ok(explanation)) => (explained_as(explanation)),
                    Some(Err(why)) => p.notice.poor role="alert" { (why) },
                    None => {},
                }
            }
        }
        (editor(request, &settings.to_configuration()))
    };
    Ok(page(request, status, &body))
}

fn head() -> Markup {
    html! {
        p.crumbs { a href="/alerts" { (t("Alerts")) } }
        h1 { (t("Packet policy")) }
        p.lead { (t("The first rule that fits decides about a flow by its first packet. Rules are changed in the configuration ([[ips.rule]]), and are in force after a restart.")) }
    }
}

fn page(request: &RequestContext, status: StatusCode, body: &Markup) -> Response {
    response::page(status, layout::page(request, "/alerts", t("Packet policy"), body))
}

fn rules(settings: &PacketSettings) -> Markup {
    html! {
        section.card.flush {
            h2 { (t("Rules")) }
            table.cards {
                thead { tr {
                    th.number scope="col" { (t("No.")) } th scope="col" { (t("Rule")) }
                    th scope="col" { (t("Conditions")) } th scope="col" { (t("Action")) }
                } }
                tbody {
                    @for (index, rule) in settings.rule.iter().enumerate() { tr {
                        td.number data-label=(t("No.")) { (index + 1) }
                        td data-label=(t("Rule")) {
                            a href={ "/alerts?kind=policy&text=" (format::percent(&rule.name)) } {
                                (format::plain(&rule.name))
                            }
                        }
                        td data-label=(t("Conditions")) { (conditions(rule)) }
                        td data-label=(t("Action")) {
                            @if let Some(action) = rule.action { (layout::state(action.name())) }
                        }
                    } }
                    tr {
                        td {} td data-label=(t("Rule")) { (t("no rule fits")) } td {}
                        td data-label=(t("Action")) { (layout::state(settings.default.name())) }
                    }
                }
            }
        }
    }
}

/// What a rule asks for, as it is written.
fn conditions(rule: &PacketRule) -> Markup {
    let all = [
        ("from_zone", &rule.from_zone),
        ("to_zone", &rule.to_zone),
        ("from", &rule.from),
        ("to", &rule.to),
        ("service", &rule.service),
        ("from_country", &rule.from_country),
        ("to_country", &rule.to_country),
        ("time", &rule.time),
    ];
    let set = all.into_iter().filter(|(_, values)| !values.is_empty());
    html! {
        @for (key, values) in set {
            div { code { (key) " = " (format::plain(&values.join(", "))) } }
        }
    }
}

/// The form that asks about a flow.
fn question(request: &RequestContext) -> Markup {
    let value = |name| request.field(name);
    let protocol = match value("protocol") {
        "" => "tcp",
        given => given,
    };
    html! {
        form.filter.card method="get" action="/alerts/policy" {
            h2 { (t("Which rule decides about a flow?")) }
            div.fields {
                (layout::input("from", t("From"), value("from"), "text", "192.0.2.1"))
                (layout::input("to", t("To"), value("to"), "text", "198.51.100.1:443"))
                (layout::input("protocol", t("Protocol"), protocol, "text", ""))
                (layout::input("zone", t("Zone of its interface"), value("zone"), "text", ""))
                (layout::input("to_zone", t("Zone that it goes to"), value("to_zone"), "text", ""))
            }
            div.actions { button.main type="submit" { (t("Explain")) } }
        }
    }
}

/// Address, and port if there is one.
fn address(text: &str) -> Option<(IpAddr, u16)> {
    let alone = text.parse::<IpAddr>().ok().map(|address| (address, 0));
    alone.or_else(|| text.parse::<SocketAddr>().ok().map(|both| (both.ip(), both.port())))
}

/// Why the flow of the request's fields is decided as it is, or what is wrong with them.
fn explanation(policy: &PacketPolicy, request: &RequestContext) -> Result<Explanation, String> {
    let field = |name: &str| request.field(name).trim().to_owned();
    let end = |name: &str| {
        let text = field(name);
        let hint = "an address is missing or wrong; write e.g. 192.0.2.1:80 or [2001:db8::1]:80";
        address(&text).ok_or_else(|| format!("{name} {text:?}: {hint}"))
    };
    let (from, to) = (end("from")?, end("to")?);
    let protocol = match field("protocol").to_ascii_lowercase() {
        empty if empty.is_empty() => "tcp".to_owned(),
        given => given,
    };
    let (number, carried) = Carried::read(&protocol, (from.1, to.1))?;
    if let Carried::Ports { destination: 0, .. } = carried {
        return Err(format!("to {}: {protocol} needs a port, IP:PORT", to.0));
    }
    let interface = |name: &str| match field(name) {
        empty if empty.is_empty() => Ok(None),
        zone => policy.interface_of(&zone),
    };
    let opening = Opening {
        source: from.0,
        destination: to.0,
        protocol: number,
        carried,
        incoming: interface("zone")?,
        outgoing: interface("to_zone")?,
        unix: request.now_ms.div_euclid(1_000),
    };
    Ok(policy.explain(&opening, &no_country))
}

fn explained_as(explanation: &Explanation) -> Markup {
    let zones = |names: &[String]| {
        html! {
            @if names.is_empty() { (t("no zone")) } @else { (format::plain(&names.join(", "))) }
        }
    };
    let by = html! {
        @match explanation.rule.as_str() {
            "default" => { (t("no rule fits")) }
            rule => { (format::plain(rule)) }
        }
    };
    html! {
        section.card role="status" {
            h2 { (layout::state(explanation.action)) ": " (by) }
            p {
                (t("{} from {} to {}")
                    .with(html! { code { (explanation.service) } })
                    .with(zones(&explanation.from_zones))
                    .with(zones(&explanation.to_zones)))
                @if !explanation.functions.is_empty() {
                    "; " (t("looked at by {}").with(explanation.functions.join(", ")))
                }
            }
            table.cards { tbody {
                @for report in &explanation.rules { @for failed in &report.failed { tr {
                    td { (t("not {}").with(html! { b { (format::plain(&report.rule)) } })) }
                    td { code { (failed.condition) } }
                    td { (t("is {}, not {}")
                        .with(html! { code { (format::plain(&failed.found)) } })
                        .with(html! { code { (format::plain(&failed.wanted)) } })) }
                } } }
            } }
            @for report in &explanation.near { @for failed in &report.failed {
                p.hint {
                    (layout::state(report.action)) " "
                    (t("by {} if {} were {}")
                        .with(html! { b { (format::plain(&report.rule)) } })
                        .with(html! { code { (failed.condition) } })
                        .with(html! { code { (format::plain(&failed.wanted)) } }))
                }
            } }
        }
    }
}

/// The text of rules, to be tried.
fn editor(request: &RequestContext, text: &str) -> Markup {
    html! {
        form.card method="post" action="/alerts/policy" {
            (layout::token(request))
            h2 { (t("Try other rules on kept alerts")) }
            p.hint { (t("Says what would have become of the flows that the alerts of the last days are about. Nothing is saved. Alerts keep neither interfaces nor countries: zones are told by their networks.")) }
            label { span { (t("Rules (TOML)")) }
                textarea.code name="text" rows="16" spellcheck="false" autocomplete="off"
                    autocapitalize="none" { "\n" (text) }
            }
            div.actions {
                button.main type="submit" { (t("Try on the alerts of")) }
                label.inline { span.hidden { (t("Days to try it on")) }
                    input.small type="number" name="days" min="1" max=(DAYS_MAX)
                        value=(DAYS_DEFAULT);
                    " " (t("days")) }
            }
        }
    }
}

/// `POST /alerts/policy`: what these rules would have done.
pub(crate) fn replay(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let now = compile(&settings(app)?).map_err(RequestError::Bad)?;
    let text = request.lines("text");
    let days = number(request, "days")?.unwrap_or(DAYS_DEFAULT).clamp(1, DAYS_MAX);
    let tried = PacketSettings::of_configuration(&text).and_then(|read| compile(&read));
    let (status, found) = match tried {
        Err(why) => (
            StatusCode::BAD_REQUEST,
            html! {
                p.notice.poor role="alert" { (t("These rules cannot be used.")) }
                pre.source { (why) }
            },
        ),
        Ok(tried) => {
            let since_ms = request.now_ms - days * DAY_MS;
            let (trial, cut) = try_on(log(app)?, since_ms, now.as_ref(), tried.as_ref())?;
            (StatusCode::OK, results(&trial, days, cut))
        }
    };
    let body = html! { (head()) (found) (editor(request, &text)) };
    Ok(page(request, status, &body))
}

/// Tries the rules on the alerts since then; true if there were more than are looked at.
fn try_on(
    log: &AlertLog,
    since_ms: i64,
    now: Option<&PacketPolicy>,
    tried: Option<&PacketPolicy>,
) -> Result<(Trial, bool), RequestError> {
    let mut trial = Trial::default();
    let since = Some(since_ms);
    let mut query = AlertQuery { since_ms: since, limit: SLICE, ..AlertQuery::default() };
    loop {
        let page = log.search(&query)?;
        page.alerts.iter().for_each(|row| trial.add(&row.record, now, tried));
        query.after = page.next;
        let is_full = trial.alerts + trial.others >= ALERTS_MAX;
        if query.after.is_none() || is_full {
            return Ok((trial, query.after.is_some()));
        }
    }
}

fn results(trial: &Trial, days: i64, cut: bool) -> Markup {
    html! {
        h2 { (t("Tried on {} days").with(days)) }
        @if cut {
            p.notice.poor role="status" { (t("Only the newest {} alerts were looked at.").with(format::count(ALERTS_MAX))) }
        }
        div.tiles {
            div.tile { b { (format::count(trial.alerts)) } span { (t("alerts looked at")) } }
            div.tile { b { (format::count(trial.different())) }
                span { (t("of flows that would have been decided otherwise")) } }
            div.tile { b { (format::count(trial.others)) } span { (t("about no flow of IP")) } }
        }
        @if trial.changes.is_empty() { p { (t("Nothing would have changed.")) } }
        @for ((was, would_be), found) in &trial.changes { (change(was, would_be, found)) }
    }
}

fn change(was: &(&str, String), would_be: &(&str, String), found: &Change) -> Markup {
    let decision = |(action, rule): &(&str, String)| {
        html! {
            (layout::state(action))
            @if !rule.is_empty() && rule != "default" {
                span.more { " " (t("by {}").with(format::plain(rule))) }
            }
        }
    };
    html! {
        section.card {
            h3 { (decision(was)) " → " (decision(would_be)) ": " (format::count(found.alerts)) }
            table.cards { tbody {
                @for Flow { source, destination, .. } in &found.examples { tr {
                    td data-label=(t("From")) { (end(&source.0.to_string(), source.1)) }
                    td data-label=(t("To")) { (end(&destination.0.to_string(), destination.1)) }
                } }
            } }
        }
    }
}
