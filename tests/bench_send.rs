//! `gauntlet bench send` and `sink`: a node, spamd and rspamd under load.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::{Node, PATIENCE, message, port, program};

/// A folder of so many messages of ours.
fn folder(count: usize) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for i in 0..count {
        let body = message(&format!("b{i}"), i * 700);
        std::fs::write(folder.path().join(format!("{i:03}.eml")), body).unwrap();
    }
    folder
}

fn send(server: &str, mail: &Path, further: &[&str]) -> (Option<i32>, serde_json::Value, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_gauntlet"))
        .args(["bench", "send", server])
        .arg(mail)
        .args(["--json", "--seconds", "40", "--warm-up", "0"])
        .args(further)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let value = serde_json::from_slice(&output.stdout).unwrap_or(serde_json::Value::Null);
    (output.status.code(), value, errors)
}

fn answered(value: &serde_json::Value) -> (u64, u64) {
    let round = &value["subjects"][0]["rounds"][0];
    (round["answered"].as_u64().unwrap_or(0), round["failed"].as_u64().unwrap_or(99))
}

#[test]
fn a_node_takes_a_load_and_the_report_says_so() {
    let node = Node::start("");
    let (mail, report) = (folder(12), tempfile::tempdir().unwrap());
    let pid = node.pid().to_string();
    let report_folder = report.path().join("r");
    let further = ["--messages", "60", "--pid", &pid, "--report", report_folder.to_str().unwrap()];
    let (code, value, errors) = send(&node.smtp.to_string(), mail.path(), &further);
    // 3 is INVALID: on a machine that is this busy the client may have been the limit.
    assert!(matches!(code, Some(0 | 3)), "{errors}");
    assert_eq!(code == Some(3), value["valid"] == false, "{value}");
    assert_eq!(answered(&value), (60, 0), "{value}");
    assert!(value["ceiling"].as_f64().unwrap() > 0.0, "calibrated: {value}");
    assert!(value["subjects"][0]["server_cpu_us_per_message"]["mean"].as_f64().unwrap() > 0.0);
    node.wait_for_empty_queue();
    assert_eq!(node.maildir().len(), 60);
    let page = std::fs::read_to_string(report_folder.join("report.html")).unwrap();
    assert_eq!(page.matches("<svg").count(), 2);
    assert!(!page.contains("src=") && !page.contains("href="), "nothing from elsewhere");
}

#[test]
fn servers_elsewhere_and_nonsense_are_refused_with_a_reason() {
    let mail = folder(1);
    for (server, further, words) in [
        ("192.0.2.1:25", &[][..], "is not on this machine"),
        ("127.0.0.1", &[][..], "is no HOST:PORT"),
        ("127.0.0.1:1", &["--no-calibration", "--messages", "1"][..], "takes no message by smtp"),
        ("127.0.0.1:1", &["--mix", "ham=1"][..], "no message is labelled ham"),
    ] {
        let (code, _, errors) = send(server, mail.path(), further);
        assert_eq!(code, Some(2), "{errors}");
        assert!(errors.contains(words), "{errors}");
    }
}

/// A program that is ended with the value.
struct Peer(std::process::Child);

impl Drop for Peer {
    fn drop(&mut self) {
        let _it_may_have_ended = Command::new("kill").arg(self.0.id().to_string()).status();
        let _reaped = self.0.wait();
    }
}

fn wait_for(port: u16, peer: &mut Peer) {
    let start = std::time::Instant::now();
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(peer.0.try_wait().unwrap().is_none(), "it ended");
        assert!(start.elapsed() < PATIENCE * 2, "it does not listen");
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
}

#[test]
fn spamd_answers_what_we_send() {
    let Some(spamd) = program("spamd") else { return };
    let port = port::free_port(&["127.0.0.1"]);
    let home = tempfile::tempdir().unwrap();
    let child = Command::new(spamd)
        .args(["-L", "-x", "-m", "1", "-i", "127.0.0.1", "-p", &port.to_string()])
        .args(["--cf=use_bayes 0", "--syslog=null"])
        .env("HOME", home.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut peer = Peer(child);
    wait_for(port, &mut peer);
    let mail = folder(4);
    let gtube = "Subject: x\r\n\r\nXJS*C4JDBQADN1.NSBN3*2IDNEN*GTUBE-STANDARD-ANTI-UBE-TEST-EMAIL*C.34X\r\n";
    std::fs::write(mail.path().join("gtube.eml"), gtube).unwrap();
    let pid = peer.0.id().to_string();
    let further = ["--protocol", "spamd", "--messages", "5", "-c", "1", "--pid", &pid];
    let (_, value, errors) = send(&format!("127.0.0.1:{port}"), mail.path(), &further);
    assert_eq!(answered(&value), (5, 0), "{errors}");
    let outcomes = value["subjects"][0]["rounds"][0]["outcomes"].to_string();
    assert!(outcomes.contains("\"outcome\":\"spam\""), "{outcomes}");
    assert!(outcomes.contains("\"outcome\":\"passed\""), "{outcomes}");
}
