//! What of a rule is understood, and what is refused with which words.

use gauntlet_ids::rule::{Rule, RuleKind};

use super::ask;

fn read(rule: &str) -> Result<Rule, String> {
    let mut set = ask::read(rule.as_bytes());
    match set.problems.first() {
        Some(problem) => {
            Err(format!("{}: {problem}", problem.keyword.as_deref().unwrap_or("rule")))
        }
        None => Ok(set.rules.pop().unwrap()),
    }
}

/// What is wrong with how a rule is refused; `None` if nothing is.
fn fault(rule: &str, words: &str) -> Option<String> {
    match read(rule) {
        Ok(_) => Some(format!("{rule} is accepted")),
        Err(told) if told.contains(words) && told.contains("a.rules:1: ") => None,
        Err(told) => Some(format!("{rule}: {told:?} lacks {words:?}")),
    }
}

#[test]
fn headers_are_refused_with_reasons() {
    let rows = [
        ("alert tcp any any -> any any (msg:\"a\";)", "no sid"),
        ("alarm tcp any any -> any any (sid:1;)", "alarm"),
        ("alert nothing any any -> any any (sid:1;)", "nothing"),
        ("alert tcp $NOBODY any -> any any (sid:1;)", "NOBODY"),
        ("alert tcp any $NO_PORTS -> any any (sid:1;)", "NO_PORTS"),
        ("alert tcp 1.2.3.4/33 any -> any any (sid:1;)", "1.2.3.4/33"),
        ("alert tcp 1.2.3.400 any -> any any (sid:1;)", "1.2.3.400"),
        ("alert tcp !any any -> any any (sid:1;)", "negations"),
        ("alert tcp any 70000 -> any any (sid:1;)", "70000"),
        ("alert tcp any 9:3 -> any any (sid:1;)", "9:3"),
        ("alert tcp any any <- any any (sid:1;)", "<-"),
        ("alert tcp any any -> any any", ""),
        ("alert tcp any any -> any any (sid:1)", ""),
        ("alert modbus any any -> any any (sid:1;)", "modbus"),
    ];
    let faults: Vec<String> = rows.iter().filter_map(|(rule, words)| fault(rule, words)).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn options_are_refused_with_reasons() {
    let rows = [
        ("nonsense:1;", "unknown rule keyword \"nonsense\""),
        ("nocase;", "nocase: "),
        ("content:\"\";", "content: "),
        ("content:\"a|4\";", "content: "),
        ("content:\"a|zz|\";", "content: "),
        ("content:\"abc\"; depth:2;", ""),
        ("content:\"abc\"; depth:3; distance:1;", "distance: "),
        ("content:\"a\"; nocase; nocase;", "nocase: "),
        ("content:\"a\"; fast_pattern; content:\"b\"; fast_pattern;", "fast_pattern: "),
        ("content:!\"a\"; fast_pattern:only;", "fast_pattern: "),
        ("content:\"a\"; offset:nothing;", "offset: "),
        ("content:\"a\"; startswith; depth:3;", ""),
        ("pcre:\"/(/\";", "pcre: "),
        ("pcre:\"/a/z\";", "pcre: "),
        ("pcre:\"a\";", "pcre: "),
        ("byte_test:9,>,1,0;", "byte_test: "),
        ("byte_test:2,?,1,0;", "byte_test: "),
        ("byte_jump:1;", "byte_jump: "),
        ("dsize:>9<>3;", "dsize: "),
        ("flow:to_server,to_client;", "flow: "),
        ("flow:nonsense;", "flow: "),
        ("flowbits:set;", "flowbits: "),
        ("flowbits:frob,x;", "flowbits: "),
        ("threshold:type limit,track by_moon,count 1,seconds 1;", "threshold: "),
        ("http.uri;", ""),
        ("http.uri; content:\"a\"; http.nonsense; content:\"b\";", "unknown rule keyword"),
        ("dns.query; content:\"a\"; http.uri; content:\"b\";", ""),
        ("dataset:isset;", "dataset: "),
        ("lua:a.lua;", "lua: "),
        ("classtype:unheard-of; priority:none;", "priority: "),
        ("app-layer-event:http.nonsense;", "nonsense"),
        ("decode-event:nonsense;", "nonsense"),
        ("sid:2;", ""),
    ];
    let faults = rows.iter().filter_map(|(options, words)| {
        fault(&format!("alert tcp any any -> any any ({options} sid:1;)"), words)
    });
    let faults: Vec<String> = faults.collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

fn kind(rule: &str) -> RuleKind {
    read(rule).unwrap_or_else(|told| panic!("{rule}: {told}")).kind
}

#[test]
fn rules_are_of_the_kind_that_suricata_says() {
    use RuleKind as Kind;
    let mut faults = Vec::new();
    for (rule, wanted) in [
        ("alert ip any any -> any any (sid:1;)", Kind::IpOnly),
        ("alert tcp 10.0.0.0/8 any -> any any (sid:1;)", Kind::IpOnly),
        ("alert ip [10.0.0.0/8,!10.1.0.0/16] any -> any any (sid:1;)", Kind::LikeIpOnly),
        ("alert tcp any any -> any 80 (sid:1;)", Kind::IpOnly),
        ("alert tcp any any -> any any (flags:S; sid:1;)", Kind::Packet),
        ("alert tcp any any -> any any (content:\"a\"; sid:1;)", Kind::Stream),
        ("alert tcp any any -> any any (content:\"a\"; depth:1; sid:1;)", Kind::PacketStream),
        ("alert tcp-stream any any -> any any (content:\"a\"; sid:1;)", Kind::Stream),
        ("alert tcp-pkt any any -> any any (content:\"a\"; sid:1;)", Kind::Packet),
        ("alert udp any any -> any any (content:\"a\"; sid:1;)", Kind::PacketStream),
        ("alert tcp any any -> any any (content:\"a\"; dsize:1; sid:1;)", Kind::Packet),
        ("alert http any any -> any any (sid:1;)", Kind::AppLayer),
        ("alert http any any -> any any (http.uri; content:\"a\"; sid:1;)", Kind::Transaction),
        (
            "alert tcp any any -> any any (app-layer-event:http.missing_host_header; sid:1;)",
            Kind::Transaction,
        ),
        (
            "alert tcp any any -> any any (app-layer-protocol:http; sid:1;)",
            Kind::ProtocolDetectionOnly,
        ),
        (
            "alert ip any any -> any any (decode-event:ipv4.pkt_too_small; sid:1;)",
            Kind::DecodeEventOnly,
        ),
    ] {
        let found = kind(rule);
        if found != wanted {
            faults.push(format!("{rule}: {found:?}, not {wanted:?}"));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// The pattern by which a rule is prefiltered.
fn pattern(options: &str) -> String {
    let rule = format!("alert http any any -> any any ({options} sid:1;)");
    let rule = read(&rule).unwrap_or_else(|told| panic!("{rule}: {told}"));
    rule.fast_pattern.map_or(String::new(), |p| p.bytes.escape_ascii().to_string())
}

#[test]
fn the_fast_pattern_is_the_one_that_suricata_chooses() {
    for (options, wanted) in [
        ("content:\"abcd\"; content:\"abcdef\";", "abcdef"),
        ("content:\"abcd\"; fast_pattern; content:\"abcdef\";", "abcd"),
        ("content:\"abcd\"; fast_pattern:1,2; content:\"abcdef\";", "bc"),
        ("content:\"abcdefgh\"; http.uri; content:\"xy\";", "xy"),
        ("content:\"aaaa\"; content:\"abcd\";", "abcd"),
        ("http.method; content:\"GET\"; http.uri; content:\"/\";", "/"),
        ("content:!\"abcdef\"; content:\"ab\";", "ab"),
        ("flow:established;", ""),
    ] {
        assert_eq!(pattern(options), wanted, "{options}");
    }
}

#[test]
fn rules_are_put_in_order() {
    let rules = br#"alert tcp any any -> any any (content:"a"; sid:1;)
alert tcp any any -> any any (flowbits:isset,x; content:"a"; sid:2;)
alert tcp any any -> any any (content:"a"; flowbits:set,x; sid:3;)
drop tcp any any -> any any (content:"a"; sid:4;)
pass tcp any any -> any any (content:"a"; sid:5;)
alert tcp any any -> any any (content:"a"; priority:1; sid:6;)
"#;
    let set = ask::read(rules);
    let order: Vec<u32> = set.rules.iter().map(|rule| rule.sid).collect();
    assert_eq!(order, [5, 4, 3, 2, 6, 1]);
}

#[test]
fn lines_are_joined_and_escapes_undone() {
    let set = ask::read(
        b"# no rule\n\nalert tcp any any -> any any (msg:\"a\\;b \\\"c\\\"\"; \\\n content:\"x\\;y\"; sid:7; rev:3;)\n",
    );
    assert!(set.problems.is_empty(), "{:?}", set.problems);
    let rule = &set.rules[0];
    assert_eq!((rule.place.line, rule.sid, rule.rev), (3, 7, 3));
    assert_eq!(rule.message, "a;b \"c\"");
    assert_eq!(rule.fast_pattern.as_ref().unwrap().bytes, b"x;y");
}

#[test]
fn a_higher_revision_replaces_and_the_same_is_told() {
    let rule = |rev| format!("alert tcp any any -> any any (content:\"a\"; sid:1; rev:{rev};)\n");
    let set = ask::read((rule(1) + &rule(2) + &rule(2)).as_bytes());
    assert_eq!(set.rules.len(), 1);
    assert_eq!(set.rules[0].rev, 2);
    assert_eq!(set.problems.len(), 1);
    assert_eq!(set.problems[0].place.line, 3);
}
