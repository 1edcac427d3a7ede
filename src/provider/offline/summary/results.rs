//! Reads the results of tools; leniently, since a note or a header may stand among the lines.

use super::super::plan::Answer;

/// What a file search gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Listing {
    pub(super) paths: Vec<String>,
    /// How many there are, more than are listed where a note says so.
    pub(super) total: usize,
    /// A note says that there are more, but not how many.
    pub(super) partial: bool,
}

/// What a text search gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Matches {
    /// `path:line:text`, or `line:text` where one file was searched.
    pub(super) lines: Vec<String>,
    /// How many there are, more than are listed where a note says so.
    pub(super) total: usize,
    /// In how many files those that are listed stand.
    pub(super) files: usize,
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ended {
    /// `None`: it did not run, or not to its end.
    pub(super) code: Option<i64>,
    /// Its output without blank lines and notes.
    pub(super) lines: Vec<String>,
}

/// One path a line.
pub(super) fn listing(text: &str) -> Listing {
    let (notes, paths): (Vec<&str>, Vec<&str>) =
        text.lines().map(str::trim).filter(|line| !line.is_empty()).partition(|line| is_note(line));
    let more = |note: &&str| {
        let note = note.to_lowercase();
        ["truncated", "more", "first", "only", "limit", "of "].iter().any(|sign| note.contains(sign))
    };
    let said = notes.iter().find_map(|note| said_total(note)).filter(|total| *total >= paths.len());
    let partial = !paths.is_empty() && said.is_none() && notes.iter().any(more);
    let total = said.unwrap_or(paths.len());
    Listing { paths: paths.into_iter().map(str::to_owned).collect(), total, partial }
}

/// The number in "100 of 2,300 files".
fn said_total(note: &str) -> Option<usize> {
    let bracketed = note.starts_with(['[', '(']);
    let (_, rest) = note.split_once(" of ").filter(|_| bracketed)?;
    let number: String = rest.chars().take_while(|c| c.is_ascii_digit() || *c == ',').collect();
    number.replace(',', "").parse().ok()
}

/// A line of the tool's own: in brackets, or a sentence about having found something.
fn is_note(line: &str) -> bool {
    let lower = line.to_lowercase();
    let bracketed =
        (line.starts_with('[') && line.ends_with(']')) || (line.starts_with('(') && line.ends_with(')'));
    let sentence = ["no files", "no match", "found ", "showing ", "… ", "... "];
    bracketed || (sentence.iter().any(|start| lower.starts_with(start)) && lower.contains(' '))
}

/// Lines that have a line number in the place where it belongs.
pub(super) fn matches(text: &str) -> Matches {
    let mut lines = Vec::new();
    let mut files: Vec<&str> = Vec::new();
    // The sentence that nothing was found quotes the pattern, which may look like a match.
    let nothing = text.trim_start().to_lowercase().starts_with("no match");
    for line in text.lines().filter(|_| !nothing) {
        let Some(path) = matched_path(line) else { continue };
        if !files.contains(&path) {
            files.push(path);
        }
        lines.push(tidy(line));
    }
    let said = text.lines().rev().find_map(said_total).filter(|total| *total >= lines.len());
    Matches { total: said.unwrap_or(lines.len()), files: files.len(), lines }
}

/// The path before `:12:`; empty for `12:text`.
fn matched_path(line: &str) -> Option<&str> {
    let numbered = |rest: &str| {
        let digits = rest.chars().take_while(char::is_ascii_digit).count();
        digits > 0 && rest.get(digits..).is_some_and(|after| after.starts_with(':'))
    };
    if numbered(line.trim_start()) {
        return line.get(..0);
    }
    let at = line.match_indices(':').map(|(at, _)| at).find(|at| line.get(at + 1..).is_some_and(numbered))?;
    line.get(..at)
}

/// `path:12:` and the text without its indent.
fn tidy(line: &str) -> String {
    let at = matched_path(line).map_or(0, |path| if path.is_empty() { 0 } else { path.len() + 1 });
    let Some((head, rest)) = line.split_at_checked(at) else { return line.to_owned() };
    match rest.split_once(':') {
        Some((number, text)) => format!("{head}{}: {}", number.trim(), text.trim()),
        None => line.to_owned(),
    }
}

/// What reading a file gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Content {
    /// Without the numbers before them.
    pub(super) lines: Vec<String>,
    /// What the tool says beside them: that there is more, or that the file is as it was.
    pub(super) notes: Vec<String>,
}

/// Numbered lines are the file's, all others the tool's.
pub(super) fn content(text: &str) -> Content {
    let mut content = Content { lines: Vec::new(), notes: Vec::new() };
    for line in text.lines() {
        match without_number(line) {
            Some(own) => content.lines.push(own.to_owned()),
            None if line.trim().is_empty() => {}
            None => content.notes.push(line.to_owned()),
        }
    }
    content
}

/// `     1\ttext` and `1→text`.
fn without_number(line: &str) -> Option<&str> {
    let rest = line.trim_start_matches(' ');
    let text = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    (text.len() < rest.len()).then(|| text.strip_prefix(['\t', '→'])).flatten()
}

