//! What a replay found in the web log: the part of its page below that of mail.

use gauntlet_store::web_log::replay::{WebChanged, WebExample, WebName, WebReplayReport};
use maud::{Markup, html};

use crate::format;
use crate::replays::REQUESTS_MAX;
use crate::text::{Phrase, t, translatable};

/// Kinds of changes on the page.
const CHANGES_SHOWN: usize = 30;

/// Words for what is decided.
const _: [&str; 4] = [
    translatable("allow"),
    translatable("allow with other changes"),
    translatable("block"),
    translatable("warn"),
];

/// What is missing, and the numbers.
pub(super) fn found(report: &WebReplayReport) -> Markup {
    html! {
        h2 { (t("Web requests")) }
        @if let Some(reached) = report.reached_ms {
            p.notice.poor role="status" { (t("Stopped early (by hand, or at {} requests or ten minutes): requests from before {} were not looked at.").with(format::count(REQUESTS_MAX)).with(format::time(reached))) }
        }
        @for (rule, field) in &report.not_replayable {
            p.notice.poor role="status" {
                (t("Rule {} cannot be replayed: it asks for {}, which the log does not keep.")
                    .with(html! { b { (format::plain(rule)) } })
                    .with(html! { code { (field) } }))
            }
        }
        div.tiles {
            div.tile { b { (format::count(report.requests)) } span { (t("web requests looked at")) } }
            div.tile { b { (format::count(report.different)) }
                span { (t("would have ended otherwise")) } }
            div.tile { b { (format::count(report.unknown_requests())) }
                span { (t("not determined: what the rule asks for was not kept")) } }
            div.tile { b { (format::count(report.not_asked)) }
                span { (t("ended before the policy was asked")) } }
        }
    }
}

/// The changes one by one, and what is not known.
pub(super) fn details(report: &WebReplayReport) -> Markup {
    html! {
        h2 { (t("Changes of web requests")) }
        @if report.changes.is_empty() { p { (t("Nothing would have changed.")) } }
        @for changed in report.changes.iter().take(CHANGES_SHOWN) { (change(changed)) }
        @if report.changes.len() > CHANGES_SHOWN {
            p.hint {
                (t("And {} more: {} lists them all.")
                    .with(format::count((report.changes.len() - CHANGES_SHOWN) as u64))
                    .with(html! { code { "gauntlet policy replay" } }))
            }
        }
        @if !report.unknown.is_empty() {
            section.card.flush {
                h2 { (t("Not determined")) }
                table {
                    thead { tr {
                        th scope="col" { (t("Rule that needs what was not kept")) }
                        th scope="col" { (t("Asks for")) }
                        th.number scope="col" { (t("Requests")) }
                    } }
                    tbody {
                        @for (rule, fields) in &report.unknown {
                            @for (field, requests) in fields { tr {
                                td { (format::plain(rule)) } td { code { (field) } }
                                td.number { (format::count(*requests)) }
                            } }
                        }
                    }
                }
            }
        }
    }
}

fn change(changed: &WebChanged) -> Markup {
    let by = |rule: &str| {
        html! {
            @if !rule.is_empty() { span.more { " " (t("by {}").with(format::plain(rule))) } }
        }
    };
    html! {
        section.card {
            h3 {
                (t(&changed.was)) (by(&changed.was_rule)) " → "
                (t(&changed.would_be)) (by(&changed.rule))
                ": " (format::count(changed.requests))
            }
            (names(&t("Hosts"), &changed.hosts))
            (names(&t("Clients"), &changed.clients))
            details {
                summary { (t("Examples")) }
                table.cards.requests { tbody {
                    @for example in &changed.examples { (line(example)) }
                } }
            }
        }
    }
}

fn names(title: &Phrase<'_>, names: &[WebName]) -> Markup {
    html! {
        @if !names.is_empty() {
            p { (title) ": "
                @for (n, name) in names.iter().enumerate() {
                    @if n > 0 { ", " }
                    (format::plain(&name.name)) " (" (format::count(name.requests)) ")"
                }
            }
        }
    }
}

fn line(example: &WebExample) -> Markup {
    html! {
        tr {
            td.when data-label=(t("When")) { (format::time(example.at_ms)) }
            td.what data-label=(t("Request")) {
                span.url { (example.method) " " (format::plain(&example.url)) }
            }
            td.client data-label=(t("Client")) {
                (format::plain(&example.client))
                @if !example.user.is_empty() { " " (format::plain(&example.user)) }
            }
            @if example.reference.is_empty() { td {} }
            @else { td data-label=(t("Reference code")) { code { (example.reference) } } }
        }
    }
}
