//! From a tree of values to the model. What has the wrong type is noted and left out.

use super::{
    Attestor, Binding, Document, Excepted, Exception, ImageChecks, ImageReference, Kyverno,
    MatchConstraints, Named, ParamKind, Policy, PolicyKind, Problem, ResourceRule, Selector,
    Unknown, Validation,
};
use crate::source::{Node, Spanned, Value};

/// The objects of one document.
pub(super) fn documents(node: &Node) -> Vec<Document> {
    let kind = node.get("kind").and_then(Node::str).unwrap_or_default();
    let version = node
        .get("apiVersion")
        .and_then(Node::str)
        .unwrap_or_default();
    let group = version.split_once('/').map_or("", |(group, _)| group);
    match (group, kind) {
        // A list within a list is nobody's; its objects stay unknown.
        ("", "List") => node
            .get("items")
            .map_or(&[][..], Node::items)
            .iter()
            .map(object)
            .collect(),
        (
            "admissionregistration.k8s.io",
            "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration",
        ) => node
            .get("webhooks")
            .map_or(&[][..], Node::items)
            .iter()
            .map(|webhook| Document::Policy(Box::new(self::webhook(webhook, version))))
            .collect(),
        _ => vec![object(node)],
    }
}

fn object(node: &Node) -> Document {
    let text = |key: &str| node.get(key).and_then(Node::str);
    let (kind, version) = (text("kind"), text("apiVersion"));
    let group = version
        .and_then(|version| version.split_once('/'))
        .map_or("", |(group, _)| group);
    let policy = |kind| Document::Policy(Box::new(policy(node, kind, version.unwrap_or_default())));
    match (group, kind.unwrap_or_default()) {
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy") => {
            policy(PolicyKind::ValidatingAdmissionPolicy)
        }
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding") => {
            Document::Binding(Box::new(binding(node)))
        }
        ("policies.kyverno.io", "ValidatingPolicy" | "NamespacedValidatingPolicy") => {
            policy(PolicyKind::KyvernoValidatingPolicy)
        }
        ("policies.kyverno.io", "ImageValidatingPolicy" | "NamespacedImageValidatingPolicy") => {
            policy(PolicyKind::ImageValidatingPolicy)
        }
        ("policies.kyverno.io" | "kyverno.io", "PolicyException") => {
            Document::Exception(exception(node))
        }
        _ => Document::Unknown(Unknown {
            at: node.at,
            kind: kind.map(str::to_owned),
            api_version: version.map(str::to_owned),
            name: node
                .at_path(&["metadata", "name"])
                .and_then(Node::str)
                .map(str::to_owned),
        }),
    }
}

/// Reads fields, and notes those that have the wrong type.
#[derive(Default)]
struct Fields {
    problems: Vec<Problem>,
}

impl Fields {
    fn wrong(&mut self, node: &Node, wanted: &str) {
        let what = format!(
            "{wanted} is wanted here, not {}; it is left out",
            node.value.kind()
        );
        self.problems.push(Problem { at: node.at, what });
    }

    fn text(&mut self, node: &Node, key: &str) -> Option<Spanned<String>> {
        let field = node.get(key)?;
        self.as_text(field)
    }

    /// Text, and what a careless hand leaves without quotes: `expression: true`.
    fn as_text(&mut self, field: &Node) -> Option<Spanned<String>> {
        match &field.value {
            Value::Text(text) => Some(text.clone()),
            Value::Null => None,
            Value::Bool(value) => {
                self.wrong(field, "text");
                Some(Spanned::new(value.to_string(), field.at))
            }
            Value::Int(_) | Value::Float(_) | Value::List(_) | Value::Map(_) => {
                self.wrong(field, "text");
                None
            }
        }
    }

    fn bool(&mut self, node: &Node, path: &[&str]) -> Option<bool> {
        let field = node.at_path(path)?;
        if field.bool().is_none() {
            self.wrong(field, "true or false");
        }
        field.bool()
    }

