//! What both HTTP services share: reading a request within its bounds, an answer, and what a client
//! may say of a message's envelope.

use std::fmt::Display;
use std::io::Read;
use std::net::{IpAddr, SocketAddr};

use gauntlet_mail::envelope::TlsSession;
use gauntlet_mail::trace::of_raw;
use gauntlet_mail::{Direction, Envelope};
use gauntlet_smtp::address::canonical;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::header::HeaderMap;
use hyper::{Request, StatusCode};
use serde::Serialize;

use super::{NotLearned, ServiceContext};
use crate::memory::MemoryShare;

/// Bytes inflated at once.
const PIECE_BYTES: usize = 64 << 10;

pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) kind: &'static str,
    pub(super) body: Vec<u8>,
}

impl Answer {
    /// A value in JSON.
    pub(super) fn json(value: &impl Serialize) -> Self {
        // Our own types have no maps with keys that JSON could not hold.
        let body = serde_json::to_vec(value).unwrap_or_default();
        Answer { status: StatusCode::OK, kind: "application/json", body }
    }

    /// A sentence in `text/plain`, with status 200.
    pub(super) fn text(text: &str) -> Self {
        Answer { status: StatusCode::OK, kind: "text/plain", body: text.as_bytes().to_vec() }
    }

    /// What is wrong, and what to do about it.
    pub(super) fn error(status: StatusCode, error: impl Display, hint: &str) -> Self {
        let value = serde_json::json!({ "error": error.to_string(), "remediation": hint });
        Answer { status, ..Self::json(&value) }
    }
}

impl From<NotLearned> for Answer {
    fn from(refusal: NotLearned) -> Self {
        match refusal {
            NotLearned::Forbidden(why) => {
                Answer::error(StatusCode::FORBIDDEN, why, "set service.learn and service.token")
            }
            NotLearned::TooOften(why) => {
                let hint =
                    "come again later, raise the setting of the service, or use gauntlet learn";
                Answer::error(StatusCode::TOO_MANY_REQUESTS, why, hint)
            }
            NotLearned::Failed(why) => {
                Answer::error(StatusCode::INTERNAL_SERVER_ERROR, why, "see the node's log")
            }
        }
    }
}

/// A request whose body was read.
pub(super) struct Asked {
    pub(super) method: hyper::Method,
    pub(super) path: String,
    pub(super) query: String,
    pub(super) headers: HeaderMap,
    /// The body with its Content-Encoding undone.
    pub(super) body: Vec<u8>,
}

impl Asked {
    /// The value of a header field, the first of several.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|v| v.to_str().ok()).map(str::trim)
    }
}

/// Reads a body piece by piece, within the limit of a message and the node's memory.
pub(super) async fn read(
    request: Request<Incoming>,
    context: &ServiceContext,
    memory: &mut MemoryShare,
) -> Result<Asked, Answer> {
    let bytes_max = context.core.bytes_max();
    let too_large = || {
        let why = format!("the message is larger than {bytes_max} bytes");
        Answer::error(StatusCode::PAYLOAD_TOO_LARGE, why, "raise receiver.message_bytes_max")
    };
    let full = || {
        let why = "there is no memory for the message now";
        Answer::error(StatusCode::SERVICE_UNAVAILABLE, why, "try again later")
    };
    let (head, mut stream) = request.into_parts();
    let mut body = Vec::new();
    loop {
        let next = tokio::time::timeout(context.io_timeout(), stream.frame()).await;
        let next = next.map_err(|_| {
            let hint = "send it faster, or raise service.seconds_max";
            Answer::error(StatusCode::REQUEST_TIMEOUT, "the body did not come", hint)
        })?;
        let Some(frame) = next else { break };
        let frame = frame.map_err(|e| {
            Answer::error(StatusCode::BAD_REQUEST, e, "send the whole body, as long as announced")
        })?;
        let Ok(data) = frame.into_data() else { continue };
        if body.len().saturating_add(data.len()) > bytes_max {
            return Err(too_large());
        }
        body.extend_from_slice(&data);
        if !memory.resize_alone(body.capacity() as u64) {
            return Err(full());
        }
    }
    let mut asked = Asked {
        method: head.method,
        path: head.uri.path().to_owned(),
        query: head.uri.query().unwrap_or_default().to_owned(),
        headers: head.headers,
        body,
    };
    let encoding = asked.header("content-encoding").or_else(|| asked.header("compression"));
    match encoding.unwrap_or("identity").to_ascii_lowercase().as_str() {
        "identity" => {}
        "zstd" => {
            asked.body = match inflate(&asked.body, bytes_max, memory) {
                Ok(body) => body,
                Err(Inflated::TooLarge) => return Err(too_large()),
                Err(Inflated::NoRoom) => return Err(full()),
                Err(Inflated::Broken) => {
                    let hint = "send a whole frame of zstd";
                    let why = "the body is not zstd";
                    return Err(Answer::error(StatusCode::BAD_REQUEST, why, hint));
                }
            }
        }
        other => {
            let why = format!("content encoding {other:?}");
            let hint = "send the message as it is, or compressed by zstd";
            return Err(Answer::error(StatusCode::UNSUPPORTED_MEDIA_TYPE, why, hint));
        }
    }
    Ok(asked)
}

