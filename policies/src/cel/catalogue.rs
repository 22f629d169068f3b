//! Which functions and macros exist, how they are called, and from which Kubernetes on.
//!
//! Invariant: [`ALL`] is what the API server declares (`tests/library.txt`); nothing else is
//! compiled. The versions are those from which an expression with the function can be *written*:
//! the API server compiles a new one by the library of the release before.

use super::KubernetesVersion;

/// How a function is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// `f(x)`
    Global,
    /// `x.f()`
    Member,
    /// `name.f(x)`, where `name` is a name space
    Of(&'static str),
}

/// One function.
#[derive(Debug, Clone, Copy)]
pub(super) struct Function {
    pub(super) name: &'static str,
    pub(super) style: Style,
    /// The fewest and the most arguments, without the target.
    pub(super) arguments: (usize, usize),
    /// The first Kubernetes minor in which it can be written.
    pub(super) since: u32,
}

const fn entry(
    name: &'static str,
    style: Style,
    arguments: (usize, usize),
    since: u32,
) -> Function {
    Function {
        name,
        style,
        arguments,
        since,
    }
}

const fn global(name: &'static str, arguments: usize) -> Function {
    entry(name, Style::Global, (arguments, arguments), 0)
}

const fn member(name: &'static str, arguments: usize) -> Function {
    entry(name, Style::Member, (arguments, arguments), 0)
}

const fn between(name: &'static str, fewest: usize, most: usize) -> Function {
    entry(name, Style::Member, (fewest, most), 0)
}

const fn of(space: &'static str, name: &'static str, arguments: usize, since: u32) -> Function {
    entry(name, Style::Of(space), (arguments, arguments), since)
}

