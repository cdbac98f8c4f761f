//! Any bytes as the answers of a PostgreSQL server: the client ends with rows or an error, and rows
//! hold no more than was sent.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::OnceLock;

use gauntlet_gateway::admin::postgres::{ServerAddress, rows};
use gauntlet_gateway::net::tls::HopTls;

/// In the answers, these bytes stand for the nonce that the client chose: as many as it has.
const NONCE: &[u8; 24] = b"NONCE-OF-THE-CLIENT-24B!";

struct Server {
    runtime: tokio::runtime::Runtime,
    listener: UnixListener,
    place: ServerAddress,
    tls: HopTls,
    /// Kept for as long as its socket is in use.
    _folder: tempfile::TempDir,
}

fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a folder");
        let listener = UnixListener::bind(folder.path().join(".s.PGSQL.5432")).expect("a socket");
        let host = folder.path().display().to_string().replace('/', "%2F");
        let place =
            ServerAddress::parse(&format!("postgres://ann:pencil@{host}/mail")).expect("a place");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        Server {
            runtime: runtime.expect("a runtime"),
            listener,
            place,
            tls: HopTls::load(std::path::Path::new("")).expect("no roots"),
            _folder: folder,
        }
    })
}

/// Asks a server that sends the input and closes.
pub(crate) fn ask(input: &[u8]) {
    if let Ok(rows) = answer_of(input) {
        let bytes: usize = rows.iter().map(|(a, b)| a.len() + b.len()).sum();
        assert!(bytes <= input.len(), "{bytes} bytes of {}", input.len());
        assert!(rows.len() <= input.len() / 7, "{} rows of {} bytes", rows.len(), input.len());
    }
}

/// What the client makes of this server.
pub(crate) fn answer_of(input: &[u8]) -> anyhow::Result<Vec<(String, String)>> {
    // The socket is one for all: questions are asked in turn.
    static TURN: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let server = server();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            if let Ok((stream, _)) = server.listener.accept() {
                // The client may be gone before the end.
                let _ = serve(stream, input);
            }
        });
        server.runtime.block_on(rows(&server.place, "SELECT 1", &server.tls, Default::default()))
    })
}

fn serve(mut stream: UnixStream, input: &[u8]) -> std::io::Result<()> {
    let at = input.windows(NONCE.len()).position(|w| w == NONCE);
    let (before, after) = input.split_at(at.unwrap_or(input.len()));
    stream.write_all(before)?;
    if at.is_some() {
        let nonce = client_nonce(&mut stream)?;
        stream.write_all(&nonce)?;
        stream.write_all(after.get(NONCE.len()..).unwrap_or_default())?;
    }
    stream.shutdown(std::net::Shutdown::Write)?;
    // Read to the end, or the client's writes would fail before it has read the answers.
    std::io::copy(&mut stream, &mut std::io::sink())?;
    Ok(())
}

/// What follows `r=` in the first message of SCRAM; zeros if the client sends none in time.
fn client_nonce(stream: &mut UnixStream) -> std::io::Result<Vec<u8>> {
    stream.set_read_timeout(Some(std::time::Duration::from_millis(50)))?;
    let (mut seen, mut buffer) = (Vec::new(), [0; 512]);
    loop {
        if let Some(at) = seen.windows(2).position(|w| w == b"r=") {
            let nonce: &[u8] = seen.get(at + 2..).unwrap_or_default();
            if nonce.len() >= NONCE.len() {
                return Ok(nonce[..NONCE.len()].to_vec());
            }
        }
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return Ok(vec![b'0'; NONCE.len()]),
            Ok(n) => seen.extend_from_slice(&buffer[..n]),
        }
    }
}
