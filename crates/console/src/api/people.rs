//! People, and senders that count for the whole node.

use axum::response::Response;
use gauntlet_engine::lists::List;
use gauntlet_store::users::{Role, Scope, User};
use serde_json::json;

use super::done;
use crate::fault::Fault;
use crate::pages::messages::number;
use crate::pages::{senders, tokens as token_page};
use crate::server::App;
use crate::text::noted;
use crate::visit::Visit;

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
pub(super) fn users(app: &App, _: &Visit) -> Result<Response, Fault> {
    done(&json!({ "users": app.state.users.list()? }))
}

/// `POST /api/v1/users`.
pub(super) fn add(app: &App, visit: &Visit) -> Result<Response, Fault> {
    let all = |name| visit.all(name).map(str::to_owned).collect();
    let user = User {
        login: visit.field("login").to_owned(),
        role: visit.field("role").parse().map_err(Fault::Bad)?,
        folders: all("folders"),
        addresses: all("addresses"),
        must_change: true,
        created_ms: visit.now_ms,
    };
    let password = app.state.users.one_time_password()?;
    app.state.users.add(&user, &password, visit.who(), visit.now_ms)?;
    done(&json!({ "login": user.login, "one_time_password": password }))
}

/// `DELETE /api/v1/users/{login}`.
pub(super) fn remove(app: &App, visit: &Visit) -> Result<Response, Fault> {
    let login = visit.param("login");
    if !app.state.users.remove(login, visit.who(), visit.now_ms)? {
        return Err(NOBODY);
    }
    done(&json!({ "removed": true }))
}

/// `POST /api/v1/users/{login}/password`.
pub(super) fn password(app: &App, visit: &Visit) -> Result<Response, Fault> {
    let (login, users) = (visit.param("login"), &app.state.users);
    let password = users.one_time_password()?;
    if !users.set_password(login, &password, true, visit.who(), visit.now_ms)? {
        return Err(NOBODY);
    }
    done(&json!({ "login": login, "one_time_password": password }))
}

/// `PUT /api/v1/users/{login}`.
pub(super) fn rights(app: &App, visit: &Visit) -> Result<Response, Fault> {
    let login = visit.param("login");
    let role: Role = visit.field("role").parse().map_err(Fault::Bad)?;
    let all = |name| -> Vec<String> { visit.all(name).map(str::to_owned).collect() };
    let (folders, addresses) = (all("folders"), all("addresses"));
    let (who, now) = (visit.who(), visit.now_ms);
    if !app.state.users.change_rights(login, role, &folders, &addresses, who, now)? {
        return Err(NOBODY);
    }
    done(&json!({ "login": login, "role": role.name() }))
}

/// `DELETE /api/v1/users/{login}/second-factor`.
pub(super) fn factor_off(app: &App, visit: &Visit) -> Result<Response, Fault> {
    let login = visit.param("login");
    if !app.state.users.list()?.iter().any(|u| u.login.eq_ignore_ascii_case(login)) {
        return Err(NOBODY);
    }
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
        scopes.push(scope.parse::<Scope>().map_err(Fault::Bad)?);
    }
    let days = number(visit, "days")?.unwrap_or(token_page::DAYS_DEFAULT);
    let users = &app.state.users;
    let secret = users.add_token(name, &scopes, days, visit.who(), visit.now_ms)?;
    done(&json!({ "name": name, "secret": secret }))
}

/// `DELETE /api/v1/tokens/{name}`.
pub(super) fn revoke(app: &App, visit: &Visit) -> Result<Response, Fault> {
    if !app.state.users.revoke_token(visit.param("name"), visit.who(), visit.now_ms)? {
        return Err(Fault::NotFound(noted("There is no token of this name.")));
    }
    done(&json!({ "removed": true }))
}
