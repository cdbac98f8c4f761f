//! A client, a router and a server in network namespaces of this test, and our proxy on the router.
//!
//! ```text
//! client e0 ── c0 router s0 ── e0 server
//!     10.77.1.2  10.77.1.1 10.77.2.1  10.77.2.2, 10.77.2.3
//!    fd77:1::2  fd77:1::1 fd77:2::1  fd77:2::2
//! ```

use std::fs::File;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use gauntlet_proxy::access_log::{AccessLog, AccessRecord};
use gauntlet_proxy::counters::Counters;
use gauntlet_proxy::settings::{PortRange, Settings};
use gauntlet_proxy::{Parts, Server};
use tokio::sync::oneshot;

use crate::common::{Log, Output, PATIENCE, program};

/// Where the proxy takes what the router hands over, IPv4 as well.
pub(crate) const LISTEN: &str = "[::]:3129";
/// A port of the server whose protocol is neither TLS nor HTTP: it sends back what it gets.
pub(crate) const ECHO_PORT: u16 = 8443;

/// The namespaces and what runs in them. They are gone when it is dropped.
pub(crate) struct Routed {
    name: String,
    folder: tempfile::TempDir,
    nginx: Option<Child>,
    ip: PathBuf,
}

/// A proxy on the router.
pub(crate) struct RoutedProxy {
    pub(crate) counters: Arc<Counters>,
    log: Arc<Log>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Settings with which the router's clients reach the server.
pub(crate) fn settings() -> Settings {
    let mut settings = Settings {
        listen: Vec::new(),
        private_networks: vec!["10.77.2.0/24".to_owned(), "fd77:2::/64".to_owned()],
        connect_ports: vec![PortRange::one(443), PortRange::one(ECHO_PORT)],
        plain_ports: vec![PortRange::one(80)],
        ..Settings::default()
    };
    settings.transparent.listen = vec![LISTEN.parse().unwrap()];
    settings
}

impl Routed {
    /// None, with a note, where this cannot be made.
    pub(crate) fn new() -> Option<Self> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        // SAFETY: it has no arguments and cannot fail.
        if unsafe { libc::geteuid() } != 0 {
            eprintln!("SKIPPED: network namespaces are root's to make");
            return None;
        }
        let (ip, _nft, nginx) = (program("ip")?, program("nft")?, program("nginx")?);
        program("curl")?;
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("gauntlet-{}-{count}", std::process::id());
        let folder = tempfile::tempdir().unwrap();
        let mut routed = Routed { name, folder, nginx: None, ip };
        if !routed.ip(&format!("netns add {}", routed.namespace("client"))) {
            eprintln!("SKIPPED: this system lets nobody make network namespaces");
            return None;
        }
        routed.connect();
        routed.serve(&nginx);
        Some(routed)
    }

    pub(crate) fn namespace(&self, role: &str) -> String {
        format!("{}-{role}", self.name)
    }

    /// Runs `ip`, whose arguments are separated by blanks.
    fn ip(&self, args: &str) -> bool {
        Command::new(&self.ip).args(args.split(' ')).status().unwrap().success()
    }

