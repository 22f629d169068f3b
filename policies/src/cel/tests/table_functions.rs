//! The functions.

use super::check;

const STRINGS: &[(&str, &str)] = &[
    ("'héllo'.size()", "5"),
    (
        "size('héllo') + size([1]) + size({'a': 1}) + size(b'abc')",
        "10",
    ),
    ("size(1)", "! no such overload"),
    (
        "'abc'.startsWith('ab') && 'abc'.endsWith('bc') && 'abc'.contains('b')",
        "true",
    ),
    ("'abc'.matches('^a.c$') && matches('abc', 'b')", "true"),
    (
        "'abc'.matches('(')",
        "!! error parsing regexp: the pattern is not one",
    ),
    (
        "'abc'.matches(['('][0])",
        "! error parsing regexp: the pattern is not one",
    ),
    ("'٣'.matches('^\\\\d$') || 'é'.matches('^\\\\w$')", "false"),
    ("'a\\n'.matches('^a$')", "false"),
    ("'a-b'.matches('^[a-z[.-]+$')", "true"),
    ("'a{'.matches('^a{$') && 'aa'.matches('^a{2}$')", "true"),
    (
        "'a'.matches('a{1001}')",
        "!! error parsing regexp: invalid repeat count: `{1001}`",
    ),
    (
        "'a'.matches('(?x) a')",
        "!! `(?x` in a pattern is not supported by this engine",
    ),
    (
        "'a'.matches('\\\\Qa')",
        "!! `\\Q` in a pattern is not supported by this engine",
    ),
    ("'a b'.matches('[[:alpha:]] \\\\bb\\\\b')", "true"),
    ("'héllo'.charAt(1) + 'a'.charAt(1)", "\"é\""),
    ("'a'.charAt(2)", "! index out of range: 2"),
    ("'héllo'.indexOf('l')", "2"),
    ("'héllo'.indexOf('l', 3)", "3"),
    ("'héllo'.indexOf('z')", "-1"),
    ("'a'.indexOf('a', 5)", "! index out of range: 5"),
    ("'héllo'.lastIndexOf('l')", "3"),
    ("'héllo'.lastIndexOf('l', 2)", "2"),
    ("'aéa'.lastIndexOf('a', 0)", "0"),
    ("'aéaé'.lastIndexOf('éa', 1)", "1"),
    ("'AbÉ'.lowerAscii() + 'aé'.upperAscii()", "\"abÉAé\""),
    ("'a-b-c'.replace('-', '+')", "\"a+b+c\""),
    ("'a-b-c'.replace('-', '+', 1)", "\"a+b-c\""),
    ("'ab'.replace('', '_')", "\"_a_b_\""),
    ("'a,b,c'.split(',')", "[\"a\",\"b\",\"c\"]"),
    ("'a,b,c'.split(',', 2)", "[\"a\",\"b,c\"]"),
    ("'a,b'.split(',', 0)", "[]"),
    ("'héy'.split('')", "[\"h\",\"é\",\"y\"]"),
    ("'héllo'.substring(1, 3) + 'héllo'.substring(4)", "\"élo\""),
    (
        "'abc'.substring(2, 1)",
        "! invalid substring range. start: 2, end: 1",
    ),
    ("'abc'.substring(0, 9)", "! index out of range: 9"),
    ("' a\\t'.trim()", "\"a\""),
    ("['a', 'b'].join('-') + ['c'].join()", "\"a-bc\""),
    ("[1].join()", "! no such overload"),
    ("'a1b22'.find('[0-9]+') + 'x'.find('[0-9]')", "\"1\""),
    ("'a1b22'.findAll('[0-9]+')", "[\"1\",\"22\"]"),
    ("'a1b22'.findAll('[0-9]+', 1)", "[\"1\"]"),
    ("strings.quote('a\"\\n')", "\"\\\"a\\\\\\\"\\\\n\\\"\""),
    (
        "'%s is %d and %.2f%%'.format(['x', 3, 1.5])",
        "\"x is 3 and 1.50%\"",
    ),
    (
        "'%x %X %o %b %e'.format([255, 'é', 8, true, 1234.5])",
        "\"ff C3A9 10 1 1.234500e+03\"",
    ),
    ("'%s'.format([[1, {'a': null}]])", "\"[1, {a: null}]\""),
    (
        "'%d'.format(['a'])",
        "! could not parse formatting clause: no such conversion of string by %d",
    ),
    (
        "'%s'.format([])",
        "! could not parse formatting clause: index out of range",
    ),
    ("'a'.reverse()", "! no such overload"),
];

#[test]
fn strings() {
    check(STRINGS);
}

