//! Held mail of other nodes of the array: listed, read, and decided about by orders.

use std::sync::{Arc, Mutex};

use gauntlet_console::{HeldDecision, HeldOrder, NodeError};
use gauntlet_store::quarantine::{
    FolderSummary, Held, HeldMail, HeldPage, HeldQuery, Quarantine, State,
};
use gauntlet_store::{StoreError, reference};
use gauntlet_verdict::Class;

use crate::common::browser::Browser;
use crate::common::{Answer, Running, Sample, now_ms, start_with};

/// Says that items whose id ends in `x` are held by another node, which answers, and those that end
/// in `y` by one that does not.
struct Others(Arc<Quarantine>);

impl Others {
    fn named(&self, mut held: Held) -> Held {
        held.node = match held.item.id.chars().last() {
            Some('x') => "10.0.0.2".to_owned(),
            Some('y') => "10.0.0.3".to_owned(),
            _ => String::new(),
        };
        held
    }
}

impl HeldMail for Others {
    fn search(&self, query: &HeldQuery) -> Result<HeldPage, StoreError> {
        let page = Quarantine::search(&self.0, query)?;
        let items = page.items.into_iter().map(|held| self.named(held)).collect();
        Ok(HeldPage { items, ..page })
    }

    fn get(&self, reference: &str) -> Result<Option<Held>, StoreError> {
        let (id, node) = reference::split(reference);
        let found = self.0.get(id)?.map(|held| self.named(held));
        Ok(found.filter(|held| node.is_none_or(|node| node == held.node)))
    }

    fn body(&self, reference: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.0.body(reference::split(reference).0)
    }

    fn folders(&self) -> Result<Vec<FolderSummary>, StoreError> {
        self.0.folders()
    }

    fn recipients_with_held(&self, after: &str, limit: usize) -> Result<Vec<String>, StoreError> {
        self.0.recipients_with_held(after, limit)
    }
}

/// The orders that were given.
#[derive(Debug, Default)]
pub(crate) struct Given(Mutex<Vec<HeldOrder>>);

impl Given {
    pub(crate) fn decide(
        &self,
        items: &[(String, String)],
        decision: &HeldDecision<'_>,
    ) -> Result<Vec<HeldOrder>, NodeError> {
        let mut given = self.0.lock().unwrap();
        let (action, who) = match decision {
            HeldDecision::Release(order) => ("release", order.who.clone()),
            HeldDecision::Delete { who, .. } => ("delete", (*who).to_owned()),
        };
        let mut orders = Vec::new();
        for (node, item) in items {
            let is_there = node == "10.0.0.2";
            let order = HeldOrder {
                order: given.len() as i64 + 1,
                node: node.clone(),
                item: item.clone(),
                action: action.to_owned(),
                who: who.clone(),
                made_ms: now_ms(),
                done_ms: is_there.then(now_ms),
                is_good: is_there && item != "held-badx",
                outcome: if is_there { "1.0 <2>".to_owned() } else { String::new() },
                was: (item == "held-latex").then_some(State::Released),
            };
            given.push(order.clone());
            orders.push(order);
        }
        Ok(orders)
    }

    pub(crate) fn newest_first(&self) -> Vec<HeldOrder> {
        self.0.lock().unwrap().iter().rev().cloned().collect()
    }
}

fn console() -> Running {
    let console = start_with(|state, _| state.held = Arc::new(Others(state.quarantine.clone())));
    for id in ["own", "onex", "twoy", "badx", "latex"] {
        let (to, raw) = ("ursula@example.com", b"Subject: 1.0\r\n\r\n2.0".as_slice());
        let (class, folder, hits) = (Class::Spam, Some("suspect"), Vec::new());
        console.put(&Sample { id, class, score: 6.0, folder, to, raw, age_ms: 60_000, hits });
    }
    console
}

fn decide(console: &Running, cookie: &str, item: &str, decision: &str) -> Answer {
    let csrf = console.csrf(cookie);
    let form = format!("csrf={csrf}&item={item}&decision={decision}&sure=yes");
    console.request("POST", "/quarantine/decide", cookie, &form)
}

