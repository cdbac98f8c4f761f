//! TLS of a measurement: a certificate for the origin, an authority for the proxy, and what the
//! client trusts.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use anyhow::Context;
use rcgen::CertifiedKey;
use serde::Serialize;
use tokio_rustls::rustls::client::Resumption;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::workload::ORIGIN;
use crate::compare::server::write;

/// What is done with TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Tls {
    /// It passes through tunnels unread: the client speaks to the origin.
    Inside,
    /// The proxy decrypts it by an authority that the client trusts.
    Intercepted,
}

/// The origin's certificate and key.
#[derive(Debug, Clone)]
pub(crate) struct OriginFiles {
    /// In PEM.
    pub(crate) certificate: PathBuf,
    /// In PEM.
    pub(crate) key: PathBuf,
}

/// Makes a certificate for the origin, signed by itself.
///
/// # Errors
/// It cannot be made or written.
pub(crate) fn origin_files(folder: &Path) -> anyhow::Result<OriginFiles> {
    let made = rcgen::generate_simple_self_signed(vec![ORIGIN.to_owned()]);
    let CertifiedKey { cert, signing_key } = made.context("cannot make a certificate")?;
    Ok(OriginFiles {
        certificate: write(folder, "origin.pem", &cert.pem())?,
        key: write(folder, "origin.key", &signing_key.serialize_pem())?,
    })
}

/// An authority that a proxy decrypts by.
#[derive(Debug, Clone)]
pub(crate) struct Authority {
    /// Its folder, with `ca.pem` and `ca.key`.
    folder: PathBuf,
}

impl Authority {
    /// Has this program make one in a folder that is not there yet.
    ///
    /// # Errors
    /// It does not.
    pub(crate) fn make(program: &Path, folder: PathBuf) -> anyhow::Result<Self> {
        let mut command = Command::new(program);
        command.args(["ca", "new", "--days", "2", "--out"]).arg(&folder);
        let output = command.output().context("cannot start this program")?;
        let errors = String::from_utf8_lossy(&output.stderr);
        anyhow::ensure!(output.status.success(), "no authority: {}", errors.trim());
        Ok(Authority { folder })
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn certificate(&self) -> PathBuf {
        self.folder.join("ca.pem")
    }

    pub(crate) fn key(&self) -> PathBuf {
        self.folder.join("ca.key")
    }
}

/// How the client speaks TLS: it trusts these certificates alone, and each session is new.
///
/// # Errors
/// A file has none.
pub(crate) fn client(trusted: &[&Path]) -> anyhow::Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    for file in trusted {
        let read = || format!("no certificate in {}", file.display());
        let certificate = CertificateDer::from_pem_file(file).with_context(read)?;
        roots.add(certificate).with_context(read)?;
    }
    let mut config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    // A session that is taken up again costs the proxy a part of a new one.
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
}
