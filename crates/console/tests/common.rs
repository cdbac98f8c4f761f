//! A console on a free port over real stores in a temporary folder, with messages in them.

pub(crate) mod browser;
mod files;
mod node;
mod unlimited;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gauntlet_console::{ConsoleOptions, ConsoleState, serve};
use gauntlet_mail::facts::AuthResult;
use gauntlet_mail::file_kind::object::Tree;
use gauntlet_mail::{Defect, DefectKind, Envelope, Evidence, Facts, Hit, Message, View};
use gauntlet_store::record::{Delivery, Outcome, Stage};
use gauntlet_store::{
    Log, LogRecord, Policies, Quarantine, QuarantineItem, Role, User, Users, WebLog, WebReleases,
};
use gauntlet_verdict::{Class, Counterfactual, Disposition, FilterCost, Final, Verdict};

pub(crate) use node::ListNode;

/// The password of everybody in the tests.
pub(crate) const PASSWORD: &str = "correct horse battery";

/// The policy of the tests.
pub(crate) const SMALL_POLICY: &str = "\
[[rule]]
name = \"Spam to quarantine\"
when.class = [\"suspect\", \"spam\", \"phishing\", \"malware\"]
do = { quarantine = \"suspect\" }

[[rule]]
name = \"Everything else\"
do = \"deliver\"
";

/// A console on a free port of loopback, with its data in a temporary folder.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) state: ConsoleState,
    pub(crate) node: Arc<ListNode>,
    _folder: tempfile::TempDir,
    _runtime: tokio::runtime::Runtime,
}

pub(crate) fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64
}

/// Starts a console with an administrator `admin`, a reviewer `rita` of folder `suspect`, and a
/// user `ursula` with the address `ursula@example.com`.
pub(crate) fn start() -> Running {
    start_with(|_, _| {})
}

/// The same, with the state changed before it is served; the change gets the console's address.
pub(crate) fn start_with(change: impl FnOnce(&mut ConsoleState, SocketAddr)) -> Running {
    let folder = tempfile::tempdir().unwrap();
    let log = Arc::new(Log::open(&folder.path().join("log")).unwrap());
    let quarantine = Arc::new(Quarantine::open(&folder.path().join("quarantine")).unwrap());
    let users = Arc::new(Users::open(folder.path()).unwrap());
    let person = |login: &str, role, folders: &[&str], addresses: &[&str]| User {
        login: login.to_owned(),
        role,
        folders: folders.iter().map(|f| (*f).to_owned()).collect(),
        addresses: addresses.iter().map(|a| (*a).to_owned()).collect(),
        must_change: false,
        created_ms: now_ms(),
    };
    let people = [
        person("admin", Role::Administrator, &[], &[]),
        person("rita", Role::Reviewer, &["suspect"], &[]),
        person("ursula", Role::User, &[], &["ursula@example.com"]),
    ];
    for user in &people {
        users.add(user, PASSWORD, "test", now_ms()).unwrap();
    }
    let policies = Arc::new(Policies::open(&folder.path().join("policies")).unwrap());
    let node = Arc::new(ListNode {
        policies: policies.clone(),
        quarantine: quarantine.clone(),
        queued: Mutex::default(),
        trained: Mutex::default(),
        problems: Mutex::default(),
        warnings: Mutex::default(),
        users_changes: Mutex::default(),
        ordered: Mutex::default(),
        answered: Mutex::default(),
        of_channels: Mutex::default(),
        elsewhere: Default::default(),
    });
    let mut state = ConsoleState {
        messages: log.clone(),
        log,
        held: quarantine.clone(),
        quarantine,
        users,
        web_log: Some(Arc::new(WebLog::open(&folder.path().join("web")).unwrap())),
        alerts: Some(Arc::new(crate::alerts::log(folder.path()))),
        web_releases: Some(Arc::new(WebReleases::open(&folder.path().join("web")).unwrap())),
        pac: Some("function FindProxyForURL(url, host) {}".into()),
        policies,
        node: node.clone(),
        options: ConsoleOptions::default(),
        tls: None,
        proxies: Arc::default(),
        texts: Arc::default(),
        oidc: None,
    };
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    change(&mut state, address);
    runtime.spawn(serve(
        listener,
        state.clone(),
        Arc::new(unlimited::Unlimited),
        std::future::pending(),
    ));
    Running { address, state, node, _folder: folder, _runtime: runtime }
}

