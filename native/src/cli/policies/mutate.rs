//! `breakglass policies mutate`: whether cases notice small changes of anybody's policies (P-9).
//!
//! Invariant: exit 0 only where every policy does what its cases say, and every mutant is killed
//! or listed with a reason.

use super::files::{self, Format, Tried};
use crate::cli::failure::Failure;
use crate::cli::{print, say};
use clap::Args;
use policies::eval::Case;
use policies::model::Policy;
use policies::mutate::{Equivalent, Score, as_json, as_sarif, as_text, score};
use policies::progress::Progress;
use std::path::PathBuf;

/// Mutants between two words of progress.
const STEP: usize = 250;

#[derive(Args)]
pub(in crate::cli) struct Mutate {
    #[command(flatten)]
    tried: Tried,
    /// The list of mutants that no case can kill, each with its reason
    #[arg(long, value_name = "FILE")]
    equivalent: Option<PathBuf>,
    /// How the answer is printed
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// Tries. Exit codes: 0 nothing survives that is not listed, 1 something is wrong, 2 not tried.
pub(in crate::cli) fn run(options: &Mutate) -> Result<(), Failure> {
    let listed = listed(options)?;
    let (policies, cases) = options.tried.read().map_err(|why| cannot(&why))?;
    let score = scored(options, &policies.all, &cases)?;
    print(&match options.format {
        Format::Text => as_text(&score, &listed),
        Format::Json => format!("{:#}", as_json(&score, &listed)),
        Format::Sarif => {
            let sources = policies.sources();
            format!("{:#}", as_sarif(&score, &listed, &sources))
        }
    })?;
    match score.problems(&listed).len() {
        0 => Ok(()),
        count => Err(Failure::Local(format!("{count} problems with the cases"))),
    }
}

fn cannot(why: &str) -> Failure {
    Failure::Usage(format!("cannot say what the cases notice: {why}"))
}

fn listed(options: &Mutate) -> Result<Vec<Equivalent>, Failure> {
    let Some(path) = &options.equivalent else {
        return Ok(Vec::new());
    };
    let (name, bytes) = files::read(path).map_err(|why| cannot(&why))?;
    Equivalent::parse_all(&name, &bytes).map_err(|error| cannot(&error.to_string()))
}

fn scored(options: &Mutate, policies: &[Policy], cases: &[Case]) -> Result<Score, Failure> {
    let tell = |progress: Progress<'_>| {
        if progress.done.is_multiple_of(STEP) {
            let Progress { policy, done, of } = progress;
            say(&format!("`{policy}`: {done} of {of} mutants tried"));
        }
    };
    score(policies, options.tried.kubernetes, cases, tell)
        .map_err(|error| cannot(&error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{File, exit_on_cases};
    use super::*;

    fn exit(policy: &str, cases: &str, more: &[&str]) -> u8 {
        exit_on_cases(run, [policy, cases], more)
    }

    const POLICY: &str = r#"
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: named}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
  validations:
    - {expression: object.metadata.name == 'web', message: call it web}
"#;
    const CASES: &str = "
- {name: web, request: {object: {apiVersion: v1, kind: Pod, metadata: {name: web}}}}
- name: db
  request: {object: {apiVersion: v1, kind: Pod, metadata: {name: db}}}
  deniedBy: named
  says: call it web
- name: no name
  request: {object: {apiVersion: v1, kind: Pod, metadata: {name: ''}}}
  deniedBy: named
  says: call it web
";

    /// What no case here can tell: they are all of pods that are made.
    fn list(more: &str) -> File {
        let of = |change: &str| {
            format!(
                "- {{policy: named, place: match, operator: widen match, \
                 change: 'rule 0 {change}', reason: no case}}\n"
            )
        };
        let changes = [
            r#"apiGroups "" => "*""#,
            r#"apiVersions "v1" => "*""#,
            r#"operations "CREATE" => "*""#,
            r#"resources "pods" => "*""#,
            r#"resources "pods" => "pods/*""#,
        ];
        File::of(&(changes.map(of).concat() + more))
    }

    #[test]
    fn each_answer_has_its_exit_code() {
        let list = list("");
        let listed = ["--equivalent", list.name()];
        assert_eq!(exit(POLICY, CASES, &listed), 0);
        assert_eq!(exit(POLICY, CASES, &[]), 1, "some survive");
        for format in ["json", "sarif"] {
            assert_eq!(exit(POLICY, CASES, &["--format", format]), 1);
        }
        assert_eq!(exit(POLICY, "[]", &listed), 1, "everything survives");
        let wrong = CASES.replace("says: call it web", "says: call it db");
        assert_eq!(exit(POLICY, &wrong, &listed), 1, "the policy is wrong");
    }

    #[test]
    fn a_list_must_fit() {
        let killed = list(
            "- {policy: named, place: validation 0, operator: drop rule, change: the whole, \
             reason: why}",
        );
        let with = |list: &str| exit(POLICY, CASES, &["--equivalent", list]);
        assert_eq!(with(killed.name()), 1, "a case kills it");
        assert_eq!(with(File::of("- {policy: named}").name()), 2);
        assert_eq!(with("/nowhere"), 2);
    }

    #[test]
    fn what_cannot_be_tried_is_no_score() {
        assert_eq!(exit("kind: Pod\napiVersion: v1", CASES, &[]), 2);
        assert_eq!(exit("[", CASES, &[]), 2);
        assert_eq!(exit(POLICY, "a: 1", &[]), 2);
    }
}
