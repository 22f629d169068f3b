//! Texts and expressions that mean harm: each is refused or ends, within a second and on a stack
//! of 1 MiB, in a build without optimisation.

use super::*;
use proptest::prelude::*;
use std::time::Duration;

/// Runs on a small stack and measures; the answer is whatever a test looks at.
#[track_caller]
fn quickly<T: Send + 'static>(what: &str, run: impl FnOnce() -> T + Send + 'static) -> T {
    let (answer, took) = std::thread::Builder::new()
        .stack_size(1 << 20)
        .spawn(|| {
            let before = worked();
            let answer = run();
            (answer, worked() - before)
        })
        .unwrap()
        .join()
        .unwrap();
    assert!(took < Duration::from_secs(1), "{what} took {took:?}");
    answer
}

/// The time that this thread has had a processor: others do not slow it down.
fn worked() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap()
}

#[track_caller]
fn refused(what: &str, source: String) {
    let result = quickly(what, move || {
        Expression::compile(&source, KubernetesVersion::NEWEST).map(|_| ())
    });
    assert!(result.is_err(), "{what} compiles");
}

#[track_caller]
fn evaluated(what: &str, source: String) -> Result<(), EvalError> {
    quickly(what, move || {
        Expression::compile(&source, KubernetesVersion::NEWEST)
            .map_err(|error| EvalError::BadValue(error.to_string()))?
            .evaluate(&activation(), &mut Budget::policy())
            .map(|_| ())
    })
}

#[test]
fn texts_that_are_too_large_or_too_deep_are_refused() {
    refused("a megabyte of text", "a".repeat(1 << 20));
    refused("a megabyte of brackets", "(".repeat(1 << 20));
    refused(
        "brackets",
        format!("{}1{}", "(".repeat(9_000), ")".repeat(9_000)),
    );
    refused("open brackets", "(".repeat(90_000));
    refused(
        "lists",
        format!("{}1{}", "[".repeat(9_000), "]".repeat(9_000)),
    );
    refused("signs", format!("{}1", "-!".repeat(40_000)));
    refused("a sum", format!("1{}", "+1".repeat(9_000)));
    refused("fields", format!("object{}", ".a".repeat(9_000)));
    refused("indexes", format!("object{}", "[0]".repeat(9_000)));
    refused("calls", format!("object{}", ".size()".repeat(9_000)));
    refused("conditionals", format!("{}1", "true?1:".repeat(9_000)));
    refused(
        "inner conditionals",
        format!("{}1", "true?true&&".repeat(9_000)),
    );
    refused(
        "macros",
        format!("{}true{}", "[1].all(x,".repeat(500), ")".repeat(500)),
    );
    refused("quotes", "'".repeat(99_999));
    refused("signs of nothing", "\u{0}".repeat(99_999));
    refused("characters", "é".repeat(49_999));
    refused("commas", ",".repeat(19_999));
    refused("dots", ".".repeat(19_999));
    refused("questions", "?".repeat(19_999));
    refused("half a string", format!("{}'''a", "''''''+".repeat(100)));
}

#[test]
fn what_is_just_taken_is_taken_on_a_small_stack() {
    let depth = MAX_NESTING - 2;
    for (open, close) in [
        ("(1+", ")"),
        ("[", "]"),
        ("-(", ")"),
        ("(true?1:", ")"),
        ("size([", "])"),
    ] {
        let source = format!("{}1{}", open.repeat(depth / 2), close.repeat(depth / 2));
        let compiled = quickly("nesting", move || {
            let compiled = Expression::compile(&source, KubernetesVersion::NEWEST).map(|_| ());
            (compiled, source)
        });
        assert_eq!(compiled.0, Ok(()), "{}", compiled.1);
    }
    let precedences = format!("{}1{}", "false||true&&1==1+1*(".repeat(28), ")".repeat(28));
    assert_eq!(
        evaluated("precedences", precedences),
        Err(EvalError::NoSuchOverload)
    );
    let members = format!("[1]{}", ".map(x,[x].map(y,y)).filter(x,true)".repeat(20));
    assert_eq!(evaluated("members", members), Ok(()));
    let macros = 20;
    let nested = format!("{}true{}", "[1].all(x,".repeat(macros), ")".repeat(macros));
    assert_eq!(evaluated("macros", nested), Ok(()));
    let chain = MAX_DEPTH - 10;
    assert_eq!(
        evaluated("a sum", format!("1{}", "+1".repeat(chain))),
        Ok(())
    );
    assert_eq!(
        evaluated("signs", format!("{}1", "true?1:".repeat(chain / 2))),
        Ok(())
    );
    let wide = format!("true{}", " && 1 == 1".repeat(4_000));
    assert_eq!(evaluated("a wide condition", wide), Ok(()));
    let list = format!("[{}1].size() > 0", "1,".repeat(9_000));
    assert_eq!(evaluated("a long list", list), Ok(()));
}

