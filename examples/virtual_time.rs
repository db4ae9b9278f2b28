//! Measures a workload in the time that the real drive would take: the same figures on every machine.

use imbrex::{Options, Runtime};
use imbrex_clockwork::Order;

fn main() -> Result<(), imbrex::Error> {
    let (runtime, _world) = Runtime::virtual_time(Order::SmallestTime);
    let clock = runtime.clock.clone();
    let options = Options::new().profile("hc620").capacity(8 << 30).runtime(runtime).seed(1);
    let store = options.create(imbrex_examples::image("virtual_time"))?;

    let start_ns = clock.now_ns();
    for key in 0..100_000_u32 {
        store.put(key.wrapping_mul(2_654_435_761).to_be_bytes(), [7; 100])?;
    }
    store.flush()?;
    let busy_ms = (clock.now_ns() - start_ns) / 1_000_000;
    println!("100,000 puts of 104 bytes and a flush: {busy_ms} ms of the drive's time");
    store.close()
}
