//! Nodes that join an array by tokens, sign in to PostgreSQL by certificates, and are revoked.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::{Node, PATIENCE};
use crate::postgres::Server;

fn gauntlet(args: &[&str], config: Option<&Path>) -> (bool, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gauntlet"));
    command.args(args).env_remove("GAUNTLET_CONFIG");
    if let Some(config) = config {
        command.arg("--config").arg(config);
    }
    let out = command.output().unwrap();
    let text = [out.stdout, out.stderr].concat();
    (out.status.success(), String::from_utf8_lossy(&text).into_owned())
}

fn done(args: &[&str], config: Option<&Path>) -> String {
    let (good, text) = gauntlet(args, config);
    assert!(good, "{args:?}: {text}");
    text
}

/// Makes everything below a folder PostgreSQL's, if the test is run by root.
fn give(folder: &Path) {
    if rustix::process::geteuid().is_root() {
        let given = Command::new("chown").args(["-R", "postgres:"]).arg(folder).status().unwrap();
        assert!(given.success());
    }
}

/// An authority, and a server that lets in by its certificates.
pub(crate) struct Site {
    folder: tempfile::TempDir,
    server: Server,
}

impl Site {
    pub(crate) fn start() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(folder.path(), open).unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        let (ca, db) = (at("ca"), at("db"));
        done(&["array", "ca", "new", "--out", &ca], None);
        done(&["array", "ca", "server", "127.0.0.1", "--ca", &ca, "--out", &db], None);
        let hba = "hostssl all gauntlet 127.0.0.1/32 cert map=gauntlet\n\
                   hostssl all gauntlet_join 127.0.0.1/32 cert map=gauntlet\n\
                   host all keeper 127.0.0.1/32 trust\n";
        let ident = "gauntlet /^node:.*$ gauntlet\ngauntlet gauntlet_join gauntlet_join\n";
        let (hba_file, ident_file) = (at("db/pg_hba.conf"), at("db/pg_ident.conf"));
        std::fs::write(&hba_file, hba).unwrap();
        std::fs::write(&ident_file, ident).unwrap();
        std::fs::copy(at("ca/ca.pem"), at("db/ca.pem")).unwrap();
        give(&folder.path().join("db"));
        let options = [
            "fsync=off".to_owned(),
            "ssl=on".to_owned(),
            format!("ssl_cert_file={db}/server.pem"),
            format!("ssl_key_file={db}/server.key"),
            format!("ssl_ca_file={db}/ca.pem"),
            format!("hba_file={hba_file}"),
            format!("ident_file={ident_file}"),
        ];
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let server = Server::start(&options)?;
        for role in ["gauntlet", "gauntlet_join"] {
            server.sql(&format!("CREATE ROLE {role} LOGIN"));
        }
        server.sql("GRANT CREATE ON DATABASE postgres TO gauntlet");
        Some(Site { folder, server })
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The configuration of a manager with a certificate of its own.
    pub(crate) fn manager(&self) -> PathBuf {
        let (ca, out) = (self.at("ca").display().to_string(), self.at("manager"));
        let folder = out.display().to_string();
        done(&["array", "ca", "node", "manager.test", "--ca", &ca, "--out", &folder], None);
        let config = self.at("manager.toml");
        let text = format!(
            "[node]\nname = \"manager.test\"\ndata = {:?}\n[array]\n\
             database = \"postgres://gauntlet@127.0.0.1:{}/postgres\"\n\
             certificate = \"{folder}/node.pem\"\nkey = \"{folder}/node.key\"\n\
             ca = \"{folder}/ca.pem\"\n",
            self.at("manager-data"),
            self.server.port
        );
        std::fs::write(&config, text).unwrap();
        config
    }

    /// Has the server refuse what the manager says is revoked.
    fn apply_revocations(&self, manager: &Path) {
        let ca = self.at("ca").display().to_string();
        let out = Command::new(env!("CARGO_BIN_EXE_gauntlet"))
            .args(["array", "crl", "--ca", &ca, "--config"])
            .arg(manager)
            .output()
            .unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        let file = self.at("db/revoked.crl");
        std::fs::write(&file, out.stdout).unwrap();
        give(&self.at("db"));
        self.server.sql(&format!("ALTER SYSTEM SET ssl_crl_file = '{}'", file.display()));
        self.server.sql("SELECT pg_reload_conf()");
    }
}

