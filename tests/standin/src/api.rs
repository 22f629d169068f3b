//! One request: who asks, what goes wrong, may they, do it.
//!
//! What must hold: the order is that of the real API server (401, then what a fault says, then
//! 403, then the rest), every request is in the log before anything happens, and neither body nor
//! token ever is.

use http::{HeaderMap, Method, Request, Response, header};
use hyper::body::Incoming;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::faults::RequestFault;
use crate::http_io::{self, Body};
use crate::rbac::{Rule, User};
use crate::refusal::Refusal;
use crate::route::{self, Action, Query};
use crate::world::{LoggedRequest, World};
use crate::{control, objects, pods, reviews, stream, watching};

/// The connection breaks without an answer.
#[derive(Debug, thiserror::Error)]
#[error("the connection is cut, as a fault orders")]
pub(crate) struct Cut;

/// An authenticated request with its body read: everything that doing it needs.
pub(crate) struct Call {
    pub(crate) world: World,
    pub(crate) user: User,
    pub(crate) rules: Vec<Rule>,
    pub(crate) action: Action,
    pub(crate) query: Query,
    pub(crate) content_type: String,
    pub(crate) body: Value,
}

type Answer = Result<Response<Body>, Refusal>;

/// Answers one request.
pub(crate) async fn handle(
    world: World,
    request: Request<Incoming>,
) -> Result<Response<Body>, Cut> {
    let path = request.uri().path().to_owned();
    let query = route::query(request.uri().query());
    let action = Action::parse(request.method(), &path, &query);
    let caller = bearer(request.headers()).and_then(|token| world.user(token));
    world.change(|state| {
        state.log(LoggedRequest {
            verb: match &action {
                Some(action) => action.verb.to_owned(),
                None => request.method().to_string(),
            },
            path: path.clone(),
            user: caller
                .as_ref()
                .map(|(user, _)| user.name.clone())
                .unwrap_or_default(),
        });
    });
    if let Some(answer) = public(&world, request.method(), &path) {
        return Ok(answer);
    }
    let Some((user, rules)) = caller else {
        return Ok(http_io::refuse(&Refusal::unauthorized()));
    };
    if path.starts_with("/standin/") {
        return Ok(settle(
            control::handle(&world, &user, &query, request).await,
        ));
    }
    let Some(action) = action else {
        return Ok(http_io::refuse(&Refusal::unknown_path()));
    };
    let fault_of = |world: &World, action: &Action, user: &User, allowed: bool| {
        world.change(|state| {
            let fault = state.faults.request_fault(action, &user.name, allowed);
            (fault, state.faults.releases.subscribe())
        })
    };
    if action.subresource.as_deref() == Some("attach") {
        let suffered = fault_of(&world, &action, &user, true);
        return attach(&world, (user, rules), &action, (&query, request), suffered).await;
    }
    let content_type = text_header(request.headers(), header::CONTENT_TYPE);
    let body = match http_io::read_object(request.into_body()).await {
        Ok(body) => body,
        Err(refusal) => return Ok(http_io::refuse(&refusal)),
    };
    let call = Call {
        world,
        user,
        rules,
        action,
        query,
        content_type,
        body,
    };
    let allowed = call.authorize().is_ok();
    let (fault, releases) = fault_of(&call.world, &call.action, &call.user, allowed);
    suffer(call, fault, releases).await
}

