//! People, and senders that count for the whole node.

use axum::response::Response;
use gauntlet_store::users::{Role, Scope, User, token_end};
use gauntlet_verdict::lists::List;
use serde_json::json;

use super::done;
use crate::fault::Fault;
use crate::pages::messages::number;
use crate::pages::{senders, tokens as token_page, users};
use crate::server::App;
use crate::text::noted;
use crate::visit::Visit;

/// What a reviewer may do, as scopes.
const REVIEWER: &[Scope] =
    &[Scope::StatusRead, Scope::MessagesRead, Scope::QuarantineRead, Scope::QuarantineWrite];
/// What a user may do who has mail here.
const USER: &[Scope] = &[Scope::QuarantineRead, Scope::QuarantineWrite];

/// Refuses a program to give somebody what they can send mail with, unless its token says so: every person may
/// log in by SMTP AUTH with their password, as their own addresses, or as anybody where they have none.
fn may_let_send(visit: &Visit) -> Result<(), Fault> {
    visit.needs(Scope::SubmissionWrite)
}

/// Refuses a program to give rights, or the password of somebody with rights, that go beyond its
/// token: with them it could do what the token does not let it.
fn may_give(visit: &Visit, role: Role, addresses: &[String]) -> Result<(), Fault> {
    let needed = match role {
        // What an administrator may do has no end and no scope.
        Role::Administrator if visit.granted.is_some() => {
            return Err(Fault::Forbidden(noted(
                "A token neither makes nor changes administrators: sign in to do it.",
            )));
        }
        Role::Administrator => &[],
        Role::Reviewer => REVIEWER,
        Role::User if addresses.is_empty() => &[],
        Role::User => USER,
    };
    needed.iter().try_for_each(|scope| visit.needs(*scope))
}

/// The person of this login, if whoever asks may change what they can do.
fn changeable(app: &App, visit: &Visit) -> Result<User, Fault> {
    let login = visit.param("login");
    let found = app.state.users.list()?.into_iter().find(|u| u.login.eq_ignore_ascii_case(login));
    let user = found.ok_or(NOBODY)?;
    may_give(visit, user.role, &user.addresses)?;
    Ok(user)
}

const NOBODY: Fault = Fault::NotFound(noted("There is nobody of this login."));

/// `GET /api/v1/senders`.
pub(super) fn senders(app: &App, _: &Visit) -> Result<Response, Fault> {
    done(&json!({ "senders": app.state.users.listed_senders()? }))
}

/// `PUT /api/v1/senders`.
pub(super) fn list_sender(app: &App, visit: &Visit) -> Result<Response, Fault> {
    let (entry, list) = (visit.field("entry"), visit.field("list"));
    List::parse([entry]).map_err(|e| Fault::Bad(e.to_string()))?;
    app.state.users.list_sender(entry, list == "allow", visit.who(), visit.now_ms)?;
    senders::tell(app)?;
    done(&json!({ "entry": entry, "list": list }))
}

/// `DELETE /api/v1/senders`.
pub(super) fn unlist_sender(app: &App, visit: &Visit) -> Result<Response, Fault> {
    let removed = app.state.users.unlist_sender(visit.field("entry"), visit.who(), visit.now_ms)?;
    senders::tell(app)?;
    done(&json!({ "removed": removed }))
}

/// `GET /api/v1/users`.
pub(super) fn list(app: &App, _: &Visit) -> Result<Response, Fault> {
    done(&json!({ "users": app.state.users.list()? }))
}

/// `POST /api/v1/users`.
pub(super) fn add(app: &App, visit: &Visit) -> Result<Response, Fault> {
    let all = |name| visit.all(name).map(str::to_owned).collect();
    let user = User {
        login: visit.field("login").to_owned(),
        role: visit.field("role").parse::<Role>().map_err(|error| Fault::Bad(error.to_string()))?,
        folders: all("folders"),
        addresses: all("addresses"),
        must_change: true,
        created_ms: visit.now_ms,
    };
    may_let_send(visit)?;
    may_give(visit, user.role, &user.addresses)?;
    let password = app.state.users.one_time_password()?;
    app.state.users.add(&user, &password, visit.who(), visit.now_ms)?;
    done(&json!({ "login": user.login, "one_time_password": password }))
}

