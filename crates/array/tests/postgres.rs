//! A PostgreSQL server of a test's own, on a free port, in a temporary folder.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::port::free_port;

/// How long the array's tables are waited for.
const TABLES_MAX: Duration = Duration::from_secs(20);

/// A running server; ended when it is dropped.
pub(crate) struct Server {
    child: Child,
    /// The port on 127.0.0.1.
    pub(crate) port: u16,
    folder: tempfile::TempDir,
    bin: PathBuf,
    options: Vec<String>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The programs of the server that `GAUNTLET_POSTGRES_BIN` names, or of the newest installed one.
fn programs() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("GAUNTLET_POSTGRES_BIN") {
        return Some(PathBuf::from(named));
    }
    let mut found: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .map(|e| e.path().join("bin"))
        .filter(|bin| bin.join("initdb").is_file())
        .collect();
    found.sort();
    found.pop()
}

/// The server refuses to run as root: then as `postgres`.
fn as_somebody(program: &Path) -> Command {
    let root = Command::new("id").arg("-u").output().is_ok_and(|o| o.stdout == b"0\n");
    if !root {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]).arg(program);
    command
}

/// A folder in which the server may write, whoever it is.
fn open_folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(folder.path(), open).unwrap();
    folder
}

impl Server {
    /// Starts a server with these further options (`name=value`). None, with a loud note, if it is
    /// not installed; then a test in CI fails.
    pub(crate) fn start(options: &[&str]) -> Option<Server> {
        let Some(bin) = programs() else {
            let missing = "PostgreSQL is not installed (Debian: postgresql)";
            assert!(std::env::var_os("CI").is_none(), "{missing}");
            eprintln!("SKIPPED: {missing}");
            return None;
        };
        let folder = open_folder();
        let made = as_somebody(&bin.join("initdb"))
            .args(["-U", "keeper", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync"])
            .arg("-D")
            .arg(folder.path().join("data"))
            .current_dir(folder.path())
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let port = free_port(&["127.0.0.1"]);
        let options = options.iter().map(|option| (*option).to_owned()).collect();
        let child = launch(&bin, folder.path(), port, &options);
        let server = Server { child, port, folder, bin, options };
        server.wait();
        Some(server)
    }

    /// Starts a streaming replica of this server, which takes no writes until it is promoted.
    #[allow(dead_code, reason = "tests of one of the two binaries that share this file use it")]
    pub(crate) fn replica(&self) -> Server {
        let (folder, port) = (open_folder(), free_port(&["127.0.0.1"]));
        let made = as_somebody(&self.bin.join("pg_basebackup"))
            .args(["-h", "127.0.0.1", "-p", &self.port.to_string(), "-U", "keeper", "-R"])
            .args(["--no-sync", "--checkpoint=fast", "-D"])
            .arg(folder.path().join("data"))
            .current_dir(folder.path())
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let (bin, options) = (self.bin.clone(), vec!["fsync=off".to_owned()]);
        let child = launch(&bin, folder.path(), port, &options);
        let server = Server { child, port, folder, bin, options };
        server.wait();
        server
    }

    /// Lets in who has these lines of `pg_hba.conf`, and nobody else.
    #[allow(dead_code, reason = "tests of one of the two binaries that share this file use it")]
    pub(crate) fn let_in(&self, lines: &str) {
        let path = self.folder.path().join("data/pg_hba.conf");
        std::fs::write(path, lines).unwrap();
        self.sql("SELECT pg_reload_conf()");
    }

    /// The folder of the test.
    #[allow(dead_code, reason = "tests of one of the two binaries that share this file use it")]
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The address of the database for this user.
    pub(crate) fn uri_of(&self, user: &str) -> String {
        format!("postgres://{user}@127.0.0.1:{}/postgres?sslmode=disable", self.port)
    }

    /// The address of the database.
    pub(crate) fn uri(&self) -> String {
        self.uri_of("keeper")
    }

    /// Ends the server as a power cut does.
    pub(crate) fn kill(&mut self) {
        self.resume();
        // SIGQUIT ends all its processes at once, without a checkpoint.
        let pid = self.child.id().to_string();
        let _it_may_be_gone = Command::new("kill").args(["-QUIT", &pid]).status();
        let _it_may_be_gone = self.child.wait();
    }

    /// The server and its processes.
    fn pids(&self) -> Vec<u32> {
        let own = self.child.id();
        let path = format!("/proc/{own}/task/{own}/children");
        let children = std::fs::read_to_string(path).unwrap_or_default();
        let children = children.split_whitespace().filter_map(|pid| pid.parse().ok());
        [own].into_iter().chain(children).collect()
    }

    /// It answers nothing any more, and its connections stay: as a machine that hangs.
    #[allow(dead_code, reason = "tests of one of the two binaries that share this file use it")]
    pub(crate) fn pause(&mut self) {
        // The first one first, so that it makes no other meanwhile.
        signal(&[self.child.id()], "-STOP");
        signal(&self.pids(), "-STOP");
    }

    fn resume(&self) {
        signal(&self.pids(), "-CONT");
    }

    /// It is there after [`Server::kill`] or [`Server::pause`].
    #[allow(dead_code, reason = "tests of one of the two binaries that share this file use it")]
    pub(crate) fn mend(&mut self) {
        match self.child.try_wait() {
            Ok(None) => self.resume(),
            _ => self.restart(),
        }
    }

    /// Starts it again after [`Server::kill`].
    pub(crate) fn restart(&mut self) {
        self.child = launch(&self.bin, self.folder.path(), self.port, &self.options);
        self.wait();
    }

    /// What a statement gives, as `psql` prints it without a frame; its columns separated by `|`.
    /// The array's tables are waited for: the first node makes them beside its start.
    pub(crate) fn sql(&self, text: &str) -> String {
        let begun = Instant::now();
        loop {
            let out = self.psql(text);
            let error = String::from_utf8_lossy(&out.stderr);
            if out.status.success() {
                return String::from_utf8_lossy(&out.stdout).trim().to_owned();
            }
            let is_early = error.contains("relation \"gauntlet.") && error.contains("not exist");
            assert!(is_early && begun.elapsed() < TABLES_MAX, "{text}: {error}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The same statement, whose error is returned.
    #[allow(dead_code, reason = "tests of one of the two binaries that share this file use it")]
    pub(crate) fn try_sql(&self, text: &str) -> Result<(), String> {
        let out = self.psql(text);
        match out.status.success() {
            true => Ok(()),
            false => Err(String::from_utf8_lossy(&out.stderr).into_owned()),
        }
    }

    fn psql(&self, text: &str) -> std::process::Output {
        Command::new(self.bin.join("psql"))
            .args(["-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", &self.uri(), "-c", text])
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    fn wait(&self) {
        for _ in 0..600 {
            if self.psql("SELECT 1").status.success() {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("PostgreSQL does not answer");
    }
}

/// Sends a signal to these processes.
fn signal(pids: &[u32], name: &str) {
    let pids = pids.iter().map(u32::to_string);
    let _some_may_be_gone =
        Command::new("kill").arg(name).args(pids).stderr(Stdio::null()).status();
}

fn launch(bin: &Path, folder: &Path, port: u16, options: &Vec<String>) -> Child {
    let mut command = as_somebody(&bin.join("postgres"));
    command.arg("-D").arg(folder.join("data"));
    command.args(["-p", &port.to_string(), "-h", "127.0.0.1", "-k"]).arg(folder);
    for option in options {
        command.args(["-c", option]);
    }
    command.current_dir(folder).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}