/// A message to put in.
pub(crate) struct Sample<'a> {
    pub(crate) id: &'a str,
    pub(crate) class: Class,
    pub(crate) score: f64,
    pub(crate) folder: Option<&'a str>,
    pub(crate) to: &'a str,
    pub(crate) raw: &'a [u8],
    pub(crate) age_ms: i64,
    pub(crate) hits: Vec<Hit>,
}

impl Running {
    /// Logs the sample, and holds it if it has a folder.
    pub(crate) fn put(&self, sample: &Sample<'_>) {
        let message = Message::parse(sample.raw);
        let received_ms = now_ms() - sample.age_ms;
        let from = message.header("from").map(|h| h.decoded().into_owned()).unwrap_or_default();
        let subject = message.subject().into_owned();
        let envelope = Envelope {
            client_ip: Some("192.0.2.44".parse().unwrap()),
            client_name: Some("mail.example.net".to_owned()),
            helo: "mail.example.net".to_owned(),
            mail_from: "bounce@example.net".to_owned(),
            rcpt_to: vec![sample.to.to_owned()],
            ..Envelope::default()
        };
        let folder = sample.folder.map(str::to_owned);
        let end = folder.clone().map_or(Final::Deliver, |folder| Final::Quarantine { folder });
        let outcome = if folder.is_some() { Outcome::Quarantined } else { Outcome::Delivered };
        let record = LogRecord {
            id: sample.id.to_owned(),
            received_ms,
            envelope: envelope.clone(),
            size: sample.raw.len() as u64,
            from: from.clone(),
            subject: subject.clone(),
            message_id: format!("{}@example.net", sample.id),
            facts: facts(sample.class),
            verdict: verdict(sample),
            dispositions: vec![Disposition {
                recipient: sample.to.to_owned(),
                end,
                changes: Vec::new(),
                rules: vec!["Spam to quarantine".to_owned()],
                release: None,
            }],
            deliveries: vec![Delivery {
                address: sample.to.to_owned(),
                outcome,
                at_ms: received_ms + 40,
                attempts: 1,
                next_hop: "maildir".to_owned(),
                reply: String::new(),
            }],
            latency_ms: 23,
            stages: ["receive", "spool", "facts", "scan", "policy"]
                .iter()
                .zip(1u64..)
                .map(|(name, n)| Stage {
                    name: (*name).to_owned(),
                    at_us: n * 3700,
                    detail: String::new(),
                })
                .collect(),
        };
        self.state.log.append(vec![record]).unwrap();
        if let Some(folder) = folder {
            let item = QuarantineItem {
                id: format!("held-{}", sample.id),
                message: sample.id.to_owned(),
                folder,
                recipients: vec![sample.to.to_owned()],
                envelope,
                received_ms,
                class: sample.class,
                score: sample.score,
                subject,
                from,
                release: None,
            };
            self.state.quarantine.put(&item, sample.raw).unwrap();
        }
    }

    /// A link of a digest that lets `ursula` in, and never ends.
    pub(crate) fn way_in(&self) -> String {
        let link = gauntlet_store::users::Link {
            kind: gauntlet_store::users::LinkKind::Enter,
            address: "ursula@example.com".to_owned(),
            item: String::new(),
            until_ms: i64::MAX,
            made_ms: 1,
        };
        self.state.users.sign_link(&link).unwrap()
    }

