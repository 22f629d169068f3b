//! The language: fields, operators, absorption, macros, optionals.

use super::check;

const FIELDS_AND_KEYS: &[(&str, &str)] = &[
    ("object.metadata.name", "\"web-1\""),
    ("object.metadata.labels['app']", "\"web\""),
    ("object.metadata.labels['a.b/c-d'] == 'x'", "true"),
    (
        "object.metadata.labels['nope'] == 'x'",
        "! no such key: nope",
    ),
    ("object.metadata.annotations", "! no such key: annotations"),
    ("'nope' in object.metadata.labels", "false"),
    ("'a.b/c-d' in object.metadata.labels", "true"),
    ("!('bad.io/flag' in object.metadata.labels)", "true"),
    ("'k' in object.spec.nothing", "! no such overload"),
    ("has(object.metadata.labels)", "true"),
    ("has(object.metadata.annotations)", "false"),
    (
        "has(object.metadata.annotations.x)",
        "! no such key: annotations",
    ),
    ("has(object.spec.nothing)", "true"),
    ("has(object.spec.nothing.x)", "false"),
    ("has(oldObject.metadata)", "false"),
    ("has(object.metadata.name.x)", "false"),
    (
        "has(object.spec.containers.x)",
        "! unsupported index type 'string' in list",
    ),
    ("oldObject == null", "true"),
    ("oldObject.metadata.name", "! no such key: metadata"),
    ("namespaceObject == null", "true"),
    ("params.x", "! no such key: x"),
    ("object.spec.containers[0].name", "\"app\""),
    ("object.spec.containers[1.0].name", "\"debug-1\""),
    ("object.spec.containers[1u].name", "\"debug-1\""),
    ("object.spec.containers[2]", "! index out of bounds: 2"),
    ("object.spec.containers[-1]", "! index out of bounds: -1"),
    (
        "object.spec.containers['0']",
        "! unsupported index type 'string' in list",
    ),
    ("{1: 'a'}[1.0]", "\"a\""),
    ("{1u: 'a'}[1]", "\"a\""),
    ("{'a': 1, 'a': 2}", "! insert failed: key already exists"),
    ("{1.5: 1}", "! unsupported key type"),
    ("request.userInfo.groups.size()", "2"),
    ("has(request.subResource)", "false"),
    ("request.subResource", "! no such key: subResource"),
    ("request.nonsense", "!! undefined field `nonsense`"),
    ("nonsense", "!! undeclared reference to `nonsense`"),
    ("object.nonsense()", "!! undeclared reference to `nonsense`"),
    ("cel.bind(x, 1, x)", "!! undeclared reference to `bind`"),
    (
        "math.greatest(1, 2)",
        "!! undeclared reference to `greatest`",
    ),
    ("object.`a-b`", "!! syntax error: unsupported syntax: '`'"),
    (
        "Object{}",
        "!! `Object{…}`: objects are not supported by this engine",
    ),
    (
        "'a'.startsWith()",
        "!! found no matching overload for `startsWith` with 0 arguments",
    ),
    (
        "startsWith('a', 'b')",
        "!! found no matching overload for `startsWith`",
    ),
    (
        "has(object)",
        "!! syntax error: invalid argument to has() macro",
    ),
    (
        "variables",
        "! `variables` as a value is not supported by this engine",
    ),
];

#[test]
fn fields_and_keys() {
    check(FIELDS_AND_KEYS);
}

const OPERATORS: &[(&str, &str)] = &[
    ("1 + 2 * 3 - 4 / 2 % 3", "5"),
    ("1 == 1.0 && 1u == 1 && 1u == 1.0", "true"),
    (
        "1 < 1.5 && 2u > 1.5 && 9007199254740993 > 9007199254740992.0",
        "true",
    ),
    ("-1 < 18446744073709551615u", "true"),
    ("1 == '1'", "false"),
    ("null == false", "false"),
    ("object.spec.replicas + 1", "4"),
    ("object.spec.replicas == 3u", "true"),
    ("object.spec.ratio + 0.5", "1.0"),
    ("1 + 1u", "! no such overload"),
    ("1 + 1.0", "! no such overload"),
    ("'a' + 1", "! no such overload"),
    ("'a' < 1", "! no such overload"),
    ("[1] < [2]", "! no such overload"),
    ("'a' < 'b' && b'a' < b'b' && false < true", "true"),
    ("'a' + 'é' == 'aé'", "true"),
    ("[1] + [2] == [1, 2]", "true"),
    ("{'a': [1]} == {'a': [1.0]}", "true"),
    ("{'a': 1} == {'a': 1, 'b': 2}", "false"),
    ("[1, 'a'] != [1, 'b']", "true"),
    ("9223372036854775807 + 1", "! integer overflow"),
    ("-9223372036854775808", "-9223372036854775808"),
    ("-(-9223372036854775808)", "! integer overflow"),
    ("0u - 1u", "! unsigned integer overflow"),
    ("1 / 0", "! division by zero"),
    ("1 % 0", "! modulus by zero"),
    ("1.0 / 0.0 > 1.0", "true"),
    ("-7 / 2 == -3 && -7 % 2 == -1", "true"),
    ("!true", "false"),
    ("!1", "! no such overload"),
    ("-'a'", "! no such overload"),
    ("true ? 1 : 1 / 0", "1"),
    ("1 ? 1 : 2", "! no such overload"),
    ("false ? 1 : true ? 2 : 3", "2"),
    ("1 in [3, 2, 1.0]", "true"),
    ("'b' in {'a': 1}", "false"),
    ("1 in 'abc'", "! no such overload"),
    ("2 in [1, 'a', null]", "false"),
    ("0x1F == 31 && 1e3 == 1000.0", "true"),
    ("'\\u00e9' == 'é' && r'\\d' == '\\\\d'", "true"),
    ("\"\"\"a\nb\"\"\" == 'a\\nb'", "true"),
];

