//! Write and Edit: what a file keeps when its content changes, and what is never overwritten.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use serde_json::{Value, json};

use super::Bench;

fn edit(name: &str, old: &str, new: &str) -> Value {
    json!({"file_path": name, "old_string": old, "new_string": new})
}

async fn read(bench: &Bench, name: &str) {
    bench.ok("Read", json!({"file_path": name})).await;
}

#[tokio::test]
async fn o_edit_01_to_05_bytes_outside_the_match_never_change() {
    let bench = Bench::new();
    let check = async |content: &[u8], old: &str, new: &str, want: &[u8]| {
        bench.write("f", content);
        read(&bench, "f").await;
        bench.ok("Edit", edit("f", old, new)).await;
        assert_eq!(bench.bytes("f"), want, "{old:?}");
    };
    check(b"p\r\nq\nr\r\ns\n", "q", "Q", b"p\r\nQ\nr\r\ns\n").await;
    check(b"x\r\ny\r\nz", "y", "y1\ny2", b"x\r\ny1\r\ny2\r\nz").await;
    check(
        b"fn a() {\r\n  one();\r\n  two();\r\n}\r\n",
        "  one();\n  two();",
        "  one();\n  three();",
        b"fn a() {\r\n  one();\r\n  three();\r\n}\r\n",
    )
    .await;
    let latin = b"limit = 10\n# na\xEFve \xA9 text\r\n\xFF\xFEraw\n";
    check(latin, "limit = 10", "limit = 20", b"limit = 20\n# na\xEFve \xA9 text\r\n\xFF\xFEraw\n").await;
    let marked = b"\xEF\xBB\xBFusing A;\r\nusing \xC3\xA9;\r\n";
    check(marked, "using A;", "using B;", b"\xEF\xBB\xBFusing B;\r\nusing \xC3\xA9;\r\n").await;
    let written = bench.ok("Write", json!({"file_path": "f", "content": "using C;\n"})).await;
    assert_eq!(written, "Updated f (1 line). Its CRLF line ends and byte order mark were kept.");
    assert_eq!(bench.bytes("f"), b"\xEF\xBB\xBFusing C;\r\n");
}

#[tokio::test]
async fn o_edit_03_new_text_is_literal_everywhere() {
    let bench = Bench::new();
    bench.write("f", "say(\"bye\");\nsay(\"bye\");\n");
    read(&bench, "f").await;
    let mut input = edit("f", "say(\"bye\");", "say(\"$& $1 $0 ${0} $$ end\");");
    let several = bench.fails("Edit", input.clone()).await;
    assert!(several.contains("2 times") && several.contains("at lines 1, 2"), "{several}");
    input["replace_all"] = json!("true");
    let reply = bench.call("Edit", input).await;
    assert!(reply.text.starts_with("Edited f, 2 matches.\n     1\tsay(\"$& $1"), "{}", reply.text);
    assert_eq!(reply.details["additions"], 2);
    let want = "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n-say(\"bye\");\n-say(\"bye\");\n\
                +say(\"$& $1 $0 ${0} $$ end\");\n+say(\"$& $1 $0 ${0} $$ end\");\n";
    assert_eq!(reply.details["diff"], want);
    assert_eq!(bench.bytes("f"), "say(\"$& $1 $0 ${0} $$ end\");\n".repeat(2).as_bytes());
}

#[tokio::test]
async fn o_edit_06_a_write_changes_content_only() {
    let bench = Bench::new();
    let mode = |name: &str| fs::metadata(bench.root.join(name)).unwrap().permissions().mode() & 0o7777;
    let set =
        |name: &str, mode| fs::set_permissions(bench.root.join(name), Permissions::from_mode(mode)).unwrap();
    bench.write("run.sh", "old\n");
    set("run.sh", 0o755);
    bench.write("real/conf", "old\n");
    set("real/conf", 0o640);
    symlink("real/conf", bench.root.join("conf.link")).unwrap();
    bench.write("h1", "old\n");
    fs::hard_link(bench.root.join("h1"), bench.root.join("h2")).unwrap();
    bench.write("end", "old\n");
    for (link, to) in [("l1", "end"), ("l2", "l1"), ("long", "l2")] {
        symlink(to, bench.root.join(link)).unwrap();
    }
    for name in ["run.sh", "conf.link", "h1", "long"] {
        read(&bench, name).await;
        bench.ok("Edit", edit(name, "old", "mid")).await;
        bench.ok("Write", json!({"file_path": name, "content": "new\n"})).await;
    }
    for name in ["run.sh", "real/conf", "h1", "h2", "end"] {
        assert_eq!(bench.bytes(name), b"new\n", "{name}");
    }
    assert_eq!((mode("run.sh"), mode("real/conf")), (0o755, 0o640));
    for link in ["conf.link", "l1", "l2", "long"] {
        assert!(bench.root.join(link).is_symlink(), "{link}");
    }
    assert_eq!(fs::metadata(bench.root.join("h1")).unwrap().nlink(), 2);
    let mut names: Vec<_> =
        fs::read_dir(&bench.root).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["conf.link", "end", "h1", "h2", "l1", "l2", "long", "real", "run.sh"]);
}

