//! What may stand in a slot: unquoted words are taken only where nothing but text, a name or a path can be meant.

use super::super::quote::Fragment;
use super::super::request::{Form, Lines, Place, is_han};
use super::super::template::Slots;

/// Where to look; nothing said, or "this project", is the workspace.
pub(super) fn place(slots: &Slots<'_>) -> Option<Place> {
    const HERE: &[&str] = &[
        "the",
        "this",
        "current",
        "my",
        "our",
        "all",
        "whole",
        "entire",
        "of",
        "folder",
        "directory",
        "dir",
        "project",
        "repo",
        "repository",
        "workspace",
        "codebase",
        "code",
        "here",
        "there",
        "file",
        "files",
        "everywhere",
    ];
    const PREFIXES: &[&str] = &["当前", "整个", "这个", "本", "所有", "文件", "目录", "文件夹", "项目"];
    const SUFFIXES: &[&str] = &[
        "下面",
        "里面",
        "之中",
        "下",
        "里",
        "中",
        "内",
        "的",
        "目录",
        "文件夹",
        "项目",
        "仓库",
        "工程",
        "代码库",
        "工作区",
        "文件",
        "当前",
        "整个",
    ];
    const NO_PLACE: &[&str] = &[
        "it",
        "them",
        "detail",
        "details",
        "order",
        "alphabetical",
        "general",
        "total",
        "short",
        "english",
        "chinese",
        "json",
        "markdown",
        "parallel",
        "production",
    ];
    let Some(said) = slots.get("where") else { return Some(Place::Workspace) };
    if said.quoted {
        return (!said.text.is_empty()).then_some(Place::At(said.text));
    }
    let mut words: Vec<&str> = said.text.split_whitespace().collect();
    if words.len() > 1 || words.first().is_some_and(|w| HERE.contains(w)) {
        words.retain(|word| !HERE.contains(&word.to_ascii_lowercase().as_str()));
    }
    let mut rest = match words.as_slice() {
        [] => return Some(Place::Workspace),
        [one] => *one,
        [one, tail] if tail.chars().all(is_han) => {
            if !SUFFIXES.iter().any(|suffix| tail.ends_with(suffix)) {
                return None;
            }
            *one
        }
        _ => return None,
    };
    while let Some(shorter) = SUFFIXES.iter().find_map(|s| rest.strip_suffix(s)) {
        rest = shorter;
    }
    while let Some(shorter) = PREFIXES.iter().find_map(|p| rest.strip_prefix(p)) {
        rest = shorter;
    }
    if rest.is_empty() {
        return Some(Place::Workspace);
    }
    let strange = NO_PLACE.contains(&rest.to_ascii_lowercase().as_str()) || rest.contains("://");
    (!strange && !rest.contains([',', '，'])).then(|| Place::At(rest.to_owned()))
}

/// The glob pattern of "list *.rs files"; without one, every file.
pub(super) fn glob(slots: &Slots<'_>) -> Option<String> {
    let Some(said) = slots.get("glob") else { return Some("**/*".to_owned()) };
    let one = !said.text.contains(char::is_whitespace);
    if said.text.contains('*') && one {
        let deep = said.text.contains('/');
        Some(if deep { said.text } else { format!("**/{}", said.text) })
    } else {
        // ".rs files"
        (said.text.starts_with('.') && said.text.len() > 1 && one).then(|| format!("**/*{}", said.text))
    }
}

/// The glob pattern for a file of this name or with this word in its name.
pub(super) fn name(said: &Fragment) -> Option<String> {
    let text = said.text.trim();
    if text.is_empty() || (!said.quoted && text.contains(char::is_whitespace)) {
        return None;
    }
    Some(match text {
        _ if text.contains('/') => text.to_owned(),
        _ if text.contains(['*', '.']) => format!("**/{text}"),
        _ => format!("**/*{text}*"),
    })
}

/// The glob pattern for what is surely the name of a file, by its extension.
pub(super) fn file(said: &Fragment) -> Option<String> {
    const EXTENSIONS: &[&str] = &[
        "rs", "toml", "lock", "md", "txt", "json", "yaml", "yml", "py", "js", "ts", "tsx", "jsx", "go", "c",
        "h", "cc", "cpp", "hpp", "java", "kt", "sh", "html", "css", "sql", "xml", "ini", "cfg", "env",
    ];
    let (stem, extension) = said.text.rsplit_once('.')?;
    let plain = |c: char| c.is_alphanumeric() || "_-./".contains(c);
    (EXTENSIONS.contains(&extension) && stem.chars().all(plain)).then(|| format!("**/{}", said.text))
}

