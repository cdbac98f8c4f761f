//! SMB 1, 2 and 3 over TCP (MS-CIFS, MS-SMB2): shares, files, who signs in, and DCE/RPC in pipes.

mod ntlm;
mod rpc;
mod session;
mod status;
mod stream;
mod table;
mod transfer;
mod v1;
mod v1_wire;
mod v2;
mod wire;

pub(crate) use table::MODULE;
