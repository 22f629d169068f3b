//! The proofs on the cases of the repository (P-4, P-8, P-9). Here, and not among the tests that span
//! packages, so that they build without the sidecar. `docs/policies-proofs.md` says what each
//! means.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test panics to fail"
)]

#[allow(
    dead_code,
    unused_imports,
    unreachable_pub,
    missing_docs,
    reason = "one file, taken in by two packages: each uses its part of it"
)]
#[path = "../../tests/src/policy_cases.rs"]
mod policy_cases;

#[path = "proofs/equivalence.rs"]
mod equivalence;
#[path = "proofs/fence.rs"]
mod fence;
#[path = "proofs/mutation.rs"]
mod mutation;
#[path = "proofs/never_errors.rs"]
mod never_errors;
#[path = "proofs/reports.rs"]
mod reports;
