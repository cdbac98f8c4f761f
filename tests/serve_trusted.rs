//! Whom a node believes: load balancers (PROXY), relays (XCLIENT), nodes on the same port, logins
//! by SCRAM; and that it gives root away.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use crate::common::{Node, Smtp, add_user, message, program, tokens};

/// A PROXY header of version 2 for a client with this address.
fn proxy_header(client: [u8; 4]) -> Vec<u8> {
    let mut header = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c".to_vec();
    header.extend(client);
    header.extend([127, 0, 0, 1, 0x10, 0, 0, 25]);
    header
}

/// Connects, sends these bytes first and reads the greeting's line.
fn greeting(node: &Node, first: &[u8]) -> (String, BufReader<TcpStream>) {
    let mut stream = TcpStream::connect(node.smtp).unwrap();
    stream.set_read_timeout(Some(crate::common::PATIENCE)).unwrap();
    stream.write_all(first).unwrap();
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    let _closed_is_an_answer_too = reader.read_line(&mut line);
    (line, reader)
}

#[test]
fn behind_a_balancer_the_client_is_who_the_header_says() {
    let node = Node::start_listening(
        "role = \"outbound\"\nnetworks = [\"192.0.2.0/24\"]\nproxy_from = [\"127.0.0.0/8\"]",
        "[domains]\nlocal = [\"example.net\"]\n[rates]\nclient_connections_per_minute = 2\n",
    );
    let send = |client: [u8; 4]| {
        let (line, mut reader) = greeting(&node, &proxy_header(client));
        if !line.starts_with("220") {
            return line;
        }
        let mut reply = String::new();
        for say in ["EHLO x\r\n", "MAIL FROM:<a@example.org>\r\n"] {
            reader.get_mut().write_all(say.as_bytes()).unwrap();
            loop {
                reply.clear();
                reader.read_line(&mut reply).unwrap();
                if reply.as_bytes().get(3) == Some(&b' ') {
                    break;
                }
            }
        }
        reply
    };
    assert!(send([192, 0, 2, 1]).starts_with("250 2.1.0"), "of a trusted network");
    assert!(send([198, 51, 100, 1]).starts_with("554 5.7.1"), "of none");
    assert!(send([192, 0, 2, 1]).starts_with("250 2.1.0"));
    // Rates count for the client, not for the balancer.
    assert!(send([192, 0, 2, 1]).starts_with("421 4.3.2"));
    assert!(send([192, 0, 2, 2]).starts_with("250 2.1.0"));
    // Whoever does not begin with a header gets no reply.
    assert_eq!(greeting(&node, b"EHLO client.example\r\n").0, "");
}

#[test]
fn a_trusted_relay_says_whom_it_speaks_for() {
    let node = Node::start_listening("xclient_from = [\"127.0.0.1\"]", "");
    let mut client = Smtp::connect(node.smtp).unwrap();
    let reply = client.say("XCLIENT ADDR=192.0.2.77 HELO=far.example").unwrap();
    assert!(reply.starts_with("220 "), "{reply}");
    assert!(client.say("EHLO far.example").unwrap().contains("XCLIENT"));
    let reply = client.send("a@example.org", &["b@example.net"], &message("x", 100)).unwrap();
    assert!(reply.starts_with("250"), "{reply}");
    node.wait_for_empty_queue();
    let text = String::from_utf8_lossy(&node.maildir()[0]).into_owned();
    assert!(text.contains("192.0.2.77"), "{text}");
    let other = Node::start("");
    let mut client = Smtp::connect(other.smtp).unwrap();
    assert!(client.say("XCLIENT ADDR=192.0.2.77").unwrap().starts_with("550 5.7.0"));
}

