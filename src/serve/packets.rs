//! Packets beside mail and web: `gauntlet ips run` as a process of the node's, its alerts in the
//! node's log, its counters in `/metrics`.
//!
//! ```text
//! node ── stdin: a byte reloads, its end stops ──▶ gauntlet ips run (supervisor, worker)
//!      ◀─ stdout: records of alerts, counters, rules ──
//! ```

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;
use gauntlet_console::PacketRule;
use gauntlet_gateway::clock::now_ms;
use gauntlet_gateway::config::Config;
use gauntlet_mail::date::DAY_MS;
use gauntlet_store::AlertLog;
use gauntlet_store::alert_log::AlertRecord;
use serde_json::Value;

use crate::ips::node::{RELOAD, REPORT_RULES, RULE_COSTS, policy_metrics};

/// Folder of the log of alerts in the data folder.
const LOG_FOLDER: &str = "alerts";
/// How often days of the log that are too old are looked for.
const RETAIN_EVERY: Duration = Duration::from_secs(3_600);
/// How long the process may take to end.
const STOP_WAIT: Duration = Duration::from_secs(35);
/// How often that is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The process, started and not listened to yet.
#[derive(Debug)]
pub(crate) struct PacketProcess {
    child: Child,
    control: UnixStream,
    records: ChildStdout,
}

impl PacketProcess {
    /// Starts it while the node is root and may start programs; none if the configuration wants
    /// none. `file`: the configuration.
    ///
    /// # Errors
    /// If it cannot be started.
    pub(crate) fn start(config: &Config, file: Option<&Path>) -> anyhow::Result<Option<Self>> {
        if !config.ips.is_on() {
            return Ok(None);
        }
        let (control, theirs) = UnixStream::pair()?;
        let mut command = Command::new("/proc/self/exe");
        command.arg0("gauntlet").args(arguments(config, file)).process_group(0);
        command.stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::piped());
        let mut child = command.spawn().context("[ips]: the process that inspects packets")?;
        let records = child.stdout.take().context("[ips]: its records cannot be read")?;
        Ok(Some(Self { child, control, records }))
    }
}

/// What `gauntlet ips run` is started with.
fn arguments(config: &Config, file: Option<&Path>) -> Vec<String> {
    let ips = &config.ips;
    let text = |path: &Path| path.display().to_string();
    let mut arguments: Vec<String> =
        ["ips", "run", "--for-node"].into_iter().map(str::to_owned).collect();
    let mut add = |name: &str, value: String| {
        if !value.is_empty() {
            arguments.push(format!("--{name}={value}"));
        }
    };
    add("interface", ips.interface.clone());
    add("copy-interface", ips.copy_interface.clone());
    add("queue", ips.queues.clone());
    add("wireguard", text(&ips.wireguard));
    if ips.has_nft_set() {
        add("nft-set", ips.nft_set.clone());
        add("nft-set-v6", ips.nft_set_v6.clone());
        ips.nft_on.iter().for_each(|rule| add("nft-on", rule.clone()));
        add("nft-timeout", ips.nft_seconds.to_string());
        add("nft-rate", ips.nft_per_second_max.to_string());
        add("nft-max", ips.nft_elements_max.to_string());
        ips.nft_never.iter().for_each(|network| add("nft-never", network.clone()));
    }
    ips.rules.iter().for_each(|rules| add("rules", text(rules)));
    add("suricata-yaml", text(&ips.suricata_yaml));
    ips.set.iter().for_each(|setting| add("set", setting.clone()));
    if !ips.interface.is_empty() {
        add("threads", ips.threads.to_string());
    }
    add("cpus", ips.cpus.clone());
    add("profile-every", ips.profile_every.to_string());
    add("watchdog", ips.watchdog_seconds.to_string());
    add("eve", text(&ips.eve));
    add("user", config.node.user.clone());
    // Also without rules for packets: there may be some after a reload.
    add("packet-policy", file.map(text).unwrap_or_default());
    add("scan", ips.scan.join(","));
    if !ips.scan.is_empty() {
        add("scan-config", file.map(text).unwrap_or_default());
        add("drop-on", ips.drop_on.clone());
        if ips.reset {
            arguments.push("--reset".to_owned());
        }
    }
    if ips.fail_open {
        arguments.push("--fail-open".to_owned());
    }
    arguments
}

/// Packets while they are inspected.
#[derive(Debug)]
pub(crate) struct Packets {
    /// What the console reads.
    pub(crate) log: Arc<AlertLog>,
    seen: Arc<Mutex<Seen>>,
    process: Mutex<Option<(Child, UnixStream)>>,
}

/// What the process has told last.
#[derive(Debug, Default)]
struct Seen {
    rules: Vec<PacketRule>,
    stats: Value,
    /// By rule: its share of what detection takes, in millionths.
    costs: HashMap<String, u64>,
    has_ended: bool,
}

impl Packets {
    /// Listens to the process, if there is one, on a thread of its own.
    ///
    /// # Errors
    /// If the log cannot be opened, or no thread be started.
    pub(crate) fn watch(
        config: &Config,
        process: Option<PacketProcess>,
    ) -> anyhow::Result<Option<Self>> {
        let Some(PacketProcess { child, control, records }) = process else { return Ok(None) };
        let log = Arc::new(AlertLog::open(&config.node.data.join(LOG_FOLDER))?);
        let seen = Arc::<Mutex<Seen>>::default();
        let (of_thread, told) = (Arc::clone(&log), Arc::clone(&seen));
        let keep_ms = i64::from(config.ips.log_retention_days) * DAY_MS;
        let thread = std::thread::Builder::new().name("packets".to_owned());
        thread.spawn(move || listen(records, &of_thread, &told, keep_ms))?;
        Ok(Some(Self { log, seen, process: Mutex::new(Some((child, control))) }))
    }

