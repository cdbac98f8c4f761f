//! A real node for end-to-end tests: the program itself, on free ports, in a temporary folder.

pub(crate) mod array_account;
pub(crate) mod array_load;
pub(crate) mod array_site;
#[allow(dead_code, reason = "the tests of the program read more of it")]
pub(crate) mod blocks;
pub(crate) mod capture;
pub(crate) mod channels;
pub(crate) mod clamav;
mod commands;
pub(crate) mod debian;
pub(crate) mod debian_machine;
pub(crate) mod exim;
pub(crate) mod far;
pub(crate) mod launch;
pub(crate) mod namespaces;
pub(crate) mod own_network;
pub(crate) mod postfix;
pub(crate) mod running;
pub(crate) mod served;
pub(crate) mod shell;
mod sink;
#[path = "../crates/gateway/tests/zone.rs"]
pub(crate) mod zone;

pub(crate) use commands::{compile_urls, drive};
pub(crate) use sink::Sink;
pub(crate) use zone::port;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use gauntlet_store::WebLog;
use gauntlet_store::web_log::{WebQuery, WebRow};

/// How long anything may take before a test gives up. Generous: machines are slow at times.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A node that runs, or ran.
pub(crate) struct Node {
    pub(crate) folder: tempfile::TempDir,
    /// Text of the configuration file.
    pub(crate) config: String,
    child: Option<Child>,
    pub(crate) smtp: SocketAddr,
    pub(crate) console: SocketAddr,
    pub(crate) password: Option<String>,
    /// Lines of the welcome: what is where.
    places: Vec<(String, String)>,
    lines: Option<Receiver<String>>,
    /// Open files that the program may have; none leaves the system's limit.
    descriptors: Option<u32>,
    pub(crate) launch: launch::Launch,
}

impl Node {
    /// Starts a node with these settings beside free ports and a temporary data folder. `config` is
    /// TOML without `[node]`, `[[listener]]` and `[console]`.
    pub(crate) fn start(config: &str) -> Self {
        Self::start_listening("", config)
    }

    /// The same; `node` are further keys of it.
    pub(crate) fn start_as(node: &str) -> Self {
        Self::start_with(node, "", "", None)
    }

    /// The same; `listener` are further keys of the listener.
    pub(crate) fn start_listening(listener: &str, config: &str) -> Self {
        Self::start_with("", listener, config, None)
    }

    /// The same as [`Node::start`], with so many open files at most.
    pub(crate) fn start_limited(descriptors: u32, config: &str) -> Self {
        Self::start_with("", "", config, Some(descriptors))
    }

    /// The same as [`Node::start`], as a node of this name: one of several.
    pub(crate) fn start_named(name: &str, config: &str) -> Self {
        let mut node = Self::made(tempfile::tempdir().unwrap(), ("", "", config), None);
        node.config = node.config.replacen("gw.test", name, 1);
        node.running()
    }

    fn start_with(node: &str, listener: &str, config: &str, descriptors: Option<u32>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self::made(folder, (node, listener, config), descriptors).running()
    }

    /// The same, in a folder that is there already.
    pub(crate) fn start_in(folder: tempfile::TempDir, config: &str) -> Self {
        Self::made(folder, ("", "", config), None).running()
    }

    /// A node that does not run yet, in a folder of its own.
    pub(crate) fn unstarted(config: &str) -> Self {
        Self::made(tempfile::tempdir().unwrap(), ("", "", config), None)
    }

    fn running(mut self) -> Self {
        self.run();
        self
    }

    /// A node that does not run yet.
    fn made(
        folder: tempfile::TempDir,
        (node, listener, config): (&str, &str, &str),
        descriptors: Option<u32>,
    ) -> Self {
        let data = folder.path().join("data");
        let config = format!(
            "[node]\nname = \"gw.test\"\ndata = {data:?}\ndrain_seconds_max = 10\n{node}\n\
             [[listener]]\naddress = \"127.0.0.1:0\"\n{listener}\n\
             [console]\naddress = \"127.0.0.1:0\"\n{config}\n"
        );
        let nowhere: SocketAddr = ([127, 0, 0, 1], 0).into();
        let (smtp, console, child, password) = (nowhere, nowhere, None, None);
        let (places, lines, launch) = (Vec::new(), None, launch::Launch::default());
        Node { folder, config, child, smtp, console, password, places, lines, descriptors, launch }
    }

