//! Every operation of the API.

use gauntlet_store::users::Scope;

use super::fields::{
    ALERTS, CHANNEL_VERSION, DAYS, HELD, LEARN, MESSAGES, OWN_ADDRESS, POLICY_TEXT, QUEUE_IDS,
    QUEUE_NODE, REASON, RELEASE, REPORT, RIGHTS, ROLES, SCOPES, WEB, limit,
};
use super::operation::Kind::{Choice, Choices, Integer, Number, Text, Texts};
use super::operation::{Field, Operation, optional, required};
use super::{alerts, channels, mail, node, personal, policies, queue, releases, users, web};
use crate::route::{Access, Method, Page, Route};

const fn op(
    method: Method,
    path: &'static str,
    access: Access,
    scope: Option<Scope>,
    page: Page,
) -> Operation {
    Operation {
        route: Route { method, path, access, page },
        scope,
        summary: "",
        fields: &[],
        answer: &[],
        ordered: &[],
    }
}

/// An operation for administrators, and for tokens of this scope. The others are for whom they are
/// named after.
const fn administrator(method: Method, path: &'static str, scope: Scope, page: Page) -> Operation {
    op(method, path, Access::Administrator, Some(scope), page)
}

const fn reviewer(method: Method, path: &'static str, scope: Scope, page: Page) -> Operation {
    op(method, path, Access::Reviewer, Some(scope), page)
}

const fn own(method: Method, path: &'static str, scope: Scope, page: Page) -> Operation {
    op(method, path, Access::Own, Some(scope), page)
}

const fn account(method: Method, path: &'static str, scope: Scope, page: Page) -> Operation {
    op(method, path, Access::Account, Some(scope), page)
}

impl Operation {
    const fn summary(mut self, summary: &'static str) -> Self {
        self.summary = summary;
        self
    }

    const fn fields(mut self, fields: &'static [Field]) -> Self {
        self.fields = fields;
        self
    }

    const fn answer(mut self, answer: &'static [(&'static str, &'static str)]) -> Self {
        self.answer = answer;
        self
    }

    const fn or_ordered(mut self, answer: &'static [(&'static str, &'static str)]) -> Self {
        self.ordered = answer;
        self
    }
}

use Access::Public;
use Method::{Delete, Get, Post, Put};

const VERSION: &[(&str, &str)] =
    &[("number", "integer"), ("at_ms", "integer"), ("who", "string"), ("note", "string")];
const EDITION: &[(&str, &str)] = &[
    ("number", "integer"),
    ("at_ms", "integer"),
    ("who", "string"),
    ("note", "string"),
    ("text", "string"),
];
/// What is said of an order to another node about a message that it holds.
const HELD_ORDER: &[(&str, &str)] =
    &[("order", "integer"), ("node", "string"), ("item", "string"), ("action", "string")];
/// The same of messages of its queue.
const QUEUE_ORDER: &[(&str, &str)] = &[
    ("order", "integer"),
    ("node", "string"),
    ("is_done", "boolean"),
    ("is_good", "boolean"),
    ("outcome", "string"),
];
const REPLAY: &[(&str, &str)] = &[
    ("number", "integer"),
    ("done", "boolean"),
    ("messages", "integer"),
    ("requests", "integer"),
    ("percent", "integer"),
];

