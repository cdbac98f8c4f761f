//! Every operation of the API.

use gauntlet_store::users::Scope;

use super::operation::Kind::{Choice, Choices, Day, Integer, Lines, Number, Text, Texts};
use super::operation::{Field, Operation, field, must};
use super::{mail, people, personal, policies, queue, standing};
use crate::routes::{Access, Method, Page, Route};

const CLASSES: &[&str] = &["ham", "bulk", "suspect", "spam", "phishing", "malware", "unscannable"];
const ACTIONS: &[&str] =
    &["deliver", "spam_folder", "redirect", "hold", "quarantine", "reject", "defer", "discard"];
const OUTCOMES: &[&str] =
    &["queued", "delivered", "quarantined", "failed", "discarded", "rejected", "deleted"];

const fn after() -> Field {
    field("after", Integer(i64::MIN, i64::MAX), "`next` of the page before")
}

const fn limit() -> Field {
    field("limit", Integer(0, 500), "results of a page; 0 takes the default, 50")
}

const MESSAGES: &[Field] = &[
    field("sender", Text, "envelope sender: an address, `name@` or `@domain`"),
    field("recipient", Text, "recipient: an address, `name@` or `@domain`"),
    field("domain", Text, "domain of sender or recipient"),
    field("subject", Text, "words of the subject; `pay*` takes beginnings"),
    field("message_id", Text, "Message-ID field"),
    field("id", Text, "id on this node: the reference code of replies"),
    field("class", Choices(CLASSES), "any of these classes"),
    field("action", Choice(ACTIONS), "disposition of a recipient"),
    field("outcome", Choice(OUTCOMES), "what became of a delivery"),
    field("rule", Text, "a rule that hit"),
    field("policy_rule", Text, "a rule of the policy that matched"),
    field("client", Text, "address of the client"),
    field("event", Text, "what happened later, e.g. `released`"),
    field("since", Day, "received on or after this day (UTC)"),
    field("until", Day, "received on or before this day (UTC)"),
    field("score_min", Number, "rule points, at least"),
    after(),
    limit(),
];

const HELD: &[Field] = &[
    field("folder", Text, "folder"),
    field("text", Text, "part of subject, From or recipients"),
    field("class", Choices(CLASSES), "any of these classes"),
    field(
        "state",
        Choice(&["held", "releasing", "released", "deleted", "any"]),
        "held, if not given",
    ),
    field("recipient", Text, "address of a recipient"),
    field("message", Text, "id of the message in the log"),
    field("since", Day, "received on or after this day (UTC)"),
    field("until", Day, "received on or before this day (UTC)"),
    after(),
    limit(),
];

