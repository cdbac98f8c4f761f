//! Merging of sender history and greylists, whatever the order, repetition and loss.

use std::net::IpAddr;

use super::super::greylist::GreylistDecision;
use super::*;
use crate::sharing::relay;
use crate::sharing::seeded::Seeded;

const NOW: i64 = 1_800_000_000;

/// A node whose memory can be lost.
struct Node {
    folder: tempfile::TempDir,
    history: Arc<History>,
    part: SharedHistory,
    cursors: Cursors,
    number: i16,
}

impl Node {
    fn new(number: i16, kind: SharedKind) -> Node {
        let folder = tempfile::tempdir().unwrap();
        let (history, part, cursors) = Self::open(folder.path(), number, kind, NOW);
        Node { folder, history, part, cursors, number }
    }

    fn open(
        folder: &std::path::Path,
        number: i16,
        kind: SharedKind,
        now_s: i64,
    ) -> (Arc<History>, SharedHistory, Cursors) {
        let history = Arc::new(History::open(folder).unwrap());
        let clock = Clock::manual(now_s * 1_000);
        let part = SharedHistory { history: history.clone(), clock, kind };
        let cursors = part.begin(&format!("array/{number}")).unwrap();
        (history, part, cursors)
    }

    /// It is killed and started again.
    fn restart(&mut self, now_s: i64) {
        let kind = self.part.kind;
        let (history, part, cursors) = Self::open(self.folder.path(), self.number, kind, now_s);
        (self.history, self.part, self.cursors) = (history, part, cursors);
    }

    /// Sends what waits; `is_cut` says whether it dies before it knows that it was taken.
    fn send(&self, log: &mut Vec<Incoming>, is_cut: bool) {
        relay::send(&self.part, self.number, log, is_cut);
    }

    /// Takes what others sent after its cursors; `from` steps back for duplicates.
    fn take(&mut self, log: &[Incoming], from: i64, dies: bool) {
        let new = relay::news(&self.cursors, self.number, log, from);
        self.part.take(&new).unwrap();
        if !dies {
            for batch in new {
                self.cursors.insert(batch.node, batch.number);
            }
        }
    }
}

#[test]
fn sums_are_the_same_on_all_nodes_whatever_is_killed_repeated_or_late() {
    for seed in 0..40 {
        let mut random = Seeded(seed);
        let mut nodes: Vec<Node> = (1..=3).map(|n| Node::new(n, SharedKind::Senders)).collect();
        let mut log = Vec::new();
        let mut now_s = NOW;
        for _ in 0..60 {
            now_s += random.below(5_000) as i64;
            let node = &mut nodes[random.below(3) as usize];
            match random.below(6) {
                0..=2 => {
                    let keys = [format!("d {}.example", random.below(7)), "n all".to_owned()];
                    node.history.record(&keys, random.below(3) == 0, now_s);
                }
                3 => {
                    node.history.write(now_s).unwrap();
                    let is_cut = random.below(3) == 0;
                    node.send(&mut log, is_cut);
                    if is_cut {
                        node.restart(now_s);
                    }
                }
                4 => {
                    let (from, dies) = (random.below(4) as i64 * 3, random.below(3) == 0);
                    node.take(&log, from, dies);
                    if dies {
                        node.history.write(now_s).unwrap();
                        node.restart(now_s);
                    }
                }
                // What was not written is lost, as it is on a node that is alone.
                _ => node.restart(now_s),
            }
        }
        // The partition heals.
        for node in &nodes {
            node.history.write(now_s).unwrap();
            node.send(&mut log, false);
        }
        for node in &mut nodes {
            node.take(&log, 0, false);
        }
        let keys = (0..7).map(|n| format!("d {n}.example")).chain(["n all".to_owned()]);
        for key in keys {
            let own = nodes.iter().filter_map(|n| super::super::read(&n.history.database(), &key));
            let own = own.map(|known| known.at(now_s));
            let Some(sum) = own.reduce(SenderHistory::plus) else { continue };
            for node in &nodes {
                let found = node.history.lookup(&key, now_s).unwrap();
                let near = |a: f64, b: f64| (a - b).abs() <= 2.0 / 128.0 + 1e-9;
                assert!(
                    near(found.ham, sum.ham) && near(found.spam, sum.spam),
                    "seed {seed}, {key}: {found:?} is not {sum:?}"
                );
                assert_eq!((found.first_s, found.last_s), (sum.first_s, sum.last_s), "seed {seed}");
            }
        }
    }
}

#[test]
fn a_correspondent_of_one_node_is_known_on_all_and_another_array_begins_anew() {
    let mut nodes: Vec<Node> = (1..=2).map(|n| Node::new(n, SharedKind::Senders)).collect();
    let mut log = Vec::new();
    nodes[0].history.know(&["Ann@example.org".to_owned()], NOW - 3 * DAY_SECONDS);
    nodes[0].history.write(NOW).unwrap();
    nodes[0].send(&mut log, false);
    nodes[1].take(&log, 0, false);
    assert_eq!(nodes[1].history.known_days("ann@example.org", NOW), Some(3));
    assert_eq!(nodes[1].history.unshared_keys(SharedKind::Senders), 0, "no echo");
    assert!(nodes[1].part.collect().unwrap().is_none());
    // The same array: nothing is sent again. Another one: all is, and others count no more.
    nodes[0].restart(NOW);
    assert!(nodes[0].part.collect().unwrap().is_none());
    nodes[1].part.begin("other/2").unwrap();
    assert_eq!(nodes[1].history.known_days("ann@example.org", NOW), None);
    nodes[0].part.begin("other/1").unwrap();
    assert!(nodes[0].part.collect().unwrap().is_some());
    nodes[0].history.end_sharing(SharedKind::Senders).unwrap();
    nodes[0].history.know(&["bob@example.org".to_owned()], NOW);
    nodes[0].history.write(NOW).unwrap();
    assert_eq!(nodes[0].history.unshared_keys(SharedKind::Senders), 0, "nothing is noted");
}

