//! Reassembly against naive models, with random segments; and random segments of any kind. A
//! failing run prints its seed.

use std::time::{SystemTime, UNIX_EPOCH};

use gauntlet_packet::Direction::{ToClient, ToServer};
use gauntlet_packet::tcp::{ExceptionPolicy, Settings, UrgentPolicy};
use gauntlet_packet::{HostPolicies, TcpFlags};

use super::talk::{ACK, SYN, Segment, Wire, segment};

/// A small generator (xorshift64*).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    pub(crate) fn u32(&mut self) -> u32 {
        (self.next() >> 32) as u32
    }

    pub(crate) fn one_in(&mut self, of: u64) -> bool {
        self.below(of) == 0
    }
}

/// Fixed seeds, and one of this moment.
pub(crate) fn seeds(fixed: u64) -> Vec<u64> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let mut seeds: Vec<u64> = (1..=fixed).collect();
    seeds.push(u64::from(now.subsec_nanos()) << 20 | now.as_secs() & 0xfffff);
    seeds
}

/// A conversation whose client begins at any sequence number, so that it may wrap.
struct Stream {
    wire: Wire,
    first: u32,
}

impl Stream {
    fn new(settings: Settings, random: &mut Random) -> Self {
        let first =
            if random.one_in(2) { 0u32.wrapping_sub(random.u32() % 500) } else { random.u32() };
        let mut wire = Wire::new(settings);
        let scaled = |tcp: &mut gauntlet_packet::Tcp| {
            tcp.window = 65_535;
            tcp.window_scale = Some(4);
        };
        wire.send(&segment(ToServer, SYN, first.wrapping_sub(1), 0, b"").with(scaled));
        wire.send(&segment(ToClient, SYN | ACK, 4999, first, b"").with(scaled));
        wire.send(&segment(ToServer, ACK, first, 5000, b""));
        Self { wire, first }
    }

    fn send(&mut self, at: usize, bytes: &[u8]) {
        let seq = self.first.wrapping_add(at as u32);
        self.wire.send(&segment(ToServer, ACK, seq, 5000, bytes));
    }

    fn acknowledge(&mut self, bytes: usize) {
        let ack = self.first.wrapping_add(bytes as u32);
        self.wire.send(&segment(ToClient, ACK, 5000, ack, b""));
    }

    fn got(&self) -> &[u8] {
        &self.wire.taken().bytes[0]
    }
}

#[test]
fn what_is_sent_in_any_order_comes_in_order() {
    for seed in seeds(200) {
        eprintln!("seed {seed}");
        let mut random = Random::new(seed);
        let inline = random.one_in(3);
        let settings = Settings { inline, check_overlaps: random.one_in(2), ..Settings::default() };
        let mut stream = Stream::new(settings, &mut random);
        let total = 1 + random.below(6000) as usize;
        let sent: Vec<u8> = (0..total).map(|_| random.next() as u8).collect();
        let mut arrived = vec![false; total];
        let mut acknowledged = 0;
        while arrived.contains(&false) {
            let in_order = arrived.iter().position(|have| !have).unwrap_or(total);
            let ahead = random.below(2000) as usize;
            let at = if random.one_in(3) {
                in_order
            } else {
                (in_order + ahead).saturating_sub(random.below(1500) as usize).min(total - 1)
            };
            let end = (at + 1 + random.below(700) as usize).min(total);
            stream.send(at, &sent[at..end]);
            arrived[at..end].fill(true);
            let in_order = arrived.iter().position(|have| !have).unwrap_or(total);
            if random.one_in(4) && in_order > acknowledged {
                acknowledged += 1 + random.below((in_order - acknowledged) as u64) as usize;
                stream.acknowledge(acknowledged);
                assert!(stream.got().len() >= acknowledged, "seed {seed}");
                assert!(inline || stream.got().len() == acknowledged, "seed {seed}");
            }
        }
        stream.acknowledge(total);
        assert_eq!(stream.got(), sent, "seed {seed}");
        assert_eq!(stream.wire.taken().gaps, [0, 0], "seed {seed}");
    }
}

/// The byte that counts, the first or the last that came, of each place.
#[test]
fn of_contradicting_bytes_the_first_or_the_last_counts() {
    for seed in seeds(200) {
        eprintln!("seed {seed}");
        let mut random = Random::new(seed);
        let first_counts = random.one_in(2);
        let mut hosts = HostPolicies::none();
        hosts.set(if first_counts { "first.0" } else { "last.0" }, "0.0.0.0/0");
        let settings = Settings { hosts, ..Settings::default() };
        let mut stream = Stream::new(settings, &mut random);
        let total = 3000;
        // Of segments of one length none lies within another.
        let len = 1 + random.below(300) as usize;
        let mut model: Vec<Option<u8>> = vec![None; total];
        while model.contains(&None) {
            let missing = model.iter().position(Option::is_none).unwrap_or(0);
            let at = match random.below(3) {
                0 => missing,
                _ => random.below(total as u64) as usize,
            };
            let at = at.min(total - len);
            let byte = random.next() as u8;
            stream.send(at, &vec![byte; len]);
            for place in &mut model[at..at + len] {
                if !first_counts || place.is_none() {
                    *place = Some(byte);
                }
            }
        }
        stream.acknowledge(total);
        let model: Vec<u8> = model.into_iter().flatten().collect();
        assert_eq!(stream.got(), model, "seed {seed}");
    }
}

