//! Our own HTTP interface: `POST /v1/scan`, a message in, its verdict out. See `docs/services.md`.

use std::net::IpAddr;

use bytes::Bytes;
use gauntlet_mail::{Defect, Hit};
use gauntlet_store::{LogRecord, Outcome};
use gauntlet_verdict::{Class, Counterfactual, Disposition};
use hyper::{Method, StatusCode};
use serde::Serialize;

use super::ServiceContext;
use super::http::{Answer, Asked, Said};

/// A verdict: the fields of `gauntlet scan --json`, and what the policy says.
#[derive(Serialize)]
struct Scanned<'a> {
    file: &'static str,
    class: Class,
    score: f64,
    hits: &'a [Hit],
    defects: &'a [Defect],
    cost_us: f64,
    probability: Option<f64>,
    counterfactuals: &'a [Counterfactual],
    bytes: u64,
    ruleset: &'a str,
    id: &'a str,
    explicit: bool,
    dispositions: &'a [Disposition],
}

/// Microseconds of parse and scan.
fn cost_us(record: &LogRecord) -> f64 {
    let at = |name: &str| record.stages.iter().find(|s| s.name == name).map(|s| s.at_us);
    let spent = at("scanned").zip(at("waited")).map(|(end, start)| end.saturating_sub(start));
    spent.unwrap_or_default() as f64
}

/// Answers a request of our own API (`/v1/scan`, `/v1/learn`), if its token is right.
pub(super) async fn answer(
    asked: Asked,
    client: Option<IpAddr>,
    context: &ServiceContext,
) -> Answer {
    let bearer = asked.header("authorization").and_then(|v| v.strip_prefix("Bearer "));
    if !context.knows(bearer) {
        let hint = "send the header field Authorization: Bearer and service.token";
        return Answer::error(StatusCode::UNAUTHORIZED, "the token is missing or wrong", hint);
    }
    match (&asked.method, asked.path.as_str()) {
        (&Method::POST, "/v1/scan") => scan(asked, context).await,
        (&Method::POST, "/v1/learn") => learn(asked, client, context).await,
        (_, "/v1/scan" | "/v1/learn") => {
            let why = format!("method {}", asked.method);
            Answer::error(StatusCode::METHOD_NOT_ALLOWED, why, "use POST")
        }
        (_, path) => {
            let why = format!("there is nothing at {path:?}");
            Answer::error(StatusCode::NOT_FOUND, why, "use /v1/scan or /v1/learn")
        }
    }
}

/// The message of a request.
fn message(asked: &mut Asked) -> Result<Bytes, Answer> {
    let kind = asked.header("content-type").unwrap_or("message/rfc822");
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    // What curl sends with --data-binary by default is a message too.
    let known = ["message/rfc822", "application/octet-stream", "application/x-www-form-urlencoded"];
    if !known.contains(&kind.as_str()) {
        let why = format!("content type {kind:?}");
        let hint = "send the message alone, as message/rfc822";
        return Err(Answer::error(StatusCode::UNSUPPORTED_MEDIA_TYPE, why, hint));
    }
    if asked.body.is_empty() {
        let hint = "send the message as the request's body";
        return Err(Answer::error(StatusCode::BAD_REQUEST, "there is no message", hint));
    }
    Ok(Bytes::from(std::mem::take(&mut asked.body)))
}

async fn scan(mut asked: Asked, context: &ServiceContext) -> Answer {
    let raw = match message(&mut asked) {
        Ok(raw) => raw,
        Err(refusal) => return refusal,
    };
    let core = &context.core;
    let envelope =
        match Said::of(&asked).envelope(&raw, core.recipients_max(), core.clock().unix_s()) {
            Ok(envelope) => envelope,
            Err(refusal) => return refusal,
        };
    let record = match context.core.judge(raw, envelope).await {
        Ok(record) => record,
        Err(why) => {
            let hint = "try again later";
            return Answer::error(StatusCode::SERVICE_UNAVAILABLE, why, hint);
        }
    };
    let verdict = &record.verdict;
    let answer = Answer::json(&Scanned {
        file: "-",
        class: verdict.class,
        score: verdict.score,
        hits: &verdict.hits,
        defects: &verdict.defects,
        cost_us: cost_us(&record),
        probability: verdict.probability,
        counterfactuals: &verdict.counterfactuals,
        bytes: record.size,
        ruleset: &verdict.ruleset,
        id: &record.id,
        explicit: verdict.explicit,
        dispositions: &record.dispositions,
    });
    let class = format!("{:?}", verdict.class).to_lowercase();
    context.note(record, Outcome::Delivered, &class);
    answer
}

async fn learn(mut asked: Asked, client: Option<IpAddr>, context: &ServiceContext) -> Answer {
    let said = Said::of(&asked);
    let spam = match said.last("class") {
        Some("spam") => true,
        Some("ham") => false,
        other => {
            let why = format!("class: {:?}", other.unwrap_or_default());
            return Answer::error(StatusCode::BAD_REQUEST, why, "say class=spam or class=ham");
        }
    };
    let raw = match message(&mut asked) {
        Ok(raw) => raw,
        Err(refusal) => return refusal,
    };
    match context.learn(raw, spam, said.last("user"), client).await {
        Ok(news) => Answer::json(&serde_json::json!({ "learned": news })),
        Err(refusal) => refusal.into(),
    }
}
