//! A publisher of a channel: the program's own commands, in a temporary folder.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use super::{Node, PATIENCE, port, program};

/// A channel with its keys and what is published.
pub(crate) struct Publisher {
    pub(crate) folder: tempfile::TempDir,
}

impl Publisher {
    pub(crate) fn new() -> Self {
        let publisher = Publisher { folder: tempfile::tempdir().unwrap() };
        std::fs::create_dir(publisher.path("content")).unwrap();
        good(&publisher.run("init", &["--keys", publisher.path("keys").to_str().unwrap()]));
        publisher
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The channel's folder: what is served.
    pub(crate) fn channel(&self) -> PathBuf {
        self.path("channel")
    }

    /// The file that subscribers are given.
    pub(crate) fn root(&self) -> PathBuf {
        self.channel().join("1.root.json")
    }

    pub(crate) fn url(&self) -> String {
        format!("file://{}", self.channel().display())
    }

    /// Runs a command on the channel.
    pub(crate) fn run(&self, action: &str, arguments: &[&str]) -> Output {
        let channel = self.channel();
        let mut all = vec!["channel", action, channel.to_str().unwrap()];
        all.extend(arguments);
        gauntlet(&all)
    }

    /// Writes a file to be published.
    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        let path = self.path("content").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    pub(crate) fn try_to_publish(&self) -> Output {
        let (content, keys) = (self.path("content"), self.path("keys"));
        self.run("publish", &[content.to_str().unwrap(), "--keys", keys.to_str().unwrap()])
    }

    /// Publishes what was written; what it said.
    pub(crate) fn publish(&self) -> String {
        good(&self.try_to_publish())
    }

    /// Publishes a rule of ours that hits a word.
    pub(crate) fn publish_rule(&self, word: &str, points: f64) -> String {
        self.write("rules/today.cf", rule(word, points));
        self.publish()
    }

    /// Publishes though no node can use it, as another program might.
    pub(crate) fn publish_unchecked(&self) {
        use gauntlet_channel::repository::{KeyFolder, PublishOptions, Repository};
        let mut channel = Repository::open(&self.channel()).unwrap();
        let keys = KeyFolder::new(&self.path("keys"));
        let now_s = gauntlet_gateway::clock::now_ms() / 1000;
        let options = PublishOptions { keep_versions: 8, ..PublishOptions::default() };
        channel.publish(&self.path("content"), &keys, &options, now_s).unwrap();
    }

    /// The table of the configuration that follows this channel every second.
    pub(crate) fn settings(&self, name: &str, url: &str) -> String {
        let root = self.root();
        format!(
            "[[channel]]\nname = {name:?}\nurl = {url:?}\nroot = {root:?}\ninterval_seconds = 1\n\
             canary_seconds = 0\n"
        )
    }
}

/// A rule of ours, `CHANNEL_TODAY`.
pub(crate) fn rule(word: &str, points: f64) -> String {
    format!(
        "body CHANNEL_TODAY /{word}/\ndescribe CHANNEL_TODAY Has the word of the day\n\
         score CHANNEL_TODAY {points}\n"
    )
}

/// Runs the program.
pub(crate) fn gauntlet(arguments: &[&str]) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_gauntlet"));
    program.args(arguments).env_remove("GAUNTLET_CONFIG").output().unwrap()
}

/// What a command that succeeded said.
pub(crate) fn good(out: &Output) -> String {
    let error = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{}{error}", String::from_utf8_lossy(&out.stdout));
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// What a command that failed said.
pub(crate) fn bad(out: &Output) -> String {
    assert!(!out.status.success(), "{}", String::from_utf8_lossy(&out.stdout));
    String::from_utf8_lossy(&out.stderr).into_owned()
}

/// The activity log of a node.
pub(crate) fn activity(node: &Node) -> String {
    good(&gauntlet(&["activity", "--data", node.data().to_str().unwrap()]))
}

/// A subscription of a data folder without a node.
pub(crate) struct Subscriber<'d>(pub(crate) &'d Path);

impl Subscriber<'_> {
    /// Runs a command on the data folder.
    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        let data = self.0.to_str().unwrap();
        gauntlet(&[&["channel", "--data", data], arguments].concat())
    }

    pub(crate) fn subscribe(&self, name: &str, url: &str, root: &Path) -> String {
        good(&self.run(&["subscribe", name, url, "--root", root.to_str().unwrap()]))
    }
}

/// nginx that serves a folder.
pub(crate) struct Nginx(std::process::Child, pub(crate) String, pub(crate) tempfile::TempDir);

impl Nginx {
    pub(crate) fn start(root: &Path) -> Option<Self> {
        let program = program("nginx")?;
        let folder = tempfile::tempdir().unwrap();
        let (place, port) = (folder.path().display(), port::free_port(&["127.0.0.1"]));
        let config = format!(
            "daemon off; worker_processes 1; pid {place}/pid; error_log {place}/error.log;\n\
             events {{ }}\nhttp {{ access_log {place}/access.log;\n\
             client_body_temp_path {place}/b; proxy_temp_path {place}/p; fastcgi_temp_path {place}/f; uwsgi_temp_path {place}/u;\n\
             scgi_temp_path {place}/s;\nserver {{ listen 127.0.0.1:{port}; root {}; }} }}\n",
            root.display()
        );
        // Workers of nginx are another user where this one is root.
        let config = format!("user root;\n{config}");
        std::fs::write(folder.path().join("nginx.conf"), config).unwrap();
        let mut child = Command::new(program)
            .arg("-c")
            .arg(folder.path().join("nginx.conf"))
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let began = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(began.elapsed() < PATIENCE, "nginx does not start");
            assert!(child.try_wait().unwrap().is_none(), "nginx ended");
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(Nginx(child, format!("http://127.0.0.1:{port}"), folder))
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // SIGTERM, so that the master takes its workers along.
        let _ended = Command::new("kill").arg(self.0.id().to_string()).status();
        let _reaped = self.0.wait();
    }
}
