//! Replies of Chat Completions: the reported faults by name, and what a real server sent.

use serde_json::{Value, json};

use super::decode::Decoder;
use crate::protocol::{Block, StopReason, ToolSpec, Usage};
use crate::provider::testing::{After, all, bytewise, read, reply, sse};
use crate::provider::text_calls::TextCalls;
use crate::provider::{Failure, ModelEvent, ProviderError};

pub(super) fn decoder() -> Box<Decoder> {
    Box::new(Decoder::new(None))
}

/// A reply in short: what was said, thought and called, the usage and the end.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Seen {
    pub(super) text: String,
    pub(super) thinking: String,
    /// Id, name, arguments, whether it ended.
    pub(super) calls: Vec<(String, String, String, bool)>,
    pub(super) blocks: Vec<Value>,
    pub(super) usage: Option<(u64, u64, u64)>,
    pub(super) stop: Option<StopReason>,
}

pub(super) fn seen(events: Vec<ModelEvent>) -> Seen {
    let mut seen = Seen::default();
    for event in events {
        match event {
            ModelEvent::Text(text) => seen.text.push_str(&text),
            ModelEvent::Thinking(text) => seen.thinking.push_str(&text),
            ModelEvent::ToolStart { key, id, name } => {
                assert_eq!(key, seen.calls.len());
                seen.calls.push((id, name, String::new(), false));
            }
            ModelEvent::ToolArgs { key, json } => seen.calls[key].2.push_str(&json),
            ModelEvent::ToolEnd { key } => seen.calls[key].3 = true,
            ModelEvent::Block(Block::Other(value)) => seen.blocks.push(value),
            ModelEvent::Usage(Usage { input, output, cache_read, cache_write: 0 }) => {
                seen.usage = Some((input, output, cache_read));
            }
            ModelEvent::Stop(reason) => seen.stop = Some(reason),
            other => panic!("{other:?}"),
        }
    }
    seen
}

fn call(id: &str, name: &str, arguments: &str) -> (String, String, String, bool) {
    (id.to_owned(), name.to_owned(), arguments.to_owned(), true)
}

#[expect(clippy::needless_pass_by_value, reason = "literals read better without a borrow")]
fn delta(delta: Value) -> Value {
    json!({"choices": [{"index": 0, "delta": delta}]})
}

#[expect(clippy::needless_pass_by_value, reason = "literals read better without a borrow")]
fn calls(list: Value) -> Value {
    delta(json!({ "tool_calls": list }))
}

fn finish(reason: &str) -> Value {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
}

fn check(mut events: Vec<Value>, want: &Seen) {
    let chunks = sse(&events);
    assert_eq!(&seen(read(decoder(), chunks.clone())), want, "{events:?}");
    assert_eq!(&seen(read(decoder(), bytewise(&chunks))), want, "byte by byte");
    // The same with the protocol's own end, and with something after it.
    events.push(json!("[DONE]"));
    let mut chunks = sse(&events);
    let last = chunks.len() - 1;
    chunks[last] = b"data: [DONE]\r\n\r\ndata: {}\n\n".to_vec();
    assert_eq!(&seen(read(decoder(), chunks)), want);
}

fn called(calls: Vec<(String, String, String, bool)>) -> Seen {
    Seen { calls, stop: Some(StopReason::ToolUse), ..Seen::default() }
}

#[test]
fn o_prov_01_parallel_calls_without_index() {
    let one = json!({"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{\"path\":\"a.txt\"}"}});
    let two = json!({"id": "c2", "type": "function", "function": {"name": "read", "arguments": "{\"path\":\"b.txt\"}"}});
    let want =
        called(vec![call("c1", "read", "{\"path\":\"a.txt\"}"), call("c2", "read", "{\"path\":\"b.txt\"}")]);
    check(vec![calls(json!([one, two])), finish("tool_calls")], &want);
    check(vec![calls(json!([one])), calls(json!([two])), finish("tool_calls")], &want);
    // Every call counted as the first, or counted in text.
    let at = |call: &Value, index: Value| {
        let mut call = call.clone();
        call["index"] = index;
        call
    };
    check(
        vec![calls(json!([at(&one, json!(0))])), calls(json!([at(&two, json!(0))])), finish("stop")],
        &want,
    );
    check(
        vec![calls(json!([at(&one, json!("0"))])), calls(json!([at(&two, json!("1"))])), finish("stop")],
        &want,
    );
}

