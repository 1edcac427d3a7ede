//! What is known about models: a data file, the user's settings on top, and a cautious guess for the rest.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::Value;

use super::{ModelInfo, Price, ThinkingStyle};
use crate::config::Protocol;
use crate::protocol::ModelId;

/// Assumed window of an unknown model, in tokens.
pub const DEFAULT_WINDOW: u64 = 128_000;

/// Assumed output limit of an unknown model, in tokens.
pub const DEFAULT_MAX_OUTPUT: u32 = 8192;

/// Read at the first look-up, since not every run asks a model.
static BUILT_IN: LazyLock<File> =
    LazyLock::new(|| serde_json::from_str(include_str!("catalog.json")).unwrap_or_default());

/// The known models.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    own: BTreeMap<String, Entry>,
}

/// A model that a short name stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alias {
    /// The model's name at its service.
    pub model: String,
    /// The protocol of the service that has it; `None` where only the user knows.
    pub protocol: Option<Protocol>,
}

#[derive(Debug, Default, Deserialize)]
struct File {
    models: BTreeMap<String, Entry>,
    aliases: BTreeMap<String, BuiltInAlias>,
}

#[derive(Debug, Deserialize)]
struct BuiltInAlias {
    model: String,
    protocol: ProtocolName,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ProtocolName {
    Anthropic,
    OpenAi,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    window: Option<u64>,
    max_output: Option<u32>,
    thinking: Option<ThinkingName>,
    images: Option<bool>,
    price: Option<PriceEntry>,
    alias_of: Option<String>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ThinkingName {
    None,
    Budget,
    Adaptive,
    Effort,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct PriceEntry {
    input: f64,
    output: f64,
    cache_read: Option<f64>,
    cache_write: Option<f64>,
}

impl Catalog {
    /// Takes the `models` object of the user's settings: for each name any of `window`, `max_output` (tokens),
    /// `thinking` (`none`, `budget`, `adaptive`, `effort`), `images`, `price` (US dollars a million tokens:
    /// `input`, `output`, `cache_read`, `cache_write`) and `alias_of`. An error names the entry.
    pub fn with_overrides(settings: &Value) -> Result<Self, String> {
        let entries = match settings {
            Value::Null => return Ok(Self::default()),
            Value::Object(entries) => entries,
            other => return Err(format!("models: an object is needed, not {other}")),
        };
        let mut own = BTreeMap::new();
        for (name, value) in entries {
            let entry = Entry::deserialize(value).map_err(|error| format!("models.{name}: {error}"))?;
            if entry.window.is_some_and(|window| window < 1024) {
                return Err(format!("models.{name}: window must be at least 1024 tokens"));
            }
            if entry.max_output == Some(0) {
                return Err(format!("models.{name}: max_output must be at least 1 token"));
            }
            own.insert(folded(name), entry);
        }
        Ok(Self { own })
    }

    /// What is known about a model, by the longest known beginning of its name; a vendor before a slash and the
    /// difference between `.` and `-` do not matter. The id says `catalog`; whoever connects puts the provider in.
    #[must_use]
    pub fn lookup(&self, name: &str) -> ModelInfo {
        let mut info = ModelInfo {
            id: ModelId::new("catalog", name),
            name: name.to_owned(),
            window: DEFAULT_WINDOW,
            max_output: DEFAULT_MAX_OUTPUT,
            thinking: ThinkingStyle::None,
            images: false,
            price: None,
            known: false,
        };
        if let Some(entry) = longest(&BUILT_IN.models, name) {
            entry.apply(&mut info);
        }
        if let Some(entry) = longest(&self.own, name) {
            entry.apply(&mut info);
        }
        info.max_output = info.max_output.min(u32::try_from(info.window).unwrap_or(u32::MAX));
        info
    }

    /// The model behind a short name, or `None` if it is no alias.
    #[must_use]
    pub fn resolve_alias(&self, name: &str) -> Option<Alias> {
        let own = self.own.get(&folded(name)).and_then(|entry| entry.alias_of.as_ref());
        match own {
            // An alias may stand for another, but only for a built-in one, so that there is no circle.
            Some(target) => Some(
                built_in_alias(target).unwrap_or_else(|| Alias { model: target.clone(), protocol: None }),
            ),
            None => built_in_alias(name),
        }
    }
}

impl Entry {
    fn apply(&self, info: &mut ModelInfo) {
        info.known = true;
        info.window = self.window.unwrap_or(info.window);
        info.max_output = self.max_output.unwrap_or(info.max_output);
        info.images = self.images.unwrap_or(info.images);
        info.thinking = match self.thinking {
            None => info.thinking,
            Some(ThinkingName::None) => ThinkingStyle::None,
            Some(ThinkingName::Budget) => ThinkingStyle::Budget,
            Some(ThinkingName::Adaptive) => ThinkingStyle::Adaptive,
            Some(ThinkingName::Effort) => ThinkingStyle::Effort,
        };
        if let Some(price) = self.price {
            info.price = Some(Price {
                input: price.input,
                output: price.output,
                cache_read: price.cache_read.unwrap_or(price.input),
                cache_write: price.cache_write.unwrap_or(price.input),
            });
        }
    }
}

fn built_in_alias(name: &str) -> Option<Alias> {
    let alias = BUILT_IN.aliases.get(name.to_ascii_lowercase().as_str())?;
    let protocol = match alias.protocol {
        ProtocolName::Anthropic => Protocol::Anthropic,
        ProtocolName::OpenAi => Protocol::OpenAi,
    };
    Some(Alias { model: alias.model.clone(), protocol: Some(protocol) })
}

fn folded(name: &str) -> String {
    name.to_ascii_lowercase().replace('.', "-")
}

fn longest<'a>(entries: &'a BTreeMap<String, Entry>, name: &str) -> Option<&'a Entry> {
    let whole = folded(name);
    let find = |name: &str| {
        entries
            .iter()
            .filter(|(known, _)| name.starts_with(known.as_str()))
            .max_by_key(|(known, _)| known.len())
    };
    let (_, entry) = find(&whole).or_else(|| find(whole.rsplit_once('/')?.1))?;
    Some(entry)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_data_file_is_sound() {
        let file: File = serde_json::from_str(include_str!("catalog.json")).unwrap();
        for (name, entry) in &file.models {
            assert_eq!(*name, folded(name), "names are stored folded");
            assert!(entry.window.is_some() && entry.max_output.is_some() && entry.images.is_some(), "{name}");
            assert!(entry.thinking.is_some() && entry.alias_of.is_none(), "{name}");
        }
        for (name, alias) in &file.aliases {
            assert!(longest(&file.models, &alias.model).is_some(), "{name}");
            assert!(!file.aliases.contains_key(&alias.model), "{name}");
        }
    }

