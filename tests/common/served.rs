//! A node of a configuration that something else wrote, perhaps in a root folder of its own.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A running node. It is ended with the value.
pub(crate) struct Served {
    child: Child,
    /// Where it takes mail.
    pub(crate) smtp: SocketAddr,
    /// What it said until it was ready.
    pub(crate) welcome: String,
}

impl Served {
    /// `gauntlet serve` with this configuration, without questions to the DNS.
    pub(crate) fn start(config: &Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gauntlet"));
        command.args(["serve", "--config"]).arg(config);
        Self::of(command)
    }

    /// A command that ends in `gauntlet serve`.
    pub(crate) fn of(mut command: Command) -> Self {
        command.env_remove("GAUNTLET_CONFIG").env("GAUNTLET_FACTS__ENABLED", "false");
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut welcome = String::new();
        while !welcome.contains("\n  to stop ") {
            let line = lines.next().unwrap_or_else(|| panic!("the node ended: {welcome}"));
            welcome.push_str(&format!("{}\n", line.unwrap()));
        }
        // What it says later must not fill the pipe.
        std::thread::spawn(move || lines.for_each(drop));
        let smtp = welcome.lines().find_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            words.first().filter(|word| **word == "smtp,").and(words.last()?.parse().ok())
        });
        let smtp = smtp.unwrap_or_else(|| panic!("no listener: {welcome}"));
        Served { child, smtp, welcome }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // By SIGTERM, so that its workers end with it.
        let _ = Command::new("kill").arg(self.child.id().to_string()).status();
        let _ = self.child.wait();
    }
}