/// `DELETE /api/v1/users/{login}`.
pub(super) fn remove(app: &App, visit: &Visit) -> Result<Response, Fault> {
    let login = &changeable(app, visit)?.login;
    if !app.state.users.remove(login, visit.who(), visit.now_ms)? {
        return Err(NOBODY);
    }
    done(&json!({ "removed": true }))
}

/// `POST /api/v1/users/{login}/password`.
pub(super) fn password(app: &App, visit: &Visit) -> Result<Response, Fault> {
    may_let_send(visit)?;
    let (login, users) = (&changeable(app, visit)?.login, &app.state.users);
    users::not_oneself(visit, login)?;
    let password = users.one_time_password()?;
    if !users.set_password(login, &password, true, visit.who(), visit.now_ms)? {
        return Err(NOBODY);
    }
    done(&json!({ "login": login, "one_time_password": password }))
}

/// `PUT /api/v1/users/{login}`.
pub(super) fn rights(app: &App, visit: &Visit) -> Result<Response, Fault> {
    let login = visit.param("login");
    let role: Role =
        visit.field("role").parse::<Role>().map_err(|error| Fault::Bad(error.to_string()))?;
    let all = |name| -> Vec<String> { visit.all(name).map(str::to_owned).collect() };
    let (folders, addresses) = (all("folders"), all("addresses"));
    may_let_send(visit)?;
    changeable(app, visit)?;
    may_give(visit, role, &addresses)?;
    let (who, now) = (visit.who(), visit.now_ms);
    if !app.state.users.change_rights(login, role, &folders, &addresses, who, now)? {
        return Err(NOBODY);
    }
    let response = done(&json!({ "login": login, "role": role.name() }))?;
    users::stay_signed_in(app, visit, login, response)
}

/// `DELETE /api/v1/users/{login}/second-factor`.
pub(super) fn factor_off(app: &App, visit: &Visit) -> Result<Response, Fault> {
    // Their own password then counts again where mail programs log in.
    may_let_send(visit)?;
    let login = &changeable(app, visit)?.login;
    users::not_oneself(visit, login)?;
    let removed = app.state.users.remove_totp(login, visit.who(), visit.now_ms)?;
    done(&json!({ "removed": removed }))
}

/// `GET /api/v1/tokens`.
pub(super) fn tokens(app: &App, _: &Visit) -> Result<Response, Fault> {
    done(&json!({ "tokens": app.state.users.tokens()? }))
}

/// `POST /api/v1/tokens`.
pub(super) fn add_token(app: &App, visit: &Visit) -> Result<Response, Fault> {
    let name = visit.field("name");
    let mut scopes = Vec::new();
    for scope in visit.all("scopes") {
        scopes.push(scope.parse::<Scope>().map_err(|error| Fault::Bad(error.to_string()))?);
    }
    // At most what whoever asks has: its scopes, and no longer than its own life.
    scopes.iter().try_for_each(|scope| visit.needs(*scope))?;
    let days: i64 = number(visit, "days")?.unwrap_or(token_page::DAYS_DEFAULT);
    let own_end = visit.granted.as_ref().map_or(i64::MAX, |token| token.expires_ms);
    let expires_ms = token_end(visit.now_ms, days).min(own_end);
    let users = &app.state.users;
    let secret = users.add_token_until(name, &scopes, expires_ms, visit.who(), visit.now_ms)?;
    done(&json!({ "name": name, "secret": secret, "expires_ms": expires_ms }))
}

/// `DELETE /api/v1/tokens/{name}`.
pub(super) fn revoke(app: &App, visit: &Visit) -> Result<Response, Fault> {
    if !app.state.users.revoke_token(visit.param("name"), visit.who(), visit.now_ms)? {
        return Err(Fault::NotFound(noted("There is no token of this name.")));
    }
    done(&json!({ "removed": true }))
}