#[test]
fn nodes_share_a_port() {
    let first = Node::start_listening("share_port = true", "");
    let folder = tempfile::tempdir().unwrap();
    let config = |shared: bool| {
        format!(
            "[node]\nname = \"two.test\"\ndata = {:?}\n[[listener]]\naddress = \"{}\"\n\
             share_port = {shared}\n[console]\naddress = \"\"\n",
            folder.path().join("data"),
            first.smtp
        )
    };
    let path = folder.path().join("two.toml");
    let start = |shared: bool| {
        std::fs::write(&path, config(shared)).unwrap();
        let mut serve = Command::new(env!("CARGO_BIN_EXE_gauntlet"));
        serve.args(["serve", "--config"]).arg(&path);
        serve.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let refused = start(false).wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && text.contains("listener.address 127.0.0.1"), "{text}");
    let mut second = start(true);
    let mut out = BufReader::new(second.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("to stop") {
        line.clear();
        assert!(out.read_line(&mut line).unwrap() > 0, "the second node runs");
    }
    let names: Vec<String> = (0..64).map(|_| greeting(&first, b"").0).collect();
    let of = |name: &str| names.iter().filter(|line| line.contains(name)).count();
    second.kill().unwrap();
    second.wait().unwrap();
    assert!(of("gw.test") > 0 && of("two.test") > 0, "{names:?}");
}

#[test]
fn root_is_given_away_once_the_ports_are_bound() {
    let is_root = Command::new("id").arg("-u").output().unwrap().stdout == b"0\n";
    if !is_root {
        assert!(std::env::var_os("CI").is_none(), "not root");
        eprintln!("skipped: not root");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let path = folder.path().join("gauntlet.toml");
    let data = folder.path().join("data");
    let config = format!(
        "[node]\nuser = \"nobody\"\ndata = {data:?}\n[[listener]]\naddress = \"127.0.0.1:0\"\n\
         [console]\naddress = \"127.0.0.1:0\"\n"
    );
    std::fs::write(&path, config).unwrap();
    let mut node = Command::new(env!("CARGO_BIN_EXE_gauntlet"))
        .args(["serve", "--config"])
        .arg(&path)
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    let mut smtp = None;
    for line in BufReader::new(node.stdout.take().unwrap()).lines().map_while(Result::ok) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["smtp,", _, address] => smtp = address.parse::<SocketAddr>().ok(),
            ["to", "stop", ..] => break,
            _ => {}
        }
    }
    let uids: Vec<String> = std::fs::read_dir(format!("/proc/{}/task", node.id()))
        .unwrap()
        .map(|task| {
            let status = std::fs::read_to_string(task.unwrap().path().join("status")).unwrap();
            status.lines().find(|line| line.starts_with("Uid:")).unwrap_or_default().to_owned()
        })
        .collect();
    let mut client = Smtp::connect(smtp.expect("the node runs")).unwrap();
    let reply = client.send("a@example.org", &["b@example.net"], &message("u", 100)).unwrap();
    node.kill().unwrap();
    node.wait().unwrap();
    assert!(!uids.is_empty() && uids.iter().all(|line| !line.contains("\t0")), "{uids:?}");
    assert!(reply.starts_with("250"), "{reply}");
}

#[test]
fn msmtp_logs_in_by_scram() {
    let Some(msmtp) = program("msmtp") else { return };
    let mut node = Node::start_listening("role = \"submission\"\nimplicit_tls = true", "");
    add_user(&node.data(), &[]);
    let send = |password: &str| {
        let mut child = Command::new(&msmtp)
            .args(["--host=127.0.0.1", "--tls=on", "--tls-starttls=off", "--tls-certcheck=off"])
            .args(["--auth=scram-sha-256", "--user=ann", "--from=ann@example.org"])
            .arg(format!("--port={}", node.smtp.port()))
            .arg(format!("--passwordeval=echo {password}"))
            .arg("bob@example.net")
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(&message("scram", 100)).unwrap();
        child.wait().unwrap().success()
    };
    assert!(send("correct horse battery"));
    assert!(!send("wrong horse battery"));
    node.wait_for_empty_queue();
    let delivered = node.maildir();
    assert_eq!(tokens(&delivered)["scram"], 1);
    assert!(String::from_utf8_lossy(&delivered[0]).contains(" with ESMTPSA id "));
    node.stop();
}
