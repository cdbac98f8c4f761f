//! The protocol of spamc and spamd: one request a connection.
//!
//! `Spam:` follows the verdict's class, which the classifier has a say in too, and so do the points
//! beside it ([`points::consistent`]). `User` names who reports in `TELL`, and nothing else: there
//! is one ruleset for all. `TELL` is answered as by a spamd that does not allow it, unless the
//! service learns; a message is then spam or ham, never nothing again.

use std::io::{self, Read};
use std::net::IpAddr;

use bytes::Bytes;
use flate2::read::ZlibDecoder;
use gauntlet_smtp::spamd::{
    Destinations, Limits, Method, ProtocolError, Request, RequestReader, Response, Score, Status,
};
use gauntlet_store::Outcome;
use gauntlet_verdict::{Class, Thresholds, Verdict};
use tokio::io::AsyncWriteExt;

use super::{NotLearned, ServiceContext, ServiceCore, points};
use crate::inbound::admission::Admitted;
use crate::memory::MemoryShare;
use crate::wire::{Wire, read_with};

/// Bytes inflated at once.
const READ_BYTES: usize = 16 << 10;
/// Why a request is deferred.
const NO_MEMORY: &str = "there is no memory for the message now";
/// Rules that a report or header names at most.
const RULES_MAX: usize = 200;
/// Length of a line of rule names in a header field.
const LINE_BYTES: usize = 70;

/// Reads a request, answers it, and closes.
pub(super) async fn serve(
    mut stream: Wire,
    context: &ServiceContext,
    client: Option<IpAddr>,
    admitted: &Admitted,
) -> io::Result<()> {
    let io_timeout = context.io_timeout();
    let mut memory = context.memory_of(client);
    admitted.wait();
    let read = tokio::select! {
        read = tokio::time::timeout_at(context.request_end(), read(&mut stream, context, &mut memory)) => {
            read.unwrap_or_else(|_| Ok(Err(later("the request takes too long"))))?
        }
        () = admitted.evicted() => Err(later("others wait, and the request did not come")),
    };
    let read = if admitted.work() { read } else { Err(later("others wait")) };
    let answer = match read {
        Ok(request) => {
            let (method, minor) = (request.method, request.minor);
            answer(request, context, client, &mut memory).await.to_bytes_for(method, minor)
        }
        Err(refusal) => refusal.to_bytes(),
    };
    let write = async {
        stream.write_all(&answer).await?;
        stream.shutdown().await
    };
    tokio::time::timeout(io_timeout, write).await?
}

/// Reads a request. Its memory is booked as it is announced, and as it comes.
async fn read(
    stream: &mut Wire,
    context: &ServiceContext,
    memory: &mut MemoryShare,
) -> io::Result<Result<Request, Response>> {
    let limits = Limits { body_bytes_max: context.core.bytes_max(), ..Limits::default() };
    let mut reader = RequestReader::new(limits);
    loop {
        let piece = read_with(stream, |bytes| reader.push(bytes));
        let pushed = tokio::time::timeout(context.io_timeout(), piece).await??;
        match pushed {
            None => return Ok(reader.end().map_err(refusal)),
            Some(Ok(Some(request))) => {
                let fits = memory.resize_alone(request.body.capacity() as u64);
                return Ok(if fits { Ok(request) } else { Err(later(NO_MEMORY)) });
            }
            Some(Ok(None)) => {}
            Some(Err(bad)) => return Ok(Err(refusal(bad))),
        }
        let (held, missing) = (reader.held_bytes() as u64, reader.missing_bytes() as u64);
        if !memory.resize_alone(held) || !memory.has_room(missing) {
            return Ok(Err(later(NO_MEMORY)));
        }
    }
}

/// The client may come again.
fn later(why: &str) -> Response {
    Response { text: format!("{why}, try again later"), ..Response::new(Status::TempFail) }
}

fn refusal(bad: ProtocolError) -> Response {
    Response { text: bad.to_string(), ..Response::new(bad.status()) }
}

async fn answer(
    mut request: Request,
    context: &ServiceContext,
    client: Option<IpAddr>,
    memory: &mut MemoryShare,
) -> Response {
    let core = &context.core;
    if request.compressed {
        match inflate(&request.body, core.bytes_max(), memory) {
            Ok(body) => request.body = body,
            Err(refused) => return *refused,
        }
    }
    // The answer holds the message once more.
    let copies = if request.method == Method::Process { 2 } else { 1 };
    if !memory.resize_alone(request.body.capacity() as u64 * copies) {
        return later(NO_MEMORY);
    }
    match request.method {
        Method::Ping => return Response::pong(),
        Method::Skip => return Response::new(Status::Ok),
        Method::Tell => return handle_tell(request, context, client).await,
        _ => {}
    }
    let raw = Bytes::from(request.body);
    let record = match core.judge_alone(raw.clone()).await {
        Ok(record) => record,
        Err(why) => return Response { text: why.to_string(), ..Response::new(Status::TempFail) },
    };
    let response = verdict_of(request.method, &raw, &record.verdict, core);
    let answer = if record.verdict.class >= Class::Spam { "spam" } else { "ham" };
    context.note(record, Outcome::Delivered, answer);
    response
}

