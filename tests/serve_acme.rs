//! Certificates from an authority: Pebble (Let's Encrypt's own test server) gives them, beside a
//! DNS server of its package that sends every name to this machine.

use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{Node, port, program};

/// A process that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _it_may_have_ended = self.0.kill();
        let _reaped = self.0.wait();
    }
}

fn free_port() -> u16 {
    port::free_port(&["127.0.0.1"])
}

fn wait_for_port(port: u16) {
    let start = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(start.elapsed() < crate::common::PATIENCE, "nobody listens on {port}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn run(program: &Path, arguments: &[&str]) -> Running {
    let mut command = Command::new(program);
    // One nonce in five is refused, as it may happen with any authority; proofs are looked at at
    // once.
    command.env("PEBBLE_VA_NOSLEEP", "1").env("PEBBLE_WFE_NONCEREJECT", "20");
    command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
    Running(command.spawn().unwrap())
}

/// An authority, with the port at which it asks for proofs.
struct Authority {
    folder: tempfile::TempDir,
    /// Port of its directory.
    port: u16,
    /// Port that it asks names at.
    proofs: u16,
    processes: Option<[Running; 2]>,
}

impl Authority {
    fn start() -> Option<Self> {
        let (pebble, dns) = (program("pebble")?, program("pebble-challtestsrv")?);
        let folder = tempfile::tempdir().unwrap();
        let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
        let (certificate, key) = (folder.path().join("ca.pem"), folder.path().join("ca.key"));
        std::fs::write(&certificate, made.cert.pem()).unwrap();
        std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        let (port, management, proofs, names, names_management) =
            (free_port(), free_port(), free_port(), free_port(), free_port());
        let config = folder.path().join("pebble.json");
        let settings = serde_json::json!({"pebble": {
            "listenAddress": format!("127.0.0.1:{port}"),
            "managementListenAddress": format!("127.0.0.1:{management}"),
            "certificate": certificate, "privateKey": key,
            "httpPort": proofs, "tlsPort": free_port(),
        }});
        std::fs::write(&config, settings.to_string()).unwrap();
        let names = format!("127.0.0.1:{names}");
        let names_management = format!("127.0.0.1:{names_management}");
        let resolver = run(
            &dns,
            &[
                "-dns01",
                &names,
                "-management",
                &names_management,
                "-http01",
                "",
                "-https01",
                "",
                "-tlsalpn01",
                "",
                "-defaultIPv6",
                "",
                "-defaultIPv4",
                "127.0.0.1",
            ],
        );
        let authority = run(&pebble, &["-config", config.to_str().unwrap(), "-dnsserver", &names]);
        wait_for_port(port);
        Some(Authority { folder, port, proofs, processes: Some([authority, resolver]) })
    }

    /// Settings of a node that gets its certificate here.
    fn settings(&self, names: &str) -> String {
        let roots = self.folder.path().join("ca.pem");
        format!(
            "[acme]\ndirectory = \"https://127.0.0.1:{}/dir\"\nnames = {names}\nroots = {roots:?}\n\
             address = \"127.0.0.1:{}\"\ncontact = \"postmaster@example.org\"\n",
            self.port, self.proofs
        )
    }
}

/// A session over TLS by Python's client that lives on: each line of its input is a command.
const SESSION: &str = "
import smtplib, ssl, sys
context = ssl._create_unverified_context()
s = smtplib.SMTP('127.0.0.1', int(sys.argv[1]))
s.starttls(context=context)
print('open', flush=True)
sys.stdin.readline()
print(s.noop()[0], flush=True)
";

/// The issuer of the certificate that a node shows, by openssl's client; and its names.
fn shown(address: SocketAddr, name: &str) -> String {
    let script = "
import smtplib, ssl, sys
context = ssl._create_unverified_context()
s = smtplib.SMTP('127.0.0.1', int(sys.argv[1]))
s._host = sys.argv[2]
s.starttls(context=context)
sys.stdout.write(ssl.DER_cert_to_PEM_cert(s.sock.getpeercert(True)))
";
    let output = Command::new("python3")
        .args(["-c", script, &address.port().to_string(), name])
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

fn doctor(node: &Node) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_gauntlet"))
        .args(["doctor", "--dns", "127.0.0.1:9", "--config"])
        .arg(node.folder.path().join("gauntlet.toml"))
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_certificate_is_got_and_taken_over_without_dropping_a_session() {
    use std::io::{BufRead, BufReader, Write};
    let (Some(python), Some(mut authority)) = (program("python3"), Authority::start()) else {
        return;
    };
    let mut node = Node::start(&authority.settings("[\"mx.example.org\"]"));
    let file = node.data().join("acme/certificate.pem");
    node.wait_until("there is a certificate", || file.exists());
    node.wait_until("it is shown", || {
        std::fs::read_to_string(&file).unwrap().contains(&shown(node.smtp, "mx.example.org"))
    });
    let first = shown(node.smtp, "mx.example.org");
    let account = std::fs::read(node.data().join("acme/account.json")).unwrap();
    assert!(!node.data().join("acme/failure.json").exists());
    let said = doctor(&node);
    assert!(
        said.lines().any(|l| l.starts_with("ok ") && l.contains("acme/certificate.pem")),
        "{said}"
    );

    // A session that goes on while another certificate comes, for one name more.
    let mut session = Command::new(python)
        .args(["-c", SESSION, &node.smtp.port().to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(session.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "open");
    node.config = node.config.replace("names = [", "names = [\"mail.example.org\", ");
    node.write_config();
    node.signal("-HUP");
    node.wait_until("another is shown", || shown(node.smtp, "mail.example.org") != first);
    session.stdin.take().unwrap().write_all(b"on\n").unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "250", "the session goes on");
    assert!(session.wait().unwrap().success());
    assert_eq!(std::fs::read(node.data().join("acme/account.json")).unwrap(), account);

    // What is kept is used at the next start, without asking anybody.
    let second = std::fs::read(&file).unwrap();
    node.stop();
    authority.processes = None;
    node.run();
    assert!(String::from_utf8_lossy(&second).contains(&shown(node.smtp, "mx.example.org")));
    assert_eq!(std::fs::read(&file).unwrap(), second);
}

#[test]
fn what_goes_wrong_is_said_with_its_cause_and_remediation() {
    let Some(mut authority) = Authority::start() else { return };
    // The authority looks where nobody answers.
    let wrong = free_port();
    let right = std::mem::replace(&mut authority.proofs, wrong);
    let mut node = Node::start(&authority.settings("[\"mx.example.org\"]"));
    let failure = node.data().join("acme/failure.json");
    node.wait_until("it failed", || failure.exists());
    let said = doctor(&node);
    let line =
        said.lines().find(|l| l.contains("no certificate")).unwrap_or_else(|| panic!("{said}"));
    for part in ["error", "acme.directory", "mx.example.org", "port 80 must lead to acme.address"] {
        assert!(line.contains(part), "{part}: {said}");
    }
    assert!(node.log().contains("no certificate"), "{}", node.log());
    // Mail goes on meanwhile, encrypted by the node's own certificate.
    assert!(!shown(node.smtp, "mx.example.org").is_empty());

    node.stop();
    node.config = node.config.replace(&format!(":{wrong}\""), &format!(":{right}\""));
    node.run();
    node.wait_until("there is a certificate", || node.data().join("acme/certificate.pem").exists());
    node.wait_until("the failure is forgotten", || !failure.exists());

    // An authority that does not answer is named.
    authority.processes = None;
    node.config = node.config.replace("names = [", "names = [\"mail.example.org\", ");
    node.write_config();
    node.signal("-HUP");
    node.wait_until("it failed", || failure.exists());
    let said = std::fs::read_to_string(&failure).unwrap();
    assert!(
        said.contains("acme.directory https://127.0.0.1:") && said.contains("connecting"),
        "{said}"
    );
}
