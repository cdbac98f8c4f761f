//! Arbitrary bytes as a pack: reading it must not panic, its records can be read or are refused as
//! damaged, and packs are written beside it afterwards.

use std::sync::Arc;

use gauntlet_store::packs::{Kind, Location, NewRecord, PackOptions};
use gauntlet_store::spool::{Medium, Ram};
use gauntlet_store::{ContentHash, Packs, StoreError};

/// Feeds the input as a pack.
pub(crate) fn ask(input: &[u8]) {
    let medium = Arc::new(Ram::default());
    let file = medium.create("0000000000000001.pack").expect("memory");
    file.append(&[input]).expect("memory");
    let packs = Packs::on(medium, PackOptions::default());
    let found = match packs.scan(1, 0) {
        Ok(found) => found.expect("it is there"),
        Err(StoreError::Newer { .. }) => return,
        Err(error) => panic!("{error}"),
    };
    assert!(
        found.valid_bytes + found.torn_bytes == input.len() as u64,
        "all bytes are accounted for"
    );
    for (head, at) in &found.records {
        let (again, payload) = packs.read(*at).expect("what was found is valid").expect("there");
        assert!(again == *head && payload.len() == head.length as usize);
    }
    // An index that is wrong.
    for offset in (0..input.len() as u64 + 100).step_by(61) {
        match packs.read(Location { pack: 1, offset, bytes: 64 + offset % 7 }) {
            Ok(_) | Err(StoreError::Damaged { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    let payload = b"it takes more";
    let hash = ContentHash::of(payload);
    let record = NewRecord { kind: Kind::Body, is_sealed: false, hash, payload };
    let at = packs.append("a", &[record]).expect("memory")[0];
    assert_eq!(packs.read(at).expect("sound").expect("there").1, payload);
}
