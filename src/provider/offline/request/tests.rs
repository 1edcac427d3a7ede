//! Phrases and the steps that they mean.

use super::*;

fn place(at: &str) -> Place {
    if at.is_empty() { Place::Workspace } else { Place::At(at.to_owned()) }
}

fn list(pattern: &str, at: &str) -> Step {
    Step::List { pattern: pattern.to_owned(), place: place(at) }
}

fn find_as(form: Form, text: &str, at: &str) -> Step {
    Step::Find { text: text.to_owned(), form, place: place(at) }
}

fn find(text: &str, at: &str) -> Step {
    find_as(Form::Exact, text, at)
}

fn definition(text: &str) -> Step {
    find_as(Form::Definition, text, "")
}

fn show(path: &str) -> Step {
    Step::Show { path: path.to_owned(), lines: None }
}

fn lines(path: &str, first: u64, last: u64) -> Step {
    Step::Show { path: path.to_owned(), lines: Some(Lines { first, last }) }
}

fn count(what: Counted, at: &str) -> Step {
    Step::Count { what, place: place(at) }
}

fn files(pattern: &str) -> Counted {
    Counted::Files(pattern.to_owned())
}

fn text(text: &str) -> Counted {
    Counted::Matches(text.to_owned())
}

fn replace(path: &str, from: &str, to: &str) -> Step {
    Step::Replace { path: path.to_owned(), from: from.to_owned(), to: to.to_owned() }
}

fn create(path: &str, content: &str) -> Step {
    Step::Create { path: path.to_owned(), content: content.to_owned() }
}

fn run(command: &str) -> Step {
    Step::Run { command: command.to_owned() }
}

fn delegate(prompt: &str) -> Step {
    Step::Delegate { prompt: prompt.to_owned(), tools: Vec::new() }
}

