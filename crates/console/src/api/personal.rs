//! What belongs to one person: wishes for their own mail, second factor, kept searches; and who did
//! what.

use axum::response::Response;
use gauntlet_policy::people::Strictness;
use gauntlet_store::users::{SavedSearch, SecondFactor};
use serde_json::json;

use super::done;
use crate::fault::Fault;
use crate::pages::messages::number;
use crate::pages::{
    activity as activity_page, app_passwords as app_password_page, own as own_page,
    searches as searches_page, second_factor, sign_in,
};
use crate::server::App;
use crate::text::noted;
use crate::visit::Visit;

/// `GET /api/v1/searches`.
pub(super) fn searches(app: &App, visit: &Visit) -> Result<Response, Fault> {
    done(&json!({ "searches": app.state.users.searches(visit.who())? }))
}

/// `PUT /api/v1/searches/{name}`.
pub(super) fn save_search(app: &App, visit: &Visit) -> Result<Response, Fault> {
    let search = SavedSearch {
        login: visit.who().to_owned(),
        name: visit.param("name").to_owned(),
        query: searches_page::clean(visit.field("query")),
        shared: visit.field("shared") == "yes",
    };
    app.state.users.save_search(&search, visit.now_ms)?;
    done(&search)
}

/// `DELETE /api/v1/searches/{name}`.
pub(super) fn remove_search(app: &App, visit: &Visit) -> Result<Response, Fault> {
    if !app.state.users.remove_search(visit.who(), visit.param("name"))? {
        return Err(Fault::NotFound(noted("You keep no search of this name.")));
    }
    done(&json!({ "removed": true }))
}

/// `GET /api/v1/activity`.
pub(super) fn activity(app: &App, _: &Visit) -> Result<Response, Fault> {
    done(&json!({ "lines": activity_page::newest(app)? }))
}

/// `GET /api/v1/own`.
pub(super) fn own(app: &App, visit: &Visit) -> Result<Response, Fault> {
    let address = own_page::address(visit)?;
    let wishes = app.state.users.wishes(&address)?;
    done(&json!({ "address": address, "strictness": wishes.strictness.name(),
        "spam_points": wishes.spam_points, "allow": wishes.allow, "block": wishes.block }))
}

/// `PUT /api/v1/own`.
pub(super) fn set_own(app: &App, visit: &Visit) -> Result<Response, Fault> {
    let address = own_page::address(visit)?;
    let strictness: Strictness = visit.field("strictness").parse().map_err(Fault::Bad)?;
    let points = number(visit, "points")?;
    app.state.users.set_strictness(&address, strictness, points, visit.now_ms)?;
    own_page::tell(app)?;
    done(&json!({ "address": address, "strictness": strictness.name() }))
}

/// `PUT /api/v1/own/senders`.
pub(super) fn list_own(app: &App, visit: &Visit) -> Result<Response, Fault> {
    let (address, entry, list) =
        (own_page::address(visit)?, visit.field("entry"), visit.field("list"));
    app.state.users.list_personal_sender(&address, entry, list == "allow", visit.now_ms)?;
    own_page::tell(app)?;
    done(&json!({ "entry": entry, "list": list }))
}

/// `DELETE /api/v1/own/senders`.
pub(super) fn unlist_own(app: &App, visit: &Visit) -> Result<Response, Fault> {
    let removed =
        app.state.users.unlist_personal_sender(&own_page::address(visit)?, visit.field("entry"))?;
    own_page::tell(app)?;
    done(&json!({ "removed": removed }))
}

/// Programs have no account of their own.
fn is_person(visit: &Visit) -> Result<(), Fault> {
    let why = "This is about the account of a person; a token has none.";
    if visit.csrf().is_empty() { Err(Fault::NotFound(why)) } else { Ok(()) }
}

/// `GET /api/v1/own/second-factor`.
pub(super) fn factor(app: &App, visit: &Visit) -> Result<Response, Fault> {
    is_person(visit)?;
    let (on, codes) = match app.state.users.second_factor(visit.who())? {
        SecondFactor::On { recovery_codes } => (true, recovery_codes),
        SecondFactor::Off | SecondFactor::Pending => (false, 0),
    };
    done(&json!({ "on": on, "recovery_codes": codes }))
}

/// `POST /api/v1/own/second-factor`.
pub(super) fn change_factor(app: &App, visit: &Visit) -> Result<Response, Fault> {
    is_person(visit)?;
    let (who, users, code) = (visit.who(), &app.state.users, visit.field("code"));
    let value = match visit.field("do") {
        "begin" => {
            app_password_page::has_proved(app, visit)?;
            json!({ "on": false, "secret": users.begin_totp(who)? })
        }
        "on" => {
            let codes = second_factor::enable(app, visit, code)?;
            let wrong = "This is not the code of this moment. Begin again.";
            let codes = codes.ok_or_else(|| Fault::Bad(wrong.to_owned()))?;
            json!({ "on": true, "recovery_codes": codes })
        }
        _ => {
            second_factor::disable(app, visit, code)?;
            json!({ "on": false })
        }
    };
    let response = done(&value)?;
    match visit.field("do") {
        "begin" => Ok(response),
        // All sessions ended with it; the answer brings the cookie of a new one.
        _ => sign_in::again(app, visit, response),
    }
}

/// `GET /api/v1/own/app-passwords`.
pub(super) fn app_passwords(app: &App, visit: &Visit) -> Result<Response, Fault> {
    is_person(visit)?;
    done(&json!({ "app_passwords": app.state.users.app_passwords(visit.who())? }))
}

/// `POST /api/v1/own/app-passwords`.
pub(super) fn add_app_password(app: &App, visit: &Visit) -> Result<Response, Fault> {
    is_person(visit)?;
    let name = visit.field("name");
    let secret = app_password_page::make(app, visit, name)?;
    done(&json!({ "name": name, "secret": secret }))
}

/// `DELETE /api/v1/own/app-passwords/{name}`.
pub(super) fn revoke_app_password(app: &App, visit: &Visit) -> Result<Response, Fault> {
    is_person(visit)?;
    app_password_page::revoke(app, visit, visit.param("name"))?;
    done(&json!({ "removed": true }))
}
