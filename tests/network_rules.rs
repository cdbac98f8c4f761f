//! Rules in SpamAssassin's language that ask the DNS: asked for real, and judged again by what was
//! kept, with the DNS gone.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::common::zone::{Zone, txt};
use crate::common::{Node, Smtp};
use gauntlet_gateway::clock::now_ms;
use gauntlet_gateway::outbound::signing::{Algorithm, KeyRing};

const PLUGINS: &str = "loadplugin Mail::SpamAssassin::Plugin::URIDNSBL\n\
    loadplugin Mail::SpamAssassin::Plugin::DNSEval\n\
    loadplugin Mail::SpamAssassin::Plugin::AskDNS\n";

/// Each rule of the first half hits the mail below, none of the second.
const RULES: &str = r"
util_rb_tld example
uridnsbl_skip_domain skipped.example
rbl_headers Reply-To,X-Plain
dns_query_restriction deny denied.example
dns_query_restriction allow kept.denied.example
header __BL eval:check_rbl('bl', 'bl.example.')
header HIT_SUB eval:check_rbl_sub('bl', '127.0.0.2')
header HIT_MASK eval:check_rbl_sub('bl', '4')
header HIT_LAST eval:check_rbl('one-lastexternal', 'last.example')
header HIT_TEXT eval:check_rbl_txt('text', 'text.example.', 'spam source')
header HIT_FROM eval:check_rbl_from_host('from', 'rhs.example.')
header HIT_DOMAIN eval:check_rbl_from_domain('domain', 'dom.example.')
header HIT_ENVELOPE eval:check_rbl_envfrom('envelope', 'env.example.')
urirhssub HIT_RHS uri.example. A 2
body HIT_RHS eval:check_uridnsbl('HIT_RHS')
urirhsbl HIT_HOST host.example. A
body HIT_HOST eval:check_uridnsbl('HIT_HOST')
tflags HIT_HOST net notrim
uridnssub HIT_SERVER sbl.example. A 127.0.0.2
body HIT_SERVER eval:check_uridnsbl('HIT_SERVER')
uridnssub HIT_ADDRESS sbl.example. A 127.0.0.3
body HIT_ADDRESS eval:check_uridnsbl('HIT_ADDRESS')
tflags HIT_ADDRESS net a
urinsrhssub HIT_SERVER_NAME nsl.example. A 127.0.0.9
body HIT_SERVER_NAME eval:check_uridnsbl('HIT_SERVER_NAME')
header HIT_FIELD eval:check_rbl_headers('field', 'field.example.')
header HIT_FIELD_NAMED eval:check_rbl_headers('named', 'named.example.', '127.0.0.4', 'X-Home,Reply-To')
uridnsbl HIT_SERVER_ANY any.example. A
body HIT_SERVER_ANY eval:check_uridnsbl('HIT_SERVER_ANY')
urinsrhsbl HIT_NS nsany.example. A
body HIT_NS eval:check_uridnsbl('HIT_NS')
urifullnsrhsbl HIT_FULL_NS full.example. A
body HIT_FULL_NS eval:check_uridnsbl('HIT_FULL_NS')
urifullnsrhssub HIT_FULL_NS_SUB full.example. A 127.0.0.8
body HIT_FULL_NS_SUB eval:check_uridnsbl('HIT_FULL_NS_SUB')
urirhsbl HIT_IP only.example. A
body HIT_IP eval:check_uridnsbl('HIT_IP')
tflags HIT_IP net ips_only
urirhsbl HIT_NAME only.example. A
body HIT_NAME eval:check_uridnsbl('HIT_NAME')
tflags HIT_NAME net domains_only
askdns HIT_ASK _AUTHORDOMAIN_.fresh.example. A /^127\.2\.0\.2$/
askdns HIT_ASK_TXT _SENDERDOMAIN_ TXT /^v=spf1 \+all$/
askdns HIT_QUOTED _SENDERDOMAIN_ TXT 'v=spf1 +all'
askdns HIT_RANGE _AUTHORDOMAIN_.fresh.example. A 127.2.0.0-127.2.0.9
askdns HIT_STATUS _SENDERDOMAIN_.gone.example A [NXDOMAIN]
askdns HIT_HEADER_TAG _HEADER(Reply-To:addr:host)_.field.example A 127.0.0.2
askdns HIT_SOA shop.example SOA /^ns /
header HIT_FIRST_IP eval:check_rbl_rcvd('first', 'first.example.', '127.0.0.5')
tflags HIT_FIRST_IP net ips_only
header HIT_FIRST_NAME eval:check_rbl_rcvd('first-name', 'first.example.', '127.0.0.6')
tflags HIT_FIRST_NAME net domains_only
header HIT_PLAIN eval:check_rbl_headers('plain', 'plain.example.')
tflags HIT_PLAIN net ips_only
header HIT_ACCREDITED eval:check_rbl_accreditor('acc', 'acc.example.', '127.0.0.2', 'trusty')
header HIT_ALLOWED eval:check_rbl('kept', 'kept.denied.example.')
askdns HIT_ASK_REVIP _LASTEXTERNALREVIP_.asn.example TXT
header HIT_BLOCKED eval:check_rbl_sub('refusing', '127.255.255.254')
header HIT_NO_DNS eval:check_dns_sender()

