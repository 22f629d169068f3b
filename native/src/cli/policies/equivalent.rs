//! `breakglass policies equivalent`: whether native policies and Kyverno's decide alike (P-8).
//!
//! Invariant: exit 0 only where every policy was compared, nothing differs that is not declared,
//! and what is declared does.

use super::files::{self, Format, Policies};
use crate::cli::failure::Failure;
use crate::cli::{print, say};
use clap::Args;
use policies::cel::KubernetesVersion;
use policies::equivalence::{
    Answer, Bounded, NativeOnly, as_json, as_sarif, as_text, compare, name_of_two, on_the_domain,
};
use policies::eval::{Case, PolicySet};
use policies::model::{Document, Policy, PolicyKind};
use policies::progress::Progress;
use std::path::PathBuf;

#[derive(Args)]
pub(in crate::cli) struct EquivalentOptions {
    /// Files of ValidatingAdmissionPolicies and their bindings
    #[arg(long, required = true, num_args = 1.., value_name = "FILE")]
    native: Vec<PathBuf>,
    /// Files of Kyverno's ValidatingPolicies, of the same names
    #[arg(long, required = true, num_args = 1.., value_name = "FILE")]
    kyverno: Vec<PathBuf>,
    /// Files of cases: the requests on which they are compared, and around which
    #[arg(long, required = true, num_args = 1.., value_name = "FILE")]
    cases: Vec<PathBuf>,
    /// The list of rules and policies that only the native set has, each with its reason
    #[arg(long, value_name = "FILE")]
    declared: Option<PathBuf>,
    /// The release of Kubernetes whose expressions are meant, from 1.30 to 1.37
    #[arg(long, default_value = "1.34", value_parser = files::release)]
    kubernetes: KubernetesVersion,
    /// How the answer is printed
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// Compares. Exit codes: 0 the same but for what is declared, 1 not, 2 not compared.
pub(in crate::cli) fn run(options: &EquivalentOptions) -> Result<(), Failure> {
    let declared = declared(options)?;
    let (native, native_set) = side(
        &options.native,
        PolicyKind::ValidatingAdmissionPolicy,
        options.kubernetes,
    )?;
    let (kyverno, kyverno_set) = side(
        &options.kyverno,
        PolicyKind::KyvernoValidatingPolicy,
        options.kubernetes,
    )?;
    let cases = files::cases(&options.cases).map_err(|why| cannot(&why))?;
    let requests = cases.iter().map(|case| (case.name.as_str(), &case.request));
    let compared = compare(&native_set, &kyverno_set, &declared, requests);
    let bounded = bounded(options, &native.all, &kyverno.all, &declared, &cases)?;
    let answer = Answer {
        compared: &compared,
        bounded: &bounded,
        declared: &declared,
    };
    print(&match options.format {
        Format::Text => as_text(&answer),
        Format::Json => format!("{:#}", as_json(&answer)),
        Format::Sarif => format!("{:#}", as_sarif(&answer, &native.sources())),
    })?;
    if !answer.holds() {
        return Err(Failure::Local("they are not the same".to_owned()));
    }
    match answer.undone().first() {
        Some(undone) => Err(cannot(undone)),
        None => Ok(()),
    }
}

fn cannot(why: &str) -> Failure {
    Failure::Usage(format!("cannot say whether they decide alike: {why}"))
}

fn declared(options: &EquivalentOptions) -> Result<Vec<NativeOnly>, Failure> {
    let Some(path) = &options.declared else {
        return Ok(Vec::new());
    };
    let (name, bytes) = files::read(path).map_err(|why| cannot(&why))?;
    NativeOnly::parse_all(&name, &bytes).map_err(|error| cannot(&error.to_string()))
}

/// The policies of one kind in these files, each read once, and what judges by them.
fn side(
    paths: &[PathBuf],
    kind: PolicyKind,
    kubernetes: KubernetesVersion,
) -> Result<(Policies, PolicySet), Failure> {
    let documents = files::documents(paths).map_err(|why| cannot(&why))?;
    let policies = Policies::of(&documents, &[kind]).map_err(|why| cannot(&why))?;
    if let Some(name) = name_of_two(&policies.all) {
        return Err(cannot(&format!(
            "two policies of one set are called `{name}`"
        )));
    }
    let documents = documents.into_iter().map(|(_, document)| document);
    let meant = documents.filter(|document| match document {
        Document::Policy(policy) => policy.kind == kind,
        Document::Binding(_) | Document::Exception(_) | Document::Unknown(_) => true,
    });
    let set = PolicySet::new(meant, kubernetes).map_err(|error| cannot(&error.to_string()))?;
    if let Some(name) = set.unbound().next() {
        return Err(cannot(&format!(
            "no binding in these files puts `{name}` in force, so it refuses nothing; name the \
             file with its binding too"
        )));
    }
    Ok((policies, set))
}

/// On the domain around the cases.
fn bounded(
    options: &EquivalentOptions,
    native: &[Policy],
    kyverno: &[Policy],
    declared: &[NativeOnly],
    cases: &[Case],
) -> Result<Bounded, Failure> {
    let tell = |Progress { policy, done, of }: Progress<'_>| {
        say(&format!("`{policy}`: compared, {done} of {of} policies"));
    };
    on_the_domain(native, kyverno, declared, options.kubernetes, cases, tell)
        .map_err(|error| cannot(&error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{File, options, outcome};
    use super::*;

    fn exit(native: &str, kyverno: &str, cases: &str, more: &[&str]) -> u8 {
        let [native, kyverno, cases] = [native, kyverno, cases].map(File::of);
        let named = [
            "--native",
            native.name(),
            "--kyverno",
            kyverno.name(),
            "--cases",
            cases.name(),
        ];
        outcome(run(&options(&[&named, more].concat())))
    }

    const NATIVE: &str = r#"
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: named}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
  validations:
    - {expression: object.metadata.name != 'root', message: not this name}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: named}
spec: {policyName: named, validationActions: [Deny]}
"#;
    const KYVERNO: &str = r#"
apiVersion: policies.kyverno.io/v1
kind: ValidatingPolicy
metadata: {name: named}
spec:
  validationActions: [Deny]
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
  validations:
    - {expression: object.metadata.name != 'root', message: not this name}
"#;
    const EXCEPTION: &str = "
apiVersion: policies.kyverno.io/v1
kind: PolicyException
metadata: {name: everything}
spec:
  policyRefs: [{name: named, kind: ValidatingPolicy}]
";
    const CASES: &str = "
- {name: web, request: {object: {apiVersion: v1, kind: Pod, metadata: {name: web}}}}
";

