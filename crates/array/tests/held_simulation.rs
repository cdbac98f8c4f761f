//! Shipping of held mail with failures at every step, from seeds: a failing one is printed, and
//! `GAUNTLET_SEEDS=17..18` runs it alone.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use gauntlet_array::HeldShipper;
use gauntlet_array::bodies;
use gauntlet_array::held_batch::{HeldBatch, HeldSink};
use gauntlet_array::nodes::Identity;
use gauntlet_array::{ArrayError, bodies::Span};
use gauntlet_store::Quarantine;
use gauntlet_store::quarantine::{HeldQuery, State};

use crate::bodies_walk::Random;
use crate::held::{all, body, item};

/// A row of the simulated index.
#[derive(Debug, Clone)]
struct Row {
    state: State,
    body: Option<(i64, Span)>,
}

/// The state of a simulated object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Writing,
    Whole,
    Dropped,
}

/// Database and object store in memory, with failures.
struct Simulated {
    rows: BTreeMap<String, Row>,
    objects: BTreeMap<i64, (String, Phase)>,
    stored: BTreeMap<String, Bytes>,
    random: Random,
    /// One in so many calls fails; 0 for none.
    fails_one_in: usize,
}

impl Simulated {
    /// A failure before the call has an effect, or after it, when only the answer is lost.
    fn fails(&mut self) -> bool {
        self.fails_one_in > 0 && self.random.below(self.fails_one_in) == 0
    }

    fn failure() -> ArrayError {
        ArrayError::Objects { server: "simulated".to_owned(), cause: "failed".to_owned() }
    }

    /// What [`gauntlet_array::held_sweep`] does; `all` takes objects that are being written, too.
    fn sweep(&mut self, all: bool) {
        let named: Vec<i64> = self.rows.values().filter_map(|r| Some(r.body?.0)).collect();
        for (number, (name, phase)) in &mut self.objects {
            let old = *phase == Phase::Writing && all;
            if old || (*phase == Phase::Whole && !named.contains(number)) {
                *phase = Phase::Dropped;
                self.stored.remove(name);
            }
        }
    }

    fn write(&mut self, batch: &HeldBatch) -> Result<(), ArrayError> {
        let object = batch.object.map(|(number, _)| number);
        if let Some(number) = object {
            let (name, phase) = self.objects.get_mut(&number).expect("announced");
            if *phase != Phase::Writing {
                return Err(Self::failure());
            }
            assert!(self.stored.contains_key(name), "no row before its object is durable");
            *phase = Phase::Whole;
        }
        for row in &batch.new {
            let body = row.body.map(|span| (object.expect("a body has an object"), span));
            let entered = Row { state: row.held.state, body };
            self.rows.insert(row.held.item.id.clone(), entered);
        }
        for change in &batch.changed {
            let row = self.rows.get_mut(&change.id).expect("known");
            row.state = change.state;
            row.body = row.body.filter(|_| change.has_body);
        }
        self.rows.retain(|id, _| !batch.forgotten.contains(id));
        Ok(())
    }
}

impl HeldSink for Simulated {
    async fn known(&mut self, ids: &[String]) -> Result<BTreeMap<String, bool>, ArrayError> {
        if self.fails() {
            return Err(Self::failure());
        }
        let known =
            ids.iter().filter_map(|id| Some((id.clone(), self.rows.get(id)?.body.is_some())));
        Ok(known.collect())
    }

    async fn announce(&mut self, name: &str) -> Result<i64, ArrayError> {
        let number = self.objects.len() as i64;
        if self.fails() {
            return Err(Self::failure());
        }
        self.objects.insert(number, (name.to_owned(), Phase::Writing));
        if self.fails() { Err(Self::failure()) } else { Ok(number) }
    }

    async fn put(&mut self, name: &str, object: Bytes) -> Result<(), ArrayError> {
        if self.fails() {
            return Err(Self::failure());
        }
        assert!(self.stored.insert(name.to_owned(), object).is_none(), "a name is used once");
        if self.fails_one_in > 0 {
            // A manager comes by, now and then so late that it takes this one for an orphan.
            let late = self.random.below(20) == 0;
            self.sweep(late);
        }
        if self.fails() { Err(Self::failure()) } else { Ok(()) }
    }

