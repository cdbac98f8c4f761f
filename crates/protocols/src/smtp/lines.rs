//! Lines of commands and replies, and their frames.

use gauntlet_packet::Direction;

use crate::parser::Wishes;

/// Longest line of a command or reply; the rest of a longer one is dropped.
const LINE_BYTES_MAX: usize = 4096;

/// A line: `full` with its end, if it has one.
#[derive(Clone, Copy)]
pub(super) struct Line<'a> {
    pub(super) text: &'a [u8],
    pub(super) full: &'a [u8],
    /// Where it begins in the input.
    pub(super) at: usize,
    /// Where the input goes on behind it.
    pub(super) end: usize,
}

impl Line<'_> {
    pub(super) fn is_nothing(&self) -> bool {
        self.full.is_empty()
    }

    /// Cut at the limit.
    pub(super) fn is_cut(&self) -> bool {
        self.text.len() == LINE_BYTES_MAX && self.full.len() == LINE_BYTES_MAX
    }
}

/// What the input holds next.
pub(super) enum Next<'a> {
    Line(Line<'a>),
    /// A line that goes on behind the input, and is too long already.
    Endless(Line<'a>),
    Nothing,
    Wait,
}

/// The lines of both directions.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// The rest of a line that is too long is to come.
    dropping: [bool; 2],
    /// The frame of a line is open.
    open: [bool; 2],
}

fn frame(direction: Direction) -> &'static str {
    match direction {
        Direction::ToServer => "command_line",
        Direction::ToClient => "response_line",
    }
}

impl Lines {
    /// The line that begins at `place`.
    pub(super) fn next<'a>(
        &mut self,
        input: &'a [u8],
        place: usize,
        direction: Direction,
    ) -> Next<'a> {
        let rest = input.get(place..).unwrap_or_default();
        if rest.is_empty() {
            return Next::Nothing;
        }
        let dropping = self.dropping.get(direction.index()).copied().unwrap_or_default();
        let Some(end) = memchr::memchr(b'\n', rest) else {
            if dropping || rest.len() < LINE_BYTES_MAX {
                return Next::Wait;
            }
            let cut = input.get(..LINE_BYTES_MAX).unwrap_or(rest);
            return Next::Endless(Line { text: cut, full: cut, at: place, end: place });
        };
        let full = rest.get(..=end).unwrap_or_default();
        let end = place + full.len();
        if full.len() >= LINE_BYTES_MAX {
            let cut = full.get(..LINE_BYTES_MAX).unwrap_or(full);
            return Next::Line(Line { text: cut, full: cut, at: place, end });
        }
        if dropping {
            if let Some(dropping) = self.dropping.get_mut(direction.index()) {
                *dropping = false;
            }
            return Next::Line(Line { text: &[], full: &[], at: place, end });
        }
        let text = full.strip_suffix(b"\n").unwrap_or(full);
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        Next::Line(Line { text, full, at: place, end })
    }

    /// The rest of this line is dropped.
    pub(super) fn drop_rest(&mut self, direction: Direction) {
        if let Some(dropping) = self.dropping.get_mut(direction.index()) {
            *dropping = true;
        }
    }

    /// A line's frame begins here, if it did not before.
    pub(super) fn open(
        &mut self,
        direction: Direction,
        at: usize,
        transaction: Option<u64>,
        wishes: &mut Wishes,
    ) {
        if let Some(open) = self.open.get_mut(direction.index())
            && !std::mem::replace(open, true)
        {
            wishes.open_frame(frame(direction), at, None, transaction);
        }
    }

    /// A line's frame ends here, if it is open.
    pub(super) fn close(
        &mut self,
        direction: Direction,
        at: usize,
        transaction: Option<u64>,
        wishes: &mut Wishes,
    ) -> bool {
        let was_open =
            self.open.get_mut(direction.index()).is_some_and(|open| std::mem::replace(open, false));
        if was_open {
            wishes.close_frame(frame(direction), at, transaction);
        }
        was_open
    }
}
