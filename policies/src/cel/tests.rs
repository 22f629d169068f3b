//! What the engine promises, by tables; the hostile inputs and the differential test are beside.

mod answers;
mod hostile;
mod library;
mod oracle;
mod table;
mod table_functions;

use super::*;
use serde_json::json;
use std::rc::Rc;

fn version(minor: u32) -> KubernetesVersion {
    KubernetesVersion::new(minor).unwrap()
}

/// A request as the API server would describe it.
fn activation() -> Activation {
    let object = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "web-1", "namespace": "shop",
            "labels": {"app": "web", "a.b/c-d": "x"},
        },
        "spec": {
            "containers": [
                {"name": "app", "image": "r.example/app@sha256:00", "ports": [{"containerPort": 80}]},
                {"name": "debug-1", "image": "r.example/debug:1"},
            ],
            "replicas": 3, "ratio": 0.5, "nothing": null,
        },
    });
    let request = json!({
        "uid": "u", "operation": "CREATE", "namespace": "shop", "name": "web-1",
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "userInfo": {"username": "alice", "groups": ["dev", "system:authenticated"]},
    });
    let variable = |source: &str| Expression::compile(source, KubernetesVersion::NEWEST);
    let variables = [
        ("names", "object.spec.containers.map(c, c.name)"),
        ("first", "variables.names[0]"),
        ("bad", "object.spec.missing"),
        ("worse", "variables.bad + 1"),
        ("forward", "variables.later"),
        ("later", "1"),
        ("broken", "object.("),
    ];
    Activation::new()
        .object(&object)
        .and_then(|with| with.request(&request))
        .unwrap()
        .variables(variables.map(|(name, source)| (name.to_owned(), variable(source))))
        .authorizer(Rc::new(OnlyPods))
}

struct OnlyPods;

impl Authorizer for OnlyPods {
    fn answer(&self, question: &Question) -> Option<Answer> {
        Some(Answer {
            allowed: question.resource.as_deref() == Some("pods") && question.verb == "get",
            reason: format!("{}/{}", question.namespace, question.name),
            error: None,
        })
    }
}

/// A value as JSON, `! text` for an error, `!! text` for what does not compile.
fn outcome(source: &str, minor: u32) -> String {
    match Expression::compile(source, version(minor)) {
        Err(error) => format!("!! {}", error.message),
        Ok(expression) => match expression.evaluate(&activation(), &mut Budget::policy()) {
            Ok(value) => value.to_json().to_string(),
            Err(error) => format!("! {error}"),
        },
    }
}