header MISS_REFUSING eval:check_rbl('refusing', 'refuses.example.')
header MISS_REFUSING_MASK eval:check_rbl_sub('refusing', '2')
header MISS_SUB eval:check_rbl_sub('bl', '127.0.0.9')
header MISS_TRUSTED eval:check_rbl('x-untrusted', 'bl.example.')
urirhssub MISS_RHS uri.example. A 4
body MISS_RHS eval:check_uridnsbl('MISS_RHS')
header MISS_FIELD eval:check_rbl_headers('other', 'field.example.', '127.0.0.9')
header MISS_FIELD_NAMED eval:check_rbl_headers('absent', 'named.example.', '127.0.0.4', 'X-None')
urinsrhsbl MISS_NS full.example. A
body MISS_NS eval:check_uridnsbl('MISS_NS')
urifullnsrhssub MISS_FULL_NS full.example. A 127.0.0.9
body MISS_FULL_NS eval:check_uridnsbl('MISS_FULL_NS')
urirhsbl MISS_IP names.example. A
body MISS_IP eval:check_uridnsbl('MISS_IP')
tflags MISS_IP net ips_only
urirhsbl MISS_NAME addresses.example. A
body MISS_NAME eval:check_uridnsbl('MISS_NAME')
tflags MISS_NAME net domains_only
askdns MISS_ASK _AUTHORDOMAIN_.fresh.example. A /^127\.2\.0\.14$/
askdns MISS_UNSIGNED _DKIMDOMAIN_.fresh.example. A
askdns MISS_QUOTED _SENDERDOMAIN_ TXT 'v=spf1 -all'
askdns MISS_RANGE _AUTHORDOMAIN_.fresh.example. A 127.3.0.0-127.3.0.9
askdns MISS_STATUS _SENDERDOMAIN_.gone.example A [NOERROR]
askdns MISS_HEADER_TAG _HEADER(X-None)_.field.example A
askdns MISS_SOA shop.example SOA /^other /
header MISS_FIRST eval:check_rbl_rcvd('first-other', 'first.example.', '127.0.0.9')
header MISS_FIRST_NAME eval:check_rbl_rcvd('first-ips', 'first.example.', '127.0.0.6')
tflags MISS_FIRST_NAME net ips_only
header MISS_PLAIN eval:check_rbl_headers('plain-names', 'plain.example.')
tflags MISS_PLAIN net domains_only
header MISS_ACCREDITED eval:check_rbl_accreditor('acc2', 'acc.example.', '127.0.0.2', 'nobody')
header MISS_AUTHORITY eval:check_rbl_ns_from('authority', 'authority.example.')
header MISS_DENIED eval:check_rbl('denied', 'denied.example.')
urirhsbl MISS_MAILTO mailto.example. A
body MISS_MAILTO eval:check_uridnsbl('MISS_MAILTO')
header MISS_NOWHERE eval:check_rbl('nowhere', 'nowhere.example.')
header MISS_BROKEN eval:check_rbl('broken', 'x.broken.example.')
";

