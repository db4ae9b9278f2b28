//! Imports between the files of one crate, with re-exports resolved to the file that defines the name.
//!
//! ```text
//!   facade.rs   mod inner;  pub use inner::Thing;       (no arrow: the facade does not use `Thing` itself)
//!   user.rs     use crate::facade::Thing;               user.rs -> inner.rs   (not facade.rs)
//!   other.rs    use crate::facade;  facade::act();      other.rs -> the file that defines `act`
//! ```
//!
//! Counted are `use` items and the paths of types, expressions, patterns and macros' tokens, in code that is not
//! `#[cfg(test)]`. A `mod x;` is no import. A call of a method needs no path, so a trait's methods and macros'
//! expansions are not seen.

use std::collections::{BTreeMap, BTreeSet};
use syn::visit::{self, Visit};
use syn::{Attribute, Item, Meta, UseTree, Visibility};

/// Which file imports which, and by which names.
pub(super) type Arrows = BTreeMap<(String, String), BTreeSet<String>>;

/// The imports of one target: every file that its root reaches, and the arrows between them.
#[derive(Debug, Default)]
pub(super) struct Imports {
    pub(super) files: BTreeSet<String>,
    pub(super) arrows: Arrows,
}

/// The imports of the target with this root file; `text` returns a file's text by its path.
pub(super) fn imports<'a>(
    root: &str,
    text: &dyn Fn(&str) -> Option<&'a str>,
) -> syn::Result<Imports> {
    let mut modules = Modules { text, list: Vec::new() };
    let dir = root.rsplit_once('/').map_or("", |(dir, _)| dir);
    let parsed = syn::parse_file(text(root).unwrap_or_default())?;
    modules.add(None, root, dir, &parsed.items)?;
    let files = modules.list.iter().map(|module| module.file.clone()).collect();
    let mut arrows = Arrows::new();
    for (id, module) in modules.list.iter().enumerate() {
        for (to, name) in modules.imported_by(id) {
            if to != module.file {
                arrows.entry((module.file.clone(), to)).or_default().insert(name);
            }
        }
    }
    Ok(Imports { files, arrows })
}

/// One `use` of one name.
#[derive(Debug)]
struct Use {
    path: Vec<String>,
    is_reexport: bool,
}

/// One module: a file, or a `mod name { ... }` inside one.
#[derive(Debug, Default)]
struct Module {
    parent: Option<usize>,
    file: String,
    children: BTreeMap<String, usize>,
    items: BTreeSet<String>,
    uses: Vec<(String, Use)>,
    globs: Vec<Vec<String>>,
    paths: BTreeSet<Vec<String>>,
}

/// What a path names.
#[derive(Clone, Copy, Debug)]
enum Named<'m> {
    Module(usize),
    Item { file: &'m str, name: &'m str },
}

/// All modules of a target; the first is its root.
struct Modules<'t, 'a> {
    text: &'t dyn Fn(&str) -> Option<&'a str>,
    list: Vec<Module>,
}

impl Modules<'_, '_> {
    /// Adds a module and those inside it. `dir` is where the files of its child modules are.
    fn add(
        &mut self,
        parent: Option<usize>,
        file: &str,
        dir: &str,
        items: &[Item],
    ) -> syn::Result<usize> {
        let id = self.list.len();
        self.list.push(Module { parent, file: file.to_owned(), ..Module::default() });
        for item in items.iter().filter(|item| !is_for_tests(attributes(item))) {
            if let Item::Mod(child) = item {
                let name = child.ident.to_string();
                let own = format!("{dir}/{name}");
                let at = match &child.content {
                    Some((_, items)) => Some(self.add(Some(id), file, &own, items)?),
                    None => self.add_file(id, &own)?,
                };
                self.list[id].children.extend(at.map(|at| (name, at)));
            } else {
                let module = &mut self.list[id];
                module.items.extend(defined(item));
                Collector { module }.visit_item(item);
            }
        }
        Ok(id)
    }

    fn add_file(&mut self, parent: usize, own: &str) -> syn::Result<Option<usize>> {
        for path in [format!("{own}.rs"), format!("{own}/mod.rs")] {
            if let Some(text) = (self.text)(&path) {
                let parsed = syn::parse_file(text)?;
                return self.add(Some(parent), &path, own, &parsed.items).map(Some);
            }
        }
        Ok(None)
    }

    /// The files and names that one module imports.
    fn imported_by(&self, id: usize) -> Vec<(String, String)> {
        let module = &self.list[id];
        let firsts: BTreeSet<&String> =
            module.paths.iter().filter_map(|path| path.first()).collect();
        let counted =
            module.uses.iter().filter(|(name, used)| !used.is_reexport || firsts.contains(name));
        let written = counted.map(|(_, used)| &used.path).chain(&module.paths);
        let mut found = Vec::new();
        for path in written {
            if let Some(Named::Item { file, name }) = self.resolve(id, path, &mut Vec::new()) {
                found.push((file.to_owned(), name.to_owned()));
            }
        }
        found
    }

