//! What is kept where fragments overlap. Hosts differ, and so does what gets past them (Novak,
//! "Target-Based Fragmentation Reassembly", 2005); the details are Suricata's.

use crate::host::Os;

/// Whose data stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Policy {
    First,
    Last,
    Bsd,
    /// Nothing is cut; what begins later in the packet, or came later, overwrites.
    BsdRight,
    Linux,
    Windows,
    Solaris,
}

impl Policy {
    /// BSD's unless something is said of the host.
    pub(super) fn of(os: Option<Os>) -> Self {
        match os {
            None | Some(Os::Bsd | Os::HpUx10 | Os::Irix) => Policy::Bsd,
            Some(Os::BsdRight) => Policy::BsdRight,
            Some(Os::OldLinux | Os::Linux) => Policy::Linux,
            Some(Os::OldSolaris | Os::HpUx11 | Os::MacOs | Os::First) => Policy::First,
            Some(Os::Solaris) => Policy::Solaris,
            Some(Os::Windows | Os::Vista | Os::Windows2003) => Policy::Windows,
            Some(Os::Last) => Policy::Last,
        }
    }
}

/// A fragment's place in its packet; numbers are bytes of the fragmentable part.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    /// Where it begins.
    pub(super) offset: u32,
    /// How long it is.
    pub(super) len: u32,
    /// So much of its begin is not used.
    pub(super) trim: u32,
}

impl Span {
    fn end(self) -> u32 {
        self.offset + self.len
    }

    /// Where what is used of it begins.
    fn used_from(self) -> u32 {
        self.offset + self.trim
    }
}

/// What becomes of a new fragment.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Placement {
    /// It shares bytes with one that is there.
    pub(super) overlaps: bool,
    /// It is not wanted.
    pub(super) dropped: bool,
    /// So much of its begin is cut.
    pub(super) trim: u32,
    /// The fragment that it replaces.
    pub(super) removed: Option<usize>,
}

/// What one fragment that is there means for a new one.
enum Meeting {
    /// Look at the next.
    Pass,
    /// Insert; the met one goes if this says so, or if nothing is left of it.
    Insert { replaces: bool },
    /// Drop the new one.
    Drop,
}

/// Places a fragment among others, which are in the order of their offsets and may be trimmed.
pub(super) fn place(policy: Policy, new: Span, spans: &mut [Span]) -> Placement {
    let mut placement = Placement::default();
    let mut at = first_met(new.offset, spans);
    while let Some(old) = spans.get(at).copied() {
        if new.offset < old.end() && old.offset < new.end() {
            placement.overlaps = true;
        }
        match meet(policy, new, &mut placement.trim, at, spans) {
            Meeting::Pass => at += 1,
            Meeting::Drop => {
                placement.dropped = true;
                break;
            }
            Meeting::Insert { replaces } => {
                let emptied = spans.get(at).is_some_and(|old| old.trim >= old.len);
                placement.removed = (replaces || emptied).then_some(at);
                break;
            }
        }
    }
    placement.dropped |= placement.trim >= new.len;
    placement
}

/// The fragment to begin with: the last one that begins before the new one, or else the first. At
/// offset 0 the first as well.
fn first_met(offset: u32, spans: &[Span]) -> usize {
    match spans.partition_point(|old| old.offset < offset) {
        before if before < spans.len() && offset > 0 => before.saturating_sub(1),
        // None begins at or behind it: from the first on.
        _ => 0,
    }
}

fn meet(policy: Policy, new: Span, trim: &mut u32, at: usize, spans: &mut [Span]) -> Meeting {
    match policy {
        Policy::Bsd => bsd(new, trim, at, spans),
        Policy::Linux => spans.get_mut(at).map_or(Meeting::Pass, |old| linux(new, trim, old)),
        Policy::Windows => spans.get(at).map_or(Meeting::Pass, |old| windows(new, trim, *old)),
        Policy::Solaris => spans.get(at).map_or(Meeting::Pass, |old| solaris(new, trim, *old)),
        Policy::First => spans.get(at).map_or(Meeting::Pass, |old| first(new, trim, *old)),
        Policy::Last => spans.get_mut(at).map_or(Meeting::Pass, |old| last(new, old)),
        Policy::BsdRight => Meeting::Pass,
    }
}

fn bsd(new: Span, trim: &mut u32, at: usize, spans: &mut [Span]) -> Meeting {
    let Some(old) = spans.get_mut(at) else { return Meeting::Pass };
    if new.offset >= old.end() {
        return Meeting::Pass;
    }
    if old.offset <= new.offset {
        if old.end() > new.end() {
            return Meeting::Drop;
        }
        *trim = old.end() - new.offset;
    } else if new.end() > old.used_from() {
        old.trim = old.trim.max(new.end() - old.offset);
    }
    if let Some(next) = spans.get_mut(at + 1)
        && new.end() > next.offset
    {
        next.trim = new.end() - next.offset;
    }
    Meeting::Insert { replaces: false }
}

fn linux(new: Span, trim: &mut u32, old: &mut Span) -> Meeting {
    let begin = new.offset + *trim;
    if old.used_from() < begin && old.end() > begin {
        *trim += old.end() - new.offset;
    }
    let begin = new.offset + *trim;
    if begin < old.used_from() && new.end() > old.used_from() {
        old.trim = new.end() - old.offset;
        return Meeting::Insert { replaces: false };
    }
    if begin <= old.used_from() && new.end() >= old.end() {
        return Meeting::Insert { replaces: true };
    }
    Meeting::Pass
}

fn windows(new: Span, trim: &mut u32, old: Span) -> Meeting {
    if new.offset >= old.offset && new.end() <= old.end() {
        return Meeting::Drop;
    }
    if new.offset < old.offset && new.end() > old.end() {
        return Meeting::Insert { replaces: true };
    }
    let begin = new.offset + *trim;
    let overlaps_end = begin > old.used_from() && begin < old.end();
    let begins_with = new.offset == old.offset && new.end() > old.end();
    if overlaps_end || begins_with {
        *trim += old.end() - new.offset;
        return Meeting::Insert { replaces: false };
    }
    Meeting::Pass
}

fn solaris(new: Span, trim: &mut u32, old: Span) -> Meeting {
    if new.offset >= old.end() {
        return Meeting::Pass;
    }
    if new.offset >= old.offset {
        *trim = old.end() - new.offset;
    }
    Meeting::Insert { replaces: new.offset < old.offset && new.end() >= old.end() }
}

fn first(new: Span, trim: &mut u32, old: Span) -> Meeting {
    if new.offset >= old.offset && new.end() <= old.end() {
        return Meeting::Drop;
    }
    if new.offset < old.offset {
        return Meeting::Insert { replaces: false };
    }
    if new.offset < old.end() {
        *trim = old.end() - new.offset;
        return Meeting::Insert { replaces: false };
    }
    Meeting::Pass
}

fn last(new: Span, old: &mut Span) -> Meeting {
    if new.offset > old.offset {
        return Meeting::Pass;
    }
    if new.end() > old.offset {
        old.trim = new.end() - old.offset;
    }
    Meeting::Insert { replaces: false }
}
