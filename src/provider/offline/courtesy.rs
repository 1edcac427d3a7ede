//! Takes words of courtesy and order from around a step, so that the rules need not know them.

use super::quote::is_mark;
use super::request::is_han;

/// Words of courtesy and order around a step.
const BEFORE: &[&str] = &[
    "please",
    "kindly",
    "could you",
    "can you",
    "would you",
    "will you",
    "you can",
    "i want you to",
    "i would like you to",
    "i'd like you to",
    "i need you to",
    "i want to",
    "let's",
    "let us",
    "hey",
    "hi",
    "hello",
    "ok",
    "okay",
    "just",
    "now",
    "first of all",
    "first",
    "firstly",
    "second",
    "secondly",
    "third",
    "next",
    "finally",
    "lastly",
    "afterwards",
    "after that",
    "and",
    "also",
    "tell me",
    "help me",
    "麻烦你",
    "麻烦",
    "请你",
    "请",
    "你好",
    "您好",
    "你能不能",
    "能不能",
    "能否",
    "你能",
    "可不可以",
    "可以",
    "帮我",
    "帮忙",
    "帮",
    "我想要",
    "我想",
    "我要",
    "给我",
    "告诉我",
    "首先",
    "其次",
    "先",
    "再",
    "接着",
    "最后",
    "并且",
    "并",
    "同时",
    "重新",
    "再次",
    "step 1",
    "step 2",
    "step 3",
    "step 4",
    "step 5",
    "step 6",
    "第一步",
    "第二步",
    "第三步",
    "第四步",
    "第五步",
];
const AFTER: &[&str] = &[
    "please",
    "for me",
    "right now",
    "now",
    "thanks",
    "thank you",
    "and",
    "first",
    "again",
    "once more",
    "谢谢你",
    "谢谢",
    "吧",
    "好吗",
    "可以吗",
    "吗",
    "呢",
    "一下",
    "啊",
    "并",
    "并且",
    "再",
    "最后",
];

/// The step itself.
pub(super) fn polished(text: &str) -> &str {
    let mut text = text.trim();
    loop {
        let before = text;
        text = text.trim_matches(|c: char| c.is_whitespace() || ",，、；;：:。！？!…".contains(c));
        // A full stop or a question mark after a word ends the sentence; alone it names the folder.
        for end in ["?", "."] {
            let cut = text
                .strip_suffix(end)
                .filter(|t| !t.ends_with(|c: char| c.is_whitespace() || c == '.' || c == '/'));
            text = cut.unwrap_or(text);
        }
        for word in BEFORE {
            text = without_prefix(text, word).unwrap_or(text);
        }
        for word in AFTER {
            text = without_suffix(text, word).unwrap_or(text);
        }
        if text == before {
            return text;
        }
    }
}

fn without_prefix<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let (head, rest) = text.split_at_checked(word.len())?;
    let apart = !word.is_ascii()
        || rest.is_empty()
        || rest.starts_with(|c: char| c.is_whitespace() || matches!(c, ',' | ':') || !c.is_ascii());
    (head.eq_ignore_ascii_case(word) && apart).then_some(rest)
}

fn without_suffix<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let (rest, tail) = text.split_at_checked(text.len().checked_sub(word.len())?)?;
    let edge = |c: char| c.is_whitespace() || is_mark(c) || c == ',' || is_han(c);
    let apart = rest.is_empty() || rest.ends_with(edge) || !word.is_ascii();
    (tail.eq_ignore_ascii_case(word) && apart).then_some(rest)
}
