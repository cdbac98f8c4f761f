//! Records of what others find in what a pipeline tells: not Suricata's.

use gauntlet_packet::flow::FlowCore;
use gauntlet_packet::{Packet, Time};
use serde_json::Value;

use super::Writer;
use super::head;

/// Type of these records.
const KIND: &str = "gauntlet";

/// What was found, and where.
#[derive(Debug, Clone, Copy)]
pub struct Finding<'a> {
    /// In this flow; the client comes first.
    pub core: &'a FlowCore,
    /// With this packet.
    pub packet: Option<&'a Packet>,
    /// At this time.
    pub time: Time,
    /// The protocol that carried it, as EVE names it.
    pub protocol: &'a str,
    /// The value of `gauntlet`.
    pub found: &'a Value,
}

impl Writer<'_> {
    /// Writes a record of type `gauntlet`, whatever types the settings ask for.
    pub fn finding(&mut self, finding: &Finding<'_>) {
        self.now = finding.time;
        let mut line = head::of_flow(finding.core, KIND, finding.time, false);
        if let Some(number) = finding.packet.and_then(|packet| packet.number) {
            line.number("pcap_cnt", number);
        }
        line.string("app_proto", finding.protocol);
        line.json(KIND, finding.found);
        if let Some(seed) = self.settings.community_seed {
            head::community_id(finding.core, seed, &mut line);
        }
        self.write(line);
    }
}
