//! The built-in offline model: fixed rules that turn a small set of requests into real tool calls; no intelligence.

mod courtesy;
mod plan;
mod quote;
mod request;
mod rules;
mod summary;
mod template;

use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::stream;

use super::asked::{Asked, asked};
use super::{
    EventStream, Failure, ModelEvent, ModelInfo, ModelProvider, Price, ProviderError, Request, ThinkingStyle,
};
use crate::protocol::transcript::{estimate, estimate_text};
use crate::protocol::{ModelId, StopReason, Usage};
use plan::Next;
use request::{Language, NotUnderstood};

/// Rules instead of a model, for trying the program without a key.
///
/// It lists, finds, shows and counts, replaces text, creates files, runs commands and hands tasks to a child
/// agent, asked for in English or Chinese, several in one request. The same conversation always gives the same
/// reply. Whatever it does not wholly understand ends in [`Failure::NoModel`] without any call.
#[derive(Debug, Clone)]
pub struct OfflineModel {
    info: ModelInfo,
}

impl Default for OfflineModel {
    fn default() -> Self {
        Self {
            info: ModelInfo {
                id: ModelId::new("reagent", "offline"),
                name: "offline".to_owned(),
                window: 128_000,
                max_output: 8_192,
                thinking: ThinkingStyle::None,
                images: false,
                price: Some(Price { input: 0.0, output: 0.0, cache_read: 0.0, cache_write: 0.0 }),
                known: true,
            },
        }
    }
}

#[async_trait]
impl ModelProvider for OfflineModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    async fn stream(&self, request: Request<'_>) -> Result<EventStream, ProviderError> {
        let events = match reply(asked(request.messages).as_ref(), &request) {
            Ok((events, reason)) => finished(events, reason, &request),
            Err(message) => vec![Err(ProviderError::new(Failure::NoModel, message))],
        };
        Ok(stream::iter(events).boxed())
    }
}

/// The content of the reply, or what to tell a user who was not understood.
fn reply(asked: Option<&Asked<'_>>, request: &Request<'_>) -> Result<(Vec<ModelEvent>, StopReason), String> {
    let nothing = || help(&NotUnderstood { part: String::new() }, Language::English);
    let asked = asked.ok_or_else(nothing)?;
    let language = Language::of(&asked.text);
    let steps = request::parse(&asked.text).map_err(|unknown| help(&unknown, language))?;
    match plan::next(&steps, asked, request.tools, language) {
        Next::Call { id, name, input } => Ok((
            vec![
                ModelEvent::ToolStart { key: 0, id, name: name.to_owned() },
                ModelEvent::ToolArgs { key: 0, json: input.to_string() },
                ModelEvent::ToolEnd { key: 0 },
            ],
            StopReason::ToolUse,
        )),
        Next::Answer(text) => Ok((words(&text).map(ModelEvent::Text).collect(), StopReason::EndTurn)),
        Next::NotUnderstood(message) => Err(message),
    }
}

/// The events with the usage and the end after them.
fn finished(
    events: Vec<ModelEvent>,
    reason: StopReason,
    request: &Request<'_>,
) -> Vec<Result<ModelEvent, ProviderError>> {
    let usage = Usage { input: input_tokens(request), output: output_tokens(&events), ..Usage::default() };
    let end = [ModelEvent::Usage(usage), ModelEvent::Stop(reason)];
    events.into_iter().chain(end).map(Ok).collect()
}

/// Estimated tokens of all that a model would have to read.
pub(super) fn input_tokens(request: &Request<'_>) -> u64 {
    let tools = request.tools.iter().map(|tool| {
        estimate_text(&tool.name)
            + estimate_text(&tool.description)
            + estimate_text(&tool.input_schema.to_string())
    });
    let messages = request.messages.iter().map(|message| estimate(message));
    estimate_text(request.system) + tools.sum::<u64>() + messages.sum::<u64>()
}

fn output_tokens(events: &[ModelEvent]) -> u64 {
    let tokens = |event: &ModelEvent| match event {
        ModelEvent::Text(text) | ModelEvent::Thinking(text) => estimate_text(text),
        ModelEvent::ToolStart { name, .. } => 12 + estimate_text(name),
        ModelEvent::ToolArgs { json, .. } => estimate_text(json),
        ModelEvent::Signature(_)
        | ModelEvent::ToolName { .. }
        | ModelEvent::ToolEnd { .. }
        | ModelEvent::Block(_)
        | ModelEvent::Usage(_)
        | ModelEvent::Stop(_) => 0,
    };
    events.iter().map(tokens).sum()
}

/// Pieces of some words each, as a model streams.
fn words(text: &str) -> impl Iterator<Item = String> {
    const PIECE: usize = 24;
    let mut pieces = vec![String::new()];
    for c in text.chars() {
        if let Some(piece) = pieces.last_mut() {
            piece.push(c);
            if piece.len() >= PIECE && c.is_whitespace() || piece.len() >= 4 * PIECE {
                pieces.push(String::new());
            }
        }
    }
    pieces.into_iter().filter(|piece| !piece.is_empty())
}

/// How a message of this model begins, in each language; a parent knows its child's by it.
const SIGNS: [&str; 2] = ["This is the built-in offline model", "这是内置的离线模型"];

/// At most 8 lines: what was not understood, what would be, and how to get a model.
fn help(unknown: &NotUnderstood, language: Language) -> String {
    let [english, chinese] = SIGNS;
    let part: String =
        unknown.part.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(80).collect();
    match language {
        Language::English => format!(
            "{english}: fixed rules, no intelligence. It does not understand \"{part}\", so nothing was done.\n\
             It understands: list files in DIR · find `TEXT` · where is NAME defined · show FILE · count lines in FILE ·\n\
             replace `A` with `B` in FILE · create FILE with `TEXT` · run `CMD` · use Agent to find `TEXT`;\n\
             several of them joined by \"then\". Put texts in backticks.\n\
             For a real model set ANTHROPIC_API_KEY, or OPENAI_API_KEY (and OPENAI_BASE_URL for another service),\n\
             choose one with --model NAME, or take a local server (Ollama, LM Studio, llama.cpp) with --model auto."
        ),
        Language::Chinese => format!(
            "{chinese}：只有固定规则，没有智能。它不理解“{part}”，因此什么也没有做。\n\
             它能理解：列出 DIR 中的文件 · 查找 `文本` · NAME 在哪里定义 · 显示 FILE · 统计 FILE 的行数 ·\n\
             把 FILE 中的 `A` 替换为 `B` · 创建 FILE 内容为 `文本` · 运行 `命令` · 用 Agent 查找 `文本`；\n\
             多个请求用“然后”连接。文本请放在反引号里。\n\
             要使用真正的模型：设置 ANTHROPIC_API_KEY 或 OPENAI_API_KEY（其他服务再设 OPENAI_BASE_URL），\n\
             用 --model NAME 选择模型；本地服务（Ollama、LM Studio、llama.cpp）用 --model auto。"
        ),
    }
}

#[cfg(test)]
mod tests;
