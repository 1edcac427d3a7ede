//! Requests of the Messages API, compared as JSON.

use std::sync::Arc;

use serde_json::{Value, json};

use super::encode::{Body, Carry};
use crate::config::Effort;
use crate::protocol::{Block, Message, ModelId, ToolSpec};
use crate::provider::testing::{assistant, info, user};
use crate::provider::{ModelInfo, Request};

fn encoded(info: &ModelInfo, messages: &[Arc<Message>], effort: Option<Effort>) -> Value {
    let request = Request { system: "sys", tools: &[], messages, max_output: 8192, effort };
    serde_json::from_slice(&Body::new(info, request, Carry::Thinking).unwrap().bytes).unwrap()
}

fn call(id: &str) -> Block {
    Block::ToolUse { id: id.to_owned(), name: "Read".to_owned(), input: json!({"a": "é"}) }
}

fn result(id: &str, content: Vec<Block>, is_error: bool) -> Block {
    Block::ToolResult { tool_use_id: id.to_owned(), content, is_error }
}

fn thinking(signature: Option<&str>) -> Block {
    Block::Thinking { thinking: "hm".to_owned(), signature: signature.map(str::to_owned) }
}

fn picture() -> Block {
    Block::Image { media_type: "image/png".to_owned(), data: "AAAA".to_owned() }
}

#[test]
fn a_whole_request() {
    let info = info("anthropic", "claude-sonnet-4-5");
    let redacted = json!({"type": "redacted_thinking", "data": "xyz"});
    let messages = [
        user(vec![Block::text("first")]),
        assistant(
            &info.id,
            vec![
                thinking(Some("sig")),
                Block::Other(redacted.clone()),
                Block::text("Looking."),
                call("t1"),
                call("t2"),
            ],
        ),
        user(vec![
            result("t1", vec![Block::text("out"), picture()], false),
            result("t2", vec![Block::text("bad")], true),
            Block::text("and this"),
        ]),
    ];
    let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    let tools = ["Read", "Write"].map(|name| ToolSpec {
        name: name.to_owned(),
        description: "d".to_owned(),
        input_schema: schema.clone(),
    });
    let request = Request {
        system: "sys",
        tools: &tools,
        messages: &messages,
        max_output: 8192,
        effort: Some(Effort::Low),
    };
    let body = Body::new(&info, request, Carry::Thinking).unwrap();
    let mark = json!({"type": "ephemeral"});
    assert_eq!(
        serde_json::from_slice::<Value>(&body.bytes).unwrap(),
        json!({
            "model": "claude-sonnet-4-5",
            "max_tokens": 12288,
            "stream": true,
            "system": [{"type": "text", "text": "sys", "cache_control": mark}],
            "tools": [
                {"name": "Read", "description": "d", "input_schema": schema},
                {"name": "Write", "description": "d", "input_schema": schema, "cache_control": mark},
            ],
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "first", "cache_control": mark}]},
                {"role": "assistant", "content": [
                    {"type": "thinking", "thinking": "hm", "signature": "sig"},
                    redacted,
                    {"type": "text", "text": "Looking."},
                    {"type": "tool_use", "id": "t1", "name": "Read", "input": {"a": "é"}},
                    {"type": "tool_use", "id": "t2", "name": "Read", "input": {"a": "é"}},
                ]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "t1", "content": [
                        {"type": "text", "text": "out"},
                        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
                    ]},
                    {"type": "tool_result", "tool_use_id": "t2", "is_error": true,
                        "content": [{"type": "text", "text": "bad"}]},
                    {"type": "text", "text": "and this", "cache_control": mark},
                ]},
            ],
            "thinking": {"type": "enabled", "budget_tokens": 4096},
        })
    );
}

/// What follows the prompt, written by the model of this id.
type Tail<'a> = &'a dyn Fn(&ModelId) -> Vec<Arc<Message>>;

/// Model, effort, history; `thinking`, `output_config` and `max_tokens` of the request.
type Case<'a> = (&'a str, Option<Effort>, Tail<'a>, Value, Value, u32);

