//! How much an evaluation may cost.
//!
//! Invariant: whatever grows with its input is charged before it is done. A step is a node, an
//! element that is looked at or made, or 8 bytes of text that are read or made. The API server
//! counts otherwise; its limits are the model, and what is far within one is far within the other.

use super::EvalError;

/// Steps of one expression, as the API server's `PerCallLimit`.
const EXPRESSION: u64 = 1_000_000;
/// Steps of one policy with one binding, as the API server's `RuntimeCELCostBudget`.
const POLICY: u64 = 10_000_000;
/// Steps of the match conditions, as `RuntimeCELCostBudgetMatchConditions`.
const MATCH_CONDITIONS: u64 = 2_500_000;
/// How deep an evaluation may nest, the variables that it opens included.
const DEPTH: usize = 2 * super::MAX_DEPTH;

/// What is left of the steps.
#[derive(Debug, Clone)]
pub struct Budget {
    total: u64,
    expression: u64,
    depth: usize,
}

impl Budget {
    /// The budget of one policy with one binding: 10,000,000 steps, 1,000,000 for an expression.
    #[must_use]
    pub fn policy() -> Self {
        Self::of(POLICY)
    }

    /// The budget of a policy's match conditions: 2,500,000 steps.
    #[must_use]
    pub fn match_conditions() -> Self {
        Self::of(MATCH_CONDITIONS)
    }

    /// A budget of so many steps.
    #[must_use]
    pub fn of(total: u64) -> Self {
        Self {
            total,
            expression: EXPRESSION.min(total),
            depth: 0,
        }
    }

    /// The steps that are left.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.total
    }

    pub(super) fn begin_expression(&mut self) {
        self.expression = EXPRESSION.min(self.total);
        self.depth = 0;
    }

    /// Pays for something.
    pub(super) fn charge(&mut self, steps: u64) -> Result<(), EvalError> {
        if steps > self.expression {
            self.total -= self.expression;
            self.expression = 0;
            return Err(EvalError::OutOfBudget);
        }
        self.expression -= steps;
        self.total -= steps;
        Ok(())
    }

    /// Pays for elements.
    pub(super) fn elements(&mut self, count: usize) -> Result<(), EvalError> {
        self.charge(count as u64)
    }

    /// Pays for text.
    pub(super) fn bytes(&mut self, count: usize) -> Result<(), EvalError> {
        self.charge(count as u64 / 8)
    }

    pub(super) fn enter(&mut self) -> Result<(), EvalError> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(EvalError::TooDeep);
        }
        self.charge(1)
    }

    pub(super) fn leave(&mut self) {
        self.depth = self.depth.saturating_sub(1);
    }
}
