//! The rules of the source tree, checked on its syntax: direction, size, first lines, and who may touch the system.

mod names;

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

use names::{EVERYTHING, Names, module_of};

/// Top-level modules by row: a module imports from itself and from earlier rows, never from a neighbour.
const ROWS: &[&[&str]] = &[
    &["protocol"],
    &["config", "process", "trace"],
    &["provider", "tool", "permission", "sandbox", "hook", "memory", "session"],
    &["compact", "skill", "mcp", "prompt"],
    &["engine"],
    &["team"],
    &["app"],
    &["headless", "repl", "demo", "acp", "tui"],
    &["cli"],
];

const FRONT_END_ROW: usize = 7;
const FRONT_ENDS_SEE: &[&str] = &["protocol", "config", "app"];

/// The files above every row: the code map and the dispatch of the binary.
const ROOTS: &[&str] = &["src/lib.rs", "src/main.rs"];

const MAX_LINES: usize = 400;
/// Tables of data, which splitting would only make harder to read.
const TABLES: &[&str] = &["src/provider/catalog.rs"];

/// Modules that decide and never act, and what they therefore never name.
const PURE: &[&str] = &["protocol", "permission", "engine", "compact"];
const SYSTEM: &[(&str, &[&str])] =
    &[("std", &["fs", "env", "process", "net"]), ("tokio", &["fs", "net", "process"])];

#[test]
fn the_source_tree_keeps_its_rules() {
    let mut files = Vec::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    read_sources(root, &root.join("src"), &mut files).unwrap();
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    assert!(files.iter().any(|(path, _)| *path == "src/lib.rs"));
    let violations = check(&files);
    assert!(violations.is_empty(), "{}", violations.join("\n"));
}

/// Every violation in a tree of `(path, text)`, sorted; paths are relative to the package, with `/`.
fn check(files: &[(&str, &str)]) -> Vec<String> {
    let mut violations = BTreeSet::new();
    let mut parsed = Vec::new();
    for &(path, text) in files {
        match syn::parse_file(text) {
            Ok(syntax) => parsed.push((path, text, Names::of(path, &syntax))),
            Err(error) => drop(violations.insert(format!("{path}: does not parse: {error}"))),
        }
    }
    let test_modules: Vec<Vec<String>> =
        parsed.iter().flat_map(|(_, _, names)| names.test_modules.clone()).collect();
    for (path, text, names) in &parsed {
        let module = module_of(path);
        let test_only = test_modules.iter().any(|test| module.starts_with(test));
        check_first_line(path, text, &mut violations);
        if !test_only {
            check_size(path, text, &mut violations);
        }
        if ROOTS.contains(path) {
            continue;
        }
        let Some(top) = module.first() else { continue };
        check_direction(path, top, names, &mut violations);
        if PURE.contains(&top.as_str()) && !test_only {
            check_purity(path, top, names, &mut violations);
        }
    }
    violations.into_iter().collect()
}

fn check_first_line(path: &str, text: &str, violations: &mut BTreeSet<String>) {
    if !text.starts_with("//!") {
        violations.insert(format!("{path}: the first line is no `//!` sentence"));
    }
}

fn check_size(path: &str, text: &str, violations: &mut BTreeSet<String>) {
    let lines = lines_before_tests(text);
    if lines > MAX_LINES && !TABLES.contains(&path) {
        violations.insert(format!("{path}: {lines} lines before its tests, at most {MAX_LINES}"));
    }
}

fn check_direction(path: &str, top: &str, names: &Names, violations: &mut BTreeSet<String>) {
    let Some(row) = row_of(top) else {
        violations.insert(format!("{path}: `{top}` has no row: add it to the table"));
        return;
    };
    for name in names.found.iter().filter(|name| name.root() == "crate") {
        let target = name.second();
        if target == top {
            continue;
        }
        let Some(target_row) = row_of(target) else {
            violations.insert(match target {
                EVERYTHING => format!("{path}: imports the crate's root, which hides direction"),
                _ => format!("{path}: `crate::{target}` has no row: add it to the table"),
            });
            continue;
        };
        if target_row >= row {
            violations
                .insert(format!("{path}: `{top}` (row {row}) names `crate::{target}` (row {target_row})"));
        } else if row == FRONT_END_ROW && !FRONT_ENDS_SEE.contains(&target) {
            violations.insert(format!(
                "{path}: front end `{top}` names `crate::{target}`, not only {}",
                FRONT_ENDS_SEE.join(", ")
            ));
        }
    }
}

