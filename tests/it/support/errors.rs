//! The error documents and error events of both protocols.

use serde_json::{Value, json};

use super::Protocol;

/// An error response's body in the protocol's envelope.
pub(super) fn document(protocol: Protocol, status: u16, message: &str) -> Value {
    match protocol {
        Protocol::Messages => json!({
            "type": "error",
            "error": {"type": messages_kind(status), "message": message},
            "request_id": "req_mock",
        }),
        Protocol::Chat => {
            let kind = match status {
                429 => "rate_limit_exceeded",
                500.. => "server_error",
                _ => "invalid_request_error",
            };
            let code = (status == 429).then_some(kind);
            json!({"error": {"message": message, "type": kind, "param": null, "code": code}})
        }
    }
}

/// The body of the 400 for a request that does not fit the model's context.
pub(super) fn context_too_long(protocol: Protocol, llama_cpp: bool) -> Value {
    match protocol {
        Protocol::Messages => document(protocol, 400, "prompt is too long: 208310 tokens > 200000 maximum"),
        Protocol::Chat if llama_cpp => json!({"error": {
            "code": 400,
            "message": "request (9031 tokens) exceeds the available context size (8192 tokens), try increasing it",
            "type": "exceed_context_size_error",
            "n_prompt_tokens": 9031,
            "n_ctx": 8192,
        }}),
        Protocol::Chat => json!({"error": {
            "message": "This model's maximum context length is 128000 tokens. However, your messages resulted in 131072 tokens. \
                        Please reduce the length of the messages.",
            "type": "invalid_request_error",
            "param": "messages",
            "code": "context_length_exceeded",
        }}),
    }
}

/// The data of the error event that may come in mid-stream.
pub(super) fn event(protocol: Protocol, message: &str) -> Value {
    match protocol {
        Protocol::Messages => {
            json!({"type": "error", "error": {"type": "overloaded_error", "message": message}})
        }
        Protocol::Chat => {
            json!({"error": {"message": message, "type": "server_error", "code": 500}})
        }
    }
}

fn messages_kind(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        504 => "timeout_error",
        529 => "overloaded_error",
        500.. => "api_error",
        _ => "invalid_request_error",
    }
}
