//! The HTTP interface of rspamd, as rspamc, proxies and mail servers use it.
//!
//! A verdict is one for all recipients, and its client has no quarantine, so that dispositions
//! become actions like this: all rejected, `reject`; a recipient deferred, or no verdict, `soft
//! reject`; all discarded, `discard`; no recipient gets it and it is held for some, `reject` from
//! phishing on, else `add header`; spam that is delivered, or mail that a recipient does not get,
//! `add header`; a tag for the subject, `rewrite subject`; else `no action`. What the policy said
//! for each recipient is in `gauntlet`.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use bytes::Bytes;
use gauntlet_mail::{Evidence, Hit, Message};
use gauntlet_policy::pattern::Pattern;
use gauntlet_store::{LogRecord, Outcome};
use gauntlet_verdict::{Change, Class, Disposition, Final, Thresholds};
use hyper::StatusCode;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use super::http::{Answer, Asked, Said};
use super::{ServiceContext, points};
use crate::outbound::queued_message;

/// Pieces of evidence given for a rule.
const OPTIONS_MAX: usize = 10;

/// What a client does with a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    None,
    AddHeader,
    RewriteSubject,
    SoftReject,
    Reject,
    Discard,
}

impl Action {
    const ALL: [Action; 6] = [
        Action::None,
        Action::AddHeader,
        Action::RewriteSubject,
        Action::SoftReject,
        Action::Reject,
        Action::Discard,
    ];

    /// What the client does with the message; none if it is to come again.
    fn outcome(self) -> Option<Outcome> {
        match self {
            Action::None | Action::AddHeader | Action::RewriteSubject => Some(Outcome::Delivered),
            Action::Reject => Some(Outcome::Rejected),
            Action::Discard => Some(Outcome::Discarded),
            Action::SoftReject => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Action::None => "no action",
            Action::AddHeader => "add header",
            Action::RewriteSubject => "rewrite subject",
            Action::SoftReject => "soft reject",
            Action::Reject => "reject",
            Action::Discard => "discard",
        }
    }
}

/// What a service counts, for `/stat`.
#[derive(Debug, Default)]
pub(super) struct Counts {
    actions: [AtomicU64; Action::ALL.len()],
    learned: AtomicU64,
}

impl Counts {
    fn count(&self, action: Action) {
        let index = Action::ALL.iter().position(|a| *a == action).unwrap_or_default();
        if let Some(count) = self.actions.get(index) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Answers a request as rspamd does, by its path.
pub(super) async fn answer(
    asked: Asked,
    client: Option<IpAddr>,
    context: &ServiceContext,
) -> Answer {
    match asked.path.trim_end_matches('/') {
        "/ping" => Answer::text("pong\r\n"),
        "/checkv2" | "/check" | "/symbols" => check(asked, context).await,
        "/learnspam" => learn(asked, true, client, context).await,
        "/learnham" => learn(asked, false, client, context).await,
        path @ ("/stat" | "/actions") => match context.knows(asked.header("password")) {
            true if path == "/stat" => Answer::json(&stat(context)),
            true => Answer::json(&actions(
                &context.core.intake.settings.get().judge.snapshot.thresholds,
            )),
            false => unauthorized(),
        },
        path => {
            let why = format!("there is no command {path:?}");
            let hint = "checkv2, symbols, learnspam, learnham, actions, stat and ping are known";
            Answer::error(StatusCode::NOT_FOUND, why, hint)
        }
    }
}

fn unauthorized() -> Answer {
    let hint = "send the header field Password with service.token";
    Answer::error(StatusCode::UNAUTHORIZED, "the password is missing or wrong", hint)
}

async fn check(mut asked: Asked, context: &ServiceContext) -> Answer {
    let began = Instant::now();
    if asked.body.is_empty() {
        let hint = "send the message as the request's body";
        return Answer::error(StatusCode::BAD_REQUEST, "there is no message", hint);
    }
    let raw = Bytes::from(std::mem::take(&mut asked.body));
    let core = &context.core;
    let envelope =
        match Said::of(&asked).envelope(&raw, core.recipients_max(), core.clock().unix_s()) {
            Ok(envelope) => envelope,
            Err(refusal) => return refusal,
        };
    let thresholds = context.core.intake.settings.get().judge.snapshot.thresholds;
    let ignored = ["settings", "settings-id"].iter().any(|name| asked.headers.contains_key(*name));
    let frame = Frame {
        queue_id: asked.header("queue-id"),
        settings: ignored.then_some("Settings are ignored: the node's policy decides"),
        began,
    };
    match context.core.judge(raw.clone(), envelope).await {
        Ok(record) => {
            let action = action(&record);
            context.counts.count(action);
            let answer = Answer::json(&verdict(&record, action, &raw, &thresholds, &frame));
            // A deferred client comes again, and is logged then.
            if let Some(outcome) = action.outcome() {
                context.note(record, outcome, action.name());
            }
            answer
        }
        Err(why) => {
            context.counts.count(Action::SoftReject);
            let text = format!("cannot judge the message now ({why}), try again later");
            Answer::json(&Skipped {
                action: Action::SoftReject.name(),
                is_skipped: true,
                score: 0.0,
                required_score: thresholds.spam,
                symbols: Symbols(&[]),
                messages: Messages { smtp_message: Some(text), settings: frame.settings },
                queue_id: frame.queue_id,
                time_real: frame.seconds(),
            })
        }
    }
}

/// What an answer says beside the verdict.
struct Frame<'a> {
    queue_id: Option<&'a str>,
    /// A note that the client's settings are ignored.
    settings: Option<&'static str>,
    began: Instant,
}

impl Frame<'_> {
    fn seconds(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }
}

