//! The one filter between foreign text and a terminal: control characters are shown, never obeyed.

use std::borrow::Cow;

/// The text with everything that could steer a terminal or hide itself shown escaped.
///
/// Line feeds and tabs stay; CRLF becomes LF. Escaped are the other C0 and C1 controls, DEL, the bidi
/// controls (they reorder what is read) and the other invisible format characters that can forge a line.
#[must_use]
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\r' if chars.peek() == Some(&'\n') => {}
            c if is_hidden(c) => out.extend(c.escape_default()),
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// As [`visible`], on one line: for names, commands and titles.
#[must_use]
pub fn visible_line(text: &str) -> String {
    visible(text).replace('\n', "\\n").replace('\t', " ")
}

/// As [`visible`], for a line of JSON, which it stays: what is hidden is escaped as JSON does it.
#[must_use]
pub fn visible_json(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    for c in line.chars() {
        if is_hidden(c) {
            let mut units = [0; 2];
            out.extend(c.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")));
        } else {
            out.push(c);
        }
    }
    out
}

/// The first characters of a text, with a mark if there were more.
#[must_use]
pub fn clipped(text: &str, chars: usize) -> String {
    let mut out: String = text.chars().take(chars).collect();
    if text.chars().nth(chars).is_some() {
        out.push('…');
    }
    out
}

fn is_hidden(c: char) -> bool {
    // Bidi embeddings, overrides, isolates and marks; line and paragraph separators; zero-width and tag characters.
    let invisible = matches!(c, '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}');
    invisible || (c.is_control() && c != '\n' && c != '\t')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn o_tui_01_nothing_steers_the_terminal() {
        let foreign = "A\x1b]52;c;ZXZpbA==\x07B\x1b]0;owned\x07C\x1b[2J\x1b[10AD\x1b[6nE\x1bcF\x1bPq\x1b\\G\u{9b}H\u{202e}I\r\nJ";
        let shown = visible(foreign);
        assert!(!shown.chars().any(|c| c.is_control() && c != '\n'), "{shown:?}");
        for letter in "ABCDEFGHIJ".chars() {
            assert!(shown.contains(letter));
        }
        assert!(shown.contains("\\u{1b}[2J") && shown.contains("\\u{202e}I\nJ"), "{shown}");
    }

    #[test]
    fn ordinary_text_is_borrowed_and_emoji_stay_whole() {
        for text in ["plain\n\ttext", "你好", "👨\u{200d}👩\u{200d}👧", "e\u{301}"] {
            assert!(matches!(visible(text), Cow::Borrowed(_)), "{text}");
        }
        assert_eq!(visible_line("a\nb\x07"), "a\\nb\\u{7}");
        assert_eq!(clipped("héllo", 2), "hé…");
    }

    #[test]
    fn a_line_of_json_stays_the_same_json() {
        let value = serde_json::json!({"text": "a\u{9b}2J\u{7f}\u{202e}\u{e0041}\x1b[2J 你好"});
        let shown = visible_json(&value.to_string());
        assert!(!shown.chars().any(is_hidden), "{shown}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
    }
}
