//! A node that does nothing but notes what it is asked.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};

use gauntlet_console::release_answer::ReleaseOutcome;
use gauntlet_console::{
    ArrayView, ChannelOrder, ChannelState, Disk, EffectiveSetting, HealthCheck, HeldDecision,
    HeldOrder, MailRoute, NodeError, NodeHandle, NodeStatus, PacketRule, PolicyOrder, QueueOrder,
    QueueOrdered, QueuedMail, Released, RuleCost, RuleInfo, WebRequest,
};
use gauntlet_policy::Groups;
use gauntlet_policy::packets::PacketSettings;
use gauntlet_store::policies::{Edition, Saved, Version};
use gauntlet_store::quarantine::{AuditLine, Begin, ReleaseOrder};
use gauntlet_store::{Policies, Quarantine};
use gauntlet_verdict::{SiteCalibration, Thresholds};
use gauntlet_web::release::ReleaseRequest;

use super::{SMALL_POLICY, now_ms};

/// What the site of the tests has corrected.
const CALIBRATION: &str = r#"{"spam": 120, "good": 80, "released": 7, "known_authors": 640,
    "uncorrected_share": 50.0, "trust": 1.25, "checks": [{"class": "spam",
    "promised": 0.01, "configured": 0.986468, "probability": 0.912, "interval": [0.71, 0.98],
    "over": 1.0, "found": 0.0125, "found_max": 0.057}]}"#;

/// Times of the node: bounds in milliseconds, and how many of 100 were at most so long.
const TIMES: [(&str, [(f64, u32); 3]); 5] = [
    ("answer", [(5.0, 40), (25.0, 90), (100.0, 100)]),
    ("facts", [(2.0, 30), (20.0, 80), (500.0, 100)]),
    ("scan", [(1.0, 60), (5.0, 92), (25.0, 100)]),
    ("spool", [(1.0, 45), (5.0, 97), (25.0, 100)]),
    ("delivery", [(10.0, 35), (100.0, 93), (1000.0, 100)]),
];

/// A node whose queue is a list.
pub(crate) struct ListNode {
    pub(crate) quarantine: Arc<Quarantine>,
    pub(crate) policies: Arc<Policies>,
    pub(crate) queued: Mutex<Vec<(String, Vec<String>)>>,
    /// How often it was to apply changed settings of users.
    pub(crate) users_changes: Mutex<u32>,
    /// Orders about the queue, and how many messages each named.
    pub(crate) ordered: Mutex<Vec<(QueueOrder, usize)>>,
    /// Item, whether it is spam, and which user said so.
    pub(crate) trained: Mutex<Vec<(String, bool, String)>>,
    /// Whom it was to write to, by the reference, and what.
    pub(crate) answered: Mutex<Vec<(String, ReleaseOutcome)>>,
    /// Why it takes no mail.
    pub(crate) problems: Mutex<Vec<String>>,
    /// What is wrong with its array.
    pub(crate) warnings: Mutex<Vec<String>>,
    /// What was to be done with versions of channels.
    pub(crate) of_channels: Mutex<Vec<String>>,
    /// Orders to other nodes.
    pub(crate) elsewhere: crate::elsewhere::Given,
}

impl NodeHandle for ListNode {
    fn packet_rules(&self) -> Vec<PacketRule> {
        crate::alerts::rules()
    }

    fn packet_policy(&self) -> Option<PacketSettings> {
        Some(PacketSettings::of_configuration(crate::alerts::POLICY).unwrap())
    }

    fn array(&self) -> Option<ArrayView> {
        Some(crate::nodes::array())
    }

    fn decide_elsewhere(
        &self,
        items: &[(String, String)],
        decision: &HeldDecision<'_>,
    ) -> Result<Vec<HeldOrder>, NodeError> {
        self.elsewhere.decide(items, decision)
    }

    fn queue_order_elsewhere(
        &self,
        node: &str,
        order: QueueOrder,
        ids: &[&str],
        who: &str,
    ) -> Result<QueueOrdered, NodeError> {
        if node != "10.0.0.2" {
            return Err(NodeError::new("no such node"));
        }
        let outcome = format!("{order:?} of {} by {who}", ids.join(" "));
        let (is_good, is_done) = (ids != ["gone"], true);
        Ok(QueueOrdered { node: node.to_owned(), order: 7, is_done, is_good, outcome })
    }

    fn activity_elsewhere(&self, _: u32) -> Vec<(String, AuditLine)> {
        let line = AuditLine {
            at_ms: 1_764_000_000_000,
            who: "rita".to_owned(),
            action: "add user".to_owned(),
            item: String::new(),
            detail: "FAR1 <1.0>".to_owned(),
        };
        vec![("10.0.0.2".to_owned(), line)]
    }

    fn held_orders(&self) -> Vec<HeldOrder> {
        self.elsewhere.newest_first()
    }

    fn channels(&self) -> Vec<ChannelState> {
        crate::channels::followed()
    }

    fn channel_order(&self, channel: &str, order: ChannelOrder<'_>) -> Result<String, NodeError> {
        match order {
            ChannelOrder::Promote(99) => Err(NodeError::new("there is no version 99")),
            _ if !["one", "c1", "c2", "c3"].contains(&channel) => {
                Err(NodeError::new("this node follows no such channel"))
            }
            order => {
                let done = format!("{channel}: {order:?}");
                self.of_channels.lock().unwrap().push(done.clone());
                Ok(done)
            }
        }
    }

    fn answer_release(&self, asked: &ReleaseRequest, outcome: ReleaseOutcome) {
        self.answered.lock().unwrap().push((asked.reference.clone(), outcome));
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
            warnings: self.warnings.lock().unwrap().clone(),
            locations: vec![("SMTP".to_owned(), "127.0.0.1:2525".to_owned())],
            ..NodeStatus::default()
        }
    }

    fn metrics(&self) -> String {
        let test = "# HELP gauntlet_test A test.\n# TYPE gauntlet_test counter\ngauntlet_test 1\n";
        let histograms = TIMES.iter().map(|(name, buckets)| {
            let line = |(ms, count): &(f64, u32)| {
                format!("gauntlet_{name}_seconds_bucket{{le=\"{}\"}} {count}\n", ms / 1000.0)
            };
            let lines: String = buckets.iter().map(line).collect();
            format!("{lines}gauntlet_{name}_seconds_count 100\n")
        });
        histograms.fold(test.to_owned(), |text, histogram| text + &histogram)
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
            more: 0,
            size: 4_321,
            attempts: 2,
            reply: "450 4.2.1 mailbox busy".to_owned(),
            leaving_to: String::new(),
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
