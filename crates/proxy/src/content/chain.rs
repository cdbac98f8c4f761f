//! Two inspectors behind each other.

use bytes::{Bytes, BytesMut};
use futures_util::future::BoxFuture;

use crate::judge::{Inspect, Step};

/// What the first lets go on is given to the second.
pub(super) struct Chain {
    first: Box<dyn Inspect>,
    second: Box<dyn Inspect>,
    first_has_ended: bool,
}

impl Chain {
    pub(super) fn new(first: Box<dyn Inspect>, second: Box<dyn Inspect>) -> Self {
        Chain { first, second, first_has_ended: false }
    }

    async fn take(&mut self, data: Bytes) -> Step {
        match self.first.data(data).await {
            Step::Pass(bytes) if bytes.is_empty() => Step::Hold,
            Step::Pass(bytes) => self.second.data(bytes).await,
            other => other,
        }
    }

    async fn finish(&mut self) -> Step {
        let mut passed = BytesMut::new();
        if !self.first_has_ended {
            let rest = match self.first.end().await {
                Step::Pass(bytes) => bytes,
                Step::Hold => Bytes::new(),
                block => return block,
            };
            self.first_has_ended = !self.first.is_waiting();
            if !rest.is_empty() {
                match self.second.data(rest).await {
                    Step::Pass(bytes) => passed.extend_from_slice(&bytes),
                    Step::Hold => {}
                    block => return block,
                }
            }
            if !self.first_has_ended {
                return Step::Pass(passed.freeze());
            }
        }
        match self.second.end().await {
            Step::Pass(bytes) if passed.is_empty() => Step::Pass(bytes),
            Step::Pass(bytes) => {
                passed.extend_from_slice(&bytes);
                Step::Pass(passed.freeze())
            }
            Step::Hold => Step::Pass(passed.freeze()),
            block => block,
        }
    }
}

impl Inspect for Chain {
    fn data(&mut self, data: Bytes) -> BoxFuture<'_, Step> {
        Box::pin(self.take(data))
    }

    fn end(&mut self) -> BoxFuture<'_, Step> {
        Box::pin(self.finish())
    }

    fn keeps_length(&self) -> bool {
        self.first.keeps_length() && self.second.keeps_length()
    }

    fn has_more(&self) -> bool {
        self.first.has_more()
    }

    fn is_waiting(&self) -> bool {
        !self.first_has_ended || self.second.is_waiting()
    }

    fn notes(&mut self) -> Vec<String> {
        let mut notes = self.first.notes();
        notes.append(&mut self.second.notes());
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Holds all back and appends a letter at the end.
    struct Whole(Vec<u8>, u8);

    impl Inspect for Whole {
        fn data(&mut self, data: Bytes) -> BoxFuture<'_, Step> {
            self.0.extend_from_slice(&data);
            Box::pin(async { Step::Hold })
        }

        fn end(&mut self) -> BoxFuture<'_, Step> {
            self.0.push(self.1);
            let all = Bytes::from(std::mem::take(&mut self.0));
            Box::pin(async { Step::Pass(all) })
        }
    }

    #[tokio::test]
    async fn what_the_first_gives_at_its_end_reaches_the_second() {
        let whole = |letter| Box::new(Whole(Vec::new(), letter));
        let mut chain = Chain::new(whole(b'1'), whole(b'2'));
        assert_eq!(chain.data(Bytes::from_static(b"ab")).await, Step::Hold);
        assert_eq!(chain.data(Bytes::from_static(b"c")).await, Step::Hold);
        assert_eq!(chain.end().await, Step::Pass(Bytes::from_static(b"abc12")));
        assert!(!chain.is_waiting());
    }
}
