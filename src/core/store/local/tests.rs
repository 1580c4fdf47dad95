//! What a worker keeps of a tensor, by itself.

use half::f16;
use pslite_optimizers::pickle::{Object, Value as Pickled};

use super::*;
use crate::wire::exchange::{ExchangeMode, OuterRule};

pub(super) fn spec(sections: u32, keep: bool, waits: bool) -> ExchangeSpec {
    let outer = OuterRule { momentum: 0, nesterov: false, rate: 1_000_000 };
    let mode = ExchangeMode::Nbsync as i32;
    let window = u32::from(sections == 1);
    ExchangeSpec { mode, steps: 1, keep, sections, window, outer, every: 0, scale: true, waits }
}

/// An optimizer as MXNet pickles it.
pub(super) fn optimizer(class: &str, own: &[(&str, Pickled)]) -> Optimizer {
    let empty = || Pickled::Dict(Vec::new());
    let mut attributes = vec![
        ("rescale_grad", Pickled::Float(1.0)),
        ("lr", Pickled::Float(0.5)),
        ("wd", Pickled::Float(0.0)),
        ("lr_mult", empty()),
        ("wd_mult", empty()),
        ("idx2name", empty()),
        ("_all_index_update_counts", empty()),
        ("begin_num_update", Pickled::Int(0)),
        ("num_update", Pickled::Int(0)),
    ];
    for (name, value) in own {
        attributes.retain(|(known, _)| known != name);
        attributes.push((name, value.clone()));
    }
    let attributes = attributes.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let class = format!("mxnet.optimizer.optimizer.{class}");
    Optimizer::from_value(&Pickled::Object(Box::new(Object { class, attributes }))).unwrap()
}

/// `value -= gradient / 2`, of one worker.
pub(super) fn sgd() -> Optimizer {
    optimizer("SGD", &[("momentum", Pickled::Float(0.0))])
}

pub(super) fn bytes<T: bytemuck::NoUninit>(values: &[T]) -> Vec<u8> {
    bytemuck::cast_slice(values).to_vec()
}

fn model(spec: ExchangeSpec) -> LocalModel {
    let mut model = LocalModel::new(&spec, 1, 1);
    model.use_optimizer(sgd()).unwrap();
    model.begin(3, Dtype::F32, &bytes(&[10.0_f32, 20.0])).unwrap();
    model
}

impl LocalModel {
    fn steps(&mut self, gradient: [f32; 2]) {
        self.step(3, Dtype::F32, &bytes(&gradient)).unwrap();
    }

    fn comes(&mut self, value: [f32; 2]) {
        self.arrived(3, &bytes(&value)).unwrap();
    }

    fn does(&mut self, swap: bool, send: bool) -> Option<Vec<f32>> {
        let delta = self.exchange(3, swap, send).unwrap();
        delta.map(|delta| {
            delta.chunks(4).map(|x| f32::from_ne_bytes(x.try_into().unwrap())).collect()
        })
    }

    fn now(&mut self) -> Vec<f32> {
        let (dtype, value) = self.value(3).unwrap();
        assert_eq!(dtype, Dtype::F32);
        value.chunks(4).map(|x| f32::from_ne_bytes(x.try_into().unwrap())).collect()
    }
}

#[test]
fn the_published_form_replaces_and_counts_the_first_stretch_once() {
    let mut model = model(spec(1, false, false));
    model.steps([-2.0, 2.0]);
    assert_eq!(model.does(false, true), Some(vec![1.0, -1.0]));
    model.steps([-4.0, 0.0]);
    assert_eq!(model.now(), [13.0, 19.0], "it trains on");
    model.comes([100.0, 200.0]);
    assert_eq!(model.now(), [13.0, 19.0], "until it swaps");
    assert_eq!(model.does(true, true), Some(vec![2.0, 0.0]));
    assert_eq!(model.now(), [100.0, 200.0]);
    model.steps([0.0, 2.0]);
    model.comes([50.0, 60.0]);
    assert_eq!(model.does(true, true), Some(vec![0.0, -1.0]));
    assert_eq!(model.now(), [50.0, 60.0]);
}

#[test]
fn the_corrected_form_keeps_what_it_sends() {
    let mut model = model(spec(1, true, false));
    model.steps([-2.0, 2.0]);
    assert_eq!(model.does(false, true), Some(vec![1.0, -1.0]));
    model.steps([-4.0, 0.0]);
    model.comes([100.0, 200.0]);
    assert_eq!(model.does(true, true), Some(vec![2.0, 0.0]));
    assert_eq!(model.now(), [102.0, 200.0]);
    model.comes([0.0, 0.0]);
    assert_eq!(model.does(true, true), Some(vec![0.0, 0.0]), "each step counts once");
    assert_eq!(model.now(), [0.0, 0.0]);
}

