//! What the simulated nodes share: histories of senders, which are sums, and the greylist.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use gauntlet_array::state::drop_old;
use gauntlet_array::{Session, SharedParts};
use gauntlet_store::history::sharing::SharedHistory;
use gauntlet_store::sharing::SharedKind;
use gauntlet_store::{Clock, GreylistDecision, GreylistRules, History};

use super::node::Node;
use crate::bodies_walk::Random;

/// When everything is counted, in Unix seconds: what is counted fades with time, and here not.
const NOW: i64 = 1_800_000_000;
/// Longer ago than a sender is remembered.
const LONG_AGO: i64 = NOW - 400 * 86_400;
/// The sender of that time.
const FORGOTTEN: &str = "d forgotten.example";
/// Days that batches of senders are kept.
const DAYS: u32 = 7;
/// Senders, and triplets.
const KEYS: usize = 6;
/// Between two attempts, in seconds: all are within the window, and some have waited at the end.
const ATTEMPT_SECONDS: i64 = 17;

/// A node's own part of it, in `history.db`.
pub(super) struct OwnState {
    folder: PathBuf,
    history: Mutex<Arc<History>>,
}

impl OwnState {
    pub(super) fn new(folder: &Path) -> Self {
        let history = Mutex::new(Arc::new(History::open(folder).unwrap()));
        OwnState { folder: folder.to_owned(), history }
    }

    fn history(&self) -> MutexGuard<'_, Arc<History>> {
        self.history.lock().unwrap()
    }

    /// What a new process of the node shares: its memory is gone, its files are not.
    pub(super) fn reopened(&self, every: Duration) -> SharedParts {
        let mut history = self.history();
        *history = Arc::new(History::open(&self.folder).unwrap());
        let [senders, greylist] = parts(&history);
        SharedParts { parts: vec![Arc::new(senders), Arc::new(greylist)], every, days: DAYS }
    }

    fn count(&self, key: &str, at_s: i64) {
        let history = self.history();
        history.record(&[key.to_owned()], false, at_s);
        history.write(NOW).unwrap();
    }

    fn sum(&self, key: &str) -> Option<f64> {
        self.history().lookup(key, NOW).map(|known| known.ham)
    }

    fn attempt(&self, triplet: usize, at_s: i64) -> GreylistDecision {
        let (rules, client) = (GreylistRules::default(), IpAddr::from([192, 0, 2, 7]));
        let sender = format!("a{triplet}@example.org");
        self.history().greylist(&rules, client, &sender, "b@example.com", at_s)
    }

    /// Changes that wait to be sent.
    fn unsent(&self) -> u64 {
        let history = self.history();
        [SharedKind::Senders, SharedKind::Greylist]
            .map(|kind| history.unshared_keys(kind))
            .iter()
            .sum()
    }
}

fn parts(history: &Arc<History>) -> [SharedHistory; 2] {
    let clock = Clock::manual(NOW * 1_000);
    [
        SharedHistory::senders(history.clone(), clock.clone()),
        SharedHistory::greylist(history.clone(), clock),
    ]
}

fn sender(number: usize) -> String {
    format!("d {number}.example")
}

/// What was counted and attempted, whatever broke.
#[derive(Debug, Default)]
pub(super) struct Expected {
    /// By node and sender, messages.
    counted: BTreeMap<(&'static str, String), u32>,
    /// When each triplet came first.
    first_s: BTreeMap<usize, i64>,
    attempts: i64,
    /// Batches went that some node may not have had.
    pub(super) has_lost: bool,
}

impl Expected {
    /// A message of a sender: counted at this node.
    pub(super) fn count(&mut self, node: &Node, random: &mut Random) {
        let key = sender(random.below(KEYS));
        node.shared.count(&key, NOW);
        *self.counted.entry((node.name, key)).or_default() += 1;
    }

    /// A sender who is not known anywhere comes to this node.
    pub(super) fn attempt(&mut self, node: &Node, random: &mut Random) {
        self.attempts += 1;
        let (triplet, at_s) = (random.below(KEYS), NOW - 700 + ATTEMPT_SECONDS * self.attempts);
        node.shared.attempt(triplet, at_s);
        self.first_s.entry(triplet).or_insert(at_s);
    }

    /// A sender of long ago is noted for other nodes, and forgotten before they are told; or the
    /// batches of senders grow too old, whoever has not had them.
    pub(super) async fn age(&mut self, node: &Node, session: &Session, random: &mut Random) {
        if random.below(3) > 0 {
            node.shared.count(FORGOTTEN, LONG_AGO);
            return;
        }
        let kind = SharedKind::Senders.number();
        let sql = format!(
            "UPDATE shared_batch SET number = number - {}::bigint * 86400000000 WHERE kind = {kind}",
            DAYS + 1
        );
        session.batch("letting batches age", &sql).await.unwrap();
        let gone = drop_old(session, DAYS).await.unwrap();
        self.has_lost |= gone > 0;
    }

    /// A further message of each sender at each node that had one: what other nodes know of a
    /// sender comes whole with the next message.
    pub(super) fn count_once_more(&mut self, nodes: &[Arc<Node>]) {
        for ((name, key), count) in &mut self.counted {
            let node = nodes.iter().find(|node| node.name == *name).unwrap();
            node.shared.count(key, NOW);
            *count += 1;
        }
    }

    /// What a node has that it should not, or has not that it should; none if all is well.
    pub(super) fn differs(&self, nodes: &[Arc<Node>]) -> Option<String> {
        let of = |key: &str| {
            let own = self.counted.iter().filter(|((_, other), _)| other == key);
            own.map(|(_, count)| f64::from(*count)).reduce(|a, b| a + b)
        };
        for node in nodes {
            for key in (0..KEYS).map(sender) {
                let (known, counted) = (node.shared.sum(&key), of(&key));
                if known != counted {
                    return Some(format!("{}: {key:?} is {known:?}, not {counted:?}", node.name));
                }
            }
            if let Some(known) = node.shared.sum(FORGOTTEN) {
                return Some(format!("{} remembers {known} of long ago", node.name));
            }
            for (triplet, first_s) in &self.first_s {
                let left = 300 - (NOW - first_s);
                let wanted = match u32::try_from(left) {
                    Ok(seconds @ 1..) => GreylistDecision::Wait { seconds },
                    _ => GreylistDecision::Pass,
                };
                let decided = node.shared.attempt(*triplet, NOW);
                if decided != wanted {
                    return Some(format!("{}: {triplet}: {decided:?}, not {wanted:?}", node.name));
                }
            }
        }
        None
    }
}

/// What some node has not sent, or not had from another; none if nothing. `sent_ms` is since when
/// all is sent, for the next look.
pub(super) fn missing(nodes: &[Arc<Node>], sent_ms: &mut Option<i64>) -> Option<String> {
    let has_begun = |node: &&Arc<Node>| node.had_of_others_ms() > 0;
    if let Some(node) = nodes.iter().find(|node| !has_begun(node) || node.shared.unsent() > 0) {
        *sent_ms = None;
        return Some(format!("{} has shared state to send", node.name));
    }
    let since_ms = *sent_ms.get_or_insert_with(|| Clock::system().unix_ms());
    let behind = nodes.iter().find(|node| node.had_of_others_ms() <= since_ms);
    behind.map(|node| format!("{} has not had the shared state of others", node.name))
}
