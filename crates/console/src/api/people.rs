//! People, and senders that count for the whole node.

use axum::response::Response;
use gauntlet_engine::lists::List;
use gauntlet_store::users::User;
use serde_json::json;

use super::done;
use crate::fault::Fault;
use crate::pages::senders;
use crate::server::App;
use crate::visit::Visit;

const NOBODY: Fault = Fault::NotFound("There is nobody of this login.");

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
