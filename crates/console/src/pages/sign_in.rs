//! Signing in and out.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use maud::{Markup, html};

use crate::app::App;
use crate::error::RequestError;
use crate::request::RequestContext;
use crate::response;
use crate::text::{t, translatable};
use crate::{access, format, layout};

/// Does not say which of them is wrong: an answer must not confirm a guessed password.
const WRONG: &str = translatable("Wrong login, password or code.");

/// `GET /sign-in`.
pub(crate) fn show(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    if request.session.is_some() {
        return Ok(response::redirect(next(app, request)));
    }
    Ok(response::page(StatusCode::OK, form(app, request, None)))
}

/// `POST /sign-in`: starts a new session, whatever session there was before.
pub(crate) fn sign_in(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let users = &app.state.users;
    let login = request.field("login");
    users.attempts().begin(request.client, login)?;
    // Not trimmed: a password may begin with a space.
    let password = request.fields.iter().find(|(n, _)| n == "password").map_or("", |(_, p)| p);
    let Some(user) = users.verify(login, password)? else {
        let shown: String = login.chars().take(100).collect();
        users.note(request.now_ms, &shown, "sign-in failed", &request.client.to_string())?;
        return Ok(response::page(StatusCode::UNAUTHORIZED, form(app, request, Some(WRONG))));
    };
    let code = request.field("code");
    if !code.is_empty() {
        users.attempts().begin_code(&user.login)?;
    }
    if !users.verify_second_factor(&user.login, code, request.now_ms)? {
        users.note(
            request.now_ms,
            &user.login,
            "sign-in failed: code",
            &request.client.to_string(),
        )?;
        return Ok(response::page(StatusCode::UNAUTHORIZED, form(app, request, Some(WRONG))));
    }
    users.attempts().succeeded(request.client, login);
    users.attempts().code_succeeded(&user.login);
    if let Some(old) = &request.token {
        users.end_session(old)?;
    }
    let started = users.start_session(&user.login, request.now_ms)?;
    users.note(request.now_ms, &user.login, "sign-in", &request.client.to_string())?;
    let to = if user.must_change { "/account" } else { next(app, request) };
    Ok(with_cookie(response::redirect(to), &started.token, app.state.options.https))
}

/// `POST /sign-out`.
pub(crate) fn sign_out(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    if let Some(token) = &request.token {
        app.state.users.end_session(token)?;
    }
    Ok(with_cookie(response::redirect("/sign-in"), "", app.state.options.https))
}

/// Goes on in a new session, where all of a user's sessions ended by what they did themselves.
pub(crate) fn again(
    app: &App,
    request: &RequestContext,
    response: Response,
) -> Result<Response, RequestError> {
    let Some(session) = &request.session else { return Err(RequestError::SignIn) };
    // One that was there already: rights that did not change end nothing.
    if let Some(old) = &request.token {
        app.state.users.end_session(old)?;
    }
    let who = request.login();
    let started = app.state.users.start_session_with(who, session.proof, "", request.now_ms)?;
    Ok(with_cookie(response, &started.token, app.state.options.https))
}

/// Sets the session's cookie.
pub(crate) fn with_cookie(mut response: Response, token: &str, https: bool) -> Response {
    if let Ok(value) = HeaderValue::from_str(&access::cookie(token, https)) {
        response.headers_mut().insert(header::SET_COOKIE, value);
    }
    response
}

/// Where to go after signing in: a page of ours, nothing else. A form that was sent too late leads
/// to the page that has it.
pub(super) fn next<'a>(app: &App, request: &'a RequestContext) -> &'a str {
    app.addresses.page(request.field("next"))
}

fn form(app: &App, request: &RequestContext, wrong: Option<&str>) -> Markup {
    layout::bare(
        t("Sign in"),
        &html! {
            section.card.narrow.sign-in {
                div.brand { (layout::mark()) span { "Gauntlet" } }
                h1 { (t("Sign in")) }
                @if let Some(wrong) = wrong { p.notice.poor role="alert" { (t(wrong)) } }
                form method="post" action="/sign-in" {
                    input type="hidden" name="next" value=(next(app, request));
                    label { span { (t("Name")) }
                        input name="login" value=(request.field("login")) autocomplete="username"
                            autofocus required spellcheck="false" autocapitalize="none";
                    }
                    label { span { (t("Password")) }
                        input type="password" name="password" autocomplete="current-password"
                            required;
                    }
                    label { span { (t("Code, if you set up a second factor")) }
                        input name="code" autocomplete="one-time-code" autocapitalize="none"
                            spellcheck="false" maxlength="40";
                    }
                    button.main type="submit" { (t("Sign in")) }
                }
                @if let Some(oidc) = &app.state.oidc {
                    p.other-way { a.button href={ "/sign-in/oidc?next=" (format::percent(next(app, request))) } {
                        (oidc.name) } }
                }
                p.hint { (t("The node prints a one-time password for {} when it starts for the first time.").with(html! { b { "admin" } })) }
            }
        },
    )
}
