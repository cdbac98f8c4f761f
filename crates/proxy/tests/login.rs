//! Logins to the proxy: curl, and bytes by hand.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use futures_util::future::BoxFuture;
use gauntlet_proxy::Parts;
use gauntlet_proxy::access_log::{AccessRecord, Outcome};
use gauntlet_proxy::auth::Logins;
use gauntlet_proxy::auth::passwords::{PasswordFile, Passwords};
use gauntlet_proxy::settings::{LoginMethod, LoginSettings, Settings, Upstream};
use gauntlet_urlfilter::UrlLists;
use tempfile::TempDir;

use crate::common::{Origin, Proxy, by_policy, program, settings, text, until};
use crate::tls_parts::{Pki, TlsOrigin, judged};

/// `htpasswd -nbB`, cost 5: the password is "secret".
const HASH: &str = "$2y$05$HSqzFHcXPS3m2XEpUHKnpO5Ixav1aWHkF2mL198XGVQvx5BzqF3c6";

/// Files of users "ann" and "jörg", whose passwords are "secret" and "geheimß".
struct Files {
    _folder: TempDir,
    passwords: PathBuf,
    digest: PathBuf,
}

fn files() -> Files {
    let folder = tempfile::tempdir().unwrap();
    let (passwords, digest) = (folder.path().join("passwords"), folder.path().join("digest"));
    std::fs::write(&passwords, format!("# users\nann:{HASH}\njörg:{HASH}\n")).unwrap();
    let hashes = [("ann", "secret"), ("jörg", "geheimß")].map(|(login, password)| {
        let text = format!("{login}:Gauntlet proxy:{password}");
        let sha = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
        let sha: String = sha.as_ref().iter().map(|b| format!("{b:02x}")).collect();
        format!("{login}:Gauntlet proxy:{sha}\n")
    });
    std::fs::write(&digest, hashes.concat()).unwrap();
    Files { _folder: folder, passwords, digest }
}

fn login(files: &Files, methods: &[LoginMethod]) -> Settings {
    let mut login = LoginSettings { methods: methods.to_vec(), ..LoginSettings::default() };
    if login.offers(LoginMethod::Basic) {
        login.password_file.clone_from(&files.passwords);
    }
    if login.offers(LoginMethod::Digest) {
        login.digest_file.clone_from(&files.digest);
    }
    Settings { login, ..settings() }
}

const BOTH: [LoginMethod; 2] = [LoginMethod::Basic, LoginMethod::Digest];

#[tokio::test]
async fn curl_logs_in_by_every_method_for_requests_and_tunnels() {
    let (files, origin) = (files(), Origin::echo().await);
    let proxy = Proxy::start(login(&files, &BOTH)).await;
    let url = origin.url("/a?b=c");
    for method in ["--proxy-basic", "--proxy-digest", "--proxy-anyauth"] {
        for tunnel in [false, true] {
            let mut args = vec![method, "--proxy-user", "ann:secret", "-d", "body", &url];
            args.extend(tunnel.then_some("-p"));
            let Some(output) = proxy.curl(&args).await else { return };
            assert!(output.text.starts_with("POST /a?b=c"), "{method} {tunnel} {output:?}");
            assert!(!output.text.to_lowercase().contains("proxy-auth"), "{output:?}");
        }
    }
    // Tunnels are logged when both sides have ended, and the request within by itself.
    let passed = |log: &[AccessRecord]| log.iter().filter(|r| r.refusal.is_none()).count();
    let log = until(|| Some(proxy.log.all()).filter(|log| passed(log) == 9)).await;
    let is_anns = |r: &AccessRecord| r.refusal.is_some() || r.user.as_deref() == Some("ann");
    assert!(log.iter().all(is_anns), "{log:?}");
    assert!(log.iter().any(|r| r.squid().contains(" ann ")), "{:?}", log[0].squid());
    let asked = log.iter().filter(|r| r.refusal == Some("login"));
    assert!(asked.clone().count() == 4 && asked.clone().all(|r| r.user.is_none()), "{log:?}");
    assert!(asked.clone().all(|r| r.outcome == Outcome::Denied && r.status == 407));
    assert_eq!(proxy.counters.passwords_checked.get(), 1, "of the second it is known");
    assert_eq!(proxy.counters.logins.get(), 6);
}

