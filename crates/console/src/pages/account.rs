//! One's own account.

use axum::http::StatusCode;
use axum::response::Response;
use gauntlet_store::users::PASSWORD_CHARS_MIN;
use maud::html;

use super::sign_in::with_cookie;
use super::{app_passwords, second_factor};
use crate::app::App;
use crate::error::RequestError;
use crate::layout;
use crate::request::RequestContext;
use crate::response;
use crate::text::{t, translatable};

/// `GET /account`.
pub(crate) fn show(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    form(app, request, StatusCode::OK, None)
}

fn form(
    app: &App,
    request: &RequestContext,
    status: StatusCode,
    wrong: Option<&str>,
) -> Result<Response, RequestError> {
    if request.require_full_sign_in().is_err() {
        return Ok(by_link(request));
    }
    let must = request.session.as_ref().is_some_and(|s| s.user.must_change);
    let body = html! {
        h1 { (t("Account")) }
        section.card.narrow {
            p { (t("Signed in as {}, {}.").with(html! { b { (request.login()) } }).with(t(request.role().name()))) }
            h2 { (t("Change password")) }
            @if must {
                p.notice.poor { (t("You signed in with a one-time password. Choose your own to go on.")) }
            }
            @if let Some(wrong) = wrong { p.notice.poor role="alert" { (t(wrong)) } }
            form method="post" action="/account/password" {
                (layout::token(request))
                input type="text" name="login" value=(request.login()) autocomplete="username" hidden;
                label { span { (t("Current password")) }
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
        @if must {
            section.card.narrow {
                h2 { (t("Passwords of mail programs")) }
                p { (t("Until you have chosen a password of your own, mail programs are refused (535). It revokes passwords made for them before.")) }
            }
        }
        @if !must { (second_factor::section(app, request)?) (app_passwords::section(app, request)?) }
    };
    Ok(response::page(status, layout::page(request, "/account", t("Account"), &body)))
}

/// For who came by a digest's link.
fn by_link(request: &RequestContext) -> Response {
    let body = html! {
        h1 { (t("Account")) }
        section.card.narrow {
            p { (t("You are signed in by a link of a digest, which is for held mail only: sign in with your password to change your account.")) }
            form method="post" action="/sign-out" {
                (layout::token(request))
                button type="submit" { (t("Sign out")) }
            }
        }
    };
    response::page(StatusCode::OK, layout::page(request, "/account", t("Account"), &body))
}

/// `POST /account/password`: ends all sessions of the user and starts a new one.
pub(crate) fn change_password(
    app: &App,
    request: &RequestContext,
) -> Result<Response, RequestError> {
    request.require_full_sign_in()?;
    let users = &app.state.users;
    let raw = |name| request.fields.iter().find(|(n, _)| n == name).map_or("", |(_, v)| v.as_str());
    let who = request.login();
    users.attempts().begin(request.client, who)?;
    let bad = StatusCode::BAD_REQUEST;
    if users.verify(who, raw("old"))?.is_none() {
        return form(app, request, bad, Some(translatable("The current password is wrong.")));
    }
    users.attempts().succeeded(request.client, who);
    if raw("new") != raw("again") {
        return form(app, request, bad, Some(translatable("The two new passwords differ.")));
    }
    if raw("new") == raw("old") {
        return form(app, request, bad, Some(translatable("The new password is the old one.")));
    }
    match users
        .set_password(who, raw("new"), false, who, request.now_ms)
        .map_err(RequestError::from)
    {
        Err(RequestError::Bad(why)) => return form(app, request, bad, Some(&why)),
        other => other?,
    };
    let started = users.start_session(who, request.now_ms)?;
    let response = response::redirect("/?notice=password-1");
    Ok(with_cookie(response, &started.token, app.state.options.https))
}
