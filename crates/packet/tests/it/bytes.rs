//! What tests and fuzz targets feed, and what every packet holds to.

use std::io::Cursor;
use std::ops::Range;
use std::sync::Arc;

use gauntlet_packet::{
    Capture, Checksums, Decoder, Frame, HostPolicies, Link, Packet, Settings, Time, Transport,
};

/// Ranges lie in the packet, and lists are bounded.
pub(crate) fn check(packet: &Packet) {
    let whole = packet.bytes.len();
    let fits = |range: &Range<usize>| assert!(range.start <= range.end && range.end <= whole);
    fits(&packet.payload);
    if let Some(ethernet) = &packet.ethernet {
        fits(ethernet);
    }
    if let Some(ip) = &packet.ip {
        fits(&ip.header);
        fits(&ip.payload);
        assert!(ip.extensions <= ip.payload.len());
    }
    match &packet.transport {
        Transport::None => {}
        Transport::Tcp(tcp) => fits(&tcp.header),
        Transport::Udp(udp) => fits(&udp.header),
        Transport::Icmp(icmp) => fits(&icmp.header),
        Transport::Sctp(sctp) => fits(&sctp.header),
        Transport::Esp(esp) => fits(&esp.header),
    }
    assert!(packet.events.len() <= 15 && packet.vlan.len() <= 3);
}

/// A decoder that looks into everything.
pub(crate) fn decoder() -> Decoder {
    Decoder::new(Settings { checksums: Checksums::All, ..Settings::built_in() })
}

/// One frame.
pub(crate) fn feed(decoder: &mut Decoder, link: Link, bytes: &[u8]) {
    let time = Time { seconds: 1_000_000, micros: 0 };
    let original_len = bytes.len() as u32;
    let frame = Frame { number: 1, time, link, bytes: Arc::from(bytes), original_len };
    let mut packets = Vec::new();
    decoder.decode(&frame, &mut packets);
    packets.iter().for_each(check);
}

/// A capture file, to its end or its damage.
pub(crate) fn feed_capture(bytes: &[u8]) {
    let Ok(mut capture) = Capture::open(Cursor::new(bytes.to_vec())) else { return };
    let mut decoder = decoder();
    let mut packets = Vec::new();
    let mut last = 0;
    while let Ok(Some(frame)) = capture.next() {
        assert_eq!(frame.number, last + 1);
        last = frame.number;
        packets.clear();
        decoder.decode(&frame, &mut packets);
        packets.iter().for_each(check);
    }
    assert!(capture.damage().is_none_or(|damage| damage.frames == last));
}

/// Fragments of one packet: the first byte chooses the policy, and each fragment takes four: flags,
/// offset, length, what it is filled with.
pub(crate) fn feed_fragments(bytes: &[u8]) {
    const POLICIES: [&str; 7] =
        ["first", "last", "bsd", "bsd-right", "linux", "windows", "solaris"];
    let Some((policy, rest)) = bytes.split_first() else { return };
    let policy = POLICIES[usize::from(*policy) % POLICIES.len()];
    let mut settings = Settings { hosts: HostPolicies::none(), ..Settings::default() };
    settings.set(&format!("host-os-policy.{policy}.0"), "0.0.0.0/0");
    settings.set("defrag.memcap", "16kb");
    let mut decoder = Decoder::new(settings);
    for piece in rest.as_chunks::<4>().0 {
        let [flags, offset, len, fill] = *piece;
        let more = u16::from(flags & 1) << 13;
        let far = if flags & 2 == 0 { 0 } else { 0x1f00 };
        let total = 20 + u16::from(len);
        let mut packet = vec![0x45, 0, 0, 0, 0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        packet[2..4].copy_from_slice(&total.to_be_bytes());
        packet[6..8].copy_from_slice(&(more | far | u16::from(offset)).to_be_bytes());
        packet.resize(usize::from(total), fill);
        feed(&mut decoder, Link::Raw, &packet);
        assert!(decoder.memory() <= 16 << 10);
    }
}
