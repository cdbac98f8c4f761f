//! `gauntlet ca`: the certificate authority by which a proxy decrypts tunnels.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::bail;
use gauntlet_mail::date;
use gauntlet_proxy::tls::authority::{self, CERTIFICATE_FILE, Description, KEY_FILE, NewAuthority};
use serde_json::{Value, json};

const AFTER_HELP: &str = "\
Whoever has the key can impersonate every server to everybody who trusts the certificate: it is
written with mode 0600, and belongs on the proxy alone. Decrypting what people send is subject to
law and to agreements with them; docs/proxy.md says what the proxy then sees.

Examples:
  gauntlet ca new --out /etc/gauntlet/ca --name 'Example Ltd web gateway'
  gauntlet ca new --out test-ca --days 30 --permit example.com
  gauntlet ca show /etc/gauntlet/ca
  gauntlet proxy --ca /etc/gauntlet/ca";

/// Arguments of `gauntlet ca`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Make an authority: ca.pem for clients to trust, and ca.key, which stays secret
    New {
        /// Folder for the two files; none of them may be there
        #[arg(short, long, value_name = "FOLDER")]
        out: PathBuf,
        /// Name that people see in their programs, of at most 64 characters
        #[arg(long, default_value = "Gauntlet web gateway", value_parser = name)]
        name: String,
        /// Days until it ends
        #[arg(long, default_value_t = 1825, value_parser = clap::value_parser!(u64).range(1..=7300))]
        days: u64,
        /// Good for this domain and all below it alone; may be given more than once
        #[arg(long, value_name = "DOMAIN", value_parser = domain)]
        permit: Vec<String>,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Show an authority, and how clients are told to trust it
    Show {
        /// Its folder, or its certificate
        path: PathBuf,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
}

fn name(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Err("it may not be empty".to_owned()),
        text if text.chars().count() > 64 => Err("it has more than 64 characters".to_owned()),
        text if text.contains(char::is_control) => Err("it has control characters".to_owned()),
        text => Ok(text.to_owned()),
    }
}

fn domain(text: &str) -> Result<String, String> {
    let name = text.trim_start_matches("*.").trim_matches('.').to_ascii_lowercase();
    let is_name = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.');
    match !name.is_empty() && name.bytes().all(is_name) {
        true => Ok(name),
        false => Err("write a domain such as example.com".to_owned()),
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let (folder, description, is_json) = match &args.action {
        Action::New { out, name, days, permit, json } => {
            let new = NewAuthority { name: name.clone(), days: *days, permit: permit.clone() };
            (out.clone(), authority::create(out, &new)?, *json)
        }
        Action::Show { path, json } => {
            let is_folder = path.is_dir();
            let certificate = if is_folder { path.join(CERTIFICATE_FILE) } else { path.clone() };
            let description = authority::show(&certificate)?;
            let Some(folder) = certificate.parent() else { bail!("{} is no file", path.display()) };
            (folder.to_owned(), description, *json)
        }
    };
    let text = match is_json {
        true => format!("{}\n", json_of(&folder, &description)),
        false => text_of(&folder, &description),
    };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

fn day(seconds: i64) -> String {
    date::day_name(seconds.div_euclid(24 * 3600))
}

fn json_of(folder: &Path, description: &Description) -> Value {
    json!({
        "name": description.name,
        "certificate": folder.join(CERTIFICATE_FILE),
        "key": folder.join(KEY_FILE),
        "sha256": description.fingerprint,
        "not_before": description.not_before,
        "not_after": description.not_after,
        "permit": description.permit,
    })
}

fn text_of(folder: &Path, description: &Description) -> String {
    let certificate = folder.join(CERTIFICATE_FILE).display().to_string();
    let key = folder.join(KEY_FILE).display().to_string();
    let limits = match description.permit.is_empty() {
        true => "all names".to_owned(),
        false => format!("{} and all below", description.permit.join(", ")),
    };
    let (name, fingerprint) = (&description.name, &description.fingerprint);
    let (begins, ends) = (day(description.not_before), day(description.not_after));
    format!(
        "\
Authority    {name}
Certificate  {certificate} (give it to clients)
Key          {key} (secret: it stays on the proxy)
SHA-256      {fingerprint}
Valid        from {begins} to {ends}, for {limits}

Let clients trust it:
  Debian, Ubuntu  cp {certificate} /usr/local/share/ca-certificates/gauntlet.crt
                  update-ca-certificates
  Windows         group policy: Computer Configuration, Policies, Windows Settings, Security
                  Settings, Public Key Policies, Trusted Root Certification Authorities, Import;
                  on one machine: certutil -addstore Root ca.pem
  Firefox         policies.json: {{\"policies\": {{\"Certificates\": {{\"Install\": [\"FILE\"]}}}}}},
                  or Settings, Certificates, Authorities, Import
  curl            curl --cacert {certificate} -x PROXY:3128 https://...
Then compare the fingerprint there with the one above.
"
    )
}