    /// Has rules and lists read anew.
    pub(crate) fn reload(&self) {
        let process = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, control)) = process.as_ref()
            && let Err(error) = (&*control).write_all(&[RELOAD])
        {
            tracing::error!(%error, "rules for packets are not read anew");
        }
    }

    /// The rules that are in use.
    pub(crate) fn rules(&self) -> Vec<PacketRule> {
        let seen = self.seen();
        let with_cost = |rule: &PacketRule| PacketRule {
            cost_ppm: seen.costs.get(&rule.rule).copied(),
            ..rule.clone()
        };
        seen.rules.iter().map(with_cost).collect()
    }

    /// Counters in Prometheus' text format.
    pub(crate) fn metrics(&self) -> String {
        let seen = self.seen();
        let (stats, mut text) = (&seen.stats, String::new());
        let capture = &stats["capture"];
        let ips = &stats["ips"];
        let up = u64::from(!seen.has_ended && !stats.is_null());
        let number = |value: &Value| value.as_u64().unwrap_or(0);
        for (name, help, kind, value) in [
            ("up", "Packets are inspected", "gauge", up),
            ("packets_total", "Packets that came", "counter", number(&capture["kernel_packets"])),
            (
                "kernel_drops_total",
                "Packets that the kernel dropped",
                "counter",
                number(&capture["kernel_drops"]),
            ),
            ("alerts_total", "Alerts of rules", "counter", number(&stats["detect"]["alert"])),
            ("sent_total", "Packets sent on", "counter", number(&ips["accepted"])),
            ("flows", "Flows", "gauge", number(&stats["flow"]["active"])),
            ("memory_bytes", "Of flows and streams", "gauge", number(&stats["memory"]["bytes"])),
            ("log_records_written_total", "Alerts in the log", "counter", self.log.written()),
            ("log_records_dropped_total", "Alerts lost", "counter", self.log.dropped()),
        ] {
            let name = format!("gauntlet_ips_{name}");
            text.push_str(&format!(
                "# HELP {name} Packets: {help}.\n# TYPE {name} {kind}\n{name} {value}\n"
            ));
        }
        text.push_str("# HELP gauntlet_ips_drops_total Packets: dropped, by cause.\n");
        text.push_str("# TYPE gauntlet_ips_drops_total counter\n");
        for (cause, count) in ips["drop_reason"].as_object().into_iter().flatten() {
            let count = number(count);
            text.push_str(&format!("gauntlet_ips_drops_total{{cause=\"{cause}\"}} {count}\n"));
        }
        let policy = &stats["policy"];
        let rules = policy["rules"].as_array().map(Vec::as_slice).unwrap_or_default();
        text.push_str(&policy_metrics(rules, number(&policy["unrecorded"])));
        text
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the process, which ends by itself once nobody controls it.
    pub(crate) fn stop(&self) {
        let process = self.process.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some((mut child, control)) = process else { return };
        drop(control);
        let begun = Instant::now();
        while matches!(child.try_wait(), Ok(None)) {
            if begun.elapsed() > STOP_WAIT {
                tracing::error!("the process that inspects packets does not end");
                break;
            }
            std::thread::sleep(LOOK_EVERY);
        }
        self.log.flush();
    }
}

/// Takes records until the process ends.
fn listen(records: ChildStdout, log: &AlertLog, told: &Mutex<Seen>, keep_ms: i64) {
    let mut retained: Option<Instant> = None;
    for line in BufReader::new(records).split(b'\n') {
        let Ok(line) = line else { break };
        let line = String::from_utf8_lossy(&line);
        let of_itself = ["\"event_type\":\"stats\"", "\"event_type\":\"rule_costs\"", REPORT_RULES];
        if of_itself.iter().any(|part| line.contains(part)) {
            note(&line, told);
        } else if let Some(record) = AlertRecord::of_eve(&line) {
            log.append(record);
        }
        if retained.is_none_or(|at| at.elapsed() > RETAIN_EVERY) {
            retained = Some(Instant::now());
            log.retain(now_ms() - keep_ms);
        }
    }
    told.lock().unwrap_or_else(PoisonError::into_inner).has_ended = true;
    tracing::info!("packets are not inspected any more");
}

/// Keeps what the process told of itself.
fn note(line: &str, told: &Mutex<Seen>) {
    let Ok(mut record) = serde_json::from_str::<Value>(line) else { return };
    let mut seen = told.lock().unwrap_or_else(PoisonError::into_inner);
    if record["event_type"] == "stats" {
        seen.stats = record["stats"].take();
        return;
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    if record["event_type"] == RULE_COSTS {
        let costs = &record[RULE_COSTS];
        let all = costs["nanoseconds"].as_u64().unwrap_or(0).max(1);
        let rules = costs["rules"].as_array().into_iter().flatten();
        let share = |rule: &Value| rule[3].as_u64().unwrap_or(0).saturating_mul(1_000_000) / all;
        seen.costs = rules.map(|rule| (text(&rule[0]), share(rule))).collect();
        return;
    }
    let rules = record["rules"].as_array().into_iter().flatten();
    let rule =
        |pair: &Value| PacketRule { rule: text(&pair[0]), title: text(&pair[1]), cost_ppm: None };
    seen.rules = rules.map(rule).collect();
}
