//! The fuzz target's inputs without a fuzzer: a real pack, every cut and many changed bytes.

use gauntlet_array::pack::{Effort, Layout, pack};
use gauntlet_store::log::{Cursor, LoggedMessage};

use crate::logs::{DAY, record};
use crate::pack_bytes::read;

#[test]
fn damaged_packs_are_refused_or_read() {
    let message = |n: i64| LoggedMessage {
        cursor: Cursor((DAY + n) * 4096),
        record: record("one", n, DAY + n),
        events: Vec::new(),
        node: String::new(),
    };
    let messages: Vec<LoggedMessage> = (0..12).map(message).collect();
    for layout in [Layout::Records, Layout::Columns] {
        let packs = pack(&messages, layout, Effort::Fast).unwrap();
        assert_eq!(packs[0].layout(), layout);
        changed(&packs[0].body);
    }
}

fn changed(body: &[u8]) {
    (0..body.len()).for_each(|end| read(&body[..end]));
    // What is in the frame, changed before it is compressed again.
    let mut plain = Vec::with_capacity(1 << 20);
    zstd_safe::decompress(&mut plain, &body[1..]).unwrap();
    for at in (0..plain.len()).step_by(7) {
        for bit in [0x01, 0x80, 0xff] {
            let mut wrong = plain.clone();
            wrong[at] ^= bit;
            let mut frame = Vec::with_capacity(zstd_safe::compress_bound(wrong.len()));
            zstd_safe::compress(&mut frame, &wrong, 1).unwrap();
            frame.insert(0, body[0]);
            read(&frame);
        }
    }
}
