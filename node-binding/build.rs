//! napi-rs links the addon against the Node that loads it.

fn main() {
    napi_build::setup();
}