    fn items<'a>(&mut self, node: &'a Node, key: &str) -> &'a [Node] {
        let Some(field) = node.get(key) else {
            return &[];
        };
        if !matches!(field.value, Value::List(_)) {
            self.wrong(field, "a list");
        }
        field.items()
    }

    fn texts(&mut self, node: &Node, key: &str) -> Vec<Spanned<String>> {
        self.items(node, key)
            .iter()
            .filter_map(|item| self.as_text(item))
            .collect()
    }

    fn named(&mut self, node: &Node, list: &str, name: &str, expression: &str) -> Vec<Named> {
        let mut all = Vec::new();
        for item in self.items(node, list) {
            let name = self.text(item, name);
            match self.text(item, expression) {
                Some(expression) => all.push(Named { name, expression }),
                None => self.wrong(item, &format!("a mapping with `{expression}`")),
            }
        }
        all
    }

    fn name(&mut self, node: &Node) -> Spanned<String> {
        let metadata = node.get("metadata");
        let name = metadata.and_then(|metadata| self.text(metadata, "name"));
        name.unwrap_or_else(|| Spanned::new(String::new(), node.at))
    }

    fn rules(&mut self, node: &Node, key: &str) -> Vec<ResourceRule> {
        self.items(node, key)
            .iter()
            .map(|rule| ResourceRule {
                at: rule.at,
                api_groups: self.texts(rule, "apiGroups"),
                api_versions: self.texts(rule, "apiVersions"),
                operations: self.texts(rule, "operations"),
                resources: self.texts(rule, "resources"),
                resource_names: self.texts(rule, "resourceNames"),
                scope: self.text(rule, "scope"),
            })
            .collect()
    }

    fn constraints(&mut self, node: &Node, rules: &str) -> MatchConstraints {
        let selector = |key: &str| node.get(key).cloned().map(Selector);
        MatchConstraints {
            at: node.at,
            resource_rules: self.rules(node, rules),
            exclude_resource_rules: self.rules(node, "excludeResourceRules"),
            namespace_selector: selector("namespaceSelector"),
            object_selector: selector("objectSelector"),
            match_policy: self.text(node, "matchPolicy"),
        }
    }

    fn validations(&mut self, spec: &Node) -> Vec<Validation> {
        let mut all = Vec::new();
        for item in self.items(spec, "validations") {
            let Some(expression) = self.text(item, "expression") else {
                self.wrong(item, "a mapping with `expression`");
                continue;
            };
            all.push(Validation {
                expression,
                message: self.text(item, "message"),
                message_expression: self.text(item, "messageExpression"),
                reason: self.text(item, "reason"),
            });
        }
        all
    }

    fn kyverno(&mut self, spec: &Node) -> Kyverno {
        let pod_controllers = spec.at_path(&["autogen", "podControllers"]);
        let evaluation = spec.get("evaluation");
        let checks = spec.get("validationConfigurations");
        let mut check = |key: &str| checks.and_then(|checks| self.bool(checks, &[key]));
        let image_checks = ImageChecks {
            mutate_digest: check("mutateDigest"),
            verify_digest: check("verifyDigest"),
            required: check("required"),
        };
        let timeout = spec.at_path(&["webhookConfiguration", "timeoutSeconds"]);
        Kyverno {
            autogen_controllers: pod_controllers
                .filter(|node| node.get("controllers").is_some())
                .map(|node| self.texts(node, "controllers")),
            generate_admission_policy: self
                .bool(spec, &["autogen", "validatingAdmissionPolicy", "enabled"]),
            admission: self.bool(spec, &["evaluation", "admission", "enabled"]),
            background: self.bool(spec, &["evaluation", "background", "enabled"]),
            mode: evaluation.and_then(|node| self.text(node, "mode")),
            timeout_seconds: timeout.and_then(|node| match node.value {
                Value::Int(seconds) => Some(seconds),
                Value::Null
                | Value::Bool(_)
                | Value::Float(_)
                | Value::Text(_)
                | Value::List(_)
                | Value::Map(_) => None,
            }),
            images: self.images(spec),
            image_checks,
            attestors: self
                .items(spec, "attestors")
                .iter()
                .map(|node| Attestor {
                    name: self.text(node, "name"),
                    node: node.clone(),
                })
                .collect(),
        }
    }

    fn images(&mut self, spec: &Node) -> Vec<ImageReference> {
        let mut images = Vec::new();
        for item in self.items(spec, "matchImageReferences") {
            images.extend(self.text(item, "glob").map(ImageReference::Glob));
            images.extend(
                self.text(item, "expression")
                    .map(ImageReference::Expression),
            );
        }
        images
    }
}