#[test]
fn missing_bytes_are_gaps_of_the_right_length() {
    for seed in seeds(100) {
        eprintln!("seed {seed}");
        let mut random = Random::new(seed);
        let mut stream = Stream::new(Settings::default(), &mut random);
        let (mut at, mut kept, mut lost) = (0, Vec::new(), 0);
        stream.send(0, b"begin");
        kept.extend_from_slice(b"begin");
        at += 5;
        for _ in 0..random.below(30) {
            let bytes = vec![random.next() as u8; 1 + random.below(400) as usize];
            if random.one_in(3) {
                lost += bytes.len() as u64;
            } else {
                stream.send(at, &bytes);
                kept.extend_from_slice(&bytes);
            }
            at += bytes.len();
        }
        stream.send(at, b"end");
        kept.extend_from_slice(b"end");
        stream.acknowledge(at + 3);
        assert_eq!(stream.got(), kept, "seed {seed}");
        assert_eq!(stream.wire.taken().gaps[0], lost, "seed {seed}");
    }
}

fn any_settings(random: &mut Random) -> Settings {
    const POLICIES: [ExceptionPolicy; 5] = [
        ExceptionPolicy::Ignore,
        ExceptionPolicy::Ignore,
        ExceptionPolicy::DropFlow,
        ExceptionPolicy::PassFlow,
        ExceptionPolicy::RejectBoth,
    ];
    const URGENT: [UrgentPolicy; 4] =
        [UrgentPolicy::Inline, UrgentPolicy::Drop, UrgentPolicy::OutOfBand, UrgentPolicy::Gap];
    const SYSTEMS: [&str; 6] = ["linux", "old-linux", "hpux11", "solaris", "vista", "last"];
    let mut hosts = HostPolicies::none();
    hosts.set(&format!("{}.0", SYSTEMS[random.below(6) as usize]), "0.0.0.0/0");
    Settings {
        inline: random.one_in(2),
        ips: random.one_in(2),
        midstream: random.one_in(2),
        midstream_policy: POLICIES[random.below(5) as usize],
        async_oneside: random.one_in(3),
        liberal_timestamps: random.one_in(2),
        check_overlaps: random.one_in(2),
        depth: [0, 100, 1 << 20][random.below(3) as usize],
        reassembly_bytes_max: [0, 5000, 1 << 20][random.below(3) as usize],
        session_bytes_max: [0, 5000, 1 << 20][random.below(3) as usize],
        urgent: URGENT[random.below(4) as usize],
        urgent_limit: URGENT[random.below(4) as usize],
        hosts,
        ..Settings::default()
    }
}

fn any_segment(random: &mut Random, places: &mut [u32; 2]) -> Segment {
    let from = if random.one_in(2) { ToServer } else { ToClient };
    let payload = vec![random.next() as u8; [0, 0, 1, 5, 700, 1460][random.below(6) as usize]];
    let flags = match random.below(8) {
        0 => random.next() as u8,
        1 => TcpFlags::SYN,
        2 => TcpFlags::SYN | TcpFlags::ACK,
        3 => TcpFlags::FIN | TcpFlags::ACK,
        4 => TcpFlags::RST,
        _ => TcpFlags::ACK,
    };
    let near = |random: &mut Random, place: u32| match random.below(6) {
        0 => random.u32(),
        1 => place.wrapping_add(random.u32() % 5000).wrapping_sub(2500),
        2 => place.wrapping_sub(1),
        _ => place,
    };
    let seq = near(random, places[from.index()]);
    let ack = near(random, places[from.reverse().index()]);
    if random.one_in(2) {
        let counted = u32::from(flags & (TcpFlags::SYN | TcpFlags::FIN) != 0);
        places[from.index()] = seq.wrapping_add(payload.len() as u32 + counted);
    }
    segment(from, flags, seq, ack, &payload).at(1000 + random.below(200) as i64).with(|tcp| {
        tcp.window = random.next() as u16;
        tcp.urgent = random.below(3) as u16;
        tcp.window_scale = random.one_in(3).then(|| random.next() as u8);
        tcp.timestamp = random.one_in(3).then(|| (random.u32(), random.u32()));
        tcp.fast_open = random.one_in(9).then_some(8);
        tcp.md5 = random.one_in(9);
        tcp.sack_permitted = random.one_in(2);
        tcp.sack = (0..random.below(4)).map(|_| (random.u32(), random.u32())).collect();
    })
}

#[test]
fn no_segment_whatsoever_does_harm() {
    for seed in seeds(300) {
        eprintln!("seed {seed}");
        let mut random = Random::new(seed);
        let settings = any_settings(&mut random);
        let max = settings.reassembly_bytes_max;
        let mut wire = Wire::new(settings);
        let mut places = [random.u32(), random.u32()];
        for _ in 0..150 {
            wire.try_send(&any_segment(&mut random, &mut places));
            let bytes = wire.replay.engine.reassembly_bytes();
            assert!(max == 0 || bytes <= 2 * max + (1 << 20), "seed {seed}: {bytes} bytes");
        }
        wire.replay.end();
        assert_eq!(wire.replay.engine.reassembly_bytes(), 0, "seed {seed}");
        assert_eq!(wire.replay.engine.session_bytes(), 0, "seed {seed}");
    }
}
