//! MTA-STS (RFC 8461): domains that publish, over HTTPS, which mail exchangers take their mail and
//! that TLS with a valid certificate is a must.
//!
//! ```text
//! TXT _mta-sts.domain ─▶ id known? policy from the cache ─▶ enforce: hosts that fit, verified TLS
//!                          └─ new: GET https://mta-sts.domain/.well-known/mta-sts.txt ─▶ cache,
//!                          file
//! ```
//!
//! A policy that cannot be had leaves the one in the cache in force until it expires (section 5.1);
//! without one, mail goes as if there were none: that is what the RFC asks. The cache is a file,
//! because a restart must not be a moment of weakness. DANE, where it is, decides instead (section
//! 2).

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gauntlet_store::files;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::current::Current;
use crate::net::resolver::{Data, Kind, Outcome, Resolver};
use crate::net::tls::Certificate;
use crate::network::Reach;
use crate::outbound::settings::OutboundSettings;
use crate::wire::Wire;

/// Largest answer with a policy, in bytes (section 3.3 asks for a bound).
const ANSWER_BYTES_MAX: u64 = 64 * 1024;
/// Time for a policy (section 3.3: one minute at most).
const FETCH_WAIT: Duration = Duration::from_secs(20);
/// A policy is kept at most this long, whatever it says (section 3.2).
const AGE_SECONDS_MAX: u64 = 31_557_600;
/// Hosts of one policy.
const HOSTS_MAX: usize = 100;
/// Policies kept; beyond, those that expire first go.
const POLICIES_MAX: usize = 10_000;
/// After a policy could not be fetched, it is requested again no sooner.
const FAILED_FOR_MS: i64 = 300_000;

/// What a domain asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Mail goes as the policy says or not at all.
    Enforce,
    /// Only reports are wanted.
    Testing,
    /// The domain has taken its policy back (RFC 8461 section 8.3).
    None,
}

/// An MTA-STS policy (RFC 8461 section 3.2).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// What to do with it.
    pub mode: Mode,
    /// Names of mail exchangers; `*.example.org` for one more label.
    pub hosts: Vec<String>,
    /// Seconds that it may be kept.
    pub age_seconds: u64,
}

impl Policy {
    /// Reads a policy (section 3.2). None if it is malformed.
    pub fn read(text: &str) -> Option<Self> {
        let mut fields: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (key, value) = line.split_once(':')?;
            fields.entry(key.trim()).or_default().push(value.trim());
        }
        // Of a key that is given twice the first counts, but for mx.
        let one = |key: &str| fields.get(key).and_then(|all| all.first()).copied();
        if one("version") != Some("STSv1") {
            return None;
        }
        let mode = match one("mode")? {
            "enforce" => Mode::Enforce,
            "testing" => Mode::Testing,
            "none" => Mode::None,
            _ => return None,
        };
        let age_seconds = one("max_age")?.parse::<u64>().ok()?.min(AGE_SECONDS_MAX);
        let hosts: Vec<String> = fields
            .get("mx")
            .into_iter()
            .flatten()
            .take(HOSTS_MAX)
            .map(|host| host.trim_end_matches('.').to_ascii_lowercase())
            .collect();
        (mode == Mode::None || !hosts.is_empty()).then_some(Policy { mode, hosts, age_seconds })
    }

    /// Its lines, as reports have them.
    pub fn lines(&self) -> Vec<String> {
        let mode = match self.mode {
            Mode::Enforce => "enforce",
            Mode::Testing => "testing",
            Mode::None => "none",
        };
        let hosts = self.hosts.iter().map(|host| format!("mx: {host}"));
        let head = ["version: STSv1".to_owned(), format!("mode: {mode}")];
        let age = format!("max_age: {}", self.age_seconds);
        head.into_iter().chain(hosts).chain([age]).collect()
    }

    /// The policy names this host (section 4.1).
    pub fn names(&self, host: &str) -> bool {
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        self.hosts.iter().any(|pattern| match pattern.strip_prefix("*.") {
            Some(parent) => host.split_once('.').is_some_and(|(_, rest)| rest == parent),
            None => *pattern == host,
        })
    }
}

