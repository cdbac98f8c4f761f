//! Two ends of a tunnel, without a network between them.

#[path = "it/bytes.rs"]
mod bytes;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use gauntlet_tunnel::{Config, Out, Tunnel};

/// Pairs of keys that were made for these tests (`wg genkey`).
const KEYS: [(&str, &str); 2] = [
    (
        "MGoNwQ6nUhXHr4xxtknDuNwU85vaFh6Wv/oY4URHQ24=",
        "XX2VIYm7E5TIBeWllgkFjE/Vj4qQcZ1ZSOxpzZDa3EY=",
    ),
    (
        "0EF4R3ybeLTh35ADe42TRPeU9lut8v9BGBscZrkAO1I=",
        "kP67/PZTFA/o4INhWkhIWqf0GxBITlXTNe9rbJpQIX0=",
    ),
];
const SHARED: &str = "zFS/Jiw3yRn0BHzXTxXnl4f8+xm3Ir+ssHmWW/w6P5s=";

fn config(own: usize, more: &str) -> String {
    let other = 1 - own;
    format!(
        "[Interface]\nPrivateKey = {}\n# a comment\nAddress = 10.9.0.{}/24\n\n[Peer]\n\
         PublicKey = {}\nPresharedKey = {SHARED}\nAllowedIPs = 10.9.0.{}/32, fd00::{}/128\n{more}",
        KEYS[own].0,
        own + 1,
        KEYS[other].1,
        other + 1,
        other + 1
    )
}

fn read(text: &str) -> Result<Config, String> {
    Config::read(text, &|_| None).map_err(|error| error.to_string())
}

fn at(last: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, last], 51_820))
}

/// An IPv4 packet with this payload.
fn packet(source: [u8; 4], destination: [u8; 4], payload: &[u8]) -> Vec<u8> {
    let len = (20 + payload.len() as u16).to_be_bytes();
    let mut packet = vec![0x45, 0, len[0], len[1], 0, 0, 0, 0, 64, 17, 0, 0];
    packet.extend(source);
    packet.extend(destination);
    packet.extend(payload);
    packet
}

const ONE: [u8; 4] = [10, 9, 0, 1];
const TWO: [u8; 4] = [10, 9, 0, 2];

/// Both ends; the first knows where the second is.
fn ends() -> (Tunnel, Tunnel) {
    let one = read(&config(0, "Endpoint = 192.0.2.2:51820\n")).unwrap();
    let two = read(&config(1, "")).unwrap();
    (Tunnel::new(&one), Tunnel::new(&two))
}

/// Carries datagrams to and fro until nobody says anything; packets that came out at either end.
fn carry(ends: [&mut Tunnel; 2], first: Vec<Out>) -> [Vec<Vec<u8>>; 2] {
    let [one, two] = ends;
    let mut packets = [Vec::new(), Vec::new()];
    let mut waiting = first;
    for _ in 0..20 {
        let mut next = Vec::new();
        for out in std::mem::take(&mut waiting) {
            if let Out::Datagram(to, bytes) = out {
                let (end, from) = if to == at(2) { (&mut *two, at(1)) } else { (&mut *one, at(2)) };
                end.receive(from, &bytes, &mut next);
                let place = usize::from(to == at(2));
                next.retain(|out| match out {
                    Out::Packet(packet) => {
                        packets[place].push(packet.clone());
                        false
                    }
                    Out::Datagram(..) => true,
                });
            }
        }
        waiting = next;
    }
    packets
}

#[test]
fn packets_go_both_ways() {
    let (mut one, mut two) = ends();
    let (forth, back) = (packet(ONE, TWO, b"forth"), packet(TWO, ONE, b"back"));
    let mut out = Vec::new();
    two.send(&back, &mut out);
    assert!(out.is_empty() && two.counters.unroutable == 1, "nobody knows where the peer is");
    one.send(&forth, &mut out);
    let came = carry([&mut one, &mut two], std::mem::take(&mut out));
    assert_eq!(came, [vec![], vec![forth]]);
    two.send(&back, &mut out);
    let came = carry([&mut one, &mut two], out);
    assert_eq!(came, [vec![back], vec![]]);
    assert_eq!((one.counters.refused, two.counters.refused), (0, 0));
    assert_eq!(one.connected(std::time::Duration::from_secs(60)), 1);
}

#[test]
fn what_was_seen_before_or_changed_is_refused() {
    let (mut one, mut two) = ends();
    let mut out = Vec::new();
    one.send(&packet(ONE, TWO, b"first"), &mut out);
    let handshake = out.clone();
    carry([&mut one, &mut two], std::mem::take(&mut out));
    one.send(&packet(ONE, TWO, b"second"), &mut out);
    let Some(Out::Datagram(_, datagram)) = out.pop() else { panic!("no datagram") };
    let mut came = Vec::new();
    two.receive(at(1), &datagram, &mut came);
    assert_eq!(came.len(), 1);
    // Again, from elsewhere: the peer stays where it is.
    two.receive(at(66), &datagram, &mut came);
    assert_eq!((came.len(), two.counters.refused), (1, 1));
    for place in 0..datagram.len() {
        let mut changed = datagram.clone();
        changed[place] ^= 1;
        two.receive(at(66), &changed, &mut came);
    }
    let Some(Out::Datagram(_, handshake)) = handshake.into_iter().next() else { panic!() };
    two.receive(at(66), &handshake, &mut came);
    assert_eq!(came.len(), 1, "neither a packet nor an answer");
    let mut answers = Vec::new();
    two.send(&packet(TWO, ONE, b"back"), &mut answers);
    assert!(matches!(&answers[..], [Out::Datagram(to, _)] if *to == at(1)), "{answers:?}");
}

