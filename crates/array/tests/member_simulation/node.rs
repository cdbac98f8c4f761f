//! A node of the simulation: what it has on its disk, and what its member does with that.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use gauntlet_array::editions::Edition;
use gauntlet_array::nodes::{Identity, Status};
use gauntlet_array::orders::{Order, Outcome};
use gauntlet_array::transfers::Departing;
use gauntlet_array::{Database, LocalNode, MemberState, Objects};
use gauntlet_store::quarantine::Deletion;
use gauntlet_store::{Log, LogOptions, Quarantine};

use super::shared::OwnState;
use crate::bodies_walk::Random;
use crate::logs::DAY;
use crate::relay::Relay;

/// How long an order takes over which its node is killed.
const LAST_WORK: Duration = Duration::from_millis(5);

/// A message of a queue.
#[derive(Debug, Clone)]
pub(super) struct Queued {
    pub(super) name: String,
    /// Where it goes, and the token of that.
    pub(super) leaving: Option<(String, String)>,
}

/// What a node has durably, beside log and quarantine.
#[derive(Debug, Default)]
pub(super) struct Disk {
    pub(super) queue: BTreeMap<u64, Queued>,
    pub(super) next: u64,
    /// Tokens of what it took in, with the number here.
    arrived: BTreeMap<String, u64>,
    /// By the word of who gave it, which is one for each order: the lives of the node in which it
    /// was carried out, and whether that had an effect.
    pub(super) carried_out: BTreeMap<String, Vec<(u64, bool)>>,
    pub(super) policy: String,
    settings: i64,
    /// Names of messages that were delivered here.
    pub(super) delivered: Vec<String>,
}

pub(super) struct Node {
    pub(super) name: &'static str,
    disk: Mutex<Disk>,
    random: Mutex<Random>,
    pub(super) log: Arc<Log>,
    pub(super) quarantine: Arc<Quarantine>,
    pub(super) shared: OwnState,
    pub(super) identity: Identity,
    pub(super) relay: Relay,
    pub(super) database: Database,
    pub(super) objects: Objects,
    pub(super) folder: tempfile::TempDir,
    /// How often its member began anew, and how often among them because it was killed.
    pub(super) restarts: AtomicU64,
    pub(super) kills: AtomicU64,
    /// It is killed over what it does.
    pub(super) is_struck: AtomicBool,
    /// How its member is, since that began anew.
    pub(super) state: Mutex<Arc<Mutex<MemberState>>>,
}

impl Node {
    /// A node that has lived nothing yet. `database` is the way there, through `relay`.
    pub(super) fn new(
        name: &'static str,
        seed: u64,
        (database, relay): (Database, Relay),
        objects: Objects,
    ) -> Arc<Self> {
        let folder = tempfile::tempdir().unwrap();
        let options = LogOptions { feeds_array: true, ..LogOptions::default() };
        let (identity, group) = (Identity::make().unwrap(), String::new());
        Arc::new(Node {
            name,
            disk: Mutex::default(),
            random: Mutex::new(Random(seed | 1)),
            log: Arc::new(Log::open_with(&folder.path().join("log"), options).unwrap()),
            quarantine: Arc::new(Quarantine::open(&folder.path().join("held")).unwrap()),
            shared: OwnState::new(folder.path()),
            identity: Identity { name: name.to_owned(), identity, group },
            database,
            relay,
            objects,
            folder,
            restarts: AtomicU64::new(0),
            kills: AtomicU64::new(0),
            is_struck: AtomicBool::new(false),
            state: Mutex::default(),
        })
    }

    pub(super) fn disk(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock().unwrap()
    }

    pub(super) fn below(&self, bound: usize) -> usize {
        self.random.lock().unwrap().below(bound)
    }

    /// As of when its member has had all that other nodes share, in Unix milliseconds; 0: not yet.
    pub(super) fn had_of_others_ms(&self) -> i64 {
        let state = self.state.lock().unwrap().clone();
        let shared = &state.lock().unwrap().shared;
        shared.values().map(|kind| kind.current_ms).min().unwrap_or(0)
    }

    /// What its journal of orders says, as it is in the file.
    pub(super) fn journal(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("orders.json")).unwrap_or_default()
    }
}

