//! A next hop for tests, which keeps what it gets.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use super::token_of;

/// A next hop that keeps what it gets. What it answers to RCPT and to the message can be changed.
#[derive(Clone)]
pub(crate) struct Sink {
    pub(crate) address: SocketAddr,
    pub(crate) messages: Arc<Mutex<Vec<Vec<u8>>>>,
    /// Reply to RCPT by the recipient's local part; 250 by default.
    pub(crate) recipients: Arc<Mutex<BTreeMap<String, String>>>,
    /// Reply to the message. An empty one: it is kept, and the connection is closed.
    pub(crate) answer: Arc<Mutex<String>>,
    /// Of each message the field with its token is kept alone: a long run has many.
    pub(crate) tokens_only: Arc<AtomicBool>,
}

impl Sink {
    pub(crate) fn start() -> Self {
        Self::start_at(([127, 0, 0, 1], 0).into())
    }

    pub(crate) fn start_at(address: SocketAddr) -> Self {
        Self::on(TcpListener::bind(address).unwrap())
    }

    /// Answers what comes to this address from now on.
    pub(crate) fn on(listener: TcpListener) -> Self {
        let sink = Sink {
            address: listener.local_addr().unwrap(),
            messages: Arc::default(),
            recipients: Arc::default(),
            answer: Arc::new(Mutex::new("250 2.0.0 taken".to_owned())),
            tokens_only: Arc::default(),
        };
        let shared = sink.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let sink = shared.clone();
                std::thread::spawn(move || sink.serve(stream));
            }
        });
        sink
    }

    fn serve(&self, stream: TcpStream) -> std::io::Result<()> {
        stream.set_nodelay(true)?;
        let mut reader = BufReader::new(stream);
        reader.get_mut().write_all(b"220 sink.test ESMTP\r\n")?;
        let mut line = String::new();
        let mut accepted = 0;
        loop {
            line.clear();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            let verb = line.get(..4).unwrap_or_default().to_uppercase();
            let reply = match verb.as_str() {
                "EHLO" => "250-sink.test\r\n250-PIPELINING\r\n250 8BITMIME".to_owned(),
                "RCPT" => {
                    let local = line.split(['<', '@']).nth(1).unwrap_or_default();
                    let replies = self.recipients.lock().unwrap();
                    let known = replies.get(local).cloned();
                    accepted += usize::from(known.is_none());
                    known.unwrap_or_else(|| "250 2.1.5 ok".to_owned())
                }
                "DATA" if accepted == 0 => "554 5.5.1 no valid recipients".to_owned(),
                "DATA" => {
                    accepted = 0;
                    reader.get_mut().write_all(b"354 go\r\n")?;
                    let body = read_body(&mut reader)?;
                    let answer = self.answer.lock().unwrap().clone();
                    if answer.starts_with('2') || answer.is_empty() {
                        let body = match self.tokens_only.load(Ordering::Relaxed) {
                            true => format!("X-Token: {}", token_of(&body).unwrap()).into_bytes(),
                            false => body,
                        };
                        self.messages.lock().unwrap().push(body);
                    }
                    if answer.is_empty() {
                        return Ok(());
                    }
                    answer
                }
                "QUIT" => {
                    return reader.get_mut().write_all(b"221 bye\r\n");
                }
                _ => "250 ok".to_owned(),
            };
            reader.get_mut().write_all(format!("{reply}\r\n").as_bytes())?;
        }
    }

    pub(crate) fn taken(&self) -> Vec<Vec<u8>> {
        self.messages.lock().unwrap().clone()
    }
}

fn read_body(reader: &mut BufReader<TcpStream>) -> std::io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let mut line = Vec::new();
        if reader.read_until(b'\n', &mut line)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        if line == b".\r\n" {
            return Ok(body);
        }
        body.extend_from_slice(line.strip_prefix(b".").unwrap_or(&line));
    }
}