/// One action for all recipients.
fn action(record: &LogRecord) -> Action {
    let ends = || record.dispositions.iter().map(|d| &d.end);
    match queued_message::answer(&record.dispositions) {
        queued_message::Answer::Reject(_) => return Action::Reject,
        queued_message::Answer::Defer(_) => return Action::SoftReject,
        queued_message::Answer::Accept => {}
    }
    let class = record.verdict.class;
    let goes_on =
        |end: &Final| matches!(end, Final::Deliver | Final::SpamFolder | Final::Redirect { .. });
    let marked = |d: &Disposition| {
        d.changes.iter().any(|change| matches!(change, Change::TagSubject { .. }))
    };
    if !record.dispositions.is_empty() && ends().all(|end| *end == Final::Discard) {
        Action::Discard
    } else if !record.dispositions.is_empty() && !ends().any(goes_on) {
        if class >= Class::Phishing { Action::Reject } else { Action::AddHeader }
    } else if class >= Class::Spam || ends().any(|end| *end == Final::SpamFolder || !goes_on(end)) {
        Action::AddHeader
    } else if record.dispositions.iter().any(marked) {
        Action::RewriteSubject
    } else {
        Action::None
    }
}

/// No verdict: the client is to come again.
#[derive(Serialize)]
struct Skipped<'a> {
    action: &'static str,
    is_skipped: bool,
    score: f64,
    required_score: f64,
    symbols: Symbols<'a>,
    messages: Messages,
    #[serde(rename = "queue-id", skip_serializing_if = "Option::is_none")]
    queue_id: Option<&'a str>,
    time_real: f64,
}

/// The answer in rspamd's shape.
#[derive(Serialize)]
struct Checked<'a> {
    is_skipped: bool,
    score: f64,
    required_score: f64,
    thresholds: ActionPoints,
    action: &'static str,
    symbols: Symbols<'a>,
    messages: Messages,
    #[serde(rename = "message-id")]
    message_id: &'a str,
    milter: Milter<'a>,
    urls: [&'static str; 0],
    emails: [&'static str; 0],
    gauntlet: Own<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    subject: Option<String>,
    #[serde(rename = "queue-id", skip_serializing_if = "Option::is_none")]
    queue_id: Option<&'a str>,
    time_real: f64,
}

#[derive(Serialize)]
struct ActionPoints {
    reject: f64,
    #[serde(rename = "add header")]
    add_header: f64,
}

#[derive(Serialize)]
struct Messages {
    /// The text of a refusal.
    #[serde(skip_serializing_if = "Option::is_none")]
    smtp_message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    settings: Option<&'static str>,
}

/// What rspamd has no field for.
#[derive(Serialize)]
struct Own<'a> {
    id: &'a str,
    class: Class,
    points: f64,
    probability: Option<f64>,
    explicit: bool,
    dispositions: &'a [Disposition],
}

