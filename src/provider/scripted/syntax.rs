//! Reads a script's file: JSON with comments, and the line of a field that is wrong.

use std::path::Path;

use jsonc_parser::ast::Value as Node;
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast, parse_to_serde_value};
use serde_json::Value;

use super::script::{self, Script, ScriptError};

/// Comments and a comma too many are allowed, nothing else beyond JSON.
const OPTIONS: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_loose_object_property_names: false,
    allow_trailing_commas: true,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

pub(super) fn read(path: &Path) -> Result<Script, ScriptError> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| ScriptError::Unreadable { path: path.to_owned(), source })?;
    let value: Value = parse_to_serde_value(&text, &OPTIONS).map_err(|error| ScriptError::Syntax {
        path: path.to_owned(),
        line: error.line_display(),
        column: error.column_display(),
        problem: error.kind().to_string(),
    })?;
    script::read(&value).map_err(|error| match error {
        ScriptError::Field { field, problem, .. } => {
            let place = format!("{}:{}: ", path.display(), line(&text, &field));
            ScriptError::Field { place, field, problem }
        }
        other @ (ScriptError::Unreadable { .. } | ScriptError::Syntax { .. }) => other,
    })
}

/// The line of a field such as `turns[2].tools[0].name`, from 1; of what is nearest where it is not there.
fn line(text: &str, field: &str) -> usize {
    let parsed = parse_to_ast(text, &CollectOptions::default(), &OPTIONS);
    let root = parsed.ok().and_then(|parsed| parsed.value);
    let start = root.map_or(0, |root| start(&root, field));
    text.get(..start).map_or(1, |before| before.matches('\n').count() + 1)
}

/// The byte where the field begins.
fn start(root: &Node<'_>, field: &str) -> usize {
    let mut node = root;
    let mut at = node.range().start;
    for part in field.split(['.', '[']) {
        match (node, part.strip_suffix(']')) {
            (Node::Array(list), Some(place)) => {
                let Some(element) = place.parse().ok().and_then(|place: usize| list.elements.get(place))
                else {
                    break;
                };
                node = element;
                at = node.range().start;
            }
            (Node::Object(object), None) => {
                let Some(property) = object.properties.iter().find(|p| p.name.as_str() == part) else {
                    break;
                };
                node = &property.value;
                at = property.range.start;
            }
            // A script that is the list alone has no key `turns`.
            (Node::Array(_), None) if part == "turns" => {}
            _ => break,
        }
    }
    at
}
