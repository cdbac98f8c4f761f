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

/// Spellings that Suricata 7.0.10 and 8.0.6 both load, in order with the rules' protocols.
const LOADED: &[(&str, &str)] = &[
    ("tcp", "seq:+5"),
    ("ip", "fragbits:M+"),
    ("ip", "fragbits:+ MD"),
    ("ip", "fragbits:M D"),
    ("ip", "ip_proto:>255"),
    ("ip", "ip_proto:l2tp"),
    ("ip", "ip_proto:>5; ip_proto:<9"),
    ("tcp", "flags:! SA,CE"),
    ("tcp", "flow:to_server; flow:established"),
    ("tcp", "flowbits:set,a|b"),
    ("tcp", "flowbits:isset,a||b"),
    ("tcp", "flowint:ab,+1"),
    ("tcp", "flowint:ab,==,1"),
    ("tcp", "flowint:ab,isset"),
    ("tcp", "content:\"||\""),
    ("tcp", "content:\"a\"; byte_test:1,=,-1,0"),
    ("tcp", "content:\"a\"; byte_test:1,=,0xZZ,0"),
    ("tcp", "content:\"a\"; threshold:type limit,track by_src,count 1,seconds 1m"),
    ("tcp", "content:\"a\"; threshold:type limit,track by_src,count 1,seconds 60,more"),
    ("tcp", "content:\"a\"; base64_decode:bytes 5 offset 6, relative; base64_data; content:\"b\""),
    ("tcp", "priority:4294967296"),
    ("tls", "tls.version:0x7f12"),
    ("tls", "ssl_state:client_hello|server_hello"),
    ("dcerpc", "dce_iface:12345678-1234-1234-1234-123456789abc,>5,any_frag"),
    ("krb5", "krb5.ticket_encryption:17, rc4-hmac"),
    ("http2", "http2.settings:SETTINGS_MAX_FRAME_SIZE>5"),
    ("ike", "ike.chosen_sa_attribute:alg_hash=2"),
];

/// Those that both refuse, with what the error has to name.
const REFUSED: &[(&str, &str, &str)] = &[
    ("tcp", "seq:5-10", "5-10"),
    ("tcp", "ack:1kb", "1kb"),
    ("ip", "id:+5", "+5"),
    ("ip", "tos:+5", "+5"),
    ("tcp", "window:+5", "+5"),
    ("tcp", "flags:s", "'s'"),
    ("tcp", "flags:S A", "spaces"),
    ("ip", "ip_proto:tcp; ip_proto:tcp", "ip_proto"),
    ("ip", "ip_proto:>9; ip_proto:<5", "ip_proto"),
    ("tcp", "flow:established; flow:established", "twice"),
    ("tcp", "flowint:a,=,1", "a,=,1"),
    ("tcp", "hostbits:set,a,", "src"),
    ("tcp", "content:\"a\"; byte_test:1,=,1,0,Big", "Big"),
    ("tcp", "content:\"a\"; byte_jump:1,0,align 4", "align 4"),
    ("tcp", "content:\"a\"; byte_jump:1,0,dce,from_beginning", "dce"),
    ("tcp", "content:\"a\"; byte_extract:1,0,x,big,little", "twice"),
    ("tcp", "content:\"a\"; byte_extract:1,0,x y", "spaces"),
    ("tcp", "content:\"a\"; byte_math:bytes 1,offset 0,oper +,rvalue 1,result x,dce", "dce"),
    ("tcp", "content:\"a\"; isdataat:5,rawbytes", "rawbytes"),
    ("tcp", "content:\"a\"; threshold:type LIMIT,track by_src,count 1,seconds 60", "type"),
    ("tcp", "content:\"a\"; threshold:type both,track by_src,count +1,seconds 60", "+1"),
    ("tcp", "content:\"a\"; base64_decode:offset 5,bytes 5", "bytes"),
    ("tcp", "tag:session,5,packets,", "side"),
    ("tcp", "gid:1a", "1a"),
    ("tcp", "rev:4294967295", "4294967295"),
    ("udp", "rpc:1,1,1,1", "PROGRAM"),
    ("tcp", "nfq_set_mark:1", "MARK/MASK"),
    ("tls", "tls.version:1.4", "1.4"),
    ("tls", "ssl_version:tls1.0,!tls1.1", "tls1.0,!tls1.1"),
    ("tls", "ssl_state:client_hello|", "client_hello|"),
    ("tls", "tls.fingerprint:\"ab\"", "20 pairs"),
    ("http", "http.host; content:\"ABC\"", "http.host: the buffer is in lower case"),
    ("http", "content:\"ABC\"; http_host", "http.host: the buffer is in lower case"),
    ("http", "http.host; content:\"abc\"; nocase", "needs no nocase"),
    ("http", "http.header.raw; content:\"a\"", "http.header.raw needs flow"),
    ("tcp", "pcre:\"/(/\"", "at offset 1:"),
    ("tcp", "pcre:\"/a(/i\"", "at offset 2:"),
    ("dcerpc", "dce_iface:foo", "foo"),
    ("dcerpc", "dce_opnum:5-1", "5-1"),
    ("ike", "ike.chosen_sa_attribute:foo=1", "foo=1"),
    ("krb5", "krb5_msg_type:>5", ">5"),
    ("krb5", "krb5_err_code:-10", "-10"),
    ("krb5", "krb5.ticket_encryption:weak,foo", "weak,foo"),
    ("http2", "http2.frametype:!DATA", "!DATA"),
    ("http2", "http2.settings:foo", "foo"),
    ("mqtt", "mqtt.qos:>1", ">1"),
    ("mqtt", "mqtt.connack.session_present:1", "1"),
    ("ftp-data", "ftpdata_command:STOR", "STOR"),
    ("tcp", "app-layer-protocol:HTTP", "HTTP"),
    ("tcp", "app-layer-event:HTTP.missing_host_header", "HTTP"),
];

#[test]
fn values_are_read_as_suricata_reads_them() {
    let rule =
        |protocol, options| format!("alert {protocol} any any -> any any ({options}; sid:1;)");
    let refused = LOADED.iter().filter_map(|(protocol, options)| {
        read(&rule(protocol, options)).err().map(|told| format!("{options}: {told}"))
    });
    let accepted = REFUSED
        .iter()
        .filter_map(|(protocol, options, words)| fault(&rule(protocol, options), words));
    let faults: Vec<String> = refused.chain(accepted).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
