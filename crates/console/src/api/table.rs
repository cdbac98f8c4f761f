//! Every operation of the API.

use gauntlet_store::users::Scope;

use super::operation::Kind::{Choice, Choices, Day, Integer, Lines, Number, Text, Texts};
use super::operation::{Field, Operation, optional, required};
use super::{mail, node, personal, policies, queue, users, web};
use crate::route::{Access, Method, Page, Route};

const CLASSES: &[&str] = &["ham", "bulk", "suspect", "spam", "phishing", "malware", "unscannable"];
const ACTIONS: &[&str] =
    &["deliver", "spam_folder", "redirect", "hold", "quarantine", "reject", "defer", "discard"];
const OUTCOMES: &[&str] =
    &["queued", "delivered", "quarantined", "failed", "discarded", "rejected", "deleted"];

const fn after() -> Field {
    optional("after", Integer(i64::MIN, i64::MAX), "`next` of the page before")
}

const fn limit() -> Field {
    optional("limit", Integer(0, 500), "results of a page; 0 takes the default, 50")
}

const MESSAGES: &[Field] = &[
    optional("sender", Text, "envelope sender: an address, `name@` or `@domain`"),
    optional("recipient", Text, "recipient: an address, `name@` or `@domain`"),
    optional("domain", Text, "domain of sender or recipient"),
    optional("subject", Text, "words of the subject; `pay*` takes beginnings"),
    optional("message_id", Text, "Message-ID field"),
    optional("id", Text, "id on this node: the reference code of replies"),
    optional("class", Choices(CLASSES), "any of these classes"),
    optional("action", Choice(ACTIONS), "disposition of a recipient"),
    optional("outcome", Choice(OUTCOMES), "what became of a delivery"),
    optional("rule", Text, "a rule that hit"),
    optional("policy_rule", Text, "a rule of the policy that matched"),
    optional("client", Text, "address of the client"),
    optional("event", Text, "what happened later, e.g. `released`"),
    optional("since", Day, "received on or after this day (UTC)"),
    optional("until", Day, "received on or before this day (UTC)"),
    optional("score_min", Number, "rule points, at least"),
    after(),
    limit(),
];

const WEB: &[Field] = &[
    optional("client", Text, "address of the client as it is logged"),
    optional("user", Text, "login"),
    optional("host", Text, "host; `.example.org` is the domain with all below"),
    optional("text", Text, "part of the URL"),
    optional(
        "outcome",
        Choice(&["passed", "tunnel", "blocked", "failed", "aborted"]),
        "how it ended",
    ),
    optional("rule", Text, "a rule that matched, or what refused the request"),
    optional("category", Text, "category of the URL by its list"),
    optional("reference", Text, "code on a page of ours"),
    optional("since", Day, "on or after this day (UTC)"),
    optional("until", Day, "on or before this day (UTC)"),
    after(),
    limit(),
];

const HELD: &[Field] = &[
    optional("folder", Text, "folder"),
    optional("text", Text, "part of subject, From or recipients"),
    optional("class", Choices(CLASSES), "any of these classes"),
    optional(
        "state",
        Choice(&["held", "releasing", "released", "deleted", "any"]),
        "held, if not given",
    ),
    optional("recipient", Text, "address of a recipient"),
    optional("message", Text, "id of the message in the log"),
    optional("since", Day, "received on or after this day (UTC)"),
    optional("until", Day, "received on or before this day (UTC)"),
    after(),
    limit(),
];

const DAYS: &[Field] =
    &[optional("days", Integer(1, 100), "the last so many days; 30 if not given")];
const REPORT: &[Field] = &[
    optional("days", Integer(1, 100), "whole days (UTC); 7 if not given"),
    optional("until", Day, "the last of them; today if not given"),
];
const RIGHTS: &[Field] = &[
    required("role", Choice(ROLES), "what they may do"),
    optional("folders", Texts, "folders a reviewer may decide in; none is all"),
    optional("addresses", Texts, "addresses whose held mail a user may see"),
];
const ROLES: &[&str] = &["administrator", "reviewer", "user"];
const SCOPES: &[&str] = &[
    "status:read",
    "messages:read",
    "quarantine:read",
    "quarantine:write",
    "policy:read",
    "policy:write",
    "senders:read",
    "senders:write",
    "users:read",
    "users:write",
    "submission:write",
    "queue:read",
    "queue:write",
];
const OWN_ADDRESS: Field =
    optional("address", Text, "one of your addresses; the first if not given");
