//! Certificates that their issuer took back, by lists that `openssl ca` makes.

use std::path::{Path, PathBuf};
use std::process::Command;

use gauntlet_proxy::settings::{Settings, UnknownRevocation};
use gauntlet_proxy::{Parts, Server};

use crate::common::{Proxy, program};
use crate::tls_parts::{Certificate, Pki, TlsOrigin, proxy};

const NAME: &str = "www.good.example";
const UNKNOWN: &str = "certificate_revocation_unknown";

/// What `openssl ca` keeps of an authority.
struct Issuer<'a> {
    pki: &'a Pki,
    openssl: PathBuf,
}

impl<'a> Issuer<'a> {
    /// None without openssl.
    fn new(pki: &'a Pki) -> Option<Self> {
        let openssl = program("openssl")?;
        let folder = pki.folder.path().display();
        let config = format!(
            "[ca]\ndefault_ca = one\n[one]\ndatabase = {folder}/index.txt\n\
             crlnumber = {folder}/crlnumber\ndefault_md = sha256\ndefault_crl_days = 7\n\
             crl_extensions = list\n[list]\nauthorityKeyIdentifier = keyid:always\n"
        );
        std::fs::write(pki.path("ca.cnf"), config).unwrap();
        std::fs::write(pki.path("index.txt"), "").unwrap();
        std::fs::write(pki.path("crlnumber"), "01\n").unwrap();
        Some(Issuer { pki, openssl })
    }

