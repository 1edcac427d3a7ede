//! Sums of money in whole cents, so that nothing is lost to rounding.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, Mul, Sub};
use std::str::FromStr;

/// A sum of money, kept in cents.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Money(u64);

/// The text is not a sum such as `3`, `0.5` or `12.95`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MoneyError(String);

impl Money {
    pub fn from_cents(cents: u64) -> Self {
        Money(cents)
    }

    pub fn cents(self) -> u64 {
        self.0
    }
}

impl Add for Money {
    type Output = Money;

    fn add(self, other: Money) -> Money {
        Money(self.0 + other.0)
    }
}

/// Stops at zero: nobody is owed money by a receipt.
impl Sub for Money {
    type Output = Money;

    fn sub(self, other: Money) -> Money {
        Money(self.0.saturating_sub(other.0))
    }
}

impl Mul<u64> for Money {
    type Output = Money;

    fn mul(self, times: u64) -> Money {
        Money(self.0 * times)
    }
}

impl Sum for Money {
    fn sum<I: Iterator<Item = Money>>(sums: I) -> Money {
        sums.fold(Money::default(), Add::add)
    }
}

impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}.{:02}", self.0 / 100, self.0 % 100))
    }
}

impl FromStr for Money {
    type Err = MoneyError;

    fn from_str(text: &str) -> Result<Self, MoneyError> {
        let error = || MoneyError(text.to_string());
        let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
        let all_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if !all_digits(whole) || !all_digits(fraction) {
            return Err(error());
        }
        let whole: u64 = whole.parse().map_err(|_| error())?;
        let digits: u64 = fraction.parse().map_err(|_| error())?;
        let cents = match fraction.len() {
            1 => digits * 10,
            2 => digits,
            _ => return Err(error()),
        };
        let hundreds = whole.checked_mul(100).ok_or_else(error)?;
        hundreds.checked_add(cents).map(Money).ok_or_else(error)
    }
}

impl fmt::Display for MoneyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not a sum of money such as 12.95", self.0)
    }
}

impl std::error::Error for MoneyError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_sums_with_and_without_cents() {
        for (text, cents) in [("3", 300), ("0.5", 50), ("12.95", 1295)] {
            assert_eq!(text.parse(), Ok(Money::from_cents(cents)), "{text}");
        }
    }

    #[test]
    fn rejects_what_is_no_sum() {
        for text in ["", "free", "1.", "1.234", "-2", "+2", "1,50"] {
            assert!(text.parse::<Money>().is_err(), "{text}");
        }
    }

    #[test]
    fn prints_two_places() {
        assert_eq!(Money::from_cents(1205).to_string(), "12.05");
        assert_eq!(format!("{:>6}", Money::from_cents(7)), "  0.07");
    }
}
