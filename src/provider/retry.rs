//! placeholder until the branch lands
use super::ProviderError;
use crate::config::Retry;
use std::time::Duration;
pub(crate) fn wait(_: &Retry, _: &ProviderError, _: u32, _: f64) -> Option<Duration> {
    None
}
