//! Clients that people use: Node's nodemailer, msmtp, Python's smtplib (in serve_tls.rs too), swaks
//! with a login; each sends through a node as its manual says.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::{Node, add_user, program, tokens};

const TEXT: &str = "From: Ann <a@example.org>\r\nTo: b@example.net\r\nSubject: minutes\r\n\
                    X-Token: TOKEN\r\n\r\nHello,\r\n.\r\n..two dots\r\nthe end\r\n";

/// A submission listener with a user that may log in, and TLS by STARTTLS.
fn submission() -> Node {
    let node =
        Node::start_listening("role = \"submission\"", "[domains]\nlocal = [\"example.net\"]\n");
    add_user(&node.data(), &["--address", "a@example.org"]);
    node
}

/// The message of this token came whole, by TLS and after a login.
fn came(node: &Node, token: &str) {
    node.wait_until("it is delivered", || tokens(&node.maildir()).contains_key(token));
    let delivered = node.maildir();
    let is = |m: &&Vec<u8>| crate::common::token_of(m).as_deref() == Some(token);
    let text = String::from_utf8_lossy(delivered.iter().find(is).unwrap()).replace("\r\n", "\n");
    assert!(text.contains(" with ESMTPSA id "), "{text}");
    assert!(text.contains("\n.\n..two dots\nthe end\n"), "{text}");
}

#[test]
fn msmtp_submits() {
    let Some(msmtp) = program("msmtp") else { return };
    let node = submission();
    for auth in ["plain", "login", "scram-sha-256"] {
        let mut child = Command::new(&msmtp)
            .args(["--file=/dev/null", "--host=127.0.0.1", "--tls=on", "--tls-certcheck=off"])
            .arg(format!("--port={}", node.smtp.port()))
            .args([&format!("--auth={auth}"), "--user=ann", "--from=a@example.org"])
            .args(["--passwordeval=echo correct horse battery", "b@example.net"])
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let text = TEXT.replace("TOKEN", auth).replace("\r\n", "\n");
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{auth}: {said}");
        came(&node, auth);
    }
}

#[test]
fn swaks_submits() {
    let Some(swaks) = program("swaks") else { return };
    let node = submission();
    for auth in ["PLAIN", "LOGIN"] {
        let output = Command::new(&swaks)
            .args(["--server", &node.smtp.to_string(), "--tls", "--auth", auth])
            .args(["--auth-user", "ann", "--auth-password", "correct horse battery"])
            .args(["--from", "a@example.org", "--to", "b@example.net", "--data"])
            .arg(TEXT.replace("TOKEN", auth).replace("\r\n", "\\n"))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{auth}: {said}");
        came(&node, auth);
    }
}

#[test]
fn nodemailer_submits() {
    let (Some(program), true) = (program("node"), has_nodemailer()) else { return };
    let node = submission();
    let script = format!(
        "const mail = require('nodemailer').createTransport({{host: '127.0.0.1', port: {}, pool: true, \
         requireTLS: true, tls: {{rejectUnauthorized: false}}, \
         auth: {{user: 'ann', pass: 'correct horse battery'}}}});\n\
         const send = token => mail.sendMail({{from: 'Ann <a@example.org>', to: 'b@example.net', \
         subject: 'minutes', headers: {{'X-Token': token}}, text: 'Hello,\\n.\\n..two dots\\nthe end\\n'}});\n\
         (async () => {{ await mail.verify(); await send('one'); \
         await Promise.all(['two', 'three', 'four'].map(send));\n\
         let refused; try {{ await mail.sendMail({{from: 'boss@example.org', to: 'b@example.net', text: 'x'}}); }} \
         catch (e) {{ refused = e.responseCode; }}\n\
         if (refused !== 553) throw Error('not refused: ' + refused); mail.close(); }})();\n",
        node.smtp.port()
    );
    let output =
        Command::new(program).args(["-e", &script]).env("NODE_PATH", NODE_PATH).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for token in ["one", "two", "three", "four"] {
        came(&node, token);
    }
}

/// Where Debian keeps modules of Node.
const NODE_PATH: &str = "/usr/share/nodejs:/usr/lib/nodejs";

fn has_nodemailer() -> bool {
    let found = NODE_PATH.split(':').any(|f| Path::new(f).join("nodemailer").is_dir());
    if !found {
        assert!(std::env::var_os("CI").is_none(), "nodemailer is missing");
        eprintln!("SKIPPED: nodemailer is not installed");
    }
    found
}