fn attempt(node: &Node, who: u8, now_s: i64) -> GreylistDecision {
    let client = IpAddr::from([192, 0, 2, who]);
    let to = format!("b{who}@example.com");
    node.history.greylist(&GreylistRules::default(), client, "a@example.org", &to, now_s)
}

#[test]
fn who_waited_at_one_node_passes_at_another() {
    let mut nodes: Vec<Node> = (1..=3).map(|n| Node::new(n, SharedKind::Greylist)).collect();
    let mut log = Vec::new();
    assert!(matches!(attempt(&nodes[0], 1, NOW - 400), GreylistDecision::Wait { .. }));
    nodes[0].send(&mut log, false);
    // Partitioned: it waits once more.
    assert_eq!(attempt(&nodes[2], 1, NOW), GreylistDecision::Wait { seconds: 300 });
    nodes[1].take(&log, 0, false);
    assert_eq!(attempt(&nodes[1], 1, NOW), GreylistDecision::Pass);
    nodes[1].send(&mut log, false);
    // Twice, and beside a row of its own.
    nodes[2].take(&log, 0, true);
    nodes[2].take(&log, 0, false);
    assert_eq!(attempt(&nodes[2], 1, NOW + 1), GreylistDecision::Pass);
    // A pass is told once, then once a day.
    nodes[2].send(&mut log, false);
    let told = log.len();
    attempt(&nodes[2], 1, NOW + 2);
    nodes[2].send(&mut log, false);
    assert_eq!(log.len(), told);
    attempt(&nodes[2], 1, NOW + 3 + DAY_SECONDS);
    nodes[2].send(&mut log, false);
    assert_eq!(log.len(), told + 1);
}

#[test]
fn rows_that_are_over_or_from_the_future_or_too_many_do_no_harm() {
    let row = |n: u8, first_s, last_s, passed| Triplet { key: [n; 16], first_s, last_s, passed };
    let mut node = Node::new(1, SharedKind::Greylist);
    let day = DAY_SECONDS;
    let rows = [
        row(1, NOW - 3 * day, NOW - 3 * day, false),
        row(2, NOW - 90 * day, NOW - 40 * day, true),
        row(3, NOW + 3_600, NOW + 3_600, false),
        row(4, NOW - 90 * day, NOW - day, true),
    ];
    let log = [Incoming { node: 2, number: 1, body: encode_triplets(&rows) }];
    node.take(&log, 0, false);
    let found = |n: u8| triplet_row(&node.history.database(), &[n; 16]).unwrap();
    assert_eq!((found(1), found(2)), (None, None));
    assert_eq!(found(3), Some(row(3, NOW, NOW, false)));
    assert_eq!(found(4), Some(rows[3]));
    let few = GreylistRules { rows_max: 3, ..GreylistRules::default() };
    node.history.forget_waiting(&few, NOW).unwrap();
    let more: Vec<Triplet> = (10..20).map(|n| row(n, NOW, NOW, false)).collect();
    let log = [Incoming { node: 2, number: 2, body: encode_triplets(&more) }];
    node.take(&log, 0, false);
    assert_eq!(count_waiting(&node.history.database()).unwrap(), 3);
}

#[test]
fn damaged_batches_are_left_out_whatever_byte_it_hits() {
    let history = SenderHistory { first_s: NOW - 9, last_s: NOW, ham: 1.5, spam: 0.25 };
    let rows = ["d a.example", "k a.example"].map(|key| SenderRow { key: key.to_owned(), history });
    let senders = encode_senders(rows.to_vec());
    assert_eq!(decode_senders(&senders), Some(rows.to_vec()));
    let triplets = [Triplet { key: [7; 16], first_s: NOW - 300, last_s: NOW, passed: true }];
    let greylist = encode_triplets(&triplets);
    assert_eq!(decode_triplets(&greylist), Some(triplets.to_vec()));
    (0..senders.len()).for_each(|at| assert!(decode_senders(&senders[..at]).is_none()));
    (0..greylist.len()).for_each(|at| assert!(decode_triplets(&greylist[..at]).is_none()));
    for whole in [&senders, &greylist] {
        for at in 0..whole.len() {
            for bit in [1, 0x80, 0xff] {
                let mut wrong = whole.clone();
                wrong[at] ^= bit;
                let _never_panics = (decode_senders(&wrong), decode_triplets(&wrong));
            }
        }
    }
    // It is passed over, and what follows counts.
    let mut node = Node::new(1, SharedKind::Senders);
    let log = [
        Incoming { node: 2, number: 1, body: vec![99, 1, 2] },
        Incoming { node: 2, number: 2, body: senders },
    ];
    node.take(&log, 0, false);
    node.restart(NOW);
    assert_eq!(node.cursors.get(&2), Some(&2));
    assert!(node.history.lookup("d a.example", NOW).is_some());
}
