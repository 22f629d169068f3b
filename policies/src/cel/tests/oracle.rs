//! The crate's own parser and evaluator as a second opinion, where both mean the same.

use super::*;
use cel::{Context, Env, Program};

/// Expressions whose meaning in the crate is that of the API server (policy facts, 4.4).
const SAME: &[&str] = &[
    "1 + 2 * 3 - 4 / 2 % 3",
    "true && false || true",
    "has({'a': {'b': 1}}.a.b)",
    "{'a': 1}.b || true",
    "false && {'a': 1}.b",
    "{'a': 1}.b || false",
    "[0, 1].exists(x, 1 / x == 1)",
    "[0, 2].all(x, 1 / x == 1)",
    "[1, 2, 3].filter(x, x > 1).map(x, x * 2)",
    "[1, 2, 3].exists_one(x, x > 2)",
    "[1, 2].map(x, x > 1, x * 2)",
    "'abc'.startsWith('a') && 'abc'.endsWith('c') && 'abc'.contains('b')",
    "'a.b/c-d' in {'a.b/c-d': 'x'}",
    "{'a.b/c-d': 'x'}['a.b/c-d'] == 'x'",
    "{'a': 1}['nope'] == 'x'",
    "1 == 1.0",
    "1 < 1.5 && 2u > 1",
    "size('héllo') == 5",
    "[1, [2, {'a': 3}]] == [1, [2, {'a': 3}]]",
    "{'b': 2, 'a': 1} == {'a': 1, 'b': 2}",
    "true ? 1 : 2",
    "'a' < 'b'",
    "1 / 0",
    "1 % 0",
    "9223372036854775807 + 1",
    "[1, 2][5]",
    "1 + 'a'",
    "!false",
    "-(-3)",
    "[1] + [2, 3]",
    "'x' + 'y'",
    "int('42') + 1",
    "string(12) == '12'",
    "double(1) == 1.0",
    "uint(3) == 3u",
    "{'a': 1}.?b.hasValue()",
    "{'a': 1}.?a.orValue(2)",
    "{'a': 1}[?'b'].orValue(2)",
    "optional.of(1).optMap(x, x + 1).value()",
    "{'a': {'b': 1}}.?a.b.orValue(5)",
    "[1, 2, 3].all(x, x > 0) ? 'y' : 'n'",
];

fn theirs(source: &str) -> Option<serde_json::Value> {
    let program = Env::stdlib().compile(source).ok()?;
    let value = program.execute(&Context::default()).ok()?;
    Some(serde_json::from_str(&text(&value)).unwrap())
}

/// Their values as JSON, as far as the list above goes.
fn text(value: &cel::Value) -> String {
    match value {
        cel::Value::Int(value) => value.to_string(),
        cel::Value::UInt(value) => value.to_string(),
        cel::Value::Bool(value) => value.to_string(),
        cel::Value::Float(value) => format!("{value:?}"),
        cel::Value::String(value) => serde_json::to_string(value.as_str()).unwrap(),
        cel::Value::List(values) => {
            let parts: Vec<_> = values.iter().map(text).collect();
            format!("[{}]", parts.join(","))
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn both_evaluators_say_the_same() {
    for source in SAME {
        let ours = Expression::compile(source, KubernetesVersion::NEWEST)
            .unwrap()
            .evaluate(&Activation::new(), &mut Budget::policy())
            .ok()
            .map(|value| value.to_json());
        assert_eq!(ours, theirs(source), "{source}");
    }
}

#[test]
fn both_of_the_crates_parsers_give_one_tree() {
    // The Pratt parser is hidden from the crate's documentation; this is what its use rests on.
    let also = [
        "a.b[0].c == 1 || !has(a.b)",
        "x.all(y, y in z) ? a : b ? c : d",
        "-a.b + 1 * 2",
    ];
    for source in SAME
        .iter()
        .chain(&also)
        .filter(|source| !source.contains('?'))
    {
        let antlr = Program::compile(source).unwrap();
        let pratt = cel::parser::PrattParser::new().parse(source).unwrap();
        let without_ids = |text: String| {
            let parts = text.split("id: ");
            parts
                .map(|part| part.trim_start_matches(|c: char| c.is_ascii_digit()))
                .collect::<String>()
        };
        assert_eq!(
            without_ids(format!("{:?}", antlr.expression())),
            without_ids(format!("{pratt:?}")),
            "{source}"
        );
    }
}
