//! Whether and when a failed model call is made again: pure policy, no clock.

use std::time::Duration;

use super::{Failure, ProviderError};
use crate::config::Retry;

/// Further attempts when nobody answers at the address: a server that is not there rarely comes up in time.
const UNREACHABLE_TRIES: u32 = 3;

/// A stated `retry-after` is overstepped by at most this much.
const PAST_RETRY_AFTER: Duration = Duration::from_millis(1500);

/// How much longer than its due a wait may be, to keep many clients from coming at once.
const JITTER: f64 = 0.25;

/// The wait before the next attempt, or `None` if there must be none.
///
/// `attempts` were made so far, at least 1. `jitter` lies in 0..1. The wait doubles with each attempt and is never
/// shorter than what the service asked for, nor more than 2 s longer than that.
#[must_use]
pub fn next_wait(policy: &Retry, error: &ProviderError, attempts: u32, jitter: f64) -> Option<Duration> {
    let (tries, retry_after) = match error.kind {
        Failure::Transient { retry_after } => (policy.max, retry_after),
        Failure::Cut => (policy.max, None),
        Failure::Unreachable => (policy.max.min(UNREACHABLE_TRIES), None),
        Failure::ContextOverflow
        | Failure::Auth
        | Failure::Quota
        | Failure::NotFound
        | Failure::Invalid
        | Failure::NoModel => return None,
    };
    if attempts > tries || retry_after.is_some_and(|wait| wait > policy.max_server_wait) {
        return None;
    }
    let doublings = attempts.saturating_sub(1).min(20);
    let due = policy.base.saturating_mul(1 << doublings).min(policy.cap);
    // An hour bounds the factor's input, since a cap from the settings may be as large as a `Duration` gets.
    let late = due.min(Duration::from_hours(1)).mul_f64(JITTER * jitter.clamp(0.0, 1.0));
    let wait = due.saturating_add(late).min(policy.cap);
    Some(match retry_after {
        None => wait,
        Some(asked) => wait.clamp(asked, asked.saturating_add(PAST_RETRY_AFTER)),
    })
}

/// The error as the user sees it when [`next_wait`] gave none: says how often it was tried, and a wait too long.
#[must_use]
pub fn given_up(policy: &Retry, mut error: ProviderError, attempts: u32) -> ProviderError {
    if let Failure::Transient { retry_after: Some(wait) } = error.kind
        && wait > policy.max_server_wait
    {
        error.message = format!(
            "{} (the service asks to wait {}, longer than the {} that are waited for)",
            error.message,
            spoken(wait),
            spoken(policy.max_server_wait)
        );
    } else if attempts > 1 {
        error.message = format!("{} (after {attempts} attempts)", error.message);
    }
    error
}

/// A time span in words, rounded to its largest fitting unit: `12 days`, `90 s`, `1.5 s`.
#[must_use]
pub fn spoken(span: Duration) -> String {
    let seconds = span.as_secs();
    match seconds {
        0..=9 if span.subsec_millis() > 0 => format!("{:.1} s", span.as_secs_f64()),
        0..=119 => format!("{seconds} s"),
        120..=7199 => format!("{} minutes", seconds.div_ceil(60)),
        7200..=172_799 => format!("{} hours", seconds.div_ceil(3600)),
        _ => format!("{} days", seconds.div_ceil(86_400)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transient(retry_after_ms: Option<u64>) -> ProviderError {
        let retry_after = retry_after_ms.map(Duration::from_millis);
        ProviderError::new(Failure::Transient { retry_after }, "busy")
    }

    #[test]
    fn waits_by_table() {
        let policy = Retry::default();
        let ms = |error: &ProviderError, attempts, jitter| {
            next_wait(&policy, error, attempts, jitter).map(|wait| u64::try_from(wait.as_millis()).unwrap())
        };
        let cut = ProviderError::new(Failure::Cut, "cut");
        let nobody = ProviderError::new(Failure::Unreachable, "nobody");
        for (error, attempts, jitter, want) in [
            (&transient(None), 1, 0.0, Some(500)),
            (&transient(None), 1, 1.0, Some(625)),
            (&transient(None), 2, 0.0, Some(1000)),
            (&transient(None), 6, 0.0, Some(16_000)),
            (&transient(None), 10, 1.0, Some(30_000)),
            (&transient(None), 11, 0.0, None),
            (&transient(Some(2000)), 1, 0.0, Some(2000)),
            (&transient(Some(2000)), 8, 1.0, Some(3500)),
            (&transient(Some(0)), 1, 0.0, Some(500)),
            (&transient(Some(90_000)), 1, 1.0, Some(90_000)),
            (&transient(Some(90_001)), 1, 0.0, None),
            (&cut, 1, 0.0, Some(500)),
            (&cut, 11, 0.0, None),
            (&nobody, 3, 0.0, Some(2000)),
            (&nobody, 4, 0.0, None),
            (&ProviderError::new(Failure::Quota, ""), 1, 0.0, None),
            (&ProviderError::new(Failure::Auth, ""), 1, 0.0, None),
            (&ProviderError::new(Failure::NotFound, ""), 1, 0.0, None),
            (&ProviderError::new(Failure::Invalid, ""), 1, 0.0, None),
            (&ProviderError::new(Failure::ContextOverflow, ""), 1, 0.0, None),
            (&ProviderError::new(Failure::NoModel, ""), 1, 0.0, None),
        ] {
            assert_eq!(
                ms(error, attempts, jitter),
                want,
                "{:?} after {attempts}, jitter {jitter}",
                error.kind
            );
        }
    }

    #[test]
    fn gaps_grow_until_the_cap_whatever_the_jitter() {
        let policy = Retry::default();
        for attempts in 1..6 {
            let longest = next_wait(&policy, &transient(None), attempts, 1.0);
            assert!(longest < next_wait(&policy, &transient(None), attempts + 1, 0.0));
        }
    }

    #[test]
    fn o_loop_06_a_quota_of_days_ends_with_the_time_in_the_message() {
        let policy = Retry::default();
        let error = transient(Some(1_036_800_000));
        assert_eq!(next_wait(&policy, &error, 1, 0.5), None);
        assert_eq!(
            given_up(&policy, error, 1).message,
            "busy (the service asks to wait 12 days, longer than the 90 s that are waited for)"
        );
        assert_eq!(given_up(&policy, transient(None), 11).message, "busy (after 11 attempts)");
        assert_eq!(given_up(&policy, transient(None), 1).message, "busy");
    }
}
