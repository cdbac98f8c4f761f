//! The channels that the node follows: versions, what is tried and what would change by it.

use axum::http::StatusCode;
use axum::response::Response;
use maud::{Markup, html};

use super::query_fields::number;
use super::tabs;
use crate::app::App;
use crate::error::RequestError;
use crate::node::{ChangedVerdict, ChannelOrder, ChannelState, ChannelTrial};
use crate::request::RequestContext;
use crate::response;
use crate::text::{plural, t, translatable};
use crate::{format, layout};

/// Changed messages on the page; the API has all that were kept.
const CHANGES_SHOWN: usize = 50;
/// Longest reason, in bytes.
const REASON_BYTES_MAX: usize = 200;

/// `GET /channels`.
pub(crate) fn show(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let channels = app.state.node.channels();
    let body = html! {
        h1 { (t("Channels")) }
        (tabs::tabs("/channels"))
        @if channels.is_empty() {
            p.lead { (t("This node follows no channel: what is in the program judges. [[channel]] of the configuration names one.")) }
        }
        @for channel in &channels { (one(request, channel)) }
    };
    Ok(response::page(StatusCode::OK, layout::page(request, "/health", t("Channels"), &body)))
}

fn one(request: &RequestContext, channel: &ChannelState) -> Markup {
    let ChannelState { name, url, pinned, asked_ms, next_ms, failures, error, .. } = channel;
    html! {
        h2 { (name) }
        @if !error.is_empty() {
            p.notice.poor role="alert" {
                (plural(u64::from(*failures), "{} failure in a row; what is in force stays.", "{} failures in a row; what is in force stays."))
                " " code { (format::plain(error)) }
            }
        }
        section.card {
            dl.pairs {
                dt { (t("Address")) } dd { code { (format::plain(url)) } }
                dt { (t("In force")) } dd { @match channel.version {
                    Some(version) => b { (version) },
                    None => (t("what is in the program")),
                } }
                dt { (t("Asked")) }
                dd { @if *asked_ms > 0 { (format::time(*asked_ms)) } @else { (t("not yet")) } }
                dt { (t("Asks again")) }
                dd { @if *next_ms > request.now_ms { (format::time(*next_ms)) } @else { (t("now")) } }
                @if let Some(until) = watched_until(channel, request.now_ms) {
                    dt { (t("Corrections are watched until")) } dd { (format::time(until)) }
                }
                @if let Some(version) = pinned {
                    dt { (t("Pinned")) } dd { (t("to version {}").with(version)) " "
                        form.inline method="post" action="/channels" {
                            (hidden(request, name, None))
                            button.quiet type="submit" name="do" value="unpin" { (t("Take new versions")) }
                        } }
                }
            }
        }
        @if let Some(trial) = &channel.trial { (tried(request, name, trial)) }
        (versions(request, channel))
    }
}

/// Until when corrections are watched, if they are.
fn watched_until(channel: &ChannelState, now_ms: i64) -> Option<i64> {
    channel.watched_until_ms.filter(|until| *until > now_ms)
}

/// Fields of each form of a channel.
fn hidden(request: &RequestContext, name: &str, version: Option<u64>) -> Markup {
    html! {
        (layout::token(request))
        input type="hidden" name="channel" value=(name);
        @if let Some(version) = version { input type="hidden" name="version" value=(version); }
    }
}

fn reason() -> Markup {
    html! {
        input type="text" name="reason" maxlength=(REASON_BYTES_MAX) autocomplete="off"
            placeholder=(t("why, for the record")) aria-label=(t("Reason"));
    }
}

/// The versions on disk, and those that are never taken.
fn versions(request: &RequestContext, channel: &ChannelState) -> Markup {
    let name = &channel.name;
    let reason_of = |version: u64| channel.rejected.iter().find(|r| r.version == version);
    let mut all = channel.versions.clone();
    all.extend(channel.rejected.iter().map(|rejected| rejected.version));
    all.sort_unstable();
    all.dedup();
    html! {
        section.card.flush { table.cards {
            thead { tr {
                th scope="col" { (t("Version")) } th scope="col" { (t("State")) } th scope="col" { (t("Decide")) }
            } }
            tbody {
                @for &version in all.iter().rev() { tr {
                    td data-label=(t("Version")) { (version) }
                    td data-label=(t("State")) {
                        @if channel.version == Some(version) { b { (t("in force")) } }
                        @else if let Some(rejected) = reason_of(version) {
                            (t("never taken: {}").with(html! { q { (format::plain(&rejected.reason)) } })) }
                        @else if Some(version) > channel.version { (t("waits")) }
                        @else { (t("earlier")) }
                    }
                    td data-label=(t("Decide")) {
                        form.inline method="post" action="/channels" {
                            (hidden(request, name, Some(version)))
                            @if Some(version) < channel.version && reason_of(version).is_none() {
                                button type="submit" name="do" value="rollback" { (t("Go back to it")) }
                            }
                            @if channel.version == Some(version)
                                && channel.pinned != Some(version) {
                                button type="submit" name="do" value="pin" { (t("Stay at it")) }
                            }
                        }
                    }
                } }
                @if all.is_empty() { tr { td.empty colspan="3" { (t("Nothing was taken yet.")) } } }
            }
        } }
    }
}

