//! Fragments to packets: every policy, any order, and bounds.

use gauntlet_packet::{
    Counter, Decoder, Frame, HostPolicies, Link, Packet, PacketSource, Settings, Transport,
};

use crate::build::{ethernet, events, frame, hex, ipv4, ipv4_with, ipv6, tcp, udp, vlan};
use crate::bytes::check;

/// Which version of IP the fragments are of.
#[derive(Clone, Copy, Debug)]
enum Version {
    Four,
    Six,
}

/// A fragment of a packet of protocol 200.
fn part(version: Version, offset: usize, more: bool, data: &[u8]) -> Vec<u8> {
    let units = (offset / 8) as u16;
    match version {
        Version::Four => ipv4_with(200, units | (u16::from(more) << 13), &[], data),
        Version::Six => {
            let field = (units << 3) | u16::from(more);
            let header = [&[200, 0][..], &field.to_be_bytes(), &[0, 0, 0, 9]].concat();
            ipv6(44, &[&header[..], data].concat())
        }
    }
}

fn settings(policy: &str) -> Settings {
    let mut settings = Settings { hosts: HostPolicies::none(), ..Settings::default() };
    assert!(settings.set(&format!("host-os-policy.{policy}.0"), "0.0.0.0/0"));
    assert!(settings.set(&format!("host-os-policy.{policy}.1"), "::/0"));
    settings
}

fn feed(decoder: &mut Decoder, frame: &Frame) -> Vec<Packet> {
    let mut packets = Vec::new();
    decoder.decode(frame, &mut packets);
    packets.iter().for_each(check);
    packets
}

/// The payload of the reassembled packet, and the events of the fragment.
fn add(decoder: &mut Decoder, bytes: &[u8]) -> (Option<Vec<u8>>, Vec<&'static str>) {
    let packets = feed(decoder, &frame(Link::Raw, bytes));
    let whole = packets.iter().find(|packet| packet.source == PacketSource::Defragmented);
    let payload = whole.map(|packet| {
        let ip = packet.ip.as_ref().unwrap();
        assert!(!ip.is_fragment() && ip.protocol == 200 && ip.checksum_ok);
        packet.bytes[ip.payload.clone()].to_vec()
    });
    (payload, events(packets.last().unwrap()))
}

const POLICIES: [&str; 7] = ["first", "last", "bsd", "bsd-right", "linux", "windows", "solaris"];

/// The fragments of the study that the policies come from: offset, letter, length.
const STUDY: [(usize, u8, usize); 17] = [
    (0, b'A', 24),
    (32, b'B', 16),
    (48, b'C', 24),
    (80, b'D', 8),
    (104, b'E', 16),
    (120, b'F', 24),
    (144, b'G', 16),
    (160, b'H', 16),
    (176, b'I', 8),
    (8, b'J', 32),
    (48, b'K', 24),
    (72, b'L', 24),
    (96, b'M', 24),
    (128, b'N', 8),
    (152, b'O', 8),
    (160, b'P', 8),
    (176, b'Q', 16),
];

#[test]
fn each_system_puts_the_fragments_of_the_study_together_in_its_own_way() {
    for (policy, expected) in [
        ("bsd", "AAAJJBCCCLLLMMMFFFGGHHIQ"),
        ("linux", "AAAJJBKKKLLLMMMFFFGGPHQQ"),
        ("windows", "AAAJBBCCCLLLMEEFFFGGHHIQ"),
        ("solaris", "AAAJBBCCCLLLMMMFFFGGHHIQ"),
        ("first", "AAAJBBCCCLDLMEEFFFGGHHIQ"),
        ("last", "AJJJJBKKKLLLMMMFNFGOPHQQ"),
    ] {
        for version in [Version::Four, Version::Six] {
            let mut decoder = Decoder::new(settings(policy));
            let (last, others) = STUDY.split_last().unwrap();
            for (offset, letter, len) in others {
                let piece = part(version, *offset, true, &vec![*letter; *len]);
                assert_eq!(add(&mut decoder, &piece).0, None);
            }
            let piece = part(version, last.0, false, &vec![last.1; last.2]);
            let whole = add(&mut decoder, &piece).0.unwrap();
            let letters: String = whole.chunks(8).map(|unit| char::from(unit[0])).collect();
            assert_eq!(letters, expected, "{policy} {version:?}");
        }
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            items.swap(at, self.below(at + 1));
        }
    }
}

