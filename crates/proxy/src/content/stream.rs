//! Streams: responses that never end, so that nobody can wait for their last byte.
//!
//! A type is only what a server says. A stream is passed on as it comes as long as its bytes are
//! those of one: lines of events (WHATWG HTML, section 9.2.5), pictures between boundaries (RFC
//! 2046 section 5.1.1), frames of gRPC (its protocol over HTTP/2, "Length-Prefixed-Message").

mod events;
mod frames;
mod pictures;

use self::events::Events;
use self::frames::{Base64, Frames};
use self::pictures::Pictures;

/// What bytes say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// Too few have come.
    Undecided,
    /// They are those of a stream so far.
    Stream,
    /// They are something else.
    Other,
}

/// Follows a stream.
#[derive(Debug)]
pub(super) enum Watch {
    Events(Events),
    Pictures(Pictures),
    Frames(Frames),
    /// Frames as text (`grpc-web-text`).
    Base64(Base64),
}

/// Whether this is the type of a stream.
pub(super) fn is_type(media_type: &str) -> bool {
    ["text/event-stream", "multipart/x-mixed-replace"].contains(&media_type)
        || media_type.starts_with("application/grpc")
}

impl Watch {
    /// For a response of this type, whose parameter `boundary` is this; none for other types.
    pub(super) fn of(media_type: &str, boundary: Option<&str>) -> Option<Watch> {
        match media_type {
            "text/event-stream" => Some(Watch::Events(Events::default())),
            "multipart/x-mixed-replace" => Pictures::new(boundary?).map(Watch::Pictures),
            other if other.starts_with("application/grpc-web-text") => {
                Some(Watch::Base64(Base64::default()))
            }
            other => is_type(other).then(|| Watch::Frames(Frames::default())),
        }
    }

    /// Takes the next bytes.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Look {
        match self {
            Watch::Events(events) => events.feed(bytes),
            Watch::Pictures(pictures) => pictures.feed(bytes),
            Watch::Frames(frames) => frames.feed(bytes),
            Watch::Base64(base64) => base64.feed(bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same for pieces of every size.
    fn look(media_type: &str, bytes: &[u8]) -> Look {
        let all: Vec<Look> = [1, 3, 17, 1 << 20]
            .map(|size| {
                let mut watch = Watch::of(media_type, Some("B")).unwrap();
                bytes.chunks(size).map(|piece| watch.feed(piece)).last().unwrap()
            })
            .to_vec();
        assert!(all.iter().all(|one| *one == all[0]), "{all:?} {media_type} {bytes:?}");
        all[0]
    }

    #[test]
    fn lines_of_events() {
        let of = |text: &str| look("text/event-stream", text.as_bytes());
        for text in [
            "data: 1\n\n",
            ":\n",
            ": ping",
            "\r\n",
            "data",
            "data\r\ndata\r\r",
            "\u{feff}event: é\nid: 7\nretry:10\n\ndata: {\"a\": \"<b>\"}\n\n",
            "data: x\nx-mine: y\n",
        ] {
            let expected = if text == "data" { Look::Undecided } else { Look::Stream };
            assert_eq!(of(text), expected, "{text:?}");
        }
        for text in [
            "MZ\u{90}\u{0}",
            "<html>",
            "data: \u{0}\n",
            "x: y\n",
            "data: 1\n@echo off\n",
            "data\nPK\u{3}\u{4}",
            "#!/bin/sh\n",
        ] {
            assert_eq!(of(text), Look::Other, "{text:?}");
        }
        assert_eq!(look("text/event-stream", b":\nPK\x03\x04\xff"), Look::Other);
        assert_eq!(look("text/event-stream", b"data: \xff\xfe\n"), Look::Other);
        assert_eq!(look("text/event-stream", "data: \u{e9}".as_bytes()), Look::Stream);
    }

    #[test]
    fn pictures_between_boundaries() {
        let of = |bytes: &[u8]| look("multipart/x-mixed-replace", bytes);
        let jpeg = [b"\xff\xd8\xff\xe0".as_slice(), &[7; 40]].concat();
        let head = b"--B\r\nContent-Type: image/jpeg\r\n\r\n".as_slice();
        let part = [head, &jpeg, b"\r\n"].concat();
        assert_eq!(of(b"--B\r\nContent-Ty"), Look::Undecided);
        assert_eq!(of(&part), Look::Stream);
        assert_eq!(of(&[b"\r\n", part.as_slice(), &part, b"--B--\r\n"].concat()), Look::Stream);
        let program = [b"MZ".as_slice(), &[0; 60]].concat();
        for other in [
            program.clone(),
            [head, &program].concat(),
            [part.as_slice(), head, &program].concat(),
            [part.as_slice(), b"--B--", &program].concat(),
            [part.as_slice(), b"--B\nContent-Type: text/html\n\n"].concat(),
            b"--C\r\n\r\n".to_vec(),
        ] {
            assert_eq!(of(&other), Look::Other, "{other:?}");
        }
        assert!(Watch::of("multipart/x-mixed-replace", None).is_none());
        // Cameras write the dashes into the parameter.
        let mut dashes = Watch::of("multipart/x-mixed-replace", Some("--B")).unwrap();
        assert_eq!(dashes.feed(&part), Look::Stream);
    }

    #[test]
    fn frames_of_grpc() {
        let of = |bytes: &[u8]| look("application/grpc+proto", bytes);
        assert_eq!(of(&[0, 0, 0]), Look::Undecided);
        assert_eq!(of(&[0, 0, 0, 0, 2, 8, 1, 0, 0, 0, 0, 0]), Look::Stream);
        assert_eq!(of(&[[0, 0, 0, 0, 20].as_slice(), &[8; 20]].concat()), Look::Stream);
        let packed = [b"\x1f\x8b\x08\0".as_slice(), &[0; 16]].concat();
        assert_eq!(of(&[[1, 0, 0, 0, 20].as_slice(), &packed].concat()), Look::Stream);
        assert_eq!(of(&[[0, 0, 0, 0, 20].as_slice(), &packed].concat()), Look::Other);
        let program = [b"MZ".as_slice(), &[0; 60]].concat();
        assert_eq!(of(&program), Look::Other);
        assert_eq!(of(&[[0, 0, 0, 0, 62].as_slice(), &program].concat()), Look::Other);
        assert_eq!(of(&[0, 0, 0, 0, 0, b'P', b'K']), Look::Other);
        assert_eq!(look("application/grpc-web-text", b"AAAAAAIIAQ=="), Look::Stream);
        assert_eq!(look("application/grpc-web-text", b"MZ\x90\x00"), Look::Other);
    }

    #[test]
    fn other_types_are_no_streams() {
        for media_type in ["", "text/html", "application/x-grpc", "multipart/mixed"] {
            assert!(Watch::of(media_type, Some("B")).is_none(), "{media_type}");
        }
    }
}