const MAIL: &str = "Received: from mail.bad.example (mail.bad.example [203.0.113.7])\n\
    \tby gw.test (Postfix) with ESMTP id 1; Sat, 21 Nov 2026 10:00:00 +0000\n\
    Return-Path: <a@all.example>\n\
    From: Ann <ann@news.from.example>\nReply-To: x@reply.example\nX-Home: <y@home-page.example>\n\
    X-Plain: 203.0.113.99\nAccreditor: other, trusty level=1\n\
    To: bob@home.example\nSubject: hi\n\n\
    http://www.shop.example/x http://a.skipped.example/ http://198.51.100.9/y\n\
    mailto:c@link.example\n";

/// The same for a message whose origin a webmail service names, with links to mail addresses.
const ORIGIN_RULES: &str = r"
util_rb_tld example
trusted_networks 192.0.2.0/24
originating_ip_headers X-Webmail-IP X-Originating-IP
uridnsbl_skip_mailto 0
header HIT_ORIGIN eval:check_rbl('origin', 'origin.example.')
header HIT_ORIGIN_FURTHER eval:check_rbl_sub('origin', '127.0.0.3')
header HIT_ORIGIN_UNTRUSTED eval:check_rbl('origin-untrusted', 'origin.example.')
header HIT_AUTHORITY eval:check_rbl_ns_from('authority', 'authority.example.', '127.0.0.2')
urirhsbl HIT_MAILTO mailto.example. A
body HIT_MAILTO eval:check_uridnsbl('HIT_MAILTO')

header MISS_ORIGIN_LAST eval:check_rbl('origin-lastexternal', 'origin.example.')
header MISS_ORIGIN_FIRST eval:check_rbl('origin-firsttrusted', 'origin.example.')
header MISS_ORIGIN_TRUSTED eval:check_rbl('trusted', 'trusted.example.')
header MISS_AUTHORITY eval:check_rbl_ns_from('authority-other', 'authority.example.', '127.0.0.9')
";

const ORIGIN_MAIL: &str = "Return-Path: <x@mail.shop.example>\n\
    Received: from mail.bad.example (mail.bad.example [203.0.113.7])\n\
    \tby gw.test (Postfix) with ESMTP id 1; Sat, 21 Nov 2026 10:00:00 +0000\n\
    X-Originating-IP: [198.51.100.77], 198.51.100.78, 192.0.2.9\n\
    From: Ann <ann@news.from.example>\nTo: bob@home.example\nSubject: hi\n\n\
    mailto:c@link.example\n";