const LISTS_AND_SETS: &[(&str, &str)] = &[
    ("[1, 2, 2].isSorted() && ![2, 1].isSorted()", "true"),
    ("[1, 2.0].isSorted()", "true"),
    ("[1, 'a'].isSorted()", "! no such overload"),
    ("[1, 2].sum() + [].sum()", "3"),
    ("[1.5, 2.0].sum()", "3.5"),
    ("['a'].sum()", "! no such overload"),
    ("[2, 1, 3].min() + [2, 1, 3].max()", "4"),
    ("[].min()", "! min called on empty list"),
    ("[1, 2, 1].indexOf(1) + [1, 2, 1].lastIndexOf(1)", "2"),
    ("[1].indexOf(9)", "-1"),
    ("[1, 1.0, 2].distinct()", "[1,2]"),
    ("[[1], [[2]]].flatten()", "[1,[2]]"),
    ("[[1], [[2]]].flatten(2)", "[1,2]"),
    ("[1, 2, 3].slice(1, 2)", "[2]"),
    ("[1].slice(0, 2)", "! cannot slice(0, 2), list is length 1"),
    ("['b', 'a'].sort()", "[\"a\",\"b\"]"),
    ("[1, 2].reverse()", "[2,1]"),
    (
        "sets.contains([1, 2], [2.0]) && !sets.contains([1], [2])",
        "true",
    ),
    ("sets.equivalent([1, 1], [1u])", "true"),
    (
        "sets.intersects([1, 2], [2, 3]) && !sets.intersects([1], [])",
        "true",
    ),
    (
        "[1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7].sortBy(x, 0) == [] || true",
        "! the order of equal keys among more than 12 elements is not supported by this engine",
    ),
    (
        "[2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1].sortBy(x, x).first().value()",
        "1",
    ),
    (
        "lists.range(1000001) == [] || true",
        "! operation cancelled: actual cost limit exceeded",
    ),
    ("optional.unwrap([1])", "! no such overload"),
    (
        "format.uri().validate('http://a b').hasValue() || true",
        "! what is wrong with the URI \"http://a b\" is not supported by this engine",
    ),
    ("format.nope()", "!! undeclared reference to `nope`"),
    ("semver(1)", "! no such overload"),
    ("semver('1.0.0', 'x')", "! no such overload"),
    ("semver('1.0.0').compareTo('1.0.0')", "! no such overload"),
    ("string(semver('1.0.0'))", "! no such overload"),
];

#[test]
fn lists_and_sets() {
    check(LISTS_AND_SETS);
}

