//! L10 where this engine ends and the API server does not, and where a variable is nobody's.

use super::*;

/// The findings of L10 in an expression on ConfigMaps, by severity.
fn found(expression: &str) -> Vec<(Severity, String)> {
    let text = policy(&rule("", "configmaps", "CREATE, UPDATE"), "", expression);
    let found = report(&text).findings.into_iter();
    found
        .filter(|one| one.rule == Rule::Dialect)
        .map(|one| (one.severity, one.what))
        .collect()
}

#[test]
fn what_the_api_server_compiles_is_no_error() {
    for expression in [
        "semver('1.0.0').major() == 1",
        "isSemver('1.0', true)",
        "!format.dns1123Label().validate('a').hasValue()",
        "!format.named('uuid').hasValue()",
        "timestamp('2024-01-01T00:00:00Z').getHours('UTC') == 3",
        "timestamp('2024-01-01T00:00:00Z').getHours('Europe/Berlin') == 3",
        "authorizer.group('').resource('pods').fieldSelector('a=b').check('get').allowed()",
    ] {
        assert_eq!(found(expression), [], "{expression}");
    }
    let later = "[1].sortBy(x, x) == [1]"; // from 1.35 on
    assert_eq!(found(later)[0].0, Severity::Error);
}

#[test]
fn what_this_engine_does_not_read_is_noted() {
    for expression in ["Object{} == 1", "'a'.matches('^\\\\Qa$')"] {
        let found = found(expression);
        let [(severity, what), ..] = found.as_slice() else {
            panic!("{expression}: {found:?}")
        };
        assert_eq!(*severity, Severity::Note, "{expression}");
        assert!(what.starts_with("not judged: "), "{what}");
    }
}

fn with_variables(kind: &str, variables: &str, condition: &str, expression: &str) -> Vec<String> {
    let text = format!(
        "{kind}\nmetadata: {{name: p}}\nspec:\n  matchConstraints:\n    resourceRules:\n    - {}\n  \
         matchConditions: [{{name: c, expression: {condition}}}]\n  variables: [{variables}]\n  \
         validations: [{{expression: {expression}}}]\n",
        rule("", "configmaps", "CREATE, UPDATE")
    );
    let found = report(&text).findings.into_iter();
    found
        .filter(|one| one.rule == Rule::Dialect && one.severity == Severity::Error)
        .map(|one| one.what)
        .collect()
}

const NATIVE: &str = "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy";
const KYVERNO: &str = "apiVersion: policies.kyverno.io/v1\nkind: ValidatingPolicy";
const IMAGES: &str = "apiVersion: policies.kyverno.io/v1\nkind: ImageValidatingPolicy";

#[test]
fn a_variable_is_declared_before_it_is_read() {
    let two = "{name: a, expression: '1'}, {name: b, expression: variables.a + 1}";
    for kind in [NATIVE, KYVERNO, IMAGES] {
        let check = |variables: &str, expression: &str| {
            with_variables(kind, variables, "'true'", expression)
        };
        assert_eq!(check(two, "variables.b == 2 && has(variables.a)"), [""; 0]);
        assert_eq!(
            check(two, "variables.c == 2"),
            ["`variables.c` is read, and no variable is called so"]
        );
        assert_eq!(
            check(two, "\"[1].all(x, variables.?c.orValue(x) == x)\""),
            ["`variables.c` is read, and no variable is called so"]
        );
        assert_eq!(
            check(
                "{name: b, expression: variables.a + 1}, {name: a, expression: variables.a}",
                "variables.b == 2"
            ),
            [
                "`variables.a` is read before it is declared",
                "`variables.a` is read before it is declared"
            ]
        );
        assert_eq!(
            check(two, "\"[{'c': 1}].all(variables, variables.c == 1)\""),
            [""; 0]
        );
    }
    let condition = with_variables(NATIVE, two, "variables.b == 2", "'true'");
    assert_eq!(condition, [""; 0], "L4 warns of it");
}