/// The model: a packet is whole once its end is known and every byte of it was there.
struct Model {
    seen: Vec<bool>,
    end: Option<usize>,
}

impl Model {
    fn add(&mut self, offset: usize, len: usize, more: bool) -> bool {
        self.seen[offset..offset + len].fill(true);
        if !more {
            self.end = Some(offset + len);
        }
        self.end.is_some_and(|end| self.seen[..end].iter().all(|seen| *seen))
    }
}

#[test]
fn fragments_in_any_order_and_sent_twice_make_the_packet_that_was_sent() {
    let mut random = Random(0x1234_5678_9abc_def1);
    for round in 0..3000 {
        let policy = POLICIES[round % POLICIES.len()];
        let version = if random.below(2) == 0 { Version::Four } else { Version::Six };
        let sent: Vec<u8> = (0..1 + random.below(300)).map(|at| at as u8 ^ 0x5a).collect();
        let mut pieces = Vec::new();
        let mut at = 0;
        while at < sent.len() {
            let end = (at + 8 * (1 + random.below(6))).min(sent.len());
            pieces.push((at, end));
            at = end;
        }
        if pieces.len() == 1 {
            continue;
        }
        for _ in 0..random.below(3) {
            let again = pieces[random.below(pieces.len())];
            pieces.push(again);
        }
        random.shuffle(&mut pieces);
        let mut decoder = Decoder::new(settings(policy));
        let mut model = Model { seen: vec![false; sent.len()], end: None };
        for (start, end) in pieces {
            let more = end < sent.len();
            let (whole, _) = add(&mut decoder, &part(version, start, more, &sent[start..end]));
            let complete = model.add(start, end - start, more);
            assert_eq!(whole.is_some(), complete, "round {round} {policy} {version:?}");
            if let Some(whole) = whole {
                assert_eq!(whole, sent, "round {round} {policy} {version:?}");
                // What comes again begins another packet.
                break;
            }
        }
        assert!(decoder.memory() == 0, "round {round}");
    }
}

#[test]
fn whatever_overlaps_each_byte_was_sent_at_its_place() {
    let mut random = Random(0x0fed_cba9_8765_4321);
    for round in 0..6000 {
        let policy = POLICIES[round % POLICIES.len()];
        let mut decoder = Decoder::new(settings(policy));
        let mut sent: Vec<Vec<u8>> = vec![Vec::new(); 200];
        for number in 1..=2 + random.below(12) {
            let (offset, len) = (8 * random.below(10), 8 * (1 + random.below(4)));
            let more = random.below(4) != 0;
            for place in &mut sent[offset..offset + len] {
                place.push(number as u8);
            }
            let data = vec![number as u8; len];
            if offset == 0 && !more {
                continue;
            }
            let (whole, events) = add(&mut decoder, &part(Version::Four, offset, more, &data));
            let overlaps = sent[offset..offset + len].iter().any(|place| place.len() > 1);
            assert!(overlaps || events.is_empty(), "round {round} {policy}");
            if let Some(whole) = whole {
                for (at, byte) in whole.iter().enumerate() {
                    // 0 where a policy cut more than it put in its place.
                    assert!(*byte == 0 || sent[at].contains(byte), "round {round} {policy} {at}");
                }
                sent = vec![Vec::new(); 200];
            }
        }
    }
}