/// Does the call as the fault says.
async fn suffer(
    call: Call,
    fault: Option<RequestFault>,
    mut releases: watch::Receiver<u64>,
) -> Result<Response<Body>, Cut> {
    match fault {
        None => Ok(settle(call.perform())),
        Some(RequestFault::Answer {
            code,
            reason,
            message,
        }) => Ok(http_io::refuse(&Refusal::new(code, &reason, message))),
        Some(RequestFault::Hang) => {
            let _ = releases.changed().await;
            Ok(settle(call.perform()))
        }
        Some(RequestFault::Late) => {
            // Who may is decided when a request arrives; what holds it comes after.
            if let Err(refusal) = call.authorize() {
                return Ok(http_io::refuse(&refusal));
            }
            let (send, receive) = tokio::sync::oneshot::channel();
            call.world.clone().spawn(async move {
                let _ = releases.changed().await;
                // The caller may have left; that it is done all the same is the point.
                let _ = send.send(settle(call.act()));
            });
            receive.await.map_err(|_| Cut)
        }
        Some(RequestFault::PerformThenHang) => {
            let answer = settle(call.perform());
            let _ = releases.changed().await;
            Ok(answer)
        }
        Some(RequestFault::PerformThenCut) => {
            settle(call.perform());
            Err(Cut)
        }
        Some(RequestFault::Cut) => Err(Cut),
    }
}

fn settle(answer: Answer) -> Response<Body> {
    answer.unwrap_or_else(|refusal| http_io::refuse(&refusal))
}

/// An attach has no body and ends in an upgrade, so that it goes its own way.
async fn attach(
    world: &World,
    (user, rules): (User, Vec<Rule>),
    action: &Action,
    (query, request): (&Query, Request<Incoming>),
    (fault, mut releases): (Option<RequestFault>, watch::Receiver<u64>),
) -> Result<Response<Body>, Cut> {
    match fault {
        None => {}
        Some(RequestFault::Answer {
            code,
            reason,
            message,
        }) => {
            return Ok(http_io::refuse(&Refusal::new(code, &reason, message)));
        }
        Some(RequestFault::Cut | RequestFault::PerformThenCut) => return Err(Cut),
        Some(RequestFault::Hang | RequestFault::Late | RequestFault::PerformThenHang) => {
            let _ = releases.changed().await;
        }
    }
    let upgrades = request.headers().contains_key(header::UPGRADE);
    let allowed = {
        let state = world.read();
        let authorizer = state.authorizer(&user, &rules);
        authorizer.check(action).and_then(|()| {
            // From 1.35 on, a WebSocket attach (a GET) needs what a POST needs.
            if upgrades && world.options().minor_version >= 35 {
                authorizer.check(&action.with_verb("create"))?;
            }
            Ok(())
        })
    };
    Ok(settle(allowed.and_then(|()| {
        stream::attach(world, action, query, request)
    })))
}

