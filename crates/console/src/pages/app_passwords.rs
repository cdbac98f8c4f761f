//! The passwords of one's own mail programs.

use axum::http::StatusCode;
use axum::response::Response;
use maud::{Markup, html};

use crate::fault::Fault;
use crate::server::App;
use crate::text::{noted, t};
use crate::visit::{self, Visit};
use crate::{format, shell};

/// The part of the account's page.
pub(super) fn section(app: &App, visit: &Visit) -> Result<Markup, Fault> {
    let all = app.state.users.app_passwords(visit.who())?;
    Ok(html! {
        section.card.narrow {
            h2 { (t("Passwords of mail programs")) }
            p { (t("For sending mail through this node, one for each program. With a second factor, mail programs log in with these only; the console never takes them.")) }
            @for one in &all {
                form method="post" action="/account/app-passwords" {
                    (shell::token(visit))
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
                (shell::token(visit))
                (shell::input("name", t("Name: letters, digits, - _ ."), "", "text", ""))
                (password_field())
                button type="submit" name="do" value="make" { (t("Make")) }
            }
        }
    })
}

/// `POST /account/app-passwords`: `do`: make or revoke.
pub(crate) fn change(app: &App, visit: &Visit) -> Result<Response, Fault> {
    let name = visit.field("name");
    match visit.field("do") {
        "make" => {
            let password = make(app, visit, name)?;
            let body = html! {
                h1 { (t("Password of {}").with(name)) }
                section.card.narrow {
                    p { (t("Put it into the mail program, with {} as login. It is not shown again.").with(html! { b { (visit.who()) } })) }
                    p { code.big { (password) } }
                    p { a.button href="/account" { (t("Done")) } }
                }
            };
            let title = t("Passwords of mail programs");
            Ok(visit::page(StatusCode::OK, shell::page(visit, "/account", title, &body)))
        }
        "revoke" => {
            revoke(app, visit, name)?;
            Ok(visit::redirect("/account"))
        }
        _ => Err(Fault::Bad(noted("do: make or revoke").to_owned())),
    }
}

/// Makes one, for who shows their present password.
pub(crate) fn make(app: &App, visit: &Visit, name: &str) -> Result<String, Fault> {
    has_proved(app, visit)?;
    let who = visit.who();
    app.state.users.add_app_password(who, name, who, visit.now_ms)?.ok_or(Fault::SignIn)
}

/// The present password was shown: a session alone, which may be stolen or begun by a digest's link, must not
/// become a password that stays or a second factor that keeps the owner out. Who has no password here
/// (single sign-on, a digest's link) has nothing to prove it by.
pub(crate) fn has_proved(app: &App, visit: &Visit) -> Result<(), Fault> {
    let (users, who) = (&app.state.users, visit.who());
    if !users.has_password(who)? {
        let text = noted("This account has no password here: ask an administrator.");
        return Err(Fault::Bad(text.to_owned()));
    }
    users.attempts().begin(visit.client, who)?;
    // Not trimmed: a password may begin with a space.
    let shown = visit.fields.iter().find(|(n, _)| n == "password").map_or("", |(_, p)| p);
    if users.verify(who, shown)?.is_none() {
        return Err(Fault::Bad(noted("The present password is wrong.").to_owned()));
    }
    users.attempts().succeeded(visit.client, who);
    Ok(())
}

/// The field that [`has_proved`] reads.
pub(super) fn password_field() -> Markup {
    html! {
        label { span { (t("Present password")) }
            input type="password" name="password" autocomplete="current-password" required;
        }
    }
}

/// Revokes one.
pub(crate) fn revoke(app: &App, visit: &Visit, name: &str) -> Result<(), Fault> {
    let who = visit.who();
    if app.state.users.revoke_app_password(who, name, who, visit.now_ms)? {
        return Ok(());
    }
    Err(Fault::NotFound(noted("There is no password of this name.")))
}
