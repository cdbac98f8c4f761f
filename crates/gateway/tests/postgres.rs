//! Groups of people from a real PostgreSQL server, with a password (SCRAM-SHA-256).

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use gauntlet_gateway::config::{Config, GroupSettings};
use gauntlet_gateway::groups;

/// A server of its own in a temporary folder.
struct Server {
    child: Child,
    port: u16,
    _folder: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _it_may_be_gone = self.child.kill();
        let _it_may_be_gone = self.child.wait();
    }
}

/// The newest installed server's programs.
fn programs() -> Option<PathBuf> {
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

/// Starts a server; none, with a loud note, if it is not installed.
fn start() -> Option<Server> {
    let Some(bin) = programs() else {
        let missing = "PostgreSQL is not installed (Debian: postgresql)";
        assert!(std::env::var_os("CI").is_none(), "{missing}");
        eprintln!("SKIPPED: {missing}");
        return None;
    };
    let folder = tempfile::tempdir().unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(folder.path(), open).unwrap();
    let (data, password) = (folder.path().join("data"), folder.path().join("password"));
    std::fs::write(&password, "p@ss word\n").unwrap();
    let made = as_somebody(&bin.join("initdb"))
        .args(["-U", "keeper", "-A", "scram-sha-256", "-E", "UTF8", "--no-locale", "--no-sync"])
        .arg("-D")
        .arg(&data)
        .arg(format!("--pwfile={}", password.display()))
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let child = as_somebody(&bin.join("postgres"))
        .arg("-D")
        .arg(&data)
        .args(["-p", &port.to_string(), "-h", "127.0.0.1", "-k"])
        .arg(folder.path())
        .current_dir(folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let server = Server { child, port, _folder: folder };
    for _ in 0..300 {
        if server.sql(&bin, "SELECT 1") {
            return Some(server);
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    panic!("the server does not answer");
}

impl Server {
    /// Runs statements as `psql` does.
    fn sql(&self, bin: &Path, text: &str) -> bool {
        let mut child = Command::new(bin.join("psql"))
            .args([
                "-q",
                "-v",
                "ON_ERROR_STOP=1",
                "-h",
                "127.0.0.1",
                "-U",
                "keeper",
                "-d",
                "postgres",
            ])
            .args(["-p", &self.port.to_string()])
            .env("PGPASSWORD", "p@ss word")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        child.wait().unwrap().success()
    }
}

#[test]
fn members_are_what_the_database_says_and_stay_when_it_goes() {
    let Some(server) = start() else { return };
    let bin = programs().unwrap();
    assert!(server.sql(
        &bin,
        "CREATE TABLE staff (mail TEXT, team TEXT); INSERT INTO staff VALUES \
         ('Ann@example.org', 'board'), ('bob@example.org', 'sales'), (NULL, 'board'), \
         ('jürgen@example.org', 'board');",
    ));
    let data = tempfile::tempdir().unwrap();
    let config = |login: &str, query: &str| {
        let database =
            format!("postgres://{login}@127.0.0.1:{}/postgres?sslmode=disable", server.port);
        let group = GroupSettings {
            name: "board".to_owned(),
            database,
            query: query.to_owned(),
            ..GroupSettings::default()
        };
        let mut config = Config { group: vec![group], ..Config::default() };
        config.node.data = data.path().to_owned();
        config
    };
    let good = config("keeper:p%40ss%20word", "SELECT mail FROM staff WHERE team = 'board'");
    let found = groups::load(&good).unwrap();
    for (who, is) in
        [("ann@example.org", true), ("jürgen@example.org", true), ("bob@example.org", false)]
    {
        assert_eq!(found.contains("board", who), is, "{who}");
    }
    for (login, query, why) in [
        ("keeper:wrong", "SELECT 1", "password authentication failed"),
        ("nobody:x", "SELECT 1", "password authentication failed"),
        ("keeper:p%40ss%20word", "SELECT mail FROM nothing", "does not exist"),
        ("keeper:p%40ss%20word", "SELECT FROM (", "syntax error"),
    ] {
        let error = format!("{:#}", groups::load(&config(login, query)).unwrap_err());
        assert!(error.contains(why) && error.contains("group \"board\""), "{error}");
        assert!(
            !error.contains("p@ss") && !error.contains("wrong@"),
            "tells the password: {error}"
        );
    }
    drop(server);
    assert!(groups::load(&good).unwrap().contains("board", "ann@example.org"));
}
