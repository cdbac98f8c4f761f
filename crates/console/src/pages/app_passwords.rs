//! The passwords of one's own mail programs.

use axum::http::StatusCode;
use axum::response::Response;
use maud::{Markup, html};

use crate::app::App;
use crate::error::RequestError;
use crate::request::RequestContext;
use crate::response;
use crate::text::{t, translatable};
use crate::{format, layout};

/// The part of the account's page.
pub(super) fn section(app: &App, request: &RequestContext) -> Result<Markup, RequestError> {
    let all = app.state.users.app_passwords(request.login())?;
    Ok(html! {
        section.card.narrow {
            h2 { (t("Passwords of mail programs")) }
            p { (t("For sending mail through this node, one for each program. With a second factor, mail programs log in with these only; the console never takes them.")) }
            @for one in &all {
                form method="post" action="/account/app-passwords" {
                    (layout::token(request))
                    input type="hidden" name="name" value=(one.name);
                    p { b { (one.name) } " " (format::time(one.created_ms)) " "
                        @match one.used_ms {
                            Some(at) => { (t("last used")) " " (format::time(at)) " " },
                            None => { (t("never used")) " " },
                        }
                        button.quiet type="submit" name="do" value="revoke"
                            aria-label={ (t("Revoke {}").with(&one.name)) } { (t("Revoke")) } }
                }
            }
            form method="post" action="/account/app-passwords" {
                (layout::token(request))
                (layout::input("name", t("Name: letters, digits, - _ ."), "", "text", ""))
                (proof_field(app, request)?)
                button type="submit" name="do" value="make" { (t("Make")) }
            }
        }
    })
}

/// `POST /account/app-passwords`: `do`: make or revoke.
pub(crate) fn change(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let name = request.field("name");
    match request.field("do") {
        "make" => {
            let password = make(app, request, name)?;
            let body = html! {
                h1 { (t("Password of {}").with(name)) }
                section.card.narrow {
                    p { (t("Put it into the mail program, with {} as login. It is not shown again.").with(html! { b { (request.login()) } })) }
                    p { code.big { (password) } }
                    p.hint { (t("A change of your password, also by an administrator, revokes it: mail programs then get 535.")) }
                    p { a.button href="/account" { (t("Done")) } }
                }
            };
            let title = t("Passwords of mail programs");
            Ok(response::page(StatusCode::OK, layout::page(request, "/account", title, &body)))
        }
        "revoke" => {
            revoke(app, request, name)?;
            Ok(response::redirect("/account"))
        }
        _ => Err(RequestError::Bad(translatable("do: make or revoke").to_owned())),
    }
}

/// Makes one, for who shows their present password.
pub(crate) fn make(
    app: &App,
    request: &RequestContext,
    name: &str,
) -> Result<String, RequestError> {
    has_proved(app, request)?;
    let who = request.login();
    app.state.users.add_app_password(who, name, who, request.now_ms)?.ok_or(RequestError::SignIn)
}

/// The present password was shown: a session alone, which may be stolen, must not become something
/// that stays behind when its owner comes back. Who has no password here shows a sign-in at the
/// provider of the single sign-on that was made for this.
pub(crate) fn has_proved(app: &App, request: &RequestContext) -> Result<(), RequestError> {
    let (users, who) = (&app.state.users, request.login());
    if !users.has_password(who)? {
        return match request.is_recent_sign_in() {
            true => Ok(()),
            false => Err(RequestError::Bad(no_password(app, who))),
        };
    }
    users.attempts().begin(request.client, who)?;
    // Not trimmed: a password may begin with a space.
    let shown = request.fields.iter().find(|(n, _)| n == "password").map_or("", |(_, p)| p);
    if users.verify(who, shown)?.is_none() {
        return Err(RequestError::Bad(translatable("The current password is wrong.").to_owned()));
    }
    users.attempts().succeeded(request.client, who);
    Ok(())
}

/// What a user without a password can do, or an administrator for them.
fn no_password(app: &App, who: &str) -> String {
    let command = by_command(who);
    let by_oneself = app.state.oidc.as_ref().map(|oidc| {
        let name = format::plain(&oidc.name);
        format!("sign in anew at {name} (under Account) and do it within five minutes, or ")
    });
    let by_oneself = by_oneself.unwrap_or_default();
    format!(
        "This account has no password here: {by_oneself}ask an administrator to run `{command}` for a mail \
         program."
    )
}

/// The command that makes a password for a mail program of this user.
fn by_command(who: &str) -> String {
    // Nothing in a login is to mean anything to a shell.
    let plain = who.bytes().all(|b| b.is_ascii_alphanumeric() || b"@._-+".contains(&b));
    let quoted = format!("'{}'", who.replace('\'', "'\\''"));
    let login = if plain { who } else { &quoted };
    format!("gauntlet user app-password new {login} NAME")
}

/// What [`has_proved`] asks for: a field, nothing, or how to come by the proof.
pub(super) fn proof_field(app: &App, request: &RequestContext) -> Result<Markup, RequestError> {
    if app.state.users.has_password(request.login())? {
        return Ok(html! {
            label { span { (t("Current password")) }
                input type="password" name="password" autocomplete="current-password" required;
            }
        });
    }
    if request.is_recent_sign_in() {
        return Ok(html! {});
    }
    let command = html! { code { (by_command(request.login())) } };
    Ok(html! {
        @if let Some(oidc) = &app.state.oidc {
            p.hint { (t("You have no password here: sign in anew first, and go on within five minutes.")) " "
                a.button href="/sign-in/oidc?prove=yes&next=/account" { (oidc.name) } }
        }
        p.hint { (t("An administrator makes a password for a mail program with {}.").with(command)) }
    })
}

pub(crate) fn revoke(app: &App, request: &RequestContext, name: &str) -> Result<(), RequestError> {
    let who = request.login();
    if app.state.users.revoke_app_password(who, name, who, request.now_ms)? {
        return Ok(());
    }
    Err(RequestError::NotFound(translatable("There is no password of this name.")))
}
