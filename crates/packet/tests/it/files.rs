//! Capture files: both formats, both byte orders, compressed, and damaged.

use std::io::{self, Cursor, Read, Write};

use gauntlet_packet::{Capture, Frame, Link, Time, capture};

/// How numbers are written.
#[derive(Clone, Copy)]
enum Order {
    Little,
    Big,
}

fn number<const N: usize>(order: Order, value: u64) -> [u8; N] {
    let bytes = value.to_be_bytes();
    let mut low: [u8; N] = bytes[8 - N..].try_into().unwrap();
    if matches!(order, Order::Little) {
        low.reverse();
    }
    low
}

fn u32s(order: Order, values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|value| number::<4>(order, u64::from(*value))).collect()
}

fn u16s(order: Order, values: &[u16]) -> Vec<u8> {
    values.iter().flat_map(|value| number::<2>(order, u64::from(*value))).collect()
}

fn pcap(order: Order, magic: u32, snaplen: u32, packets: &[(u32, u32, &[u8])]) -> Vec<u8> {
    let mut file = u32s(order, &[magic]);
    file.extend(u16s(order, &[2, 4]));
    file.extend(u32s(order, &[0, 0, snaplen, 1]));
    for (seconds, fraction, bytes) in packets {
        let len = bytes.len() as u32;
        file.extend(u32s(order, &[*seconds, *fraction, len, len + 1]));
        file.extend_from_slice(bytes);
    }
    file
}

fn block(order: Order, kind: u32, body: &[u8]) -> Vec<u8> {
    let mut padded = body.to_vec();
    padded.resize(body.len().next_multiple_of(4), 0);
    let len = padded.len() as u32 + 12;
    [u32s(order, &[kind, len]), padded, u32s(order, &[len])].concat()
}

fn section(order: Order) -> Vec<u8> {
    let body = [u32s(order, &[0x1a2b_3c4d]), u16s(order, &[1, 0]), vec![0xff; 8]].concat();
    block(order, 0x0a0d_0d0a, &body)
}

fn interface(order: Order, link: u16, options: &[u8]) -> Vec<u8> {
    block(order, 1, &[u16s(order, &[link, 0]), u32s(order, &[0]), options.to_vec()].concat())
}

fn enhanced(order: Order, interface: u32, ticks: u64, bytes: &[u8]) -> Vec<u8> {
    let len = bytes.len() as u32;
    let head = [interface, (ticks >> 32) as u32, ticks as u32, len, len];
    block(order, 6, &[u32s(order, &head), bytes.to_vec()].concat())
}

fn read(file: &[u8]) -> (Vec<Frame>, Option<capture::Damage>) {
    let mut capture = Capture::open(Cursor::new(file.to_vec())).unwrap();
    let mut frames = Vec::new();
    while let Some(frame) = capture.next().unwrap() {
        frames.push(frame);
    }
    assert!(capture.next().unwrap().is_none());
    (frames, capture.damage().cloned())
}

fn time(seconds: i64, micros: u32) -> Time {
    Time { seconds, micros }
}

#[test]
fn pcap_is_read_in_both_orders_and_resolutions() {
    for order in [Order::Little, Order::Big] {
        for (magic, micros) in [(0xa1b2_c3d4, 500), (0xa1b2_3c4d, 0)] {
            let file = pcap(order, magic, 65_535, &[(7, 500, b"one"), (8, 999_999, b"")]);
            let (frames, damage) = read(&file);
            assert_eq!((frames.len(), damage), (2, None));
            assert_eq!(&*frames[0].bytes, b"one");
            assert_eq!((frames[0].number, frames[0].original_len), (1, 4));
            assert_eq!((frames[0].time, frames[0].link), (time(7, micros), Link::Ethernet));
            assert_eq!(frames[1].number, 2);
        }
    }
}

