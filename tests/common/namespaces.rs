//! A client and a server in network namespaces of a test, with a machine between them.
//!
//! ```text
//! client e0 ── c0 middle s0 ── e0 server     bridge: c0 and s0 have no addresses
//! 10.78.1.2                    10.78.1.3
//! client e0 ── c0 middle s0 ── e0 server     router: the middle forwards
//! 10.78.1.2  10.78.1.1 10.78.2.1  10.78.2.2
//! ```

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::PATIENCE;

/// What the machine in the middle does by itself.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Middle {
    /// Nothing: a bridge of ours is to do it.
    Bridge,
    /// It routes.
    Router,
}

/// The namespaces and the server in them. They are gone when it is dropped.
pub(crate) struct Namespaces {
    name: String,
    pub(crate) folder: tempfile::TempDir,
    pub(crate) server: &'static str,
    nginx: Option<Child>,
    ip: PathBuf,
}

/// A program that the test needs; none, with a note, if it is not installed.
pub(crate) fn program(name: &str) -> Option<PathBuf> {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&paths).collect();
    folders.extend(["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from));
    let found = folders.into_iter().map(|folder| folder.join(name)).find(|path| path.is_file());
    if found.is_none() {
        assert!(std::env::var_os("CI").is_none(), "{name} is missing");
        eprintln!("SKIPPED: {name} is not installed");
    }
    found
}

impl Namespaces {
    /// None, with a note, where this cannot be made.
    pub(crate) fn new(middle: Middle) -> Option<Self> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let (ip, nginx) = (program("ip")?, program("nginx")?);
        program("curl")?;
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("gauntlet-ips-{}-{count}", std::process::id());
        let folder = tempfile::tempdir().unwrap();
        let server = if middle == Middle::Bridge { "10.78.1.3" } else { "10.78.2.2" };
        let mut made = Self { name, folder, server, nginx: None, ip };
        if !made.ip(&format!("netns add {}", made.namespace("client"))) {
            assert!(std::env::var_os("CI").is_none(), "network namespaces cannot be made");
            eprintln!("SKIPPED: network namespaces are root's to make");
            return None;
        }
        made.connect(middle);
        made.serve(&nginx);
        Some(made)
    }

    pub(crate) fn namespace(&self, role: &str) -> String {
        format!("{}-{role}", self.name)
    }

    /// Runs `ip`, whose arguments are separated by blanks.
    pub(crate) fn ip(&self, args: &str) -> bool {
        Command::new(&self.ip).args(args.split(' ')).status().unwrap().success()
    }

    fn connect(&self, middle: Middle) {
        let [c, m, s] = ["client", "middle", "server"].map(|role| self.namespace(role));
        let mut commands = vec![
            format!("netns add {m}"),
            format!("netns add {s}"),
            format!("-n {m} link add c0 type veth peer name e0 netns {c}"),
            format!("-n {m} link add s0 type veth peer name e0 netns {s}"),
            format!("-n {c} addr add 10.78.1.2/24 dev e0"),
        ];
        match middle {
            Middle::Bridge => commands.push(format!("-n {s} addr add {}/24 dev e0", self.server)),
            Middle::Router => commands.extend([
                format!("-n {m} addr add 10.78.1.1/24 dev c0"),
                format!("-n {m} addr add 10.78.2.1/24 dev s0"),
                format!("-n {s} addr add {}/24 dev e0", self.server),
            ]),
        }
        for (namespace, device) in
            [(&c, "lo"), (&m, "lo"), (&s, "lo"), (&c, "e0"), (&m, "c0"), (&m, "s0"), (&s, "e0")]
        {
            commands.push(format!("-n {namespace} link set {device} up"));
        }
        if middle == Middle::Router {
            commands.push(format!("-n {c} route add default via 10.78.1.1"));
            commands.push(format!("-n {s} route add default via 10.78.2.1"));
        }
        for command in commands {
            assert!(self.ip(&command), "ip {command}");
        }
        let setting = match middle {
            Middle::Bridge => "echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6",
            Middle::Router => "echo 1 > /proc/sys/net/ipv4/ip_forward",
        };
        assert!(self.run("middle", "sh", &["-c", setting]).status.success());
    }

    fn serve(&mut self, nginx: &Path) {
        let root = self.folder.path();
        std::fs::write(root.join("large"), vec![b'x'; LARGE]).unwrap();
        std::fs::create_dir(root.join("files")).unwrap();
        let shown = root.display();
        let config = format!(
            "daemon off; master_process off; user root; pid {shown}/pid; error_log stderr;\n\
             events {{}}\n\
             http {{ access_log off; default_type text/plain; keepalive_requests 1000000;\n\
             client_body_temp_path {shown}/t1; proxy_temp_path {shown}/t2;\n\
             fastcgi_temp_path {shown}/t3; uwsgi_temp_path {shown}/t4; scgi_temp_path {shown}/t5;\n\
             server {{ listen 80; listen 81; root {shown};\n\
             location = /large {{ }}\n\
             location /files/ {{ default_type application/octet-stream; }} location / {{ return 200 \"answer to $request_uri\"; }}\n\
             }} }}\n"
        );
        std::fs::write(root.join("nginx.conf"), config).unwrap();
        let mut command = self.command("server", nginx);
        command.arg("-p").arg(root).arg("-c").arg(root.join("nginx.conf"));
        self.nginx = Some(command.stderr(Stdio::null()).spawn().unwrap());
        let begun = Instant::now();
        while !self.run("server", "curl", &["-s", "http://127.0.0.1/"]).status.success() {
            assert!(begun.elapsed() < PATIENCE, "nginx does not start");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// A program in a namespace.
    pub(crate) fn command(&self, role: &str, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(&self.ip);
        command.args(["netns", "exec", &self.namespace(role)]).arg(program.as_ref());
        command
    }

    /// Runs it to its end.
    pub(crate) fn run(&self, role: &str, program: &str, args: &[&str]) -> Output {
        self.command(role, program).args(args).output().unwrap()
    }

    /// What the client gets of a path, or curl's exit code.
    pub(crate) fn get(&self, path: &str, seconds: u32) -> Result<String, i32> {
        let (seconds, url) = (seconds.to_string(), format!("http://{}{path}", self.server));
        let out = self.run("client", "curl", &["-sS", "--max-time", &seconds, &url]);
        match out.status.code() {
            Some(0) => Ok(String::from_utf8_lossy(&out.stdout).into_owned()),
            code => Err(code.unwrap_or(-1)),
        }
    }
}

/// Length of the server's large file, in bytes.
pub(crate) const LARGE: usize = 20_000_000;

impl Drop for Namespaces {
    fn drop(&mut self) {
        if let Some(mut nginx) = self.nginx.take() {
            let _ = nginx.kill();
            let _ = nginx.wait();
        }
        for role in ["client", "middle", "server"] {
            self.ip(&format!("netns del {}", self.namespace(role)));
        }
    }
}
