//! Random torn and corrupt packs from a fixed seed; the fuzz target `pack_reader` does the same for
//! longer.

use std::sync::Arc;

use gauntlet_store::packs::{Kind, NewRecord, PackOptions};
use gauntlet_store::spool::{Medium, Ram};
use gauntlet_store::{ContentHash, Packs};

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

fn sound() -> Vec<u8> {
    let medium = Arc::new(Ram::default());
    let packs = Packs::on(medium.clone(), PackOptions::default());
    for n in 1..=6 {
        let payload = vec![b'x'; 40 * n];
        let hash = ContentHash::of(&payload);
        let record = NewRecord { kind: Kind::Body, is_sealed: false, hash, payload: &payload };
        packs.append("a day", &[record, NewRecord { kind: Kind::Entry, ..record }]).unwrap();
    }
    let file = medium.open("0000000000000001.pack").unwrap();
    let mut bytes = vec![0; usize::try_from(file.size().unwrap()).unwrap()];
    file.read_at(&mut bytes, 0).unwrap();
    bytes
}

#[test]
fn torn_and_corrupt_packs_are_read_or_refused() {
    let sound = sound();
    let mut random = Random(0x6761_756e_746c_6574);
    for _ in 0..400 {
        let mut file = sound.clone();
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
        crate::pack_bytes::ask(&file);
    }
}
