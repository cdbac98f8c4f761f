//! Proxies that decrypt TLS: each trusts the origin, and has an authority that the client trusts.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use super::peers::{self, Origin, SquidParts};
use super::{Options, WebPeer};
use crate::compare::server::{Server, folder, program};
use crate::web::tls::Authority;

/// Memory for certificates that Squid has made.
const SQUID_CERTIFICATES: &str = "16MB";

/// A proxy that decrypts.
#[derive(Debug)]
pub(super) struct Intercepting {
    pub(super) server: Server,
    /// Its authority's certificate.
    pub(super) certificate: PathBuf,
}

/// Whether the peer is one that decrypts at all.
pub(super) fn can(peer: WebPeer) -> bool {
    matches!(peer, WebPeer::Squid | WebPeer::Mitmproxy)
}

/// Starts the peer with the list of these options.
///
/// # Errors
/// It is not installed, was built without TLS, or does not start.
pub(super) fn start(
    peer: WebPeer,
    options: &Options,
    origin: &Origin,
    authority: &Authority,
) -> anyhow::Result<Intercepting> {
    match peer {
        WebPeer::Squid => squid(options, origin, authority),
        WebPeer::Mitmproxy => mitmproxy(options, origin),
        other => bail!("{other:?} decrypts nothing"),
    }
}

fn squid(
    options: &Options,
    origin: &Origin,
    authority: &Authority,
) -> anyhow::Result<Intercepting> {
    let squid = match &options.squid {
        Some(squid) => squid.clone(),
        None => program("squid", "squid")?,
    };
    let said = Command::new(&squid).arg("-v").output().context("cannot start Squid")?;
    if !String::from_utf8_lossy(&said.stdout).contains("--with-openssl") {
        bail!(
            "{} was built without OpenSSL; Debian's squid-openssl takes the place of squid: unpack \
             it beside, and name its program with --squid",
            squid.display()
        );
    }
    let folder = folder()?;
    let at = |name: &str| folder.path().join(name);
    for (from, to) in [(authority.certificate(), "ca.pem"), (authority.key(), "ca.key")] {
        std::fs::copy(&from, at(to)).with_context(|| format!("cannot copy {}", from.display()))?;
    }
    let generator = generator(&squid);
    let made = Command::new(&generator)
        .args(["-c", "-s"])
        .arg(at("certificates"))
        .args(["-M", SQUID_CERTIFICATES])
        .output()
        .with_context(|| format!("cannot start {}", generator.display()))?;
    if !made.status.success() {
        bail!("{}: {}", generator.display(), String::from_utf8_lossy(&made.stderr).trim());
    }
    let root = folder.path().display();
    let port = format!(
        "ssl-bump generate-host-certificates=on tls-cert={root}/ca.pem tls-key={root}/ca.key"
    );
    let further = format!(
        "sslcrtd_program {} -s {root}/certificates -M {SQUID_CERTIFICATES}\n\
         tls_outgoing_options cafile={}\nacl hello at_step SslBump1\nssl_bump peek hello\n\
         ssl_bump bump all\n",
        generator.display(),
        origin.files.certificate.display()
    );
    let list = peers::squid_list(folder.path(), options.entries)?;
    let parts = SquidParts {
        name: "Squid",
        program: squid,
        port: &port,
        further: &format!("{further}{list}"),
        note: format!(
            "{} domains as dstdomain; ssl_bump, certificates made by it",
            options.entries
        ),
    };
    let server = peers::squid_with(folder, parts)?;
    Ok(Intercepting { server, certificate: authority.certificate() })
}

/// What makes Squid's certificates, beside its program: `/usr/sbin/squid`, `/usr/lib/squid/`.
fn generator(squid: &Path) -> PathBuf {
    let system = squid.parent().and_then(Path::parent).unwrap_or(Path::new("/usr"));
    system.join("lib/squid/security_file_certgen")
}

fn mitmproxy(options: &Options, origin: &Origin) -> anyhow::Result<Intercepting> {
    let further = format!("ssl_verify_upstream_trusted_ca={}", origin.files.certificate.display());
    let (server, folder) = peers::mitmproxy_with(options.entries, &["--set", &further])?;
    Ok(Intercepting { server, certificate: folder.join("conf/mitmproxy-ca-cert.pem") })
}