    fn run(&self, args: &[&str]) {
        let mut command = Command::new(&self.openssl);
        command.args(["ca", "-config"]).arg(self.pki.path("ca.cnf"));
        command.arg("-cert").arg(self.pki.path("root.pem"));
        command.arg("-keyfile").arg(self.pki.path("root.key"));
        let output = command.args(args).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    fn revoke(&self, certificate: &Certificate) {
        self.run(&["-revoke", certificate.certificate.to_str().unwrap()]);
    }

    /// Writes the list in force into a file of this name.
    fn list(&self, name: &str, args: &[&str]) -> PathBuf {
        let path = self.pki.path(name);
        self.run(&[&["-gencrl", "-out", path.to_str().unwrap()], args].concat());
        path
    }
}

fn with_lists(pki: &Pki, lists: &[&Path], unknown: UnknownRevocation) -> Settings {
    let mut settings = pki.settings();
    settings.tls.crls = lists.iter().map(|path| path.to_path_buf()).collect();
    settings.tls.unknown_revocation = unknown;
    settings
}

/// Asks for an `https` URL in absolute form.
async fn get(proxy: &Proxy, origin: &TlsOrigin) -> String {
    let url = origin.url(NAME, "/");
    proxy.talk(format!("GET {url} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")).await
}

fn is_refused(answer: &str, error: &str) -> bool {
    let status = format!("error=tls_certificate_error; details=\"{error}\"");
    answer.starts_with("HTTP/1.1 502 Bad Gateway\r\n") && answer.contains(&status)
}

#[tokio::test]
async fn a_revoked_certificate_is_refused_and_a_reload_reads_the_list_anew() {
    let pki = Pki::new();
    let Some(issuer) = Issuer::new(&pki) else { return };
    let (stolen, good) = (pki.certificate(&[NAME]), pki.certificate(&[NAME]));
    let list = issuer.list("root.crl", &[]);
    let proxy = proxy(with_lists(&pki, &[&list], UnknownRevocation::Allow)).await;
    let origin = TlsOrigin::echo(&stolen).await;
    assert!(get(&proxy, &origin).await.starts_with("HTTP/1.1 200 OK\r\n"));
    issuer.revoke(&stolen);
    issuer.list("root.crl", &[]);
    proxy.trust.reload().unwrap();
    // A new server, since the connection to the other is kept.
    let origin = TlsOrigin::echo(&stolen).await;
    let answer = get(&proxy, &origin).await;
    assert!(is_refused(&answer, "certificate_revoked"), "{answer}");
    assert!(answer.contains("its issuer has revoked it"), "{answer}");
    assert_eq!(proxy.counters.refusals("certificate_revoked"), 1);
    let origin = TlsOrigin::echo(&good).await;
    assert!(get(&proxy, &origin).await.starts_with("HTTP/1.1 200 OK\r\n"));
    // What cannot be read leaves everything as it was.
    std::fs::write(&list, "-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n").unwrap();
    let error = proxy.trust.reload().unwrap_err().to_string();
    assert!(error.contains("tls.crls") && error.contains("root.crl"), "{error}");
    let origin = TlsOrigin::echo(&stolen).await;
    assert!(is_refused(&get(&proxy, &origin).await, "certificate_revoked"));
}

#[tokio::test]
async fn the_page_within_a_decrypted_tunnel_says_that_it_is_revoked() {
    let pki = Pki::new();
    let Some(issuer) = Issuer::new(&pki) else { return };
    let stolen = pki.certificate(&[NAME]);
    issuer.revoke(&stolen);
    let mut settings = pki.decrypting();
    settings.tls.crls = vec![issuer.list("root.crl", &[])];
    let proxy = proxy(settings).await;
    let origin = TlsOrigin::echo(&stolen).await;
    let (ca, url) = (pki.ca(), origin.url(NAME, "/"));
    let Some(page) = proxy.curl(&["-i", "--cacert", &ca, "-H", "Accept: text/html", &url]).await
    else {
        return;
    };
    assert!(page.text.contains("details=\"certificate_revoked\""), "{page:?}");
    assert!(page.text.contains("its issuer has revoked it"), "{page:?}");
    assert!(page.text.contains("its key may be in other hands"), "{page:?}");
}

#[tokio::test]
async fn a_certificate_without_a_list_in_force_passes_or_is_refused_as_set() {
    let (pki, others) = (Pki::new(), Pki::new());
    let (Some(issuer), Some(other)) = (Issuer::new(&pki), Issuer::new(&others)) else { return };
    let (good, stolen) = (pki.certificate(&[NAME]), pki.certificate(&[NAME]));
    issuer.revoke(&stolen);
    let of_another = other.list("other.crl", &[]);
    let times = ["-crl_lastupdate", "20200101000000Z", "-crl_nextupdate", "20200201000000Z"];
    let (old, now) = (issuer.list("old.crl", &times), issuer.list("now.crl", &[]));
    let lists = [of_another, old, now];
    for (list, unknown, of_good, of_stolen) in [
        (0, UnknownRevocation::Allow, None, None),
        (0, UnknownRevocation::Block, Some(UNKNOWN), Some(UNKNOWN)),
        (1, UnknownRevocation::Allow, None, Some("certificate_revoked")),
        (1, UnknownRevocation::Block, Some(UNKNOWN), Some(UNKNOWN)),
        (2, UnknownRevocation::Block, None, Some("certificate_revoked")),
    ] {
        let proxy = proxy(with_lists(&pki, &[&lists[list]], unknown)).await;
        for (certificate, expected) in [(&good, of_good), (&stolen, of_stolen)] {
            let origin = TlsOrigin::echo(certificate).await;
            let answer = get(&proxy, &origin).await;
            let is_right = match expected {
                None => answer.starts_with("HTTP/1.1 200 OK\r\n"),
                Some(error) => is_refused(&answer, error),
            };
            assert!(is_right, "list {list}, {unknown:?}, {expected:?}: {answer}");
        }
    }
}

#[tokio::test]
async fn a_list_that_its_issuer_did_not_sign_is_not_believed() {
    let pki = Pki::new();
    let Some(issuer) = Issuer::new(&pki) else { return };
    let good = pki.certificate(&[NAME]);
    let list = issuer.list("root.crl", &["-crlexts", "list"]);
    // The last byte is one of the signature.
    let pem = std::fs::read_to_string(&list).unwrap();
    let base64: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
    let mut der = base64_simd::STANDARD.decode_to_vec(base64).unwrap();
    *der.last_mut().unwrap() ^= 1;
    std::fs::write(pki.path("forged.crl"), &der).unwrap();
    let forged = pki.path("forged.crl");
    let proxy = proxy(with_lists(&pki, &[&forged], UnknownRevocation::Allow)).await;
    let origin = TlsOrigin::echo(&good).await;
    let answer = get(&proxy, &origin).await;
    assert!(is_refused(&answer, UNKNOWN), "{answer}");
}

#[tokio::test]
async fn lists_that_cannot_be_used_stop_the_start() {
    let pki = Pki::new();
    let Some(issuer) = Issuer::new(&pki) else { return };
    let whole = std::fs::read(issuer.list("root.crl", &[])).unwrap();
    let write = |name: &str, bytes: &[u8]| {
        std::fs::write(pki.path(name), bytes).unwrap();
        pki.path(name)
    };
    let huge = std::fs::File::create(pki.path("huge.crl")).unwrap();
    huge.set_len(64 * 1024 * 1024 + 1).unwrap();
    let root = std::fs::read(pki.path("root.pem")).unwrap();
    for (path, said) in [
        (pki.path("none.crl"), "No such file"),
        (pki.path("huge.crl"), "larger than 67108864 bytes"),
        (write("empty.crl", b""), "no list of revoked certificates"),
        (write("cut.crl", &whole[..whole.len() / 2]), "PEM form is broken"),
        (write("root.crl", &root), "no list of revoked certificates"),
        (write("nul.crl", &[0; 1000]), "no list of revoked certificates"),
        (write("many.crl", &whole.repeat(1001)), "more than 1000 lists"),
    ] {
        let settings = with_lists(&pki, &[&path], UnknownRevocation::Allow);
        let started = Server::bind(settings, Parts::default()).await;
        let error = started.err().expect("it does not start").to_string();
        let file = path.file_name().unwrap().to_str().unwrap();
        assert!(error.contains(said) && error.contains(file), "{error}");
    }
    let settings = with_lists(&pki, &[], UnknownRevocation::Block);
    let error = settings.check().unwrap_err().to_string();
    assert!(error.contains("tls.crls names no list"), "{error}");
}
