//! A field that should be text and may be anything: servers differ, and no shape may end a stream.

use std::borrow::Cow;
use std::fmt;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

/// Text, borrowed where it can be, or whatever came instead.
#[derive(Debug, Default, PartialEq)]
pub(super) enum Loose<'a> {
    /// Missing or null.
    #[default]
    Absent,
    Text(Cow<'a, str>),
    Other(Value),
}

impl<'a> Loose<'a> {
    /// The text, or `None` if it is absent, empty or no text.
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) if !text.is_empty() => Some(text),
            Self::Text(_) | Self::Absent | Self::Other(_) => None,
        }
    }

    /// The text, or JSON text of what came instead; `None` if absent or empty.
    pub(super) fn into_json(self) -> Option<Cow<'a, str>> {
        match self {
            Self::Absent => None,
            Self::Text(text) => Some(text).filter(|text| !text.is_empty()),
            Self::Other(value) => Some(Cow::Owned(value.to_string())),
        }
    }

    /// What a reader is meant to see: the text, or the text parts of a list.
    pub(super) fn into_prose(self) -> Option<Cow<'a, str>> {
        match self {
            Self::Text(text) => Some(text).filter(|text| !text.is_empty()),
            Self::Other(Value::Array(parts)) => {
                let text: String =
                    parts.iter().filter_map(|part| part.get("text").unwrap_or(part).as_str()).collect();
                (!text.is_empty()).then_some(Cow::Owned(text))
            }
            Self::Absent | Self::Other(_) => None,
        }
    }

    /// A number, also one written as text.
    pub(super) fn number(&self) -> Option<u64> {
        match self {
            Self::Absent => None,
            Self::Text(text) => text.parse().ok(),
            Self::Other(value) => value.as_u64(),
        }
    }

    /// A label: text without blanks around it, or a number; `None` if there is nothing in it.
    pub(super) fn label(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::Text(text) => Some(Cow::Borrowed(text.trim())).filter(|text| !text.is_empty()),
            Self::Other(Value::Number(number)) => Some(Cow::Owned(number.to_string())),
            Self::Absent | Self::Other(_) => None,
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Loose<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;

        impl<'de> Visitor<'de> for Any {
            type Value = Loose<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("anything")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Loose::Text(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Loose::Text(Cow::Owned(text.to_owned())))
            }

            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(Loose::Absent)
            }

            fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
                Ok(Loose::Other(Value::from(value)))
            }

            fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
                Ok(Loose::Other(Value::from(value)))
            }

            fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
                Ok(Loose::Other(Value::from(value)))
            }

            fn visit_f64<E>(self, value: f64) -> Result<Self::Value, E> {
                Ok(Loose::Other(Value::from(value)))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
                Value::deserialize(SeqAccessDeserializer::new(list)).map(Loose::Other)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                Value::deserialize(MapAccessDeserializer::new(map)).map(Loose::Other)
            }
        }

        deserializer.deserialize_any(Any)
    }
}
