//! A real browser, which trusts the authority: Chromium.

use std::process::{Command, Stdio};

use crate::common::{program, until};
use crate::tls_parts::{Pki, TlsOrigin, proxy};

#[tokio::test]
async fn chromium_shows_pages_of_a_decrypted_tunnel() {
    let (Some(chromium), Some(certutil)) = (program("chromium"), program("certutil")) else {
        return;
    };
    let pki = Pki::new();
    let certificate = pki.certificate(&["www.good.example"]);
    let origin = TlsOrigin::echo(&certificate).await;
    let other = TlsOrigin::echo(&pki.certificate(&["other.example"])).await;
    let proxy = proxy(pki.decrypting()).await;
    // Where Chromium looks for what a user trusts.
    let database = pki.path(".pki/nssdb");
    std::fs::create_dir_all(&database).unwrap();
    let database = format!("sql:{}", database.display());
    for args in [
        &["-N", "--empty-password", "-d", &database][..],
        &["-A", "-n", "office", "-t", "C,,", "-i", &pki.ca(), "-d", &database],
    ] {
        let done = Command::new(&certutil).args(args).stdout(Stdio::null()).status().unwrap();
        assert!(done.success());
    }
    for (url, said) in [
        (origin.url("www.good.example", "/a/page"), "/a/page"),
        (other.url("www.good.example", "/"), "it is for other names: other.example"),
    ] {
        let mut command = Command::new(&chromium);
        command.env("HOME", pki.folder.path()).args([
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
        ]);
        let profile = pki.path("profile");
        command.arg(format!("--user-data-dir={}", profile.display()));
        command.arg(format!("--proxy-server={}", proxy.address)).arg(&url);
        let run = move || command.stderr(Stdio::null()).output().unwrap();
        let out = tokio::task::spawn_blocking(run).await.unwrap();
        let page = String::from_utf8_lossy(&out.stdout).into_owned();
        assert!(page.contains(said), "{url}: {page}");
    }
    let found = |url: &str| proxy.log.all().into_iter().find(|r| r.url == url);
    let record = until(|| found(&origin.url("www.good.example", "/a/page"))).await;
    assert_eq!((record.version, record.status), ("HTTP/2.0", 200));
}