#[test]
fn loops_end_with_the_budget() {
    let list = format!("[{}0]", "0,".repeat(99));
    let mut bomb = "x0".to_owned();
    for level in (0..8).rev() {
        bomb = format!("{list}.map(x{level}, {bomb})");
    }
    assert_eq!(evaluated("nested maps", bomb), Err(EvalError::OutOfBudget));
    let mut bomb = "false".to_owned();
    for level in 0..8 {
        bomb = format!("{list}.exists(x{level}, {bomb})");
    }
    assert_eq!(
        evaluated("nested exists", format!("{bomb} || true")),
        Err(EvalError::OutOfBudget)
    );
}

#[test]
fn doubling_ends_with_the_budget() {
    let replaced = format!("'aaaaaaaa'{}", ".replace('a','aaaaaaaa')".repeat(20));
    assert_eq!(
        evaluated("replacing", replaced),
        Err(EvalError::OutOfBudget)
    );
    let doubled = format!("[['a']]{}", ".map(l, l + l)".repeat(40));
    assert_eq!(evaluated("lists", doubled), Err(EvalError::OutOfBudget));
    let text = format!("['a']{}", ".map(s, s + s)".repeat(40));
    assert_eq!(evaluated("texts", text), Err(EvalError::OutOfBudget));
    let joined = format!("'aaaa'{}", ".split('').join('aaaaaaaa')".repeat(20));
    assert_eq!(evaluated("joining", joined), Err(EvalError::OutOfBudget));
    let formatted = format!(
        "['aaaa']{}[0]",
        ".map(s, '%s%s%s%s'.format([s,s,s,s]))".repeat(20)
    );
    assert_eq!(
        evaluated("formatting", formatted),
        Err(EvalError::OutOfBudget)
    );
}

#[test]
fn reading_a_long_text_again_and_again_ends_with_the_budget() {
    // A quarter of a megabyte, ten thousand times.
    let text = "'aaaaaaaa'.replace('a','aaaaaaaa').replace('a','aaaaaaaa').replace('a','aaaaaaaa')\
                .replace('a','aaaaaaaa').replace('a','aaaaaaaa')";
    let often = format!("[{}0]", "0,".repeat(99));
    for body in [
        "t.size() > 0",
        "t == t",
        "{'b': 1}[t] == 1 || true",
        "t in {t: 1}",
        "int(t) == 1 || true",
        "quantity(t) == 1 || true",
        "timestamp(t) == 1 || true",
        "t.matches('b') || true",
        "t.split('b').size() > 0",
        "{t: 1}.size() > 0",
        "t < t || true",
        "'%s'.format([t]).size() > 0",
    ] {
        let source = format!("[{text}].all(t, {often}.all(x, {often}.all(y, {body})))");
        assert_eq!(
            evaluated(body, source),
            Err(EvalError::OutOfBudget),
            "{body}"
        );
    }
}

#[test]
fn variables_that_double_and_that_open_one_another_end() {
    let sources = |each: &dyn Fn(usize) -> String| -> Vec<(String, String)> {
        (0..400).map(|n| (format!("v{n}"), each(n))).collect()
    };
    let doubling = sources(&|n| match n {
        0 => "'aaaaaaaa'".to_owned(),
        n => format!("variables.v{0} + variables.v{0}", n - 1),
    });
    let deep = sources(&|n| match n {
        0 => "1".to_owned(),
        n => format!("-(-(-(variables.v{})))", n - 1),
    });
    for (what, variables, last) in [("doubling", doubling, 30), ("deep", deep, 399)] {
        let error = quickly(what, move || {
            let compiled = variables
                .into_iter()
                .map(|(name, source)| (name, Expression::compile(&source, version(34))));
            let activation = Activation::new().variables(compiled);
            let source = format!("variables.v{last} == 1 || true");
            let expression = Expression::compile(&source, version(34)).unwrap();
            expression
                .evaluate(&activation, &mut Budget::policy())
                .map(|_| ())
                .unwrap_err()
        });
        assert!(error.is_final(), "{what}: {error}");
    }
}

