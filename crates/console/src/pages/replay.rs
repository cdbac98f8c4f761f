//! A policy tried on the mail and the web requests of the last days, before it is in force.

use std::collections::BTreeMap;

use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use gauntlet_policy::{Groups, Policy};
use gauntlet_store::replay::{ChangedDecision, Report};
use maud::{Markup, Render, html};

use super::query_fields::number;
use super::{policy, replay_web};
use crate::app::App;
use crate::error::RequestError;
use crate::replays::{DAYS_MAX, Found, Job, MESSAGES_MAX, Trial};
use crate::request::RequestContext;
use crate::response;
use crate::text::{t, translatable};
use crate::{format, layout};

/// Changes shown one by one.
const CHANGES_SHOWN: usize = 200;
/// Lines of a table of counts.
const COUNTS_SHOWN: usize = 20;
/// Seconds after which a browser looks again how far it is.
const LOOK_AGAIN: &str = "2";

/// `POST /policy/replay`: begins.
pub(crate) fn begin(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let (text, base) = (request.lines("text"), policy::base(request)?);
    if Policy::parse(&text, &Groups::default()).is_err() {
        return policy::check(app, request);
    }
    let days = number(request, "days")?.unwrap_or(policy::DAYS_DEFAULT).clamp(1, DAYS_MAX);
    let trial = Trial { text, base, days, who: request.login().to_owned() };
    let begun = app.replays.begin(&app.state, trial, request.now_ms)?;
    if begun.is_none() {
        let busy = translatable("Another replay is under way. Stop it, or wait until it is done.");
        return Err(RequestError::Bad(busy.to_owned()));
    }
    Ok(response::redirect("/policy/replay"))
}

/// `POST /policy/replay/stop`.
pub(crate) fn stop(app: &App, _: &RequestContext) -> Result<Response, RequestError> {
    if let Some(job) = app.replays.current() {
        job.stop();
    }
    Ok(response::redirect("/policy/replay?notice=stopped-1"))
}

/// `GET /policy/replay`: how far the replay is, or what it found.
pub(crate) fn show(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let Some(job) = app.replays.current() else {
        let body = html! {
            p.crumbs { a href="/policy" { (t("Policy")) } }
            h1 { (t("Replay")) }
            p.lead { (t("No policy was tried since the node started. Edit the policy and choose {}.").with(html! { b { (t("Try on the mail of")) } })) }
        };
        return Ok(policy::page(request, StatusCode::OK, &body));
    };
    match job.outcome() {
        None => Ok(under_way(request, &job)),
        Some(outcome) => {
            let body = html! {
                p.crumbs { a href="/policy" { (t("Policy")) } }
                h1 { (t("Replay over {} days").with(job.trial.days)) }
                @match &outcome {
                    Ok(all) => (found(&all.mail)),
                    Err(why) => p.notice.poor role="alert" { (why) },
                }
                @if let Ok(Found { web: Some(web), .. }) = outcome.as_deref() {
                    (replay_web::found(web))
                }
                (next(request, &job))
                @if let Ok(all) = &outcome {
                    (details(&all.mail))
                    @if let Some(web) = &all.web { (replay_web::details(web)) }
                }
            };
            Ok(policy::page(request, StatusCode::OK, &body))
        }
    }
}

fn under_way(request: &RequestContext, job: &Job) -> Response {
    let percent = job.percent();
    let body = html! {
        p.crumbs { a href="/policy" { (t("Policy")) } }
        h1 { (t("Replay over {} days").with(job.trial.days)) }
        section.card {
            p role="status" {
                (t("{} messages and {} web requests looked at, {} % of the time. This page renews itself.")
                    .with(format::count(job.messages()))
                    .with(format::count(job.requests()))
                    .with(percent))
            }
            p { label { span { (t("Progress")) }
                progress max="100" value=(percent) { (percent) " %" } } }
            form method="post" action="/policy/replay/stop" {
                (layout::token(request))
                button type="submit" { (t("Stop with what is found")) }
            }
        }
    };
    let mut response = policy::page(request, StatusCode::OK, &body);
    response.headers_mut().insert("refresh", HeaderValue::from_static(LOOK_AGAIN));
    response
}