#[test]
fn operators() {
    check(OPERATORS);
}

const ERRORS_ARE_ABSORBED_BY_WHAT_DECIDES: &[(&str, &str)] = &[
    ("object.x || true", "true"),
    ("true || object.x", "true"),
    ("object.x || false", "! no such key: x"),
    ("false || object.x", "! no such key: x"),
    ("object.x && false", "false"),
    ("false && object.x", "false"),
    ("object.x && true", "! no such key: x"),
    ("object.x && object.y", "! no such key: x"),
    ("1 || true", "true"),
    ("1 || false", "! no such overload"),
    ("'a' && false", "false"),
    ("[1, 0].exists(x, 1 / x == 1)", "true"),
    ("[0, 1].exists(x, 1 / x == 1)", "true"),
    ("[0, 2].exists(x, 1 / x == 1)", "! division by zero"),
    ("[0, 2].all(x, 1 / x == 1)", "false"),
    ("[0, 1].all(x, 1 / x == 1)", "! division by zero"),
    ("[1, 2].all(x, x)", "! no such overload"),
    ("[0, 1].exists_one(x, 1 / x == 1)", "! division by zero"),
    ("[1].all(x, object.nope) || true", "true"),
    ("!(object.x || true)", "false"),
    ("object.x && true || true", "true"),
];

#[test]
fn errors_are_absorbed_by_what_decides() {
    check(ERRORS_ARE_ABSORBED_BY_WHAT_DECIDES);
}

const MACROS: &[(&str, &str)] = &[
    ("[].all(x, x)", "true"),
    ("[].exists(x, x)", "false"),
    ("[1, 2, 3].exists_one(x, x > 2)", "true"),
    ("[1, 2, 3].existsOne(x, x > 1)", "false"),
    ("[1, 2].map(x, x * 2)", "[2,4]"),
    ("[1, 2].map(x, x > 1, x * 2)", "[4]"),
    ("[1, 2].filter(x, x > 1)", "[2]"),
    ("[1, 2].map(x, x > 1, x)", "[2]"),
    ("{'a': 1, 'b': 2}.map(k, k)", "[\"a\",\"b\"]"),
    ("{'a': 1, 'b': 2}.filter(k, k == 'b')", "[\"b\"]"),
    ("{'a': 1}.all(k, k == 'a')", "true"),
    ("[[1], [2]].map(x, x.map(x, x + 1))", "[[2],[3]]"),
    ("[1].map(object, object)", "[1]"),
    ("[{'a': 1}].map(request, request.a)", "[1]"),
    ("[1].map(x, x) + [x]", "!! undeclared reference to `x`"),
    ("'abc'.all(c, true)", "! no such overload"),
    ("object.spec.nothing.all(c, true)", "! no such overload"),
    (
        "[1].map(x.y, 1)",
        "!! syntax error: argument must be a simple name",
    ),
    (
        "object.spec.containers.filter(c, c.name.startsWith('debug-')).size()",
        "1",
    ),
    ("object.spec.containers.all(c, has(c.ports))", "false"),
    ("[1, 2].all(i, v, v == i + 1)", "true"),
    ("{'a': 1}.exists(k, v, k == 'a' && v == 1)", "true"),
    ("{'a': 1, 'b': 2}.existsOne(k, v, v == 2)", "true"),
    ("[5, 6].transformList(i, v, i > 0, v)", "[6]"),
    ("{'a': 1}.transformMap(k, v, v + 1)", "{\"a\":2}"),
    ("[7].transformMap(i, v, v)", "{\"0\":7}"),
    ("{'a': 1}.transformMapEntry(k, v, {v: k})", "{\"1\":\"a\"}"),
    (
        "['a', 'a'].transformMapEntry(i, v, {v: i})",
        "! insert failed: key already exists",
    ),
    ("[1].all(1, v, true)", "!! argument must be a simple name"),
];