/// Any text at all.
pub(super) fn exact(said: &Fragment) -> Option<String> {
    (!said.text.trim().is_empty()).then(|| said.text.clone())
}

/// Words that ask for thought where a text was expected: "find bugs", "find it".
const VAGUE: &[&str] = &[
    "a",
    "an",
    "the",
    "it",
    "its",
    "them",
    "this",
    "that",
    "these",
    "those",
    "something",
    "anything",
    "everything",
    "nothing",
    "out",
    "bug",
    "bugs",
    "issue",
    "issues",
    "problem",
    "problems",
    "mistake",
    "mistakes",
    "errors",
    "vulnerability",
    "vulnerabilities",
    "leak",
    "leaks",
    "typo",
    "typos",
    "improvement",
    "improvements",
    "way",
    "ways",
    "how",
    "why",
    "what",
    "when",
    "who",
    "whether",
    "if",
    "where",
    "help",
    "answers",
    "more",
    "any",
    "all",
    "me",
    "us",
    "and",
    "or",
    "to",
    "for",
    "then",
    "not",
    "fix",
    "i",
    "you",
    "my",
    "your",
];
const VAGUE_HAN: &[&str] = &[
    "并",
    "和",
    "怎么",
    "如何",
    "为什么",
    "什么",
    "问题",
    "漏洞",
    "缺陷",
    "错误",
    "泄漏",
    "修",
    "优化",
    "改进",
    "所有",
    "，",
    "。",
    "办法",
    "方法是",
    "原因",
    "一个",
    "我",
    "你",
];

/// Text to search for: quoted, or one word that can only be text.
pub(super) fn word(said: &Fragment) -> Option<String> {
    if said.quoted {
        return exact(said);
    }
    let one = !said.text.contains(char::is_whitespace);
    (one && is_plain(&said.text)).then(|| said.text.clone())
}

/// What a "where" question is about: a word, or up to three of them.
pub(super) fn question(said: &Fragment) -> Option<(String, Form)> {
    if let Some(text) = word(said) {
        let code = text.strip_suffix("()").unwrap_or(&text).to_owned();
        return Some((if said.quoted { text } else { code }, Form::Exact));
    }
    let words: Vec<&str> = said.text.split_whitespace().collect();
    let fits = (2..=3).contains(&words.len()) && words.iter().all(|word| is_plain(word));
    (fits && !said.quoted).then(|| (words.join(" "), Form::Words))
}

fn is_plain(text: &str) -> bool {
    let han = text.chars().any(is_han);
    let vague = VAGUE.contains(&text.to_ascii_lowercase().as_str());
    let vague_han = han && (text.chars().count() > 12 || VAGUE_HAN.iter().any(|v| text.contains(v)));
    !text.is_empty() && !vague && !vague_han && !text.ends_with([',', ':'])
}

/// Text to count: quoted, or a word written as code or in capitals.
pub(super) fn countable(said: &Fragment) -> Option<String> {
    let code = |c: char| c == '_' || c.is_ascii_uppercase() || ":.(<@#".contains(c);
    word(said).filter(|text| said.quoted || text.contains(code))
}

/// The path of a file: quoted, or one word that looks like a path.
pub(super) fn path(said: &Fragment) -> Option<String> {
    const NAMES: &[&str] = &[
        "readme",
        "license",
        "licence",
        "makefile",
        "dockerfile",
        "justfile",
        "changelog",
        "notice",
        "authors",
        "contributing",
        "gemfile",
        "rakefile",
        "procfile",
        "copying",
    ];
    let text = said.text.trim();
    if said.quoted {
        return (!text.is_empty()).then(|| text.to_owned());
    }
    let strange = |c: char| c.is_whitespace() || ",，;；?？:：`\"'“”".contains(c);
    if text.contains(strange) || text.chars().all(|c| ".,".contains(c)) {
        return None;
    }
    let likely = text.contains(['.', '/']) || NAMES.contains(&text.to_ascii_lowercase().as_str());
    likely.then(|| text.to_owned())
}

