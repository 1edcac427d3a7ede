//! Numbers and switches as models write them: `12`, `12.0` and `"12"` are the same.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize};

/// A whole number from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub(super) struct Whole(pub(super) u64);

impl Whole {
    /// As an index; a larger number than memory has stays out of reach all the same.
    pub(super) fn index(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl JsonSchema for Whole {
    fn schema_name() -> Cow<'static, str> {
        "Whole".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "integer"})
    }
}

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(WholeVisitor)
    }
}

struct WholeVisitor;

impl Visitor<'_> for WholeVisitor {
    type Value = Whole;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number from 0")
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Whole, E> {
        Ok(Whole(value))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Whole, E> {
        let unexpected = de::Unexpected::Signed(value);
        u64::try_from(value).map(Whole).map_err(|_| E::invalid_value(unexpected, &self))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Whole, E> {
        if value.fract() == 0.0 && (0.0..1e15).contains(&value) {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "checked just above"
            )]
            return Ok(Whole(value as u64));
        }
        Err(E::invalid_value(de::Unexpected::Float(value), &self))
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Whole, E> {
        value.trim().parse().map(Whole).map_err(|_| E::invalid_value(de::Unexpected::Str(value), &self))
    }
}

/// A switch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub(super) struct Flag(pub(super) bool);

impl JsonSchema for Flag {
    fn schema_name() -> Cow<'static, str> {
        "Flag".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "boolean"})
    }
}

impl<'de> Deserialize<'de> for Flag {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FlagVisitor)
    }
}

struct FlagVisitor;

impl Visitor<'_> for FlagVisitor {
    type Value = Flag;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("true or false")
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Flag, E> {
        Ok(Flag(value))
    }

    fn visit_unit<E: de::Error>(self) -> Result<Flag, E> {
        Ok(Flag(false))
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Flag, E> {
        match value.trim().to_ascii_lowercase().as_str() {
            "true" => Ok(Flag(true)),
            "false" | "" => Ok(Flag(false)),
            _ => Err(E::invalid_value(de::Unexpected::Str(value), &self)),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn o_read_02_odd_numbers_are_taken_or_refused() {
        let check = |value: Value, want: Option<u64>| {
            let parsed = serde_json::from_value::<Whole>(value.clone());
            assert_eq!(parsed.as_ref().ok().map(|whole| whole.0), want, "{value}: {parsed:?}");
        };
        check(json!(12), Some(12));
        check(json!("12"), Some(12));
        check(json!(" 12 "), Some(12));
        check(json!(12.0), Some(12));
        check(json!(0), Some(0));
        check(json!(u64::MAX), Some(u64::MAX));
        for bad in
            [json!(-1), json!("-1"), json!(1.5), json!("twelve"), json!([1]), json!(1e300), json!(true)]
        {
            check(bad, None);
        }
        let error = serde_json::from_value::<Whole>(json!(-1)).unwrap_err();
        assert_eq!(error.to_string(), "invalid value: integer `-1`, expected a whole number from 0");
    }

    #[test]
    fn switches_are_read() {
        let check = |value: Value, want: Option<bool>| {
            assert_eq!(
                serde_json::from_value::<Flag>(value.clone()).ok().map(|flag| flag.0),
                want,
                "{value}"
            );
        };
        check(json!(true), Some(true));
        check(json!("True"), Some(true));
        check(json!("false"), Some(false));
        check(Value::Null, Some(false));
        check(json!(1), None);
    }
}
