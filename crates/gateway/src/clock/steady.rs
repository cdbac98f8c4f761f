//! A time for ages that a step of the system's clock does not move.
//!
//! What is held or queued is deleted by its age. A clock that is set days ahead, by a mistake or by
//! an attacker who controls the time server, would age all mail at once; so would a node that was
//! really off for a week, whose held mail no one could review meanwhile. The steady time is the
//! wall clock as long as that agrees with the time that the system has really run since the last
//! agreement; a step further ahead than `clock.jump_seconds_max` is not believed until an
//! administrator does (`gauntlet clock --accept`). Until then the steady time goes on from where it
//! was. A clock that goes back makes mail younger, which deletes nothing.
//!
//! The steady time is written down every minute, so that a restart does not forget it.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use gauntlet_store::files;
use serde::{Deserialize, Serialize};

use super::Clock;

/// File in the data folder that holds the steady time.
pub const FILE: &str = "clock.json";

/// What is written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
struct Stamp {
    /// The steady time when it was written, Unix milliseconds; 0 if it never was.
    steady_ms: i64,
}

/// What the steady clock says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    /// The steady time, Unix milliseconds.
    pub steady_ms: i64,
    /// How far the wall clock is ahead of it, in milliseconds; 0 while the two agree.
    pub ahead_ms: i64,
}

/// The rules, without a clock of their own. All times are milliseconds.
#[derive(Debug, Clone, Copy)]
struct Steady {
    /// The steady time at `since`.
    base: i64,
    /// The running time then.
    since: i64,
    /// The running time since which the wall clock is far behind.
    behind_since: Option<i64>,
}

impl Steady {
    /// Goes on from what was written down; from the wall clock if nothing was.
    fn start(stamp: Stamp, wall: i64, running: i64, jump_max: i64) -> Self {
        let base = if stamp.steady_ms > 0 { stamp.steady_ms } else { wall };
        let mut steady = Steady { base, since: running, behind_since: None };
        // How long the node was off is unknown; a short time is no question.
        if (wall - base).abs() <= jump_max {
            steady.base = wall;
        }
        steady
    }

    fn time(&self, running: i64) -> i64 {
        self.base.saturating_add((running - self.since).max(0))
    }

    fn read(&mut self, wall: i64, running: i64, jump_max: i64) -> Reading {
        let steady = self.time(running);
        let ahead = wall.saturating_sub(steady);
        if jump_max == 0 {
            self.accept(wall, running);
        } else if ahead > jump_max {
            self.behind_since = None;
            return Reading { steady_ms: steady, ahead_ms: ahead };
        } else if ahead < -jump_max {
            // A machine without a battery begins in 1970 and is corrected soon. A clock that stays
            // behind is right, and was wrong before: else it could step ahead again by as much.
            let since = *self.behind_since.get_or_insert(running);
            if running - since >= jump_max {
                self.accept(wall, running);
            }
        } else {
            self.behind_since = None;
        }
        Reading { steady_ms: wall, ahead_ms: 0 }
    }

    /// Believes the wall clock.
    fn accept(&mut self, wall: i64, running: i64) {
        *self = Steady { base: wall, since: running, behind_since: None };
    }
}

/// The steady clock of a node. Share it as `Arc<SteadyClock>`.
#[derive(Debug)]
pub struct SteadyClock {
    clock: Clock,
    path: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    steady: Steady,
    jump_max: i64,
    /// The last reading was not believed, and the log says so.
    reported: bool,
    /// Why what was written down is lost.
    lost: Option<String>,
}

impl SteadyClock {
    /// Goes on from the file in this data folder. `jump_seconds_max` is how far the wall clock may
    /// step ahead; 0 believes it whatever it does. `newest_ms` is when the newest mail came that
    /// this node knows of, by the system's clock: from there the time goes on if the file is lost.
    pub fn open(
        data: &Path,
        jump_seconds_max: u64,
        clock: Clock,
        newest_ms: impl FnOnce() -> Option<i64>,
    ) -> Self {
        let path = data.join(FILE);
        let jump_max = milliseconds(jump_seconds_max);
        let (stamp, lost) = match read(&path) {
            Ok(stamp) => (stamp, None),
            Err(why) => match newest_ms() {
                Some(steady_ms) => (Stamp { steady_ms }, Some(why)),
                // Nothing is kept that could age: a first start.
                None => (Stamp::default(), None),
            },
        };
        if let Some(why) = &lost {
            tracing::warn!(
                path = %path.display(), why, "the time that had passed is lost; it goes on from the newest mail"
            );
        }
        let steady = Steady::start(stamp, clock.unix_ms(), clock.running_ms(), jump_max);
        SteadyClock {
            clock,
            path,
            state: Mutex::new(State { steady, jump_max, reported: false, lost }),
        }
    }

