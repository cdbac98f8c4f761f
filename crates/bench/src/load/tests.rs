//! The load generator against sinks of every protocol, and what is known of their answers.

use super::*;
use crate::sink::{self, Behaviour, Counts};

/// A sink on a free port, which ends with the runtime.
fn sink(
    protocol: Protocol,
    behaviour: Behaviour,
) -> (tokio::runtime::Runtime, SocketAddr, Arc<Counts>) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    let counts = Arc::new(Counts::default());
    runtime.spawn(sink::serve(listener, protocol, behaviour, counts.clone()));
    (runtime, address, counts)
}

fn plan(target: SocketAddr, protocol: Protocol) -> Plan {
    Plan {
        target,
        protocol,
        connections: 2,
        per_connection: 0,
        rate: None,
        time: Duration::from_secs(30),
        messages: 50,
        warm_up: Duration::ZERO,
        timeout: Duration::from_secs(10),
        threads: 1,
        addresses: Addresses {
            from: "a@sender.example".into(),
            to: "user{}@site.example".into(),
            users: 3,
        },
    }
}

fn corpus() -> Corpus {
    let message = |text: &[u8], label| corpus::Item { raw: text.to_vec(), label };
    let long = [b"Subject: long\n\n".as_slice(), &b"line of a body\n".repeat(20_000)].concat();
    let items = vec![
        message(b"Subject: dots\n\n.\n..\r\n\r\n.\r\nend", Label::Ham),
        message(&long, Label::Spam),
        message(b"no header at all", Label::Unknown),
    ];
    Corpus { order: vec![0, 1, 2], bytes: 0, hash: String::new(), items }
}

const ALL: [Protocol; 5] =
    [Protocol::Smtp, Protocol::Lmtp, Protocol::Spamd, Protocol::Rspamd, Protocol::Milter];

#[test]
fn every_message_is_accounted_for_by_every_protocol() {
    for protocol in ALL {
        let (_runtime, address, counts) = sink(protocol, Behaviour::default());
        let measured = run(&plan(address, protocol), &corpus()).unwrap();
        assert_eq!((measured.answered, measured.failed), (50, 0), "{protocol:?} {measured:?}");
        assert_eq!(counts.messages.load(Ordering::Relaxed), 50, "{protocol:?}");
        let of = |label| {
            measured.outcomes.iter().filter(|o| o.label == label).map(|o| o.messages).sum::<u64>()
        };
        assert_eq!((of(Label::Ham), of(Label::Spam), of(Label::Unknown)), (17, 17, 16));
        assert!(measured.outcomes.iter().all(|o| o.outcome == Outcome::Passed));
        assert_eq!(measured.histogram.len(), 50);
    }
}

#[test]
fn what_is_deferred_is_said_by_every_protocol() {
    for protocol in ALL {
        let behaviour = Behaviour { defer_every: 5, ..Behaviour::default() };
        let (_runtime, address, _) = sink(protocol, behaviour);
        let mut plan = plan(address, protocol);
        plan.per_connection = 7;
        let measured = run(&plan, &corpus()).unwrap();
        let deferred = measured.outcomes.iter().filter(|o| o.outcome == Outcome::Deferred);
        assert_eq!(deferred.map(|o| o.messages).sum::<u64>(), 10, "{protocol:?} {measured:?}");
    }
}

/// The known answer on coordinated omission. The sink stalls once for a second. In open loop all
/// the messages that were due in that second waited; in closed loop one a connection did.
#[test]
fn a_stall_is_seen_whole_in_open_loop_alone() {
    let stall = Some((Duration::from_millis(500), Duration::from_secs(1)));
    let waited = |rate| {
        let (_runtime, address, _) =
            sink(Protocol::Smtp, Behaviour { stall, ..Behaviour::default() });
        let mut plan = plan(address, Protocol::Smtp);
        (plan.connections, plan.messages) = (1, 0);
        (plan.rate, plan.time) = (rate, Duration::from_secs(3));
        let measured = run(&plan, &corpus()).unwrap();
        let long = measured.histogram.count_between(400_000_000, u64::MAX);
        (long, measured.answered)
    };
    let (open, answered) = waited(Some(100.0));
    assert!(
        (40..=90).contains(&open),
        "100 were due in the second, 60 of them 0.4 s or more: {open}"
    );
    assert_eq!(answered, 300, "all that was due");
    let (closed, _) = waited(None);
    assert_eq!(closed, 1, "only the one that was under way");
}

#[test]
fn a_rate_beyond_the_server_leaves_messages_unsent() {
    let behaviour = Behaviour { delay: Duration::from_millis(50), ..Behaviour::default() };
    let (_runtime, address, _) = sink(Protocol::Milter, behaviour);
    let mut plan = plan(address, Protocol::Milter);
    (plan.rate, plan.messages, plan.time) = (Some(1_000.0), 0, Duration::from_secs(1));
    let measured = run(&plan, &corpus()).unwrap();
    assert_eq!(measured.answered + measured.unsent, 1_000, "{measured:?}");
    assert!(measured.unsent > 800, "two connections of 20 messages/s: {measured:?}");
}

#[test]
fn a_server_that_is_not_there_is_an_error() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let mut plan = plan(address, Protocol::Smtp);
    plan.messages = 3;
    let error = run(&plan, &corpus()).unwrap_err().to_string();
    assert!(error.contains("takes no message by smtp: Connection refused"), "{error}");
    plan.connections = 0;
    assert!(run(&plan, &corpus()).unwrap_err().to_string().contains("0 connections"));
}

#[test]
fn a_server_of_another_protocol_is_named() {
    let (_runtime, address, _) = sink(Protocol::Smtp, Behaviour::default());
    let mut plan = plan(address, Protocol::Rspamd);
    plan.messages = 2;
    let error = run(&plan, &corpus()).unwrap_err().to_string();
    assert!(error.contains("no HTTP answer"), "{error}");
}

#[test]
fn messages_of_the_warm_up_cost_the_server_time_and_count_for_nothing_else() {
    let (_runtime, address, counts) = sink(Protocol::Smtp, Behaviour::default());
    let short = Duration::from_millis(200);
    let plan = Plan { messages: 0, time: short, warm_up: short, ..plan(address, Protocol::Smtp) };
    let measured = run(&plan, &corpus()).unwrap();
    assert!(0 < measured.answered && measured.answered < measured.answered_in_all);
    assert_eq!(measured.answered_in_all, counts.messages.load(Ordering::Relaxed));
}
