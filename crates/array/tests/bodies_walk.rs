//! Random torn and corrupt records of bodies from a fixed seed; the fuzz target `held_object` does
//! the same for longer.

use gauntlet_array::bodies::{self, BodyBatch, Span};
use gauntlet_store::ContentHash;
use gauntlet_store::quarantine::StoredBody;

/// xorshift64*: small, and the same on every platform.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        usize::try_from(self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) % n.max(1) as u64).unwrap()
    }
}

fn records() -> Vec<Vec<u8>> {
    let mut batch = BodyBatch::default();
    let sealed = [&b"GNTLSEAL\x01"[..], &[7; 60]].concat();
    let bodies = [
        StoredBody::Clear(b"short".to_vec()),
        StoredBody::Clear(b"long ".repeat(100)),
        StoredBody::Sealed(sealed),
    ];
    let mut number = 0;
    let mut span = |body: &StoredBody| {
        number += 1;
        let hash = match body {
            StoredBody::Clear(clear) => ContentHash::of(clear),
            StoredBody::Sealed(_) => ContentHash::of(&[number]),
        };
        batch.push(hash, body).unwrap()
    };
    let spans: Vec<Span> = bodies.iter().map(&mut span).collect();
    let object = batch.finish();
    let at = |n: u64| usize::try_from(n).unwrap();
    spans.iter().map(|s| object[at(s.offset)..at(s.offset + s.bytes)].to_vec()).collect()
}

#[test]
fn torn_and_corrupt_records_are_refused() {
    let mut random = Random(0x6761_756e_746c_6574);
    for record in records() {
        for end in 0..record.len() {
            assert!(bodies::open(&record[..end], "x", None).is_err(), "cut at {end}");
            crate::bodies_bytes::ask(&record[..end]);
        }
        for _ in 0..3_000 {
            let mut wrong = record.clone();
            for _ in 0..=random.below(3) {
                let at = random.below(wrong.len());
                wrong[at] ^= 1 << random.below(8);
            }
            assert!(wrong == record || bodies::open(&wrong, "x", None).is_err());
            crate::bodies_bytes::ask(&wrong);
        }
    }
}

#[test]
fn a_frame_that_claims_too_much_is_refused_before_it_is_unfolded() {
    // A frame with the single-segment flag and a content size of eight bytes.
    let mut rest = vec![2];
    rest.extend_from_slice(&[0; 32]);
    rest.extend_from_slice(&[0x28, 0xb5, 0x2f, 0xfd, 0xe0]);
    rest.extend_from_slice(&(1_u64 << 40).to_le_bytes());
    let mut record = blake3::hash(&rest).as_bytes()[..16].to_vec();
    record.extend_from_slice(&rest);
    let error = bodies::open(&record, "x", None).unwrap_err().to_string();
    assert!(error.contains("claims 1099511627776 bytes"), "{error}");
}
