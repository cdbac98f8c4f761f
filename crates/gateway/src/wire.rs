//! A connection's bytes, whatever carries them.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::Poll;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes read at once. The buffer is the thread's, not the connection's: idle sessions hold none.
const READ_BYTES: usize = 64 * 1024;

/// What a connection must be able to do.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A connection, plain or TLS, over TCP or a unix socket.
pub type Wire = Box<dyn Stream>;

thread_local! {
    static BUFFER: std::cell::RefCell<Vec<u8>> = std::cell::RefCell::new(vec![0; READ_BYTES]);
}

/// Reads what there is into the thread's buffer and hands it to `take`. None at the end of the
/// stream.
///
/// # Errors
/// The connection's.
pub async fn read_with<T>(
    wire: &mut Wire,
    mut take: impl FnMut(&[u8]) -> T,
) -> io::Result<Option<T>> {
    poll_fn(|context| {
        BUFFER.with_borrow_mut(|buffer| {
            let mut read = ReadBuf::new(buffer);
            match Pin::new(&mut *wire).poll_read(context, &mut read) {
                Poll::Pending => Poll::Pending,
                Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
                Poll::Ready(Ok(())) if read.filled().is_empty() => Poll::Ready(Ok(None)),
                Poll::Ready(Ok(())) => Poll::Ready(Ok(Some(take(read.filled())))),
            }
        })
    })
    .await
}
