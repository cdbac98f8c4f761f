//! `gauntlet ips policy`: rules for packets, checked and explained.

use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, anyhow};
use gauntlet_mail::date;
use gauntlet_policy::packets::{Carried, Explanation, Opening, PacketPolicy, RuleReport};
use serde_json::json;

use super::SettingsArgs;
use super::gate;

/// Arguments of `gauntlet ips policy`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Read rules for packets and say what is wrong
    Check {
        /// A configuration with [[ips.rule]]s
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        settings: SettingsArgs,
    },
    /// Say which rule decides about a flow, and why those before it do not
    Explain(Box<ExplainArgs>),
}

#[derive(Debug, clap::Args)]
struct ExplainArgs {
    /// A configuration with [[ips.rule]]s
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Who begins the flow
    #[arg(long, value_name = "IP[:PORT]", value_parser = end)]
    from: (IpAddr, u16),
    /// With whom
    #[arg(long, value_name = "IP[:PORT]", value_parser = end)]
    to: (IpAddr, u16),
    /// By name or number; of ICMP with a type: `icmp/8`
    #[arg(long, value_name = "PROTOCOL", default_value = "tcp")]
    protocol: String,
    /// The packet comes by the interface of this zone; without it networks alone tell zones
    #[arg(long, value_name = "ZONE")]
    zone: Option<String>,
    /// It goes on by the interface of this zone
    #[arg(long, value_name = "ZONE")]
    to_zone: Option<String>,
    /// When: `2026-11-27T09:30`, in UTC; now unless given
    #[arg(long, value_name = "TIME", value_parser = time)]
    time: Option<i64>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: SettingsArgs,
}

/// An address, and a port if there is one.
fn end(text: &str) -> Result<(IpAddr, u16), String> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok((address, 0));
    }
    let both = text.parse::<SocketAddr>();
    let both = both.map_err(|_| {
        format!("{text:?} is no address; write e.g. 192.0.2.1:80 or [2001:db8::1]:80")
    })?;
    Ok((both.ip(), both.port()))
}

/// `YYYY-MM-DDTHH:MM`, in UTC.
fn time(text: &str) -> Result<i64, String> {
    let read = || {
        let (day, time) = text.split_once('T')?;
        let (hour, minute) = time.split_once(':')?;
        let (hour, minute): (i64, i64) = (hour.parse().ok()?, minute.parse().ok()?);
        let day = date::day_number(day)?;
        let fits = (0..24).contains(&hour) && (0..60).contains(&minute);
        fits.then_some(day * date::DAY_SECONDS + hour * 3_600 + minute * 60)
    };
    read().ok_or_else(|| format!("{text:?} is no time; write e.g. 2026-11-27T09:30 (UTC)"))
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match &args.action {
        Action::Check { file, json, settings } => check(file, *json, settings),
        Action::Explain(args) => explain(args),
    }
}

/// The policy of a file that has to have one.
fn policy(file: &Path) -> anyhow::Result<PacketPolicy> {
    let found = gate::read(file)?;
    let (_, policy) = found.ok_or_else(|| {
        let file = file.display();
        anyhow!("{file} has no [[ips.rule]], so everything is inspected; docs/packet-policy.md")
    })?;
    Ok(policy)
}

fn check(file: &Path, is_json: bool, settings: &SettingsArgs) -> anyhow::Result<ExitCode> {
    let policy = policy(file)?;
    let database = gate::database(&settings.read()?, &settings.directory());
    gate::countries(&policy, database.as_deref())?;
    let absent = policy.interfaces().into_iter().filter(|name| !is_interface(name));
    let absent: Vec<&str> = absent.collect();
    let (rules, default) = (policy.len(), policy.action(None).name());
    let mut out = std::io::stdout().lock();
    if is_json {
        let report = json!({ "rules": rules, "default": default, "absent_interfaces": absent });
        writeln!(out, "{report}")?;
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(out, "{rules} rules; what none fits: {default}")?;
    for name in absent {
        writeln!(out, "interface {name:?} is not on this machine; its zone is empty until it is")?;
    }
    Ok(ExitCode::SUCCESS)
}

fn is_interface(name: &str) -> bool {
    Path::new("/sys/class/net").join(name).exists()
}

fn explain(args: &ExplainArgs) -> anyhow::Result<ExitCode> {
    let policy = policy(&args.file)?;
    let database = gate::database(&args.settings.read()?, &args.settings.directory());
    let countries = gate::countries(&policy, database.as_deref())?;
    let (from, to) = (args.from, args.to);
    let read = Carried::read(&args.protocol, (from.1, to.1));
    let (protocol, carried) = read.map_err(anyhow::Error::msg).context("--protocol")?;
    if let Carried::Ports { destination: 0, .. } = carried {
        return Err(anyhow!("--to {}: {} needs a port, IP:PORT", to.0, args.protocol));
    }
    let interface = |zone: &Option<String>| match zone {
        Some(zone) => policy.interface_of(zone).map_err(anyhow::Error::msg),
        None => Ok(None),
    };
    let opening = Opening {
        source: from.0,
        destination: to.0,
        protocol,
        carried,
        incoming: interface(&args.zone).context("--zone")?,
        outgoing: interface(&args.to_zone).context("--to-zone")?,
        unix: args.time.unwrap_or_else(|| gauntlet_gateway::clock::now_ms() / 1_000),
    };
    let of = |address| gate::country(countries.as_ref(), address);
    let explanation = policy.explain(&opening, &of);
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string(&explanation)?)?;
    } else {
        print(&explanation, &mut out)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn print(explanation: &Explanation, out: &mut impl Write) -> std::io::Result<()> {
    let Explanation { rule, action, functions, service, rules, near, .. } = explanation;
    let zones = |zones: &[String]| match zones.is_empty() {
        true => "no zone".to_owned(),
        false => zones.join(", "),
    };
    write!(out, "{action}: ")?;
    match rule.as_str() {
        "default" => writeln!(out, "no rule fits")?,
        rule => writeln!(out, "rule {rule:?}")?,
    }
    let (from, to) = (zones(&explanation.from_zones), zones(&explanation.to_zones));
    writeln!(out, "  {service} from {from} to {to}")?;
    if !functions.is_empty() {
        writeln!(out, "  looked at by {}", functions.join(", "))?;
    }
    for RuleReport { rule, action, failed } in rules {
        for failed in failed {
            let (key, found, wanted) = (failed.condition, &failed.found, &failed.wanted);
            writeln!(out, "not {rule:?} ({action}): {key} is {found}, not {wanted}")?;
        }
    }
    for RuleReport { rule, action, failed } in near {
        for failed in failed {
            let (key, wanted) = (failed.condition, &failed.wanted);
            writeln!(out, "{action} by {rule:?} if {key} were {wanted}")?;
        }
    }
    Ok(())
}
