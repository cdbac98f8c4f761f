//! Captures that are composed here, and the alerts of rules over them.

use std::fs;

use gauntlet_ids::config::Settings;
use gauntlet_ids::replay::{Options, replay};
use serde_json::Value;

pub(crate) const CLIENT: [u8; 4] = [192, 0, 2, 1];
pub(crate) const SERVER: [u8; 4] = [192, 0, 2, 2];

/// A capture: packets a millisecond apart, of one flow.
pub(crate) struct Talk {
    pub(crate) capture: Vec<u8>,
    pub(crate) count: u32,
    /// Seconds from the first packet to the next one.
    pub(crate) seconds: u32,
    pub(crate) ports: [u16; 2],
    /// Sequence numbers of the client and of the server.
    pub(crate) next: [u32; 2],
}

impl Talk {
    pub(crate) fn new(server_port: u16) -> Self {
        let mut capture = Vec::new();
        // Microseconds, version 2.4, Ethernet.
        for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1] {
            capture.extend_from_slice(&word.to_le_bytes());
        }
        Self { capture, count: 0, seconds: 0, ports: [40_000, server_port], next: [1_000, 2_000] }
    }

    pub(crate) fn packet(&mut self, from_client: bool, protocol: u8, segment: &[u8]) {
        self.packet_with(from_client, protocol, &[], segment);
    }

    /// With options of IP, a multiple of four bytes.
    pub(crate) fn packet_with(
        &mut self,
        from_client: bool,
        protocol: u8,
        options: &[u8],
        segment: &[u8],
    ) {
        self.ip(from_client, [0, 1, 0, 0, 64, protocol, 0, 0], options, segment);
    }

    /// `middle`: id, flags and offset, TTL, protocol, checksum.
    pub(crate) fn ip(
        &mut self,
        from_client: bool,
        middle: [u8; 8],
        options: &[u8],
        segment: &[u8],
    ) {
        let (from, to) = if from_client { (CLIENT, SERVER) } else { (SERVER, CLIENT) };
        let words = u8::try_from(5 + options.len() / 4).unwrap();
        let len = u16::try_from(20 + options.len() + segment.len()).unwrap();
        let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x40 | words, 0];
        frame.extend_from_slice(&len.to_be_bytes());
        frame.extend_from_slice(&middle);
        frame.extend_from_slice(&from);
        frame.extend_from_slice(&to);
        frame.extend_from_slice(options);
        frame.extend_from_slice(segment);
        self.frame(&frame);
    }

    pub(crate) fn frame(&mut self, frame: &[u8]) {
        let size = u32::try_from(frame.len()).unwrap();
        for word in [1_700_000_000 + self.seconds, self.count * 1_000, size, size] {
            self.capture.extend_from_slice(&word.to_le_bytes());
        }
        self.capture.extend_from_slice(frame);
        self.count += 1;
    }

    pub(crate) fn ends(&self, from_client: bool) -> Vec<u8> {
        let [client, server] = self.ports;
        let ports = if from_client { [client, server] } else { [server, client] };
        ports.iter().flat_map(|port| port.to_be_bytes()).collect()
    }

    pub(crate) fn udp(&mut self, from_client: bool, payload: &[u8]) {
        let mut segment = self.ends(from_client);
        segment.extend_from_slice(&u16::try_from(8 + payload.len()).unwrap().to_be_bytes());
        segment.extend_from_slice(&[0, 0]);
        segment.extend_from_slice(payload);
        self.packet(from_client, 17, &segment);
    }

    pub(crate) fn tcp(&mut self, from_client: bool, flags: u8, payload: &[u8]) {
        self.tcp_with(from_client, flags, &[], payload);
    }

    /// With options, a multiple of four bytes.
    pub(crate) fn tcp_with(
        &mut self,
        from_client: bool,
        flags: u8,
        options: &[u8],
        payload: &[u8],
    ) {
        let (own, other) = if from_client { (0, 1) } else { (1, 0) };
        let mut segment = self.ends(from_client);
        segment.extend_from_slice(&self.next[own].to_be_bytes());
        segment.extend_from_slice(&self.next[other].to_be_bytes());
        let words = u8::try_from(5 + options.len() / 4).unwrap();
        segment.extend_from_slice(&[words << 4, flags, 0xff, 0xff, 0, 0, 0, 0]);
        segment.extend_from_slice(options);
        segment.extend_from_slice(payload);
        let len = u32::try_from(payload.len()).unwrap();
        self.next[own] += len + u32::from(flags & 3 != 0);
        self.packet(from_client, 6, &segment);
    }

    pub(crate) fn handshake(&mut self) {
        self.tcp(true, 0x02, b"");
        self.tcp(false, 0x12, b"");
        self.tcp(true, 0x10, b"");
    }

    /// Data, and its acknowledgement.
    pub(crate) fn says(&mut self, from_client: bool, payload: &[u8]) {
        self.tcp(from_client, 0x18, payload);
        self.tcp(!from_client, 0x10, b"");
    }

    /// Packet numbers and ids of the alerts; those of made-up packets have number 0.
    pub(crate) fn alerts(&self, rules: &str, settings: &[&str], inline: bool) -> Vec<(u64, u64)> {
        self.alerts_beside(rules, settings, inline, &[])
    }

    /// The same, with a file beside the rules, or none.
    pub(crate) fn alerts_beside(
        &self,
        rules: &str,
        settings: &[&str],
        inline: bool,
        file: &[u8],
    ) -> Vec<(u64, u64)> {
        let numbers = |alert: &Value| {
            let sid = alert["alert"]["signature_id"].as_u64().unwrap_or_default();
            (alert["pcap_cnt"].as_u64().unwrap_or_default(), sid)
        };
        let records = self.records(rules, settings, inline, file);
        let mut found: Vec<(u64, u64)> = records.iter().map(numbers).collect();
        found.sort_unstable();
        found
    }

    /// Alerts as EVE has them.
    pub(crate) fn records(
        &self,
        rules: &str,
        settings: &[&str],
        inline: bool,
        file: &[u8],
    ) -> Vec<Value> {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("file"), file).unwrap();
        fs::write(path("a.pcap"), &self.capture).unwrap();
        fs::write(path("a.rules"), rules).unwrap();
        let mut options = Options {
            settings: Settings::stock(),
            directory: folder.path().to_owned(),
            rules: vec![path("a.rules")],
            inline,
            checksums: Some(false),
        };
        for line in settings {
            options.settings.assign(line).unwrap();
        }
        let mut found = Vec::new();
        let summary = replay(&path("a.pcap"), &options, &mut |line| {
            let value: Value = serde_json::from_str(line).unwrap();
            if value["alert"].is_object() {
                found.push(value);
            }
        });
        let summary = summary.unwrap();
        assert_eq!((summary.left_out, summary.damage), (0, None));
        found
    }
}
