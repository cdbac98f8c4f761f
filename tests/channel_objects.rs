//! Channels in the array's object store, an S3 server: what one node publishes, the others follow
//! there, and no web server is needed.

use std::fs;

use gauntlet_channel::generations::Generations;

use crate::common::Node;
use crate::common::array_site::objects_uri;
use crate::common::channels::{Publisher, bad, gauntlet, good};
use crate::s3_server::S3;
use crate::serve_probes_channel::{from_the_probe_to_the_others, trap_of};

/// An array whose objects are there. Its database is away: no channel needs it.
fn array(s3: &S3) -> String {
    let database = "postgres://keeper@127.0.0.1:1/postgres?sslmode=disable";
    format!("[array]\ndatabase = \"{database}\"\nobjects = \"{}\"\n", objects_uri(s3.port))
}

#[test]
fn nodes_of_an_array_follow_what_one_of_them_publishes_to_the_object_store() {
    let Some(mut s3) = S3::start() else { return };
    let array = array(&s3);
    let more = format!("objects = \"channels/main\"\n{array}");
    let (publisher, first) = trap_of(Publisher::new(), &more);
    let settings = publisher.settings("main", "objects:channels/main");
    let others =
        [(); 2].map(|()| Node::start(&format!("[facts]\nenabled = false\n{array}{settings}")));
    from_the_probe_to_the_others(&first, "anybody@anywhere.example", &others);
    assert_eq!(first.metric("gauntlet_channel_publish_failed_total"), 0);

    // Without the store everything stays as it is, and what was published meanwhile is brought.
    s3.kill();
    let published = first.metric("gauntlet_channel_publish_version");
    let body = "Win one of our hundred garden gnomes, only this week.\r\n".repeat(30);
    send_to_trap(&first, &body);
    first.wait_until("it cannot be brought", || {
        first.metric("gauntlet_channel_publish_version") > published
            && first.metric("gauntlet_channel_publish_failed_total") > 0
    });
    let failing = "gauntlet_channel_failures{channel=\"main\"}";
    others[0].wait_until("it cannot be read", || others[0].metric(failing) > 0);
    assert!(first.log().contains("what is published is not in the object store"));
    s3.restart();
    let version = first.metric("gauntlet_channel_publish_version");
    for node in &others {
        let in_force = "gauntlet_channel_version{channel=\"main\"}";
        node.wait_until("what was missed is taken over", || node.metric(in_force) >= version);
    }
}

fn send_to_trap(first: &Node, body: &str) {
    let mut client = crate::common::Smtp::connect(first.smtp).unwrap();
    let raw = [crate::common::message("gnomes", 0), body.as_bytes().to_vec()].concat();
    client.send("a@example.org", &["somebody@anywhere.example"], &raw).unwrap();
}

#[test]
fn a_channel_is_brought_to_the_object_store_and_followed_there_by_command() {
    let Some(s3) = S3::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("gauntlet.toml");
    let data = folder.path().join("data");
    fs::create_dir(&data).unwrap();
    fs::write(&config, format!("[node]\ndata = {data:?}\n{}", array(&s3))).unwrap();
    let run = |arguments: &[&str]| {
        let config = config.to_str().unwrap();
        gauntlet(&[&["channel", "--config", config], arguments].concat())
    };
    let publisher = Publisher::new();
    publisher.publish_rule("tomatoes", 1.5);
    let channel = publisher.channel();
    let upload = ["upload", channel.to_str().unwrap(), "objects:channels/main"];
    let said = good(&run(&upload));
    assert!(said.contains("objects:channels/main is up to date"), "{said}");
    let said = good(&run(&upload));
    assert!(said.contains(": 0 files (0 bytes) brought, 0 removed"), "{said}");

    let root = publisher.root();
    let subscribe = ["subscribe", "main", "objects:channels/main", "--root"];
    good(&run(&[&subscribe[..], &[root.to_str().unwrap()]].concat()));
    assert!(good(&run(&["pull"])).contains("version 2 is in force"));
    assert!(good(&run(&["pull"])).contains("nothing new"));
    publisher.publish_rule("potatoes", 1.5);
    // Nobody is led to what is not there yet.
    assert!(good(&run(&["pull"])).contains("nothing new"));
    good(&run(&upload));
    assert!(good(&run(&["pull"])).contains("version 3 is in force"));
    let generations = Generations::read(&data.join("channels/main"));
    let rules = fs::read_to_string(generations.path(3).join("rules/today.cf")).unwrap();
    assert!(rules.contains("potatoes"), "{rules}");

    // Neither another channel nor what else is in the store is overwritten or removed.
    let other = Publisher::new();
    let elsewhere = other.channel();
    for name in ["objects:channels/main", "objects:channels"] {
        let said = bad(&run(&["upload", elsewhere.to_str().unwrap(), name]));
        assert!(said.contains("something else than this channel is there"), "{name}: {said}");
    }
    good(&run(&["upload", elsewhere.to_str().unwrap(), "objects:channels/main/below"]));
    // What the channel no longer has goes, and nothing beside it.
    fs::write(channel.join("4.left-over.json"), "{}").unwrap();
    good(&run(&upload));
    fs::remove_file(channel.join("4.left-over.json")).unwrap();
    assert!(good(&run(&upload)).contains("1 removed"));
    let below = ["upload", elsewhere.to_str().unwrap(), "objects:channels/main/below"];
    assert!(good(&run(&below)).contains(": 0 files (0 bytes) brought, 0 removed"));
    assert!(good(&run(&["pull"])).contains("nothing new"));
}

#[test]
fn what_cannot_be_brought_or_followed_says_why() {
    let Some(s3) = S3::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("gauntlet.toml");
    let with = |array: &str, arguments: &[&str]| {
        let data = folder.path().join("data");
        fs::write(&config, format!("[node]\ndata = {data:?}\n{array}")).unwrap();
        bad(&gauntlet(&[&["channel", "--config", config.to_str().unwrap()], arguments].concat()))
    };
    let publisher = Publisher::new();
    let channel = publisher.channel();
    let channel = channel.to_str().unwrap();
    let said = with("", &["upload", channel, "objects:main"]);
    assert!(said.contains("array.objects is not set"), "{said}");
    let array = array(&s3);
    for odd in ["main", "objects:", "objects:a//b", "objects:../held", "objects:a b"] {
        let said = with(&array, &["upload", channel, odd]);
        assert!(said.contains("write objects:NAME"), "{odd}: {said}");
    }
    let said = with(&array, &["upload", folder.path().to_str().unwrap(), "objects:main"]);
    assert!(said.contains("no channel, without timestamp.json"), "{said}");
    let wrong = array.replace("mail/array", "nothing/here");
    let said = with(&wrong, &["upload", channel, "objects:main"]);
    assert!(said.contains("nothing"), "{said}");

    let follows = publisher.settings("main", "objects:main");
    let said = with(&follows, &["show"]);
    assert!(said.contains("array.objects names no object store"), "{said}");
    let keys = publisher.path("keys");
    let publishes =
        format!("[channel_publish]\nfolder = {channel:?}\nkeys = {keys:?}\nobjects = \"/a\"\n");
    let said = with(&format!("{array}{publishes}"), &["show"]);
    assert!(said.contains("channel_publish.objects"), "{said}");
}
