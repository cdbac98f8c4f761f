//! Alerts of packets: the newest, with a filter, what the last day was about, and which rules
//! alert.

use axum::http::StatusCode;
use axum::response::Response;
use gauntlet_mail::date::DAY_MS;
use gauntlet_store::AlertLog;
use gauntlet_store::alert_log::{
    AlertCount, AlertCursor, AlertPage, AlertQuery, AlertRow, AlertSummary, RuleCount,
};
use maud::{Markup, html};

use super::query_fields::{day, number};
use crate::app::App;
use crate::error::RequestError;
use crate::node::PacketRule;
use crate::request::RequestContext;
use crate::response;
use crate::text::{Phrase, t, translatable};
use crate::{format, layout};

/// Names of each list of the summary that the page shows.
const TOP: usize = 5;
/// Days that rules are counted over.
const RULE_DAYS: i64 = 7;
/// Rules of each list of the page of rules.
const RULES_SHOWN_MAX: usize = 200;

/// Costly rules that are shown.
const COSTLY_MAX: usize = 20;

/// Kinds of alerts, for the filter.
const KINDS: [&str; 6] = [
    translatable("rule"),
    translatable("mail"),
    translatable("file"),
    translatable("url"),
    translatable("content"),
    translatable("policy"),
];
/// What became of them, for the filter.
const ACTIONS: [&str; 2] = [translatable("allowed"), translatable("blocked")];

/// The log of alerts, if the node inspects packets.
pub(crate) fn log(app: &App) -> Result<&AlertLog, RequestError> {
    let none = || RequestError::NotFound(translatable("This node inspects no packets."));
    app.state.alerts.as_deref().ok_or_else(none)
}

/// Reads a query from the fields of a request.
pub(crate) fn query(request: &RequestContext) -> Result<AlertQuery, RequestError> {
    let text = |name| request.field(name).to_owned();
    Ok(AlertQuery {
        text: text("text"),
        kind: text("kind"),
        action: text("action"),
        rule: text("rule"),
        category: text("category"),
        address: text("address"),
        protocol: text("protocol"),
        since_ms: day(request, "since")?,
        until_ms: day(request, "until")?.map(|ms| ms + DAY_MS),
        after: number(request, "after")?.map(AlertCursor),
        limit: number(request, "limit")?.unwrap_or(0),
    })
}

/// `GET /alerts`.
pub(crate) fn show(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let body = match app.state.alerts.as_deref() {
        None => html! {
            h1 { (t("Alerts")) }
            section.card.narrow {
                p { (t("This node inspects no packets.")) }
                p { (t("Add an interface to the configuration and restart the node:")) }
                pre { "[ips]\ninterface = \"eth0\"\nrules = [\"/etc/gauntlet/local.rules\"]" }
            }
        },
        Some(log) => alerts(log, request)?,
    };
    Ok(response::page(StatusCode::OK, layout::page(request, "/alerts", t("Alerts"), &body)))
}

fn alerts(log: &AlertLog, request: &RequestContext) -> Result<Markup, RequestError> {
    let query = query(request)?;
    let page = log.search(&query)?;
    let live = query.after.is_none();
    let now = request.now_ms;
    let summary = log.summary(now - DAY_MS, now)?;
    Ok(html! {
        div.title {
            h1 { (t("Alerts")) }
            a.button href="/alerts/rules" { (t("Rules that alert")) }
            a.button href="/alerts/policy" { (t("Packet policy")) }
            @if live { label.live hidden { input type="checkbox" data-live-switch checked; (t("Live")) } }
        }
        (day_of(&summary))
        (filter(request))
        (layout::stale(live))
        div id="list" data-live[live] {
            (list(&page))
            (layout::pager(request, "/alerts", page.next.map(|c| c.0)))
        }
    })
}

/// What the last 24 hours were about.
fn day_of(summary: &AlertSummary) -> Markup {
    html! {
        p.lead {
            (t("In 24 hours {} alerts, {} blocked.")
                .with(format::count(summary.alerts))
                .with(format::count(summary.blocked)))
        }
        div.tiles {
            section.card {
                h2 { (t("Rules")) }
                table { tbody {
                    @for count in summary.rules.iter().take(TOP) { tr {
                        td { (rule_link(count)) }
                        td.number { (format::count(count.alerts)) }
                    } }
                    (none(summary.rules.is_empty()))
                } }
            }
            (ends(&t("From"), &summary.sources))
            (ends(&t("To"), &summary.destinations))
        }
    }
}

