//! The policy: read, edited, checked, put into force.

use axum::http::StatusCode;
use axum::response::Response;
use gauntlet_policy::diff::{self, Edit};
use gauntlet_policy::{Finding, Policy, PolicyError};
use gauntlet_store::policies::{Edition, Version};
use maud::{Markup, html};

use super::query_fields::number;
use super::rule_list;
use crate::app::App;
use crate::error::RequestError;
use crate::node::NodeError;
use crate::node::PolicyOrder;
use crate::request::RequestContext;
use crate::response;
use crate::text::{t, translatable};
use crate::{format, layout};

/// Versions in the list, the newest first.
const VERSIONS_MAX: usize = 30;
/// Days that a replay looks back by default.
pub(crate) const DAYS_DEFAULT: i64 = 7;
/// Lines of text shown around a mistake.
const AROUND: usize = 2;

/// `GET /policy`.
pub(crate) fn show(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let edition = in_force(app)?;
    let versions = app.state.policies.list(None, VERSIONS_MAX)?;
    let read = Policy::parse(&edition.text, &app.state.node.groups());
    let body = html! {
        h1 { (t("Policy")) }
        p.lead { (t("Version {} is in force since {}, by {}.").with(edition.version.number).with(format::time(edition.version.at_ms)).with(format::plain(&edition.version.who))) }
        @match &read {
            Ok(policy) => {
                p { (t("{} rules, tried in order for every recipient.").with(policy.rules.len())) " "
                    a href="/policy/replay" { (t("The last replay")) } }
                (warnings(&policy.warnings))
            }
            Err(error) => p.notice.poor role="alert" { (error) },
        }
        (editor(request, &edition.text, edition.version.number))
        h2 { (t("Versions")) }
        (history(request, &versions, edition.version.number))
    };
    Ok(page(request, StatusCode::OK, &body))
}

/// `POST /policy/check`: says what is wrong, or what would change.
pub(crate) fn check(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    checked(app, request, &request.lines("text"), base(request)?)
}

/// The page that says what is wrong with a text, or what would change.
pub(super) fn checked(
    app: &App,
    request: &RequestContext,
    text: &str,
    base: i64,
) -> Result<Response, RequestError> {
    match Policy::parse(text, &app.state.node.groups()) {
        Err(error) => Ok(wrong(request, text, base, &error)),
        Ok(policy) => {
            let old = app.state.policies.get(base)?.map(|e| e.text).unwrap_or_default();
            Ok(good(request, text, base, &old, &policy))
        }
    }
}

/// `POST /policy`: puts the text into force.
pub(crate) fn save(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let (text, base) = (request.lines("text"), base(request)?);
    if let Err(error) = Policy::parse(&text, &app.state.node.groups()) {
        return Ok(wrong(request, &text, base, &error));
    }
    let note = request.field("note");
    let order = PolicyOrder { text: &text, base: Some(base), who: request.login(), note };
    match put(app, request, &order) {
        Ok(version) if version.number == base => {
            Ok(response::redirect("/policy?notice=policy_same-0"))
        }
        Ok(version) => Ok(response::redirect(&format!("/policy?notice=policy-{}", version.number))),
        Err(why) => {
            let body = html! {
                h1 { (t("Not saved")) }
                p.notice.poor role="alert" { (why) }
                (editor(request, &text, base))
            };
            Ok(page(request, StatusCode::CONFLICT, &body))
        }
    }
}

/// Puts a policy into force, and notes who did.
pub(crate) fn put(
    app: &App,
    request: &RequestContext,
    order: &PolicyOrder<'_>,
) -> Result<Version, NodeError> {
    let version = app.state.node.save_policy(order)?;
    let detail = format!("version {}", version.number);
    let noted = app.state.users.note(request.now_ms, request.login(), "change policy", &detail);
    if let Err(error) = noted {
        tracing::error!(%error, "a change of the policy could not be noted");
    }
    Ok(version)
}

/// The policy in force.
pub(crate) fn in_force(app: &App) -> Result<Edition, RequestError> {
    app.state.node.policy().map_err(|why| {
        tracing::error!(error = %why, "the policy in force could not be read");
        RequestError::Bad(format!("The policy in force could not be read: {why}"))
    })
}

/// The version that the form began with.
pub(super) fn base(request: &RequestContext) -> Result<i64, RequestError> {
    number(request, "base")?
        .ok_or_else(|| RequestError::Bad(translatable("base: the number of a version").to_owned()))
}

pub(super) fn page(request: &RequestContext, status: StatusCode, body: &Markup) -> Response {
    response::page(status, layout::page(request, "/policy", t("Policy"), body))
}

/// The text, and what may be done with it.
pub(super) fn editor(request: &RequestContext, text: &str, base: i64) -> Markup {
    html! {
        form.card method="post" action="/policy/check" {
            (layout::token(request))
            input type="hidden" name="base" value=(base);
            label { span { (t("Rules (TOML)")) }
                textarea.code name="text" rows="26" spellcheck="false" autocomplete="off"
                    autocapitalize="none" { "\n" (text) }
            }
            p.hint { (t("Nothing is in force before you have seen what it changes.")) }
            div.actions {
                button.main type="submit" { (t("Check")) }
                (replay_fields())
            }
            (rule_list::list(text))
        }
    }
}

