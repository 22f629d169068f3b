//! Runs a policy on a request, in the API server's order (§1.1).
//!
//! Invariants: every match condition is evaluated, and one that is false decides whatever the
//! others do; an error is what `failurePolicy` makes of it; what this engine cannot do is neither,
//! but undecided.

use super::matching::{Matched, Matcher};
use super::program::{Compiled, Named, Program, Validation};
use super::{Denial, Outcome, Request, Rule};
use crate::cel::{Activation, Authorizer, Budget, EvalError, Value};
use crate::model::Binding;
use std::rc::Rc;

/// The longest message that an expression may make.
const MAX_MESSAGE: usize = 5 * 1024;
const OUT_OF_BUDGET: &str = "validation failed due to running out of cost budget, no further \
                             validation rules will be run";

/// What one expression gave.
enum Evaluated {
    Value(Value),
    /// The API server's text of the error.
    Error(String),
    /// The policy's budget is spent: nothing more is evaluated.
    Spent,
    /// Only the API server knows.
    Unknown(String),
}

/// Judges.
pub(super) fn outcome(
    program: &Program,
    binding: Option<&Binding>,
    request: &Request,
    authorizer: Option<Rc<dyn Authorizer>>,
) -> Outcome {
    match program.matcher.matches_any_version(request, false) {
        Matched::Yes => {}
        Matched::No(why) => return Outcome::NotMatched(why),
        Matched::Unknown(why) => return Outcome::Undecided(why),
    }
    let narrowed = Matcher::new(binding.and_then(|binding| binding.match_resources.as_ref()));
    match narrowed.matches_any_version(request, true) {
        Matched::Yes => {}
        Matched::No(why) => return Outcome::NotMatched(format!("by its binding: {why}")),
        Matched::Unknown(why) => return Outcome::Undecided(format!("by its binding: {why}")),
    }
    let run = Run {
        program,
        request,
        authorizer,
        denies: program.denies(binding),
    };
    if let Some(outcome) = run.conditions() {
        return outcome;
    }
    if program.reads_namespace
        && !request.text(&["namespace"]).is_empty()
        && request.namespace_object.is_null()
    {
        return Outcome::Undecided(
            "it reads `namespaceObject`, and the request has none".to_owned(),
        );
    }
    run.rules()
}

struct Run<'a> {
    program: &'a Program,
    request: &'a Request,
    authorizer: Option<Rc<dyn Authorizer>>,
    denies: bool,
}

/// What the rules of one kind came to.
#[derive(Default)]
struct Found {
    denial: Option<Denial>,
    unknown: Option<String>,
}

impl Found {
    fn deny(&mut self, denial: Denial) {
        self.denial.get_or_insert(denial);
    }
}