#[test]
fn with_sections_what_was_done_since_the_send_goes_with_the_next_delta() {
    let mut model = model(spec(4, true, false));
    model.steps([-2.0, 0.0]);
    model.steps([-2.0, 0.0]);
    assert_eq!(model.does(false, true), Some(vec![2.0, 0.0]));
    model.steps([0.0, -8.0]);
    model.comes([100.0, 200.0]);
    model.steps([-2.0, 0.0]);
    assert_eq!(model.does(true, false), None);
    assert_eq!(model.now(), [101.0, 204.0]);
    model.steps([-2.0, 0.0]);
    assert_eq!(model.does(false, true), Some(vec![2.0, 4.0]));
    model.comes([0.0, 0.0]);
    assert_eq!(model.does(true, true), Some(vec![0.0, 0.0]), "nothing is left");
    assert_eq!(model.now(), [0.0, 0.0]);
}

#[test]
fn who_waits_takes_the_global_value_as_it_is() {
    let mut model = model(spec(1, false, true));
    model.steps([-2.0, 2.0]);
    model.steps([-2.0, 2.0]);
    assert_eq!(model.does(false, true), Some(vec![2.0, -2.0]));
    model.comes([1.0, 2.0]);
    assert_eq!(model.does(true, false), None);
    assert_eq!(model.now(), [1.0, 2.0]);
    model.steps([-2.0, 0.0]);
    assert_eq!(model.does(false, true), Some(vec![1.0, 0.0]));
}

#[test]
fn what_is_not_finite_is_sent_to_nobody() {
    for (bad, form) in [(f32::NAN, (1, false)), (f32::INFINITY, (1, true)), (f32::NAN, (4, true))] {
        let mut model = model(spec(form.0, form.1, false));
        model.steps([1.0, bad]);
        let refused = model.exchange(3, false, true).unwrap_err().to_string();
        assert!(refused.contains("key 3") && refused.contains("not finite"), "{refused}");
        model.comes([1.0, 1.0]);
        if form.0 == 1 {
            assert!(model.exchange(3, true, true).is_err());
            assert!(model.now()[1].is_nan() || model.now()[1].is_infinite(), "it is as it was");
            assert!(model.exchange(3, true, false).is_ok(), "the value has not gone");
        }
    }
    let mut model = LocalModel::new(&spec(1, true, false), 1, 1);
    model.use_optimizer(sgd()).unwrap();
    model.begin(0, Dtype::F16, &bytes(&[f16::from_f32(60_000.0)])).unwrap();
    (0..3).for_each(|_| model.step(0, Dtype::F16, &bytes(&[f16::MIN])).unwrap());
    let refused = model.exchange(0, false, true).unwrap_err().to_string();
    assert!(refused.contains("beyond float16"), "{refused}");
}

/// Steps that are too small for float16 add up, and what a delta rounds off is not lost.
#[test]
fn float16_is_trained_and_added_up_in_float32() {
    let small = f16::from_f32(6e-8);
    for (sections, keep) in [(1, true), (4, true)] {
        let mut model = LocalModel::new(&spec(sections, keep, false), 1, 1);
        model.use_optimizer(sgd()).unwrap();
        model.begin(0, Dtype::F16, &bytes(&[f16::from_f32(0.001)])).unwrap();
        let start = model.value(0).unwrap();
        let (mut sent, mut swaps) = (0.0_f64, false);
        for _ in 0..64 {
            (0..3).for_each(|_| model.step(0, Dtype::F16, &bytes(&[-small])).unwrap());
            let delta = model.exchange(0, swaps, true).unwrap().unwrap();
            sent += f64::from(f16::from_ne_bytes(delta[..2].try_into().unwrap()));
            model.arrived(0, &start.1).unwrap();
            swaps = true;
        }
        let made = 64.0 * 3.0 * f64::from(small) / 2.0;
        assert!((sent - made).abs() <= 1.2e-7, "{sent} of {made}");
        assert_eq!(model.value(0).unwrap().0, Dtype::F16);
    }
}

#[test]
fn answers_on_their_way_keep_what_they_said() {
    let mut model = model(spec(1, false, false));
    let (_, before) = model.value(3).unwrap();
    model.steps([-2.0, 2.0]);
    assert_eq!(before, bytes(&[10.0_f32, 20.0]));
    assert_eq!(model.now(), [11.0, 19.0]);
}

#[test]
fn gradients_are_scaled_by_the_number_of_workers_and_only_if_that_is_asked() {
    for (scale, moved) in [(true, 4.0), (false, 1.0)] {
        let mut model = LocalModel::new(&ExchangeSpec { scale, ..spec(1, true, false) }, 4, 1);
        model.use_optimizer(sgd()).unwrap();
        model.begin(3, Dtype::F32, &bytes(&[0.0_f32])).unwrap();
        model.step(3, Dtype::F32, &bytes(&[-2.0_f32])).unwrap();
        assert_eq!(model.value(3).unwrap().1, bytes(&[moved as f32]));
    }
}

