//! Whether the two fences decide alike on the bounded domain (P-8).
//!
//! Invariant: conditions and rules are compared one by one, each as if every other one let the
//! request through. Two policies that match a request alike, and of which all conditions and rules
//! come out alike, say the same of it, in the same words.

use super::clause_of;
use crate::bounded::{Domain, Expressions, Required, Tried, Visited};
use crate::cel::{KubernetesVersion, Value};
use crate::eval::{Case, Program, ProgramError};
use crate::fence::FlightOnly;
use crate::model::{Policy, Validation};
use crate::source::Spanned;
use std::collections::BTreeSet;

/// What came of comparing on the domain.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bounded {
    /// Policies that both fences have.
    pub policies: usize,
    /// Conditions and rules of theirs that were compared.
    pub compared: usize,
    /// Changes of a case, of one place each.
    pub changes: usize,
    /// Pairs of them.
    pub pairs: usize,
    /// Comparisons: of two requests in which a condition or rule reads the same, one.
    pub requests: usize,
    /// Differences that nobody declared, as a person reads them: of a condition or rule the first.
    pub undeclared: Vec<String>,
    /// The places, in the list of the declared, of those that showed.
    pub shown: BTreeSet<usize>,
}

/// Compares the fences, policy by policy, on the domain that the cases span (P-8).
///
/// # Errors
///
/// [`ProgramError`]: a policy cannot be judged here; nothing was compared.
pub fn on_the_domain(
    flight: &[Policy],
    ground: &[Policy],
    declared: &[FlightOnly],
    version: KubernetesVersion,
    cases: &[Case],
) -> Result<Bounded, ProgramError> {
    let mut found = Bounded::default();
    let name = |policy: &Policy| policy.name.value.clone();
    for policy in flight {
        let twin = ground.iter().find(|other| name(other) == name(policy));
        if let Some(twin) = twin {
            let (flight, ground) = (Side::of(policy, version)?, Side::of(twin, version)?);
            Comparison::new(&flight, &ground, declared, cases, &mut found).run();
            continue;
        }
        let only = |one: &FlightOnly| match one {
            FlightOnly::Policy { policy: of, .. } => *of == name(policy),
            FlightOnly::Clause { .. } => false,
        };
        match declared.iter().position(only) {
            Some(at) => {
                found.shown.insert(at);
            }
            None => found
                .undeclared
                .push(format!("Ground has no {}", name(policy))),
        }
    }
    let known: BTreeSet<String> = flight.iter().map(name).collect();
    let more = ground.iter().map(name).filter(|one| !known.contains(one));
    found
        .undeclared
        .extend(more.map(|one| format!("Flight has no {one}")));
    Ok(found)
}

struct Side<'p> {
    policy: &'p Policy,
    program: Program,
    expressions: Expressions,
}

impl<'p> Side<'p> {
    fn of(policy: &'p Policy, version: KubernetesVersion) -> Result<Self, ProgramError> {
        Ok(Self {
            policy,
            program: Program::new(policy, version)?,
            expressions: Expressions::of(policy, version),
        })
    }

    fn at(&self, place: &str) -> Option<&Tried> {
        self.expressions.tried.iter().find(|one| one.place == place)
    }

    /// What the rule comes to, and in which words.
    fn says(&self, one: &Tried, visited: &Visited<'_>) -> String {
        match self.expressions.evaluate(one, visited.part) {
            Ok(Value::Bool(holds)) => holds.to_string(),
            Ok(other) => format!("{other:?}"),
            Err(error) => format!("an error of `{}`: {error}", one.source()),
        }
    }
}

struct Comparison<'a> {
    flight: &'a Side<'a>,
    ground: &'a Side<'a>,
    declared: &'a [FlightOnly],
    cases: &'a [Case],
    domain: Domain,
    found: &'a mut Bounded,
}

impl<'a> Comparison<'a> {
    fn new(
        flight: &'a Side<'a>,
        ground: &'a Side<'a>,
        declared: &'a [FlightOnly],
        cases: &'a [Case],
        found: &'a mut Bounded,
    ) -> Self {
        let matches = |case: &&Case| {
            flight.program.matches(&case.request) || ground.program.matches(&case.request)
        };
        let paths = flight.expressions.paths().chain(ground.expressions.paths());
        Self {
            domain: Domain::of(Required::Least, cases.iter().filter(matches), paths),
            flight,
            ground,
            declared,
            cases,
            found,
        }
    }

