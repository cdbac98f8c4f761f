//! Programs that people have, through a node's proxy: apt, git, and a browser that finds the proxy
//! by the script of the console and trusts the node's authority.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use gauntlet_store::WebLog;
use gauntlet_store::web_log::{WebQuery, WebRow};

use crate::common::zone::Zone;
use crate::common::{Node, PATIENCE, port, program};

/// The site that clients ask for; only the node can look it up.
const SITE: &str = "site.example";

/// A web server with files.
struct Nginx {
    child: Child,
    plain: u16,
    tls: u16,
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Nginx {
    /// Serves the folder `www` below this one, over TLS as well with the certificate in it.
    fn start(folder: &Path) -> Option<Nginx> {
        let program = program("nginx")?;
        let (plain, tls) = (port::free_port(&["127.0.0.1"]), port::free_port(&["127.0.0.1"]));
        let root = folder.display();
        let with_tls = match folder.join("site.pem").is_file() {
            false => String::new(),
            true => format!(
                "listen 127.0.0.1:{tls} ssl; ssl_certificate {root}/site.pem; \
                 ssl_certificate_key {root}/site.key;"
            ),
        };
        let user = if is_root() { "user root;" } else { "" };
        let config = format!(
            "daemon off; master_process off; pid {root}/pid; error_log stderr; {user}\n\
             events {{}}\nhttp {{ access_log off; default_type application/octet-stream;\n\
             types {{ text/html html; }}\n\
             client_body_temp_path {root}/t1; proxy_temp_path {root}/t2;\n\
             fastcgi_temp_path {root}/t3; uwsgi_temp_path {root}/t4; scgi_temp_path {root}/t5;\n\
             server {{ listen 127.0.0.1:{plain}; {with_tls} root {root}/www; }} }}\n"
        );
        fs::write(folder.join("nginx.conf"), config).unwrap();
        let mut child = Command::new(program)
            .arg("-p")
            .arg(folder)
            .arg("-c")
            .arg(folder.join("nginx.conf"))
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let begun = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", plain)).is_err() {
            assert!(begun.elapsed() < PATIENCE, "nginx does not start");
            assert!(child.try_wait().unwrap().is_none(), "nginx ended");
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(Nginx { child, plain, tls })
    }
}

fn is_root() -> bool {
    // SAFETY: it only reads a number of the process.
    unsafe { libc::geteuid() == 0 }
}

fn run(command: &mut Command) -> Output {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {text}{}", shown(&output.stdout));
    output
}

fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A node with a proxy that may reach this machine, and asks the zone for names.
struct Site {
    node: Node,
    nginx: Nginx,
    _zone: Zone,
}

impl Site {
    /// Serves what stands in `www` of the folder; `rest` is further configuration.
    fn start(folder: tempfile::TempDir, rest: &str) -> Option<Site> {
        let nginx = Nginx::start(folder.path())?;
        let zone = Zone::serve(&format!("{SITE} A 127.0.0.1\n"))?;
        let config = format!(
            "[dns]\nservers = [\"{}\"]\n[[listener]]\nrole = \"proxy\"\naddress = \"127.0.0.1:0\"\n\
             [proxy]\nprivate_networks = [\"127.0.0.0/8\"]\nconnect_ports = [\"1-65535\"]\n{rest}",
            zone.address()
        );
        Some(Site { node: Node::start_in(folder, &config), nginx, _zone: zone })
    }

    fn proxy(&self) -> String {
        format!("http://{}", self.node.place("proxy"))
    }

    fn url(&self, path: &str) -> String {
        format!("http://{SITE}:{}/{path}", self.nginx.plain)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.node.folder.path().join(name)
    }