#[test]
fn a_new_optimizer_begins_without_state() {
    let mut model = model(spec(1, false, false));
    let momentum = || optimizer("SGD", &[("momentum", Pickled::Float(0.5))]);
    model.use_optimizer(momentum()).unwrap();
    model.steps([-2.0, 0.0]);
    model.steps([-2.0, 0.0]);
    assert_eq!(model.now()[0], 12.5, "1, then 1.5");
    let bytes = model.bytes();
    model.use_optimizer(momentum()).unwrap();
    assert_eq!(bytes - model.bytes(), 8);
    model.steps([-2.0, 0.0]);
    assert_eq!(model.now()[0], 13.5);
}

#[test]
fn momentum_is_kept_at_a_swap_and_the_previous_weight_follows_it() {
    let mut kept = model(spec(1, false, false));
    kept.use_optimizer(optimizer("SGD", &[("momentum", Pickled::Float(0.5))])).unwrap();
    kept.steps([-2.0, 0.0]);
    kept.does(false, true);
    kept.comes([0.0, 0.0]);
    kept.does(true, true);
    kept.steps([0.0, 0.0]);
    assert_eq!(kept.now()[0], 0.5);
    let dcasgd = || {
        let own = [
            ("momentum", Pickled::Float(0.0)),
            ("lamda", Pickled::Float(1.0)),
            ("weight_previous", Pickled::Dict(Vec::new())),
        ];
        optimizer("DCASGD", &own)
    };
    let mut follows = model(spec(1, false, false));
    follows.use_optimizer(dcasgd()).unwrap();
    follows.steps([-2.0, 0.0]);
    follows.does(false, true);
    follows.comes([100.0, 0.0]);
    follows.does(true, true);
    follows.steps([-2.0, 0.0]);
    assert_eq!(follows.now()[0], 101.0, "what others changed is no delay of its own");
}

#[test]
fn optimizers_that_keep_the_weights_are_refused_and_others_are_not() {
    let ftrl = [("lamda1", Pickled::Float(0.1)), ("beta", Pickled::Float(1.0))];
    let ftml = ["beta1", "beta2", "epsilon"].map(|name| (name, Pickled::Float(0.5)));
    let mut model = model(spec(1, false, false));
    for (class, own) in [("Ftrl", &ftrl[..]), ("FTML", &ftml[..])] {
        let refused = model.use_optimizer(optimizer(class, own)).unwrap_err().to_string();
        assert!(refused.starts_with(class) && refused.contains("another optimizer"), "{refused}");
    }
    model.steps([-2.0, 0.0]);
    assert_eq!(model.now()[0], 11.0, "the one before stays");
    assert!(WEIGHTS_IN_STATE.iter().all(|class| Optimizer::SUPPORTED.contains(class)));
}

#[test]
fn commands_are_obeyed_here_or_by_servers_or_refused() {
    let mut model = model(spec(1, false, false));
    for head in [Head::SyncMode, Head::MultiPrecision] {
        assert_eq!(model.command(head, b""), Ok(Obeyed::Here));
    }
    for head in [Head::Stop, Head::Profiler, Head::Agree, Head::Other(77)] {
        assert_eq!(model.command(head, b""), Ok(Obeyed::ByServers));
    }
    assert_eq!(model.command(Head::Compression, b"0"), Ok(Obeyed::Here));
    let refused = model.command(Head::Compression, b"1,0.5").unwrap_err().to_string();
    assert!(refused.contains("compression_params"), "{refused}");
    assert!(model.command(Head::Compression, b"x").is_err());
    assert!(matches!(model.command(Head::Controller, b"x"), Err(StoreError::Optimizer(_))));
}

#[test]
fn what_does_not_fit_is_refused_and_changes_nothing() {
    let mut model = model(spec(1, false, false));
    assert!(!model.has(4) && model.value(4).is_err() && model.arrived(4, &[]).is_err());
    assert!(model.step(4, Dtype::F32, &[]).is_err() && model.exchange(4, true, true).is_err());
    let refused = model.step(3, Dtype::F32, &[0; 4]).unwrap_err().to_string();
    assert!(refused.contains("key 3 has 8 bytes of float32, the gradient 4"), "{refused}");
    assert!(model.step(3, Dtype::F64, &[0; 16]).is_err());
    assert!(model.arrived(3, &[0; 4]).is_err());
    assert!(model.exchange(3, true, false).is_err(), "nothing has come");
    assert!(model.begin(5, Dtype::F32, &[0; 3]).is_err());
    model.begin(3, Dtype::F32, &[0; 64]).unwrap();
    assert_eq!((model.now(), model.len(), model.is_empty()), (vec![10.0, 20.0], 1, false));
    model.begin(6, Dtype::I32, &[0; 4]).unwrap();
    assert!(model.step(6, Dtype::I32, &[0; 4]).is_err(), "no optimizer can");
    let mut without = LocalModel::new(&spec(1, false, false), 1, 1);
    without.begin(3, Dtype::F32, &[0; 8]).unwrap();
    let refused = without.step(3, Dtype::F32, &[0; 8]).unwrap_err().to_string();
    assert!(refused.contains("update_on_kvstore=True"), "{refused}");
}