/// Hits by the names of their rules.
struct Symbols<'a>(&'a [Hit]);

#[derive(Serialize)]
struct Symbol<'a> {
    name: &'a str,
    score: f64,
    metric_score: f64,
    description: &'a str,
    options: Options<'a>,
}

impl Serialize for Symbols<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // Names are keys: of two hits of a rule, which stand beside each other, the last counts.
        let next = self.0.iter().skip(1).map(|hit| &*hit.rule).chain(std::iter::once(""));
        let last = self.0.iter().zip(next).filter(|(hit, next)| &*hit.rule != *next);
        serializer.collect_map(last.map(|(hit, _)| {
            let symbol = Symbol {
                name: &hit.rule,
                score: hit.score,
                metric_score: hit.score,
                description: &hit.description,
                options: Options(&hit.evidence),
            };
            (&*hit.rule, symbol)
        }))
    }
}

/// The first pieces of evidence.
struct Options<'a>(&'a [Evidence]);

impl Serialize for Options<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().take(OPTIONS_MAX).map(|e| &*e.text))
    }
}

fn verdict<'a>(
    record: &'a LogRecord,
    action: Action,
    raw: &[u8],
    thresholds: &Thresholds,
    frame: &Frame<'a>,
) -> Checked<'a> {
    let verdict = &record.verdict;
    let tag = changes(&record.dispositions).find_map(|change| match change {
        Change::TagSubject { tag } => Some(tag.as_str()),
        _ => None,
    });
    Checked {
        is_skipped: false,
        score: points::consistent(verdict, thresholds),
        required_score: thresholds.spam,
        thresholds: ActionPoints { reject: thresholds.explicit, add_header: thresholds.spam },
        action: action.name(),
        symbols: Symbols(&verdict.hits),
        messages: Messages { smtp_message: refusal(record), settings: frame.settings },
        message_id: &record.message_id,
        milter: milter(&record.dispositions, raw),
        urls: [],
        emails: [],
        gauntlet: Own {
            id: &record.id,
            class: verdict.class,
            points: verdict.score,
            probability: verdict.probability,
            explicit: verdict.explicit,
            dispositions: &record.dispositions,
        },
        subject: tag.map(|tag| format!("{tag} {}", record.subject)),
        queue_id: frame.queue_id,
        time_real: frame.seconds(),
    }
}

fn changes(dispositions: &[Disposition]) -> impl Iterator<Item = &Change> {
    dispositions.iter().flat_map(|d| &d.changes)
}

/// The text of a refusal.
fn refusal(record: &LogRecord) -> Option<String> {
    match queued_message::answer(&record.dispositions) {
        queued_message::Answer::Reject(text) | queued_message::Answer::Defer(text) => Some(text),
        queued_message::Answer::Accept => None,
    }
}

/// Header fields to be added and removed; a pattern of names becomes the names that it fits.
#[derive(Default, Serialize)]
struct Milter<'a> {
    add_headers: BTreeMap<&'a str, AddedField<'a>>,
    remove_headers: BTreeMap<String, u32>,
}

#[derive(Serialize)]
struct AddedField<'a> {
    value: &'a str,
    order: u32,
}

fn milter<'a>(dispositions: &'a [Disposition], raw: &[u8]) -> Milter<'a> {
    let mut milter = Milter::default();
    for change in changes(dispositions) {
        match change {
            Change::AddHeader { name, value } => {
                milter.add_headers.insert(name, AddedField { value, order: 0 });
            }
            Change::RemoveHeader { name } => {
                let pattern = Pattern::from(name.clone());
                let message = Message::parse(raw);
                let names = message.headers().iter().map(|h| h.name_str().to_string());
                let names = names.filter(|n| pattern.matches(n)).map(|n| (n, 0));
                milter.remove_headers.extend(names);
            }
            _ => {}
        }
    }
    milter
}

