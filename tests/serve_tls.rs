//! TLS and logins: STARTTLS, TLS from the first byte, injection, submission, TLS to next hops.

use std::process::Command;

use crate::common::{Node, Sink, Smtp, add_user, message, program, tokens};

/// Runs a script of Python with the standard library's SMTP client; false if it raised.
fn python(node: &Node, script: &str) -> Option<bool> {
    let python = program("python3")?;
    let text = format!(
        "import smtplib, ssl\nport = {}\ncontext = ssl._create_unverified_context()\n\
         text = 'From: a@example.org\\r\\nSubject: minutes\\r\\nX-Token: py\\r\\n\\r\\nhello\\r\\n'\n{script}",
        node.smtp.port()
    );
    let output = Command::new(python).arg("-c").arg(text).output().unwrap();
    eprintln!("{}", String::from_utf8_lossy(&output.stderr));
    Some(output.status.success())
}

#[test]
fn python_sends_by_starttls() {
    let node = Node::start("");
    let sent = python(
        &node,
        "s = smtplib.SMTP('127.0.0.1', port)\ns.starttls(context=context)\n\
         s.ehlo()\nassert 'starttls' not in s.esmtp_features\n\
         s.sendmail('a@example.org', ['b@example.net'], text)\ns.quit()\n",
    );
    let Some(sent) = sent else { return };
    assert!(sent);
    node.wait_for_empty_queue();
    let delivered = node.maildir();
    assert_eq!(tokens(&delivered)["py"], 1);
    assert!(String::from_utf8_lossy(&delivered[0]).contains(" with ESMTPS id "));
}

#[test]
fn commands_behind_starttls_are_not_carried_into_tls() {
    let node = Node::start("");
    let mut client = Smtp::connect(node.smtp).unwrap();
    client.write(b"STARTTLS\r\nMAIL FROM:<evil@example.org>\r\n").unwrap();
    assert!(client.reply().unwrap().starts_with("554"));
    assert!(client.reply().is_err(), "the connection is closed");
}

#[test]
fn a_login_is_needed_and_taken_over_tls_only() {
    let mut node = Node::start_listening(
        "role = \"submission\"\nimplicit_tls = true",
        "[domains]\nlocal = [\"example.net\"]\n",
    );
    let data = node.data();
    let user = |addresses: &[&str]| add_user(&data, addresses);
    user(&["--address", "a@example.org"]);
    let connect = "s = smtplib.SMTP_SSL('127.0.0.1', port, context=context)\n";
    let send = "s.sendmail('a@example.org', ['b@example.net'], text)\n";
    let login = "s.login('ann', 'correct horse battery')\n";
    let Some(refused) = python(&node, &format!("{connect}{send}")) else { return };
    assert!(!refused, "no mail without a login");
    let wrong = format!("{connect}s.login('ann', 'wrong horse battery')\n");
    assert_eq!(python(&node, &wrong), Some(false));
    let forged = "s.sendmail('boss@example.org', ['b@example.net'], text)\n";
    assert_eq!(python(&node, &format!("{connect}{login}{forged}")), Some(false));
    // The From field is held to the same addresses; nothing is taken of what does not fit.
    for author in ["Boss <boss@example.org>", "a@example.org, boss@example.org", ""] {
        let other = format!(
            "s.sendmail('a@example.org', ['b@example.net'], 'From: {author}\\r\\n\\r\\nhello')\n"
        );
        assert_eq!(python(&node, &format!("{connect}{login}{other}")), Some(false), "{author}");
    }
    assert_eq!(python(&node, &format!("{connect}{login}{send}")), Some(true));
    node.wait_for_empty_queue();
    let delivered = node.maildir();
    assert_eq!(delivered.len(), 1);
    assert!(String::from_utf8_lossy(&delivered[0]).contains(" with ESMTPSA id "));
    node.stop();
}

#[test]
fn the_next_hop_gets_its_mail_by_tls_when_it_offers_it() {
    let hop = Node::start("");
    let node = Node::start(&format!(
        "[route]\nnext_hop = \"{}\"\n[sender]\ntls = \"required\"\n",
        hop.smtp
    ));
    let mut client = Smtp::connect(node.smtp).unwrap();
    let reply = client.send("a@example.org", &["b@example.net"], &message("t", 100)).unwrap();
    assert!(reply.starts_with("250"), "{reply}");
    hop.wait_until("it is delivered", || tokens(&hop.maildir()).contains_key("t"));
    assert_eq!(hop.metric("gauntlet_tls_sessions_total"), 1);
}

#[test]
fn required_tls_is_not_given_up() {
    let plain = Sink::start();
    let node = Node::start(&format!(
        "[route]\nnext_hop = \"{}\"\n[sender]\ntls = \"required\"\nretry_seconds = [1]\n",
        plain.address
    ));
    let mut client = Smtp::connect(node.smtp).unwrap();
    let reply = client.send("a@example.org", &["b@example.net"], &message("t", 100)).unwrap();
    assert!(reply.starts_with("250"), "{reply}");
    node.wait_until("it was tried", || node.metric("gauntlet_deferred_total") >= 1);
    assert_eq!(plain.taken().len(), 0);
}

/// Puts a certificate for this name, and its key, into these files.
fn certificate(name: &str, [chain, key]: [&std::path::Path; 2]) {
    let made = rcgen::generate_simple_self_signed(vec![name.to_owned()]).unwrap();
    std::fs::write(chain, made.cert.pem()).unwrap();
    std::fs::write(key, made.signing_key.serialize_pem()).unwrap();
}

#[test]
fn the_name_chooses_the_certificate_and_a_reload_takes_new_ones_over() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let (a, a_key, b, b_key) = (file("a.pem"), file("a.key"), file("b.pem"), file("b.key"));
    certificate("a.example", [&a, &a_key]);
    certificate("b.example", [&b, &b_key]);
    let listener = format!("certificate = [{a:?}, {b:?}]\nkey = [{a_key:?}, {b_key:?}]");
    let node = Node::start_listening(&listener, "");
    let shown = |name: &str| {
        let out = file("shown.pem");
        let script = format!(
            "s = smtplib.SMTP('127.0.0.1', port)\ns._host = {name:?}\ns.starttls(context=context)\n\
             open({out:?}, 'w').write(ssl.DER_cert_to_PEM_cert(s.sock.getpeercert(True)))\n"
        );
        let asked = python(&node, &script)?;
        assert!(asked, "{name}");
        Some(std::fs::read_to_string(out).unwrap().replace('\n', ""))
    };
    let kept = |path: &std::path::Path| {
        std::fs::read_to_string(path).unwrap().replace("\r\n", "\n").replace('\n', "")
    };
    let Some(first) = shown("a.example") else { return };
    assert_eq!(first, kept(&a));
    assert_eq!(shown("b.example").unwrap(), kept(&b));
    assert_eq!(shown("c.example").unwrap(), kept(&a), "a name that none is for gets the first");

    // A file that cannot be used changes nothing; a good one is applied.
    let before = kept(&b);
    std::fs::write(&b, "no certificate").unwrap();
    node.signal("-HUP");
    node.wait_until("it is refused", || node.log().contains("configuration not reloaded"));
    assert!(node.log().contains("listener.certificate"), "{}", node.log());
    assert_eq!(shown("b.example").unwrap(), before);
    certificate("b.example", [&b, &b_key]);
    node.signal("-HUP");
    node.wait_until("another is shown", || shown("b.example").unwrap() == kept(&b));
    assert_eq!(shown("a.example").unwrap(), first);
}