/// "10-20", "10 to 20", "10 到 20", or one line.
pub(super) fn range(said: &Fragment) -> Option<Lines> {
    let mut numbers = said.text.split(|c: char| !c.is_ascii_digit()).filter(|n| !n.is_empty());
    let first: u64 = numbers.next()?.parse().ok()?;
    let last = numbers.next().map_or(Some(first), |n| n.parse().ok())?;
    let words = said.text.split(|c: char| c.is_ascii_digit() || c.is_whitespace());
    let known = |w: &str| ["", "-", "–", "—", "~", "to", "through", "and", "到", "至"].contains(&w);
    let legal = numbers.next().is_none() && 0 < first && first <= last && words.into_iter().all(known);
    legal.then_some(Lines { first, last })
}

/// Both sides of a replacement. Unquoted sides must not describe ("the old parser") nor be ambiguous.
pub(super) fn replaceable(from: &Fragment, to: &Fragment) -> Option<(String, String)> {
    const JOINTS: &[&str] = &["with", "by", "to", "into", "in", "and"];
    let clear = |said: &Fragment| {
        let words: Vec<String> = said.text.split_whitespace().map(str::to_ascii_lowercase).collect();
        let describes = words.first().is_some_and(|first| VAGUE.contains(&first.as_str()) && words.len() > 1);
        let ambiguous = words.iter().any(|w| JOINTS.contains(&w.as_str())) && words.len() > 1;
        let joints_han = ["替换", "改为", "改成", "换成"];
        said.quoted || !(describes || ambiguous || joints_han.iter().any(|j| said.text.contains(j)))
    };
    let legal = !from.text.is_empty() && from.text != to.text && clear(from) && clear(to);
    legal.then(|| (from.text.clone(), to.text.clone()))
}

/// What the request names as content: quoted text, or the words as they stand.
pub(super) fn literal(said: &Fragment) -> String {
    said.text.clone()
}

/// Content after a bare "with": "a function that adds" describes a text, it is none.
pub(super) fn content(said: &Fragment) -> Option<String> {
    const DESCRIBING: &[&str] = &[
        "a",
        "an",
        "the",
        "some",
        "all",
        "any",
        "one",
        "two",
        "three",
        "my",
        "your",
        "its",
        "that",
        "which",
        "for",
        "of",
        "function",
        "functions",
        "code",
        "test",
        "tests",
        "about",
        "explaining",
        "describing",
        "documentation",
        "list",
        "example",
        "examples",
        "appropriate",
        "good",
    ];
    let mut words = said.text.split(|c: char| !c.is_alphanumeric());
    let describes = words.any(|w| DESCRIBING.contains(&w.to_ascii_lowercase().as_str()));
    let describes_han =
        ["一个", "一些", "函数", "代码", "测试", "关于", "介绍"].iter().any(|w| said.text.contains(w));
    (said.quoted || !(describes || describes_han)).then(|| said.text.clone())
}

/// A command: quoted, or words that begin like a program.
pub(super) fn shell(said: &Fragment) -> Option<String> {
    const NO_PROGRAM: &[&str] = &[
        "a",
        "an",
        "the",
        "all",
        "my",
        "our",
        "your",
        "it",
        "them",
        "this",
        "that",
        "these",
        "tests",
        "everything",
        "again",
        "some",
        "and",
        "in",
        "on",
        "through",
        "for",
        "until",
        "unit",
        "with",
    ];
    let first = said.text.split_whitespace().next()?;
    let program = |c: char| c.is_ascii_alphanumeric() || "_-./~$".contains(c);
    let plain = first.chars().all(program) && !NO_PROGRAM.contains(&first.to_ascii_lowercase().as_str());
    let describes = [" and ", " until ", " if ", " unless ", " when "].iter().any(|w| said.text.contains(w));
    let legal = said.quoted || (plain && !describes && !said.text.chars().any(is_han));
    legal.then(|| said.text.trim().to_owned())
}

/// The tools named for a child.
pub(super) fn tools(slots: &Slots<'_>) -> Vec<String> {
    let Some(said) = slots.get("tools") else { return Vec::new() };
    let parts = said.text.split(|c: char| c.is_whitespace() || ",，、和".contains(c));
    parts.filter(|part| !part.is_empty() && !part.eq_ignore_ascii_case("and")).map(str::to_owned).collect()
}