const POLICY_TEXT: Field = required("text", Lines, "the policy: TOML");
const LEARN: Field = optional("learn", Choice(&["yes"]), "train the classifier, too");
const QUEUE_IDS: &[Field] = &[required("id", Texts, "ids of messages")];

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
    }
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
}

use Access::{Account, Administrator, Own, Public, Reviewer};
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
const REPLAY: &[(&str, &str)] =
    &[("number", "integer"), ("done", "boolean"), ("messages", "integer"), ("percent", "integer")];

/// The table. Static, since a route is identified by its address in memory.
pub static OPERATIONS: &[Operation] = &[
    op(Get, "/api/openapi.json", Public, None, super::show)
        .summary("This document.")
        .answer(&[("openapi", "string"), ("paths", "object")]),
    op(Get, "/api/v1/status", Reviewer, Some(Scope::StatusRead), mail::status)
        .summary("How the node is, and its numbers.")
        .answer(&[
            ("name", "string"),
            ("version", "string"),
            ("ready", "boolean"),
            ("problems", "array"),
            ("queued", "integer"),
            ("metrics", "object"),
        ]),
    op(Get, "/api/v1/messages", Reviewer, Some(Scope::MessagesRead), mail::messages)
        .summary("Messages of the log, newest first.")
        .fields(MESSAGES)
        .answer(&[("messages", "array"), ("next", "integer|null")]),
    op(Get, "/api/v1/messages/{id}", Reviewer, Some(Scope::MessagesRead), mail::message)
        .summary("One message: all that is known about it, and what happened since.")
        .answer(&[("record", "object"), ("events", "array")]),
    op(Get, "/api/v1/counts", Reviewer, Some(Scope::MessagesRead), mail::counts)
        .summary("Messages counted by span of time, class and disposition.")
        .fields(&[
            optional("hours", Integer(1, 2_400), "the last so many hours; 24 if not given"),
            optional("span_minutes", Integer(1, 1_440), "length of a span; 60 if not given"),
        ])
        .answer(&[("buckets", "array"), ("top_rules", "array"), ("top_senders", "array")]),
    op(Get, "/api/v1/web/requests", Administrator, Some(Scope::MessagesRead), web::requests)
        .summary("Requests of the web log, newest first.")
        .fields(WEB)
        .answer(&[("requests", "array"), ("next", "integer|null")]),
    op(Get, "/api/v1/web/summary", Administrator, Some(Scope::MessagesRead), web::summary)
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
    op(Get, "/api/v1/health", Administrator, Some(Scope::StatusRead), node::health)
        .summary("Checks of what the node depends on, made now.")
        .answer(&[("ok", "boolean"), ("findings", "array")]),
    op(Get, "/api/v1/settings", Administrator, Some(Scope::StatusRead), node::settings)
        .summary("Every setting with its effective value and where it came from; no secrets.")
        .answer(&[("settings", "array")]),
    op(Get, "/api/v1/learning", Administrator, Some(Scope::StatusRead), node::learning)
        .summary("What the site's good mail says of its thresholds: promised, found, in force.")
        .answer(&[("calibration", "object")]),
    op(Get, "/api/v1/disks", Administrator, Some(Scope::StatusRead), node::disks)
        .summary("The disks that data is on.")
        .answer(&[("disks", "array")]),
    op(Get, "/api/v1/routes", Administrator, Some(Scope::StatusRead), node::routes)
        .summary("Where mail goes, in the order in which it is tried.")
        .answer(&[("routes", "array")]),
    op(Get, "/api/v1/rules", Administrator, Some(Scope::PolicyRead), node::rules)
        .summary("Every rule that can hit, its hits, its cost where it was measured; those that hit most first.")
        .fields(DAYS)
        .answer(&[("rules", "array"), ("measured_ms", "integer|null")]),
    op(Post, "/api/v1/rules/measure", Administrator, Some(Scope::PolicyRead), node::measure)
        .summary("Measures what each rule costs, on held mail.")
        .answer(&[("messages", "integer"), ("measured_ms", "integer")]),
    op(Get, "/api/v1/report", Reviewer, Some(Scope::MessagesRead), node::report)
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
    op(Get, "/api/v1/searches", Reviewer, Some(Scope::MessagesRead), personal::searches)
        .summary("Searches that you keep, and those that others share.")
        .answer(&[("searches", "array")]),
    op(Put, "/api/v1/searches/{name}", Reviewer, Some(Scope::MessagesRead), personal::save_search)
        .summary("Keeps a search by a name.")
        .fields(&[
            required("query", Text, "as in the address of the page: `class=spam&sender=%40example.org`"),
            optional("shared", Choice(&["yes"]), "others see it, too"),
        ])
        .answer(&[("name", "string"), ("query", "string")]),
    op(
        Delete,
        "/api/v1/searches/{name}",
        Reviewer,
        Some(Scope::MessagesRead),
        personal::remove_search,
    )
    .summary("Forgets a search of yours.")
    .answer(&[("removed", "boolean")]),
    op(Get, "/api/v1/activity", Administrator, Some(Scope::UsersRead), personal::activity)
        .summary("Who did what, newest first.")
        .answer(&[("lines", "array")]),
    op(Get, "/api/v1/own", Own, Some(Scope::UsersRead), personal::own)
        .summary("What you want for your own mail. For users: a token has no mail of its own.")
        .fields(&[OWN_ADDRESS])
        .answer(&[
            ("address", "string"),
            ("strictness", "string"),
            ("spam_points", "number|integer|null"),
            ("allow", "array"),
            ("block", "array"),
        ]),
    op(Put, "/api/v1/own", Own, Some(Scope::UsersWrite), personal::set_own)
        .summary("How strict to be with your own mail.")
        .fields(&[
            OWN_ADDRESS,
            required("strictness", Choice(&["strict", "normal", "lax"]), "how much is held"),
            optional("points", Number, "mail counts as spam from so many points; as for everybody if not given"),
        ])
        .answer(&[("address", "string"), ("strictness", "string")]),
    op(Put, "/api/v1/own/senders", Own, Some(Scope::UsersWrite), personal::list_own)
        .summary("Allows or blocks a sender for your own mail.")
        .fields(&[
            OWN_ADDRESS,
            required("entry", Text, "address or domain"),
            required("list", Choice(&["allow", "block"]), "which list"),
        ])
        .answer(&[("entry", "string"), ("list", "string")]),
    op(Delete, "/api/v1/own/senders", Own, Some(Scope::UsersWrite), personal::unlist_own)
        .summary("Takes a sender off your own lists.")
        .fields(&[OWN_ADDRESS, required("entry", Text, "address or domain")])
        .answer(&[("removed", "boolean")]),
    op(Get, "/api/v1/own/second-factor", Account, Some(Scope::UsersRead), personal::factor)
        .summary("Whether your account has a second factor.")
        .answer(&[("on", "boolean"), ("recovery_codes", "integer")]),
    op(Post, "/api/v1/own/second-factor", Account, Some(Scope::UsersWrite), personal::change_factor)
        .summary("Begins, switches on (with a code) or off (with a code) the second factor of your account.")
        .fields(&[
            required("do", Choice(&["begin", "on", "off"]), "what to do"),
            optional("code", Text, "the code of this moment, or a recovery code"),
            optional("password", Text, "your present password, to begin; not if you have none and signed in at the provider within five minutes"),
        ])
        .answer(&[("on", "boolean")]),
    op(Get, "/api/v1/own/app-passwords", Account, Some(Scope::UsersRead), personal::app_passwords)
        .summary("The passwords of your mail programs, without the passwords.")
        .answer(&[("app_passwords", "array")]),
    op(Post, "/api/v1/own/app-passwords", Account, Some(Scope::UsersWrite), personal::add_app_password)
        .summary("Makes a password for one of your mail programs; it is in the answer and nowhere else.")
        .fields(&[
            required("name", Text, "which program it is for; unique"),
            optional("password", Text, "your present password; not if you have none and signed in at the provider within five minutes"),
        ])
        .answer(&[("name", "string"), ("secret", "string")]),
    op(
        Delete,
        "/api/v1/own/app-passwords/{name}",
        Account,
        Some(Scope::UsersWrite),
        personal::revoke_app_password,
    )
    .summary("Revokes the password of one of your mail programs.")
    .answer(&[("removed", "boolean")]),
    op(Get, "/api/v1/quarantine", Own, Some(Scope::QuarantineRead), mail::quarantine)
        .summary("Held mail, newest first.")
        .fields(HELD)
        .answer(&[("items", "array"), ("next", "integer|null")]),
    op(Get, "/api/v1/quarantine/{id}", Own, Some(Scope::QuarantineRead), mail::held)
        .summary("One held message.")
        .answer(&[("item", "object"), ("state", "string"), ("size", "integer")]),
    op(Get, "/api/v1/quarantine/{id}/preview", Own, Some(Scope::QuarantineRead), mail::preview)
        .summary("What a held message says: its text, and its HTML made harmless.")
        .answer(&[
            ("subject", "string"),
            ("from", "string"),
            ("text", "string"),
            ("html", "string|null"),
        ]),
    op(Post, "/api/v1/quarantine/{id}/release", Own, Some(Scope::QuarantineWrite), mail::release)
        .summary("Releases a held message, once.")
        .fields(&[optional("to", Texts, "addresses instead of the recipients"), LEARN])
        .answer(&[("released_to", "array")]),
    op(Post, "/api/v1/quarantine/{id}/delete", Own, Some(Scope::QuarantineWrite), mail::delete)
        .summary("Deletes a held message for good.")
        .fields(&[LEARN])
        .answer(&[("deleted", "boolean")]),
    op(Get, "/api/v1/policy", Administrator, Some(Scope::PolicyRead), policies::show)
        .summary("The policy in force.")
        .answer(EDITION),
    op(Put, "/api/v1/policy", Administrator, Some(Scope::PolicyWrite), policies::put)
        .summary(
            "Puts a policy into force; refused if it is none, or `base` is not the newest version.",
        )
        .fields(&[
            POLICY_TEXT,
            optional("base", Integer(1, i64::MAX), "the version that its author saw before"),
            optional("note", Text, "why"),
        ])
        .answer(VERSION),
    op(Post, "/api/v1/policy/check", Administrator, Some(Scope::PolicyRead), policies::check)
        .summary("Reports errors and warnings about a policy, and what it would change.")
        .fields(&[POLICY_TEXT])
        .answer(&[
            ("valid", "boolean"),
            ("rules", "integer"),
            ("findings", "array"),
            ("diff", "string"),
        ]),
    op(Get, "/api/v1/policy/versions", Administrator, Some(Scope::PolicyRead), policies::history)
        .summary("The versions of the policy, newest first.")
        .fields(&[optional("before", Integer(1, i64::MAX), "older than this version"), limit()])
        .answer(&[("versions", "array")]),
    op(
        Get,
        "/api/v1/policy/versions/{number}",
        Administrator,
        Some(Scope::PolicyRead),
        policies::version,
    )
    .summary("A version of the policy, with its text and what it changed.")
    .answer(EDITION),
    op(
        Post,
        "/api/v1/policy/rollback",
        Administrator,
        Some(Scope::PolicyWrite),
        policies::roll_back,
    )
    .summary("Goes back to the version before, or to another.")
    .fields(&[optional("number", Integer(1, i64::MAX), "the version to go back to")])
    .answer(VERSION),
    op(Get, "/api/v1/policy/replay", Administrator, Some(Scope::MessagesRead), policies::replayed)
        .summary("How far the replay is, and what it found (`report`): messages of the log. A token needs policy:read, too.")
        .answer(REPLAY),
    op(Post, "/api/v1/policy/replay", Administrator, Some(Scope::MessagesRead), policies::replay)
        .summary("Begins to try a policy on the mail of the last days; one at a time. A token needs policy:read, too.")
        .fields(&[POLICY_TEXT, optional("days", Integer(1, 100), "7 if not given")])
        .answer(REPLAY),
    op(Get, "/api/v1/senders", Administrator, Some(Scope::SendersRead), users::senders)
        .summary("Senders allowed or blocked for the whole node.")
        .answer(&[("senders", "array")]),
    op(Put, "/api/v1/senders", Administrator, Some(Scope::SendersWrite), users::list_sender)
        .summary("Allows or blocks a sender, from the next message on.")
        .fields(&[
            required("entry", Text, "address, domain or network"),
            required("list", Choice(&["allow", "block"]), "which list"),
        ])
        .answer(&[("entry", "string"), ("list", "string")]),
    op(Delete, "/api/v1/senders", Administrator, Some(Scope::SendersWrite), users::unlist_sender)
        .summary("Takes a sender off the lists.")
        .fields(&[required("entry", Text, "address, domain or network")])
        .answer(&[("removed", "boolean")]),
    op(Get, "/api/v1/users", Administrator, Some(Scope::UsersRead), users::list)
        .summary("Everybody who may use the console.")
        .answer(&[("users", "array")]),
    op(Post, "/api/v1/users", Administrator, Some(Scope::UsersWrite), users::add)
        .summary("Adds a user, with a one-time password. A token needs submission:write, too: every user may send mail.")
        .fields(&[
            required("login", Text, "what they sign in with"),
            required("role", Choice(ROLES), "what they may do"),
            optional("folders", Texts, "folders a reviewer may decide in; none is all"),
            optional("addresses", Texts, "addresses whose held mail a user may see"),
        ])
        .answer(&[("login", "string"), ("one_time_password", "string")]),
    op(Put, "/api/v1/users/{login}", Administrator, Some(Scope::UsersWrite), users::rights)
        .summary("Changes what a user may do, and ends their sessions. A token needs submission:write, too.")
        .fields(RIGHTS)
        .answer(&[("login", "string"), ("role", "string")]),
    op(Delete, "/api/v1/users/{login}", Administrator, Some(Scope::UsersWrite), users::remove)
        .summary("Removes a user, ends their sessions and revokes the tokens that they made.")
        .answer(&[("removed", "boolean")]),
    op(
        Post,
        "/api/v1/users/{login}/password",
        Administrator,
        Some(Scope::UsersWrite),
        users::password,
    )
    .summary("Gives a user a one-time password and ends their sessions. A token needs submission:write, too.")
    .answer(&[("login", "string"), ("one_time_password", "string")]),
    op(
        Delete,
        "/api/v1/users/{login}/second-factor",
        Administrator,
        Some(Scope::UsersWrite),
        users::factor_off,
    )
    .summary("Takes a user's second factor away and ends their sessions. A token needs submission:write, too.")
    .answer(&[("removed", "boolean")]),
    op(Get, "/api/v1/tokens", Administrator, Some(Scope::UsersRead), users::tokens)
        .summary("Every token, without its secret.")
        .answer(&[("tokens", "array")]),
    op(Post, "/api/v1/tokens", Administrator, Some(Scope::UsersWrite), users::add_token)
        .summary("Makes a token; its secret is in the answer and nowhere else. A token makes one of its own scopes at most, that ends with it and is revoked with it.")
        .fields(&[
            required("name", Text, "what it is for; unique"),
            required("scopes", Choices(SCOPES), "what it may do"),
            optional("days", Integer(1, 3_650), "how long it lives; 90 if not given"),
        ])
        .answer(&[("name", "string"), ("secret", "string"), ("expires_ms", "integer")]),
    op(Delete, "/api/v1/tokens/{name}", Administrator, Some(Scope::UsersWrite), users::revoke)
        .summary("Revokes a token.")
        .answer(&[("removed", "boolean")]),
    op(Get, "/api/v1/queue", Administrator, Some(Scope::QueueRead), queue::list)
        .summary("Messages that wait or are being delivered, oldest first.")
        .fields(&[optional("limit", Integer(1, 10_000), "at most so many; 1000 if not given")])
        .answer(&[("messages", "array")]),
    op(Post, "/api/v1/queue/retry", Administrator, Some(Scope::QueueWrite), queue::retry)
        .summary("Delivers messages now; all that wait if none is named.")
        .fields(&[optional("id", Texts, "ids of messages")])
        .answer(&[("messages", "integer")]),
    op(Post, "/api/v1/queue/hold", Administrator, Some(Scope::QueueWrite), queue::hold)
        .summary("Keeps messages waiting until they are retried.")
        .fields(QUEUE_IDS)
        .answer(&[("messages", "integer")]),
    op(Post, "/api/v1/queue/delete", Administrator, Some(Scope::QueueWrite), queue::delete)
        .summary("Deletes messages from the queue without a report to their senders.")
        .fields(QUEUE_IDS)
        .answer(&[("messages", "integer")]),
];