    #[test]
    fn names_by_table() {
        let catalog = Catalog::default();
        for (name, window, max_output, thinking, known) in [
            ("claude-sonnet-4-5", 200_000, 64_000, ThinkingStyle::Budget, true),
            ("claude-sonnet-4-5-20250929", 200_000, 64_000, ThinkingStyle::Budget, true),
            ("anthropic/claude-sonnet-4.5", 200_000, 64_000, ThinkingStyle::Budget, true),
            ("claude-opus-4-6", 1_000_000, 128_000, ThinkingStyle::Adaptive, true),
            ("gpt-4o-mini-2024", 128_000, 16_384, ThinkingStyle::None, true),
            ("gpt-4.1-nano", 1_047_576, 32_768, ThinkingStyle::None, true),
            ("GPT-5-mini", 400_000, 128_000, ThinkingStyle::Effort, true),
            ("qwen3-coder:30b", 262_144, 65_536, ThinkingStyle::None, true),
            ("mock-1", DEFAULT_WINDOW, DEFAULT_MAX_OUTPUT, ThinkingStyle::None, false),
            ("", DEFAULT_WINDOW, DEFAULT_MAX_OUTPUT, ThinkingStyle::None, false),
        ] {
            let info = catalog.lookup(name);
            assert_eq!(
                (info.window, info.max_output, info.thinking, info.known),
                (window, max_output, thinking, known),
                "{name}"
            );
            assert_eq!(info.name, name);
        }
    }

    #[test]
    fn settings_go_over_the_file() {
        let catalog = Catalog::with_overrides(&json!({
            "claude-sonnet-4-5": {"window": 8000},
            "house": {"window": 4096, "thinking": "effort", "images": true, "price": {"input": 1, "output": 2}},
            "best": {"alias_of": "opus"},
            "mine": {"alias_of": "house"},
        }))
        .unwrap();
        let sonnet = catalog.lookup("claude-sonnet-4-5");
        assert_eq!((sonnet.window, sonnet.max_output, sonnet.images), (8000, 8000, true));
        let house = catalog.lookup("house");
        assert_eq!((house.window, house.max_output, house.known), (4096, 4096, true));
        assert_eq!(house.price, Some(Price { input: 1.0, output: 2.0, cache_read: 1.0, cache_write: 1.0 }));
        assert_eq!(catalog.resolve_alias("best"), catalog.resolve_alias("opus"));
        assert_eq!(catalog.resolve_alias("mine"), Some(Alias { model: "house".to_owned(), protocol: None }));
        assert_eq!(catalog.resolve_alias("house"), None);
        assert_eq!(
            catalog.resolve_alias("deepseek").and_then(|alias| alias.protocol),
            Some(Protocol::OpenAi)
        );
    }

    #[test]
    fn an_error_in_the_settings_names_the_entry() {
        for (settings, want) in [
            (json!([1]), "models: an object is needed"),
            (json!({"x": {"windw": 1}}), "models.x: unknown field `windw`"),
            (json!({"x": {"window": "big"}}), "models.x: invalid type"),
            (json!({"x": {"window": 10}}), "models.x: window must be at least"),
            (json!({"x": {"thinking": "hard"}}), "models.x: unknown variant `hard`"),
            (json!({"x": {"price": {"input": 1}}}), "models.x: missing field `output`"),
        ] {
            let error = Catalog::with_overrides(&settings).unwrap_err();
            assert!(error.starts_with(want), "{error}");
        }
    }
}
