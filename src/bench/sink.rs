//! `gauntlet bench sink`: a server that takes messages and forgets them.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::Context;
use gauntlet_bench::sink::{self, Behaviour, Counts};

use super::send::ProtocolName;

const AFTER_HELP: &str = "\
It prints `listening on ADDRESS`, then each second in which something came what it took, on
standard error. It ends with SIGINT, SIGTERM, or when its standard input is a pipe that is
closed.

Examples:
  gauntlet bench sink --listen 127.0.0.1:2626
  gauntlet bench sink --protocol lmtp --delay-ms 20
  gauntlet bench sink --protocol milter --defer-every 100";

/// Arguments of `gauntlet bench sink`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Where to listen; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:2626")]
    listen: SocketAddr,
    /// Protocol in which messages come
    #[arg(long, value_enum, default_value_t = ProtocolName::Smtp)]
    protocol: ProtocolName,
    /// Serve HTTP: answer every GET with one byte, /bytes/N with N of them
    #[arg(long, conflicts_with_all = ["protocol", "delay_ms", "stall_after", "defer_every", "threads"])]
    http: bool,
    /// Wait before each answer to a message, in milliseconds
    #[arg(long, value_name = "N", default_value_t = 0)]
    delay_ms: u64,
    /// Stall once: so many seconds after the first message
    #[arg(long, value_name = "N", requires = "stall_seconds")]
    stall_after: Option<f64>,
    /// How long it stalls, in seconds
    #[arg(long, value_name = "N", requires = "stall_after")]
    stall_seconds: Option<f64>,
    /// Refuse every N-th message for now; 0 refuses none
    #[arg(long, value_name = "N", default_value_t = 0)]
    defer_every: u64,
    /// Threads that serve the connections
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: usize,
}

/// Serves until a signal ends it.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.http {
        return http(args);
    }
    let time = |seconds: f64| {
        Duration::try_from_secs_f64(seconds).with_context(|| format!("{seconds} seconds"))
    };
    let stall = match (args.stall_after, args.stall_seconds) {
        (Some(after), Some(seconds)) => Some((time(after)?, time(seconds)?)),
        _ => None,
    };
    let behaviour = Behaviour {
        delay: Duration::from_millis(args.delay_ms),
        stall,
        defer_every: args.defer_every,
        ..Behaviour::default()
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(args.threads.max(1))
        .enable_all()
        .build()
        .context("cannot start the sink's threads")?;
    runtime.block_on(serve(args, behaviour))?;
    // A client that is still connected has no answer for what is not counted.
    runtime.shutdown_background();
    Ok(ExitCode::SUCCESS)
}

/// Answers HTTP until the process that started it is gone, or it is killed.
fn http(args: &Args) -> anyhow::Result<ExitCode> {
    let listener = std::net::TcpListener::bind(args.listen)
        .with_context(|| format!("cannot listen on {}", args.listen))?;
    let mut out = std::io::stdout();
    writeln!(out, "listening on {}", listener.local_addr()?)?;
    out.flush()?;
    let (failed, wait) = std::sync::mpsc::channel();
    std::thread::spawn(move || failed.send(gauntlet_bench::http::sink::serve(listener)));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let end = async {
        let mut terminate =
            tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
        tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            _ = terminate.recv() => {}
            () = orphaned() => {}
        }
        anyhow::Ok(())
    };
    runtime.block_on(end)?;
    match wait.try_recv() {
        Ok(Err(error)) => Err(error).context("the event loop failed"),
        _ => Ok(ExitCode::SUCCESS),
    }
}

async fn serve(args: &Args, behaviour: Behaviour) -> anyhow::Result<()> {
    let listener = tokio::net::TcpListener::bind(args.listen)
        .await
        .with_context(|| format!("cannot listen on {}", args.listen))?;
    let mut out = std::io::stdout();
    writeln!(out, "listening on {}", listener.local_addr()?)?;
    out.flush()?;
    let counts = Arc::new(Counts::default());
    let server = sink::serve(listener, args.protocol.protocol(), behaviour, counts.clone());
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    tokio::select! {
        result = server => result.context("the listener failed")?,
        () = report_counts(&counts) => {}
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
        () = orphaned() => {}
    }
    let messages = counts.messages.load(Ordering::Relaxed);
    eprintln!(
        "{messages} messages over {} connections",
        counts.connections.load(Ordering::Relaxed)
    );
    Ok(())
}

/// Prints what came, each second in which something did.
async fn report_counts(counts: &Counts) {
    let mut before = (0, 0);
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let now = (counts.messages.load(Ordering::Relaxed), counts.bytes.load(Ordering::Relaxed));
        if now != before {
            let megabytes = (now.1 - before.1) as f64 / 1e6;
            eprintln!("{} messages/s, {megabytes:.1} MB/s, {} in all", now.0 - before.0, now.0);
        }
        before = now;
    }
}

/// Ends when the standard input is a pipe whose other end is closed: the process that started us is
/// gone.
async fn orphaned() {
    use std::os::unix::fs::FileTypeExt;
    let is_pipe = std::fs::metadata("/dev/stdin").is_ok_and(|m| m.file_type().is_fifo());
    if !is_pipe {
        return std::future::pending().await;
    }
    let (gone, wait) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let mut byte = [0];
        while std::io::stdin().read(&mut byte).is_ok_and(|n| n > 0) {}
        // The receiver is gone when the sink ended for another reason.
        let _ = gone.send(());
    });
    let _ = wait.await;
}
