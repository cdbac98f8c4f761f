//! Arbitrary bytes as the files of a spool: opening it must not panic, its messages can be read or
//! are refused as damaged, and it accepts messages afterwards.

use std::sync::Arc;
use std::sync::mpsc::channel;

use gauntlet_store::spool::{Medium, Ram};
use gauntlet_store::{Spool, SpoolError, SpoolOptions};

/// Feeds the input as a message file and a state file: its first byte says where the second begins.
pub(crate) fn ask(input: &[u8]) {
    let Some((&first, bytes)) = input.split_first() else { return };
    let (messages, states) = bytes.split_at(bytes.len() * usize::from(first) / 255);
    open(messages, states);
    let headed = |bytes: &[u8]| [b"GNTSPOOL\x01\0\0\0\0\0\0\0", bytes].concat();
    open(&headed(messages), &headed(states));
    // The same as of the format with keys; this one is zeros, with its CRC-32.
    let keyed = [b"GNTSPOOL\x02\0\0\0", &0x190A_55AD_u32.to_le_bytes()[..], &[0; 32]];
    let headed = |bytes: &[u8]| [&keyed.concat(), bytes].concat();
    open(&headed(messages), &headed(states));
}

pub(crate) fn open(messages: &[u8], states: &[u8]) {
    let medium = Arc::new(Ram::default());
    for (name, bytes) in [("0000000000000001.seg", messages), ("0000000000000001.sta", states)] {
        let file = medium.create(name).expect("memory");
        file.append(&[bytes]).expect("memory");
    }
    let options = SpoolOptions { free_bytes_min: 0, ..SpoolOptions::default() };
    let (spool, recovery) = match Spool::open(medium, options) {
        Ok(opened) => opened,
        Err(SpoolError::Newer { .. } | SpoolError::NoSpoolFile { .. }) => return,
        Err(error) => panic!("{error}"),
    };
    for (id, _) in &recovery.messages {
        match spool.read(*id) {
            Ok(_) | Err(SpoolError::Damaged { .. }) => {}
            Err(error) => panic!("{id}: {error}"),
        }
    }
    let id = (0..).find(|id| recovery.messages.iter().all(|m| m.0 != *id)).expect("a new id");
    let (sender, durable) = channel();
    let done = Box::new(move |result: Result<(), SpoolError>| sender.send(result.is_ok()).unwrap());
    spool.put(id, 0, b"meta".to_vec(), bytes::Bytes::from_static(b"body"), done);
    assert_eq!(durable.recv(), Ok(true), "it takes messages");
    assert_eq!(spool.read(id).expect("the new one").body, b"body");
}