    fn run(mut self) {
        self.found.policies += 1;
        self.matching();
        let (ours, theirs) = (self.flight.policy, self.ground.policy);
        let conditions = (ours.match_conditions.len(), theirs.match_conditions.len());
        self.same_number("condition", conditions);
        for at in 0..conditions.0.min(conditions.1) {
            let place = format!("condition {at}");
            self.one(&place, &place);
        }
        let notes = (ours.audit_annotations.len(), theirs.audit_annotations.len());
        self.same_number("audit annotation", notes);
        for at in 0..notes.0.min(notes.1) {
            let place = format!("audit annotation {at}");
            self.one(&place, &place);
        }
        self.validations();
    }

    fn tell(&mut self, what: &str) {
        let name = &self.flight.policy.name.value;
        self.found.undeclared.push(format!("{name}: {what}"));
    }

    fn matching(&mut self) {
        let (ours, theirs) = (&self.flight.program, &self.ground.program);
        let differs = |case: &&Case| ours.matches(&case.request) != theirs.matches(&case.request);
        if let Some(case) = self.cases.iter().find(differs) {
            self.tell(&format!("one of the two does not match: {}", case.name));
        }
        if ours.fails_closed() != theirs.fails_closed() {
            self.tell("one of the two does not fail closed");
        }
    }

    fn same_number(&mut self, what: &str, (ours, theirs): (usize, usize)) {
        if ours != theirs {
            self.tell(&format!(
                "Flight has {ours} times a {what}, Ground {theirs}"
            ));
        }
    }

    fn validations(&mut self) {
        let (ours, theirs) = (self.flight.policy, self.ground.policy);
        let mut both = Vec::new();
        for (at, rule) in ours.validations.iter().enumerate() {
            let on_ground = theirs
                .validations
                .iter()
                .any(|other| words(other) == words(rule));
            let message = rule.message.as_ref().map_or("", |text| &text.value);
            let clause = clause_of(self.declared, &ours.name.value, message);
            match clause.filter(|_| !on_ground) {
                Some(clause) => self.shows(clause, at),
                None => both.push((at, rule)),
            }
        }
        self.same_number("validation", (both.len(), theirs.validations.len()));
        for ((at, ours), (other, theirs)) in
            both.into_iter().zip(theirs.validations.iter().enumerate())
        {
            if words(ours) != words(theirs) {
                self.tell(&format!(
                    "validation {at} and Ground's {other} have other words"
                ));
            }
            self.one(&format!("validation {at}"), &format!("validation {other}"));
        }
    }

    /// What only Flight has refuses something.
    fn shows(&mut self, clause: usize, at: usize) {
        let Some(one) = self.flight.at(&format!("validation {at}")) else {
            return;
        };
        let mut refuses = false;
        self.domain.each(&one.reads, |visited| {
            refuses |= self.flight.says(one, visited) == "false";
        });
        if refuses {
            self.found.shown.insert(clause);
        }
    }

    fn one(&mut self, ours: &str, theirs: &str) {
        let (Some(one), Some(other)) = (self.flight.at(ours), self.ground.at(theirs)) else {
            self.tell(&format!("{ours} does not compile on both"));
            return;
        };
        let mut first = None;
        let size = self.domain.each(&one.reads.and(&other.reads), |visited| {
            let (flight, ground) = (
                self.flight.says(one, visited),
                self.ground.says(other, visited),
            );
            if flight != ground && first.is_none() {
                let request = visited.words();
                first = Some(format!(
                    "{ours}: {request}: Flight says {flight}, Ground {ground}"
                ));
            }
        });
        self.found.compared += 1;
        self.found.changes += size.changes;
        self.found.pairs += size.pairs;
        self.found.requests += size.requests;
        if let Some(difference) = first {
            self.tell(&difference);
        }
    }
}

/// What is said where a rule does not hold.
fn words(rule: &Validation) -> [Option<&str>; 3] {
    let texts = [&rule.message, &rule.message_expression, &rule.reason];
    texts.map(|text| {
        text.as_ref()
            .map(|text: &Spanned<String>| text.value.trim())
    })
}