/// A trial, and what would change.
fn tried(request: &RequestContext, name: &str, trial: &ChannelTrial) -> Markup {
    let ChannelTrial { version, is_open, until_ms, held, messages, worse, .. } = trial;
    html! {
        h3 { @if *is_open { (t("Version {} on trial").with(version)) }
            @else { (t("The trial of version {}").with(version)) } }
        @if let Some(why) = held.as_ref().filter(|_| *is_open) {
            p.notice.poor role="status" { (t("It waits for you: {}").with(html! { q { (format::plain(why)) } })) }
        } @else if *is_open {
            p { (t("It is judged in the shadow of the one in force until {}, and decided then.").with(format::time(*until_ms))) }
        }
        div.tiles {
            div.tile { b { (format::count(*messages)) } span { (t("messages judged by both")) } }
            div.tile { b { (format::count(*worse)) } span {
                (t("good ones would be suspect or worse, {} of them with a sign that they are good").with(format::count(trial.good_sign_worse))) } }
            div.tile { b { (format::count(trial.milder)) } span { (t("bad ones would be good")) } }
            div.tile { b { (times(trial.us)) } span { (t("time for a message, as a multiple of the one in force")) } }
        }
        @if trial.pages > 0 {
            div.tiles {
                div.tile { b { (format::count(trial.pages)) } span { (t("web pages scored by both")) } }
                div.tile { b { (format::count(trial.pages_blocked)) } span { (t("pages that pass would be blocked")) } }
                div.tile { b { (format::count(trial.pages_passing)) } span { (t("blocked pages would pass")) } }
            }
        }
        @if trial.failures > 0 {
            p.notice.poor { (plural(trial.failures, "A filter failed on {} message that did not fail before.", "A filter failed on {} messages that did not fail before.")) }
        }
        @if *is_open {
            form.actions method="post" action="/channels" {
                (hidden(request, name, Some(*version)))
                button.main type="submit" name="do" value="promote" { (t("Let it judge")) }
                button.danger type="submit" name="do" value="reject" { (t("Never take it")) }
                (reason())
            }
        }
        @if !trial.changes.is_empty() { (changes(trial)) }
    }
}

/// `1.3 x`; a line where nothing was compared.
fn times([was, is]: [f64; 2]) -> String {
    if was > 0.0 { format!("{:.1} ×", is / was) } else { "–".to_owned() }
}

fn changes(trial: &ChannelTrial) -> Markup {
    let total: u64 = trial.transitions.iter().map(|(_, count)| count).sum();
    html! {
        p { (plural(total, "{} message changes its class:", "{} messages change their class:"))
            @for (transition, count) in &trial.transitions {
                " " span.more { (format::count(*count)) " " code { (transition.replace("->", "→")) } }
            }
        }
        section.card.flush { table.cards {
            thead { tr {
                th scope="col" { (t("Message")) } th scope="col" { (t("From")) } th scope="col" { (t("Class")) }
                th scope="col" { (t("New rules")) }
            } }
            tbody { @for changed in trial.changes.iter().take(CHANGES_SHOWN) { (row(changed)) } }
        } }
    }
}

fn row(changed: &ChangedVerdict) -> Markup {
    let ChangedVerdict { id, from, subject, was, is, good_sign, rules } = changed;
    html! { tr {
        td data-label=(t("Message")) {
            a href={ "/messages/" (format::percent(id)) } { q { (layout::subject(&format::plain(subject))) } } }
        td data-label=(t("From")) { q { (format::plain(from)) }
            @if *good_sign { " " span.more { (t("known author")) } } }
        td data-label=(t("Class")) { (layout::class_pill(*was)) " → " (layout::class_pill(*is)) }
        td data-label=(t("New rules")) { @for rule in rules { code { (rule) } " " } }
    } }
}

/// `POST /channels`: `do`: promote, reject, rollback, pin or unpin, for a `channel` and its
/// `version`.
pub(crate) fn change(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let reason = request.field("reason");
    let order = match request.field("do") {
        "promote" => ChannelOrder::Promote(version_given(request)?),
        "reject" => ChannelOrder::Reject(version_given(request)?, reason),
        "rollback" => ChannelOrder::RollBack(version(request)?, reason),
        "pin" => ChannelOrder::Pin(version_given(request)?),
        "unpin" => ChannelOrder::Unpin,
        _ => {
            let why = translatable("do: promote, reject, rollback, pin or unpin");
            return Err(RequestError::Bad(why.to_owned()));
        }
    };
    act(app, request, request.field("channel"), order)?;
    Ok(response::redirect("/channels?notice=channels-1"))
}

/// The version that is named, if one is.
pub(crate) fn version(request: &RequestContext) -> Result<Option<u64>, RequestError> {
    let version: Option<i64> = number(request, "version")?;
    let wrong = || RequestError::Bad(translatable("version: a number from 1").to_owned());
    version.map(|n| u64::try_from(n).ok().filter(|n| *n > 0).ok_or_else(wrong)).transpose()
}

/// The same, where there has to be one.
pub(crate) fn version_given(request: &RequestContext) -> Result<u64, RequestError> {
    let missing = || RequestError::Bad(translatable("version: a number from 1").to_owned());
    version(request)?.ok_or_else(missing)
}

/// Does it, and notes who did. Result: what was done.
pub(crate) fn act(
    app: &App,
    request: &RequestContext,
    channel: &str,
    order: ChannelOrder<'_>,
) -> Result<String, RequestError> {
    let (action, reason) = match order {
        ChannelOrder::Promote(_) => ("promote channel", ""),
        ChannelOrder::Reject(_, reason) => ("reject channel", reason),
        ChannelOrder::RollBack(_, reason) => ("roll back channel", reason),
        ChannelOrder::Pin(_) => ("pin channel", ""),
        ChannelOrder::Unpin => ("unpin channel", ""),
    };
    if reason.len() > REASON_BYTES_MAX || reason.chars().any(char::is_control) {
        return Err(RequestError::Bad(format!("reason: one line of {REASON_BYTES_MAX} bytes")));
    }
    let text = app.state.node.channel_order(channel, order)?;
    app.state.users.note(request.now_ms, request.login(), action, &text)?;
    Ok(text)
}