    #[test]
    fn each_answer_has_its_exit_code() {
        assert_eq!(exit(NATIVE, KYVERNO, CASES, &[]), 0);
        let other = KYVERNO.replace("'root'", "'toor'");
        for format in ["text", "json", "sarif"] {
            assert_eq!(exit(NATIVE, &other, CASES, &["--format", format]), 1);
        }
        let audits = NATIVE.replace("[Deny]", "[Audit]");
        let denied = CASES.replace("name: web}}", "name: root}}");
        assert_eq!(
            exit(&audits, KYVERNO, &denied, &[]),
            1,
            "the binding counts"
        );
    }

    #[test]
    fn what_is_declared_must_show() {
        let more = NATIVE.replace(
            "  validations:",
            "  validations:\n    - {expression: 'false', message: never}",
        );
        let list = File::of("- {policy: named, message: never, reason: not there}");
        let listed = ["--declared", list.name()];
        assert_eq!(exit(&more, KYVERNO, CASES, &listed), 0);
        assert_eq!(exit(&more, KYVERNO, CASES, &[]), 1);
        assert_eq!(exit(NATIVE, KYVERNO, CASES, &listed), 1, "it never shows");
        let bare = File::of("- {policy: named}");
        assert_eq!(exit(&more, KYVERNO, CASES, &["--declared", bare.name()]), 2);
    }

    #[test]
    fn what_was_not_compared_never_holds() {
        let asks = |text: &str| {
            let question = "authorizer.path('/x').check('get').allowed()";
            text.replace("object.metadata.name != 'root'", question)
        };
        let elsewhere = |text: &str| text.replace("[pods]", "[secrets]");
        for (native, kyverno, cases) in [
            (elsewhere(NATIVE), elsewhere(KYVERNO), CASES),
            (KYVERNO.to_owned(), KYVERNO.to_owned(), CASES),
            (NATIVE.to_owned(), NATIVE.to_owned(), CASES),
            (NATIVE.to_owned(), KYVERNO.to_owned(), "a: 1"),
            ("[".to_owned(), KYVERNO.to_owned(), CASES),
            (NATIVE.to_owned(), format!("{KYVERNO}---{KYVERNO}"), CASES),
            (asks(NATIVE), asks(KYVERNO), CASES),
            (
                NATIVE.replace("policyName: named", "policyName: mane"),
                KYVERNO.to_owned(),
                CASES,
            ),
            (NATIVE.to_owned(), format!("{KYVERNO}---{EXCEPTION}"), CASES),
        ] {
            assert_eq!(exit(&native, &kyverno, cases, &[]), 2, "{native} {cases}");
        }
    }
}
