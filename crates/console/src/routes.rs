//! Every address of the console, and who may use it.

use axum::response::Response;
use gauntlet_store::users::Role;

use crate::fault::Fault;
use crate::pages::{account, activity, api, files, held, message, messages, overview, quarantine};
use crate::pages::{export, metrics, senders, sign_in};
use crate::server::App;
use crate::visit::Visit;

/// Who may use an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Everybody, signed in or not.
    Public,
    /// Everybody who is signed in, even with a one-time password.
    Anybody,
    /// Everybody who is signed in with a password of their own; users see what is theirs.
    Own,
    /// Reviewers and administrators.
    Reviewer,
    /// Administrators.
    Administrator,
}

impl Access {
    /// Who has this role may use it.
    pub fn allows(self, role: Role) -> bool {
        match self {
            Access::Public | Access::Anybody | Access::Own => true,
            Access::Reviewer => role != Role::User,
            Access::Administrator => role == Role::Administrator,
        }
    }
}

/// An address of the console.
#[derive(Debug)]
pub struct Route {
    /// POST, else GET. A POST of somebody who is signed in carries the session's form token.
    pub post: bool,
    /// Path, with names in braces.
    pub path: &'static str,
    /// Who may use it.
    pub access: Access,
    pub(crate) page: fn(&App, &Visit) -> Result<Response, Fault>,
}

const fn get(path: &'static str, access: Access, page: Page) -> Route {
    Route { post: false, path, access, page }
}

const fn post(path: &'static str, access: Access, page: Page) -> Route {
    Route { post: true, path, access, page }
}

type Page = fn(&App, &Visit) -> Result<Response, Fault>;

/// The table.
pub const ROUTES: &[Route] = &[
    get("/", Access::Own, overview::show),
    get("/messages", Access::Reviewer, messages::show),
    get("/messages.csv", Access::Reviewer, export::show),
    get("/messages/{id}", Access::Reviewer, message::show),
    get("/quarantine", Access::Own, quarantine::show),
    post("/quarantine/decide", Access::Own, quarantine::decide),
    get("/quarantine/{id}", Access::Own, held::show),
    get("/quarantine/{id}/html", Access::Own, held::html_frame),
    get("/quarantine/{id}/download", Access::Reviewer, held::download),
    get("/activity", Access::Administrator, activity::show),
    get("/senders", Access::Administrator, senders::show),
    post("/senders", Access::Administrator, senders::change),
    get("/account", Access::Anybody, account::show),
    post("/account/password", Access::Anybody, account::change_password),
    get("/sign-in", Access::Public, sign_in::show),
    post("/sign-in", Access::Public, sign_in::sign_in),
    post("/sign-out", Access::Anybody, sign_in::sign_out),
    get("/api/v1/status", Access::Reviewer, api::status),
    get("/api/v1/messages", Access::Reviewer, api::messages),
    get("/api/v1/messages/{id}", Access::Reviewer, api::message),
    get("/api/v1/counts", Access::Reviewer, api::counts),
    get("/api/v1/quarantine", Access::Own, api::quarantine),
    get("/api/v1/quarantine/{id}", Access::Own, api::held),
    post("/api/v1/quarantine/{id}/release", Access::Own, api::release),
    post("/api/v1/quarantine/{id}/delete", Access::Own, api::delete),
    get("/metrics", Access::Public, metrics::show),
    get("/healthz", Access::Public, metrics::health),
    get("/static/{file}", Access::Public, files::show),
];