#[tokio::test]
async fn o_edit_07_what_somebody_else_changed_is_not_overwritten() {
    let bench = Bench::new();
    let path = bench.write("n.txt", "a\nb\n");
    let stay = fs::metadata(&path).unwrap().modified().unwrap();
    let outside = |content: &str| {
        fs::write(&path, content).unwrap();
        File::options().write(true).open(&path).unwrap().set_modified(stay).unwrap();
    };
    read(&bench, "n.txt").await;
    outside("a\nb\nc\n");
    let text = bench.fails("Write", json!({"file_path": "n.txt", "content": "A\nb\n"})).await;
    assert!(text.contains("has changed since you read it") && text.contains("     3\tc\n"), "{text}");
    let text = bench.ok("Edit", edit("n.txt", "a", "A")).await;
    assert!(text.contains("lines 3 to 3 changed as well; that change was kept"), "{text}");
    assert_eq!(bench.bytes("n.txt"), b"A\nb\nc\n");

    outside("a\nb\n");
    read(&bench, "n.txt").await;
    outside("a\nX\n");
    let text = bench.fails("Edit", edit("n.txt", "b", "B")).await;
    assert!(text.contains("not found") && text.contains("has changed since you read it"), "{text}");
    let text = bench.fails("Edit", edit("n.txt", "X", "Y")).await;
    assert!(text.contains("     2\tX\n") && text.contains("offset 2"), "{text}");
    assert_eq!(bench.bytes("n.txt"), b"a\nX\n");
    read(&bench, "n.txt").await;
    bench.ok("Edit", edit("n.txt", "X", "Y")).await;
}

#[tokio::test]
async fn nothing_unread_is_overwritten_and_own_writes_count_as_read() {
    let bench = Bench::new();
    bench.write("old.txt", "old\n");
    bench.write("empty.txt", "");
    for (tool, input) in
        [("Write", json!({"file_path": "old.txt", "content": "x"})), ("Edit", edit("old.txt", "old", "new"))]
    {
        let text = bench.fails(tool, input).await;
        assert!(text.contains("has not been read yet. Read it first"), "{text}");
    }
    bench.ok("Write", json!({"file_path": "empty.txt", "content": "x\n"})).await;
    let reply = bench.call("Write", json!({"file_path": "deep/er/new.txt", "content": "a\nb\n"})).await;
    assert_eq!(reply.text, "Created deep/er/new.txt (2 lines).");
    assert_eq!(
        reply.details,
        json!({
            "path": bench.root.join("deep/er/new.txt"),
            "diff": "--- /dev/null\n+++ b/deep/er/new.txt\n@@ -0,0 +1,2 @@\n+a\n+b\n",
            "additions": 2,
            "deletions": 0,
        })
    );
    let text = bench.ok("Edit", edit("deep/er/new.txt", "b", "c\nd")).await;
    assert_eq!(text, "Edited deep/er/new.txt.\n     1\ta\n     2\tc\n     3\td\n");
    let umask_applies =
        fs::metadata(bench.root.join("deep/er/new.txt")).unwrap().permissions().mode() & 0o777;
    let plain = fs::metadata(bench.write("plain", "")).unwrap().permissions().mode() & 0o777;
    assert_eq!(umask_applies, plain);
}

#[tokio::test]
async fn edits_that_make_no_sense_say_so() {
    let bench = Bench::new();
    bench.write("f", "fn a() {\n    one();\n}\n");
    read(&bench, "f").await;
    let check = async |input: Value, want: &str| {
        let text = bench.fails("Edit", input.clone()).await;
        assert!(text.contains(want), "{input}: {text}");
    };
    check(edit("f", "one", "one"), "are the same").await;
    check(edit("f", "", "x"), "old_string is empty").await;
    check(edit("f", "\tone();", "x();"), "It differs in indentation only.\n     2\t    one();").await;
    check(edit("f", "     2\t    one();", "x();"), "leave them out").await;
    check(edit("g", "a", "b"), "does not exist").await;
    assert_eq!(bench.bytes("f"), b"fn a() {\n    one();\n}\n");
    bench.ok("Edit", edit("made/by/edit", "", "x\n")).await;
    assert_eq!(bench.bytes("made/by/edit"), b"x\n");
}