impl Run<'_> {
    /// The names of one batch of expressions; each batch evaluates its variables anew.
    fn activation(&self, in_conditions: bool) -> Result<Activation, String> {
        let activation = self
            .request
            .activation(in_conditions)
            .map_err(|error| error.to_string())?;
        let variables = self.program.variables.iter();
        let activation =
            activation.variables(variables.map(|one| (one.name.clone(), one.compiled.clone())));
        Ok(match &self.authorizer {
            Some(authorizer) => activation.authorizer(Rc::clone(authorizer)),
            None => activation.authorizer(Rc::new(self.request.answers.clone())),
        })
    }

    /// What an error comes to.
    fn error(&self, rule: Rule, message: String) -> Option<Denial> {
        self.program.fails_closed.then(|| Denial {
            rule,
            message,
            reason: "Invalid".to_owned(),
            error: true,
        })
    }

    fn enforced(&self, denial: Option<Denial>) -> Outcome {
        match denial {
            Some(denial) if self.denies => Outcome::Denied(denial),
            Some(denial) => Outcome::Noted(denial),
            None => Outcome::Allowed,
        }
    }

    /// The outcome, if the match conditions already say it.
    fn conditions(&self) -> Option<Outcome> {
        let activation = match self.activation(true) {
            Ok(activation) => activation,
            Err(why) => return Some(Outcome::Undecided(why)),
        };
        let mut budget = Budget::match_conditions();
        let mut errors: Vec<(Rule, String)> = Vec::new();
        let mut unknown = None;
        let mut skipped = None;
        for (at, condition) in self.program.conditions.iter().enumerate() {
            let rule = || Rule::Condition(at, condition.name.clone());
            match evaluate(
                &condition.compiled,
                &condition.source,
                &activation,
                &mut budget,
            ) {
                Evaluated::Value(Value::Bool(true)) => {}
                Evaluated::Value(Value::Bool(false)) => {
                    skipped.get_or_insert_with(rule);
                }
                Evaluated::Value(_) => errors.push((rule(), not_a_bool(&condition.source))),
                Evaluated::Error(message) => errors.push((rule(), message)),
                Evaluated::Unknown(why) => {
                    unknown.get_or_insert(format!("match condition `{}`: {why}", condition.name));
                }
                // The API server gives up before it looks at what the others said.
                Evaluated::Spent => {
                    let denial = self.error(rule(), OUT_OF_BUDGET.to_owned());
                    return Some(self.enforced(denial));
                }
            }
        }
        if let Some(rule) = skipped {
            return Some(Outcome::Skipped(rule));
        }
        if let Some(why) = unknown {
            return Some(Outcome::Undecided(why));
        }
        let (rule, _) = errors.first()?.clone();
        let denial = self.error(rule, aggregate(errors));
        Some(self.enforced(denial))
    }

    fn rules(&self) -> Outcome {
        let mut found = Found::default();
        if let Err(why) = self.validations(&mut found) {
            return Outcome::Undecided(why);
        }
        let validations = found.denial.take();
        if self.denies
            && let Some(denial) = validations
        {
            return Outcome::Denied(denial);
        }
        if let Err(why) = self.annotations(&mut found) {
            return Outcome::Undecided(why);
        }
        // These refuse whatever the binding says.
        if let Some(denial) = found.denial {
            return Outcome::Denied(denial);
        }
        match found.unknown {
            Some(why) => Outcome::Undecided(why),
            None => self.enforced(validations),
        }
    }

    fn validations(&self, found: &mut Found) -> Result<(), String> {
        let activation = self.activation(false)?;
        let mut budget = Budget::policy();
        let mut results = Vec::new();
        for validation in &self.program.validations {
            let result = evaluate(
                &validation.compiled,
                &validation.source,
                &activation,
                &mut budget,
            );
            if let Evaluated::Spent = result {
                let denial = self.error(Rule::Budget, OUT_OF_BUDGET.to_owned());
                found.denial = denial;
                return Ok(());
            }
            results.push(result);
        }
        let messages = self.messages(&mut budget)?;
        for (at, (validation, result)) in self.program.validations.iter().zip(results).enumerate() {
            let rule = Rule::Validation(at);
            let denial = match result {
                Evaluated::Value(Value::Bool(true)) if !matches!(messages, Messages::Spent) => None,
                Evaluated::Error(message) => self.error(rule, message),
                Evaluated::Unknown(why) => {
                    found
                        .unknown
                        .get_or_insert(format!("validation {at}: {why}"));
                    None
                }
                Evaluated::Value(_) | Evaluated::Spent => match &messages {
                    Messages::Spent => {
                        self.error(rule, format!("failed messageExpression: {OUT_OF_BUDGET}"))
                    }
                    Messages::Made(made) => match made.get(at) {
                        Some(Made::Unknown(why)) => {
                            let why = format!("validation {at} refuses, with a message that {why}");
                            found.unknown.get_or_insert(why);
                            None
                        }
                        made => Some(Denial {
                            rule,
                            message: message(validation, made),
                            reason: validation.reason.clone(),
                            error: false,
                        }),
                    },
                },
            };
            if let Some(denial) = denial {
                found.deny(denial);
            }
        }
        Ok(())
    }

    /// The messages that expressions make; one that cannot be made is left out.
    fn messages(&self, budget: &mut Budget) -> Result<Messages, String> {
        let activation = self.activation(false)?;
        let mut made = Vec::new();
        for validation in &self.program.validations {
            made.push(match &validation.message_expression {
                None => Made::None,
                // The authorizer is none of the names that a message may use.
                Some(Ok(expression)) if expression.mentions("authorizer") => Made::None,
                Some(compiled) => match evaluate(compiled, "", &activation, budget) {
                    Evaluated::Spent => return Ok(Messages::Spent),
                    Evaluated::Value(Value::String(text)) => Made::Text(text.trim().to_owned()),
                    Evaluated::Value(_) | Evaluated::Error(_) => Made::None,
                    Evaluated::Unknown(why) => Made::Unknown(why),
                },
            });
        }
        Ok(Messages::Made(made))
    }

    fn annotations(&self, found: &mut Found) -> Result<(), String> {
        if self.program.annotations.is_empty() {
            return Ok(());
        }
        let activation = self.activation(false)?;
        let mut budget = Budget::policy();
        for (at, annotation) in self.program.annotations.iter().enumerate() {
            let rule = Rule::AuditAnnotation(at, annotation.name.clone());
            let message = match self.annotation(annotation, &activation, &mut budget) {
                Ok(()) => continue,
                Err(Evaluated::Unknown(why)) => {
                    found
                        .unknown
                        .get_or_insert(format!("annotation `{}`: {why}", annotation.name));
                    continue;
                }
                Err(Evaluated::Error(message)) => message,
                Err(Evaluated::Spent | Evaluated::Value(_)) => OUT_OF_BUDGET.to_owned(),
            };
            if let Some(denial) = self.error(rule, message) {
                found.deny(denial);
            }
        }
        Ok(())
    }

    fn annotation(
        &self,
        annotation: &Named,
        activation: &Activation,
        budget: &mut Budget,
    ) -> Result<(), Evaluated> {
        match evaluate(&annotation.compiled, &annotation.source, activation, budget) {
            Evaluated::Value(Value::String(_) | Value::Null) => Ok(()),
            Evaluated::Value(other) => Err(Evaluated::Error(format!(
                "valueExpression '{}' resulted in unsupported return type: {}. Return type must \
                 be either string or null",
                annotation.source,
                other.type_name()
            ))),
            failed @ (Evaluated::Error(_) | Evaluated::Spent | Evaluated::Unknown(_)) => {
                Err(failed)
            }
        }
    }
}

