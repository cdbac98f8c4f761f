//! SMTP on the wire: codecs and state machines without sockets.