#[test]
fn macros() {
    check(MACROS);
}

const OPTIONALS: &[(&str, &str)] = &[
    ("object.?spec.?replicas.orValue(0)", "3"),
    ("object.?spec.?nope.orValue(0)", "0"),
    ("object.?nope.deep.deeper.orValue(0)", "0"),
    ("oldObject.?metadata.hasValue()", "false"),
    ("object.spec.nothing.?x.hasValue()", "false"),
    ("object.metadata.labels[?'nope'].orValue('d')", "\"d\""),
    ("[1][?5].hasValue()", "false"),
    ("[1][?0].value()", "1"),
    ("object.?nope.value()", "! optional.none() dereference"),
    ("has(object.?metadata.labels)", "true"),
    ("has(object.?nope.labels)", "false"),
    ("optional.of(1).optMap(x, x + 1).value()", "2"),
    ("optional.none().optMap(x, x + 1).hasValue()", "false"),
    (
        "optional.of(1).optFlatMap(x, optional.none()).hasValue()",
        "false",
    ),
    ("optional.of(1).optFlatMap(x, 1)", "! no such overload"),
    ("optional.of(1).or(optional.of(2)).value()", "1"),
    ("optional.none().or(optional.of(2)).value()", "2"),
    ("optional.ofNonZeroValue('').hasValue()", "false"),
    ("optional.ofNonZeroValue('a').hasValue()", "true"),
    ("[?object.?nope, ?object.?kind]", "[\"Pod\"]"),
    ("{?'a': object.?nope, 'b': 1}", "{\"b\":1}"),
    ("optional.of(1) == optional.of(1.0)", "true"),
    ("optional.none() == optional.none()", "true"),
    ("optional.of(1) == 1", "false"),
    ("1.hasValue()", "! no such overload"),
    ("object.metadata.name.hasValue()", "! no such overload"),
];

#[test]
fn optionals() {
    check(OPTIONALS);
}

const VARIABLES_AND_THE_AUTHORIZER: &[(&str, &str)] = &[
    ("variables.first", "\"app\""),
    ("variables.names.size() + variables.names.size()", "4"),
    (
        "variables.bad",
        "! composited variable \"bad\" fails to evaluate: no such key: missing",
    ),
    ("variables.bad || true", "true"),
    (
        "variables.worse",
        "! composited variable \"worse\" fails to evaluate: composited variable \"bad\" fails \
             to evaluate: no such key: missing",
    ),
    (
        "variables.forward",
        "! composited variable \"forward\" fails to evaluate: no such key: later",
    ),
    ("variables.nope", "! no such key: nope"),
    ("has(variables.first) && !has(variables.nope)", "true"),
    (
        "variables.broken",
        "! composited variable \"broken\" fails to evaluate: compilation failed: syntax \
             error: expected identifier after '.'",
    ),
    (
        "authorizer.group('').resource('pods').check('get').allowed()",
        "true",
    ),
    (
        "authorizer.group('').resource('pods').check('delete').allowed()",
        "false",
    ),
    (
        "authorizer.requestResource.check('get').reason()",
        "\"shop/web-1\"",
    ),
    (
        "authorizer.serviceAccount('a', 'b').group('').resource('pods').namespace('n')\
             .name('m').subresource('s').check('get').reason()",
        "\"n/m\"",
    ),
    (
        "authorizer.group('').resource('pods').fieldSelector('a=b').labelSelector('c=d')\
         .check('get').allowed()",
        "true",
    ),
    (
        "authorizer.fieldSelector('a=b').check('get').allowed()",
        "! no such overload",
    ),
    (
        "authorizer.path('/healthz').check('get').errored()",
        "false",
    ),
    ("authorizer.path('/healthz').check('get').error()", "\"\""),
    ("authorizer.path('')", "! path must not be empty"),
    ("authorizer == authorizer", "! no such overload"),
    (
        "authorizer.path('/a').check('get') != authorizer.path('/a').check('get')",
        "true",
    ),
    ("authorizer.check('get')", "! no such overload"),
    (
        "[1, 2, 3].all(x, authorizer.requestResource.check('get').allowed())",
        "! operation cancelled: actual cost limit exceeded",
    ),
];

#[test]
fn variables_and_the_authorizer() {
    check(VARIABLES_AND_THE_AUTHORIZER);
}