#[test]
fn what_exceeds_the_snap_length_is_cut() {
    let file = pcap(Order::Little, 0xa1b2_c3d4, 4, &[(1, 0, b"longer"), (2, 0, b"next")]);
    let (frames, damage) = read(&file);
    let bytes: Vec<&[u8]> = frames.iter().map(|frame| &*frame.bytes).collect();
    assert_eq!((bytes, damage), (vec![&b"long"[..], b"next"], None));
}

#[test]
fn a_file_that_ends_anywhere_is_read_up_to_there() {
    let file = pcap(Order::Big, 0xa1b2_c3d4, 0, &[(1, 0, b"first"), (2, 0, b"second")]);
    let ends = [24, 24 + 21, file.len()];
    for len in 0..file.len() {
        let part = &file[..len];
        if len < 24 {
            assert!(Capture::open(Cursor::new(part.to_vec())).is_err());
            continue;
        }
        let (frames, damage) = read(part);
        assert_eq!(frames.len(), usize::from(len >= ends[1]));
        assert_eq!(damage.is_none(), ends.contains(&len), "{len}");
        assert!(damage.is_none_or(|damage| damage.frames == frames.len() as u64));
    }
}

#[test]
fn a_length_that_lies_ends_the_file() {
    let mut file = pcap(Order::Little, 0xa1b2_c3d4, 262_144, &[(1, 0, b"first"), (2, 0, b"x")]);
    let at = 24 + 21 + 8;
    file[at..at + 4].copy_from_slice(&4_325_376_u32.to_le_bytes());
    let (frames, damage) = read(&file);
    assert_eq!((frames.len(), damage.unwrap().frames), (1, 1));
}

#[test]
fn pcapng_has_sections_interfaces_and_three_kinds_of_packets() {
    for order in [Order::Little, Order::Big] {
        // Nanoseconds, and an hour later; a power of two.
        let nanos = [
            u16s(order, &[9, 1]),
            vec![9, 0, 0, 0],
            u16s(order, &[14, 8]),
            number::<8>(order, 3600).to_vec(),
            u16s(order, &[0, 0]),
        ]
        .concat();
        let binary = [u16s(order, &[9, 1]), vec![0x8a, 0, 0, 0]].concat();
        let old = [u16s(order, &[1, 0]), u32s(order, &[0, 2_000_001, 3, 9]), b"old".to_vec()];
        let simple = [u32s(order, &[6]), b"simple".to_vec()].concat();
        let file = [
            section(order),
            interface(order, 1, &[]),
            interface(order, 101, &nanos),
            interface(order, 113, &binary),
            enhanced(order, 0, 1_000_002, b"micros"),
            block(order, 5, b"statistics"),
            enhanced(order, 1, 1_500_000_000, b"nanos"),
            enhanced(order, 2, 1536, b"binary"),
            block(order, 2, &old.concat()),
            block(order, 3, &simple),
        ]
        .concat();
        // A second section forgets the interfaces of the first.
        let second =
            [section(order), interface(order, 0, &[]), enhanced(order, 0, 0, b"2")].concat();
        let (frames, damage) = read(&[file, second].concat());
        assert_eq!(damage, None);
        let known: Vec<(Link, Time, &[u8])> =
            frames.iter().map(|frame| (frame.link, frame.time, &*frame.bytes)).collect();
        assert_eq!(
            known,
            [
                (Link::Ethernet, time(1, 2), &b"micros"[..]),
                (Link::Raw, time(3601, 500_000), b"nanos"),
                (Link::LinuxCooked, time(1, 500_000), b"binary"),
                (Link::Raw, time(3600, 2_000), b"old"),
                (Link::Ethernet, time(0, 0), b"simple"),
                (Link::Null, time(0, 0), b"2"),
            ]
        );
    }
}