/// The sum of a count (`path:12` a line, or a number alone) and in how many files; `None` where there is none.
pub(super) fn total(text: &str) -> Option<(usize, usize)> {
    let counts: Vec<usize> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.contains('\t') && !is_note(line))
        .filter_map(|line| line.rsplit(':').next()?.trim().parse().ok())
        .collect();
    (!counts.is_empty()).then(|| (counts.iter().sum(), counts.len()))
}

/// The exit code in the last line that speaks of one. Success may go without saying.
pub(super) fn outcome(answer: &Answer) -> Ended {
    let said = answer.text.lines().enumerate().filter_map(|(at, line)| Some((at, exit_code(line)?))).last();
    let lines = answer.text.lines().enumerate().filter(|(at, line)| {
        let line = line.trim();
        let note = said.is_some_and(|(said, _)| said == *at) || line == "(no output)" || is_timing(line);
        !note && !line.is_empty()
    });
    let lines = lines.map(|(_, line)| line.to_owned()).collect();
    Ended { code: said.map(|(_, code)| code).or((!answer.is_error).then_some(0)), lines }
}

fn is_timing(line: &str) -> bool {
    line.starts_with("[exit")
        || (line.starts_with('[') && line.ends_with(']') && line.contains("full output"))
}

fn exit_code(line: &str) -> Option<i64> {
    let lower = line.trim().to_lowercase();
    let note = lower.starts_with(['[', '(']) || lower.starts_with("exit") || lower.starts_with("command ");
    let signs = ["exit code", "exit status", "exited with code", "exited with"];
    let rest = signs.iter().find_map(|sign| lower.split_once(sign)).filter(|_| note)?.1;
    let number: String = rest
        .trim_start_matches([':', ' ', '='])
        .chars()
        .take_while(|c| c.is_ascii_digit() || *c == '-')
        .collect();
    number.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listings_leave_notes_out() {
        let check = |text: &str, paths: &[&str], total, partial| {
            let paths = paths.iter().map(|p| (*p).to_owned()).collect();
            assert_eq!(listing(text), Listing { paths, total, partial });
        };
        check("a.rs\nsrc/b.rs\n", &["a.rs", "src/b.rs"], 2, false);
        check("No files found", &[], 0, false);
        check("No files match **/*.x in . (3 files there).", &[], 0, false);
        check(
            "[slug].tsx\n(a)/b.ts\n[2 of 2,500 files are listed.]",
            &["[slug].tsx", "(a)/b.ts"],
            2_500,
            false,
        );
        check("a\n[truncated]", &["a"], 1, true);
    }

    #[test]
    fn matches_have_their_number() {
        let found = matches("src/a.rs:12:    fn a() {}\nsrc/b.rs:3:x: 1\n[2 matches]");
        assert_eq!(found.lines, ["src/a.rs:12: fn a() {}", "src/b.rs:3: x: 1"]);
        assert_eq!((found.total, found.files), (2, 2));
        assert_eq!(matches("a:1:b\n[Results 1 to 1 of 900 are shown.]").total, 900);
        assert_eq!(matches("No matches for a:1:b in . (3 files searched).").total, 0);
        assert_eq!(matches("12:  a\n13:b").lines, ["12: a", "13: b"]);
        assert_eq!(matches("No matches found").lines, Vec::<String>::new());
    }

    #[test]
    fn files_lose_their_numbers() {
        let read = content("     1\ta\n     2\t\n    10\t  b\n\n[10 of 90 lines]");
        assert_eq!(read.lines, ["a", "", "  b"]);
        assert_eq!(read.notes, ["[10 of 90 lines]"]);
        assert_eq!(content("unchanged\n").notes, ["unchanged"]);
    }

    #[test]
    fn counts_are_summed() {
        assert_eq!(total("a.rs:3\nb.rs:4\n"), Some((7, 2)));
        assert_eq!(total("5"), Some((5, 1)));
        assert_eq!(total("No matches found"), None);
        assert_eq!(total("     1\ta\n     2\t7"), None);
    }

    #[test]
    fn commands_end_with_a_code_or_not_at_all() {
        let check = |text: &str, is_error, code, lines: &[&str]| {
            let lines = lines.iter().map(|l| (*l).to_owned()).collect();
            assert_eq!(outcome(&Answer { text: text.to_owned(), is_error }), Ended { code, lines }, "{text}");
        };
        check("a\n\nb\n[exit code 1 after 0.3 s]", true, Some(1), &["a", "b"]);
        check("ok", false, Some(0), &["ok"]);
        check("(no output)", false, Some(0), &[]);
        check("Exit code: 101\nboom", true, Some(101), &["boom"]);
        check("the test checks exit code 3", false, Some(0), &["the test checks exit code 3"]);
        check("refused: use --allow-write", true, None, &["refused: use --allow-write"]);
        check("[timed out after 120 s]", true, None, &["[timed out after 120 s]"]);
    }
}
