//! Whether strangers can send mail to anywhere through us: listeners of the internet are asked, and
//! the networks that others are trusted by are looked at.

use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use gauntlet_gateway::config::{Config, ListenerRole, ListenerSettings};
use gauntlet_gateway::network::Network;

use super::{Findings, Status};

/// Patience with a listener.
const IO_TIMEOUT: Duration = Duration::from_secs(5);

/// Proves that no listener relays for strangers, or names the one that does.
pub(super) fn open_relay(config: &Config, found: &mut Findings) {
    for listener in &config.listener {
        if listener.role.is_web() {
            open_proxy(listener, found);
            continue;
        }
        trust(listener, found);
        match listener.role {
            ListenerRole::Inbound => ask(config, listener, found),
            ListenerRole::Trap => {
                let text = format!(
                    "{} is a trap: it takes mail to anywhere, and delivers none of it",
                    listener.address
                );
                found.add(Status::Ok, "relaying", text);
            }
            _ => {}
        }
    }
}

/// A proxy for strangers is used for attacks on others within hours.
fn open_proxy(listener: &ListenerSettings, found: &mut Findings) {
    let address = &listener.address;
    let wide = |text: &&String| text.parse::<Network>().is_ok_and(|n| n.holds_strangers());
    match listener.networks.iter().find(wide) {
        Some(network) => found.add(
            Status::Error,
            "relaying",
            format!(
                "{address} is a proxy for strangers: listener.networks has {network}; list your \
                 own networks"
            ),
        ),
        None => {
            let networks = listener.networks.join(", ");
            found.add(Status::Ok, "relaying", format!("{address} is a proxy for {networks} only"));
        }
    }
}

/// Clients of networks that need no login may send for others, so these must be networks of ours.
fn trust(listener: &ListenerSettings, found: &mut Findings) {
    let ListenerSettings { address, networks, proxy_from, xclient_from, .. } = listener;
    let outbound = listener.role == ListenerRole::Outbound;
    let networks = if outbound { networks.as_slice() } else { &[] };
    let trusted = [
        ("networks", networks, "may send mail to anywhere"),
        ("proxy_from", proxy_from, "may come in anybody's name"),
        ("xclient_from", xclient_from, "may come in anybody's name"),
    ];
    let mut fine = outbound;
    for (key, networks, what) in trusted {
        let wide = |text: &&String| text.parse::<Network>().is_ok_and(|n| n.holds_strangers());
        for network in networks.iter().filter(wide) {
            let text = format!(
                "{address} relays for strangers: listener.{key} has {network}, and who is in it \
                 {what}; list your own networks"
            );
            found.add(Status::Error, "relaying", text);
            fine = false;
        }
    }
    if fine {
        let text = format!("{address} takes mail to anywhere from {} only", networks.join(", "));
        found.add(Status::Ok, "relaying", text);
    }
}

/// Offers the listener mail for a stranger.
fn ask(config: &Config, listener: &ListenerSettings, found: &mut Findings) {
    let address = listener.address.to_socket_addrs().ok().and_then(|mut all| all.next());
    let Some(bound) = address else { return };
    let address = reachable(bound);
    match takes_strangers(address) {
        Ok(Some(reply)) if config.domains.local.is_empty() && bound.ip().is_loopback() => {
            let text = format!(
                "{address} takes mail for anybody, which is allowed on loopback only ({reply})"
            );
            found.add(Status::Warning, "relaying", text);
        }
        Ok(Some(reply)) => {
            let hint = match config.domains.local.is_empty() {
                true => "set domains.local",
                false => {
                    "does it run with this configuration? reload it, or see what listens there"
                }
            };
            let text = format!("{address} relays for strangers ({reply}); {hint}");
            found.add(Status::Error, "relaying", text);
        }
        Ok(None) => {
            let text = format!("{address} refuses mail for strangers");
            found.add(Status::Ok, "relaying", text);
        }
        Err(error) => {
            let text = format!("{address} cannot be asked ({error}); is the node running?");
            found.add(Status::Warning, "relaying", text);
        }
    }
}

/// Where a listener on all addresses is reached from here.
fn reachable(address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => {
            SocketAddr::new([127, 0, 0, 1].into(), address.port())
        }
        IpAddr::V6(ip) if ip.is_unspecified() => {
            SocketAddr::new(std::net::Ipv6Addr::LOCALHOST.into(), address.port())
        }
        _ => address,
    }
}

/// Offers a message for a domain that cannot exist (RFC 6761); the reply if it is taken.
fn takes_strangers(address: SocketAddr) -> std::io::Result<Option<String>> {
    let mut stream = TcpStream::connect_timeout(&address, IO_TIMEOUT)?;
    stream.set_read_timeout(Some(IO_TIMEOUT))?;
    stream.set_write_timeout(Some(IO_TIMEOUT))?;
    let mut replies = BufReader::new(stream.try_clone()?);
    let mut reply = move || -> std::io::Result<String> {
        // A reply may have several lines; the last has a blank after its code.
        for _ in 0..64 {
            let mut line = String::new();
            if replies.read_line(&mut line)? == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            if line.as_bytes().get(3) != Some(&b'-') {
                return Ok(line.trim_end().to_owned());
            }
        }
        Err(std::io::Error::other("a reply without end"))
    };
    reply()?;
    for command in ["EHLO doctor.invalid", "MAIL FROM:<doctor@doctor.invalid>"] {
        stream.write_all(format!("{command}\r\n").as_bytes())?;
        let said = reply()?;
        if !said.starts_with('2') {
            return Ok(None);
        }
    }
    stream.write_all(b"RCPT TO:<stranger@doctor.invalid>\r\n")?;
    let said = reply()?;
    stream.write_all(b"QUIT\r\n")?;
    Ok(said.starts_with('2').then_some(said))
}
