//! A console on a free port over real stores in a temporary folder, with messages in them.

pub(crate) mod browser;
mod files;
mod unlimited;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gauntlet_console::{
    ConsoleOptions, ConsoleState, Disk, EffectiveSetting, HealthCheck, MailRoute, NodeError,
    NodeHandle, NodeStatus, PacketRule, PolicyOrder, QueueOrder, QueuedMail, Released, RuleCost,
    RuleInfo, WebRequest, serve,
};
use gauntlet_mail::facts::AuthResult;
use gauntlet_mail::file_kind::object::Tree;
use gauntlet_mail::{Defect, DefectKind, Envelope, Evidence, Facts, Hit, Message, View};
use gauntlet_policy::Groups;
use gauntlet_store::policies::{Edition, Saved, Version};
use gauntlet_store::quarantine::{Begin, ReleaseOrder};
use gauntlet_store::record::{Delivery, Outcome, Stage};
use gauntlet_store::{
    Log, LogRecord, Policies, Quarantine, QuarantineItem, Role, User, Users, WebLog, WebReleases,
};
use gauntlet_verdict::{
    Class, Counterfactual, Disposition, FilterCost, Final, SiteCalibration, Thresholds, Verdict,
};

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

/// What the site of the tests has corrected.
const CALIBRATION: &str = r#"{"spam": 120, "good": 80, "released": 7, "known_authors": 640,
    "uncorrected_share": 50.0, "trust": 1.25, "checks": [{"class": "spam",
    "promised": 0.01, "configured": 0.986468, "probability": 0.912, "interval": [0.71, 0.98],
    "over": 1.0, "found": 0.0125, "found_max": 0.057}]}"#;

/// A node whose queue is a list.
pub(crate) struct ListNode {
    quarantine: Arc<Quarantine>,
    policies: Arc<Policies>,
    pub(crate) queued: Mutex<Vec<(String, Vec<String>)>>,
    /// How often it was to apply changed settings of users.
    pub(crate) users_changes: Mutex<u32>,
    /// Orders about the queue, and how many messages each named.
    pub(crate) ordered: Mutex<Vec<(QueueOrder, usize)>>,
    /// Item, whether it is spam, and which user said so.
    pub(crate) trained: Mutex<Vec<(String, bool, String)>>,
    /// Why it takes no mail.
    pub(crate) problems: Mutex<Vec<String>>,
}

impl NodeHandle for ListNode {
    fn packet_rules(&self) -> Vec<PacketRule> {
        crate::alerts::rules()
    }
    fn sealed_object(
        &self,
        raw: &[u8],
        sha256: &str,
        password: &str,
    ) -> Result<Vec<u8>, NodeError> {
        match sha256.starts_with("00") {
            true => Err(NodeError::new("the message has no such file")),
            false => Ok(format!("{} {sha256} {password}", raw.len()).into_bytes()),
        }
    }

    fn status(&self) -> NodeStatus {
        NodeStatus {
            name: "mx1.example.com".to_owned(),
            version: "0.1.0".to_owned(),
            ruleset: "builtin-2026.11".to_owned(),
            started_ms: now_ms() - 7_200_000,
            queued: 3,
            queue_age_ms: 95_000,
            sessions: 2,
            problems: self.problems.lock().unwrap().clone(),
            locations: vec![("SMTP".to_owned(), "127.0.0.1:2525".to_owned())],
            ..NodeStatus::default()
        }
    }

    fn metrics(&self) -> String {
        "# HELP gauntlet_test A test.\n# TYPE gauntlet_test counter\ngauntlet_test 1\n".to_owned()
    }

    fn senders_changed(&self) -> Result<(), NodeError> {
        Ok(())
    }

    fn users_changed(&self) -> Result<(), NodeError> {
        *self.users_changes.lock().unwrap() += 1;
        Ok(())
    }

    fn policy(&self) -> Result<Edition, NodeError> {
        let text = SMALL_POLICY;
        if self.policies.newest().unwrap().is_none() {
            self.policies.save(text, None, "gauntlet", "", now_ms()).unwrap();
        }
        Ok(self.policies.newest().unwrap().unwrap())
    }

    fn save_policy(&self, order: &PolicyOrder<'_>) -> Result<Version, NodeError> {
        let PolicyOrder { text, base, who, note } = *order;
        match self.policies.save(text, base, who, note, now_ms()).map_err(NodeError::new)? {
            Saved::New(version) | Saved::Same(version) => Ok(version),
            Saved::Stale(newest) => {
                Err(NodeError::new(format!("changed meanwhile by {}", newest.who)))
            }
        }
    }

    fn queue(&self, _: usize) -> Vec<QueuedMail> {
        vec![QueuedMail {
            id: "Q1".to_owned(),
            due_ms: Some(now_ms() + 90_000),
            active: false,
            from: "ann@example.org".to_owned(),
            to: vec!["far@example.net".to_owned()],
            size: 4_321,
            attempts: 2,
            reply: "450 4.2.1 mailbox busy".to_owned(),
        }]
    }

    fn queue_order(&self, order: QueueOrder, ids: &[&str], _: &str) -> Result<usize, NodeError> {
        if ids.iter().any(|id| *id != "Q1") {
            return Err(NodeError::new("no message id"));
        }
        self.ordered.lock().unwrap().push((order, ids.len()));
        Ok(ids.len())
    }

