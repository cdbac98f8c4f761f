//! Users, and allowed and blocked senders of the whole node.

use axum::response::Response;
use gauntlet_store::users::{Role, Scope, User, token_end};
use gauntlet_verdict::lists::check_entry;
use serde_json::json;

use super::done;
use crate::app::App;
use crate::error::RequestError;
use crate::pages::query_fields::number;
use crate::pages::{senders, tokens as token_page, users};
use crate::request::RequestContext;
use crate::text::translatable;

/// What a reviewer may do, as scopes.
const REVIEWER: &[Scope] =
    &[Scope::StatusRead, Scope::MessagesRead, Scope::QuarantineRead, Scope::QuarantineWrite];
/// What a user may do who has mail here.
const USER: &[Scope] = &[Scope::QuarantineRead, Scope::QuarantineWrite];

/// Refuses a program to give a user what they can send mail with, unless its token says so: every
/// user may log in by SMTP AUTH with their password, as their own addresses, or as anybody where
/// they have none.
fn may_let_send(request: &RequestContext) -> Result<(), RequestError> {
    request.require_scope(Scope::SubmissionWrite)
}

/// Refuses a program to give rights, or the password of a user with rights, that go beyond its
/// token: with them it could do what the token does not let it.
fn may_give(
    request: &RequestContext,
    role: Role,
    addresses: &[String],
) -> Result<(), RequestError> {
    let needed = match role {
        // What an administrator may do has no end and no scope.
        Role::Administrator if request.granted.is_some() => {
            return Err(RequestError::Forbidden(translatable(
                "A token neither makes nor changes administrators: sign in to do it.",
            )));
        }
        Role::Administrator => &[],
        Role::Reviewer => REVIEWER,
        Role::User if addresses.is_empty() => &[],
        Role::User => USER,
    };
    needed.iter().try_for_each(|scope| request.require_scope(*scope))
}

/// The user of this login, if the caller may change what they can do.
fn changeable(app: &App, request: &RequestContext) -> Result<User, RequestError> {
    let login = request.param("login");
    let found = app.state.users.list()?.into_iter().find(|u| u.login.eq_ignore_ascii_case(login));
    let user = found.ok_or(NO_SUCH_USER)?;
    may_give(request, user.role, &user.addresses)?;
    Ok(user)
}

const NO_SUCH_USER: RequestError =
    RequestError::NotFound(translatable("There is no user of this login."));

/// `GET /api/v1/senders`.
pub(super) fn senders(app: &App, _: &RequestContext) -> Result<Response, RequestError> {
    done(&json!({ "senders": app.state.users.listed_senders()? }))
}

/// `PUT /api/v1/senders`.
pub(super) fn list_sender(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let (entry, list) = (request.field("entry"), request.field("list"));
    check_entry(entry).map_err(|e| RequestError::Bad(e.to_string()))?;
    app.state.users.list_sender(entry, list == "allow", request.login(), request.now_ms)?;
    senders::apply(app)?;
    done(&json!({ "entry": entry, "list": list }))
}

/// `DELETE /api/v1/senders`.
pub(super) fn unlist_sender(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let removed =
        app.state.users.unlist_sender(request.field("entry"), request.login(), request.now_ms)?;
    senders::apply(app)?;
    done(&json!({ "removed": removed }))
}

/// `GET /api/v1/users`.
pub(super) fn list(app: &App, _: &RequestContext) -> Result<Response, RequestError> {
    done(&json!({ "users": app.state.users.list()? }))
}

/// `POST /api/v1/users`.
pub(super) fn add(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let all = |name| request.values(name).filter(|v| !v.is_empty()).map(str::to_owned).collect();
    let user = User {
        login: request.field("login").to_owned(),
        role: request.role_field()?,
        folders: all("folders"),
        addresses: all("addresses"),
        must_change: true,
        created_ms: request.now_ms,
    };
    may_let_send(request)?;
    may_give(request, user.role, &user.addresses)?;
    let password = app.state.users.one_time_password()?;
    app.state.users.add(&user, &password, request.login(), request.now_ms)?;
    done(&json!({ "login": user.login, "one_time_password": password }))
}

/// `DELETE /api/v1/users/{login}`.
pub(super) fn remove(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let login = &changeable(app, request)?.login;
    if !app.state.users.remove(login, request.login(), request.now_ms)? {
        return Err(NO_SUCH_USER);
    }
    done(&json!({ "removed": true }))
}

/// `POST /api/v1/users/{login}/password`.
pub(super) fn password(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    may_let_send(request)?;
    let (login, users) = (&changeable(app, request)?.login, &app.state.users);
    users::not_oneself(request, login)?;
    let password = users.one_time_password()?;
    if !users.set_password(login, &password, true, request.login(), request.now_ms)? {
        return Err(NO_SUCH_USER);
    }
    done(&json!({ "login": login, "one_time_password": password }))
}

/// `PUT /api/v1/users/{login}`.
pub(super) fn rights(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let login = request.param("login");
    let role = request.role_field()?;
    let all = |name| -> Vec<String> {
        request.values(name).filter(|v| !v.is_empty()).map(str::to_owned).collect()
    };
    let (folders, addresses) = (all("folders"), all("addresses"));
    may_let_send(request)?;
    changeable(app, request)?;
    may_give(request, role, &addresses)?;
    let (who, now) = (request.login(), request.now_ms);
    if !app.state.users.change_rights(login, role, &folders, &addresses, who, now)? {
        return Err(NO_SUCH_USER);
    }
    let response = done(&json!({ "login": login, "role": role.name() }))?;
    users::stay_signed_in(app, request, login, response)
}

/// `DELETE /api/v1/users/{login}/second-factor`.
pub(super) fn factor_off(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    // Their own password then counts again where mail programs log in.
    may_let_send(request)?;
    let login = &changeable(app, request)?.login;
    users::not_oneself(request, login)?;
    let removed = app.state.users.remove_totp(login, request.login(), request.now_ms)?;
    done(&json!({ "removed": removed }))
}

/// `GET /api/v1/tokens`.
pub(super) fn tokens(app: &App, _: &RequestContext) -> Result<Response, RequestError> {
    done(&json!({ "tokens": app.state.users.tokens()? }))
}

/// `POST /api/v1/tokens`.
pub(super) fn add_token(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let name = request.field("name");
    let mut scopes = Vec::new();
    for scope in request.values("scopes") {
        scopes.push(scope.parse::<Scope>().map_err(|error| RequestError::Bad(error.to_string()))?);
    }
    // At most what the caller's own token has: its scopes, and no later end.
    scopes.iter().try_for_each(|scope| request.require_scope(*scope))?;
    let days: i64 = number(request, "days")?.unwrap_or(token_page::DAYS_DEFAULT);
    let own_end = request.granted.as_ref().map_or(i64::MAX, |token| token.expires_ms);
    let expires_ms = token_end(request.now_ms, days).min(own_end);
    let users = &app.state.users;
    let secret =
        users.add_token_until(name, &scopes, expires_ms, request.login(), request.now_ms)?;
    done(&json!({ "name": name, "secret": secret, "expires_ms": expires_ms }))
}

/// `DELETE /api/v1/tokens/{name}`.
pub(super) fn revoke(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    if !app.state.users.revoke_token(request.param("name"), request.login(), request.now_ms)? {
        return Err(RequestError::NotFound(translatable("There is no token of this name.")));
    }
    done(&json!({ "removed": true }))
}
