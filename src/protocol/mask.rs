//! Hides keys wherever text enters or leaves.

use std::fmt;
use std::sync::{Arc, RwLock};

/// Values that must never be seen: keys, and whatever else was declared secret.
///
/// Clones share the list, so a key that enters late is masked everywhere from then on.
#[derive(Clone, Default)]
pub struct Mask(Arc<RwLock<Vec<String>>>);

/// Shorter values are too common in ordinary text to be blotted out.
const SHORTEST_SECRET: usize = 8;

impl Mask {
    /// Adds a value.
    pub fn add(&self, secret: &str) {
        let secret = secret.trim();
        if secret.len() < SHORTEST_SECRET {
            return;
        }
        let mut list = self.0.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        if !list.iter().any(|s| s == secret) {
            list.push(secret.to_owned());
            // The longest first: a key that contains another must go as a whole.
            list.sort_by_key(|s| std::cmp::Reverse(s.len()));
        }
    }

    /// The text without secrets, or `None` if it holds none.
    #[must_use]
    pub fn masked(&self, text: &str) -> Option<String> {
        let list = self.0.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        if !list.iter().any(|secret| text.contains(secret.as_str())) {
            return None;
        }
        Some(list.iter().fold(text.to_owned(), |text, secret| text.replace(secret.as_str(), "***")))
    }

    /// Takes secrets out of a text in place.
    pub fn apply(&self, text: &mut String) {
        if let Some(clean) = self.masked(text) {
            *text = clean;
        }
    }
}

impl fmt::Debug for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mask(***)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_hides_whole_secrets_only() {
        let mask = Mask::default();
        mask.add("sk-secret-1");
        mask.add("sk-secret-1-long");
        mask.add("short");
        assert_eq!(mask.masked("key sk-secret-1-long end").as_deref(), Some("key *** end"));
        assert_eq!(mask.masked("a short text"), None);
        assert_eq!(format!("{mask:?}"), "Mask(***)");
    }
}