const CONVERSIONS_AND_TIMES: &[(&str, &str)] = &[
    (
        "type(1) == int && type('a') == string && type(null) == null_type",
        "true",
    ),
    (
        "type(type(1)) == type && type({}) == map && type([]) == list",
        "true",
    ),
    ("int('42') + int(3.9) + int(-3.9) + int(7u)", "49"),
    (
        "int('4x')",
        "! type conversion error from 'string' to 'int': \"4x\"",
    ),
    ("int(1e30)", "! integer overflow"),
    ("uint(-1)", "! unsigned integer overflow"),
    ("uint('3') == 3u && uint(3.7) == 3u", "true"),
    ("double('1.5') + double(1)", "2.5"),
    (
        "string(1) + string(1.0) + string(true) + string(b'a') + string(2u)",
        "\"11truea2\"",
    ),
    ("string(1e21) + ' ' + string(0.00001)", "\"1e+21 1e-05\""),
    ("string(null)", "! no such overload"),
    ("bytes('é') == b'\\xc3\\xa9'", "true"),
    ("bool('true') && !bool('F')", "true"),
    (
        "bool('yes')",
        "! type conversion error from 'string' to 'bool': \"yes\"",
    ),
    ("dyn(1) == 1", "true"),
    (
        "duration('1h30m') == duration('90m') && duration('1.5s') > duration('1499ms')",
        "true",
    ),
    (
        "duration('1d')",
        "! type conversion error from 'string' to 'google.protobuf.Duration': \"1d\"",
    ),
    (
        "duration('')",
        "! type conversion error from 'string' to 'google.protobuf.Duration': \"\"",
    ),
    (
        "duration('-1h').getHours() + duration('90s').getMinutes()",
        "0",
    ),
    (
        "string(duration('90.5s')) + string(-duration('1ns'))",
        "\"90.5s-0.000000001s\"",
    ),
    (
        "duration('1s') + duration('1s') - duration('500ms') == duration('1500ms')",
        "true",
    ),
    (
        "timestamp('2024-02-29T12:00:00Z') + duration('24h') == timestamp('2024-03-01T12:00:00Z')",
        "true",
    ),
    (
        "timestamp('2024-01-02T00:00:00+01:00') < timestamp('2024-01-02T00:00:00Z')",
        "true",
    ),
    (
        "timestamp('2024-01-02T00:00:00Z') - timestamp('2024-01-01T00:00:00Z') == duration('24h')",
        "true",
    ),
    (
        "timestamp('2024-01-02') == timestamp(0)",
        "! type conversion error from 'string' to 'google.protobuf.Timestamp': \"2024-01-02\"",
    ),
    (
        "timestamp('2024-02-29T12:34:56.789Z').getFullYear()",
        "2024",
    ),
    ("timestamp('2024-02-29T12:34:56.789Z').getMonth()", "1"),
    ("timestamp('2024-02-29T12:34:56Z').getSeconds()", "56"),
    ("timestamp('2024-02-29T12:34:56Z').getHours('UTC')", "12"),
    ("timestamp('2024-02-29T12:34:56Z').getHours('')", "12"),
    ("timestamp('2024-02-29T12:34:56Z').getHours('+02:00')", "14"),
    (
        "timestamp('2024-02-29T12:34:56Z').getMinutes('-00:30')",
        "4",
    ),
    ("timestamp('2024-02-29T23:34:56Z').getMonth('01:00')", "2"),
    (
        "timestamp('2024-02-29T23:34:56Z').getDayOfYear('-12:00')",
        "59",
    ),
    (
        "timestamp('2024-02-29T12:34:56Z').getHours('Local') == 3 || true",
        "! the time zone \"Local\" is not supported by this engine",
    ),
    (
        "timestamp('2024-02-29T12:34:56Z').getHours('+99:00')",
        "! the time zone \"+99:00\" is not supported by this engine",
    ),
    (
        "timestamp('2024-02-29T12:34:56Z').getHours('a:b')",
        "! type conversion error from 'string' to 'a time zone's offset': \"a\"",
    ),
    (
        "timestamp('2024-02-29T12:34:56Z').getHours(1)",
        "! no such overload",
    ),
    (
        "timestamp('2024-02-29T12:34:56Z').getHours('UTC', 1)",
        "!! found no matching overload for `getHours` with 2 arguments",
    ),
    ("duration('1h').getHours('UTC')", "! no such overload"),
    ("timestamp('2024-02-29T12:34:56.789Z').getDate()", "29"),
    (
        "timestamp('2024-02-29T12:34:56.789Z').getDayOfMonth()",
        "28",
    ),
    ("timestamp('2024-02-29T12:34:56.789Z').getDayOfWeek()", "4"),
    ("timestamp('2024-02-29T12:34:56.789Z').getDayOfYear()", "59"),
    (
        "timestamp('2024-02-29T12:34:56.789Z').getMilliseconds()",
        "789",
    ),
    (
        "string(timestamp('2024-02-29T12:34:56.7Z'))",
        "\"2024-02-29T12:34:56.7Z\"",
    ),
    ("int(timestamp('1970-01-01T00:01:00Z'))", "60"),
    ("timestamp(0) + duration('1s') + 1", "! no such overload"),
];

#[test]
fn conversions_and_times() {
    check(CONVERSIONS_AND_TIMES);
}

