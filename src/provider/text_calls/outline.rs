//! Follows JSON text letter by letter, to see early that it is no call.

/// What the text so far can still be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    MayBeCalls,
    Text,
}

/// Where the reader stands. Only the top level counts: its field names, and the value of `name`.
#[derive(Debug, Default)]
pub(super) struct Outline {
    depth: usize,
    place: Place,
    in_string: bool,
    escaped: bool,
    /// The string at the top level that is being read.
    word: String,
    key: String,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Place {
    #[default]
    Key,
    Value,
}

/// Fields of a call; others are no call.
const FIELDS: [&str; 6] = ["name", "arguments", "parameters", "type", "id", "index"];

impl Outline {
    /// Goes on with more text. `offered` tells whether a tool of that name was offered.
    pub(super) fn follow(&mut self, text: &str, offered: impl Fn(&str) -> bool) -> Verdict {
        for letter in text.chars() {
            if !self.step(letter, &offered) {
                return Verdict::Text;
            }
        }
        Verdict::MayBeCalls
    }

    fn step(&mut self, letter: char, offered: &impl Fn(&str) -> bool) -> bool {
        if self.in_string {
            return self.step_in_string(letter, offered);
        }
        match letter {
            '"' | '[' if self.depth == 0 => return false,
            '"' => {
                self.in_string = true;
                self.word.clear();
            }
            '{' => {
                if self.depth == 0 {
                    self.place = Place::Key;
                }
                self.depth += 1;
            }
            '[' => self.depth += 1,
            '}' | ']' => {
                let Some(depth) = self.depth.checked_sub(1) else { return false };
                self.depth = depth;
            }
            ':' if self.depth == 1 => self.place = Place::Value,
            ',' if self.depth == 1 => self.place = Place::Key,
            blank if blank.is_whitespace() => {}
            // Between and after the objects there may be nothing else.
            _ => return self.depth > 0,
        }
        true
    }

    fn step_in_string(&mut self, letter: char, offered: &impl Fn(&str) -> bool) -> bool {
        if self.escaped {
            self.escaped = false;
        } else if letter == '\\' {
            self.escaped = true;
        } else if letter == '"' {
            self.in_string = false;
            if self.depth != 1 {
                return true;
            }
            return match self.place {
                Place::Key => {
                    self.key = std::mem::take(&mut self.word);
                    FIELDS.contains(&self.key.as_str())
                }
                Place::Value => self.key != "name" || offered(self.word.trim()),
            };
        }
        if self.depth == 1 && self.word.len() < 256 {
            self.word.push(letter);
            if self.place == Place::Key {
                return FIELDS.iter().any(|field| field.starts_with(self.word.as_str()));
            }
        }
        true
    }
}