fn check_purity(path: &str, top: &str, names: &Names, violations: &mut BTreeSet<String>) {
    for name in names.found.iter().filter(|name| !name.in_test) {
        let forbidden = SYSTEM.iter().any(|(root, parts)| {
            let part = name.second();
            name.root() == *root && (part == EVERYTHING || parts.contains(&part))
        });
        if forbidden {
            let (root, part) = (name.root(), name.second());
            violations.insert(format!("{path}: `{top}` is pure, yet names `{root}::{part}`"));
        }
    }
}

fn row_of(module: &str) -> Option<usize> {
    ROWS.iter().position(|row| row.contains(&module))
}

/// Lines up to the first inline test module; a lone `#[cfg(test)]` import or helper does not end the count.
fn lines_before_tests(text: &str) -> usize {
    let lines: Vec<&str> = text.lines().collect();
    let opens_tests = |at: usize| {
        let item = lines
            .iter()
            .skip(at)
            .map(|line| line.trim_start_matches("#[cfg(test)]"))
            .find(|line| line.starts_with(|first: char| first.is_ascii_lowercase()));
        item.is_some_and(|item| item.contains("mod ") && item.ends_with('{'))
    };
    let starts =
        |(at, line): (usize, &&str)| (line.starts_with("#[cfg(test)]") && opens_tests(at)).then_some(at);
    lines.iter().enumerate().find_map(starts).unwrap_or(lines.len())
}

fn read_sources(root: &Path, dir: &Path, files: &mut Vec<(String, String)>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            read_sources(root, &path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let shown = path.strip_prefix(root).unwrap_or(&path);
            let shown = shown.to_string_lossy().replace('\\', "/");
            files.push((shown, fs::read_to_string(&path)?));
        }
    }
    Ok(())
}

mod planted {
    //! One violation a rule, and the near misses that are none.

    use super::{MAX_LINES, check};

    /// Checks one file that has its `//!` line.
    fn one(path: &str, body: &str) -> Vec<String> {
        check(&[(path, &format!("//! Planted.\n{body}"))])
    }

    #[test]
    fn a_later_row_is_out_of_reach_however_it_is_written() {
        let bodies = [
            "use crate::engine::QueryEngine;",
            "use crate::{protocol::Event, engine::{self as inner, Host}};",
            "use super::super::engine;",
            "fn f() { crate::engine::run() }",
            "fn f(_: Vec<crate::engine::Seams>) {}",
            "fn f() { println!(\"{}\", [crate::engine::NAME]) }",
            "macro_rules! m { () => { use $crate::{engine::Host}; } }",
            "#[derive(crate::engine::Derive)] struct S;",
            "#[cfg(test)] mod tests { use super::super::super::engine::Host; }",
        ];
        for body in bodies {
            let expected = ["src/tool/bash.rs: `tool` (row 2) names `crate::engine` (row 4)"];
            assert_eq!(one("src/tool/bash.rs", body), expected, "{body}");
        }
    }

    #[test]
    fn neighbours_of_a_row_do_not_see_each_other() {
        assert_eq!(
            one("src/tool/mod.rs", "use crate::{permission::Gate, tool::output};"),
            ["src/tool/mod.rs: `tool` (row 2) names `crate::permission` (row 2)"]
        );
    }

    #[test]
    fn a_front_end_sees_the_application_alone() {
        assert_eq!(
            one("src/repl.rs", "use crate::{app::Handle, config::Config, session::list};"),
            ["src/repl.rs: front end `repl` names `crate::session`, not only protocol, config, app"]
        );
        assert_eq!(one("src/cli.rs", "use crate::{repl, session, app, engine};"), [""; 0]);
    }

