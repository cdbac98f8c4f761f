//! An alert, from a record of EVE.

use gauntlet_mail::date::{DAY_MS, day_number};
use rusqlite::{Connection, params};
use serde::Serialize;
use serde_json::Value;

use super::schema::MIGRATIONS;
use crate::day_log::{DayRecord, bounded, signed};

/// Bytes of a record that are kept; of longer ones the fields of the row alone.
const RECORD_BYTES_MAX: usize = 512 * 1024;
/// Severity of what has none: that of the least of Suricata's classes.
const SEVERITY_LEAST: u8 = 3;

/// An alert of rules, or a finding in what packets carry.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct AlertRecord {
    /// Unix time in milliseconds.
    pub at_ms: i64,
    /// `rule`, `mail`, `file`, `url` or `content`.
    pub kind: String,
    /// `allowed` or `blocked`.
    pub action: String,
    /// 1 is the worst.
    pub severity: u8,
    /// Generator, number and revision (`1:2019401:3`); empty of findings.
    pub rule: String,
    /// What it is about, for people.
    pub title: String,
    /// Class of the rule, or of the item.
    pub category: String,
    /// Address that the packet came from; of findings the client's.
    pub source: String,
    /// Its port; 0 without one.
    pub source_port: u16,
    /// Address that it went to.
    pub destination: String,
    /// Its port; 0 without one.
    pub destination_port: u16,
    /// Application protocol, else the transport.
    pub protocol: String,
    /// Number of the flow; 0 without one.
    pub flow: u64,
    /// The record, JSON.
    pub record: String,
}

impl AlertRecord {
    /// Of a line of EVE: of alerts, and of findings that say something bad. None of others.
    pub fn of_eve(line: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(line).ok()?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let port = |value: &Value| value.as_u64().and_then(|n| n.try_into().ok()).unwrap_or(0);
        let about = match value["event_type"].as_str()? {
            "alert" => Self::of_alert(&value["alert"]),
            "gauntlet" => Self::of_finding(&value["gauntlet"])?,
            _ => return None,
        };
        let protocol = [&value["app_proto"], &value["proto"]].map(text);
        let protocol = protocol.into_iter().find(|name| !name.is_empty() && name != "failed");
        Some(Self {
            at_ms: unix_ms(value["timestamp"].as_str()?)?,
            source: text(&value["src_ip"]),
            source_port: port(&value["src_port"]),
            destination: text(&value["dest_ip"]),
            destination_port: port(&value["dest_port"]),
            protocol: protocol.unwrap_or_default(),
            flow: value["flow_id"].as_u64().unwrap_or(0),
            record: if line.len() <= RECORD_BYTES_MAX { line.to_owned() } else { String::new() },
            ..about
        })
    }

    fn of_alert(alert: &Value) -> Self {
        let text = |name: &str| alert[name].as_str().unwrap_or_default().to_owned();
        let severity = alert["severity"].as_u64().and_then(|n| u8::try_from(n).ok());
        Self {
            kind: "rule".to_owned(),
            action: text("action"),
            severity: severity.unwrap_or(SEVERITY_LEAST),
            rule: format!("{}:{}:{}", alert["gid"], alert["signature_id"], alert["rev"]),
            title: text("signature"),
            category: text("category"),
            ..Self::default()
        }
    }

    fn of_finding(found: &Value) -> Option<Self> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let kind = text(&found["kind"]);
        let class = [&found["class"], &found["verdict"]].map(text);
        let class = class.into_iter().find(|name| !name.is_empty()).unwrap_or_default();
        let severity = match class.as_str() {
            "malware" | "phishing" => 1,
            "spam" | "unscannable" | "block" | "redirect" | "warn" => 2,
            "suspect" | "drop" | "reject" => 3,
            _ => return None,
        };
        let title = match kind.as_str() {
            "mail" => {
                let (from, to) = (&found["envelope"]["mail_from"], &found["envelope"]["rcpt_to"]);
                let to: Vec<String> = to.as_array().into_iter().flatten().map(text).collect();
                format!("<{}> → {}", text(from), to.join(", "))
            }
            "file" => format!("{} {}", text(&found["filename"]), text(&found["detail"])),
            "policy" => format!("{} {}", text(&found["reason"]), text(&found["rule"])),
            _ => text(&found["url"]),
        };
        let action = text(&found["action"]);
        Some(Self { kind, action, severity, title, category: class, ..Self::default() })
    }
}

/// Milliseconds of `2026-11-26T10:00:00.500000+0000`, which EVE always writes in UTC.
fn unix_ms(text: &str) -> Option<i64> {
    let number = |range: std::ops::Range<usize>| text.get(range)?.parse::<i64>().ok();
    let (hour, minute, second) = (number(11..13)?, number(14..16)?, number(17..19)?);
    let seconds = (hour * 60 + minute) * 60 + second;
    Some(day_number(text.get(..10)?)? * DAY_MS + seconds * 1_000 + number(20..23)?)
}

impl DayRecord for AlertRecord {
    const LOG: &str = "alert-log";
    const MIGRATIONS: &[&str] = MIGRATIONS;

    fn at_ms(&self) -> i64 {
        self.at_ms
    }

    fn insert(connection: &mut Connection, records: &[&Self]) -> rusqlite::Result<()> {
        let batch = connection.transaction()?;
        let mut statement = batch.prepare_cached(
            "INSERT INTO alert (at_ms, kind, action, severity, rule, title, category, source, \
             source_port, destination, destination_port, protocol, flow, record) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
        )?;
        for r in records {
            statement.execute(params![
                r.at_ms,
                bounded(&r.kind),
                bounded(&r.action),
                r.severity,
                bounded(&r.rule),
                bounded(&r.title),
                bounded(&r.category),
                bounded(&r.source),
                r.source_port,
                bounded(&r.destination),
                r.destination_port,
                bounded(&r.protocol),
                signed(r.flow),
                r.record,
            ])?;
        }
        drop(statement);
        batch.commit()
    }
}
