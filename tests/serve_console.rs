//! The console of a running node: HTTPS of its own, who releases a program that the policy stopped,
//! and what mail programs log in with once there is a second factor.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

use crate::common::{Node, Smtp, add_user, program};
use gauntlet_store::Users;
use gauntlet_store::users::totp_code;

const WORD: &str = "correct+horse+battery";

fn gauntlet(node: &Node, args: &[&str]) -> (bool, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_gauntlet"))
        .args(args)
        .arg("--data")
        .arg(node.data())
        .env_remove("GAUNTLET_CONFIG")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    (output.status.success(), text.into_owned())
}

fn ask(node: &Node, method: &str, path: &str, headers: &str, form: &str) -> String {
    let mut stream = TcpStream::connect(node.console).unwrap();
    stream.set_read_timeout(Some(crate::common::PATIENCE)).unwrap();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{headers}Content-Type: \
         application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{form}",
        node.console,
        form.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Signs Ann in: her cookie and form token as header lines.
fn sign_in(node: &Node) -> String {
    let answer = ask(node, "POST", "/sign-in", "", &format!("login=ann&password={WORD}"));
    let cookie = answer.lines().find_map(|l| l.strip_prefix("set-cookie: ")).expect("a session");
    let cookie = format!("Cookie: {}\r\n", cookie.split(';').next().unwrap());
    let page = ask(node, "GET", "/account", &cookie, "");
    let token = page.split_once("name=\"csrf\" value=\"").unwrap().1.split('"').next().unwrap();
    format!("{cookie}X-CSRF-Token: {token}\r\n")
}

#[test]
fn a_program_that_the_policy_stopped_is_not_released_by_whom_it_is_for() {
    let node = Node::start("");
    let raw = b"From: eve@example.net\r\nTo: ann@example.org\r\nSubject: update\r\n\
        MIME-Version: 1.0\r\nContent-Type: application/octet-stream; name=setup.exe\r\n\
        Content-Disposition: attachment; filename=setup.exe\r\n\
        Content-Transfer-Encoding: base64\r\n\r\nTVqQAAMAAAAEAAAA\r\n";
    let mut client = Smtp::connect(node.smtp).unwrap();
    let reply = client.send("eve@example.net", &["ann@example.org"], raw).unwrap();
    assert!(reply.starts_with("250"), "{reply}");
    add_user(&node.data(), &["--address", "ann@example.org"]);
    let listed = || gauntlet(&node, &["quarantine", "list", "--json"]).1;
    node.wait_until("it is held", || listed().contains("\"folder\":\"programs\""));
    let item: serde_json::Value = serde_json::from_str(listed().lines().next().unwrap()).unwrap();
    let id = item["item"]["id"].as_str().unwrap().to_owned();
    let ann = sign_in(&node);
    let shown = ask(&node, "GET", &format!("/quarantine/{id}"), &ann, "");
    assert!(shown.starts_with("HTTP/1.1 200") && !shown.contains("value=\"release\""), "{shown}");
    for (path, form) in [
        ("/quarantine/decide", format!("item={id}&decision=release")),
        (&*format!("/api/v1/quarantine/{id}/release"), String::new()),
    ] {
        let answer = ask(&node, "POST", path, &ann, &form);
        assert!(answer.starts_with("HTTP/1.1 403"), "{path}: {answer}");
    }
    // The link of her digest, which has none for it any more, was the third way.
    let config = node.folder.path().join("gauntlet.toml");
    let config = config.to_str().unwrap();
    let digest = gauntlet(&node, &["digest", "preview", "ann@example.org", "--config", config]).1;
    assert!(digest.contains("Subject: 1 message is held"), "{digest}");
    assert!(node.maildir().is_empty());
    assert!(gauntlet(&node, &["quarantine", "release", &id]).0, "who runs the node can");
    node.wait_until("it is delivered", || node.maildir().len() == 1);
}

#[test]
fn with_a_second_factor_mail_programs_need_a_password_of_their_own() {
    let Some(python) = program("python3") else { return };
    let listener = "role = \"submission\"\nimplicit_tls = true";
    let node = Node::start_listening(listener, "[domains]\nlocal = [\"example.net\"]\n");
    add_user(&node.data(), &["--address", "a@example.org"]);
    let login = |password: &str| {
        let script = format!(
            "import smtplib, ssl\ncontext = ssl._create_unverified_context()\n\
             s = smtplib.SMTP_SSL('127.0.0.1', {}, context=context)\n\
             s.login('ann', '{password}')\n",
            node.smtp.port()
        );
        Command::new(&python).arg("-c").arg(script).output().unwrap().status.success()
    };
    let own = WORD.replace('+', " ");
    assert!(login(&own));
    let (made, secret) = gauntlet(&node, &["user", "app-password", "new", "ann", "phone"]);
    assert!(made, "{secret}");
    let users = Users::open(&node.data().join("console")).unwrap();
    let now = gauntlet_gateway::clock::now_ms();
    let key = users.begin_totp("ann").unwrap();
    users.enable_totp("ann", &totp_code(&key, now).unwrap(), now).unwrap().unwrap();
    // What was right a moment ago is remembered for a minute, and forgotten by a reload.
    node.signal("-HUP");
    node.wait_until("it is reloaded", || node.log().contains("configuration reloaded"));
    assert!(!login(&own), "the console's password");
    assert!(login(secret.trim()), "the telephone's");
    let answer =
        ask(&node, "POST", "/sign-in", "", &format!("login=ann&password={}", secret.trim()));
    assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
}

#[test]
fn the_console_speaks_https_with_the_nodes_certificate() {
    let Some(python) = program("python3") else { return };
    let node = Node::start("tls = true\n");
    assert!(node.place("console").starts_with("https://"), "{}", node.place("console"));
    let script = format!(
        "import http.client, ssl, hashlib, smtplib\n\
         context = ssl._create_unverified_context()\n\
         c = http.client.HTTPSConnection('127.0.0.1', {0}, context=context, timeout=30)\n\
         c.request('POST', '/sign-in', 'login=admin&password={1}',\n\
         \x20   {{'Content-Type': 'application/x-www-form-urlencoded'}})\n\
         a = c.getresponse()\n\
         assert a.status == 303, a.status\n\
         cookie = a.getheader('set-cookie')\n\
         assert '; Secure' in cookie and 'HttpOnly' in cookie, cookie\n\
         a.read()\n\
         c.request('GET', '/account', headers={{'Cookie': cookie.split(';')[0]}})\n\
         assert c.getresponse().status == 200\n\
         s = smtplib.SMTP('127.0.0.1', {2})\n\
         s.starttls(context=context)\n\
         assert s.sock.getpeercert(True) == c.sock.getpeercert(True), 'the same certificate'\n",
        node.console.port(),
        node.password.as_deref().unwrap(),
        node.smtp.port()
    );
    let output = Command::new(python).arg("-c").arg(script).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // Without TLS there is nothing to hear, and who says nothing is given up.
    let mut plain = TcpStream::connect(node.console).unwrap();
    plain.set_read_timeout(Some(crate::common::PATIENCE)).unwrap();
    plain.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _closed_one_way_or_another = plain.read_to_end(&mut answer);
    assert!(!answer.windows(4).any(|w| w == b"HTTP"), "{answer:?}");
}

#[test]
fn a_console_that_is_open_to_the_network_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let said = |console: &str| {
        let file = folder.path().join("gauntlet.toml");
        let data = folder.path().join("data");
        std::fs::create_dir_all(&data).unwrap();
        let text = format!(
            "[node]\ndata = {data:?}\n[dns]\nservers = [\"127.0.0.1:9\"]\n[console]\n{console}"
        );
        std::fs::write(&file, text).unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_gauntlet"))
            .args(["doctor", "--json", "--config"])
            .arg(&file)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let line = text.lines().find(|l| l.contains("\"console\"")).expect("a line").to_owned();
        serde_json::from_str::<serde_json::Value>(&line).unwrap()["status"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    for (console, status) in [
        ("address = \"0.0.0.0:8025\"\n", "error"),
        ("address = \"[::]:8025\"\n", "error"),
        ("address = \"0.0.0.0:8025\"\ntls = true\n", "ok"),
        ("address = \"0.0.0.0:8025\"\nproxies = [\"10.0.0.1\"]\n", "ok"),
        ("address = \"127.0.0.1:8025\"\n", "ok"),
    ] {
        assert_eq!(said(console), status, "{console}");
    }
}

#[test]
fn guesses_count_beyond_a_restart_and_by_the_settings() {
    let mut node = Node::start("[sign_in]\nfailures_per_login_max = 3\n");
    let guess = |node: &Node, login: &str| {
        let answer = ask(node, "POST", "/sign-in", "", &format!("login={login}&password=wrong"));
        answer.split(' ').nth(1).unwrap().to_owned()
    };
    for login in ["stopped", "killed"] {
        let said: Vec<String> = (0..4).map(|_| guess(&node, login)).collect();
        assert_eq!(said, ["401", "401", "401", "429"], "{login}");
        if login == "killed" {
            // What was just counted is written a moment later.
            std::thread::sleep(std::time::Duration::from_secs(2));
            node.kill();
        } else {
            node.stop();
        }
        node.run();
        let answer = ask(&node, "POST", "/sign-in", "", &format!("login={login}&password=wrong"));
        assert!(answer.starts_with("HTTP/1.1 429"), "{login}: {answer}");
        assert!(answer.to_lowercase().contains("\r\nretry-after: "), "{answer}");
    }
    let metrics = ask(&node, "GET", "/metrics", "", "");
    let counted = "gauntlet_sign_in_attempts_refused_total{of=\"password\"} 1\n";
    assert!(metrics.contains(counted), "{metrics}");
}

#[test]
fn limits_of_sign_ins_that_limit_nothing_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gauntlet.toml");
    for (wrong, says) in [
        ("failures_per_login_max = 0", "sign_in.failures_per_login_max: must be 1 to"),
        ("code_failures_free = 1000", "sign_in.code_failures_free: must be 1 to 100"),
        ("window_seconds = 0", "sign_in.window_seconds: must be 1 to"),
    ] {
        std::fs::write(&file, format!("[sign_in]\n{wrong}\n")).unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_gauntlet"))
            .args(["config", "show", "--config"])
            .arg(&file)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && text.contains(says), "{wrong}: {text}");
    }
}

#[test]
fn a_running_node_says_how_it_is_confined() {
    let node = Node::start("");
    let (made, token) = gauntlet(&node, &["token", "new", "probe", "--scope", "status:read"]);
    assert!(made, "{token}");
    let token = token.split_whitespace().find(|w| w.starts_with("gauntlet_")).unwrap();
    let bearer = format!("Authorization: Bearer {token}\r\n");
    let answer = ask(&node, "GET", "/api/v1/health", &bearer, "");
    let check = answer.split('{').find(|part| part.contains("\"sandbox\"")).expect("a check");
    // What a confined node cannot ask the kernel any more was said when it was confined.
    assert!(check.contains("node: ") && check.contains("secrets process: "), "{check}");
    assert!(!check.contains("Operation not permitted"), "{check}");
}
