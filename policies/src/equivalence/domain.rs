//! Whether the two sets decide alike on the bounded domain (P-8).
//!
//! Invariant: conditions, rules and what makes their messages are compared one by one, each as if
//! every other one let the request through. Two policies that match a request alike, and of which
//! all of these come out alike, say the same of it, in the same words. What cannot be evaluated is
//! not compared, and told.

use super::{Difference, NativeOnly, source};
use crate::bounded::{Domain, Expressions, NoValue, Reads, Required, Tried, Visited};
use crate::cel::{KubernetesVersion, Value};
use crate::eval::{Case, Program, ProgramError};
use crate::model::{Named, Policy, Validation};
use crate::progress::Progress;
use crate::source::Spanned;
use std::collections::BTreeSet;

/// What came of comparing on the domain.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bounded {
    /// Policies that both sets have.
    pub policies: usize,
    /// Conditions and rules of theirs that were compared.
    pub compared: usize,
    /// Changes of a case, of one place each.
    pub changes: usize,
    /// Pairs of them.
    pub pairs: usize,
    /// Comparisons: of two requests in which a condition or rule reads the same, one.
    pub requests: usize,
    /// What differs and is not declared: of a condition or rule the first.
    pub undeclared: Vec<Difference>,
    /// The places, in the list of the declared, of those that showed.
    pub shown: BTreeSet<usize>,
    /// Policies that no case is about: of them nothing was compared.
    pub untried: Vec<String>,
    /// What could not be evaluated, and so was not compared, in words: of each part the first.
    pub undecided: Vec<String>,
}

/// Compares the sets, policy by policy, on the domain that the cases span (P-8).
///
/// # Errors
///
/// [`ProgramError`]: a policy cannot be judged here; nothing was compared.
pub fn on_the_domain(
    native: &[Policy],
    kyverno: &[Policy],
    declared: &[NativeOnly],
    version: KubernetesVersion,
    cases: &[Case],
    mut tell: impl FnMut(Progress<'_>),
) -> Result<Bounded, ProgramError> {
    let mut found = Bounded::default();
    let whole = |policy: &str, what: &str| Difference {
        policy: policy.to_owned(),
        part: String::new(),
        what: what.to_owned(),
    };
    for (at, policy) in native.iter().enumerate() {
        let name = source(&policy.name.value);
        let is_twin = |other: &&Policy| source(&other.name.value) == name;
        if let Some(twin) = kyverno.iter().find(is_twin) {
            let (native, kyverno) = (Side::of(policy, version)?, Side::of(twin, version)?);
            Comparison::new(&native, &kyverno, declared, cases, &mut found).run();
        } else if let Some(at) = declared.iter().position(|one| one.is_policy(name)) {
            found.shown.insert(at);
        } else {
            found
                .undeclared
                .push(whole(name, "there is none of Kyverno's"));
        }
        tell(Progress {
            policy: name,
            done: at + 1,
            of: native.len(),
        });
    }
    let known: BTreeSet<&str> = native.iter().map(|one| source(&one.name.value)).collect();
    let names = kyverno.iter().map(|one| source(&one.name.value));
    let more = names.filter(|name| !known.contains(name));
    found
        .undeclared
        .extend(more.map(|name| whole(name, "there is no native one")));
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
        let mut all = self.expressions.with_messages();
        all.find(|one| one.place == place)
    }

    /// What the rule comes to, in words; or why that is not known.
    fn says(&self, one: &Tried, visited: &Visited<'_>) -> Result<String, String> {
        match self.expressions.evaluate(one, visited.part) {
            Ok(Value::Bool(holds)) => Ok(holds.to_string()),
            Ok(Value::String(text)) => Ok(format!("{text:?}")),
            Ok(other) => Ok(format!("{other:?}")),
            Err(NoValue { why, is_known }) if is_known => {
                Ok(format!("an error of `{}`: {why}", one.source()))
            }
            Err(NoValue { why, .. }) => Err(why),
        }
    }
}

struct Comparison<'a> {
    native: &'a Side<'a>,
    kyverno: &'a Side<'a>,
    declared: &'a [NativeOnly],
    cases: &'a [Case],
    domain: Domain,
    found: &'a mut Bounded,
}

impl<'a> Comparison<'a> {
    fn new(
        native: &'a Side<'a>,
        kyverno: &'a Side<'a>,
        declared: &'a [NativeOnly],
        cases: &'a [Case],
        found: &'a mut Bounded,
    ) -> Self {
        let matches = |case: &&Case| {
            native.program.matches(&case.request) || kyverno.program.matches(&case.request)
        };
        let all = [native, kyverno].into_iter();
        let all = all.flat_map(|side| side.expressions.with_messages());
        Self {
            domain: Domain::of(
                Required::Least,
                cases.iter().filter(matches),
                all.flat_map(Tried::paths),
            ),
            native,
            kyverno,
            declared,
            cases,
            found,
        }
    }

    fn run(mut self) {
        self.found.policies += 1;
        if self.domain.bases() == 0 {
            let name = source(&self.native.policy.name.value);
            self.found.untried.push(name.to_owned());
        }
        self.matching();
        let (ours, theirs) = (self.native.policy, self.kyverno.policy);
        let conditions = (ours.match_conditions.len(), theirs.match_conditions.len());
        self.same_number("condition", conditions);
        for at in 0..conditions.0.min(conditions.1) {
            let place = format!("condition {at}");
            self.one(&place, &place);
        }
        let notes = (ours.audit_annotations.len(), theirs.audit_annotations.len());
        self.same_number("audit annotation", notes);
        for (at, (note, other)) in (ours.audit_annotations.iter())
            .zip(&theirs.audit_annotations)
            .enumerate()
        {
            let place = format!("audit annotation {at}");
            let key = |note: &Named| note.name.as_ref().map(|key| key.value.clone());
            if key(note) != key(other) {
                self.tell(&place, "it and Kyverno's have other keys".to_owned());
            }
            self.one(&place, &place);
        }
        self.validations();
    }