/// Why a body cannot be inflated.
#[derive(Debug, PartialEq, Eq)]
enum Inflated {
    TooLarge,
    NoRoom,
    Broken,
}

/// Inflates a body, within the limit of a message and the node's memory.
fn inflate(body: &[u8], bytes_max: usize, memory: &mut MemoryShare) -> Result<Vec<u8>, Inflated> {
    let mut reader = ruzstd::decoding::StreamingDecoder::new(body).map_err(|_| Inflated::Broken)?;
    let (mut out, mut piece) = (Vec::new(), vec![0; PIECE_BYTES]);
    loop {
        let count = reader.read(&mut piece).map_err(|_| Inflated::Broken)?;
        if count == 0 {
            return Ok(out);
        }
        if out.len() + count > bytes_max {
            return Err(Inflated::TooLarge);
        }
        if out.len() + count > out.capacity() {
            // Twice as much, as ever, but no more than a message may have.
            let capacity = (2 * out.capacity()).max(out.len() + count).min(bytes_max);
            out.reserve_exact(capacity - out.len());
        }
        out.extend_from_slice(piece.get(..count).unwrap_or_default());
        let (packed, unpacked) = (body.len() as u64, out.capacity() as u64);
        // The decoder holds as much again, at most, until it is done. Where there is no room for
        // that, the message itself is what counts: a whole one is never refused for ever.
        if !memory.resize_alone(packed + 2 * unpacked) && !memory.resize_alone(packed + unpacked) {
            return Err(Inflated::NoRoom);
        }
    }
}

/// What a client says of the envelope: rspamd's header fields, and the same words in a query.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Said {
    fields: Vec<(String, String)>,
}

/// Words that say something of the envelope.
const WORDS: [&str; 9] =
    ["from", "rcpt", "ip", "helo", "hostname", "user", "tls-version", "tls-cipher", "direction"];

impl Said {
    /// From header fields, then from the query; later words replace earlier ones, recipients add
    /// up.
    pub(super) fn of(asked: &Asked) -> Self {
        let mut fields = Vec::new();
        for word in WORDS {
            for value in asked.headers.get_all(word) {
                let value = String::from_utf8_lossy(value.as_bytes()).trim().to_owned();
                fields.push((word.to_owned(), value));
            }
        }
        for pair in asked.query.split('&').filter(|p| !p.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            fields.push((decoded(name).to_ascii_lowercase(), decoded(value)));
        }
        Said { fields }
    }

    /// A word of the query or head.
    pub(super) fn last(&self, word: &str) -> Option<&str> {
        self.fields.iter().rev().find(|f| f.0 == word).map(|f| f.1.as_str())
    }

    /// The envelope: what was said, else what the message's own trace fields say.
    ///
    /// # Errors
    /// A word whose value is none.
    pub(super) fn envelope(
        &self,
        raw: &[u8],
        recipients_max: usize,
        now_s: i64,
    ) -> Result<Envelope, Answer> {
        let wrong = |why: String, hint: &str| Answer::error(StatusCode::BAD_REQUEST, why, hint);
        let word = |name: &str| self.last(name).filter(|v| !v.is_empty()).map(str::to_owned);
        // A program that says who sent it from where says all that the trace would.
        let says_all = self.last("from").is_some() && word("ip").is_some();
        let mut envelope = if says_all { Envelope::default() } else { of_raw(raw, now_s) };
        let path = |text: &str| canonical(text.trim().trim_matches(['<', '>'])).into_owned();
        if let Some(from) = self.last("from") {
            envelope.mail_from = path(from);
        }
        if let Some(ip) = word("ip") {
            let address = address(&ip).ok_or_else(|| {
                wrong(format!("ip: {ip:?} is no address"), "write it as 192.0.2.1 or 2001:db8::1")
            })?;
            // Another client than the one of the trace: what the trace says of that one is void.
            envelope.client_ip = Some(address.to_canonical());
            (envelope.client_name, envelope.helo) = (None, String::new());
            envelope.received_at = now_s;
        }
        envelope.helo = word("helo").unwrap_or(envelope.helo);
        let name = word("hostname").filter(|name| name != "unknown");
        envelope.client_name = name.or(envelope.client_name);
        envelope.auth_user = word("user");
        envelope.tls = word("tls-version").map(|version| TlsSession {
            version,
            cipher: word("tls-cipher").unwrap_or_default(),
            server_name: None,
        });
        envelope.direction = match (word("direction").as_deref(), &envelope.auth_user) {
            (Some("outbound"), _) | (None, Some(_)) => Direction::Outbound,
            (Some("inbound") | None, _) => Direction::Inbound,
            (Some(other), _) => {
                let why = format!("direction: {other:?}");
                return Err(wrong(why, "say inbound or outbound"));
            }
        };
        let rcpt = self.fields.iter().filter(|f| f.0 == "rcpt");
        envelope.rcpt_to = rcpt.flat_map(|f| f.1.split(',')).map(path).collect();
        envelope.rcpt_to.retain(|to| !to.is_empty());
        if envelope.rcpt_to.len() > recipients_max {
            let why = format!("{} recipients", envelope.rcpt_to.len());
            return Err(wrong(why, "raise receiver.recipients_max"));
        }
        Ok(envelope)
    }
}