fn policy(node: &Node, kind: PolicyKind, api_version: &str) -> Policy {
    let mut fields = Fields::default();
    let name = fields.name(node);
    let empty = Node {
        at: node.at,
        value: Value::Null,
    };
    let spec = node.get("spec").unwrap_or(&empty);
    if spec.entries().is_empty() {
        fields.wrong(spec, "a `spec`");
    }
    let api = |node: &Node, key: &str| node.get(key).and_then(Node::str).map(str::to_owned);
    let actions = spec.get("validationActions").is_some();
    Policy {
        kind,
        api_version: api_version.to_owned(),
        name,
        at: node.at,
        failure_policy: fields.text(spec, "failurePolicy"),
        match_constraints: spec
            .get("matchConstraints")
            .map(|node| fields.constraints(node, "resourceRules")),
        match_conditions: fields.named(spec, "matchConditions", "name", "expression"),
        variables: fields.named(spec, "variables", "name", "expression"),
        validations: fields.validations(spec),
        audit_annotations: fields.named(spec, "auditAnnotations", "key", "valueExpression"),
        param_kind: spec.get("paramKind").map(|node| ParamKind {
            at: node.at,
            api_version: api(node, "apiVersion"),
            kind: api(node, "kind"),
        }),
        validation_actions: actions.then(|| fields.texts(spec, "validationActions")),
        kyverno: match kind {
            PolicyKind::KyvernoValidatingPolicy | PolicyKind::ImageValidatingPolicy => {
                fields.kyverno(spec)
            }
            PolicyKind::ValidatingAdmissionPolicy | PolicyKind::WebhookConfiguration => {
                Kyverno::default()
            }
        },
        problems: fields.problems,
        outline: is_outline(node),
    }
}

/// Whether an object says nothing but its name, and perhaps a status.
fn is_outline(node: &Node) -> bool {
    let empty = |(key, value): &(Spanned<String>, Node)| match key.value.as_str() {
        "apiVersion" | "kind" | "metadata" | "status" => true,
        "spec" => match &value.value {
            Value::Null => true,
            Value::Map(entries) => entries.is_empty(),
            Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::Text(_) | Value::List(_) => {
                false
            }
        },
        _ => false,
    };
    node.entries().iter().all(empty)
}

fn webhook(node: &Node, api_version: &str) -> Policy {
    let mut fields = Fields::default();
    let name = fields.text(node, "name");
    Policy {
        kind: PolicyKind::WebhookConfiguration,
        api_version: api_version.to_owned(),
        name: name.unwrap_or_else(|| Spanned::new(String::new(), node.at)),
        at: node.at,
        failure_policy: fields.text(node, "failurePolicy"),
        match_constraints: Some(fields.constraints(node, "rules")),
        match_conditions: fields.named(node, "matchConditions", "name", "expression"),
        variables: Vec::new(),
        validations: Vec::new(),
        audit_annotations: Vec::new(),
        param_kind: None,
        validation_actions: None,
        kyverno: Kyverno::default(),
        problems: fields.problems,
        outline: false,
    }
}

fn binding(node: &Node) -> Binding {
    let mut fields = Fields::default();
    let empty = Node {
        at: node.at,
        value: Value::Null,
    };
    let spec = node.get("spec").unwrap_or(&empty);
    Binding {
        name: fields.name(node),
        at: node.at,
        policy_name: fields.text(spec, "policyName"),
        validation_actions: fields.texts(spec, "validationActions"),
        match_resources: spec
            .get("matchResources")
            .map(|node| fields.constraints(node, "resourceRules")),
        param_ref: spec.get("paramRef").cloned(),
        problems: fields.problems,
        outline: is_outline(node),
    }
}

fn exception(node: &Node) -> Exception {
    let mut fields = Fields::default();
    let name = fields.name(node);
    let mut policies = Vec::new();
    if let Some(spec) = node.get("spec") {
        for (list, key) in [("policyRefs", "name"), ("exceptions", "policyName")] {
            for item in spec.get(list).map_or(&[][..], Node::items) {
                let kind = item.get("kind").and_then(Node::str).map(str::to_owned);
                policies.extend(fields.text(item, key).map(|name| Excepted { name, kind }));
            }
        }
    }
    Exception {
        name,
        at: node.at,
        policies,
    }
}
