//! Everything that a terminal may be woken for. A sleep anywhere else is a bug.

use crate::ports::Elapsed;

/// A reason to wake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timer {
    /// The agreed time is over (T-7).
    Deadline,
    /// Five minutes before it.
    WarnFiveMinutes,
    /// One minute before it.
    WarnOneMinute,
    /// Both sides are asked for a sign of life (T-8).
    Ping,
    /// The browser gave none for too long.
    BrowserGone,
    /// The shell's stream gave none for too long.
    ShellGone,
    /// Nothing was heard from the shell's stream since somebody typed (qT29).
    Answer,
    /// A size that came too soon after the one before is due (qT19).
    Resize,
    /// No size came: the shell is started with the usual one.
    FirstSize,
    /// The next step of asking the shell to exit.
    Exit,
}

impl Timer {
    const ALL: [Self; 10] = [
        Self::Deadline,
        Self::WarnFiveMinutes,
        Self::WarnOneMinute,
        Self::Ping,
        Self::BrowserGone,
        Self::ShellGone,
        Self::Answer,
        Self::Resize,
        Self::FirstSize,
        Self::Exit,
    ];
}

/// When each timer strikes.
#[derive(Debug, Default)]
pub struct Timers([Option<Elapsed>; Timer::ALL.len()]);

impl Timers {
    /// Sets a timer; what it was set to before is forgotten.
    pub fn set(&mut self, timer: Timer, at: Elapsed) {
        self.0[timer as usize] = Some(at);
    }

    /// Sets a timer that is not set.
    pub fn set_if_unset(&mut self, timer: Timer, at: Elapsed) {
        self.0[timer as usize].get_or_insert(at);
    }

    /// Stops a timer.
    pub fn clear(&mut self, timer: Timer) {
        self.0[timer as usize] = None;
    }

    /// Stops every timer.
    pub fn clear_all(&mut self) {
        self.0 = Default::default();
    }

    /// When the next one strikes.
    pub fn next(&self) -> Option<Elapsed> {
        self.0.iter().flatten().min().copied()
    }

    /// Takes the earliest timer that has struck; of two at once the first in the enum's order.
    pub fn take_due(&mut self, now: Elapsed) -> Option<Timer> {
        let due = Timer::ALL
            .into_iter()
            .filter_map(|timer| Some((self.0[timer as usize]?, timer)))
            .filter(|(at, _)| *at <= now)
            .min_by_key(|(at, _)| *at)
            .map(|(_, timer)| timer)?;
        self.clear(due);
        Some(due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn at(seconds: u64) -> Elapsed {
        Elapsed::new(Duration::from_secs(seconds))
    }

    #[test]
    fn timers_strike_in_the_order_of_their_times_and_once() {
        let mut timers = Timers::default();
        timers.set(Timer::Ping, at(10));
        timers.set(Timer::Deadline, at(5));
        timers.set(Timer::Exit, at(7));
        timers.clear(Timer::Exit);
        assert_eq!(timers.next(), Some(at(5)));
        assert_eq!(timers.take_due(at(4)), None);
        assert_eq!(timers.take_due(at(11)), Some(Timer::Deadline));
        assert_eq!(timers.take_due(at(11)), Some(Timer::Ping));
        assert_eq!(timers.take_due(at(11)), None);
        assert_eq!(timers.next(), None);
    }

    #[test]
    fn each_timer_has_its_own_place() {
        for (index, timer) in Timer::ALL.into_iter().enumerate() {
            assert_eq!(timer as usize, index);
        }
    }
}