const QUANTITIES_AND_ADDRESSES: &[(&str, &str)] = &[
    ("quantity('1Gi').isGreaterThan(quantity('1G'))", "true"),
    (
        "quantity('500m').isLessThan(quantity('1')) && quantity('1k') == quantity('1000')",
        "true",
    ),
    (
        "quantity('1').add(quantity('500m')).compareTo(quantity('1.5'))",
        "0",
    ),
    ("sign(quantity('1').sub(2))", "-1"),
    (
        "quantity('1').sign()",
        "!! found no matching overload for `sign`",
    ),
    ("quantity('2e3').asInteger()", "2000"),
    ("quantity('500m').isInteger()", "false"),
    (
        "quantity('500m').asInteger()",
        "! cannot convert value to integer",
    ),
    ("quantity('500m').asApproximateFloat()", "0.5"),
    (
        "isQuantity('1Gi') && !isQuantity('1Zi') && !isQuantity('') && !isQuantity('1.2.3')",
        "true",
    ),
    (
        "isURL('https://[x]/')",
        "! the URL \"https://[x]/\" is not supported by this engine",
    ),
    (
        "isURL('https://a:80:80/')",
        "! the URL \"https://a:80:80/\" is not supported by this engine",
    ),
    (
        "isURL('https://a]b/') || isURL('https://a[b/')",
        "! the URL \"https://a]b/\" is not supported by this engine",
    ),
    ("isURL('https://a:b/') || isURL('https://[::1/')", "false"),
    (
        "timestamp(0).getHours('posix/Europe/Berlin')",
        "! the time zone \"posix/Europe/Berlin\" is not supported by this engine",
    ),
    (
        "double('NaN') < 1.0 || 1 >= double('NaN')",
        "! NaN values cannot be ordered",
    ),
    (
        "[1.0, double('NaN')].isSorted()",
        "! the order of NaN in a list is not supported by this engine",
    ),
    (
        "timestamp(0).getHours('posixrules')",
        "! the time zone \"posixrules\" is not supported by this engine",
    ),
    (
        "quantity('x')",
        "! quantities must match the regular expression of Kubernetes: \"x\"",
    ),
    ("quantity('1') < quantity('2')", "! no such overload"),
    (
        "ip('192.168.0.1').family() == 4 && ip('::1').isLoopback()",
        "true",
    ),
    (
        "isIP('1.2.3') || isIP('::ffff:1.2.3.4') || isIP('01.2.3.4')",
        "false",
    ),
    (
        "ip('0.0.0.0').isUnspecified() && ip('169.254.1.1').isLinkLocalUnicast()",
        "true",
    ),
    (
        "ip('224.0.0.1').isLinkLocalMulticast() && !ip('10.0.0.1').isLinkLocalMulticast()",
        "true",
    ),
    (
        "ip('10.0.0.1').isGlobalUnicast() && !ip('255.255.255.255').isGlobalUnicast()",
        "true",
    ),
    (
        "ip.isCanonical('2001:db8::1') && !ip.isCanonical('2001:DB8::1')",
        "true",
    ),
    ("string(ip('10.0.0.1'))", "\"10.0.0.1\""),
    (
        "cidr('10.0.0.0/8').containsIP('10.1.2.3') && !cidr('10.0.0.0/8').containsIP(ip('11.0.0.1'))",
        "true",
    ),
    (
        "cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16') && !cidr('10.1.0.0/16').containsCIDR(cidr('10.0.0.0/8'))",
        "true",
    ),
    (
        "string(cidr('10.1.2.3/8').masked()) + string(cidr('10.1.2.3/8').ip())",
        "\"10.0.0.0/810.1.2.3\"",
    ),
    (
        "cidr('0.0.0.0/0').containsIP('1.2.3.4') && cidr('::/0').prefixLength() == 0",
        "true",
    ),
    (
        "isCIDR('10.0.0.0/33') || isCIDR('10.0.0.0/08') || isCIDR('10.0.0.0')",
        "false",
    ),
    ("url('https://example.com/').getScheme()", "\"https\""),
    (
        "url('https://example.com:80/a/b?x=1&x=2').getHost()",
        "\"example.com:80\"",
    ),
    (
        "url('https://example.com:80/a/b?x=1&x=2').getHostname()",
        "\"example.com\"",
    ),
    (
        "url('https://[::1]:80/').getHostname() + url('https://[::1]:80/').getPort()",
        "\"::180\"",
    ),
    (
        "url('https://example.com/a/b?x=1&x=2').getQuery()",
        "{\"x\":[\"1\",\"2\"]}",
    ),
    (
        "url('https://example.com/a/b?x').getEscapedPath()",
        "\"/a/b\"",
    ),
    (
        "isURL('https://a.b') && isURL('/path') && !isURL('a.b/c')",
        "true",
    ),
    (
        "isURL('https://a.b/%zz')",
        "! the URL \"https://a.b/%zz\" is not supported by this engine",
    ),
];

#[test]
fn quantities_and_addresses() {
    check(QUANTITIES_AND_ADDRESSES);
}

/// As Kubernetes' own code (k8s.io/apiserver v0.36.3) answers, whatever `object` holds there.
#[test]
fn a_type_of_kubernetes_compares_with_itself_alone() {
    for value in [
        "semver('1.0.0')",
        "format.uuid()",
        "quantity('1')",
        "ip('1.2.3.4')",
        "url('https://a')",
        "cidr('1.2.3.4/8')",
    ] {
        check(&[
            (&format!("{value} == {value}"), "true"),
            (
                &format!("{value} == object.metadata.name"),
                "! no such overload",
            ),
            (&format!("{value} != object.metadata.name"), "true"),
            (&format!("object.metadata.name == {value}"), "false"),
            (&format!("{value} == dyn(null)"), "false"),
            (&format!("{value} in [object.metadata.name]"), "false"),
        ]);
    }
    let undecided = "! comparing `kubernetes.Quantity` with `string` inside of another value is \
                     not supported by this engine";
    check(&[
        ("[quantity('1')] == dyn(['x'])", undecided),
        ("{'a': quantity('1')} == dyn({'a': 'x'})", undecided),
        (
            "optional.of(quantity('1')) == optional.of(dyn('x'))",
            undecided,
        ),
        ("[quantity('1')] in [dyn(['x'])]", undecided),
    ]);
}