    fn connect(&self) {
        let [c, r, s] = ["client", "router", "server"].map(|role| self.namespace(role));
        for command in [
            format!("netns add {r}"),
            format!("netns add {s}"),
            format!("-n {r} link add c0 type veth peer name e0 netns {c}"),
            format!("-n {r} link add s0 type veth peer name e0 netns {s}"),
            format!("-n {c} addr add 10.77.1.2/24 dev e0"),
            format!("-n {c} addr add fd77:1::2/64 dev e0 nodad"),
            format!("-n {r} addr add 10.77.1.1/24 dev c0"),
            format!("-n {r} addr add fd77:1::1/64 dev c0 nodad"),
            format!("-n {r} addr add 10.77.2.1/24 dev s0"),
            format!("-n {r} addr add fd77:2::1/64 dev s0 nodad"),
            format!("-n {s} addr add 10.77.2.2/24 dev e0"),
            format!("-n {s} addr add 10.77.2.3/24 dev e0"),
            format!("-n {s} addr add fd77:2::2/64 dev e0 nodad"),
            format!("-n {c} link set lo up"),
            format!("-n {r} link set lo up"),
            format!("-n {s} link set lo up"),
            format!("-n {c} link set e0 up"),
            format!("-n {r} link set c0 up"),
            format!("-n {r} link set s0 up"),
            format!("-n {s} link set e0 up"),
            format!("-n {c} route add default via 10.77.1.1"),
            format!("-n {c} route add default via fd77:1::1"),
            format!("-n {s} route add default via 10.77.2.1"),
            format!("-n {s} route add default via fd77:2::1"),
        ] {
            assert!(self.ip(&command), "ip {command}");
        }
        self.within("router", || {
            for setting in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
                std::fs::write(format!("/proc/sys/net/{setting}"), "1").unwrap();
            }
        });
    }

    /// nginx and a server that echoes.
    fn serve(&mut self, nginx: &PathBuf) {
        let root = self.folder.path();
        let names = vec!["site.example".to_owned(), "blocked.example".to_owned()];
        let made = rcgen::generate_simple_self_signed(names).unwrap();
        std::fs::write(root.join("cert.pem"), made.cert.pem()).unwrap();
        std::fs::write(root.join("key.pem"), made.signing_key.serialize_pem()).unwrap();
        let shown = root.display();
        let config = format!(
            "daemon off; master_process off; pid {shown}/pid; error_log stderr;\n\
             events {{}}\n\
             http {{ access_log off; default_type text/plain;\n\
             client_body_temp_path {shown}/t1; proxy_temp_path {shown}/t2;\n\
             fastcgi_temp_path {shown}/t3; uwsgi_temp_path {shown}/t4; scgi_temp_path {shown}/t5;\n\
             ssl_certificate {shown}/cert.pem; ssl_certificate_key {shown}/key.pem;\n\
             server {{ listen 80; listen [::]:80; listen 443 ssl; listen [::]:443 ssl;\n\
             location / {{ return 200 \"$scheme $http_host at $server_addr for $remote_addr\"; }}\n\
             }} }}\n"
        );
        std::fs::write(root.join("nginx.conf"), config).unwrap();
        let child = Command::new(&self.ip)
            .args(["netns", "exec", &self.namespace("server")])
            .arg(nginx)
            .arg("-p")
            .arg(root)
            .arg("-c")
            .arg(root.join("nginx.conf"))
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        self.nginx = Some(child);
        let listener = self.within("server", || {
            let begun = Instant::now();
            while TcpStream::connect("127.0.0.1:443").is_err() {
                assert!(begun.elapsed() < PATIENCE, "nginx does not start");
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            TcpListener::bind(("::", ECHO_PORT)).unwrap()
        });
        // It ends with the process: nobody else can reach it.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let mut from = stream.try_clone().unwrap();
                std::thread::spawn(move || std::io::copy(&mut from, &mut &stream));
            }
        });
    }

    /// Does something in a namespace: what it opens stays there.
    pub(crate) fn within<T: Send>(&self, role: &str, job: impl FnOnce() -> T + Send) -> T {
        let namespace = self.namespace(role);
        std::thread::scope(|scope| {
            let thread = scope.spawn(move || {
                enter(&namespace);
                job()
            });
            thread.join().unwrap()
        })
    }

    /// Rules of nftables on the router.
    pub(crate) fn nft(&self, rules: &str) {
        let mut child = Command::new(&self.ip)
            .args(["netns", "exec", &self.namespace("router"), "nft", "-f", "-"])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(rules.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success(), "{rules}");
    }

    /// `ip` on the router.
    pub(crate) fn router_ip(&self, args: &str) {
        let args = format!("-n {} {args}", self.namespace("router"));
        assert!(self.ip(&args), "ip {args}");
    }

    /// curl on the client, which knows two names and trusts the server's certificate.
    pub(crate) fn curl(&self, args: &[&str]) -> Output {
        let certificate = self.folder.path().join("cert.pem");
        let mut command = Command::new(&self.ip);
        command.args(["netns", "exec", &self.namespace("client"), "curl", "-sS"]);
        command.args(["--noproxy", "*", "--max-time", &PATIENCE.as_secs().to_string()]);
        command.arg("--cacert").arg(certificate);
        for name in ["site.example", "blocked.example"] {
            for port in [80, 443] {
                let addresses = format!("{name}:{port}:10.77.2.2,[fd77:2::2]");
                command.args(["--resolve", &addresses]);
            }
        }
        let output = command.args(args).output().unwrap();
        Output {
            code: output.status.code().unwrap_or(-1),
            text: String::from_utf8_lossy(&output.stdout).into_owned(),
            errors: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Starts a proxy on the router.
    pub(crate) fn proxy(&self, settings: Settings, mut parts: Parts) -> RoutedProxy {
        let log = Arc::new(Log::default());
        parts.log = Arc::clone(&log) as Arc<dyn AccessLog>;
        let namespace = self.namespace("router");
        let (stop, stopped) = oneshot::channel::<()>();
        let (ready, started) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            enter(&namespace);
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                let server = Server::bind(settings, parts).await.unwrap();
                ready.send(server.counters()).unwrap();
                server.run(async { drop(stopped.await) }).await.unwrap();
            });
        });
        let counters = started.recv_timeout(PATIENCE).expect("the proxy starts");
        RoutedProxy { counters, log, stop: Some(stop), thread: Some(thread) }
    }
}

/// Moves this thread, and those that it starts, into a namespace.
fn enter(namespace: &str) {
    let file = File::open(format!("/run/netns/{namespace}")).unwrap();
    // SAFETY: the descriptor is open, and the call changes nothing but this thread's namespace.
    let result = unsafe { libc::setns(file.as_raw_fd(), libc::CLONE_NEWNET) };
    assert_eq!(result, 0, "{namespace}: {}", std::io::Error::last_os_error());
}

impl Drop for Routed {
    fn drop(&mut self) {
        if let Some(nginx) = &mut self.nginx {
            // It may have ended by itself.
            let _ = nginx.kill();
            let _ = nginx.wait();
        }
        for role in ["client", "router", "server"] {
            let name = self.namespace(role);
            let _ = Command::new(&self.ip).args(["netns", "del", &name]).status();
        }
    }
}

impl RoutedProxy {
    /// The record of the last request, and forgets all records.
    pub(crate) fn record(&self) -> AccessRecord {
        let begun = Instant::now();
        loop {
            if let Some(record) = self.log.take().pop() {
                return record;
            }
            assert!(begun.elapsed() < PATIENCE, "nothing is logged");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }
}

impl Drop for RoutedProxy {
    fn drop(&mut self) {
        drop(self.stop.take());
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(std::thread::panicking() || ended.is_some_and(|e| e.is_ok()), "the proxy panicked");
    }
}