fn records() -> String {
    let list = "7.113.0.203.bl.example A 127.0.0.2\n7.113.0.203.bl.example A 127.0.0.4\n\
        7.113.0.203.last.example A 127.0.0.1\n7.113.0.203.refuses.example A 127.255.255.254\n\
        news.from.example.rhs.example A 127.0.0.2\nfrom.example.dom.example A 127.0.0.2\n\
        all.example.env.example A 127.0.0.2\n\
        shop.example.uri.example A 127.0.0.2\nwww.shop.example.host.example A 127.0.0.2\n\
        skipped.example.uri.example A 127.0.0.4\n\
        ns.bad.example A 198.51.100.1\n\
        1.100.51.198.sbl.example A 127.0.0.2\n2.100.51.198.sbl.example A 127.0.0.3\n\
        bad.example.nsl.example A 127.0.0.9\n\
        reply.example.field.example A 127.0.0.2\nhome-page.example.named.example A 127.0.0.4\n\
        1.100.51.198.any.example A 127.0.0.2\nbad.example.nsany.example A 127.0.0.2\n\
        ns.bad.example.full.example A 127.0.0.8\n9.100.51.198.only.example A 127.0.0.2\n\
        shop.example.only.example A 127.0.0.2\nshop.example.names.example A 127.0.0.2\n\
        9.100.51.198.addresses.example A 127.0.0.2\n\
        7.113.0.203.first.example A 127.0.0.5\nmail.bad.example.first.example A 127.0.0.6\n\
        99.113.0.203.plain.example A 127.0.0.2\n7.113.0.203.acc.example A 127.0.0.2\n\
        7.113.0.203.denied.example A 127.0.0.2\n7.113.0.203.kept.denied.example A 127.0.0.2\n\
        77.100.51.198.origin.example A 127.0.0.2\n78.100.51.198.origin.example A 127.0.0.3\n\
        9.2.0.192.trusted.example A 127.0.0.2\nlink.example.mailto.example A 127.0.0.2\n\
        ns.bad.example.authority.example A 127.0.0.2\n\
        news.from.example.fresh.example A 127.2.0.2\nfresh.example A 127.2.0.14\n";
    [
        list.to_owned(),
        txt("7.113.0.203.text.example", "a known spam source"),
        txt("7.113.0.203.asn.example", "64496"),
        txt("all.example", "v=spf1 +all"),
        "$ZONE shop.example\nshop.example NS ns.bad.example.\nwww.shop.example A 198.51.100.2\n"
            .to_owned(),
    ]
    .concat()
}

/// A folder with the rules, their plugins and the mail.
fn folder() -> tempfile::TempDir {
    folder_of(RULES, MAIL)
}

fn folder_of(rules: &str, mail: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("rules/init.pre", PLUGINS);
    write("rules/net.cf", rules);
    write("mail.eml", mail);
    write("c.toml", "[facts]\nour_networks = []\nwait_ms_max = 20000\nquestions_max = 500\n");
    folder
}

/// Asks this server about the mail in the folder.
fn scan_asking(folder: &Path, zone: &Zone) -> Output {
    let server = zone.address().to_string();
    let live = ["--network", "--config", "c.toml", "--dns", &server];
    scan(folder, &[&live[..], &["--keep-facts", "facts.jsonl"]].concat())
}

