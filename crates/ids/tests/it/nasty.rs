//! Damaged rules and odd bytes: never a panic, never silence.

use super::ask;

const RULES: &[&str] = &[
    r#"alert http $HOME_NET [80,!81] -> [1.2.3.0/24,!1.2.3.4] any (msg:"a\;b"; content:"|41|b"; sid:1;)"#,
    r#"drop tcp any any <> any 1:99 (content:"z"; pcre:"/a(b)c/R"; byte_test:2,>,3,0; flowbits:set,x; sid:2;)"#,
    r#"alert dns any any -> any any (dns.query; dotprefix; content:".a.b"; endswith; sid:3;)"#,
    r#"alert ip any any -> any any (byte_extract:1,0,n; content:"x"; offset:n; xbits:set,a,track ip_src; sid:4;)"#,
    r#"alert tls any any -> any any (tls.sni; dataset:isset,s,type string; bsize:3<>9; sid:5;)"#,
    r#"alert tcp any any -> any any (base64_decode:bytes 9,relative; base64_data; content:"q"; sid:6;)"#,
    r#"alert udp any any -> any any (threshold:type limit,track by_src,count 1,seconds 9; sid:7;)"#,
];

#[test]
fn damaged_rules_are_loaded_or_told() {
    for rule in RULES {
        ask::rules(rule.as_bytes());
        let problems = ask::read(rule.as_bytes()).problems;
        assert!(problems.is_empty(), "{rule}: {problems:?}");
        for at in 0..rule.len() {
            ask::rules(&rule.as_bytes()[..at]);
            for byte in *b"\0\x7f\xff\"\\;:|,()!-9" {
                let mut damaged = rule.as_bytes().to_vec();
                damaged[at] = byte;
                ask::rules(&damaged);
            }
            let mut twice = rule.as_bytes().to_vec();
            twice.extend_from_within(at..);
            ask::rules(&twice);
        }
    }
}

#[test]
fn odd_files_are_read() {
    for text in ["", "\n", "#", "\\", "\\\n\\\n", "alert", "(", "alert tcp any any -> any any ()"] {
        ask::rules(text.as_bytes());
    }
    ask::rules(&[b'['; 100_000]);
    ask::rules(format!("alert tcp {} any -> any any (sid:1;)", "[".repeat(4_000)).as_bytes());
    ask::rules(format!("alert tcp {} any -> any any (sid:1;)", "!".repeat(4_000)).as_bytes());
    ask::rules(format!("alert tcp any any -> any any ({}sid:1;)", "a;".repeat(3_000)).as_bytes());
    ask::rules("alert tcp any any -> any any (sid:1;)\n".repeat(1_000).as_bytes());
}

#[test]
fn any_bytes_are_inspected() {
    let options = [
        "content:\"a\"; content:\"b\"; distance:-99; within:1048575;",
        "byte_test:8,>,18446744073709551615,65535;",
        "byte_test:4,=,1,-65535,relative;",
        "byte_jump:4,0,relative,multiplier 65535,post_offset -65535; content:\"a\"; distance:0;",
        "byte_extract:8,0,n; content:\"a\"; offset:n; depth:n; content:\"b\"; distance:n; within:n;",
        "byte_extract:8,0,n; isdataat:n,relative; byte_test:n,=,n,n;",
        "byte_math:bytes 4,offset 0,oper *,rvalue 4294967295,result r; byte_jump:4,r;",
        "pcre:\"/(a|b)*$/\"; content:\"c\"; within:2;",
        "base64_decode:bytes 4,offset 3; base64_data; content:\"a\";",
        "asn1:oversize_length 3, relative_offset -5;",
        "http.uri; url_decode; compress_whitespace; content:\"a\"; bsize:3;",
        "entropy: bytes 3, offset 2, value >2;",
    ];
    let payloads: [&[u8]; 6] =
        [b"", b"a", &[0; 40], &[0xff; 40], b"aababbaabbcc0x99", &[0x30, 0x84, 0xff, 0xff, 0xff]];
    for options in options {
        let rule = format!("alert tcp any any -> any any ({options} sid:1;)");
        let set = ask::read(rule.as_bytes());
        assert!(set.problems.is_empty(), "{:?}", set.problems);
        for payload in payloads {
            let mut input = rule.clone().into_bytes();
            input.push(0);
            input.extend_from_slice(payload);
            ask::inspect(&input);
        }
    }
}