    /// What an administrator is to be asked; nothing while the clocks agree.
    pub fn question(&self) -> Option<String> {
        let question = question(self.read())?;
        Some(match &self.state().lost {
            // Without the folder: any client may read it at `/healthz`.
            Some(why) => format!("{question} ({FILE}: {why}; it is written anew)"),
            None => question,
        })
    }

    /// The clock that it reads, whose monotonic time no step of the wall clock changes.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The wall clock that it compares with the time that has passed: for dates and due times.
    pub fn wall_ms(&self) -> i64 {
        self.clock.unix_ms()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Another bound from now on.
    pub fn set_jump_max(&self, seconds: u64) {
        self.state().jump_max = milliseconds(seconds);
    }

    /// What it says now. A wall clock that is not believed is logged once.
    pub fn read(&self) -> Reading {
        let mut state = self.state();
        let jump_max = state.jump_max;
        let reading = state.steady.read(self.clock.unix_ms(), self.clock.running_ms(), jump_max);
        let stepped = reading.ahead_ms > 0;
        if stepped != state.reported {
            state.reported = stepped;
            match question(reading) {
                Some(question) => tracing::error!(ahead_ms = reading.ahead_ms, "{question}"),
                None => tracing::info!("the clock agrees with the time that has passed again"),
            }
        }
        reading
    }

    /// The steady time, Unix milliseconds: for ages that delete something.
    pub fn now_ms(&self) -> i64 {
        self.read().steady_ms
    }

    /// An administrator says that the wall clock is right.
    ///
    /// # Errors
    /// If that cannot be written down; it counts until the node ends.
    pub fn accept(&self) -> std::io::Result<()> {
        self.state().steady.accept(self.clock.unix_ms(), self.clock.running_ms());
        self.write()
    }

    /// Writes the steady time down, durably.
    ///
    /// # Errors
    /// The disk's.
    pub fn write(&self) -> std::io::Result<()> {
        let _logs_a_step = self.read();
        let steady_ms = self.state().steady.time(self.clock.running_ms());
        files::write_durably(&self.path, &serde_json::to_vec(&Stamp { steady_ms })?)
    }
}

/// What an administrator is to be asked; nothing while the clocks agree.
pub fn question(reading: Reading) -> Option<String> {
    if reading.ahead_ms == 0 {
        return None;
    }
    let hours = reading.ahead_ms / 3_600_000;
    let (days, hours) = (hours / 24, hours % 24);
    Some(format!(
        "the clock is {days} days and {hours} hours ahead of the time that has passed here: it was set, or \
         the node was off so long. Nothing that is held, queued or logged ages by it. If the clock is \
         right (check with `date -u`), say `gauntlet clock --accept`"
    ))
}

/// What was written down, or why there is nothing.
fn read(path: &Path) -> Result<Stamp, String> {
    let bytes = std::fs::read(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => "the file is gone".to_owned(),
        _ => error.to_string(),
    })?;
    match serde_json::from_slice::<Stamp>(&bytes) {
        Ok(stamp) if stamp.steady_ms > 0 => Ok(stamp),
        Ok(_) => Err("the file holds no time".to_owned()),
        Err(error) => Err(format!("the file is damaged: {error}")),
    }
}

