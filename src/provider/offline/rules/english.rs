//! English requests.

use super::{
    Rule, count_files, count_lines, count_matches, count_text, create, create_empty, create_exact,
    definition, delegate, find, find_exact, find_marks, find_regex, list, list_named, list_path, locate,
    remove, replace, run, run_quoted, show, show_head, show_lines,
};

pub(super) const RULES: &[Rule] = &[
    // Agent first: its prompt may hold any of the others.
    (
        "(use|ask|have|let|start|spawn|launch) [the|an|a] [sub] (agent|subagent|sub-agent) [tool] with [the] [tools|tool] {tools} (to|:) {prompt}",
        delegate,
    ),
    (
        "(use|ask|have|start|spawn|launch) [the|an|a] [sub] (agent|subagent|sub-agent) [tool] [to] {prompt}",
        delegate,
    ),
    ("let [the|an|a] [sub] (agent|subagent|sub-agent) [tool] {prompt}", delegate),
    ("delegate [to] [the|an|a] [sub] (agent|subagent|sub-agent) [to] {prompt}", delegate),
    // Files.
    ("(list|ls|show|display|print|enumerate|give|find) [me] [all] [of] [the] files [here]", list),
    (
        "(list|ls|show|display|print|enumerate|give|find) [me] [all] [of] [the] files (in|under|inside|from|of|at|within) {where}",
        list,
    ),
    (
        "(list|ls|show|display|print|enumerate|give|find) [me] [all] [of] [the] {glob} files [(in|under|inside|from|of|at|within) {where}]",
        list,
    ),
    ("(list|ls|find) [me] [all] [the] {glob} [(in|under|inside|from|of|at|within) {where}]", list),
    (
        "(list|show|find|locate|search) [me] [for] [all] [the] (files|file) (named|called|matching|like|with name|with the name) {text} [(in|under|inside) {where}]",
        list_named,
    ),
    ("(find|locate) [me] [the] file {text} [(in|under|inside) {where}]", list_named),
    ("(list|ls|show) [me] [the] [contents of] [the] (folder|directory|dir) {where}", list),
    ("ls {where}", list),
    ("list [the] contents of {where}", list),
    ("list [the] {where} (folder|directory|dir)", list),
    ("list {where}", list_path),
    ("(show|display) [me] [the] contents of [the] {where} (folder|directory|dir)", list),
    ("(what|which) files (are|exist) [there] [here]", list),
    ("(what|which) files are [there] (in|under|inside) {where}", list),
    ("(what|which) files do (we|you|i) have [(in|under|inside) {where}]", list),
    ("ls", list),
    // Definitions.
    (
        "(where is|where are|where's|where’s) [the] [function|method|struct|class|enum|trait|type|interface|variable|constant|const|macro|module|fn|field|symbol] {text} [function|method|struct|class|enum|trait|type|interface|variable|constant|macro|module] (defined|declared|implemented) [(in|under|inside) {where}]",
        definition,
    ),
    (
        "[find|locate|search|show [me]|see|check] [out] where [the] [function|method|struct|class|enum|trait|type|interface|variable|constant|const|macro|module|fn|field|symbol] {text} [function|method|struct|class|enum|trait|type|interface|variable|constant|macro|module] (is|are) (defined|declared|implemented) [(in|under|inside) {where}]",
        definition,
    ),
    (
        "(find|locate|search for|look for|show|go to|show me) [the] (definition|declaration|implementation) of [the] [function|method|struct|class|enum|trait|type|interface|variable|constant|const|macro|module|fn|field|symbol] {text} [(in|under|inside) {where}]",
        definition,
    ),
    ("(which|what|in which|in what) file [(is|are)] (defines|declares|implements) {text}", definition),
    ("in (which|what) file is {text} (defined|declared|implemented)", definition),
    // Places.
    (
        "(where is|where are|where's|where’s) [the] [function|method|struct|class|enum|trait|type|interface|variable|constant|const|macro|module|fn|field|symbol|file|text|string|word] {text} [function|method|struct|class|enum|trait|type|interface|variable|constant|macro|module] [being] [used|called|mentioned|located|read|set|referenced|loaded|found|written|parsed|handled] [(in|under|inside) {where}]",
        locate,
    ),
    (
        "[find|locate|show [me]|see|check] [out] where [the] [function|method|struct|class|enum|trait|type|interface|variable|constant|const|macro|module|fn|field|symbol|file|text|string|word] {text} (is|are|gets) [being] [used|called|mentioned|located|read|set|referenced|loaded|found|written|parsed|handled] [(in|under|inside) {where}]",
        locate,
    ),
    ("where (does|do) [the] {text} (occur|appear|live|come up|show up) [(in|under|inside) {where}]", locate),
    ("where do (we|i|you) (use|call|define|mention|read|set) {text} [(in|under|inside) {where}]", locate),
    ("(which|what) files (contain|mention|use|have|call|reference) {text} [(in|under|inside) {where}]", find),
    ("in (which|what) (files|file) (is|does) {text} [used|called|mentioned|appear|occur]", find),
    (
        "(find|locate|search for|look for|show|show me|list) [all] [the] (usages|usage|uses|use|references|occurrences|mentions|instances|calls|callers|matches) (of|to|for) [the] [function|method|struct|class|enum|trait|type|variable|constant|macro|text|string|word] {text} [(in|under|inside|within) {where}]",
        find,
    ),
    (
        "(find|list|show|search for) [me] [all] [the] {text} (comments|comment|markers|marks) [(in|inside|under|within) {where}]",
        find_marks,
    ),
    (
        "(find|search|search for|grep|grep for) [the] (regex|regexp|regular expression|pattern) {text} [(in|under|inside|within) {where}]",
        find_regex,
    ),
    (
        "(find|search for|search|look for|grep for|grep|locate) [me] [all] [the] (text|string|word|phrase) {text} [(in|under|inside|within) {where}]",
        find_exact,
    ),
    ("(search|grep|look|scan) (in|through|) {where} for [the] [text|string|word|phrase] {text}", find),
    (
        "(in|under|inside) {where} (find|search for|look for|grep for|grep|locate) [all] [the] [text|string|word|phrase] {text}",
        find,
    ),
    (
        "(find|search for|search|look for|look up|grep for|grep|locate) [me] [all] [the] [function|method|struct|class|enum|trait|type|variable|constant|macro|module] {text} (in|under|inside|within) {where}",
        find,
    ),
    ("(find|search for|search|look for|look up|grep for|grep|locate) [me] [all] {text}", find),
    (
        "(find|search for|look for|locate) [the] (function|method|struct|class|enum|trait|type|variable|constant|macro|module) {text}",
        definition,
    ),
    (
        "(find|search for|look for|locate) the {text} (function|method|struct|class|enum|trait|type|variable|constant|macro|module)",
        definition,
    ),
    // Content.
    (
        "(show|read|display|print|view|see|give) [me] [the] (lines|line) {range} (of|in|from) [the] [file] {path}",
        show_lines,
    ),
    (
        "(show|read|display|print|view|see|give) [me] [the] first {range} (lines|line) (of|in|from) [the] [file] {path}",
        show_head,
    ),
    ("(show|read|display|print|view|see) [me] [the] [file] {path} (lines|line) {range}", show_lines),
    (
        "(show|read|display|print|open|cat|view|see|give|type|output|look at) [me] [the] [whole|full|entire] [contents|content|text] [of] [the] [file] {path} [file]",
        show,
    ),
    ("(what is|what's|what’s|whats) [written] (in|inside) [the] [file] {path}", show),
    ("what does [the] [file] {path} (say|contain|look like)", show),
    // Numbers.
    (
        "count [the] [number of] [all] lines [of code] [(in|of|inside|under|within) [the] [file] {where}]",
        count_lines,
    ),
    ("count [the] [number of] [all] lines [(in|of|inside|under|within) {where}]", count_lines),
    ("how many lines [of code] (are|are there|exist) [(in|inside|under) [the] [file] {where}]", count_lines),
    ("how many lines [of code] [(in|inside|under|of) [the] [file] {where}]", count_lines),
    ("how many lines (does|do) [the] [file] {where} (have|contain)", count_lines),
    ("how many lines long is [the] [file] {where}", count_lines),
    ("how (long|many lines) is [the] [file] {where}", count_lines),
    ("what is [the] (number|count) of lines (in|of) [the] [file] {where}", count_lines),
    ("count [the] [number of] [all] [the] files [(in|of|inside|under|within) {where}]", count_files),
    ("count [the] [number of] [all] [the] {glob} files [(in|of|inside|under|within) {where}]", count_files),
    ("how many files [are|are there|exist] [here] [(in|inside|under) {where}]", count_files),
    ("how many {glob} files [are|are there|exist] [(in|inside|under) {where}]", count_files),
    ("how many files (does|do) {where} (have|contain)", count_files),
    ("what is [the] (number|count) of files (in|of) {where}", count_files),
    (
        "count [the] [number of] [all] [the] (occurrences|matches|instances|uses|usages|mentions|times|appearances) of {text} [(in|inside|under|within) {where}]",
        count_matches,
    ),
    (
        "count how (often|many times) {text} (occurs|appears|is used|shows up|is mentioned) [(in|inside|under|within) {where}]",
        count_matches,
    ),
    (
        "how many (occurrences|matches|instances|uses|usages|mentions) of {text} [are|are there|exist] [(in|inside|under|within) {where}]",
        count_matches,
    ),
    (
        "how (often|many times) (does|do|is|are) {text} (occur|appear|used|show up|mentioned|called) [(in|inside|under|within) {where}]",
        count_matches,
    ),
    ("how many lines (contain|have|mention|match) {text} [(in|inside|under|within) {where}]", count_matches),
    (
        "count [the] [number of] [all] [lines with|lines containing] {text} [(in|inside|under|within) {where}]",
        count_text,
    ),
    ("how many {text} [are|are there|exist] [(in|inside|under|within) {where}]", count_text),
    // Changes.
    (
        "(in|inside|within) [the] [file] {path} (replace|change|substitute|rename) [all|every|each] [occurrences|occurrence|instances] [of] {from} (with|by|to|into) {to}",
        replace,
    ),
    (
        "(edit|update|modify|change|fix) [the] [file] {path} [and|to|by] (replace|replacing|change|changing) {from} (with|by|to|into) {to}",
        replace,
    ),
    (
        "(replace|substitute|swap) [all|every|each] [occurrences|occurrence|instances] [of] {from} (with|by|for) {to} (in|inside|within) [the] [file] {path}",
        replace,
    ),
    (
        "(change|rename|turn|update|fix|correct) [all|every|each] [occurrences|occurrence|instances] [of] {from} (to|into) {to} (in|inside|within) [the] [file] {path}",
        replace,
    ),
    (
        "(remove|delete) [all|every|each] [occurrences|occurrence|instances] [of] {from} (from|in) [the] [file] {path}",
        remove,
    ),
    (
        "(create|make|write|add|generate) [a|an] [new] (empty|blank) file [named|called|at] {path}",
        create_empty,
    ),
    (
        "(create|make|add) [a|an|the] [new] [text] [file] [named|called|at] {path} (with|containing|having|whose) [the] (content|contents|text) [is|are|of] {text}",
        create_exact,
    ),
    (
        "(create|make|write|add) [a|an|the] [new] [text] [file] [named|called|at] {path} (containing|saying|that says|that contains) {text}",
        create,
    ),
    ("(create|make|write|add) [a|an|the] [new] [text] [file] [named|called|at] {path} with {text}", create),
    (
        "(write|save|put) [the] [text|content|line|string] {text} (to|into|in) [a|the] [new] [file] [named|called] {path}",
        create,
    ),
    ("(write|create) {path} : {text}", create),
    // Commands.
    (
        "(run|execute) [the|all] [the] (tests|test|test suite|checks|build) (with|using|via|by running) {command}",
        run_quoted,
    ),
    ("(run|execute|exec|launch|invoke) [the] [shell] [command|cmd] {command}", run),
];
