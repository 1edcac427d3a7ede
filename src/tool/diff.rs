//! Unified diffs of a file before and after, for people who watch or decide.

use std::fmt::Write;
use std::ops::Range;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use similar::{Algorithm, DiffOp, DiffTag, capture_diff_slices_deadline, group_diff_ops};

/// Unchanged lines shown around a change.
const CONTEXT: usize = 3;
/// Longest diff kept, in bytes.
const CAP: usize = 64 * 1024;
/// After this the diff is coarser, never wrong.
const PATIENCE: Duration = Duration::from_millis(100);

/// What changed in a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct FileDiff {
    /// In the unified format.
    pub(super) text: String,
    /// Lines added.
    pub(super) additions: usize,
    /// Lines taken out.
    pub(super) deletions: usize,
}

impl FileDiff {
    /// For user interfaces.
    pub(super) fn details(&self, path: &str) -> Value {
        json!({"path": path, "diff": self.text, "additions": self.additions, "deletions": self.deletions})
    }
}

/// Compares two contents; `old` is `None` for a new file.
pub(super) fn unified(name: &str, old: Option<&[u8]>, new: &[u8]) -> FileDiff {
    let old_lines: Vec<&[u8]> = old.unwrap_or_default().split_inclusive(|byte| *byte == b'\n').collect();
    let new_lines: Vec<&[u8]> = new.split_inclusive(|byte| *byte == b'\n').collect();
    let same = old_lines.iter().zip(&new_lines).take_while(|(a, b)| a == b).count();
    let rest = old_lines.len().min(new_lines.len()) - same;
    let tail =
        old_lines.iter().rev().zip(new_lines.iter().rev()).take(rest).take_while(|(a, b)| a == b).count();
    // Only the part that differs is compared, with the context around it.
    let start = same.saturating_sub(CONTEXT);
    let after = tail.saturating_sub(CONTEXT);
    let old_part = old_lines.get(start..old_lines.len() - after).unwrap_or_default();
    let new_part = new_lines.get(start..new_lines.len() - after).unwrap_or_default();
    let deadline = Some(Instant::now() + PATIENCE);
    let ops = capture_diff_slices_deadline(Algorithm::Myers, old_part, new_part, deadline);

    let mut diff = FileDiff::default();
    for op in &ops {
        if op.tag() != DiffTag::Equal {
            diff.deletions += op.old_range().len();
            diff.additions += op.new_range().len();
        }
    }
    if diff.additions + diff.deletions == 0 {
        return diff;
    }
    let from = if old.is_some() { format!("a/{name}") } else { "/dev/null".to_owned() };
    diff.text = format!("--- {from}\n+++ b/{name}\n");
    for group in group_diff_ops(ops, CONTEXT) {
        if diff.text.len() > CAP {
            diff.text.push_str("[the rest of the diff is left out]\n");
            break;
        }
        hunk(&group, start, old_part, new_part, &mut diff.text);
    }
    diff
}

fn hunk(ops: &[DiffOp], start: usize, old: &[&[u8]], new: &[&[u8]], out: &mut String) {
    let (Some(first), Some(last)) = (ops.first(), ops.last()) else { return };
    let span = |range: fn(&DiffOp) -> Range<usize>| {
        let (from, to) = (range(first).start, range(last).end);
        // An empty range is named by the line before it (POSIX, diff -u).
        let line = start + from + usize::from(to > from);
        if to - from == 1 { line.to_string() } else { format!("{line},{}", to - from) }
    };
    writeln!(out, "@@ -{} +{} @@", span(DiffOp::old_range), span(DiffOp::new_range)).ok();
    for op in ops {
        if op.tag() == DiffTag::Equal {
            lines(' ', old.get(op.old_range()), out);
        } else {
            lines('-', old.get(op.old_range()), out);
            lines('+', new.get(op.new_range()), out);
        }
    }
}

fn lines(sign: char, lines: Option<&[&[u8]]>, out: &mut String) {
    for line in lines.unwrap_or_default() {
        if out.len() > CAP {
            return;
        }
        out.push(sign);
        out.push_str(&String::from_utf8_lossy(line));
        if !line.ends_with(b"\n") {
            out.push_str("\n\\ No newline at end of file\n");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(old: Option<&str>, new: &str, want: &str, counts: (usize, usize)) {
        let diff = unified("f", old.map(str::as_bytes), new.as_bytes());
        assert_eq!(diff.text, want);
        assert_eq!((diff.additions, diff.deletions), counts);
    }

    #[test]
    fn diffs_are_unified() {
        check(Some("a\nb\n"), "a\nb\n", "", (0, 0));
        check(None, "a\nb\n", "--- /dev/null\n+++ b/f\n@@ -0,0 +1,2 @@\n+a\n+b\n", (2, 0));
        check(Some("a\n"), "", "--- a/f\n+++ b/f\n@@ -1 +0,0 @@\n-a\n", (0, 1));
        check(
            Some("1\n2\n3\n4\n5\n6\n7\n8\n9\n"),
            "1\n2\n3\n4\nX\n6\n7\n8\n9\n",
            "--- a/f\n+++ b/f\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+X\n 6\n 7\n 8\n",
            (1, 1),
        );
        check(
            Some("x\r\ny"),
            "x\r\nz\n",
            "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n x\r\n-y\n\\ No newline at end of file\n+z\n",
            (1, 1),
        );
    }

    #[test]
    fn changes_far_apart_are_hunks_of_their_own() {
        let old = (1..=40).map(|n| n.to_string()).collect::<Vec<_>>().join("\n") + "\n";
        let new = old.replace("10\n", "ten\n").replace("30\n", "");
        let want = "--- a/f\n+++ b/f\n@@ -7,7 +7,7 @@\n 7\n 8\n 9\n-10\n+ten\n 11\n 12\n 13\n\
                    @@ -27,7 +27,6 @@\n 27\n 28\n 29\n-30\n 31\n 32\n 33\n";
        check(Some(&old), &new, want, (1, 2));
    }

    #[test]
    fn a_huge_diff_is_cut() {
        let new = "a line of some length\n".repeat(10_000);
        let diff = unified("f", None, new.as_bytes());
        assert!(diff.text.len() < CAP + 1000, "{}", diff.text.len());
        assert_eq!(diff.additions, 10_000);
    }
}