#[test]
fn a_peer_has_its_own_addresses_alone() {
    let (mut one, mut two) = ends();
    let mut out = Vec::new();
    one.send(&packet([10, 9, 0, 77], TWO, b"forged"), &mut out);
    let came = carry([&mut one, &mut two], std::mem::take(&mut out));
    assert_eq!((came, two.counters.foreign), ([vec![], vec![]], 1));
    one.send(&packet(ONE, [10, 9, 0, 99], b"nobody's"), &mut out);
    assert!(out.is_empty() && one.counters.unroutable == 1);
}

#[test]
fn garbage_and_floods_are_bounded() {
    let (mut one, mut two) = ends();
    let mut out = Vec::new();
    for len in (0..300).chain([1_500, 65_535, 70_000]) {
        for kind in 0..6 {
            let mut bytes = vec![7; len];
            if let Some(first) = bytes.first_chunk_mut::<4>() {
                *first = [kind, 0, 0, 0];
            }
            two.receive(at(66), &bytes, &mut out);
        }
    }
    assert!(out.is_empty() && two.counters.refused > 1_000);
    // The beginning of one handshake, many times: from some time on, cookies.
    one.tick(&mut out);
    let Some(Out::Datagram(_, opening)) = out.pop() else { panic!("no handshake") };
    for _ in 0..400 {
        two.receive(at(66), &opening, &mut out);
    }
    let kinds: Vec<u8> = out
        .iter()
        .map(|out| match out {
            Out::Datagram(_, bytes) => bytes[0],
            Out::Packet(_) => 0,
        })
        .collect();
    assert_eq!(kinds[0], 2, "it is answered once");
    assert!(kinds[1..].iter().all(|kind| *kind == 3), "{kinds:?}");
    assert!(kinds.len() > 100);
    for packet in [&[][..], &[0x45], &[0x60; 39], &[0xff; 100]] {
        one.send(packet, &mut out);
    }
}

#[test]
fn what_is_wrong_in_a_file_is_named() {
    assert!(read(&config(0, "")).is_ok());
    let good = read(&config(0, "PersistentKeepalive = 25\nEndpoint = [::1]:9\n")).unwrap();
    assert_eq!((good.port, good.mtu, good.peers[0].keepalive), (51_820, 1_420, Some(25)));
    assert_eq!(good.addresses, [(IpAddr::V4(Ipv4Addr::from(ONE)), 24)]);
    assert_eq!(good.public_key(), KEYS[0].1);
    let resolved = Config::read(&config(0, "Endpoint = a.example:9\n"), &|_| Some(at(9)));
    assert_eq!(resolved.unwrap().peers[0].endpoint, Some(at(9)));
    let key = format!("[Interface]\nPrivateKey = {}\n", KEYS[0].0);
    for (text, said) in [
        ("".to_owned(), "no PrivateKey"),
        ("Port = 1\n".to_owned(), "line 1: comes before"),
        ("[Interface]\nPrivateKey = abc\n".to_owned(), "line 2: the key is not 32 bytes"),
        ("[Interface]\nPostUp = rm\n".to_owned(), "postup is wg-quick's"),
        ("[Interface]\nMTU = 100\n".to_owned(), "MTU is 1280"),
        ("[Interface]\nListenPort = 0\n".to_owned(), "ListenPort is"),
        ("[Interface]\nAddress = 10.0.0.1/33\n".to_owned(), "is no address"),
        ("[Interface]\nodd\n".to_owned(), "KEY = VALUE"),
        ("[Odd]\n".to_owned(), "[Interface] or [Peer]"),
        (key.clone(), "there is no [Peer]"),
        (format!("{key}[Peer]\nAllowedIPs = 10.0.0.0/8\n"), "line 3: the peer has no PublicKey"),
        (format!("{key}[Peer]\nPublicKey = {}\n", KEYS[0].1), "that of this end"),
        (format!("{key}[Peer]\nEndpoint = x\n"), "no address with a port"),
        (format!("{key}[Peer]\nAllowedIPs = 10.0.0.0/99\n"), "prefix"),
        (format!("{}[Peer]\nPublicKey = {}\n", config(0, ""), KEYS[1].1), "another peer has this"),
        (config(0, &"[Peer]\n".repeat(300)), "more than 256 peers"),
    ] {
        let error = read(&text).unwrap_err();
        assert!(error.contains(said), "{text}: {error}");
        assert!(!error.contains(KEYS[0].0), "no keys in errors");
    }
    assert!(!format!("{good:?}").contains(KEYS[0].0));
}

#[test]
fn whatever_the_bytes_nothing_comes_out() {
    let file = bytes::FILE.as_bytes();
    for at in 0..file.len() {
        bytes::feed(&file[..at]);
        let mut changed = file.to_vec();
        for byte in [0, b'\n', b'=', b'[', 0xff] {
            changed[at] = byte;
            bytes::feed(&changed);
        }
    }
}
