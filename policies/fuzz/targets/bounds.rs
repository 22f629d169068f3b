//! What one input may cost: a second of the processor's time and 256 MB.

use peak_alloc::PeakAlloc;

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

const SECONDS: f64 = 1.0;
const MEGABYTES: f32 = 256.0;

/// Does something with an input, and panics where it costs more.
pub fn within<T>(what: impl FnOnce() -> T) -> T {
    HEAP.reset_peak_usage();
    let (memory, begun) = (HEAP.current_usage_as_mb(), worked());
    let answer = what();
    let (took, grew) = (worked() - begun, HEAP.peak_usage_as_mb() - memory);
    assert!(took <= SECONDS, "{took} s of the processor's time");
    assert!(grew <= MEGABYTES, "{grew} MB");
    answer
}

// Of all threads: the linter has threads of its own, and nothing else runs meanwhile.
fn worked() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
