//! Takes quoted text out of a request, so that no rule mistakes a word inside it for its own.

/// A request with each quotation replaced by one private-use character.
#[derive(Debug)]
pub(super) struct Masked {
    /// What the rules see.
    pub(super) text: String,
    quotes: Vec<Quotation>,
}

#[derive(Debug)]
struct Quotation {
    /// With its marks.
    raw: String,
    /// Without them.
    inner: String,
}

/// A piece of a request, quotations put back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fragment {
    pub(super) text: String,
    /// The whole of it stood in quotation marks, which are gone; it is meant letter by letter.
    pub(super) quoted: bool,
}

/// The private-use area of the basic plane; one character stands for one quotation.
const FIRST: u32 = 0xE000;
const LAST: u32 = 0xF8FF;

/// Whether this character stands for a quotation.
pub(super) fn is_mark(c: char) -> bool {
    (FIRST..=LAST).contains(&u32::from(c))
}

impl Masked {
    pub(super) fn new(text: &str) -> Self {
        let mut masked = Self { text: String::with_capacity(text.len()), quotes: Vec::new() };
        let mut rest = text;
        let mut previous = None;
        while let Some(c) = rest.chars().next() {
            let quotation = quotation(rest, previous)
                .or_else(|| is_mark(c).then(|| Quotation { raw: c.to_string(), inner: c.to_string() }));
            let mark = u32::try_from(masked.quotes.len()).ok().and_then(|n| n.checked_add(FIRST));
            let mark = mark.filter(|code| *code <= LAST).and_then(char::from_u32);
            if let (Some(quotation), Some(mark)) = (quotation, mark) {
                rest = rest.strip_prefix(quotation.raw.as_str()).unwrap_or_default();
                masked.text.push(mark);
                masked.quotes.push(quotation);
                previous = Some(mark);
            } else {
                rest = rest.strip_prefix(c).unwrap_or_default();
                masked.text.push(c);
                previous = Some(c);
            }
        }
        masked
    }

    /// The original text of a piece of [`Masked::text`].
    pub(super) fn fragment(&self, piece: &str) -> Fragment {
        let piece = piece.trim();
        let mut chars = piece.chars();
        if let (Some(c), None) = (chars.next(), chars.next())
            && let Some(quotation) = self.quotation(c)
        {
            return Fragment { text: quotation.inner.clone(), quoted: true };
        }
        let mut text = String::with_capacity(piece.len());
        for c in piece.chars() {
            match self.quotation(c) {
                Some(quotation) => text.push_str(&quotation.raw),
                None => text.push(c),
            }
        }
        Fragment { text, quoted: false }
    }

    fn quotation(&self, c: char) -> Option<&Quotation> {
        let at = u32::from(c).checked_sub(FIRST)?;
        self.quotes.get(usize::try_from(at).ok()?)
    }
}

/// The quotation at the start of `rest`, if one opens and closes there.
fn quotation(rest: &str, previous: Option<char>) -> Option<Quotation> {
    let close = match rest.chars().next()? {
        '`' => return backticks(rest),
        '"' => return double(rest),
        '\'' => return single(rest, previous),
        '“' => '”',
        '‘' => '’',
        '「' => '」',
        '『' => '』',
        '«' => '»',
        '＂' => '＂',
        _ => return None,
    };
    let mut chars = rest.chars();
    chars.next();
    let (inner, after) = chars.as_str().split_once(close)?;
    whole(rest, after, inner.to_owned())
}

/// `code`, ``co`de`` and fenced blocks, whose first line names a language.
fn backticks(rest: &str) -> Option<Quotation> {
    let run = rest.chars().take_while(|c| *c == '`').count();
    let fence = "`".repeat(run);
    let opened = rest.strip_prefix(fence.as_str())?;
    let Some((inner, after)) = opened.split_once(fence.as_str()) else {
        let empty = run == 2;
        return empty.then(|| Quotation { raw: fence, inner: String::new() });
    };
    let inner = match inner.split_once('\n') {
        Some((_, body)) if run >= 3 => body,
        _ => inner,
    };
    whole(rest, after, inner.to_owned())
}

fn double(rest: &str) -> Option<Quotation> {
    let opened = rest.strip_prefix('"')?;
    let at = opened.match_indices('"').map(|(at, _)| at).find(|at| {
        let before = opened.get(..*at).unwrap_or_default();
        !before.ends_with('\\')
    })?;
    let (inner, after) = opened.split_at_checked(at)?;
    whole(rest, after.strip_prefix('"')?, inner.replace("\\\"", "\""))
}

/// An apostrophe inside a word opens and closes nothing.
fn single(rest: &str, previous: Option<char>) -> Option<Quotation> {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if previous.is_some_and(word) {
        return None;
    }
    let opened = rest.strip_prefix('\'')?;
    opened.match_indices('\'').find_map(|(at, _)| {
        let (inner, after) = opened.split_at_checked(at)?;
        let after = after.strip_prefix('\'')?;
        (!after.starts_with(word)).then(|| whole(rest, after, inner.to_owned())).flatten()
    })
}

fn whole(rest: &str, after: &str, inner: String) -> Option<Quotation> {
    let raw = rest.strip_suffix(after)?.to_owned();
    Some(Quotation { raw, inner })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, inners: &[&str]) {
        let masked = Masked::new(text);
        let found: Vec<&str> = masked.quotes.iter().map(|q| q.inner.as_str()).collect();
        assert_eq!(found, inners, "{text}");
        let alone = masked.text.chars().count() == 1 && !inners.is_empty();
        let back = masked.fragment(&masked.text).text;
        assert_eq!(back, if alone { inners[0] } else { text }, "{text}");
    }

    #[test]
    fn quotations_of_every_kind() {
        check("find `a b` now", &["a b"]);
        check("``a`b``", &["a`b"]);
        check("``", &[""]);
        check("```rust\nfn a() {}\n```", &["fn a() {}\n"]);
        check(r#"say "it's \"so\"" now"#, &[r#"it's "so""#]);
        check("don't find 'x y' or what's", &["x y"]);
        check("查找“甲 乙”和「丙」", &["甲 乙", "丙"]);
        check("open \" alone and ` alone", &[]);
        check("replace `a \"b\" c` with 'd `e` f'", &["a \"b\" c", "d `e` f"]);
        check("a \u{e000} b", &["\u{e000}"]);
    }
}
