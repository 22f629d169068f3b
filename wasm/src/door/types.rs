//! The TypeScript types of everything that crosses a door, made from the Rust types (B-12).
//!
//! Invariant: `npm/types/decisions.d.ts` is what this file makes. A test compares; with
//! `BREAKGLASS_WRITE_TYPES=1` it writes the file first.

use std::any::TypeId;
use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;
use std::path::Path;
use ts_rs::{Config, TS, TypeVisitor};

/// The declarations reached so far, and the interface's members.
pub(super) struct Types {
    config: Config,
    seen: HashSet<TypeId>,
    declared: BTreeMap<String, String>,
    members: String,
}

impl Types {
    fn new() -> Self {
        // Everything that crosses is JSON, which JavaScript reads into numbers.
        let config = Config::new().with_large_int("number");
        let (seen, declared, members) = (HashSet::new(), BTreeMap::new(), String::new());
        Self {
            config,
            seen,
            declared,
            members,
        }
    }

    /// Adds one decision to the interface, and its types to the declarations.
    pub(super) fn decision<In, Out>(&mut self, js_name: &str, docs: &[&str])
    where
        In: TS + 'static,
        Out: TS + 'static,
    {
        self.visit::<In>();
        self.visit::<Out>();
        let (input, output) = (In::name(&self.config), Out::name(&self.config));
        let docs: String = docs.iter().map(|line| format!("   *{line}\n")).collect();
        write!(
            self.members,
            "  /**\n{docs}   */\n  {js_name}(input: {input}): {output};\n"
        )
        .unwrap();
    }

    fn file(&self) -> String {
        let mut text = String::from(
            "// Made from the Rust types by `cargo xtask bindings`; a test compares. \
             Do not edit.\n\n",
        );
        for declaration in self.declared.values() {
            text.push_str(declaration);
            text.push('\n');
        }
        let members = &self.members;
        write!(
            text,
            "/** Every decision. Each throws a `DecisionInputError` for an input that it cannot \
             read. */\nexport interface Decisions {{\n{members}}}\n"
        )
        .unwrap();
        text
    }
}

impl TypeVisitor for Types {
    fn visit<T: TS + 'static + ?Sized>(&mut self) {
        if !self.seen.insert(TypeId::of::<T>()) {
            return;
        }
        if T::output_path().is_some() {
            let name = T::ident(&self.config);
            let docs = T::docs().unwrap_or_default();
            let declaration = indented(&format!("{docs}export {}", T::decl(&self.config)));
            // A generic type comes by once for each of its parameters, and is declared once.
            let before = self.declared.insert(name.clone(), declaration.clone());
            let same = before.is_none_or(|before| before == declaration);
            assert!(same, "two Rust types are both called {name}");
        }
        T::visit_generics(self);
        T::visit_dependencies(self);
    }
}

/// The declaration as people write it: members indented, no white space at the ends of lines.
fn indented(declaration: &str) -> String {
    let mut depth = 0;
    let mut text = String::new();
    for line in declaration
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
    {
        let closes = usize::from(line.starts_with('}'));
        let star = if line.starts_with('*') { " " } else { "" };
        writeln!(text, "{}{star}{line}", "  ".repeat(depth - closes)).unwrap();
        depth = depth + line.matches('{').count() - line.matches('}').count();
    }
    text
}

#[test]
fn the_committed_types_are_those_of_the_rust_types() {
    let mut types = Types::new();
    super::describe(&mut types);
    // What the routes answer, which no decision here takes or gives.
    types.visit::<crate::queue::Queue>();
    types.visit::<crate::settings::Preview>();
    types.visit::<super::DoorProblem>();
    let made = types.file();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("npm/types/decisions.d.ts");
    if std::env::var_os("BREAKGLASS_WRITE_TYPES").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == made,
        "npm/types/decisions.d.ts differs from the Rust types: run `cargo xtask bindings` and \
         commit what it changed"
    );
}
