//! One test binary.

mod conversation_bytes;
mod wire_bytes;

mod it {
    mod dns;
    mod http1;
    mod http2;
    mod mail;
    mod messages;
    mod nasty;
    mod nasty_others;
    mod replay;
    mod shells;
    mod talk;
    mod tls;
    mod wire_cases;
}
