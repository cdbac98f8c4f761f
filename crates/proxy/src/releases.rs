//! Asking for release: the form on the page of a block, and who takes what it brings.
//!
//! ```text
//! block ─▶ Desk::form ─▶ page ─▶ POST /.well-known/gauntlet/release ─▶ Desk::take ─▶ Releases::ask
//! ```
//!
//! Nothing is kept for a page: what it was about stands in the form, under a code that only this
//! process can make (HMAC-SHA-256) and that is good for one client and one hour. What comes back is
//! bounded in bytes, and in number by client.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use gauntlet_mail::encoding::percent_decode;
use gauntlet_web::OWN_PATHS;
use gauntlet_web::release::{MAIL_BYTES_MAX, REASON_CHARS_MAX, ReleaseRequest, WebExceptions};
use hyper::{Method, Request};
use ring::hmac;
use ring::rand::SystemRandom;

/// Name of the form's path below [`OWN_PATHS`].
const PATH_NAME: &str = "release";
/// Bytes of a form that are read: every field at its limit, each byte in three.
pub const FORM_BYTES_MAX: usize = 16 * 1024;
/// Fields of a form that are read.
const FIELDS_MAX: usize = 16;
/// Bytes of the URL and of the rule in a form.
const TEXT_BYTES_MAX: usize = 1_500;
/// For how long a form may be sent, in seconds.
const FORM_SECONDS: u64 = 3_600;
/// Requests of one client (of one /64) in [`WINDOW`].
const ASKED_MAX: u32 = 10;
const WINDOW: Duration = Duration::from_secs(3_600);
/// Clients that are counted; when there are more, nobody new is heard for a while.
const CLIENTS_MAX: usize = 10_000;

/// Where requests go, and what was released.
pub trait Releases: Send + Sync {
    /// The exceptions in force. Called for each request that the policy blocks.
    fn exceptions(&self) -> Arc<WebExceptions>;

    /// Takes a request; false if there is no room for it. May wait for a disk.
    fn ask(&self, request: ReleaseRequest) -> bool;
}

/// The form on a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReleaseForm {
    /// Names and values of fields that nobody sees.
    pub hidden: [(&'static str, String); 6],
}

/// What the client gets for its form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Taken {
    /// It is in the queue.
    Passed {
        /// The code on the page of the block.
        reference: String,
    },
    /// It is not ours, too old, or not of this client.
    OutOfDate,
    /// The client asks too often.
    TooMany,
    /// There is no room.
    Full,
    /// Its reason or e-mail address cannot be.
    Wrong(&'static str),
}

/// Makes forms and takes them.
pub struct Desk {
    releases: Arc<dyn Releases>,
    key: hmac::Key,
    asked: Mutex<Vec<(IpAddr, Instant, u32)>>,
}

/// What a page is about.
#[derive(Debug, Clone, Copy)]
pub struct Blocked<'a> {
    /// Who got it.
    pub client: IpAddr,
    /// The login, if there was one.
    pub user: &'a str,
    /// What was blocked.
    pub url: &'a str,
    /// By which rule.
    pub rule: &'a str,
    /// The code on the page.
    pub reference: &'a str,
}

/// The request brings a form.
pub(crate) fn is_form<B>(request: &Request<B>) -> bool {
    request.method() == Method::POST
        && request.uri().path().strip_prefix(OWN_PATHS) == Some(PATH_NAME)
}

/// Where the form is sent, on the site that was blocked.
pub(crate) fn path() -> String {
    format!("{OWN_PATHS}{PATH_NAME}")
}

