//! The proxy auto-configuration: served by the proxy's port, and run by a real engine.

use std::process::Command;

use gauntlet_proxy::settings::Pac;
use gauntlet_web::pac::{Speaks, script};

use crate::common::{Proxy, program, settings};

fn pac() -> Pac {
    Pac {
        direct_networks: ["10.0.0.0/8", "192.168.7.9", "fd00::/8"].map(str::to_owned).to_vec(),
        direct_domains: vec!["corp.example".to_owned()],
        ..Pac::default()
    }
}

#[tokio::test]
async fn the_proxys_port_serves_the_script() {
    let mut with_pac = settings();
    with_pac.pac = pac();
    let proxy = Proxy::start(with_pac).await;
    let expected = script(&pac(), &proxy.address.to_string(), Speaks::Plain).unwrap();
    for path in ["/proxy.pac", "/wpad.dat", "/wpad.dat?x"] {
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", proxy.address);
        let answer = proxy.talk(request).await;
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(answer.contains("content-type: application/x-ns-proxy-autoconfig\r\n"), "{answer}");
        assert!(answer.ends_with(&expected), "{answer}");
    }
    // As a router has it that leads port 80 here, and as HTTP/1.0 has it.
    let port = proxy.address.port();
    for (host, found) in [
        ("Host: wpad\r\n", format!("wpad:{port}")),
        ("Host: [::1]\r\n", format!("[::1]:{port}")),
        ("", proxy.address.to_string()),
    ] {
        let answer = proxy.talk(format!("GET /wpad.dat HTTP/1.0\r\n{host}\r\n")).await;
        assert!(answer.contains(&format!("return \"PROXY {found}\";")), "{answer}");
    }
    let head = format!("HEAD /proxy.pac HTTP/1.0\r\nHost: {}\r\n\r\n", proxy.address);
    let answer = proxy.talk(head).await;
    assert!(answer.contains(&format!("content-length: {}\r\n", expected.len())), "{answer}");
    for wrong in
        ["GET /proxy.pac HTTP/1.1\r\nHost: a\"b:1", "POST /proxy.pac HTTP/1.1\r\nHost: a:1"]
    {
        let answer = proxy.talk(format!("{wrong}\r\nConnection: close\r\n\r\n")).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    }
}

/// The functions that browsers give to scripts, as far as ours uses them.
const BROWSER: &str = r#"
const isPlainHostName = h => h.indexOf(".") < 0;
const dnsDomainIs = (h, d) => h.length >= d.length && h.endsWith(d);
const number = a => a.split(".").reduce((n, b) => n * 256 + Number(b), 0);
const isInNet = (h, net, mask) => {
  if (!/^[0-9.]+$/.test(h)) throw new Error("it would look a name up");
  return ((number(h) & number(mask)) >>> 0) === ((number(net) & number(mask)) >>> 0);
};
"#;
const IN_NET_EX: &str = r#"
const isInNetEx = (h, net) => net === "fd00::/8" && h.startsWith("fd");
"#;

#[test]
fn an_engine_finds_the_way_that_the_settings_say() {
    let Some(node) = program("node") else { return };
    let script = script(&pac(), "proxy.example:3128", Speaks::Plain).unwrap();
    let proxy = "PROXY proxy.example:3128";
    let cases = [
        ("intranet", "DIRECT"),
        ("corp.example", "DIRECT"),
        ("WWW.Corp.Example", "DIRECT"),
        ("notcorp.example", proxy),
        ("www.example.com", proxy),
        ("10.1.2.3", "DIRECT"),
        ("11.1.2.3", proxy),
        ("192.168.7.9", "DIRECT"),
        ("192.168.7.8", proxy),
        ("10.evil.example", proxy),
        ("2001:db8::1", proxy),
    ];
    let find = |browser: &str, host: &str| {
        let call = format!("console.log(FindProxyForURL('https://{host}/', '{host}'))");
        let code = format!("{browser}\n{script}\n{call}");
        let out = Command::new(&node).args(["-e", &code]).output().unwrap();
        let errors = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(out.status.success(), "{host}: {errors}");
        String::from_utf8_lossy(&out.stdout).trim().to_owned()
    };
    for (host, way) in cases {
        assert_eq!(find(BROWSER, host), way, "{host}");
    }
    assert_eq!(find(BROWSER, "fd00::1"), proxy, "without isInNetEx");
    assert_eq!(find(&format!("{BROWSER}{IN_NET_EX}"), "fd00::1"), "DIRECT");
}