fn milliseconds(seconds: u64) -> i64 {
    i64::try_from(seconds.saturating_mul(1_000)).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 86_400_000;
    const NOW: i64 = 20_000 * DAY;

    fn started(steady_ms: i64, wall: i64) -> Steady {
        Steady::start(Stamp { steady_ms }, wall, 0, DAY)
    }

    #[test]
    fn a_step_ahead_ages_nothing_until_it_is_accepted() {
        let mut steady = started(0, NOW);
        assert_eq!(steady.read(NOW + DAY, DAY, DAY), Reading { steady_ms: NOW + DAY, ahead_ms: 0 });
        // The clock is set ten days ahead, and runs on for an hour.
        let hour = DAY / 24;
        let read = steady.read(NOW + 11 * DAY + hour, DAY + hour, DAY);
        assert_eq!(read, Reading { steady_ms: NOW + DAY + hour, ahead_ms: 10 * DAY });
        assert!(question(read).unwrap().contains("10 days and 0 hours"));
        // Set right again: as if nothing had been.
        let read = steady.read(NOW + DAY + 2 * hour, DAY + 2 * hour, DAY);
        assert_eq!(read, Reading { steady_ms: NOW + DAY + 2 * hour, ahead_ms: 0 });
        // Ahead again, and an administrator accepts it.
        assert!(steady.read(NOW + 20 * DAY, 2 * DAY, DAY).ahead_ms > 0);
        steady.accept(NOW + 20 * DAY, 2 * DAY);
        assert_eq!(steady.read(NOW + 20 * DAY, 2 * DAY, DAY).steady_ms, NOW + 20 * DAY);
    }

    /// Each step is small enough; together they are not.
    #[test]
    fn many_small_steps_add_up() {
        let mut steady = started(0, NOW);
        let minute = DAY / 1_440;
        let mut read = Reading { steady_ms: 0, ahead_ms: 0 };
        for step in 1..=20 {
            read = steady.read(NOW + step * (DAY / 2), step * minute, DAY);
        }
        assert!(read.ahead_ms > 0 && read.steady_ms == NOW + 20 * minute, "{read:?}");
    }

    #[test]
    fn a_restart_after_a_week_is_a_question_and_one_after_a_night_is_none() {
        let mut week = started(NOW, NOW + 7 * DAY);
        let hour = DAY / 24;
        let read = week.read(NOW + 7 * DAY + hour, hour, DAY);
        assert_eq!((read.steady_ms, read.ahead_ms), (NOW + hour, 7 * DAY));
        let mut night = started(NOW, NOW + DAY / 2);
        assert_eq!(night.read(NOW + DAY, DAY / 2, DAY).ahead_ms, 0);
        // Night after night: what a restart accepts does not add up.
        let mut stamp = NOW;
        for night in 1..10 {
            let wall = NOW + night * DAY / 2;
            let mut steady = started(stamp, wall);
            assert_eq!(steady.read(wall, 0, DAY).ahead_ms, 0, "{night}");
            stamp = steady.time(0);
        }
    }

    #[test]
    fn a_clock_that_goes_back_deletes_nothing_and_is_believed_after_a_day() {
        // No battery: 1970 until the time server answers.
        let mut steady = started(NOW, 0);
        assert_eq!(steady.read(1_000, 1_000, DAY), Reading { steady_ms: 1_000, ahead_ms: 0 });
        let read = steady.read(NOW + 5_000, 5_000, DAY);
        assert_eq!(read, Reading { steady_ms: NOW + 5_000, ahead_ms: 0 });
        // The clock was wrong by years, and is right now for a day.
        let mut steady = started(NOW + 2_000 * DAY, NOW);
        assert_eq!(steady.read(NOW + 1, 1, DAY).ahead_ms, 0);
        assert_eq!(steady.read(NOW + DAY + 1, DAY + 1, DAY).ahead_ms, 0);
        let read = steady.read(NOW + 30 * DAY, DAY + 2, DAY);
        assert!(read.ahead_ms > 0, "it steps ahead from there: {read:?}");
    }

    #[test]
    fn without_a_bound_the_clock_is_believed() {
        let mut steady = Steady::start(Stamp { steady_ms: NOW }, NOW + 99 * DAY, 0, 0);
        assert_eq!(steady.read(NOW + 99 * DAY, 0, 0).ahead_ms, 0);
        assert_eq!(steady.time(0), NOW + 99 * DAY);
    }

    #[test]
    fn the_steady_time_outlives_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let clock = SteadyClock::open(folder.path(), 86_400, Clock::system(), || None);
        assert_eq!(clock.read().ahead_ms, 0);
        clock.write().unwrap();
        let stamp: Stamp = files::read_cache(&folder.path().join(FILE));
        assert!((Clock::system().unix_ms() - stamp.steady_ms).abs() < 60_000);
        let old = Stamp { steady_ms: Clock::system().unix_ms() - 10 * DAY };
        files::write_durably(&folder.path().join(FILE), &serde_json::to_vec(&old).unwrap())
            .unwrap();
        for _ in 0..2 {
            let clock = SteadyClock::open(folder.path(), 86_400, Clock::system(), || None);
            let read = clock.read();
            assert!((read.ahead_ms - 10 * DAY).abs() < 60_000, "{read:?}");
            clock.write().unwrap();
        }
        SteadyClock::open(folder.path(), 86_400, Clock::system(), || None).accept().unwrap();
        assert_eq!(
            SteadyClock::open(folder.path(), 86_400, Clock::system(), || None).read().ahead_ms,
            0
        );
    }
    #[test]
    fn a_lost_file_is_a_question_where_there_is_older_mail() {
        let newest = Clock::system().unix_ms() - 10 * DAY;
        for content in [None, Some(""), Some("{\"steady_ms\":0}"), Some("\0\0\0\0")] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join(FILE);
            if let Some(content) = content {
                std::fs::write(&path, content).unwrap();
            }
            let clock = SteadyClock::open(folder.path(), 86_400, Clock::system(), || Some(newest));
            assert!((clock.now_ms() - newest).abs() < 60_000, "{content:?}");
            let question = clock.question().unwrap();
            assert!(question.contains("clock.json: the file"), "{question}");
            assert!(question.contains("gauntlet clock --accept"), "{question}");
            clock.write().unwrap();
            clock.accept().unwrap();
            assert_eq!(clock.question(), None);
            // Mail of today, or none at all, is no question.
            std::fs::remove_file(&path).unwrap();
            for newest in [None, Some(Clock::system().unix_ms() - DAY / 2)] {
                assert_eq!(
                    SteadyClock::open(folder.path(), 86_400, Clock::system(), || newest).question(),
                    None
                );
            }
        }
    }
}