fn none(is_empty: bool) -> Markup {
    html! { @if is_empty { tr { td.empty { (t("Nothing yet.")) } } } }
}

fn ends(title: &Phrase<'_>, counts: &[AlertCount]) -> Markup {
    html! {
        section.card {
            h2 { (title) }
            table { tbody {
                @for count in counts.iter().take(TOP) { tr {
                    td { a href={ "/alerts?address=" (format::percent(&count.name)) } {
                        (format::plain(&count.name))
                    } }
                    td.number { (format::count(count.alerts)) }
                } }
                (none(counts.is_empty()))
            } }
        }
    }
}

/// A rule by its message; findings by kind and class.
fn rule_link(count: &RuleCount) -> Markup {
    let (kind, class) = count.rule.split_once(' ').unwrap_or_default();
    html! {
        @if count.title.is_empty() {
            a href={ "/alerts?kind=" (format::percent(kind)) "&category=" (format::percent(class)) } {
                (format::plain(&count.rule))
            }
        } @else {
            a href={ "/alerts?rule=" (format::percent(&count.rule)) } {
                (format::plain(&count.title))
            }
            div.more { code { (format::plain(&count.rule)) } }
        }
    }
}

fn filter(request: &RequestContext) -> Markup {
    let value = |name| request.field(name);
    let search = |name, label, hint| layout::input(name, label, value(name), "search", hint);
    let day = |name, label| layout::input(name, label, value(name), "date", "");
    let fields = html! {
        (search("text", t("Part of the message"), ""))
        (search("rule", t("Rule"), "1:2019401"))
        (search("address", t("Address of an end"), "192.0.2.1"))
        (layout::select("kind", t("Kind"), value("kind"), &KINDS))
        (layout::select("action", t("Action"), value("action"), &ACTIONS))
    };
    let more = layout::More {
        names: &["category", "protocol", "since", "until"],
        fields: html! {
            (search("category", t("Class"), ""))
            (search("protocol", t("Protocol"), ""))
            (day("since", t("From day")))
            (day("until", t("To day")))
        },
    };
    layout::filter(request, "/alerts", &fields, &more, &html! {})
}

/// Alerts as a table that becomes cards where it is narrow.
fn list(page: &AlertPage) -> Markup {
    html! {
        table.cards.messages.card.flush {
            thead { tr {
                th scope="col" { (t("When")) } th scope="col" { (t("Action")) }
                th scope="col" { (t("Alert")) } th scope="col" { (t("From")) }
                th scope="col" { (t("To")) } th scope="col" { (t("Protocol")) }
            } }
            tbody {
                @for row in &page.alerts { (line(row)) }
                @if page.alerts.is_empty() {
                    tr { td.empty colspan="6" { (t("No alert matches.")) } }
                }
            }
        }
    }
}

fn line(row: &AlertRow) -> Markup {
    let r = &row.record;
    html! {
        tr {
            td.when data-label=(t("When")) { (format::time(r.at_ms)) }
            td data-label=(t("Action")) { (layout::state(action(&r.action))) }
            td.what data-label=(t("Alert")) {
                a.subject href={ "/alerts/" (row.cursor.0) } { (title(row)) }
                div.more {
                    (severity(r.severity)) " " (t(kind(&r.kind)))
                    @if !r.rule.is_empty() { " " code { (format::plain(&r.rule)) } }
                    @if !r.category.is_empty() { " " (format::plain(&r.category)) }
                }
            }
            td data-label=(t("From")) { (end(&r.source, r.source_port)) }
            td data-label=(t("To")) { (end(&r.destination, r.destination_port)) }
            td data-label=(t("Protocol")) { (format::plain(&r.protocol)) }
        }
    }
}

/// What it is about.
pub(super) fn title(row: &AlertRow) -> Markup {
    let title = format::plain(&row.record.title);
    html! { @if title.trim().is_empty() { (t("(no message)")) } @else { (title) } }
}

/// One of the kinds: what a record says is not put into words otherwise.
pub(super) fn kind(kind: &str) -> &'static str {
    KINDS.into_iter().find(|known| *known == kind).unwrap_or(KINDS[0])
}

