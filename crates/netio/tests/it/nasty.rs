//! Blocks, control messages and netlink messages that are cut, or lie about their lengths.

use gauntlet_netio::parse;
use gauntlet_packet::{Link, Time};

use crate::bytes::feed;

/// A block of a ring with these frames, as the kernel lays it out (`linux/if_packet.h`).
fn block(frames: &[&[u8]], status: u32) -> Vec<u8> {
    let mut block = vec![0; 48];
    block[8..12].copy_from_slice(&1u32.to_ne_bytes());
    block[12..16].copy_from_slice(&(frames.len() as u32).to_ne_bytes());
    block[16..20].copy_from_slice(&48u32.to_ne_bytes());
    for (number, frame) in frames.iter().enumerate() {
        let len = (96 + frame.len()).next_multiple_of(16);
        let next = if number + 1 == frames.len() { 0 } else { len as u32 };
        let mut entry = vec![0; len];
        let words = [next, 1_700_000_000, 5_000, frame.len() as u32, frame.len() as u32, status];
        for (place, word) in entry.chunks_mut(4).zip(words) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        entry[24..26].copy_from_slice(&96u16.to_ne_bytes());
        // The tag's number and type.
        entry[32..36].copy_from_slice(&7u32.to_ne_bytes());
        entry[36..38].copy_from_slice(&0x8100u16.to_ne_bytes());
        entry[96..96 + frame.len()].copy_from_slice(frame);
        block.extend(entry);
    }
    block
}

/// Every prefix, and every byte changed.
fn torment(bytes: &[u8]) {
    for end in 0..bytes.len() {
        feed(&bytes[..end]);
    }
    let mut changed = bytes.to_vec();
    for place in 0..bytes.len() {
        for value in [0, 1, 0x7f, 0xff] {
            changed[place] = value;
            feed(&changed);
        }
        changed[place] = bytes[place];
    }
}

#[test]
fn frames_of_a_block_are_read_with_time_tag_and_checksum() {
    let frames: [&[u8]; 2] = [&[1; 60], &[2; 90]];
    let mut found = Vec::new();
    // TP_STATUS_USER, CSUMNOTREADY, VLAN_VALID, VLAN_TPID_VALID.
    let bytes = block(&frames, 1 | 8 | 16 | 64);
    parse::walk_block(&bytes, Link::Ethernet, false, &mut |received| found.push(received));
    assert_eq!(found.len(), 2);
    let (first, second) = (&found[0], &found[1]);
    assert_eq!(first.frame.time, Time { seconds: 1_700_000_000, micros: 5 });
    assert!(first.checksums_trusted);
    assert_eq!(first.frame.bytes[12..16], [0x81, 0, 0, 7]);
    assert_eq!((second.frame.bytes.len(), second.frame.original_len), (94, 94));
    torment(&bytes);
}

#[test]
fn a_block_that_lies_about_its_frames_ends_there() {
    let mut bytes = block(&[&[1; 60], &[2; 60]], 1);
    bytes[12..16].copy_from_slice(&u32::MAX.to_ne_bytes());
    let mut count = 0;
    parse::walk_block(&bytes, Link::Ethernet, false, &mut |_| count += 1);
    assert_eq!(count, 2);
    // The second frame says that it is longer than the block.
    let second = 48 + 160;
    bytes[second + 12..second + 16].copy_from_slice(&u32::MAX.to_ne_bytes());
    count = 0;
    parse::walk_block(&bytes, Link::Ethernet, false, &mut |_| count += 1);
    assert_eq!(count, 1);
}

#[test]
fn control_messages_and_netlink_are_read_whatever_they_say() {
    let message = |level: i32, kind: i32, data: &[u8]| {
        let mut bytes = (16 + data.len() as u64).to_ne_bytes().to_vec();
        bytes.extend(level.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(data);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes
    };
    let mut beside = [0u8; 20];
    beside[0] = 16;
    beside[16] = 9;
    // SCM_TIMESTAMPNS of SOL_SOCKET, PACKET_AUXDATA of SOL_PACKET.
    let time = [5u64.to_ne_bytes(), 7_000u64.to_ne_bytes()].concat();
    let both = [message(1, 35, &time), message(263, 8, &beside)].concat();
    let read = parse::control(&both);
    assert_eq!(read.time, Some(Time { seconds: 5, micros: 7 }));
    assert_eq!(read.tag, Some([0x81, 0, 0, 9]));
    torment(&both);

    let mut packet = vec![0; 20];
    packet[4..6].copy_from_slice(&0x300u16.to_ne_bytes());
    for (kind, value) in [(1u16, [0u8; 8].as_slice()), (10, &[0x45; 40]), (14, &[0, 0, 0, 1])] {
        packet.extend((4 + value.len() as u16).to_ne_bytes());
        packet.extend(kind.to_ne_bytes());
        packet.extend(value);
    }
    let len = packet.len() as u32;
    packet[..4].copy_from_slice(&len.to_ne_bytes());
    let mut found = 0;
    parse::packets(&packet, &mut |packet| {
        assert_eq!(packet.payload, [0x45; 40]);
        found += 1;
    });
    assert_eq!(found, 1);
    torment(&packet);
}