#[test]
fn thinking_by_style_effort_and_open_round() {
    let plain = |id: &ModelId| {
        vec![assistant(id, vec![call("t")]), user(vec![result("t", vec![Block::text("x")], false)])]
    };
    let thought = |id: &ModelId| {
        vec![
            assistant(id, vec![thinking(Some("s")), call("t")]),
            user(vec![result("t", vec![Block::text("x")], false)]),
        ]
    };
    let none = |_: &ModelId| Vec::new();
    let cases: [Case<'_>; 11] = [
        ("claude-sonnet-4-5", None, &none, Value::Null, Value::Null, 8192),
        ("claude-sonnet-4-5", Some(Effort::None), &none, Value::Null, Value::Null, 8192),
        (
            "claude-sonnet-4-5",
            Some(Effort::Max),
            &none,
            json!({"type": "enabled", "budget_tokens": 43008}),
            Value::Null,
            57344,
        ),
        ("claude-sonnet-4-5", Some(Effort::High), &plain, Value::Null, Value::Null, 8192),
        (
            "claude-sonnet-4-5",
            None,
            &thought,
            json!({"type": "enabled", "budget_tokens": 1024}),
            Value::Null,
            9216,
        ),
        ("claude-opus-4-6", None, &none, Value::Null, Value::Null, 8192),
        (
            "claude-opus-4-6",
            Some(Effort::High),
            &plain,
            json!({"type": "adaptive"}),
            json!({"effort": "high"}),
            8192,
        ),
        ("claude-opus-4-6", Some(Effort::None), &none, json!({"type": "disabled"}), Value::Null, 8192),
        ("claude-opus-4-6", Some(Effort::None), &thought, Value::Null, Value::Null, 8192),
        ("claude-3-haiku", Some(Effort::High), &none, Value::Null, Value::Null, 8192),
        ("claude-3-haiku", None, &thought, Value::Null, Value::Null, 8192),
    ];
    for (name, effort, tail, switch, output, max_tokens) in cases {
        let info = info("anthropic", name);
        let mut messages = vec![user(vec![Block::text("go")])];
        messages.extend(tail(&info.id));
        let body = encoded(&info, &messages, effort);
        assert_eq!(
            (&body["thinking"], &body["output_config"], &body["max_tokens"]),
            (&switch, &output, &json!(max_tokens)),
            "{name} {effort:?}"
        );
    }
}

#[test]
fn o_loop_05_no_empty_content_goes_out() {
    let info = info("anthropic", "claude-sonnet-4-5");
    let messages = [
        user(vec![Block::text("go")]),
        assistant(&info.id, vec![thinking(Some("s")), Block::text("")]),
        user(vec![Block::text("again")]),
        assistant(&info.id, vec![call("t")]),
        user(vec![result("t", vec![Block::text("")], false)]),
    ];
    let body = encoded(&info, &messages, None);
    assert_eq!(
        body["messages"][1]["content"],
        json!([{"type": "thinking", "thinking": "hm", "signature": "s"}])
    );
    assert_eq!(
        body["messages"][4]["content"][0]["content"],
        json!([{"type": "text", "text": "(no output)"}])
    );
    let request =
        Request { system: "", tools: &[], messages: &messages, max_output: 100, effort: Some(Effort::High) };
    let plain: Value =
        serde_json::from_slice(&Body::new(&info, request, Carry::NoThinking).unwrap().bytes).unwrap();
    assert!(!plain.to_string().contains("thinking"));
    assert_eq!(plain["messages"].as_array().unwrap().len(), 3, "the two prompts are one message now");
    assert!(plain.get("system").is_none());
}

#[test]
fn what_a_model_cannot_take_is_said_in_words() {
    let mut blind = info("anthropic", "claude-sonnet-4-5");
    blind.images = false;
    let odd = Block::Other(json!({"type": "future_kind"}));
    let messages = [user(vec![picture(), odd, Block::text("go")])];
    let content = encoded(&blind, &messages, None)["messages"][0]["content"].clone();
    let texts: Vec<&str> =
        content.as_array().unwrap().iter().map(|block| block["text"].as_str().unwrap()).collect();
    assert_eq!(
        texts,
        ["(a picture that this model cannot see)", "(content of a kind that cannot be shown here)", "go"]
    );
}