#[test]
fn a_node_joins_by_a_token_once_and_a_revoked_one_stays_out() {
    let Some(site) = Site::start() else { return };
    let manager = site.manager();
    let said = done(&["array", "init"], Some(&manager));
    assert!(said.contains("the tables of the array are there"), "{said}");
    // The node was alone until now.
    let mut node = Node::start_named("mx1.test", "[facts]\nenabled = false\n");
    node.stop();
    let config = node.folder.path().join("gauntlet.toml");
    let wrong = gauntlet(&["array", "join", "gauntlet1.AAAA"], Some(&config));
    assert!(!wrong.0 && wrong.1.contains("the token cannot be used"), "{}", wrong.1);
    let mut giving = Command::new(env!("CARGO_BIN_EXE_gauntlet"))
        .args(["array", "token", "--name", "mx1.test", "--minutes", "10", "--ca"])
        .arg(site.at("ca"))
        .arg("--config")
        .arg(&manager)
        .env_remove("GAUNTLET_CONFIG")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut token = String::new();
    BufReader::new(giving.stdout.take().unwrap()).read_line(&mut token).unwrap();
    let token = token.trim();
    assert!(!token.contains(' ') && token.len() > 500, "{token}");
    // Who has a token may ask, and see nothing.
    let may = "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
               WHERE nspname = 'gauntlet' AND relkind IN ('r', 'p') \
               AND has_table_privilege('gauntlet_join', c.oid, 'SELECT, INSERT, UPDATE, DELETE')";
    assert_eq!(site.server.sql(may), "0");
    let other = gauntlet(&["array", "join", token], Some(&manager));
    assert!(!other.0 && other.1.contains("the token is for mx1.test"), "{}", other.1);
    let said = done(&["array", "join", token], Some(&config));
    assert!(said.contains("signed in as mx1.test") && said.contains("[array] is added"), "{said}");
    assert!(giving.wait().unwrap().success());
    let key = node.data().join("array/node.key");
    let mode = std::os::unix::fs::PermissionsExt::mode(&key.metadata().unwrap().permissions());
    assert_eq!(mode & 0o077, 0);
    // What seals shared users came along, to where the node's own process does not read.
    let users_key = node.data().join("console/users.key");
    let same = [site.at("ca/users.key"), users_key].map(|path| std::fs::read(path).unwrap());
    assert_eq!(same[0], same[1]);
    node.config = std::fs::read_to_string(&config).unwrap();
    assert!(node.config.contains("users_key = \"console/users.key\""), "{}", node.config);
    node.run();
    let is_said = |what: &str| {
        let (_, text) = gauntlet(&["array", "nodes"], Some(&manager));
        text.lines().any(|line| line.starts_with("mx1.test") && line.contains(what))
    };
    node.wait_until("it takes part", || is_said("active"));
    // The token was for one key.
    let mut twin = Node::start_named("mx1.test", "[facts]\nenabled = false\n");
    twin.stop();
    let second =
        gauntlet(&["array", "join", token], Some(&twin.folder.path().join("gauntlet.toml")));
    assert!(!second.0 && second.1.contains("another node has used it"), "{}", second.1);
    // A node that left is refused by the server, and by the table of nodes before.
    let said = done(&["array", "leave", "mx1.test", "--yes"], Some(&manager));
    assert!(said.contains("1 certificates are revoked"), "{said}");
    node.wait_until("it is told", || node.log().contains("was removed from the array"));
    assert!(gauntlet(&["array", "nodes"], Some(&config)).0, "its certificate still opens");
    site.apply_revocations(&manager);
    let begun = std::time::Instant::now();
    while gauntlet(&["array", "nodes"], Some(&config)).0 {
        assert!(begun.elapsed() < PATIENCE, "a revoked certificate opens");
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    let (_, said) = gauntlet(&["array", "nodes"], Some(&config));
    assert!(said.to_lowercase().contains("revoked"), "{said}");
    done(&["array", "nodes"], Some(&manager));
}