#[test]
fn o_prov_01_neither_index_nor_id() {
    let piece = |name: Value, arguments: &str| json!({"function": {"name": name, "arguments": arguments}});
    for events in [
        vec![calls(json!([piece(json!("read"), "{\"a\":1}"), piece(json!("read"), "{\"b\":2}")]))],
        vec![
            calls(json!([piece(json!("read"), "{\"a\":1}")])),
            calls(json!([piece(json!("read"), "{\"b\":2}")])),
        ],
        vec![
            calls(json!([piece(json!("read"), "{\"a\""), piece(json!("read"), "{\"b")])),
            calls(json!([piece(Value::Null, ":1}"), piece(Value::Null, "\":2}")])),
        ],
        vec![
            calls(json!([piece(json!("read"), "")])),
            calls(json!([piece(Value::Null, "{\"a\"")])),
            calls(json!([piece(Value::Null, ":1}")])),
            calls(json!([piece(json!("read"), "{\"b\":2}")])),
        ],
    ] {
        let got = seen(read(decoder(), sse(&[events.clone(), vec![finish("tool_calls")]].concat())));
        let short: Vec<(&str, &str)> = got.calls.iter().map(|c| (c.1.as_str(), c.2.as_str())).collect();
        assert_eq!(short, [("read", "{\"a\":1}"), ("read", "{\"b\":2}")], "{events:?}");
        assert!(got.calls[0].0.starts_with("call_") && got.calls[0].0 != got.calls[1].0);
    }
}

#[test]
fn o_prov_02_ids_only_at_the_start_blank_later_or_new_each_time() {
    let piece = |id: Value, name: Value, arguments: &str| {
        calls(json!([{"index": 0, "id": id, "function": {"name": name, "arguments": arguments}}]))
    };
    let want = called(vec![call("c1", "shell", "{\"command\":\"echo hi\"}")]);
    check(
        vec![
            piece(json!("c1"), json!("shell"), ""),
            calls(json!([{"index": 0, "function": {"arguments": "{\"command\":"}}])),
            calls(json!([{"index": 0, "function": {"arguments": "\"echo hi\"}"}}])),
            piece(json!(""), Value::Null, ""),
            finish("tool_calls"),
        ],
        &want,
    );
    for (id, name) in [
        (json!("c1"), json!("shell")),
        (json!("c1"), json!("")),
        (json!("other"), Value::Null),
        (json!(""), json!("shell")),
    ] {
        check(
            vec![
                piece(json!("c1"), json!("shell"), "{\"command\":"),
                piece(id, name, "\"echo hi\"}"),
                finish("tool_calls"),
            ],
            &want,
        );
    }
}

#[test]
fn o_prov_02_arguments_before_the_name() {
    let piece = |function: Value| calls(json!([{"id": "c9", "function": function}]));
    let mut events = vec![
        piece(json!({"arguments": "{\"pa"})),
        piece(json!({"arguments": "th\":\"a.txt\"}"})),
        finish("tool_calls"),
    ];
    check(events.clone(), &called(vec![call("c9", "", "{\"path\":\"a.txt\"}")]));
    events.insert(2, piece(json!({"name": "read"})));
    check(events, &called(vec![call("c9", "read", "{\"path\":\"a.txt\"}")]));
}

