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
use gauntlet_mail::Message;
use gauntlet_policy::pattern::Pattern;
use gauntlet_store::{LogRecord, Outcome};
use gauntlet_verdict::{Change, Class, Disposition, Final, Thresholds};
use hyper::StatusCode;
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
    let mut value = match context.core.judge(raw.clone(), envelope).await {
        Ok(record) => {
            let action = action(&record);
            context.counts.count(action);
            let value = verdict(&record, action, &raw, &thresholds);
            // A deferred client comes again, and is logged then.
            if let Some(outcome) = action.outcome() {
                context.note(record, outcome, action.name());
            }
            value
        }
        Err(why) => {
            context.counts.count(Action::SoftReject);
            let text = format!("cannot judge the message now ({why}), try again later");
            json!({
                "action": Action::SoftReject.name(), "is_skipped": true, "score": 0.0,
                "required_score": thresholds.spam, "symbols": {},
                "messages": { "smtp_message": text },
            })
        }
    };
    if ignored && let Some(messages) = value.get_mut("messages").and_then(Value::as_object_mut) {
        let note = "Settings are ignored: the node's policy decides";
        messages.insert("settings".to_owned(), note.into());
    }
    if let (Some(id), Some(top)) = (asked.header("queue-id"), value.as_object_mut()) {
        top.insert("queue-id".to_owned(), id.into());
    }
    let seconds = began.elapsed().as_secs_f64();
    if let Some(top) = value.as_object_mut() {
        top.insert("time_real".to_owned(), seconds.into());
    }
    Answer::json(&value)
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

/// The answer in rspamd's shape.
fn verdict(record: &LogRecord, action: Action, raw: &[u8], thresholds: &Thresholds) -> Value {
    let verdict = &record.verdict;
    let mut symbols = Map::new();
    for hit in &verdict.hits {
        let options: Vec<&str> = hit.evidence.iter().take(OPTIONS_MAX).map(|e| &*e.text).collect();
        let symbol = json!({
            "name": &*hit.rule, "score": hit.score, "metric_score": hit.score,
            "description": &*hit.description, "options": options,
        });
        symbols.insert(hit.rule.to_string(), symbol);
    }
    let mut value = json!({
        "is_skipped": false,
        "score": points::consistent(verdict, thresholds),
        "required_score": thresholds.spam,
        "thresholds": { "reject": thresholds.explicit, "add header": thresholds.spam },
        "action": action.name(),
        "symbols": symbols,
        "messages": messages(record),
        "message-id": record.message_id,
        "milter": milter(&record.dispositions, raw),
        "urls": [], "emails": [],
        "gauntlet": {
            "id": record.id, "class": verdict.class, "points": verdict.score,
            "probability": verdict.probability, "explicit": verdict.explicit, "dispositions": record.dispositions,
        },
    });
    let tag = changes(&record.dispositions).find_map(|change| match change {
        Change::TagSubject { tag } => Some(tag.as_str()),
        _ => None,
    });
    if let (Some(tag), Some(top)) = (tag, value.as_object_mut()) {
        top.insert("subject".to_owned(), format!("{tag} {}", record.subject).into());
    }
    value
}

fn changes(dispositions: &[Disposition]) -> impl Iterator<Item = &Change> {
    dispositions.iter().flat_map(|d| &d.changes)
}

/// The text of a refusal.
fn messages(record: &LogRecord) -> Value {
    match queued_message::answer(&record.dispositions) {
        queued_message::Answer::Reject(text) | queued_message::Answer::Defer(text) => {
            json!({ "smtp_message": text })
        }
        queued_message::Answer::Accept => json!({}),
    }
}

/// Header fields to be added and removed; a pattern of names becomes the names that it fits.
fn milter(dispositions: &[Disposition], raw: &[u8]) -> Value {
    let (mut add, mut remove) = (BTreeMap::new(), BTreeMap::new());
    let message = Message::parse(raw);
    for change in changes(dispositions) {
        match change {
            Change::AddHeader { name, value } => {
                add.insert(name.clone(), json!({ "value": value, "order": 0 }));
            }
            Change::RemoveHeader { name } => {
                let pattern = Pattern::from(name.clone());
                let names = message.headers().iter().map(|h| h.name_str().to_string());
                remove.extend(names.filter(|n| pattern.matches(n)).map(|n| (n, 0)));
            }
            _ => {}
        }
    }
    json!({ "add_headers": add, "remove_headers": remove })
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
        let value = milter(&record.dispositions, b"X-Ab: 1\nX-B: 2\nx-ac: 3\n\n");
        assert_eq!(value["remove_headers"], json!({ "X-Ab": 0, "x-ac": 0 }));
        assert_eq!(value["add_headers"]["X-Gauntlet-Class"]["value"], "ham");
    }
}