    /// Starts the program again, with the configuration as it is now; on new ports.
    pub(crate) fn run(&mut self) {
        assert!(self.child.is_none(), "the node runs");
        self.write_config();
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(self.folder.path().join("node.log"))
            .unwrap();
        let mut program = self.launch.command(self.descriptors);
        let mut child = program
            .args(["serve", "--config"])
            .arg(self.folder.path().join("gauntlet.toml"))
            .env_remove("GAUNTLET_CONFIG")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let stdout = child.stdout.take().unwrap();
        self.child = Some(child);
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        loop {
            let line = match lines.recv_timeout(PATIENCE) {
                Ok(line) => line,
                Err(_) => panic!("the node did not start:\n{}", self.log()),
            };
            let words: Vec<&str> = line.split_whitespace().collect();
            if let [what, place] = words.as_slice() {
                self.places.push(((*what).to_owned(), (*place).to_owned()));
            }
            match words.as_slice() {
                ["smtp,", _, address] => self.smtp = address.parse().unwrap(),
                ["first", "start", .., password] => {
                    self.password = Some((*password).to_owned());
                }
                ["console", url] => {
                    let address = url.split_once("://").unwrap().1.trim_end_matches('/');
                    self.console = address.parse().unwrap();
                }
                ["to", "stop", ..] => break,
                _ => {}
            }
        }
        self.lines = Some(lines);
    }

    /// Where something is, by the first line of the welcome that names it.
    pub(crate) fn place(&self, what: &str) -> &str {
        let found = self.places.iter().rev().find(|p| p.0 == what);
        &found.unwrap_or_else(|| panic!("the welcome names no {what}: {:?}", self.places)).1
    }

    /// The web log, once it has so many requests; newest first.
    pub(crate) fn web_log(&self, count: usize) -> Vec<WebRow> {
        let mut found = Vec::new();
        self.wait_until("the web log has the requests", || {
            let page = WebLog::read(&self.data().join("web"), &WebQuery::default());
            found = page.map(|page| page.requests).unwrap_or_default();
            found.len() >= count
        });
        found
    }

    /// Writes the configuration file.
    pub(crate) fn write_config(&self) {
        std::fs::write(self.folder.path().join("gauntlet.toml"), &self.config).unwrap();
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.as_ref().expect("the node runs").id()
    }

