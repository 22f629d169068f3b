//! When a checkpoint is due. Pure.

use std::time::Duration;

/// The longest that new events wait for a checkpoint while the recording is small.
pub const SMALL_WITHIN: Duration = Duration::from_secs(10);
/// Up to here a recording counts as small: it costs little to save it whole each time.
pub const SMALL: u64 = 64 * 1024;
/// Two checkpoints are never closer than this, however fast the recording grows.
pub const APART: Duration = Duration::from_secs(1);

/// Whether a recording of `len_now` bytes, whose newest saved version holds `len_saved`, should
/// be saved now.
///
/// While it is small: 10 s after new events. Then each time it has grown by half, so that the
/// versions form a geometric row whose sum stays within three times the final size (beside what
/// the small ones cost: at most 64 KiB each 10 s). How long the rest may wait is the sweep's
/// rule of 60 s; a folder on the same disk as the spool needs no smaller pieces between.
pub fn checkpoint_due(len_now: u64, len_saved: u64, since_last_save: Duration) -> bool {
    let due_at = checkpoint_due_after(len_now, len_saved);
    due_at.is_some_and(|after| since_last_save >= after)
}

/// After how long since the last save one is due; `None` while only growth makes it due.
pub fn checkpoint_due_after(len_now: u64, len_saved: u64) -> Option<Duration> {
    if len_now <= len_saved {
        None
    } else if len_now <= SMALL {
        Some(SMALL_WITHIN)
    } else if len_now - len_saved >= len_saved / 2 {
        Some(APART)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1024;

    #[track_caller]
    fn check(now: u64, saved: u64, seconds: u64, due: bool) {
        assert_eq!(
            checkpoint_due(now, saved, Duration::from_secs(seconds)),
            due
        );
    }

    #[test]
    fn nothing_new_is_never_saved() {
        check(KIB, KIB, 3600, false);
    }

    #[test]
    fn a_small_recording_is_saved_after_ten_seconds() {
        check(2 * KIB, KIB, 10, true);
        check(2 * KIB, KIB, 9, false);
    }

    #[test]
    fn a_large_one_is_saved_when_it_has_grown_by_half() {
        check(150 * KIB, 100 * KIB, 1, true);
        check(149 * KIB, 100 * KIB, 3600, false);
    }

    #[test]
    fn a_fast_one_is_not_saved_more_than_once_a_second() {
        check(1024 * KIB, 100 * KIB, 0, false);
    }

    #[test]
    fn what_is_uploaded_stays_within_three_times_the_final_size() {
        for step in [KIB, 10 * KIB, 100 * KIB, 1000 * KIB] {
            let (mut len, mut saved, mut uploaded, mut since) = (0, 0, 0, 0);
            for _ in 0..3600 {
                len += step;
                since += 1;
                if checkpoint_due(len, saved, Duration::from_secs(since)) {
                    (saved, since) = (len, 0);
                    uploaded += len;
                }
            }
            let small_ones = SMALL * 64;
            assert!(
                uploaded + len <= 4 * len + small_ones,
                "{step}: {uploaded} of {len}"
            );
            assert!(
                uploaded <= 3 * len + small_ones,
                "{step}: {uploaded} of {len}"
            );
        }
    }
}
