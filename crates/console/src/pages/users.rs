//! The users who may use the console.

use axum::http::StatusCode;
use axum::response::Response;
use gauntlet_store::users::{Role, SecondFactor, User};
use maud::{Markup, html};

use super::{sign_in, tabs};
use crate::app::App;
use crate::error::RequestError;
use crate::request::RequestContext;
use crate::response;
use crate::text::{Phrase, t, translatable};
use crate::{format, layout};

const NO_SUCH_USER: RequestError =
    RequestError::NotFound(translatable("There is no user of this login."));

/// `GET /users`.
pub(crate) fn show(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let users = app.state.users.list()?;
    let body = html! {
        h1 { (t("Users")) }
        (tabs::tabs("/users"))
        (add_form(request))
        section.card.flush { table.cards {
            thead { tr {
                th scope="col" { (t("Login")) } th scope="col" { (t("Role")) } th scope="col" { (t("Folders or addresses")) }
                th scope="col" { (t("Since")) } th scope="col" { (t("Change")) }
            } }
            tbody { @for user in &users { (row(user)) } }
        } }
    };
    Ok(page(request, StatusCode::OK, t("Users"), &body))
}

fn page(
    request: &RequestContext,
    status: StatusCode,
    title: Phrase<'_>,
    body: &Markup,
) -> Response {
    response::page(status, layout::page(request, "/health", title, body))
}

fn row(user: &User) -> Markup {
    let more = [user.folders.join(", "), user.addresses.join(", ")].join(" ");
    html! {
        tr {
            td data-label=(t("Login")) { (format::plain(&user.login)) }
            td data-label=(t("Role")) { (t(user.role.name()))
                @if user.must_change { span.more { " " (t("one-time password")) } } }
            td data-label=(t("Folders or addresses")) { (format::plain(more.trim())) }
            td data-label=(t("Since")) { (format::time(user.created_ms)) }
            td data-label=(t("Change")) { a href={ "/users/" (format::percent(&user.login)) }
                aria-label={ (t("Change {}").with(format::plain(&user.login))) } { (t("Change")) } }
        }
    }
}

/// Fields for role, folders and addresses.
fn rights(role: Role, folders: &[String], addresses: &[String]) -> Markup {
    html! {
        label { span { (t("Role")) }
            select name="role" {
                @for (one, what) in [
                    (Role::User, translatable("user: see and release own mail")),
                    (Role::Reviewer, translatable("reviewer: see the log, decide on mail held in folders")),
                    (Role::Administrator, translatable("administrator: everything")),
                ] { option value=(one.name()) selected[one == role] { (t(what)) } }
            }
        }
        (layout::input("folders", t("Folders of a reviewer, with commas (none: all)"), &folders.join(", "), "text",
            "suspect, bulk"))
        (layout::input("addresses", t("Mail addresses of a user, with commas"), &addresses.join(", "), "text",
            "ann@example.org"))
    }
}

fn add_form(request: &RequestContext) -> Markup {
    html! {
        details.card {
            summary { h2 { (t("Add a user")) } }
            form method="post" action="/users" {
                (layout::token(request))
                (layout::input("login", t("Login, e.g. the mail address"), "", "text", "ann@example.org"))
                (rights(Role::User, &[], &[]))
                button.main type="submit" { (t("Add, with a one-time password")) }
            }
        }
    }
}

/// The parts of a field with commas.
fn list(request: &RequestContext, name: &str) -> Vec<String> {
    let parts = request.field(name).split(',').map(str::trim).filter(|p| !p.is_empty());
    parts.map(str::to_owned).collect()
}

/// `POST /users`: adds a user and shows the one-time password.
pub(crate) fn add(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let user = User {
        login: request.field("login").to_owned(),
        role: request.role_field()?,
        folders: list(request, "folders"),
        addresses: list(request, "addresses"),
        must_change: true,
        created_ms: request.now_ms,
    };
    let password = app.state.users.one_time_password()?;
    app.state.users.add(&user, &password, request.login(), request.now_ms)?;
    Ok(one_time_password_page(request, &user.login, &password))
}

fn one_time_password_page(request: &RequestContext, login: &str, password: &str) -> Response {
    let body = html! {
        h1 { (t("One-time password")) }
        section.card.narrow {
            p { (t("Give it to {} by a safe way; it is not shown again, and must be changed at the first sign-in.").with(html! { b { (format::plain(login)) } })) }
            p { code.big { (password) } }
            p { a.button href="/users" { (t("Done")) } }
        }
    };
    page(request, StatusCode::OK, t("One-time password"), &body)
}

