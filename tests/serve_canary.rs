//! New rules are tried in the shadow of those in force: a version that harms good mail is stopped
//! without anybody's help, a good one judges after its time, one that slips through is rolled back
//! by people's corrections.

use std::time::Duration;

use crate::common::channels::{Publisher, Subscriber, activity, good};
use crate::common::{Node, Smtp, message};

const VERSION: &str = "gauntlet_channel_version{channel=\"main\"}";

/// A node that follows the channel, with these settings of a trial.
fn start(publisher: &Publisher, trial: &str) -> Node {
    let settings = publisher.settings("main", &publisher.url());
    // The table of the channel is the last: its keys follow.
    let settings = settings.replace("canary_seconds = 0\n", "");
    Node::start(&format!("{settings}canary_percent = 100\n{trial}"))
}

fn send(node: &Node, token: &str, text: &str) {
    let mut client = Smtp::connect(node.smtp).unwrap();
    let mut raw = message(token, 0);
    raw.extend_from_slice(text.as_bytes());
    let reply = client.send("a@example.org", &["b@example.net"], &raw).unwrap();
    assert!(reply.starts_with("250"), "{reply}");
}

/// Sends mail until something is so.
fn send_until(node: &Node, what: &str, text: &str, mut done: impl FnMut() -> bool) {
    let mut number = 0;
    node.wait_until(what, || {
        number += 1;
        send(node, &format!("{}{number}", what.replace(' ', "")), text);
        std::thread::sleep(Duration::from_millis(50));
        done()
    });
}

#[test]
fn a_version_that_hits_half_of_the_ham_is_stopped_without_anybodys_help() {
    let publisher = Publisher::new();
    let node = start(&publisher, "canary_seconds = 600\ncanary_messages_min = 5\n");
    publisher.publish_rule("tomatoes", 50.0);
    let (mut number, rejected) = (0, "gauntlet_channel_rejected_total{channel=\"main\"}");
    send_until(&node, "it is rejected", "fresh tomatoes\r\n", || {
        number += 1;
        send(&node, &format!("other{number}"), "fresh potatoes\r\n");
        node.metric(rejected) == 1
    });
    assert!(node.metric(VERSION) < 2, "the empty version before may judge");
    let said = good(&Subscriber(&node.data()).run(&["show"]));
    assert!(said.contains("rejected  2:") && said.contains("would be suspect or worse"), "{said}");
    assert!(said.contains("ham -> spam") && said.contains("CHANNEL_TODAY"), "{said}");
    let activity = activity(&node);
    assert!(activity.contains("try channel") && activity.contains("reject channel"), "{activity}");
}

#[test]
fn a_good_version_judges_after_its_time_and_a_person_may_be_asked() {
    let publisher = Publisher::new();
    let node = start(
        &publisher,
        "canary_seconds = 2\ncanary_messages_min = 5\ncanary_cost_percent_max = 1000.0\n",
    );
    publisher.publish_rule("tomatoes", 0.1);
    send_until(&node, "it is promoted", "fresh tomatoes\r\n", || node.metric(VERSION) == 2);
    // Nobody writes: nothing is known of it.
    publisher.publish_rule("potatoes", 0.1);
    let data = node.data();
    let node_of = Subscriber(&data);
    node.wait_until("it is held", || good(&node_of.run(&["show"])).contains("HELD"));
    assert_eq!(node.metric(VERSION), 2);
    good(&node_of.run(&["promote", "main", "3"]));
    node.wait_until("it judges", || node.metric(VERSION) == 3);
    publisher.publish_rule("turnips", 0.1);
    node.wait_until("it is held", || good(&node_of.run(&["show"])).contains("HELD"));
    good(&node_of.run(&["reject", "main", "4"]));
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(node.metric(VERSION), 3);
    let activity = activity(&node);
    assert!(
        activity.contains("hold channel") && activity.contains("promote channel"),
        "{activity}"
    );
}

#[test]
fn a_version_that_slips_through_is_rolled_back_by_corrections() {
    let publisher = Publisher::new();
    publisher.publish_rule("tomatoes", 0.1);
    let node = start(
        &publisher,
        "canary_seconds = 1\ncanary_messages_min = 0\nwatch_corrections_max = 2\n",
    );
    node.wait_until("the first judges", || node.metric(VERSION) == 2);
    publisher.publish_rule("potatoes", 50.0);
    node.wait_until("it judges", || node.metric(VERSION) == 3);
    // People release what it calls spam.
    for number in 0..4 {
        send(&node, &format!("ours{number}"), "fresh potatoes\r\n");
    }
    let data = node.data();
    let held = gauntlet_store::Quarantine::open_shared(&data.join("quarantine")).unwrap();
    let query = gauntlet_store::quarantine::HeldQuery { limit: 10, ..Default::default() };
    node.wait_until("it is held", || held.search(&query).unwrap().items.len() == 4);
    for item in held.search(&query).unwrap().items {
        let data = data.to_str().unwrap();
        let release = ["quarantine", "release", &item.item.id, "--learn", "--data", data];
        good(&crate::common::channels::gauntlet(&release));
    }
    let rolled_back = "gauntlet_channel_rolled_back_total{channel=\"main\"}";
    node.wait_until("it is rolled back", || node.metric(rolled_back) == 1);
    node.wait_until("the one before judges", || node.metric(VERSION) == 2);
    let said = good(&Subscriber(&data).run(&["show"]));
    assert!(said.contains("corrected to good"), "{said}");
}
