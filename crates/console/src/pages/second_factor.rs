//! The second factor of one's own account.

use axum::http::StatusCode;
use axum::response::Response;
use gauntlet_store::users::SecondFactor;
use maud::{Markup, html};

use super::{app_passwords, sign_in};
use crate::app::App;
use crate::error::RequestError;
use crate::request::RequestContext;
use crate::response;
use crate::text::{t, translatable};
use crate::{format, layout};

/// The part of the account's page.
pub(super) fn section(app: &App, request: &RequestContext) -> Result<Markup, RequestError> {
    let state = app.state.users.second_factor(request.login())?;
    Ok(html! {
        section.card.narrow {
            h2 { (t("Second factor")) }
            form method="post" action="/account/second-factor" {
                (layout::token(request))
                @match state {
                    SecondFactor::On { recovery_codes } => {
                        p { (t("On: signing in asks for a code. {} recovery codes are left.").with(recovery_codes)) }
                        (code_field())
                        button.danger type="submit" name="do" value="off" { (t("Switch off")) }
                    }
                    SecondFactor::Off | SecondFactor::Pending => {
                        p { (t("Off. An authenticator app shows a code that changes every 30 seconds; a stolen password alone opens nothing then.")) }
                        (app_passwords::proof_field(app, request)?)
                        button type="submit" name="do" value="begin" { (t("Set up")) }
                    }
                }
            }
        }
    })
}

fn code_field() -> Markup {
    html! {
        label { span { (t("Code, or a recovery code")) }
            input name="code" autocomplete="one-time-code" autocapitalize="none" spellcheck="false"
                maxlength="40" required;
        }
    }
}

/// `POST /account/second-factor`: `do`: begin, on, off.
pub(crate) fn change(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let (who, users) = (request.login(), &app.state.users);
    let code = request.field("code");
    match request.field("do") {
        "begin" => {
            app_passwords::has_proved(app, request)?;
            Ok(shown(request, &users.begin_totp(who)?))
        }
        "on" => match enable(app, request, code)? {
            Some(codes) => sign_in::again(app, request, recovery(request, &codes)),
            None => Ok(another_try(request)),
        },
        "off" => {
            disable(app, request, code)?;
            sign_in::again(app, request, response::redirect("/account?notice=factor_off-1"))
        }
        _ => Err(RequestError::Bad(translatable("do: begin, on or off").to_owned())),
    }
}

/// Puts the second factor that was begun into use, if this is a code of it: recovery codes. None if
/// it is wrong; that counts as a try.
pub(crate) fn enable(
    app: &App,
    request: &RequestContext,
    code: &str,
) -> Result<Option<Vec<String>>, RequestError> {
    let (who, users) = (request.login(), &app.state.users);
    users.attempts().begin_code(who)?;
    let codes = users.enable_totp(who, code, request.now_ms)?;
    if codes.is_some() {
        users.attempts().code_succeeded(who);
    }
    Ok(codes)
}

/// Takes one's own second factor away, if this is a code of it; a wrong one counts as a try.
pub(crate) fn disable(app: &App, request: &RequestContext, code: &str) -> Result<(), RequestError> {
    let (who, users) = (request.login(), &app.state.users);
    users.attempts().begin_code(who)?;
    if !users.verify_second_factor(who, code, request.now_ms)? {
        return Err(RequestError::Bad(
            translatable("The code is wrong, or was used before.").to_owned(),
        ));
    }
    users.attempts().code_succeeded(who);
    users.remove_totp(who, who, request.now_ms)?;
    Ok(())
}

fn shown(request: &RequestContext, secret: &str) -> Response {
    let name = format::percent(request.login());
    let address = format!("otpauth://totp/Gauntlet:{name}?secret={secret}&issuer=Gauntlet");
    let grouped: Vec<&str> = (0..secret.len())
        .step_by(4)
        .filter_map(|at| secret.get(at..(at + 4).min(secret.len())))
        .collect();
    let body = html! {
        h1 { (t("Second factor")) }
        section.card.narrow {
            p { (t("Add an account in your authenticator app with this key (time based, six digits), or {}.")
                .with(html! { a href=(address) { (t("open the app on this device")) } })) }
            p { code.big { (grouped.join(" ")) } }
            form method="post" action="/account/second-factor" {
                (layout::token(request))
                (code_field())
                button.main type="submit" name="do" value="on" { (t("Switch on")) }
            }
        }
    };
    response::page(StatusCode::OK, layout::page(request, "/account", t("Second factor"), &body))
}

/// After a wrong code: what was begun goes on, with the key that the app has.
fn another_try(request: &RequestContext) -> Response {
    let body = html! {
        h1 { (t("Second factor")) }
        section.card.narrow {
            p.notice.poor role="alert" {
                (t("The code was wrong: enter the one that the app shows now. If none is taken, see that the clock of the device is right."))
            }
            form method="post" action="/account/second-factor" {
                (layout::token(request))
                (code_field())
                button.main type="submit" name="do" value="on" { (t("Switch on")) }
            }
        }
    };
    let page = layout::page(request, "/account", t("Second factor"), &body);
    response::page(StatusCode::BAD_REQUEST, page)
}

fn recovery(request: &RequestContext, codes: &[String]) -> Response {
    let body = html! {
        h1 { (t("The second factor is on")) }
        section.card.narrow {
            p { (t("Keep these recovery codes where you keep your passwords: each opens your account once, if the telephone is lost. They are not shown again.")) }
            ul.plain { @for code in codes { li { code { (code) } } } }
            p { a.button href="/account" { (t("I have kept them")) } }
        }
    };
    response::page(StatusCode::OK, layout::page(request, "/account", t("Second factor"), &body))
}