    /// The web log, as soon as some request of it is so.
    fn logged(&self, what: &str, is_it: impl Fn(&WebRow) -> bool) -> WebRow {
        let mut found = None;
        self.node.wait_until(what, || {
            let page = WebLog::read(&self.node.data().join("web"), &WebQuery::default());
            let rows = page.map(|page| page.requests).unwrap_or_default();
            found = rows.into_iter().find(&is_it);
            found.is_some()
        });
        found.unwrap()
    }
}

/// A repository of two packages, as apt reads it: `greeting` and `games`, of one content.
fn package_repository(folder: &Path) -> Option<()> {
    let dpkg = program("dpkg-deb")?;
    let tree = folder.join("package");
    fs::create_dir_all(tree.join("DEBIAN")).unwrap();
    // dpkg-deb refuses a folder that everybody may write, as a umask of 0 makes it.
    fs::set_permissions(tree.join("DEBIAN"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir_all(tree.join("usr/share/doc/greeting")).unwrap();
    let control = "Package: greeting\nVersion: 1.0\nArchitecture: all\n\
                   Maintainer: Ann <ann@site.example>\nDescription: says hello\n";
    fs::write(tree.join("DEBIAN/control"), control).unwrap();
    fs::write(tree.join("usr/share/doc/greeting/hello"), "hello\n".repeat(10_000)).unwrap();
    let www = folder.join("www/debian");
    fs::create_dir_all(&www).unwrap();
    let package = www.join("greeting_1.0_all.deb");
    run(Command::new(dpkg).args(["--build", "--root-owner-group"]).arg(&tree).arg(&package));
    let sum = |path: &Path| {
        let output = run(Command::new("sha256sum").arg(path));
        shown(&output.stdout).split_whitespace().next().unwrap().to_owned()
    };
    let size = |path: &Path| fs::metadata(path).unwrap().len();
    fs::copy(&package, www.join("games_1.0_all.deb")).unwrap();
    let entry = |name: &str| {
        let control = control.replace("greeting", name);
        let (bytes, sum) = (size(&package), sum(&package));
        format!("{control}Filename: ./{name}_1.0_all.deb\nSize: {bytes}\nSHA256: {sum}\n\n")
    };
    let entries = entry("greeting") + &entry("games");
    let packages = www.join("Packages");
    fs::write(&packages, entries).unwrap();
    let release = format!(
        "Origin: site.example\nSuite: ./\nSHA256:\n {} {} Packages\n",
        sum(&packages),
        size(&packages)
    );
    fs::write(www.join("Release"), release).unwrap();
    Some(())
}

#[test]
fn apt_gets_its_lists_and_a_package_and_is_told_what_is_blocked() {
    let Some(apt) = program("apt-get") else { return };
    let folder = tempfile::tempdir().unwrap();
    let Some(()) = package_repository(folder.path()) else { return };
    let policy = folder.path().join("policy.toml");
    let rule = "[[web_rule]]\nname = \"no games\"\nwhen.url.path = \"*/games_*\"\n\
                do = { block = \"No games.\" }\n";
    fs::write(&policy, rule).unwrap();
    let rest = format!("[policy]\npath = {policy:?}\n");
    let Some(site) = Site::start(folder, &rest) else { return };
    let state = site.path("apt");
    for below in ["lists/partial", "cache/archives/partial", "dpkg"] {
        fs::create_dir_all(state.join(below)).unwrap();
    }
    fs::write(state.join("dpkg/status"), "").unwrap();
    let source = format!("deb [trusted=yes] {} ./\n", site.url("debian/"));
    fs::write(state.join("sources.list"), source).unwrap();
    let apt_get = |args: &[&str]| {
        let mut command = Command::new(&apt);
        command.current_dir(&state).env("APT_CONFIG", "/dev/null").env("LC_ALL", "C");
        for setting in [
            format!("Acquire::http::Proxy={}", site.proxy()),
            format!("Dir::State={}", state.display()),
            format!("Dir::State::status={}/dpkg/status", state.display()),
            format!("Dir::Cache={}/cache", state.display()),
            format!("Dir::Etc::SourceList={}/sources.list", state.display()),
            "Dir::Etc::SourceParts=/dev/null".to_owned(),
            "Dir::Etc::Parts=/dev/null".to_owned(),
            // It would give up root's rights for a user who may not read the folder.
            "APT::Sandbox::User=root".to_owned(),
            "Acquire::Retries=0".to_owned(),
        ] {
            command.arg("-o").arg(setting);
        }
        command.args(args).stdin(Stdio::null()).output().unwrap()
    };
    let updated = apt_get(&["update"]);
    assert!(updated.status.success(), "{}{}", shown(&updated.stdout), shown(&updated.stderr));
    let got = apt_get(&["download", "greeting"]);
    assert!(got.status.success(), "{}", shown(&got.stderr));
    let package = fs::read(state.join("greeting_1.0_all.deb")).unwrap();
    assert_eq!(package, fs::read(site.path("www/debian/greeting_1.0_all.deb")).unwrap());
    let wanted = site.url("debian/greeting_1.0_all.deb");
    let row = site.logged("apt's request is logged", |row| row.record.url == wanted);
    assert_eq!((row.record.status, row.record.host.as_str()), (200, SITE));
    // A package whose name a rule blocks.
    let refused = apt_get(&["download", "games"]);
    assert!(!refused.status.success());
    assert!(shown(&refused.stderr).contains("403"), "{}", shown(&refused.stderr));
    let row = site.logged("it is logged", |row| row.record.url.contains("/games_"));
    assert_eq!((row.record.status, row.record.rule.as_str()), (403, "no games"));
}

#[test]
fn git_clones_through_the_proxy_and_through_a_decrypted_tunnel() {
    let (Some(git), Some(openssl)) = (program("git"), program("openssl")) else { return };
    let folder = tempfile::tempdir().unwrap();
    let settings = authority(&openssl, folder.path());
    let home = folder.path().join("home");
    fs::create_dir(&home).unwrap();
    let git = |at: &Path, args: &[&str]| {
        let mut command = Command::new(&git);
        command.current_dir(at).env("HOME", &home).env("GIT_CONFIG_NOSYSTEM", "1");
        command.env("GIT_TERMINAL_PROMPT", "0").args(args);
        // They would count more than what is configured.
        for name in ["GIT_SSL_CAINFO", "GIT_PROXY_SSL_CAINFO", "no_proxy", "NO_PROXY"] {
            command.env_remove(name);
        }
        for who in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{who}_NAME"), "Ann");
            command.env(format!("GIT_{who}_EMAIL"), "ann@site.example");
        }
        run(&mut command)
    };
    let (work, www) = (folder.path().join("work"), folder.path().join("www"));
    fs::create_dir_all(&work).unwrap();
    fs::create_dir_all(&www).unwrap();
    git(&work, &["init", "-q", "-b", "main"]);
    for n in 0..20 {
        fs::write(work.join("file"), format!("{n}\n").repeat(1_000)).unwrap();
        git(&work, &["add", "file"]);
        git(&work, &["commit", "-q", "-m", &format!("change {n}")]);
    }
    let bare = www.join("repository.git");
    git(&work, &["clone", "-q", "--bare", ".", &bare.display().to_string()]);
    // Files alone, without a program of git's on the server; one pack of all objects.
    git(&bare, &["repack", "-q", "-a", "-d"]);
    git(&bare, &["update-server-info"]);
    let head = shown(&git(&work, &["rev-parse", "HEAD"]).stdout);
    let Some(site) = Site::start(folder, &settings) else { return };
    let at = site.node.folder.path();
    let proxy = format!("http.proxy={}", site.proxy());
    git(at, &["-c", &proxy, "clone", "-q", &site.url("repository.git"), "plain"]);
    let cloned = |name: &str| shown(&git(&at.join(name), &["rev-parse", "HEAD"]).stdout);
    assert_eq!(cloned("plain"), head);
    git(&at.join("plain"), &["fsck", "--strict"]);
    let url = format!("https://{SITE}:{}/repository.git", site.nginx.tls);
    let trusted = format!("http.sslCAInfo={}", at.join("ca/ca.pem").display());
    git(at, &["-c", &proxy, "-c", &trusted, "clone", "-q", &url, "inside"]);
    assert_eq!(cloned("inside"), head);
    // The request inside the tunnel was seen.
    let wanted = format!("{url}/info/refs");
    let row = site.logged("git's request is logged", |r| r.record.url.starts_with(&wanted));
    assert_eq!((row.record.status, row.record.method.as_str()), (200, "GET"));
}

/// An authority of the node's own, and a site whose certificate the node trusts: the settings.
fn authority(openssl: &Path, folder: &Path) -> String {
    run(Command::new(env!("CARGO_BIN_EXE_gauntlet"))
        .args(["ca", "new", "--name", "Office", "--out"])
        .arg(folder.join("ca")));
    let (key, certificate) = (folder.join("site.key"), folder.join("site.pem"));
    run(Command::new(openssl)
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"])
        .args(["-days", "2", "-subj", "/CN=site.example", "-addext"])
        .arg(format!("subjectAltName=DNS:{SITE}"))
        .args(["-addext", "basicConstraints=critical,CA:FALSE", "-keyout"])
        .args([&key, Path::new("-out"), &certificate]));
    format!(
        "[proxy.tls]\nmore_roots = [{certificate:?}]\nca_certificate = {:?}\nca_key = {:?}\n",
        folder.join("ca/ca.pem"),
        folder.join("ca/ca.key")
    )
}

/// What Chromium shows of a page, as text of its document.
fn browse(chromium: &Path, home: &Path, how: &str, url: &str) -> String {
    let output = Command::new(chromium)
        .env("HOME", home)
        .args([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--virtual-time-budget=10000",
            "--dump-dom",
        ])
        .arg(format!("--user-data-dir={}", home.join("profile").display()))
        .args([how, url])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .unwrap();
    shown(&output.stdout)
}

#[test]
fn chromium_finds_the_proxy_by_the_script_and_trusts_the_nodes_authority() {
    let (Some(chromium), Some(certutil), Some(openssl)) =
        (program("chromium"), program("certutil"), program("openssl"))
    else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let settings = authority(&openssl, folder.path());
    let policy = folder.path().join("policy.toml");
    let rule = "[[web_rule]]\nname = \"no games\"\nwhen.url.path = \"/games*\"\n\
                do = { block = \"No games at work.\" }\n";
    fs::write(&policy, rule).unwrap();
    let www = folder.path().join("www");
    fs::create_dir_all(&www).unwrap();
    for page in ["index.html", "games.html"] {
        let script = "document.body.append(location.protocol + ' ' + (6 * 7))";
        let text = format!("<!doctype html><p>{page}</p><script>{script}</script>");
        fs::write(www.join(page), text).unwrap();
    }
    // Where Chromium looks for what a user trusts.
    let database = folder.path().join(".pki/nssdb");
    fs::create_dir_all(&database).unwrap();
    let database = format!("sql:{}", database.display());
    run(Command::new(&certutil).args(["-N", "--empty-password", "-d", &database]));
    run(Command::new(&certutil)
        .args(["-A", "-n", "office", "-t", "C,,", "-d", &database, "-i"])
        .arg(folder.path().join("ca/ca.pem")));
    let rest = format!("[policy]\npath = {policy:?}\n{settings}");
    let Some(site) = Site::start(folder, &rest) else { return };
    let script = format!("--proxy-pac-url=http://{}/proxy.pac", site.node.console);
    let home = site.node.folder.path();
    let look = |url: &str| browse(&chromium, home, &script, url);

    let page = look(&site.url("index.html"));
    assert!(page.contains("<p>index.html</p>") && page.contains("http: 42"), "{page}");
    let page = look(&site.url("games.html"));
    assert!(page.contains("No games at work."), "{page}");

    let secure = |path: &str| format!("https://{SITE}:{}/{path}", site.nginx.tls);
    let page = look(&secure("index.html"));
    assert!(page.contains("<p>index.html</p>") && page.contains("https: 42"), "{page}");
    let page = look(&secure("games.html"));
    assert!(page.contains("No games at work."), "the path inside the tunnel is judged: {page}");
    let wanted = secure("games.html");
    let row = site.logged("it is logged", |row| row.record.url == wanted);
    assert_eq!((row.record.status, row.record.rule.as_str()), (403, "no games"));
}