/// The node as its member sees it.
pub(super) struct Local(pub(super) Arc<Node>);

impl LocalNode for Local {
    fn status(&self) -> Status {
        Status { queued: self.0.disk().queue.len() as u64, ..Status::default() }
    }

    fn apply_policy(&self, edition: &Edition) -> Result<(), String> {
        self.0.disk().policy.clone_from(&edition.body);
        Ok(())
    }

    fn settings(&self) -> i64 {
        self.0.disk().settings
    }

    fn apply_settings(&self, edition: Option<&Edition>) -> Result<(), String> {
        self.0.disk().settings = edition.map_or(0, |edition| edition.number);
        Ok(())
    }

    fn upgrade(&self, _order: i64, _seconds: u64) -> Option<Outcome> {
        // None is ordered here.
        Some(Outcome { is_good: false, text: "not in a simulation".to_owned() })
    }

    fn queued(&self) -> Vec<String> {
        self.0.disk().queue.keys().map(u64::to_string).collect()
    }

    /// No node leaves this array.
    fn keep(&self, _: u64) {}

    fn leaving(&self) -> Vec<(String, String)> {
        let disk = self.0.disk();
        let to = |(number, message): (&u64, &Queued)| {
            Some((number.to_string(), message.leaving.as_ref()?.0.clone()))
        };
        disk.queue.iter().filter_map(to).collect()
    }

    fn leave(&self, id: &str, to: &str) -> Result<Departing, String> {
        let number: u64 = id.parse().map_err(|_| format!("{id:?} is no number"))?;
        let mut disk = self.0.disk();
        let message = disk.queue.get_mut(&number).ok_or("it is gone")?;
        let token = format!("{}-{number}", self.0.identity.identity);
        match &message.leaving {
            Some((other, _)) if other != to => return Err(format!("it leaves for {other}")),
            Some(_) => {}
            None => message.leaving = Some((to.to_owned(), token.clone())),
        }
        let body = format!("{token} {}", message.name).into_bytes();
        Ok(Departing { id: number, token, body })
    }

    fn take_in(&self, bodies: Vec<Vec<u8>>) -> Vec<Option<String>> {
        let one = |body: Vec<u8>| {
            let text = String::from_utf8(body).unwrap();
            let (token, name) = text.split_once(' ').unwrap();
            match self.0.below(10) {
                0 => return None,
                1 if !self.0.disk().arrived.contains_key(token) => {
                    return Some("refused".to_owned());
                }
                _ => {}
            }
            let mut disk = self.0.disk();
            if !disk.arrived.contains_key(token) {
                let (name, leaving) = (name.to_owned(), None);
                disk.next += 1;
                let number = disk.next;
                disk.queue.insert(number, Queued { name, leaving });
                disk.arrived.insert(token.to_owned(), number);
            }
            Some("taken".to_owned())
        };
        bodies.into_iter().map(one).collect()
    }

    fn left(&self, answers: &[(u64, String)]) {
        let mut disk = self.0.disk();
        for (number, answer) in answers {
            // The answer to what was followed before.
            let Some(message) = disk.queue.get_mut(number) else { continue };
            if message.leaving.is_none() {
                continue;
            }
            match answer.as_str() {
                "taken" => drop(disk.queue.remove(number)),
                _ => message.leaving = None,
            }
        }
    }

    fn carry_out(&self, order: Order, who: &str) -> Outcome {
        let Order::Delete { item } = order else {
            return Outcome { is_good: false, text: "another order".to_owned() };
        };
        let noted = format!("\"{who}: ");
        assert!(!self.0.journal().contains(&noted), "{who}: the journal has its outcome");
        let deletion = self.0.quarantine.delete(&item, who, DAY).unwrap();
        let is_effect = deletion == Deletion::Done;
        let life = self.0.restarts.load(Ordering::Relaxed);
        self.0.disk().carried_out.entry(who.to_owned()).or_default().push((life, is_effect));
        if self.0.below(4) == 0 {
            // After its work, and before the journal.
            self.0.is_struck.store(true, Ordering::Relaxed);
            std::thread::sleep(LAST_WORK);
        }
        Outcome { is_good: true, text: format!("{who}: {item}: {deletion:?}") }
    }
}
