//! What Kubernetes' own code makes of expressions with versions, formats, lists and time zones.
//!
//! `answers.txt` was written by it (`environment.MustBaseEnvSet(1.36).NewExpressionsEnv()` of
//! k8s.io/apiserver v0.36.3 with cel-go v0.26.0, the tz database of Go 1.26).

use super::*;

const ANSWERS: &str = include_str!("answers.txt");

#[test]
fn what_kubernetes_answers_is_answered() {
    let mut lines = ANSWERS.lines().filter(|line| !line.starts_with('#'));
    let mut wrong = Vec::new();
    let mut count = 0;
    while let (Some(source), Some(theirs)) = (lines.next(), lines.next()) {
        count += 1;
        let ours = Expression::compile(source, version(36))
            .unwrap_or_else(|error| panic!("{source}: {error}"))
            .evaluate(&Activation::new(), &mut Budget::policy());
        let right = match (theirs.trim(), &ours) {
            ("!", Err(error)) => !matches!(error, EvalError::Unsupported(_) | EvalError::Failed),
            ("!", Ok(_)) | (_, Err(_)) => false,
            (theirs, Ok(value)) => {
                let theirs: serde_json::Value = serde_json::from_str(theirs).unwrap();
                value.to_json() == theirs
            }
        };
        if !right {
            let ours = ours.map(|value| value.to_json());
            wrong.push(format!("{source}\n  theirs {theirs}\n  ours   {ours:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 70, "{count}");
}