#[test]
fn what_another_node_holds_becomes_an_order_to_it() {
    let console = console();
    let admin = console.sign_in("admin");
    let page = console.request("GET", "/quarantine", &admin, "").body;
    for shown in
        ["10.0.0.2", "10.0.0.3", "/quarantine/held-onex%4010.0.0.2", "\"/quarantine/held-own\""]
    {
        assert!(page.contains(shown), "{shown}: {page}");
    }
    // Done at once: as if it were held here. Nothing is released here.
    let answer = decide(&console, &admin, "held-onex%4010.0.0.2", "release");
    assert_eq!(answer.header("location"), Some("/quarantine?notice=released-1"));
    assert!(console.node.queued.lock().unwrap().is_empty());
    // Still open: the page of the message says so.
    let answer = decide(&console, &admin, "held-twoy%4010.0.0.3", "delete");
    let place = "/quarantine/held-twoy%4010.0.0.3";
    let noticed = format!("{place}?notice=ordered-1");
    assert_eq!(answer.header("location"), Some(noticed.as_str()));
    let page = console.request("GET", &noticed, &admin, "").body;
    for shown in ["has not answered yet", "Orders to 10.0.0.3", "as soon as it takes the order"] {
        assert!(page.contains(shown), "{shown}: {page}");
    }
    assert!(console.request("GET", "/quarantine", &admin, "").body.contains("state-ordered"));
    // A node that refuses.
    let answer = decide(&console, &admin, "held-badx%4010.0.0.2", "release");
    assert!(answer.body.contains("1 message was not released"), "{}", answer.body);
    assert!(answer.body.contains("10.0.0.2: 1.0 &lt;2&gt;"), "{}", answer.body);
    let page = console.request("GET", "/quarantine/held-badx%4010.0.0.2", &admin, "").body;
    assert!(page.contains("1.0 &lt;2&gt;"), "{page}");
    // A node where somebody had released it before.
    let answer = decide(&console, &admin, "held-latex%4010.0.0.2", "release");
    assert_eq!(answer.header("location"), Some("/quarantine?notice=past-1"));
    // The own one as ever, and what was ordered is in the audit log here.
    let answer = decide(&console, &admin, "held-own", "release");
    assert_eq!(answer.header("location"), Some("/quarantine?notice=released-1"));
    assert_eq!(console.node.queued.lock().unwrap().len(), 1);
    let audit = console.state.quarantine.audit_log("held-twoy@10.0.0.3", 10).unwrap();
    assert_eq!((audit[0].action.as_str(), audit[0].who.as_str()), ("order delete", "admin"));
    // A user sees no node, nobody's orders, and may release what is theirs alone.
    let ursula = console.sign_in("ursula");
    let page = console.request("GET", place, &ursula, "").body;
    assert!(!page.contains("Orders to") && !page.contains("10.0.0.3</dd>"), "{page}");
    let answer = decide(&console, &ursula, "held-twoy%4010.0.0.3", "release");
    assert_eq!(answer.header("location"), Some(noticed.as_str()));
    let newest = console.node.elsewhere.newest_first().remove(0);
    assert_eq!((newest.who.as_str(), newest.action.as_str()), ("ursula", "release"));
}

#[test]
fn pages_of_held_mail_elsewhere_are_looked_at() {
    let Some(browser) = Browser::start() else { return };
    let console = console();
    let admin = console.sign_in("admin");
    decide(&console, &admin, "held-twoy%4010.0.0.3", "release");
    decide(&console, &admin, "held-badx%4010.0.0.2", "release");
    let open = |path: &str| browser.open(&format!("http://{}{path}", console.address));
    crate::browser::sign_in(&browser, &console);
    open("/quarantine");
    browser.look_at("array-quarantine");
    open("/quarantine/held-twoy%4010.0.0.3?notice=ordered-1");
    browser.look_at("array-held");
    open("/quarantine/held-badx%4010.0.0.2");
    browser.look_at("array-held-refused");
}