#[test]
fn calls_in_other_shapes() {
    check(
        vec![
            calls(json!([{"index": 0, "id": "c", "function": {"name": "read", "arguments": {"a": 1}}}])),
            finish("stop"),
        ],
        &called(vec![call("c", "read", "{\"a\":1}")]),
    );
    // The same id twice, and one that is a number.
    let got = seen(read(
        decoder(),
        sse(&[
            calls(json!([{"index": 0, "id": 7, "function": {"name": "a", "arguments": "{}"}}])),
            calls(json!([{"index": 1, "id": 7, "function": {"name": "b", "arguments": "{}"}}])),
            finish("tool_calls"),
        ]),
    ));
    assert_eq!((got.calls.len(), got.calls[0].0.as_str()), (2, "7"));
    assert_ne!(got.calls[1].0, "7");
    // The old form.
    let got = seen(read(
        decoder(),
        sse(&[
            delta(json!({"function_call": {"name": "read", "arguments": "{\"a\""}})),
            delta(json!({"function_call": {"arguments": ":1}"}})),
            finish("function_call"),
        ]),
    ));
    assert_eq!((got.calls[0].1.as_str(), got.calls[0].2.as_str()), ("read", "{\"a\":1}"));
    // No call at all, whatever the finish says.
    check(
        vec![calls(json!([])), calls(json!([{}])), calls(Value::Null), finish("tool_calls")],
        &Seen { stop: Some(StopReason::EndTurn), ..Seen::default() },
    );
}

#[test]
fn o_loop_04_a_call_cut_by_the_output_limit_does_not_end() {
    let cut = "{\"path\":\"out.txt\",\"content\":\"line 1\\nline 2";
    check(
        vec![
            calls(json!([{"index": 0, "id": "c", "function": {"name": "write", "arguments": cut}}])),
            finish("length"),
        ],
        &Seen {
            calls: vec![("c".to_owned(), "write".to_owned(), cut.to_owned(), false)],
            stop: Some(StopReason::MaxTokens),
            ..Seen::default()
        },
    );
}

#[test]
fn o_prov_03_reasoning_is_collected_and_its_field_remembered() {
    let said = |name: &str| {
        vec![
            delta(json!({name: "think A "})),
            delta(json!({name: "think B", "content": ""})),
            delta(json!({"content": "Looking.", name: null})),
            finish("stop"),
        ]
    };
    let want = Seen {
        text: "Looking.".to_owned(),
        thinking: "think A think B".to_owned(),
        stop: Some(StopReason::EndTurn),
        ..Seen::default()
    };
    check(said("reasoning_content"), &want);
    let blocks = vec![json!({"type": "chat_reasoning", "field": "reasoning"})];
    check(said("reasoning"), &Seen { blocks, ..want });
}

