//! `breakglass policies never-errors`: no expression of anybody's policies fails on the requests
//! that cases span (P-4).
//!
//! Invariant: exit 0 only where every policy was tried and nothing failed.

use super::files::{Format, Tried};
use crate::cli::failure::Failure;
use crate::cli::{print, say};
use clap::Args;
use policies::eval::Case;
use policies::model::Policy;
use policies::never_errors::{Checked, Required, as_json, as_sarif, as_text, check};
use policies::progress::Progress;

/// Expressions between two words of progress.
const STEP: usize = 10;

#[derive(Args)]
pub(in crate::cli) struct NeverErrors {
    #[command(flatten)]
    tried: Tried,
    /// Takes as little as can be for granted: not what validation and defaults see to either
    #[arg(long)]
    strict: bool,
    /// How the answer is printed
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// Tries. Exit codes: 0 nothing fails, 1 an expression fails, 2 a policy was not tried.
pub(in crate::cli) fn run(options: &NeverErrors) -> Result<(), Failure> {
    let (policies, cases) = options.tried.read().map_err(|why| cannot(&why))?;
    let checked = checked(options, &policies.all, &cases)?;
    print(&match options.format {
        Format::Text => as_text(&checked),
        Format::Json => format!("{:#}", as_json(&checked)),
        Format::Sarif => format!("{:#}", as_sarif(&checked, &policies.sources())),
    })?;
    if checked.iter().any(|one| !one.errors.is_empty()) {
        return Err(Failure::Local("an expression fails".to_owned()));
    }
    match checked.iter().find(|one| one.bases == 0) {
        Some(one) => Err(cannot(&format!("no case is about `{}`", one.policy))),
        None => Ok(()),
    }
}

fn cannot(why: &str) -> Failure {
    Failure::Usage(format!("cannot say whether an expression fails: {why}"))
}

fn checked(
    options: &NeverErrors,
    policies: &[Policy],
    cases: &[Case],
) -> Result<Vec<Checked>, Failure> {
    let required = match options.strict {
        true => Required::Least,
        false => Required::Known,
    };
    let tell = |progress: Progress<'_>| {
        if progress.done.is_multiple_of(STEP) {
            let Progress { policy, done, of } = progress;
            say(&format!("`{policy}`: {done} of {of} expressions tried"));
        }
    };
    policies
        .iter()
        .map(|policy| check(policy, options.tried.kubernetes, required, cases, tell))
        .collect::<Result<_, _>>()
        .map_err(|error| cannot(&error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::super::tests::exit_on_cases;
    use super::*;

    fn exit(policy: &str, cases: &str, more: &[&str]) -> u8 {
        exit_on_cases(run, [policy, cases], more)
    }

    const POLICY: &str = r#"
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: owned}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
  validations:
    - expression: has(object.metadata.labels) && object.metadata.labels['owner'] != ''
"#;
    const CASES: &str = "
- name: an owned pod
  request:
    object: {apiVersion: v1, kind: Pod, metadata: {name: web, labels: {owner: alice}}}
    userInfo: {username: alice}
";

    #[test]
    fn each_answer_has_its_exit_code() {
        let guarded = POLICY.replace("&& ", "&& 'owner' in object.metadata.labels && ");
        assert_eq!(exit(&guarded, CASES, &[]), 0);
        assert_eq!(exit(POLICY, CASES, &[]), 1);
        for format in ["json", "sarif"] {
            assert_eq!(exit(POLICY, CASES, &["--format", format]), 1);
        }
        let named = guarded.replace(
            "has(object.metadata.labels)",
            "request.userInfo.username != 'x' && has(object.metadata.labels)",
        );
        assert_eq!(exit(&named, CASES, &[]), 0);
        assert_eq!(exit(&named, CASES, &["--strict"]), 1);
    }

    #[test]
    fn what_was_not_tried_never_holds() {
        for (policy, cases) in [
            (POLICY.replace("[pods]", "[secrets]"), CASES.to_owned()),
            (POLICY.to_owned(), "a: 1".to_owned()),
            (POLICY.to_owned(), "[]".to_owned()),
            ("kind: Pod\napiVersion: v1".to_owned(), CASES.to_owned()),
            ("[".to_owned(), CASES.to_owned()),
            (
                POLICY.replace(
                    "spec:",
                    "spec:\n  paramKind: {apiVersion: v1, kind: ConfigMap}",
                ),
                CASES.to_owned(),
            ),
        ] {
            assert_eq!(exit(&policy, &cases, &[]), 2, "{policy} {cases}");
        }
    }
}
