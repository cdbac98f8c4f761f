//! Passwords and tokens of the configuration stand in no output, no log and no file of the data
//! folder.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use crate::common::{Node, PATIENCE, files_below};

/// Part of every secret here.
const SECRET: &str = "s3cr3t";

/// Everything that a command prints, and whether it succeeded.
fn gauntlet(arguments: &[&str], file: &Path) -> (bool, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_gauntlet"))
        .env_remove("GAUNTLET_CONFIG")
        .args(arguments)
        .arg(file)
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

fn assert_clean(what: &str, text: &str) {
    assert!(!text.to_lowercase().contains(SECRET), "{what}: {text}");
}

/// A web server that answers the first request with a redirection to a place with a secret in it,
/// and the others not at all.
fn redirecting() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for (n, stream) in listener.incoming().flatten().enumerate() {
            let mut stream = stream;
            let _the_request = stream.read(&mut [0; 4096]);
            let answer = "HTTP/1.1 302 Found\r\nLocation: ftp://x:s3cr3t-f@h/?sig=s3cr3t-g\r\n\
                          Content-Length: 0\r\n\r\n";
            if n == 0 {
                stream.write_all(answer.as_bytes()).unwrap();
            }
        }
    });
    port
}

fn page(node: &Node, path: &str, token: &str) -> String {
    let mut stream = std::net::TcpStream::connect(node.console).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let host = node.console;
    let head = format!("Authorization: Bearer {token}\r\nConnection: close\r\n\r\n");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\n{head}").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn no_output_and_no_log_has_a_secret() {
    let port = redirecting();
    // The database is away from the first start on: that stops nothing.
    let node = Node::start(
        &format!(
            "[oidc]\nissuer = \"https://login.example/\"\nclient_id = \"us\"\n\
         client_secret = \"s3cr3t-b\"\n\
         [policy]\ngroups_seconds = 1\n\
         [[group]]\nname = \"board\"\ndatabase = \"postgres://ann:s3cr3t-c@127.0.0.1:1/staff\"\n\
         query = \"SELECT mail FROM staff\"\n\
         [[local_list]]\nname = \"bad\"\nof = [\"client\"]\npoints = 1.0\n\
         url = \"http://ann:s3cr3t-d@127.0.0.1:{port}/list?apikey=s3cr3t-e\"\n\
         [[service]]\nprotocol = \"http\"\naddress = \"127.0.0.1:0\"\ntoken = \"s3cr3t-h\"\n"
        )
        .replacen("[oidc]", "url = \"https://mail.example\"\n[oidc]", 1),
    );
    let database = "the group's database does not answer and never did";
    node.wait_until("all is logged", || {
        let log = node.log();
        log.contains(database)
            && log.contains("a list could not be fetched")
            && log.contains("groups could not be read")
    });
    let log = node.log();
    assert_clean("log", &log);
    assert!(log.contains("http://ann:(set)@127.0.0.1"), "{log}");
    assert!(log.contains("ftp://x:(set)@h/?sig=(set)"), "{log}");

    let file = node.folder.path().join("gauntlet.toml");
    for arguments in [
        &["config", "check"][..],
        &["config", "show", "--config"],
        &["config", "show", "--json", "--config"],
        &["doctor", "--dns", "127.0.0.1:1", "--config"],
        &["doctor", "--dns", "127.0.0.1:1", "--json", "--config"],
        &["rules", "check", "--config"],
        &["policy", "check", "--config"],
        &["status", "--config"],
    ] {
        let (_, text) = gauntlet(arguments, &file);
        assert_clean(&arguments.join(" "), &text);
    }
    let (_, shown) = gauntlet(&["config", "show", "--config"], &file);
    for part in [
        "= \"(set)\"",
        "http://ann:(set)@127.0.0.1",
        "token = \"(set)\"",
        "postgres://ann:(set)@127.0.0.1:1/staff",
        "/list?apikey=(set)",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let (_, doctor) = gauntlet(&["doctor", "--dns", "127.0.0.1:1", "--config"], &file);
    assert!(doctor.contains("group \"board\": postgres://ann@127.0.0.1:1/staff"), "{doctor}");

    let (made, token) =
        gauntlet(&["token", "new", "probe", "--scope", "status:read", "--config"], &file);
    assert!(made, "{token}");
    let token = token.split_whitespace().find(|w| w.starts_with("gauntlet_")).unwrap();
    for path in ["/api/v1/settings", "/api/v1/status", "/settings", "/metrics", "/healthz"] {
        assert_clean(path, &page(&node, path, token));
    }
    assert!(page(&node, "/api/v1/settings", token).contains("(set)"));
    for file in files_below(&node.data()) {
        let bytes = std::fs::read(&file).unwrap_or_default();
        assert_clean(&file.display().to_string(), &String::from_utf8_lossy(&bytes));
    }
}

#[test]
fn errors_quote_no_secret() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gauntlet.toml");
    for wrong in [
        "[oidc]\nissuer = \"htps://ann:s3cr3t@login.example/\"\n",
        "[oidc]\nissuer = \"https://ann:s3cr3t@login.example/\"\n",
        "[console]\nurl = \"ftp://ann:s3cr3t@x/\"\n",
        "[digest]\nurl = \"ftp://x/?token=s3cr3t\"\n",
        "[domains]\nlocal = \"https://ann:s3cr3t@x/\"\n",
        "[[group]]\nname = \"a\"\ndatabase = \"postgres://ann:s3cr3t%@h/d\"\nquery = \"x\"\n",
        "[[group]]\nname = \"a\"\ndatabase = \"postgres://ann@h/d?password=s3cr3t\"\nquery = \"x\"\n",
        "[[group]]\nname = \"a\"\ndatabase = \"postgres://ann:s3/cr3t@h\"\nquery = \"x\"\n",
        "[[group]]\nname = \"a\"\ndatabase = \"mysql://ann:s3cr3t@h/d\"\nquery = \"x\"\n",
    ] {
        std::fs::write(&file, wrong).unwrap();
        let (good, text) = gauntlet(&["config", "check"], &file);
        assert!(!good, "{wrong}{text}");
        assert_clean(wrong, &text);
    }
}
