//! A running node learns: from mail to a probe account, from `gauntlet learn`, and from mail of
//! known authors, without a restart.

use std::path::Path;
use std::process::Command;

use crate::common::zone::{Zone, txt};
use crate::common::{Node, Sink, Smtp};
use gauntlet_engine::site_model::good_mail::{SampleKind, author_id};
use gauntlet_learning::good_mail;
use gauntlet_store::{Log, Query};

fn message(token: &str, name: &str, theme: &str) -> Vec<u8> {
    format!(
        "From: shop@example.org\r\nSubject: {token}\r\nMessage-ID: <{token}@example.org>\r\n\r\n\
         Dear {name}, our records show that your {theme} could not be delivered because the\r\n\
         address was incomplete. Please confirm the address and pay the small fee for a second\r\n\
         delivery within two days, or the {theme} goes back to the sender. We thank you for your\r\n\
         trust. The team of your {theme} service, central office, department for undeliverable\r\n\
         {theme} and returns to http://{token}.example/{name}\r\n"
    )
    .into_bytes()
}

/// Waits until the node has said so many times that it learned something.
fn wait_for_corrections(node: &Node, count: usize) {
    node.wait_until("learned", || node.log().matches("\"learned\"").count() >= count);
}

#[test]
fn probe_mail_and_corrections_reach_a_running_node() {
    let mut node =
        Node::start("[learning]\nprobes = [\"Trap@example.net\"]\nrefresh_seconds = 1\n");
    let mut client = Smtp::connect(node.smtp).unwrap();
    let mut send = |token: &str, to: &str, body: &[u8]| {
        let reply = client.send("shop@example.org", &[to], body).unwrap();
        assert!(reply.starts_with("250 "), "{token}: {reply}");
    };
    send("before", "bob@example.net", &message("before", "Bob", "parcel"));
    send("probe", "trap@example.net", &message("probe", "Eve", "parcel"));
    wait_for_corrections(&node, 1);
    send("after", "bob@example.net", &message("after", "Bob Miller", "parcel"));

    let file = node.data().join("missed.eml");
    std::fs::write(&file, message("missed", "Ann", "garden furniture")).unwrap();
    let learn = |data: &Path| {
        let mut learn = Command::new(env!("CARGO_BIN_EXE_gauntlet"));
        learn.args(["learn", "--spam"]).arg(&file).arg("--data").arg(data).output().unwrap()
    };
    let nowhere = learn(&node.data().join("elsewhere"));
    let text = String::from_utf8_lossy(&nowhere.stderr).into_owned();
    assert!(!nowhere.status.success() && text.contains("no such folder"), "{text}");
    let learned = learn(&node.data());
    assert!(learned.status.success(), "{learned:?}");
    wait_for_corrections(&node, 2);
    send("corrected", "bob@example.net", &message("corrected", "Ann", "garden furniture"));
    node.wait_for_empty_queue();
    node.stop();

    let log = Log::open(&node.data().join("log")).unwrap();
    let mut hits = std::collections::BTreeMap::new();
    for found in log.search(&Query::default()).unwrap().messages {
        let record = log.get(&found.id).unwrap().unwrap().record;
        let verdict = &record.verdict;
        hits.insert(record.subject.clone(), verdict.hit("SIGNATURE_BAD").is_some());
    }
    let expected = [("after", true), ("before", false), ("corrected", true), ("probe", false)];
    let expected = expected.map(|(subject, hit)| (subject.to_owned(), hit));
    assert_eq!(hits.into_iter().collect::<Vec<_>>(), expected);
}

#[test]
fn mail_of_known_authors_counts_as_good_unless_it_is_forged() {
    let records = [
        txt("known.example", "v=spf1 ip4:127.0.0.1 -all"),
        txt("_dmarc.known.example", "v=DMARC1; p=none"),
        txt("forged.example", "v=spf1 ip4:192.0.2.1 -all"),
        txt("_dmarc.forged.example", "v=DMARC1; p=none"),
        txt("other.example", "v=spf1 ip4:127.0.0.1 -all"),
        txt("_dmarc.other.example", "v=DMARC1; p=none"),
    ];
    let Some(zone) = Zone::serve(&records.concat()) else { return };
    let sink = Sink::start();
    let settings = format!(
        "[dns]\nservers = [\"{}\"]\n[facts]\nour_networks = []\nwait_ms_max = 20000\n\
         [learning]\nrefresh_seconds = 1\n\
         [[next_hop]]\nfor = [\"known.example\", \"forged.example\"]\nhosts = [\"{}\"]\n",
        zone.address(),
        sink.address
    );
    let send = |node: &Node, envelope: (&str, &str), author: &str| {
        let body = format!("From: {author}\r\nSubject: minutes\r\n\r\nThe minutes, as agreed.\r\n");
        let mut client = Smtp::connect(node.smtp).unwrap();
        let reply = client.send(envelope.0, &[envelope.1], body.as_bytes()).unwrap();
        assert!(reply.starts_with("250 "), "{author}: {reply}");
    };
    let mut node = Node::start_listening("role = \"outbound\"", &settings);
    for to in ["ann@known.example", "carl@forged.example"] {
        send(&node, ("bob@home.example", to), "bob@home.example");
    }
    node.wait_for_empty_queue();
    assert_eq!(good_mail::read(&node.data()).unwrap(), [], "what goes out is no sample");
    node.stop();

    node.config = node.config.replace("role = \"outbound\"", "");
    node.run();
    // Carl is known, but this is not Carl; Joe is Joe, but nobody knows him.
    send(&node, ("eve@other.example", "bob@home.example"), "carl@forged.example");
    send(&node, ("joe@other.example", "bob@home.example"), "joe@other.example");
    send(&node, ("ann@known.example", "bob@home.example"), "Ann <ann@known.example>");
    wait_for_corrections(&node, 1);
    let found = good_mail::read(&node.data()).unwrap();
    let of: Vec<_> = found.iter().map(|sample| (sample.kind, sample.author)).collect();
    assert_eq!(of, [(SampleKind::KnownAuthor, author_id("ann@known.example"))]);
    let file = std::fs::read(good_mail::path(&node.data())).unwrap();
    assert!(!file.windows(3).any(|text| text.eq_ignore_ascii_case(b"ann")), "no address is kept");
    node.stop();
}
