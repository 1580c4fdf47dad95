//! Rounds in which tensors wait: a worker pushes them in their order over one connection to each
//! server, and pulls one when all workers have pushed all of it. Connections share cards fairly
//! (`fluid`). What copies and moves take goes beside it.
//!
//! Time goes in steps of a fraction of the round, so what becomes ready within one is pulled in the
//! next.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::fluid::{Flow, Lab, Stretch};
use crate::placement::links::{Estimate, Receiver, Sample, Sender, Sent};
use crate::wire::NodeId;

/// Steps of the shortest possible round.
const STEPS: f64 = 250.0;

/// Bytes of a message, or part of one.
const MESSAGE: u64 = 16 << 10;

/// Two nodes, and what goes from one to the other: tensors, by number, and their bytes.
struct Line {
    flow: Flow,
    queue: VecDeque<(usize, f64)>,
    /// It pushes: what arrived lets tensors be pulled.
    pushes: bool,
}

/// What still has to come of a tensor before workers may pull it, and what they pull then.
struct Tensor {
    missing: f64,
    parts: BTreeMap<NodeId, f64>,
}

fn tensors(lab: &Lab) -> Vec<Tensor> {
    let mut order = BTreeMap::<u64, BTreeMap<NodeId, f64>>::new();
    for piece in lab.layout.iter().filter(|piece| piece.bytes > 0) {
        *order.entry(piece.position).or_default().entry(piece.owner).or_default() +=
            piece.bytes as f64;
    }
    let tensor = |parts: BTreeMap<NodeId, f64>| Tensor { missing: 0.0, parts };
    order.into_values().map(tensor).collect()
}

/// All connections: pushes are queued, pulls are not.
fn lines(lab: &Lab, tensors: &mut [Tensor]) -> Vec<Line> {
    let mut lines = Vec::new();
    for server in lab.servers.keys() {
        for worker in lab.workers.keys() {
            for (from, to) in [(*worker, *server), (*server, *worker)] {
                let (pushes, mut queue) = (from == *worker, VecDeque::new());
                for (number, tensor) in tensors.iter_mut().enumerate().filter(|_| pushes) {
                    let part = tensor.parts.get(server).copied().unwrap_or(0.0);
                    if part > 0.0 && lab.card(from) != lab.card(to) {
                        tensor.missing += part;
                        queue.push_back((number, part));
                    }
                }
                lines.push(Line { flow: Flow { from, to, left: 0.0, done: 0.0 }, queue, pushes });
            }
        }
    }
    for flow in lab.flows_beside() {
        lines.push(Line { queue: VecDeque::from([(0, flow.left)]), flow, pushes: false });
    }
    lines.iter_mut().for_each(Line::count);
    lines
}

impl Line {
    fn count(&mut self) {
        self.flow.left = self.queue.iter().map(|(_, left)| left).sum();
    }

    /// So many bytes arrive; gives those of each tensor.
    fn carry(&mut self, mut amount: f64) -> Vec<(usize, f64)> {
        let mut carried = Vec::new();
        while let Some((number, left)) = self.queue.front_mut() {
            // What is left by rounding is nothing.
            let part = if *left <= amount + 1e-3 { *left } else { amount };
            carried.push((*number, part));
            *left -= part;
            amount -= part;
            if *left > 0.0 {
                break;
            }
            self.queue.pop_front();
        }
        self.count();
        carried
    }
}

/// What becomes ready is queued at all servers that hold something of it.
fn pull(lab: &Lab, tensor: &Tensor, number: usize, lines: &mut [Line]) {
    for line in lines.iter_mut().filter(|line| !line.pushes) {
        let pulls = lab.workers.contains_key(&line.flow.to);
        if let Some(part) = tensor.parts.get(&line.flow.from)
            && pulls
            && lab.card(line.flow.from) != lab.card(line.flow.to)
        {
            line.queue.push_back((number, *part));
            line.count();
        }
    }
}

