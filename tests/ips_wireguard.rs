//! The end of a WireGuard tunnel: `wireguard-go` as the peer, curl and nginx through it, in network
//! namespaces of this test.
//!
//! ```text
//! client: wireguard-go 10.9.0.2 ── UDP ── middle: gauntlet 10.9.0.1 ── server 10.78.2.2 (nginx)
//! ```

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::common::namespaces::{LARGE, Middle, Namespaces, program};
use crate::common::running::{GAUNTLET, RULES, Running, until};

/// The peer, which ends with this.
struct Peer {
    child: Child,
    device: String,
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_file(format!("/var/run/wireguard/{}.sock", self.device));
    }
}

/// What `wg` prints; `input` is what it reads.
fn wg(args: &[&str], input: &str) -> String {
    use std::io::Write;
    let mut command = Command::new("wg");
    let mut child =
        command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let out = child.wait_with_output().unwrap();
    String::from_utf8(out.stdout).unwrap().trim().to_owned()
}

struct Keys {
    ours: [String; 2],
    theirs: [String; 2],
    shared: String,
}

impl Keys {
    fn new() -> Self {
        let pair = || {
            let private = wg(&["genkey"], "");
            let public = wg(&["pubkey"], &private);
            [private, public]
        };
        Self { ours: pair(), theirs: pair(), shared: wg(&["genpsk"], "") }
    }
}

/// A file with keys, for its owner alone.
fn write(file: &Path, text: &str) {
    fs::write(file, text).unwrap();
    fs::set_permissions(file, fs::Permissions::from_mode(0o600)).unwrap();
}

fn our_file(net: &Namespaces, keys: &Keys) -> PathBuf {
    let file = net.folder.path().join("gauntlet0.conf");
    let text = format!(
        "[Interface]\nPrivateKey = {}\nListenPort = 51820\nAddress = 10.9.0.1/24\n\
         [Peer]\nPublicKey = {}\nPresharedKey = {}\nAllowedIPs = 10.9.0.2/32\n",
        keys.ours[0], keys.theirs[1], keys.shared
    );
    write(&file, &text);
    file
}

/// Starts the peer, which has all of 10.78.2.0/24 behind the tunnel.
fn peer(net: &Namespaces, keys: &Keys, go: &Path) -> Peer {
    // Its control socket has a name that all namespaces share.
    let device = format!("gw{}", std::process::id());
    let mut command = net.command("client", go);
    command.args(["-f", &device]).env("LOG_LEVEL", "error");
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let peer = Peer { child, device: device.clone() };
    let file = net.folder.path().join("peer.conf");
    let text = format!(
        "[Interface]\nPrivateKey = {}\n[Peer]\nPublicKey = {}\nPresharedKey = {}\n\
         AllowedIPs = 10.9.0.0/24, 10.78.2.0/24\nEndpoint = 10.78.1.1:51820\n\
         PersistentKeepalive = 1\n",
        keys.theirs[0], keys.ours[1], keys.shared
    );
    write(&file, &text);
    until("the peer's device", || {
        let set = ["setconf", &device, file.to_str().unwrap()];
        net.command("client", "wg").args(set).stderr(Stdio::null()).status().unwrap().success()
    });
    let namespace = net.namespace("client");
    for command in [
        format!("-n {namespace} addr add 10.9.0.2/24 dev {device}"),
        format!("-n {namespace} link set {device} mtu 1420 up"),
        format!("-n {namespace} route add 10.78.2.0/24 dev {device}"),
    ] {
        assert!(net.ip(&command), "ip {command}");
    }
    peer
}

