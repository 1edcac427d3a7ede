//! Replies of the Messages API by table.

use serde_json::{Value, json};

use super::decode::Decoder;
use crate::protocol::{Block, StopReason, Usage};
use crate::provider::testing::{After, all, bytewise, read, reply, sse};
use crate::provider::{Failure, ModelEvent, ProviderError};

fn text(text: &str) -> ModelEvent {
    ModelEvent::Text(text.to_owned())
}

fn start(key: usize, id: &str, name: &str) -> ModelEvent {
    ModelEvent::ToolStart { key, id: id.to_owned(), name: name.to_owned() }
}

fn args(key: usize, json: &str) -> ModelEvent {
    ModelEvent::ToolArgs { key, json: json.to_owned() }
}

fn usage(input: u64, output: u64) -> ModelEvent {
    ModelEvent::Usage(Usage { input, output, ..Usage::default() })
}

#[expect(clippy::needless_pass_by_value, reason = "literals read better without a borrow")]
fn delta(index: usize, delta: Value) -> Value {
    json!({"type": "content_block_delta", "index": index, "delta": delta})
}

#[expect(clippy::needless_pass_by_value, reason = "literals read better without a borrow")]
fn block(index: usize, block: Value) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

fn stop(index: usize) -> Value {
    json!({"type": "content_block_stop", "index": index})
}

fn end(reason: &str) -> [Value; 2] {
    [json!({"type": "message_delta", "delta": {"stop_reason": reason}}), json!({"type": "message_stop"})]
}

fn check(events: &[Value], want: &[ModelEvent]) {
    let chunks = sse(events);
    assert_eq!(read(Box::<Decoder>::default(), bytewise(&chunks)), want, "byte by byte");
    assert_eq!(read(Box::<Decoder>::default(), chunks), want);
}

#[test]
fn a_whole_answer() {
    let [last, over] = end("tool_use");
    check(
        &[
            json!({"type": "message_start", "message": {"usage": {"input_tokens": 3, "output_tokens": 1}}}),
            json!({"type": "ping"}),
            block(0, json!({"type": "thinking", "thinking": "", "signature": ""})),
            delta(0, json!({"type": "thinking_delta", "thinking": "hm "})),
            delta(0, json!({"type": "thinking_delta", "thinking": "你"})),
            delta(0, json!({"type": "signature_delta", "signature": "si"})),
            delta(0, json!({"type": "signature_delta", "signature": "g"})),
            stop(0),
            block(1, json!({"type": "redacted_thinking", "data": "xyz"})),
            stop(1),
            block(2, json!({"type": "text", "text": ""})),
            delta(2, json!({"type": "text_delta", "text": "h\u{e9}llo"})),
            json!({"type": "from_the_future", "index": 2}),
            delta(2, json!({"type": "citations_delta", "citation": {}})),
            stop(2),
            block(3, json!({"type": "tool_use", "id": "t1", "name": "Read", "input": {}})),
            delta(3, json!({"type": "input_json_delta", "partial_json": ""})),
            delta(3, json!({"type": "input_json_delta", "partial_json": "{\"a\":"})),
            delta(3, json!({"type": "input_json_delta", "partial_json": "1}"})),
            stop(3),
            block(4, json!({"type": "tool_use", "id": "t2", "name": "True", "input": {}})),
            stop(4),
            block(5, json!({"type": "server_tool_use", "id": "s", "name": "web", "input": {}})),
            delta(5, json!({"type": "input_json_delta", "partial_json": "{\"q\":2}"})),
            stop(5),
            json!({"type": "message_delta", "delta": {"stop_reason": null}, "usage": {"output_tokens": 9}}),
            last,
            over,
        ],
        &[
            usage(3, 1),
            ModelEvent::Thinking("hm 你".to_owned()),
            ModelEvent::Signature("sig".to_owned()),
            ModelEvent::Block(Block::Other(json!({"type": "redacted_thinking", "data": "xyz"}))),
            text("héllo"),
            start(3, "t1", "Read"),
            args(3, "{\"a\":1}"),
            ModelEvent::ToolEnd { key: 3 },
            start(4, "t2", "True"),
            ModelEvent::ToolEnd { key: 4 },
            ModelEvent::Block(Block::Other(
                json!({"type": "server_tool_use", "id": "s", "name": "web", "input": {"q": 2}}),
            )),
            usage(3, 9),
            ModelEvent::Stop(StopReason::ToolUse),
        ],
    );
}

#[test]
fn stop_reasons_by_table() {
    for (word, reason) in [
        ("end_turn", StopReason::EndTurn),
        ("tool_use", StopReason::ToolUse),
        ("max_tokens", StopReason::MaxTokens),
        ("stop_sequence", StopReason::StopSequence),
        ("refusal", StopReason::Refusal),
        ("pause_turn", StopReason::PauseTurn),
        ("model_context_window_exceeded", StopReason::ContextExceeded),
        ("new_reason", StopReason::EndTurn),
    ] {
        check(&end(word), &[ModelEvent::Stop(reason)]);
    }
}

