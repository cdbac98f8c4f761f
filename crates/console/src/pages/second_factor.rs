//! The second factor of one's own account.

use axum::http::StatusCode;
use axum::response::Response;
use gauntlet_store::users::SecondFactor;
use maud::{Markup, html};

use super::{app_passwords, sign_in};
use crate::fault::Fault;
use crate::server::App;
use crate::text::{noted, t};
use crate::visit::{self, Visit};
use crate::{format, shell};

/// The part of the account's page.
pub(super) fn section(app: &App, visit: &Visit) -> Result<Markup, Fault> {
    let state = app.state.users.second_factor(visit.who())?;
    Ok(html! {
        section.card.narrow {
            h2 { (t("Second factor")) }
            form method="post" action="/account/second-factor" {
                (shell::token(visit))
                @match state {
                    SecondFactor::On { recovery_codes } => {
                        p { (t("On: signing in asks for a code. {} recovery codes are left.").with(recovery_codes)) }
                        (code_field())
                        button.danger type="submit" name="do" value="off" { (t("Switch off")) }
                    }
                    SecondFactor::Off | SecondFactor::Pending => {
                        p { (t("Off. An authenticator app shows a code that changes every 30 seconds; a stolen password alone opens nothing then.")) }
                        (app_passwords::proof_field(app, visit)?)
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
pub(crate) fn change(app: &App, visit: &Visit) -> Result<Response, Fault> {
    let (who, users) = (visit.who(), &app.state.users);
    let code = visit.field("code");
    match visit.field("do") {
        "begin" => {
            app_passwords::has_proved(app, visit)?;
            Ok(shown(visit, &users.begin_totp(who)?))
        }
        "on" => match enable(app, visit, code)? {
            Some(codes) => sign_in::again(app, visit, recovery(visit, &codes)),
            None => Err(Fault::Bad(
                noted("This is not the code of this moment. Begin again under Account.").to_owned(),
            )),
        },
        "off" => {
            disable(app, visit, code)?;
            sign_in::again(app, visit, visit::redirect("/account?notice=factor_off-1"))
        }
        _ => Err(Fault::Bad(noted("do: begin, on or off").to_owned())),
    }
}

/// Puts the second factor that was begun into use, if this is a code of it: recovery codes. None if it is
/// wrong; that counts as a try.
pub(crate) fn enable(app: &App, visit: &Visit, code: &str) -> Result<Option<Vec<String>>, Fault> {
    let (who, users) = (visit.who(), &app.state.users);
    users.attempts().begin_code(who)?;
    let codes = users.enable_totp(who, code, visit.now_ms)?;
    if codes.is_some() {
        users.attempts().code_succeeded(who);
    }
    Ok(codes)
}

/// Takes one's own second factor away, if this is a code of it; a wrong one counts as a try.
pub(crate) fn disable(app: &App, visit: &Visit, code: &str) -> Result<(), Fault> {
    let (who, users) = (visit.who(), &app.state.users);
    users.attempts().begin_code(who)?;
    if !users.verify_second_factor(who, code, visit.now_ms)? {
        return Err(Fault::Bad(noted("The code is wrong, or was used before.").to_owned()));
    }
    users.attempts().code_succeeded(who);
    users.remove_totp(who, who, visit.now_ms)?;
    Ok(())
}

fn shown(visit: &Visit, secret: &str) -> Response {
    let name = format::percent(visit.who());
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
                (shell::token(visit))
                (code_field())
                button.main type="submit" name="do" value="on" { (t("Switch on")) }
            }
        }
    };
    visit::page(StatusCode::OK, shell::page(visit, "/account", t("Second factor"), &body))
}

fn recovery(visit: &Visit, codes: &[String]) -> Response {
    let body = html! {
        h1 { (t("The second factor is on")) }
        section.card.narrow {
            p { (t("Keep these recovery codes where you keep your passwords: each opens your account once, if the telephone is lost. They are not shown again.")) }
            ul.plain { @for code in codes { li { code { (code) } } } }
            p { a.button href="/account" { (t("I have kept them")) } }
        }
    };
    visit::page(StatusCode::OK, shell::page(visit, "/account", t("Second factor"), &body))
}
