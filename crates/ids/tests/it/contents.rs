//! Contents that must not be there, and what is relative to them.

use super::talk::Talk;

/// Numbers of the payloads that each rule finds; each payload is a datagram of its own.
fn found(options: &str, payloads: &[&str]) -> Vec<u64> {
    let mut talk = Talk::new(5000);
    for payload in payloads {
        talk.udp(true, payload.as_bytes());
    }
    let rule = format!("alert udp any any -> any any ({options} sid:1;)\n");
    talk.alerts(&rule, &[], false).iter().map(|(packet, _)| *packet).collect()
}

/// The place stays where it was, but the negated content's length counts if it may be anywhere.
#[test]
fn what_is_relative_to_a_negated_content_begins_behind_its_length() {
    let payloads = ["bb.....", "..bb...", "...bb..", "....bb.", "ccabb.."];
    for (options, wanted) in [
        ("content:!\"cca\"; content:\"bb\"; distance:0;", &[3, 4][..]),
        ("content:!\"cca\"; content:\"bb\"; distance:0; within:5;", &[3]),
        ("content:!\"cca\"; content:\"bb\"; distance:-1;", &[2, 3, 4]),
        ("content:!\"cca\"; content:\"bb\"; distance:-9;", &[1, 2, 3, 4]),
        ("content:!\"cca\"; content:\"bb\"; within:4;", &[1, 2]),
        ("content:!\"cca\"; depth:9; content:\"bb\"; distance:0;", &[1, 2, 3, 4]),
        ("content:!\"cca\"; isdataat:1; content:\"bb\"; distance:0;", &[1, 2, 3, 4]),
        ("content:!\"cca\"; pcre:\"/./R\"; content:\"bb\"; distance:0;", &[3, 4]),
        ("content:!\"cca\"; pcre:\"/./\"; content:\"bb\"; distance:0;", &[2, 3, 4]),
        ("content:\".\"; content:!\"cca\"; distance:0; content:\"bb\"; distance:1;", &[2, 3, 4]),
    ] {
        assert_eq!(found(options, &payloads), wanted, "{options}");
    }
}

/// With nothing to search for, each packet is tried.
#[test]
fn rules_of_negated_contents_alone_are_tried_on_each_packet() {
    let payloads = ["ab", "ba", "xab", "xx"];
    for (options, wanted) in [
        ("content:!\"ab\";", &[2, 4][..]),
        ("content:!\"ab\"; fast_pattern; content:!\"ba\";", &[4]),
        ("content:!\"ab\"; depth:2;", &[2, 3, 4]),
        ("content:!\"b\"; endswith;", &[2, 4]),
        ("content:!\"ab\"; content:!\"x\"; distance:1;", &[2]),
    ] {
        assert_eq!(found(options, &payloads), wanted, "{options}");
    }
}