    /// Signs in by HTTP; the session's cookie.
    pub(crate) fn sign_in(&self, login: &str) -> String {
        let form = format!("login={login}&password={}", PASSWORD.replace(' ', "+"));
        let answer = self.request("POST", "/sign-in", "", &form);
        assert_eq!(answer.status, 303, "{}", answer.body);
        answer.header("set-cookie").unwrap().split(';').next().unwrap().to_owned()
    }

    /// The form token in a page.
    pub(crate) fn csrf(&self, cookie: &str) -> String {
        let page = self.request("GET", "/account", cookie, "").body;
        let rest = page.split_once("name=\"csrf\" value=\"").expect("a form").1;
        rest.split('"').next().unwrap().to_owned()
    }

    /// One request, one answer. A form is sent if it is not empty.
    pub(crate) fn request(&self, method: &str, path: &str, cookie: &str, form: &str) -> Answer {
        self.request_with(method, path, &format!("Cookie: {cookie}\r\n"), form)
    }

    /// The same with header lines of one's own.
    pub(crate) fn request_with(
        &self,
        method: &str,
        path: &str,
        headers: &str,
        form: &str,
    ) -> Answer {
        let form_type = if form.is_empty() {
            ""
        } else {
            "Content-Type: application/x-www-form-urlencoded\r\n"
        };
        self.request_plain(method, path, &format!("{headers}{form_type}"), form.as_bytes())
    }

    /// The same with a body of any type, which the header lines name.
    pub(crate) fn request_plain(
        &self,
        method: &str,
        path: &str,
        headers: &str,
        body: &[u8],
    ) -> Answer {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{headers}\
             Content-Length: {}\r\n\r\n",
            self.address,
            body.len()
        );
        stream.write_all(&[head.as_bytes(), body].concat()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let (head, body) = answer.split_once("\r\n\r\n").expect("an HTTP answer");
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, head: head.to_owned(), body: body.to_owned() }
    }
}

/// An HTTP answer as it came, undecoded.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    /// The value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (n, value) = line.split_once(':')?;
            n.eq_ignore_ascii_case(name).then_some(value.trim())
        })
    }
}

/// A hit with evidence in a text.
pub(crate) fn hit(rule: &str, score: f64, description: &str, evidence: Vec<Evidence>) -> Hit {
    Hit { rule: rule.into(), score, count: 1, description: description.into(), evidence }
}

/// Evidence of `quoted` where it first stands in `text`.
pub(crate) fn found(view: View, part: u16, text: &str, quoted: &str) -> Evidence {
    let at = text.find(quoted).expect("the quotation is in the text");
    Evidence::new(view, part, at, quoted.as_bytes())
}

fn facts(class: Class) -> Facts {
    let bad = class >= Class::Spam;
    Facts {
        spf: if bad { AuthResult::SoftFail } else { AuthResult::Pass },
        dmarc: if bad { AuthResult::Fail } else { AuthResult::Pass },
        reverse_name: Some("mail.example.net".to_owned()),
        content: if bad { files::archive() } else { Tree::default() },
        ..Facts::default()
    }
}

fn verdict(sample: &Sample<'_>) -> Verdict {
    let cost = |filter: &str, micros| FilterCost { filter: filter.into(), micros };
    let counterfactuals = sample
        .hits
        .iter()
        .take(1)
        .map(|h| Counterfactual {
            without: vec![h.rule.clone()],
            points: h.score,
            class: Class::Ham,
        })
        .collect();
    Verdict {
        class: sample.class,
        score: sample.score,
        probability: Some(if sample.class >= Class::Spam { 0.994 } else { 0.021 }),
        hits: sample.hits.clone(),
        defects: if sample.class >= Class::Spam {
            vec![Defect::new(DefectKind::NoMessageId, 0)]
        } else {
            Vec::new()
        },
        counterfactuals,
        costs: vec![cost("headers", 21.0), cost("urls", 55.0), cost("classifier", 140.0)],
        ruleset: "builtin-2026.11".into(),
        ..Verdict::default()
    }
}
