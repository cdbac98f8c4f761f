//! Alerts of two programs about one capture, side by side.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use anyhow::Context;
use serde::{Deserialize, Serialize};

/// Rules that are named, of those with alerts that only one program has.
const NAMED_MAX: usize = 5;

/// How the alerts of two programs agree.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Agreement {
    /// Of the same rule on the same packet; by the flow where a program names no packet.
    pub equal: u64,
    /// Of the same rule in the same flow, on another packet.
    pub on_another_packet: u64,
    /// Only ours.
    pub ours_alone: u64,
    /// Only the peer's.
    pub theirs_alone: u64,
    /// The first rules of `ours_alone` (`gid:sid`).
    pub ours_alone_rules: Vec<String>,
    /// The first rules of `theirs_alone`.
    pub theirs_alone_rules: Vec<String>,
}

/// An alert: a record of EVE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Alert {
    /// `gid:sid`.
    rule: String,
    /// Number of the packet in the capture, from 1.
    packet: Option<u64>,
    /// Protocol and both ends, the same for both directions.
    flow: String,
}

#[derive(Deserialize)]
struct Record {
    event_type: String,
    pcap_cnt: Option<u64>,
    #[serde(default)]
    proto: String,
    #[serde(default)]
    src_ip: String,
    src_port: Option<u16>,
    #[serde(default)]
    dest_ip: String,
    dest_port: Option<u16>,
    alert: Option<Rule>,
}

#[derive(Deserialize)]
struct Rule {
    gid: u32,
    signature_id: u64,
}

/// The alerts of a file of EVE records; other records are passed over.
///
/// # Errors
/// A file that cannot be read, or a line that is no record.
pub(super) fn read(file: &Path) -> anyhow::Result<Vec<Alert>> {
    let unreadable = || format!("cannot read {}", file.display());
    let lines = BufReader::new(File::open(file).with_context(unreadable)?).lines();
    let mut alerts = Vec::new();
    for line in lines {
        let line = line.with_context(unreadable)?;
        let record: Record = serde_json::from_str(&line)
            .with_context(|| format!("{}: no record of EVE: {line:.80}", file.display()))?;
        let Some(rule) = record.alert.filter(|_| record.event_type == "alert") else { continue };
        let mut ends = [(record.src_ip, record.src_port), (record.dest_ip, record.dest_port)];
        ends.sort();
        let ends = ends.map(|(ip, port)| format!("{ip}:{}", port.unwrap_or_default()));
        alerts.push(Alert {
            rule: format!("{}:{}", rule.gid, rule.signature_id),
            packet: record.pcap_cnt,
            flow: format!("{} {}", record.proto.to_ascii_uppercase(), ends.join(" ")),
        });
    }
    Ok(alerts)
}

/// Takes equal ones out of both, by this key; how many there were.
fn pair<'a, K: Ord>(
    ours: &mut Vec<&'a Alert>,
    theirs: &mut Vec<&'a Alert>,
    key: impl Fn(&'a Alert) -> K,
) -> u64 {
    let mut open: BTreeMap<K, u64> = BTreeMap::new();
    for alert in theirs.iter() {
        *open.entry(key(alert)).or_default() += 1;
    }
    let mut paired: BTreeMap<K, u64> = BTreeMap::new();
    let mut equal = 0;
    ours.retain(|alert| {
        let Some(count) = open.get_mut(&key(alert)).filter(|count| **count > 0) else {
            return true;
        };
        *count -= 1;
        *paired.entry(key(alert)).or_default() += 1;
        equal += 1;
        false
    });
    theirs.retain(|alert| match paired.get_mut(&key(alert)).filter(|count| **count > 0) {
        Some(count) => {
            *count -= 1;
            false
        }
        None => true,
    });
    equal
}

/// Compares the alerts of two programs.
pub(super) fn compare(ours: &[Alert], theirs: &[Alert]) -> Agreement {
    let (mut ours, mut theirs): (Vec<_>, Vec<_>) = (ours.iter().collect(), theirs.iter().collect());
    let equal = pair(&mut ours, &mut theirs, |alert| {
        // Tunnels have several flows in one packet, which programs may name differently.
        let flow = alert.packet.is_none().then_some(&alert.flow);
        (&alert.rule, alert.packet, flow)
    });
    let on_another_packet =
        pair(&mut ours, &mut theirs, |alert| (&alert.rule, alert.flow.as_str()));
    let rules = |left: &[&Alert]| {
        let mut rules: Vec<String> = Vec::new();
        for alert in left {
            if rules.len() < NAMED_MAX && !rules.contains(&alert.rule) {
                rules.push(alert.rule.clone());
            }
        }
        rules
    };
    Agreement {
        equal,
        on_another_packet,
        ours_alone: ours.len() as u64,
        theirs_alone: theirs.len() as u64,
        ours_alone_rules: rules(&ours),
        theirs_alone_rules: rules(&theirs),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alert(sid: u32, packet: Option<u64>, flow: &str) -> Alert {
        Alert { rule: format!("1:{sid}"), packet, flow: flow.to_owned() }
    }

    #[test]
    fn alerts_are_paired_by_packet_then_by_flow() {
        let ours = [
            alert(1, Some(7), "a"),
            alert(1, Some(7), "a"),
            alert(2, Some(8), "a"),
            alert(3, None, "b"),
            alert(9, Some(9), "a"),
        ];
        let theirs = [
            alert(1, Some(7), "a"),
            alert(2, Some(10), "a"),
            alert(3, None, "b"),
            alert(4, Some(1), "a"),
            alert(5, Some(2), "a"),
        ];
        let found = compare(&ours, &theirs);
        assert_eq!((found.equal, found.on_another_packet), (2, 1));
        assert_eq!((found.ours_alone, found.theirs_alone), (2, 2));
        assert_eq!(found.ours_alone_rules, ["1:1", "1:9"]);
        assert_eq!(found.theirs_alone_rules, ["1:4", "1:5"]);
    }

    #[test]
    fn both_directions_are_one_flow() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("eve.json");
        let line = |src: &str, dest: &str| {
            format!(
                "{{\"event_type\":\"alert\",\"pcap_cnt\":3,\"proto\":\"TCP\",\"src_ip\":\"{src}\",\
                 \"src_port\":1,\"dest_ip\":\"{dest}\",\"dest_port\":1,\
                 \"alert\":{{\"gid\":1,\"signature_id\":5,\"rev\":1}}}}\n"
            )
        };
        let flow = "{\"event_type\":\"flow\"}\n".to_owned();
        let text = [line("10.0.0.1", "10.0.0.2"), flow, line("10.0.0.2", "10.0.0.1")].concat();
        std::fs::write(&file, text).unwrap();
        let alerts = read(&file).unwrap();
        assert_eq!(alerts.len(), 2);
        assert_eq!(alerts[0], alerts[1]);
        std::fs::write(&file, "no record\n").unwrap();
        assert!(read(&file).is_err());
    }
}
