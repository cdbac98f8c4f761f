//! Anything that bytes come from and go to.

use tokio::io::{AsyncRead, AsyncWrite};

/// Bytes both ways.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}
