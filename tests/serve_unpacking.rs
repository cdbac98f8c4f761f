//! The processes that start workers of unpacking end: the node says so at once, goes on by the one
//! in reserve, and stops when none is left, so that no mail is held for want of them.

use std::process::{Command, Output};

use crate::common::{Node, Smtp, message, tokens};

/// Supervisors of unpacking that this node has started, dead ones that nobody waited for too.
fn supervisors(node: &Node) -> Vec<u32> {
    let pid = node.pid();
    let list = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    let all = list.split_ascii_whitespace().map(|number| number.parse::<u32>().unwrap());
    let is_it = |pid: &u32| {
        let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        // One that is dead has no command line any more.
        line.is_empty() || line.contains("content-process")
    };
    all.filter(is_it).collect()
}

fn kill(pid: u32) {
    let killed = Command::new("kill").args(["-KILL", &pid.to_string()]).status().unwrap();
    assert!(killed.success());
}

fn gauntlet(node: &Node, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gauntlet"));
    command.args(args).arg("--config").arg(node.folder.path().join("gauntlet.toml"));
    command.env_remove("GAUNTLET_CONFIG").output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A message with a file.
fn with_file(token: &str) -> Vec<u8> {
    let plain = String::from_utf8(message(token, 200)).unwrap();
    let (head, text) = plain.split_once("\r\n\r\n").unwrap();
    format!(
        "{head}\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n\
         --b\r\nContent-Type: text/plain\r\n\r\n{text}\r\n\
         --b\r\nContent-Type: text/plain; name=minutes.txt\r\n\
         Content-Disposition: attachment; filename=minutes.txt\r\n\r\n\
         The minutes of Monday.\r\n--b--\r\n"
    )
    .into_bytes()
}

fn send(node: &Node, token: &str) {
    let mut smtp = Smtp::connect(node.smtp).unwrap();
    let reply = smtp.send("ann@example.org", &["bob@example.net"], &with_file(token)).unwrap();
    assert!(reply.starts_with("250"), "{reply}");
}

fn is_delivered(node: &Node, token: &str) -> bool {
    tokens(&node.maildir()).contains_key(token)
}

#[test]
fn the_end_of_supervisors_is_told_and_that_of_the_last_one_stops_the_node() {
    let mut node = Node::start("");
    let started = supervisors(&node);
    assert_eq!(started.len(), 2, "{started:?}");
    send(&node, "before");
    node.wait_until("it is delivered", || is_delivered(&node, "before"));

    // The one that starts the workers; the first waits in reserve.
    kill(started[1]);
    let told = "a process that starts workers of unpacking has ended";
    node.wait_until("its end is logged", || node.log().contains(told));
    assert!(node.log().contains("the one in reserve goes on"), "{}", node.log());
    assert_eq!(supervisors(&node), started[..1], "it was waited for");
    let status = gauntlet(&node, &["status"]);
    assert!(status.status.success(), "mail is taken: {}", said(&status));
    let question = "to decide    unpacking: 1 of the 2 processes";
    assert!(said(&status).contains(question), "{}", said(&status));
    let doctor = gauntlet(&node, &["doctor", "--dns", "127.0.0.1:9"]);
    assert!(said(&doctor).contains("error   unpacking"), "{}", said(&doctor));
    send(&node, "between");
    node.wait_until("it is delivered", || is_delivered(&node, "between"));

    kill(started[0]);
    let status = node.wait_for_end();
    assert_eq!(status.code(), Some(2), "{}", node.log());
    for part in ["no process that unpacks is left", "start the node again"] {
        assert!(node.log().contains(part), "{part}: {}", node.log());
    }
    node.run();
    assert_eq!(supervisors(&node).len(), 2);
    send(&node, "after");
    node.wait_until("it is delivered", || is_delivered(&node, "after"));
    assert!(!said(&gauntlet(&node, &["status"])).contains("to decide"));
}
