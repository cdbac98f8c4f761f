//! The closed loop through gateways that hold, repeat and reorder.

use super::*;
use crate::load::Label;
use crate::load::corpus::Item;

fn corpus() -> Corpus {
    let item = |i: usize| Item {
        raw: format!("From: x\nTo: y\nSubject: m{i}\n\n{}", "text\n".repeat(i * 30)).into_bytes(),
        label: Label::Unknown,
    };
    let items: Vec<Item> = (0..7).map(item).collect();
    Corpus { order: (0..7).collect(), items, bytes: 0, hash: String::new() }
}

fn free() -> SocketAddr {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn plan(gateway: SocketAddr, listen: SocketAddr) -> Plan {
    Plan {
        gateways: vec![gateway],
        listen,
        instances: 2,
        window: 10,
        connections: 2,
        warm_up: Duration::from_millis(100),
        time: Duration::from_secs(1),
        sample: Duration::from_millis(250),
        return_timeout: Duration::from_millis(1_500),
        link: None,
        people: AddressPool { names: 50, ..AddressPool::default() },
        threads: 1,
    }
}

/// What a gateway does with the n-th message: deliver it so many times, so late.
type Does = fn(u64) -> (u32, Duration);

/// A gateway without a spool: it takes a message and passes its head on to `next`.
fn gateway(next: SocketAddr, does: Does) -> (tokio::runtime::Runtime, SocketAddr) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    let (number, handle) = (AtomicU64::new(0), runtime.handle().clone());
    let hook = move |delivery: Delivery| {
        let (times, late) = does(number.fetch_add(1, Ordering::Relaxed));
        for _ in 0..times {
            let delivery = delivery.clone();
            handle.spawn(async move {
                tokio::time::sleep(late).await;
                let link = Link::open(next, None).await.unwrap();
                let mut conversation = smtp::Conversation::open(link, false).await.unwrap();
                let message = smtp::outgoing("a@b", &delivery.recipients, 1, false);
                let mut body = Vec::new();
                let head = delivery.head.strip_suffix(b".\r\n").unwrap_or(&delivery.head);
                gauntlet_smtp::dot_stuff(head, &mut body);
                conversation.send(message, &[&body]).await.unwrap();
            });
        }
    };
    let behaviour = Behaviour { hook: Some(Arc::new(hook)), ..Behaviour::default() };
    let counts = Arc::new(Counts::default());
    runtime.spawn(sink::serve(listener, crate::load::Protocol::Smtp, behaviour, counts));
    (runtime, address)
}

#[test]
fn everything_that_comes_back_is_accounted_for() {
    let listen = free();
    let (_runtime, address) = gateway(listen, |_| (1, Duration::ZERO));
    let report = run(&plan(address, listen), &corpus(), "test").unwrap();
    let a = &report.accounts;
    assert!(a.returned > 20 && a.returned == a.accepted && a.accepted == a.sent, "{report:?}");
    assert_eq!((a.held, a.duplicates, a.strange, a.unanswered), (0, 0, 0, 0), "{a:?}");
    assert_eq!(report.samples.len(), 4);
    assert!(report.messages_per_second > 0.0 && report.megabytes_per_second > 0.0);
}

#[test]
fn quarantine_repetition_and_reordering_do_not_stop_it() {
    let listen = free();
    let does: Does = |n| match n % 4 {
        0 => (0, Duration::ZERO),
        1 => (2, Duration::ZERO),
        2 => (1, Duration::from_millis(40)),
        _ => (1, Duration::ZERO),
    };
    let (_runtime, address) = gateway(listen, does);
    let mut plan = plan(address, listen);
    (plan.time, plan.return_timeout) = (Duration::from_secs(3), Duration::from_millis(500));
    plan.sample = Duration::from_secs(1);
    let report = run(&plan, &corpus(), "test").unwrap();
    let a = &report.accounts;
    assert_eq!(a.accepted, a.returned + a.held, "{a:?}");
    assert!(a.held > 20, "more than the two windows of 10 were held, and it went on: {a:?}");
    assert!(a.duplicates > 0 && a.reordered > 0, "{a:?}");
}

#[test]
fn a_link_is_as_slow_as_it_says() {
    let listen = free();
    let (_runtime, address) = gateway(listen, |_| (1, Duration::ZERO));
    let mut plan = plan(address, listen);
    plan.link = Some(20_000.0);
    let report = run(&plan, &corpus(), "test").unwrap();
    // Bodies alone; head and commands pass too.
    assert!(report.megabytes_per_second < 0.022, "{report:?}");
}

#[test]
fn a_gateway_that_is_not_there_is_named() {
    let mut plan = plan(free(), free());
    (plan.time, plan.return_timeout) = (Duration::from_millis(300), Duration::from_millis(300));
    let error = run(&plan, &corpus(), "test").unwrap_err().to_string();
    assert!(error.contains("takes no message: Connection refused"), "{error}");
}
