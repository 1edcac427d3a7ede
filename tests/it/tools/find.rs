//! Glob and Grep: what is found, in which order, and what a search that finds nothing says.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};

use super::Bench;

#[tokio::test]
async fn glob_lists_the_newest_first_and_counts_the_rest() {
    let bench = Bench::new();
    for index in 0..130 {
        let path = bench.write(&format!("d{}/f{index:03}.rs", index % 3), "");
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000 + index / 2);
        File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
    }
    let text = bench.ok("Glob", json!({"pattern": "**/*.rs"})).await;
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 101);
    assert_eq!(lines[..3], ["d0/f129.rs", "d2/f128.rs", "d0/f126.rs"]);
    assert_eq!(
        lines[100],
        "[100 of 130 files are listed, newest first. Narrow the pattern or the path to see others.]"
    );
    assert_eq!(bench.ok("Glob", json!({"pattern": "f00[01].rs", "path": "d0"})).await, "d0/f000.rs\n");
    let none = bench.ok("Glob", json!({"pattern": "*.rs"})).await;
    let want = "No files match *.rs in . (130 files there). The pattern stays in one folder; **/*.rs goes through all.\n";
    assert_eq!(none, want);
    for bad in [
        json!({"pattern": ""}),
        json!({"pattern": "a["}),
        json!({"pattern": "*", "path": "nowhere"}),
        json!({"pattern": "*", "path": "d0/f000.rs"}),
    ] {
        bench.fails("Glob", bad).await;
    }
}

#[tokio::test]
async fn grep_shows_lines_files_and_counts() {
    let bench = Bench::new();
    bench.write("a.rs", "fn one() {\n    needle();\n}\nfn two() {}\nneedle\r\n");
    bench.write("sub/b.txt", "Needle here\nno\n");
    bench.write("bin.dat", b"needle\0");
    let check = async |input: Value, want: &str| {
        assert_eq!(bench.ok("Grep", input.clone()).await, want, "{input}");
    };
    let content = |mut input: Value| {
        input["output_mode"] = json!("content");
        input
    };
    check(json!({"pattern": "needle"}), "a.rs\n").await;
    check(json!({"pattern": "needle", "-i": true}), "a.rs\nsub/b.txt\n").await;
    check(json!({"pattern": "needle", "output_mode": "count"}), "a.rs:2\n").await;
    check(content(json!({"pattern": "needle$"})), "a.rs:5:needle\n").await;
    check(content(json!({"pattern": "needle", "-n": false})), "a.rs:    needle();\na.rs:needle\n").await;
    check(
        content(json!({"pattern": "two", "-B": 1, "-A": "1"})),
        "a.rs-3-}\na.rs:4:fn two() {}\na.rs-5-needle\n",
    )
    .await;
    check(content(json!({"pattern": "one|two", "-C": 0})), "a.rs:1:fn one() {\na.rs:4:fn two() {}\n").await;
    check(
        content(json!({"pattern": "\\{\\n +needle", "multiline": true})),
        "a.rs:1:fn one() {\na.rs:2:    needle();\n",
    )
    .await;
    check(
        content(json!({"pattern": "needle", "path": "sub/b.txt", "-i": true})),
        "sub/b.txt:1:Needle here\n",
    )
    .await;
    check(json!({"pattern": "needle", "-i": true, "glob": "*.txt"}), "sub/b.txt\n").await;
    check(json!({"pattern": "needle", "-i": true, "type": "rust"}), "a.rs\n").await;
    check(
        content(json!({"pattern": "needle", "head_limit": 1})),
        "a.rs:2:    needle();\n[Results 1 to 1 of 2 are shown. Go on with offset 1, or narrow the search.]\n",
    )
    .await;
    check(content(json!({"pattern": "needle", "head_limit": 1, "offset": 1})), "a.rs:5:needle\n").await;
    check(
        json!({"pattern": "nowhere"}),
        "No matches for nowhere in . (2 files searched, 1 binary file skipped).\n",
    )
    .await;
    let fails = async |input: Value, want: &str| {
        let text = bench.fails("Grep", input.clone()).await;
        assert!(text.contains(want), "{input}: {text}");
    };
    fails(json!({"pattern": "a(?=b)"}), "Look-around and back-references are not supported").await;
    fails(json!({"pattern": "fn ("}), "put a backslash before").await;
    fails(json!({"pattern": "a\\nb"}), "Set multiline").await;
    fails(json!({"pattern": "x", "path": "a.rx"}), "Did you mean").await;
    fails(json!({"pattern": "needle", "offset": 9}), "offset 9 is beyond the 1 results").await;
}

#[tokio::test]
async fn long_lines_are_shown_around_their_match() {
    let bench = Bench::new();
    bench.write("min.js", format!("{}needle{}\n", "\u{7a7a}".repeat(5_000), "b".repeat(9_000)));
    let text = bench.ok("Grep", json!({"pattern": "needle", "output_mode": "content"})).await;
    let want = format!(
        "min.js:1:[4,850 more characters]{}needle{}[8,656 more characters]\n",
        "\u{7a7a}".repeat(150),
        "b".repeat(344)
    );
    assert_eq!(text, want);
}

