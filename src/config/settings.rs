//! One layer of settings, read from a JSON file with comments; errors name file, line and column.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

/// A settings file that cannot be used. It is never overwritten, and nothing runs on a part of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// It is no JSON.
    #[error("{path}:{line}:{column}: {message}; fix the file, it was left as it is", path = path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// From 1, in characters.
        column: usize,
        /// What is wrong.
        message: String,
    },
    /// A value has the wrong form.
    #[error("{path}: {key}: {message}", path = path.display())]
    Value {
        /// The file.
        path: PathBuf,
        /// Which key.
        key: String,
        /// What is wrong.
        message: String,
    },
    /// It cannot be read.
    #[error("{path}: cannot be read: {message}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        message: String,
    },
    /// A flag or a variable has the wrong form.
    #[error("{0}")]
    Usage(String),
    /// A model was named that nothing leads to.
    #[error("{0}")]
    NoModel(String),
}

/// What a settings file may say.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Settings {
    /// Where it was read from.
    pub path: PathBuf,
    values: Map<String, Value>,
    /// Unknown keys and the like.
    pub warnings: Vec<String>,
}

/// All keys, with the form of their values for error messages.
const KEYS: &[(&str, Form)] = &[
    ("model", Form::Text),
    ("effort", Form::Text),
    ("permissionMode", Form::Text),
    ("allowWrite", Form::Bool),
    ("permissions", Form::Object),
    ("anthropic", Form::Object),
    ("openai", Form::Object),
    ("timeouts", Form::Object),
    ("maxRetries", Form::Number),
    ("maxTurns", Form::Number),
    ("caFiles", Form::List),
    ("textToolCalls", Form::Bool),
    ("models", Form::Object),
    ("$schema", Form::Text),
];

/// The keys inside the objects above; what stands under `models` is the catalogue's business.
const INNER: &[(&str, &[&str])] = &[
    ("permissions", &["allow", "deny", "defaultMode"]),
    ("anthropic", &["apiKey", "baseUrl"]),
    ("openai", &["apiKey", "baseUrl"]),
    ("timeouts", &["connect", "headers", "firstEvent", "silence"]),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Text,
    Bool,
    Number,
    Object,
    List,
}

impl Form {
    fn fits(self, value: &Value) -> bool {
        match self {
            Self::Text => value.is_string(),
            Self::Bool => value.is_boolean(),
            Self::Number => value.is_number(),
            Self::Object => value.is_object(),
            Self::List => value.is_array(),
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Text => "a string",
            Self::Bool => "true or false",
            Self::Number => "a number",
            Self::Object => "an object",
            Self::List => "a list",
        }
    }
}