#[test]
fn values_that_nest_ever_deeper_end() {
    let error = quickly("nesting", || {
        let variables = (0..400).map(|n| {
            let inner = if n == 0 {
                "1".to_owned()
            } else {
                format!("variables.v{}", n - 1)
            };
            let source = format!("{}{inner}{}", "[".repeat(40), "]".repeat(40));
            (format!("v{n}"), Expression::compile(&source, version(34)))
        });
        let activation = Activation::new().variables(variables);
        let mut budget = Budget::policy();
        let results = (0..400).map(|n| {
            Expression::compile(&format!("variables.v{n} == []"), version(34))
                .unwrap()
                .evaluate(&activation, &mut budget)
        });
        results.filter_map(Result::err).next().unwrap()
    });
    assert!(error.is_final(), "{error}");
}

#[test]
fn patterns_are_bounded() {
    refused(
        "a repetition",
        "'a'.matches('((a{100}){100}){100}')".to_owned(),
    );
    refused("classes", "'a'.matches('(\\\\pL{500}){500}')".to_owned());
    refused(
        "a long pattern",
        format!("'a'.matches('{}')", "a".repeat(MAX_PATTERN + 1)),
    );
    refused(
        "groups",
        format!("'a'.matches('{}{}')", "(".repeat(1_000), ")".repeat(1_000)),
    );
    let text = format!(
        "('a'{}).matches('(a+)+$')",
        ".replace('a', 'aaaaaaaa')".repeat(5)
    );
    assert_eq!(
        evaluated("a pattern that backtracks elsewhere", text),
        Ok(())
    );
    let list = format!("[{}'a']", "'a',".repeat(2_000));
    let many = format!("{list}.all(s, s.matches('x' + s) || true)");
    assert_eq!(evaluated("one pattern, made again and again", many), Ok(()));
    let all = format!(
        "[{}0].map(x, string(x)).all(s, 'a'.matches('((a{{50}}){{50}}' + s + ')') || true)",
        (0..2_000).map(|n| format!("{n},")).collect::<String>()
    );
    assert_eq!(evaluated("many patterns", all), Err(EvalError::OutOfBudget));
}

#[test]
fn comparing_and_searching_end_with_the_budget() {
    let nested = "[[[1,1,1,1,1,1,1,1]]]";
    let mut big = nested.to_owned();
    for _ in 0..6 {
        big = format!("{big}.map(x, [x, x, x, x, x, x, x, x])");
    }
    let compared = format!("[{big}].all(a, [1,2,3,4,5,6,7,8,9].map(i, a == a).size() > 0)");
    assert_eq!(evaluated("equality", compared), Err(EvalError::OutOfBudget));
    let list = format!(
        "[{}]",
        (0..3_000)
            .map(|n| n.to_string())
            .collect::<Vec<_>>()
            .join(",")
    );
    let pairs = format!("[{list}].all(l, l.all(x, -1 in l || true))");
    assert_eq!(evaluated("in", pairs), Err(EvalError::OutOfBudget));
    let distinct = format!("{list}.distinct().size() > 0");
    assert_eq!(evaluated("distinct", distinct), Err(EvalError::OutOfBudget));
}

/// The order is one whatever is left of the budget, so that sorting never panics halfway.
#[test]
fn sorting_ends_with_the_budget_wherever_that_ends() {
    let text = |at: usize| format!("{}{:02}", "x".repeat(20_000), (at * 17) % 32);
    let texts: Vec<String> = (0..32).map(text).collect();
    let activation = Activation::new().object(&json!({ "texts": texts }));
    let activation = activation.unwrap();
    let expression = Expression::compile("object.texts.sort().size()", KubernetesVersion::NEWEST);
    let expression = expression.unwrap();
    let outcomes: Vec<_> = (0..140)
        .map(|step| expression.evaluate(&activation, &mut Budget::of(step * 5_000)))
        .map(|outcome| outcome.map(|size| size.to_json()))
        .collect();
    let ended = outcomes
        .iter()
        .take_while(|one| **one == Err(EvalError::OutOfBudget));
    let ended = ended.count();
    assert!((1..140).contains(&ended), "{ended}");
    assert!(
        outcomes[ended..].iter().all(|one| *one == Ok(json!(32))),
        "{outcomes:?}"
    );
}