/// All phrases of the table whose steps are not as wanted, so that one run shows them all.
fn check(table: &[(&str, &[Step])]) {
    let wrong: Vec<String> = table
        .iter()
        .filter_map(|(phrase, wanted)| {
            let found = parse(phrase);
            (found.as_deref() != Ok(*wanted)).then(|| format!("{phrase}\n  got {found:?}\n  not {wanted:?}"))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn check_each(table: &[(&str, Step)]) {
    let table: Vec<(&str, &[Step])> =
        table.iter().map(|(phrase, step)| (*phrase, std::slice::from_ref(step))).collect();
    check(&table);
}

#[test]
fn english_single_steps() {
    check_each(&[
        ("list files", list("**/*", "")),
        ("List all the files.", list("**/*", "")),
        ("Please list files in src", list("**/*", "src")),
        ("list files in .", list("**/*", ".")),
        ("Could you list the files in the src folder, please?", list("**/*", "src")),
        ("list files in this project", list("**/*", "")),
        ("list *.rs files in src/", list("**/*.rs", "src/")),
        ("ls", list("**/*", "")),
        ("What files are there?", list("**/*", "")),
        ("which files are in \"my docs\"", list("**/*", "my docs")),
        ("find files named Cargo.toml", list("**/Cargo.toml", "")),
        ("find TODO", find("TODO", "")),
        ("find `a/b c` in src", find("a/b c", "src")),
        ("Search for \"hello, world\"", find("hello, world", "")),
        ("search for fn_name in `src/my lib.rs`", find("fn_name", "src/my lib.rs")),
        ("find all occurrences of parse_args", find("parse_args", "")),
        ("find the text hello world", find("hello world", "")),
        ("find regex `fn \\w+`", find_as(Form::Regex, "fn \\w+", "")),
        ("which files contain `unsafe`?", find("unsafe", "")),
        ("where is parse_args?", find("parse_args", "")),
        ("Where is add() defined?", definition("add")),
        ("where is the function add defined", definition("add")),
        ("find where `Config` is defined", definition("Config")),
        ("find the definition of Config", definition("Config")),
        ("where is the MCP config read?", find_as(Form::Words, "MCP config", "")),
        ("locate where the MCP config is read", find_as(Form::Words, "MCP config", "")),
        ("where is Cargo.toml", list("**/Cargo.toml", "")),
        ("list all rust files", list("**/*.rs", "")),
        ("list src/", list("**/*", "src/")),
        ("find fn main", find("fn main", "")),
        ("find all TODO comments", find("TODO", "")),
        ("Where's `main`?", find("main", "")),
        ("how many TODOs are there?", count(text("TODO"), "")),
        ("run the tests with `cargo test`", run("cargo test")),
        ("Then run `cargo test` again.", run("cargo test")),
        ("fix src/lib.rs by replacing `a - b` with `a + b`", replace("src/lib.rs", "a - b", "a + b")),
        ("show README.md", show("README.md")),
        ("Show me README.md, please!", show("README.md")),
        ("read the file src/lib.rs.", show("src/lib.rs")),
        ("read \"my notes.txt\"", show("my notes.txt")),
        ("show me the contents of 'docs/a b.md'", show("docs/a b.md")),
        ("cat Makefile", show("Makefile")),
        ("what's in Cargo.toml?", show("Cargo.toml")),
        ("show lines 10-20 of src/lib.rs", lines("src/lib.rs", 10, 20)),
        ("show the first 5 lines of src/lib.rs", lines("src/lib.rs", 1, 5)),
        ("count lines in src/lib.rs", count(Counted::Lines, "src/lib.rs")),
        ("How many lines does src/lib.rs have?", count(Counted::Lines, "src/lib.rs")),
        ("count the lines of *.rs", count(Counted::Lines, "*.rs")),
        ("how many files are there?", count(files("**/*"), "")),
        ("how many files are in src", count(files("**/*"), "src")),
        ("count .rs files", count(files("**/*.rs"), "")),
        ("count occurrences of `unwrap()` in src", count(text("unwrap()"), "src")),
        ("how many times does foo appear", count(text("foo"), "")),
        ("count TODO in src", count(text("TODO"), "src")),
        ("replace foo with bar in a.txt", replace("a.txt", "foo", "bar")),
        ("replace all occurrences of foo with bar in a.txt", replace("a.txt", "foo", "bar")),
        ("Replace `a with b` with `c in d` in src/lib.rs", replace("src/lib.rs", "a with b", "c in d")),
        ("change \"1.0\" to \"2.0\" in `my file.toml`", replace("my file.toml", "1.0", "2.0")),
        ("change a/b to c/d in x/y.rs", replace("x/y.rs", "a/b", "c/d")),
        ("in src/lib.rs, replace `a - b` with `a + b`", replace("src/lib.rs", "a - b", "a + b")),
        (
            "replace `let x = 'a';` with `let x = \"b\";` in src/m.rs.",
            replace("src/m.rs", "let x = 'a';", "let x = \"b\";"),
        ),
        ("remove `dbg!` from src/lib.rs", replace("src/lib.rs", "dbg!", "")),
        ("create notes.txt with hello world", create("notes.txt", "hello world")),
        ("create a file named a/b.txt with content `one, two; three`", create("a/b.txt", "one, two; three")),
        ("create x.md with the content Hello and bye", create("x.md", "Hello and bye")),
        ("write `hi` to \"my file.txt\"", create("my file.txt", "hi")),
        ("create an empty file empty.txt", create("empty.txt", "")),
        ("create a.txt with:\nlist files\nthen run it", create("a.txt", "list files\nthen run it\n")),
        ("create m.rs with ```rust\nfn main() {}\n```", create("m.rs", "fn main() {}\n")),
        ("run `cargo test`", run("cargo test")),
        ("run cargo test -- --nocapture", run("cargo test -- --nocapture")),
        ("Execute the command \"ls -l; echo done\"", run("ls -l; echo done")),
        ("run git commit -m \"then go\"", run("git commit -m \"then go\"")),
        ("use Agent to find TODO", delegate("find TODO")),
        ("Use the agent to find foo and run `x`", delegate("find foo and run `x`")),
        ("use an agent: `find foo then show a.rs`", delegate("find foo then show a.rs")),
        (
            "use Agent with tools Read, Grep to find TODO",
            Step::Delegate {
                prompt: "find TODO".to_owned(),
                tools: vec!["Read".to_owned(), "Grep".to_owned()],
            },
        ),
    ]);
}

#[test]
fn chinese_single_steps() {
    check_each(&[
        ("列出文件", list("**/*", "")),
        ("请列出所有文件。", list("**/*", "")),
        ("列出src目录下的所有文件", list("**/*", "src")),
        ("列出 src 里的文件", list("**/*", "src")),
        ("列出当前目录的文件", list("**/*", "")),
        ("列出“我的 文档”中的文件", list("**/*", "我的 文档")),
        ("列出所有 *.rs 文件", list("**/*.rs", "")),
        ("有哪些文件？", list("**/*", "")),
        ("src里有哪些文件", list("**/*", "src")),
        ("查找 TODO", find("TODO", "")),
        ("查找TODO", find("TODO", "")),
        ("帮我搜索“你好，世界”", find("你好，世界", "")),
        ("在 src 中查找 `a b`", find("a b", "src")),
        ("在src目录下搜索parse_args", find("parse_args", "src")),
        ("parse_args在哪里？", find("parse_args", "")),
        ("parse_args 在哪里定义？", definition("parse_args")),
        ("add函数在哪里定义的", definition("add")),
        ("函数 add 定义在哪里", definition("add")),
        ("查找 Config 的定义", definition("Config")),
        ("哪里定义了 Config", definition("Config")),
        ("哪些文件包含 unsafe", find("unsafe", "")),
        ("找出 MCP 配置在哪里读取", find_as(Form::Words, "MCP 配置", "")),
        ("请列出 src 下面的所有 .rs 文件", list("**/*.rs", "src")),
        ("显示 Cargo.toml 文件", show("Cargo.toml")),
        ("统计代码行数", count(Counted::Lines, "")),
        ("写入 hello 到 hello.txt", create("hello.txt", "hello")),
        ("用 `cargo test` 运行测试", run("cargo test")),
        ("显示 README.md", show("README.md")),
        ("显示README.md的内容", show("README.md")),
        ("读取文件 src/lib.rs", show("src/lib.rs")),
        ("请读取「我的 笔记.txt」，谢谢", show("我的 笔记.txt")),
        ("看看 src/main.rs 吧", show("src/main.rs")),
        ("显示 src/lib.rs 第10到20行", lines("src/lib.rs", 10, 20)),
        ("显示 src/lib.rs 的前 5 行", lines("src/lib.rs", 1, 5)),
        ("统计 src/lib.rs 的行数", count(Counted::Lines, "src/lib.rs")),
        ("src/lib.rs有多少行？", count(Counted::Lines, "src/lib.rs")),
        ("统计文件数量", count(files("**/*"), "")),
        ("有多少个文件", count(files("**/*"), "")),
        ("统计src目录下的文件数", count(files("**/*"), "src")),
        ("统计 TODO 出现的次数", count(text("TODO"), "")),
        ("TODO 在 src 中出现了多少次", count(text("TODO"), "src")),
        ("把 a.txt 中的 foo 替换为 bar", replace("a.txt", "foo", "bar")),
        ("把src/lib.rs中的`a - b`替换为`a + b`", replace("src/lib.rs", "a - b", "a + b")),
        ("将 “我的 文件.txt” 里的“甲”改成“乙”。", replace("我的 文件.txt", "甲", "乙")),
        ("在 a.txt 中把 `x` 改为 `y`", replace("a.txt", "x", "y")),
        ("在src/lib.rs里，将`甲的乙`替换成`丙`", replace("src/lib.rs", "甲的乙", "丙")),
        ("创建 a.txt 内容为 你好", create("a.txt", "你好")),
        ("创建文件 a.txt，内容为：你好，世界", create("a.txt", "你好，世界")),
        ("新建一个空文件 b.txt", create("b.txt", "")),
        ("把 `hi` 写入 a.txt", create("a.txt", "hi")),
        ("创建 a.txt，内容为：\n第一行\n第二行", create("a.txt", "第一行\n第二行\n")),
        ("运行 `cargo test`", run("cargo test")),
        ("运行cargo test", run("cargo test")),
        ("请执行命令 ls -l", run("ls -l")),
        ("用 Agent 查找 TODO", delegate("查找 TODO")),
        ("使用Agent来列出文件", delegate("列出文件")),
        ("让Agent统计 src/lib.rs 的行数", delegate("统计 src/lib.rs 的行数")),
    ]);
}

#[test]
fn several_steps_in_their_order() {
    let fix = || replace("src/lib.rs", "a - b", "a + b");
    check(&[
        ("replace `a - b` with `a + b` in src/lib.rs, then run `cargo test`", &[fix(), run("cargo test")]),
        (
            "Run `cargo test`, then replace `a - b` with `a + b` in src/lib.rs, and then run `cargo test`.",
            &[run("cargo test"), fix(), run("cargo test")],
        ),
        ("list files; show README.md; run `ls`", &[list("**/*", ""), show("README.md"), run("ls")]),
        ("list files, show README.md and run `ls`", &[list("**/*", ""), show("README.md"), run("ls")]),
        ("1. list files\n2. show a.rs\n3) run `x`", &[list("**/*", ""), show("a.rs"), run("x")]),
        ("Step 1: list files\nStep 2: run `ls`", &[list("**/*", ""), run("ls")]),
        ("1. list files 2. show a.rs", &[list("**/*", ""), show("a.rs")]),
        (
            "Please do the following:\n- list files\n- find `then; 2. x`",
            &[list("**/*", ""), find("then; 2. x", "")],
        ),
        ("First, list files. Finally run `x`.", &[list("**/*", ""), run("x")]),
        ("use Agent to find foo, then run `x`", &[delegate("find foo"), run("x")]),
        ("find read and show a.rs", &[find("read", ""), show("a.rs")]),
        ("列出文件，然后显示 README.md", &[list("**/*", ""), show("README.md")]),
        (
            "先运行`cargo test`，然后把src/lib.rs中的`a - b`替换为`a + b`，再运行`cargo test`。",
            &[run("cargo test"), fix(), run("cargo test")],
        ),
        (
            "运行`a`，读取b.rs并统计文件数；列出文件",
            &[run("a"), show("b.rs"), count(files("**/*"), ""), list("**/*", "")],
        ),
        ("1、列出文件\n2、查找 TODO", &[list("**/*", ""), find("TODO", "")]),
        ("请依次完成以下任务：\n1. 列出文件\n2. 运行 ls", &[list("**/*", ""), run("ls")]),
        ("把 a.txt 中的 foo 替换为 bar，运行 ls", &[replace("a.txt", "foo", "bar"), run("ls")]),
    ]);
}

#[test]
fn what_is_not_wholly_understood_is_refused() {
    let phrases = [
        "",
        "   ",
        "hello",
        "你好",
        "Say ok",
        "fix the failing test",
        "make it faster",
        "explain src/lib.rs",
        "find the bug and fix it",
        "find the bug in src/lib.rs",
        "find bugs",
        "find memory leaks",
        "find foo then refactor everything",
        "list files and explain them",
        "list files, show README.md and explain it",
        "show me how it works",
        "read it",
        "open the pod bay doors",
        "don't run `rm -rf /`",
        "never run `x`",
        "run the tests",
        "run tests",
        "run `x` until it passes",
        "run cargo test and fix what fails",
        "create main.rs with a function that adds numbers",
        "create parser.rs",
        "create a web server",
        "replace the old parser with a new one in src/lib.rs",
        "replace a with b",
        "replace a with b with c in f.rs",
        "change the name to Bob in a.txt",
        "count functions",
        "count on me",
        "how many bugs are there",
        "how many people live in Paris?",
        "what is the meaning of life",
        "where is the bug and why",
        "use Agent",
        "list the features",
        "list bugs",
        "run the tests with care",
        "what can you do",
        "谢谢",
        "delete everything",
        "remove the cache from src/lib.rs",
        "写一个排序函数",
        "修复失败的测试",
        "查找问题并修复",
        "运行测试",
        "解释 src/lib.rs",
        "把代码改得更快",
        "创建 main.rs 内有一个函数",
        "不要运行 `rm -rf /`",
        "列出文件，然后解释它们",
        "查找内存泄漏",
        "今天天气怎么样",
    ];
    let taken: Vec<_> = phrases.iter().filter_map(|phrase| Some((phrase, parse(phrase).ok()?))).collect();
    assert!(taken.is_empty(), "{taken:#?}");
}

#[test]
fn the_part_that_was_not_understood_is_named() {
    let part = |phrase: &str| parse(phrase).unwrap_err().part;
    assert_eq!(part("list files; refactor `everything now`; run `x`"), "refactor `everything now`");
    assert_eq!(part("列出文件，然后优化代码。"), "优化代码");
}

#[test]
fn odd_input_ends_quickly() {
    for text in [
        "with ".repeat(3_000),
        "replace ".repeat(900),
        "把".repeat(2_000),
        "`".repeat(5_001),
        "，".repeat(2_700),
        "a, ".repeat(2_000),
    ] {
        let begun = std::time::Instant::now();
        assert!(parse(&text).is_err());
        assert!(begun.elapsed().as_secs() < 2, "{}", text.chars().take(20).collect::<String>());
    }
}
