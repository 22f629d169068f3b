//! What the API server does not compile, and what this engine does not.

use super::*;

/// The API server would evaluate it: no verdict is made up, whatever the failure policy.
#[test]
fn what_cannot_be_evaluated_here_leaves_the_verdict_open() {
    for expression in [
        "timestamp('2024-01-01T00:00:00Z').getHours('Local') == 3",
        "timestamp('2024-01-01T00:00:00Z').getHours('Local') == 3 || true",
        "format.uri().validate('http://a b').hasValue()",
        "authorizer.group('').resource('pods').labelSelector('a=b').check('get').allowed()",
    ] {
        for policy in ["Fail", "Ignore"] {
            let rest = format!(
                "  failurePolicy: {policy}\n  validations: [{{expression: \"{expression}\"}}]"
            );
            let outcome = outcome(&pods(&rest), &pod());
            assert!(
                matches!(outcome, Outcome::Undecided(_)),
                "{rest}: {outcome:?}"
            );
        }
    }
}

#[test]
fn an_hour_in_a_zone_that_is_known_decides() {
    check(
        "  failurePolicy: Ignore\n  validations: [{expression: \
         \"timestamp('2024-01-01T00:00:00Z').getHours('+01:00') == 3\"}]",
        &denied(
            Rule::Validation(0),
            "failed expression: timestamp('2024-01-01T00:00:00Z').getHours('+01:00') == 3",
        ),
    );
}

/// It does not compile, so that no `||` absorbs it.
#[test]
fn a_variable_that_is_not_declared_or_only_later_is_an_error_of_compilation() {
    let text = |name: &str, column: u32| {
        format!(
            "compilation error: compilation failed: ERROR: <input>:1:{column}: undefined field \
             `{name}`"
        )
    };
    let rule = || Rule::Validation(0);
    check(
        "  validations: [{expression: true || variables.nope == 1}]",
        &failed(rule(), &text("nope", 18)),
    );
    check(
        "  validations: [{expression: '!has(variables.nope)'}]",
        &failed(rule(), &text("nope", 2)),
    );
    check(
        "  variables: [{name: a, expression: variables.b}, {name: b, expression: '1'}]\n  \
         validations: [{expression: variables.b == 1}]",
        &Outcome::Allowed,
    );
    let own = outcome(
        &pods(
            "  variables: [{name: a, expression: true || variables.b}, {name: b, expression: \
             'true'}]\n  validations: [{expression: variables.a}]",
        ),
        &pod(),
    );
    let Outcome::Denied(denial) = own else {
        panic!("{own:?}")
    };
    assert!(denial.message.contains("undefined field `b`"), "{denial:?}");
    check(
        "  validations: [{expression: \"[{'nope': 1}].all(variables, variables.nope == 1)\"}]",
        &Outcome::Allowed,
    );
}