    /// Sends a signal to the node.
    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").arg(name).arg(self.pid().to_string()).status().unwrap();
        assert!(sent.success());
    }

    /// Ends the node by SIGKILL, as a power cut would.
    pub(crate) fn kill(&mut self) {
        let mut child = self.child.take().expect("the node runs");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Ends the node and the processes that it started at once. Left alone, those see the node's
    /// end and close their databases, which removes files while the caller reads the folder.
    pub(crate) fn kill_with_children(&mut self) {
        let children = children_of(self.pid());
        let signal_all = |name: &str| {
            for child in &children {
                // One that has ended meanwhile is what is wanted.
                let _sent = Command::new("kill").args([name, child]).status().unwrap();
            }
        };
        signal_all("-STOP");
        self.kill();
        signal_all("-KILL");
        // A process that nobody has waited for yet has no files any more.
        let has_files = |child: &String| {
            let files = std::fs::read_dir(format!("/proc/{child}/fd"));
            files.is_ok_and(|mut files| files.next().is_some())
        };
        self.wait_until("its processes end", || !children.iter().any(has_files));
    }

    /// SIGTERM, and waits for the end. Returns how long it took.
    pub(crate) fn stop(&mut self) -> Duration {
        let start = Instant::now();
        self.signal("-TERM");
        let mut child = self.child.take().expect("the node runs");
        while child.try_wait().unwrap().is_none() {
            assert!(start.elapsed() < PATIENCE, "the node does not stop:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(child.wait().unwrap().success(), "{}", self.log());
        start.elapsed()
    }

    /// Waits until the node ends by itself.
    pub(crate) fn wait_for_end(&mut self) -> std::process::ExitStatus {
        let start = Instant::now();
        let mut child = self.child.take().expect("the node runs");
        while child.try_wait().unwrap().is_none() {
            assert!(start.elapsed() < PATIENCE, "the node does not end:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(10));
        }
        child.wait().unwrap()
    }

    /// What the node logged.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("node.log")).unwrap_or_default()
    }

    /// Files in the Maildir: their content.
    pub(crate) fn maildir(&self) -> Vec<Vec<u8>> {
        let folder = self.data().join("maildir/new");
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|e| std::fs::read(e.path()).unwrap()).collect()
    }

    /// A number of `/metrics`.
    pub(crate) fn metric(&self, name: &str) -> u64 {
        let text = http_get(self.console, "/metrics");
        let found = text.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(' '));
        found.unwrap_or_else(|| panic!("no metric {name}:\n{text}")).parse().unwrap()
    }

    /// Waits until nothing is in the queue.
    pub(crate) fn wait_for_empty_queue(&self) {
        self.wait_until("the queue is empty", || {
            self.metric("gauntlet_queue_messages") == 0
                && self.metric("gauntlet_spool_messages") == 0
        });
    }

    /// Polls until `done`, for [`PATIENCE`] at most.
    pub(crate) fn wait_until(&self, what: &str, done: impl FnMut() -> bool) {
        self.wait_at_most(PATIENCE, what, done);
    }

    /// Waits until `done`, for so long.
    pub(crate) fn wait_at_most(&self, most: Duration, what: &str, done: impl FnMut() -> bool) {
        let mut done = done;
        let start = Instant::now();
        while !done() {
            assert!(start.elapsed() < most, "waited too long until {what}:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Messages in the log of a node that has stopped.
    pub(crate) fn logged(&self) -> usize {
        let log = gauntlet_store::Log::open(&self.data().join("log")).unwrap();
        let mut query = gauntlet_store::Query { limit: 500, ..Default::default() };
        let mut logged = 0;
        loop {
            let page = log.search(&query).unwrap();
            logged += page.messages.len();
            query.after = page.next;
            if query.after.is_none() {
                return logged;
            }
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _it_may_have_ended = child.kill();
            let _reaped = child.wait();
        }
        if std::thread::panicking() {
            eprintln!("the node's log:\n{}", self.log());
        }
    }
}

/// The body of a page.
pub(crate) fn http_get(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default()
}

/// Ids of the processes that this one started and that are there.
pub(crate) fn children_of(pid: u32) -> Vec<String> {
    let mut children = Vec::new();
    for thread in std::fs::read_dir(format!("/proc/{pid}/task")).unwrap() {
        let of_thread = std::fs::read_to_string(thread.unwrap().path().join("children"));
        children.extend(of_thread.unwrap_or_default().split_whitespace().map(str::to_owned));
    }
    children
}

/// A connection from this address of the machine: any of 127.0.0.0/8 will do.
pub(crate) fn connect_from(from: [u8; 4], to: SocketAddr) -> std::io::Result<TcpStream> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let stream = runtime.block_on(async {
        let socket = tokio::net::TcpSocket::new_v4()?;
        socket.bind((from, 0).into())?;
        socket.set_nodelay(true)?;
        tokio::time::timeout(Duration::from_secs(5), socket.connect(to)).await?
    })?;
    let stream = stream.into_std()?;
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// An SMTP client that speaks raw lines.
pub(crate) struct Smtp {
    reader: BufReader<TcpStream>,
}

impl Smtp {
    /// Connects and says EHLO.
    pub(crate) fn connect(address: SocketAddr) -> std::io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        let mut client = Smtp { reader: BufReader::new(stream) };
        client.reply()?;
        client.say("EHLO client.test")?;
        Ok(client)
    }

    /// The same as [`Smtp::connect`], from this address of the machine.
    pub(crate) fn connect_from(from: [u8; 4], address: SocketAddr) -> std::io::Result<Self> {
        let stream = connect_from(from, address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut client = Smtp { reader: BufReader::new(stream) };
        let greeting = client.reply()?;
        if !greeting.starts_with("220") {
            return Err(std::io::Error::other(greeting));
        }
        client.say("EHLO client.test")?;
        Ok(client)
    }

    /// The next reply, its lines joined.
    pub(crate) fn reply(&mut self) -> std::io::Result<String> {
        let mut text = String::new();
        loop {
            let mut line = String::new();
            if self.reader.read_line(&mut line)? == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            let last = line.as_bytes().get(3) != Some(&b'-');
            text.push_str(&line);
            if last {
                return Ok(text);
            }
        }
    }

    /// The TCP connection below the client.
    pub(crate) fn stream(&self) -> &TcpStream {
        self.reader.get_ref()
    }

    /// Sends bytes as they are, without a line end.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.reader.get_mut().write_all(bytes)
    }

    /// Sends a line and returns the reply.
    pub(crate) fn say(&mut self, line: &str) -> std::io::Result<String> {
        self.write(format!("{line}\r\n").as_bytes())?;
        self.reply()
    }

    /// Sends a message with CRLF at the end of each line and without NUL; the reply to its end, or
    /// the first refusal before.
    pub(crate) fn send(&mut self, from: &str, to: &[&str], body: &[u8]) -> std::io::Result<String> {
        let mut lines = Vec::with_capacity(body.len() + 64);
        for line in body.split_inclusive(|b| *b == b'\n') {
            lines.extend(line.iter().filter(|b| !matches!(**b, b'\r' | b'\n' | 0)));
            lines.extend_from_slice(b"\r\n");
        }
        self.send_as_it_is(from, to, &lines)
    }

    /// Sends a message byte by byte but for the dots at the start of lines; the reply to its end,
    /// or the first refusal before.
    pub(crate) fn send_as_it_is(
        &mut self,
        from: &str,
        to: &[&str],
        body: &[u8],
    ) -> std::io::Result<String> {
        let mut refusal = self.say(&format!("MAIL FROM:<{from}>"))?;
        if !refusal.starts_with('2') {
            return Ok(refusal);
        }
        let mut accepted = 0;
        for to in to {
            refusal = self.say(&format!("RCPT TO:<{to}>"))?;
            accepted += u32::from(refusal.starts_with('2'));
        }
        if accepted == 0 {
            self.say("RSET")?;
            return Ok(refusal);
        }
        let reply = self.say("DATA")?;
        if !reply.starts_with('3') {
            return Ok(reply);
        }
        let mut wire = Vec::with_capacity(body.len() + 64);
        for line in body.split_inclusive(|b| *b == b'\n') {
            if line.starts_with(b".") {
                wire.push(b'.');
            }
            wire.extend_from_slice(line);
        }
        if !body.ends_with(b"\r\n") {
            wire.extend_from_slice(b"\r\n");
        }
        wire.extend_from_slice(b".\r\n");
        self.write(&wire)?;
        self.reply()
    }
}

/// Yesterday as Date fields have it, such as `Sat, 21 Nov 2026`.
pub(crate) fn yesterday() -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let day = i64::try_from(now.as_millis()).unwrap() - 86_400_000;
    gauntlet_mail::date::rfc5322(day).split(' ').take(4).collect::<Vec<_>>().join(" ")
}

/// A sample with yesterday's date: a node judges by its clock, and samples grow old.
pub(crate) fn dated(raw: &[u8]) -> Vec<u8> {
    const WRITTEN: &[u8] = b"Sat, 21 Nov 2026";
    let (mut out, mut rest) = (Vec::new(), raw);
    while let Some(at) = rest.windows(WRITTEN.len()).position(|w| w == WRITTEN) {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(yesterday().as_bytes());
        rest = &rest[at + WRITTEN.len()..];
    }
    out.extend_from_slice(rest);
    out
}

/// A message that is ham, with a token in a header field and `bytes` of text.
pub(crate) fn message(token: &str, bytes: usize) -> Vec<u8> {
    let mut text = format!(
        "From: Ann <ann@example.org>\r\nTo: Bob <bob@example.net>\r\nSubject: minutes of {token}\r\n\
         Date: {} 04:05:06 +0000\r\nMessage-ID: <{token}@example.org>\r\n\
         X-Token: {token}\r\n\r\nHello Bob,\r\n\r\nhere are the minutes of our meeting.\r\n",
        yesterday()
    );
    while text.len() < bytes {
        text.push_str("We agreed to meet again next week and to bring the figures.\r\n");
    }
    text.into_bytes()
}

/// The token of a message.
pub(crate) fn token_of(message: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(message);
    text.lines().find_map(|l| Some(l.strip_prefix("X-Token: ")?.trim().to_owned()))
}

/// xorshift64*: small, and the same everywhere.
pub(crate) fn random(state: &mut u64) -> u64 {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    state.wrapping_mul(0x2545_F491_4F6C_DD1D)
}

/// How often each token occurs.
pub(crate) fn tokens(messages: &[Vec<u8>]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for token in messages.iter().filter_map(|m| token_of(m)) {
        *counts.entry(token).or_default() += 1;
    }
    counts
}

/// A program of the machine, or none with a note that the test is skipped. In CI nothing is
/// skipped.
pub(crate) fn program(name: &str) -> Option<PathBuf> {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&paths).collect();
    folders.extend(["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from));
    let found = folders.into_iter().map(|f| f.join(name)).find(|p| p.is_file());
    if found.is_none() {
        assert!(std::env::var_os("CI").is_none(), "{name} is missing");
        eprintln!("skipped: {name} is not installed");
    }
    found
}

/// The shared corpus, or none with a note that the test is skipped.
pub(crate) fn corpus() -> Option<PathBuf> {
    let folder = std::env::var_os("GAUNTLET_CORPUS").map(PathBuf::from);
    if folder.is_none() {
        eprintln!("skipped: GAUNTLET_CORPUS is not set");
    }
    folder
}

/// What somebody logs in with whom [`add_user`] added.
pub(crate) const PASSWORD: &str = "correct horse battery";

/// Adds the user `ann` to the node of this data folder, with the addresses that `--address` gives.
pub(crate) fn add_user(data: &Path, addresses: &[&str]) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_gauntlet"))
        .args(["user", "add", "ann", "--role", "user", "--password-stdin"])
        .args(addresses)
        .arg("--data")
        .arg(data)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    writeln!(child.stdin.take().unwrap(), "{PASSWORD}").unwrap();
    assert!(child.wait().unwrap().success());
}

/// Files below a folder, in order.
pub(crate) fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() { folders.push(path) } else { found.push(path) }
        }
    }
    found.sort();
    found
}
