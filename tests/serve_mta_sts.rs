//! MTA-STS without settings of its own: by the roots that the system trusts, or said loudly that it
//! is off.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Command, Stdio};

use crate::common::zone::{Zone, txt};
use crate::common::{Node, Smtp, message};

/// Settings of a node that sends to mail exchangers.
fn sending(zone: &Zone, port: u16) -> String {
    format!(
        "[domains]\nlocal = [\"ours.example\"]\n[dns]\nservers = [\"{}\"]\n\
         [sender]\nexchanger_networks_allowed = [\"127.0.0.0/8\"]\n\
         exchanger_port = 1\nmta_sts_port = {port}\nretry_seconds = [1]\n",
        zone.address()
    )
}

#[test]
fn policies_are_fetched_with_the_roots_of_the_system() {
    let bundle = std::path::Path::new("/etc/ssl/certs/ca-certificates.crt");
    if !bundle.exists() {
        assert!(std::env::var_os("CI").is_none(), "ca-certificates is missing");
        eprintln!("skipped: Debian's package ca-certificates is not installed");
        return;
    }
    let web = TcpListener::bind("127.0.0.1:0").unwrap();
    let records = txt("_mta-sts.strict.example", "v=STSv1; id=1;")
        + "mta-sts.strict.example A 127.0.0.1\nstrict.example MX 10 mx.strict.example.\n\
           mx.strict.example A 127.0.0.1\n";
    let Some(zone) = Zone::serve(&records) else { return };
    let node = Node::start_listening(
        "role = \"outbound\"",
        &sending(&zone, web.local_addr().unwrap().port()),
    );
    assert!(!node.log().contains("MTA-STS is off"), "{}", node.log());
    let mut client = Smtp::connect(node.smtp).unwrap();
    let reply = client.send("a@ours.example", &["b@strict.example"], &message("x", 10)).unwrap();
    assert!(reply.starts_with("250"), "{reply}");
    web.set_nonblocking(true).unwrap();
    // The policy is asked for over TLS: a handshake record begins with 22.
    node.wait_until("the policy is asked for", || {
        let Ok((stream, _)) = web.accept() else { return false };
        stream.set_nonblocking(false).unwrap();
        BufReader::new(stream).fill_buf().is_ok_and(|bytes| bytes.first() == Some(&22))
    });
}

#[test]
fn without_any_roots_start_and_doctor_say_that_it_is_off() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gauntlet.toml");
    let text = format!(
        "[node]\nname = \"gw.test\"\ndata = {:?}\n[[listener]]\naddress = \"127.0.0.1:0\"\n\
         [console]\naddress = \"\"\n[dns]\nservers = [\"127.0.0.1:1\"]\n",
        folder.path().join("data")
    );
    let gauntlet = |command: &str| {
        let mut gauntlet = Command::new(env!("CARGO_BIN_EXE_gauntlet"));
        gauntlet.env_remove("GAUNTLET_CONFIG").env("SSL_CERT_FILE", folder.path().join("none"));
        gauntlet.args([command, "--config"]).arg(&file);
        gauntlet
    };
    std::fs::write(&file, &text).unwrap();
    let output = gauntlet("doctor").output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("error   roots        MTA-STS is off: no trusted roots"), "{said}");

    let mut node = gauntlet("serve").stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(node.stderr.take().unwrap()).lines().map_while(Result::ok);
    let said = lines.find(|line| line.contains("MTA-STS is off") || line.contains("ready"));
    node.kill().unwrap();
    node.wait().unwrap();
    let said = said.unwrap_or_default();
    assert!(said.contains("\"ERROR\"") && said.contains("MTA-STS is off"), "{said}");

    // Verified TLS that cannot be is no configuration.
    std::fs::write(&file, format!("{text}[sender]\ntls = \"verified\"\n")).unwrap();
    let output = gauntlet("serve").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("needs trusted roots"), "{said}");
}
