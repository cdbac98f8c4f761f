//! A body through an inspector, within bounds.
//!
//! The first bytes that may go on are waited for before anything is sent: until then a block still
//! becomes a page. Later, the body ends with an error, so that the receiver sees that it is not
//! whole.

use bytes::Bytes;
use futures_util::stream;
use http_body_util::{BodyExt, StreamBody};
use hyper::HeaderMap;
use hyper::body::{Body, Frame};

use crate::body::{AnyBody, BodyError};
use crate::exchange::Notes;
use crate::judge::{Inspect, Step};
use crate::refusal::Refusal;

struct Inspection<B> {
    body: B,
    inspector: Box<dyn Inspect>,
    held: u64,
    held_max: u64,
    trailers: Option<HeaderMap>,
    body_has_ended: bool,
    has_ended: bool,
    notes: Notes,
}

type Next = Option<Result<Frame<Bytes>, BodyError>>;

/// The inspected body, after its first bytes were allowed.
///
/// # Errors
/// If it was blocked before, or broke off.
pub(crate) async fn inspect<B>(
    body: B,
    inspector: Box<dyn Inspect>,
    held_max: u64,
    notes: Notes,
) -> Result<AnyBody, Refusal>
where
    B: Body<Data = Bytes, Error = BodyError> + Send + Unpin + 'static,
{
    let mut inspection = Inspection {
        body,
        inspector,
        held: 0,
        held_max,
        trailers: None,
        body_has_ended: false,
        has_ended: false,
        notes,
    };
    let first = match inspection.next().await {
        Some(Err(error)) => {
            return Err(error.downcast::<Refusal>().map_or(Refusal::Closed, |refusal| *refusal));
        }
        first => first,
    };
    let frames = stream::unfold((Some(first), inspection), |(first, mut inspection)| async {
        let next = match first {
            Some(first) => first,
            None => inspection.next().await,
        };
        Some((next?, (None, inspection)))
    });
    Ok(StreamBody::new(frames).boxed_unsync())
}

impl<B> Inspection<B>
where
    B: Body<Data = Bytes, Error = BodyError> + Send + Unpin + 'static,
{
    async fn next(&mut self) -> Next {
        loop {
            if self.has_ended {
                return Some(Ok(Frame::trailers(self.trailers.take()?)));
            }
            let frame = match self.body_has_ended {
                true => None,
                false if self.inspector.has_more() => Some(Ok(Frame::data(Bytes::new()))),
                false => self.body.frame().await,
            };
            let step = match frame {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => {
                        self.held = self.held.saturating_add(data.len() as u64);
                        self.inspector.data(data).await
                    }
                    Err(frame) => {
                        self.trailers = frame.into_trailers().ok();
                        continue;
                    }
                },
                Some(Err(error)) => return self.cut(error),
                None => {
                    self.body_has_ended = true;
                    let step = self.inspector.end().await;
                    self.has_ended = !self.inspector.is_waiting();
                    step
                }
            };
            match self.take(step) {
                Ok(bytes) if bytes.is_empty() => {}
                Ok(bytes) => return Some(Ok(Frame::data(bytes))),
                Err(refusal) => return self.cut(Box::new(refusal)),
            }
        }
    }

    fn take(&mut self, step: Step) -> Result<Bytes, Refusal> {
        let bytes = match step {
            Step::Pass(bytes) => bytes,
            Step::Hold => Bytes::new(),
            Step::Block(reason) => return Err(Refusal::Blocked(reason)),
        };
        self.held = self.held.saturating_sub(bytes.len() as u64);
        match self.held > self.held_max && !self.body_has_ended {
            true => Err(Refusal::TooLargeToInspect),
            false => Ok(bytes),
        }
    }

    fn cut(&mut self, error: BodyError) -> Next {
        (self.has_ended, self.trailers) = (true, None);
        Some(Err(error))
    }
}

impl<B> Drop for Inspection<B> {
    fn drop(&mut self) {
        self.notes.add(self.inspector.notes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::full;
    use crate::judge::BlockReason;
    use futures_util::future::BoxFuture;

    /// Holds everything back, and blocks what has `bad` in it.
    #[derive(Default)]
    struct Whole(Vec<u8>);

    impl Inspect for Whole {
        fn data(&mut self, data: Bytes) -> BoxFuture<'_, Step> {
            self.0.extend_from_slice(&data);
            Box::pin(async { Step::Hold })
        }

        fn end(&mut self) -> BoxFuture<'_, Step> {
            let is_bad = self.0.windows(3).any(|w| w == b"bad");
            let reason = BlockReason { rule: "r".to_owned(), text: "t".to_owned() };
            let whole = Bytes::from(std::mem::take(&mut self.0));
            let step = if is_bad { Step::Block(reason) } else { Step::Pass(whole) };
            Box::pin(async move { step })
        }
    }

    async fn run(text: &'static str, held_max: u64) -> Result<Bytes, Refusal> {
        let body =
            inspect(full(text), Box::new(Whole::default()), held_max, Notes::default()).await?;
        Ok(body.collect().await.unwrap().to_bytes())
    }

    /// Gives one byte at a time at the end.
    struct Slow(Vec<u8>);

    impl Inspect for Slow {
        fn data(&mut self, data: Bytes) -> BoxFuture<'_, Step> {
            self.0.extend_from_slice(&data);
            Box::pin(async { Step::Hold })
        }

        fn end(&mut self) -> BoxFuture<'_, Step> {
            let first = self.0.drain(..self.0.len().min(1)).collect::<Vec<u8>>();
            Box::pin(async { Step::Pass(first.into()) })
        }

        fn is_waiting(&self) -> bool {
            !self.0.is_empty()
        }

        fn notes(&mut self) -> Vec<String> {
            vec!["slow".to_owned()]
        }
    }

    #[tokio::test]
    async fn an_end_that_waits_is_asked_again() {
        let notes = Notes::default();
        let slow = Box::new(Slow(Vec::new()));
        let body = inspect(full("letters"), slow, 100, notes.clone()).await.unwrap();
        assert_eq!(body.collect().await.unwrap().to_bytes(), "letters");
        assert_eq!(notes.take(), ["slow"]);
    }

    #[tokio::test]
    async fn what_is_held_goes_on_at_the_end_or_not_at_all() {
        assert_eq!(run("all is well", 100).await.unwrap(), "all is well");
        assert_eq!(run("it is bad", 100).await.unwrap_err().name(), "blocked");
        assert_eq!(run("much too long", 5).await.unwrap_err().name(), "too_large_to_inspect");
        assert_eq!(run("", 5).await.unwrap(), "");
    }
}