    fn thresholds(&self) -> Thresholds {
        Thresholds::default()
    }

    fn calibration(&self) -> Option<SiteCalibration> {
        Some(serde_json::from_str(CALIBRATION).unwrap())
    }

    fn send_web_request(&self, question: &WebRequest) -> Result<(u16, String), NodeError> {
        let rest = question
            .url
            .strip_prefix("http://")
            .ok_or_else(|| NodeError::new("only http in tests"))?;
        let (host, path) = rest.split_once('/').ok_or_else(|| NodeError::new("no path"))?;
        let method = if question.body.is_some() { "POST" } else { "GET" };
        let body = question.body.clone().unwrap_or_default();
        let heads: String = question.headers.iter().map(|(n, v)| format!("{n}: {v}\r\n")).collect();
        let mut stream = TcpStream::connect(host).map_err(NodeError::new)?;
        write!(
            stream,
            "{method} /{path} HTTP/1.1\r\nHost: {host}\r\n{heads}Content-Length: {}\r\n\
             Connection: close\r\n\r\n{body}",
            body.len()
        )
        .map_err(NodeError::new)?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).map_err(NodeError::new)?;
        let status = answer
            .split(' ')
            .nth(1)
            .and_then(|s| s.parse().ok())
            .ok_or_else(|| NodeError::new("no status"))?;
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, b)| b).to_owned();
        Ok((status, body))
    }

    fn groups(&self) -> Groups {
        let mut groups = Groups::default();
        groups.add("board", ["ann@example.com".to_owned()]);
        groups
    }

    fn rules(&self) -> Vec<RuleInfo> {
        let rule = |name: &str, score, description: &str| RuleInfo {
            name: name.to_owned(),
            kind: "body".to_owned(),
            score,
            description: description.to_owned(),
        };
        vec![
            rule("ASKS_FOR_PAYMENT", 3.1, "Asks to confirm payment details"),
            rule("EXAMPLE", 1.0, "An example"),
            rule("NEVER_HITS", 2.0, "Waits for mail that nobody sends any more"),
        ]
    }

    fn rule_costs(&self, messages: &[Vec<u8>]) -> Vec<RuleCost> {
        let cost_ns = 12_300 * messages.len() as u64;
        vec![RuleCost { name: "EXAMPLE".to_owned(), tries: 1, cost_ns }]
    }

    fn settings(&self) -> Vec<EffectiveSetting> {
        let line = |key: &str, value: &str, origin: &str| {
            let [key, value, origin] = [key, value, origin].map(str::to_owned);
            EffectiveSetting { key, value, origin }
        };
        vec![
            line("console.address", "\"127.0.0.1:8025\"", "default"),
            line("scan.threads", "4", "gauntlet.toml:12"),
            line("web.log_clients", "\"address\"", "default"),
        ]
    }

    fn health(&self) -> Vec<HealthCheck> {
        let line = |check: &str, status, text: &str| {
            let [check, text] = [check, text].map(str::to_owned);
            HealthCheck { check, status, text }
        };
        vec![
            line("clock", "ok", "synchronised, wrong by 3 ms at most"),
            line(
                "disk",
                "warning",
                "/var/lib/gauntlet: 7.0 of 100.0 GB free; make room before it is full",
            ),
            line("reverse name", "error", "192.0.2.1 is not mx1.example.com; ask for a PTR record"),
        ]
    }

    fn mail_routes(&self) -> Vec<MailRoute> {
        let route = |mail_for: &str, goes_to: &str, tls: &str| {
            let [mail_for, goes_to, tls] = [mail_for, goes_to, tls].map(str::to_owned);
            MailRoute { mail_for, goes_to, tls }
        };
        vec![
            route("example.org", "10.0.0.1:25 (share 3), 10.0.0.2:25 (share 1)", "required"),
            route("all else, outbound", "mail exchangers that the DNS names", "opportunistic"),
        ]
    }

    fn disks(&self) -> Vec<Disk> {
        vec![Disk {
            what: "data".to_owned(),
            path: "/var/lib/gauntlet".to_owned(),
            free: 7_000_000_000,
            total: 100_000_000_000,
        }]
    }

    fn release(&self, id: &str, order: &ReleaseOrder) -> Result<Released, NodeError> {
        let begun = self.quarantine.begin_release(id, order, now_ms());
        match begun.map_err(NodeError::new)? {
            Begin::Unknown => Ok(Released::Unknown),
            Begin::NotAllowed => Ok(Released::NotAllowed),
            Begin::NotHeld(state) => Ok(Released::NotHeld(state)),
            Begin::Started(release) => {
                let entry = (id.to_owned(), release.recipients.clone());
                self.queued.lock().unwrap().push(entry);
                self.quarantine.finish_release(&release.token, now_ms()).map_err(NodeError::new)?;
                Ok(Released::Done(release.recipients))
            }
        }
    }

    fn learn(&self, id: &str, spam: bool, who: &str) -> Result<(), NodeError> {
        self.trained.lock().unwrap().push((id.to_owned(), spam, who.to_owned()));
        Ok(())
    }
}

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
        users_changes: Mutex::default(),
        ordered: Mutex::default(),
    });
    let mut state = ConsoleState {
        log,
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