    fn resolve(
        &self,
        from: usize,
        path: &[String],
        seen: &mut Vec<(usize, String)>,
    ) -> Option<Named<'_>> {
        let mut named = Named::Module(from);
        for part in path {
            let Named::Module(id) = named else { break };
            named = match part.as_str() {
                "crate" => Named::Module(0),
                "self" => Named::Module(id),
                "super" => Named::Module(self.list[id].parent?),
                name => self.lookup(id, name, seen)?,
            };
        }
        Some(named)
    }

    /// What `name` means in a module. A name that comes from elsewhere, as from another crate, means nothing here.
    fn lookup(&self, id: usize, name: &str, seen: &mut Vec<(usize, String)>) -> Option<Named<'_>> {
        let key = (id, name.to_owned());
        if seen.contains(&key) {
            return None;
        }
        seen.push(key);
        let module = &self.list[id];
        let used = module.uses.iter().filter(|(used, _)| used == name);
        let found = if let Some(&child) = module.children.get(name) {
            Some(Named::Module(child))
        } else if let Some(name) = module.items.get(name) {
            Some(Named::Item { file: &module.file, name })
        } else {
            used.map(|(_, used)| &used.path)
                .find_map(|path| self.resolve(id, path, seen))
                .or_else(|| self.in_globs(id, name, seen))
        };
        seen.pop();
        found
    }

    fn in_globs(
        &self,
        id: usize,
        name: &str,
        seen: &mut Vec<(usize, String)>,
    ) -> Option<Named<'_>> {
        self.list[id].globs.iter().find_map(|glob| match self.resolve(id, glob, seen)? {
            Named::Module(at) => self.lookup(at, name, seen),
            Named::Item { .. } => None,
        })
    }
}

/// Collects what one module's code imports and which paths it writes.
struct Collector<'m> {
    module: &'m mut Module,
}

impl Collector<'_> {
    fn add_use(&mut self, tree: &UseTree, path: &mut Vec<String>, is_reexport: bool) {
        let mut add = |path: &[String], name: String| {
            let of_module = path.last().is_some_and(|last| last == "self");
            let path = path[..path.len() - usize::from(of_module && path.len() > 1)].to_vec();
            let name = if name == "self" { path.last().cloned().unwrap_or(name) } else { name };
            self.module.uses.push((name, Use { path, is_reexport }));
        };
        match tree {
            UseTree::Path(part) => {
                path.push(part.ident.to_string());
                self.add_use(&part.tree, path, is_reexport);
                path.pop();
            }
            UseTree::Name(part) => {
                path.push(part.ident.to_string());
                add(path, part.ident.to_string());
                path.pop();
            }
            UseTree::Rename(part) => {
                path.push(part.ident.to_string());
                add(path, part.rename.to_string());
                path.pop();
            }
            UseTree::Glob(_) => self.module.globs.push(path.clone()),
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.add_use(tree, path, is_reexport);
                }
            }
        }
    }
}

impl<'ast> Visit<'ast> for Collector<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if is_for_tests(attributes(item)) {
            return;
        }
        if let Item::Use(used) = item {
            if used.leading_colon.is_none() {
                let is_reexport = !matches!(used.vis, Visibility::Inherited);
                self.add_use(&used.tree, &mut Vec::new(), is_reexport);
            }
            return;
        }
        visit::visit_item(self, item);
    }

    fn visit_impl_item(&mut self, item: &'ast syn::ImplItem) {
        let attributes: &[Attribute] = match item {
            syn::ImplItem::Fn(item) => &item.attrs,
            syn::ImplItem::Const(item) => &item.attrs,
            _ => &[],
        };
        if !is_for_tests(attributes) {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_local(&mut self, local: &'ast syn::Local) {
        if !is_for_tests(&local.attrs) {
            visit::visit_local(self, local);
        }
    }

    fn visit_field(&mut self, field: &'ast syn::Field) {
        if !is_for_tests(&field.attrs) {
            visit::visit_field(self, field);
        }
    }

    // `pub(crate)` and `pub(in path)` import nothing.
    fn visit_visibility(&mut self, _: &'ast Visibility) {}

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none() {
            let parts = path.segments.iter().map(|part| part.ident.to_string()).collect();
            self.module.paths.insert(parts);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, called: &'ast syn::Macro) {
        self.module.paths.extend(paths_in_tokens(&called.tokens.to_string()));
        visit::visit_macro(self, called);
    }
}

/// The paths in the text of a macro's tokens, whose parts stand apart: `a :: b`.
fn paths_in_tokens(tokens: &str) -> Vec<Vec<String>> {
    let is_name = |word: &str| word.starts_with(|c: char| c.is_alphabetic() || c == '_');
    let spaced = tokens.replace("::", " :: ");
    let words: Vec<&str> = spaced
        .split(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':'))
        .filter(|word| !word.is_empty())
        .collect();
    let mut paths: Vec<Vec<String>> = Vec::new();
    for (at, &word) in words.iter().enumerate().filter(|(_, word)| is_name(word)) {
        let goes_on = at > 1 && words[at - 1] == "::" && is_name(words[at - 2]);
        match paths.last_mut() {
            Some(last) if goes_on => last.push(word.to_owned()),
            _ => paths.push(vec![word.to_owned()]),
        }
    }
    paths
}

/// The name that an item defines.
fn defined(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        _ => return None,
    };
    Some(name.to_string())
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

/// Whether an item with these attributes is compiled for tests alone.
fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::Path(path) => path.is_ident("test"),
        Meta::List(list) if list.path.is_ident("cfg") => {
            list.parse_args::<Meta>().is_ok_and(|condition| needs_tests(&condition))
        }
        _ => false,
    })
}