#[test]
fn damaged_pcapng_is_read_up_to_the_damage() {
    let order = Order::Little;
    let good = [section(order), interface(order, 1, &[]), enhanced(order, 0, 1, b"good")].concat();
    for (bad, reason) in [
        (enhanced(order, 7, 1, b"no such interface"), "a packet block is damaged"),
        (u32s(order, &[6, 0xffff_fff0]), "a block claims to be longer than any can be"),
        (u32s(order, &[6, 13]), "the length of a block is wrong"),
        (u32s(order, &[6, 8]), "the length of a block is wrong"),
        (u32s(order, &[5, 100, 1]), "the file ends within a block"),
        (u32s(order, &[0x0a0d_0d0a, 28, 7, 7]), "the section's byte order is unknown"),
        (block(order, 1, &[]), "an interface description is too short"),
    ] {
        let (frames, damage) = read(&[good.clone(), bad].concat());
        assert_eq!((frames.len(), damage.unwrap().reason), (1, reason));
    }
    for len in 0..good.len() {
        if let Ok(mut capture) = Capture::open(Cursor::new(good[..len].to_vec())) {
            while capture.next().unwrap().is_some() {}
        }
    }
}

#[test]
fn gzip_and_zstd_are_unpacked_on_the_way() {
    let file = pcap(Order::Little, 0xa1b2_c3d4, 0, &[(1, 0, b"one"), (2, 0, &[7; 1000])]);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(&file).unwrap();
    let gzip = gzip.finish().unwrap();
    // Two frames of zstd make one file.
    let zstd = [&file[..50], &file[50..]].map(|part| {
        ruzstd::encoding::compress_to_vec(part, ruzstd::encoding::CompressionLevel::Fastest)
    });
    for packed in [gzip.clone(), zstd.concat()] {
        let (frames, damage) = read(&packed);
        assert_eq!((frames.len(), damage), (2, None));
        assert_eq!(&*frames[1].bytes, [7; 1000]);
    }
    let (frames, damage) = read(&gzip[..gzip.len() - 12]);
    assert!(frames.len() <= 2 && damage.is_some());
}

#[test]
fn what_is_no_capture_is_told_with_its_begin() {
    let error = Capture::open(Cursor::new(b"GET / HTTP/1.1".to_vec())).err().unwrap();
    assert_eq!(error.to_string(), "neither a pcap nor a pcapng file (it begins with \"GET \")");
    assert!(Capture::open(io::empty()).is_err());
}

#[test]
fn other_versions_and_link_types_are_refused() {
    let good = pcap(Order::Little, 0xa1b2_c3d4, 0, &[(1, 0, b"one")]);
    let told = |at: usize, byte: u8| {
        let mut file = good.clone();
        file[at] = byte;
        Capture::open(Cursor::new(file)).err().map(|error| error.to_string())
    };
    let version = told(4, 3).expect("version 3.4");
    assert_eq!(version, "a pcap file of version 3.4; versions 2.x are read");
    assert_eq!(told(6, 3), None, "version 2.3");
    let link = told(20, 105).expect("802.11");
    let begin = "its frames are of link type 105 (802.11), which is not decoded; what is: Ethernet";
    assert!(link.starts_with(begin), "{link}");
    assert_eq!(told(20, 101), None);
}

/// Gives one byte at a time, and then fails.
struct Slow(Cursor<Vec<u8>>);

impl Read for Slow {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = buffer.len().min(1);
        match self.0.read(&mut buffer[..len])? {
            0 => Err(io::Error::other("the disk is gone")),
            read => Ok(read),
        }
    }
}

#[test]
fn a_reader_that_fails_is_no_end_of_the_file() {
    let file = pcap(Order::Little, 0xa1b2_c3d4, 0, &[(1, 0, b"one")]);
    let mut capture = Capture::open(Slow(Cursor::new(file))).unwrap();
    assert_eq!(&*capture.next().unwrap().unwrap().bytes, b"one");
    assert!(capture.next().is_err());
    assert!(capture.next().unwrap().is_none());
}