const POLICY: &str = "\
[ips]
default = \"reject\"
[ips.zones]
tunnel = { interface = \"gauntlet0\" }
[[ips.rule]]
name = \"pages\"
from_zone = \"tunnel\"
service = [\"tcp/80\", \"icmp/echo-request\"]
do = \"inspect\"
";

#[test]
fn what_passes_a_tunnel_is_inspected() {
    let Some(net) = Namespaces::new(Middle::Router) else { return };
    let (Some(go), Some(_), Some(_)) = (program("wireguard-go"), program("wg"), program("ping"))
    else {
        return;
    };
    let keys = Keys::new();
    let file = our_file(&net, &keys).display().to_string();
    let policy = net.folder.path().join("policy.toml");
    fs::write(&policy, POLICY).unwrap();
    let policy = policy.display().to_string();
    fs::set_permissions(net.folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let args = ["--wireguard", &file, "--packet-policy", &policy, "--user", "nobody"];
    let running = Running::start(&net, &args);
    let _peer = peer(&net, &keys, &go);
    until("a page", || net.get("/fine", 2).as_deref() == Ok("answer to /fine"));
    assert!(net.run("client", "ping", &["-c", "1", "-W", "5", net.server]).status.success());
    // A rule on the body of an answer, as one for a virus is.
    let eicar = "drop http any any -> any any (msg:\"test virus\"; flow:to_client; file.data; \
                 content:\"EICAR-TEST\"; sid:9;)\n";
    fs::write(&running.rules, format!("{RULES}{eicar}")).unwrap();
    running.signal("-HUP", running.child.id());
    running.wait("read anew: 4 rules");
    until("the new rules", || net.get("/EICAR-TEST", 2).is_err());
    assert_eq!(running.alert(9), "blocked");
    assert_eq!(net.get("/dropped", 2), Err(28));
    assert_eq!(net.get("/large", 60).map(|body| body.len()), Ok(LARGE));
    // Refused by the policy, and told so through the tunnel.
    let url = format!("http://{}:81/", net.server);
    let refused = net.run("client", "curl", &["-sS", "--max-time", "10", &url]);
    assert_eq!(refused.status.code(), Some(7), "rejected by a reset");

    // Garbage at the port, of all kinds of messages.
    let script = "for i in $(seq 500); do for k in 1 2 3 4 9; do \
                  printf \"\\\\x0$k\\\\0\\\\0\\\\0%0150d\" $i >/dev/udp/10.78.1.1/51820; \
                  done; done";
    assert!(net.run("client", "bash", &["-c", script]).status.success());
    assert_eq!(net.get("/fine", 10).as_deref(), Ok("answer to /fine"));

    // A worker that dies takes the sessions with it; peers begin others.
    running.signal("-KILL", running.worker());
    running.wait("it is started anew");
    until("a page after the crash", || net.get("/fine", 2).is_ok());
    let said = running.said();
    let eve = fs::read_to_string(&running.eve).unwrap();
    let (status, stats) = running.stop();
    assert!(status.success());
    assert!(stats["tunnel"]["handshakes"].as_u64() >= Some(1), "{stats}");
    for key in [&keys.ours[0], &keys.shared] {
        assert!(!said.contains(key.as_str()) && !eve.contains(key.as_str()), "a key in a log");
    }
}

#[test]
fn garbage_is_counted_and_files_are_checked() {
    let Some(net) = Namespaces::new(Middle::Router) else { return };
    if program("wg").is_none() {
        return;
    }
    let keys = Keys::new();
    let file = our_file(&net, &keys);
    let shown = file.display().to_string();
    let running = Running::start(&net, &["--wireguard", &shown]);
    let script = "for i in $(seq 200); do printf garbage >/dev/udp/10.78.1.1/51820; done";
    assert!(net.run("client", "bash", &["-c", script]).status.success());
    let (status, stats) = running.stop();
    assert!(status.success());
    assert!(stats["tunnel"]["refused"].as_u64() >= Some(190), "{stats}");
    assert_eq!(stats["tunnel"]["handshakes"], 0, "{stats}");

    let rules = net.folder.path().join("a.rules").display().to_string();
    let run = |file: &str, more: &[&str]| {
        let args = [&["ips", "run", "--rules", &rules, "--wireguard", file], more].concat();
        let out = net.run("middle", GAUNTLET, &args);
        (out.status.code(), String::from_utf8_lossy(&out.stderr).into_owned())
    };
    let (code, said) = run(&shown, &["--on-crash", "pass"]);
    assert!(code == Some(2) && said.contains("nothing can pass"), "{said}");
    let (code, said) = run(&shown, &["--threads", "2"]);
    assert!(code == Some(2) && said.contains("--threads"), "{said}");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let (code, said) = run(&shown, &[]);
    assert!(code == Some(2) && said.contains("chmod 600"), "{said}");
    write(&file, "[Interface]\nPrivateKey = c2VjcmV0\n");
    let (code, said) = run(&shown, &[]);
    assert!(code == Some(2) && said.contains("line 2: the key is not 32 bytes"), "{said}");
    assert!(!said.contains("c2VjcmV0"), "{said}");
    let long = net.folder.path().join("a-name-that-is-too-long.conf");
    write(&long, "");
    let (code, said) = run(long.to_str().unwrap(), &[]);
    assert!(code == Some(2) && said.contains("as the device is to be"), "{said}");
}
