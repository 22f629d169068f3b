//! `/standin/…`: faults and a look inside, for tests in other processes. Admin token only.

use http::{Method, Request, Response};
use hyper::body::Incoming;
use serde_json::json;

use crate::faults::{Fault, Faults};
use crate::http_io::{self, Body};
use crate::inspect::Inspect;
use crate::rbac::User;
use crate::refusal::Refusal;
use crate::route::Query;
use crate::world::World;

pub(crate) async fn handle(
    world: &World,
    user: &User,
    query: &Query,
    request: Request<Incoming>,
) -> Result<Response<Body>, Refusal> {
    if !user.is_master() {
        let message = format!("User \"{}\" cannot use the stand-in's controls", user.name);
        return Err(Refusal::new(403, "Forbidden", message));
    }
    let inspect = Inspect {
        world: world.clone(),
    };
    let selector = query
        .get("labelSelector")
        .map(String::as_str)
        .unwrap_or_default();
    match (request.method().clone(), request.uri().path()) {
        (Method::POST, "/standin/faults") => {
            let body = http_io::read_object(request.into_body()).await?;
            let fault: Fault = serde_json::from_value(body)
                .map_err(|error| Refusal::bad_request(format!("not a fault: {error}")))?;
            if !(Faults {
                world: world.clone(),
            })
            .apply(fault)
            {
                return Err(Refusal::new(404, "NotFound", "no such pod"));
            }
            Ok(http_io::json(200, &json!({ "applied": true })))
        }
        (Method::GET, "/standin/requests") => Ok(http_io::json(
            200,
            &json!({ "requests": inspect.requests() }),
        )),
        (Method::GET, "/standin/processes") => Ok(http_io::json(
            200,
            &json!({ "processes": inspect.processes() }),
        )),
        (Method::GET, "/standin/streams") => {
            Ok(http_io::json(200, &json!({ "streams": inspect.streams() })))
        }
        (Method::GET, "/standin/objects") => {
            let objects = inspect.objects(selector)?;
            Ok(http_io::json(200, &json!({ "objects": objects })))
        }
        _ => Err(Refusal::unknown_path()),
    }
}
