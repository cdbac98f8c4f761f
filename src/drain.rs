//! `gauntlet drain`: takes a node out of service without losing a session or a message.

use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::bail;
use gauntlet_gateway::control::{Answer, NodeStatus, Request};

use crate::node_args::NodeArgs;

const AFTER_HELP: &str = "\
The node answers new SMTP and LMTP sessions with 421 4.3.2, ends open ones after their transaction,
and goes on delivering its queue; its /health/ready says 503, so that load balancers send new
sessions elsewhere. That stays so over a restart, until --undo. Services (milter, spamd, rspamd,
HTTP) go on judging: they take no mail.

With --wait: exit status 0 once no session and no message is left; 1 when the time is over, or when
only messages are left that wait for a person (`gauntlet queue list`).

Examples:
  gauntlet drain --wait                     before maintenance
  gauntlet drain --wait --timeout 600       for ten minutes at most
  gauntlet drain --undo";

/// Between two looks at a node that drains.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Arguments of `gauntlet drain`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    #[command(flatten)]
    node: NodeArgs,
    /// Take mail again
    #[arg(long, conflicts_with_all = ["wait", "timeout"])]
    undo: bool,
    /// Wait until no session and no message is left, and say how many are
    #[arg(long)]
    wait: bool,
    /// Wait so long at most
    #[arg(long, value_name = "SECONDS", requires = "wait")]
    timeout: Option<u64>,
    /// Print JSON, one object a line
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let start = Instant::now();
    let changed = match args.node.ask(&Request::Drain { undo: args.undo })? {
        Answer::Done(changed) => changed > 0,
        _ => bail!("the node gave another answer: is it of this version?"),
    };
    let mut out = std::io::stdout().lock();
    if !args.json {
        let what = match (args.undo, changed) {
            (false, true) => "the node drains: new sessions get 421",
            (false, false) => "the node drains already",
            (true, true) => "the node takes mail again",
            (true, false) => "the node did not drain",
        };
        writeln!(out, "{what}")?;
    }
    let limit = args.timeout.map(Duration::from_secs);
    let mut shown = None;
    loop {
        let status = status(&args.node)?;
        let now = Left::of(&status);
        if shown != Some(now) && (args.wait || args.json) {
            now.show(&mut out, &status, args.json)?;
            shown = Some(now);
        }
        if !args.wait {
            return Ok(ExitCode::SUCCESS);
        }
        if status.draining_since_ms.is_none() {
            bail!("somebody has undone the drain");
        }
        if now.is_over() {
            return Ok(if now.held == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) });
        }
        if limit.is_some_and(|limit| start.elapsed() >= limit) {
            return Ok(ExitCode::from(1));
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

fn status(node: &NodeArgs) -> anyhow::Result<NodeStatus> {
    match node.ask(&Request::Status)? {
        Answer::Status(status) => Ok(*status),
        _ => bail!("the node gave another answer: is it of this version?"),
    }
}

/// What a node that drains still has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Left {
    sessions: u64,
    queued: u64,
    held: u64,
}

impl Left {
    fn of(status: &NodeStatus) -> Self {
        let NodeStatus { sessions, queued, queued_held: held, .. } = *status;
        Left { sessions, queued, held }
    }

    /// Nothing is left that ends by itself.
    fn is_over(self) -> bool {
        self.sessions == 0 && self.queued <= self.held
    }

    fn show(self, out: &mut impl Write, status: &NodeStatus, json: bool) -> anyhow::Result<()> {
        let Left { sessions, queued, held } = self;
        if json {
            let line = serde_json::json!({
                "draining_since_ms": status.draining_since_ms,
                "sessions": sessions,
                "queued": queued,
                "held": held,
            });
            writeln!(out, "{line}")?;
        } else {
            write!(out, "{sessions} sessions, {queued} messages left")?;
            let held =
                if held > 0 { format!(" ({held} wait for a person)") } else { String::new() };
            writeln!(out, "{held}")?;
        }
        out.flush()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_for_a_person_is_not_waited_for() {
        let left = |sessions, queued, held| Left { sessions, queued, held }.is_over();
        assert!(left(0, 0, 0) && left(0, 2, 2));
        assert!(!left(1, 0, 0) && !left(0, 3, 2));
    }
}