async fn learn(
    asked: Asked,
    spam: bool,
    client: Option<IpAddr>,
    context: &ServiceContext,
) -> Answer {
    if !context.knows(asked.header("password")) {
        return unauthorized();
    }
    if asked.body.is_empty() {
        let hint = "send the message as the request's body";
        return Answer::error(StatusCode::BAD_REQUEST, "there is no message", hint);
    }
    let user = asked.header("user").map(str::to_owned);
    match context.learn(asked.body.into(), spam, user.as_deref(), client).await {
        Ok(news) => {
            context.counts.learned.fetch_add(u64::from(news), Ordering::Relaxed);
            Answer::json(&json!({ "success": true, "news": news }))
        }
        Err(refusal) => refusal.into(),
    }
}

/// Points from which on something is done, as control panels show them.
fn actions(thresholds: &Thresholds) -> Value {
    json!([
        { "action": Action::Reject.name(), "value": thresholds.explicit },
        { "action": Action::AddHeader.name(), "value": thresholds.spam },
    ])
}

/// What this service did since it was started.
fn stat(context: &ServiceContext) -> Value {
    let count = |i: usize| context.counts.actions.get(i).map_or(0, |n| n.load(Ordering::Relaxed));
    let mut actions = Map::new();
    for (i, action) in Action::ALL.iter().enumerate() {
        actions.insert(action.name().to_owned(), count(i).into());
    }
    // rspamd's own name for mail that is deferred as unknown; panels add it up.
    actions.insert("greylist".to_owned(), 0.into());
    let scanned: u64 = (0..Action::ALL.len()).map(count).sum();
    let ham = count(0);
    json!({
        "version": env!("CARGO_PKG_VERSION"), "config_id": "", "read_only": false,
        "uptime": context.began.elapsed().as_secs(),
        "scanned": scanned, "spam_count": scanned - ham, "ham_count": ham,
        "learned": context.counts.learned.load(Ordering::Relaxed),
        "connections": 0, "control_connections": 0, "actions": actions, "scan_times": [],
        "pools_allocated": 0, "pools_freed": 0, "bytes_allocated": 0, "chunks_allocated": 0,
        "shared_chunks_allocated": 0, "chunks_freed": 0, "chunks_oversized": 0,
        "fragmented": 0, "total_learns": 0, "statfiles": [], "fuzzy_hashes": {},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(class: Class, ends: &[Final]) -> LogRecord {
        let each = |end: &Final| Disposition {
            recipient: "a@b".into(),
            end: end.clone(),
            changes: Vec::new(),
            rules: Vec::new(),
            release: None,
        };
        let mut record = LogRecord::default();
        record.verdict.class = class;
        record.dispositions = ends.iter().map(each).collect();
        record
    }

    #[test]
    fn dispositions_become_one_action() {
        let held = Final::Quarantine { folder: "x".into() };
        let no = Final::Reject { text: "no".into() };
        let later = Final::Defer { text: "later".into() };
        for (class, ends, expected) in [
            (Class::Ham, &[][..], Action::None),
            (Class::Spam, &[], Action::AddHeader),
            (Class::Ham, &[Final::Deliver], Action::None),
            (Class::Spam, std::slice::from_ref(&held), Action::AddHeader),
            (Class::Malware, std::slice::from_ref(&held), Action::Reject),
            (Class::Malware, &[held.clone(), Final::Deliver], Action::AddHeader),
            (Class::Ham, &[no.clone(), no.clone()], Action::Reject),
            (Class::Ham, &[no.clone(), Final::Deliver], Action::AddHeader),
            (Class::Ham, &[no, later, Final::Deliver], Action::SoftReject),
            (Class::Spam, &[Final::Discard], Action::Discard),
            (Class::Ham, &[Final::SpamFolder], Action::AddHeader),
        ] {
            assert_eq!(action(&record(class, ends)), expected, "{class} {ends:?}");
        }
    }

    #[test]
    fn fields_to_remove_are_named() {
        let mut record = record(Class::Ham, &[Final::Deliver]);
        record.dispositions[0].changes = vec![
            Change::RemoveHeader { name: "X-A*".into() },
            Change::AddHeader { name: "X-Gauntlet-Class".into(), value: "ham".into() },
        ];
        let milter = milter(&record.dispositions, b"X-Ab: 1\nX-B: 2\nx-ac: 3\n\n");
        let value = serde_json::to_value(milter).unwrap();
        assert_eq!(value["remove_headers"], json!({ "X-Ab": 0, "x-ac": 0 }));
        assert_eq!(value["add_headers"]["X-Gauntlet-Class"]["value"], "ham");
    }
}
