//! How far a long work is.

/// What is told while every mutant, or every expression, of a policy is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress<'a> {
    /// The policy.
    pub policy: &'a str,
    /// How many are done.
    pub done: usize,
    /// How many there are.
    pub of: usize,
}