/// Takes down what a message is.
async fn handle_tell(
    request: Request,
    context: &ServiceContext,
    client: Option<IpAddr>,
) -> Response {
    let forbidden = |why: &str| {
        let text = format!("TELL commands are not enabled: {why}; use gauntlet learn");
        Response { code: 69, text, ..Response::new(Status::Software) }
    };
    let Some(spam) = request.tell.spam.filter(|_| request.tell.set.local) else {
        return forbidden("a message is learned as spam or ham, here, and not forgotten");
    };
    let learned = context.learn(request.body.into(), spam, request.user.as_deref(), client).await;
    match learned {
        Ok(news) => {
            let did_set = Destinations { local: news, remote: false };
            Response { did_set, body: Some(Vec::new()), ..Response::new(Status::Ok) }
        }
        Err(NotLearned::Forbidden(why)) => forbidden(why),
        Err(NotLearned::TooOften(why)) => later(why),
        Err(NotLearned::Failed(text)) => Response { text, ..Response::new(Status::TempFail) },
    }
}

/// The answer to a method that asks for a verdict.
fn verdict_of(method: Method, raw: &[u8], verdict: &Verdict, core: &ServiceCore) -> Response {
    let spam = verdict.class >= Class::Spam;
    let thresholds = core.intake.settings.get().judge.snapshot.thresholds;
    let threshold = thresholds.spam;
    let body = match method {
        Method::Symbols => Some(names(verdict).join(",").into_bytes()),
        Method::Report => Some(report(verdict, threshold, &core.host).into_bytes()),
        Method::ReportIfSpam if spam => Some(report(verdict, threshold, &core.host).into_bytes()),
        Method::ReportIfSpam => Some(Vec::new()),
        Method::Process => Some(marked(raw, verdict, &thresholds, &core.host, true)),
        Method::Headers => Some(marked(raw, verdict, &thresholds, &core.host, false)),
        _ => None,
    };
    let score = Score { spam, points: points::consistent(verdict, &thresholds), threshold };
    Response { score: Some(score), body, ..Response::new(Status::Ok) }
}

/// Inflates a body, within the limit of a message and the node's memory.
fn inflate(
    body: &[u8],
    bytes_max: usize,
    memory: &mut MemoryShare,
) -> Result<Vec<u8>, Box<Response>> {
    let (mut out, mut piece) = (Vec::new(), vec![0; READ_BYTES]);
    let mut reader = ZlibDecoder::new(body);
    loop {
        let count = reader.read(&mut piece).map_err(|_| refusal(ProtocolError::Length))?;
        if count == 0 {
            return Ok(out);
        }
        if out.len() + count > bytes_max {
            return Err(refusal(ProtocolError::BodyTooLong).into());
        }
        out.extend_from_slice(piece.get(..count).unwrap_or_default());
        if !memory.resize_alone((body.len() + out.capacity()) as u64) {
            return Err(later(NO_MEMORY).into());
        }
    }
}

fn names(verdict: &Verdict) -> Vec<&str> {
    verdict.hits.iter().take(RULES_MAX).map(|hit| &*hit.rule).collect()
}

/// The verdict in plain text.
fn report(verdict: &Verdict, threshold: f64, host: &str) -> String {
    let mut text = format!(
        "Judged by {host} as {}: {:.1} points of rules, {threshold:.1} make spam",
        class_name(verdict.class),
        verdict.score
    );
    if let Some(probability) = verdict.probability {
        text.push_str(&format!("; probability {:.2} %", probability * 100.0));
    }
    text.push_str("\n\n pts rule name              description\n");
    text.push_str(
        "---- ---------------------- --------------------------------------------------\n",
    );
    for hit in verdict.hits.iter().take(RULES_MAX) {
        text.push_str(&format!("{:4.1} {:22} {}\n", hit.score, hit.rule, hit.description));
    }
    text
}

fn class_name(class: Class) -> String {
    format!("{class:?}").to_lowercase()
}