    async fn commit(&mut self, batch: &HeldBatch) -> Result<(), ArrayError> {
        if self.fails() {
            return Err(Self::failure());
        }
        self.write(batch)?;
        if self.fails() { Err(Self::failure()) } else { Ok(()) }
    }
}

/// What happens on the node: mail is held, released, deleted, forgotten.
fn work(quarantine: &Quarantine, random: &mut Random, next: &mut i64) {
    for _ in 0..random.below(4) {
        let same = random.below(4) == 0;
        let bytes = if same { b"the same".to_vec() } else { body("one", *next) };
        quarantine.put(&item("one", *next), &bytes).unwrap();
        *next += 1;
    }
    let some = random.below(usize::try_from(*next).unwrap());
    let id = format!("one-{some}-q");
    match random.below(4) {
        0 => drop(quarantine.delete(&id, "ada", 5).unwrap()),
        1 => {
            let oldest = item("one", some as i64 / 4).received_ms;
            quarantine.retain(oldest, None, 6).unwrap();
        }
        _ => {}
    }
}

/// The array has what the node has, each body is what it was, and nothing is kept in vain.
fn check(seed: u64, quarantine: &Quarantine, array: &Simulated) {
    let own = all(quarantine, HeldQuery { limit: 500, ..HeldQuery::default() });
    let ids: Vec<&str> = array.rows.keys().map(String::as_str).collect();
    let mut expected: Vec<&str> = own.iter().map(|h| h.item.id.as_str()).collect();
    expected.sort_unstable();
    assert_eq!(ids, expected, "seed {seed}");
    for held in &own {
        let row = &array.rows[&held.item.id];
        assert_eq!(row.state, held.state, "seed {seed}");
        let read = row.body.map(|(number, span)| {
            let (name, phase) = &array.objects[&number];
            assert_eq!(*phase, Phase::Whole, "seed {seed}");
            let at = |n: u64| usize::try_from(n).unwrap();
            let record = &array.stored[name][at(span.offset)..at(span.offset + span.bytes)];
            bodies::open(record, name, None).unwrap()
        });
        assert_eq!(read, quarantine.body(&held.item.id).unwrap(), "seed {seed}");
    }
    let named: std::collections::BTreeSet<i64> =
        array.rows.values().filter_map(|row| Some(row.body?.0)).collect();
    assert_eq!(array.stored.len(), named.len(), "seed {seed}: an object that nobody needs");
}

async fn simulate(seed: u64) {
    let folder = tempfile::tempdir().unwrap();
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut quarantine = Arc::new(Quarantine::open(folder.path()).unwrap());
    let own =
        Identity { name: "one".to_owned(), identity: format!("{seed:032x}"), group: String::new() };
    let mut array = Simulated {
        rows: BTreeMap::new(),
        objects: BTreeMap::new(),
        stored: BTreeMap::new(),
        random: Random(seed | 1),
        fails_one_in: 2 + random.below(8),
    };
    let (mut shipper, mut next) = (HeldShipper::new(quarantine.clone(), &own), 0);
    for _ in 0..10 {
        work(&quarantine, &mut random, &mut next);
        let _some_fail = shipper.step_to(&mut array).await;
        match random.below(12) {
            // The node is restarted; it leaves the array, and comes back.
            0 => {
                drop((shipper, quarantine));
                quarantine = Arc::new(Quarantine::open(folder.path()).unwrap());
                shipper = HeldShipper::new(quarantine.clone(), &own);
            }
            1 => {
                quarantine.end_feed().unwrap();
                shipper = HeldShipper::new(quarantine.clone(), &own);
            }
            _ => {}
        }
    }
    // What retention removed while no change was noted is left to the sweep of old rows.
    array.fails_one_in = 0;
    while shipper.step_to(&mut array).await.unwrap().is_some() {}
    let gone = |id: &String| quarantine.get(id).unwrap().is_none();
    array.rows.retain(|id, _| !gone(id));
    array.sweep(true);
    check(seed, &quarantine, &array);
}

fn seeds() -> std::ops::Range<u64> {
    let Ok(text) = std::env::var("GAUNTLET_SEEDS") else { return 1..101 };
    let (first, last) = text.split_once("..").unwrap();
    first.parse().unwrap()..last.parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_at_every_step_lose_and_double_nothing() {
    for seed in seeds() {
        simulate(seed).await;
    }
}