#[test]
fn a_reassembled_packet_is_decoded_and_has_the_number_of_the_last_fragment() {
    let datagram = udp(1000, 53, &[7; 100]);
    let inner = vlan(5, 0x0800, &ipv4_with(17, 0x2000, &[], &datagram[..64]));
    let mut decoder = Decoder::new(Settings::default());
    let first = feed(&mut decoder, &frame(Link::Ethernet, &ethernet(0x8100, &inner)));
    assert_eq!(first.len(), 1);
    assert!(first[0].fragment && !first[0].wants_flow && first[0].payload().is_empty());
    let inner = vlan(5, 0x0800, &ipv4_with(17, 8, &[], &datagram[64..]));
    let last = Frame { number: 7, ..frame(Link::Ethernet, &ethernet(0x8100, &inner)) };
    let packets = feed(&mut decoder, &last);
    assert_eq!(packets.len(), 2);
    let whole = &packets[0];
    assert_eq!((whole.source, whole.number), (PacketSource::Defragmented, Some(7)));
    assert_eq!((whole.vlan.clone(), whole.ports()), (vec![5], (1000, 53)));
    assert_eq!((whole.payload(), whole.recursion_level()), (&[7; 100][..], 0));
    assert!(whole.ip.as_ref().unwrap().checksum_ok && whole.tunnel.is_some());
    assert!(packets[1].no_payload_inspection && packets[1].fragment);
    assert_eq!(decoder.counters().get(Counter::DefragIpv4Reassembled), 1);
    assert_eq!(decoder.memory(), 0);
}

#[test]
fn extension_headers_before_the_fragment_header_stay() {
    let segment = tcp(&[9; 40]);
    let piece = |field: &str, data: &[u8]| {
        let headers = hex(&format!("2c 00 0104 00000000 06 00 {field} 00000009"));
        ipv6(60, &[&headers[..], data].concat())
    };
    let mut decoder = Decoder::new(Settings::default());
    feed(&mut decoder, &frame(Link::Raw, &piece("0001", &segment[..32])));
    let packets = feed(&mut decoder, &frame(Link::Raw, &piece("0020", &segment[32..])));
    let ip = packets[0].ip.as_ref().unwrap();
    assert_eq!((ip.protocol, ip.extensions), (6, 8));
    assert_eq!(packets[0].payload(), [9; 40]);
    assert!(matches!(packets[0].transport, Transport::Tcp(_)));
}

#[test]
fn fragments_of_other_packets_are_kept_apart() {
    let mut decoder = Decoder::new(Settings::default());
    let whole = ipv4_with(200, 0x2000, &[], &[1; 8]);
    add(&mut decoder, &whole);
    let rest = ipv4_with(200, 1, &[], &[2; 8]);
    for (at, value) in [(5, 9), (9, 201), (15, 9)] {
        let mut other = rest.clone();
        other[at] = value;
        assert!(add(&mut decoder, &other).0.is_none());
    }
    // Both directions count as one.
    let mut back = rest.clone();
    back[12..20].rotate_left(4);
    assert_eq!(add(&mut decoder, &back).0.unwrap().len(), 16);
}

#[test]
fn fragments_that_reach_too_far_are_told_and_ignored() {
    let mut decoder = Decoder::new(Settings::default());
    let far = part(Version::Four, 65_528, false, &[1; 8]);
    assert_eq!(add(&mut decoder, &far).1, ["ipv4.frag_pkt_too_large"]);
    let far = part(Version::Six, 65_528, false, &[1; 8]);
    assert_eq!(add(&mut decoder, &far).1, ["ipv6.frag_pkt_too_large"]);
    let odd = part(Version::Six, 0, true, &[1; 7]);
    assert_eq!(add(&mut decoder, &odd).1, ["ipv6.frag_invalid_length"]);
    let overlapping = part(Version::Four, 0, true, &[1; 16]);
    add(&mut decoder, &overlapping);
    let more = part(Version::Four, 8, true, &[2; 16]);
    assert_eq!(add(&mut decoder, &more).1, ["ipv4.frag_overlap"]);
}

