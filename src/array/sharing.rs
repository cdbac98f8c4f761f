//! What pages and metrics say of the state that a node shares with its array.

use gauntlet_array::state::SharedStates;
use gauntlet_gateway::clock::now_ms;

/// How old what other nodes counted is at most, and what was exchanged, by kind, in Prometheus'
/// text format. Until everything was taken once, the age is that of this process.
pub(super) fn metrics(states: &SharedStates, started_ms: i64) -> String {
    let now_ms = now_ms();
    let mut text = String::new();
    let mut family = |name: &str, help: &str, kind: &str, value: &dyn Fn(&str) -> u64| {
        text.push_str(&format!(
            "# HELP gauntlet_array_shared_{name} {help}\n# TYPE gauntlet_array_shared_{name} {kind}\n"
        ));
        for what in states.keys() {
            let value = value(what);
            text.push_str(&format!("gauntlet_array_shared_{name}{{kind=\"{what}\"}} {value}\n"));
        }
    };
    let of = |what: &str| states.get(what).cloned().unwrap_or_default();
    family("age_seconds", "Since all that other nodes sent was taken", "gauge", &|what| {
        let current_ms = of(what).current_ms.max(started_ms);
        ((now_ms - current_ms).max(0) / 1_000).cast_unsigned()
    });
    family("behind", "Whether more waits than one exchange takes", "gauge", &|what| {
        u64::from(of(what).is_behind)
    });
    family("sent_bytes_total", "Bytes of batches sent", "counter", &|what| of(what).sent.1);
    family("taken_bytes_total", "Bytes of batches of other nodes", "counter", &|what| {
        of(what).taken.1
    });
    text
}

#[cfg(test)]
mod tests {
    use gauntlet_array::state::KindState;

    use super::*;

    #[test]
    fn the_age_is_told_by_kind_and_begins_with_the_process() {
        let now_ms = now_ms();
        let current = KindState { current_ms: now_ms, sent: (1, 70), ..KindState::default() };
        let states = SharedStates::from([("rates", current), ("senders", KindState::default())]);
        let text = metrics(&states, now_ms - 60_000);
        let age = |kind: &str| {
            let name = format!("gauntlet_array_shared_age_seconds{{kind=\"{kind}\"}} ");
            text.lines().find_map(|line| line.strip_prefix(&name)?.parse::<u64>().ok()).unwrap()
        };
        assert!(age("rates") < 30 && age("senders") >= 60, "{text}");
        assert!(text.contains("gauntlet_array_shared_sent_bytes_total{kind=\"rates\"} 70"));
        assert_eq!(text.matches("# TYPE").count(), 4);
    }
}
