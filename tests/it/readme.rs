//! The README says what the program does: every flag, every exit code, and a test command that needs only cargo.

use std::process::Command;

const README: &str = include_str!("../../README.md");

#[test]
fn every_flag_stands_in_the_table() {
    let help = Command::new(env!("CARGO_BIN_EXE_reagent")).arg("--help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let flags: Vec<&str> = help
        .lines()
        .filter(|line| line.trim_start().starts_with('-'))
        .filter_map(|line| line.split([' ', ',', '=']).find(|word| word.starts_with("--")))
        .filter(|flag| !["--help", "--version"].contains(flag))
        .collect();
    assert!(flags.len() > 15, "{flags:?}");
    let table: Vec<&str> = README.lines().filter(|line| line.starts_with("| `-")).collect();
    let missing: Vec<&&str> =
        flags.iter().filter(|flag| !table.iter().any(|row| row.contains(**flag))).collect();
    assert!(missing.is_empty(), "not in the README's table: {missing:?}");
    for row in table {
        let named =
            row.split('`').filter(|word| word.starts_with("--")).filter_map(|word| word.split(' ').next());
        for flag in named.filter(|flag| *flag != "--print") {
            assert!(help.contains(flag), "the README names {flag}, the help does not");
        }
    }
}

#[test]
fn the_test_command_needs_only_cargo() {
    let (_, after) = README.split_once("## Test\n").unwrap();
    let command = after.lines().find(|line| line.starts_with("cargo ")).unwrap();
    assert_eq!(command, "cargo test");
}
