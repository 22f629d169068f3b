//! The expression engine: CEL as the API server evaluates it in admission policies (P-11).
//!
//! Invariants: the crate `cel` parses and is named nowhere else; everything after the parser is
//! ours. Any text compiles or is refused in bounded time, stack and memory; any evaluation ends
//! within its [`Budget`]; a function that is missing here is an error of compilation, never a
//! wrong answer. Why it is so: docs/decisions/0013.
//!
//! Not here: types. An expression whose types cannot fit compiles and fails when it is evaluated,
//! where the API server refuses it, or counts it as failed, before.

pub mod ast;

mod activation;
mod budget;
mod catalogue;
mod check;
mod error;
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "an operation names the types that it takes; on all others it has no overload"
)]
mod evaluate;
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "an operation names the types that it takes; on all others it has no overload"
)]
mod functions;
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "an operation names the types that it takes; on all others it has no overload"
)]
mod operators;
mod parse;
mod regex;
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "most of the crate's tokens make no tree any deeper"
)]
mod scan;
mod unparse;
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "an operation names the types that it takes; on all others it has no overload"
)]
mod value;

#[cfg(test)]
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "what a test does not wait for fails it"
)]
mod tests;

pub use activation::{Activation, Answer, Authorizer, InputError, Question};
pub use budget::Budget;
pub use error::EvalError;
pub use regex::MAX_PATTERN;
pub use scan::{MAX_DEPTH, MAX_NESTING, MAX_SOURCE, MAX_TOKENS};
pub use value::{Cidr, Key, Map, Nested, Url, Value};

use ast::{Node, Position};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// A release of Kubernetes, which says what an expression may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct KubernetesVersion(u32);

impl KubernetesVersion {
    /// The oldest release whose dialect is known here.
    pub const OLDEST: Self = Self(30);
    /// The newest.
    pub const NEWEST: Self = Self(37);

    /// Kubernetes 1.`minor`, from 1.30 to 1.37.
    #[must_use]
    pub fn new(minor: u32) -> Option<Self> {
        let version = Self(minor);
        (Self::OLDEST..=Self::NEWEST)
            .contains(&version)
            .then_some(version)
    }

    /// The minor: 34 of 1.34.
    #[must_use]
    pub fn minor(self) -> u32 {
        self.0
    }
}

impl fmt::Display for KubernetesVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1.{}", self.0)
    }
}

/// Why a text is no expression that can be evaluated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}:{}: {message}", at.line, at.column)]
pub struct CompileError {
    /// What is wrong.
    pub message: String,
    /// Where in the text.
    pub at: Position,
    /// Whether it is this engine that cannot, so that the API server may well compile it.
    pub engine_limit: bool,
}

impl CompileError {
    fn new(message: impl Into<String>, at: Position) -> Self {
        Self {
            message: message.into(),
            at,
            engine_limit: false,
        }
    }

    fn limit(message: impl Into<String>, at: Position) -> Self {
        Self {
            engine_limit: true,
            ..Self::new(message, at)
        }
    }

    fn limit_at_start(message: String) -> Self {
        Self::limit(message, Position { line: 1, column: 1 })
    }
}

/// Parses a text without looking at its names and functions: for those who only walk the tree.
///
/// # Errors
///
/// Where the text is no expression, or is too large or too deep.
pub fn parse(source: &str) -> Result<Node, CompileError> {
    parse::parse(source)
}

/// Whether the API server of this release has what a text names and calls, as far as is known
/// here; also what this engine cannot evaluate.
///
/// # Errors
///
/// Where it has not, or where the text is more than this engine reads (`engine_limit`).
pub fn in_dialect(source: &str, version: KubernetesVersion) -> Result<(), CompileError> {
    check::check(&parse(source)?, version)
}

/// An expression that can be evaluated. A copy shares its tree.
#[derive(Debug, Clone)]
pub struct Expression {
    source: Arc<str>,
    ast: Arc<Node>,
    version: KubernetesVersion,
}

impl Expression {
    /// Compiles a text for a release (P-11).
    ///
    /// # Errors
    ///
    /// Where it is no expression, is too large or too deep, or names what the release or this
    /// engine does not have.
    pub fn compile(source: &str, version: KubernetesVersion) -> Result<Self, CompileError> {
        let ast = parse(source)?;
        check::check(&ast, version)?;
        Ok(Self {
            source: source.into(),
            ast: Arc::new(ast),
            version,
        })
    }

    /// The same, if it reads no other variables of the policy than these: the API server declares
    /// what stands before, and takes no expression that reads another.
    ///
    /// # Errors
    ///
    /// Where it reads another.
    pub fn with_variables(self, declared: &[&str]) -> Result<Self, CompileError> {
        let read = ast::variables_read(&self.ast);
        let unknown = read.into_iter().find(|(name, _)| !declared.contains(name));
        if let Some((name, at)) = unknown {
            return Err(CompileError::new(format!("undefined field `{name}`"), at));
        }
        Ok(self)
    }

    /// The text.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The tree.
    #[must_use]
    pub fn ast(&self) -> &Node {
        &self.ast
    }

    /// Whether the name stands anywhere in it, bound by a macro or not.
    #[must_use]
    pub fn mentions(&self, name: &str) -> bool {
        mentions(&self.ast, name)
    }

    /// Evaluates it, at the budget's cost (P-11).
    ///
    /// # Errors
    ///
    /// Where the API server would meet an error, where the budget is spent, and where the engine
    /// itself fails: a panic is an error.
    pub fn evaluate(
        &self,
        activation: &Activation,
        budget: &mut Budget,
    ) -> Result<Value, EvalError> {
        budget.begin_expression();
        catch_unwind(AssertUnwindSafe(|| {
            evaluate::evaluate(&self.ast, self.version, activation, budget)
        }))
        .unwrap_or(Err(EvalError::Failed))
    }
}

fn mentions(node: &Node, name: &str) -> bool {
    matches!(&node.kind, ast::Kind::Name(found) if found == name)
        || node
            .children()
            .into_iter()
            .any(|child| mentions(child, name))
}