const DAYS: &[Field] = &[field("days", Integer(1, 100), "the last so many days; 30 if not given")];
const REPORT: &[Field] = &[
    field("days", Integer(1, 100), "whole days (UTC); 7 if not given"),
    field("until", Day, "the last of them; today if not given"),
];
const RIGHTS: &[Field] = &[
    must("role", Choice(ROLES), "what they may do"),
    field("folders", Texts, "folders a reviewer may decide in; none is all"),
    field("addresses", Texts, "addresses whose held mail a user may see"),
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
const OWN_ADDRESS: Field = field("address", Text, "one of your addresses; the first if not given");
const POLICY_TEXT: Field = must("text", Lines, "the policy: TOML");
const LEARN: Field = field("learn", Choice(&["yes"]), "teach the classifier, too");
const QUEUE_IDS: &[Field] = &[must("id", Texts, "ids of messages")];

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
    const fn says(mut self, summary: &'static str) -> Self {
        self.summary = summary;
        self
    }

    const fn takes(mut self, fields: &'static [Field]) -> Self {
        self.fields = fields;
        self
    }

    const fn gives(mut self, answer: &'static [(&'static str, &'static str)]) -> Self {
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

/// The table. Static, since a route is told by its address in memory.
pub static OPERATIONS: &[Operation] = &[
    op(Get, "/api/openapi.json", Public, None, super::show)
        .says("This document.")
        .gives(&[("openapi", "string"), ("paths", "object")]),
    op(Get, "/api/v1/status", Reviewer, Some(Scope::StatusRead), mail::status)
        .says("How the node is, and its numbers.")
        .gives(&[
            ("name", "string"),
            ("version", "string"),
            ("ready", "boolean"),
            ("problems", "array"),
            ("queued", "integer"),
            ("metrics", "object"),
        ]),
    op(Get, "/api/v1/messages", Reviewer, Some(Scope::MessagesRead), mail::messages)
        .says("Messages of the log, newest first.")
        .takes(MESSAGES)
        .gives(&[("messages", "array"), ("next", "integer|null")]),
    op(Get, "/api/v1/messages/{id}", Reviewer, Some(Scope::MessagesRead), mail::message)
        .says("One message: all that is known about it, and what happened since.")
        .gives(&[("record", "object"), ("events", "array")]),
    op(Get, "/api/v1/counts", Reviewer, Some(Scope::MessagesRead), mail::counts)
        .says("Messages counted by span of time, class and disposition.")
        .takes(&[
            field("hours", Integer(1, 2_400), "the last so many hours; 24 if not given"),
            field("span_minutes", Integer(1, 1_440), "length of a span; 60 if not given"),
        ])
        .gives(&[("buckets", "array"), ("top_rules", "array"), ("top_senders", "array")]),
    op(Get, "/api/v1/health", Administrator, Some(Scope::StatusRead), standing::health)
        .says("What the node stands on, examined now.")
        .gives(&[("good", "boolean"), ("findings", "array")]),
    op(Get, "/api/v1/settings", Administrator, Some(Scope::StatusRead), standing::settings)
        .says("Every setting with its effective value and where it came from; no secrets.")
        .gives(&[("settings", "array")]),
    op(Get, "/api/v1/disks", Administrator, Some(Scope::StatusRead), standing::disks)
        .says("The disks that data is on.")
        .gives(&[("disks", "array")]),
    op(Get, "/api/v1/routes", Administrator, Some(Scope::StatusRead), standing::routes)
        .says("Where mail goes, in the order in which it is tried.")
        .gives(&[("routes", "array")]),
    op(Get, "/api/v1/rules", Administrator, Some(Scope::PolicyRead), standing::rules)
        .says("Every rule that can hit, its hits, its cost where it was measured; those that hit most first.")
        .takes(DAYS)
        .gives(&[("rules", "array"), ("measured_ms", "integer|null")]),
    op(Post, "/api/v1/rules/measure", Administrator, Some(Scope::PolicyRead), standing::measure)
        .says("Measures what each rule costs, on held mail.")
        .gives(&[("messages", "integer"), ("measured_ms", "integer")]),
    op(Get, "/api/v1/report", Reviewer, Some(Scope::MessagesRead), standing::report)
        .says("What passed in some days, accuracy as far as people said so, who sent and got most.")
        .takes(REPORT)
        .gives(&[
            ("since", "string"),
            ("until", "string"),
            ("days", "array"),
            ("classes", "object"),
            ("accuracy", "object"),
            ("domains", "array"),
        ]),
    op(Get, "/api/v1/searches", Reviewer, Some(Scope::MessagesRead), personal::searches)
        .says("Searches that you keep, and those that others share.")
        .gives(&[("searches", "array")]),
    op(Put, "/api/v1/searches/{name}", Reviewer, Some(Scope::MessagesRead), personal::save_search)
        .says("Keeps a search by a name.")
        .takes(&[
            must("query", Text, "as in the address of the page: `class=spam&sender=%40example.org`"),
            field("shared", Choice(&["yes"]), "others see it, too"),
        ])
        .gives(&[("name", "string"), ("query", "string")]),
    op(
        Delete,
        "/api/v1/searches/{name}",
        Reviewer,
        Some(Scope::MessagesRead),
        personal::remove_search,
    )
    .says("Forgets a search of yours.")
    .gives(&[("removed", "boolean")]),
    op(Get, "/api/v1/activity", Administrator, Some(Scope::UsersRead), personal::activity)
        .says("Who did what, newest first.")
        .gives(&[("lines", "array")]),
    op(Get, "/api/v1/own", Own, Some(Scope::UsersRead), personal::own)
        .says("What you want for your own mail. For people: a token has no mail of its own.")
        .takes(&[OWN_ADDRESS])
        .gives(&[
            ("address", "string"),
            ("strictness", "string"),
            ("spam_points", "number|integer|null"),
            ("allow", "array"),
            ("block", "array"),
        ]),
    op(Put, "/api/v1/own", Own, Some(Scope::UsersWrite), personal::set_own)
        .says("How strict to be with your own mail.")
        .takes(&[
            OWN_ADDRESS,
            must("strictness", Choice(&["strict", "normal", "lax"]), "how much is held"),
            field("points", Number, "mail counts as spam from so many points; as for everybody if not given"),
        ])
        .gives(&[("address", "string"), ("strictness", "string")]),
    op(Put, "/api/v1/own/senders", Own, Some(Scope::UsersWrite), personal::list_own)
        .says("Allows or blocks a sender for your own mail.")
        .takes(&[
            OWN_ADDRESS,
            must("entry", Text, "address or domain"),
            must("list", Choice(&["allow", "block"]), "which list"),
        ])
        .gives(&[("entry", "string"), ("list", "string")]),
    op(Delete, "/api/v1/own/senders", Own, Some(Scope::UsersWrite), personal::unlist_own)
        .says("Takes a sender off your own lists.")
        .takes(&[OWN_ADDRESS, must("entry", Text, "address or domain")])
        .gives(&[("removed", "boolean")]),
    op(Get, "/api/v1/own/second-factor", Account, Some(Scope::UsersRead), personal::factor)
        .says("Whether your account has a second factor.")
        .gives(&[("on", "boolean"), ("recovery_codes", "integer")]),
    op(Post, "/api/v1/own/second-factor", Account, Some(Scope::UsersWrite), personal::change_factor)
        .says("Begins, switches on (with a code) or off (with a code) the second factor of your account.")
        .takes(&[
            must("do", Choice(&["begin", "on", "off"]), "what to do"),
            field("code", Text, "the code of this moment, or a recovery code"),
            field("password", Text, "your present password, to begin; not if you have none and signed in at the provider within five minutes"),
        ])
        .gives(&[("on", "boolean")]),
    op(Get, "/api/v1/own/app-passwords", Account, Some(Scope::UsersRead), personal::app_passwords)
        .says("The passwords of your mail programs, without the passwords.")
        .gives(&[("app_passwords", "array")]),
    op(Post, "/api/v1/own/app-passwords", Account, Some(Scope::UsersWrite), personal::add_app_password)
        .says("Makes a password for one of your mail programs; it is in the answer and nowhere else.")
        .takes(&[
            must("name", Text, "which program it is for; unique"),
            field("password", Text, "your present password; not if you have none and signed in at the provider within five minutes"),
        ])
        .gives(&[("name", "string"), ("secret", "string")]),
    op(
        Delete,
        "/api/v1/own/app-passwords/{name}",
        Account,
        Some(Scope::UsersWrite),
        personal::revoke_app_password,
    )
    .says("Revokes the password of one of your mail programs.")
    .gives(&[("removed", "boolean")]),
    op(Get, "/api/v1/quarantine", Own, Some(Scope::QuarantineRead), mail::quarantine)
        .says("Held mail, newest first.")
        .takes(HELD)
        .gives(&[("items", "array"), ("next", "integer|null")]),
    op(Get, "/api/v1/quarantine/{id}", Own, Some(Scope::QuarantineRead), mail::held)
        .says("One held message.")
        .gives(&[("item", "object"), ("state", "string"), ("size", "integer")]),
    op(Get, "/api/v1/quarantine/{id}/preview", Own, Some(Scope::QuarantineRead), mail::preview)
        .says("What a held message says: its text, and its HTML made harmless.")
        .gives(&[
            ("subject", "string"),
            ("from", "string"),
            ("text", "string"),
            ("html", "string|null"),
        ]),
    op(Post, "/api/v1/quarantine/{id}/release", Own, Some(Scope::QuarantineWrite), mail::release)
        .says("Releases a held message, once.")
        .takes(&[field("to", Texts, "addresses instead of the recipients"), LEARN])
        .gives(&[("released_to", "array")]),
    op(Post, "/api/v1/quarantine/{id}/delete", Own, Some(Scope::QuarantineWrite), mail::delete)
        .says("Deletes a held message for good.")
        .takes(&[LEARN])
        .gives(&[("deleted", "boolean")]),
    op(Get, "/api/v1/policy", Administrator, Some(Scope::PolicyRead), policies::show)
        .says("The policy in force.")
        .gives(EDITION),
    op(Put, "/api/v1/policy", Administrator, Some(Scope::PolicyWrite), policies::put)
        .says(
            "Puts a policy into force; refused if it is none, or `base` is not the newest version.",
        )
        .takes(&[
            POLICY_TEXT,
            field("base", Integer(1, i64::MAX), "the version that its author saw before"),
            field("note", Text, "why"),
        ])
        .gives(VERSION),
    op(Post, "/api/v1/policy/check", Administrator, Some(Scope::PolicyRead), policies::check)
        .says("Says what is wrong or odd about a policy, and what it would change.")
        .takes(&[POLICY_TEXT])
        .gives(&[
            ("good", "boolean"),
            ("rules", "integer"),
            ("findings", "array"),
            ("diff", "string"),
        ]),
    op(Get, "/api/v1/policy/versions", Administrator, Some(Scope::PolicyRead), policies::history)
        .says("The versions of the policy, newest first.")
        .takes(&[field("before", Integer(1, i64::MAX), "older than this version"), limit()])
        .gives(&[("versions", "array")]),
    op(
        Get,
        "/api/v1/policy/versions/{number}",
        Administrator,
        Some(Scope::PolicyRead),
        policies::version,
    )
    .says("A version of the policy, with its text and what it changed.")
    .gives(EDITION),
    op(
        Post,
        "/api/v1/policy/rollback",
        Administrator,
        Some(Scope::PolicyWrite),
        policies::roll_back,
    )
    .says("Goes back to the version before, or to another.")
    .takes(&[field("number", Integer(1, i64::MAX), "the version to go back to")])
    .gives(VERSION),
    op(Get, "/api/v1/policy/replay", Administrator, Some(Scope::MessagesRead), policies::replayed)
        .says("How far the replay is, and what it found (`report`): messages of the log. A token needs policy:read, too.")
        .gives(REPLAY),
    op(Post, "/api/v1/policy/replay", Administrator, Some(Scope::MessagesRead), policies::replay)
        .says("Begins to try a policy on the mail of the last days; one at a time. A token needs policy:read, too.")
        .takes(&[POLICY_TEXT, field("days", Integer(1, 100), "7 if not given")])
        .gives(REPLAY),
    op(Get, "/api/v1/senders", Administrator, Some(Scope::SendersRead), people::senders)
        .says("Senders allowed or blocked for the whole node.")
        .gives(&[("senders", "array")]),
    op(Put, "/api/v1/senders", Administrator, Some(Scope::SendersWrite), people::list_sender)
        .says("Allows or blocks a sender, from the next message on.")
        .takes(&[
            must("entry", Text, "address, domain or network"),
            must("list", Choice(&["allow", "block"]), "which list"),
        ])
        .gives(&[("entry", "string"), ("list", "string")]),
    op(Delete, "/api/v1/senders", Administrator, Some(Scope::SendersWrite), people::unlist_sender)
        .says("Takes a sender off the lists.")
        .takes(&[must("entry", Text, "address, domain or network")])
        .gives(&[("removed", "boolean")]),
    op(Get, "/api/v1/users", Administrator, Some(Scope::UsersRead), people::list)
        .says("Everybody who may use the console.")
        .gives(&[("users", "array")]),
    op(Post, "/api/v1/users", Administrator, Some(Scope::UsersWrite), people::add)
        .says("Adds a person, with a one-time password. A token needs submission:write, too: every person may send mail.")
        .takes(&[
            must("login", Text, "what they sign in with"),
            must("role", Choice(ROLES), "what they may do"),
            field("folders", Texts, "folders a reviewer may decide in; none is all"),
            field("addresses", Texts, "addresses whose held mail a user may see"),
        ])
        .gives(&[("login", "string"), ("one_time_password", "string")]),
    op(Put, "/api/v1/users/{login}", Administrator, Some(Scope::UsersWrite), people::rights)
        .says("Changes what a person may do, and ends their sessions. A token needs submission:write, too.")
        .takes(RIGHTS)
        .gives(&[("login", "string"), ("role", "string")]),
    op(Delete, "/api/v1/users/{login}", Administrator, Some(Scope::UsersWrite), people::remove)
        .says("Removes a person, ends their sessions and revokes the tokens that they made.")
        .gives(&[("removed", "boolean")]),
    op(
        Post,
        "/api/v1/users/{login}/password",
        Administrator,
        Some(Scope::UsersWrite),
        people::password,
    )
    .says("Gives a person a one-time password and ends their sessions. A token needs submission:write, too.")
    .gives(&[("login", "string"), ("one_time_password", "string")]),
    op(
        Delete,
        "/api/v1/users/{login}/second-factor",
        Administrator,
        Some(Scope::UsersWrite),
        people::factor_off,
    )
    .says("Takes a person's second factor away and ends their sessions. A token needs submission:write, too.")
    .gives(&[("removed", "boolean")]),
    op(Get, "/api/v1/tokens", Administrator, Some(Scope::UsersRead), people::tokens)
        .says("Every token, without its secret.")
        .gives(&[("tokens", "array")]),
    op(Post, "/api/v1/tokens", Administrator, Some(Scope::UsersWrite), people::add_token)
        .says("Makes a token; its secret is in the answer and nowhere else. A token makes one of its own scopes at most, that ends with it and is revoked with it.")
        .takes(&[
            must("name", Text, "what it is for; unique"),
            must("scopes", Choices(SCOPES), "what it may do"),
            field("days", Integer(1, 3_650), "how long it lives; 90 if not given"),
        ])
        .gives(&[("name", "string"), ("secret", "string"), ("expires_ms", "integer")]),
    op(Delete, "/api/v1/tokens/{name}", Administrator, Some(Scope::UsersWrite), people::revoke)
        .says("Revokes a token.")
        .gives(&[("removed", "boolean")]),
    op(Get, "/api/v1/queue", Administrator, Some(Scope::QueueRead), queue::list)
        .says("Messages that wait or are being delivered, oldest first.")
        .takes(&[field("limit", Integer(1, 10_000), "at most so many; 1000 if not given")])
        .gives(&[("messages", "array")]),
    op(Post, "/api/v1/queue/retry", Administrator, Some(Scope::QueueWrite), queue::retry)
        .says("Delivers messages now; all that wait if none is named.")
        .takes(&[field("id", Texts, "ids of messages")])
        .gives(&[("messages", "integer")]),
    op(Post, "/api/v1/queue/hold", Administrator, Some(Scope::QueueWrite), queue::hold)
        .says("Keeps messages waiting until they are retried.")
        .takes(QUEUE_IDS)
        .gives(&[("messages", "integer")]),
    op(Post, "/api/v1/queue/delete", Administrator, Some(Scope::QueueWrite), queue::delete)
        .says("Takes messages out of the queue; nobody is told.")
        .takes(QUEUE_IDS)
        .gives(&[("messages", "integer")]),
];