#[track_caller]
fn check(rows: &[(&str, &str)]) {
    let wrong: Vec<String> = rows
        .iter()
        .map(|(source, expected)| (source, expected, outcome(source, 36)))
        .filter(|(_, expected, got)| *expected != got)
        .map(|(source, expected, got)| format!("{source}\n  expected {expected}\n       got {got}"))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_place_is_told_by_line_and_column_in_characters() {
    let error = Expression::compile("'é' == 'é' &&\n  nobody", version(34)).unwrap_err();
    assert_eq!((error.at.line, error.at.column), (2, 3), "{error}");
    let error = Expression::compile("'é' == ) 1", version(34)).unwrap_err();
    assert_eq!((error.at.line, error.at.column), (1, 8), "{error}");
    let error = Expression::compile("true &&\n\u{3b1}", version(34)).unwrap_err();
    assert_eq!((error.at.line, error.at.column), (2, 1), "{error}");
    let error = Expression::compile("true &&", version(34)).unwrap_err();
    assert_eq!((error.at.line, error.at.column), (1, 8), "{error}");
}

#[test]
fn every_node_has_the_place_at_which_it_is_written() {
    let source = "has(a.b) && // why\n a.b.all(x, x.c[0] == 'é' || [1].exists(y, y > 0))";
    let ast = parse(source).unwrap();
    let mut found = Vec::new();
    collect(&ast, &mut found);
    let places: Vec<(&str, u32, u32)> = found
        .iter()
        .map(|(what, at)| (what.as_str(), at.line, at.column))
        .collect();
    for wanted in [
        ("&&", 1, 10),
        ("all", 2, 9),
        ("x", 2, 13),
        ("==", 2, 20),
        ("||", 2, 27),
    ] {
        assert!(places.contains(&wanted), "{wanted:?} in {places:?}");
    }
    assert!(places.contains(&("exists", 2, 40)), "{places:?}");
    assert!(places.contains(&("y", 2, 44)), "{places:?}");
}

fn collect(node: &Node, found: &mut Vec<(String, Position)>) {
    match &node.kind {
        ast::Kind::Name(name) => found.push((name.clone(), node.at)),
        ast::Kind::Binary { operator, .. } => found.push((operator.sign().to_owned(), node.at)),
        ast::Kind::Macro(inner) => found.push((inner.kind.name().to_owned(), node.at)),
        _ => {}
    }
    for child in node.children() {
        collect(child, found);
    }
}

#[test]
fn what_a_release_does_not_have_cannot_be_written_for_it() {
    let rows = [
        ("ip('1.2.3.4').family() == 4", 30, 31),
        ("[1].all(i, v, v == 1)", 32, 33),
        ("{'a': 1}.transformList(k, v, k) == ['a']", 32, 33),
        ("[3, 1].sort() == [1, 3]", 34, 35),
    ];
    for (source, without, with) in rows {
        assert!(
            outcome(source, without).starts_with("!! "),
            "{source} in 1.{without}"
        );
        assert_eq!(outcome(source, with), "true", "{source} in 1.{with}");
    }
    // Written without `?`, this breaks with 1.37 (policy facts, 12).
    assert_eq!(
        outcome("object.metadata.name.orValue('x')", 36),
        "\"web-1\""
    );
    assert_eq!(
        outcome("object.metadata.name.orValue('x')", 37),
        "! no such overload"
    );
}

#[test]
fn a_variable_is_evaluated_once() {
    let activation = activation();
    let of = |source: &str| Expression::compile(source, version(34)).unwrap();
    let mut budget = Budget::policy();
    of("variables.names")
        .evaluate(&activation, &mut budget)
        .unwrap();
    let first = Budget::policy().left() - budget.left();
    let before = budget.left();
    of("variables.names")
        .evaluate(&activation, &mut budget)
        .unwrap();
    assert!(before - budget.left() < first, "{first}");
}

#[test]
fn a_panic_of_the_engine_is_an_error() {
    struct Panics;
    impl Authorizer for Panics {
        fn answer(&self, _: &Question) -> Option<Answer> {
            panic!("on purpose");
        }
    }
    let activation = Activation::new().authorizer(Rc::new(Panics));
    let source = "true || authorizer.path('/x').check('get').allowed()";
    let absorbed = Expression::compile(source, version(34)).unwrap();
    assert!(matches!(
        absorbed.evaluate(&activation, &mut Budget::policy()),
        Ok(Value::Bool(true))
    ));
    let source = "authorizer.path('/x').check('get').allowed() || true";
    let asked = Expression::compile(source, version(34)).unwrap();
    assert_eq!(
        asked
            .evaluate(&activation, &mut Budget::policy())
            .unwrap_err(),
        EvalError::Failed
    );
}

#[test]
fn qk67_what_is_missing_is_one_kind_of_error_for_fields_and_for_keys() {
    for source in ["object.spec.missing", "object.metadata.labels['missing']"] {
        let expression = Expression::compile(source, version(34)).unwrap();
        let error = expression
            .evaluate(&activation(), &mut Budget::policy())
            .unwrap_err();
        assert!(
            matches!(error, EvalError::NoSuchKey(_)),
            "{source}: {error}"
        );
    }
}

#[test]
fn qk68_a_whole_number_of_json_is_an_int() {
    check(&[
        ("object.spec.replicas == 3", "true"),
        ("object.spec.replicas + 1", "4"),
        ("object.spec.replicas - 4", "-1"),
        ("type(object.spec.replicas) == int", "true"),
    ]);
}