#[test]
fn o_prov_03_what_else_a_provider_wants_back_is_kept() {
    let extra = json!({"google": {"thought_signature": "s"}});
    check(
        vec![
            delta(json!({"reasoning_details": [{"index": 0, "type": "reasoning.text", "text": "a"}]})),
            delta(
                json!({"reasoning_details": [{"index": 0, "type": "reasoning.text", "text": "b", "signature": "s"}]}),
            ),
            calls(
                json!([{"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}, "extra_content": extra}]),
            ),
            finish("tool_calls"),
        ],
        &Seen {
            blocks: vec![
                json!({"type": "chat_reasoning", "reasoning_details":
                    [{"index": 0, "type": "reasoning.text", "text": "ab", "signature": "s"}]}),
                json!({"type": "chat_call", "id": "c", "extra_content": extra}),
            ],
            ..called(vec![call("c", "f", "{}")])
        },
    );
}

#[test]
fn o_prov_04_any_field_may_be_missing_null_or_empty() {
    check(
        vec![
            json!({"choices": [], "prompt_filter_results": []}),
            json!({"choices": null}),
            json!({}),
            json!({"choices": [{}], "usage": {}}),
            json!({"choices": [{"index": 0, "delta": {"role": "assistant", "content": null, "tool_calls": null}}]}),
            json!({"choices": [{"delta": {"content": "hi"}, "finish_reason": ""}]}),
            json!({"choices": [{"index": 1, "delta": {"content": "another answer"}}]}),
            json!({"choices": [{"delta": {"content": [{"type": "text", "text": "!"}], "refusal": null}}], "error": null}),
            json!({"choices": [{"delta": {}, "finish_reason": "stop"}]}),
            json!({"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 1, "prompt_tokens_details": null}}),
            json!({"choices": [{"delta": null}], "usage": null}),
        ],
        &Seen {
            text: "hi!".to_owned(),
            usage: Some((10, 1, 0)),
            stop: Some(StopReason::EndTurn),
            ..Seen::default()
        },
    );
}

fn o_prov_05_events() -> (Vec<Value>, Seen) {
    let events = vec![
        delta(json!({"content": "héllo "})),
        delta(json!({"content": "你"})),
        calls(
            json!([{"index": 0, "id": "c", "function": {"name": "read", "arguments": "{\"path\":\"é\"}"}}]),
        ),
        finish("tool_calls"),
    ];
    let want = Seen { text: "héllo 你".to_owned(), ..called(vec![call("c", "read", "{\"path\":\"é\"}")]) };
    (events, want)
}

#[test]
fn o_prov_05_legal_framing_is_understood() {
    let (events, want) = o_prov_05_events();
    let plain = format!("{}data: [DONE]\n\n", String::from_utf8(sse(&events).concat()).unwrap());
    for form in [
        plain.clone(),
        plain.replace('\n', "\r\n"),
        plain.replace('\n', "\r"),
        plain.replace("data: ", "data:"),
        plain.replace("data: ", "id: 7\nretry: 10\n: note\nfoo: bar\ndata: "),
        format!("\u{feff}{plain}"),
        plain.trim_end().to_owned(),
    ] {
        let bytes = form.clone().into_bytes();
        assert_eq!(seen(read(decoder(), vec![bytes.clone()])), want, "{form:?}");
        assert_eq!(seen(read(decoder(), bytewise(&[bytes]))), want, "byte by byte {form:?}");
    }
}

#[test]
fn o_prov_05_plain_json_is_understood() {
    let (_, want) = o_prov_05_events();
    let body = json!({"object": "chat.completion", "choices": [{"index": 0, "finish_reason": "tool_calls", "message": {
        "role": "assistant", "content": "héllo 你",
        "tool_calls": [{"id": "c", "type": "function", "function": {"name": "read", "arguments": "{\"path\":\"é\"}"}}],
    }}]});
    let bytes = format!("\n{body}").into_bytes();
    assert_eq!(seen(read(decoder(), vec![bytes.clone()])), want);
    assert_eq!(seen(read(decoder(), bytewise(&[bytes]))), want);
}

async fn ends(content_type: &str, body: &str, after: After) -> (Vec<ModelEvent>, Option<ProviderError>) {
    all(reply(decoder(), content_type, vec![body.as_bytes().to_vec()], after)).await
}

#[tokio::test]
async fn o_prov_05_what_is_no_answer_is_named() {
    for (content_type, body, kind, says) in [
        ("text/html", "<html><h1>Sign in</h1></html>", Failure::Invalid, "text/html): Sign in"),
        ("application/json", "{\"hello\": 1}", Failure::Invalid, "application/json"),
        ("text/plain", "", Failure::Cut, "holds no event (content type: text/plain)"),
        ("text/plain", "welcome", Failure::Cut, "text/plain"),
        ("application/json", "{\"error\": \"model 'x' not found\"}", Failure::NotFound, "'x'"),
        ("application/json", "{\"detail\": \"bad\"}", Failure::Invalid, "bad"),
    ] {
        let (events, error) = ends(content_type, body, After::End).await;
        let error = error.unwrap();
        assert_eq!((events, error.kind), (Vec::new(), kind), "{body}: {}", error.message);
        assert!(error.message.contains(says), "{body}: {}", error.message);
    }
}

#[tokio::test(start_paused = true)]
async fn o_loop_02_errors_inside_a_stream_end_it_at_once() {
    for body in [
        "data: {\"error\":{\"message\":\"MARK-7781\",\"type\":\"server_error\"}}\n\n",
        "data: {\"error\":{\"code\":502,\"message\":\"MARK-7781\"},\"choices\":[{\"delta\":{},\"finish_reason\":\"error\"}]}\n\n",
        "data: {\"choices\":[{\"error\":{\"message\":\"MARK-7781\"}}]}\n\n",
        "event: error\ndata: MARK-7781\n\n",
        "event: response.failed\ndata: {\"type\":\"response.failed\",\"response\":{\"error\":{\"code\":\"server_error\",\"message\":\"MARK-7781\"}}}\n\n",
    ] {
        let before = tokio::time::Instant::now();
        let (_, error) = ends("text/event-stream", body, After::Silence).await;
        let error = error.unwrap();
        assert_eq!(error.kind, Failure::Transient { retry_after: None }, "{body}");
        assert_eq!(error.message, "test.invalid reported: MARK-7781", "{body}");
        assert_eq!(before.elapsed(), std::time::Duration::ZERO);
    }
}

#[tokio::test(start_paused = true)]
async fn ends_by_table() {
    let text = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n";
    let said = ModelEvent::Text("a".to_owned());
    let finish = |reason: &str| {
        format!("{text}data: {{\"choices\":[{{\"delta\":{{}},\"finish_reason\":\"{reason}\"}}]}}\n\n")
    };
    for (body, after, want) in [
        (finish("stop"), After::End, Some(StopReason::EndTurn)),
        (finish("stop"), After::Silence, Some(StopReason::EndTurn)),
        (finish("stop"), After::Reset, Some(StopReason::EndTurn)),
        (finish("length"), After::End, Some(StopReason::MaxTokens)),
        (finish("content_filter"), After::End, Some(StopReason::Refusal)),
        (finish("odd"), After::End, Some(StopReason::EndTurn)),
        (format!("{text}data: [DONE]\n\n"), After::Silence, Some(StopReason::EndTurn)),
        (
            format!("{text}data: {{\"choices\":[{{\"delta\":{{\"refusal\":\"!\"}}}}]}}\n\ndata: [DONE]"),
            After::End,
            Some(StopReason::Refusal),
        ),
        (text.to_owned(), After::End, None),
        (text.to_owned(), After::Silence, None),
        (text.to_owned(), After::Reset, None),
        (format!("{text}data: {{\"choi"), After::End, None),
        (finish("insufficient_system_resource"), After::End, None),
    ] {
        let (events, error) = ends("text/event-stream", &body, after).await;
        match want {
            Some(stop) => assert_eq!(
                (events.last(), &error),
                (Some(&ModelEvent::Stop(stop)), &None),
                "{body} {after:?}"
            ),
            None => {
                assert_eq!((&events[..], error.is_some()), (&[said.clone()][..], true), "{body} {after:?}");
            }
        }
    }
}

#[test]
fn o_prov_06_a_written_call_joins_the_others() {
    let tools = [ToolSpec { name: "read".to_owned(), description: String::new(), input_schema: json!({}) }];
    let with_filter = || Box::new(Decoder::new(Some(TextCalls::new(&tools))));
    let written =
        "I will look.\n<tool_call>{\"name\":\"read\",\"arguments\":{\"path\":\"a.txt\"}}</tool_call>";
    let letters: Vec<char> = written.chars().collect();
    let mut events: Vec<Value> =
        letters.chunks(5).map(|piece| delta(json!({"content": piece.iter().collect::<String>()}))).collect();
    events.push(finish("stop"));
    let got = seen(read(with_filter(), sse(&events)));
    assert_eq!((got.text.as_str(), got.stop), ("I will look.\n", Some(StopReason::ToolUse)));
    assert_eq!((got.calls[0].1.as_str(), got.calls[0].2.as_str()), ("read", "{\"path\":\"a.txt\"}"));
    assert!(got.calls[0].0.starts_with("call_") && got.calls[0].3);
    // The server told of the same call itself.
    events.insert(
        events.len() - 1,
        calls(json!([{"index": 0, "id": "c", "function": {"name": "read", "arguments": "{ \"path\": \"a.txt\" }"}}])),
    );
    let got = seen(read(with_filter(), sse(&events)));
    assert_eq!(got.calls, [call("c", "read", "{ \"path\": \"a.txt\" }")]);
    // Switched off.
    assert_eq!(seen(read(decoder(), sse(&events))).text, written);
}