    fn tell(&mut self, part: &str, what: String) {
        self.found.undeclared.push(Difference {
            policy: source(&self.native.policy.name.value).to_owned(),
            part: part.to_owned(),
            what,
        });
    }

    fn matching(&mut self) {
        let (ours, theirs) = (&self.native.program, &self.kyverno.program);
        let differs = |case: &&Case| ours.matches(&case.request) != theirs.matches(&case.request);
        if let Some(case) = self.cases.iter().find(differs) {
            let what = format!("one of the two does not match: {}", case.name);
            self.tell("match", what);
        }
        if ours.fails_closed() != theirs.fails_closed() {
            self.tell("", "one of the two does not fail closed".to_owned());
        }
    }

    fn same_number(&mut self, what: &str, (ours, theirs): (usize, usize)) {
        if ours != theirs {
            let what = format!("the native one has {ours} times a {what}, Kyverno's {theirs}");
            self.tell("", what);
        }
    }

    fn validations(&mut self) {
        let (ours, theirs) = (self.native.policy, self.kyverno.policy);
        let mut both = Vec::new();
        for (at, rule) in ours.validations.iter().enumerate() {
            let by_kyverno = theirs
                .validations
                .iter()
                .any(|other| words(other) == words(rule));
            let message = rule.message.as_ref().map_or("", |text| &text.value);
            let name = source(&ours.name.value);
            let is_declared = |one: &NativeOnly| one.is_rule(name, message);
            let clause = self.declared.iter().position(is_declared);
            match clause.filter(|_| !by_kyverno) {
                Some(clause) => self.shows(clause, at),
                None => both.push((at, rule)),
            }
        }
        self.same_number("validation", (both.len(), theirs.validations.len()));
        for ((at, ours), (other, theirs)) in
            both.into_iter().zip(theirs.validations.iter().enumerate())
        {
            if words(ours) != words(theirs) {
                let what = format!("it and Kyverno's validation {other} have other words");
                self.tell(&format!("validation {at}"), what);
            }
            self.one(&format!("validation {at}"), &format!("validation {other}"));
            if ours.message_expression.is_some() && theirs.message_expression.is_some() {
                self.message(at, other);
            }
        }
    }

    /// What is only native refuses something.
    fn shows(&mut self, clause: usize, at: usize) {
        let Some(one) = self.native.at(&format!("validation {at}")) else {
            return;
        };
        let mut refuses = false;
        self.domain.each(&one.reads, |visited| {
            refuses |= self.native.says(one, visited).as_deref() == Ok("false");
        });
        if refuses {
            self.found.shown.insert(clause);
        }
    }

    fn one(&mut self, ours: &str, theirs: &str) {
        let (Some(one), Some(other)) = (self.native.at(ours), self.kyverno.at(theirs)) else {
            self.tell(ours, "it does not compile on both".to_owned());
            return;
        };
        let reads = one.reads.and(&other.reads);
        self.each(ours, &reads, |native, kyverno, visited| {
            Ok([native.says(one, visited)?, kyverno.says(other, visited)?])
        });
    }

    /// What is told where the rule is broken.
    fn message(&mut self, at: usize, other: usize) {
        let [rule, message] = ["validation", "message"].map(|what| format!("{what} {at}"));
        let theirs = self.kyverno.at(&format!("message {other}"));
        let found = (self.native.at(&rule), self.native.at(&message), theirs);
        let (Some(rule), Some(one), Some(other)) = found else {
            self.tell(&message, "it does not compile on both".to_owned());
            return;
        };
        let reads = rule.reads.and(&one.reads).and(&other.reads);
        self.each(&message, &reads, |native, kyverno, visited| {
            match native.says(rule, visited)?.as_str() {
                "false" => Ok([native.says(one, visited)?, kyverno.says(other, visited)?]),
                _ => Ok([const { String::new() }; 2]),
            }
        });
    }

    /// Compares what the two say on each request of the domain, as far as this is read of it.
    fn each(
        &mut self,
        part: &str,
        reads: &Reads,
        say: impl Fn(&Side<'_>, &Side<'_>, &Visited<'_>) -> Result<[String; 2], String>,
    ) {
        let (mut difference, mut undecided) = (None, None);
        let size = self.domain.each(reads, |visited| {
            match say(self.native, self.kyverno, visited) {
                Ok([native, kyverno]) if native != kyverno => {
                    difference.get_or_insert_with(|| {
                        let request = visited.words();
                        format!("{request}: the native one says {native}, Kyverno's {kyverno}")
                    });
                }
                Ok(_) => {}
                Err(why) => {
                    undecided.get_or_insert_with(|| {
                        format!("{}: cannot be evaluated: {why}", visited.words())
                    });
                }
            }
        });
        self.found.compared += 1;
        self.found.changes += size.changes;
        self.found.pairs += size.pairs;
        self.found.requests += size.requests;
        if let Some(difference) = difference {
            self.tell(part, difference);
        }
        if let Some(undecided) = undecided {
            let name = source(&self.native.policy.name.value);
            let undecided = format!("`{name}`: {part}: {undecided}");
            self.found.undecided.push(undecided);
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
