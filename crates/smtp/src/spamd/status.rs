//! Status codes.

/// Status of a response: codes of sysexits.h, as spamd uses them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Status {
    /// `EX_OK` (0): the request succeeded.
    Ok,
    /// `EX_SOFTWARE`: an internal error of the server.
    Software,
    /// `EX_TEMPFAIL` (75): the client shall try again later.
    TempFail,
    /// `EX_PROTOCOL`: the request is malformed.
    Protocol,
    /// `EX_DATAERR`: the message is too large.
    TooLarge,
}

impl Status {
    /// Code and name in the status line.
    pub fn wire(self) -> (u8, &'static str) {
        match self {
            Status::Ok => (0, "EX_OK"),
            Status::Software => (70, "EX_SOFTWARE"),
            Status::TempFail => (75, "EX_TEMPFAIL"),
            Status::Protocol => (76, "EX_PROTOCOL"),
            Status::TooLarge => (65, "EX_DATAERR"),
        }
    }
}
