//! One's own account.

use axum::http::StatusCode;
use axum::response::Response;
use gauntlet_store::users::PASSWORD_CHARS_MIN;
use maud::html;

use super::second_factor;
use super::sign_in::with_cookie;
use crate::fault::Fault;
use crate::server::App;
use crate::shell;
use crate::visit::{self, Visit};

/// `GET /account`.
pub(crate) fn show(app: &App, visit: &Visit) -> Result<Response, Fault> {
    form(app, visit, StatusCode::OK, None)
}

fn form(
    app: &App,
    visit: &Visit,
    status: StatusCode,
    wrong: Option<&str>,
) -> Result<Response, Fault> {
    let must = visit.session.as_ref().is_some_and(|s| s.user.must_change);
    let body = html! {
        h1 { "Account" }
        section.card.narrow {
            p { "Signed in as " b { (visit.who()) } ", " (visit.role().name()) "." }
            h2 { "Change password" }
            @if must {
                p.notice.poor { "You signed in with a one-time password. Choose your own to go on." }
            }
            @if let Some(wrong) = wrong { p.notice.poor role="alert" { (wrong) } }
            form method="post" action="/account/password" {
                (shell::token(visit))
                input type="text" name="login" value=(visit.who()) autocomplete="username" hidden;
                label { span { "Present password" }
                    input type="password" name="old" autocomplete="current-password" required;
                }
                label { span { "New password, at least " (PASSWORD_CHARS_MIN) " characters" }
                    input type="password" name="new" autocomplete="new-password" required
                        minlength=(PASSWORD_CHARS_MIN);
                }
                label { span { "New password again" }
                    input type="password" name="again" autocomplete="new-password" required;
                }
                button.main type="submit" { "Change password" }
            }
        }
        @if !must { (second_factor::section(app, visit)?) }
    };
    Ok(visit::page(status, &shell::page(visit, "/account", "Account", &body)))
}

/// `POST /account/password`: ends all sessions of the person and starts a new one.
pub(crate) fn change_password(app: &App, visit: &Visit) -> Result<Response, Fault> {
    let users = &app.state.users;
    let raw = |name| visit.fields.iter().find(|(n, _)| n == name).map_or("", |(_, v)| v.as_str());
    let who = visit.who();
    if !app.guard.may_try(visit.client, who) {
        return Err(Fault::TooMany);
    }
    let bad = StatusCode::BAD_REQUEST;
    if users.verify(who, raw("old"))?.is_none() {
        return form(app, visit, bad, Some("The present password is wrong."));
    }
    app.guard.succeeded(visit.client, who);
    if raw("new") != raw("again") {
        return form(app, visit, bad, Some("The two new passwords differ."));
    }
    if raw("new") == raw("old") {
        return form(app, visit, bad, Some("The new password is the old one."));
    }
    match users.set_password(who, raw("new"), false, who, visit.now_ms).map_err(Fault::from) {
        Err(Fault::Bad(why)) => return form(app, visit, bad, Some(&why)),
        other => other?,
    };
    let started = users.start_session(who, visit.now_ms)?;
    let response = visit::redirect("/?notice=password-1");
    Ok(with_cookie(response, &started.token, app.state.options.https))
}