#[tokio::test]
async fn o_search_01_named_folders_are_searched_and_ignored_files_are_counted() {
    let bench = Bench::new();
    fs::create_dir(bench.root.join(".git")).unwrap();
    bench.write(".git/config", "needle");
    bench.write(".gitignore", "build/\nother/*\n");
    bench.write(".github/workflows/ci.yml", "needle\n");
    bench.write("build/out.txt", "needle\nonly-here\n");
    bench.write("other/deep/x.txt", "needle\n");
    bench.write("src/a.txt", "nothing\n");
    let check = async |tool: &str, input: Value, want: &str| {
        assert_eq!(bench.ok(tool, input.clone()).await, want, "{tool} {input}");
    };
    let grep = |path: &str| json!({"pattern": "needle", "path": path});
    check("Grep", grep(".github"), ".github/workflows/ci.yml\n").await;
    check("Grep", grep("build"), "build/out.txt\n").await;
    check("Grep", grep("build/out.txt"), "build/out.txt\n").await;
    check("Grep", grep("other"), "other/deep/x.txt\n").await;
    check("Grep", grep("other/deep"), "other/deep/x.txt\n").await;
    check("Grep", grep(".git"), ".git/config\n").await;
    check("Grep", grep("."), ".github/workflows/ci.yml\n").await;
    check(
        "Grep",
        json!({"pattern": "only-here"}),
        "No matches for only-here in . (3 files searched). 2 files were not looked at because .gitignore or the like \
         names them; name their folder in path to do so.\n",
    )
    .await;
    check("Glob", json!({"pattern": "**/ci.yml"}), ".github/workflows/ci.yml\n").await;
    check("Glob", json!({"pattern": ".github/**"}), ".github/workflows/ci.yml\n").await;
    check("Glob", json!({"pattern": "build/*.txt"}), "build/out.txt\n").await;
    check(
        "Glob",
        json!({"pattern": "**/out.txt"}),
        "No files match **/out.txt in . (3 files there). 1 file was not looked at because .gitignore or the like \
         names them; name their folder in path to do so.\n",
    )
    .await;
}

#[tokio::test]
async fn o_search_02_walks_end_stay_inside_and_take_names_as_data() {
    let bench = Bench::new();
    let far = tempfile::tempdir().unwrap();
    fs::write(far.path().join("far.txt"), "needle\n").unwrap();
    bench.write("a.txt", "needle\n");
    bench.write("deep/b.txt", "needle\n");
    fs::create_dir(bench.root.join("x")).unwrap();
    for (to, link) in [("..", "deep/back"), (".", "x/y"), ("nowhere", "dangling.txt"), ("a.txt", "link.txt")]
    {
        symlink(to, bench.root.join(link)).unwrap();
    }
    symlink(far.path(), bench.root.join("out")).unwrap();
    symlink(far.path().join("far.txt"), bench.root.join("far-link.txt")).unwrap();
    for name in ["we[i]rd (1).txt", "-dash.txt", "nl\n.txt"] {
        bench.write(name, "needle --files\n");
    }
    fs::write(bench.root.join(OsStr::from_bytes(b"\xFF.txt")), "needle\n").unwrap();
    let start = Instant::now();
    let found = bench.ok("Grep", json!({"pattern": "needle"})).await;
    let names = ["-dash.txt", "a.txt", "deep/b.txt", "nl\\n.txt", "we[i]rd (1).txt", "\\xFF.txt"];
    assert_eq!(found.lines().collect::<Vec<_>>(), names);
    let listed = bench.ok("Glob", json!({"pattern": "**/*.txt"})).await;
    let mut listed: Vec<&str> = listed.lines().collect();
    listed.sort_unstable();
    let mut with_link = names.to_vec();
    with_link.push("link.txt");
    with_link.sort_unstable();
    assert_eq!(listed, with_link);
    for name in names {
        assert!(bench.ok("Read", json!({"file_path": name})).await.contains("needle"), "{name}");
    }
    assert_eq!(bench.ok("Glob", json!({"pattern": "we\\[i\\]rd*"})).await, "we[i]rd (1).txt\n");
    assert_eq!(bench.ok("Grep", json!({"pattern": "needle", "path": "-dash.txt"})).await, "-dash.txt\n");
    let files = bench.ok("Grep", json!({"pattern": "--files"})).await;
    assert_eq!(files, "-dash.txt\nnl\\n.txt\nwe[i]rd (1).txt\n");
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_search_stops_at_once() {
    let bench = Bench::new();
    let path = bench.write("big.txt", "");
    fs::write(&path, format!("{}\n", "ab".repeat(50)).repeat(1_000_000)).unwrap();
    let cancel = bench.cancel.clone();
    let search = bench.call("Grep", json!({"pattern": "(a|b)+c$"}));
    let stop = async {
        tokio::time::sleep(Duration::from_millis(30)).await;
        cancel.cancel();
        Instant::now()
    };
    let (reply, stopped) = tokio::join!(search, stop);
    assert!(stopped.elapsed() < Duration::from_millis(300), "{:?}", stopped.elapsed());
    assert!(reply.text.contains("interrupted") || !reply.is_error, "{}", reply.text);
}
