//! Every address of the console, and who may use it.

use crate::api::OPERATIONS;
use crate::pages::{
    account, activity, alert, alerts, app_passwords, channels, decide, files, held, link, message,
    messages, nodes, objects, overview, quarantine,
};
use crate::pages::{
    export, form, health, learning, metrics, oidc, own, pac, packet_policy, policy, queue,
    releases, replay, reports, rules, searches, second_factor, senders, settings, sign_in, tokens,
    users, versions, web,
};
use crate::route::{Access, Method, Page, Route};

const fn get(path: &'static str, access: Access, page: Page) -> Route {
    Route { method: Method::Get, path, access, page }
}

const fn post(path: &'static str, access: Access, page: Page) -> Route {
    Route { method: Method::Post, path, access, page }
}

/// Every address: the pages and the API.
pub fn routes() -> impl Iterator<Item = &'static Route> {
    PAGES.iter().chain(OPERATIONS.iter().map(|operation| &operation.route))
}

const PAGES: &[Route] = &[
    get("/", Access::Own, overview::show),
    get("/messages", Access::Reviewer, messages::show),
    get("/messages.csv", Access::Reviewer, export::show),
    post("/messages/searches", Access::Reviewer, searches::change),
    get("/messages/{id}", Access::Reviewer, message::show),
    get("/quarantine", Access::Own, quarantine::show),
    post("/quarantine/decide", Access::Own, decide::decide),
    get("/quarantine/{id}", Access::Own, held::show),
    get("/quarantine/{id}/html", Access::Own, held::html_frame),
    get("/quarantine/{id}/download", Access::Reviewer, held::download),
    post("/quarantine/{id}/object", Access::Administrator, objects::fetch),
    get("/web", Access::Administrator, web::show),
    get("/web/releases", Access::Administrator, releases::show),
    post("/web/releases", Access::Administrator, releases::change),
    get("/alerts", Access::Administrator, alerts::show),
    get("/alerts/rules", Access::Administrator, alerts::rules),
    get("/alerts/policy", Access::Administrator, packet_policy::show),
    post("/alerts/policy", Access::Administrator, packet_policy::replay),
    get("/alerts/{id}", Access::Administrator, alert::show),
    get("/alerts/{id}/packets.pcap", Access::Administrator, alert::packets),
    get("/rules", Access::Administrator, rules::show),
    post("/rules/measure", Access::Administrator, rules::measure_now),
    get("/reports", Access::Reviewer, reports::show),
    get("/reports.csv", Access::Reviewer, reports::as_csv),
    get("/reports.pdf", Access::Reviewer, reports::as_pdf),
    get("/health", Access::Administrator, health::show),
    get("/settings", Access::Administrator, settings::show),
    get("/channels", Access::Administrator, channels::show),
    get("/nodes", Access::Administrator, nodes::show),
    post("/channels", Access::Administrator, channels::change),
    get("/learning", Access::Administrator, learning::show),
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
    get("/account", Access::SignedIn, account::show),
    post("/account/password", Access::SignedIn, account::change_password),
    post("/account/second-factor", Access::Account, second_factor::change),
    post("/account/app-passwords", Access::Account, app_passwords::change),
    get("/sign-in", Access::Public, sign_in::show),
    post("/sign-in", Access::Public, sign_in::sign_in),
    get("/sign-in/oidc", Access::Public, oidc::begin),
    get("/sign-in/oidc/back", Access::Public, oidc::back),
    post("/sign-out", Access::SignedIn, sign_in::sign_out),
    get("/metrics", Access::Public, metrics::show),
    get("/healthz", Access::Public, metrics::ready),
    get("/health/ready", Access::Public, metrics::ready),
    get("/health/live", Access::Public, metrics::live),
    get("/proxy.pac", Access::Public, pac::show),
    get("/wpad.dat", Access::Public, pac::show),
    get("/static/{file}", Access::Public, files::show),
];
