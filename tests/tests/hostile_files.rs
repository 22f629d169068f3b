//! P-5, P-6: a file that means harm costs the command line a second of the processor's time and
//! 256 MB at most, and is answered with a place or with findings.
//!
//! Invariant: both bounds are the kernel's own, set on the process that reads the file, so that
//! neither a busy machine nor a measurement in between can change the outcome. They hold of a test
//! build as they do of a release.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::too_many_lines,
    reason = "a test panics to fail, and tells its story in one piece"
)]

use breakglass_tests::cli::binary;
use std::path::Path;
use std::process::{Command, Output};

const SECONDS: u32 = 1;
const KIBIBYTES: u32 = 256 * 1024;

/// The command with a bound on its address space and its processor time.
fn bounded(folder: &Path, arguments: &[&str]) -> Output {
    let script = format!("ulimit -v {KIBIBYTES}; ulimit -t {SECONDS}; exec \"$0\" \"$@\"");
    Command::new("sh")
        .current_dir(folder)
        .args(["-c", &script])
        .arg(binary().unwrap())
        .args(arguments)
        .output()
        .unwrap()
}

/// A policy on ConfigMaps with this expression, and this before its rules.
fn policy(expression: &str, before: &str) -> String {
    format!(
        "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\n\
         metadata: {{name: p}}\nspec:\n  failurePolicy: Fail\n  matchConstraints:\n    \
         resourceRules:\n    - {{apiGroups: [''], apiVersions: [v1], resources: [configmaps], \
         operations: [CREATE]}}\n{before}  validations:\n  - expression: >-\n      {expression}\n"
    )
}

fn variables(count: usize, each: impl Fn(usize) -> String) -> String {
    let all: String = (0..count)
        .map(|n| format!("  - name: v{n}\n    expression: {}\n", each(n)))
        .collect();
    format!("  variables:\n{all}")
}

/// What means harm as YAML: a name, the bytes, and what the answer begins with.
fn files() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let n = 100_000;
    let mut laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
    for i in 1..12 {
        let alias = format!("*a{}", i - 1);
        laughs += &format!("a{i}: &a{i} [{}]\n", [alias.as_str(); 9].join(", "));
    }
    let text = |text: String| text.into_bytes();
    vec![
        ("aliases.yaml", text(laughs), "aliases.yaml:6:25: more than"),
        (
            "alias-text.yaml",
            text(format!(
                "a: &a {}\nb: [{}]",
                "x".repeat(200_000),
                ["*a"; 2_000].join(", ")
            )),
            "alias-text.yaml:2:21: more than",
        ),
        (
            "deep.yaml",
            "[".repeat(n).into(),
            "deep.yaml:1:256: not YAML",
        ),
        (
            "deep.json",
            "[{\"a\":".repeat(n).into(),
            "deep.json:1:764: not YAML",
        ),
        (
            "block.yaml",
            "- ".repeat(n).into(),
            "block.yaml:1:129: more than",
        ),
        (
            "same-key.yaml",
            "a: 1\n".repeat(n).into(),
            "same-key.yaml:2:1: the key",
        ),
        (
            "documents.yaml",
            "---\na\n".repeat(n).into(),
            "documents.yaml:8001:1: more than",
        ),
        (
            "values.yaml",
            "- a\n".repeat(2 * 1024 * 1024).into(),
            "values.yaml:400001:3: more",
        ),
        (
            "size.yaml",
            "a".repeat(8 * 1024 * 1024 + 1).into(),
            "size.yaml: has 8388609 bytes",
        ),
        (
            "not-utf8.yaml",
            b"a: 1\nb: \xff\xfe".to_vec(),
            "not-utf8.yaml:2:4: not UTF-8",
        ),
        (
            "utf16.yaml",
            b"\xff\xfea\0:\0 \x001\0".to_vec(),
            "utf16.yaml:1:1: not UTF-8",
        ),
        ("nul.yaml", vec![0; n], "nul.yaml:1:1: not YAML"),
        (
            "template.yaml",
            text("a: {{ .Values.x }}\n".into()),
            "template.yaml:1:5: not YAML",
        ),
        (
            "comments.yaml",
            "#\n".repeat(4_000_000).into(),
            "0 policies: 0 errors",
        ),
        (
            "escapes.yaml",
            text(format!("a: \"{}\"", "\\u0041".repeat(1_300_000))),
            "0 policies",
        ),
        (
            "kinds.yaml",
            text("---\nkind: [ValidatingAdmissionPolicy]\napiVersion: {x: y}\n".repeat(3_900)),
            "0 policies: 0 errors",
        ),
        (
            "policies.yaml",
            text(vec![policy("object.data.k == 'v'", ""); 3_900].join("---\n")),
            "policies.yaml:3:18: note[L6]",
        ),
    ]
}