fn find(app: &App, request: &RequestContext) -> Result<User, RequestError> {
    let login = request.param("login");
    app.state
        .users
        .list()?
        .into_iter()
        .find(|u| u.login.eq_ignore_ascii_case(login))
        .ok_or(NO_SUCH_USER)
}

/// `GET /users/{login}`.
pub(crate) fn one(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let user = find(app, request)?;
    let factor = app.state.users.second_factor(&user.login)?;
    let action = format!("/users/{}", format::percent(&user.login));
    let body = html! {
        h1 { (format::plain(&user.login)) }
        (tabs::tabs("/users"))
        form.card.narrow method="post" action=(action) {
            (layout::token(request))
            h2 { (t("Rights")) }
            (rights(user.role, &user.folders, &user.addresses))
            button.main type="submit" name="do" value="rights" { (t("Save")) }
        }
        form.card.narrow method="post" action=(action) {
            (layout::token(request))
            h2 { (t("Access")) }
            p { @match factor {
                SecondFactor::On { recovery_codes } => { (t("Has a second factor, {} recovery codes are left.").with(recovery_codes)) },
                SecondFactor::Off | SecondFactor::Pending => (t("Has no second factor.")),
            } }
            div.actions {
                button type="submit" name="do" value="password" { (t("New one-time password")) }
                @if matches!(factor, SecondFactor::On { .. }) {
                    button type="submit" name="do" value="factor_off" { (t("Switch the second factor off")) }
                }
                button type="submit" name="do" value="sign_out" { (t("Sign out everywhere")) }
                button.danger type="submit" name="do" value="remove" { (t("Remove")) }
            }
        }
    };
    Ok(page(request, StatusCode::OK, t("User"), &body))
}

/// `POST /users/{login}`: `do`: rights, password, factor_off, sign_out, remove.
pub(crate) fn change(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let user = find(app, request)?;
    let (login, who, now, users) = (&user.login, request.login(), request.now_ms, &app.state.users);
    match request.field("do") {
        "rights" => {
            let role = request.role_field()?;
            let (folders, addresses) = (list(request, "folders"), list(request, "addresses"));
            users.change_rights(login, role, &folders, &addresses, who, now)?;
            let done = response::redirect("/users?notice=users-1");
            return stay_signed_in(app, request, login, done);
        }
        "password" => {
            not_oneself(request, login)?;
            let password = users.one_time_password()?;
            users.set_password(login, &password, true, who, now)?;
            return Ok(one_time_password_page(request, login, &password));
        }
        "factor_off" => {
            not_oneself(request, login)?;
            users.remove_totp(login, who, now)?;
        }
        "sign_out" => users.end_sessions(login, who, now)?,
        "remove" if request.field("sure") == "yes" => {
            users.remove(login, who, now)?;
        }
        "remove" => return Ok(ask(request, login)),
        _ => {
            let why = "do: rights, password, factor_off, sign_out or remove";
            return Err(RequestError::Bad(why.to_owned()));
        }
    }
    Ok(response::redirect("/users?notice=users-1"))
}

/// Refuses to take the proofs from one's own account without showing them: a session that an
/// attacker else got hold of must not become theirs for good.
pub(crate) fn not_oneself(request: &RequestContext, login: &str) -> Result<(), RequestError> {
    let why = translatable("Change your own password and second factor under Account.");
    if login.eq_ignore_ascii_case(request.login()) {
        Err(RequestError::Forbidden(why))
    } else {
        Ok(())
    }
}

/// Who changes their own rights ends all their sessions and goes on in a new one.
pub(crate) fn stay_signed_in(
    app: &App,
    request: &RequestContext,
    login: &str,
    response: Response,
) -> Result<Response, RequestError> {
    let is_own = request.granted.is_none() && login.eq_ignore_ascii_case(request.login());
    if is_own { sign_in::again(app, request, response) } else { Ok(response) }
}

fn ask(request: &RequestContext, login: &str) -> Response {
    let body = html! {
        h1 { (t("Remove {}?").with(format::plain(login))) }
        p.lead { (t("Their sessions end, and tokens that they made are revoked. What they did stays in Activity.")) }
        form.actions method="post" action={ "/users/" (format::percent(login)) } {
            (layout::token(request))
            input type="hidden" name="sure" value="yes";
            button.danger type="submit" name="do" value="remove" { (t("Remove")) }
            a.button.quiet href="/users" { (t("Keep")) }
        }
    };
    page(request, StatusCode::OK, t("Remove?"), &body)
}
