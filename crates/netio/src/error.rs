//! Why packets cannot be had.

use std::io;

/// Why packets cannot be had, with what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The interface is not there.
    #[error("there is no network interface {0:?}; `ip link` lists them")]
    NoInterface(String),
    /// What comes from the interface is not decoded.
    #[error("interface {0:?} is of type {1}, neither Ethernet nor IP")]
    Kind(String, u16),
    /// Both sides of a bridge are the same interface, or of different kinds.
    #[error("interfaces {0:?} and {1:?} cannot be two sides of a bridge")]
    Sides(String, String),
    /// The process may not do that.
    #[error(
        "{what} needs {capability}: run it as root, or give the program the capability \
         (setcap cap_net_raw,cap_net_admin+ep /path/to/gauntlet)"
    )]
    Permission {
        /// What was tried.
        what: &'static str,
        /// What is missing.
        capability: &'static str,
    },
    /// Another program has the queue.
    #[error(
        "queue {0} is taken by another program (/proc/net/netfilter/nfnetlink_queue names its port)"
    )]
    QueueTaken(u16),
    /// Another program has the device.
    #[error("network device {0:?} is another program's; `ip link` lists them")]
    DeviceTaken(String),
    /// A setting cannot be used.
    #[error("{key}: {value:?} is not {wanted}")]
    Setting {
        /// Its name in suricata.yaml.
        key: String,
        /// Its value.
        value: String,
        /// What it may be.
        wanted: &'static str,
    },
    /// A set of nftables that is not there, or not as it has to be.
    #[error("nftables set {set:?} {what}; make it with: {command}")]
    Set {
        /// Family, table and name.
        set: String,
        /// What is wrong.
        what: &'static str,
        /// What makes it.
        command: String,
    },
    /// Inherited sockets do not fit the plan.
    #[error("the sockets that were handed over do not fit the arguments")]
    Sockets,
    /// The system refused.
    #[error("{0}: {1}")]
    System(String, #[source] io::Error),
}

impl Error {
    /// What the system said when `what` was tried.
    pub(crate) fn system(
        what: &'static str,
        capability: &'static str,
    ) -> impl FnOnce(io::Error) -> Self {
        move |error| match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => Self::Permission { what, capability },
            _ => Self::System(what.to_owned(), error),
        }
    }
}
