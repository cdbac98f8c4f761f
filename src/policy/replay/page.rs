//! The replay as one page that needs nothing beside itself.

use std::collections::BTreeMap;

use gauntlet_mail::date;
use gauntlet_store::replay::Report;
use gauntlet_store::web_log::replay::WebReplayReport;
use maud::{DOCTYPE, Markup, PreEscaped, html};

/// Changes listed on the page.
const CHANGES_MAX: usize = 5_000;

const STYLE: &str = "
:root { color-scheme: light dark; font: 15px/1.45 system-ui, sans-serif }
body { margin: 2rem auto; max-width: 72rem; padding: 0 1rem }
.scroll { overflow-x: auto }
table { border-collapse: collapse; margin: 0 0 1.5rem }
th, td { text-align: left; padding: .25rem .9rem .25rem 0; vertical-align: top;
  border-bottom: 1px solid color-mix(in srgb, currentColor 20%, transparent) }
td.n { text-align: right; font-variant-numeric: tabular-nums }
.withheld { font-weight: 600 }
small { opacity: .8 }";

/// The report as a page of HTML that needs no other file.
pub(super) fn of(mail: Option<&Report>, web: Option<&WebReplayReport>, title: &str) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "Replay of " (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { "Replay of " (title) }
                @if let Some(report) = mail { (of_mail(report)) }
                @if let Some(report) = web { (of_web(report)) }
            }
        }
    };
    page.into_string()
}

fn of_mail(report: &Report) -> Markup {
    let unknown: u64 = report.unknown.values().sum();
    html! {
        p {
            (report.messages) " messages (" (report.whole) " with their body), "
            (report.recipients) " recipients: " (report.same) " the same, "
            strong { (report.different) " different" } ", " (unknown) " unknown."
        }
        (counts("What would have changed", "From what to what", &report.transitions))
        (counts("By rule", "Rule that decides now", &report.rules))
        (counts("By recipient", "Recipient", &report.users))
        (counts("Unknown", "Rule that asks for what was not kept", &report.unknown))
        (changes(report))
    }
}

fn of_web(report: &WebReplayReport) -> Markup {
    html! {
        h2 { "Web requests" }
        p {
            (report.requests) " requests: " (report.same + report.same_by_other_rule) " the same ("
            (report.same_by_other_rule) " by another rule), "
            strong { (report.different) " different" } ", " (report.unknown_requests()) " unknown, "
            (report.not_asked) " not for the policy."
        }
        @for (rule, field) in &report.not_replayable {
            p { "Rule “" (rule) "” cannot be replayed: it asks for " (field)
                ", which the log does not keep." }
        }
        @for (rule, fields) in &report.unknown {
            @for (field, n) in fields {
                p { (n) " requests are unknown: rule “" (rule) "” asks for " (field) "." }
            }
        }
        @for change in &report.changes {
            h3 { (super::web::line(change)) ": " (change.requests) " requests" }
            p { @for host in &change.hosts { (host.name) " (" (host.requests) ") " } }
            p { @for client in &change.clients { (client.name) " (" (client.requests) ") " } }
            div.scroll { table { tbody {
                @for example in &change.examples { tr {
                    td { (date::rfc5322(example.at_ms)) } td { (example.client) }
                    td { (example.method) " " (example.url) br; small { (example.reference) } }
                } }
            } } }
        }
    }
}

fn counts(title: &str, of: &str, counts: &BTreeMap<String, u64>) -> Markup {
    let mut all: Vec<_> = counts.iter().collect();
    all.sort_by_key(|(name, n)| (std::cmp::Reverse(**n), *name));
    html! {
        @if !all.is_empty() {
            h2 { (title) }
            div.scroll { table {
                thead { tr { th { "Recipients" } th { (of) } } }
                tbody {
                    @for (name, count) in all.into_iter().take(200) {
                        tr {
                            td.n { (count) }
                            td { @if name.is_empty() { "no rule" } @else { (name) } }
                        }
                    }
                }
            } }
        }
    }
}

fn changes(report: &Report) -> Markup {
    let left = report.changes.len().saturating_sub(CHANGES_MAX);
    html! {
        @if !report.changes.is_empty() {
            h2 { "Changes" }
            p { "Likely false positives first: mail that was delivered and would be kept away is "
                span.withheld { "bold" } "." }
            div.scroll { table {
                thead { tr {
                    th { "Received" } th { "Message" } th { "Recipient" } th { "Was" }
                    th { "Would be" } th { "Rule" } th { "Verdict" }
                } }
                tbody {
                    @for c in report.changes.iter().take(CHANGES_MAX) {
                        tr class=[c.withheld.then_some("withheld")] {
                            td { (date::rfc5322(c.received_ms)) }
                            td { (c.subject) br; small { (c.from) " · " (c.id) } }
                            td { (c.recipient) } td { (c.was) } td { (c.would_be) }
                            td { (c.rule) } td { (c.class) " " (format!("{:.1}", c.score)) }
                        }
                    }
                }
            } }
            @if left > 0 { p { "And " (left) " more; --json prints them." } }
        }
    }
}