impl Desk {
    /// A desk before this queue; none if the machine gives no random numbers.
    pub fn new(releases: Arc<dyn Releases>) -> Option<Self> {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new()).ok()?;
        Some(Desk { releases, key, asked: Mutex::default() })
    }

    /// The exceptions in force.
    pub fn exceptions(&self) -> Arc<WebExceptions> {
        self.releases.exceptions()
    }

    /// The form for a page.
    pub fn form(&self, blocked: &Blocked<'_>) -> ReleaseForm {
        let expires = (unix_seconds() + FORM_SECONDS).to_string();
        let [user, url, rule] = [blocked.user, blocked.url, blocked.rule].map(|text| {
            text.get(..text.floor_char_boundary(TEXT_BYTES_MAX)).unwrap_or_default().to_owned()
        });
        let reference = blocked.reference.to_owned();
        let mut code = self.code(blocked.client);
        for field in [&user, &url, &rule, &reference, &expires] {
            sign(&mut code, field);
        }
        let token = hex(code.sign().as_ref());
        ReleaseForm {
            hidden: [
                ("user", user),
                ("url", url),
                ("rule", rule),
                ("reference", reference),
                ("expires", expires),
                ("token", token),
            ],
        }
    }

    /// Takes a form that this client sent. May wait for a disk.
    pub fn take(&self, client: IpAddr, form: &[u8]) -> Taken {
        let fields = read_form(form);
        let field = |name: &str| {
            let found = fields.iter().find(|(n, _)| n == name);
            found.map(|(_, value)| value.as_str()).unwrap_or_default()
        };
        let signed = ["user", "url", "rule", "reference", "expires"].map(field);
        let mut code = self.code(client);
        for field in signed {
            sign(&mut code, field);
        }
        let token = code.sign();
        let is_ours = same(hex(token.as_ref()).as_bytes(), field("token").as_bytes());
        let expires: u64 = field("expires").parse().unwrap_or(0);
        if !is_ours || expires < unix_seconds() {
            return Taken::OutOfDate;
        }
        let reason: String = field("reason").trim().chars().take(REASON_CHARS_MAX).collect();
        if reason.is_empty() {
            return Taken::Wrong("Say why you need it.");
        }
        let mail = field("mail").trim();
        if !mail.is_empty() && !is_address(mail) {
            return Taken::Wrong("The e-mail address is none.");
        }
        if !self.may_ask(client, Instant::now()) {
            return Taken::TooMany;
        }
        let [user, url, rule, reference, _] = signed.map(str::to_owned);
        let request = ReleaseRequest {
            reference: reference.clone(),
            at_ms: i64::try_from(unix_seconds() * 1_000).unwrap_or(i64::MAX),
            client: client.to_string(),
            user,
            url,
            rule,
            reason,
            mail: mail.to_owned(),
        };
        match self.releases.ask(request) {
            true => Taken::Passed { reference },
            false => Taken::Full,
        }
    }

    fn code(&self, client: IpAddr) -> hmac::Context {
        let mut code = hmac::Context::with_key(&self.key);
        sign(&mut code, &client.to_string());
        code
    }

    fn may_ask(&self, client: IpAddr, now: Instant) -> bool {
        let client = network(client);
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.retain(|(_, since, _)| now.duration_since(*since) < WINDOW);
        let is_full = asked.len() >= CLIENTS_MAX;
        match asked.iter_mut().find(|(known, ..)| *known == client) {
            Some((.., count)) if *count >= ASKED_MAX => false,
            Some((.., count)) => {
                *count += 1;
                true
            }
            None if is_full => false,
            None => {
                asked.push((client, now, 1));
                true
            }
        }
    }
}

