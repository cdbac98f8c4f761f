//! Nodes end with the same corrections, whatever is killed, repeated or late.

use gauntlet_engine::classifier::group::GROUPS;
use gauntlet_engine::corrections::{Correction, policy_reporter_id, reporter_id};

use super::*;
use crate::array_double::relay;

fn correction(spam: bool, reporter: u64, at: i64) -> Correction {
    Correction {
        spam,
        reporter,
        at,
        base: 0.5,
        features: vec![1, 2, 3],
        ends: [3; GROUPS],
        identities: vec![4],
        fingerprints: Vec::new(),
    }
}

struct Node {
    data: tempfile::TempDir,
    part: SharedCorrections,
    cursors: Cursors,
    number: i16,
}

impl Node {
    fn new(number: i16) -> Node {
        let data = tempfile::tempdir().unwrap();
        let part = SharedCorrections::new(data.path());
        let cursors = part.begin(&format!("array/{number}")).unwrap();
        Node { data, part, cursors, number }
    }

    fn restart(&mut self) {
        self.part = SharedCorrections::new(self.data.path());
        self.cursors = self.part.begin(&format!("array/{}", self.number)).unwrap();
    }

    fn say(&self, id: u8, correction: Correction) {
        Corrections::open(self.data.path()).unwrap().say([([id; 16], correction)]).unwrap();
    }

    fn send(&self, log: &mut Vec<Incoming>, is_cut: bool) {
        relay::send(&self.part, self.number, log, is_cut);
    }

    fn take(&mut self, log: &[Incoming], back: i64) {
        let new = relay::news(&self.cursors, self.number, log, back);
        self.part.take(&new).unwrap();
        self.cursors.extend(new.iter().map(|b| (b.node, b.number)));
    }

    fn all(&self) -> Replayed {
        Corrections::read_all(self.data.path()).unwrap()
    }
}

#[test]
fn all_nodes_learn_from_the_same_whatever_the_order() {
    for seed in 0..40_u64 {
        let mut state = seed;
        let mut random = move |most: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_889);
            (state >> 33) % most
        };
        let mut nodes: Vec<Node> = (1..=3).map(Node::new).collect();
        let mut log = Vec::new();
        for _ in 0..50 {
            // Clocks differ.
            let at = 1_000 + random(50) as i64;
            let node = &mut nodes[random(3) as usize];
            match random(7) {
                0..=2 => {
                    let reporter = match random(3) {
                        0 => policy_reporter_id("rule"),
                        n => reporter_id(&format!("person {n}")),
                    };
                    node.say(random(5) as u8, correction(random(2) == 0, reporter, at));
                }
                3 => {
                    let id = [random(5) as u8; 16];
                    Corrections::open(node.data.path()).unwrap().forget(&id, at).unwrap();
                }
                4 => {
                    let is_cut = random(2) == 0;
                    node.send(&mut log, is_cut);
                    if is_cut {
                        node.restart();
                    }
                }
                5 => node.take(&log, random(4) as i64),
                _ => node.restart(),
            }
        }
        // What was sent last by some was not taken by others yet.
        for _ in 0..2 {
            nodes.iter().for_each(|node| node.send(&mut log, false));
            nodes.iter_mut().for_each(|node| node.take(&log, 0));
        }
        let first = nodes[0].all();
        for node in &nodes[1..] {
            let all = node.all();
            assert_eq!(all.live, first.live, "seed {seed}");
            assert_eq!(all.forgotten, first.forgotten, "seed {seed}");
        }
        let before = log.len();
        nodes.iter().for_each(|node| node.send(&mut log, false));
        assert_eq!(log.len(), before, "seed {seed}: no echo without end");
    }
}

#[test]
fn a_reporter_is_one_reporter_on_however_many_nodes() {
    let mut nodes: Vec<Node> = (1..=4).map(Node::new).collect();
    let mut log = Vec::new();
    let ann = reporter_id("ann");
    for (n, node) in nodes.iter().enumerate() {
        // The same message, and one that only this node had.
        node.say(100, correction(true, ann, 5));
        node.say(n as u8, correction(true, ann, 6));
        node.send(&mut log, false);
    }
    for node in &mut nodes {
        node.take(&log, 0);
        let live = node.all().live;
        assert_eq!(live.len(), 5);
        assert!(live.values().all(|c| c.reporter == ann));
    }
}

#[test]
fn a_person_overrules_policies_and_what_was_taken_back_stays_so() {
    let mut nodes: Vec<Node> = (1..=2).map(Node::new).collect();
    let mut log = Vec::new();
    let rule = policy_reporter_id("rule");
    nodes[0].say(1, correction(false, 7, 10));
    nodes[1].say(1, correction(true, rule, 99));
    nodes[0].say(2, correction(true, 7, 10));
    nodes[0].send(&mut log, false);
    nodes[1].take(&log, 0);
    assert!(!nodes[1].all().live[&[1; 16]].spam, "a person said so");
    Corrections::open(nodes[1].data.path()).unwrap().forget(&[2; 16], 3).unwrap();
    nodes[1].say(2, correction(true, rule, 500));
    nodes[1].send(&mut log, false);
    nodes[0].take(&log, 0);
    nodes[0].take(&log, 99);
    for node in &nodes {
        let all = node.all();
        assert!(all.live.len() == 1 && all.forgotten.contains_key(&[2; 16]));
    }
    // A person may say it again.
    nodes[0].say(2, correction(true, 7, 4));
    nodes[0].send(&mut log, false);
    nodes[1].take(&log, 0);
    assert!(nodes[1].all().live.contains_key(&[2; 16]));
}

#[test]
fn batches_that_are_damaged_or_of_another_format_are_passed_over_and_taken_later() {
    let mut one = Node::new(1);
    let mut log = Vec::new();
    one.say(1, correction(true, 7, 1));
    one.send(&mut log, false);
    let body = log[0].body.clone();
    assert_eq!(decode(&body).unwrap().len(), 1);
    for at in 0..body.len() {
        let cut = decode(&body[..at]);
        assert!(cut.is_none_or(|said| said.is_empty()), "cut at {at}");
        let mut wrong = body.clone();
        wrong[at] ^= 1;
        assert!(decode(&wrong).is_none_or(|said| said.is_empty()), "changed at {at}");
    }
    let mut two = Node::new(2);
    let mut other = vec![VERSION];
    put_number(&mut other, u64::from(FORMAT_VERSION) + 1);
    let other = Incoming { node: 1, number: 1, body: other };
    two.take(&[other, Incoming { node: 1, number: 2, body: body.clone() }], 0);
    assert_eq!(two.all().live.len(), 1);
    two.restart();
    assert_eq!(two.cursors.get(&1), Some(&2));
    // An upgrade reads again what the earlier build could not use.
    let mut shared = std::mem::take(&mut *two.part.shared());
    shared.header.format += 1;
    two.part.write(&shared).unwrap();
    two.restart();
    assert!(two.cursors.is_empty());
    // A file that is lost or damaged costs traffic alone.
    std::fs::write(&two.part.path, b"GNTLSHRD").unwrap();
    two.restart();
    assert!(two.part.collect().unwrap().is_some() && two.cursors.is_empty());
    one.take(&[], 0);
}