/// What needs no token.
fn public(world: &World, method: &Method, path: &str) -> Option<Response<Body>> {
    if method != Method::GET {
        return None;
    }
    match path {
        "/version" => {
            let minor = world.options().minor_version;
            Some(http_io::json(
                200,
                &json!({
                    "major": "1", "minor": minor.to_string(), "gitVersion": format!("v1.{minor}.0"),
                    "gitCommit": "", "gitTreeState": "clean", "buildDate": "2026-01-01T00:00:00Z",
                    "goVersion": "go1.25", "compiler": "gc", "platform": "linux/amd64",
                }),
            ))
        }
        "/healthz" | "/livez" | "/readyz" => Some(http_io::text(200, "text/plain", "ok".into())),
        _ => None,
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    headers
        .get(header::AUTHORIZATION)?
        .to_str()
        .ok()?
        .strip_prefix("Bearer ")
}

fn text_header(headers: &HeaderMap, name: header::HeaderName) -> String {
    headers
        .get(name)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
        .to_owned()
}

impl Call {
    fn perform(&self) -> Answer {
        self.authorize()?;
        self.act()
    }

    fn authorize(&self) -> Result<(), Refusal> {
        let state = self.world.read();
        state
            .authorizer(&self.user, &self.rules)
            .check(&self.action)
    }

    fn act(&self) -> Answer {
        let Action {
            verb,
            resource,
            subresource,
            ..
        } = &self.action;
        match (resource.as_str(), subresource.as_deref(), *verb) {
            ("pods", None, "watch") => watching::watch(&self.world, &self.action, &self.query),
            ("pods", None, "get") => pods::get(self),
            ("pods", None, "list") => pods::list(self),
            ("pods", None, "create") => pods::create(self),
            ("pods", None, "patch") => pods::patch(self),
            ("pods", None, "delete") => pods::delete(self),
            ("pods", Some("ephemeralcontainers"), "get") => pods::get(self),
            ("pods", Some("ephemeralcontainers"), "patch" | "update") => {
                pods::change_ephemeral_containers(self)
            }
            ("rolebindings", None, "get" | "list") => objects::read_bindings(self),
            ("rolebindings", None, "create") => objects::create_binding(self),
            ("rolebindings", None, "delete") => objects::delete_binding(self),
            ("serviceaccounts", Some("token"), "create") => reviews::mint_token(self),
            ("selfsubjectreviews", None, "create") => reviews::who_am_i(self),
            ("selfsubjectaccessreviews", None, "create") => reviews::may_i(self),
            (_, None, "get" | "list") => objects::read_fixed(self),
            _ => {
                let message = "the server does not allow this method on the requested resource";
                Err(Refusal::new(405, "MethodNotAllowed", message))
            }
        }
    }

    pub(crate) fn namespace(&self) -> &str {
        self.action.namespace.as_deref().unwrap_or_default()
    }

    pub(crate) fn name(&self) -> &str {
        self.action.name.as_deref().unwrap_or_default()
    }

    pub(crate) fn key(&self) -> (String, String) {
        (self.namespace().to_owned(), self.name().to_owned())
    }

    pub(crate) fn selector(&self, name: &str) -> &str {
        self.query.get(name).map(String::as_str).unwrap_or_default()
    }

    /// Whether everything is checked and nothing kept.
    pub(crate) fn dry_run(&self) -> bool {
        self.query.get("dryRun").is_some_and(|value| value == "All")
            || self.body["dryRun"]
                .as_array()
                .is_some_and(|all| all.contains(&"All".into()))
    }

    /// The name and namespace of an object to be created.
    pub(crate) fn new_name(&self, kind: &str) -> Result<String, Refusal> {
        if !self.world.read().namespaces.contains_key(self.namespace()) {
            let message = format!("namespaces \"{}\" not found", self.namespace());
            return Err(Refusal::new(404, "NotFound", message));
        }
        let metadata = &self.body["metadata"];
        if metadata["namespace"]
            .as_str()
            .is_some_and(|inside| inside != self.namespace())
        {
            let message = "the namespace of the provided object does not match the namespace \
                           sent on the request";
            return Err(Refusal::bad_request(message));
        }
        let name = match (metadata["name"].as_str(), metadata["generateName"].as_str()) {
            (Some(name), _) if !name.is_empty() => name.to_owned(),
            (_, Some(prefix)) => format!("{prefix}{}", crate::world::random_text(5)),
            _ => {
                let why = "Required value: name or generateName is required";
                return Err(Refusal::invalid(kind, "", "metadata.name", why));
            }
        };
        let clean = name
            .bytes()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-' || c == b'.');
        if name.len() > 253 || !clean {
            let why = format!(
                "Invalid value: \"{name}\": a lowercase RFC 1123 subdomain must \
                consist of lower case alphanumeric characters, '-' or '.'"
            );
            return Err(Refusal::invalid(kind, &name, "metadata.name", &why));
        }
        Ok(name)
    }

    /// Meets a DeleteOptions' preconditions.
    pub(crate) fn check_preconditions(&self, object: &Value) -> Result<(), Refusal> {
        let wanted = &self.body["preconditions"];
        let metadata = &object["metadata"];
        for (field, label) in [("uid", "UID"), ("resourceVersion", "ResourceVersion")] {
            let (Some(wanted), Some(seen)) = (wanted[field].as_str(), metadata[field].as_str())
            else {
                continue;
            };
            if wanted != seen {
                let why = format!(
                    "the {label} in the precondition ({wanted}) does not match the {label} in \
                     record ({seen}). The object might have been deleted and then recreated"
                );
                return Err(Refusal::conflict(&self.action, self.name(), &why));
            }
        }
        Ok(())
    }
}