enum Messages {
    Made(Vec<Made>),
    /// Making them cost more than is left.
    Spent,
}

/// A message that an expression makes.
enum Made {
    Text(String),
    /// There is no expression, or it makes none.
    None,
    /// Only the API server knows.
    Unknown(String),
}

fn not_a_bool(source: &str) -> String {
    format!("expression '{source}' resulted in error: cel expression must evaluate to a bool")
}

/// One error as it is, several in brackets, each once.
fn aggregate(errors: Vec<(Rule, String)>) -> String {
    let mut texts: Vec<String> = Vec::new();
    for (_, text) in errors {
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    match texts.as_slice() {
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}

fn message(validation: &Validation, made: Option<&Made>) -> String {
    let made = match made {
        Some(Made::Text(text)) if text.len() <= MAX_MESSAGE && !text.contains('\n') => text,
        Some(Made::Text(_) | Made::None | Made::Unknown(_)) | None => "",
    };
    let texts = [made, validation.message.trim()];
    texts.iter().find(|text| !text.is_empty()).map_or_else(
        || format!("failed expression: {}", validation.source.trim()),
        |text| (*text).to_owned(),
    )
}

fn evaluate(
    compiled: &Compiled,
    source: &str,
    activation: &Activation,
    budget: &mut Budget,
) -> Evaluated {
    let expression = match compiled {
        Ok(expression) => expression,
        Err(error) if error.engine_limit => return Evaluated::Unknown(error.to_string()),
        Err(error) => {
            return Evaluated::Error(format!(
                "compilation error: compilation failed: ERROR: <input>:{error}"
            ));
        }
    };
    match expression.evaluate(activation, budget) {
        Ok(value) => Evaluated::Value(value),
        Err(error) if error.is_out_of_budget() && budget.left() == 0 => Evaluated::Spent,
        Err(error) if error.is_final() && !error.is_out_of_budget() => {
            Evaluated::Unknown(error.to_string())
        }
        Err(error) => Evaluated::Error(error_text(source, &error)),
    }
}

fn error_text(source: &str, error: &EvalError) -> String {
    format!("expression '{source}' resulted in error: {error}")
}
