//! What a source file names, read from its syntax: in `use` trees, in paths, and in the tokens of macros and attributes.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::punctuated::Punctuated;
use syn::visit::{self, Visit};
use syn::{Attribute, ImplItem, Item, Meta, Token, UseTree};

/// Stands for every name of a path: a glob, or a root under another name.
pub(super) const EVERYTHING: &str = "*";

/// A path that a file names, from its root (`crate`, `std`, …) downward.
#[derive(Debug)]
pub(super) struct Name {
    segments: Vec<String>,
    pub(super) in_test: bool,
}

impl Name {
    pub(super) fn root(&self) -> &str {
        self.segments.first().map_or("", String::as_str)
    }

    pub(super) fn second(&self) -> &str {
        self.segments.get(1).map_or("", String::as_str)
    }
}

/// The names of one file, and the walk that collects them.
#[derive(Debug)]
pub(super) struct Names {
    /// Where the walk stands, so that `self` and `super` resolve.
    module: Vec<String>,
    in_test: bool,
    pub(super) found: Vec<Name>,
    /// Modules declared `#[cfg(test)] mod name;`, whose files are tests from the first line on.
    pub(super) test_modules: Vec<Vec<String>>,
}

impl Names {
    pub(super) fn of(path: &str, file: &syn::File) -> Names {
        let mut names = Names {
            module: module_of(path),
            in_test: file.attrs.iter().any(is_cfg_test),
            found: Vec::new(),
            test_modules: Vec::new(),
        };
        names.visit_file(file);
        names
    }

    fn add(&mut self, segments: Vec<String>) {
        self.found.push(Name { segments: self.resolve(segments), in_test: self.in_test });
    }

    /// Rewrites a path that begins with `self` or `super` as one from `crate`.
    fn resolve(&self, segments: Vec<String>) -> Vec<String> {
        let is_relative = |segment: &String| segment == "self" || segment == "super";
        if !segments.first().is_some_and(is_relative) {
            return segments;
        }
        let ups = segments.iter().take_while(|s| is_relative(s)).filter(|s| *s == "super").count();
        let kept = self.module.len().saturating_sub(ups);
        let below = segments.into_iter().skip_while(is_relative);
        let mut resolved = vec!["crate".to_string()];
        resolved.extend(self.module.iter().take(kept).cloned());
        resolved.extend(below);
        resolved
    }

    fn add_use(&mut self, prefix: &[String], tree: &UseTree) {
        let mut path = prefix.to_vec();
        match tree {
            UseTree::Path(part) => {
                path.push(part.ident.to_string());
                return self.add_use(&path, &part.tree);
            }
            UseTree::Group(group) => {
                return group.items.iter().for_each(|item| self.add_use(&path, item));
            }
            UseTree::Name(name) => path.push(name.ident.to_string()),
            UseTree::Rename(rename) => path.push(rename.ident.to_string()),
            UseTree::Glob(_) => path.push(EVERYTHING.to_string()),
        }
        if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
            path.pop();
        }
        let mut path = self.resolve(path);
        // A root by another name (`use crate as ours`) hides what is reached through it.
        if path.len() == 1 {
            path.push(EVERYTHING.to_string());
        }
        self.add(path);
    }

    fn add_tokens(&mut self, stream: TokenStream) {
        let mut trees = stream.into_iter().peekable();
        let is_colon = |tree: &TokenTree| matches!(tree, TokenTree::Punct(p) if p.as_char() == ':');
        while let Some(tree) = trees.next() {
            let first = match tree {
                TokenTree::Ident(ident) => ident.to_string(),
                TokenTree::Group(group) => {
                    self.add_tokens(group.stream());
                    continue;
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => continue,
            };
            let mut path = vec![first];
            while trees.next_if(is_colon).is_some() && trees.next_if(is_colon).is_some() {
                match trees.peek() {
                    Some(TokenTree::Ident(ident)) => path.push(ident.to_string()),
                    Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
                        let tokens = TokenTree::Group(group.clone()).into();
                        if let Ok(tree) = syn::parse2::<UseTree>(tokens) {
                            self.add_use(&path, &tree);
                        }
                        break;
                    }
                    Some(TokenTree::Punct(p)) if p.as_char() == '*' => {
                        path.push(EVERYTHING.to_string());
                    }
                    _ => break,
                }
                trees.next();
            }
            if path.len() > 1 {
                self.add(path);
            }
        }
    }

    fn within(&mut self, attrs: &[Attribute], walk: impl FnOnce(&mut Self)) {
        let outside = self.in_test;
        self.in_test |= attrs.iter().any(is_cfg_test);
        walk(self);
        self.in_test = outside;
    }
}

impl<'ast> Visit<'ast> for Names {
    fn visit_item(&mut self, item: &'ast Item) {
        self.within(attributes(item), |names| visit::visit_item(names, item));
    }

    fn visit_impl_item(&mut self, item: &'ast ImplItem) {
        let attrs: &[Attribute] = match item {
            ImplItem::Fn(function) => &function.attrs,
            _ => &[],
        };
        self.within(attrs, |names| visit::visit_impl_item(names, item));
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        self.module.push(item.ident.to_string());
        if item.content.is_none() && self.in_test {
            self.test_modules.push(self.module.clone());
        }
        visit::visit_item_mod(self, item);
        self.module.pop();
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.add_use(&[], &item.tree);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.add(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.visit_path(&call.path);
        self.add_tokens(call.tokens.clone());
    }

    fn visit_meta_list(&mut self, list: &'ast syn::MetaList) {
        self.visit_path(&list.path);
        self.add_tokens(list.tokens.clone());
    }

    /// `pub(crate)` and its like name an ancestor and import nothing.
    fn visit_vis_restricted(&mut self, _: &'ast syn::VisRestricted) {}
}

/// The module path of a file: `src/tool/bash.rs` is `[tool, bash]`, `src/tool/mod.rs` is `[tool]`.
pub(super) fn module_of(path: &str) -> Vec<String> {
    let path = path.strip_prefix("src/").unwrap_or(path);
    let path = path.strip_suffix(".rs").unwrap_or(path);
    let path = path.strip_suffix("/mod").unwrap_or(path);
    match path {
        "lib" | "main" => Vec::new(),
        _ => path.split('/').map(str::to_string).collect(),
    }
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// `#[cfg(test)]`, also as one of the conditions of `all(…)`.
fn is_cfg_test(attribute: &Attribute) -> bool {
    attribute.path().is_ident("cfg")
        && attribute.parse_args::<Meta>().is_ok_and(|condition| requires_test(&condition))
}

fn requires_test(condition: &Meta) -> bool {
    match condition {
        Meta::Path(path) => path.is_ident("test"),
        Meta::List(list) if list.path.is_ident("all") => list
            .parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated)
            .is_ok_and(|parts| parts.iter().any(requires_test)),
        Meta::List(_) | Meta::NameValue(_) => false,
    }
}