fn needs_tests(condition: &Meta) -> bool {
    let parts = |list: &syn::MetaList| {
        let comma = syn::punctuated::Punctuated::<Meta, syn::Token![,]>::parse_terminated;
        list.parse_args_with(comma)
            .map(|parts| parts.into_iter().collect::<Vec<_>>())
            .unwrap_or_default()
    };
    match condition {
        Meta::Path(path) => path.is_ident("test"),
        Meta::List(list) if list.path.is_ident("all") => parts(list).iter().any(needs_tests),
        Meta::List(list) if list.path.is_ident("any") => {
            let parts = parts(list);
            !parts.is_empty() && parts.iter().all(needs_tests)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(files: &[(&str, &str)], expected: &[&str]) {
        let text = |path: &str| files.iter().find(|(at, _)| *at == path).map(|&(_, text)| text);
        let found = imports("src/lib.rs", &text).unwrap();
        let shown: Vec<String> = found
            .arrows
            .iter()
            .map(|((from, to), names)| {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                format!("{} -> {}: {}", &from[4..], &to[4..], names.join(", "))
            })
            .collect();
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_facade_is_looked_through() {
        check(
            &[
                ("src/lib.rs", "mod facade; mod user; pub use facade::Thing;"),
                ("src/facade/mod.rs", "mod inner; pub(crate) use inner::{Thing, act as perform};"),
                ("src/facade/inner.rs", "pub struct Thing; pub fn act() {}"),
                ("src/user.rs", "use crate::facade::{self, Thing}; fn f() { facade::perform(); }"),
            ],
            &["user.rs -> facade/inner.rs: Thing, act"],
        );
    }

    #[test]
    fn a_facade_that_uses_what_it_exports_imports_it() {
        check(
            &[
                ("src/lib.rs", "mod inner; pub use inner::Thing; fn f(_: Thing) {}"),
                ("src/inner.rs", "pub struct Thing; use super::f;"),
            ],
            &["inner.rs -> lib.rs: f", "lib.rs -> inner.rs: Thing"],
        );
    }

    #[test]
    fn code_of_tests_imports_nothing() {
        check(
            &[
                ("src/lib.rs", "mod a; mod b; #[cfg(test)] mod tests;"),
                (
                    "src/a.rs",
                    "#[cfg(test)] use crate::b::B; #[cfg(all(test, unix))] fn f(_: crate::b::B) {}",
                ),
                ("src/b.rs", "pub struct B; #[cfg(any(test, feature = \"x\"))] use crate::a::A;"),
                ("src/tests.rs", "use crate::b::B;"),
            ],
            &[],
        );
    }

    #[test]
    fn paths_in_bodies_macros_and_globs_count() {
        check(
            &[
                ("src/lib.rs", "mod a; mod b; mod c; mod d;"),
                ("src/a.rs", "pub struct A; pub const N: u8 = 1;"),
                ("src/b.rs", "fn f() -> crate::a::A { super::a::A }"),
                ("src/c.rs", "fn f() { println!(\"{}\", crate::a::N); }"),
                ("src/d.rs", "use crate::a::*; fn f() { let _ = N; }"),
            ],
            &["b.rs -> a.rs: A", "c.rs -> a.rs: N", "d.rs -> a.rs: N"],
        );
    }

    #[test]
    fn the_parts_of_an_enum_lie_in_its_file() {
        check(
            &[
                ("src/lib.rs", "mod a; mod b; use std::fmt; fn f(_: fmt::Error) {}"),
                ("src/a.rs", "pub enum E { One }"),
                ("src/b.rs", "use crate::a::E::One; use crate::a::E::{self as Kind};"),
            ],
            &["b.rs -> a.rs: E"],
        );
    }
}
