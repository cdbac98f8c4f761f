//! Groups of people from a real PostgreSQL server, with a password (SCRAM-SHA-256) and with TLS.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use gauntlet_gateway::admin::groups;
use gauntlet_gateway::config::{Config, GroupSettings};
use rcgen::{CertificateParams, CertifiedIssuer, IsCa, KeyPair};

/// A server of its own in a temporary folder.
struct Server {
    child: Child,
    port: u16,
    folder: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _it_may_be_gone = self.child.kill();
        let _it_may_be_gone = self.child.wait();
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

/// An authority of our own.
fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new(vec![]).unwrap();
    params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// Gives the server a certificate for this name and says how it finds it. The key is only its own
/// to read.
fn certificate(folder: &Path, data: &Path, name: &str) -> Vec<String> {
    let authority = authority();
    let key = KeyPair::generate().unwrap();
    let made =
        CertificateParams::new(vec![name.to_owned()]).unwrap().signed_by(&key, &authority).unwrap();
    std::fs::write(folder.join("roots.pem"), authority.pem()).unwrap();
    let (cert_file, key_file) = (data.join("server.crt"), data.join("server.key"));
    std::fs::write(&cert_file, made.pem()).unwrap();
    std::fs::write(&key_file, key.serialize_pem()).unwrap();
    let owner = std::fs::metadata(data).unwrap();
    let (uid, gid) =
        (std::os::unix::fs::MetadataExt::uid(&owner), std::os::unix::fs::MetadataExt::gid(&owner));
    for file in [&cert_file, &key_file] {
        std::os::unix::fs::chown(file, Some(uid), Some(gid)).unwrap();
        let own = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(file, own).unwrap();
    }
    ["ssl=on", "ssl_cert_file=server.crt", "ssl_key_file=server.key"]
        .iter()
        .flat_map(|setting| ["-c".to_owned(), (*setting).to_owned()])
        .collect()
}

/// Starts a server, with TLS if a name for its certificate is given; none, with a loud note, if it
/// is not installed.
fn start(tls_name: Option<&str>) -> Option<Server> {
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
    let tls = tls_name.map(|name| certificate(folder.path(), &data, name)).unwrap_or_default();
    let port = crate::zone::port::free_port(&["127.0.0.1"]);
    let child = as_somebody(&bin.join("postgres"))
        .arg("-D")
        .arg(&data)
        .args(["-p", &port.to_string(), "-h", "127.0.0.1", "-k"])
        .arg(folder.path())
        .args(tls)
        .current_dir(folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let server = Server { child, port, folder };
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
        // It ends at once where it cannot connect.
        let written = child.stdin.take().unwrap().write_all(text.as_bytes());
        child.wait().unwrap().success() && written.is_ok()
    }
}

#[test]
fn members_are_what_the_database_says_and_stay_when_it_goes() {
    let Some(server) = start(None) else { return };
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
        ("keeper:p%40ss%20word", "CREATE TABLE t (a text)", "read-only transaction"),
    ] {
        let error = format!("{:#}", groups::load(&config(login, query)).unwrap_err());
        assert!(error.contains(why) && error.contains("group \"board\""), "{error}");
        assert!(
            !error.contains("p@ss") && !error.contains("wrong@"),
            "reveals the password: {error}"
        );
    }
    // Answers beyond the limits are none.
    let many = || config("keeper:p%40ss%20word", "SELECT 'a' FROM generate_series(1, 100)");
    let (mut few_rows, mut few_bytes) = (many(), many());
    (few_rows.postgres.rows_max, few_bytes.postgres.answer_bytes_max) = (99, 300);
    for (limited, why) in [(few_rows, "more than 99 rows"), (few_bytes, "more than 300 bytes")] {
        let error = format!("{:#}", groups::load(&limited).unwrap_err());
        assert!(error.contains(why), "{error}");
    }
    drop(server);
    assert!(groups::load(&good).unwrap().contains("board", "ann@example.org"));
}

#[test]
fn tls_to_the_database_is_verified() {
    let Some(server) = start(Some("localhost")) else { return };
    let own_roots = server.folder.path().join("roots.pem");
    let strange_roots = server.folder.path().join("strange.pem");
    std::fs::write(&strange_roots, authority().pem()).unwrap();
    let ask = |host: &str, options: &str, roots: &Path| {
        // A folder of its own each time: nothing that was said before helps.
        let data = tempfile::tempdir().unwrap();
        let login = "keeper:p%40ss%20word";
        let group = GroupSettings {
            name: "board".to_owned(),
            database: format!("postgres://{login}@{host}:{}/postgres{options}", server.port),
            // Only who comes by TLS gets an answer.
            query: "SELECT 'ann@example.org' FROM pg_stat_ssl WHERE pid = pg_backend_pid() AND ssl"
                .to_owned(),
            ..GroupSettings::default()
        };
        let mut config = Config { group: vec![group], ..Config::default() };
        config.node.data = data.path().to_owned();
        config.sender.roots = roots.to_owned();
        groups::load(&config)
            .map(|found| found.contains("board", "ann@example.org"))
            .map_err(|error| format!("{error:#}"))
    };
    // Verified without being asked to; the name in the certificate is the host's.
    assert_eq!(ask("localhost", "", &own_roots), Ok(true));
    assert_eq!(ask("localhost", "?sslmode=verify-full", &own_roots), Ok(true));
    // Another name than the certificate's, and an authority that is not trusted here.
    let wrong_name = ask("127.0.0.1", "", &own_roots).unwrap_err();
    assert!(wrong_name.contains("TLS") && wrong_name.contains("name"), "{wrong_name}");
    let wrong_authority = ask("localhost", "", &strange_roots).unwrap_err();
    assert!(wrong_authority.contains("invalid peer certificate"), "{wrong_authority}");
    for error in [&wrong_name, &wrong_authority] {
        assert!(error.contains("group \"board\"") && !error.contains("p@ss"), "{error}");
    }
    // Encrypted, but from whomever: only who says so gets that.
    assert_eq!(ask("127.0.0.1", "?sslmode=require", &strange_roots), Ok(true));
    assert_eq!(ask("127.0.0.1", "?sslmode=disable", &own_roots), Ok(false));
    drop(server);
    // A server without TLS is not asked in clear.
    let Some(server) = start(None) else { return };
    let url = format!("postgres://keeper:p%40ss%20word@localhost:{}/postgres", server.port);
    let address = gauntlet_gateway::admin::postgres::ServerAddress::parse(&url).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let limits = gauntlet_gateway::config::PostgresSettings::default();
    let tls = gauntlet_gateway::net::tls::HopTls::load(Path::new("")).unwrap();
    let asked = runtime
        .block_on(gauntlet_gateway::admin::postgres::rows(&address, "SELECT 1", &tls, limits));
    assert!(format!("{:#}", asked.unwrap_err()).contains("offers no TLS"));
}
