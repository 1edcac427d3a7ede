//! Places, names and texts to look for: unquoted words are taken only where nothing else can be meant.

use super::super::quote::Fragment;
use super::super::request::{Form, Place, is_han};
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
        "代码",
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

/// The glob pattern of "list *.rs files" or "list rust files"; without one, every file.
pub(super) fn glob(slots: &Slots<'_>) -> Option<String> {
    const LANGUAGES: &[(&str, &str)] = &[
        ("rust", ".rs"),
        ("python", ".py"),
        ("markdown", ".md"),
        ("toml", ".toml"),
        ("json", ".json"),
        ("yaml", ".yaml"),
        ("javascript", ".js"),
        ("typescript", ".ts"),
        ("go", ".go"),
        ("java", ".java"),
        ("text", ".txt"),
    ];
    let Some(said) = slots.get("glob") else { return Some("**/*".to_owned()) };
    let text = said.text.as_str();
    if text.contains(char::is_whitespace) {
        return None;
    }
    if text.contains('*') {
        return Some(if text.contains('/') { text.to_owned() } else { format!("**/{text}") });
    }
    let language = LANGUAGES.iter().find(|(name, _)| text.eq_ignore_ascii_case(name)).map(|(_, end)| *end);
    let extension = language.or_else(|| Some(text).filter(|text| text.starts_with('.') && text.len() > 1))?;
    Some(format!("**/*{extension}"))
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
pub(super) const VAGUE: &[&str] = &[
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
    let defining = said.text.split_once(' ').is_some_and(|(keyword, name)| {
        DEFINING.contains(&keyword) && is_plain(name) && !name.contains(char::is_whitespace)
    });
    (defining || (one && is_plain(&said.text))).then(|| said.text.clone())
}

/// "fn main" is code, though it is two words.
const DEFINING: &[&str] =
    &["fn", "struct", "enum", "trait", "impl", "mod", "const", "static", "def", "func", "pub", "let"];

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
    let text = word(said).filter(|text| said.quoted || text.contains(code))?;
    // "TODOs" are more than one "TODO".
    let singular =
        text.strip_suffix('s').filter(|t| !said.quoted && t.chars().all(|c| c.is_ascii_uppercase()));
    Some(singular.map_or_else(|| text.clone(), str::to_owned))
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
