//! What can go wrong in an evaluation. The texts are the API server's where it has one.

/// Why an expression has no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EvalError {
    /// A field or key that is not there.
    #[error("no such key: {0}")]
    NoSuchKey(String),
    /// An operator or function on values of types that it does not take.
    #[error("no such overload")]
    NoSuchOverload,
    /// A name that nothing is bound to.
    #[error("undeclared reference to '{0}'")]
    UndeclaredReference(String),
    /// A place outside a list or a string.
    #[error("index out of bounds: {0}")]
    IndexOutOfBounds(String),
    /// `x / 0`
    #[error("division by zero")]
    DivisionByZero,
    /// `x % 0`
    #[error("modulus by zero")]
    ModulusByZero,
    /// A number that does not fit.
    #[error("{0}")]
    Overflow(&'static str),
    /// A value that a function cannot work on: what it said.
    #[error("{0}")]
    BadValue(String),
    /// `variables.x`, whose own expression failed.
    #[error("composited variable \"{name}\" fails to evaluate: {error}")]
    Variable {
        /// The variable.
        name: String,
        /// What happened to it.
        error: Box<EvalError>,
    },
    /// The steps are spent. No operator absorbs it.
    #[error("operation cancelled: actual cost limit exceeded")]
    OutOfBudget,
    /// Variables that open variables, too deep. No operator absorbs it.
    #[error("the evaluation nests deeper than this engine goes")]
    TooDeep,
    /// Something of CEL that this engine has not. No operator absorbs it.
    #[error("{0} is not supported by this engine")]
    Unsupported(String),
    /// The authorizer was asked, and there is none. No operator absorbs it.
    #[error("the expression asks the authorizer, and no answer of it was given")]
    NoAuthorizer,
    /// The engine itself failed. No operator absorbs it.
    #[error("the expression engine failed")]
    Failed,
}

impl EvalError {
    /// Whether no `||`, `&&`, `all` or `exists` may make a value of it: the evaluation is over.
    #[must_use]
    pub fn is_final(&self) -> bool {
        match self {
            Self::OutOfBudget
            | Self::TooDeep
            | Self::Unsupported(_)
            | Self::NoAuthorizer
            | Self::Failed => true,
            Self::Variable { error, .. } => error.is_final(),
            Self::NoSuchKey(_)
            | Self::NoSuchOverload
            | Self::UndeclaredReference(_)
            | Self::IndexOutOfBounds(_)
            | Self::DivisionByZero
            | Self::ModulusByZero
            | Self::Overflow(_)
            | Self::BadValue(_) => false,
        }
    }

    /// Whether the budget ran out, here or in a variable.
    #[must_use]
    pub fn is_out_of_budget(&self) -> bool {
        match self {
            Self::Variable { error, .. } => error.is_out_of_budget(),
            Self::OutOfBudget => true,
            Self::NoSuchKey(_)
            | Self::NoSuchOverload
            | Self::UndeclaredReference(_)
            | Self::IndexOutOfBounds(_)
            | Self::DivisionByZero
            | Self::ModulusByZero
            | Self::Overflow(_)
            | Self::BadValue(_)
            | Self::TooDeep
            | Self::Unsupported(_)
            | Self::NoAuthorizer
            | Self::Failed => false,
        }
    }
}

/// What an error repeats of a text: errors are kept and copied.
pub(super) fn short(text: &str) -> String {
    const MOST: usize = 1000;
    match text.char_indices().nth(MOST) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}
