//! Segments that overlap with other data: whose bytes the application layer gets, by the
//! receiver's system; inline, what the receiver gets.

use gauntlet_packet::HostPolicies;
use gauntlet_packet::tcp::{Event, Settings};

use super::talk::{Wire, acknowledges, handshake, sends};

const BSD_LIKE: &[&str] =
    &["bsd", "hpux10", "irix", "windows", "windows2k3", "old-linux", "linux", "macos"];
const OLD_ONES: &[&str] = &["bsd-right", "vista", "first", "old-solaris"];

/// The new segment's place (the old one is 10..20), and which systems take its bytes.
fn cases() -> Vec<(&'static str, std::ops::Range<u32>, Vec<&'static str>)> {
    let solaris = ["solaris", "old-solaris", "hpux11"];
    let earlier: Vec<_> = BSD_LIKE.iter().copied().chain(["bsd-right"]).collect();
    let earlier_to_end: Vec<_> = earlier.iter().copied().chain(solaris).collect();
    let same: Vec<_> = ["old-linux"].into_iter().chain(solaris).collect();
    vec![
        ("the same place", 10..20, same.clone()),
        ("longer", 10..25, same.iter().copied().chain(["linux"]).collect()),
        ("shorter", 10..15, vec![]),
        ("earlier, ends within", 5..15, earlier),
        ("earlier, same end", 5..20, earlier_to_end.clone()),
        ("around", 5..25, earlier_to_end),
        ("within", 12..18, vec![]),
        ("later, same end", 15..20, vec![]),
        ("later, longer", 15..25, solaris.to_vec()),
    ]
}

fn settings(system: &str) -> Settings {
    let mut hosts = HostPolicies::none();
    assert!(hosts.set(&format!("{system}.0"), "10.0.0.2"));
    Settings { hosts, ..Settings::default() }
}

fn fill(wire: &mut Wire, from: u32, to: u32, byte: u8) {
    if from < to {
        wire.send(&sends(from, &vec![byte; (to - from) as usize]));
    }
}

#[test]
fn each_system_takes_the_bytes_it_would() {
    let mut systems: Vec<&str> = BSD_LIKE.iter().chain(OLD_ONES).copied().collect();
    systems.extend(["solaris", "hpux11", "last"]);
    for (name, place, takers) in cases() {
        for system in &systems {
            let mut wire = Wire::new(settings(system));
            wire.send_all(&handshake());
            fill(&mut wire, 10, 20, b'o');
            fill(&mut wire, place.start, place.end, b'n');
            let (left, right) = (place.start.min(10), place.end.max(20));
            fill(&mut wire, 0, left, b'.');
            wire.send(&acknowledges(right));
            let new = *system == "last" || takers.contains(system);
            let expected: Vec<u8> = (0..right)
                .map(|at| match ((10..20).contains(&at), place.contains(&at)) {
                    (true, true) if new => b'n',
                    (true, _) => b'o',
                    (false, true) => b'n',
                    (false, false) => b'.',
                })
                .collect();
            let got = &wire.taken().bytes[0];
            assert_eq!(
                String::from_utf8_lossy(got),
                String::from_utf8_lossy(&expected),
                "{name}, {system}"
            );
        }
    }
}

#[test]
fn a_system_without_a_setting_is_taken_for_a_bsd() {
    let mut wire = Wire::new(Settings { hosts: HostPolicies::none(), ..Settings::default() });
    wire.send_all(&handshake());
    wire.send(&sends(5, b"ooooo"));
    wire.send(&sends(0, b"nnnnnnnn"));
    wire.send(&acknowledges(10));
    assert_eq!(wire.taken().bytes[0], b"nnnnnnnnoo");
}

#[test]
fn other_data_is_told_if_asked_for() {
    for (again, told) in [(&b"llo wor"[..], false), (&b"LLO wor"[..], true)] {
        let mut wire = Wire::new(Settings { check_overlaps: true, ..Settings::default() });
        wire.send_all(&handshake());
        wire.send(&sends(0, b"hello"));
        let (_, outcome) = wire.send(&sends(2, again));
        let event = Event::ReassemblyOverlapDifferentData;
        assert_eq!(outcome.events.contains(&event), told, "{again:?}");
        assert_eq!(wire.replay.engine.counters.overlap, 1);
        assert_eq!(wire.replay.engine.counters.overlap_different, u64::from(told));
    }
}

#[test]
fn inline_the_receiver_gets_what_came_first() {
    let mut wire = Wire::new(Settings { inline: true, ..Settings::default() });
    wire.send_all(&handshake());
    let (_, first) = wire.send(&sends(0, b"hello"));
    assert_eq!(first.replaced, None);
    let (_, outcome) = wire.send(&sends(2, b"LLO world"));
    assert_eq!(outcome.replaced.as_deref(), Some(&b"llo world"[..]));
    assert!(outcome.events.contains(&Event::ReassemblyOverlapDifferentData));
    assert_eq!(wire.taken().bytes[0], b"hello world", "handed over before it is acknowledged");
    let (_, same) = wire.send(&sends(2, b"llo world"));
    assert_eq!(same.replaced, None);
}
