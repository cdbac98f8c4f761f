//! A null server as a process of its own, so that its CPU time is not the client's.

use std::io::BufRead;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, bail};

use crate::protocol::Protocol;

/// A running `gauntlet bench sink`. It ends with the value, and with the process that made it.
#[derive(Debug)]
pub struct NullServer {
    child: Child,
    /// Address and port that it listens at.
    pub address: SocketAddr,
}

impl NullServer {
    /// Starts this very program as a sink on a free loopback port.
    ///
    /// # Errors
    /// The program cannot be started, or does not say where it listens.
    pub fn start(protocol: Protocol) -> anyhow::Result<Self> {
        Self::of(&["--protocol", protocol.name()])
    }

    /// Starts one that answers HTTP.
    ///
    /// # Errors
    /// As [`NullServer::start`].
    pub fn http() -> anyhow::Result<Self> {
        Self::of(&["--http"])
    }

    /// Its process.
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    fn of(further: &[&str]) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("cannot find this program")?;
        let mut child = Command::new(program)
            .args(["bench", "sink", "--listen", "127.0.0.1:0"])
            .args(further)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start a null server")?;
        let out = child.stdout.take().context("the null server has no output")?;
        let mut line = String::new();
        std::io::BufReader::new(out)
            .read_line(&mut line)
            .context("the null server says nothing")?;
        let address = line.split_ascii_whitespace().last().and_then(|a| a.parse().ok());
        let Some(address) = address else {
            // The child is of no use: the error below is reported, one of `kill` would add nothing.
            let _ = child.kill();
            let _ = child.wait();
            bail!("the null server said {line:?}");
        };
        Ok(NullServer { child, address })
    }
}

impl Drop for NullServer {
    fn drop(&mut self) {
        // It ends with its standard input at the latest.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