/// How far back to replay, and the button for it.
fn replay_fields() -> Markup {
    html! {
        button type="submit" formaction="/policy/replay" { (t("Try on the mail of")) }
        label.inline { span.hidden { (t("Days to try it on")) }
            input.small type="number" name="days" min="1" max=(crate::replays::DAYS_MAX)
                value=(DAYS_DEFAULT);
            " " (t("days")) }
    }
}

pub(super) fn wrong(
    request: &RequestContext,
    text: &str,
    base: i64,
    error: &PolicyError,
) -> Response {
    let line = match error {
        PolicyError::Syntax { line, .. } => *line,
        PolicyError::Meaning(finding) => finding.line,
    };
    let from = line.saturating_sub(AROUND + 1);
    let body = html! {
        h1 { (t("Invalid policy")) }
        p.notice.poor role="alert" { (error) }
        section.card {
            h2 { (t("Line {}").with(line)) }
            pre.source.text tabindex="0" {
                @for (n, shown) in text.lines().enumerate().skip(from).take(2 * AROUND + 1) {
                    @let mark = if n + 1 == line { ">" } else { " " };
                    (format!("{mark}{:>5}  ", n + 1)) (format::plain(shown)) "\n"
                }
            }
        }
        (editor(request, text, base))
    };
    page(request, StatusCode::BAD_REQUEST, &body)
}

fn good(request: &RequestContext, text: &str, base: i64, old: &str, policy: &Policy) -> Response {
    let (added, removed) = diff::counts(old, text);
    let body = html! {
        h1 { (t("Check of a policy")) }
        @if text == old {
            p.notice.good role="status" { (t("It is a policy, and the one in force.")) }
        } @else {
            p.notice.good role="status" { (t("It is a policy of {} rules. {} lines are new, {} are gone.").with(policy.rules.len()).with(added).with(removed)) }
        }
        (warnings(&policy.warnings))
        (difference(old, text))
        form.card method="post" action="/policy" {
            (layout::token(request))
            input type="hidden" name="base" value=(base);
            (layout::input("note", t("Why (for the history)"), request.field("note"), "text", ""))
            details {
                summary { (t("Edit further")) }
                label { span { (t("Rules (TOML)")) }
                        textarea.code name="text" rows="20" spellcheck="false" { "\n" (text) } }
                (rule_list::list(text))
            }
            div.actions {
                button.main type="submit" { (t("Put into force")) }
                button type="submit" formaction="/policy/check" { (t("Check again")) }
                (replay_fields())
                a.button.quiet href="/policy" { (t("Cancel")) }
            }
        }
    };
    page(request, StatusCode::OK, &body)
}

/// Rules that never run, and other oddities.
fn warnings(findings: &[Finding]) -> Markup {
    html! {
        @if !findings.is_empty() {
            section.card {
                h2 { (t("Warnings")) }
                ul.plain {
                    @for f in findings {
                        li { (t("Line {}, {}: {}").with(f.line).with(html! { b { (format::plain(&f.rule)) } }).with(format::plain(&f.message))) }
                    }
                }
            }
        }
    }
}

/// What differs between two texts.
pub(super) fn difference(old: &str, new: &str) -> Markup {
    let hunks = diff::hunks(old, new);
    html! {
        @if !hunks.is_empty() {
            section.card.flush {
                h2 { (t("What changes")) }
                table.diff {
                    thead { tr { th scope="col" { (t("Line")) } th scope="col" { (t("Is")) } th scope="col" { (t("Text")) } } }
                    tbody {
                        @for line in &hunks {
                            @match line {
                                None => tr { td.number { "⋮" } td {} td {} },
                                Some(line) => (diff_line(line)),
                            }
                        }
                    }
                }
            }
        }
    }
}

fn diff_line(line: &diff::Line) -> Markup {
    let (class, what) = match line.edit {
        Edit::Same => ("same", ""),
        Edit::Added => ("added", "new"),
        Edit::Removed => ("removed", "gone"),
    };
    html! {
        tr class=(class) {
            td.number { @if let Some(n) = line.new.or(line.old) { (n) } }
            td { (what) }
            td { code { (format::plain(&line.text)) } }
        }
    }
}

fn history(request: &RequestContext, versions: &[Version], in_force: i64) -> Markup {
    html! {
        section.card.flush { table.cards {
            thead { tr {
                th scope="col" { (t("Version")) } th scope="col" { (t("Since")) } th scope="col" { (t("By")) }
                th scope="col" { (t("Why")) } th scope="col" { (t("Change")) }
            } }
            tbody {
                @for (n, v) in versions.iter().enumerate() { tr {
                    td data-label=(t("Version")) {
                        a href={ "/policy/versions/" (v.number) } { (t("Version {}").with(v.number)) }
                        @if v.number == in_force { " " b { (t("in force")) } }
                    }
                    td data-label=(t("Since")) { (format::time(v.at_ms)) }
                    td data-label=(t("By")) { (format::plain(&v.who)) }
                    td data-label=(t("Why")) { (format::plain(&v.note)) }
                    td data-label=(t("Change")) {
                        @if v.number != in_force {
                            (roll_back(request, v.number, if n == 1 { translatable("Undo the last change") } else { translatable("Go back to it") }))
                        }
                    }
                } }
            }
        } }
    }
}

/// The button that goes back to a version.
pub(super) fn roll_back(request: &RequestContext, number: i64, label: &str) -> Markup {
    html! {
        form method="post" action="/policy/rollback" {
            (layout::token(request))
            button type="submit" name="number" value=(number)
                aria-label={ (t("{}: version {}").with(t(label)).with(number)) } { (t(label)) }
        }
    }
}