impl Settings {
    /// Reads a file; a missing or empty one has nothing to say.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let bytes = match std::fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Self::empty(path)),
            Err(error) => return Err(ConfigError::Io { path: path.to_owned(), message: error.to_string() }),
        };
        let text = String::from_utf8_lossy(&bytes);
        Self::parse(text.trim_start_matches('\u{feff}'), path)
    }

    fn empty(path: &Path) -> Self {
        Self { path: path.to_owned(), ..Self::default() }
    }

    fn parse(text: &str, path: &Path) -> Result<Self, ConfigError> {
        let parsed =
            jsonc_parser::parse_to_serde_value::<Option<Value>>(text, &options()).map_err(|error| {
                ConfigError::Syntax {
                    path: path.to_owned(),
                    line: error.line_display(),
                    column: error.column_display(),
                    message: error.kind().to_string(),
                }
            })?;
        let values = match parsed {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(values)) => values,
            Some(_) => return Err(value_error(path, "(top level)", "must be an object")),
        };
        let mut settings = Self::empty(path);
        for (key, value) in &values {
            match KEYS.iter().find(|(known, _)| known == key) {
                None => settings.warn(key, near(key, KEYS.iter().map(|(known, _)| *known))),
                Some((_, form)) if !form.fits(value) => {
                    return Err(value_error(path, key, &format!("must be {}", form.word())));
                }
                Some(_) => settings.warn_inside(key, value),
            }
        }
        settings.values = values;
        Ok(settings)
    }

    fn warn_inside(&mut self, outer: &str, value: &Value) {
        let Some((_, known)) = INNER.iter().find(|(name, _)| *name == outer) else { return };
        for key in value.as_object().into_iter().flat_map(Map::keys) {
            if !known.contains(&key.as_str()) {
                let near = near(key, known.iter().copied()).map(|near| format!("{outer}.{near}"));
                self.warn(&format!("{outer}.{key}"), near.as_deref());
            }
        }
    }

    fn warn(&mut self, key: &str, near: Option<&str>) {
        let near = near.map_or_else(String::new, |near| format!("; did you mean {near:?}?"));
        self.warnings.push(format!("{}: unknown key {key:?}{near}", self.path.display()));
    }

    /// A string; an empty one counts as unset. `key` may be `outer.inner`.
    pub(super) fn text(&self, key: &str) -> Result<Option<String>, ConfigError> {
        match self.value(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.trim().to_owned()).filter(|text| !text.is_empty())),
            Some(_) => Err(value_error(&self.path, key, "must be a string")),
        }
    }

    pub(super) fn flag(&self, key: &str) -> Result<Option<bool>, ConfigError> {
        match self.value(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Bool(value)) => Ok(Some(*value)),
            Some(_) => Err(value_error(&self.path, key, "must be true or false")),
        }
    }

    pub(super) fn number(&self, key: &str) -> Result<Option<f64>, ConfigError> {
        match self.value(key) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => match value.as_f64().filter(|n| n.is_finite() && *n >= 0.0) {
                Some(number) => Ok(Some(number)),
                None => Err(value_error(&self.path, key, "must be a number that is not negative")),
            },
        }
    }

    pub(super) fn texts(&self, key: &str) -> Result<Vec<String>, ConfigError> {
        let Some(value) = self.value(key) else { return Ok(Vec::new()) };
        let items =
            value.as_array().ok_or_else(|| value_error(&self.path, key, "must be a list of strings"))?;
        let text = |(n, item): (usize, &Value)| {
            let at = format!("{key}[{n}]");
            item.as_str().map(str::to_owned).ok_or_else(|| value_error(&self.path, &at, "must be a string"))
        };
        items.iter().enumerate().map(text).collect()
    }

    pub(super) fn value(&self, key: &str) -> Option<&Value> {
        match key.split_once('.') {
            None => self.values.get(key),
            Some((outer, inner)) => self.values.get(outer)?.get(inner),
        }
    }
}

/// JSON with comments and trailing commas; anything looser would hide a slip of the hand.
fn options() -> jsonc_parser::ParseOptions {
    jsonc_parser::ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    }
}

pub(super) fn value_error(path: &Path, key: &str, message: &str) -> ConfigError {
    ConfigError::Value { path: path.to_owned(), key: key.to_owned(), message: message.to_owned() }
}

/// The known key that differs least, if it is near at all.
fn near<'a>(key: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let likeness =
        |known: &str| similar::TextDiff::from_chars(key.to_lowercase(), known.to_lowercase()).ratio();
    known
        .map(|known| (known, likeness(known)))
        .filter(|(_, ratio)| *ratio > 0.7)
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .map(|(known, _)| known)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Settings, ConfigError> {
        Settings::parse(text, Path::new("s.json"))
    }

    #[test]
    fn comments_and_trailing_commas_are_fine_and_unknown_keys_warn() {
        let settings =
            parse("{\n // mine\n \"model\": \"m1\", \"permisions\": {\"deny\": []},\n \"futureKey\": {}, \"permissions\": {\"dney\": []},\n}")
                .unwrap();
        assert_eq!(settings.text("model").unwrap().as_deref(), Some("m1"));
        assert_eq!(
            settings.warnings,
            [
                "s.json: unknown key \"permisions\"; did you mean \"permissions\"?",
                "s.json: unknown key \"futureKey\"",
                "s.json: unknown key \"permissions.dney\"; did you mean \"permissions.deny\"?",
            ]
        );
        assert_eq!(parse("").unwrap().warnings, Vec::<String>::new());
    }

    #[test]
    fn errors_name_the_place() {
        let error = parse("{\"a\": 1,\n  \"permissions\": {\"deny\":[").unwrap_err().to_string();
        assert!(error.starts_with("s.json:2:"), "{error}");
        let error = parse("{\"model\": 3}").unwrap_err().to_string();
        assert_eq!(error, "s.json: model: must be a string");
        let settings = parse("{\"permissions\": {\"deny\": \"Bash\"}}").unwrap();
        assert!(settings.texts("permissions.deny").is_err());
    }
}
