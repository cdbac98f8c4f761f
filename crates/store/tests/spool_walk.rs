//! Random torn and corrupt spool files from a fixed seed; the fuzz target `spool_reader` does the
//! same for longer.

use std::sync::Arc;
use std::sync::mpsc::channel;

use gauntlet_store::spool::{Medium, Ram};
use gauntlet_store::{Spool, SpoolOptions};

/// xorshift64*: small, and the same on every platform.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        usize::try_from(self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) % n.max(1) as u64).unwrap()
    }
}

/// Bytes of a file header.
const HEAD: usize = 48;

/// The files of a spool with some messages and states.
fn sound() -> (Vec<u8>, Vec<u8>) {
    let medium = Arc::new(Ram::default());
    let options = SpoolOptions { free_bytes_min: 0, ..SpoolOptions::default() };
    let (spool, _) = Spool::open(medium.clone(), options).unwrap();
    for id in 1..=6u64 {
        let (sender, durable) = channel();
        let done = Box::new(move |result: Result<(), _>| sender.send(result.is_ok()).unwrap());
        let body = vec![b'x'; 40 * usize::try_from(id).unwrap()].into();
        spool.put(id, 9, b"{}".to_vec(), body, done);
        assert_eq!(durable.recv(), Ok(true));
        spool.set_state(id, 77, b"[1,2,3]");
    }
    spool.done(4);
    spool.set_due(2, i64::MAX);
    spool.flush();
    let read = |suffix: &str| {
        let name = medium.list().unwrap().into_iter().find(|n| n.ends_with(suffix)).unwrap();
        let file = medium.open(&name).unwrap();
        let mut bytes = vec![0; usize::try_from(file.size().unwrap()).unwrap()];
        file.read_at(&mut bytes, 0).unwrap();
        assert!(bytes.starts_with(b"GNTSPOOL\x02"));
        bytes
    };
    (read(".seg"), read(".sta"))
}

#[test]
fn torn_and_corrupt_files_are_opened_or_refused() {
    let (messages, states) = sound();
    let mut random = Random(0x6761_756e_746c_6574);
    for _ in 0..400 {
        let (mut messages, mut states) = (messages.clone(), states.clone());
        for whole in [&mut messages, &mut states] {
            // The file header is damaged less often than the rest.
            let head = if random.below(8) == 0 { 0 } else { HEAD };
            let mut file = whole.split_off(head);
            match random.below(4) {
                0 => file.truncate(random.below(file.len())),
                1 => {
                    let (at, count) = (random.below(file.len()), random.below(64));
                    file.splice(at..at, vec![u8::try_from(random.below(256)).unwrap(); count]);
                }
                2 => {
                    let (from, to) = (random.below(file.len()), random.below(file.len()));
                    let piece = file[from.min(to)..from.max(to)].to_vec();
                    file.extend(piece);
                }
                _ => {}
            }
            for _ in 0..random.below(4) {
                let at = random.below(file.len());
                if let Some(byte) = file.get_mut(at) {
                    *byte ^= 1 << random.below(8);
                }
            }
            whole.extend(file);
        }
        let total = messages.len() + states.len();
        let share = (messages.len() * 255).checked_div(total).unwrap_or(0);
        let input = [&[u8::try_from(share).unwrap()], &messages[..], &states[..]].concat();
        crate::spool_bytes::ask(&input);
        crate::spool_bytes::open(&messages, &states);
    }
}