/// What openssl writes for this password.
fn openssl(program: &Path, kind: &str, password: &str) -> String {
    let mut command = Command::new(program);
    let output = command.args(["passwd", kind, "--", password]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn hashes_that_openssl_writes_are_known() {
    let Some(program) = program("openssl") else { return };
    // Lengths around those of blocks and digests, at which the algorithms differ.
    let lengths = [1, 2, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 200];
    let passwords = lengths.map(|n| "pässword".chars().cycle().take(n).collect::<String>());
    let kinds = ["-apr1", "-5", "-6"];
    let mut lines = String::new();
    for kind in kinds {
        for (n, password) in passwords.iter().enumerate() {
            lines += &format!("{n}{kind}:{}", openssl(&program, kind, password));
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("users");
    std::fs::write(&file, &lines).unwrap();
    let users = PasswordFile::open(&file).unwrap();
    let address = [127, 0, 0, 1].into();
    for kind in kinds {
        for (n, password) in passwords.iter().enumerate() {
            let login = format!("{n}{kind}");
            let known = users.check(address, login.clone(), password.clone()).await;
            assert_eq!(known.as_deref(), Some(login.as_str()), "{password:?}");
            let known = users.check(address, login.clone(), format!("{password}x")).await;
            assert_eq!(known, None, "{login}");
        }
    }
}

#[tokio::test]
async fn who_is_warned_goes_on_from_every_address_and_nobody_else_does() {
    let (files, origin) = (files(), Origin::echo().await);
    let policy = "[[web_rule]]\nname = \"ask\"\nwhen.url.path = \"/games*\"\n\
                  do = { warn = { text = \"Games?\", minutes = 5 } }\n";
    let judge = by_policy(policy, UrlLists::default());
    let parts = Parts { judge: Arc::new(judge), ..Parts::default() };
    let proxy = Proxy::with(login(&files, &[LoginMethod::Basic]), parts).await;
    let url = origin.url("/games");
    let ask = async |user: &str, from: &str, url: &str| {
        let fields = ["-i", "-H", "Accept: text/html", "--proxy-user", user];
        let args = [&fields[..], &["--interface", from, url]].concat();
        proxy.curl(&args).await.map(|output| output.text)
    };
    let (ann, other) = ("ann:secret", "jörg:secret");
    let Some(page) = ask(ann, "127.0.0.1", &url).await else { return };
    let value = |begin: &str| page.split(begin).nth(1)?.split('"').next();
    let action = value("action=\"").unwrap();
    let form = format!("{action}?token={}&reason=x", value("value=\"").unwrap());
    let passes = |answer: Option<String>| answer.unwrap().starts_with("HTTP/1.1 200 OK");
    let answer = ask(other, "127.0.0.1", &form).await.unwrap();
    assert!(!answer.starts_with("HTTP/1.1 302 "), "the form is not his: {answer}");
    assert!(ask(ann, "127.0.0.2", &form).await.unwrap().starts_with("HTTP/1.1 302 "));
    assert!(passes(ask(ann, "127.0.0.1", &url).await));
    assert!(passes(ask(ann, "127.0.0.3", &url).await));
    assert!(!passes(ask(other, "127.0.0.1", &url).await), "the address does not go on");
}

#[tokio::test]
async fn what_is_wrong_is_refused_and_what_is_stronger_is_offered_first() {
    let (files, origin) = (files(), Origin::echo().await);
    let proxy = Proxy::start(login(&files, &BOTH)).await;
    let url = origin.url("/");
    for method in ["--proxy-basic", "--proxy-digest"] {
        for user in ["ann:wrong", "nobody:secret", "ann:"] {
            let args = [method, "--proxy-user", user, "-i", &url];
            let Some(output) = proxy.curl(&args).await else { return };
            let last = output.text.rsplit("HTTP/1.1").next().unwrap();
            assert!(last.starts_with(" 407"), "{method} {user} {output:?}");
            assert!(last.contains("not known"), "{output:?}");
        }
    }
    assert_eq!(origin.connections(), 0);
    assert_eq!(proxy.counters.refusals("login_failed"), 6);
    let answer = proxy.talk(format!("GET {url} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"));
    let answer = answer.await;
    assert!(answer.starts_with("HTTP/1.1 407 "), "{answer}");
    let fields: Vec<&str> =
        answer.lines().filter_map(|l| l.strip_prefix("proxy-authenticate: ")).collect();
    assert!(
        fields[0].starts_with("Digest realm=\"Gauntlet proxy\", qop=\"auth\", algorithm=SHA-256")
    );
    assert_eq!(fields[1..], ["Basic realm=\"Gauntlet proxy\", charset=\"UTF-8\""]);
    assert!(answer.contains("You have to log in"), "{answer}");
    assert!(proxy.log.all().iter().all(|record| record.user.is_none()));
}

#[tokio::test]
async fn names_and_passwords_may_be_of_any_language() {
    let (files, origin) = (files(), Origin::echo().await);
    let proxy = Proxy::start(login(&files, &BOTH)).await;
    for (method, user) in [("--proxy-basic", "jörg:secret"), ("--proxy-digest", "jörg:geheimß")]
    {
        let args = [method, "--proxy-user", user, &origin.url("/")];
        let Some(output) = proxy.curl(&args).await else { return };
        assert!(output.text.starts_with("GET /"), "{output:?}");
    }
    assert_eq!(proxy.log.all().last().unwrap().user.as_deref(), Some("jörg"));
}

/// `Proxy-Authorization` of a client that does Digest by hand.
fn proof(challenge: &str, nc: &str, method: &str, uri: &str) -> String {
    let nonce = challenge.split("nonce=\"").nth(1).unwrap().split('"').next().unwrap();
    let sha = |text: String| {
        let hash = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
        hash.as_ref().iter().map(|b| format!("{b:02x}")).collect::<String>()
    };
    let ha1 = sha("ann:Gauntlet proxy:secret".to_owned());
    let ha2 = sha(format!("{method}:{uri}"));
    let response = sha(format!("{ha1}:{nonce}:{nc}:abc:auth:{ha2}"));
    format!(
        "Digest username=\"ann\", realm=\"Gauntlet proxy\", nonce=\"{nonce}\", uri=\"{uri}\", \
         algorithm=SHA-256, nc={nc}, cnonce=\"abc\", qop=auth, response=\"{response}\""
    )
}

#[tokio::test]
async fn a_proof_is_good_once_and_for_its_request() {
    let (files, origin) = (files(), Origin::echo().await);
    let proxy = Proxy::start(login(&files, &[LoginMethod::Digest])).await;
    let (url, other) = (origin.url("/a"), origin.url("/b"));
    let get = async |url: &str, field: &str| {
        let field = match field {
            "" => String::new(),
            field => format!("Proxy-Authorization: {field}\r\n"),
        };
        let request = format!("GET {url} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{field}\r\n");
        proxy.talk(request).await
    };
    let challenge = get(&url, "").await;
    let first = proof(&challenge, "00000001", "GET", &url);
    assert!(get(&url, &first).await.starts_with("HTTP/1.1 200"));
    let replayed = get(&url, &first).await;
    assert!(replayed.starts_with("HTTP/1.1 407") && replayed.contains("stale=true"), "{replayed}");
    let elsewhere = get(&other, &proof(&challenge, "00000002", "GET", &url)).await;
    assert!(elsewhere.starts_with("HTTP/1.1 407") && !elsewhere.contains("stale"), "{elsewhere}");
    assert!(get(&url, &proof(&challenge, "00000003", "POST", &url)).await.contains(" 407"));
    // A path alone is how curl hashes it; counts may come late.
    assert!(get(&url, &proof(&challenge, "00000002", "GET", "/a")).await.contains(" 200"));
    let made_up = challenge.replace("nonce=\"", "nonce=\"AAAA");
    let made_up = get(&url, &proof(&made_up, "00000001", "GET", &url)).await;
    assert!(made_up.contains(" 407") && made_up.contains("stale=true"), "{made_up}");
    // Another method than those that were offered.
    let basic = get(&url, "Basic YW5uOnNlY3JldA==").await;
    assert!(basic.starts_with("HTTP/1.1 407") && !basic.contains("Basic realm"), "{basic}");
    for field in ["Digest", "Basic ====", "x", "Digest username=\"ann\""] {
        assert!(get(&url, field).await.starts_with("HTTP/1.1 407"), "{field}");
    }
    let two = format!("{first}\r\nProxy-Authorization: {first}");
    assert!(get(&url, &two).await.starts_with("HTTP/1.1 400"));
    assert_eq!(origin.connections(), 1, "kept, and used for those that were right");
}

#[tokio::test]
async fn who_guesses_waits_and_who_is_known_does_not() {
    let (files, origin) = (files(), Origin::echo().await);
    let mut settings = login(&files, &BOTH);
    settings.login.failures_max = 3;
    let proxy = Proxy::start(settings).await;
    let url = origin.url("/");
    let get = async |user: &str| {
        let field = format!("Basic {}", base64_simd::STANDARD.encode_to_string(user));
        let request = format!(
            "GET {url} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nProxy-Authorization: {field}\r\n\r\n"
        );
        proxy.talk(request).await
    };
    assert!(get("ann:secret").await.starts_with("HTTP/1.1 200"));
    // The same wrong password again and again, as a telephone does that has an old one.
    for _ in 0..9 {
        assert!(get("ann:old").await.starts_with("HTTP/1.1 407"));
    }
    assert!(get("ann:b").await.starts_with("HTTP/1.1 407"));
    assert!(get("ann:c").await.starts_with("HTTP/1.1 407"));
    let over = get("jörg:secret").await;
    assert!(over.starts_with("HTTP/1.1 429") && over.contains("retry-after: 60"), "{over}");
    assert!(get("ann:secret").await.starts_with("HTTP/1.1 200"), "who is known goes on");
    assert_eq!(proxy.counters.passwords_checked.get(), 4);
    assert_eq!(proxy.counters.refusals("login_limit"), 1);
}

#[tokio::test]
async fn rules_know_who_it_is_and_exempt_networks_need_not_say() {
    let (files, origin) = (files(), Origin::echo().await);
    let policy = "[[group]]\nname = \"staff\"\nmembers = [\"ann\"]\n\
                  [[web_rule]]\nname = \"s\"\nwhen.client.group = \"staff\"\n\
                  do = { block = \"Not for staff.\" }\n\
                  [[web_rule]]\nname = \"j\"\nwhen.client.user = \"jörg\"\n\
                  do = { block = \"Not for jörg.\" }\n";
    let judge = || Arc::new(by_policy(policy, UrlLists::default()));
    let parts = Parts { judge: judge(), ..Parts::default() };
    let proxy = Proxy::with(login(&files, &BOTH), parts).await;
    let url = origin.url("/");
    for (user, text) in [("ann:secret", "Not for staff."), ("jörg:secret", "Not for jörg.")] {
        let args = ["--proxy-basic", "--proxy-user", user, &url];
        let Some(output) = proxy.curl(&args).await else { return };
        assert!(output.text.contains(text), "{output:?}");
        let record = proxy.log.take().pop().unwrap();
        assert_eq!(record.user.as_deref(), user.split(':').next());
    }
    let mut exempt = login(&files, &BOTH);
    exempt.login.exempt_networks = vec!["127.0.0.0/8".to_owned()];
    let proxy = Proxy::with(exempt, Parts { judge: judge(), ..Parts::default() }).await;
    let Some(output) = proxy.curl(&[&url]).await else { return };
    assert!(output.text.starts_with("GET /"), "{output:?}");
    let wrong = proxy.curl(&["--proxy-user", "ann:wrong", &url]).await.unwrap();
    assert!(wrong.text.contains("not known"), "{wrong:?}");
}

#[tokio::test]
async fn http2_clients_log_in_too() {
    let (files, origin) = (files(), Origin::echo().await);
    let proxy = Proxy::start(login(&files, &BOTH)).await;
    let stream = hyper_util::rt::TokioIo::new(proxy.connect().await);
    let executor = hyper_util::rt::TokioExecutor::new();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(executor, stream).await.unwrap();
    tokio::spawn(connection);
    for (method, uri) in [("GET", origin.url("/a")), ("CONNECT", origin.address.to_string())] {
        for (field, status) in [("", 407), ("Basic YW5uOnNlY3JldA==", 200)] {
            let mut request = hyper::Request::builder().method(method).uri(&uri);
            if !field.is_empty() {
                request = request.header("proxy-authorization", field);
            }
            let body = http_body_util::Empty::<bytes::Bytes>::new();
            let response = sender.send_request(request.body(body).unwrap()).await.unwrap();
            assert_eq!(response.status(), status, "{method}");
            let offered = response.headers().get_all("proxy-authenticate").iter().count();
            assert_eq!(offered, if status == 407 { 2 } else { 0 });
        }
    }
}

#[tokio::test]
async fn the_next_proxy_gets_credentials_if_a_setting_says_so() {
    let (files, origin) = (files(), Origin::echo().await);
    let next = Proxy::start(login(&files, &[LoginMethod::Basic])).await;
    for passes in [false, true] {
        let mut settings = login(&files, &[LoginMethod::Basic]);
        settings.login.pass_to_upstream = passes;
        let (host, port) = (next.address.ip().to_string(), next.address.port());
        let (user, password) = (String::new(), String::new());
        settings.upstream = Some(Upstream { host, port, user, password });
        settings.name = "first".to_owned();
        let proxy = Proxy::start(settings).await;
        for tunnel in [false, true] {
            let url = origin.url("/");
            let mut args = vec!["--proxy-user", "ann:secret", &url];
            args.extend(tunnel.then_some("-p"));
            let Some(output) = proxy.curl(&args).await else { return };
            assert_eq!(output.text.starts_with("GET /"), passes, "{tunnel} {output:?}");
            assert!(!output.text.to_lowercase().contains("proxy-auth"), "{output:?}");
        }
    }
}

#[tokio::test]
async fn the_login_of_a_tunnel_holds_for_the_requests_inside() {
    let (files, pki) = (files(), Pki::new());
    let origin = TlsOrigin::start(
        &pki.certificate(&["www.good.example"]),
        &[b"h2", b"http/1.1"],
        |request: hyper::Request<_>| async move { text(format!("{:?}", request.headers())) },
    )
    .await;
    let policy = "[[web_rule]]\nname = \"r\"\nwhen.client.user = \"ann\"\n\
                  when.url.path = \"/closed\"\ndo = { block = \"Not for ann.\" }\n";
    let settings = Settings { login: login(&files, &BOTH).login, ..pki.decrypting() };
    let proxy = judged(settings, by_policy(policy, UrlLists::default())).await;
    let urls = ["/open", "/closed"].map(|path| origin.url("www.good.example", path));
    let ca = pki.ca();
    // Inside, the field is for nobody, and the server must not see it.
    let field = "Proxy-Authorization: Basic c3Bvb2Y6c3Bvb2Y=";
    let args = ["--cacert", &ca, "--proxy-user", "ann:secret", "-H", field, &urls[0], &urls[1]];
    let Some(out) = proxy.curl(&args).await else { return };
    assert!(out.text.contains("Not for ann.") && out.text.contains("curl/"), "{out:?}");
    assert!(!out.text.contains("proxy-authorization"), "{out:?}");
    let log = until(|| Some(proxy.log.all()).filter(|log| log.len() == 3)).await;
    assert!(log.iter().all(|record| record.user.as_deref() == Some("ann")), "{log:?}");
}

/// Users that change.
struct Users {
    asked: Arc<AtomicUsize>,
    generation: Arc<AtomicU64>,
}

impl Passwords for Users {
    fn check(&self, _: IpAddr, login: String, _: String) -> BoxFuture<'_, Option<Arc<str>>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move { Some(login.to_lowercase().into()) })
    }

    fn generation(&self) -> u64 {
        self.generation.load(Ordering::SeqCst)
    }
}

#[tokio::test]
async fn what_is_remembered_is_forgotten_when_users_change() {
    let origin = Origin::echo().await;
    let (asked, generation) = (Arc::default(), Arc::default());
    let users = Users { asked: Arc::clone(&asked), generation: Arc::clone(&generation) };
    let methods = vec![LoginMethod::Basic];
    let login = LoginSettings { methods, ..LoginSettings::default() };
    let logins = Logins::new(&login, Some(Box::new(users))).unwrap();
    let parts = Parts { logins: Some(Arc::new(logins)), ..Parts::default() };
    let proxy = Proxy::with(Settings { login, ..settings() }, parts).await;
    for times in [1, 1, 2, 2] {
        let url = origin.url("/");
        let Some(output) = proxy.curl(&["--proxy-user", "Ann:x", &url]).await else { return };
        assert!(output.text.starts_with("GET /"), "{output:?}");
        if times == 2 {
            assert_eq!(asked.load(Ordering::SeqCst), 2);
        }
        generation.store(1, Ordering::SeqCst);
    }
    assert_eq!(proxy.log.all()[0].user.as_deref(), Some("ann"), "as the users have it");
}

#[test]
fn a_file_that_cannot_be_used_is_named() {
    let files = files();
    let open =
        |login: &LoginSettings| Logins::new(login, None).map(drop).map_err(|e| e.to_string());
    let mut both = login(&files, &BOTH).login;
    assert_eq!(open(&both), Ok(()));
    both.realm = "Other".to_owned();
    assert!(open(&both).unwrap_err().contains("no user of the realm \"Other\""));
    both.password_file = Path::new("/nowhere/x").to_owned();
    assert!(open(&both).unwrap_err().contains("/nowhere/x"));
    let none = LoginSettings { methods: vec![LoginMethod::Basic], ..LoginSettings::default() };
    assert!(open(&none).unwrap_err().contains("needs password_file"));
    // A reload keeps what was there if the new file is none.
    let logins = Logins::new(&login(&files, &BOTH).login, None).unwrap();
    std::fs::write(&files.passwords, "ann:plain\n").unwrap();
    assert!(logins.reload().unwrap_err().to_string().contains("line 1"));
}