/// What means harm as CEL, and what is said of it; nothing where it is an expression like another.
fn expressions() -> Vec<(&'static str, String, &'static str)> {
    let list = format!("[{}0]", "0,".repeat(99));
    let mut map = "x0".to_owned();
    let mut exists = "false".to_owned();
    for level in (0..8).rev() {
        map = format!("{list}.map(x{level}, {map})");
        exists = format!("{list}.exists(x{level}, {exists})");
    }
    let of = |expression: &str| policy(expression, "");
    let doubled = variables(400, |n| match n {
        0 => "1".to_owned(),
        n => format!("variables.v{0} + variables.v{0}", n - 1),
    });
    let filtered = variables(400, |n| match n {
        0 => "object.data".to_owned(),
        n => format!("variables.v{0}.filter(x, has(x.k{n}) && x.k{n} > 1)", n - 1),
    });
    let known = variables(9_000, |n| match n {
        0 => "has(object.data)".to_owned(),
        n => format!("variables.v{0} && has(object.data.k{n})", n - 1),
    });
    let resources: String = (0..20_000).map(|n| format!("r{n}, '*', '*/*', ")).collect();
    let asked: String = (0..200)
        .map(|n| format!("has(object.data.k{n}) && "))
        .collect();
    vec![
        (
            "brackets",
            of(&format!("{}1{}", "(".repeat(9_000), ")".repeat(9_000))),
            "nested",
        ),
        (
            "long",
            of(&format!("true{}", " || true".repeat(900_000))),
            "bytes",
        ),
        (
            "fields",
            of(&format!("object{}", ".a".repeat(9_000))),
            "levels",
        ),
        (
            "conditionals",
            of(&format!("{}1", "true?1:".repeat(9_000))),
            "levels",
        ),
        (
            "pattern",
            of("object.metadata.name.matches('^((a{100}){100}){100}$')"),
            "a pattern",
        ),
        ("loops", of(&format!("{map} == []")), ""),
        ("searches", of(&exists), ""),
        (
            "texts",
            of(&format!(
                "'aa'{} == ''",
                ".replace('a','aaaaaaaa')".repeat(20)
            )),
            "",
        ),
        ("doubled", policy("variables.v399 == 1", &doubled), ""),
        (
            "filtered",
            policy("variables.v399.all(x, x > 1)", &filtered),
            "",
        ),
        ("known", policy("variables.v8999", &known), ""),
        (
            "rules",
            format!(
                "{}{}",
                of("true"),
                "  - expression: object.data.k == 1\n".repeat(20_000)
            ),
            "L1",
        ),
        (
            "resources",
            of(&format!("{asked}true")).replace("configmaps", &format!("{resources} x")),
            "",
        ),
    ]
}

#[test]
fn a_hostile_file_is_answered_within_a_second_and_256_megabytes() {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes, answer) in files() {
        std::fs::write(folder.path().join(name), bytes).unwrap();
        let output = bounded(folder.path(), &["policies", "lint", name]);
        let said = String::from_utf8_lossy(&output.stdout);
        let first: String = said.chars().take(200).collect();
        assert!(
            said.starts_with(answer),
            "{name}: {:?} {first}",
            output.status
        );
        assert!(
            output.status.code().is_some_and(|code| code <= 2),
            "{name}: {:?}",
            output.status
        );
    }
}

#[test]
fn a_hostile_expression_is_answered_within_a_second_and_256_megabytes() {
    let folder = tempfile::tempdir().unwrap();
    let request = r#"{"operation": "CREATE", "namespace": "n", "name": "web",
        "resource": {"group": "", "version": "v1", "resource": "configmaps"},
        "kind": {"group": "", "version": "v1", "kind": "ConfigMap"}, "userInfo": {"username": "u"},
        "object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web"}}}"#;
    std::fs::write(folder.path().join("request.json"), request).unwrap();
    for (name, text, answer) in expressions() {
        std::fs::write(folder.path().join("p.yaml"), text).unwrap();
        let linted = bounded(folder.path(), &["policies", "lint", "p.yaml"]);
        let said = String::from_utf8_lossy(&linted.stdout);
        assert!(
            linted.status.code().is_some_and(|code| code <= 1),
            "{name}: {:?}",
            linted.status
        );
        assert!(
            said.contains("p.yaml:") && said.contains(answer),
            "{name}: {:.300}",
            said
        );
        let arguments = [
            "policies",
            "eval",
            "--policy",
            "p.yaml",
            "--request",
            "request.json",
        ];
        let judged = bounded(folder.path(), &arguments);
        let said = String::from_utf8_lossy(&judged.stdout);
        let code = judged.status.code();
        assert!(
            code.is_some_and(|code| code <= 2),
            "{name}: {:?}",
            judged.status
        );
        assert!(!said.starts_with("allowed"), "{name}: {said:.300}");
    }
}