pub(super) fn action(action: &str) -> &'static str {
    ACTIONS.into_iter().find(|known| *known == action).unwrap_or(ACTIONS[0])
}

pub(super) fn severity(severity: u8) -> Markup {
    let class = match severity {
        0 | 1 => "malware",
        2 => "spam",
        _ => "suspect",
    };
    html! { span class={ "pill class-" (class) } { (t("severity {}").with(severity)) } }
}

/// Address and port.
pub(super) fn end(address: &str, port: u16) -> Markup {
    html! {
        (format::plain(address))
        @if port > 0 { span.more { " :" (port) } }
    }
}

/// The rules that take most of the time, whether they alert or not; nothing if that is not
/// measured.
fn costly(known: &[PacketRule]) -> Markup {
    let mut rules: Vec<(&PacketRule, u64)> =
        known.iter().filter_map(|rule| Some((rule, rule.cost_ppm?))).collect();
    rules.sort_by_key(|(_, cost)| std::cmp::Reverse(*cost));
    html! {
        @if !rules.is_empty() {
            section.card.flush {
                h2 { (t("By cost")) }
                p.hint { (t("Share of the time of detection, measured on some of the packets since the start.")) }
                table.cards {
                    thead { tr {
                        th scope="col" { (t("Rule")) } th.number scope="col" { (t("Share")) }
                    } }
                    tbody {
                        @for (rule, cost) in rules.iter().take(COSTLY_MAX) { tr {
                            td data-label=(t("Rule")) {
                                (format::plain(&rule.title))
                                div.more { code { (format::plain(&rule.rule)) } }
                            }
                            td.number data-label=(t("Share")) {
                                (format!("{:.1} %", *cost as f64 / 1e4))
                            }
                        } }
                    }
                }
            }
        }
    }
}

/// `GET /alerts/rules`.
pub(crate) fn rules(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let summary = log(app)?.summary(request.now_ms - RULE_DAYS * DAY_MS, request.now_ms)?;
    let known = app.state.node.packet_rules();
    let seen = |rule: &PacketRule| summary.rules.iter().any(|count| count.rule == rule.rule);
    let dead: Vec<&PacketRule> = known.iter().filter(|rule| !seen(rule)).collect();
    let body = html! {
        p.crumbs { a href="/alerts" { (t("Alerts")) } }
        h1 { (t("Rules that alert")) }
        p.lead {
            (t("In {} days {} alerts. {} rules are loaded, {} of them gave none.")
                .with(RULE_DAYS)
                .with(format::count(summary.alerts))
                .with(format::count(known.len() as u64))
                .with(format::count(dead.len() as u64)))
        }
        section.card.flush {
            h2 { (t("By number of alerts")) }
            table.cards {
                thead { tr {
                    th scope="col" { (t("Rule")) } th.number scope="col" { (t("Alerts")) }
                    th.number scope="col" { (t("Share")) } th scope="col" { (t("Newest")) }
                } }
                tbody {
                    @for count in summary.rules.iter().take(RULES_SHOWN_MAX) { tr {
                        td data-label=(t("Rule")) { (rule_link(count)) }
                        td.number data-label=(t("Alerts")) { (format::count(count.alerts)) }
                        td.number data-label=(t("Share")) {
                            (count.alerts * 100 / summary.alerts.max(1)) " %"
                        }
                        td.when data-label=(t("Newest")) { (format::time(count.newest_ms)) }
                    } }
                    (none(summary.rules.is_empty()))
                }
            }
        }
        (costly(&known))
        section.card.flush {
            details {
                summary { h2 { (t("Without an alert")) } }
                table { tbody {
                    @for rule in dead.iter().take(RULES_SHOWN_MAX) { tr {
                        td { code { (format::plain(&rule.rule)) } }
                        td { (format::plain(&rule.title)) }
                    } }
                } }
                @if dead.len() > RULES_SHOWN_MAX {
                    p.hint { (t("and {} more").with(format::count((dead.len() - RULES_SHOWN_MAX) as u64))) }
                }
            }
        }
    };
    let title = t("Rules that alert");
    Ok(response::page(StatusCode::OK, layout::page(request, "/alerts", title, &body)))
}
