//! From arguments and settings to what is opened and read.

use anyhow::{Context, bail};
use gauntlet_ids::config;
use gauntlet_ids::replay::Options;
use gauntlet_netio::{Inputs, Plan, Settings};

use super::Args;

/// Threads among which an interface's frames are shared out, at most.
const THREADS_MAX: usize = 256;

/// What is opened, and what rules are read with.
pub(super) fn read(args: &Args) -> anyhow::Result<(Plan, Options)> {
    let all = args.settings.read()?;
    let mut settings = Settings::default();
    for (key, value) in all.iter().filter(|(key, _)| key.starts_with("nfq.")) {
        if !settings.set_queue(key, value) {
            bail!("{key}: {value:?} cannot be used");
        }
    }
    settings.queue.fail_open |= args.fail_open;
    settings.queue.fail_open &= !args.fail_closed;
    let inputs = match (&args.queue, &args.interface) {
        (Some((first, last)), _) => Inputs::Queues { first: *first, last: *last },
        (None, Some(interface)) => {
            let copies = set_interface(&mut settings, &all, interface)?;
            match args.copy_interface.clone().or(copies) {
                Some(other) => Inputs::Bridge { sides: [interface.clone(), other] },
                None => Inputs::Capture { interface: interface.clone() },
            }
        }
        (None, None) => bail!("neither --interface nor --queue is given"),
    };
    let threads = args.threads.map(usize::from).or(settings.threads).unwrap_or(1);
    let plan = Plan { inputs, threads: threads.clamp(1, THREADS_MAX), settings };
    let options = Options {
        settings: all,
        directory: args.settings.directory(),
        rules: args.rules.clone(),
        inline: plan.is_inline(),
        checksums: None,
    };
    Ok((plan, options))
}

/// Applies `af-packet.N.*`: of `default`, then of the interface. Returns the interface to which
/// frames are copied (`copy-iface`).
fn set_interface(
    settings: &mut Settings,
    all: &config::Settings,
    interface: &str,
) -> anyhow::Result<Option<String>> {
    let mut copies = None;
    for name in ["default", interface] {
        for number in 0.. {
            let section = format!("af-packet.{number}");
            let keys = all.below(&section);
            if keys.is_empty() {
                break;
            }
            let of = |wanted: &str| keys.iter().find(|(key, _)| *key == wanted).map(|(_, v)| *v);
            // Without a name it is meant for whatever interface there is: `--set af-packet.0...`.
            if of("interface").unwrap_or(interface) != name {
                continue;
            }
            for (key, value) in &keys {
                if !is_of_plan(key) && !settings.set_interface(key, value) && !is_ignored(key) {
                    bail!("{section}.{key}: {value:?} cannot be used");
                }
            }
            copies = match of("copy-mode") {
                Some("ips") => of("copy-iface").map(str::to_owned),
                Some("tap") => bail!("{section}.copy-mode: tap is not supported; ips is"),
                _ => copies,
            };
        }
    }
    Ok(copies)
}

/// Keys that say which interfaces there are.
fn is_of_plan(key: &str) -> bool {
    matches!(key, "interface" | "copy-mode" | "copy-iface")
}

/// Keys of Suricata without a counterpart here, which change no verdict.
fn is_ignored(key: &str) -> bool {
    matches!(key, "mmap-locked" | "v2-block-size" | "use-emergency-flush" | "rollover")
}

/// Says which settings have no effect.
pub(super) fn tell_unknown(options: &Options) {
    for key in gauntlet_ids::replay::layers(options).2 {
        let is_ours = key.starts_with("nfq.")
            || key.starts_with("threading.") && key.contains("cpu-affinity")
            || key.starts_with("af-packet.") && !is_ignored(key.rsplit('.').next().unwrap_or(""));
        if !is_ours {
            eprintln!("without effect here: {key}");
        }
    }
}

/// The account of `--user`.
pub(super) fn account(
    args: &Args,
) -> anyhow::Result<Option<gauntlet_gateway::privileges::Account>> {
    let Some(name) = &args.user else { return Ok(None) };
    let found = gauntlet_gateway::privileges::Account::find(name);
    Ok(Some(found.context("--user cannot be used")?))
}
