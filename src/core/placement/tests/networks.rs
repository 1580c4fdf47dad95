//! Jobs of which nobody knew when the planner's numbers were chosen, drawn by a seed: 2 to 8
//! servers and 1 to 8 workers whose cards send and receive at different rates, some of them on one
//! host; a model of one huge tensor, of a thousand small ones, VGG-16's or ResNet-50's.

use super::fluid::{Lab, Node};
use super::jobs::{by_hash, resnet50, server_id, worker_id};
use crate::placement::cost::Replicas;
use crate::placement::planner::PlacementSettings;
use crate::random::Random;
use crate::wire::NodeId;

/// A megabit per second.
const MBIT: f64 = 125_000.0;

/// The 32 tensors of VGG-16 (Simonyan and Zisserman 2014), in elements: 138,357,544 together.
fn vgg16() -> Vec<u64> {
    let widths = [64, 64, 128, 128, 256, 256, 256, 512, 512, 512, 512, 512, 512];
    let mut sizes = Vec::new();
    let mut from = 3;
    for width in widths {
        sizes.extend([from * width * 9, width]);
        from = width;
    }
    for (from, to) in [(7 * 7 * 512, 4096), (4096, 4096), (4096, 1000)] {
        sizes.extend([from * to, to]);
    }
    sizes
}

/// Some model, with about as many bytes as a test has time for.
fn model(random: &mut Random) -> Vec<u64> {
    let smaller = |sizes: Vec<u64>, by: u64| sizes.into_iter().map(|s| (s / by).max(16)).collect();
    match random.below(4) {
        0 => vec![10_000_000],
        1 => vec![10_000; 1000],
        2 => smaller(vgg16(), 8),
        _ => smaller(resnet50(), 2),
    }
}

/// Mbit/s, evenly by the logarithm.
fn rate(random: &mut Random, low: f64, high: f64) -> f64 {
    low * (high / low).powf(random.unit()) * MBIT
}

fn card(random: &mut Random, low: f64, high: f64) -> Node {
    let (up, down) = (rate(random, low, high), rate(random, low, high));
    Node { up, down, cpu: f64::INFINITY }
}

/// A job in a network of its own.
pub(crate) fn drawn(seed: u64, copies: bool) -> Lab {
    let mut random = Random::new(seed);
    let (servers, workers) = (2 + random.below(7) as usize, 1 + random.below(8) as usize);
    let replicas = if copies { Replicas::Next { ratio: 1.0 } } else { Replicas::None };
    let layout = by_hash(&model(&mut random), servers);
    let settings = PlacementSettings { replicas, ..PlacementSettings::default() };
    let ones = |count: usize| vec![1.0; count];
    let mut lab = Lab::new(&ones(workers), &ones(servers), layout, settings);
    lab.workers.values_mut().for_each(|node| *node = card(&mut random, 200.0, 800.0));
    redraw(&mut lab, &mut random);
    // A server beside a worker, on some hosts; something always goes over a card.
    if random.below(3) == 0 && workers > 1 {
        for rank in 0..workers.min(servers - 1) {
            if random.below(2) == 0 {
                let (server, worker) = (server_id(rank), worker_id(rank));
                lab.hosts.extend([server, worker].map(|id: NodeId| (id, rank as u32)));
                let node = lab.servers[&server];
                lab.workers.insert(worker, node);
            }
        }
    }
    (lab.noise, lab.delay, lab.moves_cost, lab.whole_at_first) = (0.05, 2, true, true);
    lab.layout.iter_mut().for_each(|piece| piece.divisible = false);
    lab.planner.set_layout(lab.layout.clone()).unwrap();
    lab.tell_members();
    lab
}

/// Other rates for all servers.
pub(crate) fn redraw(lab: &mut Lab, random: &mut Random) {
    for (id, node) in &mut lab.servers {
        *node = card(random, 40.0, 250.0);
        let mates = lab.hosts.iter().filter(|(_, host)| lab.hosts.get(id) == Some(*host));
        for (mate, _) in mates {
            if let Some(worker) = lab.workers.get_mut(mate) {
                *worker = *node;
            }
        }
    }
}

#[test]
fn sizes_of_vgg16() {
    assert_eq!((vgg16().len(), vgg16().iter().sum::<u64>()), (32, 138_357_544));
}
