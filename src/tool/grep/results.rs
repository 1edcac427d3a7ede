//! What a search found, sorted and cut to a page, in memory that does not grow with the number of matches.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use super::super::{ToolError, output};
use super::search::Searched;

/// Cap of one result, in bytes.
const CAP: usize = 30_000;

/// The part of the results that is shown.
#[derive(Debug, Clone, Copy)]
pub(super) struct Page {
    pub(super) offset: usize,
    pub(super) limit: usize,
}

/// Results by path; beyond the page only their number is known.
#[derive(Debug)]
pub(super) struct Results {
    page: Page,
    files: BTreeMap<PathBuf, Vec<String>>,
    /// Lines in `files`.
    held: usize,
    /// All result lines.
    total: usize,
    pub(super) matched_files: usize,
    pub(super) searched: usize,
    pub(super) binary: usize,
    pub(super) failed: Vec<PathBuf>,
}

impl Results {
    pub(super) fn new(page: Page) -> Self {
        Self {
            page,
            files: BTreeMap::new(),
            held: 0,
            total: 0,
            matched_files: 0,
            searched: 0,
            binary: 0,
            failed: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, path: &Path, searched: Searched) {
        match searched {
            Searched::Failed => self.failed.push(path.to_owned()),
            Searched::Binary => self.binary += 1,
            Searched::Nothing => self.searched += 1,
            Searched::Found { lines, total } => {
                self.searched += 1;
                self.matched_files += 1;
                self.total += total;
                self.held += lines.len();
                self.files.insert(path.to_owned(), lines);
                self.forget();
            }
        }
    }

    /// Lets go of the files that come after the page, whatever is still to be found.
    fn forget(&mut self) {
        // No line is shorter than two bytes, so the cap bounds the page as well.
        let needed = self.page.offset.saturating_add(self.page.limit.min(CAP));
        while let Some(last) = self.files.last_entry() {
            let lines = last.get().len();
            if self.held - lines < needed {
                return;
            }
            self.held -= lines;
            last.remove();
        }
    }

    /// The page, and how to go on.
    pub(super) fn text(&self) -> Result<String, ToolError> {
        let mut text = String::new();
        let mut shown = 0;
        for line in self.files.values().flatten().skip(self.page.offset).take(self.page.limit) {
            if shown > 0 && text.len() + line.len() > CAP {
                break;
            }
            text.push_str(line);
            text.push('\n');
            shown += 1;
        }
        let total = output::thousands(self.total as u64);
        if shown == 0 {
            let text = format!("offset {} is beyond the {total} results.", self.page.offset);
            return Err(ToolError::Failed(text));
        }
        let end = self.page.offset + shown;
        if end < self.total {
            writeln!(
                text,
                "[Results {} to {end} of {total} are shown. Go on with offset {end}, or narrow the search.]",
                self.page.offset + 1
            )
            .ok();
        }
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_the_same_in_any_order_of_finding() {
        let files: Vec<(String, usize)> = (0..40).map(|n| (format!("/f{n:02}"), n % 4 + 1)).collect();
        let all: Vec<String> =
            files.iter().flat_map(|(path, lines)| (0..*lines).map(move |n| format!("{path}:{n}"))).collect();
        let page = |offset, limit, backwards: bool| {
            let mut results = Results::new(Page { offset, limit });
            let mut order: Vec<_> = files.iter().collect();
            if backwards {
                order.reverse();
            }
            for (path, lines) in order {
                let lines: Vec<String> = (0..*lines).map(|n| format!("{path}:{n}")).collect();
                results.add(Path::new(path), Searched::Found { total: lines.len(), lines });
            }
            assert!(results.held <= offset + limit + 4, "{}", results.held);
            results.text().unwrap()
        };
        for (offset, limit) in [(0, 5), (7, 10), (95, 5)] {
            let text = page(offset, limit, false);
            assert_eq!(text, page(offset, limit, true));
            let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('[')).collect();
            assert_eq!(lines, all[offset..offset + limit]);
        }
        assert!(
            page(0, 5, false)
                .ends_with("[Results 1 to 5 of 100 are shown. Go on with offset 5, or narrow the search.]\n")
        );
    }
}