#[test]
fn a_packet_whose_fragments_stay_away_is_given_up() {
    let mut settings = Settings::default();
    assert!(settings.set("defrag.timeout", "30"));
    for (seconds, whole) in [(29, true), (30, false)] {
        let mut decoder = Decoder::new(settings.clone());
        let first = frame(Link::Raw, &part(Version::Four, 0, true, &[1; 8]));
        feed(&mut decoder, &first);
        let mut last = frame(Link::Raw, &part(Version::Four, 8, false, &[1; 8]));
        last.time.seconds += seconds;
        assert_eq!(feed(&mut decoder, &last).len() == 2, whole, "{seconds}");
    }
    // A host may have its own time.
    assert!(settings.set("defrag.host-config.0.dmz.timeout", "90"));
    assert!(settings.set("defrag.host-config.0.dmz.address", "[192.0.2.0/24, 10.0.0.0/8]"));
    assert!(!settings.set("defrag.host-config.0.dmz.address.2", "nowhere"));
    let mut decoder = Decoder::new(settings.clone());
    feed(&mut decoder, &frame(Link::Raw, &part(Version::Four, 0, true, &[1; 8])));
    let mut last = frame(Link::Raw, &part(Version::Four, 8, false, &[1; 8]));
    last.time.seconds += 89;
    assert_eq!(feed(&mut decoder, &last).len(), 2);
    // Those that nobody asks for go, too.
    settings.defrag.host_timeouts.clear();
    let mut decoder = Decoder::new(settings);
    feed(&mut decoder, &frame(Link::Raw, &part(Version::Four, 0, true, &[1; 8])));
    let mut other = frame(Link::Raw, &part(Version::Six, 0, true, &[1; 8]));
    let before = decoder.memory();
    other.time.seconds += 60;
    feed(&mut decoder, &other);
    assert!(decoder.memory() < 2 * before && decoder.memory() > 0);
}

#[test]
fn fragments_that_never_end_are_bounded() {
    let mut settings = Settings::default();
    assert!(settings.set("defrag.memcap", "64kb"));
    assert!(settings.set("defrag.max-frags", "100"));
    let mut decoder = Decoder::new(settings.clone());
    for id in 0..5000u16 {
        let mut piece = part(Version::Four, 0, true, &[1; 256]);
        piece[4..6].copy_from_slice(&id.to_be_bytes());
        feed(&mut decoder, &frame(Link::Raw, &piece));
        assert!(decoder.memory() <= 64 << 10);
    }
    // One packet may not take all: at the hundredth fragment it is given up.
    let mut decoder = Decoder::new(settings);
    for at in 1..=100 {
        add(&mut decoder, &part(Version::Four, at * 16, true, &[1; 8]));
    }
    let (_, events) = add(&mut decoder, &part(Version::Four, 8, true, &[1; 8]));
    assert_eq!(events, ["ipv4.frag_ignored"]);
    assert_eq!(decoder.memory(), 0);
}

#[test]
fn packets_put_together_within_each_other_end_somewhere() {
    // Each first half holds the last fragment of the next packet.
    let mut decoder = Decoder::new(Settings::default());
    let with_id = |id: u16, fragment: u16, data: &[u8]| {
        let mut piece = ipv4_with(4, fragment, &[], data);
        piece[4..6].copy_from_slice(&id.to_be_bytes());
        piece
    };
    for id in 0..100 {
        let next = with_id(id + 1, 2, &[0; 8]);
        feed(&mut decoder, &frame(Link::Raw, &with_id(id, 0x2000, &next[..16])));
    }
    let packets = feed(&mut decoder, &frame(Link::Raw, &with_id(0, 2, &[0; 12])));
    assert!(packets.len() < 100);
}

#[test]
fn the_longest_prefix_says_what_a_host_runs() {
    let mut hosts = HostPolicies::default();
    assert!(hosts.set("linux.0", "10.0.0.0/8, 10.1.0.0/16"));
    assert!(hosts.set("bsd.0", "10.1.2.3"));
    assert!(hosts.set("solaris.0", "fd00::/8"));
    let get = |text: &str| hosts.get(text.parse().unwrap());
    assert_eq!(get("192.0.2.1"), Some(gauntlet_packet::Os::Windows));
    assert_eq!(get("10.9.9.9"), Some(gauntlet_packet::Os::Linux));
    assert_eq!(get("10.1.2.3"), Some(gauntlet_packet::Os::Bsd));
    assert_eq!((get("fd12::1"), get("2001::1")), (Some(gauntlet_packet::Os::Solaris), None));
    assert!(!hosts.set("amiga.0", "10.0.0.0/8") && !hosts.set("bsd.1", "10.0.0.0/33"));
    // Setting a value again replaces it.
    assert!(hosts.set("windows.0", "192.0.2.0/24"));
    assert_eq!(hosts.get("198.51.100.1".parse().unwrap()), None);
    let unaffected = ipv4(6, &tcp(b""));
    assert_eq!(
        feed(&mut Decoder::new(Settings::default()), &frame(Link::Raw, &unaffected)).len(),
        1
    );
}