/// Plays a round: when each connection was done, and what it carried meanwhile.
pub(super) fn play(lab: &Lab) -> (Vec<Flow>, Vec<Stretch>, f64) {
    let mut tensors = tensors(lab);
    let mut lines = lines(lab, &mut tensors);
    let step = lab.best() / STEPS;
    let (mut now, mut stretches) = (0.0, BTreeMap::<(NodeId, NodeId), Vec<Stretch>>::new());
    let (mut active, mut rates) = (Vec::new(), Vec::new());
    loop {
        let is_active: Vec<bool> = lines.iter().map(|line| line.flow.left > 0.0).collect();
        if !is_active.contains(&true) {
            break;
        }
        if active != is_active {
            let flows: Vec<Flow> = lines.iter().map(|line| line.flow.clone()).collect();
            (active, rates) = (is_active, lab.fair_rates(&flows));
        }
        let mut ready = Vec::new();
        let mut spent = 0.0_f64;
        for (line, rate) in lines.iter_mut().zip(&rates).filter(|(line, _)| line.flow.left > 0.0) {
            let time = f64::min(step, line.flow.left / rate);
            spent = spent.max(time);
            let (from, to, end) = (line.flow.from, line.flow.to, now + time);
            let own = stretches.entry((from, to)).or_default();
            let carried = line.carry(rate * time);
            let (bytes, ends) = (rate * time, line.queue.is_empty());
            note(own, Stretch { from, to, start: now, end, bytes, ends });
            line.flow.done = end;
            for (number, part) in carried.into_iter().filter(|_| line.pushes) {
                tensors[number].missing -= part;
                ready.push(number);
            }
        }
        now += spent;
        ready.sort_unstable();
        ready.dedup();
        for number in ready {
            if tensors[number].missing <= 1.0 {
                pull(lab, &tensors[number], number, &mut lines);
                tensors[number].missing = f64::INFINITY;
            }
        }
    }
    (
        lines.into_iter().map(|line| line.flow).collect(),
        stretches.into_values().flatten().collect(),
        now,
    )
}

/// What follows at the same rate is one stretch.
fn note(own: &mut Vec<Stretch>, next: Stretch) {
    let rate = |stretch: &Stretch| stretch.bytes / (stretch.end - stretch.start);
    if let Some(last) = own.last_mut()
        && (last.end == next.start && !last.ends)
        && (rate(last) / rate(&next) - 1.0).abs() < 1e-6
    {
        last.end = next.end;
        last.bytes += next.bytes;
        last.ends = next.ends;
        return;
    }
    own.push(next);
}

/// The sender has nothing more after the last one of these.
pub(super) fn last_messages(all: &Sample) -> Vec<Sample> {
    if all.bytes <= MESSAGE {
        return vec![Sample { backlogged: false, ..*all }];
    }
    let fraction = MESSAGE as f64 / all.bytes as f64;
    let first = all.last.saturating_sub(all.last.saturating_sub(all.first).mul_f64(fraction));
    let before = Sample { bytes: all.bytes - MESSAGE, last: first, ..*all };
    vec![before, Sample { bytes: MESSAGE, first, backlogged: false, ..*all }]
}

/// What nodes see of their own sending.
#[derive(Default)]
pub(super) struct Outflows {
    senders: BTreeMap<NodeId, Sender>,
    sent: BTreeMap<NodeId, BTreeMap<NodeId, Sent>>,
}

impl Outflows {
    /// So many bytes went in so many seconds of a stretch.
    pub(super) fn add(&mut self, stretch: &Stretch, seconds: f64, bytes: u64) {
        let peers = self.sent.entry(stretch.from).or_default();
        let sent = peers.entry(stretch.to).or_default();
        sent.bytes += bytes;
        sent.held += Duration::from_secs_f64(seconds);
    }

    /// What a node can send, if it knows that.
    pub(super) fn up(
        &mut self,
        id: NodeId,
        now: Duration,
        down: Option<f64>,
        receiver: &mut Receiver,
    ) -> Option<Estimate> {
        let sender = self.senders.entry(id).or_insert_with(|| Sender::new(id, Duration::ZERO));
        if sender.wants_look(now)
            && sender.sent(now, self.sent.get(&id).cloned().unwrap_or_default(), down)
        {
            receiver.sends();
        }
        sender.up(down)
    }

    /// The most that a node sent in a second since the last call.
    pub(super) fn take_carried(&mut self, id: NodeId) -> f64 {
        self.senders.get_mut(&id).map_or(0.0, Sender::take_carried)
    }
}
