//! The one adapter from typed tools to [`Tool`]: JSON is parsed once, at the door.

use std::fmt::Debug;

use async_trait::async_trait;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Tool, ToolCx, ToolError, ToolOutput, Workspace};
use crate::protocol::{Access, ToolSpec};

/// A tool with a typed input.
#[async_trait]
pub trait TypedTool: Send + Sync + Debug + 'static {
    /// The input; doc comments on its fields become the schema's descriptions.
    type Input: DeserializeOwned + JsonSchema + Send + Sync;

    /// The name the model calls.
    const NAME: &'static str;

    /// What the model is told of it.
    const DESCRIPTION: &'static str;

    /// What this call would touch.
    fn access(&self, input: &Self::Input, workspace: &Workspace) -> Result<Access, ToolError>;

    /// Does it.
    async fn run(&self, input: Self::Input, cx: ToolCx<'_>) -> Result<ToolOutput, ToolError>;
}

/// A [`TypedTool`] as a [`Tool`].
#[derive(Debug)]
pub struct Typed<T> {
    tool: T,
    spec: ToolSpec,
}

impl<T: TypedTool> Typed<T> {
    /// Wraps a tool and makes its schema.
    pub fn new(tool: T) -> Self {
        let spec = ToolSpec {
            name: T::NAME.to_owned(),
            description: T::DESCRIPTION.trim().to_owned(),
            input_schema: schema::<T::Input>(),
        };
        Self { tool, spec }
    }
}

#[async_trait]
impl<T: TypedTool> Tool for Typed<T> {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self, input: &Value, workspace: &Workspace) -> Result<Access, ToolError> {
        self.tool.access(&parse(input.clone())?, workspace)
    }

    async fn run(&self, input: Value, cx: ToolCx<'_>) -> Result<ToolOutput, ToolError> {
        self.tool.run(parse(input)?, cx).await
    }
}

fn parse<T: DeserializeOwned>(input: Value) -> Result<T, ToolError> {
    serde_json::from_value(input).map_err(|error| ToolError::InvalidInput(error.to_string()))
}

/// The schema without the parts that only cost tokens.
fn schema<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|s| {
        s.inline_subschemas = true;
        s.meta_schema = None;
    });
    let mut value = settings.into_generator().into_root_schema_for::<T>().to_value();
    strip(&mut value);
    value
}

fn strip(value: &mut Value) {
    match value {
        Value::Object(map) => {
            // "title" and "format" as schema keywords hold strings; as property names they hold objects.
            for key in ["title", "format", "$schema"] {
                if map.get(key).is_some_and(Value::is_string) {
                    map.remove(key);
                }
            }
            // An optional field may be left out; telling the model that it may be null as well costs tokens.
            if let Some(Value::Array(kinds)) = map.get_mut("type") {
                kinds.retain(|kind| kind != "null");
                if let [only] = kinds.as_slice() {
                    let only = only.clone();
                    map.insert("type".to_owned(), only);
                }
            }
            if map.get("default").is_some_and(Value::is_null) {
                map.remove("default");
            }
            map.values_mut().for_each(strip);
        }
        Value::Array(items) => items.iter_mut().for_each(strip),
        _ => {}
    }
}