/// The id of the policy that a domain has, from its TXT records (section 3.1): there must be one
/// record.
fn id_of(records: &[Data]) -> Option<String> {
    let mut ids = records.iter().filter_map(|data| {
        let Data::Text(bytes) = data else { return None };
        let text = std::str::from_utf8(bytes).ok()?;
        let mut fields = text.split(';').map(str::trim);
        (fields.next() == Some("v=STSv1")).then(|| {
            let id = fields.find_map(|field| field.strip_prefix("id="));
            id.filter(|id| {
                (1..=32).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric())
            })
            .map(str::to_owned)
        })
    });
    match (ids.next(), ids.next()) {
        (Some(id), None) => id,
        _ => None,
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Kept {
    id: String,
    policy: Policy,
    until_ms: i64,
}

#[derive(Debug, Default)]
struct State {
    policies: BTreeMap<String, Kept>,
    /// When a policy could not be had.
    failed: BTreeMap<String, i64>,
}

/// Policies of domains. Share it as `Arc<MtaSts>`.
#[derive(Debug)]
pub struct MtaSts {
    resolver: Arc<Resolver>,
    settings: Current<OutboundSettings>,
    /// Port that policies are fetched at: 443, but in tests.
    port: u16,
    path: PathBuf,
    state: Mutex<State>,
}

impl MtaSts {
    /// With the cache in this file, if there is one that can be read.
    pub fn open(
        resolver: Arc<Resolver>,
        settings: Current<OutboundSettings>,
        port: u16,
        path: &Path,
    ) -> Self {
        let state = State { policies: files::read_cache(path), failed: BTreeMap::new() };
        MtaSts { resolver, settings, port, path: path.to_owned(), state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The policy of a domain, if it has one; its server is gone to where `reach` allows.
    pub async fn policy(&self, domain: &str, reach: &Reach) -> Option<Policy> {
        let now = self.resolver.clock().unix_ms();
        let kept = self.state().policies.get(domain).filter(|kept| kept.until_ms > now).cloned();
        let answer = self.resolver.ask(&format!("_mta-sts.{domain}"), Kind::Txt).await.answer;
        let id = match answer.outcome {
            Outcome::Answered => id_of(&answer.data),
            _ => None,
        };
        let Some(id) = id else { return kept.map(|kept| kept.policy) };
        if let Some(kept) = kept.as_ref().filter(|kept| kept.id == id) {
            return Some(kept.policy.clone());
        }
        let lately = self.state().failed.get(domain).is_some_and(|at| now - at < FAILED_FOR_MS);
        if lately {
            return kept.map(|kept| kept.policy);
        }
        let fetched = tokio::time::timeout(FETCH_WAIT, self.fetch(domain, reach)).await;
        match fetched.unwrap_or_else(|_| Err("no answer in time".to_owned())) {
            Ok(policy) => {
                self.keep(domain, id, policy.clone());
                Some(policy)
            }
            Err(error) => {
                tracing::warn!(domain, error, "the MTA-STS policy cannot be fetched");
                let mut state = self.state();
                if state.failed.len() >= POLICIES_MAX {
                    state.failed.clear();
                }
                state.failed.insert(domain.to_owned(), now);
                kept.map(|kept| kept.policy)
            }
        }
    }

    /// The domain has a policy that could not be had lately.
    pub fn has_failed(&self, domain: &str) -> bool {
        self.state()
            .failed
            .get(domain)
            .is_some_and(|at| self.resolver.clock().unix_ms() - at < FAILED_FOR_MS)
    }

    fn keep(&self, domain: &str, id: String, policy: Policy) {
        let now = self.resolver.clock().unix_ms();
        let age_ms = i64::try_from(policy.age_seconds.saturating_mul(1_000)).unwrap_or(i64::MAX);
        let text = {
            let mut state = self.state();
            state.failed.remove(domain);
            state.policies.retain(|_, kept| kept.until_ms > now);
            if state.policies.len() >= POLICIES_MAX {
                let first = state.policies.iter().min_by_key(|(_, kept)| kept.until_ms);
                if let Some(domain) = first.map(|(domain, _)| domain.clone()) {
                    state.policies.remove(&domain);
                }
            }
            let until_ms = now.saturating_add(age_ms);
            state.policies.insert(domain.to_owned(), Kept { id, policy, until_ms });
            serde_json::to_vec(&state.policies).unwrap_or_default()
        };
        if let Err(error) = files::write_durably(&self.path, &text) {
            tracing::warn!(%error, "MTA-STS policies cannot be kept");
        }
    }

    /// Fetches a policy. Redirects are not followed, and the certificate must be valid (section
    /// 3.3).
    async fn fetch(&self, domain: &str, reach: &Reach) -> Result<Policy, String> {
        let host = format!("mta-sts.{domain}");
        let (v4, v6) =
            tokio::join!(self.resolver.ask(&host, Kind::A), self.resolver.ask(&host, Kind::Aaaa));
        let mut why = format!("{host}: no address");
        for ip in v4.answer.addresses().chain(v6.answer.addresses()).take(4) {
            if !reach.allows(ip) {
                why = format!("{host}: {ip} is no address of the internet");
                continue;
            }
            let peer = SocketAddr::new(ip, self.port);
            match self.get(&host, peer).await {
                Ok(answer) => return read_answer(&answer),
                Err(error) => why = format!("{host} [{peer}]: {error}"),
            }
        }
        Err(why)
    }

    async fn get(&self, host: &str, peer: SocketAddr) -> Result<Vec<u8>, String> {
        let stream = TcpStream::connect(peer).await.map_err(|e| e.to_string())?;
        let wire: Wire = Box::new(stream);
        let settings = self.settings.get();
        let mut wire = settings
            .hop_tls
            .connect(wire, host, &Certificate::Valid)
            .await
            .map_err(|e| e.to_string())?;
        let request = format!(
            "GET /.well-known/mta-sts.txt HTTP/1.1\r\nHost: {host}\r\nUser-Agent: Gauntlet\r\n\
             Accept: text/plain\r\nConnection: close\r\n\r\n"
        );
        wire.write_all(request.as_bytes()).await.map_err(|e| e.to_string())?;
        wire.flush().await.map_err(|e| e.to_string())?;
        let mut answer = Vec::new();
        let read = (&mut wire).take(ANSWER_BYTES_MAX).read_to_end(&mut answer).await;
        match read {
            Ok(_) => Ok(answer),
            // A peer that ends without closing TLS: the length says whether all has come.
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Ok(answer),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// Reads an HTTP answer with a policy: status 200, type text/plain, whole.
fn read_answer(answer: &[u8]) -> Result<Policy, String> {
    let split = memchr::memmem::find(answer, b"\r\n\r\n").ok_or("no HTTP answer")?;
    let (head, body) = answer.split_at(split);
    let body = body.get(4..).unwrap_or_default();
    let head = std::str::from_utf8(head).map_err(|e| e.to_string())?;
    let mut lines = head.split("\r\n");
    let status = lines.next().unwrap_or_default();
    if status.split(' ').nth(1) != Some("200") {
        return Err(format!("answered {}", gauntlet_smtp::text::excerpt(status, 80)));
    }
    let mut plain = false;
    let mut chunked = false;
    let mut length = None;
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            "content-type" => {
                let kind = value.split(';').next().unwrap_or_default();
                plain = kind.trim().eq_ignore_ascii_case("text/plain");
            }
            "content-length" => length = value.parse::<usize>().ok(),
            "transfer-encoding" => chunked = value.eq_ignore_ascii_case("chunked"),
            _ => {}
        }
    }
    if !plain {
        return Err("the policy is no text/plain".to_owned());
    }
    let unchunked = if chunked { Some(unchunk(body).ok_or("bad chunks")?) } else { None };
    let body = unchunked.as_deref().unwrap_or(body);
    if length.is_some_and(|length| body.len() < length) {
        return Err("the policy was cut off".to_owned());
    }
    let text = std::str::from_utf8(body).map_err(|e| e.to_string())?;
    Policy::read(text).ok_or_else(|| "malformed policy".to_owned())
}

/// The content of a chunked body (RFC 9112 section 7.1); none if it is not whole.
fn unchunk(mut body: &[u8]) -> Option<Vec<u8>> {
    let mut content = Vec::new();
    loop {
        let end = memchr::memmem::find(body, b"\r\n")?;
        let line = std::str::from_utf8(body.get(..end)?).ok()?;
        let size = usize::from_str_radix(line.split(';').next()?.trim(), 16).ok()?;
        body = body.get(end + 2..)?;
        if size == 0 {
            return Some(content);
        }
        content.extend_from_slice(body.get(..size)?);
        body = body.get(size..)?.strip_prefix(b"\r\n")?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: &str = "version: STSv1\r\nmode: enforce\r\nmx: mail.example.com\r\n\
                          mx: *.example.net\r\nmax_age: 604800\r\n";

    #[test]
    fn the_policy_of_the_rfc() {
        let policy = Policy::read(POLICY).unwrap();
        assert_eq!((policy.mode, policy.age_seconds), (Mode::Enforce, 604_800));
        for (host, named) in [
            ("mail.example.com", true),
            ("MAIL.example.com.", true),
            ("backupmx.example.net", true),
            ("a.b.example.net", false),
            ("example.net", false),
            ("evilmail.example.com", false),
        ] {
            assert_eq!(policy.names(host), named, "{host}");
        }
        for bad in [
            "",
            "version: STSv2\nmode: none\nmax_age: 1\n",
            "version: STSv1\nmode: enforce\nmax_age: 1\n",
            "version: STSv1\nmode: hard\nmx: a\nmax_age: 1\n",
            "version: STSv1\nmode: enforce\nmx: a\nmax_age: -1\n",
            "nonsense",
        ] {
            assert_eq!(Policy::read(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn ids_and_answers() {
        let txt = |text: &str| Data::Text(text.as_bytes().to_vec());
        assert_eq!(
            id_of(&[txt("v=STSv1; id=20160831085700Z;")]).as_deref(),
            Some("20160831085700Z")
        );
        assert_eq!(id_of(&[txt("v=STSv1; id=a"), txt("v=STSv1; id=b")]), None, "two are none");
        assert_eq!(id_of(&[txt("v=spf1"), txt("v=STSv1;id=b")]).as_deref(), Some("b"));
        assert_eq!(id_of(&[txt("v=STSv1; id=not valid")]), None);
        let answer = |head: &str, body: &str| format!("HTTP/1.1 {head}\r\n\r\n{body}").into_bytes();
        let plain = "200 OK\r\nContent-Type: text/plain; charset=utf-8";
        assert!(read_answer(&answer(plain, POLICY)).is_ok());
        let chunked = format!("{plain}\r\nTransfer-Encoding: chunked");
        let chunks = format!("{:x}\r\n{POLICY}\r\n0\r\n\r\n", POLICY.len());
        assert!(read_answer(&answer(&chunked, &chunks)).is_ok());
        assert!(read_answer(&answer(&chunked, "ffff\r\nshort")).is_err());
        assert!(read_answer(&answer("301 Moved\r\nLocation: x", POLICY)).is_err());
        assert!(read_answer(&answer("200 OK\r\nContent-Type: text/html", POLICY)).is_err());
        let cut = format!("{plain}\r\nContent-Length: 1000");
        assert!(read_answer(&answer(&cut, POLICY)).unwrap_err().contains("cut off"));
        assert!(read_answer(b"").is_err());
    }
}
