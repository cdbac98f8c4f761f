//! What we sign is verified by other programs' verifiers (Mail::DKIM and OpenDKIM), with the
//! records that `gauntlet dkim new` prints, served by a real DNS server; and what they sign is
//! verified by us.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::common::zone::{Zone, txt};
use crate::common::{Node, Sink, Smtp, program};
use gauntlet_gateway::outbound::signing::{Algorithm, KeyRing};

/// Verifies standard input; the name server's port is the argument. Prints a result per signature.
const VERIFY: &str = r#"
use Mail::DKIM::Verifier; use Mail::DKIM::DNS; use Net::DNS::Resolver;
Mail::DKIM::DNS::resolver(Net::DNS::Resolver->new(
    nameservers => ["127.0.0.1"], port => shift, recurse => 0));
my $verifier = Mail::DKIM::Verifier->new;
binmode STDIN; $verifier->PRINT($_) while <STDIN>; $verifier->CLOSE;
print $_->domain, " ", $_->algorithm, " ", $_->result_detail, "\n" for $verifier->signatures;
"#;

/// The same of an ARC chain.
const VERIFY_ARC: &str = r#"
use Mail::DKIM::ARC::Verifier; use Mail::DKIM::DNS; use Net::DNS::Resolver;
Mail::DKIM::DNS::resolver(Net::DNS::Resolver->new(
    nameservers => ["127.0.0.1"], port => shift, recurse => 0));
my $verifier = Mail::DKIM::ARC::Verifier->new;
binmode STDIN; $verifier->PRINT($_) while <STDIN>; $verifier->CLOSE;
print $verifier->result_detail, "\n";
"#;

/// Signs standard input with the key file and canonicalization of the arguments.
const SIGN: &str = r#"
use Mail::DKIM::Signer;
my ($file, $method) = @ARGV;
my $signer = Mail::DKIM::Signer->new(Algorithm => "rsa-sha256", Method => $method,
    Domain => "sender.example", Selector => "s1", KeyFile => $file);
binmode STDIN; binmode STDOUT;
my $mail = join "", <STDIN>; $signer->PRINT($mail); $signer->CLOSE;
print $signer->signature->as_string, "\r\n", $mail;
"#;

/// White space before a colon (RFC 5322 section 4.5).
const OBSOLETE: &str = "obsolete fields";

/// Messages whose canonical form is easily got wrong, with what they are. All are valid SMTP.
const MAILS: [(&str, &[u8]); 7] = [
    ("plain", b"From: a@D\r\nTo: b@away.example\r\nSubject: hi\r\n\r\nhello\r\n"),
    (
        "folded fields",
        b"From: \"Ann\tof\r\n\t the  team\"  <a@D>\t\r\nTO:b@away.example,\r\n  c@away.example \r\n\
          subject:  two \r\n   lines\t \r\nCc: d@away.example\r\nDate: Sat, 21 Nov 2026 10:00:00 +0000\r\n\
          \r\nhello\r\n",
    ),
    (OBSOLETE, b"From: a@D\r\nTo: b@away.example\r\nSubject : hi\r\nDate : x\r\n\r\nhello\r\n"),
    (
        "blank lines at the end",
        b"From: a@D\r\nTo: b@away.example\r\nSubject: x\r\n\r\na \t b\r\n\r\n. \r\n..\r\n \t\r\n\r\n\r\n",
    ),
    (
        "8-bit",
        "From: a@D\r\nTo: b@away.example\r\nSubject: Grüße\r\nMIME-Version: 1.0\r\n\
         Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n\r\nGrüße\u{a0}aus\tKöln\r\n"
            .as_bytes(),
    ),
    ("no body", b"From: a@D\r\nTo: b@away.example\r\nSubject: none\r\n\r\n"),
    (
        "fields twice",
        b"From: a@D\r\nTo: b@away.example\r\nSubject: x\r\nComments: a\r\nComments: b\r\n\
          Reply-To: r@D\r\nMessage-ID: <1@D>\r\nList-Id: l <l.D>\r\n\r\nx\r\n",
    ),
];

fn run(command: &mut Command, input: &[u8]) -> Output {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap()
}