    #[test]
    fn a_module_without_a_row_is_refused_on_both_sides() {
        assert_eq!(one("src/helpers.rs", ""), ["src/helpers.rs: `helpers` has no row: add it to the table"]);
        assert_eq!(
            one("src/app/mod.rs", "use crate::helpers::join;"),
            ["src/app/mod.rs: `crate::helpers` has no row: add it to the table"]
        );
    }

    #[test]
    fn the_root_of_the_crate_is_no_way_around() {
        for body in ["use crate::*;", "use crate as ours;", "use super::{self as ours};"] {
            let expected = ["src/hook.rs: imports the crate's root, which hides direction"];
            assert_eq!(one("src/hook.rs", body), expected, "{body}");
        }
    }

    #[test]
    fn a_long_file_is_refused_unless_it_is_a_table_or_its_tests_are_long() {
        let code = "const A: u8 = 0;\n".repeat(MAX_LINES);
        let long = ["src/mcp/mod.rs: 402 lines before its tests, at most 400"];
        let helper = format!("{}\n{code}", "#[cfg(test)]");
        assert_eq!(one("src/mcp/mod.rs", &format!("{code}\n")), long);
        assert_eq!(one("src/mcp/mod.rs", &helper), long, "a test import hides nothing");
        assert_eq!(one("src/provider/catalog.rs", &helper), [""; 0]);
        let tests = format!("#[cfg(test)]\n#[expect(\n    a,\n    reason = \"\"\n)]\nmod tests {{\n{code}}}");
        assert_eq!(one("src/mcp/mod.rs", &tests), [""; 0]);
    }

    #[test]
    fn a_file_opens_with_what_it_is_for() {
        assert_eq!(
            check(&[("src/config/mod.rs", "\n//! Late.\n")]),
            ["src/config/mod.rs: the first line is no `//!` sentence"]
        );
    }

    #[test]
    fn pure_modules_never_name_the_system() {
        let planted = [
            ("fs", "use std::fs::read;"),
            ("env", "use std::{collections::BTreeMap, env as surroundings};"),
            ("process", "fn f() -> ::std::process::ExitCode { f() }"),
            ("net", "fn f() { assert!(std::net::Ipv4Addr::LOCALHOST.is_loopback()) }"),
            ("*", "use std as standard;"),
        ];
        for (part, body) in planted {
            let expected = [format!("src/compact/snip.rs: `compact` is pure, yet names `std::{part}`")];
            assert_eq!(one("src/compact/snip.rs", body), expected, "{body}");
        }
        assert_eq!(
            one("src/engine/act.rs", "fn f() { tokio::select! { _ = tokio::net::lookup() => {} } }"),
            ["src/engine/act.rs: `engine` is pure, yet names `tokio::net`"]
        );
    }

    #[test]
    fn tests_of_pure_modules_may_use_the_system() {
        let allowed = [
            "#[cfg(test)] mod tests { use std::fs; }",
            "#[cfg(all(test, unix))] fn f() { std::env::args(); }",
            "struct S; impl S { #[cfg(test)] fn f() { std::env::args(); } }",
            "use std::{path::Path, time::Duration}; use tokio::time;",
        ];
        for body in allowed {
            assert_eq!(one("src/engine/mod.rs", body), [""; 0], "{body}");
        }
        let parent = ("src/engine/mod.rs", "//! Loop.\n#[cfg(test)]\nmod tests;\n");
        let tests = ("src/engine/tests.rs", "//! Tests.\nuse std::fs;\n");
        assert_eq!(check(&[parent, tests]), [""; 0]);
        assert_eq!(check(&[tests]), ["src/engine/tests.rs: `engine` is pure, yet names `std::fs`"]);
    }

    #[test]
    fn a_file_that_does_not_parse_is_named() {
        assert_eq!(
            one("src/app/mod.rs", "fn"),
            ["src/app/mod.rs: does not parse: unexpected end of input, expected identifier"]
        );
    }
}