/// The message, or its header alone, below header fields with the verdict.
fn marked(raw: &[u8], verdict: &Verdict, at: &Thresholds, host: &str, whole: bool) -> Vec<u8> {
    let (points, threshold) = (points::consistent(verdict, at), at.spam);
    let (header, body) = split(raw);
    let end =
        if header.windows(2).any(|w| w == b"\r\n") || header.is_empty() { "\r\n" } else { "\n" };
    let spam = verdict.class >= Class::Spam;
    let mut out = Vec::with_capacity(raw.len() + 1_024);
    let mut field = |text: String| out.extend_from_slice((text + end).as_bytes());
    field(format!("X-Spam-Checker-Version: Gauntlet {} on {host}", env!("CARGO_PKG_VERSION")));
    if spam {
        field("X-Spam-Flag: YES".to_owned());
    }
    let stars = points.clamp(0.0, 50.0) as usize;
    if stars > 0 {
        field(format!("X-Spam-Level: {}", "*".repeat(stars)));
    }
    field(format!(
        "X-Spam-Status: {}, score={points:.1} required={threshold:.1} class={}{end}\ttests={}",
        if spam { "Yes" } else { "No" },
        class_name(verdict.class),
        folded(&names(verdict), end)
    ));
    for line in kept(header) {
        out.extend_from_slice(line);
    }
    if whole {
        out.extend_from_slice(body);
    } else {
        out.extend_from_slice(end.as_bytes());
    }
    out
}

/// Header with the line end of its last field, and the rest from the empty line on.
fn split(raw: &[u8]) -> (&[u8], &[u8]) {
    let mut at = 0;
    for line in raw.split_inclusive(|b| *b == b'\n') {
        if matches!(line, b"\n" | b"\r\n") {
            break;
        }
        at += line.len();
    }
    raw.split_at(at)
}

/// Lines of the header without fields of a verdict that another program put there.
fn kept(header: &[u8]) -> Vec<&[u8]> {
    let mut dropping = false;
    let keep = |line: &&[u8]| {
        if !(line.starts_with(b" ") || line.starts_with(b"\t")) {
            let start = line.get(..7).unwrap_or_default();
            dropping = start.eq_ignore_ascii_case(b"x-spam-");
        }
        !dropping
    };
    header.split_inclusive(|b| *b == b'\n').filter(keep).collect()
}

/// Names with commas between them, in lines that are not too long.
fn folded(names: &[&str], end: &str) -> String {
    if names.is_empty() {
        return "none".to_owned();
    }
    let (mut text, mut line) = (String::new(), 0);
    for (i, name) in names.iter().enumerate() {
        if i > 0 {
            text.push(',');
            if line + name.len() > LINE_BYTES {
                text.push_str(end);
                text.push('\t');
                line = 0;
            }
        }
        text.push_str(name);
        line += name.len() + 1;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_marked_and_forged_marks_go() {
        let raw = b"X-Spam-Status: No,\n\tscore=-99\nSubject: x\n\nbody\n";
        let verdict = Verdict { class: Class::Spam, score: 7.25, ..Verdict::default() };
        let at = Thresholds { spam: 6.0, ..Thresholds::default() };
        let text = String::from_utf8(marked(raw, &verdict, &at, "mx", true)).unwrap();
        assert!(
            text.contains("X-Spam-Flag: YES\nX-Spam-Level: *******\nX-Spam-Status: Yes, score=7.2")
        );
        assert!(!text.contains("-99") && text.ends_with("Subject: x\n\nbody\n"), "{text}");
        let header = String::from_utf8(marked(raw, &verdict, &at, "mx", false)).unwrap();
        assert!(header.ends_with("Subject: x\n\n"), "{header}");
        assert!(marked(b"", &verdict, &at, "mx", true).ends_with(b"tests=none\r\n"));
    }

    #[test]
    fn bombs_are_refused() {
        use std::io::Write;
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(&vec![b'x'; 1 << 20]).unwrap();
        let bomb = encoder.finish().unwrap();
        let limits = crate::memory::BudgetLimits::of(4 << 20);
        let memory = std::sync::Arc::new(crate::memory::MemoryBudget::new(limits));
        let mut share = memory.share();
        let bad = |bad: ProtocolError| Err(Box::new(refusal(bad)));
        assert_eq!(inflate(&bomb, 1 << 19, &mut share), bad(ProtocolError::BodyTooLong));
        assert_eq!(inflate(&bomb, 1 << 20, &mut share).map(|b| b.len()), Ok(1 << 20));
        assert_eq!(inflate(b"not zlib", 100, &mut share), bad(ProtocolError::Length));
        memory.set_limits(crate::memory::BudgetLimits::of(1 << 19));
        assert_eq!(inflate(&bomb, 1 << 20, &mut share), Err(Box::new(later(NO_MEMORY))));
    }
}