fn found(report: &Report) -> Markup {
    let unknown: u64 = report.unknown.values().sum();
    let withheld = report.changes.iter().filter(|c| c.withheld).count() as u64;
    html! {
        @if let Some(reached) = report.reached_ms {
            p.notice.poor role="status" { (t("Stopped early (by hand, or at {} messages or ten minutes): mail from before {} was not looked at.").with(format::count(MESSAGES_MAX)).with(format::time(reached))) }
        }
        div.tiles {
            div.tile { b { (format::count(report.messages)) } span { (t("messages looked at")) } }
            div.tile { b { (format::count(report.different)) }
                span { (t("recipients would have got another disposition, of {}").with(format::count(report.recipients))) } }
            div.tile { b { (format::count(withheld)) }
                span { (t("delivered messages would have been withheld")) } }
            div.tile { b { (format::count(unknown)) }
                span { (t("not determined: the message's text was not kept")) } }
        }
    }
}

/// What to do with the policy that was tried.
fn next(request: &RequestContext, job: &Job) -> Markup {
    html! {
        form.card method="post" action="/policy/check" {
            (layout::token(request))
            input type="hidden" name="base" value=(job.trial.base);
            details { summary { (t("The policy that was tried")) }
                label { span { (t("Rules (TOML)")) }
                    textarea.code name="text" rows="20" spellcheck="false" { "\n" (job.trial.text) } }
            }
            p.hint { (t("Asked for by {}, {}.").with(format::plain(&job.trial.who)).with(format::time(job.began_ms))) }
            div.actions {
                button.main type="submit" { (t("See what changes, then put into force")) }
                button type="submit" formaction="/policy/replay" { (t("Try again")) }
                input type="hidden" name="days" value=(job.trial.days);
            }
        }
    }
}

fn details(report: &Report) -> Markup {
    html! {
        div.halves {
            (counts(t("Changes of disposition"), t("Change"), &report.transitions))
            (counts(t("By rule"), t("Rule that would decide"), &report.rules))
        }
        div.halves {
            (counts(t("By user"), t("Recipient"), &report.users))
            (counts(t("Not determined"), t("Rule that needs what was not kept"), &report.unknown))
        }
        h2 { (t("Changes, likely false positives first")) }
        section.card.flush { table.cards {
            thead { tr {
                th scope="col" { (t("Received")) } th scope="col" { (t("Verdict")) }
                th scope="col" { (t("From and subject")) } th scope="col" { (t("To")) }
                th scope="col" { (t("Before and after")) }
            } }
            tbody {
                @for changed in report.changes.iter().take(CHANGES_SHOWN) { (change(changed)) }
                @if report.changes.is_empty() {
                    tr { td.empty colspan="5" { (t("Nothing would have changed.")) } } }
            }
        } }
        @if report.changes.len() > CHANGES_SHOWN {
            p.hint {
                @let more = format::count((report.changes.len() - CHANGES_SHOWN) as u64);
                (t("And {} more: {} lists them all.").with(more)
                    .with(html! { code { "gauntlet policy replay" } }))
             }
        }
    }
}

fn counts(title: impl Render, of: impl Render, counts: &BTreeMap<String, u64>) -> Markup {
    let mut all: Vec<_> = counts.iter().collect();
    all.sort_by_key(|(name, n)| (std::cmp::Reverse(**n), *name));
    html! {
        section.card.flush {
            h2 { (title) }
            table {
                thead { tr { th scope="col" { (of) } th.number scope="col" { (t("Recipients")) } } }
                tbody {
                    @for (name, n) in all.iter().take(COUNTS_SHOWN) { tr {
                        td { @if name.is_empty() { (t("no rule")) } @else { (format::plain(name)) } }
                        td.number { (format::count(**n)) }
                    } }
                    @if all.is_empty() { tr { td colspan="2" { (t("None.")) } } }
                    @if all.len() > COUNTS_SHOWN {
                        tr { td colspan="2" { (t("and {} more").with(all.len() - COUNTS_SHOWN)) } } }
                }
            }
        }
    }
}

fn change(changed: &ChangedDecision) -> Markup {
    let subject = format::plain(&changed.subject);
    let subject = layout::subject(&subject);
    html! {
        tr {
            td data-label=(t("Received")) { (format::time(changed.received_ms)) }
            td data-label=(t("Verdict")) { (layout::class_pill(changed.class)) " "
                (format::points(changed.score)) }
            td data-label=(t("Message")) {
                (format::plain(&changed.from)) " "
                a href={ "/messages/" (format::percent(&changed.id)) } { (subject) }
            }
            td data-label=(t("To")) { (format::plain(&changed.recipient)) }
            td data-label=(t("Change")) {
                @if changed.withheld { b { (t("withheld:")) " " } }
                (t(&format::spaced(&changed.was))) " → " (t(&format::spaced(&changed.would_be)))
                @if !changed.rule.is_empty() { span.more { " " (t("by {}").with(format::plain(&changed.rule))) } }
            }
        }
    }
}