/// An address; rspamd's proxy names the port too.
fn address(text: &str) -> Option<IpAddr> {
    let with_port = || text.parse().ok().map(|address: SocketAddr| address.ip());
    text.parse().ok().or_else(with_port)
}

/// A word of a query: `+` is a space, `%41` an A.
fn decoded(text: &str) -> String {
    let (mut out, bytes) = (Vec::with_capacity(text.len()), text.as_bytes());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let code = text.get(at + 1..at + 3).filter(|_| byte == b'%');
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(code) => {
                out.push(code);
                at += 3;
            }
            None => {
                out.push(if byte == b'+' { b' ' } else { byte });
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(query: &str, fields: &[(&'static str, &'static str)]) -> Asked {
        let mut headers = HeaderMap::new();
        fields.iter().for_each(|(name, value)| {
            headers.append(*name, hyper::header::HeaderValue::from_static(value));
        });
        let (path, body) = (String::new(), Vec::new());
        Asked { method: hyper::Method::POST, path, query: query.to_owned(), headers, body }
    }

    #[test]
    fn an_envelope_from_head_and_query() {
        let fields = [("from", "<a@b>"), ("rcpt", "c@d"), ("rcpt", "e@f, g@h"), ("ip", "::1")];
        let said = Said::of(&asked("helo=x%2Ey+z&from=q%40b%", &fields));
        let Ok(envelope) = said.envelope(b"Subject: x\n\n", 3, 0) else { panic!("an envelope") };
        assert_eq!((&*envelope.mail_from, &*envelope.helo), ("q@b%", "x.y z"));
        assert_eq!(envelope.rcpt_to, ["c@d", "e@f", "g@h"]);
        assert_eq!(envelope.client_ip, Some("::1".parse().unwrap()));
        for (ip, expected) in
            [("127.0.0.1:25", "127.0.0.1"), ("%5B2001:db8::1%5D:25", "2001:db8::1")]
        {
            let said = Said::of(&asked(&format!("ip={ip}"), &[])).envelope(b"", 3, 0);
            assert_eq!(said.ok().and_then(|e| e.client_ip), expected.parse().ok(), "{ip}");
        }
        assert!(said.envelope(b"", 2, 0).is_err(), "too many recipients");
        for wrong in ["ip=x", "direction=up"] {
            assert!(Said::of(&asked(wrong, &[])).envelope(b"", 2, 0).is_err(), "{wrong}");
        }
        let user = Said::of(&asked("user=ann", &[])).envelope(b"", 2, 0);
        assert!(user.is_ok_and(|e| e.direction == Direction::Outbound));
    }

    #[test]
    fn bombs_are_refused() {
        let level = ruzstd::encoding::CompressionLevel::Fastest;
        let bomb = ruzstd::encoding::compress_to_vec(&vec![b'x'; 1 << 20][..], level);
        let memory = std::sync::Arc::new(crate::memory::MemoryBudget::new(
            crate::memory::BudgetLimits::of(8 << 20),
        ));
        let mut share = memory.share();
        assert_eq!(inflate(&bomb, 1 << 19, &mut share), Err(Inflated::TooLarge));
        assert_eq!(inflate(&bomb, 1 << 20, &mut share).map(|b| b.len()), Ok(1 << 20));
        assert_eq!(inflate(b"not zstd", 100, &mut share), Err(Inflated::Broken));
        // The largest message, incompressible, where twice as much is the most that one may hold.
        let random = crate::random::Random::seeded(1);
        let numbers = std::iter::repeat_with(|| random.next().to_le_bytes());
        let noise: Vec<u8> = numbers.take(1 << 17).flatten().collect();
        let packed = ruzstd::encoding::compress_to_vec(&noise[..], level);
        let largest = crate::memory::BudgetLimits::of(5 << 19);
        let tight = std::sync::Arc::new(crate::memory::MemoryBudget::new(largest));
        let inflated = inflate(&packed, 1 << 20, &mut tight.share());
        assert_eq!(inflated.map(|bytes| bytes == noise), Ok(true));
        memory.set_limits(crate::memory::BudgetLimits::of(1 << 19));
        assert_eq!(inflate(&bomb, 1 << 20, &mut share), Err(Inflated::NoRoom));
    }
}
