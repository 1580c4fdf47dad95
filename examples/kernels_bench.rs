//! How fast the server's kernels are, against memcpy of the same bytes, in turn.
//!
//!     cargo run --release --example kernels_bench [rounds]
//!
//! For each kernel and size: the median of its time, of memcpy's, and the ratio of the two. memcpy
//! reads each byte and writes it; a sum reads two and writes one.

use std::hint::black_box;
use std::time::{Duration, Instant};

use half::{bf16, f16};
use pslite::elements::{Buffer, Dtype, kernels};
use pslite::values::compression::TwoBit;

/// Bytes of the side that is changed: in the second-level cache, and out of every cache.
const SIZES: [usize; 2] = [128 << 10, 64 << 20];
/// Bytes that one measurement moves at least, so that a clock's own cost does not show.
const BYTES_MEASURED: usize = 64 << 20;
const ROUNDS_DEFAULT: usize = 15;

/// Something to measure: changes the first by the second, whose bytes may lie anywhere.
type Kernel = Box<dyn FnMut(&mut Buffer, &[u8])>;

fn main() {
    let rounds = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(ROUNDS_DEFAULT);
    println!("{:24} {:>9} {:>12} {:>12} {:>7}", "kernel", "KiB", "GB/s", "memcpy GB/s", "ratio");
    for size in SIZES {
        for (name, from_bytes, mut kernel) in kernels_of(size) {
            let (ours, copy) = measure(size, from_bytes, rounds, &mut kernel);
            let speed = |time: Duration| size as f64 / time.as_secs_f64() / 1e9;
            println!(
                "{name:24} {:9} {:12.2} {:12.2} {:7.2}",
                size >> 10,
                speed(ours),
                speed(copy),
                ours.as_secs_f64() / copy.as_secs_f64(),
            );
        }
    }
}

/// By name: how many bytes are received for `size` bytes of the tensor, and what is done with them.
fn kernels_of(size: usize) -> Vec<(String, usize, Kernel)> {
    let mut all: Vec<(String, usize, Kernel)> = Vec::new();
    for dtype in Dtype::ALL {
        all.push((
            format!("add {dtype}"),
            size,
            Box::new(move |into, from| {
                let _ = black_box(kernels::add(dtype, into.bytes_mut(), from));
            }),
        ));
    }
    all.push((
        "add bfloat16".into(),
        size,
        Box::new(|into, from| {
            let _ = black_box(kernels::add_bf16(into.elements_mut::<bf16>(), from));
        }),
    ));
    all.push((
        "add float16 to float32".into(),
        size / 2,
        Box::new(|into, from| {
            let _ = black_box(kernels::add_f16_to_f32(into.elements_mut(), from));
        }),
    ));
    all.push((
        "float16 to float32".into(),
        size / 2,
        Box::new(|into, from| {
            let _ = black_box(kernels::widen_f16(into.elements_mut(), from));
        }),
    ));
    let floats = vec![0.1_f32; size / size_of::<f16>()];
    all.push((
        "float32 to float16".into(),
        0,
        Box::new(move |into, _| {
            let _ = black_box(kernels::narrow_to_f16(into.elements_mut::<f16>(), &floats));
        }),
    ));
    if let Ok(two_bit) = TwoBit::new(0.5) {
        let compressed = TwoBit::compressed_bytes(size / size_of::<f32>());
        all.push((
            "add 2-bit".into(),
            compressed,
            Box::new(move |into, from| {
                let _ = black_box(two_bit.add(from, into.elements_mut()));
            }),
        ));
    }
    all
}

/// Medians of one pass of the kernel and of memcpy, measured in turn.
fn measure(
    size: usize,
    from_bytes: usize,
    rounds: usize,
    kernel: &mut Kernel,
) -> (Duration, Duration) {
    let mut into = Buffer::zeroed(size);
    // One byte off, as in a frame: no element is aligned.
    let frame = Buffer::copy_of(&vec![1; from_bytes + 1]);
    let source = Buffer::copy_of(&vec![1; size + 1]);
    let passes = (BYTES_MEASURED / size).max(1);
    let (mut ours, mut copies) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let start = Instant::now();
        for _ in 0..passes {
            kernel(&mut into, black_box(&frame.bytes()[1..]));
        }
        ours.push(start.elapsed());
        let start = Instant::now();
        for _ in 0..passes {
            black_box(into.bytes_mut()).copy_from_slice(black_box(&source.bytes()[1..]));
        }
        copies.push(start.elapsed());
    }
    let divisor = u32::try_from(passes).unwrap_or(u32::MAX);
    (median(ours) / divisor, median(copies) / divisor)
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