fn scan(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gauntlet"));
    command.current_dir(folder).env_remove("GAUNTLET_CONFIG");
    command.args(["scan", "--rules", "rules", "--site", "rules", "--profile", "full", "--json"]);
    let output = command.args(["--now", "1795255200"]).args(args).arg("mail.eml").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

/// The JSON line without what it cost.
fn verdict(output: &Output) -> String {
    let mut json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    json.as_object_mut().unwrap().remove("cost_us");
    json.to_string()
}

fn hits(verdict: &str) -> Vec<String> {
    let json: serde_json::Value = serde_json::from_str(verdict).unwrap();
    let name = |hit: &serde_json::Value| hit["rule"].as_str().unwrap().to_owned();
    json["hits"].as_array().unwrap().iter().map(name).collect()
}

fn expected(rules: &str) -> Vec<String> {
    let mut names: Vec<String> = rules
        .lines()
        .filter_map(|line| line.split_whitespace().nth(1))
        .filter(|name| name.starts_with("HIT_"))
        .map(str::to_owned)
        .collect();
    names.sort();
    names.dedup();
    names
}

#[test]
fn asked_then_judged_again_without_dns() {
    let Some(zone) = Zone::serve(&records()) else { return };
    let folder = folder();
    let live = verdict(&scan_asking(folder.path(), &zone));
    let kept = std::fs::read_to_string(folder.path().join("facts.jsonl")).unwrap();
    assert_eq!(hits(&live), expected(RULES), "{kept}");
    assert!(kept.contains("it refuses to answer us (127.255.255.254)"), "{kept}");
    assert!(!kept.contains("skipped.example"), "{kept}");
    assert!(!kept.contains("203.denied.example"), "{kept}");
    drop(zone);
    let again = scan(folder.path(), &["--facts", "facts.jsonl"]);
    assert_eq!(verdict(&again), live);
    // Nobody is asked unless it is wanted; the local profile has none of these rules.
    assert_eq!(hits(&verdict(&scan(folder.path(), &[]))), [""; 0]);
}

#[test]
fn where_mail_came_from_is_asked_about() {
    let Some(zone) = Zone::serve(&records()) else { return };
    let folder = folder_of(ORIGIN_RULES, ORIGIN_MAIL);
    let live = verdict(&scan_asking(folder.path(), &zone));
    let kept = std::fs::read_to_string(folder.path().join("facts.jsonl")).unwrap();
    assert_eq!(hits(&live), expected(ORIGIN_RULES), "{kept}");
    assert!(!kept.contains("9.2.0.192.trusted"), "{kept}");
    // Settings that end all such questions.
    let rules = format!("{ORIGIN_RULES}\nskip_rbl_checks 1\nskip_uribl_checks 1\n");
    let folder = folder_of(&rules, ORIGIN_MAIL);
    assert_eq!(hits(&verdict(&scan_asking(folder.path(), &zone))), [""; 0]);
    let kept = std::fs::read_to_string(folder.path().join("facts.jsonl")).unwrap();
    assert!(!kept.contains("origin.example") && !kept.contains("mailto.example"), "{kept}");
}

#[test]
fn tags_of_signatures() {
    let keys = tempfile::tempdir().unwrap();
    let mut ring = KeyRing::load(keys.path()).unwrap();
    let key = ring.create("news.from.example", "sel", Algorithm::Ed25519, 0).unwrap();
    let zone = txt(&key.record_name(), &key.record())
        + "news.from.example.dkimwl.example A 127.0.3.5\nsel.sel.example A 127.0.0.2\n"
        + &records();
    let Some(zone) = Zone::serve(&zone) else { return };
    let rules = r"
askdns HIT_SIGNER _DKIMDOMAIN_.dkimwl.example A /^127\.\d+\.3\.\d+$/
askdns HIT_SELECTOR _DKIMSELECTOR_.sel.example A
askdns MISS_SIGNER _DKIMDOMAIN_.dkimwl.example A /^127\.\d+\.2\.\d+$/
askdns MISS_UNKNOWN _ASN_.dkimwl.example A
";
    let mail = MAIL.replace('\n', "\r\n");
    let signed = ring.sign(&mail.as_bytes().into(), now_ms() / 1_000).unwrap() + &mail;
    let folder = folder_of(rules, &signed);
    let live = verdict(&scan_asking(folder.path(), &zone));
    assert_eq!(hits(&live), expected(rules), "{live}");
    // What is not signed, or was changed since, has no such tags.
    let folder = folder_of(rules, &signed.replace("Subject: hi", "Subject: ho"));
    assert_eq!(hits(&verdict(&scan_asking(folder.path(), &zone))), [""; 0]);
}

/// Rules whose hit ends questions for a while.
const BLOCK_RULES: &str = r"
header HIT_REFUSING eval:check_rbl('refusing', 'refuses.example.', '^127\.255\.255\.254$')
dns_block_rule HIT_REFUSING refuses.example
header HIT_LISTED eval:check_rbl('bl', 'bl.example.', '127.0.0.2')
dns_block_rule MISS_LISTED bl.example
header MISS_LISTED eval:check_rbl('bl-other', 'bl.example.', '127.0.0.9')
";

#[test]
fn a_rule_that_fires_ends_questions_for_a_while() {
    let Some(zone) = Zone::serve(&records()) else { return };
    let folder = folder_of(BLOCK_RULES, MAIL);
    let mut node = Node::start(&node_config(folder.path(), &zone));
    let mut client = Smtp::connect(node.smtp).unwrap();
    for _ in 0..2 {
        let reply = client.send("a@all.example", &["bob@home.example"], MAIL.as_bytes()).unwrap();
        assert!(reply.starts_with("250") || reply.starts_with("550"), "{reply}");
    }
    node.wait_for_empty_queue();
    node.stop();
    let mut records = records_of(&node);
    records.sort_by_key(|r| r.received_ms);
    let hits = |i: usize| -> Vec<String> {
        records[i].verdict.hits.iter().map(|h| h.rule.to_string()).collect()
    };
    assert_eq!(hits(0), expected(BLOCK_RULES));
    assert_eq!(hits(1), ["HIT_LISTED"]);
    let note = "rules: refuses.example is not asked for now (dns_block_rule HIT_REFUSING)";
    assert!(!records[0].facts.notes.iter().any(|n| n == note), "{:?}", records[0].facts.notes);
    assert!(records[1].facts.notes.iter().any(|n| n == note), "{:?}", records[1].facts.notes);
    assert!(node.log().contains("rules do not ask this domain for a while"), "{}", node.log());
}

#[test]
fn facts_shows_what_rules_ask() {
    let Some(zone) = Zone::serve(&records()) else { return };
    let folder = folder();
    let output = Command::new(env!("CARGO_BIN_EXE_gauntlet"))
        .current_dir(folder.path())
        .env_remove("GAUNTLET_CONFIG")
        .args(["facts", "--dns", &zone.address().to_string(), "--config", "c.toml"])
        .args(["--rules", "rules", "--site", "rules", "mail.eml"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    for line in [
        "A 7.113.0.203.bl.example 127.0.0.2 127.0.0.4",
        "A servers(shop.example).sbl.example 127.0.0.2",
        "A addresses(www.shop.example).sbl.example 127.0.0.3",
        "A news.from.example there is nothing",
    ] {
        assert!(said.contains(line), "{line}:\n{said}");
    }
}

/// All of the log's records, after the node has stopped.
fn records_of(node: &Node) -> Vec<gauntlet_store::LogRecord> {
    let log = gauntlet_store::Log::open(&node.data().join("log")).unwrap();
    let logged = log.search(&gauntlet_store::Query::default()).unwrap().messages;
    logged.iter().map(|m| log.get(&m.id).unwrap().unwrap().record).collect()
}

/// A node that judges by the folder's rules alone.
fn node_config(folder: &Path, zone: &Zone) -> String {
    let rules: [PathBuf; 2] = ["rules/init.pre", "rules/net.cf"].map(|f| folder.join(f));
    format!(
        "[dns]\nservers = [\"{}\"]\n[facts]\nour_networks = []\nwait_ms_max = 20000\n\
         questions_max = 500\n[rules]\nown = false\nnetwork = true\npaths = {rules:?}\n",
        zone.address()
    )
}

#[test]
fn a_node_asks_for_its_rules() {
    let Some(zone) = Zone::serve(&records()) else { return };
    let folder = folder();
    let mut node = Node::start(&node_config(folder.path(), &zone));
    let mut client = Smtp::connect(node.smtp).unwrap();
    for _ in 0..2 {
        let reply = client.send("a@all.example", &["bob@home.example"], MAIL.as_bytes()).unwrap();
        assert!(reply.starts_with("250") || reply.starts_with("550"), "{reply}");
    }
    node.wait_for_empty_queue();
    node.stop();
    let records = records_of(&node);
    assert_eq!(records.len(), 2);
    for record in &records {
        let hits: Vec<&str> = record.verdict.hits.iter().map(|h| &*h.rule).collect();
        assert_eq!(hits, expected(RULES), "{:?}", record.facts.rule_answers);
    }
    assert_eq!(records[0].facts.rule_answers, records[1].facts.rule_answers);
    let log = node.log();
    assert_eq!(log.matches("a DNS list refuses to answer us").count(), 1, "{log}");
}
