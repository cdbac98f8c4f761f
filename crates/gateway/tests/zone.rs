//! A real DNS server (Knot) on a loopback port, with a zone that the test writes. The zone is the
//! root, so that any name can be in it.

#[path = "zone/port.rs"]
pub(crate) mod port;

use std::net::{SocketAddr, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A server that runs until it is dropped.
#[derive(Debug)]
pub(crate) struct Zone {
    process: Child,
    address: SocketAddr,
    folder: tempfile::TempDir,
}

impl Drop for Zone {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The zone's own records.
const HEAD: &str =
    "$ORIGIN .\n$TTL 300\n@ SOA ns. root. 1 3600 600 86400 60\n@ NS ns.\nns A 127.0.0.1\n";

impl Zone {
    /// Serves these records (as zone files write them, names relative to the root); questions for
    /// `broken.example`, `_dns_error.org`, `_dns_error.test.org` and below fail (SERVFAIL). None,
    /// with a note, if there is no server on this machine; in CI that is a failure.
    ///
    /// After a line `$ZONE name` come the records of a zone of that name, with names relative to
    /// the root too.
    pub(crate) fn serve(records: &str) -> Option<Self> {
        Self::start(records, "", port::free_port(&["127.0.0.1"]))
    }

    /// The same on this port of 127.0.0.1: 53, for a network of a test's own.
    #[allow(dead_code, reason = "each test file uses a part")]
    pub(crate) fn serve_at(port: u16, records: &str) -> Option<Self> {
        Self::start(records, "", port)
    }

    /// The same, with every answer signed; [`Zone::trust_anchor`] has the key.
    #[allow(dead_code, reason = "each test file uses a part")]
    pub(crate) fn serve_signed(records: &str) -> Option<Self> {
        let options = "    dnssec-signing: on\n    dnssec-policy: test\n";
        Self::start(records, options, port::free_port(&["127.0.0.1"]))
    }

    fn start(records: &str, zone_options: &str, port: u16) -> Option<Self> {
        let program = ["/usr/sbin/knotd", "/usr/bin/knotd"]
            .into_iter()
            .find(|p| std::path::Path::new(p).exists());
        let Some(program) = program else {
            assert!(std::env::var_os("CI").is_none(), "knotd is missing (Debian's package knot)");
            eprintln!("skipped: knotd is not installed");
            return None;
        };
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path().display();
        let conf = format!(
            "server:\n    rundir: {at}\n    listen: 127.0.0.1@{port}\n    udp-workers: 1\n    \
             tcp-workers: 1\n    background-workers: 1\n\
             log:\n  - target: stderr\n    any: critical\n\
             database:\n    storage: {at}\n\
             policy:\n  - id: test\n    algorithm: ECDSAP256SHA256\n    single-type-signing: on\n\
             zone:\n  - domain: .\n    storage: {at}\n    file: root.zone\n    zonefile-sync: -1\n    \
             zonefile-load: difference-no-serial\n    journal-content: all\n{zone_options}  \
             - domain: broken.example\n    file: {at}/none.zone\n  \
             - domain: _dns_error.org\n    file: {at}/none.zone\n  \
             - domain: _dns_error.test.org\n    file: {at}/none.zone\n"
        );
        let (records, below) = records.split_once("$ZONE ").unwrap_or((records, ""));
        let mut conf = conf;
        if let Some((name, below)) = below.split_once('\n') {
            conf.push_str(&format!("  - domain: {name}\n    file: {at}/below.zone\n"));
            let below =
                format!("$ORIGIN .\n$TTL 300\n{name} SOA ns. root. 1 3600 600 86400 60\n{below}");
            std::fs::write(folder.path().join("below.zone"), below).expect("the zone");
        }
        std::fs::write(folder.path().join("root.zone"), format!("{HEAD}{records}"))
            .expect("the zone");
        std::fs::write(folder.path().join("knot.conf"), conf).expect("the configuration");
        let process = Command::new(program)
            .arg("-c")
            .arg(folder.path().join("knot.conf"))
            .stdout(Stdio::null())
            .spawn()
            .expect("knotd starts");
        let zone = Zone { process, address: SocketAddr::from(([127, 0, 0, 1], port)), folder };
        zone.wait_until_ready();
        Some(zone)
    }

    /// Where the server answers, on loopback.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// A file with the key that signs the zone.
    #[allow(dead_code, reason = "each test file uses a part")]
    pub(crate) fn trust_anchor(&self) -> std::path::PathBuf {
        let out = Command::new("/usr/sbin/keymgr")
            .arg("-c")
            .arg(self.folder.path().join("knot.conf"))
            .args([".", "dnskey"])
            .output()
            .expect("keymgr runs");
        let path = self.folder.path().join("anchor.key");
        let text = String::from_utf8_lossy(&out.stdout).replacen(". DNSKEY", ". 300 IN DNSKEY", 1);
        std::fs::write(&path, text).expect("the anchor's file");
        path
    }

    /// Waits for the answer to a question for the root's SOA record.
    fn wait_until_ready(&self) {
        let question = [7, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 6, 0, 1];
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        socket.set_read_timeout(Some(Duration::from_millis(50))).expect("a timeout");
        let deadline = Instant::now() + Duration::from_secs(20);
        let mut answer = [0; 512];
        while Instant::now() < deadline {
            // Refused until the server listens.
            let _ = socket.send_to(&question, self.address);
            match socket.recv(&mut answer) {
                // An answer without an error code, with one record.
                Ok(bytes) if bytes > 12 && answer[3] & 15 == 0 && answer[7] == 1 => return,
                _ => std::thread::sleep(Duration::from_millis(20)),
            }
        }
        let zone = std::fs::read_to_string(self.folder.path().join("root.zone"));
        panic!("knotd on {} gives no answer from this zone: {zone:?}", self.address);
    }
}

/// A TXT record as zone files write it, in strings of 255 bytes at most.
#[allow(dead_code, reason = "each test file uses a part")]
pub(crate) fn txt(name: &str, text: &str) -> String {
    let mut line = format!("{name} TXT");
    let bytes = text.as_bytes();
    for piece in bytes.chunks(250) {
        line.push_str(" \"");
        for byte in piece {
            match byte {
                b'"' | b'\\' => line.extend(['\\', char::from(*byte)]),
                32..=126 => line.push(char::from(*byte)),
                other => line.push_str(&format!("\\{other:03}")),
            }
        }
        line.push('"');
    }
    if bytes.is_empty() {
        line.push_str(" \"\"");
    }
    line.push('\n');
    line
}

/// A server that never answers, until it is dropped.
#[allow(dead_code, reason = "each test file uses a part")]
pub(crate) fn silent() -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let address = socket.local_addr().expect("an address");
    (socket, address)
}