/// Adds a field, so that its end is clear.
fn sign(code: &mut hmac::Context, field: &str) {
    code.update(&(field.len() as u64).to_be_bytes());
    code.update(field.as_bytes());
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// In a time that does not depend on where they differ.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

/// One person has all of a /64 (RFC 6177).
fn network(client: IpAddr) -> IpAddr {
    match client.to_canonical() {
        IpAddr::V4(v4) => v4.into(),
        IpAddr::V6(v6) => Ipv6Addr::from(u128::from(v6) & (u128::MAX << 64)).into(),
    }
}

fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// An address as a person writes one; whether it exists shows when somebody answers.
fn is_address(text: &str) -> bool {
    let parts = text.rsplit_once('@').filter(|(local, domain)| {
        !local.is_empty() && domain.contains('.') && !domain.starts_with('.')
    });
    let is_plain = |c: char| !c.is_whitespace() && !c.is_control() && !"<>\"(),;:\\".contains(c);
    parts.is_some() && text.len() <= MAIL_BYTES_MAX && text.chars().all(is_plain)
}

/// The fields of a form (WHATWG URL, section 5.1), at most [`FIELDS_MAX`], without control
/// characters.
pub fn read_form(form: &[u8]) -> Vec<(String, String)> {
    let form = form.get(..FORM_BYTES_MAX.min(form.len())).unwrap_or_default();
    let text = |part: &[u8]| {
        let spaced: Vec<u8> = part.iter().map(|b| if *b == b'+' { b' ' } else { *b }).collect();
        let decoded = percent_decode(&spaced);
        String::from_utf8_lossy(&decoded).replace(char::is_control, " ")
    };
    let pairs = form.split(|b| *b == b'&').filter(|pair| !pair.is_empty()).take(FIELDS_MAX);
    let read = pairs.map(|pair| {
        let at = pair.iter().position(|b| *b == b'=').unwrap_or(pair.len());
        let (name, value) = pair.split_at(at);
        (text(name), text(value.get(1..).unwrap_or_default()))
    });
    read.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Queue(Mutex<Vec<ReleaseRequest>>);

    impl Releases for Queue {
        fn exceptions(&self) -> Arc<WebExceptions> {
            Arc::default()
        }

        fn ask(&self, request: ReleaseRequest) -> bool {
            let mut all = self.0.lock().unwrap();
            all.push(request);
            all.len() <= 15
        }
    }

    const CLIENT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));

    fn blocked() -> Blocked<'static> {
        let (url, rule) = ("http://a.example/x?a=b&c=d", "no games");
        Blocked { client: CLIENT, user: "ann", url, rule, reference: "abc" }
    }

    fn sent(form: &ReleaseForm, rest: &str) -> Vec<u8> {
        let encoded = |text: &str| {
            let byte = |b: u8| match b {
                b' ' => "+".to_owned(),
                b if b.is_ascii_alphanumeric() => char::from(b).to_string(),
                b => format!("%{b:02X}"),
            };
            text.bytes().map(byte).collect::<String>()
        };
        let fields = form.hidden.iter().map(|(name, value)| format!("{name}={}", encoded(value)));
        (fields.collect::<Vec<_>>().join("&") + rest).into_bytes()
    }

    #[test]
    fn a_form_comes_back_with_a_reason() {
        let queue = Arc::new(Queue::default());
        let desk = Desk::new(queue.clone()).unwrap();
        let form =
            sent(&desk.form(&blocked()), "&reason=for+my+w%C3%B6rk%0A&mail=ann%40example.org");
        assert_eq!(desk.take(CLIENT, &form), Taken::Passed { reference: "abc".into() });
        let asked = queue.0.lock().unwrap().remove(0);
        assert_eq!((asked.url.as_str(), asked.rule.as_str()), (blocked().url, "no games"));
        assert_eq!(
            (asked.reason.as_str(), asked.mail.as_str()),
            ("for my wörk", "ann@example.org")
        );
        assert_eq!((asked.user.as_str(), asked.client.as_str()), ("ann", "10.0.0.1"));
    }

    #[test]
    fn what_we_did_not_write_is_refused() {
        let desk = Desk::new(Arc::new(Queue::default())).unwrap();
        let form = desk.form(&blocked());
        let good = sent(&form, "&reason=x");
        assert_eq!(desk.take([10, 0, 0, 2].into(), &good), Taken::OutOfDate, "another client");
        let other = Desk::new(Arc::new(Queue::default())).unwrap();
        assert_eq!(other.take(CLIENT, &good), Taken::OutOfDate, "another key");
        for (at, _) in form.hidden.iter().enumerate() {
            let mut changed = form.clone();
            changed.hidden[at].1.push('1');
            assert_eq!(desk.take(CLIENT, &sent(&changed, "&reason=x")), Taken::OutOfDate);
        }
        let mut moved = form.clone();
        (moved.hidden[0].1, moved.hidden[1].1) = ("an".into(), format!("n{}", blocked().url));
        assert_eq!(desk.take(CLIENT, &sent(&moved, "&reason=x")), Taken::OutOfDate);
        assert_eq!(desk.take(CLIENT, b""), Taken::OutOfDate);
    }

    #[test]
    fn a_reason_is_needed_and_an_address_is_one() {
        let desk = Desk::new(Arc::new(Queue::default())).unwrap();
        let form = desk.form(&blocked());
        for rest in [
            "",
            "&reason=+",
            "&reason=x&mail=ann",
            "&reason=x&mail=a%0A%40b.example",
            "&reason=x&mail=%3Ca%40b.example%3E",
        ] {
            assert!(matches!(desk.take(CLIENT, &sent(&form, rest)), Taken::Wrong(_)), "{rest}");
        }
    }

    #[test]
    fn who_asks_too_often_waits() {
        let desk = Desk::new(Arc::new(Queue::default())).unwrap();
        let form = sent(&desk.form(&blocked()), "&reason=x");
        for _ in 0..ASKED_MAX {
            assert!(matches!(desk.take(CLIENT, &form), Taken::Passed { .. }));
        }
        assert_eq!(desk.take(CLIENT, &form), Taken::TooMany);
        let now = Instant::now();
        assert!(desk.may_ask(CLIENT, now + WINDOW * 2), "later");
        let six = |last: &str| format!("2001:db8:1:1::{last}").parse().unwrap();
        (0..ASKED_MAX).for_each(|n| assert!(desk.may_ask(six(&n.to_string()), now + WINDOW * 2)));
        assert!(!desk.may_ask(six("ffff"), now + WINDOW * 2), "the same /64");
    }

    #[test]
    fn no_bytes_make_a_form_fail() {
        let desk = Desk::new(Arc::new(Queue::default())).unwrap();
        let good = sent(&desk.form(&blocked()), "&reason=x");
        for end in 0..good.len() {
            assert!(!matches!(desk.take(CLIENT, &good[..end]), Taken::Passed { .. }));
        }
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x80;
            desk.take(CLIENT, &bad);
        }
        for bytes in [&b"&&&="[..], b"%", b"%f", b"=%ff", b"a=b=c", &[b'&'; 40_000]] {
            assert!(read_form(bytes).len() <= FIELDS_MAX);
        }
        assert_eq!(read_form(b"a=1&".repeat(50).as_slice()).len(), FIELDS_MAX);
    }
}
