//! Every function that the API server declares, against the catalogue.
//!
//! `library.txt` was written by Kubernetes' own code (`environment.MustBaseEnvSet` of
//! k8s.io/apiserver v0.36.3, for each release the environment in which new expressions
//! are compiled): the name, how it is called, how many arguments besides the target, and the first
//! release in which it can be written. Operators are left out. What the library of optionals has
//! comes with the binary: its newest four came with cel-go 0.23, so with 1.33, which is corrected.

use super::super::catalogue::{ALL, Function, Style};
use super::*;

const LIBRARY: &str = include_str!("library.txt");

struct Declared {
    name: &'static str,
    member: bool,
    arguments: usize,
    since: u32,
}

fn library() -> impl Iterator<Item = Declared> {
    let rows = LIBRARY.lines().filter(|line| !line.starts_with('#'));
    rows.map(|line| {
        let mut fields = line.split(' ');
        let mut next = || fields.next().unwrap();
        Declared {
            name: next(),
            member: next() == "member",
            arguments: next().parse().unwrap(),
            since: next().parse().unwrap(),
        }
    })
}

impl Declared {
    /// A call, of values of whatever type.
    fn source(&self) -> String {
        let arguments = vec!["object"; self.arguments].join(", ");
        match self.member {
            true => format!("object.{}({arguments})", self.name),
            false => format!("{}({arguments})", self.name),
        }
    }

    fn is(&self, function: &Function) -> bool {
        let name = match function.style {
            Style::Of(space) => format!("{space}.{}", function.name),
            Style::Global | Style::Member => function.name.to_owned(),
        };
        let (fewest, most) = function.arguments;
        name == self.name
            && self.member == (function.style == Style::Member)
            && (fewest..=most).contains(&self.arguments)
    }
}

#[test]
fn what_the_api_server_declares_is_compiled() {
    let mut wrong = Vec::new();
    for declared in library() {
        let source = declared.source();
        for minor in 30..=37 {
            let compiled = Expression::compile(&source, version(minor));
            if compiled.is_ok() != (minor >= declared.since) {
                wrong.push(format!("{source} in 1.{minor}: {:?}", compiled.err()));
            }
            let known = in_dialect(&source, version(minor));
            if known.is_ok() != (minor >= declared.since) {
                wrong.push(format!("{source} in 1.{minor} to the linter: {known:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A later release may have it.
#[test]
fn what_a_release_after_the_list_has_besides_is_undecided() {
    for source in ["object.whatComesNext()", "object.startsWith()"] {
        for minor in 30..=37 {
            let error = Expression::compile(source, version(minor)).unwrap_err();
            assert_eq!(
                error.engine_limit,
                minor == 37,
                "{source} in 1.{minor}: {error}"
            );
        }
    }
}

#[test]
fn the_catalogue_has_nothing_that_the_api_server_has_not() {
    let declared: Vec<Declared> = library().collect();
    for function in ALL {
        let (fewest, most) = function.arguments;
        let all = declared.iter().filter(|one| one.is(function));
        assert_eq!(all.count(), most - fewest + 1, "{function:?}");
    }
}

/// Each of them stands in a table with what comes of it, in every form.
#[test]
fn whatever_is_evaluated_has_a_row_in_a_table() {
    let tables = concat!(
        include_str!("table.rs"),
        include_str!("table_functions.rs"),
        include_str!("oracle.rs"),
        include_str!("answers.txt")
    );
    let without: Vec<&str> = ALL
        .iter()
        .filter(|function| {
            let call = match function.style {
                Style::Global => format!("{}(", function.name),
                Style::Member => format!(".{}(", function.name),
                Style::Of(space) => format!("{space}.{}(", function.name),
            };
            !tables.contains(&call)
        })
        .map(|function| function.name)
        .collect();
    assert_eq!(without, [""; 0]);
}
