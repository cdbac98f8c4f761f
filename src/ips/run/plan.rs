//! From arguments and settings to what is opened and read.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::net::ToSocketAddrs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};
use gauntlet_ids::config;
use gauntlet_ids::replay::Options;
use gauntlet_netio::{Inputs, Plan, Settings};
use gauntlet_tunnel::{Config, FILE_BYTES_MAX};

use super::{Args, OnCrash};

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
        (None, None) => match &args.wireguard {
            Some(file) => tunnel(file, args)?,
            None => bail!("none of --interface, --queue and --wireguard is given"),
        },
    };
    let threads = args.threads.map(usize::from).or(settings.threads).unwrap_or(1);
    let plan = Plan { inputs, threads: threads.clamp(1, THREADS_MAX), settings };
    let options = options(args, all, plan.is_inline());
    Ok((plan, options))
}

/// What rules are read with, read anew.
pub(super) fn options_anew(args: &Args, is_inline: bool) -> anyhow::Result<Options> {
    Ok(options(args, args.settings.read()?, is_inline))
}

fn options(args: &Args, mut settings: config::Settings, inline: bool) -> Options {
    // Suricata drops what it did not see begin, inline. Whoever has packets pass while nothing
    // inspects them wants connections to outlive that, too.
    let is_chosen = settings.get(MIDSTREAM_POLICY).is_some()
        || settings.get("exception-policy").is_some_and(|policy| policy != "auto");
    if inline && args.on_crash() == OnCrash::Pass && !is_chosen {
        let assigned = settings.assign(&format!("{MIDSTREAM_POLICY}=ignore"));
        debug_assert!(assigned.is_ok(), "{assigned:?}");
    }
    Options {
        settings,
        directory: args.settings.directory(),
        rules: args.rules.clone(),
        inline,
        checksums: None,
    }
}

/// What becomes of connections whose beginning was not seen.
const MIDSTREAM_POLICY: &str = "stream.midstream-policy";

/// Longest name of a device (`IFNAMSIZ` without its NUL).
const DEVICE_LEN_MAX: usize = 15;

/// The tunnel of a file, whose name is that of the device, as wg-quick has it.
fn tunnel(file: &Path, args: &Args) -> anyhow::Result<Inputs> {
    let shown = file.display();
    if args.on_crash() == OnCrash::Pass {
        bail!(
            "--wireguard: without the process that has the keys nothing can pass; leave \
             --fail-open and --on-crash pass out"
        );
    }
    let device = file.file_stem().and_then(OsStr::to_str).unwrap_or_default();
    if device.is_empty() || device.len() > DEVICE_LEN_MAX {
        bail!("{shown}: the file is called as the device is to be, e.g. wg0.conf (15 letters)");
    }
    let opened = File::open(file).with_context(|| format!("cannot read {shown}"))?;
    let mode = opened.metadata()?.mode();
    if mode & 0o077 != 0 {
        bail!(
            "{shown} has a private key, and others may read it (mode {:o}): chmod 600 {shown}",
            mode & 0o777
        );
    }
    let mut text = String::new();
    let most = FILE_BYTES_MAX as u64 + 1;
    opened.take(most).read_to_string(&mut text).with_context(|| format!("cannot read {shown}"))?;
    let resolve = |name: &str| name.to_socket_addrs().ok()?.next();
    let config = Config::read(&text, &resolve).with_context(|| shown.to_string())?;
    Ok(Inputs::Tunnel { device: device.to_owned(), config: Arc::new(config) })
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
