//! One's own account.

use axum::http::StatusCode;
use axum::response::Response;
use gauntlet_store::users::PASSWORD_CHARS_MIN;
use maud::html;

use super::sign_in::with_cookie;
use super::{app_passwords, second_factor};
use crate::fault::Fault;
use crate::server::App;
use crate::shell;
use crate::text::{noted, t};
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
    if visit.proved().is_err() {
        return Ok(by_link(visit));
    }
    let must = visit.session.as_ref().is_some_and(|s| s.user.must_change);
    let body = html! {
        h1 { (t("Account")) }
        section.card.narrow {
            p { (t("Signed in as {}, {}.").with(html! { b { (visit.who()) } }).with(t(visit.role().name()))) }
            h2 { (t("Change password")) }
            @if must {
                p.notice.poor { (t("You signed in with a one-time password. Choose your own to go on.")) }
            }
            @if let Some(wrong) = wrong { p.notice.poor role="alert" { (t(wrong)) } }
            form method="post" action="/account/password" {
                (shell::token(visit))
                input type="text" name="login" value=(visit.who()) autocomplete="username" hidden;
                label { span { (t("Present password")) }
                    input type="password" name="old" autocomplete="current-password" required;
                }
                label { span { (t("New password, at least {} characters").with(PASSWORD_CHARS_MIN)) }
                    input type="password" name="new" autocomplete="new-password" required
                        minlength=(PASSWORD_CHARS_MIN);
                }
                label { span { (t("New password again")) }
                    input type="password" name="again" autocomplete="new-password" required;
                }
                button.main type="submit" { (t("Change password")) }
            }
        }
        @if !must { (second_factor::section(app, visit)?) (app_passwords::section(app, visit)?) }
    };
    Ok(visit::page(status, shell::page(visit, "/account", t("Account"), &body)))
}

/// For who came by a digest's link.
fn by_link(visit: &Visit) -> Response {
    let body = html! {
        h1 { (t("Account")) }
        section.card.narrow {
            p { (t("You came by a link of a digest, which is for held mail only: sign in to change your account.")) }
            form method="post" action="/sign-out" {
                (shell::token(visit))
                button type="submit" { (t("Sign out")) }
            }
        }
    };
    visit::page(StatusCode::OK, shell::page(visit, "/account", t("Account"), &body))
}

/// `POST /account/password`: ends all sessions of the person and starts a new one.
pub(crate) fn change_password(app: &App, visit: &Visit) -> Result<Response, Fault> {
    visit.proved()?;
    let users = &app.state.users;
    let raw = |name| visit.fields.iter().find(|(n, _)| n == name).map_or("", |(_, v)| v.as_str());
    let who = visit.who();
    users.attempts().begin(visit.client, who)?;
    let bad = StatusCode::BAD_REQUEST;
    if users.verify(who, raw("old"))?.is_none() {
        return form(app, visit, bad, Some(noted("The present password is wrong.")));
    }
    users.attempts().succeeded(visit.client, who);
    if raw("new") != raw("again") {
        return form(app, visit, bad, Some(noted("The two new passwords differ.")));
    }
    if raw("new") == raw("old") {
        return form(app, visit, bad, Some(noted("The new password is the old one.")));
    }
    match users.set_password(who, raw("new"), false, who, visit.now_ms).map_err(Fault::from) {
        Err(Fault::Bad(why)) => return form(app, visit, bad, Some(&why)),
        other => other?,
    };
    let started = users.start_session(who, visit.now_ms)?;
    let response = visit::redirect("/?notice=password-1");
    Ok(with_cookie(response, &started.token, app.state.options.https))
}
