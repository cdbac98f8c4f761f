//! Small and large messages beside each other.

use std::sync::Condvar;
use std::sync::atomic::AtomicBool;

use super::fault::{Fault, Faulty};
use super::tests::{put, small, wait_until};
use super::*;

/// Large from 100 bytes on.
fn open(medium: &Faulty) -> (Spool, Recovery) {
    let options = SpoolOptions { large_bytes_min: 100, ..small() };
    Spool::open(Arc::new(medium.clone()), options).unwrap()
}

const LARGE: &[u8] = &[b'x'; 500];

/// Where a thread is stopped.
#[derive(Default)]
struct Gate {
    is_open: Mutex<bool>,
    opened: Condvar,
    is_reached: AtomicBool,
}

/// Stops a thread of this name whenever it changes the medium, until it is let go.
fn hold(medium: &Faulty, thread: &'static str) -> Arc<Gate> {
    let gate = Arc::<Gate>::default();
    let held = gate.clone();
    medium.observe(move || {
        if std::thread::current().name() == Some(thread) {
            held.is_reached.store(true, Ordering::Relaxed);
            let is_open = held.is_open.lock().unwrap();
            drop(held.opened.wait_while(is_open, |is_open| !*is_open).unwrap());
        }
    });
    gate
}

fn let_go(gate: &Gate) {
    *gate.is_open.lock().unwrap() = true;
    gate.opened.notify_all();
}

/// Puts a message and does not wait.
fn begin(spool: &Spool, id: u64, body: &'static [u8]) -> std::sync::mpsc::Receiver<bool> {
    let (sender, durable) = channel();
    let done = Box::new(move |result: Result<(), SpoolError>| sender.send(result.is_ok()).unwrap());
    spool.put(id, 0, Vec::new(), Bytes::from_static(body), done);
    durable
}

#[test]
fn a_small_message_does_not_wait_for_a_large_one() {
    for (thread, held, free) in
        [("spool-large", LARGE, &b"small"[..]), ("spool", &b"small"[..], LARGE)]
    {
        let medium = Faulty::default();
        let (spool, _) = open(&medium);
        let gate = hold(&medium, thread);
        let waiting = begin(&spool, 1, held);
        put(&spool, 2, free).unwrap();
        assert!(wait_until(|| gate.is_reached.load(Ordering::Relaxed)), "{thread}: not begun");
        assert!(waiting.try_recv().is_err(), "{thread}: it is being written");
        assert!(matches!(put(&spool, 1, free), Err(SpoolError::Taken(1))), "{thread}");
        let_go(&gate);
        assert_eq!(waiting.recv(), Ok(true));
        let (_, recovery) = open(&medium.power_cut(|_| 0));
        let ids: Vec<u64> = recovery.messages.iter().map(|(id, _)| *id).collect();
        assert_eq!((ids, recovery.damaged), (vec![1, 2], 0));
    }
}

#[test]
fn the_newest_file_of_each_lane_may_be_torn_and_none_is_damaged() {
    let medium = Faulty::default();
    let (spool, _) = open(&medium);
    // Several segments of small ones, so that the large one's is older.
    put(&spool, 1, LARGE).unwrap();
    for id in 2..80 {
        put(&spool, id, &[b's'; 60]).unwrap();
    }
    drop(spool);
    let newest = |lane: Lane| {
        let names = medium.list().unwrap();
        let mut numbers: Vec<u64> = names.iter().filter_map(|n| segment_of(n, MESSAGES)).collect();
        numbers.sort_unstable();
        numbers.into_iter().rfind(|number| Lane::of_segment(*number) == lane).unwrap()
    };
    assert!(newest(Lane::Small) > 1, "{}", newest(Lane::Small));
    for lane in Lane::ALL {
        let torn = medium.power_cut(|_| 0);
        let name = file_name(newest(lane), MESSAGES);
        torn.open(&name).unwrap().append(&[b"torn"]).unwrap();
        torn.open(&name).unwrap().sync().unwrap();
        let (spool, recovery) = open(&torn);
        assert_eq!((recovery.torn_bytes, recovery.damaged), (4, 0), "{lane:?}");
        assert_eq!(recovery.messages.len(), 79, "{lane:?}");
        // And what follows stands behind what was valid.
        put(&spool, 100, LARGE).unwrap();
        put(&spool, 101, b"small").unwrap();
        drop(spool);
        assert_eq!(open(&torn).1.messages.len(), 81, "{lane:?}");
    }
}

#[test]
fn each_lane_empties_and_removes_its_segments() {
    let medium = Faulty::default();
    let (spool, _) = open(&medium);
    for id in 0..240 {
        put(&spool, id, if id % 2 == 0 { LARGE } else { &[b's'; 80] }).unwrap();
    }
    spool.set_state(0, 77, b"deferred");
    for id in 2..240 {
        spool.done(id);
    }
    spool.flush();
    // A segment of each lane, which may be the open one: of some 90,000 bytes. What comes at once
    // is written to one, even if that is more than a segment should have.
    assert!(wait_until(|| spool.usage().bytes <= 20_000), "{:?}", spool.usage());
    assert_eq!(spool.read(0).unwrap().state.as_deref(), Some(&b"deferred"[..]));
    drop(spool);
    let (spool, recovery) = open(&medium.power_cut(|_| 0));
    assert_eq!(recovery.messages, [(0, 77), (1, 1)]);
    spool.done(0);
    spool.done(1);
    spool.flush();
    assert!(wait_until(|| spool.usage().segments == 0), "{:?}", spool.usage());
}

/// Where one lane cannot write, the spool says so, until that lane can.
#[test]
fn a_failure_of_one_lane_is_told_while_the_other_works() {
    let medium = Faulty::default();
    let clock = Clock::manual(0);
    let options = SpoolOptions { large_bytes_min: 100, ..small() };
    let (spool, _) =
        Spool::open_with_clock(Arc::new(medium.clone()), options, clock.clone()).unwrap();
    medium.set_fault(Fault::NoSpace);
    put(&spool, 1, LARGE).unwrap_err();
    medium.set_fault(Fault::None);
    put(&spool, 2, b"small").unwrap();
    assert!(spool.last_failure().is_some());
    clock.advance(Duration::from_secs(2));
    assert!(wait_until(|| spool.last_failure().is_none()));
    put(&spool, 1, LARGE).unwrap();
}