/// What there is.
pub(super) const ALL: &[Function] = &[
    // Conversions and the type.
    global("size", 1),
    global("type", 1),
    global("int", 1),
    global("uint", 1),
    global("double", 1),
    global("string", 1),
    global("bytes", 1),
    global("bool", 1),
    global("dyn", 1),
    global("duration", 1),
    global("timestamp", 1),
    global("matches", 2),
    // Strings.
    member("size", 0),
    member("startsWith", 1),
    member("endsWith", 1),
    member("contains", 1),
    member("matches", 1),
    member("charAt", 1),
    member("format", 1),
    between("indexOf", 1, 2),
    between("lastIndexOf", 1, 2),
    between("join", 0, 1),
    member("lowerAscii", 0),
    member("upperAscii", 0),
    between("replace", 2, 3),
    between("split", 1, 2),
    between("substring", 1, 2),
    member("trim", 0),
    member("find", 1),
    between("findAll", 1, 2),
    of("strings", "quote", 1, 0),
    // Lists and sets.
    member("isSorted", 0),
    member("sum", 0),
    member("min", 0),
    member("max", 0),
    of("sets", "contains", 2, 30),
    of("sets", "equivalent", 2, 30),
    of("sets", "intersects", 2, 30),
    entry("distinct", Style::Member, (0, 0), 35),
    entry("flatten", Style::Member, (0, 1), 35),
    entry("slice", Style::Member, (2, 2), 35),
    entry("sort", Style::Member, (0, 0), 35),
    entry("reverse", Style::Member, (0, 0), 35),
    of("lists", "range", 1, 35),
    entry("first", Style::Member, (0, 0), 33),
    entry("last", Style::Member, (0, 0), 33),
    // Optionals.
    of("optional", "of", 1, 29),
    of("optional", "none", 0, 29),
    of("optional", "ofNonZeroValue", 1, 29),
    member("hasValue", 0),
    member("value", 0),
    member("or", 1),
    member("orValue", 1),
    of("optional", "unwrap", 1, 33),
    entry("unwrapOpt", Style::Member, (0, 0), 33),
    // Times; of a timestamp also in a time zone.
    between("getFullYear", 0, 1),
    between("getMonth", 0, 1),
    between("getDate", 0, 1),
    between("getDayOfMonth", 0, 1),
    between("getDayOfWeek", 0, 1),
    between("getDayOfYear", 0, 1),
    between("getHours", 0, 1),
    between("getMinutes", 0, 1),
    between("getSeconds", 0, 1),
    between("getMilliseconds", 0, 1),
    // Quantities.
    global("quantity", 1),
    global("isQuantity", 1),
    member("isInteger", 0),
    member("asInteger", 0),
    member("asApproximateFloat", 0),
    global("sign", 1),
    member("add", 1),
    member("sub", 1),
    member("isLessThan", 1),
    member("isGreaterThan", 1),
    member("compareTo", 1),
    // Addresses.
    global("url", 1),
    global("isURL", 1),
    member("getScheme", 0),
    member("getHost", 0),
    member("getHostname", 0),
    member("getPort", 0),
    member("getEscapedPath", 0),
    member("getQuery", 0),
    entry("ip", Style::Global, (1, 1), 31),
    entry("isIP", Style::Global, (1, 1), 31),
    of("ip", "isCanonical", 1, 31),
    entry("family", Style::Member, (0, 0), 31),
    entry("isUnspecified", Style::Member, (0, 0), 31),
    entry("isLoopback", Style::Member, (0, 0), 31),
    entry("isLinkLocalMulticast", Style::Member, (0, 0), 31),
    entry("isLinkLocalUnicast", Style::Member, (0, 0), 31),
    entry("isGlobalUnicast", Style::Member, (0, 0), 31),
    entry("cidr", Style::Global, (1, 1), 31),
    entry("isCIDR", Style::Global, (1, 1), 31),
    entry("containsIP", Style::Member, (1, 1), 31),
    entry("containsCIDR", Style::Member, (1, 1), 31),
    entry("ip", Style::Member, (0, 0), 31),
    entry("masked", Style::Member, (0, 0), 31),
    entry("prefixLength", Style::Member, (0, 0), 31),
    // Versions.
    entry("semver", Style::Global, (1, 2), 34),
    entry("isSemver", Style::Global, (1, 2), 34),
    entry("major", Style::Member, (0, 0), 34),
    entry("minor", Style::Member, (0, 0), 34),
    entry("patch", Style::Member, (0, 0), 34),
    // Formats.
    entry("validate", Style::Member, (1, 1), 32),
    of("format", "named", 1, 32),
    of("format", "dns1123Label", 0, 32),
    of("format", "dns1123Subdomain", 0, 32),
    of("format", "dns1035Label", 0, 32),
    of("format", "qualifiedName", 0, 32),
    of("format", "dns1123LabelPrefix", 0, 32),
    of("format", "dns1123SubdomainPrefix", 0, 32),
    of("format", "dns1035LabelPrefix", 0, 32),
    of("format", "labelValue", 0, 32),
    of("format", "uri", 0, 32),
    of("format", "uuid", 0, 32),
    of("format", "byte", 0, 32),
    of("format", "date", 0, 32),
    of("format", "datetime", 0, 32),
    // The authorizer.
    member("path", 1),
    member("group", 1),
    member("serviceAccount", 2),
    member("resource", 1),
    member("subresource", 1),
    member("namespace", 1),
    member("name", 1),
    entry("fieldSelector", Style::Member, (1, 1), 32),
    entry("labelSelector", Style::Member, (1, 1), 32),
    member("check", 1),
    member("allowed", 0),
    member("reason", 0),
    member("errored", 0),
    member("error", 0),
];

/// The last release whose functions are all listed here; what a later one has besides is not known.
pub(super) const LISTED_UNTIL: u32 = 36;

/// The names before a dot that are no variables.
pub(super) const SPACES: &[&str] = &["sets", "optional", "strings", "ip", "format", "lists"];

/// The macros with two names can be written from here on.
pub(super) const TWO_NAMES_SINCE: u32 = 33;
/// `sortBy` can be written from here on.
pub(super) const SORT_BY_SINCE: u32 = 35;
/// `.?`, `[?]` and what goes with them can be written from here on.
pub(super) const OPTIONALS_SINCE: u32 = 29;

/// The function of a name and style that takes so many arguments.
pub(super) fn find(name: &str, style: Style, arguments: usize) -> Option<&'static Function> {
    ALL.iter().find(|function| {
        let (fewest, most) = function.arguments;
        function.name == name && function.style == style && (fewest..=most).contains(&arguments)
    })
}

impl Function {
    /// Whether an expression with it can be written for this release.
    pub(super) fn is_in(&self, version: KubernetesVersion) -> bool {
        version.minor() >= self.since
    }
}
