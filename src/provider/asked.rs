//! What the user asked last, for the providers that answer from the conversation alone.

use std::sync::Arc;

use crate::protocol::{Block, Message, Role, Source};

/// A request of the user and where it stands in the conversation.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Asked<'a> {
    /// The message that holds it.
    pub(super) message: &'a Message,
    /// Its text, without blocks that the host labelled as its own.
    pub(super) text: String,
    /// What came after it.
    pub(super) since: &'a [Arc<Message>],
}

/// The newest text that the human typed, or else the newest user text of any source.
pub(super) fn asked(messages: &[Arc<Message>]) -> Option<Asked<'_>> {
    let newest = |wanted: fn(&Message) -> bool| {
        messages.iter().enumerate().rev().find_map(|(at, message)| {
            let text = if wanted(message) { typed(&message.blocks) } else { String::new() };
            let since = messages.get(at + 1..).unwrap_or_default();
            (!text.trim().is_empty()).then_some(Asked { message, text, since })
        })
    };
    newest(|m| m.role == Role::User && m.source == Source::User).or_else(|| newest(|m| m.role == Role::User))
}

/// The text blocks, but not those that are wholly inside a tag, such as a reminder put beside the prompt.
fn typed(blocks: &[Block]) -> String {
    let texts: Vec<&str> = blocks
        .iter()
        .filter_map(|block| match block {
            Block::Text { text } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    let labelled = |text: &&str| text.trim().starts_with('<') && text.trim().ends_with('>');
    let own: Vec<&str> = texts.iter().copied().filter(|text| !labelled(text)).collect();
    if own.is_empty() { texts.join("\n") } else { own.join("\n") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::MessageId;

    fn message(role: Role, source: Source, texts: &[&str]) -> Arc<Message> {
        let blocks = texts.iter().map(|text| Block::text(*text)).collect();
        Arc::new(Message { id: MessageId("m".to_owned()), role, source, origin: None, blocks })
    }

    fn check(messages: &[Arc<Message>], wanted: Option<(&str, usize)>) {
        let found = asked(messages).map(|a| (a.text, a.since.len()));
        assert_eq!(found, wanted.map(|(text, since)| (text.to_owned(), since)));
    }

    #[test]
    fn the_newest_human_text_is_what_was_asked() {
        let user = message(Role::User, Source::User, &["list files", "<reminder>\nlate\n</reminder>"]);
        let model = message(Role::Assistant, Source::Model, &["a"]);
        let host = message(Role::User, Source::Host, &["Please continue."]);
        check(&[user.clone(), model.clone(), host.clone()], Some(("list files", 2)));
        check(&[model.clone(), host], Some(("Please continue.", 0)));
        check(&[model], None);
        check(&[message(Role::User, Source::User, &["<b>"])], Some(("<b>", 0)));
    }
}
