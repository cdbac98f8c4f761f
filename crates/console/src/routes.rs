//! Every address of the console, and who may use it.

use axum::response::Response;
use gauntlet_store::users::Role;

use crate::api::OPERATIONS;
use crate::fault::Fault;
use crate::pages::{
    account, activity, app_passwords, files, held, link, message, messages, overview, quarantine,
};
use crate::pages::{
    export, form, health, metrics, oidc, own, policy, queue, replay, reports, rules, searches,
    second_factor, senders, settings, sign_in, tokens, users, versions,
};
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
    /// The same, except who came by a digest's link: about their account.
    Account,
    /// Reviewers and administrators.
    Reviewer,
    /// Administrators.
    Administrator,
}

impl Access {
    /// Who has this role may use it.
    pub fn allows(self, role: Role) -> bool {
        match self {
            Access::Public | Access::Anybody | Access::Own | Access::Account => true,
            Access::Reviewer => role != Role::User,
            Access::Administrator => role == Role::Administrator,
        }
    }
}

/// How an address is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Changes nothing.
    Get,
    /// Does something.
    Post,
    /// Puts something in a place.
    Put,
    /// Removes something.
    Delete,
}

impl Method {
    /// As HTTP names it.
    pub const fn name(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Post => "POST",
            Method::Put => "PUT",
            Method::Delete => "DELETE",
        }
    }

    /// It may change something, and needs the session's form token if a browser sends it.
    pub const fn changes(self) -> bool {
        !matches!(self, Method::Get)
    }

    /// Its fields are in the body; else they are in the query.
    pub const fn writes_body(self) -> bool {
        matches!(self, Method::Post | Method::Put)
    }
}

/// An address of the console.
#[derive(Debug)]
pub struct Route {
    /// How it is asked.
    pub method: Method,
    /// Path, with names in braces.
    pub path: &'static str,
    /// Who may use it.
    pub access: Access,
    pub(crate) page: Page,
}

const fn get(path: &'static str, access: Access, page: Page) -> Route {
    Route { method: Method::Get, path, access, page }
}

const fn post(path: &'static str, access: Access, page: Page) -> Route {
    Route { method: Method::Post, path, access, page }
}

impl Route {
    /// Programs that watch the node ask it.
    pub(crate) fn is_for_machines(&self) -> bool {
        ["/healthz", "/metrics"].contains(&self.path)
    }
}

pub(crate) type Page = fn(&App, &Visit) -> Result<Response, Fault>;

/// Every address: the pages and the API.
pub fn routes() -> impl Iterator<Item = &'static Route> {
    PAGES.iter().chain(OPERATIONS.iter().map(|operation| &operation.route))
}

/// The pages.
const PAGES: &[Route] = &[
    get("/", Access::Own, overview::show),
    get("/messages", Access::Reviewer, messages::show),
    get("/messages.csv", Access::Reviewer, export::show),
    post("/messages/searches", Access::Reviewer, searches::change),
    get("/messages/{id}", Access::Reviewer, message::show),
    get("/quarantine", Access::Own, quarantine::show),
    post("/quarantine/decide", Access::Own, quarantine::decide),
    get("/quarantine/{id}", Access::Own, held::show),
    get("/quarantine/{id}/html", Access::Own, held::html_frame),
    get("/quarantine/{id}/download", Access::Reviewer, held::download),
    get("/rules", Access::Administrator, rules::show),
    post("/rules/measure", Access::Administrator, rules::measure_now),
    get("/reports", Access::Reviewer, reports::show),
    get("/reports.csv", Access::Reviewer, reports::as_csv),
    get("/reports.pdf", Access::Reviewer, reports::as_pdf),
    get("/health", Access::Administrator, health::show),
    get("/settings", Access::Administrator, settings::show),
    get("/users", Access::Administrator, users::show),
    post("/users", Access::Administrator, users::add),
    get("/users/{login}", Access::Administrator, users::one),
    post("/users/{login}", Access::Administrator, users::change),
    get("/tokens", Access::Administrator, tokens::show),
    post("/tokens", Access::Administrator, tokens::change),
    get("/activity", Access::Administrator, activity::show),
    get("/senders", Access::Administrator, senders::show),
    post("/senders", Access::Administrator, senders::change),
    get("/queue", Access::Administrator, queue::show),
    post("/queue", Access::Administrator, queue::decide),
    get("/policy", Access::Administrator, policy::show),
    post("/policy", Access::Administrator, policy::save),
    post("/policy/check", Access::Administrator, policy::check),
    post("/policy/form", Access::Administrator, form::change),
    get("/policy/versions/{number}", Access::Administrator, versions::show),
    post("/policy/rollback", Access::Administrator, versions::roll_back),
    get("/policy/replay", Access::Administrator, replay::show),
    post("/policy/replay", Access::Administrator, replay::begin),
    post("/policy/replay/stop", Access::Administrator, replay::stop),
    get("/link/{token}", Access::Public, link::show),
    post("/link/{token}", Access::Public, link::follow),
    get("/own", Access::Own, own::show),
    post("/own", Access::Own, own::change),
    get("/account", Access::Anybody, account::show),
    post("/account/password", Access::Anybody, account::change_password),
    post("/account/second-factor", Access::Account, second_factor::change),
    post("/account/app-passwords", Access::Account, app_passwords::change),
    get("/sign-in", Access::Public, sign_in::show),
    post("/sign-in", Access::Public, sign_in::sign_in),
    get("/sign-in/oidc", Access::Public, oidc::begin),
    get("/sign-in/oidc/back", Access::Public, oidc::back),
    post("/sign-out", Access::Anybody, sign_in::sign_out),
    get("/metrics", Access::Public, metrics::show),
    get("/healthz", Access::Public, metrics::health),
    get("/static/{file}", Access::Public, files::show),
];