/// Runs a Perl script; its output.
fn perl(script: &str, arguments: &[&str], mail: &[u8]) -> Vec<u8> {
    let output = run(Command::new("perl").args(["-e", script, "--"]).args(arguments), mail);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// Mail::DKIM can be used.
fn has_mail_dkim() -> bool {
    let there = Command::new("perl").args(["-MMail::DKIM::ARC::Verifier", "-e", "1"]).output();
    let there = there.is_ok_and(|o| o.status.success());
    if !there {
        assert!(std::env::var_os("CI").is_none(), "libmail-dkim-perl is missing");
        eprintln!("skipped: Mail::DKIM is not installed (Debian's package libmail-dkim-perl)");
    }
    there
}

/// Mail::DKIM knows Ed25519 from version 1.20240619 on; Debian 12 has an older one.
fn mail_dkim_knows_ed25519() -> bool {
    let script = "eval { Mail::DKIM::Algorithm::ed25519_sha256->can('new') } or die";
    let module = "-MMail::DKIM::Algorithm::ed25519_sha256";
    let knows = Command::new("perl").args([module, "-e", script]).output();
    let knows = knows.is_ok_and(|o| o.status.success());
    if !knows {
        eprintln!("this Mail::DKIM knows no Ed25519: OpenDKIM alone verifies such signatures");
    }
    knows
}

/// What OpenDKIM says of a message in a file, by way of its own resolver.
fn opendkim(folder: &Path, zone: &Zone, mail: &[u8]) -> String {
    let (conf, unbound) = (folder.join("opendkim.conf"), folder.join("unbound.conf"));
    let port = zone.address().port();
    std::fs::write(
        &unbound,
        format!(
            "server:\n  do-not-query-localhost: no\n  module-config: \"iterator\"\n\
             stub-zone:\n  name: \".\"\n  stub-addr: 127.0.0.1@{port}\n"
        ),
    )
    .unwrap();
    let text = format!("Mode v\nSyslog no\nResolverConfiguration {}\n", unbound.display());
    std::fs::write(&conf, text).unwrap();
    std::fs::write(folder.join("m.eml"), mail).unwrap();
    let mut command = Command::new(program("opendkim").unwrap());
    command.arg("-x").arg(conf).arg("-t").arg(folder.join("m.eml")).args(["-v", "-v"]);
    let output = run(&mut command, b"");
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

/// Makes keys with the command; the lines that it prints for the zone file.
fn new_keys(folder: &Path, keys: &[(&str, &str)]) -> String {
    let file = folder.join("keys.toml");
    std::fs::write(&file, format!("[dkim]\nkeys = {:?}\n", folder.join("dkim"))).unwrap();
    let mut lines = String::new();
    for (domain, algorithm) in keys {
        let output = Command::new(env!("CARGO_BIN_EXE_gauntlet"))
            .env_remove("GAUNTLET_CONFIG")
            .args(["dkim", "new", domain, "--algorithm", algorithm, "--config"])
            .arg(&file)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        lines += &String::from_utf8(output.stdout).unwrap();
    }
    lines
}

/// A node that signs; its next hop.
fn signing_node(folder: &Path, sink: &Sink) -> Node {
    let config = format!(
        "[dkim]\nkeys = {:?}\n[[next_hop]]\nfor = [\"away.example\"]\nhosts = [\"{}\"]\n",
        folder.join("dkim"),
        sink.address
    );
    Node::start_listening("role = \"outbound\"", &config)
}

#[test]
fn others_verify_what_we_sign() {
    if !has_mail_dkim() || program("opendkim").is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let keys = [("rsa.example", "rsa"), ("ed.example", "ed25519")];
    let both = [("both.example", "rsa"), ("both.example", "ed25519")];
    let records = new_keys(folder.path(), &[keys, both].concat());
    let Some(zone) = Zone::serve(&records) else { return };
    let port = zone.address().port().to_string();
    let ed25519_too = mail_dkim_knows_ed25519();
    let sink = Sink::start();
    let node = signing_node(folder.path(), &sink);
    let mut client = Smtp::connect(node.smtp).unwrap();
    let cases = [("rsa.example", 1), ("ed.example", 1), ("both.example", 2)];
    for (domain, signatures) in cases {
        for (what, mail) in MAILS {
            let what = format!("{domain}, {what}");
            let mail = replaced(mail, b"@D", format!("@{domain}").as_bytes());
            let from = format!("a@{domain}");
            let reply = client.send_as_it_is(&from, &["b@away.example"], &mail).unwrap();
            assert!(reply.starts_with("250"), "{what}: {reply}");
            node.wait_for_empty_queue();
            let sent = sink.taken().pop().unwrap();
            let text = String::from_utf8_lossy(&sent).into_owned();
            assert_eq!(text.matches("DKIM-Signature:").count(), signatures, "{what}: {text}");

            let said = opendkim(folder.path(), &zone, &sent);
            assert_eq!(said.matches("dkim=pass").count(), signatures, "{what}: {said}\n{text}");
            let said = String::from_utf8(perl(VERIFY, &[&port], &sent)).unwrap();
            for line in said.lines() {
                let unknown = line.contains("ed25519") && !ed25519_too;
                assert!(unknown || line.ends_with(" pass"), "{what}: {said}\n{text}");
            }
            let rsa = domain != "ed.example";
            assert!(!rsa || said.contains(" rsa-sha256 pass"), "{what}: {said}");

            // Fields are signed once more than they are there: a second one is noticed.
            for added in ["From: boss@away.example", "Subject: other", "Content-Type: text/html"] {
                let forged = [added.as_bytes(), b"\r\n", &sent].concat();
                let said = opendkim(folder.path(), &zone, &forged);
                assert!(!said.contains("dkim=pass"), "{what}, {added}: {said}");
                let said = String::from_utf8(perl(VERIFY, &[&port], &forged)).unwrap();
                assert!(!said.contains(" pass\n"), "{what}, {added}: {said}");
            }
        }
    }
}

#[test]
fn others_verify_what_we_seal() {
    if !has_mail_dkim() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let records = new_keys(folder.path(), &[("hop.example", "rsa")]);
    let Some(zone) = Zone::serve(&records) else { return };
    let (port, sink) = (zone.address().port().to_string(), Sink::start());
    let node = Node::start(&format!(
        "[dns]\nservers = [\"{}\"]\n[facts]\nour_networks = []\n\
         [dkim]\nkeys = {:?}\nseal_as = \"hop.example\"\n\
         [[next_hop]]\nfor = [\"away.example\"]\nhosts = [\"{}\"]\n",
        zone.address(),
        folder.path().join("dkim"),
        sink.address
    ));
    let mut client = Smtp::connect(node.smtp).unwrap();
    for (what, mail) in MAILS {
        let mut mail = replaced(mail, b"@D", b"@sender.example");
        for hop in ["first", "second"] {
            let reply =
                client.send_as_it_is("a@sender.example", &["b@away.example"], &mail).unwrap();
            assert!(reply.starts_with("250"), "{what}: {reply}");
            node.wait_for_empty_queue();
            mail = sink.taken().pop().unwrap();
            let said = String::from_utf8(perl(VERIFY_ARC, &[&port], &mail)).unwrap();
            assert!(
                said.starts_with("pass "),
                "{said}: {what}, {hop} hop: {}",
                String::from_utf8_lossy(&mail)
            );
        }
    }
}

#[test]
fn we_verify_what_others_sign() {
    if !has_mail_dkim() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut ring = KeyRing::load(&folder.path().join("dkim")).unwrap();
    let key = ring.create("sender.example", "s1", Algorithm::Rsa, 2_048).unwrap();
    // A record as others publish it, and as some do who take the key without its frame (RFC 6376
    // section 3.6.1 shows that one, its examples and all signers publish the other).
    let openssl = |form: &str| {
        let public = base64(&public_der(&key.path, &["rsa", form]));
        txt("s1._domainkey.sender.example", &format!("v=DKIM1; k=rsa; p={public}"))
    };
    for form in ["-pubout", "-RSAPublicKey_out"] {
        let Some(zone) = Zone::serve(&openssl(form)) else { return };
        for method in ["simple/simple", "simple/relaxed", "relaxed/simple", "relaxed/relaxed"] {
            // Of the simple form, such fields are not found: the result is fail, never a false
            // pass.
            let fits = |(what, _): &(&str, &[u8])| *what != OBSOLETE || method.starts_with('r');
            for (what, mail) in MAILS.into_iter().filter(fits) {
                let what = format!("{form}, {method}, {what}");
                let mail = replaced(mail, b"@D", b"@sender.example");
                let signed = perl(SIGN, &[key.path.to_str().unwrap(), method], &mail);
                let file = folder.path().join("signed.eml");
                std::fs::write(&file, &signed).unwrap();
                let server = zone.address().to_string();
                let output = Command::new(env!("CARGO_BIN_EXE_gauntlet"))
                    .env_remove("GAUNTLET_CONFIG")
                    .args(["facts", "--json", "--client", "192.0.2.1", "--dns", &server])
                    .arg(&file)
                    .output()
                    .unwrap();
                let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
                assert_eq!(said["facts"]["dkim"][0]["result"], "pass", "{what}: {said}");
            }
        }
    }
}

/// The key's public half in DER, as OpenSSL reads it from our file.
fn public_der(file: &Path, form: &[&str]) -> Vec<u8> {
    let mut command = Command::new("openssl");
    let output = run(command.args(form).args(["-outform", "DER", "-in"]).arg(file), b"");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {error}", file.display());
    output.stdout
}

fn base64(bytes: &[u8]) -> String {
    String::from_utf8(run(Command::new("base64").arg("-w0"), bytes).stdout).unwrap()
}

#[test]
fn openssl_reads_our_keys_and_makes_the_same_records() {
    let folder = tempfile::tempdir().unwrap();
    let mut ring = KeyRing::load(&folder.path().join("dkim")).unwrap();
    let key = ring.create("a.example", "rsa", Algorithm::Rsa, 2_048).unwrap();
    let public = base64(&public_der(&key.path, &["pkey", "-pubout"]));
    assert_eq!(key.record(), format!("v=DKIM1; k=rsa; p={public}"));
    let key = ring.create("a.example", "ed", Algorithm::Ed25519, 0).unwrap();
    let public = public_der(&key.path, &["pkey", "-pubout"]);
    // RFC 8463 section 4.2: the 32 bytes at its end.
    let public = base64(&public[public.len() - 32..]);
    assert_eq!(key.record(), format!("v=DKIM1; k=ed25519; p={public}"));
    // The key and the certificate that a node makes itself.
    let node = Node::start("");
    public_der(&node.data().join("tls/self-signed.key"), &["pkey", "-pubout"]);
    public_der(&node.data().join("tls/self-signed.pem"), &["x509"]);
}

#[test]
fn doctor_and_rotate_name_a_record_that_verifiers_cannot_read() {
    let folder = tempfile::tempdir().unwrap();
    let mut ring = KeyRing::load(&folder.path().join("dkim")).unwrap();
    let name = |selector: &str| format!("{selector}._domainkey.a.example");
    let mut records = String::new();
    for selector in ["now", "next"] {
        let key = ring.create("a.example", selector, Algorithm::Rsa, 2_048).unwrap();
        let bare = base64(&public_der(&key.path, &["rsa", "-RSAPublicKey_out"]));
        records += &txt(&name(selector), &format!("v=DKIM1; k=rsa; p={bare}"));
    }
    let Some(zone) = Zone::serve(&records) else { return };
    let file = folder.path().join("gauntlet.toml");
    let keys = folder.path().join("dkim");
    let text = format!("[dkim]\nkeys = {keys:?}\n[dns]\nservers = [\"{}\"]\n", zone.address());
    std::fs::write(&file, text).unwrap();
    let said = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gauntlet"));
        let command = command.env_remove("GAUNTLET_CONFIG").args(arguments);
        let output = run(command.arg("--config").arg(&file), b"");
        assert!(!output.status.success());
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    };
    let wrong = "is published as a bare RSAPublicKey (PKCS#1), which most verifiers cannot read";
    for (arguments, selector) in
        [(&["doctor"][..], "now"), (&["dkim", "rotate", "a.example"], "next")]
    {
        let said = said(arguments);
        assert!(said.contains(&format!("{} {wrong}", name(selector))), "{said}");
        let key = ring.keys().find(|k| k.selector == selector).unwrap();
        assert!(said.contains(&key.zone_line()), "{said}");
    }
}

fn replaced(mail: &[u8], what: &[u8], with: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(mail.len() + 64);
    let mut at = 0;
    while at < mail.len() {
        if mail[at..].starts_with(what) {
            out.extend_from_slice(with);
            at += what.len();
        } else {
            out.push(mail[at]);
            at += 1;
        }
    }
    out
}
