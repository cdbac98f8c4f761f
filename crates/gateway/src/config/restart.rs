//! Settings that a node takes at its start only.

use toml::{Table, Value};

use super::settings::Config;

/// Settings, or whole tables, that a reload leaves as they were.
const AT_START: [&str; 17] = [
    "node.data",
    "node.user",
    "node.sandbox",
    "listener",
    "service",
    "console.address",
    "console.tls",
    "spool.backend",
    "spool.path",
    "scan.threads",
    "sender.connections_per_hop_max",
    "sender.connections_max",
    "sender.exchanger_connections_percent_max",
    "sender.exchanger_connections_per_network_max",
    "sender.report_connections_percent_max",
    "sender.report_connections_per_network_max",
    "ips",
];
/// Of tables that there may be several of: what a reload reads again all the same.
const READ_AGAIN: [&str; 2] = ["certificate", "key"];

/// The settings by which these two differ, and that need a restart: those of a start, and those
/// that were read since.
pub fn needs_restart(started: &Config, now: &Config) -> Vec<String> {
    let (Some(started), Some(now)) = (table(started), table(now)) else { return Vec::new() };
    let mut found = Vec::new();
    for name in AT_START {
        match name.split_once('.') {
            Some((section, key)) => {
                let of = |all: &Table| all.get(section).and_then(|table| table.get(key)).cloned();
                if of(&started) != of(&now) {
                    found.push(name.to_owned());
                }
            }
            None => differences(name, started.get(name), now.get(name), &mut found),
        }
    }
    found.dedup();
    found
}

fn table(config: &Config) -> Option<Table> {
    match Value::try_from(config) {
        Ok(Value::Table(table)) => Some(table),
        _ => None,
    }
}

/// The keys of a table, or of all tables of a name, that differ; the name itself where there is
/// another number of them.
fn differences(name: &str, before: Option<&Value>, now: Option<&Value>, found: &mut Vec<String>) {
    match (before, now) {
        (Some(Value::Table(before)), Some(Value::Table(now))) => {
            let keys = before.keys().chain(now.keys().filter(|key| !before.contains_key(*key)));
            let differs = |key: &&String| before.get(*key) != now.get(*key);
            for key in keys.filter(differs).filter(|key| !READ_AGAIN.contains(&key.as_str())) {
                let key = format!("{name}.{key}");
                if !found.contains(&key) {
                    found.push(key);
                }
            }
        }
        (Some(Value::Array(before)), Some(Value::Array(now))) if before.len() == now.len() => {
            for (before, now) in before.iter().zip(now) {
                differences(name, Some(before), Some(now), found);
            }
        }
        (before, now) if before != now => found.push(format!("[[{name}]]")),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_reload_does_not_take_is_named_and_nothing_else() {
        let read = |text: &str| Config::of_toml(text).unwrap();
        let two =
            "[[listener]]\naddress = \"127.0.0.1:1\"\n[[listener]]\naddress = \"127.0.0.1:2\"\n";
        let changed = |text: &str| needs_restart(&read(two), &read(text)).join(", ");
        assert_eq!(changed(two), "");
        let moved = two.replace(":2", ":3");
        assert_eq!(changed(&moved), "listener.address");
        assert_eq!(changed(&moved.replace(":1", ":4")), "listener.address");
        assert_eq!(changed("[[listener]]\naddress = \"127.0.0.1:1\"\n"), "[[listener]]");
        let more = format!("{two}networks = [\"10.0.0.0/8\"]\n[scan]\nthreads = 3\n[spool]\n");
        assert_eq!(changed(&more), "listener.networks, scan.threads");
        let read_again = format!("{two}certificate = [\"a\"]\nkey = [\"b\"]\n[receiver]\n");
        assert_eq!(changed(&format!("{read_again}sessions_max = 7\n")), "");
        let others = "[node]\ndata = \"elsewhere\"\n[console]\naddress = \"127.0.0.1:9\"\n";
        assert_eq!(changed(&format!("{two}{others}")), "node.data, console.address");
    }
}