/// The table. Static, since a route is identified by its address in memory.
pub static OPERATIONS: &[Operation] = &[
    op(Get, "/api/openapi.json", Public, None, super::show)
        .summary("This document.")
        .answer(&[("openapi", "string"), ("paths", "object")]),
    reviewer(Get, "/api/v1/status", Scope::StatusRead, mail::status)
        .summary("How the node is, and its numbers.")
        .answer(&[
            ("name", "string"),
            ("version", "string"),
            ("ready", "boolean"),
            ("problems", "array"),
            ("questions", "array"),
            ("warnings", "array"),
            ("queued", "integer"),
            ("metrics", "object"),
        ]),
    reviewer(Get, "/api/v1/messages", Scope::MessagesRead, mail::messages)
        .summary("Messages of the log, newest first.")
        .fields(MESSAGES)
        .answer(&[("messages", "array"), ("next", "integer|null")]),
    reviewer(Get, "/api/v1/messages/{id}", Scope::MessagesRead, mail::message)
        .summary("One message: all that is known about it, and what happened since. In an array `id@node` says whose message of this id.")
        .answer(&[("record", "object"), ("events", "array")]),
    reviewer(Get, "/api/v1/counts", Scope::MessagesRead, mail::counts)
        .summary("Messages counted by span of time, class and disposition.")
        .fields(&[
            optional("hours", Integer(1, 2_400), "the last so many hours; 24 if not given"),
            optional("span_minutes", Integer(1, 1_440), "length of a span; 60 if not given"),
        ])
        .answer(&[("buckets", "array"), ("top_rules", "array"), ("top_senders", "array")]),
    administrator(Get, "/api/v1/alerts", Scope::MessagesRead, alerts::list)
        .summary("Alerts of packets, newest first.")
        .fields(ALERTS)
        .answer(&[("alerts", "array"), ("next", "integer|null")]),
    administrator(Get, "/api/v1/alerts/summary", Scope::MessagesRead, alerts::summary)
        .summary("Alerts of packets counted by rule and address.")
        .fields(&[optional("hours", Integer(1, 2_400), "the last so many hours; 24 if not given")])
        .answer(&[
            ("alerts", "integer"),
            ("blocked", "integer"),
            ("rules", "array"),
            ("sources", "array"),
            ("destinations", "array"),
        ]),
    administrator(Get, "/api/v1/alerts/rules", Scope::MessagesRead, alerts::rules)
        .summary("Rules for packets that are loaded, with how many alerts each gave.")
        .fields(&[optional("days", Integer(1, 100), "the last so many days; 7 if not given")])
        .answer(&[("days", "integer"), ("rules", "array")]),
    administrator(Get, "/api/v1/alerts/{alert}", Scope::MessagesRead, alerts::one)
        .summary("One alert, with its record of EVE: the rule, the payload, the packet.")
        .answer(&[("id", "integer"), ("kind", "string"), ("record", "object")]),
    administrator(Get, "/api/v1/web/requests", Scope::MessagesRead, web::requests)
        .summary("Requests of the web log, newest first.")
        .fields(WEB)
        .answer(&[("requests", "array"), ("next", "integer|null")]),
    administrator(Get, "/api/v1/web/summary", Scope::MessagesRead, web::summary)
        .summary("Web requests counted by hour, host, client, rule and category.")
        .fields(&[optional("hours", Integer(1, 2_400), "the last so many hours; 24 if not given")])
        .answer(&[
            ("requests", "integer"),
            ("blocked", "integer"),
            ("bytes_out", "integer"),
            ("hours", "array"),
            ("hosts", "array"),
            ("clients", "array"),
            ("rules", "array"),
            ("categories", "array"),
        ]),
    administrator(Get, "/api/v1/web/release-requests", Scope::QuarantineRead, releases::list)
        .summary("What people ask to have released of the web, newest first.")
        .fields(&[
            optional("state", Choice(&["open", "approved", "declined", "any"]), "open, if not given"),
            optional("before", Integer(1, i64::MAX), "older than this number"),
            limit(),
        ])
        .answer(&[("requests", "array")]),
    administrator(Post, "/api/v1/web/release-requests/{number}/approve", Scope::QuarantineWrite, releases::approve)
    .summary("Releases something in answer to a request: it passes from then on.")
    .fields(RELEASE)
    .answer(&[("exception", "object")]),
    administrator(Post, "/api/v1/web/release-requests/{number}/decline", Scope::QuarantineWrite, releases::decline)
    .summary("Leaves what was asked for blocked.")
    .fields(&[optional("note", Text, "why")])
    .answer(&[("declined", "boolean")]),
    administrator(Get, "/api/v1/web/exceptions", Scope::QuarantineRead, releases::exceptions)
        .summary("What passes although the policy blocks it, newest first.")
        .fields(&[
            optional("state", Choice(&["in_force", "any"]), "in force, if not given"),
            optional("before", Integer(1, i64::MAX), "older than this number"),
            limit(),
        ])
        .answer(&[("exceptions", "array")]),
    administrator(Post, "/api/v1/web/exceptions", Scope::QuarantineWrite, releases::add)
        .summary("Releases something that nobody asked for.")
        .fields(RELEASE)
        .answer(&[("exception", "object")]),
    administrator(Delete, "/api/v1/web/exceptions/{number}", Scope::QuarantineWrite, releases::revoke)
    .summary("Ends an exception.")
    .answer(&[("removed", "boolean")]),
    administrator(Get, "/api/v1/health", Scope::StatusRead, node::health)
        .summary("Checks of what the node depends on, made now.")
        .answer(&[("ok", "boolean"), ("findings", "array")]),
    administrator(Get, "/api/v1/settings", Scope::StatusRead, node::settings)
        .summary("Every setting with its effective value and where it came from; no secrets.")
        .answer(&[("settings", "array")]),
    administrator(Get, "/api/v1/learning", Scope::StatusRead, node::learning)
        .summary("What the site's good mail says of its thresholds: promised, found, in force.")
        .answer(&[("calibration", "object")]),
    administrator(Get, "/api/v1/nodes", Scope::StatusRead, node::nodes)
        .summary("The nodes of the array: state, queue, how far each log is behind; null alone.")
        .answer(&[("array", "object")]),
    administrator(Get, "/api/v1/channels", Scope::PolicyRead, channels::list)
        .summary("The channels that the node follows: versions, failures, and the trial of a version.")
        .answer(&[("channels", "array")]),
    administrator(Post, "/api/v1/channels/{name}/promote", Scope::PolicyWrite, channels::promote)
        .summary("Lets a version judge that is tried or held.")
        .fields(&[CHANNEL_VERSION])
        .answer(&[("done", "string")]),
    administrator(Post, "/api/v1/channels/{name}/reject", Scope::PolicyWrite, channels::reject)
        .summary("Never lets a version judge.")
        .fields(&[CHANNEL_VERSION, REASON])
        .answer(&[("done", "string")]),
    administrator(Post, "/api/v1/channels/{name}/rollback", Scope::PolicyWrite, channels::roll_back)
        .summary("Goes back to an earlier version, and never takes those after it again.")
        .fields(&[optional("version", Integer(1, i64::MAX), "the one before if not given"), REASON])
        .answer(&[("done", "string")]),
    administrator(Post, "/api/v1/channels/{name}/pin", Scope::PolicyWrite, channels::pin)
        .summary("Stays at a version.")
        .fields(&[CHANNEL_VERSION])
        .answer(&[("done", "string")]),
    administrator(Delete, "/api/v1/channels/{name}/pin", Scope::PolicyWrite, channels::unpin)
        .summary("Takes new versions again.")
        .answer(&[("done", "string")]),
    administrator(Get, "/api/v1/disks", Scope::StatusRead, node::disks)
        .summary("The disks that data is on.")
        .answer(&[("disks", "array")]),
    administrator(Get, "/api/v1/routes", Scope::StatusRead, node::routes)
        .summary("Where mail goes, in the order in which it is tried.")
        .answer(&[("routes", "array")]),
    administrator(Get, "/api/v1/rules", Scope::PolicyRead, node::rules)
        .summary("Every rule that can hit, its hits, its cost where it was measured; those that hit most first.")
        .fields(DAYS)
        .answer(&[("rules", "array"), ("measured_ms", "integer|null")]),
    administrator(Post, "/api/v1/rules/measure", Scope::PolicyRead, node::measure)
        .summary("Measures what each rule costs, on held mail.")
        .answer(&[("messages", "integer"), ("measured_ms", "integer")]),
    reviewer(Get, "/api/v1/report", Scope::MessagesRead, node::report)
        .summary("What passed in some days, accuracy by users' corrections, top senders and recipients.")
        .fields(REPORT)
        .answer(&[
            ("since", "string"),
            ("until", "string"),
            ("days", "array"),
            ("classes", "object"),
            ("accuracy", "object"),
            ("domains", "array"),
        ]),
    reviewer(Get, "/api/v1/searches", Scope::MessagesRead, personal::searches)
        .summary("Searches that you keep, and those that others share.")
        .answer(&[("searches", "array")]),
    reviewer(Put, "/api/v1/searches/{name}", Scope::MessagesRead, personal::save_search)
        .summary("Keeps a search by a name.")
        .fields(&[
            required("query", Text, "fields of `GET /api/v1/messages` without `after`, as in the address of the page: `class=spam&sender=%40example.org`"),
            optional("shared", Choice(&["yes"]), "others see it, too"),
        ])
        .answer(&[("name", "string"), ("query", "string")]),
    reviewer(Delete, "/api/v1/searches/{name}", Scope::MessagesRead, personal::remove_search)
    .summary("Forgets a search of yours, or one that somebody shares. The latter is for administrators; a token needs users:write, too.")
    .fields(&[optional("owner", Text, "login of whose shared search it is; yours if not given")])
    .answer(&[("removed", "boolean")]),
    administrator(Get, "/api/v1/activity", Scope::UsersRead, personal::activity)
        .summary("Who did what, newest first; in an array on all nodes, each line with its `node`.")
        .answer(&[("lines", "array")]),
    own(Get, "/api/v1/own", Scope::UsersRead, personal::own)
        .summary("What you want for your own mail. For users: a token has no mail of its own.")
        .fields(&[OWN_ADDRESS])
        .answer(&[
            ("address", "string"),
            ("strictness", "string"),
            ("spam_points", "number|integer|null"),
            ("allow", "array"),
            ("block", "array"),
        ]),
    own(Put, "/api/v1/own", Scope::UsersWrite, personal::set_own)
        .summary("How strict to be with your own mail.")
        .fields(&[
            OWN_ADDRESS,
            required("strictness", Choice(&["strict", "normal", "lax"]), "how much is held"),
            optional("points", Number, "mail counts as spam from so many points; as for everybody if not given"),
        ])
        .answer(&[("address", "string"), ("strictness", "string")]),
    own(Put, "/api/v1/own/senders", Scope::UsersWrite, personal::list_own)
        .summary("Allows or blocks a sender for your own mail.")
        .fields(&[
            OWN_ADDRESS,
            required("entry", Text, "address or domain"),
            required("list", Choice(&["allow", "block"]), "which list"),
        ])
        .answer(&[("entry", "string"), ("list", "string")]),
    own(Delete, "/api/v1/own/senders", Scope::UsersWrite, personal::unlist_own)
        .summary("Takes a sender off your own lists.")
        .fields(&[OWN_ADDRESS, required("entry", Text, "address or domain")])
        .answer(&[("removed", "boolean")]),
    account(Get, "/api/v1/own/second-factor", Scope::UsersRead, personal::factor)
        .summary("Whether your account has a second factor.")
        .answer(&[("on", "boolean"), ("recovery_codes", "integer")]),
    account(Post, "/api/v1/own/second-factor", Scope::UsersWrite, personal::change_factor)
        .summary("Begins, switches on (with a code) or off (with a code) the second factor of your account.")
        .fields(&[
            required("do", Choice(&["begin", "on", "off"]), "what to do"),
            optional("code", Text, "the code of this moment, or a recovery code"),
            optional("password", Text, "your present password, to begin; not if you have none and signed in at the provider within five minutes"),
        ])
        .answer(&[("on", "boolean")]),
    account(Get, "/api/v1/own/app-passwords", Scope::UsersRead, personal::app_passwords)
        .summary("The passwords of your mail programs, without the passwords.")
        .answer(&[("app_passwords", "array")]),
    account(Post, "/api/v1/own/app-passwords", Scope::UsersWrite, personal::add_app_password)
        .summary("Makes a password for one of your mail programs; it is in the answer and nowhere else.")
        .fields(&[
            required("name", Text, "which program it is for; unique"),
            optional("password", Text, "your present password; not if you have none and signed in at the provider within five minutes"),
        ])
        .answer(&[("name", "string"), ("secret", "string")]),
    account(Delete, "/api/v1/own/app-passwords/{name}", Scope::UsersWrite, personal::revoke_app_password)
    .summary("Revokes the password of one of your mail programs.")
    .answer(&[("removed", "boolean")]),
    own(Get, "/api/v1/quarantine", Scope::QuarantineRead, mail::quarantine)
        .summary("Held mail, newest first.")
        .fields(HELD)
        .answer(&[("items", "array"), ("next", "integer|null")]),
    own(Get, "/api/v1/quarantine/{id}", Scope::QuarantineRead, mail::held)
        .summary("One held message.")
        .answer(&[("item", "object"), ("state", "string"), ("size", "integer")]),
    own(Get, "/api/v1/quarantine/{id}/preview", Scope::QuarantineRead, mail::preview)
        .summary("What a held message says: its text, and its HTML made harmless.")
        .answer(&[
            ("subject", "string"),
            ("from", "string"),
            ("text", "string"),
            ("html", "string|null"),
        ]),
    own(Post, "/api/v1/quarantine/{id}/release", Scope::QuarantineWrite, mail::release)
        .summary("Releases a held message, once.")
        .fields(&[optional("to", Texts, "addresses instead of the recipients"), LEARN])
        .answer(&[("released_to", "array")])
        .or_ordered(HELD_ORDER),
    own(Post, "/api/v1/quarantine/{id}/delete", Scope::QuarantineWrite, mail::delete)
        .summary("Deletes a held message for good.")
        .fields(&[LEARN])
        .answer(&[("deleted", "boolean")])
        .or_ordered(HELD_ORDER),
    administrator(Get, "/api/v1/policy", Scope::PolicyRead, policies::show)
        .summary("The policy in force.")
        .answer(EDITION),
    administrator(Put, "/api/v1/policy", Scope::PolicyWrite, policies::put)
        .summary(
            "Puts a policy into force; refused if it is none, or `base` is not the newest version.",
        )
        .fields(&[
            POLICY_TEXT,
            optional("base", Integer(1, i64::MAX), "the version that its author saw before"),
            optional("note", Text, "why"),
        ])
        .answer(VERSION),
    administrator(Post, "/api/v1/policy/check", Scope::PolicyRead, policies::check)
        .summary("Reports errors and warnings about a policy, and what it would change.")
        .fields(&[POLICY_TEXT])
        .answer(&[
            ("valid", "boolean"),
            ("rules", "integer"),
            ("findings", "array"),
            ("diff", "string"),
        ]),
    administrator(Get, "/api/v1/policy/versions", Scope::PolicyRead, policies::history)
        .summary("The versions of the policy, newest first.")
        .fields(&[optional("before", Integer(1, i64::MAX), "older than this version"), limit()])
        .answer(&[("versions", "array")]),
    administrator(Get, "/api/v1/policy/versions/{number}", Scope::PolicyRead, policies::version)
    .summary("A version of the policy, with its text and what it changed.")
    .answer(EDITION),
    administrator(Post, "/api/v1/policy/rollback", Scope::PolicyWrite, policies::roll_back)
    .summary("Goes back to the version before, or to another.")
    .fields(&[optional("number", Integer(1, i64::MAX), "the version to go back to")])
    .answer(VERSION),
    administrator(Get, "/api/v1/policy/replay", Scope::MessagesRead, policies::replayed)
        .summary("How far the replay is, and what it found (`report`): messages of the log, and web requests (`web`). A token needs policy:read, too.")
        .answer(REPLAY),
    administrator(Post, "/api/v1/policy/replay", Scope::MessagesRead, policies::replay)
        .summary("Begins to try a policy on the mail and the web requests of the last days; one at a time. A token needs policy:read, too.")
        .fields(&[POLICY_TEXT, optional("days", Integer(1, 100), "7 if not given")])
        .answer(REPLAY),
    administrator(Get, "/api/v1/senders", Scope::SendersRead, users::senders)
        .summary("Senders allowed or blocked for the whole node.")
        .answer(&[("senders", "array")]),
    administrator(Put, "/api/v1/senders", Scope::SendersWrite, users::list_sender)
        .summary("Allows or blocks a sender, from the next message on.")
        .fields(&[
            required("entry", Text, "address, domain or network"),
            required("list", Choice(&["allow", "block"]), "which list"),
        ])
        .answer(&[("entry", "string"), ("list", "string")]),
    administrator(Delete, "/api/v1/senders", Scope::SendersWrite, users::unlist_sender)
        .summary("Takes a sender off the lists.")
        .fields(&[required("entry", Text, "address, domain or network")])
        .answer(&[("removed", "boolean")]),
    administrator(Get, "/api/v1/users", Scope::UsersRead, users::list)
        .summary("Everybody who may use the console.")
        .answer(&[("users", "array")]),
    administrator(Post, "/api/v1/users", Scope::UsersWrite, users::add)
        .summary("Adds a user, with a one-time password. A token needs submission:write, too: every user may send mail.")
        .fields(&[
            required("login", Text, "what they sign in with"),
            required("role", Choice(ROLES), "what they may do"),
            optional("folders", Texts, "folders a reviewer may decide in; none is all"),
            optional("addresses", Texts, "addresses whose held mail a user may see"),
        ])
        .answer(&[("login", "string"), ("one_time_password", "string")]),
    administrator(Put, "/api/v1/users/{login}", Scope::UsersWrite, users::rights)
        .summary("Changes what a user may do, and ends their sessions. A token needs submission:write, too.")
        .fields(RIGHTS)
        .answer(&[("login", "string"), ("role", "string")]),
    administrator(Delete, "/api/v1/users/{login}", Scope::UsersWrite, users::remove)
        .summary("Removes a user, ends their sessions and revokes the tokens that they made.")
        .answer(&[("removed", "boolean")]),
    administrator(Post, "/api/v1/users/{login}/password", Scope::UsersWrite, users::password)
    .summary("Gives a user a one-time password and ends their sessions. A token needs submission:write, too.")
    .answer(&[("login", "string"), ("one_time_password", "string")]),
    administrator(Delete, "/api/v1/users/{login}/second-factor", Scope::UsersWrite, users::factor_off)
    .summary("Takes a user's second factor away and ends their sessions. A token needs submission:write, too.")
    .answer(&[("removed", "boolean")]),
    administrator(Get, "/api/v1/tokens", Scope::UsersRead, users::tokens)
        .summary("Every token, without its secret.")
        .answer(&[("tokens", "array")]),
    administrator(Post, "/api/v1/tokens", Scope::UsersWrite, users::add_token)
        .summary("Makes a token; its secret is in the answer and nowhere else. A token makes one of its own scopes at most, that ends with it and is revoked with it.")
        .fields(&[
            required("name", Text, "what it is for; unique"),
            required("scopes", Choices(SCOPES), "what it may do"),
            optional("days", Integer(1, 3_650), "how long it lives; 90 if not given"),
        ])
        .answer(&[("name", "string"), ("secret", "string"), ("expires_ms", "integer")]),
    administrator(Delete, "/api/v1/tokens/{name}", Scope::UsersWrite, users::revoke)
        .summary("Revokes a token.")
        .answer(&[("removed", "boolean")]),
    administrator(Get, "/api/v1/queue", Scope::QueueRead, queue::list)
        .summary(
            "Messages that wait or are being delivered, oldest first; of other nodes of the array \
             the oldest that wait after a failed attempt or are held, as these last told.",
        )
        .fields(&[optional("limit", Integer(1, 10_000), "at most so many; 1000 if not given")])
        .answer(&[("messages", "array"), ("elsewhere", "array")]),
    administrator(Post, "/api/v1/queue/retry", Scope::QueueWrite, queue::retry)
        .summary("Delivers messages now; all that wait if none is named.")
        .fields(&[optional("id", Texts, "ids of messages"), QUEUE_NODE])
        .answer(&[("messages", "integer")])
        .or_ordered(QUEUE_ORDER),
    administrator(Post, "/api/v1/queue/hold", Scope::QueueWrite, queue::hold)
        .summary("Keeps messages waiting until they are retried.")
        .fields(QUEUE_IDS)
        .answer(&[("messages", "integer")])
        .or_ordered(QUEUE_ORDER),
    administrator(Post, "/api/v1/queue/delete", Scope::QueueWrite, queue::delete)
        .summary("Deletes messages from the queue without a report to their senders.")
        .fields(QUEUE_IDS)
        .answer(&[("messages", "integer")])
        .or_ordered(QUEUE_ORDER),
];
