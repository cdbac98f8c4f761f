//! Each entry counts once on every node, whatever is killed, repeated or late.

use gauntlet_engine::signatures::KnownSignatures;
use gauntlet_engine::signatures::fingerprint::{Fingerprint, Found, Kind};

use super::*;
use crate::array_double::relay;

const TODAY: u16 = 20_000;

fn fingerprint(seed: u16) -> Fingerprint {
    let sketch = std::array::from_fn(|i| seed.wrapping_mul(7_919).wrapping_add(i as u16 * 263));
    Fingerprint { kind: Kind::Text, size: 80, sketch }
}

fn bad(seed: u16) -> Entry {
    Entry { fingerprint: fingerprint(seed), bad: 1, good: 0, day: TODAY }
}

struct Node {
    data: tempfile::TempDir,
    part: SharedSignatures,
    cursors: Cursors,
    number: i16,
}

impl Node {
    fn new(number: i16) -> Node {
        let data = tempfile::tempdir().unwrap();
        let (part, cursors) = Self::open(data.path(), number);
        Node { data, part, cursors, number }
    }

    fn open(data: &Path, number: i16) -> (SharedSignatures, Cursors) {
        let clock = Clock::manual(i64::from(TODAY) * 86_400_000);
        let part = SharedSignatures::new(data, 90, clock);
        let cursors = part.begin(&format!("array/{number}")).unwrap();
        (part, cursors)
    }

    fn restart(&mut self) {
        (self.part, self.cursors) = Self::open(self.data.path(), self.number);
    }

    /// Its probe accounts see this.
    fn see(&self, entries: &[Entry]) {
        SignatureWriter::open(self.data.path(), 90).unwrap().append(entries, TODAY).unwrap();
    }

    fn send(&self, log: &mut Vec<Incoming>, is_cut: bool) {
        relay::send(&self.part, self.number, log, is_cut);
    }

    fn take(&mut self, log: &[Incoming], back: i64) {
        let new = relay::news(&self.cursors, self.number, log, back);
        self.part.take(&new).unwrap();
        self.cursors.extend(new.iter().map(|b| (b.node, b.number)));
    }

    /// How often the node, and the others that it heard of, saw this.
    fn times(&self, seed: u16) -> u32 {
        let found = Found { fingerprint: fingerprint(seed), part: 0 };
        let count = |(table, entries): Signatures| {
            let known = KnownSignatures::new(table, &entries, &[], 90);
            known.resembles(std::slice::from_ref(&found), TODAY).first().map_or(0, |like| like.bad)
        };
        count(load(self.data.path()).unwrap()) + count(load_elsewhere(self.data.path()).unwrap())
    }
}

#[test]
fn what_the_probes_of_all_nodes_saw_adds_up_once() {
    for seed in 0..30_u64 {
        let mut state = seed;
        let mut random = move |most: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_889);
            (state >> 33) % most
        };
        let mut nodes: Vec<Node> = (1..=3).map(Node::new).collect();
        let (mut log, mut seen) = (Vec::new(), [0_u32; 4]);
        for _ in 0..40 {
            let node = &mut nodes[random(3) as usize];
            match random(6) {
                0..=1 => {
                    let which = random(4) as u16;
                    node.see(&[bad(which)]);
                    seen[usize::from(which)] += 1;
                }
                2 => {
                    let is_cut = random(2) == 0;
                    node.send(&mut log, is_cut);
                    if is_cut {
                        node.restart();
                    }
                }
                3 => node.take(&log, random(3) as i64),
                4 => {
                    let mut own = SignatureWriter::open(node.data.path(), 90).unwrap();
                    // What is in the table is not sent any more: all is, before.
                    if node.part.collect().unwrap().is_none() {
                        own.merge(TODAY).unwrap();
                    }
                }
                _ => node.restart(),
            }
        }
        nodes.iter().for_each(|node| node.send(&mut log, false));
        for node in &mut nodes {
            node.take(&log, 3);
            for (which, times) in seen.iter().enumerate() {
                assert_eq!(node.times(which as u16), *times, "seed {seed}, {which}");
            }
        }
    }
}

#[test]
fn whoever_dies_while_a_batch_is_written_writes_the_rest() {
    let entries = [bad(1), bad(2), bad(3)];
    for written in 0..=entries.len() {
        let mut node = Node::new(1);
        let body = encode(1, 0, &entries);
        let batch = Incoming { node: 2, number: 5, body };
        // As it is on disk when the process was killed after so many entries.
        let mut writer = node.part.writer().unwrap();
        let (generation, before) = writer.position();
        let target = (generation, u32::try_from(before).unwrap());
        let intent = Intent { node: 2, source: (1, 0), entries: 3, target };
        let marks = Marks { epoch: "array/1".to_owned(), ..Marks::default() };
        node.part.write(&Marks { intent: Some(intent), ..marks }).unwrap();
        writer.append(&entries[..written], TODAY).unwrap();
        drop(writer);
        node.restart();
        node.take(std::slice::from_ref(&batch), 0);
        node.restart();
        node.take(&[batch], 9);
        assert_eq!([1, 2, 3].map(|seed| node.times(seed)), [1, 1, 1], "after {written}");
    }
}

#[test]
fn another_array_begins_anew_and_damage_is_passed_over() {
    let mut node = Node::new(1);
    let good = encode(1, 0, &[bad(1)]);
    let number = |number, body| Incoming { node: 2, number, body };
    node.take(&[number(1, vec![1, 1]), number(2, good.clone()), number(3, vec![9])], 0);
    assert_eq!((node.times(1), node.cursors.get(&2)), (1, Some(&3)));
    for at in 0..good.len() {
        assert!(decode(&good[..at]).is_none_or(|batch| batch.entries.is_empty()));
        let mut wrong = good.clone();
        wrong[at] ^= 0x80;
        let _never_panics = decode(&wrong);
    }
    node.part.begin("other/1").unwrap();
    assert_eq!(node.times(1), 0);
}