#[test]
fn a_signature_without_words_and_an_input_given_whole() {
    let [last, over] = end("end_turn");
    check(
        &[
            block(0, json!({"type": "thinking", "thinking": "", "signature": "sig"})),
            stop(0),
            block(1, json!({"type": "tool_use", "id": "t", "name": "Read", "input": {"a": 1}})),
            last,
            over,
        ],
        &[
            ModelEvent::Thinking(String::new()),
            ModelEvent::Signature("sig".to_owned()),
            start(1, "t", "Read"),
            args(1, "{\"a\":1}"),
            ModelEvent::ToolEnd { key: 1 },
            ModelEvent::Stop(StopReason::EndTurn),
        ],
    );
}

#[test]
fn an_answer_in_one_piece_is_understood() {
    let body = json!({
        "type": "message", "role": "assistant", "stop_reason": "tool_use",
        "content": [
            {"type": "text", "text": "hi"},
            {"type": "tool_use", "id": "t", "name": "Read", "input": {"a": 1}},
        ],
        "usage": {"input_tokens": 4, "output_tokens": 2, "cache_read_input_tokens": 7, "cache_creation_input_tokens": 8},
    });
    assert_eq!(
        read(Box::<Decoder>::default(), vec![body.to_string().into_bytes()]),
        [
            text("hi"),
            start(1, "t", "Read"),
            args(1, "{\"a\":1}"),
            ModelEvent::ToolEnd { key: 1 },
            ModelEvent::Usage(Usage { input: 4, output: 2, cache_read: 7, cache_write: 8 }),
            ModelEvent::Stop(StopReason::ToolUse),
        ]
    );
}

async fn ends(chunks: Vec<Vec<u8>>, after: After) -> (Vec<ModelEvent>, Option<ProviderError>) {
    all(reply(Box::<Decoder>::default(), "text/event-stream", chunks, after)).await
}

#[tokio::test(start_paused = true)]
async fn o_loop_02_a_terminal_error_ends_the_stream_at_once() {
    let before = tokio::time::Instant::now();
    let chunks = vec![
        b"data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"a\"}}\n\n".to_vec(),
        b"event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"MARK-7781\"}}\n\n".to_vec(),
    ];
    let (events, error) = ends(chunks, After::Silence).await;
    assert_eq!(events, [text("a")]);
    let error = error.unwrap();
    assert_eq!(error.kind, Failure::Transient { retry_after: None });
    assert_eq!(error.message, "test.invalid reported: MARK-7781");
    assert_eq!(error.request_id.as_deref(), Some("req-1"));
    assert_eq!(before.elapsed(), std::time::Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn every_early_end_is_a_cut_unless_the_answer_was_complete() {
    let half = || sse(&[delta(0, json!({"type": "text_delta", "text": "a"}))]);
    for (after, want) in [
        (After::End, "the stream from test.invalid ended before the answer was complete"),
        (After::Silence, "test.invalid sent nothing for 5 s in the middle of its answer"),
        (After::Reset, "the stream from test.invalid broke: connection reset"),
    ] {
        let (events, error) = ends(half(), after).await;
        assert_eq!(events, [text("a")]);
        let error = error.unwrap();
        assert_eq!((error.kind, error.message.as_str()), (Failure::Cut, want));
        let mut whole = half();
        whole.extend(sse(&end("end_turn")[..1]));
        let (events, error) = ends(whole, after).await;
        assert_eq!(
            (events, error),
            (vec![text("a"), ModelEvent::Stop(StopReason::EndTurn)], None),
            "{after:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn o_loop_03_the_first_event_has_its_own_bound_and_comments_are_life() {
    let before = tokio::time::Instant::now();
    let (_, error) = ends(Vec::new(), After::Silence).await;
    assert_eq!(error.unwrap().message, "test.invalid sent no event within 5 s after its headers");
    assert_eq!(before.elapsed().as_secs(), 5);
    let (_, error) = ends(vec![b": waiting\n\n".to_vec()], After::Silence).await;
    assert_eq!(error.unwrap().kind, Failure::Cut);
}

#[tokio::test]
async fn one_event_that_is_no_json_is_skipped_many_are_not() {
    let bad = b"data: {\"type\":\"content_block_delta\",\"delta\":{\n\n".to_vec();
    let mut chunks = sse(&[delta(0, json!({"type": "text_delta", "text": "a"}))]);
    chunks.push(bad.clone());
    chunks.extend(sse(&end("end_turn")));
    let (events, error) = ends(chunks, After::End).await;
    assert_eq!((events, error), (vec![text("a"), ModelEvent::Stop(StopReason::EndTurn)], None));
    let (_, error) = ends(vec![bad; 20], After::Silence).await;
    assert!(error.unwrap().message.contains("sends events that are no JSON"));
}