/// What the API server takes to be too dear, though it is soon done.
#[test]
fn what_costs_the_api_server_too_much_costs_too_much() {
    let words =
        "'a'.replace('a', 'aaaaaaaaaa')".to_owned() + &".replace('a', 'aaaaaaaaaa')".repeat(3);
    for (what, source) in [
        ("sort", "lists.range(1000).sort().size() == 1000".to_owned()),
        (
            "sortBy",
            "lists.range(1000).sortBy(x, -x).size() == 1000".to_owned(),
        ),
        (
            "distinct",
            "lists.range(1000).map(x, 1).distinct() == [1]".to_owned(),
        ),
        ("a range", "lists.range(1000000000).size() > 0".to_owned()),
        (
            "a URI",
            format!(
                "format.uri().validate('https://' + {words} + {words} + {words} + {words}).hasValue()"
            ),
        ),
        (
            "a selector",
            format!(
                "authorizer.group('').resource('pods').labelSelector({words} + {words} + {words} + {words}) != null"
            ),
        ),
    ] {
        assert_eq!(
            evaluated(what, source),
            Err(EvalError::OutOfBudget),
            "{what}"
        );
    }
    for (what, source) in [
        ("sort", "lists.range(600).sort().size() == 600"),
        ("a URI", "format.uri().validate('https://a/').hasValue()"),
    ] {
        assert_eq!(evaluated(what, source.to_owned()), Ok(()), "{what}");
    }
}

fn source() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("1".to_owned()),
        Just("'a'".to_owned()),
        Just("true".to_owned()),
        Just("null".to_owned()),
        Just("[1, 2]".to_owned()),
        Just("{'a': 1}".to_owned()),
        Just("object.metadata".to_owned()),
        Just("object.?spec.nope".to_owned()),
        Just("x".to_owned()),
        Just("variables.names".to_owned()),
        Just("duration('1h')".to_owned()),
        Just("quantity('1Gi')".to_owned()),
    ];
    let operators = prop::sample::select(vec![
        "+", "-", "*", "/", "%", "==", "<", "&&", "||", "in", "!=", ">=",
    ]);
    let functions = prop::sample::select(vec![
        "size",
        "sum",
        "min",
        "isSorted",
        "trim",
        "join",
        "hasValue",
        "value",
        "getHours",
        "sort",
        "distinct",
        "asInteger",
        "flatten",
        "reverse",
        "lowerAscii",
    ]);
    let macros = prop::sample::select(vec![
        "all",
        "exists",
        "exists_one",
        "map",
        "filter",
        "optMap",
    ]);
    leaf.prop_recursive(6, 60, 4, move |inner| {
        prop_oneof![
            (inner.clone(), operators.clone(), inner.clone())
                .prop_map(|(a, o, b)| format!("({a} {o} {b})")),
            (inner.clone(), functions.clone()).prop_map(|(a, f)| format!("{a}.{f}()")),
            (inner.clone(), macros.clone(), inner.clone())
                .prop_map(|(a, m, b)| format!("{a}.{m}(x, {b})")),
            (inner.clone(), inner.clone(), inner.clone())
                .prop_map(|(a, b, c)| format!("({a} ? {b} : {c})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{a}[{b}]")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{a}[?{b}].orValue({b})")),
            inner.clone().prop_map(|a| format!("-({a})")),
            inner.prop_map(|a| format!("string({a})")),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_tree_ends_without_a_panic_and_within_its_budget(body in source()) {
        let source = format!("[1].map(x, {body})");
        if let Ok(expression) = Expression::compile(&source, KubernetesVersion::NEWEST) {
            let mut budget = Budget::policy();
            let before = budget.left();
            let result = expression.evaluate(&activation(), &mut budget);
            prop_assert_ne!(result.err(), Some(EvalError::Failed));
            prop_assert!(before - budget.left() <= 1_000_000);
        }
    }

    #[test]
    fn any_text_compiles_or_is_refused(text in "\\PC{0,60}") {
        let _ = Expression::compile(&text, KubernetesVersion::NEWEST);
    }

    #[test]
    fn any_pile_of_tokens_compiles_or_is_refused(tokens in prop::collection::vec(
        prop::sample::select(vec![
            "(", ")", "[", "]", "{", "}", ".", ",", "?", ":", "!", "-", "&&", "||", "==", "in",
            "a", "object", "has", "all", "map", "1", "1u", "'x'", "b'x'", "r'\\x'", "true", "null",
            "0x", "1.", "'", "//", "\n", "`a`", "package", "é",
        ]), 0..40))
    {
        let error = Expression::compile(&tokens.concat(), KubernetesVersion::NEWEST).err();
        let failed = error.is_some_and(|error| error.message.contains("parser failed"));
        prop_assert!(!failed, "{}", tokens.concat());
    }

    #[test]
    fn a_pattern_is_read_or_refused(pattern in "[a-c\\[\\]\\\\(){}*+?|^$.&~:<dDsSwWbBpPxQ,0-9-]{0,24}") {
        let _ = crate::cel::regex::compile(&pattern);
    }
}
